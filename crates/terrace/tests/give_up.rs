//! `terrace check --repair --give-up` of a volume that was mounted.

mod common;

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use common::{Place, can_mount, terrace};
use serde_json::Value;

/// Byte of an inode's record in PM.
fn record_at(pm: &str, ino: u64) -> u64 {
    let text = terrace(["dump", "inode", &ino.to_string(), pm]).ok();
    let at = text.split_once("at byte ").and_then(|(_, rest)| rest.split(',').next()?.parse().ok());
    at.unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_damaged_directory_is_given_up_and_its_files_are_saved() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let pm = place.path("pm");
    terrace(["check", "--give-up", &pm]).fails(2, &["--repair"]);
    place.mount("pm", &[]).ok();
    fs::create_dir(place.path("mnt/dir")).unwrap();
    fs::write(place.path("mnt/dir/file"), vec![b'x'; 50_000]).unwrap();
    fs::write(place.path("mnt/other"), "whole").unwrap();
    let ino = |name: &str| fs::metadata(place.path(name)).unwrap().ino();
    let (dir, file) = (ino("mnt/dir"), ino("mnt/dir/file"));
    place.umount();
    let before = fs::read(&pm).unwrap();
    terrace(["check", "--repair", "--give-up", &pm]).ok();
    assert!(fs::read(&pm).unwrap() == before, "without damage nothing changes");

    let device = fs::OpenOptions::new().write(true).open(&pm).unwrap();
    device.write_all_at(b"damage", record_at(&pm, dir) + 8).unwrap();
    let advice = format!("`terrace check --repair --give-up {pm}`");
    place.mount("pm", &[]).ok();
    let error = fs::read_dir(place.path("mnt/dir")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    assert!(fs::read_to_string(place.path("log")).unwrap().contains(&advice));
    place.umount();
    let found = terrace(["check", &pm]);
    assert_eq!(found.code, Some(8), "{found:?}");
    assert!(
        found.stdout.contains("give them up with `terrace check --repair --give-up`"),
        "{found:?}"
    );
    assert_eq!(terrace(["check", "--repair", &pm]).code, Some(8));

    let given_up = terrace(["check", "--repair", "--give-up", "--json", &pm]);
    assert_eq!(given_up.code, Some(4), "{given_up:?}");
    let report: Value = serde_json::from_str(&given_up.stdout).unwrap();
    let problems = report["problems"].as_array().unwrap();
    let has = |place: String, what: &str| {
        problems.iter().any(|p| {
            p["place"].as_str().unwrap().ends_with(&place)
                && p["what"].as_str().unwrap().ends_with(what)
                && p["data_lost"] == true
        })
    };
    assert!(has(format!("inode {dir} (/dir)"), ": given up"), "{problems:#?}");
    assert!(
        has(format!("inode {file} (/lost+found/inode-{file})"), "it has got this one"),
        "{problems:#?}"
    );
    assert!(terrace(["check", &pm]).ok().contains("no damage"));

    place.mount("pm", &[]).ok();
    assert_eq!(fs::metadata(place.path("mnt/dir")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        fs::metadata(place.path("mnt/lost+found")).unwrap().permissions().mode() & 0o7777,
        0o700
    );
    let saved = place.path(&format!("mnt/lost+found/inode-{file}"));
    assert!(fs::read(&saved).unwrap() == vec![b'x'; 50_000]);
    assert_eq!(fs::read(place.path("mnt/other")).unwrap(), b"whole");
    fs::create_dir(place.path("mnt/dir")).unwrap();
    fs::rename(saved, place.path("mnt/dir/file")).unwrap();
    place.umount();
    terrace(["check", &pm]).ok();
}
