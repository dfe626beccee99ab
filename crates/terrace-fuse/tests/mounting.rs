//! Mounts come, go, and leave nothing behind: no mount, no thread, and nothing else unmounted.

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Behind, TestMount, alone, is_root, skip};
use terrace_fuse::{Message, MountConfig, clean_dead_mount, control};
use terrace_nullfs::mount_null;

fn is_mounted(path: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("the mount table");
    table.lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

fn session_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads of this process");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("fuser-") || name.starts_with("terrace-fuse")).count()
}

/// Waits until that many threads serve mounts: a thread takes its name, and leaves the list, in its
/// own time.
fn await_session_threads(expected: usize) {
    let limit = Instant::now() + Duration::from_secs(60);
    while session_threads() != expected {
        assert!(
            Instant::now() < limit,
            "{} threads serve mounts, not {expected}",
            session_threads()
        );
        std::thread::yield_now();
    }
}

#[test]
fn files_work_and_unmounting_ends_all_threads() {
    let Some(_alone) = alone("files_work_and_unmounting_ends_all_threads") else {
        return;
    };
    let mount = TestMount::new(
        Behind::Nothing,
        &MountConfig { threads: Some(3), ..MountConfig::default() },
    );
    let path = mount.path().to_owned();
    assert!(is_mounted(&path));
    await_session_threads(4);

    std::fs::create_dir(mount.join("dir")).unwrap();
    File::create(mount.join("dir/a")).unwrap().write_all(&[1; 10_000]).unwrap();
    std::fs::rename(mount.join("dir/a"), mount.join("b")).unwrap();
    std::fs::hard_link(mount.join("b"), mount.join("dir/c")).unwrap();
    assert_eq!(
        std::fs::metadata(mount.join("dir/c")).map(|a| (a.len(), a.nlink())).unwrap(),
        (10_000, 2)
    );
    let mut text = Vec::new();
    File::open(mount.join("b")).unwrap().read_to_end(&mut text).unwrap();
    assert_eq!(text.len(), 10_000);
    let many = (0..500).map(|number| format!("name-{number}"));
    many.for_each(|name| drop(File::create(mount.join("dir").join(name)).unwrap()));
    assert_eq!(std::fs::read_dir(mount.join("dir")).unwrap().count(), 501);
    std::fs::remove_dir_all(mount.join("dir")).unwrap();
    std::fs::remove_file(mount.join("b")).unwrap();
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    assert_eq!(mount.mounted.counts().snapshot().of(Message::Unlink), 502);

    mount.finish();
    await_session_threads(0);
    assert!(!is_mounted(&path));
}

#[test]
fn an_open_file_outlives_its_name() {
    let Some(_alone) = alone("an_open_file_outlives_its_name") else {
        return;
    };
    let mount = TestMount::new(Behind::Nothing, &MountConfig::default());
    let file = File::create_new(mount.join("a")).unwrap();
    std::fs::remove_file(mount.join("a")).unwrap();
    file.write_all_at(&[1; 100], 0).unwrap();
    assert_eq!(file.metadata().map(|attr| (attr.len(), attr.nlink())).unwrap(), (100, 0));
    drop(file);
    mount.finish();
}

#[test]
fn a_mount_in_use_stays() {
    let Some(_alone) = alone("a_mount_in_use_stays") else {
        return;
    };
    let mount = TestMount::new(Behind::Nothing, &MountConfig::default());
    let file = File::create(mount.join("a")).unwrap();
    assert!(mount.mounted.unmounter().unmount().is_err());
    assert!(is_mounted(mount.path()));
    file.write_all_at(&[1; 100], 0).unwrap();
    drop(file);
    mount.finish();
}

#[test]
fn a_live_volume_is_not_mounted_over() {
    let Some(_alone) = alone("a_live_volume_is_not_mounted_over") else {
        return;
    };
    let config =
        MountConfig { fs_name: "first, with a comma".to_owned(), ..MountConfig::default() };
    let mount = TestMount::new(Behind::Nothing, &config);
    for error in [
        mount_null(mount.path(), &MountConfig::default()).map(drop).unwrap_err(),
        clean_dead_mount(mount.path()).map(drop).unwrap_err(),
    ] {
        assert!(
            format!("{error:#}").contains("a mounted volume (first, with a comma)"),
            "{error:#}"
        );
    }
    assert!(
        control::status(mount.path())
            .unwrap_err()
            .to_string()
            .ends_with("is not on a Terrace mount")
    );
    mount.finish();
}

#[test]
fn a_panic_leaves_no_mount() {
    let Some(_alone) = alone("a_panic_leaves_no_mount") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let panicked = std::panic::catch_unwind(|| {
        let _mounted = mount_null(&path, &MountConfig::default()).unwrap();
        let _open = File::create(path.join("a")).unwrap();
        assert!(is_mounted(&path));
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert!(!is_mounted(directory.path()));
}

#[test]
fn unmounting_from_outside_ends_the_session() {
    let Some(_alone) = alone("unmounting_from_outside_ends_the_session") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mounted = mount_null(directory.path(), &MountConfig::default()).unwrap();
    let unmounter = mounted.unmounter();
    let (program, option) = if is_root() { ("umount", "--") } else { ("fusermount3", "-u") };
    assert!(Command::new(program).arg(option).arg(directory.path()).status().unwrap().success());
    mounted.wait().unwrap();
    await_session_threads(0);
    unmounter.unmount().expect("nothing is left to do");
}

#[test]
fn what_lies_under_a_mount_stays_mounted() {
    let test = "what_lies_under_a_mount_stays_mounted";
    let Some(_alone) = alone(test) else { return };
    if !is_root() {
        return skip(test, "only root can mount a tmpfs");
    }
    let directory = tempfile::tempdir().unwrap();
    let under = directory.path();
    rustix::mount::mount("tmpfs", under, "tmpfs", rustix::mount::MountFlags::empty(), None)
        .unwrap();
    std::fs::write(under.join("below"), "here").unwrap();
    let mounted = mount_null(under, &MountConfig::default()).unwrap();
    let unmounter = mounted.unmounter();
    assert!(!under.join("below").exists());
    assert!(Command::new("umount").arg(under).status().unwrap().success());
    mounted.wait().unwrap();
    unmounter.unmount_lazily().unwrap();
    let below = std::fs::read_to_string(under.join("below"));
    rustix::mount::unmount(under, rustix::mount::UnmountFlags::DETACH).unwrap();
    assert_eq!(below.unwrap(), "here");
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let Some(_alone) = alone("a_read_only_mount_refuses_changes") else {
        return;
    };
    let mount =
        TestMount::new(Behind::Nothing, &MountConfig { read_only: true, ..MountConfig::default() });
    assert_eq!(File::create(mount.join("a")).unwrap_err().raw_os_error(), Some(libc::EROFS));
    mount.finish();
}
