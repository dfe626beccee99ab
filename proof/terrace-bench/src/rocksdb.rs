//! RocksDB's own benchmark, `db_bench`, with a sync after each put of 1 KB. The time is what it
//! reports. Mixtures of reads and writes are in `ycsb`.

pub mod ycsb;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::daemon::directly;
use crate::direct::Both;
use crate::direct::share::DirectShare;
use crate::kernel::run;
use crate::workload::{Sizes, Workload, to_fill};

const KEY_BYTES: u64 = 16;
const VALUE_BYTES: u64 = 1000;
const PUTS_MIN: u64 = 100;
/// Below the size at which RocksDB would begin to flush tables to files.
const PUTS_MAX: u64 = 30_000;

/// Operations of a run that is counted, and not timed.
const COUNTED: u64 = 10_000;

/// What of `db_bench` runs, and on how large a database.
#[derive(Clone, Copy, Debug)]
enum Fill {
    /// As many puts as fill a round: none of them leaves RocksDB's log and its table in memory.
    Log { benchmark: &'static str, is_direct: bool },
    /// All of a database: its tables are flushed and merged. RocksDB's default sizes are divided by
    /// `smaller`. Of several benchmarks, only the last counts.
    Database { benchmark: &'static str, puts: u64, smaller: u64 },
}

/// Puts into a new database, as long as a round lasts.
pub fn fillseq(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Fill::Log { benchmark: "fillseq", is_direct: false }, directory, sizes)
}

fn fillseq_direct(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Fill::Log { benchmark: "fillseq", is_direct: true }, directory, sizes)
}

fn fillrandom(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Fill::Log { benchmark: "fillrandom", is_direct: false }, directory, sizes)
}

fn fillrandom_direct(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(Fill::Log { benchmark: "fillrandom", is_direct: true }, directory, sizes)
}

/// Puts in the order of their keys, directly and otherwise.
pub const FILLSEQ: Both = Both { direct: fillseq_direct, plain: fillseq };

/// Puts in random order into a new database.
pub const FILLRANDOM: Both = Both { direct: fillrandom_direct, plain: fillrandom };

/// Puts of a whole database in the order of their keys.
pub fn fillseq_all(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(database("fillseq", sizes), directory, sizes)
}

/// Puts of a whole database in random order.
pub fn fillrandom_all(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(database("fillrandom", sizes), directory, sizes)
}

/// As many puts over a whole database, in random order.
pub fn overwrite_all(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(database("fillrandom,overwrite", sizes), directory, sizes)
}

/// As many reads of a whole database by one thread, while another puts.
pub fn read_while_writing(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    start(database("fillrandom,readwhilewriting", sizes), directory, sizes)
}

/// Puts of so many values in random order, once, with an eighth of RocksDB's sizes.
///
/// # Errors
/// If `db_bench` is missing or fails.
pub fn fill_random(database: &Path, puts: u64) -> Result<()> {
    db_bench(Fill::Database { benchmark: "fillrandom", puts, smaller: 8 }, database, puts).map(drop)
}

/// As many puts in random order, then as many over them, with a sixty-fourth of RocksDB's sizes.
///
/// # Errors
/// If `db_bench` is missing or fails.
pub fn fill_and_overwrite(database: &Path, puts: u64) -> Result<()> {
    let benchmark = "fillrandom,overwrite";
    db_bench(Fill::Database { benchmark, puts, smaller: 64 }, database, puts).map(drop)
}

/// RocksDB's sizes are as much smaller as the database is smaller than one of 8 GiB.
fn database(benchmark: &'static str, sizes: Sizes) -> Fill {
    let puts = sizes.database_bytes / (KEY_BYTES + VALUE_BYTES);
    Fill::Database { benchmark, puts, smaller: (8 << 30) / sizes.database_bytes.max(1) }
}

fn start(fill: Fill, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let puts = match fill {
        Fill::Log { .. } => PUTS_MIN,
        Fill::Database { puts, .. } => puts,
    };
    let (database, round, spent) = (directory.join("db"), sizes.round, Duration::ZERO);
    let mut filling = Filling { fill, database, puts, round, spent, share: None };
    if let Fill::Log { is_direct: true, .. } = fill {
        filling.prepare(COUNTED)?;
        filling.share = Some(DirectShare::of(db_bench_command(fill, &filling.database, COUNTED)?)?);
    }
    Ok(Box::new(filling))
}

struct Filling {
    fill: Fill,
    database: PathBuf,
    /// Of the next run; with [`Fill::Log`] as many as fill a round, judging by the last run.
    puts: u64,
    round: Duration,
    spent: Duration,
    share: Option<DirectShare>,
}

impl Workload for Filling {
    fn batch_ops(&self) -> u64 {
        self.puts
    }

    fn prepare(&mut self, _ops: u64) -> Result<()> {
        match std::fs::remove_dir_all(&self.database) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("removing {}", self.database.display()))
            }
            _ => Ok(()),
        }
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let micros = db_bench(self.fill, &self.database, ops)?;
        self.spent = Duration::from_secs_f64(micros * 1e-6 * ops as f64);
        if let Fill::Log { .. } = self.fill {
            self.puts = to_fill(self.round, ops, self.spent).clamp(PUTS_MIN, PUTS_MAX);
        }
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }

    fn note(&self) -> Option<String> {
        self.share.as_ref().map(DirectShare::note)
    }
}

/// Runs it; returns microseconds per put.
fn db_bench(fill: Fill, database: &Path, puts: u64) -> Result<f64> {
    let (Fill::Log { benchmark, .. } | Fill::Database { benchmark, .. }) = fill;
    let printed = run(&mut db_bench_command(fill, database, puts)?)?;
    let counts = benchmark.rsplit(',').next().unwrap_or(benchmark);
    micros_per_op(&printed, counts).with_context(|| format!("db_bench reports no time: {printed}"))
}

fn db_bench_command(fill: Fill, database: &Path, puts: u64) -> Result<Command> {
    let (benchmark, is_direct) = match fill {
        Fill::Log { benchmark, is_direct } => (benchmark, is_direct),
        Fill::Database { benchmark, .. } => (benchmark, false),
    };
    let mut command = base_command(is_direct, database)?;
    command.arg("--sync=1").arg(format!("--benchmarks={benchmark}")).arg(format!("--num={puts}"));
    if let Fill::Database { smaller, .. } = fill {
        command.args(scaled_settings(smaller));
    }
    Ok(command)
}

/// `db_bench` with what all benchmarks have in common.
fn base_command(is_direct: bool, database: &Path) -> Result<Command> {
    let mut command = directly(is_direct, Path::new("db_bench"))?;
    command
        .args(["--compression_type=none", "--threads=1", "--disable_wal=0"])
        .args([format!("--key_size={KEY_BYTES}"), format!("--value_size={VALUE_BYTES}")])
        .arg(format!("--db={}", database.display()))
        .arg(format!("--wal_dir={}", database.display()));
    Ok(command)
}

/// RocksDB's default sizes divided by `smaller`: tables in memory and files of 64 MiB, 256 MiB of
/// them in the first level.
fn scaled_settings(smaller: u64) -> [String; 3] {
    const LEAST_BYTES: u64 = 64 << 10;
    let scaled = |bytes: u64| (bytes / smaller).max(LEAST_BYTES);
    [
        format!("--write_buffer_size={}", scaled(64 << 20)),
        format!("--target_file_size_base={}", scaled(64 << 20)),
        format!("--max_bytes_for_level_base={}", scaled(256 << 20)),
    ]
}

/// From a line like `fillseq      :      36.417 micros/op 27459 ops/sec ...`.
fn micros_per_op(printed: &str, benchmark: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.starts_with(benchmark))?;
    let micros: f64 = line.split_once(':')?.1.split_whitespace().next()?.parse().ok()?;
    (micros > 0.0).then_some(micros)
}

/// Why RocksDB's benchmark cannot be run here, if so.
pub fn why_not() -> Option<anyhow::Error> {
    run(Command::new("db_bench").arg("--version")).err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use clap::Parser;

    #[test]
    fn the_time_is_found_in_the_report() {
        let printed =
            "DB path: [/db]\nfillseq      :      36.417 micros/op 27459 ops/sec 0.036 seconds\n";
        assert_eq!(micros_per_op(printed, "fillseq"), Some(36.417));
        assert_eq!(micros_per_op("fillseq : nothing", "fillseq"), None);
        assert_eq!(micros_per_op(printed, "fillrandom"), None);
    }

    #[test]
    fn settings_are_scaled_with_the_database() {
        let sizes = Sizes::on_mounts(&Options::parse_from(["terrace-bench"]));
        let Fill::Database { puts, smaller, .. } = database("fillseq", sizes) else {
            panic!("no database")
        };
        assert_eq!((puts, smaller), ((128 << 20) / 1016, 64));
        let expected = [
            "write_buffer_size=1048576",
            "target_file_size_base=1048576",
            "max_bytes_for_level_base=4194304",
        ];
        assert_eq!(scaled_settings(smaller), expected.map(|setting| format!("--{setting}")));
        assert_eq!(scaled_settings(1 << 20)[0], "--write_buffer_size=65536");
    }
}
