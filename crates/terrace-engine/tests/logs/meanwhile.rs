//! Programs that change inodes while their logs move to a disk, and off it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_engine::{
    AtimePolicy, Counter, Ino, OpenOptions, RemovalState, SetAttr, Volume, XattrFlags,
};
use terrace_layout::{AttrEntry, BLOCK_BYTES};
use terrace_media::IoOp;
use terrace_policy::Param;

use crate::faults::{ARCHIVED, IN_PM, Left, archive_of, archived_blocks, failing, migrate, used};
use crate::rig::{FILE, Rig, make, pattern, put};
use crate::world::{Inodes, LOGS_ONLY, given, list, parts, said};

type Change = (&'static str, fn(&Volume, &Inodes));

const CHANGES: [Change; 8] = [
    ("write", |v, inodes| put(v, inodes.file, 8192, &pattern(4096, 99))),
    ("patch", |v, inodes| put(v, inodes.file, 8200, b"patched")),
    ("append", |v, inodes| put(v, inodes.file, v.getattr(inodes.file).unwrap().size, b"appended")),
    ("compaction", |v, inodes| {
        (0..400).for_each(|i| put(v, inodes.file, i % 7 * 8192, &pattern(4096, i as u8)))
    }),
    ("attribute", |v, inodes| {
        v.setxattr(inodes.file, b"user.3", b"another", XattrFlags::default(), None).unwrap();
        v.removexattr(inodes.file, b"user.4").unwrap();
    }),
    ("modes", |v, inodes| {
        for ino in [inodes.file, inodes.dir] {
            v.setattr(ino, &SetAttr { mode: Some(0o700), ..Default::default() }).unwrap();
        }
        v.setattr(inodes.link, &SetAttr { uid: Some(77), ..Default::default() }).unwrap();
    }),
    ("names", |v, inodes| {
        make(v, inodes.dir, "another", &FILE);
        v.unlink(inodes.dir, b"0-").unwrap();
    }),
    ("links", |v, inodes| {
        v.link(inodes.file, inodes.dir, b"hard link").unwrap();
        v.forget(inodes.file, 1);
    }),
];

/// It ends in a crash or an unmount; what it says is the same afterwards.
fn must_come_back(rig: &Rig, volume: Arc<Volume>, inodes: &Inodes, context: &str) {
    let expected = said(&volume, inodes);
    volume.sync().unwrap();
    let crashed = rig.image().rig();
    volume.close().unwrap();
    drop(volume);
    for rig in [rig, &crashed] {
        rig.must_be_sound();
        let volume = rig.open_alone(&[]);
        assert_eq!(volume.status().read_only, None, "{context}");
        assert!(said(&volume, inodes) == expected, "{context}");
    }
}

#[test]
fn a_log_that_changes_on_its_way_stays_what_it_is() {
    let Left { image, inodes, said: before } = &*IN_PM;
    for (name, change) in CHANGES {
        for op in [IoOp::Write, IoOp::Flush] {
            let context = format!("{name} at a {op}");
            let (rig, sims) = failing(image);
            let volume = rig.open_alone(LOGS_ONLY);
            for disk in &sims {
                let v = volume.clone();
                disk.before_next(op, move || change(&v, inodes));
            }
            let (_, used_before) = used(&volume);
            migrate(&volume);
            sims.iter().for_each(|sim| sim.clear_on_io());
            let overtaken = volume.stats().counters.get(Counter::MigrationsOvertaken);
            assert!(overtaken > 0, "{context}");
            assert_eq!(
                used(&volume).1 - used_before,
                archived_blocks(&rig, inodes) * 4096,
                "{context}"
            );
            assert!(said(&volume, inodes) != *before, "{context}");
            must_come_back(&rig, volume, inodes, &context);
        }
    }
}

#[test]
fn an_inode_that_goes_meanwhile_is_gone() {
    let Left { image, inodes, .. } = &*IN_PM;
    for op in [IoOp::Write, IoOp::Flush] {
        let (rig, sims) = failing(image);
        let volume = rig.open_alone(LOGS_ONLY);
        let v = volume.clone();
        sims[0].before_next(op, move || {
            v.unlink(Ino::ROOT, b"file").unwrap();
            v.unlink(Ino::ROOT, b"link").unwrap();
        });
        migrate(&volume);
        assert!(given(&volume) > 0);
        for ino in [inodes.file, inodes.link] {
            assert_eq!(volume.getattr(ino).unwrap_err().errno(), libc::ESTALE);
        }
        assert!(archive_of(&rig, inodes.dir).1.end > 0);
        volume.close().unwrap();
        drop(volume);
        rig.must_be_sound();
    }
}

/// While an inode is read from the disk, names come and go beside it. A listing of a directory that
/// nobody changes overtakes its log with the time of access: that counts as use.
#[test]
fn a_log_that_was_overtaken_is_left_alone_until_it_is_cold_again() {
    let (rig, dir) = (IN_PM.image.rig(), IN_PM.inodes.dir);
    let volume = rig.open_alone(&[]);
    volume.setattr(dir, &SetAttr { mode: Some(0o711), ..Default::default() }).unwrap();
    volume.close().unwrap();
    drop(volume);
    // Nobody has changed it since 1970.
    let age = |e: &mut AttrEntry| (e.atime_ns, e.mtime_ns, e.ctime_ns) = (1, 1, 1);
    rig.change_entry(dir, rig.entry_at(dir, "attributes"), age);
    let (rig, sims) = failing(&rig.image());
    let options =
        OpenOptions { atime: AtimePolicy::Strictatime, workers: false, ..Default::default() };
    let volume = Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap();
    for &(param, value) in LOGS_ONLY {
        volume.tune(param, if param == Param::ColdAge { 3600 } else { value }).unwrap();
    }
    // A thread that uses it keeps it in memory.
    volume.lookup(Ino::ROOT, b"dir").unwrap();
    let copies = Arc::new(AtomicU64::new(0));
    let (v, counted) = (volume.clone(), copies.clone());
    sims[0].set_on_io(Box::new(move |op| {
        if op == IoOp::Flush {
            list(&v, dir);
            counted.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let overtaken = || volume.stats().counters.get(Counter::MigrationsOvertaken);
    for _ in 0..3 {
        migrate(&volume);
        assert_eq!((copies.load(Ordering::Relaxed), given(&volume)), (1, 0));
        assert!(overtaken() > 0);
    }
    sims[0].clear_on_io();
    volume.tune(Param::ColdAge, 0).unwrap();
    migrate(&volume);
    assert_eq!((parts(&rig, dir).0, archive_of(&rig, dir).0), (0, 1));
}

#[test]
fn a_directory_does_not_wait_for_the_disk() {
    let Left { image, inodes, .. } = &*ARCHIVED;
    let looks: [fn(&Volume); 2] = [
        |volume| assert!(volume.lookup(Ino::ROOT, b"file").unwrap().size > 0),
        |volume| volume.readdir_plus(Ino::ROOT, 0, &mut |_, _| true).unwrap(),
    ];
    for look in looks {
        let (rig, sims) = failing(image);
        let volume = rig.open_alone(&[]);
        volume.getattr(Ino::ROOT).unwrap();
        let v = volume.clone();
        // It would wait for itself, for ever.
        sims[0].before_next(IoOp::Read, move || {
            make(&v, Ino::ROOT, "meanwhile", &FILE);
        });
        look(&volume);
        volume.lookup(Ino::ROOT, b"meanwhile").unwrap();
        assert!(volume.getattr(inodes.file).unwrap().size > 0);
    }
}

fn remove(volume: &Volume, device: u16, context: &str) {
    let removed = volume.remove_disk(device, None).unwrap();
    let (state, message) = (removed.state, removed.message);
    assert_eq!(
        (state, &message, removed.left_bytes),
        (RemovalState::Finished, &None, 0),
        "{context}"
    );
}

#[test]
fn archives_leave_a_disk_that_is_removed_and_the_last_one_for_pm() {
    let Left { image, inodes, .. } = &*ARCHIVED;
    let nothing: Change = ("nothing", |_, _| {});
    // Before an archive is on the other disk, or is read from the first.
    let moments = [(1, IoOp::Write), (1, IoOp::Flush), (0, IoOp::Read)];
    for ((name, change), (disk, op)) in
        CHANGES.into_iter().chain([nothing]).zip(moments.into_iter().cycle())
    {
        let context = format!("{name} at a {op} of disk {}", disk + 1);
        let (mut rig, sims) = failing(image);
        let volume = rig.open_alone(LOGS_ONLY);
        let v = volume.clone();
        sims[disk].before_next(op, move || change(&v, inodes));
        let archived = archived_blocks(&rig, inodes) * BLOCK_BYTES;
        remove(&volume, 1, &context);
        let moved = volume.stats().counters.get(Counter::MigratedByHand);
        assert!(
            moved == archived || name != nothing.0 && moved > 0,
            "{context}: {moved} of {archived} bytes"
        );
        sims.iter().for_each(|sim| sim.clear_on_io());
        rig.disks.remove(0);
        for ino in inodes.on_disk().into_iter().filter(|&ino| parts(&rig, ino).1 > 0) {
            assert_eq!(archive_of(&rig, ino).0, 2, "{context}");
        }
        let crashed = rig.image().rig();
        crashed.must_be_sound();
        let expected = said(&volume, inodes);
        assert!(said(&crashed.open_alone(&[]), inodes) == expected, "{context}");
        put(&volume, inodes.file, 5 * 8192, &pattern(4096, 98));
        remove(&volume, 2, &context);
        rig.disks.clear();
        for ino in inodes.on_disk() {
            assert_eq!(parts(&rig, ino).1, 0, "{context}");
        }
        must_come_back(&rig, volume, inodes, &context);
    }
}

/// The disk that is to take the archives fails: they go to PM, or, if nobody knows what that disk
/// has lost, stay where they are.
#[test]
fn archives_find_another_place_when_a_disk_refuses_them() {
    let Left { image, inodes, said: before } = &*ARCHIVED;
    for loses in [false, true] {
        let (rig, sims) = failing(image);
        let volume = rig.open_alone(LOGS_ONLY);
        match loses {
            false => sims[1].fail_writes_after(0),
            true => sims[1].fail_flush(true),
        }
        let removed = volume.remove_disk(1, None).unwrap();
        sims[1].clear_faults();
        if loses {
            let why = volume.status().read_only.expect("a flush failed");
            assert_eq!((removed.state, removed.message), (RemovalState::Failed, Some(why.clone())));
            assert!(why.contains(&rig.disks[1].path().display().to_string()), "{why}");
        } else {
            assert_eq!((removed.state, removed.message), (RemovalState::Finished, None));
        }
        for ino in inodes.on_disk() {
            assert_eq!(parts(&rig, ino).1 > 0, loses);
        }
        assert_eq!(&said(&volume, inodes), before);
        assert_eq!(volume.close().is_err(), loses);
        drop(volume);
        let rig = if loses { rig } else { Rig { disks: rig.disks[1..].to_vec(), ..rig } };
        rig.must_be_sound();
        assert_eq!(&said(&rig.open_alone(&[]), inodes), before);
    }
}
