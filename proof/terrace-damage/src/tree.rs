//! Everything that a program sees of a volume, failures included.

use std::collections::BTreeMap;

use terrace_engine::{Attr, FileKind, FsError, Ino, Volume};

/// Bytes of a file that are read and compared at a time.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes that are read of one file: a damaged size may say anything.
const FILE_BYTES_READ_MAX: u64 = 2 << 20;
/// Directories below one another that are entered: damaged names may lead in a circle.
const DEPTH_MAX: usize = 6;
/// Names that are followed.
const NAMES_MAX: usize = 2000;

/// What an operation failed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The errno that the program sees.
    pub errno: i32,
    /// The whole story.
    pub message: String,
}

/// By place: a path for attributes and target, with `#` and an offset for a piece of a file, with
/// `#` and a name for an extended attribute, with `#names` for the listing of a directory.
pub type Tree = BTreeMap<String, Result<String, Failure>>;

impl From<FsError> for Failure {
    fn from(error: FsError) -> Failure {
        Failure { errno: error.errno(), message: error.to_string() }
    }
}

/// Reads everything.
pub fn read_tree(volume: &Volume) -> Tree {
    let mut tree = Tree::new();
    read_dir(volume, Ino::ROOT, "", 0, &mut tree);
    tree
}

fn read_dir(volume: &Volume, dir: Ino, path: &str, depth: usize, tree: &mut Tree) {
    let mut names = Vec::new();
    let listed = volume.readdir(dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        names.len() < NAMES_MAX
    });
    let names_key = format!("{path}#names");
    match listed {
        Ok(()) => tree.insert(names_key, Ok(names.len().to_string())),
        Err(error) => tree.insert(names_key, Err(error.into())),
    };
    for name in names.into_iter().filter(|name| name != b"." && name != b"..") {
        if tree.len() > NAMES_MAX {
            return;
        }
        let path = format!("{path}/{}", name.escape_ascii());
        match volume.lookup(dir, &name) {
            Err(error) => drop(tree.insert(path, Err(error.into()))),
            Ok(attr) => {
                read_inode(volume, &attr, &path, depth, tree);
                volume.forget(attr.ino, 1);
            }
        }
    }
}

fn read_inode(volume: &Volume, attr: &Attr, path: &str, depth: usize, tree: &mut Tree) {
    let target = match attr.kind {
        FileKind::Symlink => volume.readlink(attr.ino).map(|t| t.escape_ascii().to_string()),
        _ => Ok(String::new()),
    };
    let about = target.map(|target| {
        format!(
            "{:?} mode {:o} owner {}:{} links {} size {} mtime {:?} {target}",
            attr.kind,
            attr.mode,
            attr.uid,
            attr.gid,
            attr.nlink,
            if attr.kind == FileKind::Regular { attr.size } else { 0 },
            attr.mtime
        )
    });
    tree.insert(path.to_owned(), about.map_err(Failure::from));
    read_xattrs(volume, attr.ino, path, tree);
    match attr.kind {
        FileKind::Regular => read_data(volume, attr, path, tree),
        FileKind::Directory if depth < DEPTH_MAX => {
            read_dir(volume, attr.ino, path, depth + 1, tree)
        }
        _ => {}
    }
}

fn read_xattrs(volume: &Volume, ino: Ino, path: &str, tree: &mut Tree) {
    let names = match volume.listxattr(ino) {
        Ok(names) => names,
        Err(error) => return drop(tree.insert(format!("{path}#xattrs"), Err(error.into()))),
    };
    for name in names.split(|&b| b == 0).filter(|name| !name.is_empty()) {
        let value = volume.getxattr(ino, name);
        let value = value
            .map(|v| format!("{} bytes {:08x}", v.len(), terrace_layout::data_crc(&v)))
            .map_err(Failure::from);
        tree.insert(format!("{path}#{}", name.escape_ascii()), value);
    }
}

fn read_data(volume: &Volume, attr: &Attr, path: &str, tree: &mut Tree) {
    let mut buf = vec![0; PIECE_BYTES];
    let end = attr.size.min(FILE_BYTES_READ_MAX);
    for offset in (0..end).step_by(PIECE_BYTES) {
        if tree.len() > NAMES_MAX {
            return;
        }
        let read = volume.read(attr.ino, offset, &mut buf);
        let read = read
            .map(|n| format!("{n} bytes {:08x}", terrace_layout::data_crc(&buf[..n])))
            .map_err(Failure::from);
        tree.insert(format!("{path}#{offset}"), read);
    }
    if attr.size > end {
        let read = volume.read(attr.ino, attr.size - 1, &mut buf);
        tree.insert(format!("{path}#end"), read.map(|n| n.to_string()).map_err(Failure::from));
    }
}

/// Whether `key` belongs to `path`: what it names, or something below it.
pub(crate) fn belongs(key: &str, path: &str) -> bool {
    key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['#', '/']))
}
