//! Mounting a file system and running its session until it is unmounted.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::mount::UnmountFlags;
use terrace_engine::Volume;
use terrace_transport::abi::InitFlags;
use terrace_transport::{FileSystem, MessageCounts, Session, Threads};

use crate::adapter::TerraceFs;
use crate::ask::ask_on_each_cpu;
use crate::config::{MountConfig, Transport};
use crate::kernel_cache::KernelCache;
use crate::mount_table;
use crate::mountpoint::{attach, canonical, clean_dead_mount, detach, widen_read_ahead};
use crate::terms::{READ_AHEAD_BYTES_MAX, terms};
use crate::transport::{RingOffer, Serving};

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
    let terms = terms(kernel_checks, config.transport, config.ledger.is_some());
    let started = Session::begin(connection, &terms, config.ledger)
        .map_err(NotStarted::from)
        .and_then(|session| start(session, threads, kernel_checks, &unmounter, file_system));
    match started {
        Ok(mounted) => {
            widen_read_ahead(&mounted.unmounter.device, READ_AHEAD_BYTES_MAX);
            Ok(mounted)
        }
        Err(NotStarted { error, thread }) => {
            // Programs that wait already get an error, and threads end.
            let flags = UnmountFlags::DETACH | UnmountFlags::FORCE;
            if let Err(left) = detach(&unmounter.mountpoint, &unmounter.device, flags) {
                tracing::warn!("{left:#}");
            }
            // The caller may mount in another way, and need what the threads have.
            thread.iter().for_each(wait_a_while);
            Err(error).with_context(|| {
                format!("starting the session of {}", unmounter.mountpoint.display())
            })
        }
    }
}

type SessionThread = JoinHandle<std::io::Result<()>>;

/// A session that does not serve, and its thread, which ends with the mount.
struct NotStarted {
    error: anyhow::Error,
    thread: Option<SessionThread>,
}

impl From<anyhow::Error> for NotStarted {
    fn from(error: anyhow::Error) -> Self {
        NotStarted { error, thread: None }
    }
}

impl From<std::io::Error> for NotStarted {
    fn from(error: std::io::Error) -> Self {
        anyhow::Error::from(error).into()
    }
}

/// Waits until a thread has ended, or 2 s.
fn wait_a_while(thread: &SessionThread) {
    for _ in 0..200 {
        if thread.is_finished() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A successor takes a mount up with this and the ledger.
#[derive(Debug)]
pub struct Handover {
    /// The connection to the kernel.
    pub connection: OwnedFd,
    /// Number of the mount's device, as in /proc/self/mountinfo.
    pub device: String,
}

/// Takes up the mount of a daemon that died, with the `config` that it had: `volume`, which was
/// opened with the heritage of the same ledger, answers what is under way.
///
/// # Errors
/// The kernel does not hand out again what was not answered (before Linux 6.9); the system gives no
/// thread or process. The mount stays as it is.
///
/// # Panics
/// If `config` has no ledger.
pub fn take_up(
    volume: Arc<Volume>,
    mountpoint: &Path,
    config: &MountConfig,
    handover: Handover,
) -> Result<Mounted> {
    let (kernel_checks, threads) = (config.kernel_checks()?, config.threads()?);
    let threads = Threads { count: threads, own_queues: false, per_cpu: config.queue_depth()? };
    let ledger = config.ledger.expect("a mount that is taken up has a ledger");
    let Handover { connection, device } = handover;
    let unmounter = Unmounter { mountpoint: mountpoint.to_owned(), device };
    // As it was mounted, whatever the kernel would offer now.
    let transport = match ledger.flags().contains(InitFlags::OVER_IO_URING) {
        true => Transport::IoUring,
        false => Transport::Device,
    };
    let terms = terms(kernel_checks, transport, true);
    let session = Session::take_up(connection, &terms, ledger)
        .context("taking the connection of the daemon before this one up")?;
    let workers = session.workers_per_queue(threads.per_cpu);
    let file_system = |kernel| TerraceFs::new(volume, kernel, config);
    let mounted = start(session, threads, kernel_checks, &unmounter, file_system)
        .map_err(|not_started| not_started.error)?;
    if mounted.is_over_io_uring()
        && let Err(error) = ask(&unmounter.device, workers)
    {
        tracing::warn!(
            "what waits on a CPU may be answered after the next request there: {error:#}"
        );
    }
    Ok(mounted)
}

/// Asks the mount of this device for something, wherever programs may wait, so many times.
fn ask(device: &str, times: usize) -> Result<()> {
    let mounts = mount_table::all()?.into_iter().filter(|mount| mount.device == device);
    let places: Vec<PathBuf> = mounts.map(|mount| mount.mountpoint).collect();
    if places.is_empty() {
        bail!("the mount is out of sight");
    }
    Ok(ask_on_each_cpu(&places, device, times)?)
}

/// Starts the threads of a session.
fn start<F: FileSystem + 'static>(
    session: Session,
    threads: Threads,
    kernel_checks: bool,
    unmounter: &Unmounter,
    file_system: impl FnOnce(KernelCache) -> std::io::Result<F>,
) -> Result<Mounted, NotStarted> {
    let per_cpu = session.workers_per_queue(threads.per_cpu);
    let threads = Threads { per_cpu, ..threads };
    let counts = Arc::clone(session.counts());
    let connection = match session.can_be_taken_up() {
        true => Some(session.share_connection()?),
        false => None,
    };
    let entries_per_queue_max = session.is_over_io_uring().then_some(threads.per_cpu);
    let serving = Serving { load: session.load(), entries_per_queue_max };
    let kernel = KernelCache::new(session.notifier(), kernel_checks, serving);
    let file_system = file_system(kernel)?;
    let (started, told) = std::sync::mpsc::channel();
    let serve = move || session.run(&file_system, threads, |result| drop(started.send(result)));
    let thread = std::thread::Builder::new().name("terrace-fuse".to_owned()).spawn(serve)?;
    match told.recv() {
        Ok(Ok(())) => {
            let unmounter = unmounter.clone();
            let over_io_uring = entries_per_queue_max.is_some();
            Ok(Mounted { session: Some(thread), unmounter, counts, connection, over_io_uring })
        }
        Ok(Err(error)) => {
            let way = if entries_per_queue_max.is_some() { "io_uring" } else { "/dev/fuse" };
            let error = anyhow::Error::from(error).context(format!("FUSE over {way}"));
            Err(NotStarted { error, thread: Some(thread) })
        }
        // It has ended, and says why.
        Err(_) => Err(match thread.join() {
            Ok(ended) => anyhow!("the session ended at once: {ended:?}").into(),
            Err(_) => anyhow!("a thread of the session panicked").into(),
        }),
    }
}

/// # Errors
/// The kernel or this machine has no FUSE over io_uring; what would switch it on.
fn must_have_rings() -> Result<()> {
    let offer = RingOffer::here();
    let Some(obstacle) = offer.obstacle() else {
        return Ok(());
    };
    let now = offer.remedy_now().map(|remedy| format!("; {remedy} helps until the next reboot"));
    let for_good = offer.remedy_for_good().map(|remedy| format!("; {remedy} helps for good"));
    let remedies = [now, for_good].map(Option::unwrap_or_default).concat();
    bail!("{obstacle}{remedies}; see `terrace doctor`")
}

/// A mounted file system and the threads that serve it.
///
/// Dropping it unmounts lazily and does not wait: so neither a panic nor an early return leaves a
/// mount behind.
#[derive(Debug)]
pub struct Mounted {
    session: Option<SessionThread>,
    unmounter: Unmounter,
    counts: Arc<MessageCounts>,
    /// For a successor, if one can take the mount up.
    connection: Option<OwnedFd>,
    over_io_uring: bool,
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

    /// Hands out the connection; `None`: no successor can take the mount up. To be called once, as
    /// a connection ends when its last descriptor is closed.
    pub fn take_handover(&mut self) -> Option<Handover> {
        let device = self.unmounter.device.clone();
        self.connection.take().map(|connection| Handover { connection, device })
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

    /// Whether messages come over io_uring.
    pub fn is_over_io_uring(&self) -> bool {
        self.over_io_uring
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
        detach(&self.mountpoint, &self.device, UnmountFlags::empty())
    }

    /// Takes the mount out of sight at once; it ends with its last user.
    ///
    /// # Errors
    /// If that is not permitted.
    pub fn unmount_lazily(&self) -> Result<()> {
        detach(&self.mountpoint, &self.device, UnmountFlags::DETACH)
    }
}
