//! A volume through its mount: what the adapter has to get right beyond passing calls on.

mod common;

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Behind, TestMount, can_mount, is_root, skip};
use rustix::fs::{AtFlags, CWD, StatxFlags, Timespec, Timestamps, XattrFlags};
use terrace_fuse::{MountConfig, control};

const NOBODY: u32 = 65534;

fn mount(test: &str, config: &MountConfig) -> Option<TestMount> {
    can_mount(test).then(|| TestMount::new(Behind::Engine, config))
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("the file").permissions().mode() & 0o7777
}

/// Bytes that differ from one place to another.
fn pattern(len_bytes: usize) -> Vec<u8> {
    (0..len_bytes as u32)
        .flat_map(|at| (at.wrapping_mul(2_654_435_761) >> 7).to_le_bytes())
        .take(len_bytes)
        .collect()
}

#[test]
fn contents_come_back_whole() {
    let Some(mount) = mount("contents_come_back_whole", &MountConfig::default()) else {
        return;
    };
    let data = pattern((3 << 20) + 777);
    std::fs::write(mount.join("a"), &data).unwrap();
    assert_eq!(std::fs::read(mount.join("a")).unwrap(), data);
    // Past the kernel's cache.
    let file =
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(mount.join("a")).unwrap();
    let mut aligned = vec![0_u8; (1 << 20) + 4096];
    let start = aligned.as_ptr().align_offset(4096);
    let len_bytes = file.read_at(&mut aligned[start..start + (1 << 20)], 1 << 20).unwrap();
    assert!(len_bytes > 0);
    assert_eq!(aligned[start..start + len_bytes], data[1 << 20..(1 << 20) + len_bytes]);
    drop(file);
    mount.finish();
}

#[test]
fn appends_of_several_messages_stay_in_order() {
    let Some(mount) = mount("appends_of_several_messages_stay_in_order", &MountConfig::default())
    else {
        return;
    };
    let data = pattern(4 << 20);
    for (name, direct) in [("buffered", 0), ("direct", libc::O_DIRECT)] {
        let mut options = OpenOptions::new();
        let mut file =
            options.append(true).create(true).custom_flags(direct).open(mount.join(name)).unwrap();
        let mut aligned = vec![0_u8; data.len() + 4096];
        let start = aligned.as_ptr().align_offset(4096);
        aligned[start..start + data.len()].copy_from_slice(&data);
        file.write_all(&aligned[start..start + data.len()]).unwrap();
        file.write_all(&aligned[start..start + 4096]).unwrap();
        drop(file);
        let expected = [&data[..], &data[..4096]].concat();
        assert!(std::fs::read(mount.join(name)).unwrap() == expected, "{name}");
    }
    mount.finish();
}

#[test]
fn stores_into_a_mapping_reach_the_volume() {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
    let Some(mount) = mount("stores_into_a_mapping_reach_the_volume", &MountConfig::default())
    else {
        return;
    };
    // Opened for appending, too: write-back of a mapping must not append.
    let file =
        OpenOptions::new().read(true).append(true).create(true).open(mount.join("a")).unwrap();
    (&file).write_all(&[1; 8192]).unwrap();
    // SAFETY: a new shared mapping of the 8192 bytes that the file has; nothing else refers to it,
    // and it is unmapped after the last use.
    unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let address =
            mmap(std::ptr::null_mut(), 8192, protection, MapFlags::SHARED, &file, 0).unwrap();
        address.cast::<u8>().add(100).write_volatile(9);
        msync(address, 8192, MsyncFlags::SYNC).unwrap();
        munmap(address, 8192).unwrap();
    }
    assert_eq!(file.metadata().unwrap().len(), 8192);
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut bytes = [0; 3];
    file.read_exact_at(&mut bytes, 99).unwrap();
    assert_eq!(bytes, [1, 9, 1]);
    drop(file);
    mount.finish();
}

#[test]
fn writes_of_others_clear_set_id_bits_at_once() {
    let test = "writes_of_others_clear_set_id_bits_at_once";
    if !is_root() {
        return skip(test, "only root can act as another user");
    }
    let Some(mount) = mount(test, &MountConfig { allow_other: true, ..MountConfig::default() })
    else {
        return;
    };
    std::fs::set_permissions(mount.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = mount.join("program");
    let changes = [
        "echo more >>$0",
        "truncate -s 1 $0",
        "fallocate -l 5000 $0",
        "fallocate -p -l 2 $0",
        "fallocate -z -l 4096 $0",
        ": >$0",
        "dd if=/dev/zero of=$0 oflag=direct bs=4096 count=1 conv=notrunc status=none",
    ];
    let others = [0o6777, 0o6767, 0o6666, 0o2666, 0o4666, 0o2777]
        .into_iter()
        .flat_map(|bits| [(bits, 0), (bits, NOBODY)]);
    for (change, (bits, group)) in
        changes.iter().flat_map(|change| others.clone().map(move |other| (change, other)))
    {
        File::create(&path).unwrap().write_all(b"text").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
        // Root keeps the bits.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"text").unwrap();
        assert_eq!(mode(&path), bits);
        let mut shell = Command::new("sh");
        shell.args(["-c", change]).arg(&path).uid(NOBODY).gid(group).current_dir("/");
        assert!(shell.status().unwrap().success(), "{change}");
        // A member of the file's group, which is 0, keeps a set-group-id bit that makes no program
        // run as the group.
        let kept = if group == 0 && bits & 0o10 == 0 { 0o2000 } else { 0 };
        assert_eq!(mode(&path), bits & (0o777 | kept), "{change}, {bits:o}, group {group}");
        std::fs::remove_file(&path).unwrap();
    }
    mount.finish();
}

#[test]
fn an_access_acl_shows_in_the_mode_at_once() {
    let test = "an_access_acl_shows_in_the_mode_at_once";
    for checks in [false, true] {
        let config = MountConfig { default_permissions: Some(checks), ..MountConfig::default() };
        let Some(mount) = mount(test, &config) else {
            return;
        };
        let path = mount.join("a");
        File::create(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(mode(&path), 0o600);
        // Version 2; tag, permissions, id of: owner rw-, user 1234 r--, group ---, mask rw-, others
        // r--.
        let entries: [(u16, u16, u32); 5] = [
            (1, 6, u32::MAX),
            (2, 4, 1234),
            (4, 0, u32::MAX),
            (0x10, 6, u32::MAX),
            (0x20, 4, u32::MAX),
        ];
        let mut acl = 2_u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            acl.extend(tag.to_le_bytes());
            acl.extend(permissions.to_le_bytes());
            acl.extend(id.to_le_bytes());
        }
        rustix::fs::setxattr(&path, "system.posix_acl_access", &acl, XattrFlags::empty()).unwrap();
        // Asked for alone: a full stat would ask the daemon anyway, because the change time is out
        // of date.
        let shown = rustix::fs::statx(CWD, &path, AtFlags::empty(), StatxFlags::MODE).unwrap();
        let shown = u32::from(shown.stx_mode) & 0o7777;
        assert_eq!(shown, 0o664, "default_permissions: {checks}");
        mount.finish();
    }
}

#[test]
fn extended_attributes_keep_to_the_size_protocol() {
    let Some(mount) =
        mount("extended_attributes_keep_to_the_size_protocol", &MountConfig::default())
    else {
        return;
    };
    let path = mount.join("a");
    File::create(&path).unwrap();
    rustix::fs::setxattr(&path, "user.note", b"12345", XattrFlags::CREATE).unwrap();
    let again = rustix::fs::setxattr(&path, "user.note", b"1", XattrFlags::CREATE);
    assert_eq!(again, Err(rustix::io::Errno::EXIST));
    let absent = rustix::fs::setxattr(&path, "user.other", b"1", XattrFlags::REPLACE);
    assert_eq!(absent, Err(rustix::io::Errno::NODATA));
    assert_eq!(rustix::fs::getxattr_query(&path, "user.note"), Ok(5));
    assert_eq!(
        rustix::fs::getxattr(&path, "user.note", &mut [0_u8; 4][..]),
        Err(rustix::io::Errno::RANGE)
    );
    let mut value = [0_u8; 5];
    assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value[..]), Ok(5));
    assert_eq!(&value, b"12345");
    assert_eq!(rustix::fs::listxattr_query(&path), Ok(b"user.note\0".len()));
    mount.finish();
}

#[test]
fn times_before_the_epoch_and_holes_come_through() {
    let Some(mount) =
        mount("times_before_the_epoch_and_holes_come_through", &MountConfig::default())
    else {
        return;
    };
    let mut file =
        OpenOptions::new().read(true).write(true).create_new(true).open(mount.join("a")).unwrap();
    let early = Timespec { tv_sec: -2, tv_nsec: 250_000_000 };
    rustix::fs::futimens(&file, &Timestamps { last_access: early, last_modification: early })
        .unwrap();
    let attr = rustix::fs::fstat(&file).unwrap();
    assert_eq!((attr.st_mtime, i64::try_from(attr.st_mtime_nsec).unwrap()), (-2, 250_000_000));

    file.write_all_at(&[1; 4096], 1 << 20).unwrap();
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 4096));
    let past = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(1 << 21));
    assert_eq!(past, Err(rustix::io::Errno::NXIO));
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut start = [1; 4096];
    file.read_exact(&mut start).unwrap();
    assert_eq!(start, [0; 4096]);
    drop(file);
    mount.finish();
}

#[test]
fn commands_reach_the_daemon() {
    let Some(mount) = mount("commands_reach_the_daemon", &MountConfig::default()) else {
        return;
    };
    let path = mount.join("a");
    std::fs::write(&path, pattern(100_000)).unwrap();
    control::sync(mount.path()).unwrap();
    let status: serde_json::Value = serde_json::from_str(&control::status(&path).unwrap()).unwrap();
    assert_eq!(status["state"], "mounted");
    assert_eq!(status["devices"].as_array().map(Vec::len), Some(2));
    assert_eq!(control::file_map(&path).unwrap()["size_bytes"], 100_000);

    // A map of many parts: every second block is a hole.
    let file = File::create(mount.join("holes")).unwrap();
    (0..1000).for_each(|block| file.write_all_at(&[1; 4096], block * 8192).unwrap());
    drop(file);
    let map = control::file_map(&mount.join("holes")).unwrap();
    let ino = terrace_engine::Ino(std::fs::metadata(mount.join("holes")).unwrap().ino());
    let mut whole =
        serde_json::to_value(mount.volume.as_ref().unwrap().file_map(ino).unwrap()).unwrap();
    assert_eq!(
        (whole["extents"].as_array().map(Vec::len), map.contains_key("more")),
        (Some(1000), false)
    );
    // Time goes by from one part to the next.
    whole["opinion"] = map["opinion"].clone();
    assert_eq!(serde_json::Value::from(map), whole);
    mount.finish();
}
