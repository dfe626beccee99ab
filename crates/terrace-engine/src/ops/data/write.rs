//! Writing: into PM at once, or into the page cache.
//!
//! `terrace-policy` decides between the two. A write that touches dirty pages joins them in the
//! cache, so that one place at a time holds the newest version of a block.

use terrace_layout::{BLOCK_BYTES, FILE_BYTES_MAX};
use terrace_policy::{Rule, Target};
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::file::{BLOCK, Mark, PmWrite, WritePath, copy_edge, read_edges};
use terrace_store::index::Segment;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;
use terrace_store::sync::Arc;

use super::{Files, cleared_mode};
use crate::base::counters::Counter;
use crate::base::heritage::Effect;
use crate::base::patience;
use crate::base::speeds::WrittenTo;
use crate::base::types::{Ino, KillPriv, Time, WriteOptions};
use crate::base::waits::WaitCause;
use crate::inode::cache::BlankPage;
use crate::inode::resident::{Inner, Inode};
use crate::tiering::placement::{Choice, Write, history_of};

/// A longer write is committed in pieces of this size, each atomic.
pub const ATOMIC_WRITE_BYTES_MAX: usize = 4 << 20;

/// A write that asks for more than this has no room anywhere: each time others were faster.
const FLUSHES_MAX: u32 = 8;

/// What came of an attempt to write under the inode's lock.
enum Attempt {
    /// So many bytes of the piece are written.
    Done(usize),
    /// Needs this many blank pages of the cache, which must be had without the lock.
    NeedsPages(usize),
    /// Dirty pages must be written to their disk first. Either the end of the file was zeroed in
    /// the cache, and a larger size is committed only when its disk has those zeros. Or dirty pages
    /// keep the write out of PM, and the disks have no room for more.
    NeedsFlush,
}

/// A part of a write that is committed at once.
#[derive(Clone, Copy)]
struct Piece<'a> {
    offset: u64,
    data: &'a [u8],
    durable: bool,
    /// See [`Write::has_turn_past`]: the same however often it is tried.
    has_turn_past: bool,
}

impl Piece<'_> {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    /// The part of it that goes to the page cache at once.
    fn first(self, bytes_max: usize) -> Self {
        Self { data: &self.data[..self.data.len().min(bytes_max)], ..self }
    }
}

impl Files {
    /// Writes `data`; returns its length.
    ///
    /// # Errors
    /// `ENOSPC`, `EFBIG`, `EROFS`, `EIO`; `EINTR` if nothing is written; what was written in whole
    /// pieces before stays.
    pub fn write(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> FsResult<usize> {
        let inode = self.inodes.get(ino)?;
        let write = || self.write_all(&inode, offset, data, options);
        // Clearing set-id bits is an effect, which comes before the write.
        let which = options.kill_priv;
        let clears =
            which != KillPriv::Nothing && cleared_mode(&inode, &*inode.shared()?, which).is_some();
        if clears { patience::endure(write) } else { write() }
    }

    fn write_all(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> FsResult<usize> {
        self.room.operate(|| {
            let mut done = 0;
            while done < data.len() {
                let piece = &data[done..data.len().min(done + ATOMIC_WRITE_BYTES_MAX)];
                match self.write_piece(inode, offset + done as u64, piece, options) {
                    Err(error) if done == 0 || error.is_fatal() => return Err(error),
                    Err(_) => break,
                    Ok(len) => done += len,
                }
            }
            if (options.durable || self.options.durable) && inode.pages.has_dirty() {
                let _waiting = self.counters.waits.begin(WaitCause::Flush);
                patience::endure(|| self.pages.flush_file(inode))?;
            }
            Ok(done)
        })
    }

    /// Writes the front of `data`, which is committed at once; returns its length. In PM that is
    /// all of it, up to [`ATOMIC_WRITE_BYTES_MAX`]; in the page cache it is a writer's share at
    /// most.
    pub fn write_piece(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> FsResult<usize> {
        self.room.with_all_room(|| self.write_where_room_is(inode, offset, data, options))
    }

    fn write_where_room_is(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> FsResult<usize> {
        let (mut blanks, mut flushes) = (Vec::new(), 0);
        let durable = options.durable || self.options.durable;
        let blocks = (data.len() as u64).div_ceil(BLOCK_BYTES);
        let has_turn_past =
            inode.tiers.pin.get().is_none() && self.activity.takes_turn_past(blocks);
        loop {
            let old_size = planted(Bug::AppendAtOldSize)
                .then(|| inode.shared()?.file().map(|file| file.size))
                .transpose()?;
            let attempt = {
                let mut inner = inode.exclusive()?;
                let size = old_size.map_or_else(|| inner.file().map(|file| file.size), Ok)?;
                let offset = if options.append { size } else { offset };
                if options.append {
                    self.inodes.is_about_to(Effect::Appended(offset));
                }
                if offset.checked_add(data.len() as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
                    return fail(libc::EFBIG);
                }
                self.kill_priv(inode, &mut inner, options.kill_priv)?;
                let piece = Piece { offset, data, durable, has_turn_past };
                let attempt = self.write_locked(inode, &mut inner, piece, &mut blanks)?;
                if matches!(attempt, Attempt::Done(_)) {
                    self.commits.tidy(inode.shard, &mut inner)?;
                }
                attempt
            };
            match attempt {
                Attempt::Done(len) => return Ok(len),
                Attempt::NeedsPages(n) => blanks = self.pages.take_pages(inode.shard, n)?,
                Attempt::NeedsFlush if flushes < FLUSHES_MAX => {
                    self.pages.flush_file(inode)?;
                    flushes += 1;
                }
                Attempt::NeedsFlush => return fail(libc::ENOSPC),
            }
        }
    }

    fn write_locked(
        &self,
        inode: &Arc<Inode>,
        inner: &mut Inner,
        piece: Piece<'_>,
        blanks: &mut Vec<BlankPage>,
    ) -> FsResult<Attempt> {
        let Piece { offset, data, durable, has_turn_past } = piece;
        let end = piece.end();
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        inner.file()?.index.prefetch(from);
        let now = Time::now();
        // The predictor forgets all but the last two syncs, so it is told no more.
        for _ in 0..inode.tiers.take_syncs().min(2) {
            self.placement.note_synced(inner.file_mut()?.1);
        }
        self.placement.kin.meet(inner.file_mut()?.1);
        let uncover = self.tail_to_uncover(inode, inner, end, Some(from))?;
        let file = inner.file()?;
        // A commit to PM must not commit a size that only dirty pages have reached.
        let joins_dirty = file.size > file.committed || self.cache.is_dirty(&inode.pages, from, to);
        let pin = inode.tiers.pin.get();
        let write = Write { offset, end, durable, joins_dirty, pin, has_turn_past };
        let mut choice = self.placement.choose(file, write)?;
        if choice.target == Target::Pm {
            if let Some(tail) = uncover {
                if blanks.is_empty() {
                    return Ok(Attempt::NeedsPages(1));
                }
                self.uncover_tail(inode, inner, tail, blanks)?;
                return Ok(Attempt::NeedsFlush);
            }
            let mark = Mark { now, history: history_of(choice, write) };
            if self.write_pm(inode, inner, offset, data, mark)? {
                self.inodes.drop_pages(inode, from, to);
                self.counters.add(Counter::PmWrites, 1);
                self.counters.add(Counter::WrittenPm, data.len() as u64);
                self.written(inode, inner, write, choice, now)?;
                self.activity.note_data_in(inode, 0);
                self.activity.note_pm_use(inode.shard);
                return Ok(Attempt::Done(data.len()));
            }
            choice.rule = Rule::PmFull;
        }
        if !self.store.space.has_disks() {
            return fail(libc::ENOSPC);
        }
        let piece = piece.first(self.cache_share_bytes());
        let (end, len) = (piece.end(), piece.data.len());
        let to = end.div_ceil(BLOCK_BYTES);
        let write = Write { end, ..write };
        let need = (to - from) as usize + usize::from(uncover.is_some());
        if blanks.len() < need {
            return Ok(Attempt::NeedsPages(need));
        }
        if let Some(tail) = uncover {
            self.uncover_tail(inode, inner, tail, blanks)?;
        }
        let timed = self.counters.speeds.begin_write(len);
        let written = self.write_cache(inode, inner, piece, now, blanks);
        if let Some(begun) = timed.filter(|_| written.is_ok()) {
            self.counters.speeds.end_write(begun, len, WrittenTo::Cache);
        }
        if written.as_ref().is_err_and(FsError::is_no_room)
            && self.store.space.room_for_data() >= to - from
        {
            // PM has room that was left to others. Once nothing of the file is dirty, nothing keeps
            // this out of it.
            return Ok(Attempt::NeedsFlush);
        }
        written?;
        inner.file_mut()?.1.cached.note(from, to - from, choice.counter, choice.rule);
        self.counters.add(Counter::WrittenCache, len as u64);
        self.written(inode, inner, write, choice, now)?;
        Ok(Attempt::Done(len))
    }

    /// How much of a write may be in the page cache before the rest: a quarter of it, so that
    /// several writers get on with a small one.
    fn cache_share_bytes(&self) -> usize {
        (self.cache.budget_pages() / 4).max(1) as usize * BLOCK
    }

    /// A write is where it was to go.
    fn written(
        &self,
        inode: &Inode,
        inner: &mut Inner,
        write: Write,
        choice: Choice,
        now: Time,
    ) -> FsResult<()> {
        inner.meta.ctime = now;
        self.placement.learn_from(
            inode,
            inner.file_mut()?.1,
            write,
            choice,
            write.end - write.offset,
        );
        Ok(())
    }

    fn write_pm(
        &self,
        inode: &Inode,
        inner: &mut Inner,
        offset: u64,
        data: &[u8],
        mark: Mark,
    ) -> FsResult<bool> {
        let source = self.store.space.source(inode.shard, Purpose::Ordinary);
        let path =
            inner.file()?.write_path(offset, offset + data.len() as u64, self.store.data_crc);
        let (end, size) = (offset + data.len() as u64, inner.file()?.size);
        let edges = match path {
            WritePath::Copy => read_edges((offset, end), size, |block, out| {
                self.pages.read_block(inode, inner, block, out)
            })?,
            WritePath::Patch(_) | WritePath::Append(_) => [None, None],
        };
        let read_old = |block, out: &mut [u8; BLOCK]| {
            copy_edge(&edges, block, out);
            Ok(())
        };
        let (log, file) = inner.file_mut()?;
        let write = PmWrite { offset, data, mark, read_old: &read_old };
        let timed = self.counters.speeds.begin_write(data.len());
        let written = file.write(log, self.store.io(&source), path, &write)?;
        if let Some(begun) = timed.filter(|_| written) {
            self.counters.speeds.end_write(begun, data.len(), WrittenTo::Pm);
        }
        Ok(written)
    }

    fn write_cache(
        &self,
        inode: &Arc<Inode>,
        inner: &mut Inner,
        piece: Piece<'_>,
        now: Time,
        blanks: &mut Vec<BlankPage>,
    ) -> FsResult<()> {
        let (Piece { offset, data, .. }, end) = (piece, piece.end());
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        let mut pages = Vec::with_capacity((to - from) as usize);
        // In their order, in which adjacent blocks get adjacent memory.
        for (block, mut page) in (from..to).zip(blanks.drain(..)) {
            let start = block * BLOCK_BYTES;
            let (a, b) = (offset.max(start), end.min(start + BLOCK_BYTES));
            let new = &data[(a - offset) as usize..(b - offset) as usize];
            match new.try_into() {
                Ok(whole) => page.stream(whole),
                Err(_) => {
                    let bytes: &mut [u8; BLOCK] = &mut page;
                    self.pages.read_block(inode, inner, block, bytes)?;
                    bytes[(a - start) as usize..(b - start) as usize].copy_from_slice(new);
                }
            }
            pages.push((block, page));
        }
        let (_, file) = inner.file_mut()?;
        let size = file.size.max(end);
        self.publish_dirty(inode, pages, size, now)?;
        file.size = size;
        file.mtime = now;
        Ok(())
    }

    /// Publishes dirty pages and promises them disk space. The caller holds the inode exclusively.
    pub(super) fn publish_dirty(
        &self,
        inode: &Arc<Inode>,
        pages: Vec<(u64, BlankPage)>,
        size: u64,
        now: Time,
    ) -> FsResult<()> {
        let before = inode.pages.dirty_pages();
        let promised = pages.len() as u64;
        if !self.store.space.reserve_disk(promised) {
            return fail(libc::ENOSPC);
        }
        self.cache.publish_dirty(&inode.pages, pages, size, now.0);
        self.store.space.unreserve_disk(promised - (inode.pages.dirty_pages() - before));
        self.dirty.note_dirty(inode);
        Ok(())
    }

    /// The block whose end an extension to `end` uncovers, if something outside PM holds it and
    /// that end is not zero and on its disk: it must be so first. `from`: first block of the write,
    /// which takes care of itself.
    pub(super) fn tail_to_uncover(
        &self,
        inode: &Inode,
        inner: &Inner,
        end: u64,
        from: Option<u64>,
    ) -> FsResult<Option<u64>> {
        let file = inner.file()?;
        let (tail, kept) = (file.size / BLOCK_BYTES, (file.size % BLOCK_BYTES) as usize);
        if end <= file.size || kept == 0 || from.is_some_and(|from| from <= tail) {
            return Ok(None);
        }
        let cached = self.cache.first_cached(&inode.pages, tail, tail + 1).is_some();
        let on_disk = match file.index.lookup(tail) {
            Segment::Extent(e) => !e.addr.is_pm() && !e.unwritten(),
            _ => false,
        };
        if !cached && !on_disk {
            return Ok(None);
        }
        let dirty = self.cache.is_dirty(&inode.pages, tail, tail + 1);
        let mut page = [0u8; BLOCK];
        self.pages.read_range(inode, inner, tail * BLOCK_BYTES, &mut page, false)?;
        let clear = !dirty && page[kept..].iter().all(|&b| b == 0);
        Ok((!clear).then_some(tail))
    }

    /// Zeroes the part of block `tail` that lies beyond the end of the file, in the page cache.
    pub(super) fn uncover_tail(
        &self,
        inode: &Arc<Inode>,
        inner: &Inner,
        tail: u64,
        blanks: &mut Vec<BlankPage>,
    ) -> FsResult<()> {
        let mut page = blanks.pop().expect("counted before");
        let bytes: &mut [u8; BLOCK] = page.as_mut_slice().try_into().expect("a page");
        self.pages.read_block(inode, inner, tail, bytes)?;
        let file = inner.file()?;
        // Nobody has written it.
        self.publish_dirty(inode, vec![(tail, page)], file.size, file.mtime.min(inner.meta.ctime))
    }
}
