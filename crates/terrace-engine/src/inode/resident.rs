//! An inode in DRAM: what its log says, behind one lock.
//!
//! Invariants:
//! * At most one `Inode` per inode number exists at a time (the shard's map hands them out).
//! * `inner` changes only after the commit that makes the change durable, except access and change
//!   times, which are logged lazily (`Meta::lazy`).

use std::collections::BTreeMap;

use terrace_layout::{
    AttrEntry, BlockAddr, CRC_BLOCKS, EntryType, InodeRecord, LogEntry, SET_SIZE_TRUNCATES, Stamp,
    TARGET_PIECE_BYTES_MAX, TargetEntry, WRITE_UNWRITTEN, XattrEntry, slots_for,
};
use terrace_media::Pm;
use terrace_policy::PmSpace;
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::file::{FileData, Heat, PmIo, apply_patch};
use terrace_store::index::{Extent, Freed, Segment};
use terrace_store::journal::Journal;
use terrace_store::log::{Draft, Log, LogMedia, NewLog, Refs, entry_damage};
use terrace_store::planted::{Bug, planted};
use terrace_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_store::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::base::types::{Attr, FileKind, Ino, Time};
use crate::inode::cache::PageMap;
use crate::inode::dir::{DirData, NewName};
use crate::inode::predictors::{ReadHabits, TierWords};

/// An inode.
#[derive(Debug)]
pub(crate) struct Inode {
    pub ino: Ino,
    pub generation: u32,
    pub kind: FileKind,
    pub rdev: u32,
    pub crtime: Time,
    pub shard: usize,
    /// Lookups that have not been forgotten.
    pub lookups: AtomicU64,
    /// Of a directory: its parent; 0 until somebody has come from there.
    pub parent: AtomicU64,
    /// It is a file that has lost its last name while somebody had it looked up, and counts in
    /// `Inodes::open_orphans`.
    pub orphaned: AtomicBool,
    /// Its record and blocks are on the way back; nothing may be added to it.
    pub deleted: AtomicBool,
    /// It was truncated to nothing: what is written next goes to disk at once, for programs that
    /// replace a file's contents without asking for durability.
    pub truncated: AtomicBool,
    /// Pages in the page cache.
    pub pages: Arc<PageMap>,
    /// One move at a time; taken before `flush`.
    pub moving: Mutex<()>,
    /// One flusher at a time; taken before `inner`.
    pub flush: Mutex<()>,
    /// How it is read.
    pub reading: ReadHabits,
    /// What the tiering floor knows of it.
    pub tiers: TierWords,
    /// Of a directory: a listing has left out an inode that could not be read.
    pub left_out: AtomicBool,
    pub inner: RwLock<Inner>,
}

/// What the log of an inode says.
#[derive(Debug)]
pub(crate) struct Inner {
    pub log: Log,
    pub meta: Meta,
    pub xattrs: BTreeMap<Vec<u8>, Xattr>,
    pub body: Body,
}

/// Attributes other than size and modification time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Meta {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Of directories 0 when removed, else 1; links of a directory are counted from its entries.
    pub nlink: u32,
    pub atime: Time,
    pub ctime: Time,
    /// The entry that says so; 0 if none does.
    pub attr_ref: u64,
    /// Times changed that the log does not know yet.
    pub lazy: bool,
}

/// Where the value of an extended attribute is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Xattr {
    /// Position of the entry in the log.
    pub position: u64,
    pub slots: u64,
    pub entry: XattrEntry,
}

/// What differs by kind.
#[derive(Debug)]
pub(crate) enum Body {
    File(Box<FileData>),
    Dir(Box<DirData>),
    Symlink { target: Vec<u8>, mtime: Time },
    Special { mtime: Time },
}

/// Whether what the last crash left half done is finished on media when an inode is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Nothing is stored.
    No,
    /// Patches are stored again, the log's tail catches up; durable at the next fence.
    Yes,
}

const OTHER_KIND: &str = "does not fit the inode's kind";

/// Where a log written anew has what is live.
#[derive(Debug)]
pub(crate) struct Live {
    attr: u64,
    /// The last entry that gives the modification time of a file or directory: who reads the log
    /// takes that one.
    mtime: u64,
    xattrs: Vec<u64>,
    body: Vec<u64>,
    /// What the entries of a file map.
    runs: Vec<(u64, Extent)>,
}

/// A log written anew, and where it has what is live.
#[derive(Debug)]
pub(crate) struct Replacement {
    pub draft: Draft,
    live: Live,
}

/// What has been met in a file's log while it is read.
#[derive(Default)]
struct Seen {
    patches: Vec<Patch>,
    freed: Freed,
    /// Blocks that entries mapped, and the sum of their times; the last of these.
    blocks: u64,
    time_sum: i128,
    last_write: i64,
}

impl Seen {
    fn wrote(&mut self, blocks: u64, time_ns: i64) {
        self.blocks += blocks;
        self.time_sum += i128::from(blocks) * i128::from(time_ns);
        self.last_write = self.last_write.max(time_ns);
    }

    /// The temperature of a file of so many blocks. Blocks that were written again count as often
    /// as they were written.
    fn heat(&self, blocks: u64) -> Heat {
        let mean = self.time_sum / i128::from(self.blocks.max(1));
        Heat::loaded(blocks, Time(mean as i64), Time(self.last_write))
    }
}

/// A small overwrite that may not have reached its block.
struct Patch {
    offset: u64,
    data: Vec<u8>,
}

impl Inner {
    /// A new inode as its record says, with an empty log.
    pub fn new(record_at: u64, record: &InodeRecord, kind: FileKind) -> Self {
        let created = Time(record.created_ns);
        let body = match kind {
            FileKind::Regular => Body::File(Box::new(FileData::new(created))),
            FileKind::Directory => Body::Dir(Box::new(DirData::new(created))),
            FileKind::Symlink => Body::Symlink { target: Vec::new(), mtime: created },
            _ => Body::Special { mtime: created },
        };
        Inner {
            log: Log::new(record_at, record),
            meta: Meta {
                mode: record.mode,
                uid: record.uid,
                gid: record.gid,
                nlink: 1,
                atime: created,
                ctime: created,
                attr_ref: 0,
                lazy: false,
            },
            xattrs: BTreeMap::new(),
            body,
        }
    }

    /// Reads an inode from media; `crashed`: stamp of the mount that wrote last, if what it left
    /// has not been recovered.
    ///
    /// # Errors
    /// Damage, with the place.
    pub fn load(
        media: LogMedia<'_>,
        record_at: u64,
        record: &InodeRecord,
        crashed: Option<Stamp>,
        replay: Replay,
    ) -> FsResult<Self> {
        let (pm, kind) = (media.pm, kind_of(media.pm, record)?);
        let mut inner = Inner::new(record_at, record, kind);
        let mut seen = Seen::default();
        let log = Log::load(media, record_at, record, crashed, &mut |refs, position, entry| {
            let applied = inner.apply(refs, position, entry, &mut seen);
            applied.map_err(|what| {
                let kind = DamageKind::Wrong(what.into());
                entry_damage(pm, Ino(record.ino), position, kind)
            })?;
            // Blocks that the log itself superseded were never counted as used.
            seen.freed.clear();
            Ok(())
        })?;
        inner.log = log;
        if let Body::File(file) = &mut inner.body {
            file.heat = seen.heat(file.index.data_blocks());
        }
        if replay == Replay::No {
            return Ok(inner);
        }
        inner.log.recover(pm);
        if !planted(Bug::PatchesNotRepeated)
            && let Body::File(file) = &inner.body
        {
            for patch in seen.patches {
                if let Segment::Extent(e) =
                    file.index.lookup(patch.offset / terrace_layout::BLOCK_BYTES)
                    && e.addr.is_pm()
                    && e.addr.byte() + terrace_layout::BLOCK_BYTES <= pm.len()
                {
                    apply_patch(pm, e.addr, patch.offset, &patch.data);
                }
            }
        }
        Ok(inner)
    }

    /// Applies an entry of the log; what is wrong with it if it cannot be.
    fn apply(
        &mut self,
        refs: &mut Refs,
        position: u64,
        entry: LogEntry<'_>,
        seen: &mut Seen,
    ) -> Result<(), &'static str> {
        match (&mut self.body, entry) {
            (_, LogEntry::Pad) => {}
            (_, LogEntry::Attr(e)) => self.apply_attr(refs, position, &e),
            (_, LogEntry::XattrSet(e, name, _)) => {
                let slots = slots_for(size_of::<XattrEntry>() + name.len() + inline_len(&e));
                set_xattr(&mut self.xattrs, refs, name, Some(Xattr { position, slots, entry: e }));
                self.meta.ctime = self.meta.ctime.max(Time(e.ctime_ns));
            }
            (_, LogEntry::XattrRemove(e, name)) => {
                set_xattr(&mut self.xattrs, refs, name, None);
                self.meta.ctime = self.meta.ctime.max(Time(e.ctime_ns));
            }
            (Body::Dir(dir), LogEntry::DentryAdd(e, name)) => {
                let Some(kind) = FileKind::from_mode(u32::from(e.file_type) << 12) else {
                    return Err(OTHER_KIND);
                };
                if dir.at(e.cookie).is_some() {
                    return Err("gives a position in the directory twice");
                }
                let (ino, time) = (Ino(e.ino), Time(e.mtime_ns));
                let (cookie, generation) = (e.cookie, e.generation);
                let new = NewName { cookie, name, ino, generation, kind, time };
                dir.added(refs, position, &new);
                self.meta.ctime = self.meta.ctime.max(time);
            }
            (Body::Dir(dir), LogEntry::DentryRemove(e)) => {
                dir.removed(refs, position, e.cookie, Time(e.mtime_ns));
                self.meta.ctime = self.meta.ctime.max(Time(e.mtime_ns));
            }
            (Body::Symlink { target, .. }, LogEntry::Target(e, piece)) => {
                refs.retain(position, slots_for(size_of::<TargetEntry>() + piece.len()));
                target.truncate(e.offset as usize);
                target.extend_from_slice(piece);
            }
            (Body::File(file), entry) => {
                let before = file.mtime;
                if !apply_to_file(file, refs, position, entry, seen) {
                    return Err(OTHER_KIND);
                }
                // Pages are written back under the time that the file has, which may be one that
                // somebody has set.
                if file.mtime != before {
                    self.meta.ctime = self.meta.ctime.max(file.mtime);
                }
            }
            _ => return Err(OTHER_KIND),
        }
        Ok(())
    }

    fn apply_attr(&mut self, refs: &mut Refs, position: u64, e: &AttrEntry) {
        refs.move_to(&mut self.meta.attr_ref, position);
        let attr_ref = self.meta.attr_ref;
        self.meta = Meta {
            mode: e.mode & 0o7777,
            uid: e.uid,
            gid: e.gid,
            nlink: e.nlink,
            atime: Time(e.atime_ns),
            ctime: Time(e.ctime_ns),
            attr_ref,
            lazy: false,
        };
        match &mut self.body {
            Body::File(file) => file.load_mtime(refs, position, e.mtime_ns),
            Body::Dir(dir) => dir.touched(refs, position, Time(e.mtime_ns)),
            Body::Symlink { mtime, .. } | Body::Special { mtime } => *mtime = Time(e.mtime_ns),
        }
    }

    /// Last modification.
    pub fn mtime(&self) -> Time {
        match &self.body {
            Body::File(file) => file.mtime,
            Body::Dir(dir) => dir.mtime,
            Body::Symlink { mtime, .. } | Body::Special { mtime } => *mtime,
        }
    }

    /// Puts all attributes, as `meta` and `mtime` have them, into the batch;
    /// [`Self::attr_committed`] follows.
    pub fn push_attr(&mut self, meta: &Meta, mtime: Time) -> usize {
        self.log.push(&attr_entry(meta, mtime), &[])
    }

    /// The attributes that [`Self::push_attr`] put at `index` of the batch are committed.
    pub fn attr_committed(&mut self, meta: &Meta, mtime: Time, index: usize) {
        let position = self.log.position(index);
        let attr_ref = self.meta.attr_ref;
        self.meta = Meta { attr_ref, lazy: false, ..*meta };
        self.log.refs.move_to(&mut self.meta.attr_ref, position);
        match &mut self.body {
            Body::File(file) => file.load_mtime(&mut self.log.refs, position, mtime.0),
            Body::Dir(dir) => dir.touched(&mut self.log.refs, position, mtime),
            Body::Symlink { mtime: m, .. } | Body::Special { mtime: m } => *m = mtime,
        }
    }

    /// A committed entry set an extended attribute; returns the one it replaced.
    pub fn xattr_set(&mut self, name: &[u8], xattr: Xattr) -> Option<Xattr> {
        set_xattr(&mut self.xattrs, &mut self.log.refs, name, Some(xattr))
    }

    /// A committed entry removed an extended attribute.
    pub fn xattr_removed(&mut self, name: &[u8]) -> Option<Xattr> {
        set_xattr(&mut self.xattrs, &mut self.log.refs, name, None)
    }

    /// Rewrites the log with what is live, if it is worth it.
    ///
    /// # Errors
    /// PM errors. A lack of space is none, nor is an entry that cannot be read: the log stays as it
    /// is.
    pub fn compact_if_wanted(
        &mut self,
        io: PmIo<'_>,
        space: PmSpace,
        journal: &Journal,
    ) -> FsResult<()> {
        if !self.log.wants_compaction(space) {
            return Ok(());
        }
        match self.compact(io, journal) {
            Err(error) if error.is_fatal() => Err(error),
            _ => Ok(()),
        }
    }

    /// Rewrites the log in PM with what is live.
    ///
    /// # Errors
    /// `ENOSPC`, or an entry that cannot be read: the log stays as it is. PM errors are fatal.
    pub fn compact(&mut self, io: PmIo<'_>, journal: &Journal) -> FsResult<()> {
        let mut compaction = self.log.begin_compaction(io.pm, io.source)?;
        let live = match self.push_live(&mut compaction, io) {
            Ok(live) => live,
            Err(error) => {
                compaction.give_up();
                return Err(error);
            }
        };
        self.log.end_compaction(compaction, journal)?;
        self.compacted(live);
        Ok(())
    }

    /// What is live of the log, for the record if it fits there, else, if it may go there, for a
    /// disk; `None` if that is too long.
    ///
    /// # Errors
    /// An entry that cannot be read.
    pub fn draft(&self, io: PmIo<'_>, to_disk: bool) -> FsResult<Option<Replacement>> {
        for for_record in [true, false].into_iter().filter(|&for_record| for_record || to_disk) {
            let mut draft = self.log.draft(for_record);
            match self.push_live(&mut draft, io) {
                Err(error) if error.is_no_room() => {}
                live => return Ok(Some(Replacement { draft, live: live? })),
            }
        }
        Ok(None)
    }

    /// The log becomes what was drafted, durable at `addr` if it needs that.
    ///
    /// # Errors
    /// PM errors: the volume must not be written again.
    pub fn replace_log(
        &mut self,
        by: Replacement,
        addr: BlockAddr,
        io: PmIo<'_>,
        journal: &Journal,
    ) -> FsResult<()> {
        let Replacement { draft, live } = by;
        self.log.replace_by(draft, addr, io.pm, io.source, journal)?;
        self.compacted(live);
        Ok(())
    }

    /// The log has been replaced by what is live.
    fn compacted(&mut self, live: Live) {
        (self.meta.attr_ref, self.meta.lazy) = (0, false);
        self.log.refs.move_to(&mut self.meta.attr_ref, live.attr);
        for (xattr, &position) in self.xattrs.values_mut().zip(&live.xattrs) {
            xattr.position = position;
            self.log.refs.retain(position, xattr.slots);
        }
        match &mut self.body {
            Body::File(file) => {
                file.compacted(&mut self.log.refs, live.runs, &live.body, live.mtime)
            }
            Body::Dir(dir) => dir.compacted(&mut self.log.refs, &live.body, live.mtime),
            Body::Symlink { target, .. } => retain_target(&mut self.log.refs, target, &live.body),
            Body::Special { .. } => {}
        }
    }

    /// Puts all that is live into a new log.
    fn push_live(&self, log: &mut impl NewLog, io: PmIo<'_>) -> FsResult<Live> {
        let entries = self.log.entries(io.pm);
        let next_page = log.next_page();
        let mut attr =
            log.push(&AttrEntry { next_page, ..attr_entry(&self.meta, self.mtime()) }, &[])?;
        let mut xattrs = Vec::with_capacity(self.xattrs.len());
        for (name, xattr) in &self.xattrs {
            let mut value = vec![0u8; inline_len(&xattr.entry)];
            entries
                .read(xattr.position + (size_of::<XattrEntry>() + name.len()) as u64, &mut value)?;
            xattrs.push(log.push(&xattr.entry, &[name, &value])?);
        }
        let mut runs = Vec::new();
        let body = match &self.body {
            Body::File(file) => {
                runs = file.runs(io);
                file.push_live(log, entries, &runs, self.meta.ctime)?
            }
            Body::Dir(dir) => dir.push_live(log)?,
            Body::Symlink { target, .. } => target_entries(target)
                .map(|(entry, piece)| log.push(&entry, &[piece]))
                .collect::<FsResult<_>>()?,
            Body::Special { .. } => Vec::new(),
        };
        let mut mtime = body.last().copied().unwrap_or(attr);
        if matches!(self.body, Body::File(_) | Body::Dir(_)) && self.mtime() > self.meta.ctime {
            // Somebody has set a time to come, which the body's entries have, too; they must not
            // pass for changes made then.
            attr = log.push(&attr_entry(&self.meta, self.mtime()), &[])?;
            mtime = attr;
        }
        Ok(Live { attr, mtime, xattrs, body, runs })
    }

    /// Every run of blocks that the inode owns, on any device: log, data, checksums, long attribute
    /// values.
    pub fn owned(&self) -> Freed {
        let mut owned: Freed = self.log.pages().map(|b| (BlockAddr::pm(b), 1)).collect();
        if let Body::File(file) = &self.body {
            owned.extend(file.index.iter().map(|(_, e)| (e.addr, u64::from(e.blocks))));
            owned.extend(file.index.crc_runs());
        }
        owned.extend(self.log.archive().map(|archive| (archive.addr, archive.blocks())));
        owned.extend(self.xattrs.values().filter_map(|x| xattr_blocks(&x.entry)));
        owned
    }

    /// The file's data.
    ///
    /// # Errors
    /// `EISDIR` for a directory, `EINVAL` for anything else without data.
    pub fn file(&self) -> FsResult<&FileData> {
        match &self.body {
            Body::File(file) => Ok(file),
            Body::Dir(_) => Err(FsError::new(libc::EISDIR)),
            _ => Err(FsError::new(libc::EINVAL)),
        }
    }

    /// The log and the file's data, to change them.
    ///
    /// # Errors
    /// As [`Self::file`].
    pub fn file_mut(&mut self) -> FsResult<(&mut Log, &mut FileData)> {
        match &mut self.body {
            Body::File(file) => Ok((&mut self.log, file)),
            Body::Dir(_) => Err(FsError::new(libc::EISDIR)),
            _ => Err(FsError::new(libc::EINVAL)),
        }
    }

    /// The directory's entries.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn dir(&self) -> FsResult<&DirData> {
        match &self.body {
            Body::Dir(dir) => Ok(dir),
            _ => Err(FsError::new(libc::ENOTDIR)),
        }
    }

    /// The log and the directory's entries, to change them.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn dir_mut(&mut self) -> FsResult<(&mut Log, &mut DirData)> {
        match &mut self.body {
            Body::Dir(dir) => Ok((&mut self.log, dir)),
            _ => Err(FsError::new(libc::ENOTDIR)),
        }
    }
}

impl Inode {
    /// This inode under a name, to be added to a directory.
    pub fn named<'a>(&self, name: &'a [u8], cookie: u64, time: Time) -> NewName<'a> {
        let Self { ino, generation, kind, .. } = *self;
        NewName { cookie, name, ino, generation, kind, time }
    }

    /// Attributes for the outside.
    pub fn attr(&self, inner: &Inner) -> Attr {
        let (size, blocks, nlink) = match &inner.body {
            Body::File(file) => {
                (file.size, file.index.blocks() + self.pages.dirty_pages(), inner.meta.nlink)
            }
            Body::Dir(dir) => {
                let archived = inner.log.archive().map_or(0, |archive| archive.blocks());
                let pages = inner.log.pages().count() as u64 + archived;
                let nlink = if inner.meta.nlink == 0 { 0 } else { 2 + dir.subdirs() };
                (pages.max(1) * terrace_layout::BLOCK_BYTES, pages, nlink)
            }
            Body::Symlink { target, .. } => (target.len() as u64, 0, inner.meta.nlink),
            Body::Special { .. } => (0, 0, inner.meta.nlink),
        };
        Attr {
            ino: self.ino,
            generation: self.generation,
            kind: self.kind,
            mode: inner.meta.mode,
            nlink,
            uid: inner.meta.uid,
            gid: inner.meta.gid,
            rdev: self.rdev,
            size,
            blocks_512: blocks * (terrace_layout::BLOCK_BYTES / 512),
            atime: inner.meta.atime,
            mtime: inner.mtime(),
            ctime: inner.meta.ctime,
            crtime: self.crtime,
        }
    }

    /// What the log says, to read it.
    ///
    /// # Errors
    /// `ESTALE` if the inode is gone.
    pub fn shared(&self) -> FsResult<RwLockReadGuard<'_, Inner>> {
        let inner = self.inner.read();
        if self.deleted.load(Ordering::Acquire) { fail(libc::ESTALE) } else { Ok(inner) }
    }

    /// What the log says, to change it.
    ///
    /// # Errors
    /// `ESTALE` if the inode is gone.
    pub fn exclusive(&self) -> FsResult<RwLockWriteGuard<'_, Inner>> {
        let inner = self.inner.write();
        if self.deleted.load(Ordering::Acquire) { fail(libc::ESTALE) } else { Ok(inner) }
    }

    /// Whether it has data.
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::Regular
    }

    /// The parent of a directory, if somebody has come from there; the root's is the root.
    pub fn known_parent(&self) -> Option<Ino> {
        match self.parent.load(Ordering::Relaxed) {
            0 => (self.ino == Ino::ROOT).then_some(Ino::ROOT),
            parent => Some(Ino(parent)),
        }
    }

    /// As [`Self::known_parent`]; the root where nobody knows.
    pub fn parent(&self) -> Ino {
        self.known_parent().unwrap_or(Ino::ROOT)
    }

    /// A directory was made in this one, or moved there.
    pub fn set_parent(&self, parent: Ino) {
        self.parent.store(parent.0, Ordering::Relaxed);
    }

    /// Somebody found this directory's name in `parent`: whether it may stand there, and nowhere
    /// else.
    pub fn is_child_of(&self, parent: Ino) -> bool {
        if self.ino == Ino::ROOT || self.ino == parent {
            return false;
        }
        let known = self.parent.compare_exchange(0, parent.0, Ordering::Relaxed, Ordering::Relaxed);
        known.is_ok() || known == Err(parent.0)
    }
}

/// Kind of the inode that a record describes.
///
/// # Errors
/// If the record names none.
pub(crate) fn kind_of(pm: &Pm, record: &InodeRecord) -> FsResult<FileKind> {
    FileKind::from_mode(u32::from(record.kind) << 12).ok_or_else(|| {
        let kind = DamageKind::Wrong("names no file type".into());
        Damage::in_pm(pm, Structure::Record, kind).of(Ino(record.ino)).into()
    })
}

/// Replaces an extended attribute and moves the references; returns the old one.
fn set_xattr(
    xattrs: &mut BTreeMap<Vec<u8>, Xattr>,
    refs: &mut Refs,
    name: &[u8],
    new: Option<Xattr>,
) -> Option<Xattr> {
    let old = match new {
        Some(new) => {
            refs.retain(new.position, new.slots);
            xattrs.insert(name.to_vec(), new)
        }
        None => xattrs.remove(name),
    };
    if let Some(old) = old {
        refs.release(old.position, old.slots);
    }
    old
}

/// Bytes of a value that stand in the entry itself.
pub(crate) fn inline_len(entry: &XattrEntry) -> usize {
    if entry.address == 0 { entry.value_len as usize } else { 0 }
}

/// The blocks of a value that does not stand in its entry.
pub(crate) fn xattr_blocks(entry: &XattrEntry) -> Option<(BlockAddr, u64)> {
    let blocks = u64::from(entry.value_len).div_ceil(terrace_layout::BLOCK_BYTES);
    (entry.address != 0).then_some((BlockAddr(entry.address), blocks))
}

/// All attributes.
fn attr_entry(meta: &Meta, mtime: Time) -> AttrEntry {
    AttrEntry {
        kind: EntryType::Attr as u8,
        slots: 0,
        flags: 0,
        crc: 0,
        mode: meta.mode,
        uid: meta.uid,
        gid: meta.gid,
        nlink: meta.nlink,
        atime_ns: meta.atime.0,
        mtime_ns: mtime.0,
        ctime_ns: meta.ctime.0,
        next_page: 0,
        reserved: [0; 8],
    }
}

/// A symbolic link's target, in pieces.
pub(crate) fn target_entries(target: &[u8]) -> impl Iterator<Item = (TargetEntry, &[u8])> {
    target.chunks(TARGET_PIECE_BYTES_MAX).enumerate().map(|(i, piece)| {
        let entry = TargetEntry {
            kind: EntryType::Target as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            offset: (i * TARGET_PIECE_BYTES_MAX) as u32,
            len: piece.len() as u32,
        };
        (entry, piece)
    })
}

/// The pieces of a target are committed, at these positions.
pub(crate) fn retain_target(refs: &mut Refs, target: &[u8], positions: &[u64]) {
    for (piece, &position) in target.chunks(TARGET_PIECE_BYTES_MAX).zip(positions) {
        refs.retain(position, slots_for(size_of::<TargetEntry>() + piece.len()));
    }
}

/// Applies an entry of a file's log; `false` if it is no entry of a file.
fn apply_to_file(
    file: &mut FileData,
    refs: &mut Refs,
    position: u64,
    entry: LogEntry<'_>,
    seen: &mut Seen,
) -> bool {
    let block_bytes = terrace_layout::BLOCK_BYTES;
    match entry {
        LogEntry::Write(e, _) => {
            let end = e.file_block + u64::from(e.blocks);
            seen.patches.retain(|p| !(e.file_block..end).contains(&(p.offset / block_bytes)));
            file.index.unmap(refs, e.file_block, end, &mut seen.freed);
            let crc_run = (e.crc_form == CRC_BLOCKS)
                .then_some((BlockAddr(e.crc_address), u64::from(e.crcs[1])));
            let unwritten = e.flags & WRITE_UNWRITTEN != 0;
            let extent =
                Extent::new(BlockAddr(e.address), e.blocks, position, unwritten, crc_run.is_some());
            file.index.map(refs, e.file_block, extent.with_history(e.counter), crc_run);
            seen.wrote(u64::from(e.blocks), e.mtime_ns);
            if !e.is_move() {
                file.load_size(refs, position, e.size, e.mtime_ns);
            }
        }
        LogEntry::Append(e) => {
            seen.wrote(0, e.mtime_ns);
            file.load_size(refs, position, e.size, e.mtime_ns);
        }
        LogEntry::Patch(e, data) => {
            seen.wrote(0, e.mtime_ns);
            seen.patches.push(Patch { offset: e.offset, data: data.to_vec() });
            file.load_mtime(refs, position, e.mtime_ns);
        }
        LogEntry::SetSize(e) => {
            if e.flags & SET_SIZE_TRUNCATES != 0 {
                file.index.unmap(refs, e.size.div_ceil(block_bytes), u64::MAX, &mut seen.freed);
            }
            seen.patches.retain_mut(|p| {
                p.data.truncate(e.size.saturating_sub(p.offset) as usize);
                !p.data.is_empty()
            });
            file.load_size(refs, position, e.size, e.mtime_ns);
        }
        LogEntry::Hole(e) => {
            let end = e.file_block + e.blocks;
            seen.patches.retain(|p| !(e.file_block..end).contains(&(p.offset / block_bytes)));
            file.index.unmap(refs, e.file_block, end, &mut seen.freed);
            file.load_size(refs, position, e.size, e.mtime_ns);
        }
        _ => return false,
    }
    true
}
