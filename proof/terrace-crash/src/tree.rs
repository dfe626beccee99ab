//! Trees as compared: what a program sees of a volume, as text, and what the model says it must
//! see.
//!
//! Against the model, times are compared only where an operation set them (all such times lie
//! before the year 2000); the others are "now". Trees of one and the same volume, before and after,
//! are compared exactly ([`Trees::exact`]): times to the nanosecond, and where data and reserved
//! blocks lie.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use terrace_engine::{Attr, ExtentInfo, FileKind, FsResult, Ino, Volume};
use terrace_layout::data_crc;

/// Path to description; the root directory is "".
pub type Tree = BTreeMap<String, String>;

const YEAR_2000_SECONDS: i64 = 946_684_800;

/// What is compared of an inode.
pub(crate) struct Description<'a> {
    pub kind: &'a str,
    pub contents: &'a [u8],
    pub mode: u32,
    pub links: u32,
    pub owner: u32,
    pub group: u32,
    /// Device number.
    pub rdev: u32,
    pub mtime: Option<u32>,
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

impl Description<'_> {
    pub fn text(&self) -> String {
        let mut text = format!(
            "{} {} bytes {:08x} mode {:o} links {} owner {} mtime ",
            self.kind,
            self.contents.len(),
            data_crc(self.contents),
            self.mode,
            self.links,
            self.owner
        );
        match self.mtime {
            Some(seconds) => write!(text, "{seconds}"),
            None => write!(text, "now"),
        }
        .expect("text");
        // Only where it says something.
        for (what, number) in [("group", self.group), ("rdev", self.rdev)] {
            if number != 0 {
                write!(text, " {what} {number}").expect("text");
            }
        }
        for (name, value) in &self.xattrs {
            write!(text, " {name}={:08x}", data_crc(value)).expect("text");
        }
        text
    }
}

/// A volume's tree, described twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trees {
    /// As the model describes its own.
    pub tree: Tree,
    /// With all that must be the same in the same volume: modification times and extents.
    pub exact: Tree,
    /// Change times (nanoseconds).
    pub changed: BTreeMap<String, i64>,
    /// What the mount says that its recovery has undone.
    pub undone: Option<String>,
}

impl Trees {
    /// What of a volume that was like this is not the same now. `lags`: change times may be older
    /// now.
    pub fn difference(&self, now: &Trees, lags: bool) -> String {
        let mut text = difference(&self.exact, &now.exact);
        for (path, was) in &self.changed {
            let is = now.changed.get(path);
            if is.is_some_and(|is| is != was && !(lags && is < was)) {
                writeln!(text, "  {path}/ changed at {was}, not at {is:?}").expect("text");
            }
        }
        text
    }
}

/// Describes a volume's tree; reads everything. `times`: with modification times.
///
/// # Errors
/// The first thing that cannot be read.
pub fn tree_of(volume: &Volume, times: bool) -> FsResult<Tree> {
    Ok(trees_of(volume, times)?.tree)
}

/// As [`tree_of`], and exactly.
///
/// # Errors
/// The first thing that cannot be read.
pub fn trees_of(volume: &Volume, times: bool) -> FsResult<Trees> {
    let mut trees = Trees::default();
    walk(volume, &volume.getattr(Ino::ROOT)?, "", times, &mut trees)?;
    trees.undone = volume.status().notes.into_iter().find(|note| note.contains("recovery undid"));
    Ok(trees)
}

/// Where a file's data and its reserved blocks lie, neighbours joined.
fn extents(volume: &Volume, ino: Ino) -> FsResult<String> {
    let mut joined: Vec<ExtentInfo> = Vec::new();
    for extent in volume.file_map(ino)?.extents {
        match joined.last_mut() {
            Some(last)
                if last.offset_bytes + last.len_bytes == extent.offset_bytes
                    && last.device_offset_bytes + last.len_bytes == extent.device_offset_bytes
                    && (&last.tier, &last.device, last.unwritten)
                        == (&extent.tier, &extent.device, extent.unwritten) =>
            {
                last.len_bytes += extent.len_bytes;
            }
            _ => joined.push(extent),
        }
    }
    let text = |e: &ExtentInfo| {
        let reserved = if e.unwritten { " reserved" } else { "" };
        format!(
            " {}+{}@{}:{}{reserved}",
            e.offset_bytes, e.len_bytes, e.tier, e.device_offset_bytes
        )
    };
    Ok(joined.iter().map(text).collect())
}

fn walk(volume: &Volume, attr: &Attr, path: &str, times: bool, trees: &mut Trees) -> FsResult<()> {
    let ino = attr.ino;
    let contents = match attr.kind {
        FileKind::Regular => {
            let mut data = vec![0; attr.size as usize];
            let n = volume.read(ino, 0, &mut data)?;
            assert_eq!(n, data.len(), "{path} is shorter than its size");
            data
        }
        FileKind::Symlink => volume.readlink(ino)?,
        _ => Vec::new(),
    };
    let mut xattrs = BTreeMap::new();
    for name in volume.listxattr(ino)?.split(|b| *b == 0).filter(|name| !name.is_empty()) {
        xattrs.insert(String::from_utf8_lossy(name).into_owned(), volume.getxattr(ino, name)?);
    }
    let (seconds, _) = attr.mtime.parts();
    let kind = match attr.kind {
        FileKind::Regular => "file",
        FileKind::Directory => "dir",
        FileKind::Symlink => "link",
        FileKind::Fifo => "fifo",
        FileKind::CharDevice => "char",
        FileKind::BlockDevice => "block",
        FileKind::Socket => "socket",
    };
    let description = Description {
        kind,
        contents: &contents,
        mode: attr.mode,
        links: attr.nlink,
        owner: attr.uid,
        group: attr.gid,
        rdev: attr.rdev,
        mtime: (times && seconds < YEAR_2000_SECONDS).then_some(seconds as u32),
        xattrs,
    };
    let text = description.text();
    let extents =
        if attr.kind == FileKind::Regular { extents(volume, ino)? } else { String::new() };
    trees.exact.insert(path.to_owned(), format!("{text} modified {}{extents}", attr.mtime.0));
    trees.changed.insert(path.to_owned(), attr.ctime.0);
    trees.tree.insert(path.to_owned(), text);
    if attr.kind == FileKind::Directory {
        walk_dir(volume, ino, path, times, trees)
    } else {
        Ok(())
    }
}

fn walk_dir(volume: &Volume, dir: Ino, path: &str, times: bool, trees: &mut Trees) -> FsResult<()> {
    let mut entries = Vec::new();
    volume.readdir(dir, 0, &mut |entry| {
        entries.push((entry.name.to_vec(), entry.ino));
        true
    })?;
    for (name, ino) in entries.into_iter().skip(2) {
        let attr = volume.lookup(dir, &name)?;
        assert_eq!(
            attr.ino,
            ino,
            "listing and lookup of {path}/{} disagree",
            String::from_utf8_lossy(&name)
        );
        let below = format!("{path}/{}", String::from_utf8_lossy(&name));
        let result = walk(volume, &attr, &below, times, trees);
        volume.forget(ino, 1);
        result?;
    }
    Ok(())
}

/// What differs between two trees, `-` for the first and `+` for the second; nothing if they are
/// equal.
pub fn difference(expected: &Tree, found: &Tree) -> String {
    let mut text = String::new();
    for (path, was) in expected {
        if found.get(path) != Some(was) {
            writeln!(text, "  - {path}/ {was}").expect("text");
        }
    }
    for (path, is) in found {
        if expected.get(path) != Some(is) {
            writeln!(text, "  + {path}/ {is}").expect("text");
        }
    }
    text
}
