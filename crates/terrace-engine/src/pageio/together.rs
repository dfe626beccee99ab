//! Writing back short dirty files of a shard together: side by side on a disk, with one flush for
//! all. The steps are those of one file (`writeback`).
//!
//! Invariant: a thread that holds the `flush` lock of one file never waits for that of another. It
//! leaves out a file that somebody else writes back just now, and waits for it alone afterwards.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use terrace_policy::Param;
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::planted::{Bug, planted};
use terrace_store::sync::{Arc, MutexGuard, limit, thread};

use crate::base::counters::Counter;
use crate::base::patience;
use crate::base::waits::WaitCause;
use crate::inode::cache::{BlankPage, DirtyPage};
use crate::inode::dirty::{DirtyFile, DirtyShard};
use crate::inode::resident::Inode;
use crate::pageio::PageIo;
use crate::pageio::runs::of_file;
use crate::pageio::writeback::{COMMIT_PAGES_MAX, Overtaken};

/// How often a writer looks again for pages that others hold, before it gives up.
const IDLE_TRIES_MAX: u32 = 100_000;
/// Pages that are written together at most.
const JOINED_PAGES_MAX: usize = limit(COMMIT_PAGES_MAX, 5);

/// A dirty file that is to be written back.
#[derive(Clone)]
pub(super) struct Waiting {
    pub inode: Arc<Inode>,
    pub overtaken_are: Overtaken,
}

impl Waiting {
    /// Somebody may wait for all that is dirty now.
    fn whole(file: &DirtyFile) -> Self {
        Self { inode: file.inode.clone(), overtaken_are: Overtaken::Written }
    }
}

/// Files that are written together, and their pages in the same order.
struct Joined<'a> {
    files: Vec<(&'a Waiting, MutexGuard<'a, ()>)>,
    pages: Vec<DirtyPage>,
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

    /// Writes back the file with the most dirty pages, and others with it: room for somebody who
    /// needs it. False if nothing is dirty.
    ///
    /// # Errors
    /// As [`Self::flush_file`].
    fn flush_some(&self) -> FsResult<bool> {
        let dirty_pages = |file: &DirtyFile| file.inode.pages.dirty_pages();
        let most = |shard: &&DirtyShard| shard.dirty.lock().values().map(dirty_pages).max();
        let Some(shard) = self.dirty.shards.iter().max_by_key(most) else { return Ok(false) };
        let mut files: Vec<_> = shard.dirty.lock().values().map(Waiting::whole).collect();
        files.sort_by_cached_key(|file| Reverse(file.inode.pages.dirty_pages()));
        let Some(group) = self.flush_groups(files).into_iter().next() else { return Ok(false) };
        // Room for one is room enough: nobody waits here for those that others write back.
        let left = self.write_together(&group)?;
        match left.first() {
            Some(largest) if left.len() == group.len() => self.flush_file(&largest.inode)?,
            _ => {}
        }
        Ok(true)
    }

    /// Writes back everything.
    ///
    /// # Errors
    /// The first failure, after trying the rest.
    pub fn flush_all(&self) -> FsResult<()> {
        let groups = self.dirty.shards.iter().flat_map(|shard| {
            let files = shard.dirty.lock().values().map(Waiting::whole).collect();
            self.flush_groups(files)
        });
        try_all(groups.map(|group| {
            let left = self.write_together(&group)?;
            try_all(left.iter().map(|file| self.flush_file(&file.inode)))
        }))
    }

    /// Files of a shard, by the flushes that they need.
    pub(super) fn flush_groups(&self, files: Vec<Waiting>) -> Vec<Vec<Waiting>> {
        let with_pages = files.into_iter().map(|file| {
            let pages = file.inode.pages.dirty_pages();
            (file, pages)
        });
        terrace_policy::flush_groups(with_pages, self.tuning.get(Param::FlushGroup))
    }

    /// Writes back the files of a group with one flush. Returns those that are left to be written
    /// alone: those that are longer by now, or pinned to other disks, or written back by others;
    /// and all if the disks do not take them together. A group of one is left, too.
    ///
    /// # Errors
    /// `EINTR`, and what is fatal; some may be on disk.
    pub(super) fn write_together(&self, group: &[Waiting]) -> FsResult<Vec<Waiting>> {
        let [first, _, ..] = group else { return Ok(group.to_vec()) };
        self.relieve_pm_if_low();
        if self.health.is_read_only() {
            return fail(libc::EIO);
        }
        patience::go_on()?;
        let (Joined { files, pages }, mut left) = self.join(group);
        let placed = match self.write_durably(first.inode.shard, 1, &pages) {
            Ok(placed) => placed,
            Err(error) if patience::is_lost(&error) || error.is_fatal() => return Err(error),
            Err(_) => return Ok(group.to_vec()),
        };
        let mut over = Ok(());
        for (number, (file, _flushing)) in files.into_iter().enumerate() {
            let runs = of_file(&placed, number, |run| run.pages[0].file);
            if over.is_err() {
                runs.iter().for_each(|run| self.free_placed(run));
                continue;
            }
            let inode = &file.inode;
            let committed = self.commit_runs(inode, &mut inode.inner.write(), runs);
            let written = committed.and_then(|overtaken| {
                let overtaken = BTreeSet::from_iter(overtaken);
                self.end_writing_back(inode, &overtaken, file.overtaken_are)
            });
            match written {
                Ok(()) => {}
                Err(error) if patience::is_lost(&error) || error.is_fatal() => over = Err(error),
                Err(_) => left.push(file.clone()),
            }
        }
        over.map(|()| left)
    }

    /// Takes the pages of those files that can be written together; also returns the others.
    fn join<'a>(&self, group: &'a [Waiting]) -> (Joined<'a>, Vec<Waiting>) {
        let (mut joined, mut left) = (Joined { files: Vec::new(), pages: Vec::new() }, Vec::new());
        for file in group {
            let inode = &file.inode;
            let goes_elsewhere = inode.tiers.pin.get().is_some_and(|tier| tier > 1);
            let flushing = if goes_elsewhere { None } else { inode.flush.try_lock() };
            let Some(flushing) = flushing else {
                left.extend((!planted(Bug::BusyFileSkipped)).then(|| file.clone()));
                continue;
            };
            // It may have grown since it was found to be short: one page more tells.
            let room = JOINED_PAGES_MAX - joined.pages.len();
            let most = if planted(Bug::JoinedCut) { room } else { room + 1 };
            // The lock, shared, keeps out half-published writes.
            let mut pages = {
                let _inner = inode.inner.read();
                self.cache.dirty(&inode.pages, 0, most)
            };
            if pages.len() > room {
                left.push(file.clone());
                continue;
            }
            pages.iter_mut().for_each(|page| page.file = joined.files.len());
            joined.pages.append(&mut pages);
            joined.files.push((file, flushing));
        }
        (joined, left)
    }
}

/// Takes all steps, one not keeping the others, unless patience is lost; the first failure counts.
fn try_all(steps: impl Iterator<Item = FsResult<()>>) -> FsResult<()> {
    let mut result = Ok(());
    for step in steps {
        if step.as_ref().is_err_and(patience::is_lost) {
            return step;
        }
        result = result.and(step);
    }
    result
}
