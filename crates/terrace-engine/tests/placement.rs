//! Where data goes and where it moves to, decided by the policy, in volumes without threads: every
//! step is asked for.

mod rig;

use std::ops::Range;

use rig::{FILE, Rig, a_moment_passes, contents, pattern, places, put, runs};
use terrace_engine::{
    Counter, Fallocate, FormatOptions, Ino, PIN_XATTR, Volume, WriteOptions, XattrFlags, format,
};
use terrace_media::{Pm, memory_disk};
use terrace_policy::Param;

const BLOCK: usize = 4096;

fn create(volume: &Volume, name: &str) -> Ino {
    volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino
}

/// Fills a file little by little: PM takes that as long as it has any room.
fn fill(volume: &Volume, ino: Ino, data: &[u8]) {
    let pieces = data.chunks(16 * BLOCK).enumerate();
    pieces.for_each(|(i, piece)| put(volume, ino, (i * 16 * BLOCK) as u64, piece));
}

fn used_percent(volume: &Volume) -> u8 {
    volume.status().migration.unwrap().pm_used_percent
}

/// TPFS, figure 2: every step and where each block is after it. The thresholds: 16 blocks between
/// two fsyncs make a file asynchronous; the fifth rewrite of a write of 4 blocks or more is large.
#[test]
fn figure_2_a_to_f() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::SyncBlocks, 16)]);
    let ino = create(&volume, "file");
    let thirds = |seed: u8| {
        (0..3u64).map(move |i| (i * 8 * BLOCK as u64, pattern(8 * BLOCK, seed + i as u8)))
    };
    // What comes before: the file is written in the same three large writes, again and again, and
    // never synced.
    for seed in 0..5 {
        thirds(seed).for_each(|(at, data)| put(&volume, ino, at, &data));
        assert_eq!(
            runs(&volume, ino),
            "24 pm",
            "pass {seed}: large writes are not known to be stable yet"
        );
    }
    // (a) Three large asynchronous writes go to the page cache.
    thirds(10).for_each(|(at, data)| put(&volume, ino, at, &data));
    assert_eq!(runs(&volume, ino), "24 cache");
    assert!(!volume.file_map(ino).unwrap().opinion.synchronous);
    // (b) fsync writes them back, merged: one extent, whose counter is that of the writes.
    volume.fsync(ino, false).unwrap();
    assert_eq!(runs(&volume, ino), "24 disk1");
    let extents = volume.file_map(ino).unwrap().extents;
    assert_eq!((extents.len(), extents[0].write_counter), (1, 5));
    // (c) Eight small synchronous appends go to PM.
    let mut expected: Vec<u8> = thirds(10).flat_map(|(_, data)| data).collect();
    for i in 0..8 {
        let data = pattern(BLOCK, 20 + i);
        let options = WriteOptions { append: true, durable: true, ..Default::default() };
        volume.write(ino, 0, &data, options).unwrap();
        expected.extend(data);
    }
    assert_eq!(runs(&volume, ino), "24 disk1, 8 pm");
    // (d) The file is cold, and PM fuller than it may be: the eight blocks move to the disk as one
    // group.
    [(Param::ColdAge, 0), (Param::MigrateMin, 1), (Param::MigrateAt, 1), (Param::MigrateMax, 1)]
        .into_iter()
        .for_each(|(param, value)| volume.tune(param, value).unwrap());
    let error = volume.migrate(1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no file has data to give away in pm",
        "what is left in PM is metadata"
    );
    assert_eq!(runs(&volume, ino), "32 disk1");
    assert_eq!(volume.file_map(ino).unwrap().extents.len(), 2, "the eight blocks are one extent");
    // (e) Reading the last eight blocks fetches them into the page cache. (The migration has left
    // copies there: PM was little used.)
    let mut last = vec![0; 8 * BLOCK];
    volume.read(ino, 24 * BLOCK as u64, &mut last).unwrap();
    assert!(last == expected[24 * BLOCK..]);
    let cached = |volume: &Volume| volume.file_map(ino).unwrap().extents[1].cached_bytes;
    assert_eq!(cached(&volume), 8 * BLOCK as u64);
    // (f) Mapping the head brings it to PM first.
    let moved = volume.move_range(ino, 0, 0, 8 * BLOCK as u64).unwrap();
    assert_eq!((moved.moved_bytes, moved.left_bytes), (8 * BLOCK as u64, 0));
    assert_eq!(runs(&volume, ino), "8 pm, 24 disk1");
    assert!(contents(&volume, ino) == expected);
    volume.close().unwrap();
    assert!(rig.check(false).problems.is_empty());
}

/// The decision tree of figure 3 for writes.
#[test]
fn the_write_tree() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::SyncBlocks, 8), (Param::LargeWrites, 1)]);
    let reason = |counter: Counter| volume.stats().counters.get(counter);
    let data = pattern(4 * BLOCK, 1);
    let ino = create(&volume, "file");
    // Synchronous, small.
    put(&volume, ino, 0, &data[..100]);
    assert_eq!((runs(&volume, ino), reason(Counter::PlacedSynchronous)), ("1 pm".into(), 100));
    // Synchronous, large: the third write of the range is large already, with this threshold.
    put(&volume, ino, 0, &data);
    put(&volume, ino, 0, &data);
    assert_eq!(runs(&volume, ino), "4 pm");
    // Asynchronous by now, small.
    put(&volume, ino, BLOCK as u64, &data[..BLOCK]);
    assert_eq!((runs(&volume, ino), reason(Counter::PlacedSmall)), ("4 pm".into(), BLOCK as u64));
    // Asynchronous, large; but the small write has made the range unstable: once more.
    put(&volume, ino, 0, &data);
    put(&volume, ino, 0, &data);
    assert_eq!(
        (runs(&volume, ino), reason(Counter::PlacedLargeAsync)),
        ("4 cache".into(), 4 * BLOCK as u64)
    );
    // Joins what is dirty, be it small.
    put(&volume, ino, 10, &data[..10]);
    assert_eq!((runs(&volume, ino), reason(Counter::PlacedJoinsDirty)), ("4 cache".into(), 10));
    // Durable: large, and to PM all the same.
    volume.fsync(ino, false).unwrap();
    volume.write(ino, 0, &data, WriteOptions { durable: true, ..Default::default() }).unwrap();
    assert_eq!(runs(&volume, ino), "4 pm");
    // An fsync after few blocks makes the file synchronous again: large, and to PM.
    volume.fsync(ino, false).unwrap();
    put(&volume, ino, 0, &data);
    assert_eq!(runs(&volume, ino), "4 pm");
    let wrong = reason(Counter::PredictedWrong);
    assert!(wrong > 0 && reason(Counter::PredictedRight) > 0, "{wrong}");
}

/// What the entries of the slides say: a write inherits the counter of what it covers, through the
/// page cache, compaction and a remount.
#[test]
fn counters_follow_the_data() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::SyncBlocks, 1)]);
    let ino = create(&volume, "file");
    let data = pattern(64 * BLOCK, 1);
    let pass = |volume: &Volume, ino| {
        (0..4).for_each(|i| put(volume, ino, i * 16 * BLOCK as u64, &data[..16 * BLOCK]))
    };
    (0..5).for_each(|_| pass(&volume, ino));
    assert_eq!(runs(&volume, ino), "64 pm");
    volume.close().unwrap();
    drop(volume);
    let volume = rig.open_alone(&[(Param::SyncBlocks, 1)]);
    let ino = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
    // A file that was just loaded is synchronous until it has been written; the counters are known.
    put(&volume, ino, 0, &data[..16 * BLOCK]);
    assert_eq!(runs(&volume, ino), "64 pm");
    put(&volume, ino, 16 * BLOCK as u64, &data[..16 * BLOCK]);
    assert_eq!(runs(&volume, ino), "16 pm, 16 cache, 32 pm");
    // All of it goes to the disk as one run, whose entry remembers that it came in writes of 16
    // blocks.
    pass(&volume, ino);
    assert_eq!(runs(&volume, ino), "64 cache");
    volume.fsync(ino, false).unwrap();
    assert_eq!(
        (runs(&volume, ino), volume.file_map(ino).unwrap().extents.len()),
        ("64 disk1".into(), 1)
    );
    put(&volume, ino, 0, &data[..BLOCK]);
    put(&volume, ino, 32 * BLOCK as u64, &data[..16 * BLOCK]);
    assert_eq!(runs(&volume, ino), "1 pm, 31 disk1, 16 cache, 16 disk1");
    // Smaller writes than that are not what the range is used to.
    put(&volume, ino, 48 * BLOCK as u64, &data[..4 * BLOCK]);
    assert_eq!(runs(&volume, ino), "1 pm, 31 disk1, 16 cache, 4 pm, 12 disk1");
}

#[test]
fn cold_files_leave_pm_coldest_first() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[]);
    let files: Vec<Ino> = (0..23).map(|i| create(&volume, &format!("file{i}"))).collect();
    for &ino in &files {
        put(&volume, ino, 0, &pattern(256 << 10, ino.0 as u8));
        a_moment_passes();
    }
    // Written last, long after the others.
    put(&volume, files[0], 0, &pattern(256 << 10, 99));
    let before = used_percent(&volume);
    assert!(before > 70, "{before}");
    // Only writes so far: the least threshold.
    volume.migrate(1).unwrap();
    let status = volume.status().migration.unwrap();
    assert_eq!(
        (status.threshold_percent, status.state.as_str(), &status.trouble),
        (50, "idle", &None)
    );
    assert!(used_percent(&volume) <= 50);
    let left: Vec<usize> = (0..23).filter(|&i| runs(&volume, files[i]).contains("pm")).collect();
    assert!(
        left.contains(&0) && left.contains(&22) && !left.contains(&1) && !left.contains(&2),
        "{left:?}"
    );
    for (i, &ino) in files.iter().enumerate() {
        let seed = if i == 0 { 99 } else { ino.0 as u8 };
        assert!(contents(&volume, ino) == pattern(256 << 10, seed), "file {i}");
    }
    // Files that nobody has used since a mount are found, too.
    volume.close().unwrap();
    drop(volume);
    let low = [(Param::MigrateMin, 20), (Param::MigrateAt, 20), (Param::MigrateMax, 20)];
    let volume = rig.open_alone(&low);
    assert!(used_percent(&volume) > 20);
    volume.migrate(1).unwrap();
    assert!(used_percent(&volume) <= 20);
    volume.close().unwrap();
    assert!(rig.check(false).problems.is_empty());
}

/// Within a file that was written lately, what is older than its average goes, and what changes in
/// place gets a second chance.
#[test]
fn the_older_part_of_a_hot_file_leaves_pm() {
    let rig = Rig::tiered(16 << 20);
    let low = [(Param::MigrateMin, 20), (Param::MigrateAt, 20), (Param::MigrateMax, 20)];
    let volume = rig.open_alone(&low);
    volume.tune(Param::AwaitBytes, 0).unwrap();
    let ino = create(&volume, "file");
    put(&volume, ino, 0, &pattern(1 << 20, 1));
    a_moment_passes();
    put(&volume, ino, 1 << 20, &pattern(1 << 20, 2));
    put(&volume, ino, 5000, b"a small change in place");
    let moved = || volume.stats().counters.get(Counter::MigratedWrite);
    // A piece at a time, so as to see what goes first.
    volume.tune(Param::Group, 512 << 10).unwrap();
    volume.migrate(1).unwrap();
    let places = places(&volume, ino);
    let on_disk = |blocks: Range<usize>| places[blocks].iter().all(|place| place == "disk1");
    assert!(on_disk(0..1) && places[1] == "pm" && on_disk(2..129), "{}", runs(&volume, ino));
    assert!(places[256..].iter().all(|place| place == "pm"), "{}", runs(&volume, ino));
    assert!(moved() >= 512 << 10);
}

/// A flush takes as long as to write a hundred of them.
#[test]
fn small_cold_files_leave_pm_together() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::ColdAge, 0), (Param::AwaitBytes, 0)]);
    let data = |number: usize| pattern((number % 5 + 1) * BLOCK + number, number as u8);
    let files: Vec<Ino> = (0..300).map(|number| create(&volume, &format!("{number}"))).collect();
    for (number, &ino) in files.iter().enumerate() {
        put(&volume, ino, 0, &data(number));
    }
    // One of them is written while the others wait for the disk: what is copied then counts.
    volume.unlink(Ino::ROOT, b"7").unwrap();
    for param in [Param::MigrateMin, Param::MigrateAt, Param::MigrateMax] {
        volume.tune(param, 1).unwrap();
    }
    let before = rig.disks[0].stats();
    let _ = volume.migrate(1);
    let after = rig.disks[0].stats();
    let (writes, flushes) = (after.writes - before.writes, after.flushes - before.flushes);
    assert!(writes <= 8 && flushes <= 8, "{writes} writes, {flushes} flushes");
    for (number, &ino) in files.iter().enumerate() {
        assert!(contents(&volume, ino) == data(number), "file {number}");
        assert!(!runs(&volume, ino).contains("pm"), "file {number}: {}", runs(&volume, ino));
    }
    // Those that are colder lie before the others.
    let places: Vec<u64> = files[100..]
        .iter()
        .map(|&ino| volume.file_map(ino).unwrap().extents[0].device_offset_bytes)
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    volume.close().unwrap();
    assert!(rig.check(true).problems.is_empty());
}

#[test]
fn a_full_pm_sends_writes_to_the_cache_and_migration_makes_room_again() {
    let rig = Rig::tiered(16 << 20);
    // However long the writes take, all of it is cold.
    let volume = rig.open_alone(&[(Param::ColdAge, 0)]);
    let ino = create(&volume, "file");
    let data = pattern(12 << 20, 5);
    for (i, piece) in data.chunks(1 << 20).enumerate() {
        put(&volume, ino, (i as u64) << 20, piece);
    }
    assert!(runs(&volume, ino).ends_with("cache"), "{}", runs(&volume, ino));
    volume.fsync(ino, false).unwrap();
    volume.migrate(1).unwrap();
    assert!(used_percent(&volume) <= 50);
    let small = create(&volume, "small");
    put(&volume, small, 0, &pattern(512 << 10, 6));
    assert_eq!(runs(&volume, small), "128 pm");
    assert!(contents(&volume, ino) == data);
}

#[test]
fn large_writes_leave_the_last_room_in_pm_to_small_ones() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::Migrate, 0)]);
    // Four MiB are left, of which data may have about three.
    let first = create(&volume, "first");
    fill(&volume, first, &pattern(4 << 20, 1));
    assert_eq!(runs(&volume, first), "1024 pm");
    let tiers = |ino| -> Vec<String> {
        volume.file_map(ino).unwrap().extents.into_iter().map(|extent| extent.tier).collect()
    };
    let files = ["large", "pinned", "reserved", "small"].map(|name| create(&volume, name));
    let [large, pinned, reserved, small] = files;
    put(&volume, large, 0, &pattern(1 << 20, 2));
    assert_eq!(runs(&volume, large), "256 cache");
    assert_eq!(volume.stats().counters.get(Counter::PlacedPmFull), 1 << 20);
    // Reserved blocks hold nothing yet.
    volume.fallocate(reserved, Fallocate::AllocateKeepSize, 0, 1 << 20).unwrap();
    assert_eq!(tiers(reserved), ["disk1"]);
    let small_one = pattern(BLOCK, 5);
    put(&volume, reserved, 0, &small_one);
    assert_eq!(tiers(reserved), ["pm", "disk1"]);
    // A file pinned to PM waits for nobody.
    volume.setxattr(pinned, PIN_XATTR.as_bytes(), b"pm", XattrFlags::default(), None).unwrap();
    put(&volume, pinned, 0, &pattern(1 << 20, 3));
    assert_eq!(runs(&volume, pinned), "256 pm");
    // Small ones go there to the last block.
    let mut blocks = 0;
    while !runs(&volume, small).ends_with("cache") {
        put(&volume, small, blocks * BLOCK as u64, &small_one);
        blocks += 1;
    }
    assert!(blocks > 256, "{blocks}");
    // Where there is nothing else, large ones do, too.
    let alone = Rig { pm: Pm::anonymous(8 << 20), disks: Vec::new() };
    format(&alone.pm, &alone.disks, &FormatOptions { shards: Some(1), ..Default::default() })
        .unwrap();
    let volume = alone.open_alone(&[]);
    let (file, reserved) = (create(&volume, "file"), create(&volume, "reserved"));
    volume.fallocate(reserved, Fallocate::Allocate, 0, 3 << 20).unwrap();
    (0..3).for_each(|i| put(&volume, file, i << 20, &pattern(1 << 20, 4)));
    assert_eq!((runs(&volume, file), runs(&volume, reserved)), ("768 pm".into(), "768 pm".into()));
}

/// Its older part has moved soon, and then nothing of it is older than its mean: PM must not fill
/// with the younger part.
#[test]
fn a_log_that_grows_on_and_on_leaves_pm_as_it_grows() {
    let rig = Rig::tiered(64 << 20);
    let volume = rig.open_alone(&[]);
    let ino = create(&volume, "log");
    for record in 0..20_000_u64 {
        put(&volume, ino, record * 1000, &[7; 1000]);
        volume.fsync(ino, true).unwrap();
        if record % 500 == 499 {
            // That it has nothing more to move is an error, too.
            let _ = volume.migrate(1);
            assert!(
                used_percent(&volume) <= 60,
                "{} % after {record} records",
                used_percent(&volume)
            );
        }
    }
    assert_eq!(volume.stats().counters.get(Counter::PlacedPmFull), 0);
    assert!(runs(&volume, ino).ends_with("pm"), "{}", runs(&volume, ino));
}

#[test]
fn reads_that_lean_to_pm_move_read_dominated_files_to_the_cache_and_back() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::FlowSeconds, 2), (Param::Group, 1 << 20)]);
    let (read, written) = (create(&volume, "read"), create(&volume, "written"));
    let data = pattern(256 << 10, 5);
    put(&volume, read, 0, &data);
    put(&volume, written, 0, &data);
    volume.migrate(1).unwrap();
    let mut buf = vec![0; 256 << 10];
    for _ in 0..3 {
        for _ in 0..3 {
            volume.read(read, 0, &mut buf).unwrap();
            volume.read(written, 0, &mut buf).unwrap();
        }
        put(&volume, written, 0, b"x");
        // With nothing more to move it says so.
        let _ = volume.migrate(1);
    }
    assert_eq!((runs(&volume, read), runs(&volume, written)), ("64 disk1".into(), "64 pm".into()));
    assert_eq!(volume.stats().counters.get(Counter::MigratedRead), 256 << 10);
    let opinion = |ino| volume.file_map(ino).unwrap().opinion;
    assert!(opinion(read).read_dominated && !opinion(written).read_dominated);
    assert!(opinion(read).mean_read_age_seconds.is_some() && !opinion(read).cold);
    let cached: u64 = volume.file_map(read).unwrap().extents.iter().map(|e| e.cached_bytes).sum();
    assert_eq!(cached, 256 << 10, "it is read from DRAM from now on");
    // Now nothing is read from PM any more.
    for _ in 0..3 {
        volume.read(read, 0, &mut buf).unwrap();
        let _ = volume.migrate(1);
    }
    assert_eq!(runs(&volume, read), "64 pm");
    assert_eq!(volume.stats().counters.get(Counter::MigratedReverse), 256 << 10);
    volume.read(read, 0, &mut buf).unwrap();
    assert!(buf == data);
}

/// Small files that left PM together lie side by side, and come back with a few long reads. Damage
/// to one of them keeps no other from coming.
#[test]
fn small_files_that_are_read_come_back_together() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::FlowSeconds, 1), (Param::Settle, 0)]);
    let data = |number: usize| pattern(16 << 10, number as u8);
    let files: Vec<Ino> = (0..64)
        .map(|number| {
            let ino = create(&volume, &format!("file{number}"));
            put(&volume, ino, 0, &data(number));
            ino
        })
        .collect();
    let leave_above = |percent| {
        for param in [Param::MigrateMin, Param::MigrateAt, Param::MigrateMax] {
            volume.tune(param, percent).unwrap();
        }
    };
    leave_above(1);
    let _ = volume.migrate(1);
    assert!(files.iter().all(|&ino| runs(&volume, ino) == "4 disk1"));
    leave_above(90);
    let mut buf = vec![0; 16 << 10];
    for &ino in &files {
        volume.read(ino, 0, &mut buf).unwrap();
    }
    let at = volume.file_map(files[20]).unwrap().extents[0].device_offset_bytes;
    rig.flip(1, at + 5000);
    let before = rig.disks[0].stats().reads;
    let _ = volume.migrate(1);
    let reads = rig.disks[0].stats().reads - before;
    assert!(reads < 16, "{reads} reads for {} files", files.len());
    for (number, &ino) in files.iter().enumerate() {
        assert_eq!(runs(&volume, ino), if number == 20 { "4 disk1" } else { "4 pm" }, "{number}");
        if number != 20 {
            assert!(contents(&volume, ino) == data(number), "{number}");
        }
    }
}

/// A round takes 256 KiB here. The rest of a file that it cuts, short or long, comes with the next
/// round, in the same second.
#[test]
fn files_that_a_round_cuts_come_back_whole_in_one_second() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[
        (Param::FlowSeconds, 1),
        (Param::Settle, 0),
        (Param::Group, 64 << 10),
        (Param::MigrateMin, 90),
    ]);
    let blocks = [40, 40, 300, 40, 40];
    let files: Vec<Ino> = (0..blocks.len())
        .map(|number| {
            let ino = create(&volume, &format!("file{number}"));
            put(&volume, ino, 0, &pattern(blocks[number] * 4096, number as u8));
            volume.move_file(ino, 1).unwrap();
            ino
        })
        .collect();
    for (&ino, blocks) in files.iter().zip(blocks) {
        volume.read(ino, 0, &mut vec![0; blocks * 4096]).unwrap();
    }
    volume.pass_seconds(1);
    for shard in 0..volume.shards() {
        // It ends by saying that nothing is left.
        let _ = volume.migrate_shard(shard);
    }
    for (number, &ino) in files.iter().enumerate() {
        assert_eq!(runs(&volume, ino), format!("{} pm", blocks[number]));
        assert!(contents(&volume, ino) == pattern(blocks[number] * 4096, number as u8));
    }
}

/// A round takes 16 MiB here. The last file of the first round, which is cut, is not the one that
/// lies last on the disk.
#[test]
fn small_files_of_more_than_a_buffer_come_back_in_one_second() {
    let (pm, disks) = (Pm::anonymous(48 << 20), vec![memory_disk(48 << 20)]);
    format(&pm, &disks, &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
    let rig = Rig { pm, disks };
    let volume = rig.open_alone(&[
        (Param::FlowSeconds, 1),
        (Param::Settle, 0),
        (Param::MigrateMin, 90),
        (Param::MigrateAt, 90),
    ]);
    let mut files: Vec<Ino> = (0..450)
        .map(|number| {
            let ino = create(&volume, &format!("file{number}"));
            put(&volume, ino, 0, &pattern(40 << 10, number as u8));
            volume.move_file(ino, 1).unwrap();
            ino
        })
        .collect();
    files.rotate_left(77);
    for &ino in &files {
        volume.read(ino, 0, &mut vec![0; 40 << 10]).unwrap();
    }
    volume.pass_seconds(1);
    for shard in 0..volume.shards() {
        // It ends by saying that nothing is left.
        let _ = volume.migrate_shard(shard);
    }
    let left: Vec<String> =
        files.iter().map(|&ino| runs(&volume, ino)).filter(|runs| runs != "10 pm").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_disk_tier_that_fills_moves_cold_data_to_the_next() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[(Param::TierFull, 40)]);
    let files: Vec<Ino> = (0..8).map(|i| create(&volume, &format!("file{i}"))).collect();
    for &ino in &files {
        put(&volume, ino, 0, &pattern(1 << 20, ino.0 as u8));
        volume.move_file(ino, 1).unwrap();
        a_moment_passes();
    }
    let used = |volume: &Volume| {
        let device = &volume.status().devices[1];
        device.used_bytes * 100 / device.size_bytes
    };
    assert!(used(&volume) > 40);
    volume.migrate(1).unwrap();
    assert!(used(&volume) <= 40);
    assert_eq!(
        (runs(&volume, files[0]), runs(&volume, files[7])),
        ("256 disk2".into(), "256 disk1".into())
    );
    assert!(volume.stats().counters.get(Counter::MigratedDemoted) >= 1 << 20);
    for &ino in &files {
        assert!(contents(&volume, ino) == pattern(1 << 20, ino.0 as u8));
    }
}

#[test]
fn what_cannot_move_is_told_and_left_alone() {
    let rig = Rig::tiered(16 << 20);
    let volume =
        rig.open_alone(&[(Param::MigrateMin, 1), (Param::MigrateAt, 1), (Param::MigrateMax, 1)]);
    let error = volume.migrate(1).unwrap_err();
    assert_eq!(
        (error.errno(), error.to_string().as_str()),
        (libc::EAGAIN, "no file has data to give away in pm")
    );
    volume.tune(Param::Migrate, 0).unwrap();
    volume.migrate(1).unwrap();
    assert_eq!(volume.status().migration.unwrap().state, "off");
    let error = volume.tune(Param::MigrateAt, 101).unwrap_err();
    assert_eq!(error.errno(), libc::EINVAL);
    assert!(error.to_string().contains("migrate_at"), "{error}");
    assert_eq!(volume.params().get(Param::MigrateAt), 1);
}

/// Large writes leave room in PM to small ones only as long as they have another place to go to.
#[test]
fn no_room_is_said_to_be_missing_that_there_is() {
    let rig = Rig { pm: Pm::anonymous(8 << 20), disks: vec![memory_disk(4 << 20)] };
    format(&rig.pm, &rig.disks, &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
    let volume = rig.open_alone(&[]);
    let file = create(&volume, "file");
    let piece = pattern(1 << 20, 3);
    let mut size = 0;
    while volume
        .write(file, size, &piece, WriteOptions::default())
        .is_ok_and(|written| written == piece.len())
    {
        size += piece.len() as u64;
    }
    let used: Vec<u64> = volume.status().devices.iter().map(|device| device.used_bytes).collect();
    // Less than a write is free below the limit of 90 %, and on the disk.
    assert!(used[0] + (1 << 20) > (8 << 20) * 9 / 10, "{used:?}, {size} bytes");
    assert!(used[1] + (1 << 20) + (1 << 18) > 4 << 20, "{used:?}, {size} bytes");
    assert!(
        contents(&volume, file)[..size as usize].chunks(piece.len()).all(|chunk| chunk == piece)
    );
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}
