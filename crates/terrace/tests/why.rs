//! `terrace why` on a real mount: in words, and as JSON.

mod common;

use std::fs;
use std::os::unix::net::UnixListener;

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
    terrace(["why", &place.path("mnt/none")]).fails(1, &["none"]);
    terrace(["why", "/dev/null"]).fails(1, &["/dev/null"]);
    let failed = terrace(["why", &place.path("mnt/none"), &other]);
    assert!(failed.stdout.contains("/mnt/other: inode "), "{failed:?}");
    assert!(failed.code == Some(1) && failed.stderr.contains("mnt/none: No such file"));
    place.umount();
}

#[test]
fn unusual_files_get_a_sentence_of_their_own() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let at = |name: &str| place.path(&format!("mnt/{name}"));
    let script = r#"
cd "$DIR/mnt"
mkdir dir
mkfifo fifo
touch empty
truncate -s 1M holes
touch beyond
fallocate -l 64K reserved
fallocate -n -l 64K beyond
printf x > file
ln -s file link
ln -s nowhere dangling
"#;
    common::shell(script, place.dir()).ok();
    drop(UnixListener::bind(at("socket")).unwrap());
    for (name, sentence) in [
        ("dir", "is a directory: it has names, and no data that moves; name files in it"),
        ("fifo", "is a named pipe: it has no data on a volume"),
        ("socket", "is a socket: it has no data on a volume"),
        ("dangling", "is a symbolic link that leads nowhere"),
    ] {
        terrace(["why", &at(name)]).fails(1, &[&format!("{} {sentence}", at(name))]);
    }
    terrace(["why", "/dev/null"]).fails(1, &["/dev/null is a device file: it has no data"]);
    for (name, sentences) in [
        ("empty", ["\n  it is empty\n", "\nwhat would move it: nothing, because it has no data\n"]),
        (
            "holes",
            ["\n  it has no data: all of it is a hole, ", ": nothing, because it has no data\n"],
        ),
        (
            "reserved",
            ["reserved by fallocate, ", "\n  nothing has been written there yet: it reads "],
        ),
        (
            "beyond",
            [", 0 B\n  64 KiB in pm: reserved", "it counts as written when it was made or "],
        ),
        ("link", ["/mnt/link: inode ", "\n  a symbolic link: this is about "]),
    ] {
        let text = terrace(["why", &at(name)]).ok();
        assert!(sentences.iter().all(|sentence| text.contains(sentence)), "{name}: {text}");
    }
    place.umount();
}
