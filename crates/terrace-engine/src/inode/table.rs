//! The inodes of a volume: those in memory, and the tables of their records.
//!
//! Invariant: an inode that is in use is in its shard's map, once; [`Inodes::get`] hands it out.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use rustc_hash::FxHashMap;
use terrace_layout::{BlockAddr, InodeRecord, Stamp, XattrEntry, data_crc};
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::{FsError, FsResult, fail, fence};
use terrace_store::itable::{InodeTable, RecordState, first_generation, record_state};
use terrace_store::log::LogMedia;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;
use terrace_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_store::sync::{Arc, Mutex, RwLock, limit};

use crate::base::heritage::{Effect, Lookups};
use crate::base::options::OpenOptions;
use crate::base::pin::{PIN_XATTR, parse_pin, pin_value};
use crate::base::recorder::Recorder;
use crate::base::types::{AtimePolicy, FileKind, Ino, Time};
use crate::inode::activity::Activity;
use crate::inode::cache::PageCache;
use crate::inode::commits::Commits;
use crate::inode::device_table::DeviceTable;
use crate::inode::dirty::DirtyFiles;
use crate::inode::health::Health;
use crate::inode::kin::Kin;
use crate::inode::orphans::{OpenOrphans, Orphan};
use crate::inode::predictors::{ReadHabits, TierWords};
use crate::inode::resident::loans::Borrowable;
use crate::inode::resident::{Inner, Inode, inline_len, kind_of, xattr_blocks};
use crate::inode::store::Store;

/// Inodes that a shard keeps in DRAM although nobody refers to them.
const IDLE_INODES_MAX: usize = limit(16384, 1);
/// Counters of departures in a shard: a power of two, so many that inodes rarely share one.
const DEPARTURES: usize = limit(1024, 1);
/// Relatime updates an access time that is older than this.
const RELATIME_NS: i64 = 24 * 3600 * 1_000_000_000;

/// The inodes of one shard.
#[derive(Debug)]
pub(crate) struct Shard {
    pub table: RwLock<InodeTable>,
    pub inodes: RwLock<FxHashMap<u64, Arc<Inode>>>,
    /// How often an inode has left `inodes`, by a hash of its number; they change under its lock.
    departures: Box<[AtomicU64]>,
    pub orphans: Mutex<Vec<Orphan>>,
}

impl Shard {
    /// No inode is in memory.
    pub fn new(table: InodeTable) -> Self {
        Self {
            table: RwLock::new(table),
            inodes: RwLock::default(),
            departures: (0..DEPARTURES).map(|_| AtomicU64::new(0)).collect(),
            orphans: Mutex::default(),
        }
    }

    /// Takes an inode out of the map. A thread that is just reading it from media must read it
    /// again.
    pub fn depart(&self, inodes: &mut FxHashMap<u64, Arc<Inode>>, ino: Ino) {
        inodes.remove(&ino.0);
        self.departures(ino).fetch_add(1, Ordering::Relaxed);
    }

    fn departures(&self, ino: Ino) -> &AtomicU64 {
        let hash = ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.departures[hash as usize % self.departures.len()]
    }
}

/// What the table of inodes sees of the volume.
#[derive(Debug, Clone)]
pub(crate) struct Below {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub devices: Arc<DeviceTable>,
    pub cache: Arc<PageCache>,
    pub activity: Arc<Activity>,
    pub commits: Arc<Commits>,
    pub dirty: Arc<DirtyFiles>,
    pub recorder: Arc<Recorder>,
    pub kin: Arc<Kin>,
    pub options: Arc<OpenOptions>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inodes {
    pub(super) store: Arc<Store>,
    pub(super) health: Arc<Health>,
    pub(super) devices: Arc<DeviceTable>,
    pub(super) cache: Arc<PageCache>,
    pub(super) activity: Arc<Activity>,
    pub(super) commits: Arc<Commits>,
    pub(super) dirty: Arc<DirtyFiles>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) kin: Arc<Kin>,
    pub(super) options: Arc<OpenOptions>,
    pub shards: Vec<Shard>,
    pub open_orphans: OpenOrphans,
    /// Shared by whoever may still be at work when the volume is closed.
    pub closing: RwLock<()>,
    next_shard: AtomicU64,
    /// Makes the secrets of new inodes.
    secrets: RandomState,
}

impl Inodes {
    /// The inodes of these tables, one for each shard.
    pub fn new(below: Below, tables: Vec<InodeTable>) -> Self {
        let Below { store, health, devices, cache, activity, commits, dirty, .. } = below;
        let Below { recorder, kin, options, .. } = below;
        Self {
            store,
            health,
            devices,
            cache,
            activity,
            commits,
            dirty,
            recorder,
            kin,
            options,
            shards: tables.into_iter().map(Shard::new).collect(),
            open_orphans: OpenOrphans::default(),
            closing: RwLock::new(()),
            next_shard: AtomicU64::new(0),
            secrets: RandomState::new(),
        }
    }
}

impl Inodes {
    /// The generation of an inode whose record remembers none.
    pub fn first_generation(&self, ino: Ino) -> u32 {
        first_generation(self.devices.has_gaps(), &self.secrets, ino)
    }

    /// The secret of an inode that is being made.
    pub fn log_secret(&self, ino: Ino, generation: u32) -> u32 {
        self.secrets.hash_one((ino.0, generation)) as u32
    }

    /// Runs an operation that changes the volume: refused with `EROFS` when it must not be written;
    /// an error that puts acknowledged data at risk makes it so.
    pub fn mutate<T>(&self, operation: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        if self.health.is_read_only() {
            return fail(libc::EROFS);
        }
        // Removed files make room at once, for whatever comes next.
        let reclaimed = if self.store.pm_is_low() { self.reclaim_if_any() } else { Ok(()) };
        let result = reclaimed.and_then(|()| operation()).inspect_err(|error| {
            if error.is_fatal() {
                self.health.turn_read_only(error);
            }
        });
        if let Some(addr) = self.store.space.freed_twice() {
            self.found_contested(addr);
        }
        result
    }

    /// A part of something that may take long: whoever closes the volume waits for this part, and
    /// the next one is refused.
    ///
    /// # Errors
    /// As [`Self::mutate`].
    pub fn before_closing<T>(&self, part: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        let _not_closing = self.closing.read();
        self.mutate(part)
    }

    /// A block had two owners: nothing may be written over what the other still has.
    #[cold]
    fn found_contested(&self, addr: BlockAddr) {
        let path = self.store.device_path(addr.device());
        let structure = Structure::Block(addr.block());
        let kind = DamageKind::Wrong("belonged to two owners".into());
        let damage = Damage::new(addr.device(), &path, structure, kind).at(addr.byte());
        self.health.turn_read_only(&damage.into());
    }

    /// The request of this thread is about to have this effect. To be told under its locks, right
    /// before the commit.
    pub fn is_about_to(&self, effect: Effect) {
        if let Some(heritage) = &self.options.heritage {
            heritage.is_about_to(effect);
        }
    }

    pub fn shard(&self, ino: Ino) -> &Shard {
        &self.shards[self.store.shard_index(ino)]
    }

    /// The inode, if it is in DRAM.
    pub fn resident(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.shard(ino).inodes.read().get(&ino.0).cloned()
    }

    /// The inode, from DRAM or from media.
    ///
    /// # Errors
    /// `ESTALE` if there is none with this number; damage.
    pub fn get(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        // A mount that may write has recovered everything, and settles what it lets go.
        self.get_after(ino, self.options.read_only.then(|| self.store.stamp()))
    }

    /// As [`Self::get`], of an inode to whose log somebody may have appended since it was
    /// recovered: it is recovered once more, durably at the next fence. This mount's epoch has not
    /// begun, and nobody uses the inode.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn recover_anew(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        let shard = self.shard(ino);
        shard.depart(&mut shard.inodes.write(), ino);
        self.get_after(ino, Some(self.store.stamp()))
    }

    fn get_after(&self, ino: Ino, crashed: Option<Stamp>) -> FsResult<Arc<Inode>> {
        if ino.0 == 0 {
            return fail(libc::ESTALE);
        }
        let shard = self.shard(ino);
        let alive = |inode: &Arc<Inode>| match inode.deleted.load(Ordering::Acquire) {
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
            let loaded = self.load_inode(shard, ino, crashed);
            // Only a pinned file can be misplaced; nobody else has this one yet.
            let is_misplaced = |inode: &Arc<Inode>| {
                self.activity.is_misplaced(inode.tiers.pin.get(), &inode.inner.read())
            };
            let misplaced = loaded.as_ref().is_ok_and(is_misplaced);
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
                    if inode.is_file() && inode.tiers.pin.get().is_some() {
                        self.activity.note_pinned(inode, misplaced);
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
        let shards = self.store.shards() as u64;
        for index in records {
            let ino = Ino(index * shards + shard as u64 + 1);
            let is_resident = self.shards[shard].inodes.read().contains_key(&ino.0);
            let found = self.get(ino);
            visit(found.as_ref().map_err(FsError::clone))?;
            if let Ok(inode) = found
                && !is_resident
            {
                self.evict(inode);
            }
        }
        Ok(())
    }

    fn load_inode(&self, shard: &Shard, ino: Ino, crashed: Option<Stamp>) -> FsResult<Arc<Inode>> {
        let (at, state) = {
            // A record in a chunk that the table gives back meanwhile would be one no more.
            let table = shard.table.read();
            let Some(at) = table.locate(ino) else {
                return fail(libc::ESTALE);
            };
            (at, record_state(&self.store.pm, at, ino))
        };
        let record = match state {
            RecordState::Used(record) => record,
            RecordState::Free if ino != Ino::ROOT => return fail(libc::ESTALE),
            // There is always a root.
            RecordState::Free | RecordState::Damaged => {
                let kind = DamageKind::Damaged;
                let damage = Damage::in_pm(&self.store.pm, Structure::Record, kind);
                return Err(damage.at(at).of(ino).into());
            }
        };
        let media =
            LogMedia { pm: &self.store.pm, disks: &self.store.space.members, pending: None };
        let inner = match crashed {
            Some(stamp) if !self.options.read_only => Inner::recover(media, at, &record, stamp)?,
            crashed => Inner::load(media, at, &record, crashed)?,
        };
        self.check_extents(ino, &inner)?;
        Ok(Arc::new(self.make_inode(ino, &record, inner)?))
    }

    /// An inode's blocks must lie on devices that exist: nobody may be led outside by what stands
    /// on media.
    fn check_extents(&self, ino: Ino, inner: &Inner) -> FsResult<()> {
        match inner.owned().iter().find(|&&(addr, blocks)| !self.store.space.contains(addr, blocks))
        {
            None => Ok(()),
            Some(&(addr, blocks)) => {
                let kind = DamageKind::Outside(addr, blocks);
                Err(Damage::in_pm(&self.store.pm, Structure::Inode, kind).of(ino).into())
            }
        }
    }

    /// The DRAM side of an inode.
    pub fn make_inode(&self, ino: Ino, record: &InodeRecord, inner: Inner) -> FsResult<Inode> {
        let amtime = inner.file().map_or(Time(0), |file| file.heat.mean());
        let kind = kind_of(&self.store.pm, record)?;
        Ok(Inode {
            ino,
            generation: record.generation,
            kind,
            rdev: record.rdev,
            crtime: Time(record.created_ns),
            shard: self.store.shard_index(ino),
            lookups: Lookups::new(ino, self.options.heritage.as_ref()),
            parent: AtomicU64::new(0),
            orphaned: AtomicBool::new(false),
            deleted: AtomicBool::new(false),
            truncated: AtomicBool::new(false),
            pages: self.cache.map(ino.0, record.generation),
            moving: Mutex::new(()),
            flush: Mutex::new(()),
            reading: ReadHabits::default(),
            tiers: TierWords::new(self.pin_in_log(kind, &inner)?, amtime),
            left_out: AtomicBool::new(false),
            inner: Borrowable::new(inner),
        })
    }

    /// Takes back `count` lookups; the inode may then leave DRAM, and goes for good if it has no
    /// name.
    pub fn forget(&self, ino: Ino, count: u64) {
        let shard = self.shard(ino);
        let Some(inode) = self.resident(ino) else {
            // Of a daemon that died: a name leads to it, else it would be in memory.
            if let Some(heritage) = &self.options.heritage {
                heritage.take_back(ino, count);
            }
            return;
        };
        if inode.lookups.take_back(count) > count {
            return;
        }
        {
            let mut inner = inode.inner.write();
            if inner.meta.nlink == 0 {
                self.delete_if_unused(&inode, &mut inner);
                return;
            }
        }
        if shard.inodes.read().len() > IDLE_INODES_MAX {
            self.evict(inode);
        }
    }

    /// Drops an inode from DRAM if nobody else uses it and it has nothing to lose.
    pub fn evict(&self, inode: Arc<Inode>) {
        if !self.health.is_read_only() {
            let mut inner = inode.inner.write();
            // The thread that removed it has noted what it owns, and must find it here until all of
            // that is free.
            if inode.deleted.load(Ordering::Acquire) {
                return;
            }
            let settled = self.mutate(|| {
                self.commits.commit_lazy(&inode, &mut inner)?;
                inner
                    .log
                    .settle(&self.store.pm, &self.store.space.source(inode.shard, Purpose::Freeing))
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
            && !inode.deleted.load(Ordering::Acquire)
            && inode.lookups.count() == 0
            && !inode.pages.has_dirty()
            && inode
                .inner
                .try_read()
                .is_some_and(|inner| !inner.meta.lazy && inner.log.is_settled());
        if idle && inode.ino != Ino::ROOT {
            shard.depart(&mut inodes, inode.ino);
        }
    }

    /// Nobody can have a removed file open any more; what logs left to the next commit is done now,
    /// under one fence.
    pub fn settle_inodes(&self) -> FsResult<()> {
        let each = |visit: &dyn Fn(&Arc<Inode>, &mut Inner)| {
            for shard in &self.shards {
                let inodes: Vec<_> = shard.inodes.read().values().cloned().collect();
                inodes.iter().for_each(|inode| visit(inode, &mut inode.inner.write()));
            }
        };
        each(&|inode, inner| {
            if inner.meta.nlink == 0 {
                inode.lookups.take_back(u64::MAX);
                self.delete_if_unused(inode, inner);
            } else {
                inner.log.flush_unsettled(&self.store.pm);
            }
        });
        fence(&self.store.pm)?;
        each(&|inode, inner| {
            if inner.meta.nlink > 0 {
                inner.log.settled(&self.store.space.source(inode.shard, Purpose::Freeing));
            }
        });
        Ok(())
    }

    /// Whether a read now has to set the access time.
    pub fn wants_atime(&self, inner: &Inner) -> bool {
        if self.health.is_read_only() {
            return false;
        }
        match self.options.atime {
            AtimePolicy::Noatime => false,
            AtimePolicy::Strictatime => true,
            AtimePolicy::Relatime => {
                let meta = &inner.meta;
                meta.atime <= inner.mtime()
                    || meta.atime <= meta.ctime
                    || Time::now().0.saturating_sub(meta.atime.0) > RELATIME_NS
            }
        }
    }

    /// Directories spread over the shards; files stay with their directory's.
    pub fn pick_shard(&self, dir: &Inode) -> usize {
        let n = self.next_shard.fetch_add(1, Ordering::Relaxed);
        (dir.shard + (n / 64) as usize) % self.store.shards()
    }

    /// The value of an attribute, `None` if there is none.
    ///
    /// # Errors
    /// Damage.
    pub fn xattr_value(&self, inner: &Inner, name: &[u8]) -> FsResult<Option<Vec<u8>>> {
        let Some(xattr) = inner.xattrs.get(name) else {
            return Ok(None);
        };
        let mut value = vec![0u8; xattr.entry.value_len as usize];
        let damage = |kind| Damage::in_pm(&self.store.pm, Structure::Attribute(name.into()), kind);
        match xattr_blocks(&xattr.entry) {
            None => {
                let n = inline_len(&xattr.entry);
                let at = xattr.position + (size_of::<XattrEntry>() + name.len()) as u64;
                inner.log.entries(&self.store.pm).read(at, &mut value[..n])?;
            }
            Some((addr, blocks)) => {
                if !addr.is_pm() || !self.store.space.contains(addr, blocks) {
                    return Err(damage(DamageKind::Outside(addr, blocks)).into());
                }
                self.store.pm.try_read(addr.byte(), &mut value)?;
                if data_crc(&value) != xattr.entry.value_crc {
                    return Err(damage(DamageKind::Checksum).at(addr.byte()).into());
                }
            }
        }
        Ok(Some(value))
    }

    /// Logs all times that were kept back.
    ///
    /// # Errors
    /// As [`Commits::commit`].
    pub fn commit_all_lazy(&self) -> FsResult<()> {
        for shard in &self.shards {
            let inodes: Vec<_> = shard.inodes.read().values().cloned().collect();
            for inode in inodes {
                if inode.inner.look().meta.lazy {
                    self.commits.commit_lazy_if_room(&inode, &mut inode.inner.write())?;
                }
            }
        }
        Ok(())
    }

    /// The record of an inode that there is, and its byte in PM.
    pub fn used_record(&self, ino: Ino) -> Option<(u64, InodeRecord)> {
        // A record in a chunk that the table gives back meanwhile would be one no more.
        let table = self.shard(ino).table.read();
        let at = table.locate(ino)?;
        match record_state(&self.store.pm, at, ino) {
            RecordState::Used(record) => Some((at, record)),
            RecordState::Free | RecordState::Damaged => None,
        }
    }

    /// The tier that a value of the attribute names on this volume.
    ///
    /// # Errors
    /// `EPERM` for what cannot be pinned; `EINVAL` for another value, with those that are allowed.
    pub fn check_pin(&self, kind: FileKind, value: &[u8]) -> FsResult<u8> {
        if !matches!(kind, FileKind::Regular | FileKind::Directory) {
            let message =
                format!("{PIN_XATTR}: only files and directories can be pinned, not {kind:?}");
            return Err(FsError::with_message(libc::EPERM, message));
        }
        parse_pin(value).filter(|&tier| self.store.space.tiers().any(|t| t == tier)).ok_or_else(
            || {
                let allowed: Vec<String> = self.store.space.tiers().map(pin_value).collect();
                let value = String::from_utf8_lossy(value);
                let message = format!(
                    "{PIN_XATTR}: {value:?} is none of this volume's tiers: {}",
                    allowed.join(", ")
                );
                FsError::with_message(libc::EINVAL, message)
            },
        )
    }

    /// The pin that an inode's log names; a value that means no tier of this volume pins nothing.
    ///
    /// # Errors
    /// Damage.
    pub fn pin_in_log(&self, kind: FileKind, inner: &Inner) -> FsResult<Option<u8>> {
        let Some(xattr) = inner.xattrs.get(PIN_XATTR.as_bytes()) else {
            return Ok(None);
        };
        if xattr.entry.value_len as usize > pin_value(u8::MAX).len() {
            return Ok(None);
        }
        let value = self.xattr_value(inner, PIN_XATTR.as_bytes())?;
        Ok(value.and_then(|value| self.check_pin(kind, &value).ok()))
    }

    /// A migration has done with a file, which may leave DRAM if nobody else uses it.
    pub fn let_go(&self, inode: Arc<Inode>) {
        let ino = inode.ino;
        drop(inode);
        self.forget(ino, 0);
    }

    /// Whether a path still leads to a file.
    pub fn is_at(&self, path: &[u8], ino: Ino) -> bool {
        let names = path.split(|&byte| byte == b'/').skip(1);
        let found = names.into_iter().try_fold(Ino::ROOT, |dir, name| {
            let dir = self.get(dir).ok()?;
            let inner = dir.shared().ok()?;
            Some(inner.dir().ok()?.find(name)?.ino)
        });
        found == Some(ino)
    }

    pub fn inodes_in_use(&self) -> u64 {
        self.shards
            .iter()
            .map(|s| {
                let (records, free) = s.table.read().counts();
                records - free
            })
            .sum()
    }
}
