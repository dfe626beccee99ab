//! One file's data in PM: the index, the log cursor and how a write commits.
//!
//! What stands here, with a [`Log`], is all that it takes to read and write a file's PM data: it
//! knows a PM mapping and a source of blocks, and nothing of the volume, the cache or the
//! allocators.
//!
//! Invariants:
//! * Live data is never overwritten, but for two cases: bytes beyond the committed size, which
//!   nobody can see, and patches, whose bytes are committed in the log before they are applied.
//! * Bytes of a PM block beyond the committed size are garbage: they read as zeros, and whatever
//!   commits a larger size zeroes them first.
//! * With data checksums neither case is used: every write goes to new blocks, and an entry's size
//!   says how many bytes of its blocks count; the others read as zeros. A truncation into a block
//!   therefore rewrites it.

mod cached;
mod entries;
mod heat;
mod moves;
mod reserve;

use terrace_layout::{
    AppendEntry, BLOCK_BYTES, BlockAddr, CRC_ENTRY_BLOCKS_MAX, CRC_SLOTS_BLOCKS_MAX, EntryType,
    PATCH_BYTES_MAX, PatchEntry, Stamp, WriteEntry, crc_append, data_crc,
};
use terrace_media::Pm;
use terrace_policy::Synchronicity;

pub use self::cached::CachedWrites;
pub use self::entries::{blocks_before, covered_bytes, extent_crcs_in_log, read_write_entry};
use self::entries::{copy_of, pm_crcs, push_vouched, push_write, set_size_entry};
pub use self::heat::Heat;
use self::moves::Moving;
use crate::Time;
use crate::alloc::Run;
use crate::error::FsResult;
use crate::index::{Extent, Freed, Index, Segment};
use crate::log::{Entries, Log, NewLog, Refs};
use crate::planted::{Bug, planted};
use crate::space::BlockSource;

/// Entries that compaction joins cover no more than the largest group of the papers.
pub const JOINED_BLOCKS_MAX: u64 = 4096;
/// How far ahead of itself compaction asks for entries: each stands in a cache line of its own,
/// anywhere in the log.
const PREFETCHED_ENTRIES: usize = 8;

/// Bytes of a block as a `usize`.
pub const BLOCK: usize = BLOCK_BYTES as usize;

/// What a file's data path works on.
#[derive(Debug, Clone, Copy)]
pub struct PmIo<'a> {
    /// PM.
    pub pm: &'a Pm,
    /// Where new blocks come from, and old ones go.
    pub source: &'a dyn BlockSource,
    /// PM data carries checksums.
    pub data_crc: bool,
    /// Marks what this mount commits with one fence.
    pub stamp: Stamp,
}

/// Reads a file block as it is now, zeros beyond the end of the file: how a write gets the bytes
/// around it.
pub type ReadOld<'a> = &'a dyn Fn(u64, &mut [u8; BLOCK]) -> FsResult<()>;

/// What the entries of a write say beyond what it writes.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// When it is.
    pub now: Time,
    /// What the write-size predictor is to remember, as entries hold it.
    pub history: u16,
}

/// How a write goes to PM, cheapest first.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// A small overwrite rides in the log and is applied to this block.
    Patch(BlockAddr),
    /// It starts behind the committed size, in this block, the last one.
    Append(BlockAddr),
    /// To new blocks, or reserved ones.
    Copy,
}

/// A file's data: where it is and how long it is.
#[derive(Debug, Default)]
pub struct FileData {
    /// Where the blocks are.
    pub index: Index,
    /// Length in bytes; dirty pages may have taken it beyond what the log has committed.
    pub size: u64,
    /// Length that the log has committed: PM bytes from there on are garbage that nobody may see.
    pub committed: u64,
    /// Last modification.
    pub mtime: Time,
    /// Entry that holds the committed size, and the one that holds the mtime; 0 if none.
    size_ref: u64,
    mtime_ref: u64,
    /// How the file is written: the synchronicity predictor.
    pub habits: Synchronicity,
    /// When the blocks were written.
    pub heat: Heat,
    /// Writes that no entry knows of yet.
    pub cached: CachedWrites,
    /// Blocks of which a copy is being made elsewhere.
    moving: Option<Box<Moving>>,
    freed: Freed,
    staged: Vec<StagedRun>,
}

#[derive(Debug, Clone, Copy)]
struct StagedRun {
    file_block: u64,
    addr: BlockAddr,
    blocks: u64,
    /// The run was reserved (unwritten) at this very place.
    in_place: bool,
    unwritten: bool,
    is_move: bool,
    /// What the write-size predictor remembers, as entries hold it.
    history: u16,
    crc_run: Option<(BlockAddr, u64)>,
    crc_skip: u32,
    entry_index: usize,
}

impl StagedRun {
    /// New blocks with data, without checksum blocks.
    fn new(file_block: u64, addr: BlockAddr, blocks: u64) -> Self {
        Self {
            file_block,
            addr,
            blocks,
            in_place: false,
            unwritten: false,
            is_move: false,
            history: 0,
            crc_run: None,
            crc_skip: 0,
            entry_index: 0,
        }
    }
}

/// A run of blocks that holds file data, durable, to be committed.
#[derive(Debug, Clone)]
pub struct DataRun {
    /// First block in the file.
    pub file_block: u64,
    /// First block on the device.
    pub addr: BlockAddr,
    /// Blocks of the run.
    pub blocks: u64,
    /// CRC32C of each block; none in PM without data checksums.
    pub crcs: Vec<u32>,
    /// Where the CRC blocks are, if the run is too long to keep its checksums in the log.
    pub crc_run: Option<(BlockAddr, u64)>,
    /// Checksums there before this run's.
    pub crc_skip: u32,
    /// Allocated only: there is no data.
    pub unwritten: bool,
    /// When the youngest block was written.
    pub mtime: Time,
    /// What the write-size predictor remembers, as entries hold it.
    pub history: u16,
}

impl DataRun {
    /// A run without blocks so far.
    pub fn new(file_block: u64, addr: BlockAddr) -> Self {
        Self {
            file_block,
            addr,
            blocks: 0,
            crcs: Vec::new(),
            crc_run: None,
            crc_skip: 0,
            unwritten: false,
            mtime: Time::default(),
            history: 0,
        }
    }
}

impl FileData {
    /// An empty file.
    pub fn new(created: Time) -> Self {
        Self { mtime: created, ..Self::default() }
    }

    /// Writes `data` at `offset` to PM, the `way` that [`Self::way`] tells, and commits it,
    /// durably. `Ok(false)`: PM has no room for it; nothing changed.
    ///
    /// # Errors
    /// `ENOSPC` for the log, errors of `read_old`, PM errors.
    #[allow(clippy::too_many_arguments, reason = "a write and what it works on")]
    pub fn write(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        way: Way,
        offset: u64,
        data: &[u8],
        mark: Mark,
        read_old: ReadOld<'_>,
    ) -> FsResult<bool> {
        let end = offset + data.len() as u64;
        log.begin();
        self.staged.clear();
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        self.changes(from, to);
        if let Way::Patch(block) | Way::Append(block) = way {
            // What is known to be bad takes no more stores: without the bytes around them, they
            // would be lost.
            io.pm.check(block.byte(), BLOCK_BYTES)?;
        }
        if let Way::Patch(block) = way {
            self.patch(log, io, block, offset, data, mark.now)?;
            return Ok(true);
        }
        let staged =
            self.stage_write(log, io, way, offset, data, mark, read_old).and_then(|staged| {
                if let Some(vouched) = staged {
                    log.stage(io.pm, io.source, vouched.then_some(io.stamp))?;
                }
                Ok(staged.is_some())
            });
        if !matches!(staged, Ok(true)) {
            self.give_up(io);
            return staged;
        }
        log.commit(io.pm)?;
        self.apply_staged(log, io, end.max(self.size), mark.now);
        self.heat.wrote(to - from, self.index.data_blocks(), mark.now);
        if let Way::Append(_) = way {
            self.heat.append(from, to);
        }
        Ok(true)
    }

    /// The committed PM block inside which a small overwrite lies.
    fn patched_block(&self, offset: u64, end: u64) -> Option<BlockAddr> {
        let one_block = offset / BLOCK_BYTES == (end - 1) / BLOCK_BYTES;
        if !one_block || end > self.committed || end - offset > PATCH_BYTES_MAX as u64 {
            return None;
        }
        self.written_pm_block(offset / BLOCK_BYTES)
    }

    /// Where file block `block` is, if PM holds it and it was written.
    fn written_pm_block(&self, block: u64) -> Option<BlockAddr> {
        match self.index.lookup(block) {
            Segment::Extent(e) if e.addr.is_pm() && !e.unwritten() => Some(e.addr),
            _ => None,
        }
    }

    /// How a write of this range goes to PM.
    pub fn way(&self, offset: u64, end: u64, data_crc: bool) -> Way {
        if data_crc {
            return Way::Copy;
        }
        if offset >= self.committed && offset / BLOCK_BYTES == self.committed / BLOCK_BYTES {
            return self.pm_tail_block().map_or(Way::Copy, Way::Append);
        }
        match self.patched_block(offset, end) {
            Some(block) => Way::Patch(block),
            None => Way::Copy,
        }
    }

    /// Whether a write of this range takes no new PM blocks: it is a patch, or lies within reserved
    /// blocks.
    pub fn needs_no_pm_block(&self, offset: u64, end: u64, data_crc: bool) -> bool {
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        let reserved = matches!(self.index.lookup(from), Segment::Extent(e)
            if e.unwritten() && e.addr.is_pm() && u64::from(e.blocks) >= to - from);
        reserved || matches!(self.way(offset, end, data_crc), Way::Patch(_))
    }

    fn patch(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        block: BlockAddr,
        offset: u64,
        data: &[u8],
        now: Time,
    ) -> FsResult<()> {
        let entry = PatchEntry {
            kind: EntryType::Patch as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            offset,
            len: data.len() as u32,
            reserved: 0,
            mtime_ns: now.0,
        };
        let index = log.push(&entry, &[data]);
        if planted(Bug::PatchBeforeCommit) {
            apply_patch(io.pm, block, offset, data);
        }
        log.stage(io.pm, io.source, Some(io.stamp))?;
        log.commit(io.pm)?;
        self.mtime = now;
        move_ref(log, &mut self.mtime_ref, index);
        self.heat.wrote(1, self.index.data_blocks(), now);
        self.heat.patch(offset / BLOCK_BYTES);
        // The commit made the bytes part of the file; now they go where readers look. No fence: the
        // next one will do, and until then the log can repeat it.
        let (at, len) = apply_patch(io.pm, block, offset, data);
        log.leave_unfenced(at, len);
        Ok(())
    }

    /// Writes the data and puts the entries into the log's batch. Returns whether they vouch for
    /// all of the data; `None`: PM has no room.
    #[allow(clippy::too_many_arguments, reason = "a write and what it works on")]
    fn stage_write(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        way: Way,
        offset: u64,
        data: &[u8],
        mark: Mark,
        read_old: ReadOld<'_>,
    ) -> FsResult<Option<bool>> {
        let end = offset + data.len() as u64;
        let new_size = end.max(self.size);
        let mut start = offset;
        let mut rest = data;
        let mut vouched = true;
        let tail = match way {
            Way::Append(tail) => Some(tail),
            // What begins below the committed size replaces the tail block.
            _ if offset > self.committed && new_size > self.committed && !io.data_crc => {
                self.pm_tail_block()
            }
            _ => None,
        };
        if let Some(tail) = tail {
            let taken = self.write_into_tail(io.pm, tail, offset, data, new_size);
            start += taken as u64;
            rest = &data[taken..];
            if rest.is_empty() {
                let size = if planted(Bug::OldSizeCommitted) { self.size } else { new_size };
                log.push(&self.append_entry(size, mark.now, tail, offset, data), &[]);
                return Ok(Some(true));
            }
            // The tail block changed, and no entry says how.
            vouched = false;
        }
        let fits = self.stage_runs(log, io, start, rest, new_size, mark, read_old)?;
        Ok(fits.then_some(vouched))
    }

    /// An append of `data` at `offset` within the tail block.
    fn append_entry(
        &self,
        size: u64,
        now: Time,
        tail: BlockAddr,
        offset: u64,
        data: &[u8],
    ) -> AppendEntry {
        static ZEROS: [u8; BLOCK] = [0; BLOCK];
        let gap = (offset - self.committed) as usize;
        let crc = if gap > 0 { crc_append(0, &ZEROS[..gap]) } else { 0 };
        AppendEntry {
            kind: EntryType::Append as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            size,
            mtime_ns: now.0,
            address: tail.0,
            from: self.committed,
            data_crc: crc_append(crc, data),
            reserved: [0; 20],
        }
    }

    /// The PM block that holds the last, partly filled block of what is committed, if it is a
    /// written PM block.
    fn pm_tail_block(&self) -> Option<BlockAddr> {
        if self.committed.is_multiple_of(BLOCK_BYTES) {
            return None;
        }
        self.written_pm_block(self.committed / BLOCK_BYTES)
    }

    /// Writes what of `data` falls into the tail block, all of it beyond the committed size, and
    /// zeroes the rest of the block up to `new_size`. Returns how many bytes of `data` went there.
    fn write_into_tail(
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
    fn zero_tail(&self, io: PmIo<'_>, new_size: u64) {
        if !io.data_crc
            && new_size > self.committed
            && let Some(tail) = self.pm_tail_block()
        {
            self.write_into_tail(io.pm, tail, u64::MAX, &[], new_size);
        }
    }

    /// Writes `data` to blocks of its own, or to reserved ones, with one entry per run.
    #[allow(clippy::too_many_arguments, reason = "one step of stage_write")]
    fn stage_runs(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        offset: u64,
        data: &[u8],
        new_size: u64,
        mark: Mark,
        read_old: ReadOld<'_>,
    ) -> FsResult<bool> {
        let end = offset + data.len() as u64;
        let (mut block, last) = (offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
        while block <= last {
            let Some((run, in_place)) = self.run_for(io, block, last + 1 - block) else {
                return Ok(false);
            };
            let history = mark.history;
            let staged = StagedRun {
                in_place,
                history,
                ..StagedRun::new(block, BlockAddr::pm(run.start), run.len)
            };
            self.staged.push(staged);
            let crc = self.fill_run(io.pm, &staged, offset, data, read_old)?;
            let entry = match io.data_crc {
                true => {
                    push_write(log, &staged, new_size, mark.now, &pm_crcs(io.pm, &staged, new_size))
                }
                false => push_vouched(log, &staged, new_size, mark.now, crc),
            };
            self.staged.last_mut().expect("just pushed").entry_index = entry;
            block += run.len;
        }
        Ok(true)
    }

    /// Blocks for file blocks from `block` on, up to `want`: reserved ones if there are, else new
    /// ones.
    fn run_for(&self, io: PmIo<'_>, block: u64, want: u64) -> Option<(Run, bool)> {
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

    /// Stores the part of `data` (which starts at `offset`) that belongs into the run, merging old
    /// bytes at the edges. Returns the checksum of all that was stored, if the run is short:
    /// checksums are computed while the stores are under way, and that time is not free for long
    /// ones.
    fn fill_run(
        &self,
        pm: &Pm,
        run: &StagedRun,
        offset: u64,
        data: &[u8],
        read_old: ReadOld<'_>,
    ) -> FsResult<Option<u32>> {
        let short = run.blocks <= CRC_ENTRY_BLOCKS_MAX;
        let (mut crc, mut uncovered) =
            (0, self.size.max(offset + data.len() as u64) - run.file_block * BLOCK_BYTES);
        let mut store = |at: u64, bytes: &[u8]| {
            store_data(pm, at, bytes);
            if short {
                let covered = uncovered.min(bytes.len() as u64);
                crc = crc_append(crc, &bytes[..covered as usize]);
                uncovered -= covered;
            }
        };
        let end = offset + data.len() as u64;
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

    fn give_up(&mut self, io: PmIo<'_>) {
        for run in self.staged.drain(..).filter(|r| !r.in_place) {
            io.source.free(run.addr, run.blocks);
        }
    }

    /// The staged entries are committed: the index follows, stale blocks are freed.
    fn apply_staged(&mut self, log: &mut Log, io: PmIo<'_>, size: u64, now: Time) {
        self.map_staged(log);
        let last_entry = self.staged.last().map_or(0, |run| run.entry_index);
        self.size = size;
        self.committed = size;
        self.mtime = now;
        move_ref(log, &mut self.size_ref, last_entry);
        move_ref(log, &mut self.mtime_ref, last_entry);
        self.free_stale(io);
    }

    /// Maps what is staged in place of what was there.
    fn map_staged(&mut self, log: &mut Log) {
        let staged = std::mem::take(&mut self.staged);
        for run in &staged {
            let entry = log.position(run.entry_index);
            let extent = Extent::new(
                run.addr,
                run.blocks as u32,
                entry,
                run.unwritten,
                run.crc_run.is_some(),
            )
            .with_history(run.history);
            if !run.in_place
                && self.index.replace_block(&mut log.refs, run.file_block, extent, &mut self.freed)
            {
                continue;
            }
            let before = self.freed.len();
            self.index.unmap(
                &mut log.refs,
                run.file_block,
                run.file_block + run.blocks,
                &mut self.freed,
            );
            if run.in_place {
                // The blocks stay where they are; only what the old entry called them changes.
                self.freed.truncate(before);
            }
            self.index.map(&mut log.refs, run.file_block, extent, run.crc_run);
        }
        self.staged = staged;
    }

    fn free_stale(&mut self, io: PmIo<'_>) {
        for (addr, blocks) in self.freed.drain(..) {
            io.source.free(addr, blocks);
        }
    }

    /// Commits what a cache flush wrote to disks: all runs at once. Size and mtime are those of
    /// these pages.
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
            self.changes(run.file_block, run.file_block + run.blocks);
            self.push_run(log, run, false, self.size, self.mtime);
        }
        self.stage_or_clear(log, io)?;
        log.commit(io.pm)?;
        self.apply_staged(log, io, self.size, self.mtime);
        self.heat.wrote(
            runs.iter().map(|run| run.blocks).sum(),
            self.index.data_blocks(),
            self.mtime,
        );
        Ok(())
    }

    fn stage_or_clear(&mut self, log: &mut Log, io: PmIo<'_>) -> FsResult<()> {
        log.stage(io.pm, io.source, None).inspect_err(|_| self.staged.clear())
    }

    /// Puts an entry for a run that is durable into the batch.
    fn push_run(&mut self, log: &mut Log, run: &DataRun, is_move: bool, size: u64, mtime: Time) {
        let staged = StagedRun {
            crc_run: run.crc_run,
            crc_skip: run.crc_skip,
            unwritten: run.unwritten,
            is_move,
            history: run.history,
            ..StagedRun::new(run.file_block, run.addr, run.blocks)
        };
        let entry_index = push_write(log, &staged, size, mtime, &run.crcs);
        self.staged.push(StagedRun { entry_index, ..staged });
    }

    /// Sets the size: blocks wholly beyond it are freed. The caller has zeroed what an extension
    /// uncovers outside PM (see the page cache); the PM tail block is zeroed here. `sure` is called
    /// when there is room for all of it, before it is committed.
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
        self.changes(size.min(self.size) / BLOCK_BYTES, u64::MAX);
        self.zero_tail(io, size);
        if io.data_crc && size < self.committed {
            self.stage_cut_block(log, io, size, now)?;
        }
        let truncates = size < self.size && !planted(Bug::TruncateKeepsBlocks);
        let index = log.push(&set_size_entry(size, now, truncates), &[]);
        let alone = (size <= self.committed || planted(Bug::SealedWithoutTail)).then_some(io.stamp);
        if let Err(error) = log.stage(io.pm, io.source, alone) {
            self.give_up(io);
            return Err(error);
        }
        sure();
        log.commit(io.pm)?;
        if size < self.size {
            self.index.unmap(&mut log.refs, size.div_ceil(BLOCK_BYTES), u64::MAX, &mut self.freed);
        }
        self.apply_staged(log, io, size, now);
        self.heat.wrote(0, self.index.data_blocks(), now);
        move_ref(log, &mut self.size_ref, index);
        move_ref(log, &mut self.mtime_ref, index);
        Ok(())
    }

    /// With checksums: rewrites the PM block into which a truncation cuts, so that its entry covers
    /// what is left.
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
        let run = StagedRun::new(file_block, addr, 1);
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

    /// What entries must map after compaction. Without data checksums, entries for neighbours in PM
    /// become one: a file that was appended to is one run again.
    pub fn runs(&self, io: PmIo<'_>) -> Vec<(u64, Extent)> {
        let fits =
            |a: &Extent, b: &Extent| u64::from(a.blocks) + u64::from(b.blocks) <= JOINED_BLOCKS_MAX;
        self.index.runs(|a, b| !io.data_crc && a.addr.is_pm() && fits(a, b))
    }

    /// Puts an entry for each of [`Self::runs`], and one for the size, into a new log; returns
    /// where they will stand. Then [`Self::compacted`]. `ctime`: no change of the file was later.
    ///
    /// # Errors
    /// `ENOSPC`; PM that cannot be read.
    pub fn push_live(
        &self,
        log: &mut impl NewLog,
        entries: Entries<'_>,
        runs: &[(u64, Extent)],
        ctime: Time,
    ) -> FsResult<Vec<u64>> {
        let mut positions = Vec::with_capacity(runs.len() + 1);
        for (i, &(file_block, ref extent)) in runs.iter().enumerate() {
            if let Some((_, soon)) = runs.get(i + PREFETCHED_ENTRIES) {
                entries.prefetch(soon.entry());
            }
            let entry = read_write_entry(entries, extent.entry())?;
            let skip = blocks_before(&entry, file_block);
            let crcs = extent_crcs_in_log(entries, &entry, skip, extent)?;
            let (address, mtime_ns) = (extent.addr.0, entry.mtime_ns.min(ctime.0));
            let piece =
                WriteEntry { file_block, address, blocks: extent.blocks, mtime_ns, ..entry };
            let (piece, slots) = copy_of(piece, skip, &crcs);
            positions.push(log.push(&piece, &[slots])?);
        }
        // Blocks reserved beyond the end stay: this sets the size and truncates nothing.
        positions.push(log.push(&set_size_entry(self.committed, self.mtime, false), &[])?);
        Ok(positions)
    }

    /// Compaction moved the live entries of `runs` to `positions`, the last of which holds the
    /// size; the last entry that gives the modification time is at `mtime`.
    pub fn compacted(
        &mut self,
        refs: &mut Refs,
        runs: Vec<(u64, Extent)>,
        positions: &[u64],
        mtime: u64,
    ) {
        self.index.moved(refs, runs, |i| positions[i]);
        (self.size_ref, self.mtime_ref) = (0, 0);
        let last = *positions.last().expect("there is one of the size");
        refs.move_to(&mut self.size_ref, last);
        refs.move_to(&mut self.mtime_ref, mtime);
    }
}

/// Moves a "latest entry of its kind" reference to entry `index` of the last batch.
pub fn move_ref(log: &mut Log, reference: &mut u64, index: usize) {
    let position = log.position(index);
    log.refs.move_to(reference, position);
}

/// Stores file data, durable after the next fence.
fn store_data(pm: &Pm, at: u64, bytes: &[u8]) {
    match planted(Bug::DataNotFlushed) {
        true => pm.write(at, bytes),
        false => pm.write_nt(at, bytes),
    }
}

/// Stores a patch's bytes into their block; flushed, not fenced. Returns where in PM, and how many.
pub fn apply_patch(pm: &Pm, block: BlockAddr, offset: u64, data: &[u8]) -> (u64, u64) {
    let (at, len) = (block.byte() + offset % BLOCK_BYTES, data.len() as u64);
    pm.write(at, data);
    pm.flush(at, len);
    (at, len)
}
