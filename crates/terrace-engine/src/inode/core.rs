//! What all operations share: devices, free space, shards, the page cache, and whether the volume
//! may be written.
//!
//! Lock order, outermost first; a thread that holds one of these takes only later ones:
//!
//! 0. `Migration::relief`
//! 1. `Core::paths`; `Core::rename` (renames of directories)
//! 2. `Inode::moving`, then `Inode::flush`; or `Mover::logs_under_way`
//! 3. `Inode::inner`: parents before children; several directories or several files in order of
//!    inode number
//! 4. `Shard::table`, then one of `Shard::inodes`, `Shard::dirty`, `Shard::doomed`, or the pulse of
//!    migration, then `Mover::lists` (of the other locks of `mover`, nobody who holds one takes
//!    another)
//! 5. a file's page map and the cache's pool
//! 6. `Journal`, then `Space::members`, then allocator groups; or `Moves`
//!
//! `Core::unerased`, then `Core::sb`, are held by those who change the device table, and then only
//! `Space::members`.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use rustc_hash::FxHashMap;
use terrace_layout::{
    BlockAddr, INCOMPAT_ARCHIVES, INCOMPAT_GAPS, INCOMPAT_PM_DATA_CRC, InodeRecord, Stamp,
    Superblock,
};
use terrace_media::{MediaError, Pm};
use terrace_policy::{PM_RESERVE_BLOCKS, PmSpace};
use terrace_store::error::{FsError, FsResult, advice, fail, fence};
use terrace_store::file::PmIo;
use terrace_store::index::Freed;
use terrace_store::itable::{InodeTable, RecordState, first_generation, record_state, shard_of};
use terrace_store::journal::Journal;
use terrace_store::log::{Log, LogMedia};
use terrace_store::planted::{Bug, planted};
use terrace_store::space::{Purpose, ShardSource, Space};
use terrace_store::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use terrace_store::sync::{Arc, Condvar, HashMap, Mutex, RwLock, limit};
use zerocopy::IntoBytes;

use crate::base::counters::Counters;
use crate::base::options::OpenOptions;
use crate::base::pin::Pin;
use crate::base::tuning::Tuning;
use crate::base::types::{FileKind, Ino, Time};
use crate::inode::cache::PageCache;
use crate::inode::resident::{Inner, Inode, Replay, kind_of};
use crate::mount::disks::Unerased;
use crate::tiering::drain::Removals;
use crate::tiering::relocate::Buffers;
use crate::tiering::room::{Moves, Nameless};
use crate::tiering::schedule::{Migration, Mover};
use crate::tools::ranking::Paths;
use crate::tools::scrub::Scrubs;

/// Inodes that a shard keeps in DRAM although nobody refers to them.
const IDLE_INODES_MAX: usize = limit(16384, 1);
/// Counters of departures in a shard: a power of two, so many that inodes rarely share one.
const DEPARTURES: usize = limit(1024, 1);
/// Removed inodes that wait before they are reclaimed together.
const DOOMED_BATCH: usize = limit(64, 2);
/// Free PM blocks beyond the reserve from which on nothing more is left unreclaimed: more than an
/// operation takes.
const PM_LOW_BLOCKS: u64 = 64;

/// A removed inode whose record and blocks are not free yet.
#[derive(Debug)]
pub(crate) struct Doomed {
    ino: Ino,
    record_at: u64,
    owned: Freed,
}

/// A file with dirty pages.
#[derive(Debug, Clone)]
pub(crate) struct DirtyFile {
    pub inode: Arc<Inode>,
    pub since: Instant,
    /// Write back without waiting for the pages to age.
    pub urgent: bool,
}

/// One shard: inodes and what they need.
#[derive(Debug)]
pub(crate) struct Shard {
    pub table: RwLock<InodeTable>,
    pub journal: Journal,
    pub inodes: RwLock<FxHashMap<u64, Arc<Inode>>>,
    /// How often an inode has left `inodes`, by a hash of its number; they change under its lock.
    departures: Box<[AtomicU64]>,
    pub dirty: Mutex<HashMap<u64, DirtyFile>>,
    pub doomed: Mutex<Vec<Doomed>>,
    pub mover: Mover,
    /// Wakes the shard's worker; guarded flag: there is something to do.
    pub work: Mutex<bool>,
    pub wake: Condvar,
}

impl Shard {
    pub fn new(table: InodeTable, journal: Journal) -> Self {
        Self {
            table: RwLock::new(table),
            journal,
            inodes: RwLock::default(),
            departures: (0..DEPARTURES).map(|_| AtomicU64::new(0)).collect(),
            dirty: Mutex::default(),
            doomed: Mutex::default(),
            mover: Mover::default(),
            work: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// Takes an inode out of the map. Whoever is just reading it from media must read it again.
    pub fn depart(&self, inodes: &mut FxHashMap<u64, Arc<Inode>>, ino: Ino) {
        inodes.remove(&ino.0);
        self.departures(ino).fetch_add(1, Ordering::Relaxed);
    }

    fn departures(&self, ino: Ino) -> &AtomicU64 {
        let hash = ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.departures[hash as usize % self.departures.len()]
    }

    /// Tells the worker that there is something to do.
    pub fn notify(&self) {
        if planted(Bug::WakeWithoutFlag) {
            self.wake.notify_one();
            return;
        }
        *self.work.lock() = true;
        self.wake.notify_one();
    }

    /// Tells the worker that there is something to do at its next look: a worker that looks every
    /// second is not woken.
    pub fn notify_lazily(&self) {
        let mut work = self.work.lock();
        if !*work {
            *work = true;
            self.wake.notify_one();
        }
    }
}

/// See the module.
pub(crate) struct Core {
    pub pm: Arc<Pm>,
    pub sb: Mutex<Superblock>,
    /// The superblock's mount epoch.
    pub epoch: AtomicU64,
    pub space: Space,
    pub shards: Vec<Shard>,
    pub cache: Arc<PageCache>,
    pub crcs: crate::pageio::fetch::CrcCache,
    pub options: OpenOptions,
    pub tuning: Tuning,
    pub migration: Migration,
    pub moves: Moves,
    pub nameless: Nameless,
    pub buffers: Buffers,
    pub data_crc: bool,
    /// Parts of logs may lie on disks.
    archives: AtomicBool,
    /// Inode tables may have gaps.
    gaps: AtomicBool,
    /// One rename of a directory at a time, so that no two of them make a circle.
    pub rename: Mutex<()>,
    pub stopping: AtomicBool,
    /// Shared by whoever may still be at work when the volume is closed.
    pub closing: RwLock<()>,
    pub next_shard: AtomicU64,
    pub scrubs: Scrubs,
    /// Guards the device table, from before a disk is labelled until it is in the table.
    pub unerased: Mutex<Unerased>,
    pub removals: Removals,
    pub counters: Counters,
    pub paths: Mutex<Paths>,
    pub recorder: crate::base::recorder::Recorder,
    pub opened: Instant,
    /// Makes the secrets of new inodes.
    secrets: RandomState,
    read_only: AtomicBool,
    read_only_reason: Mutex<Option<String>>,
    /// By device index: the last failure of a disk that has not been written and flushed since.
    disk_failures: Mutex<BTreeMap<u16, String>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("pm", &self.pm.path())
            .field("space", &self.space)
            .finish_non_exhaustive()
    }
}

impl Core {
    #[allow(clippy::too_many_arguments, reason = "what a volume is made of")]
    pub fn new(
        pm: Arc<Pm>,
        sb: Superblock,
        space: Space,
        shards: Vec<Shard>,
        cache: Arc<PageCache>,
        options: OpenOptions,
    ) -> Self {
        let data_crc = sb.incompat & INCOMPAT_PM_DATA_CRC != 0;
        let archives = AtomicBool::new(sb.incompat & INCOMPAT_ARCHIVES != 0);
        let gaps = AtomicBool::new(sb.incompat & INCOMPAT_GAPS != 0);
        let read_only = AtomicBool::new(options.read_only);
        Self {
            pm,
            sb: Mutex::new(sb),
            epoch: AtomicU64::new(sb.mount_epoch),
            space,
            shards,
            cache,
            crcs: crate::pageio::fetch::CrcCache::default(),
            tuning: Tuning::new(&options.params),
            migration: Migration::default(),
            moves: Moves::default(),
            nameless: Nameless::default(),
            buffers: Buffers::default(),
            options,
            data_crc,
            archives,
            gaps,
            rename: Mutex::new(()),
            stopping: AtomicBool::new(false),
            closing: RwLock::new(()),
            next_shard: AtomicU64::new(0),
            scrubs: Scrubs::default(),
            unerased: Mutex::default(),
            removals: Removals::default(),
            paths: Mutex::default(),
            counters: Counters::default(),
            recorder: Default::default(),
            opened: Instant::now(),
            secrets: RandomState::new(),
            read_only,
            read_only_reason: Mutex::new(None),
            disk_failures: Mutex::default(),
        }
    }

    /// Whether an inode that is not in DRAM may take a read of a disk.
    pub fn has_archives(&self) -> bool {
        self.archives.load(Ordering::Relaxed)
    }

    /// Older programs know nothing of archives, and must not take the volume from now on.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn allow_archives(&self) -> FsResult<()> {
        if !self.has_archives() {
            self.change_table(
                |sb| sb.incompat |= INCOMPAT_ARCHIVES,
                || self.archives.store(true, Ordering::Relaxed),
            )?;
        }
        Ok(())
    }

    /// Older programs know nothing of gaps in inode tables, and must not take the volume from now
    /// on.
    ///
    /// # Errors
    /// Fatal ones.
    fn allow_gaps(&self) -> FsResult<()> {
        if !self.gaps.load(Ordering::Relaxed) {
            self.change_table(
                |sb| sb.incompat |= INCOMPAT_GAPS,
                || self.gaps.store(true, Ordering::Relaxed),
            )?;
        }
        Ok(())
    }

    /// The generation of an inode whose record remembers none.
    pub fn first_generation(&self, ino: Ino) -> u32 {
        first_generation(self.gaps.load(Ordering::Relaxed), &self.secrets, ino)
    }

    /// Marks what this mount commits with one fence.
    pub fn stamp(&self) -> Stamp {
        Stamp::of_epoch(self.epoch.load(Ordering::Relaxed))
    }

    /// The secret of an inode that is being made.
    pub fn log_secret(&self, ino: Ino, generation: u32) -> u32 {
        self.secrets.hash_one((ino.0, generation)) as u32
    }

    /// What a file's data path works on, for shard `shard`.
    pub fn io<'a>(&'a self, source: &'a ShardSource<'a>) -> PmIo<'a> {
        PmIo { pm: &self.pm, source, data_crc: self.data_crc, stamp: self.stamp() }
    }

    /// Runs an operation that changes the volume: refused with `EROFS` when it must not be written;
    /// an error that puts acknowledged data at risk makes it so.
    pub fn mutate<T>(&self, operation: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        if self.is_read_only() {
            return fail(libc::EROFS);
        }
        // What was removed makes room at once, for whatever comes next.
        let reclaimed = if self.pm_is_low() { self.reclaim_if_any() } else { Ok(()) };
        let result = reclaimed.and_then(|()| operation()).inspect_err(|error| {
            if error.is_fatal() {
                self.turn_read_only(&error.to_string());
            }
        });
        if let Some(addr) = self.space.freed_twice() {
            self.found_contested(addr);
        }
        result
    }

    /// A part of something that may take long: who closes the volume waits for this part, and the
    /// next one is refused.
    pub(crate) fn before_closing<T>(&self, part: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        let _not_closing = self.closing.read();
        self.mutate(part)
    }

    /// As [`Self::mutate`], for what a program asks for, which holds no lock yet: where PM has next
    /// to no room for metadata, some is made first.
    pub fn operate<T>(&self, operation: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        self.relieve_pm_if_low();
        self.mutate(operation)
    }

    /// As [`Self::operate`], for what frees something, which changes nothing if it finds no room:
    /// then room is made once more, however lately that was in vain, and it is tried again.
    pub fn operate_to_free<T>(&self, mut operation: impl FnMut() -> FsResult<T>) -> FsResult<T> {
        match self.operate(&mut operation) {
            Err(error) if error.is_no_room() => {
                self.relieve_pm(true);
                self.mutate(operation)
            }
            done => done,
        }
    }

    /// Whether PM has next to no room left, for metadata either.
    pub fn pm_is_low(&self) -> bool {
        self.space.pm().free_blocks() < PM_RESERVE_BLOCKS + PM_LOW_BLOCKS
    }

    /// A block had two owners: nothing may be written over what the other still has.
    #[cold]
    fn found_contested(&self, addr: BlockAddr) {
        let pm = self.pm.path();
        self.turn_read_only(&format!(
            "{}: block {} belonged to two owners: run `terrace check {}`",
            self.device_path(addr.device()).display(),
            addr.block(),
            pm.display()
        ));
    }

    /// Where a device of the volume is; of one that there is not any more, PM's.
    pub fn device_path(&self, device: u16) -> PathBuf {
        let disk = self.space.members.get(device);
        disk.as_ref().map_or(self.pm.path(), |member| member.disk.path()).to_owned()
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// Why the volume turned read-only, if it did.
    pub fn read_only_reason(&self) -> Option<String> {
        self.read_only_reason.lock().clone()
    }

    /// The volume is unmounted: nothing changes it any more.
    pub fn end(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    /// From now on nothing is written any more.
    pub fn turn_read_only(&self, reason: &str) {
        let mut known = self.read_only_reason.lock();
        if known.is_none() {
            tracing::error!("the volume is read-only from now on: {reason}");
            *known = Some(reason.to_string());
        }
        self.read_only.store(true, Ordering::Release);
    }

    /// A disk said this: `status` tells, until the disk works.
    pub fn disk_failed(&self, device: u16, error: &MediaError) {
        self.disk_failures.lock().insert(device, error.to_string());
    }

    /// A disk took data and made it durable.
    pub fn disk_works(&self, device: u16) {
        self.disk_failures.lock().remove(&device);
    }

    /// What a disk said last, if that was an error.
    pub fn disk_failure(&self, device: u16) -> Option<String> {
        self.disk_failures.lock().get(&device).cloned()
    }

    pub fn shard_index(&self, ino: Ino) -> usize {
        shard_of(ino, self.shards.len() as u64)
    }

    pub fn shard(&self, ino: Ino) -> &Shard {
        &self.shards[self.shard_index(ino)]
    }

    /// The inode, from DRAM or from media.
    ///
    /// # Errors
    /// `ESTALE` if there is none with this number; damage.
    pub fn get(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        if ino.0 == 0 {
            return fail(libc::ESTALE);
        }
        let shard = self.shard(ino);
        let alive = |inode: &Arc<Inode>| match inode.doomed.load(Ordering::Acquire) {
            true => fail(libc::ESTALE),
            false => Ok(inode.clone()),
        };
        loop {
            let departures = {
                let inodes = shard.inodes.read();
                if let Some(inode) = inodes.get(&ino.0) {
                    return alive(inode);
                }
                shard.departures(ino).load(Ordering::Relaxed)
            };
            let loaded = self.load_inode(shard, ino);
            // Only what is pinned is a stray; nobody else has it yet.
            let is_stray = |inode: &Arc<Inode>| self.is_stray(inode.pin.get(), &inode.inner.read());
            let strays = loaded.as_ref().is_ok_and(is_stray);
            let mut inodes = shard.inodes.write();
            if let Some(inode) = inodes.get(&ino.0) {
                return alive(inode);
            }
            // Somebody else may have loaded, changed or removed it, and let it go again: what was
            // read meanwhile may be out of date, or look damaged.
            if shard.departures(ino).load(Ordering::Relaxed) == departures
                || planted(Bug::LoadStale)
            {
                return loaded.inspect(|inode| {
                    if inode.is_file() && inode.pin.get().is_some() {
                        self.note_pinned(inode, strays);
                    }
                    inodes.insert(ino.0, inode.clone());
                });
            }
        }
    }

    /// Shows the inodes of a part of a shard's table, also those that nobody uses, and what cannot
    /// be read; none of them stays in DRAM on that account.
    ///
    /// # Errors
    /// As `visit`, which ends it.
    pub fn visit_inodes(
        &self,
        shard: usize,
        records: Range<u64>,
        visit: &mut dyn FnMut(FsResult<&Arc<Inode>>) -> FsResult<()>,
    ) -> FsResult<()> {
        let shards = self.shards.len() as u64;
        for index in records {
            let ino = Ino(index * shards + shard as u64 + 1);
            let is_resident = self.shards[shard].inodes.read().contains_key(&ino.0);
            let found = self.get(ino);
            visit(found.as_ref().map_err(|e| FsError::with_message(e.errno(), e.to_string())))?;
            if let Ok(inode) = found
                && !is_resident
            {
                self.evict(inode);
            }
        }
        Ok(())
    }

    fn load_inode(&self, shard: &Shard, ino: Ino) -> FsResult<Arc<Inode>> {
        let (at, state) = {
            // What the table gives back meanwhile would not be a record any more.
            let table = shard.table.read();
            let Some(at) = table.locate(ino) else {
                return fail(libc::ESTALE);
            };
            (at, record_state(&self.pm, at, ino))
        };
        let record = match state {
            RecordState::Used(record) => record,
            RecordState::Free if ino != Ino::ROOT => return fail(libc::ESTALE),
            // There is always a root.
            RecordState::Free | RecordState::Damaged => {
                return Err(FsError::corrupt(format!(
                    "{}: record of inode {} (at byte {at}) is damaged: {}",
                    self.pm.path().display(),
                    ino.0,
                    advice(&self.pm)
                )));
            }
        };
        // A mount that may write has recovered everything, and settles what it lets go.
        let crashed = self.options.read_only.then(|| self.stamp());
        let media = LogMedia { pm: &self.pm, disks: &self.space.members, pending: None };
        let inner = Inner::load(media, at, &record, crashed, Replay::No)?;
        self.check_extents(ino, &inner)?;
        Ok(Arc::new(self.make_inode(ino, &record, inner)?))
    }

    /// What an inode owns must lie on devices that exist: nobody may be led outside by what stands
    /// on media.
    fn check_extents(&self, ino: Ino, inner: &Inner) -> FsResult<()> {
        match inner.owned().iter().find(|&&(addr, blocks)| !self.space.contains(addr, blocks)) {
            None => Ok(()),
            Some((addr, blocks)) => Err(FsError::corrupt(format!(
                "inode {}: {blocks} blocks at {addr:?} lie outside the volume's devices: {}",
                ino.0,
                advice(&self.pm)
            ))),
        }
    }

    /// The DRAM side of an inode.
    pub fn make_inode(&self, ino: Ino, record: &InodeRecord, inner: Inner) -> FsResult<Inode> {
        let amtime = inner.file().map_or(0, |file| file.heat.mean().0);
        let kind = kind_of(record)?;
        Ok(Inode {
            ino,
            generation: record.generation,
            kind,
            rdev: record.rdev,
            crtime: Time(record.created_ns),
            shard: self.shard_index(ino),
            lookups: AtomicU64::new(0),
            parent: AtomicU64::new(0),
            nameless: AtomicBool::new(false),
            doomed: AtomicBool::new(false),
            truncated: AtomicBool::new(false),
            pages: self.cache.map(ino.0, record.generation),
            moving: Mutex::new(()),
            flush: Mutex::new(()),
            read_end: AtomicU64::new(0),
            reads_in_row: AtomicU64::new(0),
            amtime: AtomicI64::new(amtime),
            syncs: AtomicU64::new(0),
            read_time: AtomicI64::new(0),
            log_overtaken: AtomicI64::new(0),
            listed: AtomicU64::new(0),
            left_out: AtomicBool::new(false),
            pin: Pin::new(self.pin_in_log(kind, &inner)?),
            inner: RwLock::new(inner),
        })
    }

    /// Commits the batches of `logs`, all or none, durably.
    ///
    /// # Errors
    /// `ENOSPC`: nothing changed. Others are fatal.
    pub fn commit(&self, shard: usize, purpose: Purpose, logs: &mut [&mut Log]) -> FsResult<()> {
        let source = self.space.source(shard, purpose);
        let alone = (logs.len() == 1).then(|| self.stamp());
        for i in 0..logs.len() {
            if let Err(error) = logs[i].stage(&self.pm, &source, alone) {
                logs[..i].iter_mut().for_each(|log| log.abort(&source));
                return Err(error);
            }
        }
        match logs {
            [log] => log.commit(&self.pm)?,
            _ => {
                let words: Vec<_> = logs.iter().map(|log| log.tail_word()).collect();
                let journal = &self.shards[shard].journal;
                match planted(Bug::LogsOneByOne) {
                    true => words.iter().try_for_each(|word| {
                        journal.commit(&self.pm, std::slice::from_ref(word))
                    })?,
                    false => journal.commit(&self.pm, &words)?,
                }
                logs.iter_mut().for_each(|log| log.published());
            }
        }
        // Names and attributes fill PM, too.
        self.note_traffic();
        self.note_pm_use(shard);
        Ok(())
    }

    /// After a commit: drops dead log pages, compacts a log that is mostly dead.
    ///
    /// # Errors
    /// Fatal ones only.
    pub fn tidy(&self, shard: usize, inner: &mut Inner) -> FsResult<()> {
        let source = self.space.source(shard, Purpose::Freeing);
        inner.log.drop_dead_front(&self.pm, &source);
        inner.compact_if_wanted(
            self.io(&source),
            self.space.pm_space(),
            &self.shards[shard].journal,
        )?;
        // The log's next commit may be the one that finds no room.
        match inner.log.holds_back_pages() && self.pm_is_low() {
            true => inner.log.settle(&self.pm, &source),
            false => Ok(()),
        }
    }

    /// Logs times that were kept back.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_lazy(&self, inode: &Inode, inner: &mut Inner) -> FsResult<()> {
        if !inner.meta.lazy || inner.meta.nlink == 0 {
            return Ok(());
        }
        let (meta, mtime) = (inner.meta, inner.mtime());
        inner.log.begin();
        let index = inner.push_attr(&meta, mtime);
        self.commit(inode.shard, Purpose::Ordinary, &mut [&mut inner.log])?;
        inner.attr_committed(&meta, mtime, index);
        self.tidy(inode.shard, inner)
    }

    /// As [`Self::commit_lazy`], but times that find no room in PM stay lazy.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn commit_lazy_if_room(&self, inode: &Inode, inner: &mut Inner) -> FsResult<()> {
        match self.commit_lazy(inode, inner) {
            Err(error) if error.is_no_room() => Ok(()),
            other => other,
        }
    }

    /// Nobody refers to the inode any more, by name or by lookup: its space goes back, a little
    /// later.
    pub fn doom_if_unused(&self, inode: &Arc<Inode>, inner: &mut Inner) {
        if inner.meta.nlink > 0 {
            return;
        }
        if inode.lookups.load(Ordering::Acquire) > 0 {
            if inode.kind == FileKind::Regular && !inode.nameless.swap(true, Ordering::AcqRel) {
                self.nameless.come();
            }
            return;
        }
        if self.is_read_only() || inode.doomed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.recorder.note(terrace_trace::Operation::Remove, inode.ino, 0, 0, false);
        self.drop_pages(inode, 0, u64::MAX);
        let shard = self.shard(inode.ino);
        shard.mover.lists.lock().forget(inode.ino);
        shard.dirty.lock().remove(&inode.ino.0);
        let waiting = {
            let mut doomed = shard.doomed.lock();
            doomed.push(Doomed {
                ino: inode.ino,
                record_at: inner.log.record_at(),
                owned: inner.owned(),
            });
            doomed.len()
        };
        // Only now can who looks for its room find it.
        if inode.nameless.load(Ordering::Acquire) {
            self.nameless.go();
        }
        if waiting == 1 {
            shard.notify_lazily();
        }
    }

    /// Drops cached pages, and the disk space promised to dirty ones. The caller holds the inode
    /// exclusively.
    pub fn drop_pages(&self, inode: &Inode, from_block: u64, to_block: u64) {
        if inode.pages.is_empty() {
            return;
        }
        let before = inode.pages.dirty_pages();
        self.cache.drop_range(&inode.pages, from_block, to_block);
        self.space.unreserve_disk(before - inode.pages.dirty_pages());
    }

    /// Reclaims removed inodes if enough of them wait.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn reclaim_some(&self, shard: usize) -> FsResult<()> {
        if self.shards[shard].doomed.lock().len() < DOOMED_BATCH {
            return Ok(());
        }
        self.reclaim(shard)
    }

    /// Reclaims the removed inodes of a shard: their records are free, durably, before their blocks
    /// are.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn reclaim(&self, shard: usize) -> FsResult<()> {
        // The table is locked from the first record on: a chunk that is read meanwhile must not
        // show as free what is not given back yet. And it is locked before the list is taken: who
        // finds nothing to reclaim has waited for whoever took it.
        let mut table = self.shards[shard].table.write();
        let doomed = std::mem::take(&mut *self.shards[shard].doomed.lock());
        if doomed.is_empty() {
            return Ok(());
        }
        for d in &doomed {
            free_record(&self.pm, d.record_at, d.ino);
        }
        fence(&self.pm)?;
        for d in &doomed {
            for &(addr, blocks) in &d.owned {
                self.space.free(addr, blocks);
            }
        }
        for d in doomed {
            // Until now the doomed inode stood in the map, lest somebody load it anew.
            self.shards[shard].depart(&mut self.shards[shard].inodes.write(), d.ino);
            table.free(&self.pm, d.ino);
        }
        if !table.wants_to_shrink(self.pm_is_low()) {
            return Ok(());
        }
        drop(table);
        self.allow_gaps()?;
        self.shards[shard].table.write().shrink(&self.pm, &self.shards[shard].journal, &self.space)
    }

    /// Reclaims the removed inodes of all shards.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn reclaim_all(&self) -> FsResult<()> {
        (0..self.shards.len()).try_for_each(|s| self.reclaim(s))
    }

    /// How full PM is, once what is removed has been reclaimed if that matters for `blocks` more.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn pm_space(&self, blocks: u64) -> FsResult<PmSpace> {
        if self.space.room_for_data() < blocks {
            self.reclaim_if_any()?;
        }
        Ok(self.space.pm_space())
    }

    /// Reclaims removed inodes if there are any.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn reclaim_if_any(&self) -> FsResult<()> {
        let someone_waits = self.shards.iter().any(|s| !s.doomed.lock().is_empty());
        if someone_waits { self.reclaim_all() } else { Ok(()) }
    }

    /// Takes back `count` lookups; the inode may then leave DRAM, and goes for good if it has no
    /// name.
    pub fn forget(&self, ino: Ino, count: u64) {
        let shard = self.shard(ino);
        let Some(inode) = shard.inodes.read().get(&ino.0).cloned() else {
            return;
        };
        if planted(Bug::ForgetInTwoSteps) {
            let lookups = inode.lookups.load(Ordering::Acquire);
            inode.lookups.store(lookups.saturating_sub(count) + count, Ordering::Release);
        }
        let before = inode
            .lookups
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| Some(n.saturating_sub(count)));
        if before.is_ok_and(|n| n > count) {
            return;
        }
        {
            let mut inner = inode.inner.write();
            if inner.meta.nlink == 0 {
                self.doom_if_unused(&inode, &mut inner);
                return;
            }
        }
        if shard.inodes.read().len() > IDLE_INODES_MAX {
            self.evict(inode);
        }
    }

    /// Drops an inode from DRAM if nobody else uses it and it has nothing to lose.
    pub fn evict(&self, inode: Arc<Inode>) {
        if !self.is_read_only() {
            let mut inner = inode.inner.write();
            // Whoever removed it has noted what it owns, and it must be found here until that has
            // been given back.
            if inode.doomed.load(Ordering::Acquire) {
                return;
            }
            let settled = self.mutate(|| {
                self.commit_lazy(&inode, &mut inner)?;
                inner.log.settle(&self.pm, &self.space.source(inode.shard, Purpose::Freeing))
            });
            if settled.is_err() {
                return;
            }
        }
        let shard = self.shard(inode.ino);
        let mut inodes = shard.inodes.write();
        // Two references: the map's and ours. Nobody can get another while the map is locked.
        let idle = Arc::strong_count(&inode) == 2
            && inodes.get(&inode.ino.0).is_some_and(|here| Arc::ptr_eq(here, &inode))
            && !inode.doomed.load(Ordering::Acquire)
            && inode.lookups.load(Ordering::Acquire) == 0
            && !inode.pages.has_dirty()
            && inode
                .inner
                .try_read()
                .is_some_and(|inner| !inner.meta.lazy && inner.log.is_settled());
        if idle && inode.ino != Ino::ROOT {
            shard.depart(&mut inodes, inode.ino);
        }
    }
}

/// Marks a record free; durable at the next fence.
pub(crate) fn free_record(pm: &Pm, at: u64, ino: Ino) {
    if let RecordState::Used(record) = record_state(pm, at, ino) {
        pm.store_u64(at, record.freed().first_word());
    } else {
        pm.write(at, InodeRecord::free(ino.0, 0).as_bytes());
    }
    pm.flush(at, size_of::<InodeRecord>() as u64);
}
