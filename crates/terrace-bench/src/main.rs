//! Benchmarks of Terrace FS, each beside its baseline in the same run. `docs/PERFORMANCE.md` says how to run them and
//! what each row means.
//!
//! | module | idea |
//! |---|---|
//! | `catalog` | which benchmarks there are, and what each is compared with |
//! | `contest` | rounds in turn, rates, ratios |
//! | `workload` | what every operation has in common: batches, offsets, the file that is worked on |
//! | `files`, `engine` | the operations through system calls, and on a volume in process |
//! | `stage` | the volume, mounts and directories of one benchmark, gone when dropped |
//! | `profile` | one operation alone, for a profiler |
//! | `report` | rows, the table, the machine |
//! | `options`, `progress`, `interrupt` | the command line, what is shown meanwhile, Ctrl-C |
//!
//! Invariant: whatever a benchmark makes is owned by its `Stage` and removed with it. Ctrl-C and errors therefore end
//! the run by returning, never by exiting.

mod catalog;
mod contest;
mod engine;
mod files;
mod interrupt;
mod options;
mod profile;
mod progress;
mod report;
mod stage;
mod workload;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use catalog::{Benchmark, CATALOG, Place};
use options::Options;
use progress::Progress;
use report::{Machine, Row};
use stage::{Stage, check_room, why_no_mounts};

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        // As a shell reports a program that SIGINT ended.
        Err(_) if interrupt::requested() => {
            eprintln!("terrace-bench: interrupted; what it made has been removed");
            ExitCode::from(130)
        }
        Err(error) => {
            eprintln!("terrace-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    interrupt::listen()?;
    if let Some(operation) = options.profile {
        return profile::run(operation, options);
    }
    let mut selected: Vec<&Benchmark> = CATALOG.iter().filter(|benchmark| benchmark.matches(options)).collect();
    if selected.is_empty() {
        let names: Vec<String> = CATALOG.iter().flat_map(Benchmark::row_names).collect();
        bail!("--filter {:?} selects no row; these exist:\n  {}", options.filter, names.join("\n  "));
    }
    if selected.iter().any(|benchmark| benchmark.place != Place::Engine)
        && let Some(reason) = why_no_mounts()
    {
        eprintln!("terrace-bench: rows on mounts are skipped: {reason:#}");
        selected.retain(|benchmark| benchmark.place == Place::Engine);
        if selected.is_empty() {
            bail!("no row is left to measure");
        }
    }
    for place in selected.iter().map(|benchmark| benchmark.place) {
        check_room(place, options)?;
    }
    let mut machine = Machine::describe()?;
    let mut progress = Progress::new(selected.len());
    let mut rows = Vec::new();
    for benchmark in selected {
        progress.begin(benchmark.title());
        let measured = measure(benchmark, options, &mut progress, &mut machine);
        rows.extend(measured.with_context(|| benchmark.title())?);
    }
    progress.end();
    write_results(&options.output, &rows)?;
    print!("{}\n{machine}", report::table(&rows));
    println!("results   {}", options.output.display());
    Ok(())
}

fn measure(
    benchmark: &Benchmark,
    options: &Options,
    progress: &mut Progress,
    machine: &mut Machine,
) -> Result<Vec<Row>> {
    let stage = Stage::set(benchmark.place, options)?;
    machine.note_pm(stage.pm());
    let outcome = contest::hold(benchmark, &stage, options, progress)?;
    stage.strike()?;
    Ok(outcome)
}

fn write_results(path: &Path, rows: &[Row]) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    let mut json = serde_json::to_string_pretty(rows)?;
    json.push('\n');
    fs::write(path, json).with_context(|| format!("writing {}", path.display()))
}
