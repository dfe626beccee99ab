//! Scrubbing a volume in use: damage of each kind is found and named, and what is whole never
//! counts as damaged, whatever others do meanwhile.

mod common;
mod rig;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use common::{apply, op, prepare};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use rig::{DIR, FILE, Image, Rig, blocks_from, number_after, pattern, populated, put, tree};
use terrace_engine::{
    CheckOptions, CheckProblem, CheckReport, FormatOptions, Ino, OpenOptions, ScrubError,
    ScrubKind, ScrubOptions, ScrubReport, ScrubState, SetAttr, Volume, WriteOptions, check, format,
};
use terrace_layout::{
    BLOCK_BYTES, INODE_BYTES, JOURNAL_COMMITTED, JOURNAL_OFFSET, JournalRecord, JournalWord,
    SUPERBLOCK_BLOCKS, Superblock,
};
use terrace_media::{Pm, memory_disk, sim_disk_from};
use zerocopy::IntoBytes;

static PLAIN: LazyLock<Image> = LazyLock::new(|| populated(false).image());
static CHECKSUMS: LazyLock<Image> = LazyLock::new(|| populated(true).image());

const AT_FULL_SPEED: ScrubOptions = ScrubOptions { bytes_per_second: 0 };

fn scrub(volume: &Volume) -> ScrubReport {
    volume.start_scrub(AT_FULL_SPEED).unwrap();
    volume.wait_for_scrub();
    let report = volume.scrub_report();
    assert_eq!(report.status.state, ScrubState::Finished);
    assert_eq!(report.status.percent, 100);
    report
}

/// The only damage in a report.
#[track_caller]
fn the_damage(report: &ScrubReport) -> &ScrubError {
    assert_eq!((report.damage.len(), report.unlisted_errors), (1, 0), "{report:#?}");
    &report.damage[0]
}

/// A check of the same volume says the same of the damage, word by word. The check adds the byte,
/// which is a field of the scrub's report; the scrub adds what follows from the damage.
#[track_caller]
fn assert_check_agrees(report: &CheckReport, damage: &ScrubError) {
    let words = |found: &CheckProblem| found.what.split(" (at byte ").next().map(str::to_owned);
    let agrees = |found: &CheckProblem| damage.what.starts_with(&words(found).unwrap());
    assert!(report.problems.iter().any(agrees), "{damage:#?}\n{:#?}", report.problems);
}

fn verified(report: &ScrubReport, device: u16, kind: ScrubKind) -> u64 {
    let mine = |t: &&terrace_engine::ScrubTally| (t.device_index, t.kind) == (device, kind);
    report.tallies.iter().find(mine).map_or(0, |t| t.verified_bytes)
}

fn superblock(rig: &Rig) -> Superblock {
    let mut bytes = vec![0; 4096];
    rig.pm.read(0, &mut bytes);
    Superblock::decode(&bytes).unwrap().unwrap()
}

/// Device and byte of a file's first data block.
fn first_block(rig: &Rig, path: &str) -> (usize, u64) {
    let dump = rig.dump(rig.ino(path));
    let line = dump.lines().find(|line| line.contains("  file blocks 0 to ")).expect("an extent");
    let (_, place) = line.split_once(": ").unwrap();
    let device = number_after(place, "").unwrap();
    (device as usize, number_after(place, &format!("{device}:")).unwrap() * BLOCK_BYTES)
}

#[test]
fn a_sound_volume_is_verified_to_the_last_block() {
    for (image, pm_data) in [(&PLAIN, false), (&CHECKSUMS, true)] {
        let rig = image.rig();
        let volume = rig.open(90);
        assert_eq!(
            (volume.scrub_report().status.state, volume.status().scrub),
            (ScrubState::Never, None)
        );
        let report = scrub(&volume);
        assert_eq!((&report.damage[..], report.status.errors), (&[][..], 0));
        let on_disks: u64 = [1, 2].iter().map(|&d| verified(&report, d, ScrubKind::Data)).sum();
        assert_eq!(on_disks, (1 + 10 + 768) * BLOCK_BYTES);
        let checksums: u64 =
            [1, 2].iter().map(|&d| verified(&report, d, ScrubKind::Checksums)).sum();
        assert_eq!(checksums, BLOCK_BYTES);
        // `small`, `deep` and `long`.
        let in_pm = if pm_data { (2 + 5 + 100) * BLOCK_BYTES } else { 0 };
        assert_eq!(verified(&report, 0, ScrubKind::Data), in_pm);
        for device in 0..3 {
            assert_eq!(
                verified(&report, device, ScrubKind::Superblock),
                SUPERBLOCK_BLOCKS * BLOCK_BYTES
            );
            assert!(verified(&report, device, ScrubKind::FreeSpace) > 0);
        }
        assert_eq!(verified(&report, 0, ScrubKind::Journal), 2 * BLOCK_BYTES);
        assert!(verified(&report, 0, ScrubKind::InodeTable) > 11 * INODE_BYTES);
        assert!(verified(&report, 0, ScrubKind::Log) > 2 * BLOCK_BYTES);
        assert_eq!(verified(&report, 0, ScrubKind::Attribute), 3 * BLOCK_BYTES);
        assert_eq!(
            report.status.passed_bytes, report.status.total_bytes,
            "everything in use was met"
        );
        assert_eq!(volume.status().scrub, Some(report.status));
    }
}

#[test]
fn damaged_superblock_copies_are_written_anew() {
    for device in 0..3 {
        for copy in 0..2 {
            let rig = PLAIN.rig();
            let volume = rig.open(90);
            let before = rig.image();
            rig.flip(device, copy * BLOCK_BYTES + 130);
            let report = scrub(&volume);
            let damage = the_damage(&report);
            assert_eq!(
                (damage.kind, usize::from(damage.device_index)),
                (ScrubKind::Superblock, device)
            );
            assert_eq!(damage.offset_bytes, copy * BLOCK_BYTES);
            assert!(
                damage.repaired && damage.what.contains("checksum does not match"),
                "{damage:?}"
            );
            assert_eq!((report.status.errors, report.status.repaired), (1, 1));
            assert!(rig.image() == before, "it is as it was");
            assert_eq!(scrub(&volume).status.errors, 0);
        }
    }
}

#[test]
fn a_device_that_lost_both_copies_gets_them_from_memory() {
    for device in 0..3 {
        let rig = PLAIN.rig();
        let expected = tree(&rig.image().rig().open(90));
        let volume = rig.open(90);
        rig.flip(device, 130);
        rig.flip(device, BLOCK_BYTES);
        let report = scrub(&volume);
        assert_eq!((report.status.errors, report.status.repaired), (2, 2));
        volume.close().unwrap();
        drop(volume);
        assert_eq!(rig.check(false).problems.len(), 0);
        assert_eq!(tree(&rig.open(90)), expected);
    }
}

#[test]
fn journals_heads_of_shards_and_tables() {
    let rig = PLAIN.rig();
    let volume = rig.open(90);
    let shard = (superblock(&rig).shards_start + 1) * BLOCK_BYTES;
    let old = JournalRecord::new(1, &[JournalWord { at: 1 << 20, value: 3 }]);
    assert_eq!(old.state, JOURNAL_COMMITTED);
    rig.pm.write(shard + JOURNAL_OFFSET, old.as_bytes());
    let damage = the_damage(&scrub(&volume)).clone();
    assert_eq!(
        (damage.kind, damage.offset_bytes, damage.repaired),
        (ScrubKind::Journal, shard, true)
    );
    assert_eq!(scrub(&volume).status.errors, 0);

    rig.flip(0, shard + 12);
    let report = scrub(&volume);
    assert!(report.damage.iter().any(|d| (d.kind, d.offset_bytes) == (ScrubKind::Journal, shard)));
    rig.flip(0, shard + 12);

    // The chunk's header stands before the root directory's record.
    rig.flip(0, rig.record_at(Ino::ROOT) - INODE_BYTES + 20);
    let damage = the_damage(&scrub(&volume)).clone();
    assert_eq!(damage.kind, ScrubKind::InodeTable);
    assert!(damage.what.contains("chunk at index 0 is damaged"), "{damage:?}");
}

#[test]
fn bitmaps_of_free_space_that_will_be_needed() {
    for device in 0..3 {
        let rig = PLAIN.rig();
        let entry = superblock(&rig).devices()[device];
        let bitmap = (entry.checkpoint_start + entry.summary_blocks()) * BLOCK_BYTES;
        rig.flip(device, bitmap + 5);
        let volume = rig.open(90);
        let report = scrub(&volume);
        let damage = the_damage(&report);
        assert_eq!((damage.kind, usize::from(damage.device_index)), (ScrubKind::FreeSpace, device));
        assert_eq!(damage.offset_bytes, bitmap);
        volume.close().unwrap();
        // The next mount finds free space from the logs; the one after that has a bitmap again.
        rig.open(90).close().unwrap();
        assert_eq!(rig.check(false).problems.len(), 0);
    }
}

#[test]
fn logs_records_and_attributes_of_inodes_in_use_or_not() {
    let plain = PLAIN.rig();
    let (small, long, dir) = (plain.ino("small"), plain.ino("long"), plain.ino("dir"));
    let value = number_after(&plain.dump(small), "9000 bytes at block 0:").unwrap() * BLOCK_BYTES;
    let page = plain.entry_at(long, "write") / BLOCK_BYTES * BLOCK_BYTES;
    // Where, whose, and what the scrub says of it if the inode has been read before.
    let cases = [
        (plain.entry_at(small, "write") + 16, small, "/small", ScrubKind::Log, Some("log entry")),
        (plain.record_at(small) + 56, small, "/small", ScrubKind::Log, Some("log tail")),
        (plain.record_at(long) + 48, long, "/long", ScrubKind::Log, Some("block pointer")),
        (page + 9, long, "/long", ScrubKind::Log, Some("log page")),
        (plain.entry_at(long, "write") + 60, long, "/long", ScrubKind::Log, Some("log entry")),
        (plain.entry_at(dir, "add name") + 42, dir, "/dir", ScrubKind::Log, Some("log entry")),
        (plain.record_at(small) + 20, small, "/small", ScrubKind::InodeTable, None),
        (value + 8500, small, "/small", ScrubKind::Attribute, Some("user.long")),
    ];
    for (at, ino, path, kind, what) in cases {
        for in_use in [false, true] {
            let rig = PLAIN.rig();
            let volume = rig.open(90);
            if in_use {
                tree(&volume);
            }
            rig.flip(0, at);
            let damage = the_damage(&scrub(&volume)).clone();
            assert_eq!(
                (damage.kind, damage.ino, damage.repaired),
                (kind, Some(ino.0), false),
                "{damage:?}"
            );
            assert_eq!(damage.path.as_deref(), Some(path));
            let place = damage.offset_bytes..damage.offset_bytes + damage.len_bytes;
            assert!(place.contains(&at) || !in_use, "{at}: {damage:?}");
            assert!(damage.what.contains(what.unwrap_or("record is damaged")), "{damage:?}");
            assert_check_agrees(&rig.image().rig().check(false), &damage);
        }
    }
}

#[test]
fn data_with_checksums_of_every_form() {
    let disk_files = [("dir/one", 0), ("dir/some", 7), ("dir/big", 700)];
    let cases = disk_files
        .map(|file| (&PLAIN, file))
        .into_iter()
        .chain([(&CHECKSUMS, ("dir/sub/deep", 3))]);
    for (image, (path, block)) in cases {
        let rig = image.rig();
        let (device, start) = first_block(&rig, path);
        let volume = rig.open(90);
        // A page in the cache is no excuse.
        tree(&volume);
        rig.flip(device, start + block * BLOCK_BYTES + 100);
        let report = scrub(&volume);
        let damage = the_damage(&report);
        assert_eq!((damage.kind, usize::from(damage.device_index)), (ScrubKind::Data, device));
        assert_eq!(
            (damage.offset_bytes, damage.len_bytes),
            (start + block * BLOCK_BYTES, BLOCK_BYTES)
        );
        assert_eq!(damage.file_offset_bytes, Some(block * BLOCK_BYTES));
        assert_eq!(damage.path, Some(format!("/{path}")));
        assert!(damage.what.contains("does not match"), "{damage:?}");
    }
}

#[test]
fn adjacent_blocks_are_listed_together_and_counted_apart() {
    let rig = PLAIN.rig();
    let (device, start) = first_block(&rig, "dir/some");
    for block in [2, 3, 4, 7] {
        rig.flip(device, start + block * BLOCK_BYTES);
    }
    let report = scrub(&rig.open(90));
    assert_eq!((report.status.errors, report.damage.len()), (4, 2));
    assert_eq!(
        (report.damage[0].file_offset_bytes, report.damage[0].len_bytes),
        (Some(8192), 3 * BLOCK_BYTES)
    );
}

#[test]
fn a_checksum_block_is_named_once_with_its_file() {
    let rig = PLAIN.rig();
    let dump = rig.dump(rig.ino("dir/big"));
    let (device, block) = blocks_from(&dump).expect("a run with checksum blocks");
    let at = block * BLOCK_BYTES;
    rig.flip(device as usize, at + 12);
    let report = scrub(&rig.open(90));
    let damage = the_damage(&report);
    assert_eq!((damage.kind, u64::from(damage.device_index)), (ScrubKind::Checksums, device));
    assert_eq!((damage.offset_bytes, damage.path.as_deref()), (at, Some("/dir/big")));
}

#[test]
fn a_block_that_cannot_be_read_is_named_and_the_rest_is_verified() {
    let rig = PLAIN.rig();
    let (device, start) = first_block(&rig, "dir/some");
    let (disk, sim) = sim_disk_from(rig.image().0[device].clone());
    let mut disks = rig.disks.clone();
    disks[device - 1] = disk;
    let rig = Rig { pm: rig.pm, disks };
    let volume = rig.open(90);
    let bad = start + 5 * BLOCK_BYTES;
    sim.fail_reads(bad..bad + 4096);
    let report = scrub(&volume);
    let damage = the_damage(&report);
    assert_eq!(
        (damage.kind, damage.offset_bytes, damage.file_offset_bytes),
        (ScrubKind::Data, bad, Some(20480))
    );
    assert!(damage.what.contains("cannot be read"), "{damage:?}");
    let on_disks: u64 = [1, 2].iter().map(|&d| verified(&report, d, ScrubKind::Data)).sum();
    assert_eq!(on_disks, (1 + 9 + 768) * BLOCK_BYTES);
    assert_eq!(volume.status().read_only, None, "a scrub takes nothing out of use");
}

#[test]
fn pm_that_cannot_be_read_is_named_with_the_file() {
    // Data without a checksum, and a page of a log.
    let plain = PLAIN.rig();
    let (_, data) = first_block(&plain, "dir/sub/deep");
    let page = plain.entry_at(plain.ino("long"), "write") / BLOCK_BYTES * BLOCK_BYTES;
    for (at, kind, path) in
        [(data + BLOCK_BYTES, ScrubKind::Data, "/dir/sub/deep"), (page, ScrubKind::Log, "/long")]
    {
        let rig = PLAIN.rig();
        let volume = rig.open(90);
        tree(&volume);
        rig.pm.fail_page(at);
        let report = scrub(&volume);
        let damage = the_damage(&report);
        assert_eq!(
            (damage.kind, damage.offset_bytes, damage.path.as_deref()),
            (kind, at, Some(path))
        );
        assert!(damage.what.contains("cannot be read"), "{damage:?}");
    }
}

#[test]
fn a_read_only_volume_is_scrubbed_and_left_as_it_is() {
    let rig = PLAIN.rig();
    let (device, start) = first_block(&rig, "dir/big");
    rig.flip(device, start + 55 * BLOCK_BYTES);
    rig.flip(1, 130);
    let disks = |rig: &Rig| rig.image().0[1..].to_vec();
    let before = disks(&rig);
    let options = OpenOptions { read_only: true, ..Default::default() };
    let volume = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap();
    let report = scrub(&volume);
    let found: Vec<_> =
        report.damage.iter().map(|d| (d.kind, d.offset_bytes, d.repaired)).collect();
    let data = (ScrubKind::Data, start + 55 * BLOCK_BYTES, false);
    assert_eq!(found, [(ScrubKind::Superblock, 0, false), data]);
    volume.close().unwrap();
    assert!(disks(&rig) == before, "nothing was written");
}

#[test]
fn a_rate_is_kept() {
    let rig = PLAIN.rig();
    let volume = rig.open(90);
    let rate = 8 << 20;
    volume.start_scrub(ScrubOptions { bytes_per_second: rate }).unwrap();
    volume.wait_for_scrub();
    let status = volume.scrub_report().status;
    assert_eq!((status.state, status.bytes_per_second), (ScrubState::Finished, rate));
    // What the pace lets through at any moment, in bytes read; a machine that is slow only reads
    // less.
    let allowed = rate * (status.elapsed_ms + 1 + 110) / 1000 + (1 << 20);
    assert!(
        status.verified_bytes <= allowed,
        "{} bytes in {} ms",
        status.verified_bytes,
        status.elapsed_ms
    );
    assert!(status.verified_bytes > 779 * BLOCK_BYTES);
}

#[test]
fn a_scrub_can_be_cancelled_and_started_again() {
    let rig = PLAIN.rig();
    let volume = rig.open(90);
    assert_eq!(volume.cancel_scrub().unwrap_err().errno(), libc::ESRCH);
    // At a byte per second, it rests for hours before it has read anything.
    let crawl = ScrubOptions { bytes_per_second: 1 };
    volume.start_scrub(crawl).unwrap();
    assert_eq!(volume.start_scrub(AT_FULL_SPEED).unwrap_err().errno(), libc::EBUSY);
    assert_eq!(volume.status().scrub.unwrap().state, ScrubState::Running);
    volume.cancel_scrub().unwrap();
    volume.wait_for_scrub();
    let status = volume.scrub_report().status;
    assert_eq!(
        (status.state, status.verified_bytes, status.percent),
        (ScrubState::Cancelled, 0, 0)
    );
    assert!(status.ended_unix_seconds >= Some(status.started_unix_seconds));
    assert_eq!(volume.cancel_scrub().unwrap_err().errno(), libc::ESRCH);
    assert_eq!(scrub(&volume).status.errors, 0);

    volume.start_scrub(crawl).unwrap();
    volume.close().unwrap();
    assert_eq!(volume.scrub_report().status.state, ScrubState::Unmounted);
    assert_eq!(volume.start_scrub(AT_FULL_SPEED).unwrap_err().errno(), libc::ESHUTDOWN);
    drop(volume);
    assert_eq!(rig.check(false).problems.len(), 0);
    assert_eq!(
        rig.open(90).scrub_report().status.state,
        ScrubState::Never,
        "a mount does not go on with it"
    );
}

/// A volume on which much happens while it is scrubbed over and over.
struct Busy {
    pm: Arc<Pm>,
    disks: Vec<Arc<dyn terrace_media::Disk>>,
    volume: Arc<Volume>,
}

impl Busy {
    fn new(pm_full_percent: u8, pm_data_checksums: bool) -> Busy {
        let (pm, disks) =
            (Pm::anonymous(8 << 20), vec![memory_disk(64 << 20), memory_disk(64 << 20)]);
        let options = FormatOptions { shards: Some(2), pm_data_checksums, ..Default::default() };
        format(&pm, &disks, &options).unwrap();
        // Dirty pages are due at once: write-back never rests.
        let options = OpenOptions {
            cache_bytes: 4 << 20,
            pm_full_percent,
            writeback_seconds: 0,
            ..Default::default()
        };
        let volume = Volume::open(pm.clone(), disks.clone(), options, &|_, _, _| {}).unwrap();
        Busy { pm, disks, volume }
    }

    /// Scrubs until `work` is done, and once more.
    fn scrub_during(&self, work: &(dyn Fn(&Volume, usize) + Sync)) -> Vec<ScrubReport> {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let scrubs = scope.spawn(|| {
                let mut reports = Vec::new();
                loop {
                    let last = done.load(Ordering::Acquire);
                    reports.push(scrub(&self.volume));
                    if last {
                        return reports;
                    }
                }
            });
            let workers: Vec<_> =
                (0..2).map(|i| scope.spawn(move || work(&self.volume, i))).collect();
            let worked: Vec<_> =
                workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            done.store(true, Ordering::Release);
            worked.into_iter().for_each(|result| result.unwrap());
            scrubs.join().unwrap()
        })
    }

    fn end(self) {
        self.volume.close().unwrap();
        let report = check(
            &self.pm,
            &self.disks,
            &CheckOptions { repair: false, data: true, ..CheckOptions::default() },
            &|_, _, _| {},
        )
        .unwrap();
        assert_eq!(report.problems.len(), 0, "{:#?}", report.problems);
    }
}

/// Overwrites, appends, truncates, punches and removes: blocks go from file to file all the time.
fn churn(volume: &Volume, worker: usize) {
    let dir = volume.create(Ino::ROOT, format!("w{worker}").as_bytes(), &DIR).unwrap().ino;
    for round in 0..60u64 {
        let name = format!("f{}", round % 3);
        let ino = match volume.lookup(dir, name.as_bytes()) {
            Ok(attr) => attr.ino,
            Err(_) => volume.create(dir, name.as_bytes(), &FILE).unwrap().ino,
        };
        let len = if round % 5 == 0 { 1 << 20 } else { 150_000 };
        put(volume, ino, (round % 7) * 60_000, &pattern(len, round as u8));
        for i in 0..20 {
            put(volume, ino, i * 9_000, &pattern(2_000, i as u8));
        }
        volume.fsync(ino, false).unwrap();
        let append = WriteOptions { append: true, ..Default::default() };
        volume.write(ino, 0, &pattern(70_000, 9), append).unwrap();
        match round % 4 {
            0 => drop(
                volume.setattr(ino, &SetAttr { size: Some(33_333), ..Default::default() }).unwrap(),
            ),
            1 => {
                volume.fallocate(ino, terrace_engine::Fallocate::PunchHole, 20_000, 90_000).unwrap()
            }
            2 => volume.unlink(dir, name.as_bytes()).unwrap(),
            _ => volume
                .setxattr(ino, b"user.long", &pattern(9000, 1), Default::default(), None)
                .unwrap(),
        }
        volume.forget(ino, 1);
    }
}

/// Names come and go, too.
fn storm(volume: &Volume, _worker: usize) {
    let mut runner = TestRunner::default();
    let strategy = op(60_000);
    for _ in 0..1500 {
        // Two workers meet at the same names: refusals are fair.
        let _ = apply(volume, &strategy.new_tree(&mut runner).unwrap().current());
    }
}

#[test]
fn what_is_whole_is_never_called_damaged() {
    for (pm_full_percent, pm_data_checksums) in [(90, false), (0, false), (30, true)] {
        let busy = Busy::new(pm_full_percent, pm_data_checksums);
        prepare(&busy.volume);
        for work in [&churn as &(dyn Fn(&Volume, usize) + Sync), &storm] {
            for report in busy.scrub_during(work) {
                assert_eq!((&report.damage[..], report.status.errors), (&[][..], 0), "{report:#?}");
            }
        }
        busy.end();
    }
}

#[test]
fn damage_is_found_in_a_file_that_is_being_written() {
    let busy = Busy::new(0, false);
    let ino = busy.volume.create(Ino::ROOT, b"busy", &FILE).unwrap().ino;
    // The pattern repeats: the number of each block tells it from the others.
    let mut data = pattern(2 << 20, 1);
    for (number, block) in (0_u64..).zip(data.chunks_mut(4096)) {
        block[..8].copy_from_slice(&number.to_le_bytes());
    }
    put(&busy.volume, ino, 0, &data);
    busy.volume.fsync(ino, false).unwrap();
    // Write-back that never rests may have cut the file in two.
    let extents = busy.volume.file_map(ino).unwrap().extents;
    let extent = extents
        .iter()
        .rfind(|extent| extent.offset_bytes <= 300 * BLOCK_BYTES)
        .expect("it is written");
    let mut block = terrace_media::AlignedBuf::new(4096);
    let at = extent.device_offset_bytes + 300 * BLOCK_BYTES - extent.offset_bytes;
    let good = data[300 * 4096..301 * 4096].to_vec();
    let disk = busy.disks.iter().find(|disk| {
        disk.read_at(at, &mut block).unwrap();
        block[..] == good[..]
    });
    block[17] ^= 1;
    disk.expect("the block is on one of them").write_at(at, &block).unwrap();
    // The rest of the file changes all the time, and its log is compacted.
    let reports = busy.scrub_during(&|volume, worker| {
        for i in 0..150u64 {
            let half = 400 + 50 * worker as u64;
            put(volume, ino, (half + i % 40) * BLOCK_BYTES, &pattern(5_000, i as u8));
            put(volume, ino, (i % 200) * BLOCK_BYTES, &pattern(5_000, i as u8));
            volume.fsync(ino, false).unwrap();
        }
    });
    for report in reports {
        let damage = the_damage(&report);
        assert_eq!(
            (damage.kind, damage.offset_bytes, damage.path.as_deref()),
            (ScrubKind::Data, at, Some("/busy"))
        );
        assert_eq!(
            (damage.file_offset_bytes, damage.len_bytes),
            (Some(300 * BLOCK_BYTES), BLOCK_BYTES)
        );
    }
}
