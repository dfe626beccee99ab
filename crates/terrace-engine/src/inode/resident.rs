//! An inode in DRAM: what its log says, behind one lock.
//!
//! Invariants:
//! * At most one `Inode` per inode number exists at a time (the shard's map hands them out).
//! * `inner` changes only after the commit that makes the change durable, except access and change
//!   times, which are logged lazily (`Meta::lazy`).

pub(crate) mod load;
pub(crate) mod loans;
pub(crate) mod rewrite;

use std::collections::BTreeMap;

use terrace_layout::{
    AttrEntry, BlockAddr, EntryType, InodeRecord, TARGET_PIECE_BYTES_MAX, TargetEntry, XattrEntry,
};
use terrace_media::Pm;
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::file::FileData;
use terrace_store::index::Freed;
use terrace_store::log::{Log, Refs};
use terrace_store::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_store::sync::{Arc, Mutex, RwLockReadGuard, RwLockWriteGuard};

use self::loans::{Borrowable, Loan};
use crate::base::heritage::Lookups;
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
    /// Lookups that have not been forgotten; of one that was created without a name, whether it may
    /// get one.
    pub lookups: Lookups,
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
    pub inner: Borrowable,
}

/// What the log of an inode says.
#[derive(Debug)]
pub(crate) struct Inner {
    pub log: Log,
    pub meta: Meta,
    pub xattrs: BTreeMap<Vec<u8>, Xattr>,
    pub body: Body,
    /// Another process has the file: all this is what was known when the owner last looked.
    pub loan: Option<Box<Loan>>,
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
            loan: None,
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

    /// The log's contents as of a moment ago. A file that is lent stays so.
    ///
    /// # Errors
    /// `ESTALE` if the inode is gone.
    pub fn glance(&self) -> FsResult<RwLockReadGuard<'_, Inner>> {
        let inner = self.inner.look();
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
