//! Benchmarks of Terrace FS, each beside its baseline in the same run. `docs/PERFORMANCE.md` says
//! how to run them and what each row means.
//!
//! | module | idea |
//! |---|---|
//! | `catalog` | which benchmarks there are, and what each is compared with |
//! | `benchmark` | what a benchmark is, what it needs, its rows' names |
//! | `contest` | rounds in turn, rates, ratios |
//! | `workload` | batches, offsets and the file, common to all operations |
//! | `files`, `names`, `stream`, `depth` | operations through system calls |
//! | `loads`, `rocksdb`, `trees` | what servers, databases, developers do, by system calls |
//! | `engine`, `threads`, `many` | operations on a volume in process: one, many, crowds |
//! | `lsm` | what a log-structured store does, on a volume in process |
//! | `migration`, `small_migration`, `log_migration`, `read_migration` | data between tiers |
//! | `helpers` | long writes that go past a PM that is slower than a disk |
//! | `streaming`, `moving` | small writes beside a stream; a hot set that moves |
//! | `policy`, `prediction` | what placement costs a write, and how often it is right |
//! | `amplification`, `hindsight` | what rules cost the disk; whether data went where it belongs |
//! | `simulated` | what the what-if simulator predicts, and what is measured |
//! | `message` | what messages cost, by servers in processes of their own |
//! | `large`, `dram` | mount and recovery of very many files; memory that inodes take |
//! | `direct`, `daemon` | programs that are run directly; Terrace's own program |
//! | `stage`, `ground` | the file systems of one benchmark, gone when dropped |
//! | `passing` | a mounted volume for a moment, with thresholds of its own |
//! | `bed`, `kernel`, `disk` | a volume; file systems of the kernel's; the disk under them |
//! | `switch` | has the kernel offer FUSE over io_uring for a moment |
//! | `group` | a control group that bounds memory |
//! | `heap`, `median` | counts allocated memory; the middle of samples |
//! | `profile`, `floor` | one operation alone, for a profiler; the least that it can cost |
//! | `report`, `matrix` | rows, the tables, the machine |
//! | `reach` | which rows the mount is judged by |
//! | `options`, `progress`, `interrupt` | the command line, what is shown meanwhile, Ctrl-C |
//!
//! Invariant: whatever a benchmark makes is owned by its `Stage` and removed with it. Ctrl-C and
//! errors therefore end the run by returning, never by exiting.

mod amplification;
mod bed;
mod benchmark;
mod catalog;
mod contest;
mod daemon;
mod depth;
mod direct;
mod disk;
mod dram;
mod engine;
mod files;
mod floor;
mod ground;
mod group;
mod heap;
mod helpers;
mod hindsight;
mod interrupt;
mod kernel;
mod large;
mod loads;
mod log_migration;
mod lsm;
mod many;
mod matrix;
mod median;
mod message;
mod migration;
mod moving;
mod names;
mod options;
mod passing;
mod policy;
mod prediction;
mod profile;
mod progress;
mod reach;
mod read_migration;
mod report;
mod rocksdb;
mod simulated;
mod small_migration;
mod stage;
mod stream;
mod streaming;
mod switch;
mod threads;
mod trees;
mod workload;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use benchmark::Benchmark;
use contest::Disturbed;
use message::nothing;
use options::Options;
use progress::Progress;
use report::{Machine, Row};
use stage::{Stage, why_no_fuse};

#[global_allocator]
static HEAP: heap::Counting = heap::Counting;

fn main() -> ExitCode {
    let outcome = match (nothing::asked_for(), direct::calls::asked_for()) {
        (Some(service), _) => service.serve(),
        (_, Some(calls)) => calls.make(),
        _ => run(&Options::parse()),
    };
    match outcome {
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
    // Where that is not permitted, mounts are those of the system, and removed like all else.
    let _ = kernel::isolate_mounts();
    interrupt::listen()?;
    daemon::choose(options)?;
    if let Some(operation) = options.profile {
        return profile::run(operation, options);
    }
    let (selected, mut rows) = select(options)?;
    for benchmark in &selected {
        benchmark.room(options).check(options).with_context(|| benchmark.title())?;
    }
    let mut machine = Machine::describe()?;
    let mut progress = Progress::new(selected.len());
    let mut failed = 0;
    for benchmark in selected {
        progress.begin(benchmark.title());
        match measure(benchmark, options, &mut progress, &mut machine) {
            Ok(measured) => rows.extend(measured),
            Err(error) if interrupt::requested() => return Err(error),
            Err(error) => {
                let disturbed = error.is::<Disturbed>();
                failed += usize::from(!disturbed);
                let why =
                    if disturbed { format!("{error:#}") } else { format!("failed: {error:#}") };
                rows.extend(not_measured(benchmark, options, &why));
            }
        }
    }
    progress.end();
    write_results(&options.output, &rows)?;
    let tables = [report::table(&rows), matrix::table(&rows)];
    for table in tables.iter().filter(|table| !table.is_empty()) {
        println!("{table}");
    }
    print!("{machine}");
    println!("results   {}", options.output.display());
    if failed > 0 {
        bail!("{failed} benchmarks failed: the rows that were not measured say why");
    }
    Ok(())
}

fn not_measured(benchmark: &Benchmark, options: &Options, why: &str) -> Vec<Row> {
    let names = benchmark.row_names().into_iter().filter(|name| options.selects(name));
    names.map(|name| Row::not_measured(name, why.to_owned())).collect()
}

/// The benchmarks asked for, and rows for those of them that this machine or user cannot run.
fn select(options: &Options) -> Result<(Vec<&'static Benchmark>, Vec<Row>)> {
    let mut selected: Vec<&Benchmark> =
        catalog::all().filter(|benchmark| benchmark.matches(options)).collect();
    if selected.is_empty() {
        let names: Vec<String> = catalog::all().flat_map(Benchmark::row_names).collect();
        bail!(
            "--filter {:?} selects no row; these exist:\n  {}",
            options.filter,
            names.join("\n  ")
        );
    }
    let mut skipped = Vec::new();
    let mut skip =
        |what: &str, needs: fn(&Benchmark) -> bool, why_not: &dyn Fn() -> Option<anyhow::Error>| {
            if selected.iter().any(|benchmark| needs(benchmark))
                && let Some(reason) = why_not()
            {
                let why = format!("rows on {what} are skipped: {reason:#}");
                eprintln!("terrace-bench: {why}");
                for benchmark in selected.iter().filter(|benchmark| needs(benchmark)) {
                    skipped.extend(not_measured(benchmark, options, &why));
                }
                selected.retain(|benchmark| !needs(benchmark));
            }
        };
    skip("mounts", Benchmark::needs_fuse, &why_no_fuse);
    skip("loop devices", Benchmark::needs_loop_devices, &|| {
        kernel::why_no_loop_devices(&std::env::temp_dir())
    });
    skip("RocksDB", Benchmark::needs_rocksdb, &rocksdb::why_not);
    skip("fio", Benchmark::needs_fio, &depth::why_not);
    skip("direct programs", Benchmark::needs_direct, &daemon::why_not);
    skip("little memory", Benchmark::needs_group, &group::why_not);
    skip("SQLite", Benchmark::needs_sqlite, &message::why_no_sqlite);
    skip("MariaDB", Benchmark::needs_mariadb, &direct::mariadb::why_not);
    skip("PostgreSQL", Benchmark::needs_postgresql, &direct::postgresql::why_not);
    skip("LevelDB", Benchmark::needs_leveldb, &direct::leveldb::why_not);
    skip("trees of files", Benchmark::needs_trees, &trees::why_not);
    if selected.is_empty() {
        bail!("no row is left to measure");
    }
    Ok((selected, skipped))
}

fn measure(
    benchmark: &Benchmark,
    options: &Options,
    progress: &mut Progress,
    machine: &mut Machine,
) -> Result<Vec<Row>> {
    match benchmark {
        Benchmark::Contest(contest) => {
            let mut stage = Stage::set(&contest.grounds(), contest.sizes(options), options)?;
            if let Some(pm) = stage.any_pm() {
                machine.note_pm(pm);
            }
            let outcome = contest::hold(contest, &mut stage, options, progress)?;
            stage.strike()?;
            Ok(outcome)
        }
        Benchmark::Measurement(measurement) => {
            let mut rows = (measurement.run)(options, progress)?;
            rows.retain(|row| options.selects(&row.name));
            Ok(rows)
        }
    }
}

fn write_results(path: &Path, rows: &[Row]) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("creating {}", parent.display()))?;
    }
    let mut json = serde_json::to_string_pretty(rows)?;
    json.push('\n');
    fs::write(path, json).with_context(|| format!("writing {}", path.display()))
}
