//! Data that goes elsewhere, in another tier most often, and stays the same.
//!
//! Copies are made without the inode's lock. Whoever changes a block meanwhile *overtakes* it, and
//! its copy is given up: what is committed is what nobody has touched since it was copied.
//!
//! Invariant: between [`FileData::begin_move`] and [`FileData::end_move`] every change of a
//! committed byte, in a block of its own or in place, and every change of what blocks there are, is
//! told to [`FileData::changes`] under the lock that it is made under.

use std::ops::Range;

use super::{DataRun, FileData, Log, PmIo};
use crate::error::FsResult;
use crate::planted::{Bug, planted};

/// A stretch of the file that is being copied, and what of it has been overtaken.
#[derive(Debug)]
pub struct Moving {
    from: u64,
    /// Committed size of the file when the copies were made: the checksums in PM cover no byte
    /// beyond it, and all bytes there are zeros, however far the file grows meanwhile.
    committed: u64,
    overtaken: Vec<bool>,
}

impl Moving {
    fn range(&self, from: u64, to: u64) -> Range<usize> {
        let index =
            |block: u64| block.saturating_sub(self.from).min(self.overtaken.len() as u64) as usize;
        index(from)..index(to)
    }
}

impl FileData {
    /// The blocks `from..from + blocks` are going to be copied: from now on it is noted who changes
    /// them. One move of a file at a time.
    pub fn begin_move(&mut self, from: u64, blocks: u64) {
        assert!(self.moving.is_none(), "one move of a file at a time");
        self.moving = Some(Box::new(Moving {
            from,
            committed: self.committed,
            overtaken: vec![false; blocks as usize],
        }));
    }

    /// Ends what [`Self::begin_move`] began.
    pub fn end_move(&mut self) {
        self.moving = None;
    }

    /// Whether the copy of `block` is what the file still holds.
    pub fn is_current(&self, block: u64) -> bool {
        !self.is_overtaken(block, 1)
    }

    /// Whether somebody has changed one of these blocks since the move began.
    pub fn is_overtaken(&self, from: u64, blocks: u64) -> bool {
        let moving = self.moving.as_ref().expect("asked during a move");
        let is_noted =
            from >= moving.from && from + blocks <= moving.from + moving.overtaken.len() as u64;
        let is_changed = || moving.overtaken[moving.range(from, from + blocks)].contains(&true);
        // Of what lies outside nobody has noted anything.
        !planted(Bug::MoveNotValidated) && (!is_noted || is_changed())
    }

    /// The blocks `from..to` are about to change: what was known of them otherwise is out of date.
    #[inline]
    pub(super) fn changes(&mut self, from: u64, to: u64) {
        if !self.cached.is_empty() {
            self.cached.forget(from, to);
        }
        if let Some(moving) = &mut self.moving {
            let range = moving.range(from, to);
            moving.overtaken[range].fill(true);
        }
    }

    /// Commits that data is elsewhere now: all runs at once; size and times stay as they are. What
    /// the data leaves is freed.
    ///
    /// # Errors
    /// `ENOSPC` for the log, and then nothing has changed and the runs still belong to the caller;
    /// PM errors.
    pub fn commit_moved(&mut self, log: &mut Log, io: PmIo<'_>, runs: &[DataRun]) -> FsResult<()> {
        let committed = self.moving.as_ref().expect("a move").committed;
        log.begin();
        self.staged.clear();
        for run in runs {
            self.push_run(log, run, true, committed, run.mtime);
        }
        if planted(Bug::MoveFreesFirst) {
            runs.iter().for_each(|run| self.free_under(io, run));
        }
        self.stage_or_clear(log, io)?;
        log.commit(io.pm)?;
        self.map_staged(log);
        if planted(Bug::MoveFreesFirst) {
            self.freed.clear();
        }
        self.free_stale(io);
        Ok(())
    }

    /// Gives back what lies where a run is going to be mapped.
    fn free_under(&self, io: PmIo<'_>, run: &DataRun) {
        let end = run.file_block + run.blocks;
        for (start, extent) in self.index.overlaps(run.file_block, end) {
            let (from, to) =
                (start.max(run.file_block), (start + u64::from(extent.blocks)).min(end));
            io.source.free(extent.addr.offset(from - start), to - from);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::Time;

    #[test]
    fn what_is_not_noted_counts_as_overtaken() {
        let mut file = FileData::new(Time(0));
        file.begin_move(10, 5);
        assert!(!file.is_overtaken(10, 5) && file.is_current(14));
        assert!(
            file.is_overtaken(9, 2)
                && file.is_overtaken(14, 2)
                && !file.is_current(15)
                && !file.is_current(0)
        );
        file.changes(12, 40);
        assert!(!file.is_overtaken(10, 2) && file.is_overtaken(11, 2) && !file.is_current(14));
        file.end_move();
    }
}
