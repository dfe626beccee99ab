//! The Terrace file system: inodes, namespace, data, page cache, recovery, check.
//!
//! [`Volume`] is the whole interface: inode-based, synchronous, `&self`. It knows nothing of FUSE.
//!
//! The way of a write: `data` decides where it goes; `file` stages it and commits through `log`;
//! `index` follows. Data for disks waits in `cache` until `writeback` takes it there. Names are
//! `namespace` over `dir`; several logs change together through `journal`. `scan` rebuilds free
//! space after a crash, `checkpoint` keeps it over a clean unmount. Lock order: see `core`.

mod acl;

mod cache;
mod check;

mod core;
mod counters;
mod data;
mod devices;
mod dir;
mod drain;
mod dump;

mod fallocate;
mod fetch;

mod format;

mod inode;

#[cfg(all(test, not(shuttle)))]
mod lengths;

mod logs;

mod migrate;
mod mover;
mod moves;
mod namespace;
mod offline;
mod paths;
mod pin;
mod placement;

mod ranking;
mod recorder;
mod runs;
mod save;
mod scan;
#[cfg(all(test, shuttle))]
mod schedules;
mod scrub;

mod stats;
mod status;

mod threads;
mod tuning;
mod types;
mod victims;
mod volume;
mod words;
mod writeback;
mod xattr;

pub use cache::discard_page_cache;
pub use check::{CheckOptions, CheckProblem, CheckReport, check};
pub use counters::{Counter, CounterSnapshot, Unit};
pub use data::ATOMIC_WRITE_BYTES_MAX;
pub use devices::OpenDisk;
pub use drain::{RemovalState, RemovalStatus};
pub use dump::{dump_inode, dump_superblock};
pub use format::{DeviceLabel, FormatOptions, VolumeLabel, format, read_disk_label, read_pm_label};
pub use migrate::FileMoved;
pub use pin::{PIN_XATTR, parse_pin, pin_value};
pub use ranking::{FileRanking, RankedFile};
pub use recorder::{Recorded, Recording};
pub use save::{restore, save, saved_pm_len, verify_image};
pub use stats::{CacheStats, Stats, TierStats};
pub use status::offline_status;
#[cfg(feature = "planted")]
pub use terrace_store::planted::{Bug, plant, planted};
pub use terrace_store::{FsError, FsResult};
pub use types::*;
pub use volume::{CACHE_BYTES_MIN, OpenOptions, Progress, Volume, waiting_pages};
pub use words::counted;
