//! Searches crash states for as long as it is told to, or replays one.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use terrace_crash::catalog::PREPS;
use terrace_crash::explore::{Counts, Explorer, Failure, Settings};
use terrace_crash::id::{StateId, Workload};
use terrace_crash::search::{pairs, sampled, search, singles};

const FAILURES_MAX: usize = 20;
/// How often it says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Crash states of Terrace volumes: see docs/CRASH-STATES.md.
#[derive(Parser, Debug)]
struct Arguments {
    /// Replay the state of this id, or look at this workload (PREP/ACTION,ACTION).
    id: Option<String>,
    /// How long to go on with sampled workloads when all of one and two actions are done.
    #[arg(long, default_value_t = 8.0)]
    hours: f64,
    /// Where sampled states and workloads come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only workloads of this many actions.
    #[arg(long)]
    len: Option<usize>,
    /// Look at as little as `make test` does.
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse();
    let settings =
        Settings { seed: arguments.seed, ..if arguments.quick { Settings::QUICK } else { Settings::THOROUGH } };
    if let Some(id) = &arguments.id {
        return look_again(id, settings);
    }
    let end = Instant::now() + Duration::from_secs_f64(arguments.hours * 3600.0);
    let mut total = Counts::default();
    let mut round = |name: &str, workloads: &[Workload]| -> Result<()> {
        let told = Mutex::new(Instant::now());
        let stop = |counts: &Counts, failures: &[Failure]| {
            let mut told = told.lock().expect("no panic");
            if told.elapsed() > TELL_EVERY {
                *told = Instant::now();
                eprintln!("{name}: {}/{}, {counts}, {} failures", counts.workloads, workloads.len(), failures.len());
            }
            Instant::now() > end
        };
        let (counts, failures) = search(workloads, settings, FAILURES_MAX, &stop);
        total += counts;
        println!("{name}: {counts}\n  so far: {total}");
        report(&failures)
    };
    let wanted = |len| arguments.len.is_none_or(|only| only == len);
    if wanted(1) {
        round("one action", &singles())?;
    }
    if wanted(2) {
        for prep in PREPS {
            round(&format!("two actions, {}", prep.name), &pairs(prep))?;
        }
    }
    let mut seed = arguments.seed;
    while Instant::now() < end && wanted(3) {
        round(&format!("three actions, seed {seed}"), &sampled(200, 3, seed))?;
        seed += 1;
    }
    Ok(())
}

fn report(failures: &[Failure]) -> Result<()> {
    for failure in failures {
        println!("{failure}");
    }
    if failures.is_empty() { Ok(()) } else { bail!("{} crash states are wrong", failures.len()) }
}

fn look_again(id: &str, settings: Settings) -> Result<()> {
    let mut explorer = Explorer::new(settings, FAILURES_MAX);
    if let Ok(id) = id.parse::<StateId>() {
        match explorer.replay(&id) {
            Ok(text) => println!("{text}it is as it must be"),
            Err(text) => bail!("{text}"),
        }
        return Ok(());
    }
    explorer.explore(&id.parse()?);
    println!("{}", explorer.counts);
    report(&explorer.failures)
}
