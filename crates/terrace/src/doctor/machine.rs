//! The machine that is looked at: files below a root, and facts that no file tells.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use terrace_fuse::mount_table::{self, Mount};

/// A machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Where its files are.
    pub root: PathBuf,
    /// The user who asks.
    pub user: u32,
    /// Where programs are looked for, as `PATH` has it.
    pub search_path: OsString,
    /// Whether programs get rings of io_uring.
    pub has_rings: bool,
    /// Bytes of `/dev/shm` that are free.
    pub shm_free_bytes: Option<u64>,
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        let free = |stat: rustix::fs::StatVfs| stat.f_bavail.saturating_mul(stat.f_frsize);
        Machine {
            root: "/".into(),
            user: rustix::process::geteuid().as_raw(),
            search_path: std::env::var_os("PATH").unwrap_or_default(),
            has_rings: terrace_fuse::has_rings(),
            shm_free_bytes: rustix::fs::statvfs("/dev/shm").ok().map(free),
        }
    }

    /// Where a file of it is; `path` may be absolute.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What a file says, without spaces around it; `None`: it cannot be read.
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// A number in a file.
    pub fn number(&self, path: impl AsRef<Path>) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// The value of a line `NAME: VALUE` of a file, as `/proc/meminfo` has them.
    pub fn value_of(&self, path: impl AsRef<Path>, name: &str) -> Option<String> {
        let value = |line: &str| {
            Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim().to_owned())
        };
        self.text(path)?.lines().find_map(value)
    }

    /// Names in a directory, sorted; none if it cannot be read.
    pub fn names(&self, dir: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(dir)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// What is mounted.
    pub fn mounts(&self) -> Vec<Mount> {
        let table = fs::read(self.path("proc/self/mountinfo")).unwrap_or_default();
        mount_table::of_text(&table)
    }

    /// The kernel's version: major and minor.
    pub fn kernel(&self) -> Option<(u32, u32)> {
        let release = self.text("proc/sys/kernel/osrelease")?;
        let mut numbers = release.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }
}

/// Machines that are made up.
#[cfg(test)]
pub mod made_up {
    use super::*;

    /// A machine that is gone when this is dropped.
    #[derive(Debug)]
    pub struct MadeUp {
        pub machine: Machine,
        root: tempfile::TempDir,
    }

    impl MadeUp {
        /// With these files, of root's.
        pub fn with(files: &[(&str, &str)]) -> MadeUp {
            let root = tempfile::tempdir().unwrap();
            let machine = Machine {
                root: root.path().to_owned(),
                user: 0,
                search_path: "/usr/bin:/bin".into(),
                has_rings: true,
                shm_free_bytes: Some(64 << 30),
            };
            let made_up = MadeUp { machine, root };
            files.iter().for_each(|(path, text)| made_up.set(path, text));
            made_up
        }

        /// Writes a file.
        pub fn set(&self, path: &str, text: &str) {
            let path = self.root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Makes a symbolic link.
        pub fn link(&self, path: &str, target: &str) {
            let path = self.root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, path).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::MadeUp;

    #[test]
    fn versions_are_the_first_two_numbers() {
        for (release, version) in [
            ("6.18.44-fc-v657\n", Some((6, 18))),
            ("5.10.0-rc3", Some((5, 10))),
            ("6.9-custom", Some((6, 9))),
            ("unknown", None),
        ] {
            let made_up = MadeUp::with(&[("proc/sys/kernel/osrelease", release)]);
            assert_eq!(made_up.machine.kernel(), version, "{release}");
        }
        assert_eq!(MadeUp::with(&[]).machine.kernel(), None);
    }

    #[test]
    fn values_have_whole_names() {
        let made_up = MadeUp::with(&[("proc/meminfo", "MemTotalX: 1 kB\nMemTotal:   2 kB\n")]);
        let value = |name| made_up.machine.value_of("/proc/meminfo", name);
        assert_eq!(value("MemTotal").as_deref(), Some("2 kB"));
        assert_eq!(value("Mem"), None);
    }
}
