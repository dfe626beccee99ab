//! Runs this program in its role, directly and otherwise, and looks whether its calls went direct.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::calls::{Call, ROLE};
use super::share::DirectShare;
use crate::daemon::{direct_calls, directly};
use crate::files::OnFiles;
use crate::kernel::run;
use crate::loads;
use crate::workload::{BLOCK_BYTES, RECORD_BYTES, Sizes, Workload, to_fill};

/// Blocks of the file that is read and overwritten.
const BLOCKS_MAX: u64 = 4096;
const OPS_MIN: u64 = 1000;
const OPS_MAX: u64 = 2_000_000;
/// Files that are made in one run.
const CREATED_MAX: u64 = 2000;
/// Of all calls, those that must go direct where the row is about nothing else.
const LEAST_DIRECT: f64 = 0.9;
/// Read migration may have moved the file to the disk. It is back in PM soon after a write.
const TRIES: u32 = 3;
/// The daemon counts the last calls of a process when it has seen its end.
const COUNT_LIMIT: Duration = Duration::from_secs(2);

/// How a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By itself.
    Plain,
    /// Under `terrace run` on a mount that lends.
    Direct,
    /// Under `terrace run`, with no file of a mount.
    Idle,
}

/// Bytes of the file that is read and overwritten.
pub fn file_bytes(sizes: Sizes) -> u64 {
    (BLOCKS_MAX * BLOCK_BYTES as u64).min(sizes.file_bytes / 2)
}

/// A command in the role.
///
/// # Errors
/// If this program, or the one that is measured, is not found.
pub fn command(
    is_direct: bool,
    call: Call,
    ops: u64,
    many: u64,
    directory: &Path,
) -> Result<std::process::Command> {
    let ours = std::env::current_exe().context("finding this program")?;
    let mut command = directly(is_direct, &ours)?;
    let call = call.to_possible_value().context("a name")?;
    command.args([ROLE, call.get_name(), &ops.to_string(), &many.to_string()]).arg(directory);
    Ok(command)
}

/// The seconds that the role has printed, in their order.
///
/// # Errors
/// If it printed anything else.
pub fn seconds(printed: &str) -> Result<Vec<f64>> {
    let numbers = printed.split_whitespace().map(str::parse::<f64>);
    numbers.collect::<Result<Vec<_>, _>>().with_context(|| format!("seconds: {printed}"))
}

/// Runs the role.
struct Role {
    call: Call,
    way: Way,
    directory: PathBuf,
    many: u64,
    ops: u64,
    ops_max: u64,
    round: Duration,
    spent: Duration,
    share: Option<DirectShare>,
}

impl Role {
    /// Once, in a directory that suits; returns the share of calls that went direct, where that is
    /// known.
    fn once(&mut self, ops: u64) -> Result<Option<f64>> {
        let is_checked = self.way == Way::Direct && self.call != Call::Varmail;
        let mountpoint = self.directory.clone();
        let before = is_checked.then(|| direct_calls(&mountpoint)).transpose()?;
        let directory = match self.call {
            // Each run makes its files.
            Call::Varmail => {
                let mails = self.directory.join("mails");
                if mails.exists() {
                    std::fs::remove_dir_all(&mails)?;
                }
                std::fs::create_dir(&mails)?;
                mails
            }
            _ => mountpoint.clone(),
        };
        let mut command = command(self.way != Way::Plain, self.call, ops, self.many, &directory)?;
        let printed = run(&mut command)?;
        let seconds = seconds(&printed)?.iter().sum::<f64>();
        self.spent = Duration::from_secs_f64(seconds);
        let fill = to_fill(self.round, ops, self.spent);
        self.ops = self.whole(fill.clamp(OPS_MIN.min(self.ops_max), self.ops_max));
        before.map(|before| share_since(before, ops, &mountpoint)).transpose()
    }

    fn whole(&self, ops: u64) -> u64 {
        ops.next_multiple_of(self.call.ops_at_a_time())
    }
}

/// Calls since then that the daemon says went direct, of so many.
fn share_since(before: u64, ops: u64, mountpoint: &Path) -> Result<f64> {
    let start = Instant::now();
    loop {
        let share = (direct_calls(mountpoint)? - before) as f64 / ops as f64;
        if share >= LEAST_DIRECT || start.elapsed() > COUNT_LIMIT {
            return Ok(share);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Workload for Role {
    fn batch_ops(&self) -> u64 {
        self.ops
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let mut share = None;
        for _ in 0..TRIES {
            share = self.once(ops)?;
            if share.is_none_or(|share| share >= LEAST_DIRECT) {
                return Ok(());
            }
        }
        let percent = share.map_or(0.0, |share| 100.0 * share);
        let many = self.many;
        let command = command(true, self.call, ops, many, &self.directory)?;
        let why =
            DirectShare::of(command).map_or_else(|error| format!("{error:#}"), |of| of.note());
        ensure!(false, "only {percent:.0} % of {ops} calls went direct: {why}");
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }

    fn note(&self) -> Option<String> {
        self.share.as_ref().map(DirectShare::note)
    }
}

/// Prepares it.
///
/// # Errors
/// If it fails, or does not go direct where it should.
pub fn role(call: Call, way: Way, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let ops_max = match call {
        Call::Append => (sizes.appended_bytes_max / RECORD_BYTES as u64).min(OPS_MAX),
        Call::Create => CREATED_MAX,
        _ => OPS_MAX,
    };
    let many = match call {
        Call::Varmail => loads::files(sizes),
        _ => file_bytes(sizes) / BLOCK_BYTES as u64,
    };
    let (directory, round, spent) = (directory.to_owned(), sizes.round, Duration::ZERO);
    let mut role = Role { call, way, directory, many, ops: 0, ops_max, round, spent, share: None };
    role.ops = role.whole(OPS_MIN.min(ops_max));
    // So that the first round is as long as the others.
    (0..2).try_for_each(|_| role.run(role.ops))?;
    if way == Way::Direct {
        role.share = Some(role.reported()?);
    }
    Ok(Box::new(role))
}

impl Role {
    /// A run that is not timed: counting takes time.
    fn reported(&self) -> Result<DirectShare> {
        let directory = match self.call {
            Call::Varmail => {
                let mails = self.directory.join("counted");
                std::fs::create_dir(&mails)?;
                mails
            }
            _ => self.directory.clone(),
        };
        let ops = self.whole(OPS_MIN.min(self.ops_max));
        let share = DirectShare::of(command(true, self.call, ops, self.many, &directory)?);
        if self.call == Call::Varmail {
            std::fs::remove_dir_all(&directory)?;
        }
        share
    }
}

/// One program, directly and otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    /// Under `terrace run`.
    pub direct: OnFiles,
    /// By itself.
    pub plain: OnFiles,
}
