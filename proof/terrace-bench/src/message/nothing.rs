//! The file system that does nothing, served by a process of its own as a daemon is: by this
//! program, which is started once more.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustix::thread::{CpuSet, sched_setaffinity};
use terrace_fuse::{MountConfig, Transport};
use terrace_nullfs::mount_null;

/// The first word of the command line of such a process.
pub const SERVE: &str = "serve-nothing";
/// What it prints as soon as it serves.
const SERVING: &str = "serving";

/// How it serves; the command line of its process.
#[derive(Clone, Debug, Parser)]
#[command(name = SERVE)]
pub struct Service {
    /// The way of messages.
    #[arg(long)]
    pub transport: Transport,
    /// Threads that take messages.
    #[arg(long)]
    pub threads: Option<usize>,
    /// The CPU that all of it keeps to.
    #[arg(long)]
    pub cpu: Option<usize>,
    /// Where.
    pub mountpoint: PathBuf,
}

/// The service that this process was started for, if it was.
pub fn asked_for() -> Option<Service> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    (arguments.first()? == SERVE).then(|| Service::parse_from(arguments))
}

/// Keeps the calling thread, and those that it starts, to a CPU.
///
/// # Errors
/// If the system refuses.
pub fn keep_to(cpu: usize) -> Result<()> {
    let mut cpus = CpuSet::new();
    cpus.set(cpu);
    sched_setaffinity(None, &cpus).with_context(|| format!("keeping to CPU {cpu}"))
}

impl Service {
    /// Serves until standard input ends, which it does with the process that started this one.
    ///
    /// # Errors
    /// If the system refuses to mount.
    pub fn serve(&self) -> Result<()> {
        if let Some(cpu) = self.cpu {
            keep_to(cpu)?;
        }
        let config = MountConfig {
            fs_name: "terrace-bench".to_owned(),
            transport: self.transport,
            threads: self.threads,
            ..MountConfig::default()
        };
        let mounted = mount_null(&self.mountpoint, &config)?;
        println!("{SERVING}");
        std::io::stdout().flush()?;
        std::io::stdin().read_to_end(&mut Vec::new())?;
        mounted.unmount()
    }

    /// Starts a process that serves, and waits until it does.
    ///
    /// # Errors
    /// If it does not come to that.
    pub fn start(&self) -> Result<Nothing> {
        let program = std::env::current_exe().context("finding this program")?;
        let way = match self.transport {
            Transport::IoUring => "io_uring",
            Transport::Device => "device",
            Transport::Auto => "auto",
        };
        let mut command = Command::new(program);
        command.args([SERVE, "--transport", way]);
        let numbers = [("--threads", self.threads), ("--cpu", self.cpu)];
        for (option, number) in numbers {
            if let Some(number) = number {
                command.arg(option).arg(number.to_string());
            }
        }
        let mut child = command
            .arg(&self.mountpoint)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the file system that does nothing")?;
        let told = child.stdout.take().context("its output is a pipe")?;
        let nothing = Nothing { child, mountpoint: self.mountpoint.clone() };
        let mut line = String::new();
        BufReader::new(told).read_line(&mut line)?;
        ensure!(line.trim() == SERVING, "the file system that does nothing did not mount");
        Ok(nothing)
    }
}

/// A process that serves, until this is dropped.
#[derive(Debug)]
pub struct Nothing {
    child: Child,
    mountpoint: PathBuf,
}

impl Nothing {
    /// Unmounts it.
    ///
    /// # Errors
    /// If that fails.
    pub fn stop(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        let status = self.child.wait()?;
        ensure!(status.success(), "the file system that does nothing: {status}");
        Ok(())
    }
}

impl Drop for Nothing {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if let Err(error) = self.child.wait() {
            eprintln!("terrace-bench: {} stays mounted: {error}", self.mountpoint.display());
        }
    }
}
