//! What a volume says of itself: every read and write is found in the counters, in the right one.

use std::sync::Arc;

use terrace_engine::{
    Counter, Counter::*, FileKind, FormatOptions, Ino, NewInode, OpenOptions, Stats, TierStats,
    Volume, WriteOptions, format,
};
use terrace_media::{Pm, memory_disk};

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 0, gid: 0, rdev: 0 };
const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// A volume with two disks in different tiers, which does nothing by itself. PM takes no file data
/// if `pm_is_full`.
fn volume(pm_is_full: bool, checksums: bool) -> Arc<Volume> {
    let (pm, disks) = (Pm::anonymous(16 * MIB), vec![memory_disk(64 * MIB), memory_disk(32 * MIB)]);
    let format_options = FormatOptions {
        shards: Some(2),
        tiers: vec![1, 3],
        pm_data_checksums: checksums,
        ..Default::default()
    };
    format(&pm, &disks, &format_options).unwrap();
    let pm_full_percent = if pm_is_full { 0 } else { 90 };
    let options =
        OpenOptions { cache_bytes: 2 * MIB, pm_full_percent, workers: false, ..Default::default() };
    Volume::open(pm, disks, options, &|_, _, _| {}).unwrap()
}

fn file(volume: &Volume, name: &str) -> Ino {
    volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino
}

fn write(volume: &Volume, ino: Ino, at: u64, len: u64) {
    let data = vec![7; len as usize];
    assert_eq!(volume.write(ino, at, &data, WriteOptions::default()).unwrap(), data.len());
}

fn read(volume: &Volume, ino: Ino, at: u64, len: u64) {
    let mut buf = vec![0; len as usize];
    assert_eq!(volume.read(ino, at, &mut buf).unwrap(), buf.len());
    assert!(buf.iter().all(|&b| b == 7));
}

fn tier(stats: &Stats, number: u8) -> &TierStats {
    stats.tiers.iter().find(|tier| tier.tier == number).unwrap()
}

/// Exactly these counters have changed, by so much.
#[track_caller]
fn assert_counted(stats: &Stats, expected: &[(Counter, u64)]) {
    let counted: Vec<_> =
        Counter::ALL.iter().map(|&c| (c, stats.counters.get(c))).filter(|(_, n)| *n > 0).collect();
    assert_eq!(counted.len(), expected.len(), "{counted:?}");
    assert!(
        expected.iter().all(|pair| counted.contains(pair)),
        "{counted:?} instead of {expected:?}"
    );
}

#[test]
fn what_goes_to_pm_and_comes_from_there() {
    for checksums in [false, true] {
        let volume = volume(false, checksums);
        let ino = file(&volume, "file");
        let before = volume.stats();
        assert_counted(&before, &[]);
        write(&volume, ino, 0, 10_000);
        read(&volume, ino, 4000, 6000);
        volume.fsync(ino, false).unwrap();
        let stats = volume.stats().since(&before);
        let placed = [(PmWrites, 1), (WrittenPm, 10_000), (PlacedSynchronous, 10_000)];
        let then = [(PmReads, 1), (ReadPm, 6000), (Fsyncs, 1), (PredictedRight, 1)];
        assert_counted(&stats, &[&placed[..], &then[..]].concat());
        let pm = tier(&stats, 0);
        assert_eq!((pm.reads, pm.read_bytes, pm.writes, pm.written_bytes), (1, 6000, 1, 10_000));
        // The data, and little more for the log.
        assert!((10_000..14_000).contains(&stats.pm_stored_bytes), "{stats:?}");
        assert_eq!(stats.pm_write_amplification, Some(stats.pm_stored_bytes as f64 / 10_000.0));
        assert!(stats.pm_fences > 0);
        volume.close().unwrap();
    }
}

#[test]
fn what_goes_through_the_page_cache_to_a_disk() {
    let volume = volume(true, false);
    let ino = file(&volume, "file");
    let before = volume.stats();
    write(&volume, ino, 0, 64 * KIB);
    write(&volume, ino, 4096, 4096);
    read(&volume, ino, 0, 8192);
    let dirty = volume.stats().since(&before);
    let placed = [(PlacedPmFull, 64 * KIB), (PlacedJoinsDirty, 4096), (WrittenCache, 68 * KIB)];
    assert_counted(&dirty, &[&placed[..], &[(CacheHits, 2), (ReadCache, 8192)]].concat());
    assert_eq!((dirty.cache.dirty_bytes, dirty.cache.clean_bytes), (64 * KIB, 0));
    assert_eq!(dirty.pm_write_amplification, None, "nothing that was asked for went to PM");

    let before = volume.stats();
    volume.sync().unwrap();
    let synced = volume.stats().since(&before);
    assert_counted(&synced, &[(WrittenBack, 64 * KIB)]);
    assert_eq!((synced.cache.dirty_bytes, synced.cache.clean_bytes), (0, 64 * KIB));
    let (fast, slow) = (tier(&synced, 1), tier(&synced, 3));
    assert_eq!(
        (fast.writes, slow.writes, slow.written_bytes),
        (1, 0, 0),
        "the fastest disk with room"
    );
    assert_eq!(fast.written_bytes, 64 * KIB, "so short a run has its checksums in the log");
    volume.close().unwrap();
}

#[test]
fn what_is_not_cached_comes_from_its_tier() {
    let volume = volume(true, false);
    let (ino, other) = (file(&volume, "file"), file(&volume, "other"));
    write(&volume, ino, 0, 128 * KIB);
    volume.sync().unwrap();
    // Something else takes the whole cache.
    write(&volume, other, 0, 2 * MIB);
    volume.sync().unwrap();
    let before = volume.stats();
    read(&volume, ino, 5000, 1000);
    let missed = volume.stats().since(&before);
    assert_counted(&missed, &[(CacheMisses, 1)]);
    let fast = tier(&missed, 1);
    assert_eq!((fast.reads, fast.read_bytes, fast.file_read_bytes), (1, 4096, 1000));
    assert_eq!(tier(&missed, 3).file_read_bytes, 0);
    let before = volume.stats();
    read(&volume, ino, 5000, 1000);
    assert_counted(&volume.stats().since(&before), &[(CacheHits, 1), (ReadCache, 1000)]);
    volume.close().unwrap();
}

#[test]
fn a_writer_that_waits_for_pages_is_seen() {
    let volume = volume(true, false);
    let ino = file(&volume, "file");
    for piece in 0..8 {
        write(&volume, ino, piece * MIB, MIB);
    }
    let stats = volume.stats();
    // Of the pieces, a quarter of the cache each, every fourth finds nothing but dirty pages.
    assert_eq!(stats.counters.get(Stalls), 3);
    assert!(stats.counters.get(WrittenBack) >= 6 * MIB, "what waited was written back");
    volume.close().unwrap();
}

#[test]
fn what_is_moved_by_hand_is_seen() {
    let volume = volume(false, false);
    let ino = file(&volume, "file");
    write(&volume, ino, 0, 64 * KIB);
    let moved_to = |number| {
        let before = volume.stats();
        assert_eq!(volume.move_file(ino, number).unwrap().moved_bytes, 64 * KIB);
        let moved = volume.stats().since(&before);
        assert_counted(&moved, &[(MigratedByHand, 64 * KIB)]);
        tier(&moved, 3).clone()
    };
    assert_eq!(moved_to(3).written_bytes, 64 * KIB);
    let back = moved_to(0);
    assert_eq!((back.read_bytes, back.written_bytes), (64 * KIB, 0));
    volume.close().unwrap();
}

#[test]
fn tiers_add_up_and_stats_go_through_json() {
    let volume = volume(false, false);
    let stats = volume.stats();
    let names: Vec<&str> = stats.tiers.iter().map(|tier| tier.name.as_str()).collect();
    assert_eq!(names, ["pm", "disk1", "disk3"]);
    assert_eq!([0, 1, 3].map(|n| tier(&stats, n).capacity_bytes), [16 * MIB, 64 * MIB, 32 * MIB]);
    for tier in &stats.tiers {
        assert_eq!(tier.used_bytes + tier.free_bytes, tier.capacity_bytes, "{tier:?}");
    }
    let status = volume.status();
    let used: Vec<u64> = status.devices.iter().map(|device| device.used_bytes).collect();
    assert_eq!(used, [0, 1, 3].map(|n| tier(&stats, n).used_bytes));
    assert_eq!((stats.cache.budget_bytes, &stats.uuid), (status.cache_budget_bytes, &status.uuid));
    let text = serde_json::to_string(&stats).unwrap();
    assert_eq!(serde_json::from_str::<Stats>(&text).unwrap(), stats);
    volume.close().unwrap();
}
