//! Reading a file from the entries of its log.

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CRC_BLOCKS, LogEntry, SET_SIZE_TRUNCATES, WRITE_UNWRITTEN,
};
use terrace_media::Pm;

use super::{FileData, Heat, apply_patch};
use crate::Time;
use crate::index::{Extent, Freed, Segment};
use crate::log::Refs;

/// What has been met in a file's log while it is read.
#[derive(Debug, Default)]
pub struct Seen {
    patches: Vec<Patch>,
    /// Blocks that entries have superseded.
    pub freed: Freed,
    /// Blocks that entries mapped, and the sum of their times; the last of these.
    blocks: u64,
    time_sum: i128,
    last_write: i64,
}

/// A small overwrite that may not have reached its block.
#[derive(Debug)]
struct Patch {
    offset: u64,
    data: Vec<u8>,
}

impl Seen {
    fn wrote(&mut self, blocks: u64, time_ns: i64) {
        self.blocks += blocks;
        self.time_sum += i128::from(blocks) * i128::from(time_ns);
        self.last_write = self.last_write.max(time_ns);
    }

    /// The temperature of a file of so many blocks. Blocks that were written again count as often
    /// as they were written.
    pub fn heat(&self, blocks: u64) -> Heat {
        let mean = self.time_sum / i128::from(self.blocks.max(1));
        Heat::loaded(blocks, Time(mean as i64), Time(self.last_write))
    }

    /// Whether there are patches that may not have reached their blocks.
    pub fn has_patches(&self) -> bool {
        !self.patches.is_empty()
    }

    /// Forgets patches and freed blocks: they are somebody else's business.
    pub fn clear(&mut self) {
        self.patches.clear();
        self.freed.clear();
    }

    /// Forgets all patches but the last one: those before it are in their blocks.
    pub fn keep_last_patch(&mut self) {
        let before_last = self.patches.len().saturating_sub(1);
        self.patches.drain(..before_last);
    }

    /// Forgets the patches of a range of blocks, whose contents are others now.
    fn overwritten(&mut self, from: u64, to: u64) {
        self.patches.retain(|p| !(from..to).contains(&(p.offset / BLOCK_BYTES)));
    }
}

impl FileData {
    /// Applies a committed entry; `false` if it is no entry of a file.
    pub fn apply(
        &mut self,
        refs: &mut Refs,
        position: u64,
        entry: LogEntry<'_>,
        seen: &mut Seen,
    ) -> bool {
        match entry {
            LogEntry::Write(e, _) => {
                let end = e.file_block + u64::from(e.blocks);
                seen.overwritten(e.file_block, end);
                let crc_run = (e.crc_form == CRC_BLOCKS)
                    .then_some((BlockAddr(e.crc_address), u64::from(e.crcs[1])));
                let (addr, unwritten) = (BlockAddr(e.address), e.flags & WRITE_UNWRITTEN != 0);
                let extent = Extent::new(addr, e.blocks, position, unwritten, crc_run.is_some());
                let extent = extent.with_history(e.counter);
                self.index.put(refs, e.file_block, extent, crc_run, &mut seen.freed);
                seen.wrote(u64::from(e.blocks), e.mtime_ns);
                if !e.is_move() {
                    self.load_size(refs, position, e.size, e.mtime_ns);
                }
            }
            LogEntry::Append(e) => {
                seen.wrote(0, e.mtime_ns);
                self.load_size(refs, position, e.size, e.mtime_ns);
            }
            LogEntry::Patch(e, data) => {
                seen.wrote(0, e.mtime_ns);
                seen.patches.push(Patch { offset: e.offset, data: data.to_vec() });
                self.load_mtime(refs, position, e.mtime_ns);
            }
            LogEntry::SetSize(e) => {
                if e.flags & SET_SIZE_TRUNCATES != 0 {
                    let end = e.size.div_ceil(BLOCK_BYTES);
                    self.index.unmap(refs, end, u64::MAX, &mut seen.freed);
                }
                seen.patches.retain_mut(|p| {
                    p.data.truncate(e.size.saturating_sub(p.offset) as usize);
                    !p.data.is_empty()
                });
                self.load_size(refs, position, e.size, e.mtime_ns);
            }
            LogEntry::Hole(e) => {
                let end = e.file_block + e.blocks;
                seen.overwritten(e.file_block, end);
                self.index.unmap(refs, e.file_block, end, &mut seen.freed);
                self.load_size(refs, position, e.size, e.mtime_ns);
            }
            _ => return false,
        }
        true
    }

    /// Stores patches that may not have reached their blocks, flushed; returns where the last one
    /// was stored, and how many bytes.
    pub fn repeat_patches(&self, pm: &Pm, seen: &Seen) -> Option<(u64, u64)> {
        let repeat = |patch: &Patch| match self.index.lookup(patch.offset / BLOCK_BYTES) {
            Segment::Extent(e) if e.addr.is_pm() && e.addr.byte() + BLOCK_BYTES <= pm.len() => {
                Some(apply_patch(pm, e.addr, patch.offset, &patch.data))
            }
            _ => None,
        };
        seen.patches.iter().filter_map(repeat).last()
    }
}
