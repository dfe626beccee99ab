//! The size of a file: set by a program, or read from the log.

use terrace_layout::{BLOCK, BLOCK_BYTES, BlockAddr, covered_bytes, data_crc};

use super::entries::{push_write, read_write_entry, set_size_entry};
use super::runs::StagedRun;
use super::{FileData, PmIo, move_ref};
use crate::Time;
use crate::error::FsResult;
use crate::index::Segment;
use crate::log::{Log, Refs};
use crate::planted::{Bug, planted};

impl FileData {
    /// Sets the size, in bytes: blocks wholly beyond it are freed. The caller has zeroed what an
    /// extension uncovers outside PM (see the page cache); the PM tail block is zeroed here. `sure`
    /// is called when there is room for all entries, before they are committed.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn set_size(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        size: u64,
        now: Time,
        sure: impl FnOnce(),
    ) -> FsResult<()> {
        log.begin();
        self.staged.clear();
        self.note_change(size.min(self.size) / BLOCK_BYTES, u64::MAX);
        self.zero_tail(io, size);
        if io.data_crc && size < self.committed {
            self.stage_cut_block(log, io, size, now)?;
        }
        let truncates = size < self.size && !planted(Bug::TruncateKeepsBlocks);
        let index = log.push(&set_size_entry(size, now, truncates), &[]);
        let alone = (size <= self.committed || planted(Bug::SealedWithoutTail)).then_some(io.stamp);
        if let Err(error) = log.stage(io.pm, io.source, alone) {
            self.give_up(&io);
            return Err(error);
        }
        sure();
        log.commit(io.pm)?;
        if size < self.size {
            self.index.unmap(&mut log.refs, size.div_ceil(BLOCK_BYTES), u64::MAX, &mut self.freed);
        }
        self.apply_staged(log, &io, size, now);
        self.heat.wrote(0, self.index.data_blocks(), now);
        move_ref(log, &mut self.size_ref, index);
        move_ref(log, &mut self.mtime_ref, index);
        Ok(())
    }

    /// With data checksums: rewrites the PM block into which a truncation cuts, so that its entry
    /// covers the bytes that are left.
    fn stage_cut_block(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        size: u64,
        now: Time,
    ) -> FsResult<()> {
        let (file_block, kept) = (size / BLOCK_BYTES, (size % BLOCK_BYTES) as usize);
        let Segment::Extent(extent) = self.index.lookup(file_block) else {
            return Ok(());
        };
        if kept == 0 || !extent.addr.is_pm() || extent.unwritten() {
            return Ok(());
        }
        let mut bytes = [0u8; BLOCK];
        io.pm.try_read(extent.addr.byte(), &mut bytes[..kept])?;
        let entry = read_write_entry(log.entries(io.pm), extent.entry())?;
        bytes[covered_bytes(file_block, entry.size).min(kept)..].fill(0);
        let addr = BlockAddr::pm(io.source.alloc_meta()?);
        io.pm.write_nt(addr.byte(), &bytes);
        let run = StagedRun { history: entry.counter, ..StagedRun::new(file_block, addr, 1) };
        let entry_index = push_write(log, &run, size, now, &[data_crc(&bytes[..kept])]);
        self.staged.push(StagedRun { entry_index, ..run });
        Ok(())
    }

    /// An entry read from the log sets size and mtime.
    pub fn load_size(&mut self, refs: &mut Refs, position: u64, size: u64, mtime_ns: i64) {
        refs.move_to(&mut self.size_ref, position);
        (self.size, self.committed) = (size, size);
        self.load_mtime(refs, position, mtime_ns);
    }

    /// An entry read from the log sets the mtime.
    pub fn load_mtime(&mut self, refs: &mut Refs, position: u64, mtime_ns: i64) {
        refs.move_to(&mut self.mtime_ref, position);
        self.mtime = Time(mtime_ns);
    }
}
