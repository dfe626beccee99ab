//! Disks that fail while logs move to them, and archives that cannot be read or are not what they
//! were.

use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex};

use terrace_engine::{
    Fallocate, FsError, Ino, OpenOptions, ScrubError, ScrubKind, ScrubOptions, Volume,
    WriteOptions, restore, save, with_advice,
};
use terrace_layout::BLOCK_BYTES;
use terrace_media::{DiskFault, DiskSim, IoOp, Pm, sim_disk_from};

use crate::rig::{FILE, Image, Rig, blocks_from, contents, make, number_after, pattern, put};
use crate::world::{Inodes, LOGS_ONLY, Said, build, given, parts, said, small};

/// A volume as it was left, and what it says.
pub struct Left {
    pub image: Image,
    pub inodes: Inodes,
    pub said: Said,
}

/// Its logs are in PM; it was unmounted.
pub static IN_PM: LazyLock<Left> = LazyLock::new(|| {
    let rig = small();
    let volume = rig.open_alone(&[]);
    let inodes = build(&volume);
    let said = said(&volume, &inodes);
    volume.close().unwrap();
    Left { image: rig.image(), inodes, said }
});

/// The logs are on the first disk.
fn archived(crashed: bool) -> Left {
    let rig = IN_PM.image.rig();
    let volume = rig.open_alone(LOGS_ONLY);
    let said = said(&volume, &IN_PM.inodes);
    volume.sync().unwrap();
    migrate(&volume);
    for ino in IN_PM.inodes.on_disk() {
        assert_eq!((parts(&rig, ino).0, archive_of(&rig, ino).0), (0, 1));
    }
    match crashed {
        true => volume.abandon(),
        false => volume.close().unwrap(),
    }
    Left { image: rig.image(), inodes: IN_PM.inodes, said }
}

pub static ARCHIVED: LazyLock<Left> = LazyLock::new(|| archived(false));
static CRASHED: LazyLock<Left> = LazyLock::new(|| archived(true));

/// Moves all logs that can be; what each shard says in the end.
pub fn migrate(volume: &Volume) -> Vec<String> {
    (0..volume.shards()).map(|shard| volume.migrate_shard(shard).unwrap_err().to_string()).collect()
}

/// The same devices, with disks that fail as they are told.
pub fn failing(image: &Image) -> (Rig, Vec<Arc<DiskSim>>) {
    let (disks, sims) = image.0[1..].iter().map(|bytes| sim_disk_from(bytes.clone())).unzip();
    (Rig { pm: image.rig().pm, disks }, sims)
}

/// The disk that has the archive of an inode's log, and its bytes there.
pub fn archive_of(rig: &Rig, ino: Ino) -> (u16, Range<u64>) {
    let text = rig.image().rig().dump(ino);
    let blocks = number_after(&text, "log archive      ").unwrap_or(0);
    let (device, first) = blocks_from(&text).unwrap_or_else(|| panic!("no archive in\n{text}"));
    let start = first * BLOCK_BYTES;
    (device as u16, start..start + blocks * BLOCK_BYTES)
}

/// Blocks of all archives.
pub fn archived_blocks(rig: &Rig, inodes: &Inodes) -> u64 {
    inodes.on_disk().into_iter().chain([Ino::ROOT]).map(|ino| parts(rig, ino).1).sum()
}

/// Bytes in use in PM, and on all disks.
pub fn used(volume: &Volume) -> (u64, u64) {
    let devices = volume.status().devices;
    (devices[0].used_bytes, devices[1..].iter().map(|device| device.used_bytes).sum())
}

/// What a disk does while logs move to it, without faults.
fn operations() -> Vec<IoOp> {
    let (rig, sims) = failing(&IN_PM.image);
    let volume = rig.open_alone(LOGS_ONLY);
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let log = kinds.clone();
    sims[0].set_on_io(Box::new(move |op| log.lock().unwrap().push(op)));
    migrate(&volume);
    sims[0].clear_on_io();
    let kinds = kinds.lock().unwrap().clone();
    // First of all, where there is room.
    assert_eq!(kinds, [IoOp::Read, IoOp::Write, IoOp::Flush]);
    kinds
}

#[test]
fn a_disk_that_fails_leaves_logs_to_another_or_where_they_are() {
    type Plant = fn(&DiskSim, u64);
    let plants: [(&str, Plant); 5] = [
        ("EIO", |sim, n| sim.plant_fault(n, DiskFault::Errno(libc::EIO))),
        ("ENOSPC", |sim, n| sim.plant_fault(n, DiskFault::Errno(libc::ENOSPC))),
        ("torn", |sim, n| sim.plant_fault(n, DiskFault::Torn { mask: 0x5555_0f0f_3333_00ff })),
        ("ended", |sim, n| sim.plant_fault(n, DiskFault::Ended)),
        ("vanished", |sim, n| sim.vanish_after(n, libc::ENXIO)),
    ];
    let Left { image, inodes, said: before } = &*IN_PM;
    for (n, op) in (1..).zip(operations()) {
        for (what, plant) in plants {
            let context = format!("{op} {n}: {what}");
            let (rig, sims) = failing(image);
            let volume = rig.open_alone(LOGS_ONLY);
            let used_before = used(&volume);
            plant(&sims[0], n);
            let messages = migrate(&volume);
            sims[0].clear_faults();
            // Without the first disk, or its bitmap, there is the second.
            let moved = archived_blocks(&rig, inodes) > 0;
            assert_eq!(moved, op != IoOp::Flush, "{context}: {messages:?}");
            assert!(
                moved || messages.iter().any(|m| m.contains(&sims_path(&rig))),
                "{context}: {messages:?}"
            );
            let (in_pm, on_disks) = used(&volume);
            assert_eq!(in_pm, used_before.0 - given(&volume), "{context}");
            assert_eq!(
                on_disks,
                used_before.1 + archived_blocks(&rig, inodes) * BLOCK_BYTES,
                "{context}"
            );
            assert_eq!(&said(&volume, inodes), before, "{context}");
            let read_only = volume.status().read_only;
            assert_eq!(read_only.is_some(), op == IoOp::Flush, "{context}: {read_only:?}");
            if let Some(why) = read_only {
                assert!(why.contains(&sims_path(&rig)), "{context}: {why}");
                volume.close().unwrap_err();
            } else {
                migrate(&volume);
                assert!(archived_blocks(&rig, inodes) > 0, "{context}: the disk works again");
                volume.close().unwrap();
            }
            drop(volume);
            rig.must_be_sound();
            assert_eq!(&said(&rig.open_alone(&[]), inodes), before, "{context}, mounted again");
        }
    }
}

/// What all disks of these volumes are called.
fn sims_path(rig: &Rig) -> String {
    rig.disks[0].path().display().to_string()
}

/// A volume whose first disk is full.
fn first_disk_full() -> (Rig, Ino) {
    let rig = IN_PM.image.rig();
    let volume = rig.open(0);
    let filler = make(&volume, Ino::ROOT, "filler", &FILE);
    for at in (0..).step_by(BLOCK_BYTES as usize) {
        put(&volume, filler, at, &pattern(BLOCK_BYTES as usize, 5));
        volume.fsync(filler, false).unwrap();
        if volume.file_map(filler).unwrap().extents.iter().any(|e| e.tier == "disk2") {
            break;
        }
    }
    volume.close().unwrap();
    (rig, filler)
}

#[test]
fn logs_go_to_the_next_tier_when_the_first_has_no_room_in_one_piece() {
    for fragmented in [false, true] {
        let (rig, filler) = first_disk_full();
        let volume = rig.open_alone(LOGS_ONLY);
        for block in (0..400).step_by(2).filter(|_| fragmented) {
            volume
                .fallocate(filler, Fallocate::PunchHole, block * BLOCK_BYTES, BLOCK_BYTES)
                .unwrap();
        }
        let before = said(&volume, &IN_PM.inodes);
        volume.sync().unwrap();
        migrate(&volume);
        for ino in [IN_PM.inodes.file, IN_PM.inodes.dir] {
            assert_eq!(
                (parts(&rig, ino).0, archive_of(&rig, ino).0),
                (0, 2),
                "fragmented: {fragmented}"
            );
        }
        assert_eq!(parts(&rig, IN_PM.inodes.link), (0, 1));
        assert_eq!(said(&volume, &IN_PM.inodes), before);
        volume.close().unwrap();
        drop(volume);
        rig.must_be_sound();
    }
}

/// Damage to an archive.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Flipped(u64),
    Unreadable,
}

const HARMS: [Harm; 4] =
    [Harm::Flipped(0), Harm::Flipped(20), Harm::Flipped(300), Harm::Unreadable];

impl Harm {
    fn does(self, rig: &Rig, sims: &[Arc<DiskSim>], (device, bytes): (u16, Range<u64>)) {
        match self {
            Harm::Flipped(at) => rig.flip(device.into(), bytes.start + at),
            Harm::Unreadable => {
                sims[usize::from(device) - 1].fail_reads(bytes.start..bytes.start + 1)
            }
        }
    }

    /// The message names the disk, a byte of what is damaged there, and the remedy.
    fn must_be_named(self, rig: &Rig, ino: Ino, bytes: &Range<u64>, message: &str) {
        let (disk, inode) = (sims_path(rig), format!("inode {}", ino.0));
        let advice = format!("run `terrace check {}`", rig.pm.path().display());
        let parts = [disk.as_str(), &inode, &advice];
        assert!(parts.iter().all(|part| message.contains(part)), "{self:?}: {message}");
        let of_disk = &message[message.find(&disk).unwrap()..];
        let named = number_after(of_disk, "at byte ");
        let end = match self {
            Harm::Flipped(at) => bytes.start + at + 1,
            Harm::Unreadable => bytes.start + 1,
        };
        assert!(
            (end.saturating_sub(400)..end).contains(&named.unwrap()),
            "{self:?} of {bytes:?}: {message}"
        );
    }
}

const PATHS: [&str; 3] = ["file", "dir", "link"];

fn lookup(volume: &Volume, path: &str) -> Result<(), FsError> {
    let found = volume.lookup(Ino::ROOT, path.as_bytes())?;
    volume.forget(found.ino, 1);
    Ok(())
}

#[test]
fn an_archive_that_is_damaged_is_named_and_others_go_on() {
    let Left { image, inodes, said: before } = &*ARCHIVED;
    for (ino, path) in inodes.on_disk().into_iter().zip(PATHS) {
        for harm in HARMS {
            let (rig, sims) = failing(image);
            let (device, bytes) = archive_of(&rig, ino);
            harm.does(&rig, &sims, (device, bytes.clone()));
            let volume = rig.open_alone(LOGS_ONLY);
            assert_eq!(volume.status().read_only, None, "a clean volume needs no logs to mount");
            for error in [volume.getattr(ino).unwrap_err(), lookup(&volume, path).unwrap_err()] {
                assert_eq!(error.errno(), libc::EIO, "{harm:?}: {error}");
                harm.must_be_named(&rig, ino, &bytes, &with_advice(&error, rig.pm.path()));
            }
            for other in PATHS.into_iter().filter(|&other| other != path) {
                lookup(&volume, other).unwrap();
            }
            put(&volume, inodes.short, 0, b"goes on");
            assert_eq!(contents(&volume, inodes.short)[7..], before.contents[1][7..]);
            // The disk cannot be emptied: it says of what.
            let removed = volume.remove_disk(device, None).unwrap();
            let why = removed.message.expect("it is not empty");
            assert!(removed.left_bytes > 0 && why.contains(&format!("inode {}", ino.0)), "{why}");
            assert!(why.contains("--give-up") && why.contains("stays in use: "), "{why}");
            volume.close().unwrap();
            drop(volume);
            the_problem(&rig, ino, path, harm, &bytes);
            sims.iter().for_each(|sim| sim.clear_faults());
            let is_back = lookup(&rig.open_alone(LOGS_ONLY), path).is_ok();
            assert_eq!(is_back, matches!(harm, Harm::Unreadable), "{harm:?}");
        }
    }
}

/// `check` names the inode and its path, the disk and the byte; returns what it says.
fn the_problem(rig: &Rig, ino: Ino, path: &str, harm: Harm, bytes: &Range<u64>) -> String {
    let report = rig.check(false);
    let is_it = |p: &&terrace_engine::CheckProblem| {
        p.place.contains(&format!("/{path}")) && p.what.contains("log")
    };
    let problem = report
        .problems
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{harm:?}: {:#?}", report.problems));
    let text = format!(
        "{}: {}: run `terrace check {}`",
        problem.place,
        problem.what,
        rig.pm.path().display()
    );
    harm.must_be_named(rig, ino, bytes, &text);
    assert!(problem.data_lost && !problem.repaired, "{problem:?}");
    problem.what.clone()
}

#[test]
fn a_mount_after_a_crash_says_what_a_check_says() {
    let Left { image, inodes, said: before } = &*CRASHED;
    for (ino, path) in inodes.on_disk().into_iter().zip(PATHS) {
        for harm in HARMS {
            let (rig, sims) = failing(image);
            let (device, bytes) = archive_of(&rig, ino);
            harm.does(&rig, &sims, (device, bytes.clone()));
            let what = the_problem(&rig, ino, path, harm, &bytes);
            let volume = rig.open_alone(LOGS_ONLY);
            let why = volume.status().read_only.expect("nobody knows what the log owns");
            assert!(why.contains(&what), "the mount says {why}, the check {what}");
            harm.must_be_named(&rig, ino, &bytes, &why);
            assert_eq!(volume.getattr(ino).unwrap_err().errno(), libc::EIO);
            assert_eq!(contents(&volume, inodes.short), before.contents[1]);
            migrate(&volume);
            assert_eq!(volume.remove_disk(device, None).unwrap_err().errno(), libc::EROFS);
            volume.abandon();
            drop(volume);
            if let Harm::Unreadable = harm {
                // It was the cable.
                sims[0].clear_faults();
                let volume = rig.open_alone(LOGS_ONLY);
                assert_eq!(volume.status().read_only, None);
                assert_eq!(&said(&volume, inodes), before);
                volume.close().unwrap();
                rig.must_be_sound();
            }
        }
    }
}

/// A disk that fails once in a recovery: the second look may find what the first did not, and
/// nothing is taken for lost between them.
#[test]
fn a_read_that_fails_once_loses_nothing() {
    let Left { image, inodes, said: before } = &*CRASHED;
    let mut refused = 0;
    for call in 1.. {
        let (rig, sims) = failing(image);
        sims[0].plant_fault(call, DiskFault::Errno(libc::EIO));
        let options = OpenOptions { cache_bytes: 8 << 20, workers: false, ..Default::default() };
        let opened = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {});
        let calls = sims[0].io_calls();
        match opened {
            Ok(volume) => {
                let is_read_only = volume.status().read_only.is_some();
                refused += u32::from(is_read_only);
                volume.abandon();
            }
            Err(_) => refused += 1,
        }
        sims[0].clear_faults();
        let volume = rig.open_alone(LOGS_ONLY);
        assert_eq!(volume.status().read_only, None, "after call {call}");
        assert_eq!(&said(&volume, inodes), before, "after call {call}");
        volume.close().unwrap();
        rig.must_be_sound();
        if calls < call {
            break;
        }
    }
    assert!(refused > 3, "{refused}");
}

fn scrub(volume: &Volume) -> Vec<ScrubError> {
    volume.start_scrub(ScrubOptions { bytes_per_second: 0 }).unwrap();
    volume.wait_for_scrub();
    volume.scrub_report().damage
}

#[test]
fn a_scrub_writes_an_archive_anew_that_is_in_memory() {
    let Left { image, inodes, said: before } = &*ARCHIVED;
    for (ino, path) in inodes.on_disk().into_iter().zip(PATHS) {
        for harm in HARMS {
            for (in_use, read_only) in [(true, false), (true, true), (false, false)] {
                let (rig, sims) = failing(image);
                let options = OpenOptions {
                    cache_bytes: 8 << 20,
                    workers: false,
                    read_only,
                    ..Default::default()
                };
                let volume =
                    Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {})
                        .unwrap();
                if in_use {
                    volume.lookup(Ino::ROOT, path.as_bytes()).unwrap();
                }
                let (device, bytes) = archive_of(&rig, ino);
                harm.does(&rig, &sims, (device, bytes.clone()));
                let damage = scrub(&volume);
                assert_eq!(damage.len(), 1, "{damage:?}");
                let damage = &damage[0];
                assert_eq!((damage.kind, damage.ino), (ScrubKind::Log, Some(ino.0)), "{damage:?}");
                assert_eq!(damage.repaired, in_use && !read_only, "{damage:?}");
                assert_eq!(
                    (damage.device_index, &damage.device),
                    (device, &sims_path(&rig)),
                    "{damage:?}"
                );
                assert!(bytes.contains(&damage.offset_bytes), "{damage:?} of {bytes:?}");
                sims[0].clear_faults();
                let on_disk =
                    |image: &Image| image.0[1][bytes.start as usize..bytes.end as usize].to_vec();
                let is_whole = on_disk(&rig.image()) == on_disk(image);
                assert_eq!(
                    is_whole,
                    damage.repaired || matches!(harm, Harm::Unreadable),
                    "{harm:?}"
                );
                if damage.repaired {
                    assert_eq!(scrub(&volume).len(), 0);
                    assert_eq!(&said(&volume, inodes), before);
                    volume.close().unwrap();
                    drop(volume);
                    rig.must_be_sound();
                    assert_eq!(&said(&rig.open_alone(&[]), inodes), before);
                } else {
                    volume.abandon();
                }
            }
        }
    }
}

#[test]
fn a_saved_volume_that_crashed_comes_back_with_its_archives() {
    for left in [&*ARCHIVED, &*CRASHED] {
        let rig = left.image.rig();
        let mut bytes = Vec::new();
        save(&rig.pm, &mut bytes, &|_, _, _| {}).unwrap();
        let pm = Pm::anonymous(rig.pm.len());
        pm.write(0, &pattern(pm.len() as usize, 1));
        restore(&mut &bytes[..], &pm, &|_, _, _| {}).unwrap();
        let back = Rig { pm, disks: rig.disks };
        back.must_be_sound();
        let volume = back.open_alone(LOGS_ONLY);
        assert_eq!(said(&volume, &left.inodes), left.said);
        put(&volume, left.inodes.file, 0, b"more");
        migrate(&volume);
        volume.close().unwrap();
        drop(volume);
        back.must_be_sound();
    }
}

#[test]
fn a_mount_that_changes_nothing_reads_archives() {
    for left in [&*ARCHIVED, &*CRASHED] {
        let rig = left.image.rig();
        let options = OpenOptions {
            read_only: true,
            cache_bytes: 8 << 20,
            workers: false,
            ..Default::default()
        };
        let volume =
            Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap();
        LOGS_ONLY.iter().for_each(|&(param, value)| volume.tune(param, value).unwrap());
        assert_eq!(said(&volume, &left.inodes), left.said);
        let refused =
            volume.write(left.inodes.file, 0, b"no", WriteOptions::default()).unwrap_err();
        assert_eq!(refused.errno(), libc::EROFS);
        migrate(&volume);
        assert_eq!(given(&volume), 0);
        volume.close().unwrap();
        assert!(rig.image().0[1..] == left.image.0[1..], "the disks are as they were");
    }
}

/// The daemon dies with entries behind an archive, of which the tail on media knows nothing.
#[test]
fn what_commits_itself_behind_an_archive_survives() {
    let Left { image, inodes, .. } = &*ARCHIVED;
    for appended in 1..=5u64 {
        for again in [false, true] {
            let rig = image.rig();
            let volume = rig.open_alone(LOGS_ONLY);
            let append = |seed: u64| {
                put(&volume, inodes.file, seed * 8192, &pattern(4096, 90 + seed as u8));
                volume
                    .unlink(inodes.dir, format!("{seed}-{}", "n".repeat(seed as usize)).as_bytes())
                    .unwrap();
            };
            (0..appended).for_each(append);
            if again {
                // Entries behind the old archive must not pass for those behind the new one.
                (appended..40).for_each(append);
                migrate(&volume);
                assert_eq!((parts(&rig, inodes.file).0, archive_of(&rig, inodes.dir).0), (0, 1));
                (40..40 + appended).for_each(append);
            }
            let expected = said(&volume, inodes);
            volume.abandon();
            drop(volume);
            rig.must_be_sound();
            let volume = rig.open_alone(LOGS_ONLY);
            assert_eq!(volume.status().read_only, None);
            assert!(said(&volume, inodes) == expected, "{appended} entries, again: {again}");
            volume.close().unwrap();
            drop(volume);
            rig.must_be_sound();
            assert!(said(&rig.open_alone(&[]), inodes) == expected);
        }
    }
}

/// A listing gives the names that can be read, and then says that these are not all.
#[test]
fn a_listing_says_what_it_has_left_out() {
    let Left { image, .. } = &*ARCHIVED;
    let (rig, sims) = failing(image);
    let volume = rig.open_alone(&[]);
    volume.getattr(Ino::ROOT).unwrap();
    let list = |from| {
        let (mut names, mut next) = (Vec::new(), from);
        let listed = volume.readdir_plus(Ino::ROOT, from, &mut |entry, _| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            next = entry.next;
            true
        });
        (names, next, listed.map_err(|error| error.errno()))
    };
    sims[0].fail_reads(0..1 << 40);
    let (names, next, listed) = list(0);
    assert_eq!(listed, Ok(()));
    assert!(
        names.contains(&"short".to_owned()) && !names.contains(&"file".to_owned()),
        "{names:?}"
    );
    assert_eq!(list(next), (Vec::new(), next, Err(libc::EIO)));
    // The kernel asks in the one way first and in the other then, which shows names whatever they
    // lead to.
    let end = terrace_layout::COOKIE_MIN;
    let plain = || {
        volume.readdir(Ino::ROOT, end, &mut |_| panic!("the end")).map_err(|error| error.errno())
    };
    assert_eq!(plain(), Err(libc::EIO));
    // The disk works again.
    sims[0].clear_faults();
    assert_eq!(plain(), Ok(()));
    let (names, next, listed) = list(0);
    assert!(listed.is_ok() && names.contains(&"file".to_owned()), "{names:?}");
    assert_eq!(list(next), (Vec::new(), next, Ok(())));
}
