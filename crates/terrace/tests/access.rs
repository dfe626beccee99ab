//! Who may do what: modes and owners of everything that is created, and what is said of devices that are open to others.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use common::{Place, Ran, TERRACE, can_mount, terrace};

/// Runs the command with a umask that takes nothing away.
fn unmasked(args: &[&str]) -> Ran {
    Ran::of(Command::new("sh").args(["-c", "umask 0; exec \"$0\" \"$@\"", TERRACE]).args(args))
}

fn chmod(path: &str, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Type, mode and owner of everything below a directory on the same file system, by name. Names of volumes are left out.
fn created(dir: &Path, uuid: &str) -> Vec<String> {
    let device = fs::symlink_metadata(dir).unwrap().dev();
    let (mut open, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            // SAFETY: geteuid has no preconditions.
            let owner = if meta.uid() == unsafe { libc::geteuid() } { "mine" } else { "another's" };
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap().replace(uuid, "UUID");
            found.push(format!("{name} {:o} {owner}", meta.mode()));
            if meta.is_dir() && meta.dev() == device {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn everything_that_is_created_is_for_its_owner_alone() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    fs::remove_dir(place.path("mnt")).unwrap();
    let mountpoint = tempfile::tempdir().unwrap();
    let mnt = mountpoint.path().to_str().unwrap();
    let (pm, disk) = (place.path("pm"), place.path("disk"));
    let sized = |name: &str| place.path(name) + ":64M";
    unmasked(&["format", "--pm", &sized("pm"), "--disk", &sized("disk")]).ok();
    let uuid = place.status("pm")["uuid"].as_str().unwrap().to_owned();

    let (cache, socket) = (place.path("cache"), place.path("socket"));
    let options = format!("cache=64M,cache_dir={cache},metrics={socket}");
    unmasked(&["mount", &pm, mnt, "--log", &place.path("log"), "-o", &options]).ok();
    let unmount = unmount_at_the_end(mnt);
    unmasked(&["device", "add", mnt, &sized("added")]).ok();
    unmasked(&["device", "replace", mnt, &place.path("added"), &sized("successor")]).ok();
    unmasked(&["record", mnt, "-o", &place.path("trace"), "--seconds", "1"]).ok();
    let table = [
        "added 100600 mine",
        "cache 40700 mine",
        "cache/terrace-UUID.cache 100600 mine",
        "disk 100600 mine",
        "log 100600 mine",
        "pm 100600 mine",
        "socket 140600 mine",
        "successor 100600 mine",
        "trace 100600 mine",
    ];
    assert_eq!(created(place.dir(), &uuid), table);
    drop(unmount);

    for name in ["added", "cache", "log", "successor", "trace"] {
        let path = place.path(name);
        fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).unwrap();
    }
    unmasked(&["save", &pm, &place.path("saved")]).ok();
    // What is there already, and open to all, is replaced by what is not.
    chmod(&place.path("saved"), 0o666);
    unmasked(&["save", &pm, &place.path("saved")]).ok();
    unmasked(&["restore", &place.path("saved"), &place.path("restored")]).ok();
    chmod(&disk, 0o666);
    unmasked(&["format", "--force", "--pm", &sized("pm"), "--disk", &sized("disk")]).ok();
    let table = ["disk 100600 mine", "pm 100600 mine", "restored 100600 mine", "saved 100600 mine"].map(str::to_owned);
    assert_eq!(created(place.dir(), &uuid), table);
    // Manual pages are for everybody.
    fs::create_dir(place.path("man")).unwrap();
    unmasked(&["man", &place.path("man")]).ok();
    assert_eq!(fs::metadata(place.path("man/terrace.1")).unwrap().mode() & 0o777, 0o666);
}

/// Unmounts when it is dropped.
fn unmount_at_the_end(mountpoint: &str) -> impl Drop {
    struct Guard(String);
    impl Drop for Guard {
        fn drop(&mut self) {
            let unmounted = terrace(["umount", &self.0]);
            if unmounted.code != Some(0) {
                let _ = Command::new("umount").args(["-l", &self.0]).status();
                assert!(std::thread::panicking(), "{unmounted:?}");
            }
        }
    }
    Guard(mountpoint.to_owned())
}

#[test]
fn a_device_that_is_open_to_others_is_named_with_its_mode_and_the_remedy() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let (pm, disk, mnt) = (place.path("pm"), place.path("disk"), place.path("mnt"));
    for (mode, may) in [
        (0o600, None),
        (0o640, Some("read")),
        (0o602, Some("write")),
        (0o644, Some("read")),
        (0o666, Some("read and write")),
    ] {
        for path in [&pm, &disk] {
            chmod(path, mode);
            let word = may.map(|may| {
                format!("{path}: its mode, {mode:04o}, lets other users {may} it; `chmod 600 {path}` ends that")
            });
            let is_told = |text: &str| match &word {
                Some(word) => text.contains(word.as_str()),
                None => !text.contains("other users"),
            };
            let notes = |target: &str| place.status(target)["notes"].to_string();
            assert!(is_told(&notes("pm")), "{mode:o} {path}: {}", notes("pm"));
            let mounted = place.mount("pm", &[]);
            assert!(is_told(&mounted.stderr), "{mode:o} {path}: {mounted:?}");
            mounted.ok();
            assert!(is_told(&notes("mnt")), "{mode:o} {path}: {}", notes("mnt"));
            assert!(is_told(&terrace(["status", &mnt]).ok()));
            place.umount();
            chmod(path, 0o600);
        }
    }
    // Where a device is taken in, too. The log has the word also if nobody is to see remarks.
    fs::File::create(place.path("new")).unwrap().set_len(64 << 20).unwrap();
    chmod(&place.path("new"), 0o604);
    let added = |ran: Ran| assert!(ran.stderr.contains("/new: its mode, 0604, lets other users read it"), "{ran:?}");
    added(terrace(["format", "--pm", &place.path("other:16M"), "--disk", &place.path("new")]));
    place.mount("pm", &[]).ok();
    added(terrace(["device", "add", "--force", &mnt, &place.path("new")]));
    place.umount();
    fs::remove_file(place.path("log")).unwrap();
    let mounted = place.mount("pm", &["--quiet"]);
    assert_eq!(mounted.stderr, "");
    assert!(fs::read_to_string(place.path("log")).unwrap().contains("0604, lets other users read"));
    place.umount();
}
