//! From a staged batch to the committed state: the entries go into the log's batch, the index
//! follows the commit, and what the new blocks replace is freed.
//!
//! Invariant: `staged` holds the runs of the log's current batch. A batch that is given up leaves
//! the index as it was.

use super::entries::push_write;
use super::runs::{DataRun, StagedRun};
use super::{FileData, PmIo, move_ref};
use crate::Time;
use crate::error::FsResult;
use crate::index::Extent;
use crate::log::Log;

impl FileData {
    /// Commits the runs that a writeback of dirty pages has written: all at once, with the size and
    /// the modification time that the file has now.
    ///
    /// # Errors
    /// As [`Self::write`]; nothing changed then, and the runs still belong to the caller.
    pub fn commit_written(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        runs: &[DataRun],
    ) -> FsResult<()> {
        log.begin();
        self.staged.clear();
        self.zero_tail(io, self.size);
        for run in runs {
            self.note_change(run.file_block, run.file_block + run.blocks);
            self.push_run(log, run, false, self.size, self.mtime);
        }
        self.stage_or_clear(log, io)?;
        log.commit(io.pm)?;
        self.apply_staged(log, &io, self.size, self.mtime);
        self.heat.wrote(
            runs.iter().map(|run| run.blocks).sum(),
            self.index.data_blocks(),
            self.mtime,
        );
        Ok(())
    }

    /// Puts an entry for a durable run into the batch. `relocated`: the data are those that the
    /// file has there already.
    pub(super) fn push_run(
        &mut self,
        log: &mut Log,
        run: &DataRun,
        relocated: bool,
        size: u64,
        mtime: Time,
    ) {
        let staged = StagedRun {
            crc_run: run.crc_run,
            crc_skip: run.crc_skip,
            unwritten: run.unwritten,
            relocated,
            history: run.history,
            ..StagedRun::new(run.file_block, run.addr, run.blocks)
        };
        let entry_index = push_write(log, &staged, size, mtime, &run.crcs);
        self.staged.push(StagedRun { entry_index, ..staged });
    }

    /// Stages the log's batch; if that fails, nothing is staged any more.
    pub(super) fn stage_or_clear(&mut self, log: &mut Log, io: PmIo<'_>) -> FsResult<()> {
        log.stage(io.pm, io.source, None).inspect_err(|_| self.staged.clear())
    }

    /// Gives back the new blocks of a batch that is not going to be committed.
    pub(super) fn give_up(&mut self, io: &PmIo<'_>) {
        for run in self.staged.drain(..).filter(|r| !r.in_place) {
            io.source.free(run.addr, run.blocks);
        }
    }

    /// The staged entries are committed: the index follows, stale blocks are freed.
    pub(super) fn apply_staged(&mut self, log: &mut Log, io: &PmIo<'_>, size: u64, now: Time) {
        self.map_staged(log);
        let last_entry = self.staged.last().map_or(0, |run| run.entry_index);
        self.size = size;
        self.committed = size;
        self.mtime = now;
        move_ref(log, &mut self.size_ref, last_entry);
        move_ref(log, &mut self.mtime_ref, last_entry);
        self.free_stale(io);
    }

    /// Maps the staged runs in place of what was there.
    pub(super) fn map_staged(&mut self, log: &mut Log) {
        for run in &self.staged {
            let entry = log.position(run.entry_index);
            let extent = Extent::new(
                run.addr,
                run.blocks as u32,
                entry,
                run.unwritten,
                run.crc_run.is_some(),
            )
            .with_history(run.history);
            let (refs, freed) = (&mut log.refs, &mut self.freed);
            if run.in_place {
                // The blocks stay where they are; only the entry that maps them changes.
                let before = freed.len();
                self.index.unmap(refs, run.file_block, run.file_block + run.blocks, freed);
                freed.truncate(before);
                self.index.map(refs, run.file_block, extent, run.crc_run);
            } else {
                self.index.put(refs, run.file_block, extent, run.crc_run, freed);
            }
        }
    }

    /// Gives back the blocks that the commit has replaced.
    pub(super) fn free_stale(&mut self, io: &PmIo<'_>) {
        for (addr, blocks) in self.freed.drain(..) {
            io.source.free(addr, blocks);
        }
    }
}
