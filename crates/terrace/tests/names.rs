//! Output about files, devices and directories harms no terminal and keeps to its lines, whatever
//! their names are. And one thing is not called several.

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use common::{Place, Ran, TERRACE, can_mount, terrace};
use serde_json::Value;

/// A line that is forged, a colour, C1's way to clear the screen, a text that runs backwards, a
/// bell, a tabulator.
const HOSTILE: &str = "x\nforged: line\r\u{1b}[31m\u{9b}2J\u{202e}\u{7}\ty";
const HARMLESS: &str = "plain";

/// Everything that commands say of a volume that lies in `dir`, with what was said of what. One
/// file is damaged meanwhile.
fn everything_said(dir: &Path) -> Vec<(String, Ran)> {
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let (pm, disk, mnt, log) = (path("pm"), path("disk"), path("mnt"), path("log"));
    let cache = format!("cache=64M,migrate=0,cache_dir={}", path("cache"));
    let mut said = Vec::new();
    let mut say = |args: &[&str]| {
        said.push((args.join(" ").replace(dir.to_str().unwrap(), "DIR"), terrace(args)))
    };
    fs::create_dir_all(&mnt).unwrap();
    say(&["format", "--pm", &pm, "--disk", &disk]);
    say(&["format", "--pm", &(pm.clone() + ":64M"), "--disk", &(disk.clone() + ":128M")]);
    say(&["format", "--pm", &pm, "--disk", &path("pm")]);
    say(&["status", &pm]);
    say(&["status", "--json", &pm]);
    say(&["mount", &path("none"), &mnt, "--log", &log]);
    say(&["mount", &pm, &path("none"), "--log", &log]);
    fs::set_permissions(&disk, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    say(&["mount", &pm, &mnt, "--log", &log, "-o", &cache]);
    say(&["mount", &pm, &mnt, "--log", &log]);
    // Users name files on the volume as they like, too.
    let own_name = dir.file_name().unwrap().to_str().unwrap();
    let (tree, file) = (path("mnt/tree"), path(&format!("mnt/tree/{own_name}")));
    fs::create_dir(&tree).unwrap();
    fs::write(&file, [7; 8192]).unwrap();
    for args in [
        &["status"][..],
        &["status", "--json"],
        &["stats", "--once"],
        &["stats", "--once", "--json"],
        &["top"],
        &["sync"],
        &["device", "list"],
        &["scrub", "status"],
    ] {
        say(&[args, &[&mnt]].concat());
    }
    for command in [
        &["where"][..],
        &["where", "--json"],
        &["evict"],
        &["warm"],
        &["pin", "pm"],
        &["unpin"],
        &["evict"],
    ] {
        for name in [&file, &tree, &path("mnt/none"), &pm] {
            say(&[command, &[name]].concat());
        }
    }
    say(&["device", "add", &mnt, &path("none")]);
    say(&["device", "add", &mnt, &file]);
    say(&["device", "add", &mnt, &(path("added") + ":64M")]);
    say(&["device", "remove", &mnt, &path("none")]);
    say(&["device", "remove", &mnt, &path("added")]);
    say(&["record", &mnt, "-o", &path("trace"), "--seconds", "1"]);
    say(&["record", &mnt, "-o", &path("mnt/trace")]);
    say(&["simulate", &path("trace"), "--pm", "64M"]);
    say(&["simulate", &path("none")]);
    let map: Value = serde_json::from_str(&terrace(["where", "--json", &file]).ok()).unwrap();
    let at = map[0]["extents"][0]["device_offset_bytes"].as_u64().unwrap();
    fs::OpenOptions::new().write(true).open(&disk).unwrap().write_all_at(b"x", at + 5).unwrap();
    say(&["scrub", "start", "--wait", &mnt]);
    say(&["scrub", "status", "--json", &mnt]);
    say(&["warm", &file]);
    say(&["umount", &mnt]);
    say(&["umount", &mnt]);
    for args in [
        &["check"][..],
        &["check", "--json"],
        &["dump", "superblock"],
        &["dump", "inode", "1", "--log"],
    ] {
        say(&[args, &[&pm]].concat());
    }
    say(&["dump", "inode", "2", "--log", &pm]);
    say(&["save", &pm, &path("saved")]);
    say(&["save", &pm, &path("mnt")]);
    say(&["save", &pm, &path("trace")]);
    say(&["restore", &path("none"), &pm]);
    say(&["restore", &path("saved"), &path("restored")]);
    say(&["restore", &path("saved"), &path("restored")]);
    fs::rename(&disk, path("moved")).unwrap();
    say(&["check", &pm]);
    say(&["status", &pm]);
    // Where nothing of the kind is expected.
    for name in ["", "--"]
        .map(|prefix| prefix.to_owned() + dir.file_name().and_then(OsStr::to_str).unwrap())
    {
        say(&[&name]);
        say(&["status", &mnt, &name]);
        say(&["set", &mnt, &name]);
        say(&["pin", &name, &file]);
        say(&["mount", &pm, &mnt, "-o", &name]);
        say(&["mount", &pm, &mnt, "-o", &format!("cache={name}")]);
        say(&["mount", &pm, &mnt, "--model", &format!("disk={name}")]);
        say(&["format", "--pm", &pm, "--disk", &disk, "--tier", &name]);
    }
    let helper = path("mount.terrace");
    std::os::unix::fs::symlink(TERRACE, &helper).unwrap();
    said.push((
        "helper".to_owned(),
        Ran::of(Command::new(&helper).args([&path("none"), &mnt, "-o", &format!("log={log}")])),
    ));
    said.push((
        "the log".to_owned(),
        Ran { code: None, stdout: fs::read_to_string(&log).unwrap(), stderr: String::new() },
    ));
    said
}

#[test]
fn names_harm_no_terminal_and_make_no_lines() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let (harmless, hostile) =
        (everything_said(&place.dir().join(HARMLESS)), everything_said(&place.dir().join(HOSTILE)));
    assert_eq!(harmless.len(), hostile.len());
    for ((what, plain), (_, ran)) in harmless.iter().zip(&hostile) {
        for (text, plain) in [(&ran.stdout, &plain.stdout), (&ran.stderr, &plain.stderr)] {
            let is_obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(is_obeyed), "{what}: {text:?}");
            // How often progress is shown depends on how long it takes, and what would help with a
            // name on the name.
            let is_counted = |line: &&str| {
                !(line.is_empty() || line.ends_with(['…', '%']) || line.starts_with("  tip: "))
            };
            let lines = |text: &str| text.lines().filter(is_counted).count();
            assert_eq!(lines(text), lines(plain), "{what}: {text}\n{plain}");
        }
        assert_eq!(ran.code, plain.code, "{what}: {ran:?} {plain:?}");
    }
    // It is really named.
    let all: String =
        hostile.iter().map(|(_, ran)| format!("{}{}", ran.stdout, ran.stderr)).collect();
    let shown = r"x\nforged: line\r\u001b[31m\u009b2J\u202e\u0007\ty";
    assert!(all.contains(&format!("/{shown}/mnt/tree/{shown}: inode ")), "{all}");
}

#[test]
fn one_thing_is_not_called_several() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    for (what, ran) in everything_said(&place.dir().join(HARMLESS)) {
        for line in ran.stdout.lines().chain(ran.stderr.lines()) {
            let words: Vec<&str> = line.split(' ').collect();
            for pair in
                words.windows(2).filter(|pair| pair[0].trim_start_matches(['(', '"']) == "1")
            {
                let word = pair[1].trim_end_matches(|c: char| !c.is_ascii_alphabetic());
                let is_several = word.len() > 2 && word.ends_with('s') && word != "as";
                assert!(!is_several, "{what}: {line}");
            }
        }
    }
}
