//! Commits of SQLite, by its command: into a new database, and to a large one.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use tempfile::TempDir;

use super::role::Way;
use super::share::DirectShare;
use super::{ROW_BYTES, Rows, server};
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
    let commits = commits_of(sizes);
    let (directory, is_direct) = (on.to_owned(), way == Way::Direct);
    let mut of = Commits { journal, is_direct, directory, commits, share: None };
    if is_direct {
        of.prepare(commits)?;
        of.share = Some(DirectShare::of(of.command()?)?);
    }
    Ok(Box::new(of))
}

/// Many beside the start of the program, but in a run that only tries things out.
fn commits_of(sizes: Sizes) -> u64 {
    (sizes.round.as_millis() as u64 * 5).clamp(50, 2000)
}

/// Updates of rows of a large database in a log's mode, a commit each.
struct Updates {
    database: PathBuf,
    rows: Rows,
    commits: u64,
    /// Has the script: it is not on the volume that is measured.
    beside: TempDir,
}

/// Prepares them, and the database.
///
/// # Errors
/// If SQLite fails.
pub fn updates(on: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let rows = Rows::of(sizes);
    let (database, beside) = (on.join("large"), server::directory()?);
    let fill = format!(
        "pragma journal_mode=off; pragma synchronous=off; create table t(a integer primary key, b \
         text); with recursive n(a) as (select 1 union all select a+1 from n where a<{}) insert \
         into t select a, hex(randomblob({})) from n; pragma journal_mode=wal;",
        rows.count(),
        ROW_BYTES / 2
    );
    run(Command::new("sqlite3").arg("-batch").arg("-bail").arg(&database).arg(fill))?;
    // What was there before is not written back in the time that counts.
    File::open(&database)?.sync_all()?;
    Ok(Box::new(Updates { database, rows, commits: commits_of(sizes), beside }))
}

impl Workload for Updates {
    fn batch_ops(&self) -> u64 {
        self.commits
    }

    fn prepare(&mut self, ops: u64) -> Result<()> {
        let script = format!("pragma synchronous=full;\n{}", self.rows.updates("t", ops));
        fs::write(self.beside.path().join("script"), script).context("writing a script")
    }

    fn run(&mut self, _ops: u64) -> Result<()> {
        let script = File::open(self.beside.path().join("script"))?;
        let mut command = Command::new("sqlite3");
        command.arg("-batch").arg("-bail").arg(&self.database).stdin(Stdio::from(script));
        run(&mut command).map(drop)
    }
}
