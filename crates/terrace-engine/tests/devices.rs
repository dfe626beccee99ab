//! Disks that join a mounted volume and leave it.

mod rig;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rig::{DIR, FILE, Rig, contents, pattern, put, tree};
use terrace_engine::{
    Fallocate, FormatOptions, FsError, FsResult, Ino, OpenOptions, RemovalState, SetAttr, Volume,
    WriteOptions, format, read_disk_label, read_pm_label,
};
use terrace_media::{Disk, DiskSim, IoOp, Pm, memory_disk, sim_disk};

const MIB: u64 = 1 << 20;
const BLOCK: usize = 4096;

fn formatted(pm_bytes: u64, disks: Vec<Arc<dyn Disk>>, tiers: Vec<u8>) -> Rig {
    let rig = Rig { pm: Pm::anonymous(pm_bytes), disks };
    format(&rig.pm, &rig.disks, &FormatOptions { shards: Some(2), tiers, ..Default::default() })
        .unwrap();
    rig
}

fn open(rig: &Rig, pm_full_percent: u8, workers: bool) -> Arc<Volume> {
    let options =
        OpenOptions { cache_bytes: 4 << 20, pm_full_percent, workers, ..Default::default() };
    Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap()
}

fn add(volume: &Volume, disk: &Arc<dyn Disk>, tier: u8) -> FsResult<u16> {
    volume.add_disk(Some(tier), &|_| Ok(disk.clone()))
}

/// Removes a disk that can be.
fn remove(volume: &Volume, device: u16) {
    let removed = volume.remove_disk(device, None).unwrap();
    assert_eq!(
        (removed.state, removed.message, removed.left_bytes),
        (RemovalState::Finished, None, 0)
    );
}

fn refusal(volume: &Volume, device: u16) -> FsError {
    volume.remove_disk(device, None).unwrap_err()
}

fn make(volume: &Volume, name: &str, data: &[u8], tier: u8) -> Ino {
    let ino = volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
    put(volume, ino, 0, data);
    if tier > 0 {
        assert_eq!(volume.move_file(ino, tier).unwrap().left_bytes, 0);
    }
    ino
}

fn used(volume: &Volume, device: u16) -> u64 {
    volume.status().devices.iter().find(|d| d.index == device).unwrap().used_bytes
}

fn indices(volume: &Volume) -> Vec<u16> {
    volume.status().devices.iter().map(|d| d.index).collect()
}

/// Unmounts or crashes, checks, and mounts again: the same is there, and it can be written.
fn comes_back(rig: &Rig, volume: Arc<Volume>, clean: bool) {
    let expected = tree(&volume);
    if clean {
        volume.close().unwrap();
    } else {
        volume.sync().unwrap();
        volume.abandon();
    }
    drop(volume);
    rig.must_be_sound();
    let volume = open(rig, 90, false);
    assert_eq!((tree(&volume) == expected, volume.status().read_only), (true, None));
    let ino = volume.create(Ino::ROOT, b"another", &FILE).unwrap().ino;
    put(&volume, ino, 0, b"more");
    volume.unlink(Ino::ROOT, b"another").unwrap();
    volume.forget(ino, 1);
    volume.close().unwrap();
    rig.must_be_sound();
}

fn is_nobodys(disk: &Arc<dyn Disk>) -> bool {
    read_disk_label(disk.as_ref()).unwrap().is_none()
}

#[test]
fn a_disk_that_was_added_is_as_good_as_one_from_the_beginning() {
    for clean in [true, false] {
        let mut rig = formatted(4 * MIB, vec![memory_disk(2 * MIB)], vec![1]);
        let volume = open(&rig, 90, false);
        let data = pattern(900_000, 1);
        make(&volume, "before", &data, 1);
        let disk = memory_disk(8 * MIB);
        assert_eq!(add(&volume, &disk, 2).unwrap(), 2);
        rig.disks.push(disk);
        // More than the first disk has.
        let ino = make(&volume, "after", &pattern(2 << 20, 2), 2);
        assert!(used(&volume, 2) > 2 << 20);
        assert_eq!(volume.file_map(ino).unwrap().extents[0].tier, "disk2");
        volume.start_scrub(Default::default()).unwrap();
        volume.wait_for_scrub();
        assert_eq!(volume.scrub_report().damage, []);
        comes_back(&rig, volume, clean);
        let label = read_pm_label(&rig.pm).unwrap().unwrap();
        assert_eq!(
            label.devices.iter().map(|d| (d.index, d.tier)).collect::<Vec<_>>(),
            [(0, 0), (1, 1), (2, 2)]
        );
    }
}

#[test]
fn the_first_disk_comes_and_the_last_one_goes() {
    let mut rig = formatted(6 * MIB, Vec::new(), Vec::new());
    let volume = open(&rig, 90, false);
    let data = pattern(1 << 20, 3);
    let ino = make(&volume, "file", &data, 0);
    let disk = memory_disk(16 * MIB);
    assert_eq!(add(&volume, &disk, 1).unwrap(), 1);
    rig.disks.push(disk.clone());
    assert_eq!(volume.move_file(ino, 1).unwrap().moved_bytes, 1 << 20);
    // More than PM takes.
    let large = volume.create(Ino::ROOT, b"large", &FILE).unwrap().ino;
    put(&volume, large, 0, &pattern(7 << 20, 4));
    let error = refusal(&volume, 1);
    assert_eq!(error.errno(), libc::ENOSPC);
    assert!(error.to_string().contains("have no room on the other devices: add a disk"), "{error}");
    // Data that waits in memory for the disk goes to PM, too.
    let late = volume.create(Ino::ROOT, b"late", &FILE).unwrap().ino;
    let waiting = pattern(2 << 20, 5);
    put(&volume, late, 0, &waiting);
    assert!(volume.file_map(late).unwrap().dirty_bytes > 0);
    volume.unlink(Ino::ROOT, b"large").unwrap();
    volume.forget(large, 1);
    remove(&volume, 1);
    assert_eq!((indices(&volume), volume.status().cache_dirty_bytes), (vec![0], 0));
    assert!(is_nobodys(&disk));
    assert!(contents(&volume, late) == waiting && contents(&volume, ino) == data);
    put(&volume, late, 3 << 20, b"written without any disk");
    rig.disks.clear();
    comes_back(&rig, volume, true);
}

/// Everything that a program can do to a file, while a disk is added, one is emptied and forgotten,
/// and one gets its index: every byte is as its writer left it.
#[test]
fn disks_come_and_go_under_load() {
    let mut rig =
        formatted(6 * MIB, vec![memory_disk(12 * MIB), memory_disk(12 * MIB)], vec![1, 1]);
    let volume = open(&rig, 40, true);
    let stop = AtomicBool::new(false);
    let written: Vec<BTreeMap<String, Vec<u8>>> = thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|who| {
                let (volume, stop) = (&volume, &stop);
                scope.spawn(move || churn(volume, who, stop))
            })
            .collect();
        let third = memory_disk(16 * MIB);
        assert_eq!(add(&volume, &third, 1).unwrap(), 3);
        remove(&volume, 1);
        let fourth = memory_disk(16 * MIB);
        assert_eq!(add(&volume, &fourth, 2).unwrap(), 1, "an index that is free is used again");
        volume.start_removal(2, None).unwrap();
        let removed = volume.wait_for_removal().unwrap();
        assert_eq!((removed.state, removed.message), (RemovalState::Finished, None));
        stop.store(true, Ordering::Relaxed);
        let gone = std::mem::replace(&mut rig.disks, vec![third, fourth]);
        assert!(gone.iter().all(is_nobodys));
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(indices(&volume), [0, 1, 3]);
    for (name, data) in written.iter().flatten() {
        let ino = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
        assert!(contents(&volume, ino) == *data, "{name}");
        volume.forget(ino, 1);
    }
    volume.start_scrub(Default::default()).unwrap();
    volume.wait_for_scrub();
    assert_eq!(volume.scrub_report().damage, []);
    comes_back(&rig, volume, false);
}

/// Changes files of its own until told to stop; what they hold.
fn churn(volume: &Volume, who: u64, stop: &AtomicBool) -> BTreeMap<String, Vec<u8>> {
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(who);
    let mut below = |n: u64| random.u64(..n);
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) || rounds < 200 {
        rounds += 1;
        let name = format!("{who}-{}", below(12));
        let ino = match volume.lookup(Ino::ROOT, name.as_bytes()) {
            Ok(attr) => attr.ino,
            Err(_) => volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino,
        };
        let data = files.entry(name.clone()).or_default();
        match below(10) {
            0 => {
                volume.unlink(Ino::ROOT, name.as_bytes()).unwrap();
                files.remove(&name);
            }
            1 => {
                let size = below(data.len() as u64 + 1);
                volume.setattr(ino, &SetAttr { size: Some(size), ..Default::default() }).unwrap();
                data.truncate(size as usize);
            }
            2 => volume.fsync(ino, false).unwrap(),
            3 => {
                let (from, len) = (below(200_000), 1 + below(60_000));
                volume.fallocate(ino, Fallocate::AllocateKeepSize, from, len).unwrap();
            }
            4 => {
                volume.move_file(ino, below(2) as u8).unwrap();
            }
            _ => {
                let at = below(200_000) as usize;
                let bytes = pattern(1 + below(60_000) as usize, rounds as u8);
                let options = WriteOptions { durable: below(4) == 0, ..Default::default() };
                assert_eq!(volume.write(ino, at as u64, &bytes, options).unwrap(), bytes.len());
                data.resize(data.len().max(at + bytes.len()), 0);
                data[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        volume.forget(ino, 1);
    }
    files
}

#[test]
fn what_is_removed_but_open_moves_too() {
    let rig = formatted(4 * MIB, vec![memory_disk(8 * MIB), memory_disk(8 * MIB)], vec![1, 2]);
    let volume = open(&rig, 90, false);
    let data = pattern(300_000, 6);
    let ino = make(&volume, "open", &data, 0);
    volume.fallocate(ino, Fallocate::AllocateKeepSize, 1 << 20, 50_000).unwrap();
    assert_eq!(volume.move_file(ino, 1).unwrap().left_bytes, 0);
    volume.unlink(Ino::ROOT, b"open").unwrap();
    remove(&volume, 1);
    assert!(contents(&volume, ino) == data);
    assert!(used(&volume, 2) > 350_000);
    volume.forget(ino, 1);
    volume.close().unwrap();
    Rig { pm: rig.pm.clone(), disks: vec![rig.disks[1].clone()] }.must_be_sound();
}

/// Its tier first, then slower ones, then faster ones; PM only if there is no disk.
#[test]
fn data_goes_to_its_own_tier_if_that_has_room() {
    let disks = (0..4).map(|_| memory_disk(4 * MIB)).collect();
    let rig = formatted(4 * MIB, disks, vec![1, 2, 2, 3]);
    let volume = open(&rig, 90, false);
    let data = pattern(1 << 20, 5);
    let ino = make(&volume, "file", &data, 2);
    let tiers =
        || volume.file_map(ino).unwrap().extents.iter().map(|e| e.tier.clone()).collect::<Vec<_>>();
    let device = if used(&volume, 2) > MIB { 2 } else { 3 };
    remove(&volume, device);
    assert!(tiers().iter().all(|tier| tier == "disk2"));
    remove(&volume, 5 - device);
    assert!(tiers().iter().all(|tier| tier == "disk3"));
    remove(&volume, 4);
    assert!(tiers().iter().all(|tier| tier == "disk1"));
    remove(&volume, 1);
    assert!(tiers().iter().all(|tier| tier == "pm"));
    assert!(contents(&volume, ino) == data);
    comes_back(&Rig { pm: rig.pm, disks: Vec::new() }, volume, true);
}

#[test]
fn a_successor_gets_what_it_can_hold() {
    let mut rig = formatted(4 * MIB, vec![memory_disk(4 * MIB), memory_disk(64 * MIB)], vec![1, 1]);
    let volume = open(&rig, 90, false);
    let data = pattern(1 << 20, 8);
    let ino = make(&volume, "file", &data, 1);
    let old = if used(&volume, 1) > MIB { 1 } else { 2 };
    let disk = memory_disk(4 * MIB);
    let new = add(&volume, &disk, 1).unwrap();
    let removed = volume.remove_disk(old, Some(new)).unwrap();
    assert_eq!(removed.state, RemovalState::Finished);
    let map = volume.file_map(ino).unwrap();
    assert!(map.extents.iter().all(|e| e.device == disk.path().display().to_string()));
    assert!(used(&volume, new) > MIB && contents(&volume, ino) == data);
    rig.disks.remove(usize::from(old) - 1);
    rig.disks.push(disk);
    comes_back(&rig, volume, false);
}

/// Data that does not match its checksum stays where it is, with the disk; all else may move.
#[test]
fn damage_keeps_the_disk_and_is_named() {
    let rig = formatted(4 * MIB, vec![memory_disk(8 * MIB), memory_disk(8 * MIB)], vec![1, 2]);
    let volume = open(&rig, 90, false);
    let dir = volume.create(Ino::ROOT, b"dir", &DIR).unwrap().ino;
    let data = pattern(20 * BLOCK, 7);
    let ino = volume.create(dir, b"bad", &FILE).unwrap().ino;
    put(&volume, ino, 0, &data);
    volume.move_file(ino, 1).unwrap();
    let at = volume.file_map(ino).unwrap().extents[0].device_offset_bytes + 5 * BLOCK as u64;
    rig.flip(1, at + 9);
    let failed = volume.remove_disk(1, None).unwrap();
    let why = failed.message.unwrap();
    assert_eq!(failed.state, RemovalState::Failed);
    assert!(why.contains("/dir/bad (inode ") && why.contains(&format!("at byte {at})")), "{why}");
    assert_eq!((indices(&volume), volume.status().read_only), (vec![0, 1, 2], None));
    // It takes data as before, and with the damage gone it can be removed.
    let other = make(&volume, "other", &data, 1);
    assert_eq!(volume.file_map(other).unwrap().extents[0].tier, "disk1");
    rig.flip(1, at + 9);
    remove(&volume, 1);
    assert!(contents(&volume, ino) == data);
    comes_back(&Rig { pm: rig.pm, disks: vec![rig.disks[1].clone()] }, volume, false);
}

/// The volume `rig`, whose first disk can be interrupted, with a file of `len` bytes on that.
fn with_file_on_sim(second: u64, len: usize) -> (Rig, Arc<DiskSim>, Arc<Volume>, Ino, Vec<u8>) {
    let (disk, sim) = sim_disk(16 * MIB);
    let rig = formatted(4 * MIB, vec![disk, memory_disk(second)], vec![1, 2]);
    let volume = open(&rig, 90, false);
    let data = pattern(len, 2);
    let ino = volume.create(Ino::ROOT, b"file", &FILE).unwrap().ino;
    for (i, piece) in data.chunks(1 << 20).enumerate() {
        put(&volume, ino, (i << 20) as u64, piece);
        volume.move_file(ino, 1).unwrap();
    }
    (rig, sim, volume, ino, data)
}

#[test]
fn a_removal_that_is_cancelled_leaves_the_disk_in_use() {
    let (rig, sim, volume, ino, data) = with_file_on_sim(16 * MIB, 2 << 20);
    let second = make(&volume, "second", &pattern(100_000, 9), 1);
    let (v, cancelled) = (volume.clone(), Arc::new(Mutex::new(None)));
    let told = cancelled.clone();
    sim.before_next(IoOp::Read, move || {
        *told.lock().unwrap() = Some(v.cancel_removal().map_err(|e| e.errno()))
    });
    let ended = volume.remove_disk(1, None).unwrap();
    sim.clear_on_io();
    assert_eq!(*cancelled.lock().unwrap(), Some(Ok(())));
    assert_eq!(ended.state, RemovalState::Cancelled);
    assert!(0 < ended.left_bytes && ended.left_bytes < ended.total_bytes, "{ended:?}");
    assert_eq!(volume.cancel_removal().unwrap_err().errno(), libc::ESRCH);
    assert_eq!((indices(&volume), volume.status().removal), (vec![0, 1, 2], Some(ended)));
    let third = make(&volume, "third", &pattern(50_000, 1), 1);
    assert_eq!(volume.file_map(third).unwrap().extents[0].tier, "disk1");
    assert!(contents(&volume, ino) == data && contents(&volume, second) == pattern(100_000, 9));
    comes_back(&rig, volume, false);
}

/// Room that others take in the middle of it is missed then, and nothing is lost.
#[test]
fn room_that_goes_meanwhile_is_missed_by_the_byte() {
    let (rig, sim, volume, ino, data) = with_file_on_sim(5 * MIB, 4 << 20);
    let v = volume.clone();
    sim.before_next(IoOp::Read, move || {
        let ino = v.create(Ino::ROOT, b"greedy", &FILE).unwrap().ino;
        v.fallocate(ino, Fallocate::Allocate, 0, 2 << 20).unwrap();
        // What PM had room for.
        v.move_file(ino, 2).unwrap();
    });
    let ended = volume.remove_disk(1, None).unwrap();
    sim.clear_on_io();
    let why = ended.message.unwrap();
    assert_eq!(ended.state, RemovalState::Failed, "{why}");
    assert!(why.contains("no room") && why.contains("bytes"), "{why}");
    assert_eq!(indices(&volume), [0, 1, 2]);
    assert!(contents(&volume, ino) == data);
    comes_back(&rig, volume, false);
}

/// Data under way to the disk belongs to no file yet, however long that takes: the removal waits
/// for it.
#[test]
fn a_removal_waits_for_a_slow_disk() {
    let (rig, sim, volume, ino, data) = with_file_on_sim(16 * MIB, 1 << 20);
    let other = make(&volume, "other", &data, 0);
    let (reached, is_reached) = mpsc::channel();
    let (release, released) = mpsc::channel();
    sim.before_next(IoOp::Write, move || {
        reached.send(()).unwrap();
        released.recv().unwrap();
    });
    thread::scope(|scope| {
        scope.spawn(|| volume.move_file(other, 1).unwrap());
        is_reached.recv().unwrap();
        volume.start_removal(1, None).unwrap();
        // Longer than passes in vain are made one after the other.
        thread::sleep(Duration::from_secs(2));
        assert_eq!(volume.status().removal.unwrap().state, RemovalState::Running);
        release.send(()).unwrap();
    });
    sim.clear_on_io();
    let ended = volume.wait_for_removal().unwrap();
    assert_eq!(ended.state, RemovalState::Finished, "{ended:?}");
    assert!(contents(&volume, ino) == data && contents(&volume, other) == data);
    volume.close().unwrap();
    drop(volume);
    Rig { pm: rig.pm, disks: rig.disks[1..].to_vec() }.must_be_sound();
}

#[test]
fn only_one_removal_at_a_time_and_an_unmount_ends_it() {
    let (mut rig, sim, volume, ino, data) = with_file_on_sim(16 * MIB, 1 << 20);
    let (reached, is_reached) = mpsc::channel();
    let (release, released) = mpsc::channel();
    sim.before_next(IoOp::Read, move || {
        reached.send(()).unwrap();
        released.recv().unwrap();
    });
    volume.start_removal(1, None).unwrap();
    is_reached.recv().unwrap();
    let busy = volume.start_removal(2, None).unwrap_err();
    assert!(busy.errno() == libc::EBUSY && busy.to_string().contains("one at a time"), "{busy}");
    // A disk may come meanwhile.
    let third = memory_disk(4 * MIB);
    assert_eq!(add(&volume, &third, 1).unwrap(), 3);
    rig.disks.push(third);
    thread::scope(|scope| {
        scope.spawn(|| volume.close().unwrap());
        while volume.start_removal(2, None).unwrap_err().errno() != libc::ESHUTDOWN {
            thread::yield_now();
        }
        release.send(()).unwrap();
    });
    sim.clear_on_io();
    assert_eq!(volume.wait_for_removal().unwrap().state, RemovalState::Cancelled);
    drop(volume);
    let volume = open(&rig, 90, false);
    assert!(indices(&volume) == [0, 1, 2, 3] && contents(&volume, ino) == data);
    comes_back(&rig, volume, true);
}

#[test]
fn what_cannot_be_is_told_so() {
    let mut rig = formatted(4 * MIB, vec![memory_disk(4 * MIB)], vec![1]);
    let volume = open(&rig, 90, false);
    let told = |result: FsResult<u16>| result.unwrap_err().to_string();
    assert!(
        told(add(&volume, &memory_disk(64 << 10), 1))
            .contains("too few for a disk: give it at least 1024 KiB")
    );
    assert!(told(add(&volume, &memory_disk(MIB), 0)).contains("tier 0 is PM"));
    assert!(told(add(&volume, &memory_disk(MIB), 16)).contains("choose 1 to 15"));
    let opening = |_| Err(FsError::with_message(libc::EBUSY, "in use"));
    assert_eq!(told(volume.add_disk(None, &opening)), "in use");
    for device in [0, 2, 15, 16, 999] {
        assert_eq!(refusal(&volume, device).errno(), libc::EINVAL, "{device}");
    }
    assert_eq!(volume.remove_disk(1, Some(1)).unwrap_err().errno(), libc::EINVAL);
    assert_eq!(volume.cancel_removal().unwrap_err().errno(), libc::ESRCH);
    assert_eq!((volume.wait_for_removal(), indices(&volume)), (None, vec![0, 1]));
    for index in 2..16 {
        let disk = memory_disk(MIB);
        assert_eq!(add(&volume, &disk, 1).unwrap(), index);
        rig.disks.push(disk);
    }
    assert!(told(add(&volume, &memory_disk(MIB), 1)).contains("16 devices"));
    make(&volume, "file", &pattern(500_000, 1), 1);
    comes_back(&rig, volume, true);
    let options = OpenOptions { read_only: true, ..Default::default() };
    let image = rig.image().rig();
    let volume = Volume::open(image.pm, image.disks, options, &|_, _, _| {}).unwrap();
    assert_eq!(add(&volume, &memory_disk(MIB), 1).unwrap_err().errno(), libc::EROFS);
    assert_eq!(refusal(&volume, 1).errno(), libc::EROFS);
}

/// A disk that could not be erased has an index that a later disk must not get in this mount: it
/// would be taken for that.
#[test]
fn a_disk_that_was_not_erased_is_nobodys_substitute() {
    let (disk, sim) = sim_disk(4 * MIB);
    let other = memory_disk(8 * MIB);
    let rig = formatted(4 * MIB, vec![disk.clone(), other.clone()], vec![1, 1]);
    let volume = open(&rig, 90, false);
    sim.fail_writes(0..2 * BLOCK as u64);
    let removed = volume.remove_disk(1, None).unwrap();
    assert_eq!(removed.state, RemovalState::Finished);
    assert!(removed.message.unwrap().contains("could not be erased"));
    let third = memory_disk(4 * MIB);
    assert_eq!(add(&volume, &third, 1).unwrap(), 3, "not 1");
    volume.close().unwrap();
    drop(volume);
    let open_with = |disks: &[&Arc<dyn Disk>]| {
        let disks = disks.iter().map(|&disk| disk.clone()).collect();
        Volume::open(rig.pm.clone(), disks, OpenOptions::default(), &|_, _, _| {})
    };
    let error = open_with(&[&disk, &other, &third]).unwrap_err().to_string();
    assert!(error.contains("is device 1 of the volume, which has no such disk"), "{error}");
    let volume = open_with(&[&other, &third]).unwrap();
    // By now the index can be used again: what is of the last mount is told from what is of this
    // one.
    let fourth = memory_disk(4 * MIB);
    assert_eq!(add(&volume, &fourth, 1).unwrap(), 1);
    volume.abandon();
    drop(volume);
    let error = open_with(&[&disk, &other, &third]).unwrap_err().to_string();
    assert!(error.contains("older than"), "{error}");
    open_with(&[&fourth, &other, &third]).unwrap().close().unwrap();
}
