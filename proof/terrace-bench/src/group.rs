//! A control group (cgroup v2) with this process and the programs that it starts, whose memory is
//! bounded: what they need for themselves, what volumes cache, and what the kernel caches of
//! mounted files.
//!
//! Memory counts for the group that touches it first. So PM in `/dev/shm` is touched before the
//! process enters.
//!
//! Invariant: when a [`Group`] is dropped, the process goes back to its former group, the group is
//! removed, and the controller is as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

const CONTROLLER: &str = "memory";
const LIMIT: &str = "memory.max";
const PROCESSES: &str = "cgroup.procs";
const SUBTREE: &str = "cgroup.subtree_control";
/// What a group needs is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Programs that end leave their group a little later.
const REMOVAL_TRIES: u32 = 100;

/// See the module.
#[derive(Debug)]
#[must_use = "the process leaves the group when this is dropped"]
pub struct Group {
    path: PathBuf,
    /// Where the process was before.
    home: PathBuf,
    /// Dropped after the group is removed.
    _controller: Option<Controller>,
}

/// The controller for groups below the root, switched on until this is dropped.
#[derive(Debug)]
struct Controller {
    root: PathBuf,
}

impl Controller {
    fn switch_on(root: &Path) -> Result<Self> {
        switch(root, '+')?;
        Ok(Self { root: root.to_owned() })
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        if let Err(error) = switch(&self.root, '-') {
            eprintln!("terrace-bench: the controller of memory stays on: {error:#}");
        }
    }
}

impl Group {
    /// Makes a group that bounds memory, and enters it.
    ///
    /// # Errors
    /// If this kernel or user has none.
    pub fn enter() -> Result<Self> {
        let root = root()?;
        let has = |file: &str| -> Result<bool> {
            let path = root.join(file);
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            Ok(text.split_whitespace().any(|controller| controller == CONTROLLER))
        };
        if !has("cgroup.controllers")? {
            bail!(
                "{} has no controller of memory: boot with cgroup v2 alone \
                 (systemd.unified_cgroup_hierarchy=1)",
                root.display()
            );
        }
        let controller = if has(SUBTREE)? { None } else { Some(Controller::switch_on(&root)?) };
        Self::enter_in(&root, controller)
    }

    /// Makes a group under `root`, and enters it.
    fn enter_in(root: &Path, controller: Option<Controller>) -> Result<Self> {
        let home = root.join(home(&fs::read_to_string("/proc/self/cgroup")?)?);
        let path = root.join(format!("terrace-bench-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
        let group = Self { path, home, _controller: controller };
        join(&group.path)?;
        Ok(group)
    }

    /// What all processes need for themselves: all but what the kernel caches.
    fn need_bytes(&self) -> Result<u64> {
        let path = self.path.join("memory.stat");
        let stat = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        need_bytes(&stat).with_context(|| format!("{} lacks a line", path.display()))
    }

    /// The most that processes need for themselves while `work` goes on.
    ///
    /// # Errors
    /// Those of `work`; if the kernel does not say.
    pub fn need_during(&self, work: impl FnOnce() -> Result<()>) -> Result<u64> {
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let looker = scope.spawn(move || -> Result<u64> {
                let mut most = self.need_bytes()?;
                while !is_over.load(Ordering::Relaxed) {
                    most = most.max(self.need_bytes()?);
                    std::thread::sleep(LOOK_EVERY);
                }
                Ok(most)
            });
            let worked = work();
            is_over.store(true, Ordering::Relaxed);
            let most = looker.join().map_err(|_| anyhow!("the thread that looks panicked"))?;
            worked.and(most)
        })
    }

    /// From now on, all that the group has is at most so much. The kernel gives up what it caches.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn limit(&self, bytes: u64) -> Result<()> {
        let path = self.path.join(LIMIT);
        fs::write(&path, bytes.to_string()).with_context(|| format!("writing {}", path.display()))
    }

    fn leave(&self) -> Result<()> {
        join(&self.home)?;
        let mut tries = 1;
        while let Err(error) = fs::remove_dir(&self.path) {
            if tries == REMOVAL_TRIES {
                return Err(error).with_context(|| format!("removing {}", self.path.display()));
            }
            tries += 1;
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = self.leave() {
            eprintln!("terrace-bench: {} stays: {error:#}; rmdir it", self.path.display());
        }
    }
}

/// Takes this process, with all its threads, to a group.
fn join(group: &Path) -> Result<()> {
    fs::write(group.join(PROCESSES), "0").with_context(|| format!("entering {}", group.display()))
}

/// Switches the controller on or off for groups below.
fn switch(root: &Path, sign: char) -> Result<()> {
    let path = root.join(SUBTREE);
    fs::write(&path, format!("{sign}{CONTROLLER}"))
        .with_context(|| format!("writing {}, which takes root", path.display()))
}

/// Where groups of version 2 are mounted.
fn root() -> Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    mounted(&mounts).context("no cgroup v2 is mounted")
}

fn mounted(mounts: &str) -> Option<PathBuf> {
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    line.split(' ').nth(4).map(PathBuf::from)
}

/// The group of this process, below the root.
fn home(groups: &str) -> Result<PathBuf> {
    let of_v2 = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    of_v2.map(PathBuf::from).context("this process is in no group of version 2")
}

/// Memory of processes, and the kernel's own that it cannot give up.
fn need_bytes(stat: &str) -> Option<u64> {
    let of = |name: &str| {
        let mut words = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        words.take()?.parse::<u64>().ok()
    };
    Some((of("anon")? + of("kernel")?).saturating_sub(of("slab_reclaimable")?))
}

/// Why memory cannot be bounded here, if so; found out by entering a group.
pub fn why_not() -> Option<anyhow::Error> {
    Group::enter().err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_where_they_are_mounted() {
        let mounts = "40 31 0:37 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(mounted("31 1 0:22 / /sys rw - sysfs sysfs rw\n"), None);
        assert_eq!(home("4:memory:/a\n0::/b/c\n").unwrap(), Path::new("b/c"));
        assert!(home("4:memory:/a\n").is_err());
    }

    #[test]
    fn what_the_kernel_can_give_up_is_no_need() {
        let stat = "anon 1000\nfile 5000\nkernel 300\nkernel_stack 16\nslab_reclaimable 100\n";
        assert_eq!(need_bytes(stat), Some(1200));
        assert_eq!(need_bytes("anon 1000\n"), None);
    }

    #[test]
    fn needs_are_seen_and_limits_written() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().to_owned();
        let group = std::mem::ManuallyDrop::new(Group {
            path: path.clone(),
            home: path.clone(),
            _controller: None,
        });
        let stat = |anon: u64| {
            let stat = format!("anon {anon}\nkernel 0\nslab_reclaimable 0\n");
            fs::write(path.join("new"), stat).unwrap();
            fs::rename(path.join("new"), path.join("memory.stat")).unwrap();
            std::thread::sleep(10 * LOOK_EVERY);
        };
        stat(1);
        let need = group.need_during(|| {
            [5, 7, 2].into_iter().for_each(stat);
            Ok(())
        });
        assert_eq!(need.unwrap(), 7);
        assert!(group.need_during(|| bail!("broken")).is_err());
        group.limit(123).unwrap();
        assert_eq!(fs::read_to_string(path.join(LIMIT)).unwrap(), "123");
    }

    /// Takes root and a mounted hierarchy, with or without controllers.
    #[test]
    fn a_group_is_left_and_removed() {
        let Ok(root) = root() else { return eprintln!("no cgroup v2 here: nothing is tested") };
        let before = fs::read_to_string("/proc/self/cgroup").unwrap();
        let group = match Group::enter_in(&root, None) {
            Ok(group) => group,
            Err(error) => return eprintln!("not permitted, so nothing is tested: {error:#}"),
        };
        let path = group.path.clone();
        let inside = fs::read_to_string("/proc/self/cgroup").unwrap();
        assert!(inside.contains(&format!("0::/terrace-bench-{}", std::process::id())), "{inside}");
        drop(group);
        assert!(!path.exists());
        assert_eq!(fs::read_to_string("/proc/self/cgroup").unwrap(), before);
    }
}
