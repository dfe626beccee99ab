//! The reference model: a file system as plain as can be, and the operations that it shares with a
//! volume.
//!
//! Invariants:
//! * An operation that fails changes nothing, and fails with the errno that a volume gives.
//! * An inode is an index into [`Model::inodes`]; names that share one are hard links. Nothing is
//!   ever removed from there.
//! * What a volume may commit on its own is one [`Step`]; an operation is its steps in order, and
//!   nothing else.

use std::collections::BTreeMap;
use std::ops::Range;

use terrace_engine::{PIN_XATTR, pin_value};

use crate::tree::{Tree, describe};

/// Names that operations use: few, so that they meet.
pub const NAMES: [&str; 4] =
    ["a", "b", "c", "a-rather-long-name-that-takes-more-than-one-slot-of-the-log-page-xyz"];

/// A directory to play in, by number ([`dir_name`]), or the root; and the number of a name in it
/// ([`name`]).
pub type Path = (Option<usize>, usize);

/// Most bytes that a copy moves.
pub const COPY_BYTES: usize = 30_000;
/// Bytes that a volume with the least page cache writes at a time.
const PIECE_BYTES: usize = 64 * 4096;
const BLOCK: usize = 4096;

/// Name number `i`: one of [`NAMES`], or `n` and the number beyond them.
pub fn name(i: usize) -> String {
    NAMES.get(i).map_or_else(|| format!("n{i}"), |name| (*name).to_owned())
}

/// Name of a directory to play in.
pub fn dir_name(i: usize) -> String {
    format!("dir{i}")
}

/// Recognizable bytes.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| ((i * 7) as u8).wrapping_add(seed).wrapping_add((i >> 8) as u8) | 1).collect()
}

/// How to rename.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RenameHow {
    /// Over whatever is there.
    Plain,
    /// Not over anything.
    NoReplace,
    /// The two names swap.
    Exchange,
    /// A whiteout stays behind.
    Whiteout,
}

/// `fallocate` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FallocHow {
    /// Reserve, and grow the file.
    Allocate,
    /// Reserve.
    AllocateKeepSize,
    /// Deallocate.
    PunchHole,
    /// Zero, and grow the file.
    ZeroRange,
    /// Zero.
    ZeroRangeKeepSize,
}

/// Special files beyond named pipes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "plain")]
pub enum Special {
    Block,
    Char,
    Socket,
}

impl Special {
    /// Its device number: a socket has none.
    pub fn rdev(self) -> u32 {
        match self {
            Special::Block => 0x0810,
            Special::Char => 0x0501,
            Special::Socket => 0,
        }
    }
}

/// An operation. Offsets, lengths and sizes are bytes; the last number of a write is the seed of
/// its pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the operations are those of the volume")]
pub enum Op {
    Create(Path),
    Mkdir(Path),
    /// A target of so many bytes.
    Symlink(Path, usize),
    /// A named pipe.
    Mknod(Path),
    /// A device or a socket.
    MknodSpecial(Path, Special),
    Link(Path, Path),
    Unlink(Path),
    /// Unlink while it is in use, a write to it, and then the last use ends.
    UnlinkHeld(Path),
    Rmdir(Path),
    /// Rmdir while it is in use; a name cannot be made there any more, and then the last use ends.
    RmdirHeld(Path),
    Rename(Path, Path, RenameHow),
    Write(Path, u32, u32, u8),
    /// A write by somebody who may not keep set-id bits.
    WriteUnprivileged(Path, u32, u32, u8),
    Append(Path, u32, u8),
    /// As with `O_DSYNC`.
    WriteDurable(Path, u32, u32, u8),
    /// Likewise.
    AppendDurable(Path, u32, u8),
    Truncate(Path, u32),
    Falloc(Path, FallocHow, u32, u32),
    Chmod(Path, u32),
    /// Owner and group.
    Chown(Path, u32),
    /// The group alone.
    Chgrp(Path, u32),
    /// Modification time, in seconds since the epoch; before 2000.
    Utimes(Path, u32),
    /// Size and mode in one call.
    SizeAndMode(Path, u32, u32),
    SetXattr(Path, usize, u16),
    RemoveXattr(Path, usize),
    /// An access ACL with an entry for a user of these permissions.
    AccessAcl(Path, u8),
    /// A default ACL for a directory to play in, likewise.
    DefaultAcl(usize, u8),
    RemoveAccessAcl(Path),
    RemoveDefaultAcl(usize),
    /// A directory to play in is pinned to a tier, 0 for PM.
    PinDir(usize, u8),
    Copy(Path, Path, u32),
    Fsync(Path),
    Fdatasync(Path),
    /// All data of the file to a tier, 0 for PM, or to the last tier if there are fewer.
    Move(Path, u8),
    /// All that background migration would do now; `up`: that is to move data to PM.
    Migrate {
        up: bool,
    },
    /// All of the file, so many times: what migration goes by.
    Read(Path, u8),
}

impl Op {
    /// Whether what it writes is durable when it returns, wherever it goes.
    pub fn is_durable(&self) -> bool {
        matches!(self, Op::WriteDurable(..) | Op::AppendDurable(..))
    }

    /// The file whose data is durable when it returns.
    pub fn syncs(&self) -> Option<Path> {
        match self {
            Op::Fsync(path) | Op::Fdatasync(path) => Some(*path),
            _ => None,
        }
    }
}

/// An access control list with one named user; owner, mask and others are the mode's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acl {
    named: u8,
    group: u8,
}

/// User that the ACLs name.
const ACL_USER: u32 = 7;

impl Acl {
    /// The extended attribute, for a file of this mode.
    pub fn encode(self, mode: u32) -> Vec<u8> {
        let bits = |shift: u32| (mode >> shift & 7) as u8;
        let entries = [
            (0x01u16, bits(6), u32::MAX),
            (0x02, self.named, ACL_USER),
            (0x04, self.group, u32::MAX),
            (0x10, bits(3), u32::MAX),
            (0x20, bits(0), u32::MAX),
        ];
        let mut value = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            value.extend(tag.to_le_bytes());
            value.extend(u16::from(perm).to_le_bytes());
            value.extend(id.to_le_bytes());
        }
        value
    }
}

/// The access ACL that [`Op::AccessAcl`] sets, and the mode that goes with it.
pub fn access_acl(perm: u8) -> (Acl, u32) {
    let mask = u32::from(perm | 4);
    (Acl { named: perm, group: 4 }, 0o600 | mask << 3)
}

/// The default ACL that [`Op::DefaultAcl`] sets, and the mode whose bits it has.
pub fn default_acl(perm: u8) -> (Acl, u32) {
    (Acl { named: perm, group: 5 }, 0o775)
}

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
            Op::Write(path, at, len, seed) | Op::WriteDurable(path, at, len, seed) => {
                size_of(path)?;
                Ok(put(path, at as usize, &pattern(len as usize, seed)))
            }
            Op::WriteUnprivileged(path, at, len, seed) => {
                let mode = { size_of(path).map(|_| scratch.file(path).expect("a file").mode) }?;
                let mut steps = vec![Step::Mode { path, mode: without_set_id(mode) }];
                steps.extend(put(path, at as usize, &pattern(len as usize, seed)));
                Ok(steps)
            }
            Op::Append(path, len, seed) | Op::AppendDurable(path, len, seed) => {
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
            Op::Truncate(path, size) => {
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
            Op::Create(p) => self.add(p, Node::File, plain(0o644)),
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

    /// The tree as [`tree_of`](crate::tree::tree_of) describes a volume's.
    /// `times`: with modification times.
    pub fn tree(&self, times: bool) -> Tree {
        describe(self, times)
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
