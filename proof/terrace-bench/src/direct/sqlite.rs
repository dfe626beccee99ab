//! Commits of SQLite, by its command.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::role::Way;
use super::share::DirectShare;
use crate::daemon::directly;
use crate::kernel::run;
use crate::workload::{Sizes, Workload};

/// Commits of SQLite with full synchronisation, a row each.
struct Commits {
    journal: &'static str,
    is_direct: bool,
    directory: PathBuf,
    commits: u64,
    share: Option<DirectShare>,
}

impl Workload for Commits {
    fn batch_ops(&self) -> u64 {
        self.commits
    }

    fn prepare(&mut self, ops: u64) -> Result<()> {
        for name in ["db", "db-journal", "db-wal", "db-shm"] {
            if let Err(error) = fs::remove_file(self.directory.join(name))
                && error.kind() != ErrorKind::NotFound
            {
                return Err(error).context(name);
            }
        }
        let settings = format!("pragma journal_mode={}; pragma synchronous=full;", self.journal);
        let table = "create table t(a integer primary key, b text);";
        let insert = format!("insert into t(b) values('{}');\n", "x".repeat(100));
        let script = format!("{settings}{table}\n{}", insert.repeat(ops as usize));
        fs::write(self.directory.join("script"), script).context("writing a script")
    }

    fn run(&mut self, _ops: u64) -> Result<()> {
        run(&mut self.command()?).map(drop)
    }

    fn note(&self) -> Option<String> {
        self.share.as_ref().map(DirectShare::note)
    }
}

impl Commits {
    fn command(&self) -> Result<Command> {
        let mut command = directly(self.is_direct, Path::new("sqlite3"))?;
        command.arg("-batch").arg("-bail").arg(self.directory.join("db"));
        command.stdin(Stdio::from(File::open(self.directory.join("script"))?));
        Ok(command)
    }
}

/// Prepares them; `journal` as in `pragma journal_mode`.
///
/// # Errors
/// If SQLite fails.
pub fn commits(
    journal: &'static str,
    way: Way,
    on: &Path,
    sizes: Sizes,
) -> Result<Box<dyn Workload>> {
    // Many beside the start of the program, but in a run that only tries things out.
    let commits = (sizes.round.as_millis() as u64 * 5).clamp(50, 2000);
    let (directory, is_direct) = (on.to_owned(), way == Way::Direct);
    let mut of = Commits { journal, is_direct, directory, commits, share: None };
    if is_direct {
        of.prepare(commits)?;
        of.share = Some(DirectShare::of(of.command()?)?);
    }
    Ok(Box::new(of))
}
