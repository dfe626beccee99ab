//! `terrace why` on a real mount: in words, and as JSON.

mod common;

use std::fs;

use common::{Place, can_mount, terrace};
use serde_json::Value;

#[test]
fn why_names_rules_and_what_would_move_a_file() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &["-o", "migrate_at=60,migrate_min=60"]).ok();
    let (file, other) = (place.path("mnt/file"), place.path("mnt/other"));
    fs::write(&file, vec![7; 100_000]).unwrap();
    fs::write(&other, b"x").unwrap();
    let text = terrace(["why", &file]).ok();
    assert!(text.starts_with(&format!("{file}: inode ")), "{text}");
    for words in [
        "\n  100 KiB in pm: written to PM, because an fsync is expected soon (synchronous)\n",
        "\nexpected: ",
        "\nwhat would move it:\n  pm to disk1: when pm is fuller than 60 % (it is ",
        " %: not yet), the coldest files first; it was written 0 s ago, ",
        "and is cold as a whole from 30 s on",
        "\n  by hand: ",
    ] {
        assert!(text.contains(words), "{words:?} in {text}");
    }
    terrace(["evict", &file]).ok();
    let json: Value =
        serde_json::from_str(&terrace(["why", "--json", &file, &other]).ok()).unwrap();
    let share = &json[0]["shares"][0];
    assert_eq!((&share["place"], &share["rule"]), (&"disk1".into(), &"by_hand".into()));
    assert_eq!((&share["bytes"], &json[0]["path"]), (&(100 << 10).into(), &file.as_str().into()));
    assert_eq!(json[1]["shares"][0]["rule"], "synchronous");
    assert!(terrace(["why", &file]).ok().contains("\n  disks to pm: if it is read (0 blocks"));
    terrace(["pin", "1", &other]).ok();
    let text = terrace(["why", &other]).ok();
    assert!(text.contains("nothing moves it off disk1, where it is pinned; `terrace unpin`"));
    // A mount forgets nothing of it.
    place.umount();
    place.mount("pm", &[]).ok();
    assert!(terrace(["why", &file]).ok().contains("100 KiB in disk1: moved by hand"), "{text}");
    // As `where` refuses them.
    terrace(["why", &place.path("mnt")]).fails(1, &["directory"]);
    terrace(["why", &place.path("mnt/none")]).fails(1, &["none"]);
    terrace(["why", "/dev/null"]).fails(1, &["/dev/null"]);
    let failed = terrace(["why", &place.path("mnt/none"), &other]);
    assert!(failed.stdout.contains("/mnt/other: inode "), "{failed:?}");
    assert!(failed.code == Some(1) && failed.stderr.contains("mnt/none: No such file"));
    place.umount();
}
