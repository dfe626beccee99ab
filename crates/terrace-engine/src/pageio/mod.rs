//! The floor between page cache and devices: fetching what is read, writing back what is dirty.
//!
//! [`PageIo`] reads blocks from the cache, PM or a disk, with verification (`fetch`; `later`, where
//! nobody waits for the disk), and takes dirty pages to disks in long runs (`writeback` over
//! `runs`; `together`, of several files with one flush; `worker`, when they are due). A page is
//! committed to its file's log only when the disk has made it durable and it is still the newest
//! version of its block.
//!
//! It uses `inode` and what lies below. Where a dirty page goes beyond "a disk that has room" it
//! does not decide. It asks the floor above for one thing, room in PM, through [`MakeRoom`].

pub(crate) mod fetch;
pub(crate) mod later;
pub(crate) mod runs;
mod together;
mod worker;
pub(crate) mod writeback;

use terrace_store::sync::{Arc, Mutex, Weak};

use self::fetch::CrcCache;
use self::later::LaterReads;
use crate::base::counters::Counters;
use crate::base::options::OpenOptions;
use crate::base::tuning::Tuning;
use crate::inode::activity::Activity;
use crate::inode::cache::PageCache;
use crate::inode::commits::Commits;
use crate::inode::dirty::DirtyFiles;
use crate::inode::health::Health;
use crate::inode::store::Store;
use crate::inode::table::Inodes;

/// Makes room in PM for those who are about to need some: what the floor above does for this one.
pub(crate) trait MakeRoom: std::fmt::Debug + Send + Sync {
    /// Called without any lock.
    fn relieve_pm_if_low(&self);

    /// Makes room at once, even if that was in vain lately. Called without any lock.
    fn relieve_pm(&self);
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PageIo {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub cache: Arc<PageCache>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub dirty: Arc<DirtyFiles>,
    pub inodes: Arc<Inodes>,
    pub counters: Arc<Counters>,
    pub tuning: Arc<Tuning>,
    pub options: Arc<OpenOptions>,
    pub crcs: CrcCache,
    pub later: LaterReads,
    /// Who makes room in PM.
    pub room: Mutex<Option<Weak<dyn MakeRoom>>>,
}

impl PageIo {
    /// Has room made in PM, if it has next to none. Called without any lock.
    fn relieve_pm_if_low(&self) {
        if self.store.pm_is_low() {
            let room = self.room.lock().as_ref().and_then(Weak::upgrade);
            room.iter().for_each(|room| room.relieve_pm_if_low());
        }
    }

    /// Has room made in PM although that may have been in vain lately; whether there is any to be
    /// made. Called without any lock.
    fn make_room_in_pm(&self) -> bool {
        let room = self.room.lock().as_ref().and_then(Weak::upgrade);
        let is_low = self.store.pm_is_low();
        room.iter().filter(|_| is_low).for_each(|room| room.relieve_pm());
        is_low && room.is_some()
    }
}
