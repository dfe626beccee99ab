//! Mounting a file system and running its session until it is unmounted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use terrace_engine::Volume;
use terrace_transport::{FileSystem, MessageCounts, Session, Threads, has_rings};

use crate::adapter::TerraceFs;
use crate::config::{MountConfig, Transport};
use crate::kernel_cache::KernelCache;
use crate::mount_table;
use crate::mountpoint::{attach, canonical, clean_dead_mount, detach, widen_read_ahead};
use crate::terms::{READ_AHEAD_BYTES_MAX, terms};

/// Mounts `volume` at `mountpoint` and serves it in threads of its own. A dead mount found there is
/// removed first.
///
/// The volume is not closed when the mount ends; that is the caller's, after [`Mounted::wait`].
///
/// # Errors
/// If the mount point is missing, in use by a volume or not permitted, if `/dev/fuse` or (for users
/// other than root) `fusermount3` is missing, or if the kernel is older than Linux 5.11.
pub fn mount(volume: Arc<Volume>, mountpoint: &Path, config: &MountConfig) -> Result<Mounted> {
    mount_with(mountpoint, config, |kernel| TerraceFs::new(volume, kernel, config))
}

/// Mounts what `file_system` makes, which answers as [`terms`](crate::terms) says: for a baseline
/// on the same transport and with the same settings.
///
/// # Errors
/// As [`mount`], and those of `file_system`.
pub fn mount_with<F: FileSystem + 'static>(
    mountpoint: &Path,
    config: &MountConfig,
    file_system: impl FnOnce(KernelCache) -> std::io::Result<F>,
) -> Result<Mounted> {
    let kernel_checks = config.kernel_checks()?;
    let threads = Threads {
        count: config.threads()?,
        own_queues: config.clone_fd.unwrap_or(false),
        per_cpu: config.queue_depth()?,
    };
    if config.transport == Transport::IoUring {
        must_have_rings()?;
    }
    clean_dead_mount(mountpoint)?;
    let mountpoint = canonical(mountpoint)?;
    let connection = attach(&mountpoint, config, kernel_checks)?;
    let device = match mount_table::at(&mountpoint)? {
        Some(entry) => entry.device,
        None => bail!("{} was unmounted while it was being mounted", mountpoint.display()),
    };
    let unmounter = Unmounter { mountpoint, device };
    let serve = || -> Result<(Arc<MessageCounts>, JoinHandle<std::io::Result<()>>)> {
        let session = Session::begin(connection, &terms(kernel_checks, config.transport))?;
        let counts = Arc::clone(session.counts());
        // A worker that keeps an answer takes no messages, and some of each queue must.
        let answers_kept_max =
            if session.is_over_io_uring() { threads.per_cpu * 3 / 4 } else { usize::MAX };
        let kernel = KernelCache::new(session.notifier(), kernel_checks, answers_kept_max);
        let file_system = file_system(kernel)?;
        let (started, told) = std::sync::mpsc::channel();
        let serve = move || session.run(&file_system, threads, |result| drop(started.send(result)));
        let thread = std::thread::Builder::new().name("terrace-fuse".to_owned()).spawn(serve)?;
        match told.recv() {
            Ok(Ok(())) => Ok((counts, thread)),
            Ok(Err(error)) => Err(error).context("FUSE over io_uring"),
            // It has ended, and says why.
            Err(_) => match thread.join() {
                Ok(ended) => Err(anyhow!("the session ended at once: {ended:?}")),
                Err(_) => bail!("a thread of the session panicked"),
            },
        }
    };
    match serve() {
        Ok((counts, session)) => {
            widen_read_ahead(&unmounter.device, READ_AHEAD_BYTES_MAX);
            Ok(Mounted { session: Some(session), unmounter, counts })
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

/// # Errors
/// The kernel or this machine has no FUSE over io_uring; what would switch it on.
fn must_have_rings() -> Result<()> {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    match std::fs::read_to_string(SWITCH) {
        Err(_) => bail!("this kernel has no FUSE over io_uring: Linux 6.14 or later has it"),
        Ok(state) if state.trim() != "Y" => bail!(
            "FUSE over io_uring is switched off: `echo Y > {SWITCH}` switches it on until the next \
             reboot, `options fuse enable_uring=1` in a file of /etc/modprobe.d, or \
             fuse.enable_uring=1 on the kernel's command line, for good"
        ),
        Ok(_) if !has_rings() => bail!(
            "this machine lets the daemon have no rings of io_uring: see \
             /proc/sys/kernel/io_uring_disabled, and what a container forbids"
        ),
        Ok(_) => Ok(()),
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
