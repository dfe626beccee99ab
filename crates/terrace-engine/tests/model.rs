//! Random operations on a volume and on the reference model: the same answers, the same trees, also
//! after clean unmounts and after the daemon's death, with room in PM and without.

mod common;

use std::sync::Arc;

use common::{Model, apply, op, prepare, tree_of};
use proptest::prelude::*;
use terrace_engine::{FormatOptions, OpenOptions, Volume, format};
use terrace_media::{Disk, Pm, memory_disk};

#[derive(Clone, Debug)]
enum Step {
    Op(common::Op),
    Remount,
    Kill,
    Sync,
}

fn step(max: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => op(max).prop_map(Step::Op),
        1 => Just(Step::Remount),
        1 => Just(Step::Kill),
        1 => Just(Step::Sync),
    ]
}

struct Rig {
    pm: Arc<Pm>,
    disk: Arc<dyn Disk>,
    cache: tempfile::TempDir,
    pm_full_percent: u8,
}

impl Rig {
    fn open(&self) -> Arc<Volume> {
        let options = OpenOptions {
            cache_bytes: 2 << 20,
            cache_dir: Some(self.cache.path().to_path_buf()),
            pm_full_percent: self.pm_full_percent,
            ..Default::default()
        };
        Volume::open(self.pm.clone(), vec![self.disk.clone()], options, &|_, _, _| {}).unwrap()
    }
}

fn run(steps: &[Step], pm_full_percent: u8, checksums: bool) -> Result<(), TestCaseError> {
    let rig = Rig {
        pm: Pm::anonymous(8 << 20),
        disk: memory_disk(64 << 20),
        cache: tempfile::tempdir().unwrap(),
        pm_full_percent,
    };
    let options =
        FormatOptions { shards: Some(2), pm_data_checksums: checksums, ..Default::default() };
    format(&rig.pm, std::slice::from_ref(&rig.disk), &options).unwrap();
    let mut volume = rig.open();
    prepare(&volume);
    let mut model = Model::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            Step::Op(op) => {
                let (expected, found) = (model.apply(op), apply(&volume, op));
                prop_assert_eq!(expected, found, "step {} {:?}", i, op);
            }
            Step::Remount => {
                volume.close().unwrap();
                drop(volume);
                volume = rig.open();
            }
            Step::Kill => {
                volume.abandon();
                std::mem::forget(volume);
                volume = rig.open();
            }
            Step::Sync => volume.sync().unwrap(),
        }
        if i % 8 == 0 || !matches!(step, Step::Op(_)) {
            prop_assert_eq!(model.tree(true), tree_of(&volume), "after step {} {:?}", i, step);
        }
    }
    prop_assert_eq!(model.tree(true), tree_of(&volume));
    volume.close().unwrap();
    drop(volume);
    common::must_be_sound(&rig.pm, &rig.disk);
    prop_assert_eq!(model.tree(true), tree_of(&rig.open()));
    Ok(())
}

proptest! {
    #![proptest_config(common::config(100))]

    #[test]
    fn with_room_in_pm(steps in proptest::collection::vec(step(40_000), 1..120)) {
        run(&steps, 90, false)?;
    }

    #[test]
    fn with_checksums_in_pm(steps in proptest::collection::vec(step(40_000), 1..120)) {
        run(&steps, 90, true)?;
    }

    /// PM takes next to no data: nearly all of it goes through the page cache to the disk.
    #[test]
    fn with_pm_full(steps in proptest::collection::vec(step(40_000), 1..120)) {
        run(&steps, 17, false)?;
    }

    /// The border between the tiers is crossed back and forth.
    #[test]
    fn with_pm_half_full(steps in proptest::collection::vec(step(200_000), 1..120)) {
        run(&steps, 22, false)?;
    }
}
