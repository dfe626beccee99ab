//! How to mount, and why the defaults are what they are.
//!
//! Threads. Microseconds per operation on the file system that does nothing, two processors, Linux
//! 6.18 (`cargo run --release -p terrace-nullfs --example transport`; the median of nine rounds):
//!
//! | threads | clients | write 4 KiB | write 128 KiB | create + unlink |
//! |---|---|---|---|---|
//! | 1 | 1 | 6.0 | 23.8 | 23.3 |
//! | 1 | 2 | 9.8 | 52.3 | 43.8 |
//! | 2 | 1 | 6.6 | 24.6 | 24.7 |
//! | 2 | 2 | 10.2 | 53.0 | 45.8 |
//! | 2, cloned descriptors | 1 | 7.4 | 26.1 | 26.5 |
//! | 2, cloned descriptors | 2 | 13.3 | 74.2 | 55.3 |
//! | 4 | 1 | 8.3 | 28.8 | 26.4 |
//! | 4 | 2 | 12.9 | 58.0 | 63.8 |
//!
//! One thread is the fastest as long as nothing waits. But a thread that waits for a disk answers
//! nobody, so a second one is worth its 5 to 10 %; more than one per processor only costs, and so
//! do cloned descriptors. Hence the defaults: a thread per processor, at least two and at most
//! eight, on one descriptor. A volume whose disks serve many readers at once gains from more.
//!
//! Over io_uring a thread takes a message and keeps it until that is answered, so the threads of a
//! CPU's queue are all that it serves at a time. Each has a descriptor, and a buffer of 512 KiB,
//! all of which is memory with a keeper: 15 MiB for the queue of a CPU that has
//! [`QUEUE_DEPTH_MAX`]. By default the queues of all CPUs share [`WORKERS`]; each has at least
//! [`QUEUE_DEPTH_MIN`].

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use terrace_transport::{Ledger, SEATS_MAX, allow_descriptors, online_cpus, possible_cpus};

use crate::control::{DiskAdder, Upgrader};

/// Threads for all queues over io_uring, by default.
const WORKERS: usize = 128;
/// Threads for the queue of a CPU by default, on a machine with many of these.
const QUEUE_DEPTH_MIN: usize = 8;
/// The same, on one with few: they take no more than 16 MiB of memory.
const QUEUE_DEPTH_MAX: usize = 30;

/// The way of messages between kernel and daemon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// io_uring if the kernel offers it, else `/dev/fuse`. The default.
    #[default]
    Auto,
    /// io_uring: a queue for each CPU, answered on the CPU that asked (Linux 6.14 or later, with
    /// the parameter `enable_uring` of its module `fuse`).
    IoUring,
    /// `/dev/fuse`: one queue for all.
    Device,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "auto" => Ok(Transport::Auto),
            "io_uring" => Ok(Transport::IoUring),
            "device" => Ok(Transport::Device),
            _ => Err("choose auto, io_uring or device".to_owned()),
        }
    }
}

/// How to mount.
#[derive(Clone)]
pub struct MountConfig {
    /// What mount tables show as the source: the PM device's path.
    pub fs_name: String,
    /// Refuse changes. The volume itself should be opened read-only as well.
    pub read_only: bool,
    /// Let other users in, root included. Without it the mount is private to the user who mounts;
    /// only root and users named by `user_allow_other` in `/etc/fuse.conf` may set it.
    pub allow_other: bool,
    /// Let the kernel check owners, modes and ACLs. By default it does, except on root's private
    /// mounts: nothing is denied to root anyway, and the checks cost messages, since after each
    /// create, unlink or rename they read the parent directory's attributes again.
    pub default_permissions: Option<bool>,
    /// Threads that take messages; by default one per processor, at least 2 and at most 8 (measured
    /// above).
    pub threads: Option<usize>,
    /// The way of messages.
    pub transport: Transport,
    /// Over io_uring: threads for the queue of each CPU, each with a buffer for the longest message
    /// (of 512 KiB and more); by default 8 to 30 (see above).
    pub queue_depth: Option<usize>,
    /// Give each thread a descriptor and queue of its own; by default not (measured above).
    pub clone_fd: Option<bool>,
    /// Every write is durable when it returns: FSYNC is refused once and then never sent. The
    /// volume must be opened with the same option.
    pub durable: bool,
    /// Honour set-user-id and set-group-id bits when programs are run.
    pub suid: bool,
    /// Honour device files.
    pub dev: bool,
    /// Let programs be run.
    pub exec: bool,
    /// Memory that outlives this process: a successor can take the mount up.
    pub ledger: Option<&'static Ledger>,
    /// Adds disks; by default none can be.
    pub add_disk: Option<Arc<DiskAdder>>,
    /// The socket on which processes may ask for files; by default there is none. The volume must
    /// be opened so that it lends.
    pub direct: Option<LoanSocket>,
    /// Replaces this daemon by one of another program; by default nothing does.
    pub upgrade: Option<Arc<Upgrader>>,
}

/// A socket on which processes ask for files, to read and write them in PM by themselves. Root's
/// and those of the daemon's user may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoanSocket {
    /// Where it is.
    pub path: PathBuf,
    /// Processes of the members of this group may, too.
    pub group: Option<u32>,
}

impl std::fmt::Debug for MountConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MountConfig").field("fs_name", &self.fs_name).finish_non_exhaustive()
    }
}

impl Default for MountConfig {
    /// Private, read-write, programs may run, no set-id bits and no devices.
    fn default() -> Self {
        Self {
            fs_name: "terrace".to_owned(),
            read_only: false,
            allow_other: false,
            default_permissions: None,
            threads: None,
            transport: Transport::default(),
            queue_depth: None,
            clone_fd: None,
            durable: false,
            suid: false,
            dev: false,
            exec: true,
            ledger: None,
            add_disk: None,
            direct: None,
            upgrade: None,
        }
    }
}

impl MountConfig {
    /// Whether the kernel is to check permissions.
    pub(crate) fn kernel_checks(&self) -> Result<bool> {
        if self.allow_other && self.default_permissions == Some(false) {
            bail!(
                "allow_other needs default_permissions: nobody else checks what other users may do"
            );
        }
        let private_of_root = !self.allow_other && rustix::process::geteuid().is_root();
        Ok(self.default_permissions.unwrap_or(!private_of_root))
    }

    /// How many threads take messages from the queue of a CPU. One is not enough: it may wait for
    /// messages of its own queue.
    pub(crate) fn queue_depth(&self) -> Result<usize> {
        let most = match self.ledger {
            // One seat is that of the thread on `/dev/fuse`.
            Some(_) => (SEATS_MAX - 1) / usize::from(possible_cpus()?.max(1)),
            None => usize::MAX,
        };
        match self.queue_depth {
            Some(depth @ ..2) => bail!("queue_depth={depth}: choose 2 or more"),
            Some(depth) if depth > most => {
                bail!("queue_depth={depth}: a mount with a keeper has {most} at most here")
            }
            Some(depth) => Ok(depth),
            None => Ok(default_queue_depth()?.min(most).max(2)),
        }
    }

    /// How many threads take messages.
    pub(crate) fn threads(&self) -> Result<usize> {
        let threads = self.threads.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, usize::from).clamp(2, 8)
        });
        if threads == 0 {
            bail!("a mount needs at least one thread");
        }
        if self.ledger.is_some() && threads > SEATS_MAX {
            bail!("threads={threads}: a mount with a keeper has {SEATS_MAX} at most");
        }
        if self.ledger.is_some() && self.clone_fd == Some(true) {
            bail!("clone_fd: a keeper holds one descriptor; leave out one of the two");
        }
        Ok(threads)
    }
}

/// A CPU's part of `WORKERS`, on a machine with so many.
pub fn workers_of_a_queue(cpus: usize) -> usize {
    (WORKERS / cpus.max(1)).clamp(QUEUE_DEPTH_MIN, QUEUE_DEPTH_MAX)
}

/// The default for the queue of a CPU. Workers take no more than half of the descriptors that the
/// process may have.
fn default_queue_depth() -> Result<usize> {
    let cpus = online_cpus().context("/sys/devices/system/cpu/online")?.max(1);
    let depth = workers_of_a_queue(cpus);
    Ok(depth.min(allow_descriptors(depth * cpus) / 2 / cpus).max(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_are_never_let_in_unchecked() {
        let config = MountConfig { allow_other: true, ..MountConfig::default() };
        assert!(config.kernel_checks().unwrap());
        assert!(
            MountConfig { default_permissions: Some(false), ..config }.kernel_checks().is_err()
        );
        let private = MountConfig::default();
        assert_eq!(private.kernel_checks().unwrap(), !rustix::process::geteuid().is_root());
    }

    #[test]
    fn queues_have_workers_by_default() {
        let depth = MountConfig::default().queue_depth().unwrap();
        assert!((2..=QUEUE_DEPTH_MAX).contains(&depth), "{depth}");
    }

    #[test]
    fn a_mount_has_threads() {
        assert!((2..=8).contains(&MountConfig::default().threads().unwrap()));
        assert_eq!(
            MountConfig { threads: Some(3), ..MountConfig::default() }.threads().unwrap(),
            3
        );
        assert!(MountConfig { threads: Some(0), ..MountConfig::default() }.threads().is_err());
    }
}
