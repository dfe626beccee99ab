//! MariaDB with its data directory on the mount: transactions, shutdowns, and crashes of the
//! server.

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use terrace_proof::{Scratch, VolumeSpec, proof, run, run_with_input, tool, wait_or_kill};

const START_LIMIT: Duration = Duration::from_secs(120);

/// A server that listens on a socket outside the mount only. Killed when dropped.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start(data: &Path, run_dir: &Scratch) -> Result<Server> {
        let socket = run_dir.join("s.sock");
        let log = run_dir.join("server.log");
        let output = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let process = Command::new(tool("mariadbd")?)
            .args(["--no-defaults", "--skip-networking", "--skip-grant-tables", "--user=root"])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", run_dir.join("pid").display()))
            .args(["--innodb-buffer-pool-size=16M", "--innodb-log-file-size=16M"])
            .args(["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1", "--log-bin=binlog"])
            .args(["--server-id=1", "--aria-pagecache-buffer-size=8M", "--key-buffer-size=4M"])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("starting mariadbd")?;
        let mut server = Server { process, socket };
        let deadline = Instant::now() + START_LIMIT;
        while server.sql("SELECT 1;").is_err() {
            let ended = server.process.try_wait()?;
            if ended.is_some() || Instant::now() > deadline {
                bail!("mariadbd did not start ({ended:?}):\n{}", std::fs::read_to_string(&log)?);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    fn sql(&self, script: &str) -> Result<String> {
        let mut client = Command::new(tool("mariadb")?);
        client.args(["--no-defaults", "--batch", "--skip-column-names", "-u", "root"]);
        run_with_input(client.arg("--socket").arg(&self.socket), script)
    }

    fn shut_down(mut self) -> Result<()> {
        self.sql("SHUTDOWN;")?;
        let status = wait_or_kill(&mut self.process, START_LIMIT)?;
        ensure!(status.success(), "mariadbd ended with {status}");
        Ok(())
    }

    fn kill(mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails only if it has already been waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Adds transactions that move money between accounts, and returns how many rows the log must have.
fn transact(server: &Server, engine_table: &str, first: u64, count: u64) -> Result<u64> {
    let mut script = String::from("USE proof;\n");
    for number in first..first + count {
        let (from, to) = (number % 100, (number * 7 + 1) % 100);
        script += &format!(
            "START TRANSACTION;\n\
             UPDATE account SET balance = balance - 5 WHERE id = {from};\n\
             UPDATE account SET balance = balance + 5 WHERE id = {to};\n\
             INSERT INTO {engine_table} VALUES ({number}, {from}, {to},
                 REPEAT('{number} ', 400));\n\
             COMMIT;\n"
        );
    }
    server.sql(&script)?;
    Ok(first + count)
}

fn healthy(server: &Server, rows: u64) -> Result<()> {
    let check = server.sql("USE proof; CHECK TABLE account, movement EXTENDED;")?;
    for line in check.lines() {
        ensure!(line.ends_with("\tOK"), "CHECK TABLE: {check}");
    }
    let sums = server
        .sql("USE proof; SELECT SUM(balance) FROM account; SELECT COUNT(*) FROM movement;")?;
    let sums: Vec<&str> = sums.lines().collect();
    ensure!(
        sums == ["100000".to_owned(), rows.to_string()],
        "sum and rows {sums:?}, not 100000 and {rows}"
    );
    Ok(())
}

#[test]
fn transactions_shutdowns_and_crashes() {
    proof(|| {
        let install = tool("mariadb-install-db")?;
        let mut volume = VolumeSpec::new("mariadb").pm_mib(128).disk_mib(2048).mount()?;
        let run_dir = Scratch::new("mariadb-run")?;
        let data = volume.join("data");
        run(Command::new(install)
            .args([
                "--no-defaults",
                "--user=root",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                // Without it, a host whose name cannot be looked up is refused.
                "--force",
            ])
            .arg(format!("--datadir={}", data.display())))?;

        let server = Server::start(&data, &run_dir)?;
        server.sql(
            "CREATE DATABASE proof; USE proof;\n\
             CREATE TABLE account(id INT PRIMARY KEY, balance INT) ENGINE=InnoDB;\n\
             INSERT INTO account SELECT seq, 1000 FROM seq_0_to_99;\n\
             CREATE TABLE movement(id INT PRIMARY KEY, source INT, target INT, note TEXT,
                 KEY(source)) ENGINE=InnoDB;\n\
             CREATE TABLE plain(id INT PRIMARY KEY, note TEXT) ENGINE=Aria;\n\
             INSERT INTO plain SELECT seq, REPEAT('x', 500) FROM seq_1_to_2000;",
        )?;
        let mut rows = transact(&server, "movement", 0, 300)?;
        server.shut_down()?;

        volume.check()?;
        let server = Server::start(&data, &run_dir)?;
        healthy(&server, rows)?;
        ensure!(
            server.sql("USE proof; CHECK TABLE plain EXTENDED;")?.trim().ends_with("OK"),
            "Aria table is broken"
        );

        for _ in 0..2 {
            rows = transact(&server, "movement", rows, 100)?;
        }
        server.kill()?;
        let server = Server::start(&data, &run_dir)?;
        healthy(&server, rows)?;
        rows = transact(&server, "movement", rows, 50)?;
        server.sql(
            "USE proof; ALTER TABLE movement ADD COLUMN extra INT DEFAULT 7, FORCE; \
                    OPTIMIZE TABLE account;",
        )?;
        server.kill()?;

        volume.remount()?;
        let server = Server::start(&data, &run_dir)?;
        healthy(&server, rows)?;
        server.shut_down()?;
        volume.check()
    });
}
