//! The room that `statfs` calls available can be taken: by `fallocate`, in one file, and by writes;
//! whatever was taken before. And what a file has can be written again: what was reserved for it,
//! and its data.

mod rig;

use std::sync::Arc;

use rig::{FILE, Rig, contents, find, pattern};
use terrace_engine::{Fallocate, Ino, Volume, WriteOptions, XattrFlags};
use terrace_policy::Param;

const BLOCK: u64 = 4096;
/// Blocks that are left: what logs may take meanwhile, and what is rounded.
const LEFT: u64 = 32;

fn create(v: &Volume, name: &str) -> Ino {
    let ino = v.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
    v.forget(ino, 1);
    ino
}

/// A volume that moves nothing by itself.
fn open(rig: &Rig, pm_full_percent: u8, workers: bool) -> Arc<Volume> {
    let volume = rig.open_with(pm_full_percent, workers);
    volume.tune(Param::Migrate, 0).unwrap();
    volume
}

fn still(rig: &Rig) -> Arc<Volume> {
    open(rig, 90, false)
}

/// Bytes of a write: neither a whole number of blocks nor more than the room for checksums.
const STEP: usize = 200_000;

/// Writes `data` to the beginning of a file, piece by piece.
fn fill(v: &Volume, ino: Ino, data: &[u8], what: &str) {
    for (i, piece) in data.chunks(STEP).enumerate() {
        let n = v.write(ino, (i * STEP) as u64, piece, WriteOptions::default());
        assert_eq!(
            n.unwrap_or_else(|e| panic!("{what}: {e} at {} of {}", i * STEP, data.len())),
            piece.len(),
            "{what}"
        );
    }
}

fn available(v: &Volume) -> u64 {
    let statfs = v.statfs().unwrap();
    assert!(
        statfs.blocks_available <= statfs.blocks_free && statfs.blocks_free <= statfs.blocks,
        "{statfs:?}"
    );
    statfs.blocks_available
}

/// Makes a volume anything but fresh.
type Use = fn(&Volume);

const USES: [(&str, Use); 4] = [
    ("fresh", |_| {}),
    ("PM in use", |v| {
        let ino = create(v, "small");
        for i in 0..400 {
            v.write(ino, i * 2 * BLOCK, &pattern(BLOCK as usize, 1), WriteOptions::default())
                .unwrap();
        }
    }),
    ("in pieces", |v| {
        let ino = create(v, "pieces");
        v.fallocate(ino, Fallocate::Allocate, 0, 4 << 20).unwrap();
        (0..256)
            .for_each(|i| v.fallocate(ino, Fallocate::PunchHole, i * 4 * BLOCK, BLOCK).unwrap());
    }),
    ("disks in use", |v| {
        let ino = create(v, "long");
        v.write(ino, 0, &pattern(6 << 20, 2), WriteOptions::default()).unwrap();
        v.sync().unwrap();
    }),
];

#[test]
fn nearly_all_that_is_available_can_be_reserved_in_one_file() {
    for (what, prepare) in USES {
        for (offset, mode) in [(0, Fallocate::Allocate), (3 << 20, Fallocate::AllocateKeepSize)] {
            let rig = Rig::new(8 << 20, false);
            let v = still(&rig);
            prepare(&v);
            let (ino, before) = (create(&v, "reserved"), available(&v));
            let too_much = v.fallocate(ino, mode, offset, (before + LEFT) * BLOCK);
            assert_eq!(too_much.unwrap_err().errno(), libc::ENOSPC, "{what}");
            assert_eq!(available(&v), before, "{what}: what is refused takes nothing");
            v.fallocate(ino, mode, offset, (before - LEFT) * BLOCK)
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(v.getattr(ino).unwrap().blocks_512 / 8, before - LEFT, "{what}");
            // Of the checksums that data would need, some room may be left.
            assert!(available(&v) <= before / 16 + LEFT, "{what}: {} left", available(&v));
            v.close().unwrap();
            drop(v);
            rig.must_be_sound();
            let v = still(&rig);
            v.unlink(Ino::ROOT, b"reserved").unwrap();
            let after = available(&v);
            assert!(
                after.abs_diff(before) <= LEFT,
                "{what}: {before} available before, {after} after"
            );
        }
    }
}

#[test]
fn nearly_all_that_is_available_can_be_written() {
    for (what, prepare) in USES {
        let rig = Rig::new(8 << 20, false);
        let v = still(&rig);
        prepare(&v);
        let ino = create(&v, "written");
        let wanted = (available(&v) - LEFT) * BLOCK;
        fill(&v, ino, &pattern(wanted as usize, 3), what);
        v.sync().unwrap();
        assert!(find(&v, "written") == ino && v.getattr(ino).unwrap().size == wanted, "{what}");
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
    }
}

#[test]
fn what_is_reserved_can_be_written() {
    for (what, prepare) in USES {
        for (percent, workers) in [(60, false), (60, true), (100, false), (100, true)] {
            let what = format!("{what}, {percent} % reserved, workers: {workers}");
            let rig = Rig::new(8 << 20, false);
            let v = open(&rig, 90, workers);
            prepare(&v);
            let ino = create(&v, "reserved");
            let blocks = available(&v) * percent / 100 - LEFT;
            v.fallocate(ino, Fallocate::Allocate, 0, blocks * BLOCK).unwrap();
            let data = pattern((blocks * BLOCK) as usize, 4);
            fill(&v, ino, &data, &what);
            v.sync().unwrap();
            v.close().unwrap();
            drop(v);
            rig.must_be_sound();
            assert!(contents(&still(&rig), ino) == data, "{what}");
        }
    }
}

#[test]
fn data_on_nearly_full_disks_can_be_written_again() {
    for (percent, workers) in [(65, false), (65, true), (90, false), (90, true)] {
        let what = format!("{percent} % in use, workers: {workers}");
        let rig = Rig::new(8 << 20, false);
        let v = open(&rig, 0, workers);
        let ino = create(&v, "again");
        let len = (available(&v) * percent / 100 * BLOCK) as usize;
        fill(&v, ino, &pattern(len, 0), &what);
        v.sync().unwrap();
        let before = available(&v);
        for seed in 1..4 {
            fill(&v, ino, &pattern(len, seed), &what);
        }
        v.sync().unwrap();
        assert!(
            available(&v).abs_diff(before) <= LEFT,
            "{what}: {before} available before, {} after",
            available(&v)
        );
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
        assert!(contents(&still(&rig), ino) == pattern(len, 3), "{what}");
    }
}

/// Dirty data of others is written back, too; and a reservation finds the room.
#[test]
fn what_others_replace_makes_room() {
    for workers in [false, true] {
        let rig = Rig::new(8 << 20, false);
        let v = open(&rig, 0, workers);
        let (others, ino) = (create(&v, "others"), create(&v, "new"));
        let len = available(&v) as usize * BLOCK as usize * 45 / 100;
        fill(&v, others, &pattern(len, 0), "others");
        v.sync().unwrap();
        let left = available(&v) - LEFT;
        fill(&v, others, &pattern(len, 1), "others");
        v.fallocate(ino, Fallocate::Allocate, 0, left * BLOCK).unwrap();
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
    }
}

/// A program that writes new data beyond the room gets ENOSPC in the end, however many overwrite
/// old data.
#[test]
fn a_full_volume_says_so_while_others_write() {
    for workers in [false, true] {
        let rig = Rig::new(8 << 20, false);
        let v = open(&rig, 0, workers);
        let files = [create(&v, "one"), create(&v, "other")];
        let len = available(&v) as usize * BLOCK as usize / 4;
        files.iter().for_each(|&ino| fill(&v, ino, &pattern(len, 0), "first"));
        v.sync().unwrap();
        let grows = create(&v, "grows");
        std::thread::scope(|scope| {
            for ino in files {
                let v = &v;
                scope.spawn(move || {
                    for (seed, at) in
                        (0..2000).map(|i| (i as u8, i * 7919 * BLOCK % (len as u64 - BLOCK)))
                    {
                        let written =
                            v.write(ino, at, &pattern(4096, seed), WriteOptions::default());
                        assert!(
                            written.is_ok_and(|n| n == 4096)
                                || v.getattr(grows).unwrap().size > len as u64
                        );
                    }
                });
            }
            let refused = (0..).find_map(|i| {
                v.write(grows, i * STEP as u64, &[1; STEP], WriteOptions::default()).err()
            });
            assert_eq!(refused.unwrap().errno(), libc::ENOSPC);
        });
        assert!(v.getattr(grows).unwrap().size > len as u64, "half of the volume was free");
        v.sync().unwrap();
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
    }
}

#[test]
fn a_full_volume_says_so_without_a_flush_for_each_write() {
    let rig = Rig::new(8 << 20, false);
    let v = open(&rig, 0, false);
    let (ino, blocks) = (create(&v, "grows"), available(&v));
    let flushes = || rig.disks.iter().map(|disk| disk.stats().flushes).sum::<u64>();
    let write = |i: u64| v.write(ino, i * BLOCK, &[1; BLOCK as usize], WriteOptions::default());
    let written = (0..).find(|&i| write(i).is_err()).unwrap();
    assert!(written >= blocks, "{written} of {blocks}");
    // With each flush the room for the checksums of what it wrote is left: a seventeenth, and a
    // seventeenth of that.
    assert!(flushes() <= 40, "{} flushes for {written} blocks", flushes());
    let before = flushes();
    (0..1000).for_each(|i| assert_eq!(write(written + i).unwrap_err().errno(), libc::ENOSPC));
    assert_eq!(flushes(), before);
    v.unlink(Ino::ROOT, b"grows").unwrap();
    assert!(
        available(&v).abs_diff(blocks) <= LEFT,
        "{blocks} available before, {} after",
        available(&v)
    );
}

/// Writes that found PM full were promised room on a disk. Their logs need a page of PM as well,
/// and find one although metadata takes all of it.
#[test]
fn what_was_promised_a_disk_reaches_it_although_metadata_fills_pm() {
    let rig = Rig::tiered(64 << 20);
    let volume = rig.open_alone(&[(Param::LogsAt, 0)]);
    let files: Vec<Ino> = (0..2500).map(|n| create(&volume, &format!("file{n}"))).collect();
    let put = |ino, at, data: &[u8]| volume.write(ino, at, data, WriteOptions::default());
    for &ino in &files {
        assert_eq!(put(ino, 0, &[1; 3000]).unwrap(), 3000);
    }
    volume.sync().unwrap();
    for &ino in &files {
        // The data goes, and what short logs have in PM.
        volume.move_range(ino, 1, 0, u64::MAX).unwrap();
    }
    let flags = XattrFlags { create: false, replace: false };
    let long = |ino, n: usize| {
        volume.setxattr(ino, format!("user.{n}").as_bytes(), &[2; 2500], flags, None)
    };
    let full = (0..4).find_map(|n| files.iter().find_map(|&ino| long(ino, n).err()));
    assert_eq!(full.map(|error| error.errno()), Some(libc::ENOSPC), "PM is full of values");
    let grown: Vec<Ino> =
        files.iter().copied().filter(|&ino| put(ino, 3000, &[3; 3000]).is_ok()).collect();
    assert!(grown.len() > 1000, "{} files were written", grown.len());
    volume.sync().unwrap();
    for &ino in &grown {
        let data = contents(&volume, ino);
        assert!(data[..3000] == [1; 3000] && data[3000..] == [3; 3000]);
    }
    volume.close().unwrap();
    rig.must_be_sound();
}

/// Most pages that the log of a file has while single blocks of it are written again and again.
fn most_log_pages(params: &[(Param, u64)]) -> u64 {
    const BLOCKS: u64 = 16;
    let rig = Rig::tiered(64 << 20);
    let volume = rig.open_alone(params);
    let file = create(&volume, "file");
    let mut most = 0;
    for round in 0..40 {
        // The first block is written once: its entry keeps the front of the log from being dropped.
        for block in u64::from(round > 0)..BLOCKS {
            // Neighbours are not written one after the other.
            let at = block * 5 % BLOCKS * BLOCK;
            volume.write(file, at, &[round; 4096], WriteOptions::default()).unwrap();
            most = most.max(volume.file_map(file).unwrap().log_pages);
        }
    }
    let data = contents(&volume, file);
    assert!(data[..4096] == [0; 4096] && data[4096..] == [39; 15 * 4096]);
    volume.close().unwrap();
    rig.must_be_sound();
    most
}

#[test]
fn while_data_has_to_leave_pm_logs_give_pages_back() {
    let at =
        |percent| [Param::MigrateMin, Param::MigrateAt, Param::MigrateMax].map(|p| (p, percent));
    assert_eq!(most_log_pages(&at(1)), 1);
    assert!(most_log_pages(&at(100)) >= 4);
    assert!(most_log_pages(&[&at(1)[..], &[(Param::TightLogs, 0)]].concat()) >= 4);
}
