//! Holes, and reserved blocks: they are allocated, hold no data yet, and read as zeros.

use std::ops::Range;

use terrace_layout::{BlockAddr, EntryType, History, HoleEntry};
use terrace_policy::Rule;

use super::entries::{push_write, set_size_entry};
use super::runs::StagedRun;
use super::{FileData, PmIo, move_ref};
use crate::Time;
use crate::error::FsResult;
use crate::log::Log;
use crate::planted::{Bug, planted};

/// A range of file blocks that is to be a hole, or reserved blocks in parts.
#[derive(Clone, Debug)]
pub struct Hole<'a> {
    /// The file blocks.
    pub blocks: Range<u64>,
    /// New blocks for parts of it: first file block, first device block, blocks.
    pub reserve: &'a [(u64, BlockAddr, u64)],
    /// The new size of the file, in bytes.
    pub size: u64,
    /// The new modification time.
    pub now: Time,
}

impl FileData {
    /// Replaces file blocks by a hole, or by reserved blocks, and sets the size.
    ///
    /// # Errors
    /// As [`Self::write`]; the caller keeps the runs then.
    pub fn deallocate(&mut self, log: &mut Log, io: PmIo<'_>, hole: Hole<'_>) -> FsResult<()> {
        let Hole { blocks: Range { start: from, end: to }, reserve, size, now } = hole;
        log.begin();
        self.staged.clear();
        self.note_change(from, to);
        self.zero_tail(io, size);
        let entry = HoleEntry {
            kind: EntryType::Hole as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            file_block: from,
            blocks: to - from,
            mtime_ns: now.0,
            size,
            reserved: [0; 24],
        };
        let hole_index = log.push(&entry, &[]);
        self.push_reserved(log, reserve, size, now);
        self.stage_or_clear(log, io)?;
        log.commit(io.pm)?;
        self.index.unmap(&mut log.refs, from, to, &mut self.freed);
        self.apply_staged(log, &io, size, now);
        self.heat.wrote(0, self.index.data_blocks(), now);
        if reserve.is_empty() {
            move_ref(log, &mut self.size_ref, hole_index);
            move_ref(log, &mut self.mtime_ref, hole_index);
        }
        Ok(())
    }

    /// Maps reserved runs (first file block, first device block, blocks) into holes, as `fallocate`
    /// does, and sets the size and the times; without runs only these.
    ///
    /// # Errors
    /// As [`Self::deallocate`].
    pub fn reserve(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        reserve: &[(u64, BlockAddr, u64)],
        size: u64,
        now: Time,
    ) -> FsResult<()> {
        log.begin();
        self.staged.clear();
        self.zero_tail(io, size);
        self.push_reserved(log, reserve, size, now);
        if reserve.is_empty() {
            log.push(&set_size_entry(size, now, false), &[]);
        }
        self.stage_or_clear(log, io)?;
        log.commit(io.pm)?;
        self.apply_staged(log, &io, size, now);
        Ok(())
    }

    fn push_reserved(
        &mut self,
        log: &mut Log,
        reserve: &[(u64, BlockAddr, u64)],
        size: u64,
        now: Time,
    ) {
        for &(file_block, addr, blocks) in reserve {
            let history = History::new(0, 0, Rule::Reserved.number()).to_word();
            let new = StagedRun::new(file_block, addr, blocks);
            let staged = StagedRun { unwritten: true, history, ..new };
            let logged = StagedRun {
                unwritten: !planted(Bug::ReservedAsWritten),
                file_block: file_block + u64::from(planted(Bug::FallocateWrongBlocks)),
                ..staged
            };
            let entry_index = push_write(log, &logged, size, now, &[]);
            self.staged.push(StagedRun { entry_index, ..staged });
        }
    }
}
