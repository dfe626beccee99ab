//! Random operations for a volume and for the reference model, which is the crash-state engine's.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part")]

use std::sync::Arc;

use proptest::prelude::*;
use terrace_crash::op::{FallocHow, NAMES, Path, RenameHow};
use terrace_engine::{CheckOptions, Volume, check};
use terrace_media::{Disk, Pm};

pub use terrace_crash::apply::apply;
pub use terrace_crash::model::Model;
pub use terrace_crash::op::Op;
pub use terrace_crash::tree::Tree;

/// How to run property tests: `PROPTEST_CASES` overrides the number of cases; failures are printed,
/// not filed.
pub fn config(cases: u32) -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(cases);
    ProptestConfig {
        cases,
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..Default::default()
    }
}

/// An unmounted volume has nothing wrong: structure, ownership of every block, checksums,
/// checkpoint.
pub fn must_be_sound(pm: &Arc<Pm>, disk: &Arc<dyn Disk>) {
    let options = CheckOptions { repair: false, data: true, ..CheckOptions::default() };
    let report = check(pm, std::slice::from_ref(disk), &options, &|_, _, _| {}).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

/// The playground on a volume.
pub fn prepare(volume: &Volume) {
    terrace_crash::apply::prepare(volume).unwrap();
}

/// Describes a volume's tree; reads everything.
pub fn tree_of(volume: &Volume) -> Tree {
    terrace_crash::tree::tree_of(volume, true).unwrap()
}

fn path() -> impl Strategy<Value = Path> {
    (proptest::option::weighted(0.3, 0..2usize), 0..NAMES.len())
}

/// Random operations; offsets and lengths up to about `max` bytes, often unaligned, sometimes tiny.
pub fn op(max: u32) -> impl Strategy<Value = Op> {
    use FallocHow::{Allocate, AllocateKeepSize, PunchHole, ZeroRange, ZeroRangeKeepSize};
    use RenameHow::{Exchange, NoReplace, Plain, Whiteout};
    let offset = prop_oneof![0..max, (0..max / 4096).prop_map(|b| b * 4096), 0..200u32];
    let len = prop_oneof![1..200u32, 1..20000u32, (1..5u32).prop_map(|b| b * 4096)];
    let falloc = prop::sample::select(vec![
        Allocate,
        AllocateKeepSize,
        PunchHole,
        ZeroRange,
        ZeroRangeKeepSize,
    ]);
    let rename = prop::sample::select(vec![Plain, Plain, NoReplace, Exchange, Whiteout]);
    prop_oneof![
        3 => path().prop_map(Op::Create),
        1 => path().prop_map(Op::Mkdir),
        1 => path().prop_map(Op::Mknod),
        1 => (path(), 1..4095usize).prop_map(|(p, n)| Op::Symlink(p, n)),
        1 => (path(), path()).prop_map(|(a, b)| Op::Link(a, b)),
        1 => prop_oneof![path().prop_map(Op::Unlink), path().prop_map(Op::UnlinkHeld)],
        1 => path().prop_map(Op::Rmdir),
        2 => (path(), path(), rename).prop_map(|(a, b, how)| Op::Rename(a, b, how)),
        8 => (path(), offset.clone(), len.clone(), any::<u8>())
            .prop_map(|(p, o, l, s)| Op::Write(p, o, l, s)),
        1 => (path(), offset.clone(), len.clone(), any::<u8>())
            .prop_map(|(p, o, l, s)| Op::WriteUnprivileged(p, o, l, s)),
        4 => (path(), len, any::<u8>()).prop_map(|(p, l, s)| Op::Append(p, l, s)),
        2 => (path(), offset.clone()).prop_map(|(p, o)| Op::Truncate(p, o)),
        2 => (path(), falloc, offset.clone(), 1..max)
            .prop_map(|(p, how, o, l)| Op::Falloc(p, how, o, l)),
        1 => (path(), 0..0o10000u32).prop_map(|(p, m)| Op::Chmod(p, m)),
        1 => (path(), 0..10u32).prop_map(|(p, owner)| Op::Chown(p, owner)),
        1 => (path(), offset.clone(), 0..0o1000u32).prop_map(|(p, o, m)| Op::SizeAndMode(p, o, m)),
        1 => (path(), 0..3usize, prop_oneof![1..100u16, 1..6000u16])
            .prop_map(|(p, n, l)| Op::SetXattr(p, n, l)),
        1 => (path(), 0..3usize).prop_map(|(p, n)| Op::RemoveXattr(p, n)),
        1 => (path(), 0..8u8).prop_map(|(p, perm)| Op::AccessAcl(p, perm)),
        1 => (0..2usize, 0..8u8).prop_map(|(dir, perm)| Op::DefaultAcl(dir, perm)),
        1 => (path(), path(), offset).prop_map(|(a, b, o)| Op::Copy(a, b, o)),
        1 => path().prop_map(Op::Fsync),
        3 => (path(), 0..2u8).prop_map(|(p, tier)| Op::Move(p, tier)),
    ]
}
