//! Programs that are killed, and daemons that are killed or replaced under them.

use anyhow::{Result, ensure};
use terrace_proof::{Rng, pattern, proof, run};

use crate::program::{direct_calls, volume, worker};
use crate::worker::Worker;

/// Bytes of a record: no part of a page, and no whole number of words.
const RECORD: usize = 101;

fn records(count: u64) -> Vec<u8> {
    (0..count).flat_map(|seed| pattern(seed, RECORD)).collect()
}

#[test]
fn killed_programs_lose_nothing_that_was_acknowledged() {
    proof(|| {
        let mut volume = volume("libterrace-killed")?;
        let mut rng = Rng::new(11);
        for round in 0..30 {
            let name = format!("round-{round}");
            let mut worker = worker(volume.root())?;
            ensure!(worker.ask(&format!("open {name} rwc"))? == Ok(vec![0]));
            let acknowledged = worker.killed_while_it_writes(RECORD, rng.below(1500))?;
            let found = std::fs::read(volume.join(&name))?;
            let least = acknowledged as usize * RECORD;
            let is_prefix = records(acknowledged + 1).starts_with(&found);
            ensure!(
                found.len() >= least && is_prefix,
                "round {round}: {acknowledged} records were acknowledged, {} bytes are there",
                found.len()
            );
        }
        volume.check()
    });
}

/// A file outlives the daemon, and another version's daemon takes it up.
#[test]
fn daemons_die_and_are_replaced() {
    proof(|| {
        let mut volume = volume("libterrace-daemons")?;
        if !volume.has_keeper() {
            return volume.check();
        }
        let mut worker = worker(volume.root())?;
        ensure!(worker.ask("open log rwc")? == Ok(vec![0]));
        let mut seed = 0;
        let mut append = |worker: &mut Worker, count: u64| -> Result<()> {
            for _ in 0..count {
                let answer = worker.ask(&format!("0 append {RECORD} {seed}"))?;
                ensure!(answer == Ok(vec![seed * RECORD as u64]), "record {seed}: {answer:?}");
                seed += 1;
            }
            Ok(())
        };
        for round in 0..6 {
            append(&mut worker, 150)?;
            match round % 3 {
                0 | 1 => volume.kill_daemon()?,
                _ => drop(run(volume.terrace("upgrade")?.arg(volume.root()))?),
            }
            append(&mut worker, 50)?;
            ensure!(worker.ask("0 sync")? == Ok(Vec::new()));
            let found = std::fs::read(volume.join("log"))?;
            ensure!(found == records((round + 1) * 200), "round {round}: {} bytes", found.len());
        }
        // The last daemon lends files as the first one did.
        let before = direct_calls(&mut worker, 0)?;
        append(&mut worker, 4000)?;
        let direct = direct_calls(&mut worker, 0)? - before;
        ensure!(direct > 1000 || !volume.is_mount(), "{direct} calls went direct");
        ensure!(std::fs::read(volume.join("log"))? == records(5200));
        worker.finish()?;
        volume.check()
    });
}
