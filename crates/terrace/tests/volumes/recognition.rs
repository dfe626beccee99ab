//! Devices: told apart, missing, cut off, of a newer format, damaged.

use super::*;

#[test]
fn mixed_up_volumes_are_told_apart() {
    let place = Place::new();
    place.format("pm-a", "disk-a", &[]);
    place.format("pm-b", "disk-b", &[]);
    let (a, b) = (uuid(&place, "pm-a"), uuid(&place, "pm-b"));
    let disk_b = place.path("disk-b");
    place.mount("pm-a", &["--disk", &disk_b]).fails(1, &["disk-b", "device 1", &a, &b]);
    terrace(["check", &place.path("pm-a"), "--disk", &disk_b]).fails(1, &["disk-b", &a, &b]);
    fs::rename(place.path("disk-a"), place.path("other")).unwrap();
    fs::rename(place.path("disk-b"), place.path("disk-a")).unwrap();
    place.mount("pm-a", &[]).fails(1, &["disk-a", &format!("is device 1 of volume {b}"), "--disk"]);
    place.mount("disk-a", &[]).fails(1, &["disk-a"]);
}

#[test]
fn a_missing_disk_is_named_with_the_remedy_and_found_elsewhere() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (one, two) = (place.path("one:128M"), place.path("two:128M"));
    terrace(["format", "--pm", &place.path("pm:64M"), "--disk", &one, "--disk", &two]).ok();
    fs::rename(place.path("one"), place.path("moved-one")).unwrap();
    fs::rename(place.path("two"), place.path("moved-two")).unwrap();
    let (one, two) = (place.path("one"), place.path("two"));
    let missing = ["device 1", one.as_str(), "device 2", two.as_str(), "--disk PATH"];
    place.mount("pm", &[]).fails(1, &missing);
    terrace(["check", &place.path("pm")]).fails(1, &missing);
    assert!(!place.is_mounted("mnt"));
    let notes = place.status("pm")["notes"].to_string();
    assert!(missing.iter().all(|part| notes.contains(part)), "{notes}");

    // Any order will do.
    let (one, two) = (place.path("moved-one"), place.path("moved-two"));
    place.mount("pm", &["--disk", &two, "--disk", &one]).ok();
    place.umount();
    terrace(["check", &place.path("pm"), "--disk", &two, "--disk", &one]).ok();
}

#[test]
fn truncated_devices_are_refused() {
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let truncate = |name: &str, len| {
        fs::OpenOptions::new().write(true).open(place.path(name)).unwrap().set_len(len).unwrap()
    };
    truncate("disk", 128 << 20);
    place.mount("pm", &[]).fails(1, &["disk"]);
    let notes = place.status(&place.path("pm"))["notes"].to_string();
    assert!(notes.contains("disk: truncated: 134217728 bytes"), "{notes}");
    truncate("disk", 100);
    place.mount("pm", &[]).fails(1, &["disk"]);
    truncate("pm", 32 << 20);
    place.mount("pm", &[]).fails(1, &["pm"]);
    truncate("pm", 1000);
    place.mount("pm", &[]).fails(1, &["pm"]);
    truncate("pm", 0);
    place.mount("pm", &[]).fails(1, &["pm"]);
    assert!(!place.is_mounted("mnt"));
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let file = fs::OpenOptions::new().read(true).write(true).open(place.path("pm")).unwrap();
    for offset in [0, size_of::<Superblock>() as u64] {
        let mut block = [0; size_of::<Superblock>()];
        file.read_exact_at(&mut block, offset).unwrap();
        let mut superblock = Superblock::from_bytes(&block);
        superblock.major = FORMAT_MAJOR + 1;
        superblock.seal();
        file.write_all_at(superblock.as_bytes(), offset).unwrap();
    }
    let version = format!("{}.{FORMAT_MINOR}", FORMAT_MAJOR + 1);
    place.mount("pm", &[]).fails(1, &["pm", &version]);
    terrace(["status", &place.path("pm")]).fails(1, &[&version]);
    terrace(["check", "--repair", &place.path("pm")]).fails(1, &[&version]);
    let other = place.path("disk2:256M");
    terrace(["format", "--pm", &place.path("pm"), "--disk", &other])
        .fails(1, &["Terrace volume", "--force"]);
}

#[test]
fn a_volume_is_mounted_once() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.format("pm2", "disk2", &[]);
    fs::create_dir(place.path("mnt2")).unwrap();
    place.mount("pm", &[]).ok();
    let mnt = place.path("mnt");
    place.mount_on("pm", "mnt2", &[]).fails(1, &["mounted at", &mnt, "terrace umount"]);
    place.mount_on("pm2", "mnt", &[]).fails(1, &[&mnt, "is the mount point of a mounted volume"]);
    terrace(["check", &place.path("pm")]).fails(1, &["mounted at", &mnt, "terrace umount"]);
    place.umount();
}

#[test]
fn damaged_data_is_found() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &["--data-checksums"]);
    place.mount("pm", &[]).ok();
    fs::write(place.path("mnt/file"), vec![b'x'; 64 << 10]).unwrap();
    terrace(["sync", &place.path("mnt")]).ok();
    let maps: Value =
        serde_json::from_str(&terrace(["where", "--json", &place.path("mnt/file")]).ok()).unwrap();
    place.umount();
    let extent = &maps[0]["extents"][0];
    let device =
        fs::OpenOptions::new().write(true).open(extent["device"].as_str().unwrap()).unwrap();
    device.write_all_at(b"y", extent["device_offset_bytes"].as_u64().unwrap() + 5).unwrap();
    let ran = terrace(["check", &place.path("pm")]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(ran.stdout.contains("NOT repaired"), "{ran:?}");
    let quick = terrace(["check", "--no-data", &place.path("pm")]);
    assert_eq!(quick.code, Some(0), "{quick:?}");
    let json = terrace(["check", "--json", &place.path("pm")]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((json.code, report["problems"].as_array().unwrap().len()), (Some(8), 1));
}

#[test]
fn structures_are_dumped() {
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let pm = place.path("pm");
    let superblock = terrace(["dump", "superblock", &pm]).ok();
    assert!(
        superblock.contains(&uuid(&place, "pm")) && superblock.contains(&place.path("disk")),
        "{superblock}"
    );
    let short = terrace(["dump", "inode", "1", &pm]).ok();
    let long = terrace(["dump", "inode", "1", "--log", &pm]).ok();
    assert!(!short.is_empty() && long.len() >= short.len(), "{short}\n{long}");
    terrace(["dump", "inode", "99999999", &pm]).fails(1, &["99999999"]);
}
