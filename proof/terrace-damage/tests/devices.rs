//! Devices cut short, exchanged, foreign, or given twice: each is named, and nothing is changed.

use std::sync::LazyLock;

use terrace_damage::specimen::{Contents, Left, Plan, Specimen};
use terrace_damage::{Devices, Image, read_tree};

const PLAN: Plan =
    Plan { contents: Contents::Few, left: Left::Clean, disks: 2, pm_data_checksums: false };
static CLEAN: LazyLock<Specimen> = LazyLock::new(|| Specimen::new(PLAN));
static CRASHED: LazyLock<Specimen> =
    LazyLock::new(|| Specimen::new(Plan { left: Left::Committed, ..PLAN }));

/// The volume is refused, whether it is to be opened or checked, with a message that has all of
/// `parts`; nothing is changed.
fn refused(image: &Image, devices: &Devices, parts: &[&str]) {
    let opened = devices.open(90).map(drop).unwrap_err().to_string();
    let checked = devices.check(true).map(drop).unwrap_err().to_string();
    for message in [opened, checked] {
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    assert!(devices.hold(image), "it was changed");
}

/// As long as one copy of its superblock is whole, it is told what it lacks: it is not called a
/// device of nobody, which one may format.
#[test]
fn a_device_cut_short_is_named() {
    for specimen in [&*CLEAN, &*CRASHED] {
        for device in 0..3 {
            let len = specimen.image.0[device].len();
            // There is no PM without a single page.
            let rests = if device == 0 { &[][..] } else { &[0] };
            for &rest in rests.iter().chain(&[4096, 8192, 12_288, len / 2, len - 4096]) {
                let mut image = specimen.image.clone();
                image.0[device].truncate(rest);
                let devices = Devices::new(&image);
                let what = if rest == 0 { "no Terrace disk" } else { "truncated" };
                refused(&image, &devices, &[&devices.path(device), what]);
            }
        }
    }
}

#[test]
fn disks_come_in_any_order() {
    for specimen in [&*CLEAN, &*CRASHED] {
        let mut image = specimen.image.clone();
        image.0.swap(1, 2);
        let volume = Devices::new(&image).open(90).unwrap();
        assert_eq!(read_tree(&volume), specimen.truth);
    }
}

#[test]
fn pm_and_a_disk_are_not_exchanged() {
    let mut image = CLEAN.image.clone();
    image.0.swap(0, 1);
    let devices = Devices::new(&image);
    refused(&image, &devices, &[&devices.path(0), "this is disk 1 of a volume, not its PM device"]);
}

#[test]
fn a_disk_of_another_volume_is_named() {
    let mut image = CLEAN.image.clone();
    image.0[2] = CRASHED.image.0[2].clone();
    let devices = Devices::new(&image);
    refused(&image, &devices, &[&devices.path(2), "belongs to volume"]);
}

#[test]
fn a_disk_that_is_there_twice_is_named() {
    let mut image = CLEAN.image.clone();
    image.0[2] = image.0[1].clone();
    let devices = Devices::new(&image);
    refused(&image, &devices, &[&devices.path(2), "disk 1 of the volume is given twice"]);
}

#[test]
fn a_disk_that_is_missing_is_named() {
    let mut image = CLEAN.image.clone();
    image.0.remove(1);
    refused(&image, &Devices::new(&image), &["disk 1 of the volume is missing"]);
}
