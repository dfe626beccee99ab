//! Direct programs that are killed or stopped at any moment, and daemons that are killed or
//! replaced under them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Signal, kill_process};
use terrace_proof::{Rng, Scratch, pattern, proof};

use crate::worker::{Worker, direct_calls, lending};

/// Bytes of a record: no part of a page, and no whole number of words.
const RECORD: usize = 101;
/// A daemon that is stopped for longer ends, and with it what waits for it.
const LIMIT: Duration = Duration::from_secs(60);

/// Records that were appended to a file, by their seeds.
fn records(file: &Path) -> Result<BTreeMap<u64, usize>> {
    let bytes = std::fs::read(file)?;
    ensure!(bytes.len().is_multiple_of(RECORD), "{} bytes are no records", bytes.len());
    let mut found = BTreeMap::new();
    let by_bytes: BTreeMap<Vec<u8>, u64> = (0..6000).map(|s| (pattern(s, RECORD), s)).collect();
    for record in bytes.chunks(RECORD) {
        let seed = by_bytes.get(record).context("a record is torn")?;
        *found.entry(*seed).or_default() += 1;
    }
    Ok(found)
}

#[test]
fn killed_writers_lose_nothing_that_was_acknowledged() {
    proof(|| {
        let mut volume = lending("direct-killed")?;
        let scratch = Scratch::new("direct-killed-reports")?;
        let mut rng = Rng::new(7);
        for round in 0..40 {
            let name = format!("round-{round}");
            let mut worker = Worker::start(volume.root(), Some(&scratch.join("report")))?;
            let letters = if rng.one_in(2) { "ac" } else { "wc" };
            let opened = worker.ask(&format!("open {name} {letters}"))?;
            ensure!(opened == Ok(vec![0]), "{opened:?}");
            let acknowledged = worker.killed_while_it_writes(RECORD, rng.below(800))?;
            let found = std::fs::read(volume.join(&name))?;
            let expected: Vec<u8> =
                (0..acknowledged + 1).flat_map(|seed| pattern(seed, RECORD)).collect();
            let (least, most) = (acknowledged as usize * RECORD, expected.len());
            ensure!(
                (least..=most).contains(&found.len()) && expected.starts_with(&found),
                "round {round}: {acknowledged} records were acknowledged, {} bytes are there",
                found.len()
            );
        }
        volume.check()
    });
}

/// Both write to the file, each its own part, and the one that was stopped goes on.
#[test]
fn a_stopped_writer_keeps_nobody_waiting() {
    proof(|| {
        let mut volume = lending("direct-stopped")?;
        let scratch = Scratch::new("direct-stopped-reports")?;
        let report = scratch.join("report");
        let mut rng = Rng::new(8);
        let mut direct = Worker::start(volume.root(), Some(&report))?;
        for round in 0..60_u64 {
            let name = format!("round-{round}");
            ensure!(direct.ask(&format!("open {name} wc"))? == Ok(vec![0]));
            let writes = 20 + rng.below(60);
            for seed in 0..writes {
                direct.send(&format!("0 pwrite 0 {RECORD} {}", round * 100 + seed))?;
            }
            std::thread::sleep(Duration::from_micros(rng.below(2000)));
            direct.signal(Signal::STOP)?;
            let mut other = Worker::start(volume.root(), None)?;
            ensure!(other.ask(&format!("open {name} rwc"))? == Ok(vec![0]));
            let written = other.ask(&format!("0 pwrite 4096 {RECORD} {round}"))?;
            ensure!(written == Ok(vec![RECORD as u64]), "{written:?}");
            other.finish()?;
            direct.signal(Signal::CONT)?;
            for _ in 0..writes {
                let answer = direct.answer()?;
                ensure!(answer == Ok(vec![RECORD as u64]), "round {round}: {answer:?}");
            }
            ensure!(direct.ask("0 close")? == Ok(Vec::new()));
            let found = std::fs::read(volume.join(&name))?;
            let last = pattern(round * 100 + writes - 1, RECORD);
            ensure!(found.len() == 4096 + RECORD, "{} bytes", found.len());
            ensure!(found[..RECORD] == last, "round {round}: the stopped one's last write");
            ensure!(found[4096..] == pattern(round, RECORD), "round {round}: the other's write");
        }
        direct.finish()?;
        let direct = direct_calls(&report)?;
        ensure!(direct > 500, "{direct} calls went direct");
        volume.check()
    });
}

#[test]
fn records_of_several_appenders_are_there_once() {
    proof(|| {
        let mut volume = lending("direct-appenders")?;
        let scratch = Scratch::new("direct-appenders-reports")?;
        let report = scratch.join("report");
        let each = 1000;
        let reports = [None, Some(report.as_path()), Some(report.as_path())];
        let appenders = reports.iter().enumerate().map(|(number, report)| {
            let mut worker = Worker::start(volume.root(), *report)?;
            Ok(std::thread::spawn(move || -> Result<()> {
                let mut rng = Rng::new(number as u64);
                let mut seed = number as u64;
                while seed < 3 * each {
                    ensure!(worker.ask("open log ac")? == Ok(vec![0]));
                    for _ in 0..rng.below(50) {
                        let answer = worker.ask(&format!("0 write {RECORD} {seed}"))?;
                        ensure!(answer == Ok(vec![RECORD as u64]), "{answer:?}");
                        seed += 3;
                    }
                    ensure!(worker.ask("0 close")? == Ok(Vec::new()));
                }
                worker.finish()
            }))
        });
        for appender in appenders.collect::<Result<Vec<_>>>()? {
            appender.join().expect("no appender panics")?;
        }
        let found = records(&volume.join("log"))?;
        ensure!(found.values().all(|&count| count == 1), "a record is there twice");
        let is_there = |seed: u64| found.contains_key(&seed);
        ensure!((0..3 * each).all(is_there), "a record is missing");
        volume.check()
    });
}

/// Files that are lent outlive the daemon, and another version's daemon takes them up.
#[test]
fn daemons_die_and_are_replaced_under_direct_writers() {
    proof(|| {
        let mut volume = lending("direct-daemons")?;
        if !volume.has_keeper() {
            return volume.check();
        }
        let scratch = Scratch::new("direct-daemons-reports")?;
        let report = scratch.join("report");
        let mut worker = Worker::start(volume.root(), Some(&report))?;
        ensure!(worker.ask("open log rac")? == Ok(vec![0]));
        let mut seed = 0;
        let mut append = |worker: &mut Worker, count: u64| -> Result<()> {
            let first = seed;
            for _ in 0..count {
                worker.send(&format!("0 write {RECORD} {seed}"))?;
                seed += 1;
            }
            for _ in first..seed {
                let answer = worker.answer()?;
                ensure!(answer == Ok(vec![RECORD as u64]), "record {seed}: {answer:?}");
            }
            Ok(())
        };
        for round in 0..6 {
            append(&mut worker, 150)?;
            match round % 3 {
                0 | 1 => volume.kill_daemon()?,
                _ => drop(terrace_proof::run(volume.terrace("upgrade")?.arg(volume.root()))?),
            }
            append(&mut worker, 50)?;
            let size = std::fs::metadata(volume.join("log"))?.len();
            ensure!(size == (round + 1) * 200 * RECORD as u64, "round {round}: {size} bytes");
        }
        // The last daemon lends files as the first one did.
        append(&mut worker, 4000)?;
        worker.finish()?;
        let found = records(&volume.join("log"))?;
        ensure!(found.len() == 5200 && found.values().all(|&count| count == 1), "{found:?}");
        let direct = direct_calls(&report)?;
        ensure!(direct > 1000, "{direct} calls went direct");
        volume.check()
    });
}

/// The thread that forks has the connection to the daemon, which another file needs to be given
/// back.
#[test]
fn a_handler_forks_while_its_thread_waits_for_the_daemon() {
    proof(|| {
        let mut volume = lending("direct-fork-in-request")?;
        let scratch = Scratch::new("direct-fork-in-request-reports")?;
        let report = scratch.join("report");
        let mut worker = Worker::start(volume.root(), Some(&report))?;
        worker.expect("forks", &[])?;
        for round in 0..3 {
            worker.expect(&format!("open direct{round} wac"), &[0])?;
            worker.expect(&format!("open asked-for{round} rwc"), &[1])?;
            (0..20).try_for_each(|seed| worker.expect(&format!("0 write 100 {seed}"), &[100]))?;
            // Two writes by messages; with the third one the library asks for the file.
            (0..2).try_for_each(|seed| worker.expect(&format!("1 write 100 {seed}"), &[100]))?;
            let daemon = volume.serving()?;
            let _watch = volume.kill_after(LIMIT);
            kill_process(daemon, Signal::STOP)?;
            worker.send("1 write 100 2")?;
            std::thread::sleep(Duration::from_millis(50));
            worker.signal(Signal::USR1)?;
            std::thread::sleep(Duration::from_millis(50));
            kill_process(daemon, Signal::CONT)?;
            ensure!(worker.answer()? == Ok(vec![100]));
            // Descriptors that a child had, too, stay on the mount, and the kernel knows the size.
            worker.expect("0 write 100 20", &[100])?;
            worker.expect("1 append 100 3", &[100])?;
            worker.expect("0 close", &[])?;
            worker.expect("1 close", &[])?;
            for (name, count) in [("direct", 21), ("asked-for", 4)] {
                let found = std::fs::read(volume.join(&format!("{name}{round}")))?;
                let expected: Vec<u8> = (0..count).flat_map(|seed| pattern(seed, 100)).collect();
                ensure!(found == expected, "{name}: {} bytes", found.len());
            }
        }
        worker.finish()?;
        let direct = direct_calls(&report)?;
        ensure!(direct >= 3 * 15, "{direct} calls went direct");
        volume.check()
    });
}
