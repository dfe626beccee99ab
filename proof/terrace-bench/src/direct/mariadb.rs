//! A MariaDB server whose data is on a mount, and a client that adds rows, or updates those of a
//! large table: a transaction each, by the server's defaults durable when it returns.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::role::Way;
use super::server::{self, Counted, Server};
use super::{ROW_BYTES, Rows};
use crate::daemon::directly;
use crate::kernel::{installed, run};
use crate::stage::small_pm_bytes;
use crate::workload::{Sizes, Workload, to_fill};

const OPS_MIN: u64 = 50;
const OPS_MAX: u64 = 20_000;
/// Least of InnoDB's buffers, and of its log.
const POOL_BYTES_MIN: u64 = 6 << 20;
const LOG_BYTES_MIN: u64 = 4 << 20;

/// How much memory a server takes for InnoDB's buffers, and how long InnoDB's log is.
#[derive(Clone, Copy, Debug)]
struct Buffers {
    pool_bytes: u64,
    log_bytes: u64,
}

/// Little, so that it all fits into the PM of a run that tries things out.
const SMALL: Buffers = Buffers { pool_bytes: 16 << 20, log_bytes: 8 << 20 };

impl Buffers {
    /// As much as a small PM has, and a log of half of that.
    fn of_small_pm(sizes: Sizes) -> Self {
        let pool_bytes = small_pm_bytes(sizes).max(POOL_BYTES_MIN);
        Self { pool_bytes, log_bytes: (pool_bytes / 2).max(LOG_BYTES_MIN) }
    }

    fn settings(self) -> [String; 6] {
        let Self { pool_bytes, log_bytes } = self;
        [
            "--user=root".into(),
            format!("--innodb-buffer-pool-size={pool_bytes}"),
            format!("--innodb-log-file-size={log_bytes}"),
            "--innodb-undo-tablespaces=0".into(),
            "--aria-pagecache-buffer-size=8M".into(),
            "--key-buffer-size=4M".into(),
        ]
    }
}

/// Starts a server, with its socket and log in a directory that is not on the mount.
fn start(way: Way, data: &Path, buffers: Buffers) -> Result<Server> {
    fs::create_dir(data).with_context(|| format!("creating {}", data.display()))?;
    let data = format!("--datadir={}", data.display());
    let mut install = Command::new(installed("mariadb-install-db"));
    install.arg("--no-defaults").args(buffers.settings()).arg(&data);
    // Without it, a host whose name cannot be looked up is refused.
    run(install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--force"]))?;

    let directory = server::directory()?;
    let mut command = directly(way == Way::Direct, &installed("mariadbd"))?;
    command.arg("--no-defaults").args(buffers.settings()).arg(data);
    command
        .args(["--skip-networking", "--skip-grant-tables"])
        .arg(format!("--socket={}", directory.path().join("socket").display()))
        .arg(format!("--pid-file={}", directory.path().join("pid").display()));
    Server::start(command, Signal::KILL, directory, |of| sql(of, "select 1").is_ok())
}

/// A client of the server whose socket is there.
fn client(directory: &Path) -> Command {
    let mut client = Command::new("mariadb");
    client
        .args(["--no-defaults", "--batch", "--skip-column-names", "--user=root"])
        .arg(format!("--socket={}", directory.join("socket").display()));
    client
}

fn sql(directory: &Path, statements: &str) -> Result<String> {
    run(client(directory).args(["--execute", statements]).stdin(Stdio::null()))
}

struct Transactions {
    server: Server,
    /// Of a large table, whose rows are updated; without one, rows are added.
    rows: Option<Rows>,
    counted: Counted,
    ops: u64,
    round: Duration,
    spent: Duration,
}

impl Workload for Transactions {
    fn batch_ops(&self) -> u64 {
        self.ops
    }

    fn prepare(&mut self, ops: u64) -> Result<()> {
        let insert = || format!("insert into bench.t(b) values('{}');\n", "x".repeat(100));
        let statements = match &mut self.rows {
            Some(rows) => rows.updates("bench.t", ops),
            None => insert().repeat(ops as usize),
        };
        let script = self.server.directory().join("script");
        fs::write(script, statements).context("writing a script")
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let directory = self.server.directory();
        self.spent = self.counted.during(ops, || {
            let script = File::open(directory.join("script"))?;
            let start = Instant::now();
            run(client(directory).stdin(Stdio::from(script)))?;
            Ok(start.elapsed())
        })?;
        if self.rows.is_none() {
            check_rows(directory, self.counted.ops())?;
        }
        self.ops = to_fill(self.round, ops, self.spent).clamp(OPS_MIN, OPS_MAX);
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }

    fn note(&self) -> Option<String> {
        self.counted.note()
    }
}

/// Prepares them: a server, and a table. Both ways may have one in the same directory.
///
/// # Errors
/// If the server does not start.
pub fn transactions(_: (), way: Way, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let server = start(way, &directory.join(format!("mariadb-{way:?}")), SMALL)?;
    sql(server.directory(), TABLE)?;
    ready(server, None, Counted::new(way, directory), sizes)
}

/// A database, and a table.
const TABLE: &str = "create database bench; \
     create table bench.t(a int primary key auto_increment, b text) engine=InnoDB";

/// Prepares updates of a table of as many bytes as a database of `sizes` has, by a server with as
/// much memory as a small PM.
///
/// # Errors
/// If the server does not start.
pub fn updates(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let buffers = Buffers::of_small_pm(sizes);
    let server = start(Way::Plain, &directory.join("mariadb-large"), buffers)?;
    sql(server.directory(), TABLE)?;
    let rows = Rows::of(sizes);
    let fill = format!(
        "insert into bench.t select seq, repeat('x', {ROW_BYTES}) from bench.seq_1_to_{}",
        rows.count()
    );
    sql(server.directory(), &fill)?;
    check_rows(server.directory(), rows.count())?;
    ready(server, Some(rows), Counted::new(Way::Plain, directory), sizes)
}

fn check_rows(directory: &Path, expected: u64) -> Result<()> {
    let rows = sql(directory, "select count(*) from bench.t")?;
    ensure!(rows.trim() == expected.to_string(), "{} rows of {expected}", rows.trim());
    Ok(())
}

fn ready(
    server: Server,
    rows: Option<Rows>,
    counted: Counted,
    sizes: Sizes,
) -> Result<Box<dyn Workload>> {
    let (round, spent) = (sizes.round, Duration::ZERO);
    let mut transactions = Transactions { server, rows, counted, ops: OPS_MIN, round, spent };
    // So that the first round is as long as the others.
    transactions.prepare(OPS_MIN)?;
    transactions.run(OPS_MIN)?;
    Ok(Box::new(transactions))
}

/// Why no server can be run here, if so.
pub fn why_not() -> Option<anyhow::Error> {
    let programs = ["mariadbd", "mariadb", "mariadb-install-db"].map(installed);
    // The last one knows no option that only prints something.
    let missing = programs[2].parent().is_none_or(|parent| parent.as_os_str().is_empty());
    let ran = |program: &PathBuf| run(Command::new(program).arg("--version")).err();
    programs[..2].iter().find_map(ran).or_else(|| {
        missing.then(|| {
            anyhow::anyhow!("{} is missing: `scripts/setup.sh bench`", programs[2].display())
        })
    })
}
