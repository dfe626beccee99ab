//! The Terrace file system: inodes, namespace, data, page cache, recovery, check.
//!
//! [`Volume`] is the whole interface: inode-based, synchronous, `&self`. It knows nothing of FUSE.
//! Under it lie floors, a folder each; a module uses its own floor and those below, and
//! `terrace-store` under them all. From top to bottom:
//!
//! | floor | what lives there |
//! |---|---|
//! | `api` | [`Volume`], a facade |
//! | `tools` | check, scrub, dump, save, status, statistics |
//! | `mount` | opening and recovery, closing, format, the device table, threads |
//! | `ops` | what programs ask for: names, data, attributes |
//! | `tiering` | where data lies: placement, selection, relocation, schedule, cold logs |
//! | `pageio` | between page cache and devices: fetch, writeback |
//! | `inode` | inodes in memory, their table, orphans, the page cache |
//! | `base` | words that every floor may use: types, options, counters |

mod api;
mod base;
mod inode;
mod mount;
mod ops;
mod pageio;
mod tiering;
mod tools;

#[cfg(all(test, not(shuttle)))]
mod lengths;
#[cfg(all(test, shuttle))]
mod schedules;

pub use api::Volume;
pub use base::counters::{Counter, CounterSnapshot, Unit};
pub use base::heritage::{Effect, Heritage};
pub use base::options::{CACHE_BYTES_MIN, OpenOptions, Progress};
pub use base::patience::let_waits_end;
pub use base::pin::{PIN_XATTR, parse_pin, pin_value};
pub use base::recorder::{Recorded, Recording, serve};
pub use base::speeds::SpeedStats;
pub use base::types::*;
pub use base::waits::{WaitCause, WaitStats};
pub use base::wear::{BudgetStatus, DeviceWear, NamedDevice, VolumeWear, WearBudget};
pub use base::why::{Dirty, FileWhy, Kind, Leaning, Leaves, Share};
pub use base::words::{counted, with_advice};
pub use inode::cache::{CACHE_LAYOUT, discard_page_cache};
pub use inode::device_table::OpenDisk;
pub use inode::resident::loans::Lent;
pub use mount::format::{
    DeviceLabel, FormatOptions, VolumeLabel, format, read_disk_label, read_pm_label,
};
pub use mount::open::waiting_pages;
pub use ops::data::write::ATOMIC_WRITE_BYTES_MAX;
pub use ops::lending::{LoanStats, Renewed};
pub use terrace_store::delegation::message::LAYOUT as LOANS_LAYOUT;
#[cfg(feature = "planted")]
pub use terrace_store::planted::{Bug, plant, planted};
pub use terrace_store::{FsError, FsResult};
pub use tools::check::{CheckOptions, CheckProblem, CheckReport, check};
pub use tools::dump::{dump_inode, dump_superblock};
pub use tools::ranking::{FileRanking, RankedFile};
pub use tools::save::{restore, save, saved_pm_len, verify_image};
pub use tools::stats::{CacheStats, Stats, TierStats};
pub use tools::status::offline_status;
