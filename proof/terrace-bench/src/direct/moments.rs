//! Moments: a program starts, makes its first calls, has a file taken back.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::calls::{BEGUN, BLOCKS, BYTE, Call};
use super::role::{command, file_bytes, seconds};
use crate::daemon::{Daemon, directly};
use crate::ground::Ground;
use crate::interrupt;
use crate::kernel::run as run_to_end;
use crate::median::median;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Room, Stage};
use crate::workload::{BLOCK_BYTES, Sizes};

const FIRST: &str = "direct: the first 1,000 overwrites of a process vs the next 1,000";
const START: &str = "direct: what terrace run adds to the time of `true` vs 0.3 ms";
const TAKEN_BACK: &str = "direct: p99 of open + read of a file that a program overwrites vs 1 ms";
const STOPPED: &str = "direct: p99 of open + read of a file of a stopped program vs 50 ms";

const FIRST_OPS: u64 = 1000;
/// The first calls take at most twice as long.
const REACH_FIRST: f64 = 0.5;
const START_LIMIT_MS: f64 = 0.3;
const TAKEN_BACK_LIMIT_MS: f64 = 1.0;
const STOPPED_LIMIT_MS: f64 = 50.0;
/// Calls between two looks of a program whether it goes on.
const BATCH: u64 = 1000;
/// A file that was taken back is lent again in milliseconds.
const LENT_LIMIT: Duration = Duration::from_secs(10);

/// Of a program, when another one opens its file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    IsStopped,
}

/// How often, in each round.
#[derive(Clone, Copy)]
struct Often {
    first: usize,
    starts: usize,
    taken_back: usize,
    stopped: usize,
}

const OFTEN: Often = Often { first: 10, starts: 100, taken_back: 100, stopped: 20 };
const QUICK: Often = Often { first: 1, starts: 5, taken_back: 3, stopped: 2 };

/// One benchmark for each of these: a failure of one is none of the others.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    First,
    Start,
    TakenBack(State),
}

/// The row of each benchmark.
pub fn first_names() -> Vec<String> {
    vec![FIRST.to_owned()]
}

/// See [`first_names`].
pub fn start_names() -> Vec<String> {
    vec![START.to_owned()]
}

/// See [`first_names`].
pub fn taken_back_names() -> Vec<String> {
    vec![TAKEN_BACK.to_owned()]
}

/// See [`first_names`].
pub fn stopped_names() -> Vec<String> {
    vec![STOPPED.to_owned()]
}

/// The mount and the space that the benchmarks need.
pub fn room(options: &Options) -> Room {
    Room::of(&[Ground::Lending], Sizes::on_mounts(options))
}

/// The first calls of a process.
///
/// # Errors
/// If a program fails.
pub fn run_first(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    measure(Moment::First, options, progress)
}

/// The start of a process.
///
/// # Errors
/// If a program fails.
pub fn run_start(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    measure(Moment::Start, options, progress)
}

/// A file that is taken back from a program that goes on.
///
/// # Errors
/// If a program fails, or has no file lent, or another one cannot open it.
pub fn run_taken_back(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    measure(Moment::TakenBack(State::Runs), options, progress)
}

/// A file that is taken back from a program that was stopped.
///
/// # Errors
/// As [`run_taken_back`].
pub fn run_stopped(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    measure(Moment::TakenBack(State::IsStopped), options, progress)
}

fn measure(moment: Moment, options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let sizes = Sizes::on_mounts(options);
    let stage = Stage::set(&[Ground::Lending], sizes, options)?;
    let site = stage.site(Ground::Lending)?;
    let (daemon, directory) = (site.daemon().context("a daemon of Terrace")?, site.directory());
    let often = if options.quick { QUICK } else { OFTEN };
    // So that no program that is measured makes the file.
    let many = file_bytes(sizes) / BLOCK_BYTES as u64;
    run_to_end(&mut command(false, Call::Overwrite, 1, many, directory)?)?;
    let mut rounds = Vec::new();
    for round in 1..=options.rounds {
        progress.round(round, options.rounds);
        rounds.push(match moment {
            Moment::First => first_calls(directory, sizes, often.first)?.to_vec(),
            Moment::Start => starts(often.starts)?.to_vec(),
            Moment::TakenBack(state) => {
                let overwriter = Overwriter::start(directory, sizes)?;
                taken_back(&overwriter, state, daemon, often)?
            }
        });
    }
    stage.strike()?;
    Ok(vec![row(moment, &rounds)])
}

/// Of rounds with two figures each, or with the time of each open.
fn row(moment: Moment, rounds: &[Vec<f64>]) -> Row {
    let side = |side: usize| rounds.iter().map(|round| round[side]).collect::<Vec<_>>();
    match moment {
        Moment::First => {
            let ratios: Vec<f64> = rounds.iter().map(|round| round[1] / round[0]).collect();
            let (first, next) = (median(&side(0)), median(&side(1)));
            let (unit, reach) = (Unit::Microseconds, Some(REACH_FIRST));
            Row::lower_is_better(FIRST, unit, next, first, reach).with_ratios(&ratios)
        }
        Moment::Start => {
            let added: Vec<f64> = rounds.iter().map(|round| round[1] - round[0]).collect();
            let note = format!("`true` takes {:.2} ms", median(&side(0)));
            Row { note: Some(note), ..limited(START, START_LIMIT_MS, &added) }
        }
        Moment::TakenBack(state) => {
            let (name, limit_ms) = match state {
                State::Runs => (TAKEN_BACK, TAKEN_BACK_LIMIT_MS),
                State::IsStopped => (STOPPED, STOPPED_LIMIT_MS),
            };
            let p99s: Vec<f64> = rounds.iter().map(|round| p99(round)).collect();
            let note = format!("median {:.2} ms", median(&rounds.concat()));
            Row { note: Some(note), ..limited(name, limit_ms, &p99s) }
        }
    }
}

/// Milliseconds beside a limit. What the clock cannot tell from nothing is a microsecond.
fn limited(name: &str, limit_ms: f64, rounds_ms: &[f64]) -> Row {
    let rounds: Vec<f64> = rounds_ms.iter().map(|ms| ms.max(1e-3)).collect();
    let ratios: Vec<f64> = rounds.iter().map(|ms| limit_ms / ms).collect();
    let (unit, ours) = (Unit::Milliseconds, median(&rounds));
    Row::lower_is_better(name, unit, limit_ms, ours, Some(1.0)).with_ratios(&ratios)
}

/// The time that 99 of 100 samples do not exceed.
fn p99(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * 99).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Microseconds of a call among the first of a process, and among the next.
fn first_calls(directory: &Path, sizes: Sizes, often: usize) -> Result<[f64; 2]> {
    let many = file_bytes(sizes) / BLOCK_BYTES as u64;
    let mut sums = [0.0; 2];
    for _ in 0..often {
        let mut command = command(true, Call::OverwriteTwice, FIRST_OPS, many, directory)?;
        let seconds = seconds(&run_to_end(&mut command)?)?;
        let [first, next] = seconds.as_slice() else { bail!("not two times: {seconds:?}") };
        sums = [sums[0] + first, sums[1] + next];
    }
    Ok(sums.map(|sum| sum * 1e6 / (often as u64 * FIRST_OPS) as f64))
}

/// Milliseconds that `true` takes by itself and under `terrace run`, in turns.
fn starts(often: usize) -> Result<[f64; 2]> {
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..often {
        for (is_direct, samples) in [false, true].into_iter().zip(&mut samples) {
            let mut command = directly(is_direct, Path::new("true"))?;
            let start = Instant::now();
            run_to_end(&mut command)?;
            samples.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(samples.map(|samples| median(&samples)))
}

/// A program that overwrites its file directly until this is dropped.
struct Overwriter {
    child: Child,
    file: std::path::PathBuf,
}

impl Overwriter {
    fn start(directory: &Path, sizes: Sizes) -> Result<Self> {
        let many = file_bytes(sizes) / BLOCK_BYTES as u64;
        let mut command = command(true, Call::OverwriteWithoutEnd, BATCH, many, directory)?;
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.context("starting a program that overwrites")?;
        let mut overwriter = Self { child, file: directory.join(BLOCKS) };
        let told = overwriter.child.stdout.take().context("its output is a pipe")?;
        let mut line = String::new();
        BufReader::new(told).read_line(&mut line)?;
        ensure!(line.trim() == BEGUN, "a program that overwrites did not begin");
        Ok(overwriter)
    }

    fn signal(&self, signal: libc::c_int) -> Result<()> {
        // SAFETY: kill takes two numbers; the child has not been waited for, so the number is still
        // its own.
        let result = unsafe { libc::kill(self.child.id() as i32, signal) };
        ensure!(result == 0, "a signal: {}", std::io::Error::last_os_error());
        Ok(())
    }

    /// Stops it, and waits until it stands.
    fn stop(&self) -> Result<()> {
        self.signal(libc::SIGSTOP)?;
        let stat = format!("/proc/{}/stat", self.child.id());
        until("a program did not stop", || {
            Ok(fs::read_to_string(&stat)?
                .rsplit(") ")
                .next()
                .is_some_and(|rest| rest.starts_with('T')))
        })
    }
}

impl Drop for Overwriter {
    fn drop(&mut self) {
        // These fail only if it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something that comes soon.
fn until(what_not: &str, is_there: impl Fn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !is_there()? {
        interrupt::check()?;
        ensure!(start.elapsed() < LENT_LIMIT, "{what_not} within {LENT_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Milliseconds that each open and read of the file take while the program has it.
fn taken_back(
    overwriter: &Overwriter,
    state: State,
    daemon: &Daemon,
    often: Often,
) -> Result<Vec<f64>> {
    let mut samples = Vec::new();
    let samples_max = match state {
        State::Runs => often.taken_back,
        State::IsStopped => often.stopped,
    };
    for number in 1..=samples_max {
        until("the file was not lent again", || daemon.lends())?;
        if state == State::IsStopped {
            overwriter.stop()?;
        }
        let mut block = [0; BLOCK_BYTES];
        let start = Instant::now();
        let read = File::open(&overwriter.file).and_then(|file| {
            file.read_exact_at(&mut block, 0)?;
            Ok(file)
        });
        samples.push(start.elapsed().as_secs_f64() * 1e3);
        if state == State::IsStopped {
            overwriter.signal(libc::SIGCONT)?;
        }
        drop(read.with_context(|| format!("open {number} of {samples_max} while it was lent"))?);
        ensure!(block == [BYTE; BLOCK_BYTES], "a block that was taken back has other bytes");
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_a_hundred_is_left_out() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((p99(&samples), p99(&[3.0, 1.0])), (99.0, 3.0));
        assert!(p99(&[]).is_nan());
    }

    #[test]
    fn rows_compare_what_they_say() {
        let first = row(Moment::First, &[vec![0.5, 0.4], vec![2.0, 0.4], vec![0.6, 0.3]]);
        assert_eq!((first.ours, first.baseline), (0.6, Some(0.4)));
        assert_eq!((first.ratio, first.ratio_min, first.met), (Some(0.5), 0.2, Some(true)));
        let start = row(Moment::Start, &[vec![0.5, 1.5]]);
        assert_eq!((start.ours, start.met), (1.0, Some(false)));
        let stopped = row(Moment::TakenBack(State::IsStopped), &[vec![0.25, 40.0]]);
        assert_eq!((stopped.ratio, stopped.met), (Some(1.25), Some(true)));
    }

    #[test]
    fn less_than_a_limit_is_met() {
        let row = limited("start", 0.3, &[0.2, -0.1, 0.15]);
        assert_eq!((row.ours, row.met), (0.15, Some(true)));
        assert!((row.ratio_min - 1.5).abs() < 1e-9 && row.ratio_max > 100.0);
        assert_eq!(limited("start", 0.3, &[0.4]).met, Some(false));
    }
}
