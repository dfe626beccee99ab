//! LevelDB: values put under random keys, each with a sync (`fillsync`), by a C program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::role::{Way, seconds};
use super::server;
use super::share::DirectShare;
use crate::daemon::directly;
use crate::kernel::run;
use crate::workload::{Sizes, Workload, to_fill};

const SOURCE: &str = include_str!("leveldb.c");
const OPS_MIN: u64 = 200;
/// So few that a database fits into PM beside the compaction of it.
const OPS_MAX: u64 = 200_000;
/// Values whose calls are counted.
const COUNTED: u64 = 5_000;

struct Puts {
    /// Holds the program.
    directory: TempDir,
    way: Way,
    database: PathBuf,
    ops: u64,
    round: Duration,
    spent: Duration,
    share: Option<DirectShare>,
}

/// Compiles the program, in a directory of its own.
fn compile() -> Result<TempDir> {
    let directory = server::directory()?;
    let source = directory.path().join("leveldb.c");
    fs::write(&source, SOURCE).context("writing a program")?;
    let program = directory.path().join("leveldb");
    run(Command::new("cc").arg("-O2").arg(&source).arg("-o").arg(program).arg("-lleveldb"))?;
    Ok(directory)
}

impl Puts {
    /// Puts so many into a new database.
    fn command(&self, ops: u64) -> Result<Command> {
        if self.database.exists() {
            fs::remove_dir_all(&self.database).context("removing a database")?;
        }
        let program = self.directory.path().join("leveldb");
        let mut command = directly(self.way == Way::Direct, &program)?;
        command.arg(&self.database).arg(ops.to_string());
        Ok(command)
    }
}

impl Workload for Puts {
    fn batch_ops(&self) -> u64 {
        self.ops
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let printed = run(&mut self.command(ops)?)?;
        self.spent = Duration::from_secs_f64(seconds(&printed)?.iter().sum());
        self.ops = to_fill(self.round, ops, self.spent).clamp(OPS_MIN, OPS_MAX);
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }

    fn note(&self) -> Option<String> {
        self.share.as_ref().map(DirectShare::note)
    }
}

/// Prepares them. Both ways may have a database in the same directory.
///
/// # Errors
/// If the program cannot be compiled, or fails.
pub fn puts(_: (), way: Way, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let database = directory.join(format!("leveldb-{way:?}"));
    let (round, spent) = (sizes.round, Duration::ZERO);
    let directory = compile()?;
    let mut puts = Puts { directory, way, database, ops: OPS_MIN, round, spent, share: None };
    if way == Way::Direct {
        puts.share = Some(DirectShare::of(puts.command(COUNTED)?)?);
    }
    // So that the first round is as long as the others.
    puts.run(OPS_MIN)?;
    Ok(Box::new(puts))
}

/// Why the program cannot be compiled here, if so.
pub fn why_not() -> Option<anyhow::Error> {
    compile().err()
}
