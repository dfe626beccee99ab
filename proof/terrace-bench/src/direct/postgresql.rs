//! A PostgreSQL server whose data is on a mount, and the transactions of pgbench, by two clients.
//! Each client has a process of the server, and most files are open in several of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::Signal;

use super::role::Way;
use super::server::{self, Counted, Server};
use crate::daemon::directly;
use crate::kernel::run;
use crate::workload::{Sizes, Workload, to_fill};

/// Holds a directory for each version of the server.
const VERSIONS: &str = "/usr/lib/postgresql";
const USER: &str = "bench";
const CLIENTS: u64 = 2;
const OPS_MIN: u64 = 100;
const OPS_MAX: u64 = 50_000;
/// Little, so that it all fits into the PM of a run that tries things out.
const SETTINGS: [&str; 8] = [
    "listen_addresses=",
    "shared_buffers=16MB",
    "min_wal_size=4MB",
    "max_wal_size=16MB",
    "autovacuum=off",
    "fsync=on",
    "synchronous_commit=on",
    "dynamic_shared_memory_type=mmap",
];

/// A program of the newest version that is installed.
fn program(name: &str) -> Result<PathBuf> {
    let versions = std::fs::read_dir(VERSIONS).with_context(|| VERSIONS.to_owned())?;
    let of = versions.filter_map(|version| Some(version.ok()?.path().join("bin").join(name)));
    of.filter(|path| path.exists()).max().with_context(|| format!("{VERSIONS}/*/bin/{name}"))
}

/// A command for root. The server refuses to run as root, so it gets a name space in which root has
/// another number; for the file system it is root still.
fn as_another(way: Way, name: &str) -> Result<Command> {
    let mut command = directly(way == Way::Direct, Path::new("unshare"))?;
    command.args(["--user", "--map-user=1000", "--map-group=1000", "--"]).arg(program(name)?);
    Ok(command)
}

struct Transactions {
    server: Server,
    counted: Counted,
    ops: u64,
    round: Duration,
    spent: Duration,
}

/// A client's command; the server's socket is in `directory`.
fn client(name: &str, directory: &Path) -> Result<Command> {
    let mut command = Command::new(program(name)?);
    command.arg(format!("--host={}", directory.display())).arg(format!("--username={USER}"));
    Ok(command)
}

/// Transactions a second, as pgbench prints them.
fn rate(printed: &str) -> Option<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix("tps = "))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Makes so many transactions; returns their rate.
fn transact(server: &Server, ops: u64) -> Result<f64> {
    let mut command = client("pgbench", server.directory())?;
    command.args(["--no-vacuum", "--protocol=prepared", &format!("--client={CLIENTS}")]);
    command.arg(format!("--transactions={}", ops / CLIENTS)).arg("postgres");
    let printed = run(&mut command)?;
    rate(&printed).with_context(|| format!("pgbench says no rate: {printed}"))
}

impl Workload for Transactions {
    fn batch_ops(&self) -> u64 {
        self.ops
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let server = &self.server;
        let rate = self.counted.during(ops, || transact(server, ops))?;
        self.spent = Duration::from_secs_f64(ops as f64 / rate);
        let fill = to_fill(self.round, ops, self.spent);
        self.ops = fill.next_multiple_of(CLIENTS).clamp(OPS_MIN, OPS_MAX);
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }

    fn note(&self) -> Option<String> {
        self.counted.note()
    }
}

/// Prepares them: a server, and pgbench's tables. Both ways may have one in the same directory.
///
/// # Errors
/// If the server does not start.
pub fn transactions(_: (), way: Way, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let data = format!("--pgdata={}", directory.join(format!("postgresql-{way:?}")).display());
    let mut install = as_another(Way::Plain, "initdb")?;
    install.args([&data, "--no-locale", "--auth=trust", "--no-sync", "--wal-segsize=1"]);
    run(install.arg(format!("--username={USER}")))?;

    let own = server::directory()?;
    let mut command = as_another(way, "postgres")?;
    let data = data.trim_start_matches("--pgdata=");
    command.args(["-D", data, "-k"]).arg(own.path());
    command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    let answers = |directory: &Path| {
        let asked = client("psql", directory)
            .and_then(|mut client| run(client.args(["--command=select 1", "postgres"])));
        asked.is_ok()
    };
    // It ends all of its processes at once.
    let server = Server::start(command, Signal::QUIT, own, answers)?;
    run(client("pgbench", server.directory())?.args(["--initialize", "--quiet", "postgres"]))?;
    let counted = Counted::new(way, directory);
    let (round, spent) = (sizes.round, Duration::ZERO);
    let mut transactions = Transactions { server, counted, ops: OPS_MIN, round, spent };
    // So that the first round is as long as the others.
    transactions.run(OPS_MIN)?;
    Ok(Box::new(transactions))
}

/// Why no server can be run here, if so.
pub fn why_not() -> Option<anyhow::Error> {
    let ran = |name: &&str| {
        as_another(Way::Plain, name).and_then(|mut command| run(command.arg("--version"))).err()
    };
    let missing = |error: anyhow::Error| error.context("is it installed? `scripts/setup.sh bench`");
    ["postgres", "initdb", "pgbench", "psql"].iter().find_map(ran).map(missing)
}
