//! Searches crash states for as long as it is told to, or replays one.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use terrace_crash::explore::{Counts, Explorer, Failure, Settings};
use terrace_crash::id::{StateId, Workload};
use terrace_crash::search::{
    interrupted_moves, loans, migrations, moves_in_pairs, pairs, removals, sampled, search,
    singles, tables,
};

const FAILURES_MAX: usize = 20;
/// How often it says how far it is.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Pairs between two samples of what is looked at more closely.
const PAIRS_IN_A_ROUND: usize = 500;
/// Workloads in such a sample.
const SAMPLE: usize = 10;

/// Crash states of Terrace volumes: see docs/CRASH-STATES.md.
#[derive(Parser, Debug)]
struct Arguments {
    /// Replay the state of this id, or look at this workload (PREP/ACTION,ACTION).
    id: Option<String>,
    /// How long to go on.
    #[arg(long, default_value_t = 8.0)]
    hours: f64,
    /// Where sampled states and workloads, and the order of the others, come from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Go on at this workload of two actions: where a run with the same seed stopped.
    #[arg(long, default_value_t = 0)]
    from: usize,
    /// Look at a single workload as little as `make test` does.
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
    let seed = arguments.seed;
    if let Some(id) = &arguments.id {
        let effort = if arguments.quick { Settings::QUICK } else { Settings::THOROUGH };
        return look_again(id, Settings { seed, ..effort });
    }
    let end = Instant::now() + Duration::from_secs_f64(arguments.hours * 3600.0);
    let mut night = Night { seed, end, total: Counts::default() };
    if arguments.from == 0 {
        night.look("one action", &singles(), Settings::QUICK)?;
        let moves: Vec<_> = interrupted_moves().into_iter().chain(moves_in_pairs()).collect();
        night.look("moves and what else happens to the file", &moves, Settings::QUICK)?;
        night.look("background migration", &migrations(), Settings::QUICK)?;
        night.look("removals without room", &removals(), Settings::QUICK)?;
        night.look("inode tables", &tables(), Settings::QUICK)?;
        night.look("files that are lent", &loans(), Settings::QUICK)?;
    }
    let pairs = pairs(seed);
    let mut done = arguments.from.min(pairs.len());
    let mut samples = seed;
    while !night.is_over() {
        let round = &pairs[done..(done + PAIRS_IN_A_ROUND).min(pairs.len())];
        let result = night.look("two actions", round, Settings::QUICK);
        done += *result.as_ref().unwrap_or(&0);
        println!(
            "two actions: {done} of {} workloads looked at; `--seed {seed} --from {done}` goes on",
            pairs.len()
        );
        result?;
        for len in (1..=3).take_while(|_| Instant::now() < end) {
            samples += 1;
            night.look(
                &format!("workloads of {len}, closely"),
                &sampled(SAMPLE, len, samples),
                Settings::THOROUGH,
            )?;
        }
    }
    Ok(())
}

/// A search that goes on until some time.
struct Night {
    seed: u64,
    end: Instant,
    total: Counts,
}

impl Night {
    fn is_over(&self) -> bool {
        Instant::now() > self.end
    }

    /// Looks at workloads; how many there was time for.
    fn look(&mut self, name: &str, workloads: &[Workload], settings: Settings) -> Result<usize> {
        let told = Mutex::new(Instant::now());
        let stop = |counts: &Counts, failures: &[Failure]| {
            let mut told = told.lock().expect("no panic");
            if told.elapsed() > TELL_EVERY {
                *told = Instant::now();
                eprintln!(
                    "{name}: {}/{}, {counts}, {} failures",
                    counts.workloads,
                    workloads.len(),
                    failures.len()
                );
            }
            self.is_over()
        };
        let (counts, failures) =
            search(workloads, Settings { seed: self.seed, ..settings }, FAILURES_MAX, &stop);
        self.total += counts;
        println!(
            "{name}: {} of {} workloads\n  so far: {}",
            counts.workloads,
            workloads.len(),
            self.total
        );
        report(&failures).map(|()| counts.workloads as usize)
    }
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
