//! One file, several threads: reads see whole writes and the newest ones, nothing acknowledged is
//! lost, promises of disk space are exact.

use terrace_store::planted::Bug;
use terrace_store::sync::thread;

use super::{
    BLOCK, FILE, Rig, Tier, contents, errno, finds, holds, make, must_survive, put, together,
    truncate, uniform,
};
use crate::{Fallocate, Ino, Volume, WriteOptions};

/// When all is written back, nothing is promised to anybody.
fn promises_must_be_exact(volume: &Volume) {
    volume.sync().unwrap();
    let parts = &volume.parts;
    let free: u64 =
        parts.store.space.members.all().iter().map(|member| member.alloc.free_blocks()).sum();
    assert_eq!((parts.store.space.disk_available(), parts.cache.dirty_pages()), (free, 0));
}

/// Overwrites of the same bytes, large and small, until the log is compacted, beside readers.
fn overwrites_in_pm() {
    let rig = Rig::new();
    let volume = rig.open(Tier::Pm);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[1; BLOCK + 100]);
    // Almost enough dead entries for a compaction.
    (0..120).for_each(|_| put(&volume, file, 0, &[1; 100]));
    let write = |byte: u8| {
        (0..3).for_each(|_| put(&volume, file, 0, &[byte; 100]));
        put(&volume, file, 50, &[byte; BLOCK]);
    };
    let read = || {
        for _ in 0..3 {
            let bytes = contents(&volume, file);
            assert_eq!(bytes.len(), BLOCK + 100);
            uniform(&bytes[..50]);
            uniform(&bytes[100..50 + BLOCK]);
        }
    };
    together! {
        { write(2) }
        { write(3) }
        { read() }
        { volume.fsync(file, false).unwrap(); read() }
    };
    must_survive(&rig, volume, Tier::Pm, "file");
}

/// Records appended by several threads all arrive, whole.
fn appends(tier: Tier, len: usize) {
    let rig = Rig::new();
    let volume = rig.open(tier);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    let append = |byte: u8| {
        for _ in 0..3 {
            let options = WriteOptions { append: true, ..Default::default() };
            volume.write(file, 0, &vec![byte; len], options).unwrap();
        }
    };
    together! {
        { append(1) }
        { append(2) }
        { volume.fsync(file, true).unwrap(); append(3); volume.fsync(file, false).unwrap() }
        {
            for _ in 0..2 {
                let bytes = contents(&volume, file);
                assert!(bytes.len().is_multiple_of(len));
                bytes.chunks(len).for_each(|record| assert_ne!(uniform(record), 0));
            }
        }
    };
    let bytes = contents(&volume, file);
    let mut counts = [0; 4];
    bytes.chunks(len).for_each(|record| counts[usize::from(uniform(record))] += 1);
    assert_eq!(counts, [0, 3, 3, 3]);
    promises_must_be_exact(&volume);
    must_survive(&rig, volume, tier, "file");
}

fn appends_in_pm() {
    appends(Tier::Pm, 1500);
}

fn appends_in_cache() {
    appends(Tier::Disk(16), 1500);
}

/// Each thread has a block of its own and reads what it wrote, with fewer pages in the cache than
/// blocks.
fn newest_version_wins() {
    let rig = Rig::new();
    let tier = Tier::Disk(4);
    let volume = rig.open(tier);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[9; 6 * BLOCK]);
    let own = |block: usize| {
        for byte in 1..4 {
            put(&volume, file, (block * BLOCK) as u64, &[byte; BLOCK]);
            let mut page = [0; BLOCK];
            volume.read(file, ((block + 3) * BLOCK) as u64, &mut page).unwrap();
            assert_eq!(uniform(&page), 9);
            volume.read(file, (block * BLOCK) as u64, &mut page).unwrap();
            assert_eq!(uniform(&page), byte);
        }
    };
    together! {
        { own(0) }
        { own(1) }
        { volume.fsync(file, true).unwrap(); own(2) }
    };
    let bytes = contents(&volume, file);
    assert_eq!(bytes.chunks(BLOCK).map(uniform).collect::<Vec<_>>(), [3, 3, 3, 9, 9, 9]);
    promises_must_be_exact(&volume);
    must_survive(&rig, volume, tier, "file");
}

/// Truncations and writes of three blocks: what a truncation cut off must never come back.
fn truncations(tier: Tier) {
    let rig = Rig::new();
    let volume = rig.open(tier);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[1; 3 * BLOCK]);
    let read = || {
        let bytes = contents(&volume, file);
        assert!([BLOCK, 3 * BLOCK].contains(&bytes.len()), "{} bytes", bytes.len());
        let zeros = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        assert!([BLOCK, 3 * BLOCK].contains(&zeros), "zeros from {zeros} on");
        uniform(&bytes[..zeros]);
        assert!(bytes[zeros..].iter().all(|&b| b == 0), "what was cut off is back");
    };
    together! {
        { (2..5).for_each(|byte| put(&volume, file, 0, &[byte; 3 * BLOCK])) }
        {
            truncate(&volume, file, BLOCK);
            read();
            truncate(&volume, file, 3 * BLOCK);
            truncate(&volume, file, BLOCK);
            truncate(&volume, file, 3 * BLOCK);
        }
        { read(); volume.fsync(file, false).unwrap(); read() }
    };
    read();
    promises_must_be_exact(&volume);
    must_survive(&rig, volume, tier, "file");
}

fn truncations_in_pm() {
    truncations(Tier::Pm);
}

fn truncations_in_cache() {
    truncations(Tier::Disk(16));
}

/// Holes, reservations and copies meet writeback.
fn holes_in_cache() {
    let rig = Rig::new();
    let tier = Tier::Disk(16);
    let volume = rig.open(tier);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    let other = make(&volume, Ino::ROOT, "other", &FILE);
    put(&volume, file, 0, &[1; 3 * BLOCK]);
    let (block, end) = (BLOCK as u64, 3 * BLOCK as u64);
    together! {
        { put(&volume, file, block, &[2; BLOCK]); volume.fsync(file, true).unwrap() }
        { volume.fallocate(file, Fallocate::PunchHole, block, block).unwrap() }
        { volume.fallocate(file, Fallocate::Allocate, end, 2 * block).unwrap() }
        { volume.copy_range(file, 0, other, 0, end).unwrap(); volume.sync().unwrap() }
    };
    let bytes = contents(&volume, file);
    assert_eq!(bytes.len(), 5 * BLOCK);
    let blocks: Vec<u8> = bytes.chunks(BLOCK).map(uniform).collect();
    assert!([[1, 0, 1, 0, 0], [1, 2, 1, 0, 0]].iter().any(|wanted| blocks == wanted), "{blocks:?}");
    let blocks: Vec<u8> = contents(&volume, other).chunks(BLOCK).map(uniform).collect();
    assert!([[1, 0, 1], [1, 1, 1], [1, 2, 1]].iter().any(|wanted| blocks == wanted), "{blocks:?}");
    promises_must_be_exact(&volume);
    must_survive(&rig, volume, tier, "file");
}

/// Files are written back with one flush while they are written, cut and removed. After its sync, a
/// thread finds nothing dirty that it wrote before, even if another thread wrote it back.
fn files_together() {
    let rig = Rig::new();
    let tier = Tier::Disk(16);
    let volume = rig.open(tier);
    let [a, b, c] = ["a", "b", "c"].map(|name| make(&volume, Ino::ROOT, name, &FILE));
    put(&volume, c, 0, &[3; 2 * BLOCK]);
    let write_and_sync = |file, byte| {
        put(&volume, file, 0, &[byte; 2 * BLOCK]);
        volume.sync().unwrap();
        assert!(!volume.parts.inodes.get(file).unwrap().pages.has_dirty(), "not on its disk");
    };
    together! {
        { write_and_sync(a, 4); put(&volume, a, 0, &[6; BLOCK]) }
        { write_and_sync(b, 5); write_and_sync(b, 7) }
        {
            truncate(&volume, c, BLOCK);
            volume.unlink(Ino::ROOT, b"c").unwrap();
            volume.forget(c, 1);
        }
    };
    assert!(contents(&volume, a) == [[6; BLOCK], [4; BLOCK]].concat());
    assert!(contents(&volume, b) == [7; 2 * BLOCK]);
    promises_must_be_exact(&volume);
    must_survive(&rig, volume, tier, "a");
    let volume = rig.open(tier);
    must_survive(&rig, volume, tier, "b");
}

/// A file grows between the moments when it is found to be short and when it is written back with
/// others: what was dirty before is on its disk nevertheless.
fn files_that_grow() {
    let rig = Rig::new();
    let tier = Tier::Disk(16);
    let volume = rig.open(tier);
    let [a, b] = ["a", "b"].map(|name| make(&volume, Ino::ROOT, name, &FILE));
    put(&volume, b, 0, &[1; BLOCK]);
    let inode = volume.parts.inodes.get(a).unwrap();
    together! {
        {
            put(&volume, a, 7 * BLOCK as u64, &[2; BLOCK]);
            volume.sync().unwrap();
            assert!(!volume.parts.cache.is_dirty(&inode.pages, 7, 8), "not on its disk");
        }
        { put(&volume, a, 0, &[3; 6 * BLOCK]) }
        { put(&volume, b, 0, &[4; BLOCK]); volume.sync().unwrap() }
    };
    drop(inode);
    promises_must_be_exact(&volume);
    must_survive(&rig, volume, tier, "a");
}

/// Writeback ends just when something is written: that must not be forgotten.
fn last_write() {
    let rig = Rig::new();
    let tier = Tier::Disk(16);
    let volume = rig.open(tier);
    let file = make(&volume, Ino::ROOT, "file", &FILE);
    put(&volume, file, 0, &[1; BLOCK]);
    let write = |byte: u8| {
        put(&volume, file, 0, &[byte; BLOCK]);
        let inode = volume.parts.inodes.get(file).unwrap();
        let _inner = inode.inner.read();
        let listed = volume.parts.dirty.shards[volume.parts.store.shard_index(file)]
            .dirty
            .lock()
            .contains_key(&file.0);
        assert!(listed || !inode.pages.has_dirty(), "nobody will write back what is dirty");
    };
    together! {
        { (2..6).for_each(write) }
        { (0..4).for_each(|_| volume.fsync(file, true).unwrap()) }
    };
    must_survive(&rig, volume, tier, "file");
}

/// More is written than the disk holds: whoever is told that his data arrived finds it.
fn a_full_disk() {
    let rig = Rig::new();
    let tier = Tier::Disk(8);
    let volume = rig.open(tier);
    let filler = make(&volume, Ino::ROOT, "filler", &FILE);
    let (_, room) = volume.parts.store.space.device_space(1);
    let most = (room - 40) * BLOCK as u64;
    volume.fallocate(filler, Fallocate::Allocate, 0, most).unwrap();
    let fill = |name: &str| {
        let file = make(&volume, Ino::ROOT, name, &FILE);
        let written = (0..12).take_while(|i| {
            let result = volume.write(file, i * BLOCK as u64, &[7; BLOCK], WriteOptions::default());
            assert!(matches!(errno(result), Ok(BLOCK) | Err(libc::ENOSPC)));
            result_len(&volume, file) == (i + 1) * BLOCK as u64
        });
        written.count()
    };
    let mut written = [0; 2];
    let [a, b] = &mut written;
    together! {
        { *a = fill("a") }
        { *b = fill("b") }
        { let _ = errno(volume.fallocate(filler, Fallocate::Allocate, most, 20 * BLOCK as u64)); }
    };
    promises_must_be_exact(&volume);
    for (name, blocks) in ["a", "b"].into_iter().zip(written) {
        let ino = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
        assert!(contents(&volume, ino) == vec![7; blocks * BLOCK]);
    }
    rig.close(volume);
}

fn result_len(volume: &Volume, ino: Ino) -> u64 {
    volume.getattr(ino).unwrap().size
}

#[test]
fn overwrites_in_pm_are_whole_and_logs_are_compacted() {
    holds(300, overwrites_in_pm);
}

#[test]
fn appends_in_pm_all_arrive() {
    holds(400, appends_in_pm);
}

#[test]
fn an_append_to_where_the_file_ended_is_found() {
    finds(Bug::AppendAtOldSize, 400, appends_in_pm);
}

#[test]
fn appends_in_the_cache_all_arrive() {
    holds(400, appends_in_cache);
}

#[test]
fn the_newest_version_is_read() {
    holds(400, newest_version_wins);
}

#[test]
fn truncated_bytes_in_pm_do_not_come_back() {
    holds(300, truncations_in_pm);
}

#[test]
fn truncated_bytes_in_the_cache_do_not_come_back() {
    holds(600, truncations_in_cache);
}

#[test]
fn a_commit_of_overtaken_pages_is_found() {
    finds(Bug::CommitOvertaken, 600, truncations_in_cache);
}

#[test]
fn holes_meet_writeback() {
    holds(400, holes_in_cache);
}

#[test]
fn files_that_are_written_back_together_keep_their_own() {
    holds(400, files_together);
}

#[test]
fn a_file_that_others_still_write_back_is_found() {
    finds(Bug::BusyFileSkipped, 400, files_together);
}

#[test]
fn a_file_that_grows_is_written_back_whole() {
    holds(400, files_that_grow);
}

#[test]
fn pages_that_are_left_out_are_found() {
    finds(Bug::JoinedCut, 4000, files_that_grow);
}

#[test]
fn a_full_disk_loses_nothing_acknowledged() {
    holds(300, a_full_disk);
}

#[test]
fn the_last_write_is_not_forgotten() {
    holds(400, last_write);
}

#[test]
fn a_dirty_file_that_leaves_its_list_is_found() {
    finds(Bug::DirtyFlagRead, 6000, last_write);
}
