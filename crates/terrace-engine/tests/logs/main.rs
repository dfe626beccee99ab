//! Logs of cold inodes on disks: what they say stays what it was, whatever happens to the inode
//! before and after.

mod burst;
mod faults;
mod meanwhile;
#[path = "../rig/mod.rs"]
mod rig;
mod room;
mod world;

use terrace_engine::{Ino, NewInode, PIN_XATTR, RemovalState, XattrFlags};
use terrace_policy::Param;

use rig::{FILE, Rig, contents, make, pattern, put};
use world::{LOGS_ONLY, NAMES, build, given, list, migrated, parts, said};

#[test]
fn what_a_log_says_is_the_same_on_a_disk() {
    let (rig, volume, inodes, before) = migrated();
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
    let volume = rig.open_alone(LOGS_ONLY);
    assert_eq!(said(&volume, &inodes), before);
    volume.abandon();
    drop(volume);
    rig.must_be_sound();
    let volume = rig.open_alone(LOGS_ONLY);
    assert_eq!(said(&volume, &inodes), before, "after a recovery");
}

#[test]
fn a_log_goes_on_behind_its_archive_and_comes_back() {
    let (rig, volume, inodes, mut before) = migrated();
    for i in 0..400u64 {
        let data = pattern(1000, i as u8);
        put(&volume, inodes.file, i * 2311 % 900_000, &data);
        before.contents[0][(i * 2311 % 900_000) as usize..][..1000].copy_from_slice(&data);
        if i == 1 || i == 50 {
            // Behind the archive, in the record or beyond it.
            let copy = rig.image().rig();
            copy.must_be_sound();
            assert_eq!(said(&copy.open(90), &inodes).contents, before.contents, "after {i}");
        }
    }
    volume.setxattr(inodes.file, b"user.3", b"three", XattrFlags::default(), None).unwrap();
    before.xattrs.insert(b"user.3".to_vec(), b"three".to_vec());
    for i in (0..NAMES).step_by(2) {
        volume.unlink(inodes.dir, format!("{i}-{}", "n".repeat(i)).as_bytes()).unwrap();
    }
    before.names = list(&volume, inodes.dir);
    assert_eq!(before.names.iter().filter(|name| name.ends_with(b"n")).count(), NAMES / 2);
    let (pages, blocks) = parts(&rig, inodes.file);
    assert!(pages > 0 && blocks == 0, "{pages} pages, {blocks} blocks on a disk");
    assert_eq!(said(&volume, &inodes), before);
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
    assert_eq!(said(&rig.open(90), &inodes), before);
}

#[test]
fn again_and_again() {
    let (rig, volume, inodes, mut before) = migrated();
    for round in 1..8u64 {
        let data = pattern(4096 * 3, round as u8);
        for i in 0..40 {
            put(&volume, inodes.file, i * 16384, &data);
            before.contents[0][i as usize * 16384..][..data.len()].copy_from_slice(&data);
        }
        make(&volume, inodes.dir, &format!("round {round}"), &FILE);
        before.names = list(&volume, inodes.dir);
        let now = given(&volume);
        volume.migrate(1).unwrap_err();
        assert!(given(&volume) > now, "round {round}");
        let image = rig.image().rig();
        image.must_be_sound();
        assert_eq!(said(&image.open(90), &inodes), before, "round {round}");
    }
    for path in ["file", "short"] {
        volume.unlink(Ino::ROOT, path.as_bytes()).unwrap();
    }
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn what_is_in_use_keeps_its_log() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_alone(&[LOGS_ONLY, &[(Param::ColdAge, 3600)]].concat());
    let inodes = build(&volume);
    volume.migrate(1).unwrap_err();
    assert_eq!(given(&volume), 0);
    assert!(parts(&rig, inodes.file).0 > 0);
    // A file pinned to PM stays there, too.
    volume.tune(Param::ColdAge, 0).unwrap();
    volume.setxattr(inodes.file, PIN_XATTR.as_bytes(), b"pm", XattrFlags::default(), None).unwrap();
    volume.migrate(1).unwrap_err();
    assert!(given(&volume) > 0);
    assert!(parts(&rig, inodes.file).0 > 0);
    assert_eq!(parts(&rig, inodes.dir).0, 0);
}

#[test]
fn a_file_that_is_open_and_has_no_name_lets_a_disk_leave() {
    let (rig, volume, inodes, before) = migrated();
    volume.lookup(Ino::ROOT, b"file").unwrap();
    volume.unlink(Ino::ROOT, b"file").unwrap();
    let removed = volume.remove_disk(1, None).unwrap();
    assert_eq!((removed.state, removed.message), (RemovalState::Finished, None));
    let attr = volume.getattr(inodes.file).unwrap();
    assert_eq!((attr.nlink, contents(&volume, inodes.file)), (0, before.contents[0].clone()));
    volume.forget(inodes.file, 1);
    assert_eq!(
        (list(&volume, inodes.dir), volume.readlink(inodes.link).unwrap()),
        (before.names, before.target)
    );
    volume.close().unwrap();
    drop(volume);
    let rig = Rig { pm: rig.pm.clone(), disks: vec![rig.disks[1].clone()] };
    rig.must_be_sound();
    assert!(parts(&rig, inodes.dir).1 > 0);
}

#[test]
fn full_disks_leave_logs_where_they_are() {
    let rig = Rig::new(rig::PM_BYTES, false);
    let volume = rig.open(0);
    let inodes = build(&volume);
    let before = said(&volume, &inodes);
    let filler = make(&volume, Ino::ROOT, "filler", &NewInode { mode: 0o600, ..FILE });
    let mut at = 0;
    for len in [1 << 16, 4096] {
        let more = |at| volume.write(filler, at, &pattern(len, 5), Default::default()).is_ok();
        while more(at) && volume.fsync(filler, false).is_ok() {
            at += len as u64;
        }
    }
    for &(param, value) in LOGS_ONLY {
        volume.tune(param, value).unwrap();
    }
    let error = volume.migrate(1).unwrap_err().to_string();
    assert!(error.contains("no room"), "{error}");
    assert_eq!(given(&volume), 0);
    assert_eq!(said(&volume, &inodes), before);
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

/// Programs that write no data fill PM, too.
#[test]
fn names_and_attributes_alone_start_migration() {
    let rig = Rig::tiered(16 << 20);
    let volume = rig.open_with(90, true);
    LOGS_ONLY.iter().for_each(|&(param, value)| volume.tune(param, value).unwrap());
    // Long enough without traffic for who looks at it to rest.
    std::thread::sleep(std::time::Duration::from_secs(8));
    let dir = make(&volume, Ino::ROOT, "dir", &rig::DIR);
    for i in 0..10 {
        volume
            .setxattr(
                dir,
                format!("user.{i}").as_bytes(),
                &pattern(300, i),
                XattrFlags::default(),
                None,
            )
            .unwrap();
    }
    let begin = std::time::Instant::now();
    while given(&volume) == 0 {
        assert!(
            begin.elapsed().as_secs() < 60,
            "nothing has moved: {:?}",
            volume.status().migration
        );
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
