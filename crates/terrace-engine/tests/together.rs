//! Writing back several files with one flush. Volumes without threads: every step is asked for.

mod rig;

use std::sync::Arc;

use rig::{FILE, Rig, contents, make, pattern, put, runs};
use terrace_engine::{FormatOptions, Ino, PIN_XATTR, Volume, XattrFlags, format};
use terrace_media::{DiskFault, DiskSim, IoOp, Pm, sim_disk};
use terrace_policy::Param;

const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;
/// A file of so many blocks has its own flush.
const LONG_BLOCKS: usize = 256;

struct Dirty {
    rig: Rig,
    volume: Arc<Volume>,
    files: Vec<(Ino, Vec<u8>)>,
}

impl Dirty {
    /// Files of so many blocks each, all of them in the page cache.
    fn new(blocks: &[usize], flush_group: u64) -> Self {
        Self::on(Rig::tiered(32 * MIB), blocks, flush_group)
    }

    fn on(rig: Rig, blocks: &[usize], flush_group: u64) -> Self {
        let volume = rig.open(0);
        volume.tune(Param::FlushGroup, flush_group).unwrap();
        let file = |(number, &blocks): (usize, &usize)| {
            let ino = make(&volume, Ino::ROOT, &number.to_string(), &FILE);
            let data = pattern(blocks * BLOCK - 100, number as u8);
            put(&volume, ino, 0, &data);
            assert_eq!(runs(&volume, ino), format!("{blocks} cache"));
            (ino, data)
        };
        let files = blocks.iter().enumerate().map(file).collect();
        Self { rig, volume, files }
    }

    /// How often the disks are flushed while everything is written back.
    fn flushes_of_sync(&self) -> u64 {
        let flushes = || self.rig.disks.iter().map(|disk| disk.stats().flushes).sum::<u64>();
        let before = flushes();
        self.volume.sync().unwrap();
        flushes() - before
    }

    /// All files hold what was written, also after a remount.
    fn must_be_whole(self) {
        let check = |volume: &Volume| {
            for (number, (_, data)) in self.files.iter().enumerate() {
                let ino = rig::find(volume, &number.to_string());
                assert!(contents(volume, ino) == *data, "file {number}");
            }
        };
        check(&self.volume);
        self.volume.close().unwrap();
        self.rig.must_be_sound();
        check(&self.rig.open(90));
    }
}

/// Flushes that a sync of these files needs, beyond those of a sync with nothing dirty.
fn flushes(blocks: &[usize], flush_group: u64) -> u64 {
    let dirty = Dirty::new(blocks, flush_group);
    let with = dirty.flushes_of_sync();
    let without = dirty.flushes_of_sync();
    for (ino, data) in &dirty.files {
        let blocks = data.len().div_ceil(BLOCK);
        assert_eq!(runs(&dirty.volume, *ino), format!("{blocks} disk1"));
    }
    dirty.must_be_whole();
    with - without
}

fn on_one_disk() -> (Rig, Arc<DiskSim>) {
    let (disk, sim) = sim_disk(64 * MIB);
    let rig = Rig { pm: Pm::anonymous(8 * MIB), disks: vec![disk] };
    format(&rig.pm, &rig.disks, &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
    (rig, sim)
}

#[test]
fn short_files_share_a_flush() {
    let blocks = [1, 2, 40, 33, 32, 255, 1, 7];
    assert_eq!(flushes(&blocks, 4 * MIB), 1);
    assert_eq!(flushes(&blocks, 0), blocks.len() as u64, "one at a time");
    // However the groups begin: two of these have no room in one of 40 blocks, three do.
    assert_eq!(flushes(&[20, 20, 20, 20], 40 * BLOCK as u64), 2);
    assert_eq!(flushes(&[20, 20, 20, 20], 39 * BLOCK as u64), 4);
}

#[test]
fn a_long_file_has_its_own_flush() {
    assert_eq!(flushes(&[LONG_BLOCKS - 1, 3, LONG_BLOCKS, 3], 4 * MIB), 2);
    assert_eq!(flushes(&[LONG_BLOCKS + 44], 4 * MIB), 1);
}

#[test]
fn a_file_that_is_pinned_elsewhere_goes_there() {
    let dirty = Dirty::new(&[3, 4, 5], 4 * MIB);
    let (pinned, _) = dirty.files[1];
    dirty.volume.setxattr(pinned, PIN_XATTR.as_bytes(), b"2", XattrFlags::default(), None).unwrap();
    dirty.volume.sync().unwrap();
    let places: Vec<String> =
        dirty.files.iter().map(|&(ino, _)| runs(&dirty.volume, ino)).collect();
    assert_eq!(places, ["3 disk1", "4 disk2", "5 disk1"]);
    dirty.must_be_whole();
}

#[test]
fn a_write_that_fails_for_all_is_tried_for_each() {
    let (rig, sim) = on_one_disk();
    let dirty = Dirty::on(rig, &[3, 4, 5], 4 * MIB);
    sim.plant_fault(1, DiskFault::Errno(libc::EIO));
    dirty.volume.sync().unwrap();
    let places: Vec<String> =
        dirty.files.iter().map(|&(ino, _)| runs(&dirty.volume, ino)).collect();
    assert_eq!(places, ["3 disk1", "4 disk1", "5 disk1"]);
    // None of them can be written: they wait, whole.
    for (ino, data) in &dirty.files {
        put(&dirty.volume, *ino, 0, data);
    }
    sim.fail_writes_after(0);
    assert_eq!(dirty.volume.sync().unwrap_err().errno(), libc::EIO);
    assert!(dirty.files.iter().all(|(ino, data)| contents(&dirty.volume, *ino) == *data));
    sim.clear_faults();
    dirty.must_be_whole();
}

#[test]
fn a_flush_that_fails_ends_it_for_all() {
    let (rig, sim) = on_one_disk();
    let dirty = Dirty::on(rig, &[3, 4, 5], 4 * MIB);
    sim.fail_flush(true);
    assert_eq!(dirty.volume.sync().unwrap_err().errno(), libc::EIO);
    assert!(dirty.volume.status().read_only.is_some());
    assert!(dirty.files.iter().all(|(ino, data)| contents(&dirty.volume, *ino) == *data));
    for &(ino, _) in &dirty.files {
        assert!(runs(&dirty.volume, ino).ends_with("cache"));
    }
}

#[test]
fn a_file_that_is_removed_meanwhile_gives_its_room_back() {
    let (rig, sim) = on_one_disk();
    let mut dirty = Dirty::on(rig, &[3, 4, 5], 4 * MIB);
    let used = |dirty: &Dirty| dirty.volume.status().devices[1].used_bytes;
    let before = used(&dirty);
    let (gone, _) = dirty.files.pop().unwrap();
    let volume = Arc::clone(&dirty.volume);
    sim.before_next(IoOp::Write, move || {
        volume.unlink(Ino::ROOT, b"2").unwrap();
        volume.forget(gone, 1);
    });
    dirty.volume.sync().unwrap();
    sim.clear_on_io();
    dirty.volume.sync().unwrap();
    assert_eq!(used(&dirty), before + 7 * BLOCK as u64);
    dirty.must_be_whole();
}
