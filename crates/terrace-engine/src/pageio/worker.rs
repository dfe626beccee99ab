//! The worker of a shard, in the background: it writes back what is due, and reclaims what was
//! removed.

use std::time::{Duration, Instant};

use terrace_policy::{DirtyState, Due, writeback_due};
use terrace_store::sync::atomic::Ordering;

use crate::inode::dirty::DirtyFile;
use crate::pageio::PageIo;
use crate::pageio::together::Waiting;
use crate::pageio::writeback::Overtaken;

impl PageIo {
    /// The worker of a shard: writes back what is due, reclaims what was removed. Sleeps while
    /// there is nothing.
    pub fn work(&self, shard: usize) {
        let tick = Duration::from_secs(1);
        let this = &self.dirty.shards[shard];
        let mut failing = false;
        // After a failure nothing is tried again before this, whoever wakes the worker.
        let mut pause_until: Option<Instant> = None;
        while !self.health.stopping.load(Ordering::Acquire) {
            {
                let mut work = this.work.lock();
                // The thread that stops the workers sets the flag before it takes the lock and
                // wakes them after it: no worker sleeps on.
                if self.health.stopping.load(Ordering::Acquire) {
                    break;
                }
                if !*work {
                    this.wake.wait(&mut work);
                }
                // Work that is not due, removed files among it, waits until there is more of it, or
                // a moment has passed.
                let may_wait = || {
                    pause_until.is_some()
                        || self.health.is_read_only()
                        || self.due_files(shard).is_empty()
                };
                if *work && !self.health.stopping.load(Ordering::Acquire) && may_wait() {
                    this.wake.wait_for(&mut work, tick);
                }
            }
            let pausing = pause_until.is_some_and(|until| Instant::now() < until);
            if self.health.stopping.load(Ordering::Acquire) || self.health.is_read_only() || pausing
            {
                continue;
            }
            pause_until = None;
            for group in self.flush_groups(self.due_files(shard)) {
                let together = self.inodes.mutate(|| self.write_together(&group));
                if together.as_ref().is_ok_and(|left| left.len() < group.len()) {
                    note_works(&mut failing);
                }
                for file in together.unwrap_or(group) {
                    if !self.write_back_due(&file, &mut failing) {
                        pause_until = Some(Instant::now() + tick);
                    }
                }
            }
            if let Err(error) = self.inodes.mutate(|| self.inodes.reclaim(shard)) {
                tracing::warn!("reclaiming removed inodes: {error}");
            }
            let mut work = this.work.lock();
            *work = !this.dirty.lock().is_empty() || self.inodes.has_orphans(shard);
        }
    }

    /// Writes back a file that is due; whether that worked. A line is logged when it fails for the
    /// first time, and when it works again, however many files and attempts lie between them.
    fn write_back_due(&self, file: &Waiting, failing: &mut bool) -> bool {
        let Waiting { inode, overtaken_are } = file;
        let flushed = self.inodes.mutate(|| self.write_back(inode, *overtaken_are));
        let Err(error) = flushed else {
            note_works(failing);
            return true;
        };
        if !std::mem::replace(failing, true) && !self.health.is_read_only() {
            tracing::warn!(
                "writeback of inode {}: {error}: dirty pages wait in the page cache and are tried \
                 again",
                inode.ino.0
            );
        }
        if let Some(file) = self.dirty.shards[inode.shard].dirty.lock().get_mut(&inode.ino.0) {
            // Try again when it is due again, not at once.
            (file.since, file.urgent) = (Instant::now(), false);
        }
        false
    }

    /// The files of a shard that are to be written back now, those first that have waited longest.
    fn due_files(&self, shard: usize) -> Vec<Waiting> {
        let age_limit = Duration::from_secs(self.options.writeback_seconds.into());
        let (dirty, budget) = (self.cache.dirty_pages(), self.cache.budget_pages());
        let now = Instant::now();
        let due = |file: &DirtyFile| {
            let pages = file.inode.pages.dirty_pages();
            let age = now.saturating_duration_since(file.since);
            let state = DirtyState { age, urgent: file.urgent, pages };
            let overtaken_are = match writeback_due(state, age_limit, dirty, budget)? {
                Due::Room => Overtaken::Left,
                Due::Time => Overtaken::Written,
            };
            Some((file.since, Waiting { inode: file.inode.clone(), overtaken_are }))
        };
        let mut files: Vec<_> =
            self.dirty.shards[shard].dirty.lock().values().filter_map(due).collect();
        files.sort_by_key(|&(since, _)| since);
        files.into_iter().map(|(_, file)| file).collect()
    }
}

/// Something has been written back.
fn note_works(failing: &mut bool) {
    if std::mem::take(failing) {
        tracing::warn!("writeback works again");
    }
}
