//! A volume's life in process: everything once, across unmounts and crashes.

use std::sync::Arc;

use terrace_engine::{
    Fallocate, FileKind, FormatOptions, Ino, NewInode, OpenOptions, RenameFlags, SetAttr, Volume,
    WriteOptions, XattrFlags, format,
};
use terrace_media::{Disk, Pm, memory_disk};
use terrace_policy::Param;

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0o022, uid: 1, gid: 2, rdev: 0 };
const DIR: NewInode =
    NewInode { kind: FileKind::Directory, mode: 0o755, umask: 0, uid: 1, gid: 2, rdev: 0 };

struct Rig {
    pm: Arc<Pm>,
    disk: Arc<dyn Disk>,
}

impl Rig {
    fn new(checksums: bool) -> Rig {
        Self::sized(16 << 20, checksums)
    }

    fn sized(pm_bytes: u64, checksums: bool) -> Rig {
        let rig = Rig { pm: Pm::anonymous(pm_bytes), disk: memory_disk(128 << 20) };
        let options =
            FormatOptions { shards: Some(2), pm_data_checksums: checksums, ..Default::default() };
        format(&rig.pm, std::slice::from_ref(&rig.disk), &options).unwrap();
        rig
    }

    fn open(&self) -> Arc<Volume> {
        let options = OpenOptions { cache_bytes: 8 << 20, ..Default::default() };
        Volume::open(self.pm.clone(), vec![self.disk.clone()], options, &|_, _, _| {}).unwrap()
    }

    /// Leaves the volume as a killed daemon would and opens it again.
    fn crash(&self, volume: Arc<Volume>) -> Arc<Volume> {
        volume.abandon();
        std::mem::forget(volume);
        self.open()
    }
}

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed).wrapping_add((i >> 8) as u8))
        .collect()
}

fn read_all(volume: &Volume, ino: Ino) -> Vec<u8> {
    let size = volume.getattr(ino).unwrap().size as usize;
    let mut buf = vec![0; size];
    assert_eq!(volume.read(ino, 0, &mut buf).unwrap(), size);
    buf
}

fn put(volume: &Volume, ino: Ino, at: u64, data: &[u8]) {
    assert_eq!(volume.write(ino, at, data, WriteOptions::default()).unwrap(), data.len());
}

#[test]
fn files_survive_unmounts_and_crashes() {
    for checksums in [false, true] {
        let rig = Rig::new(checksums);
        let v = rig.open();
        let f = v.create(Ino::ROOT, b"f", &FILE).unwrap().ino;
        let mut model = Vec::new();
        let mut write = |v: &Volume, at: usize, data: &[u8]| {
            put(v, f, at as u64, data);
            model.resize(model.len().max(at + data.len()), 0);
            model[at..at + data.len()].copy_from_slice(data);
            model.clone()
        };
        write(&v, 0, &pattern(100, 1));
        write(&v, 100, &pattern(5000, 2));
        write(&v, 50, &pattern(10, 3));
        write(&v, 20_000, &pattern(9000, 4));
        let model = write(&v, 4090, &pattern(20, 5));
        assert_eq!(read_all(&v, f), model);
        let v = rig.crash(v);
        assert_eq!(read_all(&v, v.lookup(Ino::ROOT, b"f").unwrap().ino), model);
        v.close().unwrap();
        drop(v);
        let v = rig.open();
        assert_eq!(read_all(&v, v.lookup(Ino::ROOT, b"f").unwrap().ino), model);
        v.setattr(f, &SetAttr { size: Some(70), ..Default::default() }).unwrap();
        v.setattr(f, &SetAttr { size: Some(9000), ..Default::default() }).unwrap();
        let mut expected = model[..70].to_vec();
        expected.resize(9000, 0);
        assert_eq!(read_all(&v, f), expected);
        let v = rig.crash(v);
        assert_eq!(read_all(&v, f), expected);
    }
}

#[test]
fn names_survive() {
    let rig = Rig::new(false);
    let v = rig.open();
    let d = v.create(Ino::ROOT, b"d", &DIR).unwrap().ino;
    for i in 0..500 {
        v.create(d, format!("file-{i}").as_bytes(), &FILE).unwrap();
    }
    for i in (0..500).step_by(2) {
        v.unlink(d, format!("file-{i}").as_bytes()).unwrap();
    }
    v.link(v.lookup(d, b"file-1").unwrap().ino, Ino::ROOT, b"hard").unwrap();
    v.rename(d, b"file-3", Ino::ROOT, b"moved", RenameFlags::default()).unwrap();
    v.rename(d, b"file-5", d, b"file-7", RenameFlags::default()).unwrap();
    v.rename(
        d,
        b"file-9",
        Ino::ROOT,
        b"moved",
        RenameFlags { exchange: true, ..Default::default() },
    )
    .unwrap();
    v.rename(d, b"file-11", d, b"w", RenameFlags { whiteout: true, ..Default::default() }).unwrap();
    v.symlink(Ino::ROOT, b"s", &pattern(4095, 9).iter().map(|b| b | 1).collect::<Vec<_>>(), 0, 0)
        .unwrap();
    v.setxattr(d, b"user.x", &pattern(100, 1), XattrFlags::default(), None).unwrap();
    v.setxattr(d, b"user.long", &pattern(60_000, 1), XattrFlags::default(), None).unwrap();
    let check = |v: &Volume| {
        let mut names = Vec::new();
        v.readdir(d, 0, &mut |e| {
            names.push(String::from_utf8(e.name.to_vec()).unwrap());
            true
        })
        .unwrap();
        assert_eq!(names.len(), 2 + 250 - 2 + 1);
        let hard = v.lookup(Ino::ROOT, b"hard").unwrap();
        assert_eq!((hard.nlink, hard.ino), (2, v.lookup(d, b"file-1").unwrap().ino));
        assert_eq!(v.lookup(d, b"file-11").unwrap().kind, FileKind::CharDevice);
        assert_eq!(v.lookup(d, b"file-5").unwrap_err().errno(), libc::ENOENT);
        assert_eq!(v.readlink(v.lookup(Ino::ROOT, b"s").unwrap().ino).unwrap().len(), 4095);
        assert_eq!(v.getxattr(d, b"user.x").unwrap(), pattern(100, 1));
        assert_eq!(v.getxattr(d, b"user.long").unwrap(), pattern(60_000, 1));
        assert_eq!(v.getattr(Ino::ROOT).unwrap().nlink, 3);
    };
    check(&v);
    let v = rig.crash(v);
    check(&v);
    v.close().unwrap();
    drop(v);
    check(&rig.open());
}

#[test]
fn data_goes_to_disk_when_pm_is_full() {
    let rig = Rig::new(false);
    let v = rig.open();
    // Migration would empty PM as soon as the file is a second old.
    v.tune(Param::Migrate, 0).unwrap();
    let f = v.create(Ino::ROOT, b"big", &FILE).unwrap().ino;
    let piece = pattern(1 << 20, 7);
    for i in 0..40u64 {
        put(&v, f, i << 20, &piece);
    }
    put(&v, f, 5000, b"small");
    put(&v, f, (30 << 20) + 5000, b"small");
    v.fsync(f, false).unwrap();
    let tiers: std::collections::BTreeSet<String> =
        v.file_map(f).unwrap().extents.into_iter().map(|e| e.tier).collect();
    assert_eq!(tiers.into_iter().collect::<Vec<_>>(), ["disk1", "pm"]);
    let check = |v: &Volume| {
        let mut buf = vec![0; 1 << 20];
        for i in 0..40u64 {
            assert_eq!(v.read(f, i << 20, &mut buf).unwrap(), 1 << 20);
            let mut expected = piece.clone();
            if i == 0 || i == 30 {
                expected[5000..5005].copy_from_slice(b"small");
            }
            assert!(buf == expected, "piece {i}");
        }
    };
    check(&v);
    let v = rig.crash(v);
    check(&v);
    v.fallocate(f, Fallocate::PunchHole, 1000, 35 << 20).unwrap();
    assert_eq!(v.seek_data(f, 1 << 20).unwrap(), 1000 + (35 << 20) - 1000);
    let used = v.statfs().unwrap().blocks_free;
    v.unlink(Ino::ROOT, b"big").unwrap();
    v.forget(f, 100);
    assert!(v.statfs().unwrap().blocks_free > used);
    v.close().unwrap();
}

#[test]
fn space_comes_back() {
    let rig = Rig::new(false);
    let v = rig.open();
    // Tables that grow stay: make them grow first.
    let before = {
        let f = v.create(Ino::ROOT, b"f", &FILE).unwrap().ino;
        v.unlink(Ino::ROOT, b"f").unwrap();
        v.forget(f, 1);
        v.statfs().unwrap().blocks_free
    };
    for round in 0..3 {
        let f = v.create(Ino::ROOT, b"f", &FILE).unwrap().ino;
        for i in 0..2000u64 {
            put(&v, f, i * 7919 % (1 << 20), &pattern(4096 + round, i as u8));
        }
        v.unlink(Ino::ROOT, b"f").unwrap();
        v.forget(f, 1);
    }
    let after = v.statfs().unwrap().blocks_free;
    assert!(before - after <= 2, "{before} free blocks became {after}");
    v.close().unwrap();
}
