//! What `statfs` calls available can be taken: by `fallocate`, in one file, and by writes; whatever was taken before.

mod rig;

use std::sync::Arc;

use rig::{FILE, Rig, find, pattern};
use terrace_engine::{Fallocate, Ino, Volume, WriteOptions};
use terrace_policy::Param;

const BLOCK: u64 = 4096;
/// Blocks that are left: what logs may take meanwhile, and what is rounded.
const LEFT: u64 = 32;

fn create(v: &Volume, name: &str) -> Ino {
    let ino = v.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
    v.forget(ino, 1);
    ino
}

fn still(rig: &Rig) -> Arc<Volume> {
    let volume = rig.open(90);
    volume.tune(Param::Migrate, 0).unwrap();
    volume
}

fn available(v: &Volume) -> u64 {
    let statfs = v.statfs().unwrap();
    assert!(statfs.blocks_available <= statfs.blocks_free && statfs.blocks_free <= statfs.blocks, "{statfs:?}");
    statfs.blocks_available
}

/// Makes a volume anything but fresh.
type Use = fn(&Volume);

const USES: [(&str, Use); 4] = [
    ("fresh", |_| {}),
    ("PM in use", |v| {
        let ino = create(v, "small");
        for i in 0..400 {
            v.write(ino, i * 2 * BLOCK, &pattern(BLOCK as usize, 1), WriteOptions::default()).unwrap();
        }
    }),
    ("in pieces", |v| {
        let ino = create(v, "pieces");
        v.fallocate(ino, Fallocate::Allocate, 0, 4 << 20).unwrap();
        (0..256).for_each(|i| v.fallocate(ino, Fallocate::PunchHole, i * 4 * BLOCK, BLOCK).unwrap());
    }),
    ("disks in use", |v| {
        let ino = create(v, "long");
        v.write(ino, 0, &pattern(6 << 20, 2), WriteOptions::default()).unwrap();
        v.sync().unwrap();
    }),
];

#[test]
fn nearly_all_that_is_available_can_be_reserved_in_one_file() {
    for (what, prepare) in USES {
        for (offset, mode) in [(0, Fallocate::Allocate), (3 << 20, Fallocate::AllocateKeepSize)] {
            let rig = Rig::new(8 << 20, false);
            let v = still(&rig);
            prepare(&v);
            let (ino, before) = (create(&v, "reserved"), available(&v));
            let too_much = v.fallocate(ino, mode, offset, (before + LEFT) * BLOCK);
            assert_eq!(too_much.unwrap_err().errno(), libc::ENOSPC, "{what}");
            assert_eq!(available(&v), before, "{what}: what is refused takes nothing");
            v.fallocate(ino, mode, offset, (before - LEFT) * BLOCK).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(v.getattr(ino).unwrap().blocks_512 / 8, before - LEFT, "{what}");
            // Of the checksums that data would need, some room may be left.
            assert!(available(&v) <= before / 16 + LEFT, "{what}: {} left", available(&v));
            v.close().unwrap();
            drop(v);
            rig.must_be_sound();
            let v = still(&rig);
            v.unlink(Ino::ROOT, b"reserved").unwrap();
            let after = available(&v);
            assert!(after.abs_diff(before) <= LEFT, "{what}: {before} available before, {after} after");
        }
    }
}

#[test]
fn nearly_all_that_is_available_can_be_written() {
    for (what, prepare) in USES {
        let rig = Rig::new(8 << 20, false);
        let v = still(&rig);
        prepare(&v);
        let ino = create(&v, "written");
        let wanted = (available(&v) - LEFT) * BLOCK;
        let mut at = 0;
        while at < wanted {
            let len = (wanted - at).min(200_000) as usize;
            let n = v.write(ino, at, &pattern(len, 3), WriteOptions::default());
            at += n.unwrap_or_else(|e| panic!("{what}: {e} at {at} of {wanted}")) as u64;
        }
        v.sync().unwrap();
        assert!(find(&v, "written") == ino && v.getattr(ino).unwrap().size == wanted, "{what}");
        v.close().unwrap();
        drop(v);
        rig.must_be_sound();
    }
}
