//! A MariaDB server whose data is on a mount, and a client that adds rows: a transaction each, by
//! the server's defaults durable when it returns.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::role::Way;
use super::server::{self, Counted, Server};
use crate::daemon::directly;
use crate::kernel::{installed, run};
use crate::workload::{Sizes, Workload, to_fill};

const OPS_MIN: u64 = 50;
const OPS_MAX: u64 = 20_000;
/// Little, so that it all fits into the PM of a run that tries things out.
const SETTINGS: [&str; 6] = [
    "--user=root",
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--innodb-undo-tablespaces=0",
    "--aria-pagecache-buffer-size=8M",
    "--key-buffer-size=4M",
];

/// Starts a server, with its socket and log in a directory that is not on the mount.
fn start(way: Way, data: &Path) -> Result<Server> {
    fs::create_dir(data).with_context(|| format!("creating {}", data.display()))?;
    let data = format!("--datadir={}", data.display());
    let mut install = Command::new(installed("mariadb-install-db"));
    install.arg("--no-defaults").args(SETTINGS).arg(&data);
    // Without it, a host whose name cannot be looked up is refused.
    run(install.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--force"]))?;

    let directory = server::directory()?;
    let mut command = directly(way == Way::Direct, &installed("mariadbd"))?;
    command.arg("--no-defaults").args(SETTINGS).arg(data);
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
        let insert = format!("insert into bench.t(b) values('{}');\n", "x".repeat(100));
        let script = self.server.directory().join("script");
        fs::write(script, insert.repeat(ops as usize)).context("writing a script")
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let directory = self.server.directory();
        self.spent = self.counted.during(ops, || {
            let script = File::open(directory.join("script"))?;
            let start = Instant::now();
            run(client(directory).stdin(Stdio::from(script)))?;
            Ok(start.elapsed())
        })?;
        let (rows, done) = (sql(directory, "select count(*) from bench.t")?, self.counted.ops());
        ensure!(rows.trim() == done.to_string(), "{} rows of {done}", rows.trim());
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
    let server = start(way, &directory.join(format!("mariadb-{way:?}")))?;
    sql(
        server.directory(),
        "create database bench; \
         create table bench.t(a int primary key auto_increment, b text) engine=InnoDB",
    )?;
    let counted = Counted::new(way, directory);
    let (round, spent) = (sizes.round, Duration::ZERO);
    let mut transactions = Transactions { server, counted, ops: OPS_MIN, round, spent };
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
