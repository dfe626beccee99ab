//! Where tiers meet, end or fail: what must hold there, case by case.

mod common;

use std::sync::Arc;

use common::must_be_sound;
use terrace_crash::op::pattern;
use terrace_engine::{
    Fallocate, FileKind, FormatOptions, Ino, NewInode, OpenOptions, SetAttr, Volume, WriteOptions,
    XattrFlags, format,
};
use terrace_media::{Disk, DiskSim, Pm, PmSim, memory_disk, sim_disk, sim_disk_from};

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 0, gid: 0, rdev: 0 };

fn open(pm: &Arc<Pm>, disk: &Arc<dyn Disk>, pm_full_percent: u8) -> Arc<Volume> {
    let options =
        OpenOptions { cache_bytes: 4 << 20, pm_full_percent, workers: false, ..Default::default() };
    Volume::open(pm.clone(), vec![disk.clone()], options, &|_, _, _| {}).unwrap()
}

fn create(v: &Volume, name: &str) -> Ino {
    v.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino
}

fn put(v: &Volume, ino: Ino, at: u64, data: &[u8]) {
    assert_eq!(v.write(ino, at, data, WriteOptions::default()).unwrap(), data.len());
}

fn get(v: &Volume, ino: Ino, at: u64, len: usize) -> Vec<u8> {
    let mut buf = vec![0xee; len];
    let n = v.read(ino, at, &mut buf).unwrap();
    buf.truncate(n);
    buf
}

fn resize(v: &Volume, ino: Ino, size: u64) {
    v.setattr(ino, &SetAttr { size: Some(size), ..Default::default() }).unwrap();
}

struct Simulated {
    pm: Arc<Pm>,
    pm_sim: Arc<PmSim>,
    disk: Arc<dyn Disk>,
    disk_sim: Arc<DiskSim>,
}

impl Simulated {
    fn new() -> Simulated {
        let (pm, pm_sim) = Pm::simulated(4 << 20);
        let (disk, disk_sim) = sim_disk(4 << 20);
        let options = FormatOptions { shards: Some(1), ..Default::default() };
        format(&pm, std::slice::from_ref(&disk), &options).unwrap();
        Simulated { pm, pm_sim, disk, disk_sim }
    }

    /// The volume after a power cut now.
    fn after_power_cut(&self, v: Arc<Volume>, pm_full_percent: u8) -> Arc<Volume> {
        v.abandon();
        std::mem::forget(v);
        let (pm, _) = Pm::simulated_from(self.pm_sim.durable_image());
        let (disk, _) = sim_disk_from(self.disk_sim.durable_image());
        open(&pm, &disk, pm_full_percent)
    }
}

/// A page that is written again while fsync takes its older version to disk: what fsync was called
/// for is durable when it returns.
#[test]
fn fsync_is_not_overtaken_by_later_writes() {
    let rig = Simulated::new();
    let v = open(&rig.pm, &rig.disk, 0);
    let f = create(&v, "f");
    put(&v, f, 0, &pattern(4096, 1));
    v.fsync(f, false).unwrap();
    put(&v, f, 0, &[7; 100]);
    let once = std::sync::atomic::AtomicBool::new(true);
    let writer = v.clone();
    rig.disk_sim.set_on_flush(Box::new(move |_| {
        if once.swap(false, std::sync::atomic::Ordering::AcqRel) {
            put(&writer, f, 200, &[8; 100]);
        }
    }));
    v.fsync(f, false).unwrap();
    rig.disk_sim.clear_on_flush();
    let v = rig.after_power_cut(v, 0);
    assert_eq!(get(&v, f, 0, 100), [7; 100]);
}

/// A kernel tells of a flush that failed only once. Data that an earlier, successful flush covered
/// may be lost as well.
#[test]
fn a_flush_that_failed_is_everybodys() {
    let rig = Simulated::new();
    let v = open(&rig.pm, &rig.disk, 0);
    let (f, g) = (create(&v, "f"), create(&v, "g"));
    put(&v, f, 0, &pattern(4096, 1));
    put(&v, g, 0, &pattern(4096, 2));
    let once = std::sync::atomic::AtomicBool::new(true);
    let other = v.clone();
    rig.disk_sim.set_on_flush(Box::new(move |sim| {
        if once.swap(false, std::sync::atomic::Ordering::AcqRel) {
            sim.fail_flush(true);
            assert_eq!(other.fsync(g, false).unwrap_err().errno(), libc::EIO);
            sim.fail_flush(false);
        }
    }));
    assert_eq!(v.fsync(f, false).unwrap_err().errno(), libc::EIO);
    rig.disk_sim.clear_on_flush();
    assert!(v.status().read_only.is_some());
}

/// The end of a PM block beyond the file is garbage; it must not show when the file grows by pages
/// in the cache.
#[test]
fn pm_beyond_the_end_reads_as_zeros_when_the_cache_extends_the_file() {
    for checksums in [false, true] {
        let (pm, disk) = (Pm::anonymous(4 << 20), memory_disk(4 << 20));
        let options =
            FormatOptions { shards: Some(1), pm_data_checksums: checksums, ..Default::default() };
        format(&pm, std::slice::from_ref(&disk), &options).unwrap();
        let v = open(&pm, &disk, 90);
        // Leave garbage in the blocks that come next.
        let junk = create(&v, "junk");
        put(&v, junk, 0, &[0xaa; 300_000]);
        v.unlink(Ino::ROOT, b"junk").unwrap();
        v.forget(junk, 1);
        v.statfs().unwrap();
        let files: Vec<Ino> = (0..20).map(|i| create(&v, &format!("f{i}"))).collect();
        files.iter().for_each(|&f| put(&v, f, 0, &[1; 100]));
        v.close().unwrap();
        drop(v);
        let check = |v: &Volume, size: usize| {
            for &f in &files {
                let bytes = get(v, f, 0, 20_000);
                assert_eq!(bytes.len(), size);
                assert!(bytes[..100] == [1; 100] && bytes[100..8192].iter().all(|&b| b == 0));
            }
        };
        let v = open(&pm, &disk, 0);
        files.iter().for_each(|&f| put(&v, f, 8192, &[2; 10]));
        check(&v, 8202);
        v.sync().unwrap();
        check(&v, 8202);
        v.close().unwrap();
        drop(v);
        let v = open(&pm, &disk, 90);
        check(&v, 8202);
        files.iter().for_each(|&f| put(&v, f, 12_000, &[3; 10]));
        check(&v, 12_010);
        v.close().unwrap();
        drop(v);
        must_be_sound(&pm, &disk);
    }
}

/// Data that a truncation cut off does not come back when the file grows again, not even by a power
/// cut at the wrong time.
#[test]
fn truncated_disk_data_stays_gone() {
    let rig = Simulated::new();
    let v = open(&rig.pm, &rig.disk, 0);
    type Grow<'a> = &'a dyn Fn(&Volume, Ino);
    let grow: [Grow<'_>; 3] =
        [&|v, f| resize(v, f, 4096), &|v, f| put(v, f, 9000, b"x"), &|v, f| {
            v.fallocate(f, Fallocate::Allocate, 5000, 5000).unwrap()
        }];
    let files: Vec<Ino> = (0..grow.len()).map(|i| create(&v, &format!("f{i}"))).collect();
    for &f in &files {
        put(&v, f, 0, &[5; 4096]);
        v.fsync(f, false).unwrap();
        resize(&v, f, 10);
    }
    v.close().unwrap();
    drop(v);
    let v = open(&rig.pm, &rig.disk, 90);
    files.iter().zip(grow).for_each(|(&f, grow)| grow(&v, f));
    let v = rig.after_power_cut(v, 90);
    for f in files {
        let bytes = get(&v, f, 0, 4096);
        assert!(
            bytes[..10] == [5; 10] && bytes[10..].iter().all(|&b| b == 0),
            "{:?}",
            &bytes[..20]
        );
    }
}

/// Every tier full: writes say ENOSPC and harm nothing, removing works, and then there is room
/// again.
#[test]
fn full_tiers_refuse_and_recover() {
    let (pm, disk) = (Pm::anonymous(3 << 20), memory_disk(3 << 20));
    let options = FormatOptions { shards: Some(1), ..Default::default() };
    format(&pm, std::slice::from_ref(&disk), &options).unwrap();
    let v = open(&pm, &disk, 90);
    let piece = pattern(50_000, 3);
    let mut files = Vec::new();
    let failed = loop {
        let name = format!("file-{}", files.len());
        let f = match v.create(Ino::ROOT, name.as_bytes(), &FILE) {
            Ok(attr) => attr.ino,
            Err(error) => break error,
        };
        let written = v.write(f, 0, &piece, WriteOptions::default());
        files.push((name, f, written.as_ref().map_or(0, |&n| n)));
        if let Err(error) = written {
            break error;
        }
    };
    assert_eq!(failed.errno(), libc::ENOSPC);
    v.sync().unwrap();
    // Metadata until nothing goes any more.
    let mut small = Vec::new();
    while let Ok(attr) = v.create(Ino::ROOT, format!("s{}", small.len()).as_bytes(), &FILE) {
        small.push(attr.ino);
        let _ = v.setxattr(attr.ino, b"user.x", &[1; 1000], XattrFlags::default(), None);
    }
    for (_, f, len) in &files {
        assert_eq!(get(&v, *f, 0, 50_000), piece[..*len]);
    }
    v.close().unwrap();
    drop(v);
    must_be_sound(&pm, &disk);
    let v = open(&pm, &disk, 90);
    for (name, _, _) in &files {
        v.unlink(Ino::ROOT, name.as_bytes()).unwrap();
    }
    for i in 0..small.len() {
        v.unlink(Ino::ROOT, format!("s{i}").as_bytes()).unwrap();
    }
    let f = create(&v, "again");
    put(&v, f, 0, &piece);
    assert_eq!(get(&v, f, 0, 50_000), piece);
    v.close().unwrap();
    drop(v);
    must_be_sound(&pm, &disk);
}

/// An ACL too long for one log entry is refused, not stored in a way that chmod could not follow.
#[test]
fn huge_acls_are_refused() {
    let (pm, disk) = (Pm::anonymous(4 << 20), memory_disk(4 << 20));
    format(&pm, std::slice::from_ref(&disk), &FormatOptions::default()).unwrap();
    let v = open(&pm, &disk, 90);
    let f = create(&v, "f");
    let entry = |tag: u16, perm: u16, id: u32| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let acl = |users: u32| {
        let mut acl = 2u32.to_le_bytes().to_vec();
        acl.extend(entry(1, 6, u32::MAX));
        (0..users).for_each(|i| acl.extend(entry(2, 4, 1000 + i)));
        [entry(4, 4, u32::MAX), entry(0x10, 6, u32::MAX), entry(0x20, 0, u32::MAX)]
            .iter()
            .for_each(|e| acl.extend(e));
        acl
    };
    let name = b"system.posix_acl_access";
    v.setxattr(f, name, &acl(200), XattrFlags::default(), None).unwrap();
    v.setattr(f, &SetAttr { mode: Some(0o600), ..Default::default() }).unwrap();
    let refused = v.setxattr(f, name, &acl(2000), XattrFlags::default(), None).unwrap_err();
    assert_eq!(refused.errno(), libc::ENOSPC);
    v.setattr(f, &SetAttr { mode: Some(0o640), ..Default::default() }).unwrap();
    v.close().unwrap();
}

/// A disk that fails in writeback: fsync says EIO, the volume turns read-only, and reads go on.
#[test]
fn a_failing_disk_turns_the_volume_read_only() {
    let rig = Simulated::new();
    let v = open(&rig.pm, &rig.disk, 0);
    let f = create(&v, "f");
    put(&v, f, 0, &[1; 8192]);
    v.fsync(f, false).unwrap();
    put(&v, f, 0, &[2; 4096]);
    rig.disk_sim.fail_flush(true);
    assert_eq!(v.fsync(f, false).unwrap_err().errno(), libc::EIO);
    rig.disk_sim.clear_faults();
    assert!(v.status().read_only.is_some());
    assert_eq!(v.write(f, 0, b"x", WriteOptions::default()).unwrap_err().errno(), libc::EROFS);
    assert_eq!(get(&v, f, 0, 4096), [2; 4096]);
    let v = rig.after_power_cut(v, 0);
    assert_eq!(get(&v, f, 0, 8192), [1; 8192], "the older version, whole");
}

/// A cache smaller than a write: the write goes through in pieces, also with several writers.
#[test]
fn a_tiny_cache_is_slow_and_works() {
    let (pm, disk) = (Pm::anonymous(4 << 20), memory_disk(64 << 20));
    format(&pm, std::slice::from_ref(&disk), &FormatOptions::default()).unwrap();
    let options = OpenOptions { cache_bytes: 0, pm_full_percent: 0, ..Default::default() };
    let v = Volume::open(pm.clone(), vec![disk.clone()], options, &|_, _, _| {}).unwrap();
    let data = pattern(6 << 20, 4);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (v, data) = (&v, &data);
            scope.spawn(move || {
                let f = create(v, &format!("f{i}"));
                put(v, f, 0, data);
                assert!(get(v, f, 0, data.len()) == *data);
            });
        }
    });
    v.close().unwrap();
    drop(v);
    must_be_sound(&pm, &disk);
}

/// A file that was made without a name: gone after a crash and after its last use, there once it
/// has a name; its room comes back.
#[test]
fn files_without_names_are_gone_unless_they_get_one() {
    let (pm, disk) = (Pm::anonymous(8 << 20), memory_disk(16 << 20));
    format(&pm, std::slice::from_ref(&disk), &FormatOptions::default()).unwrap();
    let v = open(&pm, &disk, 90);
    let unnamed = |linkable| v.create_unnamed(Ino::ROOT, &FILE, linkable).unwrap();
    let free = v.statfs().unwrap().blocks_free;
    let (used, named, stuck) = (unnamed(true), unnamed(true), unnamed(false));
    assert_eq!([used.nlink, named.nlink, stuck.nlink], [0; 3]);
    [used, named, stuck].iter().for_each(|file| put(&v, file.ino, 0, &pattern(50_000, 3)));
    assert_eq!(v.link(named.ino, Ino::ROOT, b"named").unwrap().nlink, 1);
    assert_eq!(v.link(stuck.ino, Ino::ROOT, b"stuck").unwrap_err().errno(), libc::ENOENT);
    v.forget(used.ino, 1);
    assert_eq!(v.getattr(used.ino).unwrap_err().errno(), libc::ESTALE);
    let directory = NewInode { kind: FileKind::Directory, ..FILE };
    let refused = v.create_unnamed(Ino::ROOT, &directory, true).unwrap_err();
    assert_eq!(refused.errno(), libc::EINVAL);
    // The daemon dies: the file that still has no name is nobody's.
    drop(v);
    let v = open(&pm, &disk, 90);
    let file = v.lookup(Ino::ROOT, b"named").unwrap();
    assert_eq!((file.ino, file.nlink), (named.ino, 1));
    assert_eq!(get(&v, file.ino, 0, 50_000), pattern(50_000, 3));
    assert_eq!(v.getattr(stuck.ino).unwrap_err().errno(), libc::ESTALE);
    v.unlink(Ino::ROOT, b"named").unwrap();
    v.forget(file.ino, 1);
    v.close().unwrap();
    drop(v);
    must_be_sound(&pm, &disk);
    let v = open(&pm, &disk, 90);
    assert!(v.statfs().unwrap().blocks_free + 2 >= free, "what they held is free again");
}

/// A write into PM is atomic up to 4 MiB (P-05), however small the page cache is.
#[test]
fn a_tiny_cache_does_not_cut_writes_into_pm() {
    let fences = |cache_bytes| {
        let (pm, disk) = (Pm::anonymous(16 << 20), memory_disk(64 << 20));
        format(&pm, std::slice::from_ref(&disk), &FormatOptions::default()).unwrap();
        let options = OpenOptions { cache_bytes, workers: false, ..Default::default() };
        let v = Volume::open(pm.clone(), vec![disk], options, &|_, _, _| {}).unwrap();
        let f = create(&v, "f");
        let before = pm.stats().fences;
        put(&v, f, 0, &pattern(1 << 20, 4));
        pm.stats().fences - before
    };
    assert_eq!(fences(0), fences(64 << 20));
}

/// An older copy of PM, or of a disk, is refused beside devices that were written since; nothing is
/// changed.
#[test]
fn older_copies_of_a_device_are_refused() {
    let (pm, disk) = (Pm::anonymous(4 << 20), memory_disk(4 << 20));
    format(&pm, std::slice::from_ref(&disk), &FormatOptions::default()).unwrap();
    let copy_pm = |from: &Pm| {
        let mut bytes = vec![0; from.len() as usize];
        from.read(0, &mut bytes);
        let to = Pm::anonymous(from.len());
        to.write_nt(0, &bytes);
        to
    };
    let copy_disk = |from: &Arc<dyn Disk>| {
        let mut bytes = terrace_media::AlignedBuf::new(from.len() as usize);
        from.read_at(0, &mut bytes).unwrap();
        let to = memory_disk(from.len());
        to.write_at(0, &bytes).unwrap();
        to
    };
    let session = |pm: &Arc<Pm>, disk: &Arc<dyn Disk>| {
        let v = open(pm, disk, 0);
        let names = (0..).map(|i| format!("f{i}"));
        let name = names.into_iter().find(|n| v.lookup(Ino::ROOT, n.as_bytes()).is_err()).unwrap();
        let f = create(&v, &name);
        put(&v, f, 0, &pattern(50_000, 1));
        v.close().unwrap();
    };
    session(&pm, &disk);
    let (old_pm, old_disk) = (copy_pm(&pm), copy_disk(&disk));
    // The copies belong together.
    session(&copy_pm(&old_pm), &copy_disk(&old_disk));
    // One mount is enough, and that it ended well does not help.
    session(&pm, &disk);
    let refused = |pm: &Arc<Pm>, disk: &Arc<dyn Disk>| {
        Volume::open(pm.clone(), vec![disk.clone()], OpenOptions::default(), &|_, _, _| {})
            .unwrap_err()
            .to_string()
    };
    assert!(refused(&old_pm, &disk).contains("older than"));
    assert!(refused(&pm, &old_disk).contains("older than"));
    // The same while a daemon that died has left it to recovery.
    let older = copy_disk(&disk);
    let v = open(&pm, &disk, 0);
    let f = v.lookup(Ino::ROOT, b"f0").unwrap().ino;
    put(&v, f, 0, &pattern(50_000, 2));
    v.abandon();
    drop(v);
    assert!(refused(&pm, &older).contains("older than"));
    must_be_sound(&pm, &disk);
    must_be_sound(&old_pm, &old_disk);
}
