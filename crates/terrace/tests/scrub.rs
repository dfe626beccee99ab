//! `terrace scrub` on real mounts.

mod common;

use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::{Place, Ran, TERRACE, can_mount, terrace};
use serde_json::Value;

const NOBODY: u32 = 65534;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Writes bytes to a device behind the back of its volume.
fn overwrite(device: &str, at: u64, bytes: &[u8]) {
    fs::OpenOptions::new().write(true).open(device).unwrap().write_all_at(bytes, at).unwrap();
}

#[test]
fn a_scrub_finds_and_names_what_is_damaged() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &["-o", "pm_full=1"]).ok();
    let (mnt, disk) = (place.path("mnt"), place.path("disk"));
    fs::create_dir(place.path("mnt/dir")).unwrap();
    fs::write(place.path("mnt/dir/file"), vec![b'x'; 3 << 20]).unwrap();
    terrace(["sync", &mnt]).ok();
    let nothing = terrace(["scrub", "status", &mnt]).ok();
    assert_eq!(nothing, format!("scrub of {mnt}: none since the volume was mounted\n"));
    assert_eq!(place.status("mnt")["scrub"], Value::Null);

    let clean = terrace(["scrub", "start", "--wait", "--quiet", &mnt]).ok();
    assert!(clean.contains(": finished at ") && clean.contains("no damage in 3."), "{clean}");
    assert!(terrace(["status", &mnt]).ok().contains("scrub: finished at "));

    // A superblock copy has an original.
    overwrite(&disk, 4096 + 100, b"damage");
    let repaired = terrace(["scrub", "--wait", "--rate", "0", &mnt]);
    assert_eq!(repaired.code, Some(4), "{repaired:?}");
    let line = format!("{disk}, superblock at byte 4096: copy 1 of the superblock is damaged");
    assert!(
        repaired.stdout.contains(&line) && repaired.stdout.contains("[repaired]"),
        "{repaired:?}"
    );

    // Data has none.
    let map = json(&terrace(["where", "--json", &place.path("mnt/dir/file")]).ok());
    let extents = map[0]["extents"].as_array().unwrap();
    let extent =
        extents.iter().find(|extent| extent["device"] == disk.as_str()).expect("data on the disk");
    let at = extent["device_offset_bytes"].as_u64().unwrap() + 8192;
    overwrite(&disk, at + 5, b"y");
    // A volume is also meant by its PM device.
    let found = terrace(["scrub", "start", "--wait", "--json", &place.path("pm")]);
    assert_eq!(found.code, Some(8), "{found:?}");
    let report = json(&found.stdout);
    assert_eq!(
        (&report["state"], &report["errors"], &report["repaired"]),
        (&"finished".into(), &1.into(), &0.into())
    );
    let damage = &report["damage"][0];
    assert_eq!((&damage["kind"], &damage["device"]), (&"data".into(), &disk.as_str().into()));
    assert_eq!((&damage["path"], &damage["offset_bytes"]), (&"/dir/file".into(), &at.into()));
    let file_offset = extent["offset_bytes"].as_u64().unwrap() + 8192;
    assert_eq!(damage["file_offset_bytes"], file_offset);
    assert_eq!(json(&terrace(["scrub", "status", "--json", &mnt]).ok()), report, "it is kept");
    let text = terrace(["scrub", "status", &mnt]).ok();
    assert!(text.contains("/dir/file (inode ") && text.contains("1 error in"), "{text}");
    assert_eq!(place.status("mnt")["scrub"]["errors"], 1);
    let log = fs::read_to_string(place.path("log")).unwrap();
    assert!(
        log.contains(&format!("scrub: {disk}: at byte {at}")) && log.contains("/dir/file"),
        "{log}"
    );
    place.umount();

    place.mount("pm", &["-o", "ro"]).ok();
    let found = terrace(["scrub", "--wait", &mnt]);
    assert_eq!((found.code, found.stdout.contains("/dir/file")), (Some(8), true), "{found:?}");
    place.umount();
}

#[test]
fn a_scrub_is_started_cancelled_and_ended_by_an_unmount() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let mnt = place.path("mnt");
    terrace(["scrub", &mnt]).fails(1, &["no file system is mounted here"]);
    terrace(["scrub", "start", "--json", &mnt]).fails(2, &["--wait"]);
    place.mount("pm", &["-o", "allow_other"]).ok();
    terrace(["scrub", "cancel", &mnt]).fails(1, &["no scrub is running"]);
    // So slow that it is still at its beginning when the test is over.
    let started = terrace(["scrub", "--rate", "1", &mnt]);
    assert!(started.stderr.contains("scrub started at up to 1 B/s"), "{started:?}");
    started.ok();
    terrace(["scrub", &mnt]).fails(1, &["a scrub is running already", "terrace scrub cancel"]);
    assert!(terrace(["status", &mnt]).ok().contains("scrub: running since "));
    let status = json(&terrace(["scrub", "status", "--json", &mnt]).ok());
    assert_eq!((&status["state"], &status["bytes_per_second"]), (&"running".into(), &1.into()));

    let as_nobody = |args: &[&str]| Ran::of(Command::new(TERRACE).args(args).uid(NOBODY));
    as_nobody(&["scrub", "cancel", &mnt]).fails(1, &["only root"]);
    as_nobody(&["scrub", "start", &mnt]).fails(1, &["only root"]);
    assert!(as_nobody(&["scrub", "status", &mnt]).ok().contains("running"));

    let cancelled = terrace(["scrub", "cancel", &mnt]);
    assert!(cancelled.stderr.contains("scrub cancelled at "), "{cancelled:?}");
    cancelled.ok();
    assert!(terrace(["scrub", "status", &mnt]).ok().contains("cancelled at "));

    terrace(["scrub", "--rate", "1", "--quiet", &mnt]).ok();
    place.umount();
    assert!(
        fs::read_to_string(place.path("log")).unwrap().contains("scrub: stopped by the unmount")
    );
    terrace(["check", &place.path("pm")]).ok();
    place.mount("pm", &[]).ok();
    assert!(terrace(["scrub", "status", &mnt]).ok().contains("none since the volume was mounted"));
    place.umount();
}
