//! Names, kinds, owners, modes and sizes of the file system that does nothing.
//!
//! Invariant: an inode lives while it has names or the kernel knows it.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

use fuser::{Errno, FileAttr, FileType, INodeNo, RenameFlags, Request};

/// As reported; no file takes any.
pub const BLOCK_BYTES: u32 = 4096;

/// What is kept of each file.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Inodes by number.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: HashMap<u64, Node>,
    last: u64,
    started: SystemTime,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) attr: FileAttr,
    pub(super) lookups: u64,
    pub(super) target: OsString,
    /// The first bytes of a file's contents, up to [`HEAD_BYTES_MAX`]: what a database reads back
    /// of its own small files.
    head: Vec<u8>,
    names: Names,
}

/// A directory's names. Each keeps its cookie, so that a listing goes on at the right place after
/// removals.
#[derive(Debug, Default)]
struct Names {
    by_name: HashMap<OsString, (u64, u64)>,
    by_cookie: BTreeMap<u64, (OsString, u64)>,
    last_cookie: u64,
}

impl Names {
    fn get(&self, name: &OsStr) -> Option<u64> {
        self.by_name.get(name).map(|&(_, number)| number)
    }

    fn insert(&mut self, name: &OsStr, number: u64) {
        self.last_cookie += 1;
        self.by_name.insert(name.to_owned(), (self.last_cookie, number));
        self.by_cookie.insert(self.last_cookie, (name.to_owned(), number));
    }

    fn remove(&mut self, name: &OsStr) -> Option<u64> {
        let (cookie, number) = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie);
        Some(number)
    }
}

/// An inode to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewNode {
    pub(super) kind: FileType,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The number of a device node.
    pub(super) rdev: u32,
}

impl NewNode {
    pub(super) fn of(request: &Request, kind: FileType, mode: u32) -> Self {
        Self { kind, mode, uid: request.uid(), gid: request.gid(), rdev: 0 }
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        let mut tree = Tree { nodes: HashMap::new(), last: 0, started: SystemTime::now() };
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let kind = FileType::Directory;
        let root = tree.add(NewNode { kind, mode: 0o755, uid, gid, rdev: 0 });
        debug_assert_eq!(root, INodeNo::ROOT.0);
        tree
    }

    fn add(&mut self, new: NewNode) -> u64 {
        let NewNode { kind, mode, uid, gid, rdev } = new;
        self.last += 1;
        let time = self.started;
        let attr = FileAttr {
            ino: INodeNo(self.last),
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm: (mode & 0o7777) as u16,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid,
            gid,
            rdev,
            blksize: BLOCK_BYTES,
            flags: 0,
        };
        let node = Node {
            attr,
            lookups: 0,
            target: OsString::new(),
            head: Vec::new(),
            names: Names::default(),
        };
        self.nodes.insert(self.last, node);
        self.last
    }

    pub(super) fn node(&mut self, number: INodeNo) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&number.0).ok_or(Errno::ESTALE)
    }

    pub(super) fn child(&mut self, parent: INodeNo, name: &OsStr) -> Result<u64, Errno> {
        self.node(parent)?.names.get(name).ok_or(Errno::ENOENT)
    }

    /// The attributes to answer with, which make the kernel know the inode once more.
    pub(super) fn looked_up(&mut self, number: u64) -> Result<FileAttr, Errno> {
        let node = self.node(INodeNo(number))?;
        node.lookups += 1;
        Ok(node.attr)
    }

    pub(super) fn create(
        &mut self,
        parent: INodeNo,
        name: &OsStr,
        new: NewNode,
    ) -> Result<FileAttr, Errno> {
        if self.child(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        let (kind, number) = (new.kind, self.add(new));
        let directory = self.node(parent)?;
        directory.names.insert(name, number);
        directory.attr.nlink += u32::from(kind == FileType::Directory);
        self.looked_up(number)
    }

    pub(super) fn link(
        &mut self,
        inode: INodeNo,
        parent: INodeNo,
        name: &OsStr,
    ) -> Result<FileAttr, Errno> {
        if self.child(parent, name).is_ok() {
            return Err(Errno::EEXIST);
        }
        self.node(inode)?.attr.nlink += 1;
        self.node(parent)?.names.insert(name, inode.0);
        self.looked_up(inode.0)
    }

    pub(super) fn remove(&mut self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let number = self.child(parent, name)?;
        let node = self.node(INodeNo(number))?;
        if !node.names.by_name.is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        let directory = node.attr.kind == FileType::Directory;
        node.attr.nlink -= if directory { 2 } else { 1 };
        let parent = self.node(parent)?;
        parent.names.remove(name);
        parent.attr.nlink -= u32::from(directory);
        self.forget(number, 0);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let number = self.child(from.0, from.1)?;
        let other = self.child(to.0, to.1).ok();
        match other {
            None if flags.contains(RenameFlags::RENAME_EXCHANGE) => return Err(Errno::ENOENT),
            Some(_) if flags.contains(RenameFlags::RENAME_NOREPLACE) => return Err(Errno::EEXIST),
            Some(other) if other == number => return Ok(()),
            Some(_) if !flags.contains(RenameFlags::RENAME_EXCHANGE) => self.remove(to.0, to.1)?,
            _ => {}
        }
        self.move_name(number, from, to)?;
        match other {
            Some(other) if flags.contains(RenameFlags::RENAME_EXCHANGE) => {
                self.move_name(other, to, from)
            }
            _ => Ok(()),
        }
    }

    fn move_name(
        &mut self,
        number: u64,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
    ) -> Result<(), Errno> {
        let directory = u32::from(self.node(INodeNo(number))?.attr.kind == FileType::Directory);
        let old = self.node(from.0)?;
        // In an exchange the old name already leads to the other inode.
        if old.names.get(from.1) == Some(number) {
            old.names.remove(from.1);
        }
        old.attr.nlink -= directory;
        let new = self.node(to.0)?;
        new.names.remove(to.1);
        new.names.insert(to.1, number);
        new.attr.nlink += directory;
        Ok(())
    }

    pub(super) fn forget(&mut self, number: u64, lookups: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(lookups);
            if node.lookups == 0 && node.attr.nlink == 0 {
                self.nodes.remove(&number);
            }
        }
    }

    /// What a listing from `offset` on holds: the cookie of the next entry, name and attributes of
    /// each.
    pub(super) fn list(&self, directory: INodeNo, offset: u64) -> Vec<(u64, OsString, FileAttr)> {
        let Some(node) = self.nodes.get(&directory.0) else {
            return Vec::new();
        };
        // Offsets 1 and 2 are behind the two dots, cookies follow.
        let dots = [(1, ".".into(), node.attr), (2, "..".into(), node.attr)];
        let names = node.names.by_cookie.range(offset.saturating_sub(1)..).filter_map(
            |(cookie, (name, number))| {
                let attr = self.nodes.get(number)?.attr;
                Some((cookie + 2, name.clone(), attr))
            },
        );
        dots.into_iter().chain(names).filter(|&(next, ..)| next > offset).collect()
    }

    /// Takes note of a write of `data` at `offset`, or, without data, of a range that ends there.
    pub(super) fn write(&mut self, inode: INodeNo, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let node = self.node(inode)?;
        node.attr.size = node.attr.size.max(offset + data.len() as u64);
        if offset < HEAD_BYTES_MAX && !data.is_empty() {
            let kept = data.len().min((HEAD_BYTES_MAX - offset) as usize);
            let (start, end) = (offset as usize, offset as usize + kept);
            if node.head.len() < end {
                node.head.resize(end, 0);
            }
            node.head[start..end].copy_from_slice(&data[..kept]);
        }
        Ok(())
    }

    /// Sets a size, forgetting what lies beyond it.
    pub(super) fn set_size(&mut self, inode: INodeNo, size: u64) -> Result<(), Errno> {
        let node = self.node(inode)?;
        node.attr.size = size;
        node.head.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(())
    }

    /// How many bytes a read of `len_bytes` at `offset` gets, and those of them that are known, if
    /// any; the rest are zeros.
    pub(super) fn read(
        &mut self,
        inode: INodeNo,
        offset: u64,
        len_bytes: u64,
    ) -> Result<(usize, Option<Vec<u8>>), Errno> {
        let node = self.node(inode)?;
        let len_bytes = node.attr.size.saturating_sub(offset).min(len_bytes) as usize;
        let known = node
            .head
            .get(usize::try_from(offset).unwrap_or(usize::MAX)..)
            .filter(|known| !known.is_empty());
        Ok((len_bytes, known.map(|known| known[..known.len().min(len_bytes)].to_vec())))
    }
}
