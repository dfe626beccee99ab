//! The DRAM page cache of data that belongs on a disk tier: clean copies, and dirty pages on their
//! way there.
//!
//! A page is 4 KiB of one file and lives in one *slot*; the number of slots is the budget. A slot
//! is immutable once its page is published: overwriting a page publishes a new slot and frees the
//! old one, so that writeback can send a pinned slot to a disk while newer data is written.
//!
//! The slots' memory can be a file that outlives the daemon (`slots`); dirty pages in it survive
//! the daemon's death (`recovery`). Where a file system has no room for such a file, a few slots in
//! the daemon's own memory serve, and the volume leaves nothing dirty in them that a program takes
//! for written ([`PageCache::dies_with_daemon`]).
//!
//! Invariants:
//! * A block of a file is in its [`PageMap`] at most once, clean or dirty.
//! * A published dirty page is in the file, marked dirty, until a newer version is published whole,
//!   or it is on its device ([`PageCache::mark_clean`]), or it is dropped.
//! * The pages of one [`PageCache::publish_dirty`] are recovered all or none: until the last one is
//!   stored, the header announces the publication; only then the versions they replace are freed.
//!
//! Locks: a caller's, then one map's, then the pool's, which are leaves (see `pool`). Nothing here
//! calls out, and no two maps are locked at a time.
//!
//! The cache knows nothing of devices: that a clean page is what its device holds is the caller's
//! promise, so a page fetched from a disk must be published under the same lock of the file that
//! keeps its extents from changing.

mod held;
mod pages;
mod pool;
mod recovery;
mod slots;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

pub(crate) use held::{BlankPage, DirtyPage};
use pages::{Kind, Pages};
use pool::{Eviction, Pool};
pub use recovery::discard_page_cache;
pub(crate) use recovery::{CacheBacking, RecoveredPage};
pub use slots::CACHE_LAYOUT;
pub(crate) use slots::PAGE_BYTES;
use slots::{CLEAN, DIRTY, Identity, SlotId, Slots};
use terrace_layout::BLOCK_BYTES;
use terrace_store::error::FsResult;
use terrace_store::planted::{Bug, planted};
use terrace_store::sync::atomic::{AtomicU64, Ordering};
use terrace_store::sync::{Arc, Mutex, RwLock, switch};

/// Pages that a reader copies before it lets writers have their turn.
const READ_PAGES_MAX: u64 = 32;

/// Budget of a cache that has to live in the daemon's own memory: enough to write and read in runs.
const OWN_BYTES: u64 = 16 << 20;

/// The page cache of a volume.
pub(crate) struct PageCache {
    pool: Arc<Pool>,
    /// The file behind it.
    file: Option<PathBuf>,
    /// Files whose dirty pages were recovered and not forgotten yet.
    recovered: Mutex<Vec<PathBuf>>,
    /// Slots that the budget pays for in a file; `None`: no file was asked for.
    wanted: Option<u32>,
}

/// The cached pages of one file. Dropping it drops its clean pages. Dirty ones it may still have (a
/// volume that went down with an error) stay as they are for the next mount to recover.
pub(crate) struct PageMap {
    ino: u64,
    generation: u32,
    pool: Arc<Pool>,
    pages: RwLock<Pages>,
    /// Pages, clean and dirty: what keeps a file without any from taking the lock.
    count: AtomicU64,
    dirty: AtomicU64,
}

impl PageCache {
    /// A cache of `budget_bytes`, and the dirty pages that a daemon that died left in `backing`
    /// (for each block the newest; none of a write that had not been published whole).
    ///
    /// The recovered pages must be published again and
    /// [`forget_recovered`](PageCache::forget_recovered) called before the volume changes: until
    /// then they would be found again after another crash.
    ///
    /// # Errors
    /// If there is no memory for it, or the backing file cannot be made for another reason than a
    /// lack of room, or belongs to another user.
    pub fn new(
        budget_bytes: u64,
        backing: Option<&CacheBacking>,
    ) -> FsResult<(Arc<PageCache>, Vec<RecoveredPage>)> {
        let count = Slots::count_for(budget_bytes);
        let Some(backing) = backing else {
            let pool = Pool::new(Slots::anonymous(count)?, 0);
            let cache = PageCache {
                pool: Arc::new(pool),
                file: None,
                recovered: Mutex::default(),
                wanted: None,
            };
            return Ok((Arc::new(cache), Vec::new()));
        };
        let identity = Identity::new(&backing.uuid)?;
        let recovered = recovery::recover(backing, &identity)?;
        let path = backing.path();
        let (slots, file) = match Slots::create_with_room(&path, count, &identity, backing.epoch)? {
            Some(slots) => (slots, Some(path)),
            None => (Slots::anonymous(count.min(Slots::count_for(OWN_BYTES)))?, None),
        };
        let pool = Arc::new(Pool::new(slots, recovered.seq));
        let cache =
            PageCache { pool, file, recovered: Mutex::new(recovered.files), wanted: Some(count) };
        if let Some(note) = cache.note() {
            tracing::warn!("{note}");
        }
        Ok((Arc::new(cache), recovered.pages))
    }

    /// Whether a file was asked for, and there was no room for it: dirty pages would be gone with
    /// the daemon.
    pub fn dies_with_daemon(&self) -> bool {
        self.wanted.is_some() && self.file.is_none()
    }

    /// What its administrator should know.
    pub fn note(&self) -> Option<String> {
        let wanted = u64::from(self.wanted?);
        let mib = |pages: u64| (pages * BLOCK_BYTES) >> 20;
        let has = self.budget_pages();
        let remedy = "make room there, or choose another directory in memory with -o cache_dir, \
                      and mount again";
        match &self.file {
            Some(path) if has < wanted => Some(format!(
                "page cache: {} has memory for {} MiB of {} MiB, as its file system is full: \
                 {remedy}",
                path.display(),
                mib(has),
                mib(wanted)
            )),
            Some(_) => None,
            None => Some(format!(
                "page cache: its directory has no room: the volume goes on with {} MiB of the \
                 daemon's own memory, and each write waits until it is in PM or on a disk: \
                 {remedy}",
                mib(has)
            )),
        }
    }

    /// The files of daemons that died, with the number of dirty pages in each that has any. Nothing
    /// is changed.
    ///
    /// # Errors
    /// If the directory or a file cannot be read.
    pub fn waiting(backing: &CacheBacking) -> FsResult<Vec<(PathBuf, u64)>> {
        recovery::waiting(backing, &Identity::new(&backing.uuid)?)
    }

    /// The recovered pages are published again: removes the files they came from.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn forget_recovered(&self) -> FsResult<()> {
        let mut files = self.recovered.lock();
        while let Some(path) = files.last() {
            recovery::remove(path)?;
            files.pop();
        }
        Ok(())
    }

    /// From now on the backing file belongs to this epoch. There must be no dirty pages: a crash
    /// between this and the moment when the volume itself is of the new epoch would lose them.
    pub fn set_epoch(&self, epoch: u64) {
        assert_eq!(self.dirty_pages(), 0, "dirty pages belong to the old epoch");
        self.pool.slots.set_epoch(epoch);
    }

    /// After a clean unmount: removes the file.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn remove_backing(&self) -> FsResult<()> {
        self.forget_recovered()?;
        self.file.as_deref().map_or(Ok(()), recovery::remove)
    }

    /// An empty map for a file; `ino` is not 0.
    pub fn map(&self, ino: u64, generation: u32) -> Arc<PageMap> {
        Arc::new(PageMap {
            ino,
            generation,
            pool: self.pool.clone(),
            pages: RwLock::default(),
            count: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
        })
    }

    /// Pages that fit.
    pub fn budget_pages(&self) -> u64 {
        self.pool.budget()
    }

    /// Clean pages.
    pub fn clean_pages(&self) -> u64 {
        self.pool.clean.load(Ordering::Relaxed)
    }

    /// Dirty pages.
    pub fn dirty_pages(&self) -> u64 {
        self.pool.dirty.load(Ordering::Relaxed)
    }

    /// `n` pages to fill: free ones, of which each `shard` (any number) has its own list, else
    /// clean ones are evicted by second chance. `None` if there are not that many: the rest is
    /// dirty, pinned, or taken by others meanwhile.
    pub fn take(&self, shard: usize, n: usize) -> Option<Vec<BlankPage>> {
        if n as u64 > self.budget_pages() {
            return None;
        }
        let mut slots = Vec::with_capacity(n);
        self.pool.take(shard, n, &mut slots);
        let hold = Arc::new(self.pool.clone());
        let blank = |slot| BlankPage { pool: hold.clone(), slot, published: false };
        let blanks: Vec<BlankPage> = slots.into_iter().map(blank).collect();
        // Too few go back as they are dropped.
        (blanks.len() == n).then_some(blanks)
    }

    /// Publishes copies of what the file's devices hold. Pages that are there already stay.
    pub fn publish_clean(&self, map: &Arc<PageMap>, pages: Vec<(u64, BlankPage)>) {
        let mut held = map.pages.write();
        let mut published = Vec::with_capacity(pages.len());
        for (block, blank) in pages {
            if held.get(block).is_some() {
                continue;
            }
            let slot = blank.into_slot();
            map.describe(slot, block, 0, 0, 0);
            self.pool.slots.meta(slot).state.store(CLEAN, Ordering::Release);
            self.pool.set_owner(slot, Arc::downgrade(map));
            held.insert(block, slot, Kind::Clean);
            published.push(slot);
        }
        map.grew(Kind::Clean, published.len());
        self.pool.enqueue(published);
    }

    /// Publishes the pages of one write, each block once. After the daemon's death all of them are
    /// recovered, or none and the versions they replace instead. `size` is the file's size in bytes
    /// after the write.
    pub fn publish_dirty(
        &self,
        map: &Arc<PageMap>,
        pages: Vec<(u64, BlankPage)>,
        size: u64,
        mtime_ns: i64,
    ) {
        // Pages may have been streamed: whoever sees their states sees all of them.
        self.pool.streamed.fence();
        let mut held = map.pages.write();
        let seq = self.pool.next_seq();
        let announced = (pages.len() > 1).then(|| self.pool.announce(seq));
        let mut replaced = Vec::new();
        map.grew(Kind::Dirty, pages.len());
        for (block, blank) in pages {
            let slot = blank.into_slot();
            map.describe(slot, block, size, mtime_ns, seq);
            crash_point();
            self.pool.slots.meta(slot).state.store(DIRTY, Ordering::Release);
            crash_point();
            self.pool.set_owner(slot, Arc::downgrade(map));
            replaced.extend(map.remove(&mut held, block));
            held.insert(block, slot, Kind::Dirty);
        }
        drop(announced);
        crash_point();
        for slot in replaced {
            self.pool.retire(slot);
            crash_point();
        }
    }

    /// Copies bytes of pages, from byte `at` of that of `block` on, as long as one follows the
    /// other in the cache, but no more than [`READ_PAGES_MAX`] at a time; returns how many bytes.
    pub fn read(&self, map: &PageMap, block: u64, at: usize, out: &mut [u8]) -> usize {
        if map.is_empty() {
            return 0;
        }
        let held = map.pages.read();
        if planted(Bug::PageReadUnlocked) {
            let slot = held.get(block);
            drop(held);
            switch();
            return slot.map_or(0, |(slot, _)| self.copy_page(slot, at, out));
        }
        let mut done = 0;
        for block in block..block + READ_PAGES_MAX {
            match held.get(block) {
                Some((slot, _)) if done < out.len() => {
                    done += self.copy_page(slot, (at + done) % PAGE_BYTES, &mut out[done..]);
                }
                _ => break,
            }
        }
        done
    }

    /// Copies what a page has from byte `at` of it on. The lock of the map that holds the slot is
    /// held.
    fn copy_page(&self, slot: SlotId, at: usize, out: &mut [u8]) -> usize {
        self.pool.touch(slot);
        let len = out.len().min(PAGE_BYTES - at);
        // SAFETY: the map holds the slot as long as its lock is held, so it is published, hence
        // immutable.
        let page = unsafe { self.pool.slots.page(slot).as_ref() };
        out[..len].copy_from_slice(&page[at..at + len]);
        len
    }

    /// Pins the dirty pages of a file from block `from` on, in block order, at most `limit`.
    pub fn dirty(&self, map: &PageMap, from: u64, limit: usize) -> Vec<DirtyPage> {
        if !map.has_dirty() {
            return Vec::new();
        }
        let hold = Arc::new(self.pool.clone());
        let held = map.pages.read();
        let pin = |(block, slot)| {
            self.pool.pin(slot);
            DirtyPage { block, file: 0, pool: hold.clone(), slot }
        };
        held.dirty(from, u64::MAX).take(limit).map(pin).collect()
    }

    /// For each of these pages, whether it is still its block's, and dirty.
    pub fn current(&self, map: &PageMap, pages: &[DirtyPage]) -> Vec<bool> {
        let held = map.pages.read();
        pages.iter().map(|page| held.get(page.block) == Some((page.slot, Kind::Dirty))).collect()
    }

    /// The pages are on their device, durably: those that still are their blocks' turn clean.
    /// Returns how many.
    pub fn mark_clean(&self, map: &PageMap, pages: &[DirtyPage]) -> usize {
        let mut held = map.pages.write();
        let mut clean = Vec::with_capacity(pages.len());
        for page in pages {
            if held.make_clean(page.block, page.slot) {
                self.pool.slots.meta(page.slot).state.store(CLEAN, Ordering::Release);
                clean.push(page.slot);
            }
        }
        map.grew(Kind::Clean, clean.len());
        map.shrank(Kind::Dirty, clean.len());
        let turned = clean.len();
        self.pool.enqueue(clean);
        turned
    }

    /// Drops the pages of blocks `from..to`, dirty ones too; a `to` of `u64::MAX` means all the
    /// rest.
    pub fn drop_range(&self, map: &PageMap, from: u64, to: u64) {
        if map.is_empty() || from >= to {
            return;
        }
        let mut held = map.pages.write();
        let blocks: Vec<u64> = held.range(from, to).map(|(block, ..)| block).collect();
        for block in blocks {
            if let Some(slot) = map.remove(&mut held, block) {
                self.pool.retire(slot);
            }
        }
    }

    /// Drops the clean pages of blocks `from..to`.
    pub fn drop_clean(&self, map: &PageMap, from: u64, to: u64) {
        if map.is_empty() {
            return;
        }
        let mut held = map.pages.write();
        let clean = held
            .range(from, to)
            .filter(|&(_, _, kind)| kind == Kind::Clean)
            .map(|(block, ..)| block);
        for block in clean.collect::<Vec<u64>>() {
            if let Some(slot) = map.remove(&mut held, block) {
                self.pool.retire(slot);
            }
        }
    }

    /// After a truncate: lowers the size that the file's dirty pages record to at most `size`
    /// bytes.
    pub fn clamp_sizes(&self, map: &PageMap, size: u64) {
        if !map.has_dirty() {
            return;
        }
        for (_, slot) in map.pages.write().dirty(0, u64::MAX) {
            self.pool.slots.meta(slot).size.fetch_min(size, Ordering::Relaxed);
        }
    }

    /// The cached blocks among `from..to`, ascending.
    pub fn cached_blocks(&self, map: &PageMap, from: u64, to: u64) -> Vec<u64> {
        if map.is_empty() || from >= to {
            return Vec::new();
        }
        map.pages.read().range(from, to).map(|(block, ..)| block).collect()
    }

    /// The first cached block among `from..to`.
    pub fn first_cached(&self, map: &PageMap, from: u64, to: u64) -> Option<u64> {
        if map.is_empty() {
            return None;
        }
        map.pages.read().range(from, to).next().map(|(block, ..)| block)
    }

    /// Whether any of the blocks `from..to` is dirty.
    pub fn is_dirty(&self, map: &PageMap, from: u64, to: u64) -> bool {
        map.has_dirty() && map.pages.read().dirty(from, to).next().is_some()
    }

    /// The dirty blocks from `from` on, ascending, adjacent ones together: the first `most` such
    /// runs.
    pub fn dirty_runs(&self, map: &PageMap, from: u64, most: usize) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        if !map.has_dirty() {
            return runs;
        }
        for (block, _) in map.pages.read().dirty(from, u64::MAX) {
            let is_full = runs.len() == most;
            match runs.last_mut().filter(|run| run.end == block) {
                Some(run) => run.end += 1,
                None if is_full => break,
                None => runs.push(block..block + 1),
            }
        }
        runs
    }

    /// The dirty blocks among `from..to`, ascending.
    pub fn dirty_blocks(&self, map: &PageMap, from: u64, to: u64) -> Vec<u64> {
        if !map.has_dirty() || from >= to {
            return Vec::new();
        }
        map.pages.read().dirty(from, to).map(|(block, _)| block).collect()
    }
}

impl PageMap {
    /// Whether nothing of the file is cached: one load.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether the file has dirty pages: one load.
    pub fn has_dirty(&self) -> bool {
        self.dirty_pages() != 0
    }

    /// The file's dirty pages.
    pub fn dirty_pages(&self) -> u64 {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Writes a slot's metadata, all but its state.
    fn describe(&self, slot: SlotId, block: u64, size: u64, mtime_ns: i64, seq: u64) {
        let meta = self.pool.slots.meta(slot);
        meta.ino.store(self.ino, Ordering::Relaxed);
        meta.generation.store(self.generation, Ordering::Relaxed);
        meta.block.store(block, Ordering::Relaxed);
        meta.size.store(size, Ordering::Relaxed);
        meta.mtime_ns.store(mtime_ns, Ordering::Relaxed);
        meta.seq.store(seq, Ordering::Relaxed);
    }

    fn grew(&self, kind: Kind, pages: usize) {
        let pages = pages as u64;
        self.count.fetch_add(pages, Ordering::Relaxed);
        match kind {
            Kind::Clean => self.pool.clean.fetch_add(pages, Ordering::Relaxed),
            Kind::Dirty => {
                self.dirty.fetch_add(pages, Ordering::Relaxed);
                self.pool.dirty.fetch_add(pages, Ordering::Relaxed)
            }
        };
    }

    fn shrank(&self, kind: Kind, pages: usize) {
        let pages = pages as u64;
        self.count.fetch_sub(pages, Ordering::Relaxed);
        match kind {
            Kind::Clean => self.pool.clean.fetch_sub(pages, Ordering::Relaxed),
            Kind::Dirty => {
                self.dirty.fetch_sub(pages, Ordering::Relaxed);
                self.pool.dirty.fetch_sub(pages, Ordering::Relaxed)
            }
        };
    }

    /// Takes a block's page out of the map; the caller has its reference.
    fn remove(&self, held: &mut Pages, block: u64) -> Option<SlotId> {
        let (slot, kind) = held.remove(block)?;
        self.shrank(kind, 1);
        Some(slot)
    }

    /// Tries to evict slots: each if this map holds it clean and nobody pins it. Says what became
    /// of each.
    fn evict(&self, slots: &[SlotId], mut became: impl FnMut(SlotId, Eviction)) {
        let mut held = self.pages.write();
        let mut evicted = 0;
        for &slot in slots {
            // The slot may have gone to another block or map by now; if this map holds it, the
            // block is right.
            let meta = self.pool.slots.meta(slot);
            let block = meta.block.load(Ordering::Relaxed);
            became(
                slot,
                if held.get(block) != Some((slot, Kind::Clean)) {
                    Eviction::Gone
                } else if !self.pool.is_unpinned(slot) {
                    Eviction::Pinned
                } else {
                    held.remove(block);
                    meta.state.store(slots::FREE, Ordering::Release);
                    evicted += 1;
                    Eviction::Done
                },
            );
        }
        self.shrank(Kind::Clean, evicted);
    }
}

impl Drop for PageMap {
    fn drop(&mut self) {
        let pages = std::mem::take(self.pages.get_mut());
        for (_, slot, kind) in pages.range(0, u64::MAX) {
            if kind == Kind::Clean {
                self.shrank(Kind::Clean, 1);
                self.pool.retire(slot);
            }
        }
    }
}

impl fmt::Debug for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageCache")
            .field("file", &self.file)
            .field("budget_pages", &self.budget_pages())
            .field("clean_pages", &self.clean_pages())
            .field("dirty_pages", &self.dirty_pages())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PageMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageMap")
            .field("ino", &self.ino)
            .field("generation", &self.generation)
            .field("pages", &self.count)
            .field("dirty", &self.dirty)
            .finish_non_exhaustive()
    }
}

/// Where tests look at what a crash would leave.
#[cfg(not(test))]
use terrace_media::step as crash_point;
#[cfg(test)]
use tests::crash_point;
