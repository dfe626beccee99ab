//! A small volume with something of everything, as bytes: copied, damaged and compared at will.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_engine::{
    CheckOptions, CheckReport, FileKind, FormatOptions, Ino, NewInode, OpenOptions, Time, Volume,
    WriteOptions, XattrFlags, check, dump_inode, format,
};
use terrace_layout::{
    INODE_BYTES, InodeRecord, LogPageHeader, MediaStruct, encode_entry, page_seed,
};
use terrace_media::{AlignedBuf, Disk, Pm, memory_disk};
use terrace_policy::Param;

pub const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 1, gid: 2, rdev: 0 };
pub const DIR: NewInode =
    NewInode { kind: FileKind::Directory, mode: 0o755, umask: 0, uid: 1, gid: 2, rdev: 0 };

pub const PM_BYTES: u64 = 4 << 20;
pub const DISK_BYTES: u64 = 8 << 20;

/// The bytes of all devices, PM first.
#[derive(Clone, PartialEq, Eq)]
pub struct Image(pub Vec<Vec<u8>>);

/// The devices of a volume.
pub struct Rig {
    pub pm: Arc<Pm>,
    pub disks: Vec<Arc<dyn Disk>>,
}

/// What a program sees of a volume: path to description.
pub type Tree = BTreeMap<String, String>;

impl Image {
    /// Devices with these contents.
    pub fn rig(&self) -> Rig {
        let pm = Pm::anonymous(self.0[0].len() as u64);
        pm.write(0, &self.0[0]);
        let disks = self.0[1..].iter().map(|bytes| {
            let disk = memory_disk(bytes.len() as u64);
            let mut buf = AlignedBuf::new(bytes.len());
            buf.copy_from_slice(bytes);
            disk.write_at(0, &buf).unwrap();
            disk
        });
        Rig { pm, disks: disks.collect() }
    }
}

impl Rig {
    /// A freshly formatted volume with two disks.
    pub fn new(pm_bytes: u64, pm_data_checksums: bool) -> Rig {
        let pm = Pm::anonymous(pm_bytes);
        let disks = vec![memory_disk(DISK_BYTES), memory_disk(DISK_BYTES)];
        let options = FormatOptions { shards: Some(2), pm_data_checksums, ..Default::default() };
        format(&pm, &disks, &options).unwrap();
        Rig { pm, disks }
    }

    pub fn image(&self) -> Image {
        let mut pm = vec![0; self.pm.len() as usize];
        self.pm.read(0, &mut pm);
        let disks = self.disks.iter().map(|disk| {
            let mut buf = AlignedBuf::new(disk.len() as usize);
            disk.read_at(0, &mut buf).unwrap();
            buf.to_vec()
        });
        Image(std::iter::once(pm).chain(disks).collect())
    }

    /// `pm_full_percent` 0: all data goes to disks. Without threads: every step is asked for,
    /// however long a test takes.
    pub fn open(&self, pm_full_percent: u8) -> Arc<Volume> {
        self.open_with(pm_full_percent, false)
    }

    /// With threads if so asked, which write back and move data by themselves.
    pub fn open_with(&self, pm_full_percent: u8, workers: bool) -> Arc<Volume> {
        let options =
            OpenOptions { cache_bytes: 8 << 20, pm_full_percent, workers, ..Default::default() };
        Volume::open(self.pm.clone(), self.disks.clone(), options, &|_, _, _| {}).unwrap()
    }

    /// A volume on 8 MiB of PM and two disks, each a tier, in one shard.
    pub fn tiered(disk1_bytes: u64) -> Rig {
        let pm = Pm::anonymous(8 << 20);
        let disks = vec![memory_disk(disk1_bytes), memory_disk(64 << 20)];
        format(
            &pm,
            &disks,
            &FormatOptions { shards: Some(1), tiers: vec![1, 2], ..Default::default() },
        )
        .unwrap();
        Rig { pm, disks }
    }

    /// As [`Rig::open`], with other thresholds than by default.
    pub fn open_alone(&self, thresholds: &[(Param, u64)]) -> Arc<Volume> {
        let volume = self.open(90);
        thresholds.iter().for_each(|&(param, value)| volume.tune(param, value).unwrap());
        volume
    }

    /// The inode at a path, whose parts are separated by `/`; "" is the root.
    pub fn ino(&self, path: &str) -> Ino {
        find(&self.image().rig().open(90), path)
    }

    pub fn check(&self, repair: bool) -> CheckReport {
        check(
            &self.pm,
            &self.disks,
            &CheckOptions { repair, data: true, ..CheckOptions::default() },
            &|_, _, _| {},
        )
        .unwrap()
    }

    pub fn must_be_sound(&self) {
        let report = self.check(false);
        assert!(report.problems.is_empty(), "{:#?}", report.problems);
    }

    /// What `dump` prints of an inode and its log.
    pub fn dump(&self, ino: Ino) -> String {
        let mut text = Vec::new();
        dump_inode(&self.pm, &self.disks, ino, true, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// Byte of an inode's record.
    pub fn record_at(&self, ino: Ino) -> u64 {
        number_after(&self.dump(ino), "record           at byte ").unwrap()
    }

    /// Byte of the last log entry of an inode whose description begins with `what`.
    pub fn entry_at(&self, ino: Ino, what: &str) -> u64 {
        let text = self.dump(ino);
        let line = text
            .lines()
            .rev()
            .find(|line| line.split_once(": ").is_some_and(|(_, e)| e.starts_with(what)));
        number_after(line.unwrap_or_else(|| panic!("no entry {what:?} in\n{text}")), "  byte ")
            .unwrap()
    }

    /// Changes the fixed part of a log entry that takes one slot, and makes its checksum right.
    pub fn change_entry<T: MediaStruct>(&self, ino: Ino, at: u64, change: impl FnOnce(&mut T)) {
        let mut bytes = [0u8; 64];
        self.pm.read(at, &mut bytes);
        assert_eq!(bytes[1], 1, "an entry of one slot");
        let mut entry = T::from_bytes(&bytes);
        change(&mut entry);
        let record = self.record_at(ino);
        let mut head = [0u8; size_of::<InodeRecord>()];
        self.pm.read(record, &mut head);
        let mut sealed = Vec::new();
        let mut seed = InodeRecord::from_bytes(&head).log_seed();
        if !(record..record + INODE_BYTES).contains(&at) {
            let mut header = [0u8; size_of::<LogPageHeader>()];
            self.pm.read(at / 4096 * 4096, &mut header);
            seed = page_seed(seed, LogPageHeader::from_bytes(&header).sequence);
        }
        encode_entry(&mut sealed, seed, &entry, &[&bytes[size_of::<T>()..]]);
        self.pm.write(at, &sealed);
    }

    /// Inverts some bits of a byte of a device.
    pub fn flip(&self, device: usize, at: u64) {
        if device == 0 {
            let mut byte = [0u8];
            self.pm.read(at, &mut byte);
            self.pm.write(at, &[byte[0] ^ 0x24]);
            return;
        }
        let disk = &self.disks[device - 1];
        let mut buf = AlignedBuf::new(4096);
        disk.read_at(at / 4096 * 4096, &mut buf).unwrap();
        buf[(at % 4096) as usize] ^= 0x24;
        disk.write_at(at / 4096 * 4096, &buf).unwrap();
    }
}

/// The number that follows `prefix` in `text`.
pub fn number_after(text: &str, prefix: &str) -> Option<u64> {
    let rest = &text[text.find(prefix)? + prefix.len()..];
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Device and first block of the first "… blocks from DEVICE:BLOCK" in a dump.
pub fn blocks_from(text: &str) -> Option<(u64, u64)> {
    let is_run =
        |&(at, _): &(usize, &str)| text[..at].ends_with("block") || text[..at].ends_with("blocks");
    let (at, from) = text.match_indices(" from ").find(is_run)?;
    let (device, block) = text[at + from.len()..].split_once(':')?;
    Some((device.parse().ok()?, number_after(block, "")?))
}

pub fn find(volume: &Volume, path: &str) -> Ino {
    path.split('/').filter(|name| !name.is_empty()).fold(Ino::ROOT, |dir, name| {
        let ino = volume.lookup(dir, name.as_bytes()).unwrap_or_else(|e| panic!("{path}: {e}")).ino;
        volume.forget(ino, 1);
        ino
    })
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(13).wrapping_add(seed).wrapping_add((i >> 8) as u8) | 1)
        .collect()
}

/// Returns when the clock of the engine, which ticks some hundred times a second, has ticked: what
/// comes later is later.
pub fn a_moment_passes() {
    let before = Time::now();
    while Time::now() == before {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

pub fn put(volume: &Volume, ino: Ino, at: u64, data: &[u8]) {
    assert_eq!(volume.write(ino, at, data, WriteOptions::default()).unwrap(), data.len());
}

pub fn contents(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut data = vec![0; volume.getattr(ino).unwrap().size as usize];
    assert_eq!(volume.read(ino, 0, &mut data).unwrap(), data.len());
    data
}

/// Where each block of a file is: `pm`, `disk1`, …, `cache` for what is dirty, `-` for a hole.
pub fn places(volume: &Volume, ino: Ino) -> Vec<String> {
    const BLOCK_BYTES: usize = terrace_layout::BLOCK_BYTES as usize;
    let map = volume.file_map(ino).unwrap();
    let mut places = vec!["-".to_string(); (map.size_bytes as usize).div_ceil(BLOCK_BYTES)];
    let blocks = |offset: u64, len: u64| {
        offset as usize / BLOCK_BYTES..((offset + len) as usize).div_ceil(BLOCK_BYTES)
    };
    for e in &map.extents {
        blocks(e.offset_bytes, e.len_bytes).for_each(|b| places[b].clone_from(&e.tier));
    }
    for d in &map.dirty {
        blocks(d.offset_bytes, d.len_bytes).for_each(|b| places[b] = "cache".into());
    }
    places
}

/// The same in runs: `24 disk1, 8 pm`.
pub fn runs(volume: &Volume, ino: Ino) -> String {
    let places = places(volume, ino);
    let runs = places.chunk_by(|a, b| a == b).map(|run| format!("{} {}", run.len(), run[0]));
    runs.collect::<Vec<_>>().join(", ")
}

pub fn make(volume: &Volume, dir: Ino, name: &str, new: &NewInode) -> Ino {
    let ino = volume.create(dir, name.as_bytes(), new).unwrap().ino;
    volume.forget(ino, 1);
    ino
}

/// A volume with something of everything, unmounted cleanly.
pub fn populated(pm_data_checksums: bool) -> Rig {
    let rig = Rig::new(PM_BYTES, pm_data_checksums);
    let v = rig.open(90);
    let dir = make(&v, Ino::ROOT, "dir", &DIR);
    let sub = make(&v, dir, "sub", &DIR);
    let small = make(&v, Ino::ROOT, "small", &FILE);
    put(&v, small, 0, &pattern(5000, 1));
    put(&v, small, 10, b"patched");
    put(&v, make(&v, sub, "deep", &FILE), 0, &pattern(20_000, 2));
    let hard = make(&v, Ino::ROOT, "hard", &FILE);
    v.link(hard, dir, b"other").unwrap();
    v.forget(hard, 1);
    let link = v.symlink(Ino::ROOT, b"link", b"dir/sub", 0, 0).unwrap().ino;
    v.forget(link, 1);
    v.setxattr(small, b"user.long", &pattern(9000, 3), XattrFlags::default(), None).unwrap();
    let long = make(&v, Ino::ROOT, "long", &FILE);
    for i in 0..100 {
        put(&v, long, i * 8192, &pattern(4096, i as u8));
    }
    v.close().unwrap();
    drop(v);
    // Nothing is written back before it is all there: runs are as long as can be.
    let v = rig.open(0);
    for (name, len) in [("one", 4096), ("some", 40_000), ("big", 3 << 20)] {
        let ino = make(&v, dir, name, &FILE);
        put(&v, ino, 0, &pattern(len, 7));
        v.fsync(ino, false).unwrap();
    }
    v.close().unwrap();
    rig
}

/// Everything that a program sees.
pub fn tree(volume: &Volume) -> Tree {
    let mut tree = Tree::new();
    add_to_tree(volume, Ino::ROOT, "", &mut tree);
    tree
}

fn add_to_tree(volume: &Volume, dir: Ino, path: &str, tree: &mut Tree) {
    let mut names = Vec::new();
    volume
        .readdir(dir, 0, &mut |entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            true
        })
        .unwrap();
    for name in names.into_iter().filter(|name| name != "." && name != "..") {
        let attr = volume.lookup(dir, name.as_bytes()).unwrap();
        let path = format!("{path}/{name}");
        let contents = match attr.kind {
            FileKind::Regular => {
                let mut data = vec![0; attr.size as usize];
                assert_eq!(volume.read(attr.ino, 0, &mut data).unwrap(), data.len());
                format!("{} bytes, crc {:x}", data.len(), terrace_layout::data_crc(&data))
            }
            FileKind::Symlink => String::from_utf8(volume.readlink(attr.ino).unwrap()).unwrap(),
            _ => String::new(),
        };
        let mut xattrs = volume.listxattr(attr.ino).unwrap();
        xattrs.retain(|&b| b != 0);
        let about = format!(
            "{:?} {} links, mode {:o}, mtime {:?}, xattrs {:?}: {contents}",
            attr.kind,
            attr.nlink,
            attr.mode,
            attr.mtime,
            String::from_utf8(xattrs).unwrap()
        );
        tree.insert(path.clone(), about);
        if attr.kind == FileKind::Directory {
            add_to_tree(volume, attr.ino, &path, tree);
        }
        volume.forget(attr.ino, 1);
    }
}
