//! Mounting a file system and running its session until it is unmounted.
//!
//! Threads. Microseconds per operation on the file system that does nothing, two processors, Linux
//! 6.18 (`cargo run --release -p terrace-fuse --example transport`; the median of nine rounds):
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

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use fuser::{Filesystem, Session, SessionACL};
use terrace_engine::Volume;

use crate::adapter::TerraceFs;
use crate::control::DiskAdder;
use crate::counts::MessageCounts;
use crate::mount_table;
use crate::mountpoint::{attach, canonical, clean_dead_mount, detach, widen_read_ahead};
use crate::nullfs::NullFs;
use crate::transport::{READ_AHEAD_BYTES_MAX, Transport};

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
    /// Adds disks; by default none can be.
    pub add_disk: Option<Arc<DiskAdder>>,
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
            clone_fd: None,
            durable: false,
            suid: false,
            dev: false,
            exec: true,
            add_disk: None,
        }
    }
}

impl MountConfig {
    /// Whether the kernel is to check permissions.
    fn kernel_checks(&self) -> Result<bool> {
        if self.allow_other && self.default_permissions == Some(false) {
            bail!(
                "allow_other needs default_permissions: nobody else checks what other users may do"
            );
        }
        let private_of_root = !self.allow_other && rustix::process::geteuid().is_root();
        Ok(self.default_permissions.unwrap_or(!private_of_root))
    }

    fn threads(&self) -> Result<usize> {
        let threads = self.threads.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, usize::from).clamp(2, 8)
        });
        if threads == 0 {
            bail!("a mount needs at least one thread");
        }
        Ok(threads)
    }
}

/// Mounts `volume` at `mountpoint` and serves it in threads of its own. A dead mount found there is
/// removed first.
///
/// The volume is not closed when the mount ends; that is the caller's, after [`Mounted::wait`].
///
/// # Errors
/// If the mount point is missing, in use by a volume or not permitted, if `/dev/fuse` or (for users
/// other than root) `fusermount3` is missing, or if the kernel is older than Linux 5.11.
pub fn mount(volume: Arc<Volume>, mountpoint: &Path, config: &MountConfig) -> Result<Mounted> {
    start(mountpoint, config, |transport| TerraceFs::new(volume, transport, config))
}

/// Mounts the file system that does nothing, on the same transport and with the same settings: what
/// a message costs before an engine has done any work. Names and sizes are kept in memory; contents
/// are zeros.
///
/// # Errors
/// As [`mount`].
pub fn mount_null(mountpoint: &Path, config: &MountConfig) -> Result<Mounted> {
    start(mountpoint, config, |transport| Ok(NullFs::new(transport, config.durable)))
}

fn start<F: Filesystem>(
    mountpoint: &Path,
    config: &MountConfig,
    file_system: impl FnOnce(Transport) -> std::io::Result<F>,
) -> Result<Mounted> {
    let kernel_checks = config.kernel_checks()?;
    let threads = config.threads()?;
    clean_dead_mount(mountpoint)?;
    let mountpoint = canonical(mountpoint)?;
    let transport = Transport::new(kernel_checks);
    let connection = attach(&mountpoint, config, kernel_checks)?;
    let device = match mount_table::at(&mountpoint)? {
        Some(entry) => entry.device,
        None => bail!("{} was unmounted while it was being mounted", mountpoint.display()),
    };
    let unmounter = Unmounter { mountpoint, device };
    let serve = || -> Result<JoinHandle<std::io::Result<()>>> {
        let mut settings = fuser::Config::default();
        settings.acl = if config.allow_other { SessionACL::All } else { SessionACL::Owner };
        settings.n_threads = Some(threads);
        settings.clone_fd = config.clone_fd.unwrap_or(false);
        let session =
            Session::from_fd(file_system(transport.clone())?, connection, settings.acl, settings)?;
        transport.connect(session.notifier());
        Ok(std::thread::Builder::new()
            .name("terrace-fuse".to_owned())
            .spawn(move || session.run())?)
    };
    match serve() {
        Ok(session) => {
            widen_read_ahead(&unmounter.device, READ_AHEAD_BYTES_MAX);
            Ok(Mounted {
                session: Some(session),
                unmounter,
                counts: Arc::clone(transport.counts()),
            })
        }
        Err(error) => {
            if let Err(left) = unmounter.unmount_lazily() {
                tracing::warn!("{left:#}");
            }
            Err(error).with_context(|| {
                format!("starting the session of {}", unmounter.mountpoint.display())
            })
        }
    }
}

/// A mounted file system and the threads that serve it.
///
/// Dropping it unmounts lazily and does not wait: so neither a panic nor an early return leaves a
/// mount behind.
#[derive(Debug)]
pub struct Mounted {
    session: Option<JoinHandle<std::io::Result<()>>>,
    unmounter: Unmounter,
    counts: Arc<MessageCounts>,
}

impl Mounted {
    /// Waits until the file system is unmounted, by whomever, and its threads have ended. No
    /// message is under way after that.
    ///
    /// # Errors
    /// If the session ended for another reason: a broken connection, or a panic in one of its
    /// threads.
    pub fn wait(mut self) -> Result<()> {
        match self.session.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error).context("FUSE session"),
            Some(Err(_)) => Err(anyhow!("FUSE session: a thread panicked")),
        }
    }

    /// Unmounts and waits.
    ///
    /// # Errors
    /// As [`Unmounter::unmount`] (it is unmounted lazily then) and [`Mounted::wait`].
    pub fn unmount(self) -> Result<()> {
        self.unmounter.unmount()?;
        self.wait()
    }

    /// What can unmount it from elsewhere: a thread that waits for signals.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Messages that have come in so far, by kind.
    pub fn counts(&self) -> &MessageCounts {
        &self.counts
    }

    /// The same, to keep when the mount is gone.
    pub fn shared_counts(&self) -> Arc<MessageCounts> {
        Arc::clone(&self.counts)
    }

    /// The mount point: absolute, without links.
    pub fn mountpoint(&self) -> &Path {
        &self.unmounter.mountpoint
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.session.is_none() {
            return;
        }
        if let Err(error) = self.unmounter.unmount_lazily() {
            tracing::warn!("{error:#}");
        }
    }
}

/// Unmounts one particular mount, from any thread. Once that is gone it does nothing, whatever else
/// is mounted there.
#[derive(Clone, Debug)]
pub struct Unmounter {
    mountpoint: PathBuf,
    device: String,
}

impl Unmounter {
    /// Unmounts if nobody uses the mount.
    ///
    /// # Errors
    /// If it is in use or not permitted; it then stays mounted.
    pub fn unmount(&self) -> Result<()> {
        detach(&self.mountpoint, &self.device, false)
    }

    /// Takes the mount out of sight at once; it ends with its last user.
    ///
    /// # Errors
    /// If that is not permitted.
    pub fn unmount_lazily(&self) -> Result<()> {
        detach(&self.mountpoint, &self.device, true)
    }
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
    fn a_mount_has_threads() {
        assert!((2..=8).contains(&MountConfig::default().threads().unwrap()));
        assert_eq!(
            MountConfig { threads: Some(3), ..MountConfig::default() }.threads().unwrap(),
            3
        );
        assert!(MountConfig { threads: Some(0), ..MountConfig::default() }.threads().is_err());
    }
}
