//! What a mounted volume says of itself.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use common::{Place, TERRACE, can_mount, kill, shell, terrace};
use serde_json::Value;

/// Starts `terrace stats` on `mnt`.
fn start(place: &Place, more: &[&str]) -> Child {
    let mut command = Command::new(TERRACE);
    command.args(["stats", &place.path("mnt")]).args(more);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs")
}

/// Waits for its end, which must be a success; returns what it had left to say.
#[track_caller]
fn end(mut child: Child) -> String {
    let status = child.wait().expect("it ends");
    let mut text = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut text).expect("UTF-8");
    assert!(status.success(), "{status}: {text}");
    text
}

#[test]
fn totals_tell_what_was_done_since_the_volume_was_mounted() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let mnt = place.path("mnt");
    fs::write(place.path("mnt/file"), vec![1; 100_000]).unwrap();
    fs::File::open(place.path("mnt/file")).unwrap().sync_all().unwrap();

    let line = terrace(["stats", "--once", "--json", &mnt]).ok();
    assert_eq!(line.lines().count(), 1, "{line}");
    let stats: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(stats["counters"]["pm_written_bytes"], 100_000);
    assert_eq!(
        (&stats["tiers"][0]["written_bytes"], &stats["counters"]["fsyncs"]),
        (&100_000.into(), &1.into())
    );
    assert!(stats["pm_write_amplification"].as_f64().unwrap() > 1.0);
    assert_eq!(
        (&stats["tiers"][1]["name"], &stats["tiers"][1]["capacity_bytes"]),
        (&"disk1".into(), &(256 << 20).into())
    );
    assert_eq!(stats["uuid"], place.status("mnt")["uuid"]);
    let hottest = &stats["files"]["hottest"][0];
    assert_eq!(
        (&hottest["path"], &hottest["bytes"]["pm"]),
        (&"/file".into(), &102_400.into()),
        "{hottest}"
    );

    // An fsync of what waits in the page cache waits for the disk; then the disk is read.
    terrace(["pin", "1", &place.path("mnt/file")]).ok();
    // It is not truncated before: contents that replace others go to the disk by themselves.
    let mut file = fs::File::options().write(true).open(place.path("mnt/file")).unwrap();
    file.write_all(&[2; 100_000]).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let line = terrace(["stats", "--once", "--json", &mnt]).ok();
    let stats: Value = serde_json::from_str(&line).unwrap();
    let flush = stats["waits"].as_array().unwrap().iter().find(|w| w["cause"] == "flush").unwrap();
    assert!(flush["waits"].as_u64().unwrap() >= 1 && flush["waiting"] == 0, "{flush}");
    assert!(flush["longest_ns"].as_u64().unwrap() > 0 && flush["last_second"] != 0, "{flush}");
    let (pm, disk) = (&stats["tiers"][0], &stats["tiers"][1]);
    assert_eq!(
        (&pm["file_written_bytes"], &pm["moved_out_bytes"]),
        (&100_000.into(), &102_400.into())
    );
    assert_eq!(
        (&disk["written_back_bytes"], &disk["moved_in_bytes"]),
        (&102_400.into(), &102_400.into())
    );
    let text = terrace(["stats", "--once", &mnt]).ok();
    assert!(text.contains("\nan fsync's way to a disk ") && text.contains("MOVED OUT"), "{text}");

    let by_device = terrace(["stats", "--once", &place.path("pm")]).ok();
    assert!(
        by_device.contains("\npm_written_bytes ") && by_device.contains(" 97.7 KiB "),
        "{by_device}"
    );
    place.umount();
    terrace(["stats", &mnt]).fails(1, &["no file system is mounted here"]);
}

#[test]
fn live_lines_come_until_a_signal_the_end_of_the_reader_or_of_the_mount() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &[]).ok();
    let (mut interrupted, mut unmounted) =
        (start(&place, &["--json"]), start(&place, &["--interval", "1"]));

    // `head` goes after one line; the next one finds no reader.
    let head = shell("\"$TERRACE\" stats \"$DIR/mnt\" | head -1", place.dir());
    assert_eq!((head.stderr.as_str(), head.stdout.starts_with("TIER")), ("", true), "{head:?}");

    let mut lines = BufReader::new(interrupted.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(first["elapsed_ms"].as_u64().unwrap() > 0);
    fs::write(place.path("mnt/file"), vec![1; 10_000]).unwrap();
    // The write falls in one period and in no other.
    let written = |line: std::io::Result<String>| {
        let stats: Value = serde_json::from_str(&line.unwrap()).unwrap();
        stats["counters"]["pm_written_bytes"].as_u64().unwrap()
    };
    assert_eq!(lines.by_ref().map(written).find(|&bytes| bytes > 0), Some(10_000));
    assert_eq!(lines.next().map(written), Some(0));
    kill(interrupted.id() as i32, libc::SIGINT);
    assert_eq!(end(interrupted), "");

    let mut text = BufReader::new(unmounted.stdout.take().unwrap()).lines();
    let heading = text.next().unwrap().unwrap();
    assert!(heading.starts_with("TIER") && heading.contains("READS/S"), "{heading}");
    place.umount();
    assert!(end(unmounted).ends_with("mnt: unmounted\n"));
    assert!(text.all(|line| !line.unwrap().starts_with("TIER")), "the headings come once");
}
