//! Inode tables give back what they do not need: a PM that was full of inodes is free again when
//! they are gone.

mod rig;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rig::{FILE, Rig, pattern};
use terrace_engine::{Ino, Volume, WriteOptions};
use terrace_policy::Param;

fn still(rig: &Rig) -> Arc<Volume> {
    let volume = rig.open(90);
    volume.tune(Param::Migrate, 0).unwrap();
    volume
}

fn used_blocks(v: &Volume) -> u64 {
    v.sync().unwrap();
    v.status().devices[0].used_bytes / 4096
}

/// By name: inode number and generation.
type Files = BTreeMap<String, (Ino, u32)>;

/// Makes files until there is no room for another.
fn fill(v: &Volume, files: &mut Files, round: usize) {
    for n in 0.. {
        let name = format!("{round}-{n}");
        match v.create(Ino::ROOT, name.as_bytes(), &FILE) {
            Ok(attr) => {
                v.forget(attr.ino, 1);
                files.insert(name, (attr.ino, attr.generation));
            }
            Err(error) => return assert_eq!(error.errno(), libc::ENOSPC, "{error}"),
        }
    }
}

fn remove(v: &Volume, files: &mut Files, goes: impl Fn(usize, &str) -> bool) {
    let names: Vec<String> = files.keys().cloned().collect();
    for (i, name) in names.iter().enumerate().filter(|(i, name)| goes(*i, name)) {
        v.unlink(Ino::ROOT, name.as_bytes()).unwrap_or_else(|error| panic!("{i} {name}: {error}"));
        files.remove(name);
    }
}

fn must_be(v: &Volume, files: &Files) {
    for (name, &(ino, generation)) in files {
        let attr =
            v.lookup(Ino::ROOT, name.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        v.forget(attr.ino, 1);
        assert_eq!((attr.ino, attr.generation), (ino, generation), "{name}");
    }
    assert_eq!(v.statfs().unwrap().files - v.statfs().unwrap().files_free, files.len() as u64 + 1);
}

#[test]
fn a_pm_that_was_full_of_inodes_is_free_again_and_again() {
    let rig = Rig::new(2 << 20, false);
    let v = still(&rig);
    let (mut files, empty) = (Files::new(), used_blocks(&v));
    let mut known = BTreeSet::new();
    for round in 0..3 {
        fill(&v, &mut files, round);
        assert!(files.len() > 3000, "{} files in round {round}", files.len());
        for &(ino, generation) in files.values() {
            assert!(
                known.insert((ino, generation)),
                "{ino:?} has been of generation {generation} before"
            );
        }
        remove(&v, &mut files, |_, _| true);
        let left = used_blocks(&v);
        assert!(left < empty + 60, "round {round}: {left} blocks are in use, {empty} were");
        // Data finds room in PM.
        let ino = v.create(Ino::ROOT, b"data", &FILE).unwrap().ino;
        let durable = WriteOptions { durable: true, ..Default::default() };
        (0..8)
            .for_each(|i| v.write(ino, i << 16, &pattern(1 << 16, 1), durable).map(drop).unwrap());
        assert!(used_blocks(&v) >= left + 128, "the data are in PM");
        v.unlink(Ino::ROOT, b"data").unwrap();
        v.forget(ino, 1);
    }
    v.close().unwrap();
    drop(v);
    rig.must_be_sound();
}

/// Files here and there stay: tables have gaps between them, which are found after an unmount and
/// after a crash, and filled.
#[test]
fn tables_with_gaps_are_found_and_filled() {
    let rig = Rig::new(2 << 20, false);
    let mut files = Files::new();
    let mut gaps = 0;
    for (round, clean) in [true, false, true, false].into_iter().enumerate() {
        let v = still(&rig);
        must_be(&v, &files);
        fill(&v, &mut files, round);
        let full = used_blocks(&v);
        // Files that were made together, but for some.
        remove(&v, &mut files, |i, _| i % 500 > round * 40 + 7);
        gaps += full - used_blocks(&v);
        must_be(&v, &files);
        match clean {
            true => v.close().unwrap(),
            false => v.abandon(),
        }
        drop(v);
        must_be(&still(&rig), &files);
        rig.must_be_sound();
    }
    assert!(gaps > 400, "only {gaps} blocks were given back");
}
