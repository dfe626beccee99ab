//! Programs that know nothing of Terrace, run directly and otherwise: this one in another role,
//! which makes plain calls of the C library, and SQLite. (RocksDB is in `rocksdb`.)
//!
//! The role times itself, so starting a process is not in its figures.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use crate::daemon::directly;
use crate::files::OnFiles;
use crate::kernel::run;
use crate::workload::{Sizes, Workload};

const BLOCK_BYTES: usize = 4096;
const RECORD_BYTES: usize = 128;
/// Blocks of the file that is read and overwritten.
const BLOCKS: u64 = 4096;
const OPS_MIN: u64 = 1000;
const OPS_MAX: u64 = 2_000_000;
/// The first argument of a process in that role.
const ROLE: &str = "make-calls";

/// What the role does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Call {
    /// pwrite of a block at a random place, fdatasync.
    Overwrite,
    /// pread of a block at a random place.
    Read,
    /// write of a record to the end, fdatasync.
    Append,
    /// open of a new file, write of a block, close.
    Create,
}

/// The role.
#[derive(Debug, Parser)]
pub struct Calls {
    call: Call,
    ops: u64,
    directory: PathBuf,
}

/// The calls that this process was started for, if it was.
pub fn asked_for() -> Option<Calls> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    (arguments.first()? == ROLE).then(|| Calls::parse_from(arguments))
}

impl Calls {
    /// Makes them, and prints the seconds that they took.
    ///
    /// # Errors
    /// That of a call.
    pub fn make(&self) -> Result<()> {
        let seconds = match self.call {
            Call::Overwrite | Call::Read => self.on_blocks()?,
            Call::Append => self.append()?,
            Call::Create => self.create()?,
        };
        println!("{}", seconds.as_secs_f64());
        Ok(())
    }

    fn on_blocks(&self) -> Result<Duration> {
        let path = self.directory.join("blocks");
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let (mut block, mut rng) = ([7; BLOCK_BYTES], fastrand::Rng::with_seed(7));
        for number in file.metadata()?.len() / BLOCK_BYTES as u64..BLOCKS {
            file.write_all_at(&block, number * BLOCK_BYTES as u64)?;
            // So that they are in PM.
            file.sync_data()?;
        }
        let start = Instant::now();
        for _ in 0..self.ops {
            let at = rng.u64(..BLOCKS) * BLOCK_BYTES as u64;
            if self.call == Call::Read {
                file.read_exact_at(&mut block, at)?;
            } else {
                file.write_all_at(&block, at)?;
                file.sync_data()?;
            }
        }
        Ok(start.elapsed())
    }

    fn append(&self) -> Result<Duration> {
        let mut file = File::create(self.directory.join("records"))?;
        let start = Instant::now();
        for _ in 0..self.ops {
            file.write_all(&[7; RECORD_BYTES])?;
            file.sync_data()?;
        }
        Ok(start.elapsed())
    }

    fn create(&self) -> Result<Duration> {
        let directory = self.directory.join("new");
        fs::create_dir(&directory)?;
        // The library knows a mount from the first file on.
        let mut known = File::create(directory.join("known"))?;
        (0..8).try_for_each(|_| known.write_all(&[7; RECORD_BYTES]))?;
        let names: Vec<PathBuf> =
            (0..self.ops).map(|number| directory.join(number.to_string())).collect();
        let start = Instant::now();
        for name in &names {
            File::create(name)?.write_all(&[7; BLOCK_BYTES])?;
        }
        let spent = start.elapsed();
        drop(known);
        fs::remove_dir_all(&directory)?;
        Ok(spent)
    }
}

/// Runs the role.
struct Role {
    call: Call,
    is_direct: bool,
    directory: PathBuf,
    ops: u64,
    ops_max: u64,
    round: Duration,
    spent: Duration,
}

impl Workload for Role {
    fn batch_ops(&self) -> u64 {
        self.ops
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let ours = std::env::current_exe().context("finding this program")?;
        let mut command = directly(self.is_direct, &ours)?;
        let call = self.call.to_possible_value().context("a name")?;
        command.args([ROLE, call.get_name(), &ops.to_string()]).arg(&self.directory);
        let printed = run(&mut command)?;
        let seconds: f64 = printed.trim().parse().with_context(|| format!("seconds: {printed}"))?;
        self.spent = Duration::from_secs_f64(seconds);
        // A little more than a round, so that one run does.
        let fill = 1.1 * self.round.as_secs_f64() * ops as f64 / seconds.max(1e-6);
        self.ops = (fill as u64).clamp(OPS_MIN.min(self.ops_max), self.ops_max);
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }
}

fn role(call: Call, is_direct: bool, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let ops_max = match call {
        Call::Append => (sizes.appended_bytes_max / RECORD_BYTES as u64).min(OPS_MAX),
        Call::Create => 2000,
        Call::Overwrite | Call::Read => OPS_MAX,
    };
    let (directory, ops) = (directory.to_owned(), OPS_MIN.min(ops_max));
    let (round, spent) = (sizes.round, Duration::ZERO);
    let mut role = Role { call, is_direct, directory, ops, ops_max, round, spent };
    // So that the first round is as long as the others.
    (0..2).try_for_each(|_| role.run(role.ops))?;
    Ok(Box::new(role))
}

/// Commits of SQLite with full synchronisation, a row each.
struct Commits {
    journal: &'static str,
    is_direct: bool,
    directory: PathBuf,
    commits: u64,
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
        let mut command = directly(self.is_direct, Path::new("sqlite3"))?;
        command.arg("-batch").arg("-bail").arg(self.directory.join("db"));
        command.stdin(Stdio::from(File::open(self.directory.join("script"))?));
        run(&mut command).map(drop)
    }
}

fn commits(
    journal: &'static str,
    is_direct: bool,
    on: &Path,
    sizes: Sizes,
) -> Result<Box<dyn Workload>> {
    // Many beside the start of the program, but in a run that only tries things out.
    let commits = (sizes.round.as_millis() as u64 * 5).clamp(50, 2000);
    Ok(Box::new(Commits { journal, is_direct, directory: on.to_owned(), commits }))
}

/// One program, directly and otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Both {
    /// Under `terrace run`.
    pub direct: OnFiles,
    /// By itself.
    pub plain: OnFiles,
}

/// Declares programs, each made by a function from what it does, whether it is direct, where, and
/// how much.
macro_rules! both {
    ($($(#[$meta:meta])* $name:ident = $make:ident($what:expr);)*) => {$(
        $(#[$meta])*
        pub const $name: Both = Both {
            direct: |directory, sizes| $make($what, true, directory, sizes),
            plain: |directory, sizes| $make($what, false, directory, sizes),
        };
    )*};
}

both! {
    /// 4 KiB pwrite at a random place, and fdatasync.
    OVERWRITE = role(Call::Overwrite);
    /// 4 KiB pread at a random place.
    READ = role(Call::Read);
    /// 128 bytes written to the end, and fdatasync.
    APPEND = role(Call::Append);
    /// A new file of 4 KiB.
    CREATE = role(Call::Create);
    /// SQLite's commits, by the mode of its journal.
    SQLITE_WAL = commits("wal");
    /// See [`SQLITE_WAL`].
    SQLITE_PERSIST = commits("persist");
    /// See [`SQLITE_WAL`].
    SQLITE_DELETE = commits("delete");
}
