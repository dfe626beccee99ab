//! What programs do to a mount, and how long they take: one or two that repeat an operation, and
//! SQLite.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};

use super::nothing::keep_to;
use crate::files::OnFiles;
use crate::interrupt;
use crate::kernel::run;
use crate::workload::Sizes;

/// Microseconds that an operation takes each of several clients at a time, on average, in new
/// directories of theirs; all of them keep to `cpu`, if there is one.
///
/// # Errors
/// If the file system refuses or the run is interrupted.
pub fn micros_per_op(
    root: &Path,
    on_files: OnFiles,
    clients: usize,
    sizes: Sizes,
    cpu: Option<usize>,
) -> Result<f64> {
    let barrier = Barrier::new(clients);
    let client = |number: usize| -> Result<f64> {
        let prepare = || {
            cpu.map_or(Ok(()), keep_to)?;
            let directory = root.join(format!("client{number}"));
            fs::create_dir(&directory)
                .with_context(|| format!("creating {}", directory.display()))?;
            on_files(&directory, sizes)
        };
        let prepared = prepare();
        // A client that fails keeps no other waiting.
        barrier.wait();
        let mut workload = prepared?;
        let (mut ops, mut spent) = (0, Duration::ZERO);
        while spent < sizes.round {
            interrupt::check()?;
            let batch = workload.batch_ops();
            workload.prepare(batch)?;
            let start = Instant::now();
            workload.run(batch)?;
            spent += start.elapsed();
            ops += batch;
        }
        Ok(spent.as_secs_f64() * 1e6 / ops as f64)
    };
    let micros = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a client panicked"))?);
        joined.collect::<Result<Vec<f64>>>()
    })?;
    for number in 0..clients {
        let directory = root.join(format!("client{number}"));
        fs::remove_dir_all(&directory)
            .with_context(|| format!("removing {}", directory.display()))?;
    }
    Ok(micros.iter().sum::<f64>() / clients as f64)
}

/// Milliseconds that SQLite takes for so many transactions of one row each, which are durable when
/// they return; `journal` is its journal's mode.
///
/// # Errors
/// If SQLite fails.
pub fn sqlite_millis(root: &Path, memory: &Path, journal: &str, commits: u64) -> Result<f64> {
    let database = root.join(format!("{journal}.db"));
    let text = "x".repeat(100);
    let settings = format!("pragma journal_mode={journal}; pragma synchronous=full;\n");
    let table = "create table t(a integer primary key, b text);";
    run(sqlite(&database).arg(format!("{settings}{table}")))?;
    let script = memory.join("script.sql");
    let inserts = format!("insert into t(b) values('{text}');\n").repeat(commits as usize);
    fs::write(&script, settings + &inserts)
        .with_context(|| format!("writing {}", script.display()))?;
    let mut command = sqlite(&database);
    command.stdin(File::open(&script)?);
    let start = Instant::now();
    run(&mut command)?;
    let spent = start.elapsed();
    let rows = run(sqlite(&database).arg("select count(*) from t"))?;
    ensure!(rows.trim() == commits.to_string(), "SQLite has {} rows of {commits}", rows.trim());
    Ok(spent.as_secs_f64() * 1e3)
}

fn sqlite(database: &Path) -> Command {
    let mut command = Command::new("sqlite3");
    command.arg("-batch").arg("-bail").arg(database).stdin(Stdio::null());
    command
}

/// Why SQLite's command cannot be run here, if so.
pub fn why_no_sqlite() -> Option<anyhow::Error> {
    run(Command::new("sqlite3").arg("--version").stdin(Stdio::null())).err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;
    use crate::options::Options;
    use clap::Parser;
    use tempfile::TempDir;

    #[test]
    fn clients_take_time_and_leave_nothing() {
        let directory = TempDir::new().unwrap();
        let sizes = Sizes::on_mounts(&Options::parse_from(["terrace-bench", "--quick"]));
        let took =
            micros_per_op(directory.path(), names::create_unlink, 2, sizes, Some(0)).unwrap();
        assert!(took > 0.0);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        let refused = directory.path().join("missing");
        assert!(micros_per_op(&refused, names::create, 2, sizes, None).is_err());
    }

    #[test]
    fn sqlite_commits_in_both_modes() {
        if let Some(why) = why_no_sqlite() {
            eprintln!("skipped: {why:#}");
            return;
        }
        let directory = TempDir::new().unwrap();
        for journal in ["delete", "wal"] {
            let took = sqlite_millis(directory.path(), directory.path(), journal, 10).unwrap();
            assert!(took > 0.0);
        }
    }
}
