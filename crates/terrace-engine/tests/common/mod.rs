//! The reference model: a file system as plain as can be, and random operations for both.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use terrace_engine::{
    CheckOptions, Fallocate, FileKind, FsResult, Ino, NewInode, RenameFlags, SetAttr, Volume, WriteOptions, XattrFlags,
    check,
};
use terrace_media::{Disk, Pm};

/// How to run property tests: `PROPTEST_CASES` overrides the number of cases; failures are printed, not filed.
pub fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(cases);
    ProptestConfig { cases, max_shrink_iters: 2000, failure_persistence: None, ..Default::default() }
}

/// An unmounted volume has nothing wrong: structure, ownership of every block, checksums, checkpoint.
pub fn must_be_sound(pm: &Arc<Pm>, disk: &Arc<dyn Disk>) {
    let options = CheckOptions { repair: false, data: true };
    let report = check(pm, std::slice::from_ref(disk), &options, &|_, _, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

/// Names that operations use: few, so that they meet.
pub const NAMES: [&str; 4] = ["a", "b", "c", "a-rather-long-name-that-takes-more-than-one-slot-of-the-log-page-xyz"];

/// A node of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    File { id: usize },
    Dir(BTreeMap<String, Node>),
    Link { id: usize, target: Vec<u8> },
}

/// What hard links share.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Contents {
    pub data: Vec<u8>,
    pub mode: u32,
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

/// The model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub root: BTreeMap<String, Node>,
    pub files: Vec<Contents>,
}

/// A tree as compared: path to description.
pub type Tree = BTreeMap<String, String>;

/// A path of one or two names.
pub type Path = (Option<usize>, usize);

#[derive(Clone, Debug)]
pub enum Op {
    Create(Path),
    Mkdir(Path),
    Symlink(Path, usize),
    Link(Path, Path),
    Unlink(Path),
    Rmdir(Path),
    Rename(Path, Path, u8),
    Write(Path, u32, u16, u8),
    Append(Path, u16, u8),
    Truncate(Path, u32),
    Falloc(Path, u8, u32, u32),
    Chmod(Path, u32),
    SetXattr(Path, usize, u16),
    RemoveXattr(Path, usize),
    Copy(Path, Path, u32),
    Fsync(Path),
}

impl Node {
    /// What makes two names the same inode; a directory has one name only.
    fn id(&self) -> Option<usize> {
        match self {
            Node::File { id } | Node::Link { id, .. } => Some(*id),
            Node::Dir(_) => None,
        }
    }
}

fn path() -> impl Strategy<Value = Path> {
    (proptest::option::weighted(0.3, 0..2usize), 0..NAMES.len())
}

/// Random operations; offsets and lengths up to about `max` bytes, often unaligned, sometimes tiny.
pub fn op(max: u32) -> impl Strategy<Value = Op> {
    let offset = prop_oneof![0..max, (0..max / 4096).prop_map(|b| b * 4096), 0..200u32];
    let len = prop_oneof![1..200u16, 1..20000u16, (1..5u16).prop_map(|b| b * 4096)];
    prop_oneof![
        3 => path().prop_map(Op::Create),
        1 => path().prop_map(Op::Mkdir),
        1 => (path(), 1..4095usize).prop_map(|(p, n)| Op::Symlink(p, n)),
        1 => (path(), path()).prop_map(|(a, b)| Op::Link(a, b)),
        1 => path().prop_map(Op::Unlink),
        1 => path().prop_map(Op::Rmdir),
        2 => (path(), path(), 0..4u8).prop_map(|(a, b, f)| Op::Rename(a, b, f)),
        8 => (path(), offset.clone(), len.clone(), any::<u8>()).prop_map(|(p, o, l, s)| Op::Write(p, o, l, s)),
        4 => (path(), len, any::<u8>()).prop_map(|(p, l, s)| Op::Append(p, l, s)),
        2 => (path(), offset.clone()).prop_map(|(p, o)| Op::Truncate(p, o)),
        2 => (path(), 0..5u8, offset.clone(), 1..max).prop_map(|(p, m, o, l)| Op::Falloc(p, m, o, l)),
        1 => (path(), 0..0o1000u32).prop_map(|(p, m)| Op::Chmod(p, m)),
        1 => (path(), 0..3usize, prop_oneof![1..100u16, 1..6000u16]).prop_map(|(p, n, l)| Op::SetXattr(p, n, l)),
        1 => (path(), 0..3usize).prop_map(|(p, n)| Op::RemoveXattr(p, n)),
        1 => (path(), path(), offset).prop_map(|(a, b, o)| Op::Copy(a, b, o)),
        1 => path().prop_map(Op::Fsync),
    ]
}

/// Recognizable bytes.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| ((i * 7) as u8).wrapping_add(seed).wrapping_add((i >> 8) as u8) | 1).collect()
}

fn dir_name(i: usize) -> String {
    format!("dir{i}")
}

impl Model {
    /// Two directories to play in.
    pub fn new() -> Model {
        let root = (0..2).map(|i| (dir_name(i), Node::Dir(BTreeMap::new()))).collect();
        Model { root, files: Vec::new() }
    }

    fn dir(&mut self, path: Path) -> &mut BTreeMap<String, Node> {
        match path.0 {
            None => &mut self.root,
            Some(i) => match self.root.get_mut(&dir_name(i)) {
                Some(Node::Dir(d)) => d,
                _ => unreachable!("directories to play in stay"),
            },
        }
    }

    fn find(&mut self, path: Path) -> Option<Node> {
        self.dir(path).get(NAMES[path.1]).cloned()
    }

    fn file(&mut self, path: Path) -> Result<&mut Contents, i32> {
        match self.find(path) {
            Some(Node::File { id }) => Ok(&mut self.files[id]),
            Some(Node::Dir(_)) => Err(libc::EISDIR),
            Some(Node::Link { .. }) => Err(libc::EINVAL),
            None => Err(libc::ENOENT),
        }
    }

    fn add(&mut self, path: Path, node: Node) -> Result<(), i32> {
        if self.find(path).is_some() {
            return Err(libc::EEXIST);
        }
        self.dir(path).insert(NAMES[path.1].into(), node);
        Ok(())
    }

    /// Applies an operation; what a program would see as errno.
    pub fn apply(&mut self, op: &Op) -> Result<(), i32> {
        match *op {
            Op::Create(p) => {
                if self.find(p).is_some() {
                    return Err(libc::EEXIST);
                }
                self.files.push(Contents { mode: 0o644, ..Default::default() });
                let id = self.files.len() - 1;
                self.add(p, Node::File { id })
            }
            Op::Mkdir(p) => self.add(p, Node::Dir(BTreeMap::new())),
            Op::Symlink(p, n) => {
                self.files.push(Contents::default());
                let id = self.files.len() - 1;
                self.add(p, Node::Link { id, target: pattern(n, 3) })
            }
            Op::Link(from, to) => {
                let node = self.find(from).ok_or(libc::ENOENT)?;
                if matches!(node, Node::Dir(_)) {
                    return Err(libc::EPERM);
                }
                self.add(to, node)
            }
            Op::Unlink(p) => match self.find(p).ok_or(libc::ENOENT)? {
                Node::Dir(_) => Err(libc::EISDIR),
                _ => {
                    self.dir(p).remove(NAMES[p.1]);
                    Ok(())
                }
            },
            Op::Rmdir(p) => match self.find(p).ok_or(libc::ENOENT)? {
                Node::Dir(d) if d.is_empty() => {
                    self.dir(p).remove(NAMES[p.1]);
                    Ok(())
                }
                Node::Dir(_) => Err(libc::ENOTEMPTY),
                _ => Err(libc::ENOTDIR),
            },
            Op::Rename(from, to, flag) => self.rename(from, to, flag),
            Op::Write(p, offset, len, seed) => {
                let file = self.file(p)?;
                write(&mut file.data, offset as usize, &pattern(len.into(), seed));
                Ok(())
            }
            Op::Append(p, len, seed) => {
                let file = self.file(p)?;
                let at = file.data.len();
                write(&mut file.data, at, &pattern(len.into(), seed));
                Ok(())
            }
            Op::Truncate(p, size) => {
                self.file(p)?.data.resize(size as usize, 0);
                Ok(())
            }
            Op::Falloc(p, mode, offset, len) => {
                let file = self.file(p).map_err(|e| if e == libc::EINVAL { libc::ENODEV } else { e })?;
                let (start, end) = (offset as usize, (offset + len) as usize);
                if matches!(mode, 0 | 3) && file.data.len() < end {
                    file.data.resize(end, 0);
                }
                if mode >= 2 {
                    let size = file.data.len();
                    file.data[start.min(size)..end.min(size)].fill(0);
                }
                Ok(())
            }
            Op::Chmod(p, mode) => match self.file(p) {
                Ok(file) => {
                    file.mode = mode;
                    Ok(())
                }
                Err(libc::ENOENT) => Err(libc::ENOENT),
                Err(_) => Ok(()),
            },
            Op::SetXattr(p, n, len) => {
                let file = self.file(p)?;
                file.xattrs.insert(format!("user.{n}"), pattern(len.into(), n as u8));
                Ok(())
            }
            Op::RemoveXattr(p, n) => self.file(p)?.xattrs.remove(&format!("user.{n}")).map(|_| ()).ok_or(libc::ENODATA),
            Op::Copy(from, to, offset) => {
                let data = self.file(from)?.data.clone();
                let same = self.find(from) == self.find(to);
                let file = self.file(to)?;
                let n = data.len().min(30_000);
                if same && (offset as usize) < 30_000 {
                    return Err(libc::EINVAL);
                }
                if n > 0 {
                    write(&mut file.data, offset as usize, &data[..n]);
                }
                Ok(())
            }
            Op::Fsync(p) => self.find(p).map(|_| ()).ok_or(libc::ENOENT),
        }
    }

    fn rename(&mut self, from: Path, to: Path, flag: u8) -> Result<(), i32> {
        let source = self.find(from).ok_or(libc::ENOENT)?;
        let victim = self.find(to);
        let same = from == to;
        let same_inode = same || (source.id().is_some() && source.id() == victim.as_ref().and_then(Node::id));
        match flag {
            1 if victim.is_some() => return Err(libc::EEXIST),
            2 => {
                let victim = victim.ok_or(libc::ENOENT)?;
                if !same {
                    self.dir(from).insert(NAMES[from.1].into(), victim);
                    self.dir(to).insert(NAMES[to.1].into(), source);
                }
                return Ok(());
            }
            _ => {}
        }
        match (&source, &victim) {
            (Node::Dir(_), Some(Node::Dir(d))) if !same && !d.is_empty() => return Err(libc::ENOTEMPTY),
            (Node::Dir(_), Some(Node::File { .. } | Node::Link { .. })) => return Err(libc::ENOTDIR),
            (Node::File { .. } | Node::Link { .. }, Some(Node::Dir(_))) => return Err(libc::EISDIR),
            _ => {}
        }
        if !same_inode {
            self.dir(from).remove(NAMES[from.1]);
            self.dir(to).insert(NAMES[to.1].into(), source);
        }
        Ok(())
    }

    /// The tree as [`tree_of`] describes a volume's.
    pub fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        self.describe("", &self.root, &mut tree);
        tree
    }

    fn describe(&self, prefix: &str, dir: &BTreeMap<String, Node>, tree: &mut Tree) {
        for (name, node) in dir {
            let path = format!("{prefix}/{name}");
            let text = match node {
                Node::Dir(d) => {
                    self.describe(&path, d, tree);
                    "dir".into()
                }
                Node::Link { target, .. } => format!("link {:08x}", terrace_layout::data_crc(target)),
                Node::File { id } => {
                    let f = &self.files[*id];
                    let links = self.links(*id, &self.root);
                    describe_file(&f.data, f.mode, links, &f.xattrs)
                }
            };
            tree.insert(path, text);
        }
    }

    fn links(&self, id: usize, dir: &BTreeMap<String, Node>) -> u32 {
        dir.values()
            .map(|n| match n {
                Node::File { id: i } => u32::from(*i == id),
                Node::Dir(d) => self.links(id, d),
                Node::Link { .. } => 0,
            })
            .sum()
    }
}

fn write(data: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    data.resize(data.len().max(at + bytes.len()), 0);
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

fn describe_file(data: &[u8], mode: u32, links: u32, xattrs: &BTreeMap<String, Vec<u8>>) -> String {
    let xattrs: Vec<_> = xattrs.iter().map(|(k, v)| format!("{k}={:08x}", terrace_layout::data_crc(v))).collect();
    format!("file {} bytes {:08x} mode {mode:o} links {links} {xattrs:?}", data.len(), terrace_layout::data_crc(data))
}

/// The playground on a volume.
pub fn prepare(v: &Volume) {
    for i in 0..2 {
        let new = NewInode { kind: FileKind::Directory, mode: 0o755, umask: 0, uid: 0, gid: 0, rdev: 0 };
        v.create(Ino::ROOT, dir_name(i).as_bytes(), &new).unwrap();
    }
}

/// Describes a volume's tree; reads everything.
pub fn tree_of(v: &Volume) -> Tree {
    let mut tree = Tree::new();
    walk(v, Ino::ROOT, "", &mut tree);
    tree
}

fn walk(v: &Volume, dir: Ino, prefix: &str, tree: &mut Tree) {
    let mut entries = Vec::new();
    v.readdir(dir, 0, &mut |e| {
        entries.push((String::from_utf8(e.name.to_vec()).unwrap(), e.ino));
        true
    })
    .unwrap();
    for (name, ino) in entries.into_iter().skip(2) {
        let path = format!("{prefix}/{name}");
        let attr = v.lookup(dir, name.as_bytes()).unwrap();
        assert_eq!(attr.ino, ino);
        let text = match attr.kind {
            FileKind::Directory => {
                walk(v, ino, &path, tree);
                "dir".into()
            }
            FileKind::Symlink => format!("link {:08x}", terrace_layout::data_crc(&v.readlink(ino).unwrap())),
            _ => {
                let mut data = vec![0; attr.size as usize];
                assert_eq!(v.read(ino, 0, &mut data).unwrap(), data.len(), "{path}");
                let names = v.listxattr(ino).unwrap();
                let xattrs = names
                    .split(|b| *b == 0)
                    .filter(|n| !n.is_empty())
                    .map(|n| (String::from_utf8(n.to_vec()).unwrap(), v.getxattr(ino, n).unwrap()))
                    .collect();
                describe_file(&data, attr.mode, attr.nlink, &xattrs)
            }
        };
        v.forget(ino, 1);
        tree.insert(path, text);
    }
}

/// Applies an operation to a volume; the errno it fails with.
pub fn apply(v: &Volume, op: &Op) -> Result<(), i32> {
    run(v, op).map_err(|e| e.errno())
}

fn parent(v: &Volume, path: Path) -> FsResult<Ino> {
    match path.0 {
        None => Ok(Ino::ROOT),
        Some(i) => {
            let ino = v.lookup(Ino::ROOT, dir_name(i).as_bytes())?.ino;
            v.forget(ino, 1);
            Ok(ino)
        }
    }
}

fn find(v: &Volume, path: Path) -> FsResult<Ino> {
    let ino = v.lookup(parent(v, path)?, NAMES[path.1].as_bytes())?.ino;
    v.forget(ino, 1);
    Ok(ino)
}

fn run(v: &Volume, op: &Op) -> FsResult<()> {
    let name = |p: Path| NAMES[p.1].as_bytes();
    let made = |attr: terrace_engine::Attr| v.forget(attr.ino, 1);
    let new = |kind, mode| NewInode { kind, mode, umask: 0, uid: 0, gid: 0, rdev: 0 };
    match *op {
        Op::Create(p) => v.create(parent(v, p)?, name(p), &new(FileKind::Regular, 0o644)).map(made),
        Op::Mkdir(p) => v.create(parent(v, p)?, name(p), &new(FileKind::Directory, 0o755)).map(made),
        Op::Symlink(p, n) => v.symlink(parent(v, p)?, name(p), &pattern(n, 3), 0, 0).map(made),
        Op::Link(from, to) => v.link(find(v, from)?, parent(v, to)?, name(to)).map(made),
        Op::Unlink(p) => v.unlink(parent(v, p)?, name(p)),
        Op::Rmdir(p) => v.rmdir(parent(v, p)?, name(p)),
        Op::Rename(from, to, flag) => {
            let flags = RenameFlags { no_replace: flag == 1, exchange: flag == 2, whiteout: false };
            v.rename(parent(v, from)?, name(from), parent(v, to)?, name(to), flags)
        }
        Op::Write(p, offset, len, seed) => {
            v.write(find(v, p)?, offset.into(), &pattern(len.into(), seed), WriteOptions::default()).map(drop)
        }
        Op::Append(p, len, seed) => {
            let options = WriteOptions { append: true, ..Default::default() };
            v.write(find(v, p)?, 0, &pattern(len.into(), seed), options).map(drop)
        }
        Op::Truncate(p, size) => {
            v.setattr(find(v, p)?, &SetAttr { size: Some(size.into()), ..Default::default() }).map(drop)
        }
        Op::Falloc(p, mode, offset, len) => {
            let mode = [
                Fallocate::Allocate,
                Fallocate::AllocateKeepSize,
                Fallocate::PunchHole,
                Fallocate::ZeroRange,
                Fallocate::ZeroRangeKeepSize,
            ][usize::from(mode)];
            v.fallocate(find(v, p)?, mode, offset.into(), len.into())
        }
        Op::Chmod(p, mode) => v.setattr(find(v, p)?, &SetAttr { mode: Some(mode), ..Default::default() }).map(drop),
        Op::SetXattr(p, n, len) => {
            let ino = file_only(v, p)?;
            v.setxattr(ino, format!("user.{n}").as_bytes(), &pattern(len.into(), n as u8), XattrFlags::default(), None)
        }
        Op::RemoveXattr(p, n) => v.removexattr(file_only(v, p)?, format!("user.{n}").as_bytes()),
        Op::Copy(from, to, offset) => {
            v.copy_range(file_only(v, from)?, 0, file_only(v, to)?, offset.into(), 30_000).map(drop)
        }
        Op::Fsync(p) => v.fsync(find(v, p)?, false),
    }
}

/// The model keeps extended attributes of files only.
fn file_only(v: &Volume, p: Path) -> FsResult<Ino> {
    let ino = find(v, p)?;
    match v.getattr(ino)?.kind {
        FileKind::Regular => Ok(ino),
        FileKind::Directory => Err(terrace_engine::FsError::new(libc::EISDIR)),
        _ => Err(terrace_engine::FsError::new(libc::EINVAL)),
    }
}
