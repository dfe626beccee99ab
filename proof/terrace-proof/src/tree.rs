//! Whole directory trees as values that can be compared.

use anyhow::{Context, Result, ensure};
use crc_fast::{CrcAlgorithm, Digest};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Which properties of a tree count.
#[derive(Debug, Clone, Copy)]
pub struct TreeScope {
    /// Compare modification times of everything; otherwise only those that nobody's clock shows
    /// today, which a test must have set itself.
    pub all_times: bool,
    /// Compare extended attributes.
    pub xattrs: bool,
}

/// All that two equal trees agree on about one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    kind: char,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    device: u64,
    /// Directories have none: what it means differs between file systems.
    size_bytes: Option<u64>,
    mtime: Option<(i64, i64)>,
    target: Option<PathBuf>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    content_crc: Option<u32>,
    /// The first name, in order, of the same inode: equal trees have equal hard links.
    same_inode_as: PathBuf,
}

/// A snapshot of everything below a directory, itself included (as the empty path).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree(BTreeMap<PathBuf, Node>);

impl Tree {
    /// Reads the tree below `root`.
    ///
    /// # Errors
    /// Any error of reading it.
    pub fn read(root: &Path, scope: TreeScope) -> Result<Self> {
        let mut names = vec![PathBuf::new()];
        let mut next = 0;
        while next < names.len() {
            let dir = root.join(&names[next]);
            let relative = names[next].clone();
            next += 1;
            if !std::fs::symlink_metadata(&dir)?.is_dir() {
                continue;
            }
            for entry in
                std::fs::read_dir(&dir).with_context(|| format!("reading {}", dir.display()))?
            {
                names.push(relative.join(entry?.file_name()));
            }
        }
        names.sort();
        let mut first_names = BTreeMap::new();
        let mut nodes = BTreeMap::new();
        for name in names {
            let path = root.join(&name);
            let node = Node::read(&path, &name, scope, &mut first_names)
                .with_context(|| format!("looking at {}", path.display()))?;
            ensure!(
                nodes.insert(name, node).is_none(),
                "a name is listed twice: {}",
                path.display()
            );
        }
        Ok(Tree(nodes))
    }

    /// How many names it has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty, which not even an empty directory is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of its regular files.
    pub fn regular_files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().filter(|(_, node)| node.kind == '-').map(|(name, _)| name.as_path())
    }

    /// Fails with a list of differences, if there are any.
    ///
    /// # Errors
    /// The differences, one per line, at most 20.
    pub fn must_equal(&self, reference: &Tree) -> Result<()> {
        let names: BTreeSet<_> = self.0.keys().chain(reference.0.keys()).collect();
        let differences: Vec<String> = names
            .into_iter()
            .filter_map(|name| {
                let what = match (self.0.get(name), reference.0.get(name)) {
                    (Some(here), Some(there)) if here == there => return None,
                    (Some(here), Some(there)) => here.differences(there),
                    (None, _) => "is missing".to_owned(),
                    (_, None) => "should not be there".to_owned(),
                };
                Some(format!("\n{name:?}: {what}"))
            })
            .collect();
        let shown = differences[..differences.len().min(20)].concat();
        ensure!(
            differences.is_empty(),
            "{} differences between the trees:{shown}",
            differences.len()
        );
        Ok(())
    }
}

impl Node {
    fn read(
        path: &Path,
        name: &Path,
        scope: TreeScope,
        first_names: &mut BTreeMap<u64, PathBuf>,
    ) -> Result<Node> {
        let meta = std::fs::symlink_metadata(path)?;
        let kind = kind_of(&meta);
        let times = (meta.mtime(), meta.mtime_nsec());
        Ok(Node {
            kind,
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
            links: meta.nlink(),
            device: meta.rdev(),
            size_bytes: (kind != 'd').then_some(meta.size()),
            mtime: (scope.all_times || !is_today(times.0)).then_some(times),
            target: if kind == 'l' { Some(std::fs::read_link(path)?) } else { None },
            xattrs: if scope.xattrs { xattrs_of(path)? } else { BTreeMap::new() },
            content_crc: if kind == '-' { Some(crc_of(path)?) } else { None },
            same_inode_as: first_names.entry(meta.ino()).or_insert_with(|| name.to_owned()).clone(),
        })
    }
}

impl Node {
    /// What differs, as `property found, not expected`.
    fn differences(&self, expected: &Node) -> String {
        let mut out = Vec::new();
        let mut compare = |property: &str, found: String, expected: String| {
            if found != expected {
                out.push(format!("{property} {found}, not {expected}"));
            }
        };
        compare("kind", self.kind.to_string(), expected.kind.to_string());
        compare("mode", format!("{:o}", self.mode), format!("{:o}", expected.mode));
        compare("owner", format!("{:?}", self.owner), format!("{:?}", expected.owner));
        compare("links", self.links.to_string(), expected.links.to_string());
        compare("device", self.device.to_string(), expected.device.to_string());
        compare("size", format!("{:?}", self.size_bytes), format!("{:?}", expected.size_bytes));
        compare("mtime", format!("{:?}", self.mtime), format!("{:?}", expected.mtime));
        compare("target", format!("{:?}", self.target), format!("{:?}", expected.target));
        compare("xattrs", format!("{:?}", self.xattrs), format!("{:?}", expected.xattrs));
        compare(
            "content",
            format!("{:?}", self.content_crc),
            format!("{:?}", expected.content_crc),
        );
        let link = |node: &Node| format!("{:?}", node.same_inode_as);
        compare("hard link of", link(self), link(expected));
        out.join("; ")
    }
}

fn kind_of(meta: &Metadata) -> char {
    let kind = meta.file_type();
    match () {
        () if kind.is_dir() => 'd',
        () if kind.is_symlink() => 'l',
        () if kind.is_fifo() => 'p',
        () if kind.is_socket() => 's',
        () if kind.is_char_device() => 'c',
        () if kind.is_block_device() => 'b',
        () => '-',
    }
}

/// Whether a clock could show this time while a test runs (2020 to 2100).
fn is_today(seconds: i64) -> bool {
    (1_577_836_800..4_102_444_800).contains(&seconds)
}

fn xattrs_of(path: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut names = vec![0u8; 64 << 10];
    let len = match rustix::fs::llistxattr(path, &mut names[..]) {
        Err(Errno::NOTSUP) => 0,
        other => other.context("llistxattr")?,
    };
    let mut out = BTreeMap::new();
    for name in names[..len].split(|b| *b == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0u8; 64 << 10];
        let len = rustix::fs::lgetxattr(path, std::ffi::OsStr::from_bytes(name), &mut value[..])
            .with_context(|| format!("lgetxattr {}", String::from_utf8_lossy(name)))?;
        value.truncate(len);
        out.insert(name.to_vec(), value);
    }
    Ok(out)
}

/// The CRC32C of bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Length and CRC-32C of bytes: how a worker tells of what it has read.
pub fn checked(bytes: &[u8]) -> Vec<u64> {
    vec![bytes.len() as u64, u64::from(crc32c(bytes))]
}

/// Bytes that tell where they belong: others for each seed, and for each page.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mixed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..len).map(|at| mixed[at % 8].wrapping_add((at / 8 + at / 4096) as u8)).collect()
}

fn crc_of(path: &Path) -> Result<u32> {
    let mut file = File::open(path)?;
    let mut buffer = vec![0u8; 256 << 10];
    let mut crc = Digest::new(CrcAlgorithm::Crc32Iscsi);
    loop {
        let len = file.read(&mut buffer)?;
        if len == 0 {
            return Ok(crc.finalize() as u32);
        }
        crc.update(&buffer[..len]);
    }
}

/// Checks what `SEEK_DATA` and `SEEK_HOLE` say about a regular file. A file system may call a hole
/// data, but whatever it calls a hole must read as zeros, and each hole must end where data begins.
///
/// # Errors
/// The first range that is called a hole and holds data, or an offset that makes no sense.
pub fn check_holes(path: &Path) -> Result<()> {
    let content = std::fs::read(path)?;
    let file = File::open(path)?;
    let size = content.len() as u64;
    let mut at = 0;
    while at < size {
        let data = match seek(&file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => size,
            Err(error) => return Err(error).context("SEEK_DATA"),
        };
        ensure!((at..=size).contains(&data), "SEEK_DATA from {at} of {size} gave {data}");
        if let Some(lie) = content[at as usize..data as usize].iter().position(|b| *b != 0) {
            let offset = at + lie as u64;
            anyhow::bail!(
                "{}: byte {offset} is data, but {at}..{data} is called a hole",
                path.display()
            );
        }
        if data == size {
            break;
        }
        let hole = seek(&file, SeekFrom::Hole(data)).context("SEEK_HOLE")?;
        ensure!(hole > data && hole <= size, "SEEK_HOLE from data at {data} of {size} gave {hole}");
        at = hole;
    }
    ensure!(
        seek(&file, SeekFrom::Data(size)) == Err(Errno::NXIO),
        "SEEK_DATA at the end must be ENXIO"
    );
    ensure!(
        seek(&file, SeekFrom::Hole(size)) == Err(Errno::NXIO),
        "SEEK_HOLE at the end must be ENXIO"
    );
    Ok(())
}
