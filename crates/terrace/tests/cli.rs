//! The command line itself: usage, refusals, documents, exit statuses. Nothing is mounted here.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use common::{Place, Ran, TERRACE, can_mount, has, terrace};

const SUBCOMMANDS: [&str; 18] = [
    "format",
    "mount",
    "umount",
    "status",
    "stats",
    "top",
    "run",
    "where",
    "scrub",
    "sync",
    "upgrade",
    "save",
    "restore",
    "doctor",
    "check",
    "dump",
    "completions",
    "man",
];

#[test]
fn every_subcommand_is_listed_and_has_help() {
    let help = terrace(["--help"]).ok();
    assert!(help.contains("Exit status:"), "{help}");
    for name in SUBCOMMANDS {
        assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        assert!(terrace([name, "--help"]).ok().contains("Usage: terrace "), "{name}");
    }
    assert!(terrace(["mount", "--help"]).ok().contains("writeback=SECONDS"));
    assert_eq!(terrace(["--version"]).ok(), format!("terrace {}\n", env!("CARGO_PKG_VERSION")));
}

/// A keeper runs it with descriptors that are open.
#[test]
fn what_keepers_run_is_not_for_people() {
    assert!(!terrace(["--help"]).ok().contains("take-over"));
    for args in [&["take-over"][..], &["take-over", "1000", "1001"], &["take-over", "1", "x"]] {
        terrace(args).fails(1, &["take-over is only for keepers of mounts"]);
    }
}

#[test]
fn the_parser_accepts_the_examples_in_the_help() {
    for name in SUBCOMMANDS {
        let help = terrace([name, "--help"]).ok();
        let examples = help.lines().filter_map(|line| line.strip_prefix("  terrace "));
        let examples: Vec<&str> = examples.filter(|line| !line.starts_with(' ')).collect();
        assert!(!examples.is_empty() || name == "dump", "{name} has no example");
        for example in examples {
            // A remark stands apart; what follows the command belongs to the shell.
            let command =
                example.split("   ").next().and_then(|text| text.split(['|', '>', '&']).next());
            // What follows -- is a command of its own.
            let command = command.and_then(|text| text.split(" -- ").next());
            let args = command.unwrap_or_default().split_whitespace();
            // The parser looks at what precedes --help.
            let ran = terrace(args.chain(["--help"]));
            assert_eq!(ran.code, Some(0), "{example}: {ran:?}");
        }
    }
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for args in [
        &["--no-such-flag"][..],
        &["frobnicate"],
        &["format"],
        &["format", "--pm", "/dev/shm/x"],
        &["format", "--pm", "/dev/shm/x", "--disk", "/dev/shm/y", "--tier", "0"],
        &["format", "--pm", "/dev/shm/x", "--disk", "/dev/shm/y", "--shards", "0"],
        &["mount", "/dev/shm/x"],
        &["where"],
        &["stats"],
        &["stats", "--interval", "0", "/mnt"],
        &["stats", "--once", "--interval", "2", "/mnt"],
        &["dump", "inode", "one", "/dev/shm/x"],
        &["completions", "tcsh"],
    ] {
        terrace(args).fails(2, &["--help"]);
    }
}

#[test]
fn sizes_are_explained() {
    for (size, why) in [
        ("4X", "the units are"),
        ("1.2.3G", "more than one decimal point"),
        ("99999999T", "too large"),
        ("0", "too small"),
    ] {
        let disk = format!("/dev/shm/terrace-no-such:{size}");
        terrace(["format", "--pm", "/dev/shm/terrace-no-such-pm:4M", "--disk", &disk])
            .fails(2, &[size, why]);
    }
}

#[test]
fn models_and_tiers_are_explained() {
    let format = ["format", "--pm", "/no/pm", "--disk", "/no/disk1", "--disk", "/no/disk2"];
    let with = |more: &[&str]| terrace(format.iter().chain(more));
    with(&["--tier", "1"]).fails(2, &["2 disks", "--tier once for each --disk"]);
    with(&["--tier", "1,2,3"]).fails(2, &["2 disks"]);
    with(&["--model", "hdd"]).fails(2, &["disk=MODEL"]);
    with(&["--model", "disk=floppy"]).fails(2, &["floppy", "sata-ssd"]);
}

#[test]
fn an_unknown_mount_option_is_named_and_the_known_ones_are_listed() {
    let place = Place::new();
    place
        .mount("pm", &["-o", "noatime,barrier=1"])
        .fails(2, &["\"barrier\"", "noatime", "writeback=SECONDS"]);
    place.mount("pm", &["-o", "cache=lots"]).fails(2, &["cache=SIZE", "lots"]);
    place
        .mount("pm", &["-o", "cache=0"])
        .fails(2, &["cache=SIZE", "\"0\" is too small; it takes at least 1 MiB"]);
    place.mount("pm", &["-o", "writeback=0"]).fails(2, &["writeback=SECONDS", "1 to 86400"]);
    place
        .mount("pm", &["-o", "migrate_at=0"])
        .fails(2, &["migrate_at=PERCENT", "from 1 % to 100 %"]);
}

/// The whole of what a user has typed by mistake tells nobody more than its beginning.
#[test]
fn what_is_long_and_unknown_is_not_repeated_whole() {
    let place = Place::new();
    let (pm, mnt, helper) = (place.path("pm"), place.path("mnt"), place.path("mount.terrace"));
    symlink(TERRACE, &helper).unwrap();
    let long = "x".repeat(100_000);
    let with = |prefix: &str| format!("{prefix}{long}");
    let options = [
        "",
        "cache=",
        "writeback=",
        "engine=",
        "ro=",
        "model=",
        "model=disk=",
        "metrics=",
        "group=",
    ]
    .map(with);
    for option in &options {
        let by_helper = Ran::of(Command::new(&helper).args([&pm, &mnt, "-o", option]));
        for (ran, code) in [(place.mount("pm", &["-o", option]), 2), (by_helper, 1)] {
            assert!(ran.stderr.len() < 4096, "{}", &ran.stderr[..4096]);
            ran.fails(code, &["xxx… (", " characters)"]);
        }
    }
    for args in [
        &[&*long][..],
        &[&with("--")],
        &["status", &mnt, &long],
        &["set", &mnt, &long],
        &["set", &mnt, &with("group=")],
        &["pin", &long, &mnt],
        &["evict", "--tier", &long, &mnt],
        &["simulate", &mnt, "--disk", &long],
        &["format", "--pm", &with("/no/such:1"), "--disk", &mnt],
    ] {
        let ran = terrace(args);
        assert!(ran.stderr.len() < 4096, "{}", &ran.stderr[..4096]);
        ran.fails(2, &["xxx… (", " characters)"]);
    }
}

#[test]
fn a_device_that_is_missing_can_be_created() {
    let place = Place::new();
    let (pm, absent) = (place.path("pm"), place.path("absent"));
    let remedy = format!(
        "{absent}: No such file or directory (os error 2); with a size behind it, as in \
         {absent}:4G,"
    );
    terrace(["format", "--pm", &absent, "--disk", &(place.path("disk") + ":64M")])
        .fails(1, &[&remedy]);
    terrace(["format", "--pm", &(pm.clone() + ":16M"), "--disk", &absent]).fails(1, &[&remedy]);
    assert_eq!(place.names(), ["mnt"]);
    if can_mount() {
        place.format("pm", "disk", &[]);
        place.mount("pm", &[]).ok();
        terrace(["device", "add", &place.path("mnt"), &absent]).fails(1, &[&remedy]);
        place.umount();
    }
}

#[test]
fn a_mount_without_a_device_or_a_mountpoint_says_what_is_missing() {
    let place = Place::new();
    place.mount("no-pm", &[]).fails(1, &["no-pm", "No such file"]);
    place.mount_on("pm", "no-dir", &[]).fails(1, &["no-dir", "No such file"]);
    fs::write(place.path("file"), "").unwrap();
    place.mount_on("pm", "file", &[]).fails(1, &["file", "is not a directory"]);
}

#[test]
fn commands_for_mounted_volumes_say_when_there_is_none() {
    let place = Place::new();
    let mnt = place.path("mnt");
    terrace(["umount", &mnt]).fails(1, &["no file system is mounted here"]);
    terrace(["umount", "/"]).fails(1, &["not Terrace"]);
    terrace(["sync", &mnt]).fails(1, &["no file system is mounted here"]);
    terrace(["stats", &mnt]).fails(1, &["no file system is mounted here"]);
    terrace(["top", &mnt]).fails(1, &["needs a terminal", "terrace stats"]);
    terrace(["set", &mnt]).fails(1, &["no file system is mounted here"]);
    terrace(["set", &mnt, "grope=1"]).fails(2, &["no threshold \"grope\"", "group"]);
    terrace(["set", &mnt, "group=1"]).fails(2, &["group=SIZE", "from 64 KiB to 64 MiB"]);
    terrace(["status", &mnt]).fails(1, &["no Terrace volume is mounted here"]);
    fs::write(place.path("file"), "text").unwrap();
    terrace(["where", &place.path("file")]).fails(1, &["not on a Terrace mount"]);
    terrace(["evict", &place.path("file")]).fails(1, &["not on a Terrace mount"]);
    terrace(["warm", &place.path("file")]).fails(1, &["not on a Terrace mount"]);
    terrace(["pin", "pm", &place.path("file")]).fails(1, &["not on a Terrace mount"]);
    terrace(["unpin", &place.path("file")]).fails(1, &["not on a Terrace mount"]);
    terrace(["pin", "0", &place.path("file")]).fails(2, &["is no tier: pm, 1, 2, …"]);
    terrace(["pin", "pm"]).fails(2, &["FILE"]);
}

#[test]
fn a_device_named_twice_is_refused() {
    let place = Place::new();
    fs::write(place.path("a"), "").unwrap();
    symlink(place.path("a"), place.path("b")).unwrap();
    let (a, b, c) = (place.path("a"), place.path("b"), place.path("c:1M"));
    terrace(["format", "--pm", &a, "--disk", &b]).fails(2, &["same device", &b]);
    terrace(["format", "--pm", &a, "--disk", &c, "--disk", &c]).fails(2, &["same device"]);
    assert_eq!(place.names(), ["a", "b", "mnt"]);
}

#[test]
fn a_device_that_holds_something_is_refused_and_left_alone() {
    if !has("mkfs.ext4") {
        return;
    }
    let place = Place::new();
    let disk = place.path("disk");
    fs::File::create(&disk).unwrap().set_len(32 << 20).unwrap();
    Ran::of(Command::new("mkfs.ext4").args(["-q", "-F", &disk])).ok();
    let before = fs::read(&disk).unwrap();
    let pm = place.path("pm:64M");
    terrace(["format", "--pm", &pm, "--disk", &disk])
        .fails(1, &["an ext4 file system", "--force", &disk]);
    assert!(fs::read(&disk).unwrap() == before, "the disk was changed");
    assert_eq!(place.names(), ["disk", "mnt"], "the PM file made before must be gone");
}

#[test]
fn unknown_data_is_refused() {
    let place = Place::new();
    fs::write(place.path("pm"), vec![7; 64 << 20]).unwrap();
    let disk = place.path("disk:256M");
    terrace(["format", "--pm", &place.path("pm"), "--disk", &disk])
        .fails(1, &["holds data", "--force"]);
    assert_eq!(place.names(), ["mnt", "pm"]);
}

#[test]
fn what_is_no_device_is_refused() {
    let place = Place::new();
    let (pm, mnt) = (place.path("pm:64M"), place.path("mnt"));
    terrace(["format", "--pm", &pm, "--disk", &mnt]).fails(1, &[&mnt]);
    terrace(["format", "--pm", &mnt, "--disk", &place.path("disk:256M")]).fails(1, &[&mnt]);
    terrace(["format", "--pm", "/dev/null", "--disk", &place.path("disk:256M")])
        .fails(1, &["/dev/null"]);
    terrace(["format", "--pm", &pm, "--disk", &place.path("no-disk")])
        .fails(1, &["no-disk", "No such file"]);
    terrace(["format", "--pm", &pm, "--disk", &place.path("no/disk:1M")])
        .fails(1, &["no/disk", "No such file"]);
    assert_eq!(place.names(), ["mnt"]);
}

#[test]
fn a_file_to_be_created_must_not_exist() {
    let place = Place::new();
    fs::write(place.path("pm"), "precious").unwrap();
    terrace(["format", "--pm", &place.path("pm:64M"), "--disk", &place.path("disk:256M")])
        .fails(1, &["exists", "--force"]);
    assert_eq!(fs::read(place.path("pm")).unwrap(), b"precious");
    assert_eq!(place.names(), ["mnt", "pm"]);
}

#[test]
fn emulated_pm_larger_than_memory_is_refused() {
    let place = Place::new();
    terrace(["format", "--pm", &place.path("pm:900T"), "--disk", &place.path("disk:1M")])
        .fails(1, &["memory"]);
    assert_eq!(place.names(), ["mnt"]);
}

#[test]
fn devices_without_a_volume_are_named() {
    let place = Place::new();
    fs::write(place.path("pm"), vec![0; 1 << 20]).unwrap();
    let pm = place.path("pm");
    let advice = ["holds no Terrace volume", pm.as_str()];
    place.mount("pm", &[]).fails(1, &advice);
    terrace(["status", &pm]).fails(1, &advice);
    terrace(["check", &pm]).fails(1, &advice);
    terrace(["dump", "superblock", &pm]).fails(1, &[&pm]);
    terrace(["save", &pm, &place.path("saved")]).fails(1, &[&pm]);
    assert_eq!(place.names(), ["log", "mnt", "pm"], "a failed save leaves nothing");
}

#[test]
fn what_was_not_saved_by_terrace_is_not_restored() {
    let place = Place::new();
    fs::write(place.path("saved"), "this is something else").unwrap();
    terrace(["restore", &place.path("saved"), &place.path("pm")]).fails(1, &["saved"]);
    terrace(["restore", &place.path("none"), &place.path("pm")])
        .fails(1, &["none", "No such file"]);
    terrace(["restore", "-", &place.path("pm")]).fails(1, &["-"]);
    assert_eq!(place.names(), ["mnt", "saved"]);
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = terrace(["completions", shell]).ok();
        assert!(script.contains("restore") && script.contains("data-checksums"), "{shell}");
    }
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let place = Place::new();
    let dir = place.path("mnt");
    terrace(["man", &dir]).ok();
    for name in SUBCOMMANDS {
        let page = fs::read_to_string(format!("{dir}/terrace-{name}.1")).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
    }
    let mount = fs::read_to_string(format!("{dir}/terrace-mount.1")).unwrap();
    assert!(mount.contains("writeback=SECONDS") && mount.contains("/etc/fstab"));
    assert!(fs::read_to_string(format!("{dir}/terrace.1")).unwrap().contains("Exit status:"));
    assert!(fs::read_to_string(format!("{dir}/terrace-dump-inode.1")).unwrap().contains("inode"));
    terrace(["man", &place.path("no-dir")]).fails(1, &["no-dir"]);
}

#[test]
fn as_a_helper_it_answers_as_mount_expects() {
    let place = Place::new();
    let helper = place.path("mount.terrace");
    symlink(TERRACE, &helper).unwrap();
    let mount = |args: &[&str]| Ran::of(Command::new(&helper).args(args));
    let (pm, mnt) = (place.path("no-pm"), place.path("mnt"));
    let log = format!("rw,nofail,log={}", place.path("log"));
    mount(&[]).fails(1, &["mountpoint"]);
    mount(&[&pm, &mnt, "-o", "nonsense"]).fails(1, &["nonsense"]);
    mount(&[&pm, &mnt, "-o", &log]).fails(32, &["no-pm"]);
    mount(&[&pm, &mnt, "-f", "-o", &log]).ok();
    let helper = place.path("umount.fuse.terrace");
    symlink(TERRACE, &helper).unwrap();
    Ran::of(Command::new(&helper).arg(&mnt)).fails(32, &["no file system is mounted here"]);
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let ran =
        Ran::of(Command::new("sh").args(["-c", "\"$0\" completions bash | head -n 1", TERRACE]));
    assert_eq!(ran.stderr, "");
    assert!(!ran.ok().is_empty());
}

#[test]
fn an_error_says_its_reason_once_and_creates_nothing() {
    let place = Place::new();
    let (absent, disk) = (place.path("no/such"), place.path("disk:64M"));
    let sized = format!("{absent}:64M");
    place.format("pm", "d", &[]);
    let (pm, mnt, log) = (place.path("pm"), place.path("mnt"), format!("log={absent}"));
    let before = place.names();
    let calls: [&[&str]; 6] = [
        &["mount", &absent, &mnt],
        &["mount", &pm, &mnt, "-o", &log],
        &["check", &absent],
        &["save", &pm, &absent],
        &["restore", &absent, &pm],
        &["format", "--pm", &sized, "--disk", &disk],
    ];
    for args in calls {
        let ran = terrace(args);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert_eq!(ran.stderr.matches("os error 2").count(), 1, "{args:?}: {ran:?}");
        assert!(ran.stderr.contains(&absent), "{args:?}: {ran:?}");
        assert_eq!(place.names(), before, "{args:?}");
    }
    // Nor does it name a device twice.
    let text = terrace(["check", &place.path("d")]).stderr;
    assert_eq!(text.matches(&place.path("d")).count(), 1, "{text}");
}
