//! Logs that move to a disk while others use their inodes: nothing that was appended meanwhile is
//! lost, and no block, or has two owners.

use terrace_policy::Param;
use terrace_store::planted::Bug;
use terrace_store::sync::{Arc, thread};

use super::{
    BLOCK, DIR, FILE, Rig, Tier, contents, errno, finds, holds, make, must_survive, put, together,
    truncate, uniform,
};
use crate::{Ino, Volume, XattrFlags};

/// Data stays where it is; logs that have pages do not.
fn open(rig: &Rig) -> Arc<Volume> {
    let volume = rig.open(Tier::Pm);
    for param in [Param::MigrateMax, Param::MigrateAt, Param::MigrateMin] {
        volume.tune(param, 100).unwrap();
    }
    [Param::ColdAge, Param::LogsAt].into_iter().for_each(|param| volume.tune(param, 0).unwrap());
    volume
}

/// That nothing is left to move is no failure.
fn migrate(volume: &Volume) {
    let _ = volume.migrate(1);
}

fn mark(volume: &Volume, ino: Ino, name: &str) {
    volume.setxattr(ino, name.as_bytes(), &[7; 40], XattrFlags::default(), None).unwrap();
}

/// A file whose log has a page, and too much that is live for the record.
fn file_with_pages() -> (Rig, Arc<Volume>, Ino) {
    let rig = Rig::new();
    let volume = open(&rig);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[1; 2 * BLOCK]);
    ["user.a", "user.b", "user.c"].iter().for_each(|name| mark(&volume, file, name));
    (rig, volume, file)
}

/// Blocks and parts of blocks are written, and attributes, while the log moves, twice.
fn appends() {
    let (rig, volume, file) = file_with_pages();
    together! {
        {
            put(&volume, file, BLOCK as u64, &[2; BLOCK]);
            mark(&volume, file, "user.d");
            put(&volume, file, 2 * BLOCK as u64, &[2; 300]);
            truncate(&volume, file, 2 * BLOCK + 100);
            mark(&volume, file, "user.e");
        }
        { migrate(&volume) }
        { migrate(&volume); assert_eq!(uniform(&contents(&volume, file)[..BLOCK]), 1) }
    };
    let bytes = contents(&volume, file);
    assert_eq!(
        (uniform(&bytes[..BLOCK]), uniform(&bytes[BLOCK..]), bytes.len()),
        (1, 2, 2 * BLOCK + 100)
    );
    let names = volume.listxattr(file).unwrap();
    assert_eq!(names, b"user.a\0user.b\0user.c\0user.d\0user.e\0");
    let values = names
        .split(|&b| b == 0)
        .filter(|name| !name.is_empty())
        .map(|name| volume.getxattr(file, name));
    values.for_each(|value| assert_eq!(value.unwrap(), [7; 40]));
    must_survive(&rig, volume, Tier::Pm, "file");
}

/// Logs that leave DRAM come back from the disk, and names come and go behind a directory's
/// archive.
fn names() {
    let rig = Rig::new();
    let volume = open(&rig);
    let dir = make(&volume, Ino::ROOT, "dir", &DIR);
    for name in ["a", "b", "c", "d"] {
        volume.forget(make(&volume, dir, name, &FILE), 1);
    }
    volume.forget(dir, 1);
    together! {
        {
            let dir = volume.lookup(Ino::ROOT, b"dir").unwrap().ino;
            volume.unlink(dir, b"b").unwrap();
            volume.forget(make(&volume, dir, "e", &FILE), 1);
            volume.forget(dir, 1);
        }
        { migrate(&volume); migrate(&volume) }
        {
            let dir = volume.lookup(Ino::ROOT, b"dir").unwrap().ino;
            let ino = volume.lookup(dir, b"c").unwrap().ino;
            volume.forget(ino, 1);
            volume.forget(dir, 1);
        }
    };
    let dir = volume.lookup(Ino::ROOT, b"dir").unwrap().ino;
    for (name, there) in [("a", true), ("b", false), ("c", true), ("d", true), ("e", true)] {
        let found = errno(volume.lookup(dir, name.as_bytes()));
        assert_eq!(found.is_ok(), there, "{name}");
        found.ok().into_iter().for_each(|attr| volume.forget(attr.ino, 1));
    }
    volume.forget(dir, 1);
    rig.close(volume);
}

/// The file is removed, and its blocks go to another one.
fn removal() {
    let (rig, volume, file) = file_with_pages();
    together! {
        {
            volume.unlink(Ino::ROOT, b"file").unwrap();
            volume.forget(file, 1);
            let other = make(&volume, Ino::ROOT, "other", &FILE);
            put(&volume, other, 0, &[2; 3 * BLOCK]);
        }
        { migrate(&volume) }
        { errno(volume.sync()).unwrap() }
    };
    let other = volume.lookup(Ino::ROOT, b"other").unwrap().ino;
    assert_eq!(uniform(&contents(&volume, other)), 2);
    must_survive(&rig, volume, Tier::Pm, "other");
}

#[test]
fn who_appends_to_a_log_that_moves_loses_nothing() {
    holds(300, appends);
}

#[test]
fn a_log_replaced_without_a_second_look_is_found() {
    finds(Bug::ArchiveNotValidated, 400, appends);
}

#[test]
fn names_come_and_go_behind_an_archive() {
    holds(300, names);
}

#[test]
fn the_log_of_a_removed_file_does_not_move() {
    holds(300, removal);
}
