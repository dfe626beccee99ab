//! Servers of mounts whose messages are measured. Each runs in a process of its own, as daemons do,
//! and is mounted anew for each round.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::thread::sched_getaffinity;
use tempfile::TempDir;
use terrace_fuse::Transport;

use super::nothing::{Nothing, Service};
use crate::daemon::{self, Daemon, Place};
use crate::options::Options;
use crate::stage::{memory_directory, new_directory};
use crate::switch::Switch;

const DISK_BYTES: u64 = 1 << 30;

/// PM of each volume.
pub fn pm_bytes(options: &Options) -> u64 {
    if options.quick { 128 << 20 } else { 256 << 20 }
}

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The file system that does nothing on `/dev/fuse`, one thread; it and its client keep to one
    /// CPU.
    Floor,
    /// The file system that does nothing, as it is mounted by default.
    Nothing { ring: bool },
    /// An older program of Terrace, as it mounts by default.
    Before,
    /// Terrace.
    Terrace { ring: bool, keeper: bool },
}

impl Server {
    /// All, in the order in which they are measured.
    pub const ALL: [Server; 7] = [
        Server::Floor,
        Server::Nothing { ring: false },
        Server::Nothing { ring: true },
        Server::Before,
        Server::Terrace { ring: false, keeper: false },
        Server::Terrace { ring: false, keeper: true },
        Server::Terrace { ring: true, keeper: false },
    ];

    /// What it is called in names of rows.
    pub fn name(self) -> &'static str {
        match self {
            Server::Floor => "floor",
            Server::Nothing { ring: false } => "do-nothing on /dev/fuse",
            Server::Nothing { ring: true } => "do-nothing over io_uring",
            Server::Before => "before",
            Server::Terrace { ring: false, keeper: false } => "Terrace on /dev/fuse, nokeeper",
            Server::Terrace { ring: false, keeper: true } => "Terrace on /dev/fuse",
            Server::Terrace { ring: true, .. } => "Terrace over io_uring",
        }
    }

    /// What it is compared with: the name of the comparison, and the server.
    pub fn baselines(self) -> Vec<(&'static str, Server)> {
        let floor = ("floor", Server::Floor);
        match self {
            Server::Floor => Vec::new(),
            Server::Nothing { .. } | Server::Before => vec![floor],
            Server::Terrace { ring, .. } => {
                vec![floor, ("do-nothing", Server::Nothing { ring }), ("before", Server::Before)]
            }
        }
    }

    /// Whether its messages come over io_uring.
    pub fn has_rings(self) -> bool {
        matches!(self, Server::Nothing { ring: true } | Server::Terrace { ring: true, .. })
    }

    /// The CPU that its client must keep to, if so.
    ///
    /// # Errors
    /// If the system does not say which there are.
    pub fn cpu(self) -> Result<Option<usize>> {
        if self != Server::Floor {
            return Ok(None);
        }
        let ours = sched_getaffinity(None).context("asking for this process's CPUs")?;
        let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| ours.is_set(cpu));
        Ok(Some(first.context("this process has no CPU")?))
    }

    /// Why it cannot serve here, if so.
    pub fn why_not(self, options: &Options) -> Option<anyhow::Error> {
        let program = match self {
            Server::Before | Server::Terrace { .. } => self.program(options).map(drop),
            Server::Floor | Server::Nothing { .. } => Ok(()),
        };
        let switch = || if self.has_rings() { Switch::set(true).map(drop) } else { Ok(()) };
        program.and_then(|()| switch()).err()
    }

    fn program(self, options: &Options) -> Result<PathBuf> {
        let path = match (self, &options.before) {
            (Server::Before, None) => bail!("--before names no older program"),
            (Server::Before, Some(before)) => before.clone(),
            _ => return daemon::program().map(Path::to_owned),
        };
        match path.is_file() {
            // A bare name would be looked for in PATH.
            true => Ok(std::path::absolute(&path)?),
            false => bail!("{} is no program: --before FILE", path.display()),
        }
    }

    fn mount_options(self, memory: &Path) -> Option<String> {
        let Server::Terrace { ring, keeper } = self else {
            return None;
        };
        let way = if ring { "transport=io_uring" } else { "transport=device" };
        let keeper = if ring || keeper { "" } else { ",nokeeper" };
        Some(format!("{way}{keeper},cache_dir={}", memory.display()))
    }

    /// Mounts it.
    ///
    /// # Errors
    /// If it does not serve.
    pub fn mount(self, options: &Options) -> Result<Served> {
        let mut served = Served::new()?;
        // Others must not get what they have not asked for.
        let _switch = Switch::set(self.has_rings())?;
        served.process = Some(match self {
            Server::Floor | Server::Nothing { .. } => {
                let way = if self.has_rings() { Transport::IoUring } else { Transport::Device };
                let service = Service {
                    transport: way,
                    threads: (self == Server::Floor).then_some(1),
                    cpu: self.cpu()?,
                    mountpoint: served.mountpoint(),
                };
                Process::Nothing(service.start()?)
            }
            Server::Before | Server::Terrace { .. } => Process::Terrace(self.daemon(
                &self.program(options)?,
                pm_bytes(options),
                &served,
            )?),
        });
        // As on a mount that was in use before: since its first open, the kernel asks nobody when
        // files are opened and closed.
        let opened = served.mountpoint().join("opened");
        fs::write(&opened, "")?;
        fs::read(&opened)?;
        fs::remove_file(&opened)?;
        Ok(served)
    }

    fn daemon(self, program: &Path, pm_bytes: u64, served: &Served) -> Result<Daemon> {
        let place = Place {
            pm: (&served.memory().join("pm"), pm_bytes),
            disk: (&served.mounts.path().join("disk"), DISK_BYTES),
            mountpoint: &served.mountpoint(),
            log: &served.memory().join("log"),
        };
        Daemon::new(program, place, self.mount_options(served.memory()).as_deref())
    }
}

/// A server that serves. Fields are dropped in this order: the mount before its directories.
#[derive(Debug)]
pub struct Served {
    process: Option<Process>,
    mounts: TempDir,
    memory: TempDir,
}

#[derive(Debug)]
enum Process {
    Nothing(Nothing),
    Terrace(Daemon),
}

impl Served {
    fn new() -> Result<Self> {
        let (mounts, memory) = (new_directory(&std::env::temp_dir())?, memory_directory()?);
        let served = Self { process: None, mounts, memory };
        fs::create_dir(served.mountpoint()).context("creating the mount point")?;
        Ok(served)
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> PathBuf {
        self.mounts.path().join("mount")
    }

    /// A directory in memory.
    pub fn memory(&self) -> &Path {
        self.memory.path()
    }

    /// What `terrace status --json` says.
    ///
    /// # Errors
    /// If this is no volume, or says nothing.
    pub fn status(&self) -> Result<serde_json::Value> {
        let Some(Process::Terrace(daemon)) = &self.process else {
            bail!("only volumes have a state");
        };
        daemon.status()
    }

    /// Unmounts it and waits until the server has ended.
    ///
    /// # Errors
    /// If that fails.
    pub fn strike(mut self) -> Result<()> {
        match self.process.take() {
            Some(Process::Nothing(nothing)) => nothing.stop(),
            Some(Process::Terrace(mut daemon)) => daemon.unmount(),
            None => Ok(()),
        }
    }
}
