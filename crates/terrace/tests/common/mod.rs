//! What the tests of the command share: running it, and a place that is cleaned up whatever
//! happens.
#![allow(dead_code, reason = "each test program uses its part of this")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

/// The program under test.
pub const TERRACE: &str = env!("CARGO_BIN_EXE_terrace");

/// What a program did.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(command: &mut Command) -> Ran {
        let Output { status, stdout, stderr } =
            command.stdin(Stdio::null()).output().expect("the program runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
        Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// It succeeded; returns what it printed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.stdout
    }

    /// It failed with this exit status, printed nothing but errors, and its error has all these
    /// parts.
    #[track_caller]
    pub fn fails(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is missing: {self:?}");
        }
    }
}

/// Runs the command.
pub fn terrace<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Ran {
    Ran::of(Command::new(TERRACE).args(args))
}

/// Runs a script of the shell, with the program as `$TERRACE` and a directory as `$DIR`.
pub fn shell(script: &str, dir: &Path) -> Ran {
    Ran::of(Command::new("sh").args(["-euc", script]).env("TERRACE", TERRACE).env("DIR", dir))
}

/// Whether volumes can be mounted here; says so if not.
pub fn can_mount() -> bool {
    let can = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    if !can {
        eprintln!("skipped: /dev/fuse cannot be opened here");
    }
    can
}

/// Whether a program is installed; says so if not.
pub fn has(program: &str) -> bool {
    let found = Command::new("sh").args(["-c", "command -v \"$0\" >/dev/null", program]).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

/// Waits for something that another process is about to do.
#[track_caller]
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10));
    }
    panic!("waited in vain: {what}");
}

/// Waits until no daemon has a PM device.
#[track_caller]
fn wait_until_unlocked(pm: &str) {
    let file = fs::File::open(pm).expect("a PM device");
    wait_until("the daemon lets go of PM", || file.try_lock_shared().is_ok());
}

/// Waits until a process is gone, or dead and only waiting for its parent to notice. While one of
/// its threads is left, it still has its files, however dead the first one is.
#[track_caller]
pub fn wait_until_ended(pid: i32) {
    let is_dead = |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"));
    wait_until("the daemon ends", || match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => {
            is_dead(stat)
                && fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count) <= 1
        }
        Err(_) => true,
    });
}

/// Sends a signal to a process of this test.
#[track_caller]
pub fn kill(pid: i32, signal: i32) {
    // SAFETY: kill(2) has no preconditions; the process is one of this test.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// A directory in memory for one test, open to every user. When it goes, what is mounted below it
/// is unmounted and all of it is removed.
#[derive(Debug)]
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        let base = if Path::new("/dev/shm").is_dir() {
            PathBuf::from("/dev/shm")
        } else {
            std::env::temp_dir()
        };
        let dir =
            tempfile::Builder::new().prefix("terrace-test-").tempdir_in(base).expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777))
            .expect("its permissions");
        fs::create_dir(dir.path().join("mnt")).expect("a mountpoint");
        Place(dir)
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// A path in it, as text.
    pub fn path(&self, name: &str) -> String {
        self.dir().join(name).to_str().expect("the path is UTF-8").to_owned()
    }

    /// The names in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir()).expect("the directory");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        names.sort();
        names
    }

    /// Formats a volume on `pm` (64 MiB) and `disk` (256 MiB).
    #[track_caller]
    pub fn format(&self, pm: &str, disk: &str, more: &[&str]) {
        let (pm, disk) = (self.path(pm) + ":64M", self.path(disk) + ":256M");
        terrace(["format", "--pm", &pm, "--disk", &disk].iter().chain(more)).ok();
    }

    /// Mounts the volume of `pm` on `mnt`.
    pub fn mount(&self, pm: &str, more: &[&str]) -> Ran {
        self.mount_on(pm, "mnt", more)
    }

    pub fn mount_on(&self, pm: &str, mountpoint: &str, more: &[&str]) -> Ran {
        let (pm, mountpoint, log) = (self.path(pm), self.path(mountpoint), self.path("log"));
        let cache = format!("cache=64M,cache_dir={}", self.path("cache"));
        terrace(["mount", &pm, &mountpoint, "--log", &log, "-o", &cache].iter().chain(more))
    }

    /// Unmounts as soon as nobody keeps the mount busy: a program that another test starts has our
    /// files between its fork and its exec, and one that asks the daemon something has the mount
    /// point open meanwhile. A mount namespace that another test makes has a copy of the mount
    /// until that test ends it.
    #[track_caller]
    pub fn umount(&self) {
        wait_until("the mount is idle", || {
            let ran = terrace(["umount", &self.path("mnt")]);
            let is_busy = ran.stderr.contains("is in use");
            if ran.stderr.contains("in another mount namespace") {
                wait_until_unlocked(ran.stderr.split(": ").nth(1).expect("the PM device"));
                return true;
            }
            assert!(is_busy || ran.code == Some(0), "{ran:?}");
            !is_busy
        });
    }

    /// The state of the volume, by a mountpoint or a PM device.
    #[track_caller]
    pub fn status(&self, target: &str) -> Value {
        serde_json::from_str(&terrace(["status", "--json", &self.path(target)]).ok()).expect("JSON")
    }

    /// Whether something is mounted at a name in it.
    pub fn is_mounted(&self, name: &str) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").expect("the mount table");
        let place = self.path(name);
        table.lines().any(|line| line.split(' ').nth(4) == Some(&place))
    }

    /// The process that serves the volume of `pm`: the one with the lock.
    pub fn daemon(&self, pm: &str) -> i32 {
        let pm = fs::canonicalize(self.path(pm)).expect("the PM device");
        let serves = |process: &Path| {
            let files = fs::read_dir(process.join("fd")).ok()?;
            files
                .flatten()
                .any(|file| fs::read_link(file.path()).is_ok_and(|path| path == pm))
                .then_some(())
        };
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let mut found = processes.filter_map(|process| {
            let pid: i32 = process.file_name().to_str()?.parse().ok()?;
            serves(&process.path()).map(|()| pid)
        });
        found.next().expect("a daemon")
    }

    /// SIGKILL for the daemon that has a PM device, and before that for its keeper, if it has one.
    #[track_caller]
    pub fn kill_daemon(&self, pm: &str) {
        let daemon = self.daemon(pm);
        let status = fs::read_to_string(format!("/proc/{daemon}/status")).expect("a daemon");
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:\t"));
        let parent: i32 = parent.and_then(|pid| pid.parse().ok()).expect("a parent");
        let program = |pid| fs::read_link(format!("/proc/{pid}/exe")).ok();
        if program(parent) == program(daemon) {
            kill(parent, libc::SIGKILL);
            wait_until_ended(parent);
        }
        kill(daemon, libc::SIGKILL);
        wait_until_ended(daemon);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let below = |line: &&str| {
            line.split(' ').nth(4).is_some_and(|place| Path::new(place).starts_with(self.dir()))
        };
        for line in table.lines().filter(below) {
            let place = line.split(' ').nth(4).unwrap_or_default();
            let _ = Command::new("umount").args(["-l", place]).status();
        }
    }
}
