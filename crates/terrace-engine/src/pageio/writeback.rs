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

use terrace_store::error::{FsResult, fail};
use terrace_store::file::BLOCK;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::{Purpose, Tiers};
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;

use crate::base::counters::{Counter, Passage};
use crate::base::patience;
use crate::inode::cache::DirtyPage;
use crate::inode::resident::{Inner, Inode};
use crate::pageio::PageIo;
use crate::pageio::runs::{Destination, Placed};

/// Pages that one commit takes to disk at most: 64 MiB.
pub(crate) const COMMIT_PAGES_MAX: usize = 16384;

/// How blocks are treated that were written again while their older version was on its way to disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Overtaken {
    /// They are written, too: an fsync may wait for the older version.
    Written,
    /// They stay dirty.
    Left,
}

impl PageIo {
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

    pub(super) fn write_back(&self, inode: &Arc<Inode>, overtaken_are: Overtaken) -> FsResult<()> {
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
            let placed = self.write_file_durably(inode, &pages)?;
            overtaken.extend(self.commit_runs(inode, &mut inode.inner.write(), &placed)?);
            if pages.len() < COMMIT_PAGES_MAX {
                break;
            }
        }
        self.end_writing_back(inode, &overtaken, overtaken_are)
    }

    /// All that was dirty of a file is committed, but for blocks that were overtaken.
    pub(super) fn end_writing_back(
        &self,
        inode: &Arc<Inode>,
        overtaken: &BTreeSet<u64>,
        overtaken_are: Overtaken,
    ) -> FsResult<()> {
        if !overtaken.is_empty() && overtaken_are == Overtaken::Written {
            self.flush_overtaken(inode, overtaken)?;
        }
        inode.truncated.store(false, Ordering::Relaxed);
        self.dirty.note_flushed(inode);
        Ok(())
    }

    /// Writes pages of a file to the fastest disks that have room (from the tier on that it is
    /// pinned to), durably; returns where they went.
    fn write_file_durably<'a>(
        &self,
        inode: &Inode,
        pages: &'a [DirtyPage],
    ) -> FsResult<Vec<Placed<'a, DirtyPage>>> {
        let write = |first| self.write_durably(inode.shard, first, pages);
        match inode.tiers.pin.get().filter(|&tier| tier > 1).map(write) {
            // Room on any disk was promised.
            None => write(1),
            Some(Ok(placed)) => Ok(placed),
            Some(Err(error)) if patience::is_lost(&error) || self.health.is_read_only() => {
                Err(error)
            }
            // Its disks are full, or fail.
            Some(Err(error)) => {
                write(1).map_err(|other| if other.is_no_room() { error } else { other })
            }
        }
    }

    /// Writes pages to the fastest disks from this tier on that have room, durably; returns where
    /// they went.
    pub(super) fn write_durably<'a>(
        &self,
        shard: usize,
        first: u8,
        pages: &'a [DirtyPage],
    ) -> FsResult<Vec<Placed<'a, DirtyPage>>> {
        let tiers = Tiers::from(first);
        let placed = self.write_pages(pages, Destination { shard, tiers, avoided: &[] })?;
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
            let placed = self.write_file_durably(inode, pages)?;
            let overtaken = self.commit_runs(inode, &mut inner, &placed)?;
            debug_assert!(overtaken.is_empty(), "the lock keeps writers out");
        }
        Ok(())
    }

    /// Commits what is still the newest version of its block, and frees the rest. Returns the
    /// blocks that have a newer version by now.
    pub(super) fn commit_runs(
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
}
