//! Files with dirty pages, and the bells of those who write them back.

use std::time::{Duration, Instant};

use terrace_policy::{DirtyState, writeback_due};
use terrace_store::planted::{Bug, planted};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, Condvar, HashMap, Mutex};

use crate::inode::cache::PageCache;
use crate::inode::resident::Inode;

/// A file with dirty pages.
#[derive(Debug, Clone)]
pub(crate) struct DirtyFile {
    pub inode: Arc<Inode>,
    pub since: Instant,
    /// Write back without waiting for the pages to age.
    pub urgent: bool,
}

/// Those of a shard.
#[derive(Debug, Default)]
pub(crate) struct DirtyShard {
    pub dirty: Mutex<HashMap<u64, DirtyFile>>,
    /// Wakes the shard's worker; guarded flag: there is something to do.
    pub work: Mutex<bool>,
    pub wake: Condvar,
}

impl DirtyShard {
    /// Tells the worker that there is something to do.
    pub fn notify(&self) {
        if planted(Bug::WakeWithoutFlag) {
            self.wake.notify_one();
            return;
        }
        *self.work.lock() = true;
        self.wake.notify_one();
    }

    /// Tells the worker that there is something to do at its next look: a worker that looks every
    /// second is not woken.
    pub fn notify_lazily(&self) {
        let mut work = self.work.lock();
        if !*work {
            *work = true;
            self.wake.notify_one();
        }
    }

    /// Wakes the worker, to end.
    pub fn stop(&self) {
        *self.work.lock() = true;
        self.wake.notify_all();
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct DirtyFiles {
    cache: Arc<PageCache>,
    pub shards: Vec<DirtyShard>,
}

impl DirtyFiles {
    /// No file is dirty.
    pub fn new(cache: Arc<PageCache>, shards: usize) -> Self {
        Self { cache, shards: (0..shards).map(|_| DirtyShard::default()).collect() }
    }

    /// A file is gone, with its pages.
    pub fn forget(&self, inode: &Inode) {
        self.shards[inode.shard].dirty.lock().remove(&inode.ino.0);
    }
}

impl DirtyFiles {
    /// The file has dirty pages: a worker writes them back in time.
    pub fn note_dirty(&self, inode: &Arc<Inode>) {
        let urgent = inode.truncated.load(Ordering::Relaxed);
        let shard = &self.shards[inode.shard];
        let (first, urgent) = {
            let mut dirty = shard.dirty.lock();
            let first = dirty.is_empty();
            let file = dirty.entry(inode.ino.0).or_insert_with(|| DirtyFile {
                inode: inode.clone(),
                since: Instant::now(),
                urgent,
            });
            file.urgent |= urgent;
            (first, file.urgent)
        };
        // A worker that is woken looks at all dirty files. So it is woken for one that is due by
        // itself; it finds by its own clock those that have grown old.
        let state = DirtyState { age: Duration::ZERO, urgent, pages: inode.pages.dirty_pages() };
        let (dirty, budget) = (self.cache.dirty_pages(), self.cache.budget_pages());
        if first || writeback_due(state, Duration::MAX, dirty, budget).is_some() {
            shard.notify();
        }
    }

    /// Since when the file has dirty pages that nobody has written back.
    pub fn since(&self, inode: &Inode) -> Option<Instant> {
        self.shards[inode.shard].dirty.lock().get(&inode.ino.0).map(|file| file.since)
    }

    /// The file leaves the list of dirty ones, or gets older there anew.
    pub fn note_flushed(&self, inode: &Arc<Inode>) {
        let was_dirty = inode.pages.has_dirty();
        let mut dirty = self.shards[inode.shard].dirty.lock();
        let is_dirty =
            if planted(Bug::DirtyFlagRead) { was_dirty } else { inode.pages.has_dirty() };
        // A removed file's number may be another's by now.
        let Some(file) = dirty.get_mut(&inode.ino.0).filter(|file| Arc::ptr_eq(&file.inode, inode))
        else {
            return;
        };
        if is_dirty {
            (file.since, file.urgent) = (Instant::now(), false);
        } else {
            dirty.remove(&inode.ino.0);
        }
    }
}
