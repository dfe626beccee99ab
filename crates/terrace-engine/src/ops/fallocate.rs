//! Reserving blocks, zeroing ranges, making holes.

use std::ops::Range;

use terrace_layout::{BLOCK_BYTES, BlockAddr, FILE_BYTES_MAX};
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::file::{BLOCK, Hole};
use terrace_store::index::Segment;
use terrace_store::space::{BlockSource, Purpose, Tiers};
use terrace_store::sync::Arc;

use crate::base::patience;
use crate::base::types::{Fallocate, FileKind, Ino, Time, WriteOptions};
use crate::inode::resident::{Inner, Inode};
use crate::ops::data::Files;

impl Files {
    /// `fallocate`.
    ///
    /// # Errors
    /// `EINVAL` for an empty range, `ENODEV` for what is no file, else as [`Self::write`].
    pub fn fallocate(&self, ino: Ino, mode: Fallocate, offset: u64, len: u64) -> FsResult<()> {
        let inode = self.inodes.get(ino)?;
        if inode.kind != FileKind::Regular {
            return fail(if inode.kind == FileKind::Directory {
                libc::EISDIR
            } else {
                libc::ENODEV
            });
        }
        let Some(end) = offset.checked_add(len).filter(|_| len > 0) else {
            return fail(if len == 0 { libc::EINVAL } else { libc::EFBIG });
        };
        if end > FILE_BYTES_MAX {
            return fail(libc::EFBIG);
        }
        self.room.operate(|| {
            match mode {
                Fallocate::Allocate | Fallocate::AllocateKeepSize => {
                    let grow = mode == Fallocate::Allocate;
                    self.room.with_all_room(|| self.allocate(&inode, offset, end, grow))?;
                }
                Fallocate::PunchHole => self.zero(&inode, offset, end, false, false)?,
                Fallocate::ZeroRange => self.zero(&inode, offset, end, true, true)?,
                Fallocate::ZeroRangeKeepSize => self.zero(&inode, offset, end, false, true)?,
            }
            // The zeros at the edges of a range may have gone to the page cache.
            if self.options.durable && inode.pages.has_dirty() {
                patience::endure(|| self.pages.flush_file(&inode))?;
            }
            Ok(())
        })
    }

    fn allocate(&self, inode: &Arc<Inode>, offset: u64, end: u64, grow: bool) -> FsResult<()> {
        let grown = if grow { end } else { 0 };
        let mut inner = self.exclusive_settled(inode, 0, 0, grown)?;
        let mut at = offset / BLOCK_BYTES;
        let to = end.div_ceil(BLOCK_BYTES);
        let mut holes = Vec::new();
        while at < to {
            match inner.file()?.index.lookup(at) {
                Segment::Hole(n) => {
                    let n = n.min(to - at);
                    holes.push((at, n));
                    at += n;
                }
                Segment::Extent(e) => at += u64::from(e.blocks),
            }
        }
        let runs = self.take_runs(inode, &holes)?;
        let now = Time::now();
        let source = self.store.space.source(inode.shard, Purpose::Ordinary);
        let (log, file) = inner.file_mut()?;
        let size = file.size.max(grown);
        if let Err(error) = file.reserve(log, self.store.io(&source), &runs, size, now) {
            self.pages.give_back(&runs);
            return Err(error);
        }
        inner.meta.ctime = now;
        self.note_reserved(inode, &inner, &runs)?;
        self.commits.tidy(inode.shard, &mut inner)
    }

    /// The file has got these runs.
    fn note_reserved(
        &self,
        inode: &Inode,
        inner: &Inner,
        runs: &[(u64, BlockAddr, u64)],
    ) -> FsResult<()> {
        self.placement.kin.rank(&inode.tiers, inner.file()?, inner.meta.ctime);
        runs.iter().for_each(|&(_, addr, _)| {
            self.activity.note_data_in(inode, self.store.space.tier_of(addr))
        });
        Ok(())
    }

    /// Blocks for all `holes` (file block, blocks): where the file is pinned, as long as disks have
    /// room; else where a write of so many would go; and wherever there are any, where neither PM
    /// nor the disks have enough.
    fn take_runs(
        &self,
        inode: &Inode,
        holes: &[(u64, u64)],
    ) -> FsResult<Vec<(u64, BlockAddr, u64)>> {
        let need: u64 = holes.iter().map(|h| h.1).sum();
        if let Some(tier) = inode.tiers.pin.get().filter(|&tier| tier > 0) {
            let runs = self.pages.take_runs_on(inode.shard, holes, Tiers::from(tier));
            let runs =
                runs.or_else(|_| self.pages.take_runs_on(inode.shard, holes, Tiers::from(1)));
            if !runs.as_ref().is_err_and(FsError::is_no_room) {
                return runs;
            }
        }
        let in_pm = self.placement.pm_takes(need, inode.tiers.pin.get())?;
        let runs =
            self.pages.take_runs_on(inode.shard, holes, Tiers::from(if in_pm { 0 } else { 1 }));
        if runs.as_ref().is_err_and(FsError::is_no_room) {
            self.take_runs_anywhere(inode.shard, holes)
        } else {
            runs
        }
    }

    /// Blocks for all `holes`: in PM as many as it has for data, the rest on disks.
    fn take_runs_anywhere(
        &self,
        shard: usize,
        holes: &[(u64, u64)],
    ) -> FsResult<Vec<(u64, BlockAddr, u64)>> {
        let source = self.store.space.source(shard, Purpose::Ordinary);
        let (mut runs, mut rest) = (Vec::new(), Vec::new());
        for &(mut start, mut blocks) in holes {
            while blocks > 0
                && let Some(run) = source.alloc_data(blocks)
            {
                runs.push((start, BlockAddr::pm(run.start), run.len));
                (start, blocks) = (start + run.len, blocks - run.len);
            }
            rest.extend((blocks > 0).then_some((start, blocks)));
        }
        let on_disks = self
            .pages
            .take_runs_on(shard, &rest, Tiers::from(1))
            .inspect_err(|_| self.pages.give_back(&runs))?;
        runs.extend(on_disks);
        Ok(runs)
    }

    /// Zeroes a range: whole blocks become a hole (or reserved, if `reserve`), the edges are
    /// written.
    fn zero(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        end: u64,
        grow: bool,
        reserve: bool,
    ) -> FsResult<()> {
        // Room comes first: without it nothing changes.
        let (from, to) = (offset.div_ceil(BLOCK_BYTES), end / BLOCK_BYTES);
        let runs = match reserve && from < to {
            true => self.room.with_all_room(|| self.take_runs(inode, &[(from, to - from)]))?,
            false => Vec::new(),
        };
        let zeroed = patience::endure(|| {
            let begun = self.zero_edges(inode, offset, end)?;
            let grown = if grow { end } else { 0 };
            self.deallocate(inode, from..to.max(from), &runs, grown, begun)
        });
        zeroed.inspect_err(|_| self.pages.give_back(&runs))
    }

    /// Writes zeros to those parts of `offset..end` that are no whole blocks; whether there were
    /// any. Beyond the end of the file there are zeros anyway.
    fn zero_edges(&self, inode: &Arc<Inode>, offset: u64, end: u64) -> FsResult<bool> {
        let visible_end = end.min(inode.shared()?.file()?.size);
        let (from, to) = (offset.div_ceil(BLOCK_BYTES), end / BLOCK_BYTES);
        let zeros = [0u8; BLOCK];
        let write_zeros = |a: u64, b: u64| -> FsResult<bool> {
            let n = b.min(visible_end).saturating_sub(a) as usize;
            if n > 0 {
                self.write_piece(inode, a, &zeros[..n], WriteOptions::default())?;
            }
            Ok(n > 0)
        };
        if from > to {
            return write_zeros(offset, end);
        }
        let first = write_zeros(offset, (from * BLOCK_BYTES).min(end))?;
        let last = to * BLOCK_BYTES >= offset && write_zeros((to * BLOCK_BYTES).max(offset), end)?;
        Ok(first || last)
    }

    /// Makes blocks a hole, or, with `runs` for all of them, reserved; the file is at least `grown`
    /// bytes long then. `begun`: a part of the operation is done, so this must not fail for want of
    /// a log page.
    fn deallocate(
        &self,
        inode: &Arc<Inode>,
        blocks: Range<u64>,
        runs: &[(u64, BlockAddr, u64)],
        grown: u64,
        begun: bool,
    ) -> FsResult<()> {
        let Range { start: from, end: to } = blocks;
        let mut inner = self.exclusive_settled(inode, from, to, grown)?;
        let now = Time::now();
        let takes_room = !runs.is_empty() || grown > inner.file()?.size;
        let purpose = match (takes_room, begun) {
            (false, _) => Purpose::Freeing,
            (true, true) => Purpose::Writeback,
            (true, false) => Purpose::Ordinary,
        };
        let source = self.store.space.source(inode.shard, purpose);
        let (log, file) = inner.file_mut()?;
        let size = file.size.max(grown);
        if from == to {
            // Only the times, and perhaps the size.
            file.reserve(log, self.store.io(&source), &[], size, now)?;
        } else {
            let hole = Hole { blocks: from..to, reserve: runs, size, now };
            file.deallocate(log, self.store.io(&source), hole)?;
            self.inodes.drop_pages(inode, from, to);
        }
        self.note_reserved(inode, &inner, runs)?;
        inner.meta.ctime = now;
        self.commits.tidy(inode.shard, &mut inner)
    }
}
