//! Daemons: forks of the test, as daemons of a mount are forks of its keeper.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use terrace_engine::{
    AtimePolicy, CheckOptions, FormatOptions, Ino, OpenOptions, SetAttr, Volume, check, format,
};
use terrace_fuse::{Handover, Ledger, MountConfig, heritage, take_up};
use terrace_media::{
    Disk, DiskOpenOptions, IoEngine, Pm, PmOpenOptions, create_disk_file, open_disk,
};
use terrace_policy::{Param, Params};

/// Bytes of PM, and of the disk.
const PM_BYTES: u64 = 2 << 20;
const DISK_BYTES: u64 = 1 << 20;

/// Over io_uring: workers of the queue.
pub const DEPTH: usize = 2;

/// Where new data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To PM.
    Pm,
    /// To the page cache, and then to a disk.
    Disk,
    /// To PM, which has no room left but what removing needs.
    Full,
}

/// The devices of a volume, in files in memory; and what they held in the beginning.
#[derive(Debug)]
pub struct Devices {
    dir: PathBuf,
    place: Place,
    pm: Vec<u8>,
    disk: Vec<u8>,
    /// How often the modes of `/` and of `f` can be set before the next entry in their logs has
    /// these compacted.
    pub wear: [usize; 2],
}

impl Devices {
    /// A new volume in `dir`, on which `fill` works.
    ///
    /// # Errors
    /// What the engine says.
    pub fn make(
        dir: &Path,
        place: Place,
        fill: impl FnOnce(&Volume) -> Result<()>,
    ) -> Result<Self> {
        let dir = dir.join(format!("{place:?}"));
        fs::create_dir(&dir)?;
        let (pm, disk) = (Vec::new(), Vec::new());
        let mut devices = Devices { dir, place, pm, disk, wear: [0; 2] };
        Pm::create_file(&devices.dir.join("pm"), PM_BYTES)?;
        create_disk_file(&devices.dir.join("disk"), DISK_BYTES)?;
        let (pm, disks) = devices.open()?;
        let options = FormatOptions { shards: Some(1), tiers: vec![1], ..Default::default() };
        format(&pm, &disks, &options)?;
        drop((pm, disks));
        let volume = devices.volume(Place::Pm, None)?;
        fill(&volume)?;
        volume.close()?;
        drop(volume);
        devices.pm = fs::read(devices.dir.join("pm"))?;
        devices.disk = fs::read(devices.dir.join("disk"))?;
        devices.wear = [devices.wear_of(b".")?, devices.wear_of(b"f")?];
        Ok(devices)
    }

    /// Makes them what they were in the beginning.
    ///
    /// # Errors
    /// The system's.
    pub fn restore(&self) -> Result<()> {
        let write = |name, bytes: &[u8]| {
            fs::OpenOptions::new().write(true).open(self.dir.join(name))?.write_all_at(bytes, 0)
        };
        write("pm", &self.pm)?;
        write("disk", &self.disk)?;
        let cache = self.dir.join("cache");
        if cache.exists() {
            fs::remove_dir_all(&cache)?;
        }
        Ok(fs::create_dir(&cache)?)
    }

    fn wear_of(&self, name: &[u8]) -> Result<usize> {
        if self.place != Place::Pm {
            return Ok(0);
        }
        let volume = self.volume(Place::Pm, None)?;
        let ino = match name {
            b"." => Ino::ROOT,
            name => volume.lookup(Ino::ROOT, name)?.ino,
        };
        let used = || volume.status().devices[0].used_bytes;
        let mut before = used();
        for count in 0..1000 {
            let mode = Some(0o700 + count % 2);
            volume.setattr(ino, &SetAttr { mode, ..SetAttr::default() })?;
            let now = used();
            if now < before {
                volume.abandon();
                return Ok(count as usize);
            }
            before = now;
        }
        bail!("a log is never compacted")
    }

    fn open(&self) -> Result<Opened> {
        let pm = Pm::open(&self.dir.join("pm"), &PmOpenOptions::default())?;
        let options =
            DiskOpenOptions { engine: IoEngine::Sync, direct: false, ..Default::default() };
        Ok((pm, vec![open_disk(&self.dir.join("disk"), &options)?]))
    }

    fn volume(&self, place: Place, ledger: Option<&'static Ledger>) -> Result<Arc<Volume>> {
        let (pm, disks) = self.open()?;
        let mut params = Params::default();
        params.set(Param::Migrate, 0).expect("a value within its range");
        let options = OpenOptions {
            cache_bytes: 1 << 20,
            cache_dir: ledger.map(|_| self.dir.join("cache")),
            pm_full_percent: if place == Place::Disk { 0 } else { 90 },
            workers: false,
            params,
            atime: AtimePolicy::Noatime,
            heritage: ledger.map(heritage),
            ..Default::default()
        };
        Ok(Volume::open(pm, disks, options, &|_, _, _| {})?)
    }

    /// What the offline check finds wrong with them.
    ///
    /// # Errors
    /// That.
    pub fn check(&self) -> Result<()> {
        let (pm, disks) = self.open()?;
        let options = CheckOptions { repair: false, data: true, ..CheckOptions::default() };
        let report = check(&pm, &disks, &options, &|_, _, _| {})?;
        match report.problems.first() {
            None => Ok(()),
            Some(first) => bail!("check: {}: {}", first.place, first.what),
        }
    }
}

/// PM, and disks.
type Opened = (Arc<Pm>, Vec<Arc<dyn Disk>>);

/// A daemon.
#[derive(Debug)]
pub struct Daemon {
    pid: Pid,
    /// Readable when it has ended.
    end: OwnedFd,
}

/// How a daemon ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Exited(i32),
    Killed(i32),
}

impl Daemon {
    /// Starts a daemon that takes the connection up; the first one inherits nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn start(
        devices: &Devices,
        ledger: &'static Ledger,
        device: BorrowedFd<'_>,
        is_first: bool,
    ) -> Result<Daemon> {
        // SAFETY: this process has one thread, so the child may do everything that the parent may.
        let pid = match unsafe { libc::fork() } {
            -1 => return Err(std::io::Error::last_os_error()).context("fork"),
            0 => {
                let status = match serve(devices, ledger, device, is_first) {
                    Ok(()) => 0,
                    Err(error) => {
                        eprintln!("daemon: {error:#}");
                        1
                    }
                };
                // SAFETY: ends this process, whose parent has what is left to be done at an exit.
                unsafe { libc::_exit(status) }
            }
            pid => Pid::from_raw(pid).context("a process")?,
        };
        Ok(Daemon { pid, end: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Its number.
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// To wait for its end with.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// The system's.
    pub fn wait(self) -> Result<Ending> {
        let mut status = 0;
        let pid = self.pid.as_raw_nonzero().get();
        // SAFETY: `status` is valid and writable; nobody else waits for this child.
        ensure!(unsafe { libc::waitpid(pid, &mut status, 0) } == pid, "waitpid");
        Ok(match libc::WIFSIGNALED(status) {
            true => Ending::Killed(libc::WTERMSIG(status)),
            false => Ending::Exited(libc::WEXITSTATUS(status)),
        })
    }

    /// Kills it.
    ///
    /// # Errors
    /// The system's.
    pub fn kill(self) -> Result<()> {
        rustix::process::kill_process(self.pid, rustix::process::Signal::KILL)?;
        self.wait().map(drop)
    }
}

/// A daemon's life. It ends when the connection does.
fn serve(
    devices: &Devices,
    ledger: &'static Ledger,
    device: BorrowedFd<'_>,
    is_first: bool,
) -> Result<()> {
    // As a daemon does: what panics dies at once.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("daemon: {panic}");
        std::process::abort();
    }));
    if !is_first {
        ledger.inherit();
    }
    let volume = devices.volume(devices.place, Some(ledger)).context("opening the volume")?;
    let config = MountConfig {
        threads: Some(1),
        queue_depth: Some(DEPTH),
        default_permissions: Some(true),
        ledger: Some(ledger),
        ..MountConfig::default()
    };
    let connection = device.try_clone_to_owned()?;
    let handover = Handover { connection, device: "0:0".to_owned() };
    let mounted = take_up(Arc::clone(&volume), Path::new("/nowhere"), &config, handover)?;
    // The end of a socket is no message.
    let _ = mounted.wait();
    volume.close().context("closing the volume")
}
