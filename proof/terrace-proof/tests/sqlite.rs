//! SQLite with full synchronisation, in each journal mode: concurrent writers, and crashes of the
//! daemon while they commit.

use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use terrace_proof::{TestVolume, VolumeSpec, proof, run_with_input, tool, wait_or_kill};

const WRITERS: u64 = 3;

/// Runs SQL in a fresh process and returns what it prints.
fn sql(database: &Path, script: &str) -> Result<String> {
    let script = format!(".bail on\n.timeout 60000\nPRAGMA synchronous = FULL;\n{script}\n");
    run_with_input(Command::new(tool("sqlite3")?).arg("-batch").arg(database), &script)
}

fn create(database: &Path, journal_mode: &str) -> Result<()> {
    let made = sql(
        database,
        &format!(
            "PRAGMA journal_mode = {journal_mode};\n\
             CREATE TABLE log(writer INTEGER, number INTEGER, filler BLOB,
                 PRIMARY KEY(writer, number));\n\
             CREATE INDEX by_filler ON log(filler);"
        ),
    )?;
    ensure!(
        made.trim().eq_ignore_ascii_case(journal_mode),
        "journal mode {made} instead of {journal_mode}"
    );
    Ok(())
}

/// A process that commits numbered rows and prints each number once its commit has returned.
fn writer(database: &Path, journal_mode: &str, writer: u64, rows: u64) -> Result<Child> {
    let mut script = format!(
        ".bail on\n.timeout 60000\n.output /dev/null\nPRAGMA journal_mode = {journal_mode};\n\
         .output stdout\nPRAGMA synchronous = FULL;\n"
    );
    for number in 0..rows {
        script += &format!(
            "INSERT INTO log VALUES({writer}, {number}, randomblob(700)); SELECT {number};\n"
        );
    }
    // Line by line: an acknowledgement that waits in a buffer would come too late.
    let mut child = Command::new("stdbuf")
        .arg("-oL")
        .arg(tool("sqlite3")?)
        .arg("-batch")
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting sqlite3")?;
    let mut stdin = child.stdin.take().context("no stdin")?;
    // A writer that is killed stops reading; that is no error here.
    std::thread::spawn(move || drop(stdin.write_all(script.as_bytes())));
    Ok(child)
}

/// Rows present, as (writer, number); the database must be intact.
fn intact_rows(database: &Path) -> Result<BTreeSet<(u64, u64)>> {
    let health = sql(database, "PRAGMA integrity_check;")?;
    ensure!(health.trim() == "ok", "integrity_check: {health}");
    sql(database, ".separator ' '\nSELECT writer, number FROM log;")?
        .lines()
        .map(|line| {
            let (writer, number) =
                line.split_once(' ').with_context(|| format!("not a row: {line}"))?;
            Ok((writer.parse()?, number.parse()?))
        })
        .collect()
}

fn concurrent_writers(journal_mode: &str) -> Result<()> {
    let mut volume = VolumeSpec::new("sqlite").pm_mib(48).mount()?;
    let database = volume.join("data.db");
    create(&database, journal_mode)?;
    let writers = (0..WRITERS)
        .map(|w| writer(&database, journal_mode, w, 120))
        .collect::<Result<Vec<_>>>()?;
    for child in writers {
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "sqlite3: {}\n{errors}", output.status);
    }
    ensure!(intact_rows(&database)?.len() as u64 == WRITERS * 120, "rows are missing");
    sql(&database, "DELETE FROM log WHERE number % 3 = 0; VACUUM;")?;
    volume.check()?;
    ensure!(
        intact_rows(&database)?.len() as u64 == WRITERS * 80,
        "rows are missing after a remount"
    );
    Ok(())
}

/// Lets writers commit until `enough` rows are acknowledged, then kills the daemon under them.
/// Returns all rows acknowledged by then.
fn commit_until_killed(
    volume: &mut TestVolume,
    database: &Path,
    journal_mode: &str,
    enough: u64,
) -> Result<BTreeSet<(u64, u64)>> {
    let acknowledged = Mutex::new(BTreeSet::new());
    let count = AtomicU64::new(0);
    let mut writers = (0..WRITERS)
        .map(|w| writer(database, journal_mode, w, 100_000))
        .collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| -> Result<()> {
        let mut readers = Vec::new();
        for (number, child) in writers.iter_mut().enumerate() {
            let lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
            let (acknowledged, count) = (&acknowledged, &count);
            readers.push(scope.spawn(move || {
                for line in lines.map_while(std::io::Result::ok) {
                    if let (Ok(row), Ok(mut rows)) = (line.parse::<u64>(), acknowledged.lock()) {
                        rows.insert((number as u64, row));
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }));
        }
        while count.load(Ordering::Relaxed) < enough && !readers.iter().all(|r| r.is_finished()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let killed = volume.kill();
        for child in &mut writers {
            child.kill()?;
            wait_or_kill(child, std::time::Duration::from_secs(30))?;
        }
        killed
    })?;
    ensure!(count.load(Ordering::Relaxed) >= enough, "the writers ended before the crash");
    Ok(acknowledged.into_inner().unwrap_or_default())
}

fn committed_rows_survive(journal_mode: &str) -> Result<()> {
    let mut volume = VolumeSpec::new("sqlite-kill").pm_mib(48).mount()?;
    for round in 0..3 {
        let database = volume.join(&format!("round-{round}.db"));
        create(&database, journal_mode)?;
        let acknowledged =
            commit_until_killed(&mut volume, &database, journal_mode, 150 + 70 * round)?;
        volume.remount()?;
        let present = intact_rows(&database)?;
        let lost: Vec<_> = acknowledged.difference(&present).collect();
        ensure!(lost.is_empty(), "round {round}: committed rows lost (writer, number): {lost:?}");
    }
    volume.check()
}

#[test]
fn writers_with_rollback_journal() {
    proof(|| concurrent_writers("delete"));
}

#[test]
fn writers_with_persistent_journal() {
    proof(|| concurrent_writers("persist"));
}

#[test]
fn writers_with_write_ahead_log() {
    proof(|| concurrent_writers("wal"));
}

#[test]
fn crash_with_rollback_journal() {
    proof(|| committed_rows_survive("delete"));
}

#[test]
fn crash_with_persistent_journal() {
    proof(|| committed_rows_survive("persist"));
}

#[test]
fn crash_with_write_ahead_log() {
    proof(|| committed_rows_survive("wal"));
}
