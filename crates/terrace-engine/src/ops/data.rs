//! File data: reading, truncating, seeking, copying, syncing. `write.rs` writes, `later.rs` reads
//! without waiting.

mod later;
pub(crate) mod write;

use terrace_layout::{BLOCK_BYTES, FILE_BYTES_MAX};
use terrace_store::error::{FsResult, fail};
use terrace_store::index::Segment;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, RwLockWriteGuard};

use crate::base::counters::{Counter, Counters};
use crate::base::options::OpenOptions;
use crate::base::patience;
use crate::base::types::{FileKind, Ino, KillPriv, Time, WriteOptions};
use crate::base::waits::WaitCause;
use crate::inode::activity::Activity;
use crate::inode::cache::PageCache;
use crate::inode::commits::Commits;
use crate::inode::dirty::DirtyFiles;
use crate::inode::health::Health;
use crate::inode::resident::{Inner, Inode, Meta};
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::pageio::PageIo;
use crate::tiering::placement::Placement;
use crate::tiering::room::Room;

/// What `copy_range` moves at a time.
pub(crate) const COPY_BYTES: usize = 1 << 20;

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
            let file = inner.file()?;
            file.index.prefetch(offset / BLOCK_BYTES);
            let len = file.size.saturating_sub(offset).min(buf.len() as u64) as usize;
            // Notes while the index is on its way to the processor.
            inode.reading.note(len, file.size);
            self.activity.shards[inode.shard].recent.note(inode.ino);
            if len > 0 {
                self.pages.read_range(&inode, &inner, offset, &mut buf[..len], sequential)?;
            }
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

    /// Clears set-id bits that a change of contents or owner must not leave.
    ///
    /// # Errors
    /// As [`Commits::commit`](crate::inode::commits::Commits::commit).
    pub fn kill_priv(&self, inode: &Inode, inner: &mut Inner, which: KillPriv) -> FsResult<()> {
        let Some(mode) = cleared_mode(inode, inner, which) else { return Ok(()) };
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
    /// As [`Self::read`] and [`Self::write`]; `EINVAL` for overlapping ranges. A program that waits
    /// no longer gets what has been copied until then.
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
            if done > 0 && patience::go_on().is_err() {
                break;
            }
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
    /// As [`PageIo::flush_file`].
    pub fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()> {
        let inode = self.inodes.get(ino)?;
        self.counters.add(Counter::Fsyncs, 1);
        if self.health.is_read_only() {
            return if inode.pages.has_dirty() { fail(libc::EIO) } else { Ok(()) };
        }
        self.inodes.mutate(|| {
            if inode.pages.has_dirty() && !planted(Bug::FsyncDoesNothing) {
                let _waiting = self.counters.waits.begin(WaitCause::Flush);
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
            if !data_only && inode.glance()?.meta.lazy {
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

/// The mode without set-id bits that a change must not leave; `None`: the inode has none of them.
fn cleared_mode(inode: &Inode, inner: &Inner, which: KillPriv) -> Option<u32> {
    let mode = inner.meta.mode;
    let cleared = match which {
        KillPriv::Nothing => mode,
        KillPriv::Member => without_set_id(mode),
        KillPriv::Stranger => mode & !0o6000,
    };
    (inode.kind != FileKind::Directory && cleared != mode).then_some(cleared)
}

/// A mode without set-user-id, and without set-group-id if the group may execute.
pub(crate) fn without_set_id(mode: u32) -> u32 {
    let clear = if mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
    mode & !clear
}
