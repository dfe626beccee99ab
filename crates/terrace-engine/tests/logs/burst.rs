//! Many files at once, as when an archive is unpacked: their logs would fill PM many times before
//! any of them is cold.

use std::sync::Arc;

use terrace_engine::{
    FormatOptions, Ino, OpenOptions, SetAttr, SetTime, Time, Volume, WriteOptions, XattrFlags,
    format,
};
use terrace_media::{Pm, memory_disk};

use crate::rig::{FILE, Rig, contents, find, pattern};

/// Each with a log that needs a page: twice PM altogether.
const FILES: u64 = 4000;

fn unpack(volume: &Volume, number: u64) {
    let ino =
        volume.create(Ino::ROOT, name(number).as_bytes(), &FILE).expect("room for a file").ino;
    let data = pattern(300, number as u8);
    assert_eq!(volume.write(ino, 0, &data, WriteOptions::default()).expect("room for data"), 300);
    let value = pattern(500, !number as u8);
    volume
        .setxattr(ino, b"user.origin", &value, XattrFlags::default(), None)
        .expect("room for an attribute");
    let owner = SetAttr { uid: Some(number as u32), mode: Some(0o600), ..Default::default() };
    volume.setattr(ino, &owner).expect("room for an owner");
    let times = SetAttr { mtime: Some(SetTime::At(Time(number as i64))), ..Default::default() };
    volume.setattr(ino, &times).expect("room for times");
    volume.forget(ino, 1);
}

fn name(number: u64) -> String {
    format!("file-{number}")
}

fn must_be_unpacked(volume: &Volume, number: u64) {
    let ino = find(volume, &name(number));
    assert_eq!(contents(volume, ino), pattern(300, number as u8));
    assert_eq!(volume.getxattr(ino, b"user.origin").unwrap(), pattern(500, !number as u8));
    let attr = volume.getattr(ino).unwrap();
    assert_eq!(
        (attr.uid, attr.mode & 0o777, attr.mtime),
        (number as u32, 0o600, Time(number as i64))
    );
}

fn burst(workers: bool) {
    let (pm, disks) = (Pm::anonymous(8 << 20), vec![memory_disk(128 << 20)]);
    format(&pm, &disks, &FormatOptions { shards: Some(2), ..Default::default() }).unwrap();
    let rig = Rig { pm, disks };
    let options = OpenOptions { cache_bytes: 4 << 20, workers, ..Default::default() };
    let open = || -> Arc<Volume> {
        Volume::open(rig.pm.clone(), rig.disks.clone(), options.clone(), &|_, _, _| {}).unwrap()
    };
    let volume = open();
    (0..FILES).for_each(|number| unpack(&volume, number));
    (0..FILES).for_each(|number| must_be_unpacked(&volume, number));
    volume.sync().unwrap();
    volume.abandon();
    drop(volume);
    let volume = open();
    (0..FILES).for_each(|number| must_be_unpacked(&volume, number));
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn files_that_come_faster_than_they_grow_cold() {
    burst(true);
}

#[test]
fn without_threads_whoever_needs_room_makes_it() {
    burst(false);
}
