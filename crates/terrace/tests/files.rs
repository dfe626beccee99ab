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
    let errors: Vec<&str> =
        ran.stderr.lines().filter(|line| line.starts_with("terrace: ")).collect();
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
    let map = |name: &str| -> Value {
        serde_json::from_str(&terrace(["where", "--json", &path(name)]).ok()).unwrap()
    };
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
    assert_eq!(
        [tiers("tree/bad"), tiers("good"), tiers("other")],
        [["disk1"], ["disk1"], ["disk1"]]
    );

    // A block that does not match its checksum.
    let at = map("tree/bad")[0]["extents"][0]["device_offset_bytes"].as_u64().unwrap();
    fs::OpenOptions::new()
        .write(true)
        .open(place.path("disk"))
        .unwrap()
        .write_all_at(b"x", at + 5)
        .unwrap();
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
    assert!(ran.stderr.contains("/tree: 1 file, 1 directory pinned to pm; 8 KiB moved"), "{ran:?}");
    assert_eq!((tiers("tree/fine"), &map("good")[0]["pin"]), (vec!["pm".to_owned()], &"pm".into()));
    failed_for(&terrace(["unpin", &gone, &path("tree"), &good]), &[&gone]);
    assert_eq!([&map("tree/fine")[0]["pin"], &map("good")[0]["pin"]], [&Value::Null; 2]);
    place.umount();
}

/// Longer than what one request moves; most of it lies on the disk before it is moved there, as a
/// file does that is longer than PM. Some blocks are reserved: their extents go on beyond the end
/// of a piece.
#[test]
fn long_files_are_evicted_warmed_and_pinned() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let file = place.path("mnt/archive.tar");
    let open = fs::File::create(&file).unwrap();
    let data: Vec<u8> = (0..5_000_000u32).map(|i| (i % 249) as u8).collect();
    let (start, len) = ((64 << 20) - 1_000_000, 70 << 20);
    rustix::fs::fallocate(&open, rustix::fs::FallocateFlags::empty(), 0, len).unwrap();
    open.write_all_at(&data, start).unwrap();
    drop(open);
    let tiers = || {
        let map: Value = serde_json::from_str(&terrace(["where", "--json", &file]).ok()).unwrap();
        let extents = map[0]["extents"].as_array().unwrap().clone();
        let mut tiers: Vec<String> =
            extents.iter().map(|e| e["tier"].as_str().unwrap().to_owned()).collect();
        tiers.dedup();
        tiers
    };
    let holds = || {
        let mut found = vec![0; data.len()];
        fs::File::open(&file).unwrap().read_exact_at(&mut found, start).unwrap();
        found == data
    };
    terrace(["sync", &place.path("mnt")]).ok();
    for again in [false, true] {
        terrace(["evict", &file]).ok();
        assert_eq!((tiers(), holds()), (vec!["disk1".to_owned()], true), "again: {again}");
    }
    terrace(["pin", "1", &file]).ok();
    assert_eq!((tiers(), holds()), (vec!["disk1".to_owned()], true));
    terrace(["unpin", &file]).ok();
    // PM does not take all of it.
    assert!(terrace(["warm", &file]).stderr.contains("left where they were"));
    assert!(tiers().contains(&"pm".to_owned()) && holds());
    terrace(["evict", &file]).ok();
    assert_eq!((tiers(), holds()), (vec!["disk1".to_owned()], true));
    place.umount();
}
