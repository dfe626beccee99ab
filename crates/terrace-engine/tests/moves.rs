//! Data that moves to another tier while programs use the file.

mod rig;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use rig::{FILE, Rig, contents, pattern, put};
use terrace_engine::{
    Fallocate, FileMoved, FormatOptions, Ino, SetAttr, Volume, WriteOptions, format,
};
use terrace_media::{DiskSim, IoOp, Pm, memory_disk, sim_disk};
use terrace_policy::Param;

const BLOCK: usize = 4096;

/// Tier names of a file's extents in order of the file, each once in a row.
fn tiers(volume: &Volume, ino: Ino) -> Vec<String> {
    let mut names: Vec<String> =
        volume.file_map(ino).unwrap().extents.into_iter().map(|e| e.tier).collect();
    names.dedup();
    names
}

fn create(volume: &Volume, name: &str) -> Ino {
    volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino
}

fn all_of(bytes: u64) -> FileMoved {
    FileMoved { moved_bytes: bytes, ..FileMoved::default() }
}

/// A PM and two disks, each a tier.
fn three_tiers(pm_data_checksums: bool) -> Rig {
    let pm = Pm::anonymous(8 << 20);
    let disks = vec![memory_disk(16 << 20), memory_disk(16 << 20)];
    let tiers = vec![1, 2];
    let options = FormatOptions { shards: Some(2), tiers, pm_data_checksums, ..Default::default() };
    format(&pm, &disks, &options).unwrap();
    Rig { pm, disks }
}

/// Every combination of tiers, with and without checksums of PM data: contents, size and times
/// stay, blocks are neither lost nor owned twice, and all of that is still so after a remount.
#[test]
fn a_file_goes_from_any_tier_to_any_other() {
    for checksums in [false, true] {
        let rig = three_tiers(checksums);
        let volume = rig.open(90);
        let ino = create(&volume, "file");
        // More than a stretch, of pieces, with holes, reserved blocks and a partial last block.
        let mut expected = pattern(300 * BLOCK + 77, 3);
        put(&volume, ino, 0, &expected);
        for i in (0..290).step_by(3) {
            let piece = pattern(5000, i as u8);
            put(&volume, ino, (i * BLOCK + 100) as u64, &piece);
            expected[i * BLOCK + 100..][..5000].copy_from_slice(&piece);
        }
        volume.fallocate(ino, Fallocate::PunchHole, 20 * BLOCK as u64, 3 * BLOCK as u64).unwrap();
        expected[20 * BLOCK..23 * BLOCK].fill(0);
        volume
            .fallocate(ino, Fallocate::AllocateKeepSize, 400 * BLOCK as u64, 5 * BLOCK as u64)
            .unwrap();
        let before = volume.getattr(ino).unwrap();
        let bytes = (298 + 5) * BLOCK as u64;
        for (tier, name) in [
            (1, "disk1"),
            (2, "disk2"),
            (0, "pm"),
            (2, "disk2"),
            (1, "disk1"),
            (0, "pm"),
            (1, "disk1"),
        ] {
            assert_eq!(volume.move_file(ino, tier).unwrap(), all_of(bytes), "to {name}");
            assert_eq!(tiers(&volume, ino), [name]);
            assert_eq!(contents(&volume, ino), expected);
            assert_eq!(
                volume.move_file(ino, tier).unwrap(),
                all_of(0),
                "there is nothing left to move"
            );
        }
        let after = volume.getattr(ino).unwrap();
        assert_eq!(
            (before.size, before.mtime, before.ctime),
            (after.size, after.mtime, after.ctime)
        );
        volume.close().unwrap();
        drop(volume);
        rig.must_be_sound();
        let volume = rig.open(90);
        let ino = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
        let found = volume.getattr(ino).unwrap();
        assert_eq!((before.size, before.mtime), (found.size, found.mtime));
        assert_eq!(
            (contents(&volume, ino) == expected, tiers(&volume, ino)),
            (true, vec!["disk1".to_string()])
        );
        volume.close().unwrap();
    }
}

#[test]
fn moved_data_survives_the_daemons_death_and_frees_what_it_left() {
    let rig = three_tiers(false);
    let volume = rig.open(90);
    let ino = create(&volume, "file");
    let used = |volume: &Volume| volume.status().devices[0].used_bytes;
    let empty = used(&volume);
    let data = pattern(1 << 20, 9);
    put(&volume, ino, 0, &data);
    assert!(used(&volume) >= empty + (1 << 20));
    volume.move_file(ino, 1).unwrap();
    assert!(used(&volume) < empty + (64 << 10), "PM is free again");
    volume.abandon();
    drop(volume);
    rig.must_be_sound();
    let volume = rig.open(90);
    let ino = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
    assert_eq!(
        (contents(&volume, ino) == data, tiers(&volume, ino)),
        (true, vec!["disk1".to_string()])
    );
}

/// A small file whose data has left PM keeps nothing there but its record, and can be written on.
#[test]
fn the_log_of_a_small_file_leaves_its_page_with_the_data() {
    let rig = three_tiers(false);
    let volume = rig.open(90);
    volume.tune(Param::LogsAt, 0).unwrap();
    let log_pages = |volume: &Volume, ino| volume.file_map(ino).unwrap().log_pages;
    let ino = create(&volume, "file");
    let mut expected = pattern(4 * BLOCK, 1);
    for (at, piece) in (0..).step_by(BLOCK).zip(expected.chunks(BLOCK)) {
        put(&volume, ino, at, piece);
        volume.fsync(ino, true).unwrap();
    }
    assert_eq!(log_pages(&volume, ino), 1);
    let free = volume.status().devices[0].used_bytes;
    volume.move_range(ino, 1, 0, u64::MAX).unwrap();
    assert_eq!((tiers(&volume, ino), log_pages(&volume, ino)), (vec!["disk1".to_owned()], 0));
    let given_back = free - volume.status().devices[0].used_bytes;
    assert_eq!(given_back, 5 * BLOCK as u64, "the data and the page");
    // Half of a file stays, and so does its log.
    let half = create(&volume, "half");
    for at in [0, 1, 2, 3] {
        put(&volume, half, at * BLOCK as u64, &pattern(BLOCK, 1));
        volume.fsync(half, true).unwrap();
    }
    volume.move_range(half, 1, 0, 2 * BLOCK as u64).unwrap();
    assert_eq!(log_pages(&volume, half), 1);
    drop(volume);
    let volume = rig.open(90);
    assert!(contents(&volume, ino) == expected, "after the daemon's death");
    put(&volume, ino, 3 * BLOCK as u64, &pattern(2 * BLOCK, 5));
    expected.truncate(3 * BLOCK);
    expected.extend(pattern(2 * BLOCK, 5));
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    let volume = rig.open(90);
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    rig.must_be_sound();
}

#[test]
fn dirty_data_goes_along() {
    let rig = three_tiers(false);
    let volume = rig.open(0);
    let ino = create(&volume, "file");
    let data = pattern(100_000, 4);
    put(&volume, ino, 0, &data);
    assert!(volume.file_map(ino).unwrap().dirty_bytes > 0);
    assert_eq!(volume.move_file(ino, 2).unwrap(), all_of(25 * BLOCK as u64));
    assert_eq!(
        (contents(&volume, ino) == data, tiers(&volume, ino)),
        (true, vec!["disk2".to_string()])
    );
    assert_eq!(volume.file_map(ino).unwrap().dirty_bytes, 0);
}

#[test]
fn what_has_no_room_stays_and_is_counted() {
    let rig = three_tiers(false);
    let volume = rig.open(90);
    let ino = create(&volume, "file");
    // Longer than PM takes.
    let data = pattern(9 << 20, 1);
    put(&volume, ino, 0, &data);
    volume.fsync(ino, false).unwrap();
    volume.move_file(ino, 2).unwrap();
    assert_eq!(tiers(&volume, ino), ["disk2"]);
    let moved = volume.move_file(ino, 0).unwrap();
    assert!(moved.moved_bytes > 4 << 20 && moved.left_bytes > 1 << 20, "{moved:?}");
    assert_eq!(moved.moved_bytes + moved.left_bytes, 9 << 20);
    assert_eq!(contents(&volume, ino), data);
    volume.close().unwrap();
    rig.must_be_sound();
}

/// A tier that is full hands data on to the next. Data there is not copied from one place to
/// another, and comes up when there is room, as much as there is room for.
#[test]
fn what_lies_below_a_full_tier_stays_until_it_can_come_nearer() {
    let pm = Pm::anonymous(16 << 20);
    let disks = vec![memory_disk(4 << 20), memory_disk(16 << 20), memory_disk(16 << 20)];
    format(
        &pm,
        &disks,
        &FormatOptions { shards: Some(1), tiers: vec![1, 2, 3], ..Default::default() },
    )
    .unwrap();
    let rig = Rig { pm, disks };
    let volume = rig.open_alone(&[]);
    let (file, ballast) = (create(&volume, "file"), create(&volume, "ballast"));
    let data = pattern(6 << 20, 1);
    put(&volume, ballast, 0, &pattern(1 << 20, 2));
    assert_eq!(volume.move_file(ballast, 1).unwrap(), all_of(1 << 20));
    // PM takes these, but not 4 MiB at once.
    for (at, piece) in (0..).step_by(1 << 20).zip(data.chunks(1 << 20)) {
        put(&volume, file, at, piece);
    }
    let moved = volume.move_file(file, 1).unwrap();
    assert_eq!((moved.moved_bytes, moved.left_bytes), (6 << 20, 0));
    assert!(moved.below_bytes > 3 << 20, "{moved:?}");
    assert_eq!(tiers(&volume, file), ["disk1", "disk2"]);
    // Nothing is copied within the second tier, nor when only a little is left to move.
    let places = |volume: &Volume| volume.file_map(file).unwrap().extents;
    let before = places(&volume);
    let again = volume.move_file(file, 1).unwrap();
    assert_eq!(again, FileMoved { moved_bytes: 0, ..moved });
    assert_eq!(places(&volume), before);
    // From the third, it comes up to the second, since the first is full.
    volume.move_file(file, 3).unwrap();
    put(&volume, create(&volume, "more"), 0, &pattern(3 << 20, 3));
    let more = volume.lookup(Ino::ROOT, b"more").unwrap().ino;
    volume.move_file(more, 1).unwrap();
    let moved = volume.move_file(file, 1).unwrap();
    assert_eq!((moved.moved_bytes, moved.left_bytes), (6 << 20, 0));
    assert!(moved.below_bytes >= (6 << 20) - (64 << 12), "{moved:?}");
    assert_eq!(tiers(&volume, file).last().unwrap(), "disk2");
    // With room for a megabyte in the first, about as much comes up.
    volume.setattr(ballast, &SetAttr { size: Some(0), ..Default::default() }).unwrap();
    let moved = volume.move_file(file, 1).unwrap();
    assert!((900 << 10..=1 << 20).contains(&moved.moved_bytes), "{moved:?}");
    assert_eq!(moved.below_bytes % 4096, 0);
    assert!(contents(&volume, file) == data);
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn what_cannot_move_is_told_so() {
    let rig = three_tiers(false);
    let volume = rig.open(90);
    let ino = create(&volume, "file");
    let error = volume.move_file(ino, 3).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    assert_eq!(error.to_string(), "tier 3: the volume's tiers are 0 (PM) to 2");
    assert_eq!(volume.move_file(Ino::ROOT, 1).unwrap_err().errno(), libc::EISDIR);
    assert_eq!(volume.move_file(Ino(77), 1).unwrap_err().errno(), libc::ESTALE);
    assert_eq!(volume.move_file(ino, 1).unwrap(), all_of(0));
}

/// Everything that can happen to a file between the copy and its commit: what happened last counts.
#[test]
fn who_changes_a_block_meanwhile_wins_that_block_only() {
    type Change = fn(&Volume, Ino, &mut Vec<u8>);
    let changes: [(&str, Change, u64); 9] = [
        ("overwrite", |v, ino, data| write(v, ino, data, 2 * BLOCK, &pattern(BLOCK, 50)), 1),
        ("patch", |v, ino, data| write(v, ino, data, 3 * BLOCK + 5, b"patched"), 1),
        ("append", |v, ino, data| write(v, ino, data, 10 * BLOCK + 100, &pattern(200, 51)), 1),
        (
            "append beyond",
            |v, ino, data| write(v, ino, data, 10 * BLOCK + 100, &pattern(9000, 52)),
            1,
        ),
        ("write after a gap", |v, ino, data| write(v, ino, data, 20 * BLOCK, &pattern(10, 53)), 0),
        ("truncate", |v, ino, data| resize(v, ino, data, 4 * BLOCK + 10), 7),
        ("extend", |v, ino, data| resize(v, ino, data, 11 * BLOCK), 1),
        (
            "punch",
            |v, ino, data| {
                v.fallocate(ino, Fallocate::PunchHole, BLOCK as u64, 2 * BLOCK as u64).unwrap();
                data[BLOCK..3 * BLOCK].fill(0);
            },
            2,
        ),
        (
            "there and back",
            |v, ino, data| {
                // The block returns to where it was, with other contents.
                for seed in 60..64 {
                    write(v, ino, data, 5 * BLOCK, &pattern(BLOCK, seed));
                }
            },
            1,
        ),
    ];
    for checksums in [false, true] {
        for (name, change, overtaken) in changes {
            let (rig, disk) = with_sim_disk(checksums);
            let volume = rig.open_alone(&[]);
            let ino = create(&volume, "file");
            let data = pattern(10 * BLOCK + 100, 1);
            put(&volume, ino, 0, &data);
            let (moved, expected) = move_while(&volume, ino, 1, &disk, change, data.clone());
            assert!(contents(&volume, ino) == expected, "{name}");
            assert_eq!(
                moved,
                FileMoved { moved_bytes: (11 - overtaken) * BLOCK as u64, ..moved },
                "{name}"
            );
            volume.abandon();
            drop(volume);
            rig.must_be_sound();
            let volume = rig.open_alone(&[]);
            let ino = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
            assert!(contents(&volume, ino) == expected, "{name}, after a crash");
            // The way back, with the same change, from the same beginning.
            resize(&volume, ino, &mut Vec::new(), 0);
            put(&volume, ino, 0, &data);
            volume.move_file(ino, 1).unwrap();
            let (_, expected) = move_while(&volume, ino, 0, &disk, change, data);
            assert!(contents(&volume, ino) == expected, "{name}, on the way back to PM");
            volume.close().unwrap();
            drop(volume);
            rig.must_be_sound();
            let volume = rig.open_alone(&[]);
            let ino = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
            assert!(contents(&volume, ino) == expected, "{name}, back in PM, after an unmount");
        }
    }
}

/// A volume on PM and one disk, and what can interrupt the disk.
fn with_sim_disk(pm_data_checksums: bool) -> (Rig, Arc<DiskSim>) {
    let (disk, sim) = sim_disk(16 << 20);
    let rig = Rig { pm: Pm::anonymous(8 << 20), disks: vec![disk] };
    format(&rig.pm, &rig.disks, &FormatOptions { pm_data_checksums, ..Default::default() })
        .unwrap();
    (rig, sim)
}

/// Moves a file that holds `data`, which `change` changes when the disk is about to be used; what
/// it holds then.
fn move_while(
    volume: &Arc<Volume>,
    ino: Ino,
    tier: u8,
    disk: &DiskSim,
    change: fn(&Volume, Ino, &mut Vec<u8>),
    mut data: Vec<u8>,
) -> (FileMoved, Vec<u8>) {
    let changed = Arc::new(Mutex::new(None));
    let (v, told) = (volume.clone(), changed.clone());
    disk.before_next(if tier == 0 { IoOp::Read } else { IoOp::Write }, move || {
        change(&v, ino, &mut data);
        *told.lock().unwrap() = Some(data);
    });
    let moved = volume.move_file(ino, tier).unwrap();
    disk.clear_on_io();
    let data = changed.lock().unwrap().take().expect("the disk was used");
    (moved, data)
}

fn write(volume: &Volume, ino: Ino, data: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    assert_eq!(volume.write(ino, at as u64, bytes, WriteOptions::default()).unwrap(), bytes.len());
    data.resize(data.len().max(at + bytes.len()), 0);
    data[at..at + bytes.len()].copy_from_slice(bytes);
}

fn resize(volume: &Volume, ino: Ino, data: &mut Vec<u8>, size: usize) {
    volume.setattr(ino, &SetAttr { size: Some(size as u64), ..Default::default() }).unwrap();
    data.resize(size, 0);
}

#[test]
fn a_file_that_goes_meanwhile_is_gone() {
    let (rig, disk) = with_sim_disk(false);
    let volume = rig.open(90);
    let ino = create(&volume, "file");
    put(&volume, ino, 0, &pattern(100_000, 1));
    let v = volume.clone();
    disk.before_next(IoOp::Write, move || {
        v.unlink(Ino::ROOT, b"file").unwrap();
        v.forget(ino, 1);
    });
    let moved = volume.move_file(ino, 1);
    assert!(moved.is_err() || moved.unwrap().moved_bytes == 0);
    disk.clear_on_io();
    assert_eq!(volume.getattr(ino).unwrap_err().errno(), libc::ESTALE);
    volume.close().unwrap();
    rig.must_be_sound();
}

/// A file that goes while its first part is written costs no more than that.
#[test]
fn what_is_deleted_while_it_moves_is_written_no_further() {
    let (disk, sim) = sim_disk(64 << 20);
    let rig = Rig { pm: Pm::anonymous(64 << 20), disks: vec![disk] };
    format(&rig.pm, &rig.disks, &FormatOptions::default()).unwrap();
    let volume = rig.open(90);
    let ino = create(&volume, "file");
    put(&volume, ino, 0, &pattern(40 << 20, 1));
    volume.fsync(ino, true).unwrap();
    let before = rig.disks[0].stats().bytes_written;
    let v = volume.clone();
    sim.before_next(IoOp::Write, move || {
        v.unlink(Ino::ROOT, b"file").unwrap();
        v.forget(ino, 1);
    });
    let moved = volume.move_file(ino, 1);
    assert!(moved.is_err() || moved.unwrap().moved_bytes == 0);
    sim.clear_on_io();
    let written = rig.disks[0].stats().bytes_written - before;
    // A buffer of data, and its checksums.
    assert!((16 << 20..17 << 20).contains(&written), "{written} bytes were written");
    volume.close().unwrap();
    rig.must_be_sound();
}

/// Data that does not match its checksum does not spread: it stays where it is, and is named.
#[test]
fn a_block_that_is_not_what_it_was_is_not_moved() {
    let rig = three_tiers(false);
    let volume = rig.open(90);
    let (bad, good) = (create(&volume, "bad"), create(&volume, "good"));
    // Checksums in the log, and in blocks of their own.
    for (len, tier) in [(5 * BLOCK, 0), (5 * BLOCK, 2), (50 * BLOCK, 0), (50 * BLOCK, 2)] {
        let data = pattern(len, 7);
        for ino in [bad, good] {
            resize(&volume, ino, &mut Vec::new(), 0);
            put(&volume, ino, 0, &data);
            volume.move_file(ino, 1).unwrap();
        }
        let start = volume.file_map(bad).unwrap().extents[0].device_offset_bytes;
        let at = start + 3 * BLOCK as u64;
        rig.flip(1, at + 100);
        let error = volume.move_file(bad, tier).unwrap_err();
        assert_eq!(error.errno(), libc::EIO);
        let named = error.to_string().contains(rig.disks[0].path().to_str().unwrap());
        assert!(named && error.to_string().contains(&at.to_string()), "{error}");
        assert_eq!(
            (tiers(&volume, bad), volume.status().read_only),
            (vec!["disk1".to_string()], None)
        );
        assert_eq!(volume.move_file(good, tier).unwrap(), all_of(len as u64));
        assert!(contents(&volume, good) == data);
        // The others can still be read, and with the damage gone, all moves.
        let mut block = vec![0; BLOCK];
        assert_eq!(volume.read(bad, 4 * BLOCK as u64, &mut block).unwrap(), BLOCK);
        assert!(block == data[4 * BLOCK..5 * BLOCK]);
        rig.flip(1, at + 100);
        assert_eq!(volume.move_file(bad, tier).unwrap(), all_of(len as u64));
        assert!(contents(&volume, bad) == data);
    }
    volume.close().unwrap();
    rig.must_be_sound();
}

/// Where on its disk a block of a file lies.
fn block_on_disk(volume: &Volume, ino: Ino, offset: u64) -> Range<u64> {
    let extents = volume.file_map(ino).unwrap().extents;
    let extent = extents.iter().rfind(|e| e.offset_bytes <= offset).expect("no hole");
    let start = extent.device_offset_bytes + (offset - extent.offset_bytes);
    start..start + BLOCK as u64
}

/// A file of several parts, one read while the one before is written: a disk that fails with any of
/// them leaves each byte in one place or the other, and once it works all of them move.
#[test]
fn a_long_file_moves_in_parts_or_stays_where_it_is() {
    let len = 40 << 20;
    let (disk, sim) = sim_disk(96 << 20);
    let rig = Rig { pm: Pm::anonymous(64 << 20), disks: vec![disk] };
    format(&rig.pm, &rig.disks, &FormatOptions::default()).unwrap();
    let volume = rig.open_alone(&[]);
    let ino = create(&volume, "file");
    let data = pattern(len, 11);
    data.chunks(1 << 20)
        .enumerate()
        .for_each(|(i, piece)| put(&volume, ino, (i as u64) << 20, piece));
    for (tier, name) in [(1, "disk1"), (0, "pm")] {
        for part in 0..3 {
            volume.move_file(ino, 1 - tier).unwrap();
            match tier {
                0 => sim.fail_reads(block_on_disk(&volume, ino, (part * 16 + 5) << 20)),
                // A part takes a write at least.
                _ => sim.fail_writes_after(part),
            }
            let error = volume.move_file(ino, tier).unwrap_err();
            assert_eq!(error.errno(), libc::EIO, "{error}");
            sim.clear_faults();
            assert!(contents(&volume, ino) == data);
        }
        volume.move_file(ino, tier).unwrap();
        assert_eq!(tiers(&volume, ino), [name]);
        assert!(contents(&volume, ino) == data);
    }
    volume.close().unwrap();
    rig.must_be_sound();
}
