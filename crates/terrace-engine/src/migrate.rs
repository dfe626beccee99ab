//! Moving a file's data to another tier, while programs go on using the file: copy, validate, publish.
//!
//! 1. Under the inode's lock, for a moment: what is to be copied is looked up, and from now on it is noted who changes it.
//! 2. Without locks: the data is read (and verified, where it has checksums), written to where it goes, and made durable.
//! 3. Under the lock again: blocks that somebody has changed meanwhile are given up, the others are committed, all at once.
//!    Then what they leave is free.
//!
//! So no program waits for a disk on account of a move, and a crash at any moment leaves either place, whole. What is copied
//! may be garbage, if the block was freed and used anew in the middle of it; but then it has been overtaken, too.

use std::ops::Range;

use terrace_layout::{BLOCK_BYTES, WriteEntry, data_crc};
use terrace_media::AlignedBuf;

use crate::cache::BlankPage;
use crate::core::Core;
use crate::counters::Counter;
use crate::error::{FsError, FsResult};
use crate::fetch::Checksums;
use crate::file::{BLOCK, DataRun, covered_bytes, read_write_entry};
use crate::index::Extent;
use crate::inode::{Inner, Inode};
use crate::planted::{Bug, planted};
use crate::runs::{Page, Placed, Target};
use crate::space::Purpose;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::types::{Ino, Time};
use crate::volume::Volume;

/// Blocks of a file that are looked at together when all of it moves: 16 MiB.
const STRETCH_BLOCKS: u64 = 4096;

/// What came of moving a file to a tier, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileMoved {
    /// There now, and elsewhere before.
    pub moved_bytes: u64,
    /// Still elsewhere: for want of room, or changed meanwhile.
    pub left_bytes: u64,
}

/// Which of a file's extents move: asked with the file block, the extent and its entry.
pub(crate) type Wanted<'a> = &'a dyn Fn(u64, &Extent, &WriteEntry) -> bool;

/// Stretches of a file and where they are to go.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    /// File blocks, ascending; at least one stretch.
    pub stretches: &'a [Range<u64>],
    pub wanted: Wanted<'a>,
    /// 0 for PM; else this tier of disks, or the next below it that has room.
    pub tier: u8,
    /// Copies of what goes to a disk are left in the page cache, if there is room without writing back.
    pub keep_cached: bool,
}

/// What came of a move, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Elsewhere now.
    pub blocks: u64,
    /// Copied in vain: somebody changed them meanwhile.
    pub overtaken: u64,
}

/// A piece of the stretch as it was looked up.
struct Piece {
    block: u64,
    extent: Extent,
    entry: WriteEntry,
    checksums: Checksums,
}

/// A copied block.
struct Copied<'a> {
    block: u64,
    data: &'a [u8],
    /// What the entry that it leaves says, if that keeps checksums.
    old_crc: Option<u32>,
}

impl Page for Copied<'_> {
    fn block(&self) -> u64 {
        self.block
    }

    fn data(&self) -> &[u8] {
        self.data
    }

    fn crc(&self) -> u32 {
        self.old_crc.filter(|_| planted(Bug::MoveCrcOfSource)).unwrap_or_else(|| data_crc(self.data))
    }
}

impl Volume {
    /// Moves a file's data to a tier, 0 for PM, while programs go on using it, as far as there is room: what is dirty goes to
    /// a disk first.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` for what has no data or a tier that there is not; `EIO` with the place; `EROFS`.
    pub fn move_file(&self, ino: Ino, tier: u8) -> FsResult<FileMoved> {
        self.move_range(ino, tier, 0, u64::MAX)
    }

    /// As [`Self::move_file`], of the blocks that hold `len` bytes from `offset` on. Who maps a part of a file from PM has it
    /// moved there first (TPFS, section 5.4).
    ///
    /// # Errors
    /// As [`Self::move_file`].
    pub fn move_range(&self, ino: Ino, tier: u8, offset: u64, len: u64) -> FsResult<FileMoved> {
        let core = &self.core;
        let inode = core.get(ino)?;
        core.check_tier(tier)?;
        inode.shared()?.file()?;
        let blocks = offset / BLOCK_BYTES..offset.saturating_add(len).div_ceil(BLOCK_BYTES);
        if inode.pages.has_dirty() {
            self.before_closing(|| core.flush_file(&inode))?;
        }
        let elsewhere = |_: u64, extent: &Extent, _: &WriteEntry| core.space.tier_of(extent.addr) != tier;
        let mut result = FileMoved::default();
        let mut from = blocks.start;
        while let Some(start) = inode.first_mapped(from, blocks.end)? {
            let stretch = start..start + STRETCH_BLOCKS.min(blocks.end - start);
            let stretches = std::slice::from_ref(&stretch);
            let order = Order { stretches, wanted: &elsewhere, tier, keep_cached: false };
            match self.before_closing(|| core.move_stretch(&inode, order)) {
                Ok(Moved { blocks, overtaken }) => {
                    core.counters.add(Counter::MigratedByHand, blocks * BLOCK_BYTES);
                    core.counters.add(Counter::MigrationsOvertaken, overtaken * BLOCK_BYTES);
                    result.moved_bytes += blocks * BLOCK_BYTES;
                }
                Err(error) if !error.is_no_room() => return Err(error),
                Err(_) => {}
            }
            from = stretch.end;
            result.left_bytes += core.count_blocks(&inode, start, from, &elsewhere)? * BLOCK_BYTES;
        }
        Ok(result)
    }

    /// A part of something that may take long: who closes the volume waits for this part, and the next one is refused.
    fn before_closing<T>(&self, part: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        let _not_closing = self.closing.read();
        self.core.mutate(part)
    }
}

impl Inode {
    /// The first block of `from..to` that is not in a hole.
    fn first_mapped(&self, from: u64, to: u64) -> FsResult<Option<u64>> {
        let inner = self.shared()?;
        Ok(inner.file()?.index.overlaps(from, to).next().map(|(start, _)| start.max(from)))
    }
}

impl Core {
    fn check_tier(&self, tier: u8) -> FsResult<()> {
        let last = self.space.tiers().last().unwrap_or(0);
        if tier <= last {
            return Ok(());
        }
        let message = format!("tier {tier}: the volume's tiers are 0 (PM) to {last}");
        Err(FsError::with_message(libc::EINVAL, message))
    }

    fn count_blocks(&self, inode: &Inode, from: u64, to: u64, wanted: Wanted<'_>) -> FsResult<u64> {
        let inner = inode.shared()?;
        let mut blocks = 0;
        for (start, extent) in inner.file()?.index.overlaps(from, to) {
            let entry = read_write_entry(&self.pm, extent.entry())?;
            let (a, b) = (start.max(from), (start + u64::from(extent.blocks)).min(to));
            blocks += if wanted(a, &extent, &entry) { b - a } else { 0 };
        }
        Ok(blocks)
    }

    /// Moves what is wanted of some stretches, all at once. Moves of one file wait for one another.
    ///
    /// # Errors
    /// `ENOSPC` where it was to go, `EIO` with the place that cannot be read or written, `ESTALE` if the file is gone:
    /// what has not moved stays where it is.
    pub fn move_stretch(&self, inode: &Arc<Inode>, order: Order<'_>) -> FsResult<Moved> {
        let _alone = inode.moving.lock();
        let (pieces, committed) = {
            let mut inner = inode.exclusive()?;
            let pieces = self.pieces(inode, &inner, order)?;
            if pieces.is_empty() {
                return Ok(Moved::default());
            }
            let (_, file) = inner.file_mut()?;
            let (first, last) = (&order.stretches[0], &order.stretches[order.stretches.len() - 1]);
            file.begin_move(first.start, last.end - first.start);
            (pieces, file.committed)
        };
        let moved = self.move_pieces(inode, order, &pieces, committed);
        inode.inner.write().file_mut()?.1.end_move();
        moved
    }

    /// Looks up what is wanted.
    fn pieces(&self, inode: &Inode, inner: &Inner, order: Order<'_>) -> FsResult<Vec<Piece>> {
        let file = inner.file()?;
        let overlaps = |s: &Range<u64>| {
            file.index.overlaps(s.start, s.end).map({
                let s = s.clone();
                move |found| (s.clone(), found)
            })
        };
        let mut pieces = Vec::new();
        for (stretch, (start, whole)) in order.stretches.iter().flat_map(overlaps) {
            let (a, b) = (start.max(stretch.start), (start + u64::from(whole.blocks)).min(stretch.end));
            let extent = whole.part(a - start, b - a);
            let entry = read_write_entry(&self.pm, extent.entry())?;
            // The newest version of a dirty block is on its way to a disk anyway.
            if (order.wanted)(a, &extent, &entry) && !self.cache.is_dirty(&inode.pages, a, b) {
                let checksums = self.checksums_of(&extent, &entry, a)?;
                pieces.push(Piece { block: a, extent, entry, checksums });
            }
        }
        Ok(pieces)
    }

    fn move_pieces(&self, inode: &Arc<Inode>, order: Order<'_>, pieces: &[Piece], committed: u64) -> FsResult<Moved> {
        let (reserved, written): (Vec<&Piece>, Vec<&Piece>) = pieces.iter().partition(|p| p.extent.unwritten());
        let blocks: u64 = written.iter().map(|p| u64::from(p.extent.blocks)).sum();
        let mut buf = AlignedBuf::new(blocks as usize * BLOCK);
        let mut copied = Vec::with_capacity(blocks as usize);
        let mut failed = Ok(());
        let mut rest = &mut buf[..];
        for piece in &written {
            let (data, others) = rest.split_at_mut(piece.extent.blocks as usize * BLOCK);
            rest = others;
            match self.copy_piece(piece, committed, data) {
                Ok(crcs) => copied.extend((0..).zip(data.chunks(BLOCK)).map(|(i, data)| {
                    let old_crc = crcs.get(i as usize).copied();
                    Copied { block: piece.block + i, data, old_crc }
                })),
                // What has been freed meanwhile need not be what it was.
                Err(_) if inode.shared()?.file()?.is_overtaken(piece.block, u64::from(piece.extent.blocks)) => {}
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        let mut moved = self.move_copied(inode, order, &written, &copied, committed)?;
        moved.blocks += self.move_reserved(inode, order, &reserved)?;
        failed.map(|()| moved)
    }

    /// Reads a piece as programs would, with zeros beyond the committed end of the file; returns its checksums, if it has any.
    fn copy_piece(&self, piece: &Piece, committed: u64, out: &mut [u8]) -> FsResult<Vec<u32>> {
        let addr = piece.extent.addr;
        let crcs = self.checksum_values(&piece.checksums, u64::from(piece.extent.blocks))?;
        if addr.is_pm() {
            let visible = committed.saturating_sub(piece.block * BLOCK_BYTES).min(out.len() as u64) as usize;
            self.pm.try_read(addr.byte(), &mut out[..visible])?;
            out[visible..].fill(0);
        } else {
            let read = self.disks[usize::from(addr.device()) - 1].read_at(addr.byte(), out);
            read.inspect_err(|e| self.disk_failed(addr.device(), e))?;
        }
        for (i, page) in (0..).zip(out.chunks_mut(BLOCK)) {
            let partly = addr.is_pm() && self.data_crc;
            let covered = if partly { covered_bytes(piece.block + i, piece.entry.size) } else { BLOCK };
            page[covered..].fill(0);
            self.verify(addr.offset(i), &piece.checksums, i, &page[..covered], &crcs)?;
        }
        Ok(crcs)
    }

    fn move_copied(
        &self,
        inode: &Arc<Inode>,
        order: Order<'_>,
        pieces: &[&Piece],
        copied: &[Copied<'_>],
        committed: u64,
    ) -> FsResult<Moved> {
        if copied.is_empty() {
            return Ok(Moved::default());
        }
        let placed = match order.tier {
            0 => self.store_in_pm(inode.shard, copied, committed),
            tier => self.write_to_tier(inode.shard, copied, tier)?,
        };
        let blanks = self.copies_to_keep(inode, order, copied);
        let mut inner = inode.inner.write();
        // A file that is gone has given back its blocks, and nothing is current any more.
        let gone = is_gone(inode);
        let file = inner.file()?;
        let is_current = |page: &Copied<'_>| !gone && file.is_current(page.block);
        let (mut runs, overtaken) = self.sift(&placed, |run| run.pages.iter().map(is_current).collect());
        let kept: Vec<_> = blanks.into_iter().filter(|(block, _)| !gone && file.is_current(*block)).collect();
        for run in &mut runs {
            describe(run, pieces);
        }
        let blocks = self.publish(inode, &mut inner, &runs)?;
        if order.tier == 0 {
            // Readers look there first: what PM holds is read from PM.
            runs.iter()
                .for_each(|run| self.cache.drop_clean(&inode.pages, run.file_block, run.file_block + run.blocks));
        }
        self.cache.publish_clean(&inode.pages, kept);
        Ok(Moved { blocks, overtaken: overtaken.len() as u64 })
    }

    /// Writes copies to disks of `tier`, or of the next below it that has room, durably.
    fn write_to_tier<'a>(
        &self,
        shard: usize,
        copied: &'a [Copied<'a>],
        tier: u8,
    ) -> FsResult<Vec<Placed<'a, Copied<'a>>>> {
        let blocks = copied.len() as u64;
        // What is promised to dirty pages is not to be had.
        if !self.space.reserve_disk(blocks) {
            return Err(FsError::new(libc::ENOSPC));
        }
        let placed = self.write_pages(copied, Target { shard, tier, is_move: true });
        self.space.unreserve_disk(blocks);
        placed
    }

    /// Copies for the page cache, if they are wanted there and need nobody's place but that of clean pages.
    fn copies_to_keep(&self, inode: &Inode, order: Order<'_>, copied: &[Copied<'_>]) -> Vec<(u64, BlankPage)> {
        let wanted = order.keep_cached && order.tier > 0;
        let blanks = wanted.then(|| self.cache.take(inode.shard, copied.len())).flatten().unwrap_or_default();
        let fill = |(mut blank, page): (BlankPage, &Copied<'_>)| {
            blank.as_mut_slice().copy_from_slice(page.data);
            (page.block, blank)
        };
        blanks.into_iter().zip(copied).map(fill).collect()
    }

    /// Moves blocks that are allocated and hold nothing.
    fn move_reserved(&self, inode: &Arc<Inode>, order: Order<'_>, pieces: &[&Piece]) -> FsResult<u64> {
        let holes: Vec<_> = pieces.iter().map(|p| (p.block, u64::from(p.extent.blocks))).collect();
        if holes.is_empty() {
            return Ok(0);
        }
        let found = self.take_runs_on(inode.shard, &holes, order.tier)?;
        let mut inner = inode.inner.write();
        let file = inner.file()?;
        let gone = is_gone(inode);
        let mut runs = Vec::new();
        for (file_block, addr, blocks) in found {
            if gone || file.is_overtaken(file_block, blocks) {
                self.space.free(addr, blocks);
                continue;
            }
            let mut run = DataRun { blocks, unwritten: true, ..DataRun::new(file_block, addr) };
            describe(&mut run, pieces);
            runs.push(run);
        }
        self.publish(inode, &mut inner, &runs)
    }

    /// Commits where data is now; returns how many blocks.
    fn publish(&self, inode: &Inode, inner: &mut Inner, runs: &[DataRun]) -> FsResult<u64> {
        if runs.is_empty() {
            return Ok(0);
        }
        let source = self.space.source(inode.shard, Purpose::Freeing);
        let (log, file) = inner.file_mut()?;
        file.commit_moved(log, self.io(&source), runs).inspect_err(|_| self.free_runs(runs))?;
        self.tidy(inode.shard, inner)?;
        Ok(runs.iter().map(|run| run.blocks).sum())
    }
}

fn is_gone(inode: &Inode) -> bool {
    inode.doomed.load(Ordering::Acquire) && !planted(Bug::MoveOfRemoved)
}

/// What the entry of a run has to say of the pieces that it is made of.
fn describe(run: &mut DataRun, pieces: &[&Piece]) {
    let end = run.file_block + run.blocks;
    let within = |p: &&&Piece| p.block < end && p.block + u64::from(p.extent.blocks) > run.file_block;
    let (mut counter, mut area, mut mtime) = (u8::MAX, 0, i64::MIN);
    for piece in pieces.iter().filter(within) {
        counter = counter.min(piece.extent.counter());
        area = area.max(piece.extent.area_blocks());
        mtime = mtime.max(piece.entry.mtime_ns);
    }
    run.history = WriteEntry::history(counter, area);
    run.mtime = Time(mtime);
}
