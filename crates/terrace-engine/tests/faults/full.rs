//! Every tier full, and PM at every number of free blocks: an operation that finds no room says ENOSPC and leaves
//! everything as it was.

#[path = "../rig/mod.rs"]
mod rig;

use std::collections::BTreeMap;

use rig::{DIR, FILE, Rig, find, pattern, put, tree};
use terrace_engine::{Fallocate, FsResult, Ino, RenameFlags, SetAttr, Volume, WriteOptions, XattrFlags};

/// Something that takes room.
type Operation = (&'static str, fn(&Volume, u64) -> FsResult<()>);

fn name(what: &str, k: u64) -> Vec<u8> {
    format!("{what}-{k}-with-a-name-that-is-long-enough-to-take-more-than-one-slot-of-a-log").into_bytes()
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
        v.setxattr(find(v, "small"), b"user.v", &pattern(9000 + k as usize, 2), XattrFlags::default(), None)
    }),
    ("setxattr inline", |v, k| {
        v.setxattr(find(v, "dir"), format!("user.{k}").as_bytes(), &pattern(700, 3), XattrFlags::default(), None)
    }),
    ("chmod", |v, k| {
        v.setattr(find(v, "small"), &SetAttr { mode: Some(0o600 + k as u32), ..Default::default() }).map(drop)
    }),
    ("patch", |v, k| v.write(find(v, "small"), 10, &pattern(300, k as u8), WriteOptions::default()).map(drop)),
    ("overwrite", |v, k| v.write(find(v, "small"), 0, &pattern(4096, k as u8), WriteOptions::default()).map(drop)),
    ("append", |v, k| {
        v.write(find(v, "small"), 0, &pattern(900, k as u8), WriteOptions { append: true, ..Default::default() })
            .map(drop)
    }),
    ("extend", |v, k| {
        let size = v.getattr(find(v, "small"))?.size + 5000 + k;
        v.setattr(find(v, "small"), &SetAttr { size: Some(size), ..Default::default() }).map(drop)
    }),
    ("fallocate", |v, k| v.fallocate(find(v, "sparse"), Fallocate::Allocate, k * 409_600, 400_000)),
    ("write to disk", |v, k| {
        v.write(find(v, "large"), k * 100_000, &pattern(100_000, k as u8), WriteOptions::default()).map(drop)
    }),
];

/// A volume whose PM, and disks if so asked, have no room for anything but removals.
fn full(disks_too: bool) -> Rig {
    let rig = Rig::new(2 << 20, false);
    let v = rig.open(90);
    forget(&v, v.create(Ino::ROOT, b"dir", &DIR)).unwrap();
    for file in ["small", "sparse", "large", "filler", "ballast"] {
        forget(&v, v.create(Ino::ROOT, file.as_bytes(), &FILE)).unwrap();
    }
    put(&v, find(&v, "small"), 0, &pattern(5000, 1));
    put(&v, find(&v, "filler"), 0, &pattern(64 * 4096, 2));
    v.close().unwrap();
    drop(v);
    let v = rig.open(0);
    put(&v, find(&v, "large"), 0, &pattern(300_000, 3));
    v.sync().unwrap();
    let ballast = find(&v, "ballast");
    if disks_too {
        fill(1 << 20, 4096, |at, len| {
            v.write(ballast, at, &pattern(len, 4), WriteOptions::default()).map(|n| n as u64)
        });
        v.sync().unwrap();
    }
    fill(60_000, 1, |at, len| {
        let name = format!("user.ballast-{at}");
        v.setxattr(ballast, name.as_bytes(), &pattern(len, 5), XattrFlags::default(), None).map(|()| len as u64)
    });
    // Records of inodes, and room in the logs of the directories.
    for dir in [Ino::ROOT, find(&v, "dir")] {
        fill(1, 1, |at, _| forget(&v, v.create(dir, &name("small", at), &FILE)).map(|()| 1));
    }
    v.close().unwrap();
    drop(v);
    rig
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
            let v = rig.open(90);
            for i in 0..freed {
                v.fallocate(find(&v, "filler"), Fallocate::PunchHole, i * 8192, 4096).unwrap();
            }
            let mut before = tree(&v);
            for k in 0..2 {
                for (what, operation) in OPERATIONS {
                    let result = operation(&v, k);
                    let context = format!("{what} {k} with {freed} blocks freed, disks full: {disks_too}");
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
            // What was taken can be made durable.
            v.sync().unwrap();
            v.close().unwrap();
            drop(v);
            let report = rig.check(false);
            assert!(report.problems.is_empty(), "{freed} blocks freed: {:#?}", report.problems);
            let v = rig.open(90);
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
        for (what, (room, none)) in &outcomes {
            // Data finds room on the disks, if anywhere, and the rest finds some in the log, now and then.
            let always = ["chmod", "patch", "append", "extend", "overwrite", "fallocate"].contains(what);
            assert!(*room > 0 || disks_too, "{what} never found room");
            assert!(*none > 0 || always || (*what == "write to disk" && !disks_too), "{what} always found room");
        }
    }
}
