//! Who may do what: modes and owners of everything that is created, what is said of devices that
//! are open to others, and what each command may do as another user, in another group, and on a
//! file that cannot be read.

mod common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use common::{Place, Ran, TERRACE, can_mount, terrace};
use serde_json::Value;

const NOBODY: u32 = 65534;
/// A group that nobody is in by itself.
const GROUP: u32 = 54321;

/// Runs the command as nobody, in a group.
fn as_nobody(group: u32, args: &[&str]) -> Ran {
    Ran::of(Command::new(TERRACE).args(args).uid(NOBODY).gid(group))
}

/// Runs the command with a umask that takes nothing away.
fn unmasked(args: &[&str]) -> Ran {
    Ran::of(Command::new("sh").args(["-c", "umask 0; exec \"$0\" \"$@\"", TERRACE]).args(args))
}

fn chmod(path: &str, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Type, mode and owner of everything below a directory on the same file system, by name. Names of
/// volumes are left out.
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
    // A file that is there already, and open to all, is replaced by one that is not.
    chmod(&place.path("saved"), 0o666);
    unmasked(&["save", &pm, &place.path("saved")]).ok();
    unmasked(&["restore", &place.path("saved"), &place.path("restored")]).ok();
    chmod(&disk, 0o666);
    unmasked(&["format", "--force", "--pm", &sized("pm"), "--disk", &sized("disk")]).ok();
    let table = ["disk 100600 mine", "pm 100600 mine", "restored 100600 mine", "saved 100600 mine"]
        .map(str::to_owned);
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
                format!(
                    "{path}: its mode, {mode:04o}, lets other users {may} it; `chmod 600 \
                         {path}` ends that"
                )
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
    let added = |ran: Ran| {
        assert!(ran.stderr.contains("/new: its mode, 0604, lets other users read it"), "{ran:?}")
    };
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

/// What a command comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum May {
    /// It succeeds.
    Do,
    /// The file cannot be read.
    NotRead,
    /// It is for root and the user who mounted the volume.
    NotAsk,
    /// It is for root alone.
    NotRoot,
    /// It is for those who may write to the file.
    NotWrite,
}

use May::{Do, NotAsk, NotRead, NotRoot, NotWrite};

impl May {
    fn text(self) -> &'static str {
        match self {
            Do => "",
            NotRead => "Permission denied",
            NotAsk => "only root and the user who mounted",
            NotRoot => "only root may",
            NotWrite => "changing its pin: Permission denied",
        }
    }

    #[track_caller]
    fn is_so_of(self, what: &str, ran: &Ran) {
        assert_eq!(ran.code, Some(i32::from(self != Do)), "{what}: {ran:?}");
        assert!(
            ran.stderr.contains(self.text()) && !ran.stderr.contains("fusermount"),
            "{self:?}, {what}: {ran:?}"
        );
    }
}

/// Files that differ in who may read and who owns them; every command that takes files, by whom,
/// and what comes of it.
#[test]
fn what_others_may_do_with_files() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    place.mount("pm", &["-o", "allow_other,migrate=0"]).ok();
    let file = |name: &str, mode: u32, uid: u32, gid: u32| {
        let path = place.path(&format!("mnt/{name}"));
        fs::write(&path, [7; 8192]).unwrap();
        chown(&path, Some(uid), Some(gid)).unwrap();
        chmod(&path, mode);
        path
    };
    // By nobody, in no group and in the file's, in this order.
    type Row<'a> = (&'a [&'a str], [May; 2]);
    let same: fn(&'static [&'static str], May) -> Row<'static> = |command, may| (command, [may; 2]);
    let tables: [(String, Vec<Row<'_>>); 5] = [
        (
            file("open", 0o644, 0, 0),
            vec![
                same(&["where"], Do),
                same(&["where", "--json"], Do),
                same(&["evict"], NotAsk),
                same(&["warm"], NotAsk),
                same(&["pin", "1"], NotWrite),
                same(&["unpin"], NotWrite),
            ],
        ),
        (
            file("secret", 0o600, 0, 0),
            vec![
                same(&["where"], NotRead),
                same(&["evict"], NotRead),
                same(&["warm"], NotRead),
                same(&["pin", "1"], NotRead),
                same(&["unpin"], NotRead),
            ],
        ),
        (
            file("shared", 0o640, 0, GROUP),
            vec![
                (&["where"], [NotRead, Do]),
                (&["evict"], [NotRead, NotAsk]),
                (&["warm"], [NotRead, NotAsk]),
                (&["pin", "1"], [NotRead, NotWrite]),
                (&["unpin"], [NotRead, NotWrite]),
            ],
        ),
        (
            file("common", 0o660, 0, GROUP),
            vec![
                (&["evict"], [NotRead, NotAsk]),
                (&["pin", "1"], [NotRead, Do]),
                (&["unpin"], [NotRead, Do]),
            ],
        ),
        (
            file("own", 0o600, NOBODY, 0),
            vec![
                same(&["where"], Do),
                same(&["evict"], NotAsk),
                same(&["warm"], NotAsk),
                same(&["pin", "1"], Do),
                same(&["unpin"], Do),
            ],
        ),
    ];
    for (path, rows) in &tables {
        let map = || terrace(["where", path]).ok();
        let before = map();
        for (command, mays) in rows {
            for (group, may) in [NOBODY, GROUP].into_iter().zip(mays) {
                let args = [command, &[&**path][..]].concat();
                may.is_so_of(&format!("{args:?} in {group}"), &as_nobody(group, &args));
            }
        }
        let is_pinned =
            rows.iter().any(|(command, mays)| command[0] == "pin" && mays.contains(&Do));
        assert!(is_pinned || map() == before, "{path} is where it was");
    }
    place.umount();
}

/// Every command that takes a volume, by a stranger: on a mount that lets others in, on one that
/// does not, and on devices.
#[test]
fn what_others_may_do_with_volumes() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.format("pm", "disk", &[]);
    let path = |name: &str| place.path(name);
    let (pm, disk, mnt) = (path("pm"), path("disk"), path("mnt"));
    let (new, trace, saved, image) = (path("new:64M"), path("trace"), path("saved"), path("image"));
    terrace(["save", &pm, &image]).ok();
    let table: &[(&[&str], May, May)] = &[
        (&["status", &mnt], Do, NotRead),
        (&["stats", "--once", &mnt], Do, NotRead),
        (&["stats", "--once", "--json", &mnt], Do, NotRead),
        (&["sync", &mnt], Do, NotRead),
        (&["set", &mnt], Do, NotRead),
        (&["set", &mnt, "group=1M"], NotAsk, NotRead),
        (&["record", &mnt, "-o", &trace, "--seconds", "1"], NotAsk, NotRead),
        (&["scrub", "status", &mnt], Do, NotRead),
        (&["scrub", &mnt], NotAsk, NotRead),
        (&["scrub", "cancel", &mnt], NotAsk, NotRead),
        (&["device", "list", &mnt], Do, NotRead),
        (&["device", "add", &mnt, &new], NotAsk, NotRead),
        (&["device", "remove", &mnt, &disk], NotAsk, NotRead),
        (&["device", "replace", &mnt, &disk, &new], NotAsk, NotRead),
        (&["umount", &mnt], NotAsk, NotAsk),
        (&["mount", &pm, &mnt, "-o", "remount,ro"], NotRoot, NotRead),
    ];
    for (options, is_open) in [("allow_other", true), ("rw", false)] {
        place.mount("pm", &["-o", options]).ok();
        let listed = || -> Value {
            let status = place.status("mnt");
            status["devices"]
                .as_array()
                .unwrap()
                .iter()
                .map(|device| device["path"].clone())
                .collect()
        };
        let before = (listed(), place.names());
        for &(args, open, closed) in table {
            let may = if is_open { open } else { closed };
            may.is_so_of(&format!("{options} {args:?}"), &as_nobody(NOBODY, args));
        }
        assert_eq!((listed(), place.names()), before, "{options}");
        assert!(place.is_mounted("mnt"));
        place.umount();
    }
    // Unmounted volumes: a user who cannot read a device can neither use nor lock it.
    let contents = || [&pm, &disk, &image].map(|path| fs::read(path).unwrap());
    let before = (contents(), place.names());
    let all: &[&[&str]] = &[
        &["status", &pm],
        &["check", &pm],
        &["check", "--repair", &pm],
        &["dump", "superblock", &pm],
        &["dump", "inode", "1", &pm],
        &["save", &pm, &saved],
        &["restore", "--force", &image, &pm],
        &["restore", &image, &path("restored")],
        &["format", "--force", "--pm", &pm, "--disk", &disk],
        &["mount", &pm, &mnt, "--log", &path("other-log")],
    ];
    for args in all {
        NotRead.is_so_of(&format!("{args:?}"), &as_nobody(0, args));
    }
    let lock = Ran::of(Command::new("flock").args(["-n", &pm, "true"]).uid(NOBODY).gid(0));
    assert_ne!(lock.code, Some(0), "{lock:?}");
    fs::remove_file(path("other-log")).unwrap();
    assert!((contents(), place.names()) == before, "something was changed");
}
