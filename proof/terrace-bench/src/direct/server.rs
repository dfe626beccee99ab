//! A server that a benchmark starts, and ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::role::Way;
use crate::daemon::direct_calls;
use crate::interrupt;
use crate::stage::new_directory;

const START_LIMIT: Duration = Duration::from_secs(60);

/// A directory for a server's socket and log: not on the mount.
///
/// # Errors
/// If it cannot be made.
pub fn directory() -> Result<TempDir> {
    new_directory(&std::env::temp_dir())
}

/// A server, which ends when it is dropped. Fields are dropped after that.
pub struct Server {
    process: Child,
    end: Signal,
    directory: TempDir,
}

impl Server {
    /// Starts a server, which ends at once by the signal `end`, and waits until it `answers`.
    ///
    /// # Errors
    /// If it cannot be started, ends, or takes too long: with what it said.
    pub fn start(
        mut command: Command,
        end: Signal,
        directory: TempDir,
        answers: impl Fn(&Path) -> bool,
    ) -> Result<Self> {
        let name = command.get_program().display().to_string();
        let path = directory.path().join("log");
        let log = File::create(&path)?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().with_context(|| format!("starting {name}"))?;
        let mut server = Self { process, end, directory };
        let start = Instant::now();
        while !answers(server.directory()) {
            interrupt::check()?;
            let ended = server.process.try_wait()?;
            if ended.is_some() || start.elapsed() > START_LIMIT {
                let log = fs::read_to_string(path)?;
                bail!("{name} did not start ({ended:?}): {log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// Holds its socket and log.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// Calls on a server's files that went direct.
pub struct Counted {
    /// The mount that is asked for them; `None`: they are not counted.
    mountpoint: Option<PathBuf>,
    calls: u64,
    ops: u64,
}

impl Counted {
    /// None yet, of a server that is run in this way and has its files in `directory`.
    pub fn new(way: Way, directory: &Path) -> Self {
        let mountpoint = (way == Way::Direct).then(|| directory.to_owned());
        Self { mountpoint, calls: 0, ops: 0 }
    }

    fn now(&self) -> Result<u64> {
        self.mountpoint.as_deref().map_or(Ok(0), direct_calls)
    }

    /// Counts while so many operations are done.
    ///
    /// # Errors
    /// Those of `work`; if the daemon does not answer.
    pub fn during<T>(&mut self, ops: u64, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = self.now()?;
        let result = work()?;
        self.calls += self.now()? - before;
        self.ops += ops;
        Ok(result)
    }

    /// Operations so far.
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// The calls of an operation, if they are counted.
    pub fn note(&self) -> Option<String> {
        let each = self.calls as f64 / self.ops as f64;
        self.mountpoint.as_ref().map(|_| format!("{each:.2} direct calls"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // These fail only if it has ended by itself.
        let _ = kill_process(Pid::from_child(&self.process), self.end);
        let _ = self.process.wait();
    }
}
