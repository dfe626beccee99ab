//! Writes to new blocks, or to reserved ones: old data stays what it is until the commit.

use terrace_layout::{
    BLOCK, BLOCK_BYTES, BlockAddr, CRC_ENTRY_BLOCKS_MAX, CRC_SLOTS_BLOCKS_MAX, crc_append,
};
use terrace_media::Pm;

use super::entries::{pm_crcs, push_vouched, push_write};
use super::runs::StagedRun;
use super::write::PmWrite;
use super::{FileData, PmIo, store_data};
use crate::alloc::Run;
use crate::error::FsResult;
use crate::index::Segment;
use crate::log::Log;
use crate::planted::{Bug, planted};

impl FileData {
    /// Stores the data in new or reserved blocks, and puts one entry per run into the log's batch.
    /// False: PM has no room.
    pub(super) fn stage_copy(
        &mut self,
        log: &mut Log,
        io: &PmIo<'_>,
        write: &PmWrite<'_>,
        new_size: u64,
    ) -> FsResult<bool> {
        let (mut block, last) = (write.offset / BLOCK_BYTES, (write.end() - 1) / BLOCK_BYTES);
        while block <= last {
            let Some((run, in_place)) = self.run_for(io, block, last + 1 - block) else {
                return Ok(false);
            };
            let staged = StagedRun {
                in_place,
                history: write.mark.history,
                ..StagedRun::new(block, BlockAddr::pm(run.start), run.len)
            };
            self.staged.push(staged);
            let crc = self.fill_run(io.pm, &staged, write)?;
            let entry = match io.data_crc {
                true => {
                    let crcs = pm_crcs(io.pm, &staged, new_size);
                    push_write(log, &staged, new_size, write.mark.now, &crcs)
                }
                false => push_vouched(log, &staged, new_size, write.mark.now, crc),
            };
            self.staged.last_mut().expect("just pushed").entry_index = entry;
            block += run.len;
        }
        Ok(true)
    }

    /// Blocks for file blocks from `block` on, up to `want`: reserved ones if there are, else new
    /// ones.
    fn run_for(&self, io: &PmIo<'_>, block: u64, want: u64) -> Option<(Run, bool)> {
        let mut want = if io.data_crc { want.min(CRC_SLOTS_BLOCKS_MAX) } else { want };
        if let Segment::Extent(e) = self.index.lookup(block)
            && (e.unwritten() || planted(Bug::LiveBlocksOverwritten))
            && e.addr.is_pm()
        {
            return Some((Run { start: e.addr.block(), len: want.min(u64::from(e.blocks)) }, true));
        }
        if want > 1
            && let Some((start, next)) = self.index.next_extent(block + 1)
            && next.unwritten()
            && next.addr.is_pm()
        {
            want = want.min(start - block);
        }
        io.source.alloc_data(want).map(|run| (run, false))
    }

    /// Stores the part of the write that belongs into the run, and the old bytes around it in its
    /// first and last block. Returns the checksum of all that was stored, if the run is short:
    /// checksums are computed while the stores are under way, and that time is not free for long
    /// runs.
    fn fill_run(&self, pm: &Pm, run: &StagedRun, write: &PmWrite<'_>) -> FsResult<Option<u32>> {
        let PmWrite { offset, data, read_old, .. } = *write;
        let end = write.end();
        let short = run.blocks <= CRC_ENTRY_BLOCKS_MAX;
        let (mut crc, mut uncovered) = (0, self.size.max(end) - run.file_block * BLOCK_BYTES);
        let mut store = |at: u64, bytes: &[u8]| {
            store_data(pm, at, bytes);
            if short {
                let covered = uncovered.min(bytes.len() as u64);
                crc = crc_append(crc, &bytes[..covered as usize]);
                uncovered -= covered;
            }
        };
        let (run_start, run_end) =
            (run.file_block * BLOCK_BYTES, (run.file_block + run.blocks) * BLOCK_BYTES);
        let base = run.addr.byte();
        let mut from = offset.max(run_start);
        let mut to = end.min(run_end);
        let slice = |a: u64, b: u64| &data[(a - offset) as usize..(b - offset) as usize];
        if from == run_start && (to == run_end || self.size <= to) {
            store(base, slice(from, to));
            return Ok(short.then_some(crc));
        }
        let mut edge = [0u8; BLOCK];
        let mut last = false;
        if from > run_start {
            let stop = to.min(run_start + BLOCK_BYTES);
            read_old(run.file_block, &mut edge)?;
            edge[(from - run_start) as usize..(stop - run_start) as usize]
                .copy_from_slice(slice(from, stop));
            store(base, &edge);
            from = stop;
        }
        if to < run_end && to > from {
            let block_start = to / BLOCK_BYTES * BLOCK_BYTES;
            if block_start >= from && self.size > to {
                read_old(to / BLOCK_BYTES, &mut edge)?;
                edge[..(to - block_start) as usize].copy_from_slice(slice(block_start, to));
                last = true;
                to = block_start;
            }
        }
        if to > from {
            store(base + (from - run_start), slice(from, to));
        }
        if last {
            store(base + (to - run_start), &edge);
        }
        Ok(short.then_some(crc))
    }
}
