//! Bytes written to devices are counted for good, and movers keep within budgets.

mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rig::{FILE, Rig, a_moment_passes, contents, pattern, put, runs};
use terrace_engine::{
    DeviceWear, FormatOptions, Ino, NamedDevice, OpenOptions, SetAttr, Volume, VolumeWear,
    WearBudget, WriteOptions, XattrFlags, format, offline_status,
};
use terrace_layout::{BLOCK_BYTES, WEAR_OFFSET, WEAR_SLOT_BYTES};
use terrace_media::{Pm, memory_disk};
use terrace_policy::Param;

const MIB: u64 = 1 << 20;

/// Page of shard 0: behind the superblocks.
const SHARD_PAGE: u64 = 2 * BLOCK_BYTES;

fn of(wear: &VolumeWear, index: u16) -> DeviceWear {
    wear.devices.iter().find(|device| device.index == index).expect("a device").clone()
}

fn wear(volume: &Volume) -> VolumeWear {
    volume.status().wear.expect("it is mounted")
}

/// What the record says of a volume that is not mounted.
fn recorded(rig: &Rig) -> Option<VolumeWear> {
    offline_status(&rig.pm, &rig.disks).unwrap().wear
}

/// A volume on 16 MiB of PM and disks of one tier, in one shard.
fn one_tier(disks: usize) -> Rig {
    let (pm, disks) =
        (Pm::anonymous(16 << 20), (0..disks).map(|_| memory_disk(64 << 20)).collect::<Vec<_>>());
    format(&pm, &disks, &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
    Rig { pm, disks }
}

fn options(budgets: &[(u16, u64)]) -> OpenOptions {
    let budget = |&(index, bytes_per_day): &(u16, u64)| WearBudget {
        device: NamedDevice::Index(index),
        bytes_per_day,
    };
    let wear = budgets.iter().map(budget).collect();
    OpenOptions { cache_bytes: 8 << 20, workers: false, wear, ..Default::default() }
}

fn open(rig: &Rig, budgets: &[(u16, u64)]) -> Arc<Volume> {
    Volume::open(rig.pm.clone(), rig.disks.clone(), options(budgets), &|_, _, _| {}).unwrap()
}

/// From now on everything that is a moment old is to leave PM.
fn empty_pm(volume: &Volume) {
    [(Param::ColdAge, 0), (Param::MigrateMin, 1), (Param::MigrateAt, 1), (Param::MigrateMax, 1)]
        .into_iter()
        .for_each(|(param, value)| volume.tune(param, value).unwrap());
}

/// Files of a MiB each in PM.
fn files(volume: &Volume, count: u8) -> Vec<Ino> {
    let file = |number: u8| {
        let name = format!("file{number}");
        let ino = volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
        for at in 0..16 {
            put(volume, ino, at * 65536, &pattern(65536, number));
        }
        ino
    };
    let files = (0..count).map(file).collect();
    a_moment_passes();
    files
}

fn blocks_in_pm(volume: &Volume, files: &[Ino]) -> u64 {
    let places = files.iter().flat_map(|&ino| volume.file_map(ino).unwrap().extents);
    places.filter(|extent| extent.tier == "pm").map(|extent| extent.len_bytes / BLOCK_BYTES).sum()
}

#[test]
fn what_the_devices_have_counted_is_counted_for_good() {
    let rig = one_tier(1);
    assert_eq!(recorded(&rig), None, "nobody has counted yet");
    let devices = || (rig.pm.stats().bytes_stored, rig.disks[0].stats().bytes_written);
    let (pm_before, disk_before) = devices();
    let volume = open(&rig, &[]);
    let file = files(&volume, 2)[0];
    volume.move_file(file, 1).unwrap();
    let seen = wear(&volume);
    let (pm, disk) = devices();
    assert_eq!(seen.programs_bytes, 2 * MIB);
    assert_eq!(of(&seen, 0).written_bytes, pm - pm_before);
    assert_eq!(of(&seen, 1).written_bytes, disk - disk_before);
    assert_eq!(of(&seen, 1).mount_written_bytes, disk - disk_before);
    assert!(of(&seen, 1).written_bytes >= MIB && of(&seen, 0).written_bytes >= 2 * MIB);
    assert_eq!(of(&seen, 1).moved_bytes, 0, "somebody asked for it");
    let per_byte = (pm - pm_before) as f64 / (2 * MIB) as f64;
    assert_eq!(seen.pm_amplification, Some(per_byte));
    volume.close().unwrap();
    drop(volume);
    // Unmounting writes, too.
    let left = recorded(&rig).expect("a record");
    assert_eq!(left.programs_bytes, 2 * MIB);
    assert!(of(&left, 1).written_bytes >= disk - disk_before);
    let (_, at_rest) = devices();
    assert_eq!(of(&left, 1).written_bytes, at_rest - disk_before);
    let volume = open(&rig, &[]);
    let again = wear(&volume);
    assert_eq!(again.since_unix_seconds, seen.since_unix_seconds);
    assert_eq!(again.programs_bytes, 2 * MIB);
    assert!(of(&again, 0).written_bytes >= of(&left, 0).written_bytes);
    assert!(of(&again, 0).mount_written_bytes < MIB, "only what a mount writes");
    put(&volume, file, 0, &pattern(65536, 9));
    assert_eq!(wear(&volume).programs_bytes, 2 * MIB + 65536);
    // A crash: what was counted since the last record is lost, and nothing else.
    volume.sync().unwrap();
    volume.abandon();
    drop(volume);
    assert_eq!(recorded(&rig), Some(left.clone()).map(|left| at_present(&rig, left)));
    let volume = open(&rig, &[]);
    assert_eq!(wear(&volume).programs_bytes, 2 * MIB);
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

/// The averages go on falling while nothing is written.
fn at_present(rig: &Rig, mut before: VolumeWear) -> VolumeWear {
    let now = recorded(rig).expect("a record");
    for (device, now) in before.devices.iter_mut().zip(now.devices) {
        device.bytes_per_day = now.bytes_per_day;
    }
    before
}

#[test]
fn a_record_comes_by_itself_within_seconds() {
    let rig = one_tier(1);
    let options = OpenOptions { workers: true, ..options(&[]) };
    let volume = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap();
    // Without data that could move, too.
    volume.tune(Param::Migrate, 0).unwrap();
    let begun = Instant::now();
    files(&volume, 1);
    while recorded(&rig).is_none_or(|wear| wear.programs_bytes < MIB) {
        assert!(begun.elapsed() < Duration::from_secs(30), "no record has come");
        a_moment_passes();
    }
    volume.abandon();
    drop(volume);
    assert_eq!(recorded(&rig).unwrap().programs_bytes, MIB, "it has survived a crash");
}

#[test]
fn a_disk_that_joins_begins_at_nothing_and_one_that_leaves_takes_its_counts_along() {
    let rig = one_tier(1);
    let volume = open(&rig, &[(1, 100 * MIB)]);
    let file = files(&volume, 1)[0];
    volume.move_file(file, 1).unwrap();
    let second = memory_disk(64 << 20);
    // It has been used before.
    second.write_at(0, &terrace_media::AlignedBuf::new(1 << 20)).unwrap();
    assert_eq!(volume.add_disk(None, &|_| Ok(second.clone())).unwrap(), 2);
    let joined = of(&wear(&volume), 2);
    assert!(joined.written_bytes > 0 && joined.written_bytes < MIB, "{joined:?}");
    assert_eq!(of(&recorded(&Rig { disks: vec![], ..rig_of(&rig) }).unwrap(), 2).name, "disk2");
    let first = of(&wear(&volume), 1).written_bytes;
    volume.remove_disk(1, Some(2)).unwrap();
    let left = wear(&volume);
    assert!(left.departed_bytes >= first, "{left:?}");
    assert!(of(&left, 2).written_bytes >= MIB);
    assert_eq!(left.devices.len(), 2);
    // The next one with its number is another disk.
    let third = memory_disk(64 << 20);
    assert_eq!(volume.add_disk(None, &|_| Ok(third.clone())).unwrap(), 1);
    assert!(of(&wear(&volume), 1).written_bytes < MIB);
    assert_eq!(of(&wear(&volume), 1).budget, None, "it is another disk");
    let before = wear(&volume);
    volume.close().unwrap();
    drop(volume);
    let rig = Rig { disks: vec![second, third], ..rig };
    let left = recorded(&rig).unwrap();
    assert_eq!(left.departed_bytes, before.departed_bytes);
    let disks = (left.departed_bytes + of(&left, 1).written_bytes + of(&left, 2).written_bytes)
        as f64
        / left.programs_bytes as f64;
    assert_eq!(left.disk_amplification, Some(disks));
}

fn rig_of(rig: &Rig) -> Rig {
    Rig { pm: rig.pm.clone(), disks: rig.disks.clone() }
}

#[test]
fn a_record_that_is_damaged_begins_anew_and_harms_nobody() {
    let rig = one_tier(1);
    for _ in 0..2 {
        let volume = open(&rig, &[]);
        let name = format!("{}", wear(&volume).programs_bytes);
        let ino = volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
        put(&volume, ino, 0, &[1; 4096]);
        volume.close().unwrap();
    }
    assert_eq!(recorded(&rig).unwrap().programs_bytes, 8192);
    let damage = |slot: u64| rig.flip(0, SHARD_PAGE + WEAR_OFFSET + slot * WEAR_SLOT_BYTES + 40);
    damage(0);
    let one = recorded(&rig).unwrap().programs_bytes;
    damage(0);
    damage(1);
    let other = recorded(&rig).unwrap().programs_bytes;
    assert_eq!([one.min(other), one.max(other)], [4096, 8192], "each slot has a record");
    damage(0);
    assert_eq!(recorded(&rig), None);
    let problems = rig.check(false).problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].what.contains("the wear record is damaged"), "{problems:?}");
    assert!(!problems[0].data_lost && !problems[0].repaired);
    let repaired = Rig { pm: rig.image().rig().pm, ..rig_of(&rig) };
    assert!(repaired.check(true).problems[0].repaired);
    repaired.must_be_sound();
    let volume = open(&rig, &[]);
    assert_eq!((volume.status().read_only, wear(&volume).programs_bytes), (None, 0));
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
    assert_eq!(recorded(&rig).unwrap().programs_bytes, 0);
}

#[test]
fn a_mount_that_changes_nothing_counts_nothing() {
    let rig = one_tier(1);
    let volume = open(&rig, &[]);
    files(&volume, 1);
    volume.abandon();
    drop(volume);
    let copy = rig.image().rig();
    let options = OpenOptions { read_only: true, ..options(&[]) };
    let volume = Volume::open(copy.pm.clone(), copy.disks.clone(), options, &|_, _, _| {}).unwrap();
    assert!(copy.pm.stats().bytes_stored > 0, "it was recovered in memory");
    assert_eq!(of(&wear(&volume), 0).written_bytes, 0);
    volume.close().unwrap();
    assert_eq!(recorded(&copy), None);
}

#[test]
fn a_budget_bounds_movers_and_nobody_else() {
    let rig = one_tier(1);
    let volume = open(&rig, &[(1, 2 * MIB)]);
    let files = files(&volume, 6);
    empty_pm(&volume);
    let error = volume.migrate(1).unwrap_err();
    let why = error.to_string();
    assert!(why.starts_with("disk1 has used what wear= allows, more in "), "{why}");
    assert_eq!(volume.status().migration.unwrap().trouble, Some(why));
    let moved = of(&wear(&volume), 1);
    assert!(moved.moved_bytes > MIB && moved.moved_bytes <= 2 * MIB, "{moved:?}");
    assert_eq!(moved.overdrawn_bytes, 0);
    let budget = moved.budget.expect("a budget");
    assert_eq!(budget.bytes_per_day, 2 * MIB);
    assert!(budget.left_bytes >= 0 && budget.left_bytes < MIB as i64, "{budget:?}");
    assert!(budget.more_in_seconds > 60, "{budget:?}");
    let in_pm = blocks_in_pm(&volume, &files);
    assert!((4 * 256..6 * 256).contains(&in_pm), "{in_pm} blocks");
    // Budgets hold up nothing that programs and people ask for.
    for &ino in &files {
        assert_eq!(volume.move_file(ino, 1).unwrap().left_bytes, 0);
    }
    let large = volume.create(Ino::ROOT, b"large", &FILE).unwrap().ino;
    for at in 0..10 {
        put(&volume, large, at * MIB, &pattern(MIB as usize, at as u8));
    }
    volume.fsync(large, false).unwrap();
    let after = of(&wear(&volume), 1);
    assert_eq!(after.moved_bytes, moved.moved_bytes);
    assert!(after.written_bytes >= 6 * MIB);
    // A budget stays used up after an unmount, and after a larger one was given.
    volume.close().unwrap();
    drop(volume);
    let volume = open(&rig, &[(1, 2 * MIB)]);
    empty_pm(&volume);
    assert!(volume.migrate(1).unwrap_err().to_string().contains("wear="));
    assert_eq!(of(&wear(&volume), 1).moved_bytes, moved.moved_bytes);
    volume.close().unwrap();
    drop(volume);
    let volume = open(&rig, &[(1, 100 * MIB)]);
    empty_pm(&volume);
    a_moment_passes();
    assert!(!volume.migrate(1).is_err_and(|error| error.to_string().contains("wear=")));
    let used = 100 * MIB as i64 - of(&wear(&volume), 1).budget.unwrap().left_bytes;
    assert!(used >= moved.moved_bytes as i64, "{used}");
    for (number, &ino) in files.iter().enumerate() {
        assert!(contents(&volume, ino) == pattern(65536, number as u8).repeat(16));
    }
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

/// The budgets of the devices, by index, in a mount that goes on after the death of its daemon.
fn budgets_after_death(rig: &Rig, volume: Arc<Volume>, wanted: &[(u16, u64)]) -> Vec<(u16, u64)> {
    volume.abandon();
    drop(volume);
    let options = OpenOptions { goes_on: true, ..options(wanted) };
    let volume = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap();
    let devices = wear(&volume).devices;
    volume.abandon();
    devices.iter().filter_map(|d| Some((d.index, d.budget?.bytes_per_day))).collect()
}

#[test]
fn a_disk_in_the_place_of_another_has_no_budget_after_the_daemons_death() {
    let rig = one_tier(2);
    let wanted = [(1, 100 * MIB), (2, 50 * MIB)];
    let volume = open(&rig, &wanted);
    // Before anything is written, too.
    assert_eq!(budgets_after_death(&rig, volume, &wanted), wanted);
    let volume = open(&rig, &wanted);
    volume.remove_disk(1, None).unwrap();
    let alone = Rig { disks: vec![rig.disks[1].clone()], ..rig_of(&rig) };
    assert_eq!(budgets_after_death(&alone, volume, &wanted), wanted[1..]);
    let options = OpenOptions { goes_on: true, ..options(&wanted) };
    let volume = Volume::open(alone.pm.clone(), alone.disks.clone(), options, &|_, _, _| {});
    let (volume, new) = (volume.unwrap(), memory_disk(64 << 20));
    assert_eq!(volume.add_disk(None, &|_| Ok(new.clone())).unwrap(), 1);
    let rig = Rig { disks: vec![new, rig.disks[1].clone()], ..rig };
    assert_eq!(budgets_after_death(&rig, volume, &wanted), wanted[1..]);
    // The next mount is told anew.
    let volume = open(&rig, &wanted);
    assert!(of(&wear(&volume), 1).budget.is_some());
    volume.close().unwrap();
}

#[test]
fn movers_choose_another_disk_of_the_tier() {
    let rig = one_tier(2);
    let volume = open(&rig, &[(1, MIB), (2, 1000 * MIB)]);
    let files = files(&volume, 6);
    empty_pm(&volume);
    // With nothing more to move it may say so.
    let why = volume.migrate(1).err().map(|error| error.to_string());
    assert!(!why.as_ref().is_some_and(|why| why.contains("wear=")), "{why:?}");
    assert_eq!(blocks_in_pm(&volume, &files), 0);
    let (first, second) = (of(&wear(&volume), 1), of(&wear(&volume), 2));
    assert!(first.moved_bytes <= MIB && first.overdrawn_bytes == 0, "{first:?}");
    assert!(second.moved_bytes >= 5 * MIB, "{second:?}");
}

#[test]
fn what_a_move_has_not_used_is_for_the_next() {
    let rig = one_tier(1);
    let volume = open(&rig, &[(1, 9 * MIB)]);
    for number in 0..6 {
        let ino = volume.create(Ino::ROOT, format!("{number}").as_bytes(), &FILE).unwrap().ino;
        (0..16).for_each(|at| put(&volume, ino, at * 65536, &pattern(65536, number)));
        a_moment_passes();
        empty_pm(&volume);
        // With nothing more to move it may say so.
        let why = volume.migrate(1).err().map(|error| error.to_string());
        assert!(!why.as_ref().is_some_and(|why| why.contains("wear=")), "{number}: {why:?}");
        volume.tune(Param::MigrateMax, 90).unwrap();
        volume.tune(Param::MigrateMin, 90).unwrap();
        assert_eq!(blocks_in_pm(&volume, &[ino]), 0);
    }
    let moved = of(&wear(&volume), 1);
    assert!(moved.moved_bytes >= 6 * MIB && moved.overdrawn_bytes == 0, "{moved:?}");
}

#[test]
fn a_slower_tier_takes_nothing_because_of_a_budget() {
    let rig = Rig::tiered(16 << 20);
    let volume = open(&rig, &[(1, MIB)]);
    let files = files(&volume, 4);
    empty_pm(&volume);
    assert!(volume.migrate(1).unwrap_err().to_string().contains("disk1 has used"));
    assert_eq!(of(&wear(&volume), 2).moved_bytes, 0);
    assert!(blocks_in_pm(&volume, &files) >= 3 * 256);
}

#[test]
fn a_budget_of_pm_bounds_what_comes_back() {
    let rig = one_tier(1);
    let volume = open(&rig, &[(0, MIB)]);
    let files = files(&volume, 3);
    for &ino in &files {
        volume.move_file(ino, 1).unwrap();
    }
    volume.tune(Param::FlowSeconds, 1).unwrap();
    let mut buf = vec![0; MIB as usize];
    let mut why = String::new();
    for _ in 0..4 {
        for &ino in &files {
            volume.read(ino, 0, &mut buf).unwrap();
        }
        why = volume.migrate(1).err().map_or(why, |error| error.to_string());
    }
    assert!(why.starts_with("pm has used what wear= allows"), "{why}");
    let moved = of(&wear(&volume), 0);
    assert!(moved.moved_bytes > MIB / 2 && moved.moved_bytes <= MIB, "{moved:?}");
    assert!(files.iter().any(|&ino| runs(&volume, ino).contains("pm")));
}

/// Logs of many files fill PM. Moves that make room for more may exceed a budget.
#[test]
fn a_budget_never_lacks_room() {
    let (pm, disks) = (Pm::anonymous(8 << 20), vec![memory_disk(128 << 20)]);
    format(&pm, &disks, &FormatOptions { shards: Some(2), ..Default::default() }).unwrap();
    let rig = Rig { pm, disks };
    let volume = open(&rig, &[(1, MIB)]);
    for number in 0..4000u32 {
        let name = format!("file-{number}");
        let new = volume.create(Ino::ROOT, name.as_bytes(), &FILE).expect("room for a file");
        let data = pattern(300, number as u8);
        volume.write(new.ino, 0, &data, WriteOptions::default()).expect("room for data");
        let value = pattern(500, number as u8);
        volume
            .setxattr(new.ino, b"user.origin", &value, XattrFlags::default(), None)
            .expect("room for an attribute");
        let owner = SetAttr { uid: Some(number), ..Default::default() };
        volume.setattr(new.ino, &owner).expect("room for an owner");
        volume.forget(new.ino, 1);
    }
    let moved = of(&wear(&volume), 1);
    assert!(moved.overdrawn_bytes > 0, "{moved:?}");
    assert!(moved.budget.unwrap().left_bytes < 0, "{moved:?}");
    volume.close().unwrap();
    drop(volume);
    let left = of(&recorded(&rig).unwrap(), 1);
    assert_eq!(left.overdrawn_bytes, moved.overdrawn_bytes);
    rig.must_be_sound();
}

#[test]
fn a_budget_of_no_device_is_refused_and_changes_nothing() {
    let rig = one_tier(1);
    let before = rig.image();
    let refused = |device| {
        let wear = vec![WearBudget { device, bytes_per_day: MIB }];
        let options = OpenOptions { wear, ..options(&[]) };
        let opened = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {});
        opened.unwrap_err().to_string()
    };
    for (device, name) in [
        (NamedDevice::Index(3), "wear=disk3: "),
        (NamedDevice::Path("/nowhere".into()), "wear=/nowhere: "),
    ] {
        let message = refused(device);
        let parts = [name, "no such device", "pm, disk1", "leave the option out"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    assert!(rig.image() == before);
    let path = rig.disks[0].path().to_owned();
    let wear = vec![WearBudget { device: NamedDevice::Path(path), bytes_per_day: MIB }];
    let options = OpenOptions { wear, ..options(&[]) };
    let volume = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap();
    assert!(of(&self::wear(&volume), 1).budget.is_some());
}
