//! Volumes written by every released format stay readable, or are refused by name: images of them
//! stand in `golden/`.
//!
//! A new format adds its image: `TERRACE_GOLDEN_WRITE=1 cargo test -p terrace-engine --test golden`
//! writes those of the present one. The images of older ones are never written again.

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use common::{Op, apply, must_be_sound, prepare, tree_of};
use terrace_crash::op::{FallocHow, pattern};
use terrace_engine::{
    Counter, FormatOptions, OpenOptions, RemovalState, Volume, WriteOptions, format,
    offline_status, read_pm_label, restore, save, saved_pm_len,
};
use terrace_layout::{INCOMPAT_GAPS, Superblock};
use terrace_media::{AlignedBuf, Disk, Pm, memory_disk};
use terrace_policy::Param;

const DISK_BYTES: u64 = 2 << 20;
const BLOCK: usize = 4096;
/// What the images since format 3.6 say that programs wrote, and that the disk took which has left.
const GOLDEN_PROGRAMS_BYTES: u64 = 369_205;
const GOLDEN_DEPARTED_BYTES: u64 = 385_024;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn open(pm: &Arc<Pm>, disk: &Arc<dyn Disk>, pm_full_percent: u8) -> Arc<Volume> {
    let options =
        OpenOptions { cache_bytes: 1 << 20, pm_full_percent, workers: false, ..Default::default() };
    Volume::open(pm.clone(), vec![disk.clone()], options, &|_, _, _| {}).unwrap()
}

/// A volume with a bit of everything: both tiers, holes, reserved blocks, links, long names,
/// attributes, an index that no disk has any more, and logs on a disk.
fn build(checksums: bool) -> (Arc<Pm>, Arc<dyn Disk>) {
    let (pm, disk) = (Pm::anonymous(3 << 20), memory_disk(DISK_BYTES));
    let options =
        FormatOptions { shards: Some(1), pm_data_checksums: checksums, ..Default::default() };
    format(&pm, std::slice::from_ref(&disk), &options).unwrap();
    let in_pm = [
        Op::Create((None, 0)),
        Op::Write((None, 0), 0, 9000, 1),
        Op::Write((None, 0), 100, 20, 2),
        Op::Append((None, 0), 150, 3),
        Op::Write((None, 0), 40_000, 5000, 4),
        Op::Falloc((None, 0), FallocHow::AllocateKeepSize, 60_000, 20_000),
        Op::Chmod((None, 0), 0o640),
        Op::SetXattr((None, 0), 1, 50),
        Op::SetXattr((None, 0), 2, 5000),
        Op::Link((None, 0), (Some(0), 3)),
        Op::Symlink((Some(1), 1), 300),
        Op::Mkdir((Some(0), 2)),
        Op::Create((Some(0), 0)),
        Op::Write((Some(0), 0), 50, 30_000, 7),
        Op::Write((Some(0), 0), 200, 30, 8),
        Op::Move((Some(0), 0), 1),
        Op::Write((Some(0), 0), 8192, 5000, 8),
    ];
    let on_disk = [
        Op::Create((Some(1), 0)),
        Op::Write((Some(1), 0), 0, 20_000, 5),
        Op::Write((Some(1), 0), 4096, 5, 6),
        Op::Create((Some(1), 2)),
        Op::Truncate((Some(1), 2), 100_000),
    ];
    let volume = open(&pm, &disk, 90);
    prepare(&volume);
    in_pm.iter().for_each(|op| apply(&volume, op).unwrap());
    // Most of many inodes are gone: the inode table has a gap.
    let many = 30..500;
    many.clone().for_each(|n| apply(&volume, &Op::Create((Some(1), n))).unwrap());
    many.filter(|n| n % 100 != 0).for_each(|n| apply(&volume, &Op::Unlink((Some(1), n))).unwrap());
    assert!(features(&pm) & INCOMPAT_GAPS != 0);
    volume.close().unwrap();
    drop(volume);
    let volume = open(&pm, &disk, 0);
    on_disk.iter().for_each(|op| apply(&volume, op).unwrap());
    // Long enough a run to keep its checksums on the disk.
    let long = volume.lookup(terrace_engine::Ino::ROOT, b"a").unwrap().ino;
    let data = pattern(300_000, 9);
    volume
        .write(long, 100_000, &data, WriteOptions { durable: true, ..Default::default() })
        .unwrap();
    volume.forget(long, 1);
    apply(&volume, &Op::Move((Some(1), 0), 0)).unwrap();
    let second = memory_disk(DISK_BYTES);
    assert_eq!(volume.add_disk(None, &|_| Ok(second.clone())).unwrap(), 2);
    assert_eq!(volume.remove_disk(1, None).unwrap().state, RemovalState::Finished);
    for (param, value) in
        [(Param::MigrateAt, 100), (Param::MigrateMin, 100), (Param::ColdAge, 0), (Param::LogsAt, 0)]
    {
        volume.tune(param, value).unwrap();
    }
    // Its logs leave PM until none has pages; one goes on behind its archive.
    volume.migrate(1).unwrap_err();
    assert!(volume.stats().counters.get(Counter::MigratedLogs) > 0);
    apply(&volume, &Op::Chmod((None, 0), 0o600)).unwrap();
    volume.close().unwrap();
    drop(volume);
    (pm, second)
}

/// The incompatible features that a volume says it has.
fn features(pm: &Pm) -> u64 {
    let superblock = |copy: u64| {
        let mut block = [0; BLOCK];
        pm.read(copy * BLOCK as u64, &mut block);
        Superblock::decode(&block).unwrap().unwrap()
    };
    superblock(0).incompat | superblock(1).incompat
}

fn version(pm: &Pm) -> String {
    read_pm_label(pm).unwrap().unwrap().format
}

fn write_golden(checksums: bool) {
    let (pm, disk) = build(checksums);
    let name = format!("{}{}", version(&pm), if checksums { "-checksums" } else { "" });
    let mut image = Vec::new();
    save(&pm, &mut image, &|_, _, _| {}).unwrap();
    let mut bytes = AlignedBuf::new(DISK_BYTES as usize);
    disk.read_at(0, &mut bytes).unwrap();
    let used = bytes.iter().rposition(|&b| b != 0).unwrap().next_multiple_of(BLOCK);
    fs::create_dir_all(golden("")).unwrap();
    fs::write(golden(&format!("{name}.pm")), image).unwrap();
    fs::write(golden(&format!("{name}.disk")), &bytes[..used]).unwrap();
    fs::write(golden(&format!("{name}.tree")), format!("{:#?}\n", tree_of(&open(&pm, &disk, 90))))
        .unwrap();
}

#[test]
fn volumes_of_every_format_are_readable() {
    if std::env::var_os("TERRACE_GOLDEN_WRITE").is_some() {
        [false, true].into_iter().for_each(write_golden);
    }
    let mut seen = Vec::new();
    for file in fs::read_dir(golden("")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|e| e != "pm") {
            continue;
        }
        let image = fs::read(&path).unwrap();
        let pm = Pm::anonymous(saved_pm_len(&mut &image[..]).unwrap());
        let restored = restore(&mut &image[..], &pm, &|_, _, _| {});
        let major = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.split_once('.'))
            .unwrap()
            .0;
        if ["1", "2"].contains(&major) {
            let error = restored.unwrap_err().to_string();
            let wanted = format!("format version {major}.0 is not supported");
            assert!(error.contains(&wanted), "{}: {error}", path.display());
            continue;
        }
        restored.unwrap();
        let disk = memory_disk(DISK_BYTES);
        let mut bytes = AlignedBuf::new(DISK_BYTES as usize);
        let stored = fs::read(path.with_extension("disk")).unwrap();
        bytes[..stored.len()].copy_from_slice(&stored);
        disk.write_at(0, &bytes).unwrap();
        must_be_sound(&pm, &disk);
        seen.push(version(&pm));
        let counted = offline_status(&pm, std::slice::from_ref(&disk)).unwrap().wear;
        let minor = version(&pm).rsplit('.').next().and_then(|minor| minor.parse::<u32>().ok());
        let counts = minor.is_some_and(|minor| minor >= 6);
        assert_eq!(counted.is_some(), counts, "{}", path.display());
        if let Some(wear) = counted {
            let bytes = (wear.programs_bytes, wear.departed_bytes, wear.devices.len());
            assert_eq!(bytes, (GOLDEN_PROGRAMS_BYTES, GOLDEN_DEPARTED_BYTES, 2));
        }
        let expected = fs::read_to_string(path.with_extension("tree")).unwrap();
        let volume = open(&pm, &disk, 90);
        assert_eq!(format!("{:#?}\n", tree_of(&volume)), expected, "{}", path.display());
        // It can be written, too.
        apply(&volume, &Op::Create((Some(0), 1))).unwrap();
        volume.close().unwrap();
        drop(volume);
        must_be_sound(&pm, &disk);
    }
    let present = version(&build(false).0);
    assert_eq!(
        seen.iter().filter(|v| **v == present).count(),
        2,
        "images of format {present} are missing: {seen:?}"
    );
}
