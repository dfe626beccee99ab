//! Room for logs, on disks and in PM, and what status says of it.

use std::sync::{Arc, Mutex};

use terrace_engine::{
    Counter, FormatOptions, Ino, PIN_XATTR, RemovalState, Volume, XattrFlags, format,
};
use terrace_layout::BLOCK_BYTES;
use terrace_media::{IoOp, Pm, memory_disk};
use terrace_policy::Param;

use crate::faults::{archive_of, failing, migrate, used};
use crate::rig::{FILE, Rig, make, pattern, put};
use crate::world::{LOGS_ONLY, build, migrated, parts, said, small};

/// A file of 240 KiB that stays on a tier of disks.
fn weight(volume: &Volume, name: &str, tier: u8) {
    let ino = make(volume, Ino::ROOT, name, &FILE);
    put(volume, ino, 0, &pattern(240 << 10, 1));
    volume
        .setxattr(
            ino,
            PIN_XATTR.as_bytes(),
            tier.to_string().as_bytes(),
            XattrFlags::default(),
            None,
        )
        .unwrap();
    assert_eq!(volume.move_file(ino, tier).unwrap().left_bytes, 0);
}

/// Nothing takes a log from a tier to the next: one that data is to leave gets none. If that is so
/// of all, the first that has room does.
#[test]
fn logs_pass_over_a_tier_that_is_nearly_full() {
    for all in [false, true] {
        let rig = small();
        let volume = rig.open_alone(&[LOGS_ONLY, &[(Param::TierFull, 10)]].concat());
        let inodes = build(&volume);
        weight(&volume, "first", 1);
        if all {
            weight(&volume, "second", 2);
        }
        volume.sync().unwrap();
        migrate(&volume);
        for ino in inodes.on_disk() {
            let tier = if all { 1 } else { 2 };
            assert_eq!((parts(&rig, ino).0, archive_of(&rig, ino).0), (0, tier), "all are: {all}");
        }
        volume.close().unwrap();
        drop(volume);
        rig.must_be_sound();
    }
}

/// Values of which a page of a log holds one, and a block of an archive nearly two.
fn bulky(volume: &Volume, name: &str) {
    let ino = make(volume, Ino::ROOT, name, &FILE);
    for i in 0..24u8 {
        volume
            .setxattr(
                ino,
                format!("user.{i}").as_bytes(),
                &pattern(2000, i),
                XattrFlags::default(),
                None,
            )
            .unwrap();
    }
}

/// The room that its logs need in PM counts, not what they take on the disk.
#[test]
fn the_last_disk_stays_if_pm_has_no_room_for_the_logs_on_it() {
    let (pm, disk) = (Pm::anonymous(4 << 20), memory_disk(16 << 20));
    format(
        &pm,
        std::slice::from_ref(&disk),
        &FormatOptions { shards: Some(1), ..Default::default() },
    )
    .unwrap();
    let rig = Rig { pm, disks: vec![disk] };
    let volume = rig.open_alone(LOGS_ONLY);
    const FILES: usize = 48;
    for i in 0..FILES {
        bulky(&volume, &format!("{i}"));
        volume.sync().unwrap();
        migrate(&volume);
    }
    let (size, before) = (rig.pm.len(), used(&volume));
    let room = size / 10 * 9 - before.0;
    assert!(before.1 < room, "they would fit as they are on the disk: {before:?}");
    let error = volume.remove_disk(1, None).unwrap_err();
    assert_eq!(error.errno(), libc::ENOSPC);
    assert!(
        error.to_string().contains("have no room on the other devices: add a disk or remove files"),
        "{error}"
    );
    assert_eq!(used(&volume), before, "nothing has moved");
    for i in FILES / 2..FILES {
        volume.unlink(Ino::ROOT, format!("{i}").as_bytes()).unwrap();
    }
    let removed = volume.remove_disk(1, None).unwrap();
    assert_eq!((removed.state, removed.message), (RemovalState::Finished, None));
    assert!(used(&volume).0 <= size / 10 * 9, "{:?} of {size}", used(&volume));
    volume.close().unwrap();
    drop(volume);
    Rig { disks: Vec::new(), ..rig }.must_be_sound();
}

/// A file moved to PM by hand has its log there, too, and with a pin keeps it there.
#[test]
fn a_file_that_is_moved_to_pm_brings_its_log() {
    let (rig, volume, inodes, before) = migrated();
    let (counted, blocks) =
        (volume.stats().counters.get(Counter::MigratedByHand), parts(&rig, inodes.file).1);
    volume.move_file(inodes.file, 0).unwrap();
    let (pages, left) = parts(&rig, inodes.file);
    assert!(pages > 0 && left == 0, "{pages} pages, {left} blocks on a disk");
    assert_eq!(
        volume.stats().counters.get(Counter::MigratedByHand),
        counted + blocks * BLOCK_BYTES,
        "no data has moved"
    );
    volume.setxattr(inodes.file, PIN_XATTR.as_bytes(), b"pm", XattrFlags::default(), None).unwrap();
    migrate(&volume);
    assert!(parts(&rig, inodes.file).0 > 0);
    volume.removexattr(inodes.file, PIN_XATTR.as_bytes()).unwrap();
    migrate(&volume);
    assert_eq!(parts(&rig, inodes.file), (0, blocks));
    assert_eq!(said(&volume, &inodes), before);
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

/// Why migration waits is said as long as it does.
#[test]
fn what_kept_migration_waiting_is_forgotten_with_its_cause() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[]);
    build(&volume);
    volume.close().unwrap();
    drop(volume);
    let (rig, sims) = failing(&rig.image());
    let volume = rig.open_alone(LOGS_ONLY);
    let trouble = |volume: &Volume| volume.status().migration.unwrap().trouble;
    migrate(&volume);
    assert!(trouble(&volume).is_some_and(|why| why.contains("log")));
    volume.tune(Param::LogsAt, 100).unwrap();
    assert_eq!(trouble(&volume), None, "nothing is wanted");
    volume.tune(Param::LogsAt, 0).unwrap();
    assert!(trouble(&volume).is_some(), "it waits again");
    // Until something has moved.
    for (param, value) in [
        (Param::Group, 64 << 10),
        (Param::MigrateMin, 1),
        (Param::MigrateAt, 1),
        (Param::MigrateMax, 1),
    ] {
        volume.tune(param, value).unwrap();
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (v, said) = (Arc::downgrade(&volume), seen.clone());
    sims[0].set_on_io(Box::new(move |op| {
        if let (IoOp::Flush, Some(v)) = (op, v.upgrade()) {
            said.lock().unwrap().push(v.status().migration.unwrap().trouble.is_some());
        }
    }));
    migrate(&volume);
    sims[0].clear_on_io();
    let seen = seen.lock().unwrap().clone();
    assert!(seen.len() > 1 && seen[0] && !seen[1..].contains(&true), "{seen:?}");
    assert!(trouble(&volume).is_some(), "there is nothing left to move");
}
