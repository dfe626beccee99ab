//! Disks that join and leave a volume, cut short at every fence and flush: it is what it was before
//! or what it is after, with all that is in it, and every disk that it names is there.

use std::sync::Arc;

use terrace_crash::apply::prepare;
use terrace_crash::explore::Settings;
use terrace_crash::image::{Image, Scratch};
use terrace_crash::point::Moment;
use terrace_crash::rig::{Config, Devices, Open, PM_FULL_PERCENT, Rig, recover};
use terrace_crash::tree::{Tree, difference, tree_of};
use terrace_engine::{
    Bug, FileKind, Ino, NewInode, RemovalState, Volume, WriteOptions, XattrFlags, plant,
    read_disk_label, read_pm_label,
};
use terrace_media::Disk;
use terrace_policy::Param;

const CONFIG: Config = Config {
    name: "devices",
    shards: 1,
    pm_full_percent: PM_FULL_PERCENT,
    durable: false,
    checksums: false,
    tiers: &[1],
    pm_blocks: 320,
    params: &[],
};
/// Disks that there are, members or not.
const DISKS: usize = 3;

/// What is done to a volume with these disks as members.
struct Deed {
    name: &'static str,
    members: &'static [usize],
    act: fn(&Volume, &Devices),
}

const DEEDS: [Deed; 4] = [
    Deed { name: "add", members: &[0], act: |volume, devices| add(volume, devices, 1, 2) },
    Deed { name: "remove", members: &[0, 1], act: |volume, _| remove(volume, 1) },
    Deed {
        name: "remove, add in its place",
        members: &[0, 1],
        act: |volume, devices| {
            remove(volume, 1);
            add(volume, devices, 2, 1);
        },
    },
    Deed { name: "remove the last", members: &[0], act: |volume, _| remove(volume, 1) },
];

fn add(volume: &Volume, devices: &Devices, disk: usize, index: u16) {
    assert_eq!(volume.add_disk(None, &|_| Ok(devices.disks[disk].clone())).unwrap(), index);
}

fn remove(volume: &Volume, index: u16) {
    let removed = volume.remove_disk(index, None).unwrap();
    assert_eq!((removed.state, removed.message), (RemovalState::Finished, None));
}

/// The devices that a mount would use: the disks that PM's table names.
fn members(devices: &Devices) -> Devices {
    let label = read_pm_label(&devices.pm).unwrap().expect("PM's superblock is always there");
    let is_named = |disk: &Arc<dyn Disk>| match read_disk_label(disk.as_ref()) {
        Ok(Some((uuid, index))) => {
            uuid == label.uuid && label.devices.iter().any(|row| row.index == index)
        }
        _ => false,
    };
    Devices {
        pm: devices.pm.clone(),
        disks: devices.disks.iter().filter(|disk| is_named(disk)).cloned().collect(),
    }
}

/// An unmounted volume whose disks are the first ones, one of which holds a file and its log; the
/// others hold junk.
fn begin(member_count: usize) -> (Arc<Image>, Tree) {
    let blank = Config { tiers: &[1; DISKS], ..CONFIG }.blank();
    let devices = Devices::in_memory(&blank);
    devices.load(&blank);
    let of_volume =
        Devices { pm: devices.pm.clone(), disks: devices.disks[..member_count].to_vec() };
    let config = if member_count == 1 { CONFIG } else { Config { tiers: &[1, 1], ..CONFIG } };
    of_volume.format(&config).unwrap();
    let volume = Open::new(config.open(&of_volume).unwrap());
    prepare(&volume).unwrap();
    let new = NewInode { kind: FileKind::Regular, mode: 0o600, umask: 0, uid: 1, gid: 1, rdev: 0 };
    let file = volume.create(Ino::ROOT, b"on-disk", &new).unwrap().ino;
    let data: Vec<u8> = (0..150_000).map(|i| (i % 253) as u8).collect();
    assert_eq!(volume.write(file, 0, &data, WriteOptions::default()).unwrap(), data.len());
    assert_eq!(volume.move_file(file, 1).unwrap().left_bytes, 0);
    if member_count > 1 {
        // Wherever it went, it is on the first disk that something is.
        let other = volume.create(Ino::ROOT, b"other", &new).unwrap().ino;
        assert_eq!(
            volume.write(other, 0, &data[..20_000], WriteOptions::default()).unwrap(),
            20_000
        );
        assert_eq!(volume.move_file(other, 1).unwrap().left_bytes, 0);
        volume.forget(other, 1);
    }
    // Its log lies on a disk, too.
    for name in ["user.a", "user.b", "user.c", "user.d"] {
        volume.setxattr(file, name.as_bytes(), &[7; 100], XattrFlags::default(), None).unwrap();
    }
    for (param, value) in
        [(Param::MigrateMin, 100), (Param::MigrateAt, 100), (Param::ColdAge, 0), (Param::LogsAt, 0)]
    {
        volume.tune(param, value).unwrap();
    }
    volume.migrate(1).unwrap_err();
    assert!(volume.file_map(file).unwrap().log_archive.is_some());
    volume.forget(file, 1);
    let tree = tree_of(&volume, true).unwrap();
    volume.close().unwrap();
    (Arc::new(devices.image()), tree)
}

/// Does it, and recovers from every state that a power cut may leave; the number of those, or the
/// first that is wrong.
fn explore(deed: &Deed) -> Result<usize, String> {
    let (image, before) = begin(deed.members.len());
    let rig = Rig::new(&image);
    let of_volume = members(&rig.devices);
    assert_eq!(of_volume.disks.len(), deed.members.len());
    let volume = Open::new(CONFIG.open(&of_volume)?);
    rig.record(0, Moment::End, || (deed.act)(&volume, &rig.devices));
    volume.abandon();
    let (mut states, mut scratch) = (0, Scratch::new(&image));
    let devices = Devices::in_memory(&image);
    for point in rig.take_points() {
        point.store_durable(&mut scratch);
        let mark = scratch.mark();
        for choice in point.choices(&Settings::QUICK.effort, 1).0 {
            point.store_kept(&point.kept(choice).expect("a choice of this point"), &mut scratch);
            devices.load(scratch.image());
            let wrong =
                |what: String| format!("{}: {:?}, {choice:?}: {what}", deed.name, point.moment);
            let found = recover(&CONFIG, &members(&devices), true).map_err(wrong)?;
            let differs = found.map_or_else(
                || "the volume is gone".into(),
                |found| difference(&before, &found.tree),
            );
            if !differs.is_empty() {
                return Err(wrong(differs));
            }
            states += 1;
            scratch.back_to(mark);
        }
        scratch.back_to(0);
    }
    Ok(states)
}

#[test]
fn a_disk_that_joins_or_leaves_does_so_at_once() {
    for deed in &DEEDS {
        let states = explore(deed).unwrap_or_else(|what| panic!("{what}"));
        eprintln!("{}: {states} states", deed.name);
        assert!(states > 30, "{}: {states}", deed.name);
    }
}

#[test]
fn the_wrong_order_is_found() {
    for (bug, deed) in [(Bug::RowBeforeLabel, &DEEDS[0]), (Bug::EraseBeforeRow, &DEEDS[1])] {
        plant(Some(bug));
        let found = explore(deed);
        plant(None);
        assert!(found.as_ref().is_err_and(|what| what.contains("missing")), "{bug:?}: {found:?}");
    }
}
