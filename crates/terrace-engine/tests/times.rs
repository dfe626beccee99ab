//! Times that programs set stay what they were set to, through crashes, compaction and moves.

mod rig;

use std::path::PathBuf;
use std::sync::Arc;

use rig::{FILE, Rig};
use terrace_engine::{
    Attr, FormatOptions, Ino, OpenOptions, SetAttr, SetTime, Time, Volume, WriteOptions, format,
};
use terrace_media::{Pm, memory_disk};

const BLOCK: usize = 4096;

struct Remounted {
    rig: Rig,
    /// Dirty pages outlive the daemon here.
    cache: tempfile::TempDir,
}

impl Remounted {
    fn new() -> Self {
        let (pm, disks) = (Pm::anonymous(8 << 20), vec![memory_disk(16 << 20)]);
        format(&pm, &disks, &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
        Self { rig: Rig { pm, disks }, cache: tempfile::tempdir().unwrap() }
    }

    /// `pm_full_percent` 0: data goes to the page cache.
    fn open(&self, pm_full_percent: u8) -> Arc<Volume> {
        let cache_dir: Option<PathBuf> = Some(self.cache.path().to_owned());
        let options = OpenOptions {
            cache_bytes: 4 << 20,
            cache_dir,
            pm_full_percent,
            workers: false,
            ..Default::default()
        };
        Volume::open(self.rig.pm.clone(), self.rig.disks.clone(), options, &|_, _, _| {}).unwrap()
    }
}

fn put(volume: &Volume, ino: Ino, at: usize, byte: u8) {
    let data = vec![byte; BLOCK];
    assert_eq!(volume.write(ino, at as u64, &data, WriteOptions::default()).unwrap(), BLOCK);
}

fn set_mtime(volume: &Volume, ino: Ino, time: Time) {
    volume.setattr(ino, &SetAttr { mtime: Some(SetTime::At(time)), ..Default::default() }).unwrap();
}

/// Later than all that has happened to a file.
fn wait_for_the_clock(volume: &Volume, ino: Ino) {
    let before = volume.getattr(ino).unwrap().ctime;
    while Time::now() <= before {
        std::thread::yield_now();
    }
}

fn times(attr: &Attr) -> (Time, Time) {
    (attr.mtime, attr.ctime)
}

fn long_ago() -> Time {
    Time(1_000_000_000_000_000_007)
}

fn to_come() -> Time {
    Time(Time::now().0 + 1_000_000_000_000_000)
}

#[test]
fn a_time_set_while_pages_are_dirty_outlives_the_daemon() {
    for time in [long_ago(), to_come()] {
        let volumes = Remounted::new();
        let volume = volumes.open(0);
        let ino = volume.create(Ino::ROOT, b"f", &FILE).unwrap().ino;
        (0..3).for_each(|i| put(&volume, ino, i * BLOCK, 1));
        set_mtime(&volume, ino, time);
        let before = volume.getattr(ino).unwrap();
        assert_eq!(before.mtime, time);
        volume.abandon();
        drop(volume);
        let volume = volumes.open(0);
        assert_eq!(times(&volume.getattr(ino).unwrap()), times(&before));
        // Pages are written after that: theirs is the time.
        wait_for_the_clock(&volume, ino);
        put(&volume, ino, BLOCK, 2);
        let before = volume.getattr(ino).unwrap();
        assert!(
            before.mtime > long_ago() && before.mtime < to_come() && before.mtime == before.ctime
        );
        volume.abandon();
        drop(volume);
        let volume = volumes.open(0);
        assert_eq!(times(&volume.getattr(ino).unwrap()), times(&before));
        let mut page = [0; BLOCK];
        volume.read(ino, BLOCK as u64, &mut page).unwrap();
        assert_eq!(page, [2; BLOCK]);
        volume.close().unwrap();
    }
}

#[test]
fn the_end_of_a_file_that_is_uncovered_is_no_write() {
    let volumes = Remounted::new();
    let volume = volumes.open(0);
    let ino = volume.create(Ino::ROOT, b"f", &FILE).unwrap().ino;
    put(&volume, ino, 0, 1);
    volume.setattr(ino, &SetAttr { size: Some(100), ..Default::default() }).unwrap();
    volume.fsync(ino, false).unwrap();
    set_mtime(&volume, ino, to_come());
    wait_for_the_clock(&volume, ino);
    // Beyond a tail that holds what must not be seen.
    put(&volume, ino, 2 * BLOCK, 2);
    let before = volume.getattr(ino).unwrap();
    volume.abandon();
    drop(volume);
    let volume = volumes.open(0);
    assert_eq!(times(&volume.getattr(ino).unwrap()), times(&before));
    volume.close().unwrap();
}

#[test]
fn a_time_to_come_is_no_change_to_come() {
    let volumes = Remounted::new();
    let volume = volumes.open(90);
    let file = volume.create(Ino::ROOT, b"f", &FILE).unwrap().ino;
    (0..9).for_each(|i| put(&volume, file, 2 * i * BLOCK, 1));
    let directory = volume.create(Ino::ROOT, b"d", &rig::DIR).unwrap().ino;
    volume.create(directory, b"name", &FILE).unwrap();
    for ino in [file, directory] {
        set_mtime(&volume, ino, to_come());
    }
    volume.move_file(file, 1).unwrap();
    for ino in [file, directory] {
        // Its log is compacted on the way.
        for uid in 0..300 {
            volume.setattr(ino, &SetAttr { uid: Some(uid), ..Default::default() }).unwrap();
        }
    }
    volume.move_file(file, 0).unwrap();
    let before = [file, directory].map(|ino| times(&volume.getattr(ino).unwrap()));
    assert!(before.iter().all(|(mtime, ctime)| mtime > ctime));
    volume.close().unwrap();
    drop(volume);
    let volume = volumes.open(90);
    assert_eq!([file, directory].map(|ino| times(&volume.getattr(ino).unwrap())), before);
    volume.close().unwrap();
    drop(volume);
    volumes.rig.must_be_sound();
}
