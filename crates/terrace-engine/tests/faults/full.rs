//! Every tier full, and PM with any number of free blocks: an operation that finds no room says
//! ENOSPC and leaves everything as it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rig::{self, DIR, FILE, Rig, find, pattern, put, tree};
use terrace_engine::{
    Fallocate, FsError, FsResult, Ino, RenameFlags, SetAttr, Volume, WriteOptions, XattrFlags,
};
use terrace_policy::Param;

/// Something that takes room.
type Operation = (&'static str, fn(&Volume, u64) -> FsResult<()>);

fn name(what: &str, k: u64) -> Vec<u8> {
    format!("{what}-{k}-with-a-name-that-is-long-enough-to-take-more-than-one-slot-of-a-log")
        .into_bytes()
}

fn forget(v: &Volume, made: FsResult<terrace_engine::Attr>) -> FsResult<()> {
    made.map(|attr| v.forget(attr.ino, 1))
}

const OPERATIONS: [Operation; 14] = [
    ("create", |v, k| forget(v, v.create(Ino::ROOT, &name("file", k), &FILE))),
    ("mkdir", |v, k| forget(v, v.create(find(v, "dir"), &name("dir", k), &DIR))),
    ("symlink", |v, k| forget(v, v.symlink(Ino::ROOT, &name("link", k), &[b't'; 4000], 0, 0))),
    ("link", |v, k| forget(v, v.link(find(v, "small"), find(v, "dir"), &name("hard", k)))),
    ("rename", |v, k| {
        let to = name("renamed", k);
        v.rename(Ino::ROOT, b"small", find(v, "dir"), &to, RenameFlags::default())?;
        v.rename(find(v, "dir"), &to, Ino::ROOT, b"small", RenameFlags::default())
    }),
    ("setxattr", |v, k| {
        v.setxattr(
            find(v, "small"),
            b"user.v",
            &pattern(9000 + k as usize, 2),
            XattrFlags::default(),
            None,
        )
    }),
    ("setxattr inline", |v, k| {
        v.setxattr(
            find(v, "dir"),
            format!("user.{k}").as_bytes(),
            &pattern(700, 3),
            XattrFlags::default(),
            None,
        )
    }),
    ("chmod", |v, k| {
        v.setattr(find(v, "small"), &SetAttr { mode: Some(0o600 + k as u32), ..Default::default() })
            .map(drop)
    }),
    ("patch", |v, k| {
        v.write(find(v, "small"), 10, &pattern(300, k as u8), WriteOptions::default()).map(drop)
    }),
    ("overwrite", |v, k| {
        v.write(find(v, "small"), 0, &pattern(4096, k as u8), WriteOptions::default()).map(drop)
    }),
    ("append", |v, k| {
        v.write(
            find(v, "small"),
            0,
            &pattern(900, k as u8),
            WriteOptions { append: true, ..Default::default() },
        )
        .map(drop)
    }),
    ("extend", |v, k| {
        let size = v.getattr(find(v, "small"))?.size + 5000 + k;
        v.setattr(find(v, "small"), &SetAttr { size: Some(size), ..Default::default() }).map(drop)
    }),
    ("fallocate", |v, k| v.fallocate(find(v, "sparse"), Fallocate::Allocate, k * 409_600, 400_000)),
    ("write to disk", |v, k| {
        v.write(find(v, "large"), k * 100_000, &pattern(100_000, k as u8), WriteOptions::default())
            .map(drop)
    }),
];

/// Rename in its forms, and operations that free something or work in place, each a single call.
const SINGLE_CALLS: [Operation; 22] = [
    ("rename", |v, k| {
        v.rename(Ino::ROOT, b"small", find(v, "dir"), &name("renamed", k), RenameFlags::default())
    }),
    ("rename over another", |v, _| {
        v.rename(Ino::ROOT, b"small", find(v, "dir"), b"inner", RenameFlags::default())
    }),
    ("exchange", |v, _| {
        let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
        v.rename(Ino::ROOT, b"small", find(v, "dir"), b"inner", exchange)
    }),
    ("whiteout", |v, k| {
        let whiteout = RenameFlags { whiteout: true, ..RenameFlags::default() };
        v.rename(Ino::ROOT, b"small", find(v, "dir"), &name("renamed", k), whiteout)
    }),
    ("access ACL", |v, _| set_acl(v, "small", b"system.posix_acl_access", 200)),
    ("default ACL", |v, _| set_acl(v, "dir", b"system.posix_acl_default", 20)),
    ("replace an attribute", |v, _| {
        v.setxattr(find(v, "sparse"), b"user.old", &pattern(9000, 7), XattrFlags::default(), None)
    }),
    ("zero", |v, _| v.fallocate(find(v, "small"), Fallocate::ZeroRange, 100, 9000)),
    ("zero on disk", |v, _| {
        v.fallocate(find(v, "large"), Fallocate::ZeroRangeKeepSize, 5000, 70_000)
    }),
    ("punch a part of a block", |v, _| {
        v.fallocate(find(v, "small"), Fallocate::PunchHole, 100, 300)
    }),
    ("punch on disk", |v, _| v.fallocate(find(v, "large"), Fallocate::PunchHole, 5000, 70_000)),
    ("reserve", |v, _| v.fallocate(find(v, "sparse"), Fallocate::AllocateKeepSize, 0, 20_000)),
    ("copy", |v, _| copy(v, "filler", "sparse")),
    ("copy from disk", |v, _| copy(v, "large", "sparse")),
    ("truncate within a block", |v, _| truncate(v, "small", 4500)),
    ("chown", |v, _| {
        v.setattr(find(v, "small"), &SetAttr { uid: Some(77), gid: Some(78), ..Default::default() })
            .map(drop)
    }),
    ("move to a disk", |v, _| move_all(v, "small", 1)),
    ("move to PM", |v, _| move_all(v, "cold", 0)),
    // These make room: they must do without any.
    ("unlink", |v, _| v.unlink(Ino::ROOT, b"small")),
    ("truncate to nothing", |v, _| truncate(v, "large", 0)),
    ("punch a block", |v, _| v.fallocate(find(v, "small"), Fallocate::PunchHole, 0, 4096)),
    ("remove an attribute", |v, _| v.removexattr(find(v, "sparse"), b"user.old")),
];
const MAKES_ROOM: [&str; 3] = ["unlink", "truncate to nothing", "punch a block"];

fn set_acl(v: &Volume, path: &str, acl_name: &[u8], users: u32) -> FsResult<()> {
    let entry = |tag: u16, perm: u16, id: u32| {
        [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let mut acl = [2u32.to_le_bytes().to_vec(), entry(1, 6, u32::MAX)].concat();
    (0..users).for_each(|i| acl.extend(entry(2, 4, 1000 + i)));
    [entry(4, 4, u32::MAX), entry(0x10, 6, u32::MAX), entry(0x20, 0, u32::MAX)]
        .iter()
        .for_each(|e| acl.extend(e));
    v.setxattr(find(v, path), acl_name, &acl, XattrFlags::default(), None)
}

fn copy(v: &Volume, from: &str, to: &str) -> FsResult<()> {
    v.copy_range(find(v, from), 100, find(v, to), 50, 10_000).map(drop)
}

fn truncate(v: &Volume, path: &str, size: u64) -> FsResult<()> {
    v.setattr(find(v, path), &SetAttr { size: Some(size), ..Default::default() }).map(drop)
}

/// Data without room elsewhere does not move.
fn move_all(v: &Volume, path: &str, tier: u8) -> FsResult<()> {
    match v.move_file(find(v, path), tier)?.left_bytes {
        0 => Ok(()),
        _ => Err(FsError::new(libc::ENOSPC)),
    }
}

/// Nothing moves by itself, lest it make room.
fn still(rig: &Rig, pm_full_percent: u8) -> Arc<Volume> {
    let volume = rig.open(pm_full_percent);
    volume.tune(Param::Migrate, 0).unwrap();
    volume
}

/// A volume whose PM, and disks if so asked, have no room for anything but removals.
fn full(disks_too: bool) -> Rig {
    let rig = Rig::new(2 << 20, false);
    let v = still(&rig, 90);
    forget(&v, v.create(Ino::ROOT, b"dir", &DIR)).unwrap();
    for file in ["small", "sparse", "large", "cold", "filler", "ballast"] {
        forget(&v, v.create(Ino::ROOT, file.as_bytes(), &FILE)).unwrap();
    }
    forget(&v, v.create(find(&v, "dir"), b"inner", &FILE)).unwrap();
    v.setxattr(find(&v, "sparse"), b"user.old", &pattern(5000, 6), XattrFlags::default(), None)
        .unwrap();
    put(&v, find(&v, "small"), 0, &pattern(5000, 1));
    put(&v, find(&v, "filler"), 0, &pattern(64 * 4096, 2));
    v.close().unwrap();
    drop(v);
    let v = still(&rig, 0);
    put(&v, find(&v, "large"), 0, &pattern(300_000, 3));
    put(&v, find(&v, "cold"), 0, &pattern(8000, 4));
    v.sync().unwrap();
    let ballast = find(&v, "ballast");
    if disks_too {
        fill_disks(&v, ballast);
    }
    fill(60_000, 1, |at, len| {
        let name = format!("user.ballast-{at}");
        v.setxattr(ballast, name.as_bytes(), &pattern(len, 5), XattrFlags::default(), None)
            .map(|()| len as u64)
    });
    // Records of inodes, and room in the logs of the directories.
    for dir in [Ino::ROOT, find(&v, "dir")] {
        fill(1, 1, |at, _| forget(&v, v.create(dir, &name("small", at), &FILE)).map(|()| 1));
    }
    // And in the logs of the files: whatever is logged needs a page now.
    for file in ["small", "sparse", "large", "cold", "dir/inner"] {
        fill(1, 1, |at, _| {
            let name = format!("user.pad-{at}");
            v.setxattr(find(&v, file), name.as_bytes(), b"", XattrFlags::default(), None)
                .map(|()| 1)
        });
    }
    v.close().unwrap();
    drop(v);
    rig
}

/// Dirty pages are promised more blocks than they take in the end: what is left then is filled,
/// too.
fn fill_disks(v: &Volume, file: Ino) {
    let mut filled = 0;
    loop {
        let before = filled;
        fill(1 << 20, 4096, |_, len| {
            let n = v.write(file, filled, &pattern(len, 4), WriteOptions::default())? as u64;
            filled += n;
            Ok(n)
        });
        v.sync().unwrap();
        if filled == before {
            return;
        }
    }
}

/// Adds pieces, ever smaller ones, until not even one of `least` bytes fits.
fn fill(most: usize, least: usize, mut add: impl FnMut(u64, usize) -> FsResult<u64>) {
    let (mut at, mut len) = (0, most);
    while len >= least {
        match add(at, len) {
            Ok(added) => at += added,
            Err(error) => {
                assert_eq!(error.errno(), libc::ENOSPC);
                len /= 2;
            }
        }
    }
}

#[test]
fn what_finds_no_room_changes_nothing() {
    for disks_too in [false, true] {
        let image = full(disks_too).image();
        // By operation: how often there was room, and how often not.
        let mut outcomes: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for freed in [0, 1, 2, 3, 5, 9] {
            let rig = image.rig();
            let v = still(&rig, 90);
            for i in 0..freed {
                v.fallocate(find(&v, "filler"), Fallocate::PunchHole, i * 8192, 4096).unwrap();
            }
            let mut before = tree(&v);
            for k in 0..2 {
                for (what, operation) in OPERATIONS {
                    let result = operation(&v, k);
                    let context =
                        format!("{what} {k} with {freed} blocks freed, disks full: {disks_too}");
                    let outcome = outcomes.entry(what).or_default();
                    let after = tree(&v);
                    match result {
                        Ok(()) => outcome.0 += 1,
                        Err(error) => {
                            outcome.1 += 1;
                            assert_eq!(error.errno(), libc::ENOSPC, "{context}: {error}");
                            assert_eq!(after, before, "{context}");
                        }
                    }
                    before = after;
                    assert_eq!(v.status().read_only, None, "{context}");
                }
            }
            // Accepted data can be made durable.
            v.sync().unwrap();
            v.close().unwrap();
            drop(v);
            let report = rig.check(false);
            assert!(report.problems.is_empty(), "{freed} blocks freed: {:#?}", report.problems);
            let v = still(&rig, 90);
            assert_eq!(tree(&v), before, "{freed} blocks freed");
            // Removing always works, and makes room.
            for file in ["filler", "ballast", "large"] {
                v.unlink(Ino::ROOT, file.as_bytes()).unwrap();
            }
            forget(&v, v.create(Ino::ROOT, b"large", &FILE)).unwrap();
            for (what, operation) in OPERATIONS {
                operation(&v, 9).unwrap_or_else(|error| panic!("{what} with room again: {error}"));
            }
            v.close().unwrap();
        }
        eprintln!("{outcomes:?}");
        for (what, (room, none)) in &outcomes {
            // Data finds room on the disks, if anywhere, and the rest finds some in the log, now
            // and then.
            let always =
                ["chmod", "patch", "append", "extend", "overwrite", "fallocate"].contains(what);
            assert!(*room > 0 || disks_too, "{what} never found room");
            assert!(
                *none > 0 || always || (*what == "write to disk" && !disks_too),
                "{what} always found room"
            );
        }
    }
}

/// PM blocks that nobody has.
fn free_blocks(v: &Volume) -> u64 {
    let pm = &v.status().devices[0];
    (pm.size_bytes - pm.used_bytes) / 4096
}

/// Takes blocks of "filler" until `blocks` more of PM are free than in `image`; `None` if there is
/// no such number, since the log that says so has taken one.
fn with_room(image: &rig::Image, blocks: u64) -> Option<(Rig, Arc<Volume>)> {
    let rig = image.rig();
    let v = still(&rig, 90);
    let before = free_blocks(&v);
    let filler = find(&v, "filler");
    let mut next = 0;
    while free_blocks(&v) < before + blocks {
        v.fallocate(filler, Fallocate::PunchHole, next * 8192, 4096).unwrap();
        next += 1;
    }
    (free_blocks(&v) == before + blocks).then_some((rig, v))
}

/// More blocks of PM than any of these operations takes for metadata.
const ROOM_MAX: u64 = 10;

/// Each operation with no block of PM to be had, with one, with two, and so on until it succeeds:
/// so it is stopped at each of its allocations in turn.
#[test]
fn an_operation_stopped_at_any_allocation_changes_nothing() {
    for disks_too in [false, true] {
        let image = full(disks_too).image();
        let mut stops = BTreeMap::new();
        // The long way there and back is in the other test.
        let calls = OPERATIONS.iter().filter(|(what, _)| *what != "rename").chain(&SINGLE_CALLS);
        for &(what, operation) in calls {
            let mut stopped = 0;
            for room in 0..=ROOM_MAX {
                let Some((rig, v)) = with_room(&image, room) else {
                    continue;
                };
                let context = format!("{what} with {room} PM blocks, disks full: {disks_too}");
                let before = tree(&v);
                let result = operation(&v, 0);
                let after = tree(&v);
                if let Err(error) = &result {
                    stopped += 1;
                    assert_eq!(error.errno(), libc::ENOSPC, "{context}: {error}");
                    assert_eq!(after, before, "{context}");
                }
                assert_eq!(v.status().read_only, None, "{context}");
                v.sync().unwrap_or_else(|error| panic!("{context}: sync: {error}"));
                v.close().unwrap_or_else(|error| panic!("{context}: close: {error}"));
                drop(v);
                let report = rig.check(false);
                assert!(report.problems.is_empty(), "{context}: {:#?}", report.problems);
                assert_eq!(tree(&still(&rig, 90)), after, "{context}");
                if result.is_ok() {
                    break;
                }
            }
            assert!(stopped == 0 || !MAKES_ROOM.contains(&what), "{what} needs room");
            // Data has no place but the disks, or PM, which takes none so near its end.
            let hopeless = (disks_too || what == "move to PM") && stopped > ROOM_MAX / 2;
            assert!(stopped <= ROOM_MAX / 2 || hopeless, "{what} never found room");
            stops.insert(what, stopped);
        }
        println!("stopped so many times, disks full: {disks_too}: {stops:?}");
        assert!(stops.values().filter(|&&n| n > 0).count() > 8, "{stops:?}");
        assert!(
            stops.values().any(|&n| (2..ROOM_MAX / 2).contains(&n)),
            "nothing took several blocks: {stops:?}"
        );
    }
}
