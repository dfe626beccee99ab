//! Mounts over io_uring, where this kernel has it.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use common::switch::{SWITCH, Switch, over_ring};
use common::{Behind, TestMount};
use terrace_fuse::terms::RING_MESSAGE_BYTES_MAX;
use terrace_fuse::{Message, MountConfig, Transport, TransportStatus};

/// The work of one of several programs; each call waits for the others' now and then.
fn work(root: &Path, number: u8) {
    let directory = root.join(format!("of-{number}"));
    fs::create_dir(&directory).unwrap();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(directory.join("file"))
        .unwrap();
    let long = vec![number; 1 << 20];
    for round in 0..20_u64 {
        file.write_all_at(&long, round << 20).unwrap();
        file.write_all_at(&[number ^ 0xff], (round << 20) + 4097).unwrap();
        file.sync_data().unwrap();
        let name = directory.join(format!("{round}"));
        File::create(&name).unwrap();
        fs::rename(&name, directory.join(format!("renamed-{round}"))).unwrap();
    }
    let mut read = vec![0; 1 << 20];
    for round in 0..20_u64 {
        file.read_exact_at(&mut read, round << 20).unwrap();
        let mut expected = long.clone();
        expected[4097] = number ^ 0xff;
        assert!(read == expected, "round {round}");
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 21);
    let missing = fs::metadata(directory.join("missing")).unwrap_err();
    assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
}

#[test]
fn programs_side_by_side_find_what_they_wrote() {
    let Some(_switch) = Switch::set("programs_side_by_side_find_what_they_wrote", "Y") else {
        return;
    };
    // More programs than a queue has workers: some requests wait for one.
    for depth in [2, 15] {
        let mount = TestMount::new(Behind::Engine, &over_ring(depth));
        std::thread::scope(|scope| {
            for number in 1..=6 {
                let root = mount.path();
                scope.spawn(move || work(root, number));
            }
        });
        let counts = mount.mounted.counts().snapshot();
        assert!(counts.of(Message::Write) >= 6 * 40, "{counts}");
        assert_eq!(fs::metadata(mount.join("of-1/file")).unwrap().size(), 20 << 20);
        mount.finish();
    }
}

#[test]
fn the_state_of_a_mount_tells_of_queues_and_workers() {
    const BUFFER_BYTES: usize = RING_MESSAGE_BYTES_MAX as usize + 4096;
    let Some(_switch) = Switch::set("the_state_of_a_mount_tells_of_queues_and_workers", "Y") else {
        return;
    };
    let state = |mount: &TestMount| -> TransportStatus {
        let state = terrace_fuse::control::status(mount.path()).unwrap();
        let state: serde_json::Value = serde_json::from_str(&state).unwrap();
        serde_json::from_value(state["transport"].clone()).unwrap()
    };
    let mount = TestMount::new(Behind::Engine, &over_ring(4));
    work(mount.path(), 1);
    let ring = state(&mount);
    assert_eq!((&*ring.way, ring.entries_per_queue_max), ("io_uring", 4));
    assert!(ring.threads <= 1, "{ring:?}");
    assert!(ring.queues >= 1 && ring.workers >= ring.queues, "{ring:?}");
    assert!(ring.workers <= ring.queues * 4 && ring.entries == ring.workers, "{ring:?}");
    assert!(ring.buffer_bytes >= ring.workers * BUFFER_BYTES, "{ring:?}");
    assert!(mount.mounted.is_over_io_uring());
    mount.finish();
    let threads =
        MountConfig { transport: Transport::Device, threads: Some(3), ..MountConfig::default() };
    let mount = TestMount::new(Behind::Engine, &threads);
    fs::write(mount.join("file"), "text").unwrap();
    let device = state(&mount);
    assert_eq!((&*device.way, device.queues, device.workers), ("device", 0, 0));
    assert!((1..=3).contains(&device.threads) && device.buffer_bytes > 1 << 20, "{device:?}");
    assert!(!mount.mounted.is_over_io_uring());
    mount.finish();
}

#[test]
fn a_mount_without_an_engine_comes_and_goes() {
    let Some(_switch) = Switch::set("a_mount_without_an_engine_comes_and_goes", "Y") else {
        return;
    };
    for _ in 0..10 {
        let mount = TestMount::new(Behind::Nothing, &over_ring(15));
        fs::write(mount.join("file"), "text").unwrap();
        assert_eq!(fs::read_to_string(mount.join("file")).unwrap(), "text");
        let busy = File::open(mount.join("file")).unwrap();
        assert!(mount.mounted.unmounter().unmount().is_err(), "it is in use");
        drop(busy);
        mount.finish();
    }
}

#[test]
fn the_switch_is_named_where_it_is_off() {
    let Some(_switch) = Switch::set("the_switch_is_named_where_it_is_off", "N") else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let refused = terrace_nullfs::mount_null(place.path(), &over_ring(15)).unwrap_err();
    let message = format!("{refused:#}");
    assert!(message.contains(SWITCH), "{message}");
    assert!(message.contains("enable_uring=1") && message.contains("terrace doctor"), "{message}");
    let automatic = MountConfig { transport: Transport::Auto, ..MountConfig::default() };
    let mount = TestMount::new(Behind::Nothing, &automatic);
    fs::write(mount.join("file"), "over /dev/fuse").unwrap();
    mount.finish();
    let shallow = MountConfig { queue_depth: Some(1), ..MountConfig::default() };
    let refused = terrace_nullfs::mount_null(place.path(), &shallow).unwrap_err();
    assert!(format!("{refused:#}").contains("queue_depth=1"), "{refused:#}");
}
