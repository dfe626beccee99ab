//! Relocation: data goes to other blocks, most often in another tier, and stays the same.
//!
//! Data is copied without the inode's lock. A change of a block meanwhile *overtakes* it, and its
//! copy is given up. Only copies of blocks that nobody has changed since are committed.
//!
//! Invariant: between [`FileData::begin_relocation`] and [`FileData::end_relocation`] every change
//! of a committed byte, in a new block or in place, and every change of the mapping, is told to
//! [`FileData::note_change`] under the lock that it is made under.

use std::ops::Range;

use super::runs::DataRun;
use super::{FileData, PmIo};
use crate::error::FsResult;
use crate::log::Log;
use crate::planted::{Bug, planted};

/// A stretch of the file that is being copied, and which of its blocks have been overtaken.
#[derive(Debug)]
pub(super) struct Relocation {
    from: u64,
    /// Committed size of the file when the copies were made: the checksums in PM cover no byte
    /// beyond it, and all bytes there are zeros, however far the file grows meanwhile.
    committed: u64,
    /// By block from `from` on.
    overtaken: Vec<bool>,
}

impl Relocation {
    #[inline]
    fn range(&self, from: u64, to: u64) -> Range<usize> {
        let index =
            |block: u64| block.saturating_sub(self.from).min(self.overtaken.len() as u64) as usize;
        index(from)..index(to)
    }
}

impl FileData {
    /// The file blocks `from..from + blocks` are going to be copied: from now on their changes are
    /// noted. A file has one relocation at a time.
    pub fn begin_relocation(&mut self, from: u64, blocks: u64) {
        assert!(self.relocation.is_none(), "one relocation of a file at a time");
        self.relocation = Some(Box::new(Relocation {
            from,
            committed: self.committed,
            overtaken: vec![false; blocks as usize],
        }));
    }

    /// Whether a relocation is under way.
    pub fn is_relocating(&self) -> bool {
        self.relocation.is_some()
    }

    /// Ends what [`Self::begin_relocation`] began.
    pub fn end_relocation(&mut self) {
        self.relocation = None;
    }

    /// Whether the copy of file block `block` is what the file still holds.
    #[inline]
    pub fn is_current(&self, block: u64) -> bool {
        !self.is_overtaken(block, 1)
    }

    /// Whether one of the file blocks `from..from + blocks` has changed since the relocation began.
    #[inline]
    pub fn is_overtaken(&self, from: u64, blocks: u64) -> bool {
        let relocation = self.relocation.as_ref().expect("asked during a relocation");
        let noted = relocation.from..=relocation.from + relocation.overtaken.len() as u64;
        let is_noted = noted.contains(&from) && noted.contains(&(from + blocks));
        let is_changed =
            || relocation.overtaken[relocation.range(from, from + blocks)].contains(&true);
        // Changes outside the noted stretch are not known.
        !planted(Bug::MoveNotValidated) && (!is_noted || is_changed())
    }

    /// The file blocks `from..to` are about to change: copies of them, and the cached history of
    /// writes, are out of date.
    #[inline]
    pub(super) fn note_change(&mut self, from: u64, to: u64) {
        if !self.cached.is_empty() {
            self.cached.forget(from, to);
        }
        if let Some(relocation) = &mut self.relocation {
            let range = relocation.range(from, to);
            relocation.overtaken[range].fill(true);
        }
    }

    /// Commits that data is elsewhere now: all runs at once; size and times stay as they are. The
    /// blocks that the data leaves are freed.
    ///
    /// # Errors
    /// `ENOSPC` for the log, and then nothing has changed and the runs still belong to the caller;
    /// PM errors.
    pub fn commit_relocated(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        runs: &[DataRun],
    ) -> FsResult<()> {
        let committed = self.relocation.as_ref().expect("a relocation").committed;
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
        self.free_stale(&io);
        Ok(())
    }

    /// Gives back the blocks that are mapped where a run is going to be.
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
    fn blocks_outside_the_noted_stretch_count_as_overtaken() {
        let mut file = FileData::new(Time(0));
        file.begin_relocation(10, 5);
        assert!(!file.is_overtaken(10, 5) && file.is_current(14));
        assert!(
            file.is_overtaken(9, 2)
                && file.is_overtaken(14, 2)
                && !file.is_current(15)
                && !file.is_current(0)
        );
        file.note_change(12, 40);
        assert!(!file.is_overtaken(10, 2) && file.is_overtaken(11, 2) && !file.is_current(14));
        file.end_relocation();
    }
}
