//! The floor of tiers: where a write goes, what data moves to another tier, and when.
//!
//! * `placement`: PM or page cache, as `terrace-policy` decides
//! * `schedule`: when data moves; a thread per shard, and the pulse that looks at the traffic
//! * `select`: which file's blocks move
//! * `relocate`: copy, validate, publish
//! * `cold_logs`: logs of cold inodes move to disks
//! * `pins`: data that belongs to one tier whatever the policy says
//! * `drain`: everything on one disk moves elsewhere
//! * `room`: waiting for room that is on its way back
//!
//! It uses `pageio`, `inode` and what lies below. The floors below tell it of reads, writes and
//! filling PM through `inode::activity`; the floor above asks [`Tiering`] where a write goes.

pub(crate) mod cold_logs;
pub(crate) mod drain;
pub(crate) mod pins;
pub(crate) mod placement;
pub(crate) mod relocate;
pub(crate) mod room;
pub(crate) mod schedule;
pub(crate) mod select;

use terrace_store::sync::{Arc, Mutex};

use self::drain::Removals;
use self::relocate::Buffers;
use self::room::Relocations;
use self::schedule::Schedule;
use crate::base::counters::Counters;
use crate::base::options::OpenOptions;
use crate::base::tuning::Tuning;
use crate::inode::activity::Activity;
use crate::inode::cache::PageCache;
use crate::inode::commits::Commits;
use crate::inode::device_table::DeviceTable;
use crate::inode::health::Health;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::pageio::{MakeRoom, PageIo};

/// See the module.
#[derive(Debug)]
pub(crate) struct Tiering {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub devices: Arc<DeviceTable>,
    pub cache: Arc<PageCache>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub inodes: Arc<Inodes>,
    pub pages: Arc<PageIo>,
    pub counters: Arc<Counters>,
    pub tuning: Arc<Tuning>,
    pub options: Arc<OpenOptions>,
    pub schedule: Schedule,
    pub relocations: Relocations,
    pub buffers: Buffers,
    pub removals: Removals,
    /// By shard; held while logs are on their way to a disk.
    pub logs_under_way: Vec<Mutex<()>>,
}

impl MakeRoom for Tiering {
    fn relieve_pm_if_low(&self) {
        Tiering::relieve_pm_if_low(self);
    }
}
