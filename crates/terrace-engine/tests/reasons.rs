//! Each rule leaves its name with the data that it has placed or moved, and `why` tells it. In
//! volumes without threads: every step is asked for.

mod rig;

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use rig::{FILE, Rig, a_moment_passes, pattern, put, runs};
use terrace_engine::{
    Fallocate, FileWhy, FormatOptions, Ino, PIN_XATTR, Volume, WriteOptions, XattrFlags, format,
};
use terrace_layout::{BLOCK, BLOCK_BYTES};
use terrace_media::{Pm, memory_disk};
use terrace_policy::Param;

/// Data leaves PM from the first block on.
const EAGER: [(Param, u64); 3] =
    [(Param::MigrateMin, 1), (Param::MigrateAt, 1), (Param::MigrateMax, 1)];
const MIB: usize = 1 << 20;

fn create(volume: &Volume, name: &str) -> Ino {
    volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino
}

fn pin(volume: &Volume, ino: Ino, tier: &str) {
    let flags = XattrFlags::default();
    volume.setxattr(ino, PIN_XATTR.as_bytes(), tier.as_bytes(), flags, None).unwrap();
}

fn tune(volume: &Volume, thresholds: &[(Param, u64)]) {
    thresholds.iter().for_each(|&(param, value)| volume.tune(param, value).unwrap());
}

fn why(volume: &Volume, ino: Ino) -> FileWhy {
    volume.file_why(ino).unwrap()
}

/// Blocks by place and rule: `3 pm small, 1 disk1 cold`.
fn reasons(volume: &Volume, ino: Ino) -> String {
    let shares = why(volume, ino).shares;
    let words = |share: &terrace_engine::Share| {
        assert!(!share.why.is_empty());
        format!("{} {} {}", share.bytes / BLOCK_BYTES, share.place, share.rule)
    };
    shares.iter().map(words).collect::<Vec<_>>().join(", ")
}

fn close(volume: Arc<Volume>, rig: &Rig) {
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn each_branch_of_the_write_tree_leaves_its_reason() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::SyncBlocks, 8), (Param::LargeWrites, 1)]);
    let data = pattern(4 * BLOCK, 1);
    let ino = create(&volume, "file");
    assert_eq!(reasons(&volume, ino), "");
    put(&volume, ino, 0, &data[..100]);
    (0..2).for_each(|_| put(&volume, ino, 0, &data));
    assert_eq!(reasons(&volume, ino), "4 pm synchronous");
    // Asynchronous by now, and a change inside a block leaves the block where it is.
    put(&volume, ino, 10, b"patch");
    assert_eq!(reasons(&volume, ino), "4 pm synchronous");
    put(&volume, ino, BLOCK as u64, &data[..BLOCK]);
    assert_eq!(reasons(&volume, ino), "3 pm synchronous, 1 pm small");
    (0..2).for_each(|_| put(&volume, ino, 0, &data));
    // Dirty pages hide what the file has below them, until they are written back.
    assert_eq!(reasons(&volume, ino), "4 pm small, 4 page cache large_async");
    let waits = why(&volume, ino).dirty;
    assert_eq!((waits.bytes, waits.after_seconds), (4 * BLOCK_BYTES, 5));
    // A write that joins them is there for the same reason.
    put(&volume, ino, 0, &data[..BLOCK]);
    assert_eq!(reasons(&volume, ino), "4 pm small, 4 page cache large_async");
    volume.fsync(ino, false).unwrap();
    assert_eq!(reasons(&volume, ino), "4 disk1 large_async");
    let durable = WriteOptions { durable: true, ..Default::default() };
    volume.write(ino, 0, &data[..BLOCK], durable).unwrap();
    assert_eq!(reasons(&volume, ino), "1 pm durable, 3 disk1 large_async");
    close(volume, &rig);
}

/// Entries keep it: through inodes that leave DRAM, mounts and compaction.
#[test]
fn reasons_outlive_mounts() {
    for checksums in [false, true] {
        let rig = Rig::new(8 << 20, checksums);
        let volume = rig.open_alone(&[]);
        let ino = create(&volume, "file");
        // Long enough for tables of single blocks, and for compaction.
        for i in 0..2000_u64 {
            put(&volume, ino, (i * 7919 % 500) * BLOCK_BYTES, &pattern(BLOCK, i as u8));
        }
        volume.move_range(ino, 1, 0, 100 * BLOCK_BYTES).unwrap();
        // With checksums, a truncation writes the last block anew.
        volume.write(ino, 499 * BLOCK_BYTES, &[1; BLOCK], WriteOptions::default()).unwrap();
        let size = 499 * BLOCK_BYTES + 77;
        let change = terrace_engine::SetAttr { size: Some(size), ..Default::default() };
        volume.setattr(ino, &change).unwrap();
        let before = reasons(&volume, ino);
        assert_eq!(before, "400 pm small, 100 disk1 by_hand");
        volume.close().unwrap();
        drop(volume);
        let volume = rig.open_alone(&[]);
        let ino = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
        assert_eq!(reasons(&volume, ino), before);
        close(volume, &rig);
    }
}

#[test]
fn pins_and_reserved_blocks_leave_their_reasons() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[]);
    let data = pattern(4 * BLOCK, 1);
    let [in_pm, on_disk, reserved] = ["pm", "disk", "reserved"].map(|name| create(&volume, name));
    pin(&volume, in_pm, "pm");
    pin(&volume, on_disk, "2");
    [in_pm, on_disk].iter().for_each(|&ino| put(&volume, ino, 0, &data));
    assert_eq!(reasons(&volume, in_pm), "4 pm pinned");
    assert_eq!(reasons(&volume, on_disk), "4 page cache pinned");
    volume.fsync(on_disk, false).unwrap();
    assert_eq!(reasons(&volume, on_disk), "4 disk2 pinned");
    assert_eq!(why(&volume, on_disk).pin.as_deref(), Some("disk2"));
    pin(&volume, in_pm, "1");
    volume.migrate(1).unwrap();
    assert_eq!(reasons(&volume, in_pm), "4 disk1 moved_to_pin");
    volume.fallocate(reserved, Fallocate::Allocate, 0, 8 * BLOCK_BYTES).unwrap();
    assert_eq!(reasons(&volume, reserved), "8 pm reserved");
    // PM is full but for them.
    tune(&volume, &[(Param::Migrate, 0)]);
    let filler = create(&volume, "filler");
    let mut blocks = 0;
    while !runs(&volume, filler).ends_with("cache") {
        put(&volume, filler, blocks * BLOCK_BYTES, &data[..BLOCK]);
        blocks += 1;
    }
    assert!(reasons(&volume, filler).ends_with(", 1 page cache pm_full"));
    put(&volume, reserved, 0, &data);
    assert_eq!(reasons(&volume, reserved), "4 pm own_blocks, 4 pm reserved");
    close(volume, &rig);
}

#[test]
fn bulk_and_full_disks_leave_their_reasons() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&EAGER);
    let ino = create(&volume, "long");
    (0..8).for_each(|i| put(&volume, ino, i * (64 << 10), &pattern(64 << 10, 1)));
    assert_eq!(reasons(&volume, ino), "64 pm synchronous, 64 page cache bulk");
    let about = why(&volume, ino);
    assert!(about.opinion.bulk && !about.kind.awaited && about.kind.awaited_by_itself);
    assert!(about.migrates && about.grace_seconds == -30 && about.leaves[0].above_percent == 1.0);
    assert!(about.leaves[0].used_percent > 1.0 && about.leaves[0].to.as_deref() == Some("disk1"));
    close(volume, &rig);

    let rig = Rig { pm: Pm::anonymous(8 << 20), disks: vec![memory_disk(2 << 20)] };
    format(&rig.pm, &rig.disks, &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
    let volume =
        rig.open_alone(&[(Param::SyncBlocks, 1), (Param::LargeWrites, 0), (Param::Migrate, 0)]);
    let ino = create(&volume, "file");
    let data = pattern(MIB, 3);
    (0..4).for_each(|_| put(&volume, ino, 0, &data));
    assert!(reasons(&volume, ino).contains("page cache large_async"), "{}", reasons(&volume, ino));
    volume.fsync(ino, false).unwrap();
    let other = create(&volume, "other");
    (0..3).for_each(|_| put(&volume, other, 0, &data));
    assert_eq!(reasons(&volume, other), "256 pm disks_full");
    close(volume, &rig);
}

#[test]
fn moves_leave_their_reasons() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::TierFull, 10), (Param::AwaitBytes, 0)]);
    let [long, small] = ["long", "small"].map(|name| create(&volume, name));
    let data = pattern(2 * MIB, 1);
    data.chunks(64 << 10).zip(0..).for_each(|(d, i)| put(&volume, long, i * (64 << 10), d));
    put(&volume, small, 0, &data[..8 * BLOCK]);
    volume.move_file(small, 2).unwrap();
    assert_eq!(reasons(&volume, small), "8 disk2 by_hand");
    volume.move_file(small, 0).unwrap();
    assert_eq!(reasons(&volume, small), "8 pm by_hand");
    tune(&volume, &[(Param::ColdAge, 0)]);
    tune(&volume, &EAGER);
    let _ = volume.migrate(1);
    // The tier below is fuller than a tenth then.
    assert_eq!(reasons(&volume, small), "8 disk1 cold_together");
    let moved = reasons(&volume, long);
    assert!(moved.contains("disk2 demoted"), "{moved}");
    close(volume, &rig);
}

/// The four steps, each where the one before finds nothing.
#[test]
fn each_step_of_coldness_leaves_its_reason() {
    let rig = Rig::tiered(16 << 20);
    let of = |written: &[&[u8]], pause: Duration| {
        let volume = rig.open_alone(&[(Param::AwaitBytes, 0)]);
        let ino = create(&volume, "file");
        let mut at = 0;
        for piece in written {
            put(&volume, ino, at, piece);
            at += piece.len() as u64;
            a_moment_passes();
        }
        sleep(pause);
        tune(&volume, &EAGER);
        // That is, one piece of what is wanted.
        tune(&volume, &[(Param::Group, 512 << 10), (Param::MigrateRate, 1 << 40)]);
        let _ = volume.migrate(1);
        let found = reasons(&volume, ino);
        volume.unlink(Ino::ROOT, b"file").unwrap();
        volume.forget(ino, 1);
        volume.close().unwrap();
        found
    };
    let (half, little) = (pattern(MIB, 1), pattern(64 << 10, 2));
    // First blocks older than the file on average; then, of the younger half, those of the mean.
    let found = of(&[&half, &half], Duration::ZERO);
    assert!(found.contains("disk1 cold,") || found.contains("disk1 cold_"), "{found}");
    assert!(found.contains("256 disk1 cold"), "{found}");
    // Written at one time: nothing is older, all of it is of the mean time.
    assert_eq!(of(&[&little], Duration::ZERO), "16 disk1 cold_mean_together");
    let found = of(&[&half, &half], Duration::from_millis(1100));
    assert!(found.contains("256 disk1 cold_whole"), "{found}");
    let found = of(&[&little[..]; 24], Duration::ZERO);
    assert!(found.contains("disk1 cold_part"), "{found}");
    rig.must_be_sound();
}

#[test]
fn reads_that_lean_leave_their_reasons() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::FlowSeconds, 2), (Param::Group, 1 << 20)]);
    let ino = create(&volume, "read");
    put(&volume, ino, 0, &pattern(256 << 10, 5));
    volume.migrate(1).unwrap();
    let mut buf = vec![0; 256 << 10];
    for _ in 0..3 {
        for _ in 0..3 {
            volume.read(ino, 0, &mut buf).unwrap();
        }
        let _ = volume.migrate(1);
    }
    assert_eq!(reasons(&volume, ino), "64 disk1 read_migration");
    let about = why(&volume, ino);
    assert_eq!((about.copies_bytes, about.blocks_read_of_others), (256 << 10, 128));
    assert!(about.blocks_read > 128 && about.opinion.read_dominated);
    for _ in 0..3 {
        volume.read(ino, 0, &mut buf).unwrap();
        let _ = volume.migrate(1);
        if runs(&volume, ino) == "64 pm" {
            break;
        }
    }
    assert_eq!(reasons(&volume, ino), "64 pm reverse_migration");
    assert_eq!(why(&volume, ino).leaning.migration, "reverse");
    close(volume, &rig);
}

/// Nothing has moved before a program finds next to no room.
#[test]
fn a_program_without_room_leaves_its_reason() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open(100);
    let ino = create(&volume, "file");
    let mut at = 0;
    while at < 16 << 20 && !reasons(&volume, ino).contains("disk1") {
        put(&volume, ino, at, &pattern(16 << 10, 1));
        at += 16 << 10;
    }
    let found = reasons(&volume, ino);
    assert!(found.contains("disk1 relief"), "{found}");
    close(volume, &rig);
}

#[test]
fn a_disk_that_leaves_the_volume_leaves_its_reason() {
    let rig = Rig::new(4 << 20, false);
    let volume = rig.open_alone(&[(Param::Migrate, 0)]);
    let ino = create(&volume, "file");
    put(&volume, ino, 0, &pattern(64 << 10, 1));
    volume.move_file(ino, 1).unwrap();
    let device = volume.file_map(ino).unwrap().extents[0].device.clone();
    let index = |volume: &Volume| {
        let devices = volume.status().devices;
        devices.iter().rev().find(|d| d.path == device).map(|d| d.index).unwrap()
    };
    // Memory disks have one path; the file lies on one of them.
    volume.remove_disk(index(&volume), None).unwrap();
    if reasons(&volume, ino) == "16 disk1 by_hand" {
        let other = volume.add_disk(None, &|_| Ok(memory_disk(8 << 20))).unwrap();
        let first = volume.status().devices.iter().map(|d| d.index).find(|&i| i > 0 && i != other);
        volume.remove_disk(first.unwrap(), None).unwrap();
    }
    assert_eq!(reasons(&volume, ino), "16 disk1 drained");
    volume.close().unwrap();
}

#[test]
fn directories_have_no_reasons() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[]);
    assert_eq!(volume.file_why(Ino::ROOT).unwrap_err().errno(), libc::EISDIR);
    let kin = ["1.log", "2.log", "3.log", "4.log"].map(|name| {
        let ino = create(&volume, name);
        put(&volume, ino, 0, b"x");
        volume.fsync(ino, true).unwrap();
        ino
    });
    let kind = why(&volume, kin[3]).kind;
    assert_eq!((kind.siblings, kind.of_its_directory, kind.awaited), (4, true, true));
    assert!(kind.awaited_by_itself && !kind.shape_by_itself);
}
