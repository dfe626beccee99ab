//! New files are placed as their siblings would be, and corrected by their own writes. In volumes
//! without threads: every step is asked for.

mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rig::{FILE, Rig, contents, pattern, put, runs};
use terrace_engine::{Counter, Ino, Volume, WriteOptions};
use terrace_layout::{BLOCK, MediaStruct, Superblock};
use terrace_policy::Param;

/// Data leaves PM from the first block on.
const EAGER: [(Param, u64); 3] =
    [(Param::MigrateMin, 1), (Param::MigrateAt, 1), (Param::MigrateMax, 1)];
const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn create(volume: &Volume, name: &str) -> Ino {
    volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino
}

fn remove(volume: &Volume, name: &str, ino: Ino) {
    volume.unlink(Ino::ROOT, name.as_bytes()).unwrap();
    volume.forget(ino, 1);
}

/// As a store writes a table: all of it, then a sync.
fn write_table(volume: &Volume, name: &str) -> Ino {
    let ino = create(volume, name);
    put(volume, ino, 0, &pattern(512 * KIB, 1));
    volume.fsync(ino, false).unwrap();
    ino
}

/// As a store writes its log: each record synced.
fn write_log(volume: &Volume, name: &str) -> Ino {
    let ino = create(volume, name);
    for at in 0..20 {
        put(volume, ino, at * 1000, &pattern(1000, 2));
        volume.fsync(ino, true).unwrap();
    }
    ino
}

fn placed(volume: &Volume, counter: Counter) -> u64 {
    volume.stats().counters.get(counter)
}

/// Four tables and four logs, so that the kinds are known.
fn learned(rig: &Rig) -> Arc<Volume> {
    let volume = rig.open_alone(&[]);
    for number in 0..4 {
        write_table(&volume, &format!("{number}.table"));
        write_log(&volume, &format!("{number}.log"));
    }
    assert_eq!(placed(&volume, Counter::PlacedBulk), 0, "PM had room for all");
    EAGER.iter().for_each(|&(param, value)| volume.tune(param, value).unwrap());
    volume
}

/// Whether a table goes to the disk, and a log to PM, from the first byte on.
fn must_be_known(volume: &Volume) {
    let before = placed(volume, Counter::PlacedBulk);
    let table = write_table(volume, "new.table");
    assert_eq!(runs(volume, table), "128 disk1");
    assert_eq!(placed(volume, Counter::PlacedBulk) - before, 512 * KIB as u64);
    let log = write_log(volume, "new.log");
    assert_eq!(runs(volume, log), "5 pm");
    assert!(contents(volume, table) == pattern(512 * KIB, 1));
}

#[test]
fn a_new_file_goes_where_its_siblings_belong() {
    let rig = Rig::tiered(16 << 20);
    let volume = learned(&rig);
    must_be_known(&volume);
    // Of other kinds nothing is known.
    let other = create(&volume, "other");
    put(&volume, other, 0, &pattern(64 * KIB, 1));
    assert_eq!(runs(&volume, other), "16 pm");
    // A directory of its own has the same kinds, until it has its own.
    let dir = volume.create(Ino::ROOT, b"dir", &rig::DIR).unwrap().ino;
    let there = volume.create(dir, b"1.table", &FILE).unwrap().ino;
    put(&volume, there, 0, &pattern(64 * KIB, 1));
    assert_eq!(runs(&volume, there), "16 cache");
    // While PM has room, everything goes there.
    EAGER.iter().for_each(|&(param, _)| volume.tune(param, 90).unwrap());
    let table = write_table(&volume, "roomy.table");
    assert_eq!(runs(&volume, table), "128 pm");
    volume.close().unwrap();
    rig.must_be_sound();
}

#[test]
fn who_waits_gets_pm_whatever_is_expected() {
    let rig = Rig::tiered(16 << 20);
    let volume = learned(&rig);
    // A write that is durable when it returns.
    let durable = create(&volume, "durable.table");
    let options = WriteOptions { durable: true, ..Default::default() };
    volume.write(durable, 0, &pattern(64 * KIB, 1), options).unwrap();
    assert_eq!(runs(&volume, durable), "16 pm");
    // A table that is synced after a few bytes turns out to be none.
    let small = create(&volume, "small.table");
    put(&volume, small, 0, &pattern(4 * KIB, 1));
    assert_eq!(runs(&volume, small), "1 cache");
    volume.fsync(small, true).unwrap();
    put(&volume, small, 4 * KIB as u64, &pattern(4 * KIB, 1));
    assert_eq!(runs(&volume, small), "1 disk1, 1 pm");
    // And a log that goes on and on without a sync is none either.
    let long = create(&volume, "long.log");
    for at in (0..512 * KIB).step_by(64 * KIB) {
        put(&volume, long, at as u64, &pattern(64 * KIB, 1));
    }
    assert_eq!(runs(&volume, long), "64 pm, 64 cache");
    volume.close().unwrap();
    rig.must_be_sound();
}

#[test]
fn what_is_known_outlives_mounts_and_crashes() {
    let rig = Rig::tiered(16 << 20);
    learned(&rig).close().unwrap();
    for crashes in [false, true, false] {
        let volume = rig.open_alone(&EAGER);
        must_be_known(&volume);
        for name in ["new.table", "new.log"] {
            volume.unlink(Ino::ROOT, name.as_bytes()).unwrap();
        }
        match crashes {
            true => volume.abandon(),
            false => volume.close().unwrap(),
        }
    }
    rig.must_be_sound();
}

#[test]
fn damaged_rows_are_forgotten_and_nothing_else() {
    let rig = Rig::tiered(16 << 20);
    let volume = learned(&rig);
    volume.close().unwrap();
    drop(volume);
    let mut block = [0; BLOCK];
    rig.pm.read(0, &mut block);
    // The births of the first row, which stands behind the header.
    let at = Superblock::from_bytes(&block).checkpoint_header * BLOCK as u64 + 320 + 12;
    rig.flip(0, at);
    rig.must_be_sound();
    let volume = rig.open_alone(&EAGER);
    let table = create(&volume, "new.table");
    put(&volume, table, 0, &pattern(64 * KIB, 1));
    assert_eq!(runs(&volume, table), "16 pm");
    volume.close().unwrap();
}

#[test]
fn each_rule_can_be_switched_off() {
    for (param, expected) in [(Param::Siblings, "64 pm, 64 cache"), (Param::AwaitBytes, "128 pm")] {
        let rig = Rig::tiered(16 << 20);
        let volume = learned(&rig);
        volume.tune(param, 0).unwrap();
        let table = create(&volume, "new.table");
        for at in (0..512 * KIB).step_by(64 * KIB) {
            put(&volume, table, at as u64, &pattern(64 * KIB, 1));
        }
        assert_eq!(runs(&volume, table), expected, "{param:?}");
        volume.close().unwrap();
    }
}

/// Bulk leaves PM before what somebody waits for, what is written in it first, and what will be
/// gone soon leaves last.
#[test]
fn what_leaves_pm_first_is_what_nobody_misses() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[]);
    // Files that live for a moment.
    for number in 0..4 {
        let (name, data) = (format!("{number}.tmp"), pattern(16 * KIB, 1));
        let ino = create(&volume, &name);
        put(&volume, ino, 0, &data);
        volume.fsync(ino, true).unwrap();
        remove(&volume, &name, ino);
    }
    let write = |name: &str, len: usize| {
        let ino = create(&volume, name);
        for at in (0..len).step_by(16 * KIB) {
            put(&volume, ino, at as u64, &pattern(16 * KIB, 3));
            if !name.ends_with(".bulk") {
                volume.fsync(ino, true).unwrap();
            }
        }
        rig::a_moment_passes();
        ino
    };
    let [brief, awaited, bulk] =
        [write("new.tmp", 256 * KIB), write("one.db", 256 * KIB), write("one.bulk", MIB)];
    let in_pm = |ino| runs(&volume, ino).ends_with("pm");
    assert!(in_pm(brief) && in_pm(awaited) && in_pm(bulk));
    // So much may stay that one goes and the next need not.
    let order = [bulk, awaited, brief];
    for percent in (1..40).rev() {
        EAGER.iter().for_each(|&(param, _)| volume.tune(param, percent).unwrap());
        let _ = volume.migrate(1);
        let left = order.map(in_pm);
        assert!(left.is_sorted(), "at {percent} %: {left:?}");
    }
    assert!(!in_pm(awaited));
    volume.close().unwrap();
    rig.must_be_sound();
}

/// Files whose first half has left PM, and whose second was just written. It is younger than the
/// file on average, and all of one time: only its age can make it leave.
fn half_left(volume: &Volume, names: impl Iterator<Item = String>) -> Vec<Ino> {
    let files: Vec<Ino> = names.map(|name| create(volume, &name)).collect();
    for at in [0, 64 * KIB] {
        for &ino in &files {
            put(volume, ino, at as u64, &pattern(64 * KIB, 1));
            volume.fsync(ino, true).unwrap();
        }
        if at == 0 {
            let _ = volume.migrate(1);
            assert!(files.iter().all(|&ino| runs(volume, ino) == "16 disk1"));
            rig::a_moment_passes();
        }
    }
    files
}

/// Files that nobody expects to live do not keep PM full: they leave last, but they leave.
#[test]
fn brief_files_leave_when_there_is_nothing_else() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[]);
    for number in 0..4 {
        let name = format!("{number}.tmp");
        let ino = create(&volume, &name);
        put(&volume, ino, 0, &pattern(16 * KIB, 1));
        remove(&volume, &name, ino);
    }
    EAGER.iter().for_each(|&(param, _)| volume.tune(param, 1).unwrap());
    let files = half_left(&volume, (10..50).map(|number| format!("{number}.tmp")));
    std::thread::sleep(Duration::from_millis(1001));
    let stayed = || files.iter().filter(|&&ino| runs(&volume, ino) != "32 disk1").count();
    // Not all leave while PM has room for data, and all once it has less than so much.
    let _ = volume.migrate(1);
    assert!(stayed() > 0);
    volume.tune(Param::Lately, 100).unwrap();
    let _ = volume.migrate(1);
    assert_eq!(stayed(), 0, "of {}", files.len());
    volume.close().unwrap();
    rig.must_be_sound();
}

/// In a PM that is filled in a moment, data of a moment ago is not young.
#[test]
fn what_counts_as_young_depends_on_how_fast_pm_fills() {
    for (lately, leaves) in [(1, true), (0, false)] {
        let rig = Rig::tiered(16 << 20);
        let volume = rig.open_alone(&[]);
        volume.tune(Param::Lately, lately).unwrap();
        EAGER.iter().for_each(|&(param, _)| volume.tune(param, 1).unwrap());
        let begun = Instant::now();
        let files = half_left(&volume, (0..64).map(|number| format!("{number}.db")));
        std::thread::sleep(Duration::from_millis(50));
        let _ = volume.migrate(1);
        let left = files.iter().filter(|&&ino| runs(&volume, ino) == "32 disk1").count();
        // A machine that was too slow for a second has moved it in both cases.
        if leaves || begun.elapsed() < Duration::from_secs(1) {
            assert_eq!(left > 0, leaves, "lately={lately}: {left} files left");
        }
        volume.close().unwrap();
        rig.must_be_sound();
    }
}
