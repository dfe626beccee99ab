//! Power cuts: at every fence and every disk flush of an operation, crash images are taken as the crash model allows
//! (see `docs/FORMAT.md`), and each must recover to the state before the operation or to the one after it.

mod common;

use std::sync::Arc;

use common::{Model, Op, Tree, apply, op, prepare, tree_of};
use parking_lot::Mutex;
use proptest::prelude::*;
use terrace_engine::{FormatOptions, OpenOptions, Volume, format};
use terrace_media::{Disk, DiskSim, Pm, PmSim, sim_disk, sim_disk_from};

const PM_BYTES: u64 = 3 << 20;
const DISK_BYTES: u64 = 2 << 20;
/// Random images per fence, besides the one in which nothing unfenced survives.
const IMAGES: u64 = 3;

struct Rig {
    pm: Arc<Pm>,
    pm_sim: Arc<PmSim>,
    disk: Arc<dyn Disk>,
    disk_sim: Arc<DiskSim>,
}

type Image = (Vec<u8>, Vec<u8>);

fn open(pm: Arc<Pm>, disk: Arc<dyn Disk>, pm_full_percent: u8) -> Arc<Volume> {
    let options = OpenOptions { cache_bytes: 1 << 20, pm_full_percent, ..Default::default() };
    Volume::open(pm, vec![disk], options, &|_, _, _| {}).unwrap()
}

impl Rig {
    fn new(checksums: bool) -> Rig {
        let (pm, pm_sim) = Pm::simulated(PM_BYTES);
        let (disk, disk_sim) = sim_disk(DISK_BYTES);
        let options = FormatOptions { shards: Some(1), pm_data_checksums: checksums, ..Default::default() };
        format(&pm, std::slice::from_ref(&disk), &options).unwrap();
        Rig { pm, pm_sim, disk, disk_sim }
    }

    /// Runs `work` and returns crash images from all of its fences and flushes, and from its end.
    fn images_during(&self, seed: u64, work: impl FnOnce()) -> Vec<Image> {
        let images: Arc<Mutex<Vec<Image>>> = Arc::default();
        let at_fence = {
            let (images, disk) = (images.clone(), self.disk_sim.clone());
            move |pm: &PmSim| {
                let mut images = images.lock();
                let n = images.len() as u64;
                images.push((pm.durable_image(), disk.durable_image()));
                for i in 0..IMAGES {
                    images.push((pm.crash_image_random(seed + n + i), disk.crash_image_random(seed + n + i)));
                }
            }
        };
        let at_flush = {
            let (images, pm) = (images.clone(), self.pm_sim.clone());
            move |disk: &DiskSim| {
                let n = images.lock().len() as u64;
                for i in 0..IMAGES {
                    let image = (pm.crash_image_random(seed + n + i), disk.crash_image_random(seed + n + i));
                    images.lock().push(image);
                }
            }
        };
        self.pm_sim.set_on_fence(Box::new(at_fence));
        self.disk_sim.set_on_flush(Box::new(at_flush));
        work();
        self.pm_sim.clear_on_fence();
        self.disk_sim.clear_on_flush();
        let mut images = std::mem::take(&mut *images.lock());
        images.push((self.pm_sim.durable_image(), self.disk_sim.durable_image()));
        images
    }
}

/// What an image recovers to; it must also take a change, and unmount and mount cleanly after it.
fn recovered(image: Image, pm_full_percent: u8) -> Tree {
    let (pm, _) = Pm::simulated_from(image.0);
    let (disk, _) = sim_disk_from(image.1);
    let volume = open(pm.clone(), disk.clone(), pm_full_percent);
    let tree = tree_of(&volume);
    assert!(!volume.status().devices.is_empty());
    assert_eq!(volume.status().read_only, None, "recovery found damage");
    volume.close().unwrap();
    drop(volume);
    common::must_be_sound(&pm, &disk);
    assert_eq!(tree_of(&open(pm, disk, pm_full_percent)), tree, "after a clean unmount");
    tree
}

/// Operations that one commit carries.
fn atomic(op: &Op) -> bool {
    !matches!(op, Op::Copy(..) | Op::Falloc(..))
}

fn run(prefix: &[Op], last: &Op, seed: u64, pm_full_percent: u8, checksums: bool) -> Result<usize, TestCaseError> {
    let rig = Rig::new(checksums);
    let volume = open(rig.pm.clone(), rig.disk.clone(), pm_full_percent);
    prepare(&volume);
    let mut model = Model::new();
    for op in prefix {
        prop_assert_eq!(model.apply(op), apply(&volume, op));
    }
    volume.sync().unwrap();
    let before = model.tree();
    let images = rig.images_during(seed, || {
        let found = apply(&volume, last);
        assert_eq!(model.apply(last), found);
        volume.sync().unwrap();
    });
    let after = model.tree();
    volume.abandon();
    std::mem::forget(volume);
    let count = images.len();
    let last_image = count - 1;
    for (i, image) in images.into_iter().enumerate() {
        let tree = recovered(image, pm_full_percent);
        let legal = tree == after || (i != last_image && tree == before);
        prop_assert!(legal, "image {i} of {count}\n before {before:#?}\n after {after:#?}\n found {tree:#?}");
    }
    Ok(count)
}

fn last() -> impl Strategy<Value = Op> {
    op(20_000).prop_filter("one commit", atomic)
}

proptest! {
    #![proptest_config(common::config(60))]

    #[test]
    fn an_operation_in_pm_is_atomic_and_durable(
        prefix in proptest::collection::vec(op(20_000), 1..25), last in last(), seed: u32,
    ) {
        run(&prefix, &last, seed.into(), 90, false)?;
    }

    #[test]
    fn so_it_is_with_checksums(
        prefix in proptest::collection::vec(op(20_000), 1..25), last in last(), seed: u32,
    ) {
        run(&prefix, &last, seed.into(), 90, true)?;
    }

    /// Data goes to the disk: it is there, whole, once a sync has returned, and old data until then.
    #[test]
    fn a_sync_to_disk_is_atomic_and_durable(
        prefix in proptest::collection::vec(op(20_000), 1..25), last in last(), seed: u32,
    ) {
        run(&prefix, &last, seed.into(), 30, false)?;
    }
}

/// The checker must find what it is there to find: a lost flush or fence.
#[test]
fn a_lost_flush_is_noticed() {
    let create = Op::Create((None, 0));
    let write = Op::Write((None, 0), 0, 9000, 5);
    let rig = Rig::new(false);
    let volume = open(rig.pm.clone(), rig.disk.clone(), 90);
    prepare(&volume);
    apply(&volume, &create).unwrap();
    // The tail of the log is the one flush of a write (data and entries are non-temporal stores).
    rig.pm_sim.drop_flush_number(1);
    apply(&volume, &write).unwrap();
    let mut model = Model::new();
    model.apply(&create).unwrap();
    let before = model.tree();
    volume.abandon();
    std::mem::forget(volume);
    assert_eq!(recovered((rig.pm_sim.durable_image(), rig.disk_sim.durable_image()), 90), before);
}
