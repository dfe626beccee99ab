//! Files that move between tiers while others use them: nobody sees anything but the newest
//! contents, and no block is lost, or has two owners.

use terrace_policy::Param;
use terrace_store::planted::Bug;
use terrace_store::sync::{Arc, thread};

use super::{
    BLOCK, FILE, Rig, Tier, contents, errno, finds, holds, make, must_survive, put, together,
    truncate, uniform,
};
use crate::{Ino, Volume};

/// Relocates the file to each of the tiers, as long as it is there and the volume mounted.
fn travel(volume: &Volume, file: Ino, tiers: &[u8]) {
    for &tier in tiers {
        if let Err(error) = volume.move_file(file, tier) {
            assert_eq!(error.errno(), libc::ESTALE, "{error}");
        }
    }
}

/// A file of three blocks in PM.
fn three_blocks(tier: Tier) -> (Rig, Arc<Volume>, Ino) {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    volume.forget(make(&volume, Ino::ROOT, "file", &FILE), 1);
    let file = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
    put(&volume, file, 0, &[1; 3 * BLOCK]);
    rig.close(volume);
    let volume = rig.open(tier);
    let file = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
    (rig, volume, file)
}

/// Whole blocks and parts of blocks are overwritten, read and fsynced.
fn writes(tier: Tier) {
    let (rig, volume, file) = three_blocks(tier);
    together! {
        {
            for byte in 2..4 {
                put(&volume, file, 0, &[byte; 100]);
                put(&volume, file, BLOCK as u64, &[byte; 2 * BLOCK]);
                let bytes = contents(&volume, file);
                let read = (uniform(&bytes[..100]), uniform(&bytes[BLOCK..]));
                assert_eq!(read, (byte, byte), "what was just written");
            }
        }
        { travel(&volume, file, &[1, 0]) }
        {
            let bytes = contents(&volume, file);
            assert_eq!(bytes.len(), 3 * BLOCK);
            assert_eq!(uniform(&bytes[100..BLOCK]), 1);
            volume.fsync(file, false).unwrap();
        }
    };
    let bytes = contents(&volume, file);
    assert_eq!([&bytes[..100], &bytes[100..BLOCK], &bytes[BLOCK..]].map(uniform), [3, 1, 3]);
    must_survive(&rig, volume, tier, "file");
}

fn writes_in_pm() {
    writes(Tier::Pm);
}

fn writes_in_cache() {
    writes(Tier::Disk(16));
}

/// Data that is cut off does not come back with a block that arrives late.
fn cuts(tier: Tier) {
    let (rig, volume, file) = three_blocks(tier);
    together! {
        {
            truncate(&volume, file, 100);
            truncate(&volume, file, 3 * BLOCK);
            let bytes = contents(&volume, file);
            assert_eq!((uniform(&bytes[..100]), uniform(&bytes[100..])), (1, 0));
            put(&volume, file, 2 * BLOCK as u64, &[2; BLOCK]);
        }
        { travel(&volume, file, &[1, 0]) }
        { volume.fsync(file, false).unwrap() }
    };
    let bytes = contents(&volume, file);
    assert_eq!(
        [&bytes[..100], &bytes[100..2 * BLOCK], &bytes[2 * BLOCK..]].map(uniform),
        [1, 0, 2]
    );
    must_survive(&rig, volume, tier, "file");
}

fn cuts_in_pm() {
    cuts(Tier::Pm);
}

fn cuts_in_cache() {
    cuts(Tier::Disk(16));
}

/// The file is removed, and its blocks go to another one.
fn removal() {
    let (rig, volume, file) = three_blocks(Tier::Pm);
    together! {
        {
            volume.unlink(Ino::ROOT, b"file").unwrap();
            volume.forget(file, 1);
            let other = make(&volume, Ino::ROOT, "other", &FILE);
            put(&volume, other, 0, &[2; 3 * BLOCK]);
        }
        { travel(&volume, file, &[1, 0]) }
        { errno(volume.sync()).unwrap() }
    };
    let other = volume.lookup(Ino::ROOT, b"other").unwrap().ino;
    assert_eq!(uniform(&contents(&volume, other)), 2);
    must_survive(&rig, volume, Tier::Pm, "other");
}

/// Two moves of one file, and one of another that needs room where the first makes some.
fn crossing() {
    let (rig, volume, file) = three_blocks(Tier::Pm);
    let other = make(&volume, Ino::ROOT, "other", &FILE);
    put(&volume, other, 0, &[2; 2 * BLOCK]);
    together! {
        { travel(&volume, file, &[1, 0]) }
        { travel(&volume, file, &[0, 1]) }
        { travel(&volume, other, &[1, 0]); put(&volume, other, 0, &[2; BLOCK]) }
        { assert_eq!(uniform(&contents(&volume, file)), 1) }
    };
    assert_eq!((uniform(&contents(&volume, file)), uniform(&contents(&volume, other))), (1, 2));
    must_survive(&rig, volume, Tier::Pm, "file");
}

/// Background migration finds a file that nobody has used since the mount, which is removed at that
/// moment, and its record and blocks go to another one.
fn scanning() {
    let (rig, volume, file) = three_blocks(Tier::Pm);
    volume.forget(file, 1);
    rig.close(volume);
    let volume = rig.open(Tier::Pm);
    for param in [Param::MigrateMin, Param::MigrateAt, Param::MigrateMax] {
        volume.tune(param, 1).unwrap();
    }
    volume.tune(Param::ColdAge, 0).unwrap();
    together! {
        {
            volume.unlink(Ino::ROOT, b"file").unwrap();
            errno(volume.sync()).unwrap();
            let other = make(&volume, Ino::ROOT, "other", &FILE);
            put(&volume, other, 0, &[2; 3 * BLOCK]);
        }
        {
            // That nothing is left to move is no failure.
            for _ in 0..2 {
                let _ = volume.migrate(1);
            }
        }
    };
    let other = volume.lookup(Ino::ROOT, b"other").unwrap().ino;
    assert_eq!(uniform(&contents(&volume, other)), 2);
    must_survive(&rig, volume, Tier::Pm, "other");
}

/// An unmount waits for a move that is under way, and what comes later is refused.
fn unmounting() {
    let (rig, volume, file) = three_blocks(Tier::Pm);
    together! {
        {
            if let Err(error) = volume.move_file(file, 1) {
                assert!([libc::EROFS, libc::ESTALE].contains(&error.errno()), "{error}");
            }
        }
        { volume.close().unwrap() }
    };
    drop(volume);
    rig.must_be_sound();
    let volume = rig.open(Tier::Pm);
    let file = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
    assert_eq!(uniform(&contents(&volume, file)), 1);
    rig.close(volume);
}

#[test]
fn who_writes_in_pm_wins() {
    holds(300, writes_in_pm);
}

#[test]
fn who_writes_in_the_cache_wins() {
    holds(300, writes_in_cache);
}

#[test]
fn a_move_without_a_second_look_is_found() {
    finds(Bug::MoveNotValidated, 400, writes_in_pm);
}

#[test]
fn bytes_cut_off_in_pm_do_not_move() {
    holds(300, cuts_in_pm);
}

#[test]
fn bytes_cut_off_in_the_cache_do_not_move() {
    holds(300, cuts_in_cache);
}

#[test]
fn a_cut_that_a_move_overlooks_is_found() {
    finds(Bug::MoveNotValidated, 400, cuts_in_pm);
}

#[test]
fn a_removed_file_does_not_move() {
    holds(300, removal);
}

#[test]
fn a_move_into_a_removed_file_is_found() {
    finds(Bug::MoveOfRemoved, 600, removal);
}

#[test]
fn moves_wait_for_one_another() {
    holds(300, crossing);
}

#[test]
fn who_looks_for_cold_files_may_find_a_removed_one() {
    holds(300, scanning);
}

#[test]
fn a_move_ends_before_an_unmount() {
    holds(300, unmounting);
}
