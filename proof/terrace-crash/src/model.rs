//! The reference model: a file system as plain as can be.
//!
//! Invariants:
//! * An operation that fails changes nothing, and fails with the errno that a volume gives.
//! * An inode is an index into [`Model::inodes`]; names that share one are hard links. Nothing is
//!   ever removed from there.
//! * A [`Step`] is a change that a volume may commit on its own; an operation is its steps in
//!   order, and nothing else.

mod describe;

use std::collections::BTreeMap;
use std::ops::Range;

use terrace_engine::{PIN_XATTR, pin_value};

use crate::op::{
    Acl, COPY_BYTES, FallocHow, Op, Path, RenameHow, Special, access_acl, default_acl, dir_name,
    name, pattern,
};

/// Bytes that a volume with the least page cache writes at a time.
const PIECE_BYTES: usize = 64 * 4096;
const BLOCK: usize = 4096;

/// What hard links share.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Inode {
    /// Contents of a file, target of a link.
    pub data: Vec<u8>,
    /// Permission and set-id bits.
    pub mode: u32,
    /// Owner.
    pub owner: u32,
    /// Group.
    pub group: u32,
    /// Modification time in seconds, if it was set and nothing has changed since.
    pub mtime: Option<u32>,
    /// Extended attributes of the user namespace.
    pub xattrs: BTreeMap<String, Vec<u8>>,
    /// Access ACL.
    pub access: Option<Acl>,
    /// Default ACL, with the mode bits that it has.
    pub default: Option<(Acl, u32)>,
}

/// What a name leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "plain")]
pub enum Node {
    File(usize),
    Dir(usize, BTreeMap<String, Node>),
    Link(usize),
    Fifo(usize),
    Special(usize, Special),
    Whiteout(usize),
}

impl Node {
    /// The inode's index.
    pub fn id(&self) -> usize {
        match self {
            Node::File(id)
            | Node::Dir(id, _)
            | Node::Link(id)
            | Node::Fifo(id)
            | Node::Special(id, _)
            | Node::Whiteout(id) => *id,
        }
    }

    fn is_dir(&self) -> bool {
        matches!(self, Node::Dir(..))
    }
}

/// A part of an operation that a volume commits at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "plain")]
pub enum Step {
    /// An operation that is one commit.
    Whole(Op),
    Put {
        path: Path,
        at: usize,
        bytes: Vec<u8>,
    },
    Zero {
        path: Path,
        from: usize,
        to: usize,
    },
    Resize {
        path: Path,
        size: usize,
    },
    /// The bytes are zeros, and the file is at least `size` bytes long.
    Deallocate {
        path: Path,
        from: usize,
        to: usize,
        size: usize,
    },
    Mode {
        path: Path,
        mode: u32,
    },
}

impl Step {
    /// The bytes that it writes, if it does: the only kind of change that may wait in the page
    /// cache.
    pub fn contents(&self) -> Option<(Path, Range<usize>)> {
        match self {
            Step::Put { path, at, bytes } => Some((*path, *at..at + bytes.len())),
            Step::Zero { path, from, to } => Some((*path, *from..*to)),
            _ => None,
        }
    }

    /// The path that it changes, the first of two.
    pub fn path(&self) -> Option<Path> {
        match self {
            Step::Put { path, .. }
            | Step::Zero { path, .. }
            | Step::Deallocate { path, .. }
            | Step::Resize { path, .. }
            | Step::Mode { path, .. }
            | Step::Whole(Op::Fsync(path) | Op::Fdatasync(path) | Op::Rename(path, ..)) => {
                Some(*path)
            }
            Step::Whole(_) => None,
        }
    }
}

/// The model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// What is in the root directory.
    pub root: BTreeMap<String, Node>,
    /// All inodes that ever were.
    pub inodes: Vec<Inode>,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// A volume as it is formatted.
    pub fn empty() -> Model {
        Model { root: BTreeMap::new(), inodes: vec![Inode { mode: 0o755, ..Inode::default() }] }
    }

    /// Two directories to play in.
    pub fn new() -> Model {
        let mut model = Model::empty();
        for i in 0..2 {
            model.inodes.push(Inode { mode: 0o755, ..Inode::default() });
            let id = model.inodes.len() - 1;
            model.root.insert(dir_name(i), Node::Dir(id, BTreeMap::new()));
        }
        model
    }

    fn dir(&self, path: Path) -> (usize, &BTreeMap<String, Node>) {
        match path.0 {
            None => (0, &self.root),
            Some(i) => match self.root.get(&dir_name(i)) {
                Some(Node::Dir(id, entries)) => (*id, entries),
                _ => unreachable!("directories to play in stay"),
            },
        }
    }

    /// The entries of a path's directory, about to change.
    fn dir_mut(&mut self, path: Path) -> &mut BTreeMap<String, Node> {
        let (id, _) = self.dir(path);
        self.inodes[id].mtime = None;
        match path.0 {
            None => &mut self.root,
            Some(i) => match self.root.get_mut(&dir_name(i)) {
                Some(Node::Dir(_, entries)) => entries,
                _ => unreachable!("directories to play in stay"),
            },
        }
    }

    /// What a path leads to.
    pub fn find(&self, path: Path) -> Option<&Node> {
        self.dir(path).1.get(&name(path.1))
    }

    fn node(&self, path: Path) -> Result<Node, i32> {
        self.find(path).cloned().ok_or(libc::ENOENT)
    }

    fn inode(&mut self, path: Path) -> Result<&mut Inode, i32> {
        let id = self.node(path)?.id();
        Ok(&mut self.inodes[id])
    }

    /// The regular file at a path.
    fn file(&mut self, path: Path) -> Result<&mut Inode, i32> {
        match self.node(path)? {
            Node::File(id) => Ok(&mut self.inodes[id]),
            Node::Dir(..) => Err(libc::EISDIR),
            _ => Err(libc::EINVAL),
        }
    }

    fn add(&mut self, path: Path, make: impl Fn(usize) -> Node, inode: Inode) -> Result<(), i32> {
        if self.find(path).is_some() {
            return Err(libc::EEXIST);
        }
        let inode = self.inherit(path, inode, &make(0));
        self.inodes.push(inode);
        let node = make(self.inodes.len() - 1);
        self.dir_mut(path).insert(name(path.1), node);
        Ok(())
    }

    /// What a new inode gets from its directory: what the default ACL says, and the pin.
    fn inherit(&self, path: Path, mut inode: Inode, node: &Node) -> Inode {
        let (parent, _) = self.dir(path);
        if let Some((acl, bits)) = self.inodes[parent].default
            && !matches!(node, Node::Link(_))
        {
            inode.mode &= bits;
            inode.access = Some(acl);
            inode.default = node.is_dir().then_some((acl, bits));
        }
        if let Some(pin) = self.inodes[parent].xattrs.get(PIN_XATTR)
            && matches!(node, Node::File(_) | Node::Dir(..))
        {
            inode.xattrs.insert(PIN_XATTR.to_owned(), pin.clone());
        }
        inode
    }

    /// Applies an operation; what a program would see as errno.
    pub fn apply(&mut self, op: &Op) -> Result<(), i32> {
        let steps = self.steps(op)?;
        steps.iter().try_for_each(|step| self.take(step))
    }

    /// The parts of an operation that a volume may commit one after the other.
    ///
    /// # Errors
    /// Errno of an operation that does nothing.
    pub fn steps(&self, op: &Op) -> Result<Vec<Step>, i32> {
        let mut scratch = self.clone();
        let mut size_of = |path| scratch.file(path).map(|file| file.data.len());
        match *op {
            Op::Write(path, at, len, seed)
            | Op::WriteLent(path, at, len, seed)
            | Op::WriteDurable(path, at, len, seed) => {
                size_of(path)?;
                Ok(put(path, at as usize, &pattern(len as usize, seed)))
            }
            Op::WriteUnprivileged(path, at, len, seed) => {
                let mode = { size_of(path).map(|_| scratch.file(path).expect("a file").mode) }?;
                let mut steps = vec![Step::Mode { path, mode: without_set_id(mode) }];
                steps.extend(put(path, at as usize, &pattern(len as usize, seed)));
                Ok(steps)
            }
            Op::Append(path, len, seed)
            | Op::AppendLent(path, len, seed)
            | Op::AppendDurable(path, len, seed) => {
                let size = size_of(path)?;
                Ok(put(path, size, &pattern(len as usize, seed)))
            }
            Op::Copy(from, to, at) => {
                let data = scratch.file(from)?.data.clone();
                let same = scratch.node(from) == scratch.node(to);
                scratch.file(to)?;
                if same && (at as usize) < COPY_BYTES {
                    return Err(libc::EINVAL);
                }
                let data = &data[..data.len().min(COPY_BYTES)];
                Ok(if data.is_empty() { Vec::new() } else { put(to, at as usize, data) })
            }
            Op::Truncate(path, size) | Op::TruncateLent(path, size) => {
                size_of(path)?;
                Ok(vec![Step::Resize { path, size: size as usize }])
            }
            Op::SizeAndMode(path, size, mode) => {
                size_of(path)?;
                Ok(vec![Step::Resize { path, size: size as usize }, Step::Mode { path, mode }])
            }
            Op::Falloc(path, how, at, len) => {
                size_of(path).map_err(|e| if e == libc::EINVAL { libc::ENODEV } else { e })?;
                Ok(falloc(path, how, at as usize, (at + len) as usize))
            }
            _ => {
                scratch.take(&Step::Whole(op.clone()))?;
                Ok(vec![Step::Whole(op.clone())])
            }
        }
    }

    /// Applies a step.
    ///
    /// # Errors
    /// Errno, if it cannot be: nothing has changed then.
    pub fn take(&mut self, step: &Step) -> Result<(), i32> {
        match step {
            Step::Whole(op) => self.whole(op),
            Step::Put { path, at, bytes } => {
                let file = self.file(*path)?;
                file.data.resize(file.data.len().max(at + bytes.len()), 0);
                file.data[*at..at + bytes.len()].copy_from_slice(bytes);
                file.mtime = None;
                Ok(())
            }
            Step::Zero { path, from, to } => {
                let file = self.file(*path)?;
                let size = file.data.len();
                file.data[(*from).min(size)..(*to).min(size)].fill(0);
                file.mtime = None;
                Ok(())
            }
            Step::Deallocate { path, from, to, size } => {
                let file = self.file(*path)?;
                let present = file.data.len();
                file.data.resize(present.max(*size), 0);
                file.data[(*from).min(present)..(*to).min(present)].fill(0);
                file.mtime = None;
                Ok(())
            }
            Step::Resize { path, size } => {
                let file = self.file(*path)?;
                file.data.resize(*size, 0);
                file.mtime = None;
                Ok(())
            }
            Step::Mode { path, mode } => {
                self.inode(*path)?.mode = *mode;
                Ok(())
            }
        }
    }

    fn whole(&mut self, op: &Op) -> Result<(), i32> {
        let plain = |mode| Inode { mode, ..Inode::default() };
        match *op {
            Op::Create(p) | Op::CreateByLink(p) => self.add(p, Node::File, plain(0o644)),
            Op::Mkdir(p) => self.add(p, |id| Node::Dir(id, BTreeMap::new()), plain(0o755)),
            Op::Mknod(p) => self.add(p, Node::Fifo, plain(0o640)),
            Op::MknodSpecial(p, special) => {
                self.add(p, |id| Node::Special(id, special), plain(0o600))
            }
            Op::Symlink(p, n) => {
                self.add(p, Node::Link, Inode { data: pattern(n, 3), ..plain(0o777) })
            }
            Op::Link(from, to) => {
                let node = self.node(from)?;
                if node.is_dir() {
                    return Err(libc::EPERM);
                }
                if self.find(to).is_some() {
                    return Err(libc::EEXIST);
                }
                self.dir_mut(to).insert(name(to.1), node);
                Ok(())
            }
            Op::Unlink(p) | Op::UnlinkHeld(p) => match self.node(p)? {
                Node::Dir(..) => Err(libc::EISDIR),
                _ => {
                    self.dir_mut(p).remove(&name(p.1));
                    Ok(())
                }
            },
            Op::Rmdir(p) | Op::RmdirHeld(p) => match self.node(p)? {
                Node::Dir(_, entries) if entries.is_empty() => {
                    self.dir_mut(p).remove(&name(p.1));
                    Ok(())
                }
                Node::Dir(..) => Err(libc::ENOTEMPTY),
                _ => Err(libc::ENOTDIR),
            },
            Op::Rename(from, to, how) => self.rename(from, to, how),
            Op::Chmod(p, mode) => self.inode(p).map(|inode| inode.mode = mode),
            Op::Chown(p, owner) => {
                self.own(p, owner)?;
                self.inode(p)?.owner = owner;
                Ok(())
            }
            Op::Chgrp(p, group) => self.own(p, group),
            Op::Utimes(p, seconds) => self.inode(p).map(|inode| inode.mtime = Some(seconds)),
            Op::SetXattr(p, n, len) => {
                let value = pattern(len.into(), n as u8);
                self.inode(p)?.xattrs.insert(format!("user.{n}"), value);
                Ok(())
            }
            Op::RemoveXattr(p, n) => {
                self.inode(p)?.xattrs.remove(&format!("user.{n}")).map(|_| ()).ok_or(libc::ENODATA)
            }
            Op::AccessAcl(p, perm) => {
                if matches!(self.node(p)?, Node::Link(_)) {
                    return Err(libc::EOPNOTSUPP);
                }
                let (acl, mode) = access_acl(perm);
                let inode = self.inode(p)?;
                inode.access = Some(acl);
                inode.mode = inode.mode & 0o7000 | mode;
                Ok(())
            }
            Op::DefaultAcl(dir, perm) => {
                let (id, _) = self.dir((Some(dir), 0));
                self.inodes[id].default = Some(default_acl(perm));
                Ok(())
            }
            Op::RemoveAccessAcl(p) => self.inode(p)?.access.take().map(drop).ok_or(libc::ENODATA),
            Op::RemoveDefaultAcl(dir) => {
                let (id, _) = self.dir((Some(dir), 0));
                self.inodes[id].default.take().map(drop).ok_or(libc::ENODATA)
            }
            Op::PinDir(dir, tier) => {
                let (id, _) = self.dir((Some(dir), 0));
                self.inodes[id].xattrs.insert(PIN_XATTR.to_owned(), pin_value(tier).into_bytes());
                Ok(())
            }
            Op::Fsync(p) | Op::Fdatasync(p) => self.node(p).map(drop),
            Op::Move(p, _) | Op::Read(p, _) => self.file(p).map(drop),
            Op::Migrate { .. } => Ok(()),
            _ => unreachable!("{op:?} has several steps"),
        }
    }

    /// Changes the group, and what goes with any change of ownership.
    fn own(&mut self, path: Path, group: u32) -> Result<(), i32> {
        let is_dir = self.node(path)?.is_dir();
        let inode = self.inode(path)?;
        inode.group = group;
        if !is_dir {
            inode.mode = without_set_id(inode.mode);
        }
        Ok(())
    }

    fn rename(&mut self, from: Path, to: Path, how: RenameHow) -> Result<(), i32> {
        let source = self.node(from)?;
        let victim = self.find(to).cloned();
        let same_inode = victim.as_ref().is_some_and(|v| v.id() == source.id());
        if how == RenameHow::NoReplace && victim.is_some() {
            return Err(libc::EEXIST);
        }
        if how == RenameHow::Exchange {
            let victim = victim.ok_or(libc::ENOENT)?;
            if !same_inode {
                self.dir_mut(from).insert(name(from.1), victim);
                self.dir_mut(to).insert(name(to.1), source);
            }
            return Ok(());
        }
        match (source.is_dir(), &victim) {
            (true, Some(Node::Dir(_, d))) if !same_inode && !d.is_empty() => {
                return Err(libc::ENOTEMPTY);
            }
            (true, Some(other)) if !other.is_dir() => return Err(libc::ENOTDIR),
            (false, Some(Node::Dir(..))) => return Err(libc::EISDIR),
            _ => {}
        }
        if same_inode {
            return Ok(());
        }
        self.dir_mut(from).remove(&name(from.1));
        self.dir_mut(to).insert(name(to.1), source);
        if how == RenameHow::Whiteout {
            let Inode { owner, group, .. } = self.inodes[self.dir(from).0];
            self.add(from, Node::Whiteout, Inode { owner, group, ..Inode::default() })?;
        }
        Ok(())
    }

    /// Names that lead to inode `id`.
    pub fn links(&self, id: usize) -> u32 {
        fn count(dir: &BTreeMap<String, Node>, id: usize) -> u32 {
            dir.values()
                .map(|node| match node {
                    Node::Dir(_, entries) => count(entries, id),
                    other => u32::from(other.id() == id),
                })
                .sum()
        }
        count(&self.root, id)
    }
}

/// A mode without set-user-id, and without set-group-id if the group may execute.
fn without_set_id(mode: u32) -> u32 {
    mode & !(if mode & 0o010 != 0 { 0o6000 } else { 0o4000 })
}

fn put(path: Path, at: usize, bytes: &[u8]) -> Vec<Step> {
    let pieces = bytes.chunks(PIECE_BYTES).enumerate();
    pieces
        .map(|(i, piece)| Step::Put { path, at: at + i * PIECE_BYTES, bytes: piece.to_vec() })
        .collect()
}

/// The edges of a zeroed range first, then its whole blocks and the size.
fn falloc(path: Path, how: FallocHow, at: usize, end: usize) -> Vec<Step> {
    let size = if matches!(how, FallocHow::Allocate | FallocHow::ZeroRange) { end } else { 0 };
    if matches!(how, FallocHow::Allocate | FallocHow::AllocateKeepSize) {
        return vec![Step::Deallocate { path, from: at, to: at, size }];
    }
    let (from, to) = (at.next_multiple_of(BLOCK).min(end), (end / BLOCK * BLOCK).max(at));
    vec![
        Step::Zero { path, from: at, to: from },
        Step::Zero { path, from: to, to: end },
        Step::Deallocate { path, from, to: to.max(from), size },
    ]
}
