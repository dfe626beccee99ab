//! File data operations: where a write goes, and the commits of truncate, fallocate and copy.
//!
//! `terrace-policy` decides between PM and the page cache. A write that touches dirty pages joins
//! them in the cache, so that one place at a time holds the newest version of a block.

use terrace_layout::{BLOCK_BYTES, FILE_BYTES_MAX};
use terrace_policy::Target;
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::file::{BLOCK, Mark, PmWrite, WritePath};
use terrace_store::index::Segment;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, RwLockWriteGuard};

use crate::base::counters::{Counter, Counters};
use crate::base::options::OpenOptions;
use crate::base::types::{FileKind, Ino, KillPriv, Time, WriteOptions};
use crate::inode::activity::Activity;
use crate::inode::cache::{BlankPage, PageCache};
use crate::inode::commits::Commits;
use crate::inode::dirty::DirtyFiles;
use crate::inode::health::Health;
use crate::inode::resident::{Inner, Inode, Meta};
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::pageio::PageIo;
use crate::tiering::placement::{Choice, Placement, Write, history_of};
use crate::tiering::room::Room;

/// A longer write is committed in pieces of this size, each atomic.
pub const ATOMIC_WRITE_BYTES_MAX: usize = 4 << 20;
/// What `copy_range` moves at a time.
pub(crate) const COPY_BYTES: usize = 1 << 20;

/// A block that a write covers in part, as it was: file block, contents.
type Edge = (u64, Box<[u8; BLOCK]>);

/// A write that asks for more than this has no room anywhere: each time others were faster.
const FLUSHES_MAX: u32 = 8;

/// What came of an attempt to write under the inode's lock.
enum Attempt {
    Done,
    /// Needs this many blank pages of the cache, which must be had without the lock.
    NeedsPages(usize),
    /// What is dirty must be on its disk first: the end of the file was zeroed in the cache, and
    /// must be so on its disk before a larger size is committed; or it keeps the write out of PM,
    /// and the disks have no room for more.
    NeedsFlush,
}

/// Reads and writes of files.
#[derive(Debug)]
pub(crate) struct Files {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub cache: Arc<PageCache>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub dirty: Arc<DirtyFiles>,
    pub inodes: Arc<Inodes>,
    pub pages: Arc<PageIo>,
    pub placement: Arc<Placement>,
    pub room: Arc<Room>,
    pub counters: Arc<Counters>,
    pub options: Arc<OpenOptions>,
}

/// A part of a write that is committed at once.
#[derive(Clone, Copy)]
struct Piece<'a> {
    offset: u64,
    data: &'a [u8],
    durable: bool,
}

impl Piece<'_> {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

impl Files {
    /// Reads up to `buf.len()` bytes; fewer at the end of the file.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL` for what has no data; `EIO` with the place.
    pub fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        let inode = self.inodes.get(ino)?;
        let sequential = inode.reading.note_end(offset, buf.len());
        let (len, stale_atime) = {
            let inner = inode.shared()?;
            let size = inner.file()?.size;
            let len = size.saturating_sub(offset).min(buf.len() as u64) as usize;
            if len > 0 {
                self.pages.read_range(&inode, &inner, offset, &mut buf[..len], sequential)?;
            }
            inode.reading.note(len, size);
            self.activity.shards[inode.shard].recent.note(inode.ino);
            (len, self.inodes.wants_atime(&inner))
        };
        self.activity.note_traffic();
        if stale_atime {
            let mut inner = inode.exclusive()?;
            inner.meta.atime = Time::now();
            inner.meta.lazy = true;
        }
        Ok(len)
    }

    /// Writes `data`; returns its length.
    ///
    /// # Errors
    /// `ENOSPC`, `EFBIG`, `EROFS`, `EIO`; what was written in whole pieces before stays.
    pub fn write(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> FsResult<usize> {
        let inode = self.inodes.get(ino)?;
        self.room.operate(|| {
            let mut done = 0;
            // A quarter of the page cache at a time, so that several writers get on with a small
            // one.
            let cache_share = (self.cache.budget_pages() / 4).max(1) as usize * BLOCK;
            for piece in data.chunks(ATOMIC_WRITE_BYTES_MAX.min(cache_share)) {
                match self.write_piece(&inode, offset + done as u64, piece, options) {
                    Err(error) if done == 0 || error.is_fatal() => return Err(error),
                    Err(_) => break,
                    Ok(()) => done += piece.len(),
                }
            }
            if (options.durable || self.options.durable) && inode.pages.has_dirty() {
                self.pages.flush_file(&inode)?;
            }
            Ok(done)
        })
    }

    pub fn write_piece(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> FsResult<()> {
        self.room.with_all_room(|| self.write_where_room_is(inode, offset, data, options))
    }

    fn write_where_room_is(
        &self,
        inode: &Arc<Inode>,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> FsResult<()> {
        let (mut blanks, mut flushes) = (Vec::new(), 0);
        let durable = options.durable || self.options.durable;
        loop {
            let old_size = planted(Bug::AppendAtOldSize)
                .then(|| inode.shared()?.file().map(|file| file.size))
                .transpose()?;
            let attempt = {
                let mut inner = inode.exclusive()?;
                let size = old_size.map_or_else(|| inner.file().map(|file| file.size), Ok)?;
                let offset = if options.append { size } else { offset };
                if offset.checked_add(data.len() as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
                    return fail(libc::EFBIG);
                }
                self.kill_priv(inode, &mut inner, options.kill_priv)?;
                let piece = Piece { offset, data, durable };
                let attempt = self.write_locked(inode, &mut inner, piece, &mut blanks)?;
                if matches!(attempt, Attempt::Done) {
                    self.commits.tidy(inode.shard, &mut inner)?;
                }
                attempt
            };
            match attempt {
                Attempt::Done => return Ok(()),
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
        let Piece { offset, data, durable } = piece;
        let end = piece.end();
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        inner.file()?.index.prefetch(from);
        let now = Time::now();
        // More than two say no more than two do.
        for _ in 0..inode.tiers.take_syncs().min(2) {
            self.placement.note_synced(inner.file_mut()?.1);
        }
        let uncover = self.tail_to_uncover(inode, inner, end, Some(from))?;
        let file = inner.file()?;
        // A commit to PM must not commit a size that only dirty pages have reached.
        let joins_dirty = file.size > file.committed || self.cache.is_dirty(&inode.pages, from, to);
        let write = Write { offset, end, durable, joins_dirty, pin: inode.tiers.pin.get() };
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
                self.activity.note_data_in(inode, 0, inner.file()?.heat.mean());
                self.activity.note_pm_use(inode.shard);
                return Ok(Attempt::Done);
            }
            choice.reason = Counter::PlacedPmFull;
        }
        if !self.store.space.has_disks() {
            return fail(libc::ENOSPC);
        }
        let need = (to - from) as usize + usize::from(uncover.is_some());
        if blanks.len() < need {
            return Ok(Attempt::NeedsPages(need));
        }
        if let Some(tail) = uncover {
            self.uncover_tail(inode, inner, tail, blanks)?;
        }
        let written = self.write_cache(inode, inner, piece, now, blanks);
        if written.as_ref().is_err_and(FsError::is_no_room)
            && self.store.space.room_for_data() >= to - from
        {
            // PM has room that was left to others. Once nothing of the file is dirty, nothing keeps
            // this out of it.
            return Ok(Attempt::NeedsFlush);
        }
        written?;
        inner.file_mut()?.1.cached.note(from, to - from, choice.counter);
        self.counters.add(Counter::WrittenCache, data.len() as u64);
        self.written(inode, inner, write, choice, now)?;
        Ok(Attempt::Done)
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
        let edges = match path {
            WritePath::Copy => self.read_edges(inode, inner, offset, data.len() as u64)?,
            WritePath::Patch(_) | WritePath::Append(_) => [None, None],
        };
        let read_old = |block, out: &mut [u8; BLOCK]| {
            let (_, page) =
                edges.iter().flatten().find(|(b, _)| *b == block).expect("only edges are merged");
            out.copy_from_slice(&page[..]);
            Ok(())
        };
        let (log, file) = inner.file_mut()?;
        let write = PmWrite { offset, data, mark, read_old: &read_old };
        file.write(log, self.store.io(&source), path, &write)
    }

    /// The first and the last block of a write as they are, where the write covers them in part.
    fn read_edges(
        &self,
        inode: &Inode,
        inner: &Inner,
        offset: u64,
        len: u64,
    ) -> FsResult<[Option<Edge>; 2]> {
        let end = offset + len;
        let size = inner.file()?.size;
        let read = |block: u64| -> FsResult<Option<Edge>> {
            let mut page = Box::new([0u8; BLOCK]);
            self.pages.read_block(inode, inner, block, &mut page)?;
            Ok(Some((block, page)))
        };
        let mut edges = [None, None];
        let (first, last) = (offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
        if !offset.is_multiple_of(BLOCK_BYTES) {
            edges[0] = read(first)?;
        }
        if !end.is_multiple_of(BLOCK_BYTES) && end < size && (last != first || edges[0].is_none()) {
            edges[1] = read(last)?;
        }
        Ok(edges)
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
            let bytes: &mut [u8; BLOCK] = page.as_mut_slice().try_into().expect("a page");
            if b - a < BLOCK_BYTES {
                self.pages.read_block(inode, inner, block, bytes)?;
            }
            bytes[(a - start) as usize..(b - start) as usize]
                .copy_from_slice(&data[(a - offset) as usize..(b - offset) as usize]);
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
    fn publish_dirty(
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
    fn tail_to_uncover(
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
    fn uncover_tail(
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

    /// Clears set-id bits that a change of contents or owner must not leave.
    ///
    /// # Errors
    /// As [`Core::commit`].
    pub fn kill_priv(&self, inode: &Inode, inner: &mut Inner, which: KillPriv) -> FsResult<()> {
        let mode = match which {
            KillPriv::Nothing => return Ok(()),
            KillPriv::Member => without_set_id(inner.meta.mode),
            KillPriv::Stranger => inner.meta.mode & !0o6000,
        };
        if inode.kind == FileKind::Directory || mode == inner.meta.mode {
            return Ok(());
        }
        let meta = Meta { mode, ctime: Time::now(), ..inner.meta };
        let mtime = inner.mtime();
        inner.log.begin();
        let index = inner.push_attr(&meta, mtime);
        self.commits.commit(inode.shard, Purpose::Ordinary, &mut [&mut inner.log])?;
        inner.attr_committed(&meta, mtime, index);
        Ok(())
    }

    /// Whether dirty pages have taken the file beyond what its log has committed: then they go to
    /// disk before anything else commits its size.
    fn is_ahead_of_log(&self, inner: &Inner) -> FsResult<bool> {
        let file = inner.file()?;
        Ok(file.size > file.committed)
    }

    /// The inode, exclusively, when no dirty page of `from..to` and no size is ahead of the log,
    /// and such that a commit may extend the file to `grown`.
    pub fn exclusive_settled<'a>(
        &self,
        inode: &'a Arc<Inode>,
        from: u64,
        to: u64,
        grown: u64,
    ) -> FsResult<RwLockWriteGuard<'a, Inner>> {
        loop {
            let inner = self.exclusive_to_resize(inode, grown)?;
            let dirty = self.cache.is_dirty(&inode.pages, from, to);
            if !dirty && !self.is_ahead_of_log(&inner)? {
                return Ok(inner);
            }
            drop(inner);
            self.pages.flush_file(inode)?;
        }
    }

    /// Truncates or extends a file.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn truncate(&self, inode: &Arc<Inode>, size: u64) -> FsResult<()> {
        if size > FILE_BYTES_MAX {
            return fail(libc::EFBIG);
        }
        let mut inner = self.exclusive_to_resize(inode, size)?;
        self.truncate_locked(inode, &mut inner, size)?;
        self.commits.tidy(inode.shard, &mut inner)
    }

    /// The inode, exclusively, such that a commit may set this size: what lies beyond the present
    /// end is zeros, and the log knows of it.
    fn exclusive_to_resize<'a>(
        &self,
        inode: &'a Arc<Inode>,
        size: u64,
    ) -> FsResult<RwLockWriteGuard<'a, Inner>> {
        let mut blanks = Vec::new();
        loop {
            let inner = inode.exclusive()?;
            if let Some(tail) = self.tail_to_uncover(inode, &inner, size, None)? {
                if blanks.is_empty() {
                    drop(inner);
                    blanks = self.pages.take_pages(inode.shard, 1)?;
                    continue;
                }
                self.uncover_tail(inode, &inner, tail, &mut blanks)?;
            } else if size <= inner.file()?.committed || !self.is_ahead_of_log(&inner)? {
                return Ok(inner);
            }
            drop(inner);
            self.pages.flush_file(inode)?;
        }
    }

    fn truncate_locked(&self, inode: &Arc<Inode>, inner: &mut Inner, size: u64) -> FsResult<()> {
        let now = Time::now();
        let old_size = inner.file()?.size;
        let purpose = if size <= old_size { Purpose::Freeing } else { Purpose::Ordinary };
        let source = self.store.space.source(inode.shard, purpose);
        let (log, file) = inner.file_mut()?;
        file.set_size(log, self.store.io(&source), size, now, || {
            if size < old_size {
                // Before the commit: should the daemon die then, pages beyond the new size must not
                // come back to life.
                self.inodes.drop_pages(inode, size.div_ceil(BLOCK_BYTES), u64::MAX);
                self.cache.clamp_sizes(&inode.pages, size);
            }
        })?;
        inner.meta.ctime = now;
        inode.truncated.store(size == 0 && old_size > 0, Ordering::Relaxed);
        Ok(())
    }

    /// The first byte at or after `offset` that is data (`data`) or hole; the end of the file is a
    /// hole.
    ///
    /// # Errors
    /// `ENXIO` if there is none.
    pub fn seek(&self, ino: Ino, offset: u64, data: bool) -> FsResult<u64> {
        let inode = self.inodes.get(ino)?;
        let inner = inode.shared()?;
        let file = inner.file()?;
        if offset >= file.size {
            return fail(libc::ENXIO);
        }
        let last = file.size.div_ceil(BLOCK_BYTES);
        let mut block = offset / BLOCK_BYTES;
        while block < last {
            let (is_data, blocks) = match file.index.lookup(block) {
                Segment::Extent(e) => (!e.unwritten(), u64::from(e.blocks)),
                Segment::Hole(n) => (false, n),
            };
            let end = block.saturating_add(blocks).min(last);
            if is_data {
                if data {
                    return Ok(offset.max(block * BLOCK_BYTES));
                }
                block = end;
                continue;
            }
            // A hole on media may hold dirty pages.
            let dirty = if inode.pages.has_dirty() {
                self.cache.dirty_blocks(&inode.pages, block, end)
            } else {
                Vec::new()
            };
            match (data, dirty.first()) {
                (true, Some(&first)) => return Ok(offset.max(first * BLOCK_BYTES)),
                (true, None) => block = end,
                (false, Some(&first)) if first == block => block += 1,
                (false, _) => return Ok(offset.max(block * BLOCK_BYTES)),
            }
        }
        if data { fail(libc::ENXIO) } else { Ok(file.size) }
    }

    /// Copies bytes between files (or within one, where the ranges do not overlap).
    ///
    /// # Errors
    /// As [`Self::read`] and [`Self::write`]; `EINVAL` for overlapping ranges.
    pub fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> FsResult<u64> {
        let overlap = from == to
            && from_offset < to_offset.saturating_add(len)
            && to_offset < from_offset.saturating_add(len);
        if overlap {
            return fail(libc::EINVAL);
        }
        // A copy behind the end of the same file must not find what it has just written.
        let source_size = self.inodes.get(from)?.shared()?.file()?.size;
        let len = len.min(source_size.saturating_sub(from_offset));
        let mut buf = vec![0u8; COPY_BYTES.min(len as usize)];
        let mut done = 0;
        while done < len {
            let want = buf.len().min((len - done) as usize);
            let n = match self.read(from, from_offset + done, &mut buf[..want]) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            };
            match self.write(to, to_offset + done, &buf[..n], WriteOptions::default()) {
                Ok(n) => done += n as u64,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Makes everything of a file durable.
    ///
    /// # Errors
    /// As [`Core::flush_file`].
    pub fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()> {
        let inode = self.inodes.get(ino)?;
        self.counters.add(Counter::Fsyncs, 1);
        if self.health.is_read_only() {
            return if inode.pages.has_dirty() { fail(libc::EIO) } else { Ok(()) };
        }
        self.inodes.mutate(|| {
            if inode.pages.has_dirty() && !planted(Bug::FsyncDoesNothing) {
                self.pages.flush_file(&inode)?;
            }
            // An fsync that has nothing to do waits for nobody: else the next write tells the
            // predictor.
            match inode.inner.try_write() {
                Some(mut inner) => inner
                    .file_mut()
                    .map(|(_, file)| self.placement.note_synced(file))
                    .unwrap_or_default(),
                None => inode.tiers.note_sync(),
            }
            if !data_only && inode.shared()?.meta.lazy {
                let mut inner = inode.exclusive()?;
                self.commits.commit_lazy_if_room(&inode, &mut inner)?;
            }
            Ok(())
        })
    }

    /// Adopts a dirty page that an earlier daemon left behind.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    pub fn adopt_page(
        &self,
        inode: &Arc<Inode>,
        page: &crate::inode::cache::RecoveredPage,
    ) -> FsResult<()> {
        if page.block * BLOCK_BYTES >= page.size || inode.kind != FileKind::Regular {
            return Ok(());
        }
        let mut blank = self.pages.take_pages(inode.shard, 1)?;
        if self.store.space.disk_available() < 64 {
            // Pages adopted so far may be on disk already: writing them back frees what they
            // replace.
            self.pages.flush_all()?;
        }
        let mut blank = blank.pop().expect("one was asked for");
        blank.as_mut_slice().copy_from_slice(page.data());
        let mut inner = inode.exclusive()?;
        // A change of attributes since then may have set another time; of two in one tick of the
        // clock it counts, too.
        let written = Time(page.mtime_ns);
        let is_later = written > inner.meta.ctime;
        let (_, file) = inner.file_mut()?;
        let size = file.size.max(page.size);
        self.publish_dirty(inode, vec![(page.block, blank)], size, written)?;
        file.size = size;
        if is_later {
            file.mtime = written;
            inner.meta.ctime = written;
        }
        Ok(())
    }
}

/// A mode without set-user-id, and without set-group-id if the group may execute.
pub(crate) fn without_set_id(mode: u32) -> u32 {
    let clear = if mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
    mode & !clear
}
