//! The lives of inodes: who holds a removed file keeps it whole; then it is reclaimed, once, and
//! its number goes to another. An inode that leaves DRAM comes back as it was.

use terrace_store::planted::Bug;
use terrace_store::sync::thread;

use super::{BLOCK, FILE, Rig, Tier, contents, errno, finds, holds, make, put, together};
use crate::{Ino, SetAttr, Volume};

/// Inodes in use, by the table's count.
fn used(volume: &Volume) -> u64 {
    volume.parts.inodes.inodes_in_use()
}

fn only_the_root_is_left(volume: &Volume) {
    volume.parts.inodes.reclaim_all().unwrap();
    assert_eq!(used(volume), 1);
}

/// A file is removed while somebody reads it and somebody else looks for it.
fn removal(tier: Tier) {
    let rig = Rig::new();
    let volume = rig.open(tier);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[5; 2 * BLOCK]);
    together! {
        {
            for _ in 0..2 {
                assert!(contents(&volume, file) == [5; 2 * BLOCK]);
                assert_eq!(volume.getattr(file).unwrap().ino, file);
            }
            put(&volume, file, 0, &[5; BLOCK]);
            volume.forget(file, 1);
        }
        { volume.unlink(Ino::ROOT, b"file").unwrap() }
        {
            match volume.lookup(Ino::ROOT, b"file") {
                Ok(attr) => {
                    assert_eq!(attr.ino, file);
                    assert!(contents(&volume, file) == [5; 2 * BLOCK]);
                    volume.forget(file, 1);
                }
                Err(error) => assert_eq!(error.errno(), libc::ENOENT),
            }
        }
        { errno(volume.sync()).unwrap() }
    };
    only_the_root_is_left(&volume);
    rig.close(volume);
}

fn removal_in_pm() {
    removal(Tier::Pm);
}

fn removal_in_cache() {
    removal(Tier::Disk(16));
}

/// Lookups are taken and given back by several threads; as long as one is out, the removed file is
/// there.
fn lookups() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    (0..5).for_each(|_| assert_eq!(volume.lookup(Ino::ROOT, b"file").unwrap().ino, file));
    volume.unlink(Ino::ROOT, b"file").unwrap();
    let hold = |count: u64| {
        volume.getattr(file).expect("held");
        volume.forget(file, count);
    };
    together! {
        { hold(1); hold(1) }
        { hold(2) }
        { volume.getattr(file).expect("held"); volume.forget(file, 1) }
    };
    volume.getattr(file).expect("held");
    volume.forget(file, 1);
    only_the_root_is_left(&volume);
    rig.close(volume);
}

/// Numbers are used again at once, while writeback is still busy with the file that had them
/// before.
fn numbers_again(tier: Tier) {
    let rig = Rig::new();
    let volume = rig.open(tier);
    let live = |name: &str, byte: u8| {
        for _ in 0..2 {
            let file = make(&volume, Ino::ROOT, name, &FILE);
            put(&volume, file, 0, &[byte; BLOCK]);
            volume.unlink(Ino::ROOT, name.as_bytes()).unwrap();
            volume.forget(file, 1);
        }
        let file = make(&volume, Ino::ROOT, name, &FILE);
        put(&volume, file, 0, &[byte; BLOCK]);
        volume.forget(file, 1);
    };
    together! {
        { live("a", 1) }
        { live("b", 2) }
        { errno(volume.sync()).unwrap(); volume.parts.inodes.reclaim_all().unwrap() }
    };
    // An inode with dirty pages is on the list of those to write back.
    volume.parts.pages.flush_all().unwrap();
    assert_eq!(volume.parts.cache.dirty_pages(), 0);
    rig.close(volume);
    let volume = rig.open(tier);
    assert_eq!(used(&volume), 3);
    for (name, byte) in [("a", 1), ("b", 2)] {
        let ino = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
        assert!(contents(&volume, ino) == [byte; BLOCK]);
    }
    rig.close(volume);
}

fn numbers_again_in_pm() {
    numbers_again(Tier::Pm);
}

fn numbers_again_in_cache() {
    numbers_again(Tier::Disk(16));
}

/// An old number is asked for while its record goes to a new file.
fn old_numbers() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let old = make(&volume, Ino::ROOT, "old", &FILE);
    let generation = volume.getattr(old).unwrap().generation;
    volume.unlink(Ino::ROOT, b"old").unwrap();
    together! {
        { volume.forget(old, 1); volume.parts.inodes.reclaim_all().unwrap() }
        {
            let new = make(&volume, Ino::ROOT, "new", &FILE);
            put(&volume, new, 0, &[3; 200]);
            assert!(contents(&volume, new) == [3; 200]);
        }
        {
            for _ in 0..3 {
                match volume.getattr(old) {
                    Ok(attr) => {
                        assert!([0, 200].contains(&attr.size) && attr.generation >= generation)
                    }
                    Err(error) => assert_eq!(error.errno(), libc::ESTALE, "{error}"),
                }
            }
        }
    };
    let new = volume.lookup(Ino::ROOT, b"new").unwrap().ino;
    assert!(contents(&volume, new) == [3; 200]);
    rig.close(volume);
}

/// Inodes leave DRAM and come back, while others change them.
fn coming_and_going() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let names = ["a", "b", "c"];
    for name in names {
        let file = make(&volume, Ino::ROOT, name, &FILE);
        put(&volume, file, 0, &[1; 100]);
        volume.forget(file, 1);
    }
    let append = |name: &str, byte: u8| {
        let file = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
        put(&volume, file, 100 * u64::from(byte), &[byte + 1; 100]);
        let mode = 0o600 + u32::from(byte);
        volume.setattr(file, &SetAttr { mode: Some(mode), ..Default::default() }).unwrap();
        volume.forget(file, 1);
    };
    together! {
        { append("a", 1); append("b", 2) }
        { append("b", 1); append("a", 2) }
        {
            for name in names {
                volume.forget(volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino, 1);
            }
        }
    };
    for name in ["a", "b"] {
        let file = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
        let bytes = contents(&volume, file);
        assert_eq!(bytes.chunks(100).map(|part| part[0]).collect::<Vec<_>>(), [1, 2, 3], "{name}");
        volume.forget(file, 1);
    }
    rig.close(volume);
}

/// An inode comes back while another thread brings it back, changes it and lets it go.
fn coming_back_late() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[1; 100]);
    volume.forget(file, 1);
    together! {
        { volume.lookup(Ino::ROOT, b"file").unwrap(); }
        {
            volume.lookup(Ino::ROOT, b"file").unwrap();
            put(&volume, file, 100, &[2; 100]);
            volume.forget(file, 1);
        }
    };
    assert!(contents(&volume, file).chunks(100).map(|part| part[0]).eq([1, 2]));
    volume.forget(file, 1);
    rig.close(volume);
}

/// Inodes leave DRAM while they are removed.
fn going_for_good() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let names = ["a", "b", "c"];
    for name in names {
        let file = make(&volume, Ino::ROOT, name, &FILE);
        (0..30).for_each(|i| put(&volume, file, i * 50, &[1; 50]));
        volume.forget(file, 1);
    }
    let look = |name: &str| {
        if let Ok(attr) = volume.lookup(Ino::ROOT, name.as_bytes()) {
            contents(&volume, attr.ino);
            volume.forget(attr.ino, 1);
        }
    };
    together! {
        { look("a"); look("b"); look("a") }
        { look("b"); look("a"); look("c") }
        { volume.unlink(Ino::ROOT, b"a").unwrap(); volume.unlink(Ino::ROOT, b"b").unwrap() }
        { volume.unlink(Ino::ROOT, b"c").unwrap(); volume.parts.inodes.reclaim_all().unwrap() }
    };
    only_the_root_is_left(&volume);
    rig.close(volume);
}

#[test]
fn a_removed_file_in_pm_is_whole_for_who_holds_it() {
    holds(500, removal_in_pm);
}

#[test]
fn a_removed_file_in_the_cache_is_whole_for_who_holds_it() {
    holds(500, removal_in_cache);
}

#[test]
fn a_removed_file_goes_with_its_last_lookup() {
    holds(800, lookups);
}

#[test]
fn lookups_given_back_in_two_steps_are_found() {
    finds(Bug::ForgetInTwoSteps, 800, lookups);
}

#[test]
fn numbers_in_pm_are_used_again() {
    holds(500, numbers_again_in_pm);
}

#[test]
fn numbers_in_the_cache_are_used_again() {
    holds(500, numbers_again_in_cache);
}

#[test]
fn an_old_number_leads_nowhere_or_to_the_new_file() {
    holds(800, old_numbers);
}

#[test]
fn inodes_come_back_as_they_were() {
    holds(800, coming_and_going);
}

#[test]
fn inodes_that_come_back_late_are_up_to_date() {
    holds(800, coming_back_late);
}

#[test]
fn stale_inodes_are_found() {
    finds(Bug::LoadStale, 6000, coming_back_late);
}

#[test]
fn inodes_that_leave_dram_may_be_removed() {
    holds(500, going_for_good);
}
