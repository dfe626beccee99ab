//! RocksDB's own benchmark: `fillseq` with a sync after each put of 1 KB. The time is what it reports.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::catalog::{Benchmark, How};
use crate::files::OnFiles;
use crate::kernel::run;
use crate::workload::{Sizes, Workload};

const PUTS_MIN: u64 = 100;
/// Below the size at which RocksDB would begin to flush tables to files.
const PUTS_MAX: u64 = 30_000;

/// Puts of 1 KB, each synced, into a new database.
pub fn fillseq(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Fillseq { database: directory.join("db"), puts: PUTS_MIN, round: sizes.round, spent: Duration::ZERO }))
}

struct Fillseq {
    database: PathBuf,
    /// As many as fill a round, judging by the last run.
    puts: u64,
    round: Duration,
    spent: Duration,
}

impl Workload for Fillseq {
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
        let printed = run(Command::new("db_bench")
            .args(["--benchmarks=fillseq", "--sync=1", "--key_size=16", "--value_size=1000"])
            .args(["--compression_type=none", "--threads=1", "--disable_wal=0"])
            .arg(format!("--num={ops}"))
            .arg(format!("--db={}", self.database.display()))
            .arg(format!("--wal_dir={}", self.database.display())))?;
        let micros = micros_per_op(&printed).with_context(|| format!("db_bench reports no time: {printed}"))?;
        self.spent = Duration::from_secs_f64(micros * 1e-6 * ops as f64);
        // A little more than a round, so that one run does.
        let fill = 1.1 * self.round.as_secs_f64() / (micros * 1e-6);
        self.puts = (fill as u64).clamp(PUTS_MIN, PUTS_MAX);
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }
}

/// From a line like `fillseq      :      36.417 micros/op 27459 ops/sec ...`.
fn micros_per_op(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.starts_with("fillseq"))?;
    let micros: f64 = line.split_once(':')?.1.split_whitespace().next()?.parse().ok()?;
    (micros > 0.0).then_some(micros)
}

/// Whether a benchmark runs RocksDB.
pub fn is_used_by(benchmark: &Benchmark) -> bool {
    let fillseq: OnFiles = fillseq;
    matches!(benchmark, Benchmark::Contest(contest)
        if matches!(contest.how, How::Files(how) if std::ptr::fn_addr_eq(how, fillseq)))
}

/// Why RocksDB's benchmark cannot be run here, if so.
pub fn why_not() -> Option<anyhow::Error> {
    run(Command::new("db_bench").arg("--version")).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_found_in_the_report() {
        let printed = "DB path: [/db]\nfillseq      :      36.417 micros/op 27459 ops/sec 0.036 seconds\n";
        assert_eq!(micros_per_op(printed), Some(36.417));
        assert_eq!(micros_per_op("fillseq : nothing"), None);
        assert_eq!(micros_per_op(""), None);
    }

    #[test]
    fn the_catalog_knows_which_rows_need_it() {
        let names: Vec<String> =
            crate::catalog::CATALOG.iter().filter(|b| is_used_by(b)).map(Benchmark::title).collect();
        assert_eq!(names, ["mount: RocksDB fillseq, sync", "mount -o durable: RocksDB fillseq, sync"]);
    }
}
