//! The last, partly filled block of a file in PM, and appends inside it.
//!
//! Bytes of that block beyond the committed size are garbage that nobody can see: an append may
//! store over them, and a commit that raises the size without storing there zeroes them first.

use terrace_layout::{AppendEntry, BLOCK, BLOCK_BYTES, BlockAddr, EntryType, crc_append};
use terrace_media::Pm;

use super::write::{PmWrite, WritePath};
use super::{FileData, PmIo, store_data};
use crate::planted::{Bug, planted};

impl FileData {
    /// The entry of an append whose data all lie within the tail block.
    pub(super) fn append_entry(
        &self,
        size: u64,
        tail: BlockAddr,
        write: &PmWrite<'_>,
    ) -> AppendEntry {
        static ZEROS: [u8; BLOCK] = [0; BLOCK];
        let gap = (write.offset - self.committed) as usize;
        let crc = if gap > 0 { crc_append(0, &ZEROS[..gap]) } else { 0 };
        AppendEntry {
            kind: EntryType::Append as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            size,
            mtime_ns: write.mark.now.0,
            address: tail.0,
            from: self.committed,
            data_crc: crc_append(crc, write.data),
            reserved: [0; 20],
        }
    }

    /// The PM block that a write by this path changes in place, or a change of the size; 0: none.
    #[inline]
    pub fn changed_in_place(&self, path: Option<WritePath>) -> u64 {
        match path {
            Some(WritePath::Patch(block)) => block.block(),
            _ => self.pm_tail_block().map_or(0, |block| block.block()),
        }
    }

    /// The PM block that holds the last, partly filled block of what is committed, if it is a
    /// written PM block.
    #[inline]
    pub(super) fn pm_tail_block(&self) -> Option<BlockAddr> {
        if self.committed.is_multiple_of(BLOCK_BYTES) {
            return None;
        }
        self.written_pm_block(self.committed / BLOCK_BYTES)
    }

    /// Writes what of `data` falls into the tail block, all of it beyond the committed size, and
    /// zeroes the rest of the block up to `new_size`. Returns how many bytes of `data` went there.
    pub(super) fn write_into_tail(
        &self,
        pm: &Pm,
        tail: BlockAddr,
        offset: u64,
        data: &[u8],
        new_size: u64,
    ) -> usize {
        let block_start = self.committed / BLOCK_BYTES * BLOCK_BYTES;
        let block_end = block_start + BLOCK_BYTES;
        let zero = |from: u64, to: u64| {
            let to = to.min(block_end).min(new_size);
            if to > from {
                let at = tail.byte() + (from - block_start);
                match planted(Bug::GarbageBeyondEnd) {
                    true => pm.write(at, &[0; BLOCK][..(to - from) as usize]),
                    false => pm.zero_nt(at, to - from),
                }
            }
        };
        if offset < self.committed || offset >= block_end {
            zero(self.committed, block_end);
            return 0;
        }
        let taken = data.len().min((block_end - offset) as usize);
        zero(self.committed, offset);
        store_data(pm, tail.byte() + (offset - block_start), &data[..taken]);
        zero(offset + taken as u64, block_end);
        taken
    }

    /// A commit that does not write there is about to raise the committed size to `new_size`: the
    /// tail block gets its zeros.
    pub(super) fn zero_tail(&self, io: PmIo<'_>, new_size: u64) {
        if !io.data_crc
            && new_size > self.committed
            && let Some(tail) = self.pm_tail_block()
        {
            self.write_into_tail(io.pm, tail, u64::MAX, &[], new_size);
        }
    }
}
