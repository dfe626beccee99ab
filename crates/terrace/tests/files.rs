//! Commands that take several files: one that fails is named, and the others are still done.

mod common;

use std::fs;
use std::os::unix::fs::FileExt;

use common::{Place, Ran, can_mount, terrace};
use serde_json::Value;

/// The command failed, and said so of exactly these files.
#[track_caller]
fn failed_for(ran: &Ran, files: &[&str]) {
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("terrace: ")).collect();
    assert_eq!(errors.len(), files.len(), "{ran:?}");
    for (error, file) in errors.iter().zip(files) {
        assert!(error.contains(file), "{file}: {error}");
    }
}

#[test]
fn a_file_that_fails_is_named_and_the_others_are_done() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &["-o", "migrate=0"]).ok();
    let path = |name: &str| place.path(&format!("mnt/{name}"));
    let map = |name: &str| -> Value { serde_json::from_str(&terrace(["where", "--json", &path(name)]).ok()).unwrap() };
    let tiers = |name: &str| -> Vec<String> {
        let extents = map(name)[0]["extents"].as_array().unwrap().clone();
        extents.iter().map(|extent| extent["tier"].as_str().unwrap().to_owned()).collect()
    };
    fs::create_dir(path("tree")).unwrap();
    for name in ["tree/bad", "good", "other"] {
        fs::write(path(name), [7; 8192]).unwrap();
    }
    let (bad, gone, good, other) = (path("tree/bad"), path("gone"), path("good"), path("other"));

    failed_for(&terrace(["evict", &gone, &bad, &good, &other]), &[&gone]);
    assert_eq!([tiers("tree/bad"), tiers("good"), tiers("other")], [["disk1"], ["disk1"], ["disk1"]]);

    // A block that does not match its checksum.
    let at = map("tree/bad")[0]["extents"][0]["device_offset_bytes"].as_u64().unwrap();
    fs::OpenOptions::new().write(true).open(place.path("disk")).unwrap().write_all_at(b"x", at + 5).unwrap();
    failed_for(&terrace(["warm", &bad, &good, &gone, &other]), &[&bad, &gone]);
    assert_eq!([tiers("tree/bad"), tiers("good"), tiers("other")], [["disk1"], ["pm"], ["pm"]]);

    let ran = terrace(["where", &good, &gone, &other]);
    failed_for(&ran, &[&gone]);
    assert!(ran.stdout.contains(&good) && ran.stdout.contains(&other), "{ran:?}");
    let ran = terrace(["where", "--json", &good, &gone, &other]);
    failed_for(&ran, &[&gone]);
    assert_eq!(serde_json::from_str::<Vec<Value>>(&ran.stdout).unwrap().len(), 2);

    // In a tree, too: what cannot move is pinned all the same.
    fs::write(path("tree/fine"), [7; 8192]).unwrap();
    terrace(["evict", &path("tree/fine")]).ok();
    let ran = terrace(["pin", "pm", &path("tree"), &gone, &good]);
    failed_for(&ran, &[&bad, &gone]);
    assert!(ran.stderr.contains("is pinned, and its data left where it is"), "{ran:?}");
    assert!(ran.stderr.contains("/tree: 1 files, 1 directories pinned to pm; 8 KiB moved"), "{ran:?}");
    assert_eq!((tiers("tree/fine"), &map("good")[0]["pin"]), (vec!["pm".to_owned()], &"pm".into()));
    failed_for(&terrace(["unpin", &gone, &path("tree"), &good]), &[&gone]);
    assert_eq!([&map("tree/fine")[0]["pin"], &map("good")[0]["pin"]], [&Value::Null; 2]);
    place.umount();
}
