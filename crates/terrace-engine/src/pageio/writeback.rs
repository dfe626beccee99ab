//! Writeback: dirty pages go to disk in long runs; only when those are durable, the log says so.
//!
//! Nothing is locked while a disk writes. Pages cannot change meanwhile (the cache publishes a new
//! version beside the old one); which of them still are the newest version of their block is found
//! out under the inode's lock, and only those are committed.
//!
//! A write that fails costs nothing: the pages stay dirty, in memory that outlives the daemon, and
//! are tried again when they are due. A flush that fails is another matter: what became of writes
//! before it, whoever made them, nobody knows any more, so the volume turns read-only.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use terrace_policy::{DirtyState, Due, writeback_due};
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::file::BLOCK;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::{Purpose, Tiers};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, thread};

use crate::base::counters::{Counter, Passage};
use crate::base::patience;
use crate::base::waits::WaitCause;
use crate::inode::cache::{BlankPage, DirtyPage};
use crate::inode::dirty::DirtyFile;
use crate::inode::resident::{Inner, Inode};
use crate::pageio::PageIo;
use crate::pageio::runs::{Destination, Placed};

/// Pages that one commit takes to disk at most: 64 MiB.
pub(crate) const COMMIT_PAGES_MAX: usize = 16384;

/// How often a writer looks again for pages that others hold, before it gives up.
const IDLE_TRIES_MAX: u32 = 100_000;

/// How blocks are treated that were written again while their older version was on its way to disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overtaken {
    /// They are written, too: an fsync may wait for the older version.
    Written,
    /// They stay dirty.
    Left,
}

impl PageIo {
    /// Blank pages for a write, made room for by writing back if need be. Called without locks.
    pub fn take_pages(&self, shard: usize, n: usize) -> FsResult<Vec<BlankPage>> {
        let (mut idle_tries, mut waiting) = (0, None);
        while idle_tries < IDLE_TRIES_MAX {
            if let Some(pages) = self.cache.take(shard, n) {
                return Ok(pages);
            }
            waiting.get_or_insert_with(|| {
                self.counters.add(Counter::Stalls, 1);
                self.counters.waits.begin(WaitCause::Cache)
            });
            patience::go_on()?;
            // With nothing dirty, others hold the pages for a moment.
            if !self.flush_some()? {
                idle_tries += 1;
                thread::yield_now();
            }
        }
        Err(FsError::with_message(
            libc::ENOMEM,
            "the page cache is too small for this write: mount with a larger cache=",
        ))
    }

    /// Writes a file's dirty pages to disk and commits them, durably: all that was dirty when it
    /// was called.
    ///
    /// # Errors
    /// `ENOSPC`, or what the disk said; a disk that cannot flush is fatal. `EINTR`: whoever called
    /// it waits no longer, and some of it may be on disk.
    pub fn flush_file(&self, inode: &Arc<Inode>) -> FsResult<()> {
        match self.write_back(inode, Overtaken::Written) {
            // Disks were promised room for the data; its log found none in PM.
            Err(error) if error.is_no_room() && self.make_room_in_pm() => {
                self.write_back(inode, Overtaken::Written)
            }
            written => written,
        }
    }

    fn write_back(&self, inode: &Arc<Inode>, overtaken_are: Overtaken) -> FsResult<()> {
        self.relieve_pm_if_low();
        if self.health.is_read_only() {
            // That has failed in a way after which nothing may be written.
            return fail(libc::EIO);
        }
        let _flushing = patience::lock(&inode.flush)?;
        let mut from = 0;
        let mut overtaken = BTreeSet::new();
        loop {
            // The lock, shared, keeps out half-published writes.
            let pages = {
                let _inner = inode.inner.read();
                self.cache.dirty(&inode.pages, from, COMMIT_PAGES_MAX)
            };
            let Some(last) = pages.last() else {
                break;
            };
            from = last.block + 1;
            patience::go_on()?;
            let placed = self.write_durably(inode, &pages)?;
            overtaken.extend(self.commit_runs(inode, &mut inode.inner.write(), &placed)?);
            if pages.len() < COMMIT_PAGES_MAX {
                break;
            }
        }
        if !overtaken.is_empty() && overtaken_are == Overtaken::Written {
            self.flush_overtaken(inode, &overtaken)?;
        }
        inode.truncated.store(false, Ordering::Relaxed);
        self.dirty.note_flushed(inode);
        Ok(())
    }

    /// Writes pages to the fastest disks that have room (from the tier on that the file is pinned
    /// to), durably; returns where they went.
    fn write_durably<'a>(
        &self,
        inode: &Inode,
        pages: &'a [DirtyPage],
    ) -> FsResult<Vec<Placed<'a, DirtyPage>>> {
        let write = |first| {
            let tiers = Tiers::from(first);
            self.write_pages(pages, Destination { shard: inode.shard, tiers, avoided: &[] })
        };
        let placed = match inode.tiers.pin.get().filter(|&tier| tier > 1).map(write) {
            // Room on any disk was promised.
            None => write(1)?,
            Some(Ok(placed)) => placed,
            Some(Err(error)) if patience::is_lost(&error) => return Err(error),
            // Its disks are full, or fail.
            Some(Err(error)) => {
                write(1).map_err(|other| if other.is_no_room() { error } else { other })?
            }
        };
        self.flush_placed(&placed)
            .inspect_err(|_| placed.iter().for_each(|run| self.free_placed(run)))?;
        Ok(placed)
    }

    /// Flushes blocks that were written again while their older version was on its way to disk.
    /// That version was dropped, and somebody may wait for what it held; so this time writers wait.
    fn flush_overtaken(&self, inode: &Arc<Inode>, blocks: &BTreeSet<u64>) -> FsResult<()> {
        let mut inner = inode.inner.write();
        let mut pages = Vec::new();
        for &block in blocks {
            pages.extend(
                self.cache.dirty(&inode.pages, block, 1).into_iter().filter(|p| p.block == block),
            );
        }
        for pages in pages.chunks(COMMIT_PAGES_MAX) {
            let placed = self.write_durably(inode, pages)?;
            let overtaken = self.commit_runs(inode, &mut inner, &placed)?;
            debug_assert!(overtaken.is_empty(), "the lock keeps writers out");
        }
        Ok(())
    }

    /// Commits what is still the newest version of its block, and frees the rest. Returns the
    /// blocks that have a newer version by now.
    fn commit_runs(
        &self,
        inode: &Inode,
        inner: &mut Inner,
        placed: &[Placed<'_, DirtyPage>],
    ) -> FsResult<Vec<u64>> {
        let current = |run: &Placed<'_, DirtyPage>| match inode.deleted.load(Ordering::Acquire) {
            true => vec![false; run.pages.len()],
            false if planted(Bug::CommitOvertaken) => vec![true; run.pages.len()],
            false => self.cache.current(&inode.pages, run.pages),
        };
        let (mut survivors, overtaken) =
            self.sift(placed.iter().map(|run| (run.run(), current(run))));
        if survivors.is_empty() {
            return Ok(overtaken);
        }
        let source = self.store.space.source(inode.shard, Purpose::Writeback);
        let (log, file) = inner.file_mut()?;
        for run in &mut survivors {
            run.history = file.cached.history(run.file_block, run.file_block + run.blocks);
        }
        if let Err(error) = file.commit_written(log, self.store.io(&source), &survivors) {
            self.free_runs(&survivors);
            return Err(error);
        }
        let before = inode.pages.dirty_pages();
        for run in placed {
            self.cache.mark_clean(&inode.pages, run.pages);
        }
        let cleaned = before - inode.pages.dirty_pages();
        self.store.space.unreserve_disk(cleaned);
        for run in &survivors {
            let tier = self.store.space.tier_of(run.addr);
            self.activity.note_data_in(inode, tier);
            self.counters.add_passed(Passage::WrittenBack, tier, run.blocks * BLOCK as u64);
        }
        self.counters.add(Counter::WrittenBack, cleaned * BLOCK as u64);
        self.commits.tidy(inode.shard, inner)?;
        if self.store.pm_is_low() {
            // The next file's log needs a page, too.
            self.commits.retreat_into_record(inode.shard, inner)?;
        }
        Ok(overtaken)
    }

    /// Writes back the file with the most dirty pages: room for somebody who needs it. False if
    /// nothing is dirty.
    ///
    /// # Errors
    /// As [`Self::flush_file`].
    pub fn flush_some(&self) -> FsResult<bool> {
        let largest = self
            .dirty
            .shards
            .iter()
            .flat_map(|s| s.dirty.lock().values().map(|f| f.inode.clone()).collect::<Vec<_>>())
            .max_by_key(|inode| inode.pages.dirty_pages());
        match largest {
            Some(inode) => self.flush_file(&inode).map(|()| true),
            None => Ok(false),
        }
    }

    /// Writes back everything.
    ///
    /// # Errors
    /// The first failure, after trying the rest.
    pub fn flush_all(&self) -> FsResult<()> {
        let mut result = Ok(());
        for shard in &self.dirty.shards {
            let files: Vec<DirtyFile> = shard.dirty.lock().values().cloned().collect();
            for file in files {
                let flushed = self.flush_file(&file.inode);
                if flushed.as_ref().is_err_and(patience::is_lost) {
                    return flushed;
                }
                result = result.and(flushed);
            }
        }
        result
    }

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
            for (file, due) in self.due_files(shard) {
                let overtaken_are =
                    if due == Due::Room { Overtaken::Left } else { Overtaken::Written };
                let flushed = self.inodes.mutate(|| self.write_back(&file.inode, overtaken_are));
                // A line when it begins and one when it is over, however many files and attempts
                // lie between them.
                match (&flushed, failing || self.health.is_read_only()) {
                    (Err(error), false) => tracing::warn!(
                        "writeback of inode {}: {error}: dirty pages wait in the page cache and \
                         are tried again",
                        file.inode.ino.0
                    ),
                    (Ok(()), true) => tracing::warn!("writeback works again"),
                    _ => {}
                }
                failing = flushed.is_err();
                if !failing {
                    continue;
                }
                pause_until = Some(Instant::now() + tick);
                if let Some(file) = this.dirty.lock().get_mut(&file.inode.ino.0) {
                    // Try again when it is due again, not at once.
                    (file.since, file.urgent) = (Instant::now(), false);
                }
            }
            if let Err(error) = self.inodes.mutate(|| self.inodes.reclaim(shard)) {
                tracing::warn!("reclaiming removed inodes: {error}");
            }
            let mut work = this.work.lock();
            *work = !this.dirty.lock().is_empty() || self.inodes.has_orphans(shard);
        }
    }

    /// The files of a shard that are to be written back now, and why.
    fn due_files(&self, shard: usize) -> Vec<(DirtyFile, Due)> {
        let age_limit = Duration::from_secs(self.options.writeback_seconds.into());
        let (dirty, budget) = (self.cache.dirty_pages(), self.cache.budget_pages());
        let now = Instant::now();
        let due = |file: &DirtyFile| {
            let pages = file.inode.pages.dirty_pages();
            let age = now.saturating_duration_since(file.since);
            let state = DirtyState { age, urgent: file.urgent, pages };
            writeback_due(state, age_limit, dirty, budget).map(|due| (file.clone(), due))
        };
        self.dirty.shards[shard].dirty.lock().values().filter_map(due).collect()
    }
}
