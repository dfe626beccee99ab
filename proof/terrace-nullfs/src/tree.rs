//! Names, kinds, owners, modes and sizes of the file system that does nothing.
//!
//! Invariant: an inode lives while it has names or the kernel knows it.

use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

use terrace_transport::Caller;
use terrace_transport::abi::Attr;

/// Number of the root directory.
pub(super) const ROOT: u64 = 1;

/// As reported; no file takes any.
pub const BLOCK_BYTES: u32 = 4096;

/// What is kept of each file.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Inodes by number.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) nodes: HashMap<u64, Node>,
    last: u64,
    /// Seconds since the epoch.
    started: i64,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) attr: Attr,
    pub(super) lookups: u64,
    pub(super) target: Vec<u8>,
    /// The first bytes of a file's contents, up to [`HEAD_BYTES_MAX`]: what a database reads back
    /// of its own small files.
    head: Vec<u8>,
    names: Names,
}

/// A directory's names. Each keeps its cookie, so that a listing goes on at the right place after
/// removals.
#[derive(Debug, Default)]
struct Names {
    by_name: HashMap<Vec<u8>, (u64, u64)>,
    by_cookie: BTreeMap<u64, (Vec<u8>, u64)>,
    last_cookie: u64,
}

impl Names {
    fn get(&self, name: &[u8]) -> Option<u64> {
        self.by_name.get(name).map(|&(_, number)| number)
    }

    fn insert(&mut self, name: &[u8], number: u64) {
        self.last_cookie += 1;
        self.by_name.insert(name.to_owned(), (self.last_cookie, number));
        self.by_cookie.insert(self.last_cookie, (name.to_owned(), number));
    }

    fn remove(&mut self, name: &[u8]) -> Option<u64> {
        let (cookie, number) = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie);
        Some(number)
    }
}

/// Whether this is the mode of a directory.
pub(super) fn is_directory(mode: u32) -> bool {
    mode & libc::S_IFMT == libc::S_IFDIR
}

/// An inode to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewNode {
    /// Its type and its permissions.
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The number of a device node.
    pub(super) rdev: u32,
}

impl NewNode {
    pub(super) fn of(caller: Caller, mode: u32) -> Self {
        Self { mode, uid: caller.uid, gid: caller.gid, rdev: 0 }
    }
}

impl Tree {
    pub(super) fn new() -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let mut tree = Tree { nodes: HashMap::new(), last: 0, started: started as i64 };
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let root = tree.add(NewNode { mode: libc::S_IFDIR | 0o755, uid, gid, rdev: 0 });
        debug_assert_eq!(root, ROOT);
        tree
    }

    fn add(&mut self, new: NewNode) -> u64 {
        let NewNode { mode, uid, gid, rdev } = new;
        self.last += 1;
        let attr = Attr {
            ino: self.last,
            atime: self.started,
            mtime: self.started,
            ctime: self.started,
            mode,
            nlink: if is_directory(mode) { 2 } else { 1 },
            uid,
            gid,
            rdev,
            blksize: BLOCK_BYTES,
            ..Attr::default()
        };
        let node = Node {
            attr,
            lookups: 0,
            target: Vec::new(),
            head: Vec::new(),
            names: Names::default(),
        };
        self.nodes.insert(self.last, node);
        self.last
    }

    pub(super) fn node(&mut self, number: u64) -> Result<&mut Node, i32> {
        self.nodes.get_mut(&number).ok_or(libc::ESTALE)
    }

    pub(super) fn child(&mut self, parent: u64, name: &[u8]) -> Result<u64, i32> {
        self.node(parent)?.names.get(name).ok_or(libc::ENOENT)
    }

    /// The attributes to answer with, which make the kernel know the inode once more.
    pub(super) fn looked_up(&mut self, number: u64) -> Result<Attr, i32> {
        let node = self.node(number)?;
        node.lookups += 1;
        Ok(node.attr)
    }

    pub(super) fn create(&mut self, parent: u64, name: &[u8], new: NewNode) -> Result<Attr, i32> {
        if self.child(parent, name).is_ok() {
            return Err(libc::EEXIST);
        }
        let (mode, number) = (new.mode, self.add(new));
        let directory = self.node(parent)?;
        directory.names.insert(name, number);
        directory.attr.nlink += u32::from(is_directory(mode));
        self.looked_up(number)
    }

    pub(super) fn link(&mut self, inode: u64, parent: u64, name: &[u8]) -> Result<Attr, i32> {
        if self.child(parent, name).is_ok() {
            return Err(libc::EEXIST);
        }
        self.node(inode)?.attr.nlink += 1;
        self.node(parent)?.names.insert(name, inode);
        self.looked_up(inode)
    }

    pub(super) fn remove(&mut self, parent: u64, name: &[u8]) -> Result<(), i32> {
        let number = self.child(parent, name)?;
        let node = self.node(number)?;
        if !node.names.by_name.is_empty() {
            return Err(libc::ENOTEMPTY);
        }
        let directory = is_directory(node.attr.mode);
        node.attr.nlink -= if directory { 2 } else { 1 };
        let parent = self.node(parent)?;
        parent.names.remove(name);
        parent.attr.nlink -= u32::from(directory);
        self.forget(number, 0);
        Ok(())
    }

    pub(super) fn rename(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: u32,
    ) -> Result<(), i32> {
        let number = self.child(from.0, from.1)?;
        let other = self.child(to.0, to.1).ok();
        match other {
            None if flags & libc::RENAME_EXCHANGE != 0 => return Err(libc::ENOENT),
            Some(_) if flags & libc::RENAME_NOREPLACE != 0 => return Err(libc::EEXIST),
            Some(other) if other == number => return Ok(()),
            Some(_) if flags & libc::RENAME_EXCHANGE == 0 => self.remove(to.0, to.1)?,
            _ => {}
        }
        self.move_name(number, from, to)?;
        match other {
            Some(other) if flags & libc::RENAME_EXCHANGE != 0 => self.move_name(other, to, from),
            _ => Ok(()),
        }
    }

    fn move_name(&mut self, number: u64, from: (u64, &[u8]), to: (u64, &[u8])) -> Result<(), i32> {
        let directory = u32::from(is_directory(self.node(number)?.attr.mode));
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
    pub(super) fn list(&self, directory: u64, offset: u64) -> Vec<(u64, Vec<u8>, Attr)> {
        let Some(node) = self.nodes.get(&directory) else {
            return Vec::new();
        };
        // Offsets 1 and 2 are behind the two dots, cookies follow.
        let dots = [(1, b".".to_vec(), node.attr), (2, b"..".to_vec(), node.attr)];
        let names = node.names.by_cookie.range(offset.saturating_sub(1)..).filter_map(
            |(cookie, (name, number))| {
                let attr = self.nodes.get(number)?.attr;
                Some((cookie + 2, name.clone(), attr))
            },
        );
        dots.into_iter().chain(names).filter(|&(next, ..)| next > offset).collect()
    }

    /// Takes note of a write of `data` at `offset`, or, without data, of a range that ends there.
    pub(super) fn write(&mut self, inode: u64, offset: u64, data: &[u8]) -> Result<(), i32> {
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
    pub(super) fn set_size(&mut self, inode: u64, size: u64) -> Result<(), i32> {
        let node = self.node(inode)?;
        node.attr.size = size;
        node.head.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        Ok(())
    }

    /// How many bytes a read of `len_bytes` at `offset` gets, and those of them that are known, if
    /// any; the rest are zeros.
    pub(super) fn read(
        &mut self,
        inode: u64,
        offset: u64,
        len_bytes: u64,
    ) -> Result<(usize, Option<Vec<u8>>), i32> {
        let node = self.node(inode)?;
        let len_bytes = node.attr.size.saturating_sub(offset).min(len_bytes) as usize;
        let known = node
            .head
            .get(usize::try_from(offset).unwrap_or(usize::MAX)..)
            .filter(|known| !known.is_empty());
        Ok((len_bytes, known.map(|known| known[..known.len().min(len_bytes)].to_vec())))
    }
}
