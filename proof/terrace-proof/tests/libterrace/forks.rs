//! Programs that fork with open files.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use terrace_proof::{pattern, proof};

use crate::program::{direct_calls, volume, worker};

const RECORD: usize = 101;

#[test]
fn parent_and_child_go_on_with_a_file_on_the_mount() {
    proof(|| {
        let mut volume = volume("libterrace-forks")?;
        let mut worker = worker(volume.root())?;
        ensure!(worker.ask("open file rwc")? == Ok(vec![0]));
        ensure!(worker.ask("open other rwc")? == Ok(vec![1]));
        for (handle, count) in [(0, 300), (1, 10)] {
            for seed in 0..count {
                let answer = worker.ask(&format!("{handle} append {RECORD} {seed}"))?;
                ensure!(answer == Ok(vec![seed * RECORD as u64]), "{answer:?}");
            }
        }
        let direct = direct_calls(&mut worker, 0)?;
        ensure!(direct > 250 || !volume.is_mount(), "{direct} calls went direct");
        for round in 150..155 {
            let (at, next) = (2 * round * RECORD as u64, (2 * round + 1) * RECORD as u64);
            let seed = 2 * round;
            let answer = worker.ask(&format!("0 child append {RECORD} {seed}"))?;
            ensure!(answer == Ok(vec![at]), "{answer:?}");
            let answer = worker.ask(&format!("0 append {RECORD} {}", seed + 1))?;
            ensure!(answer == Ok(vec![next]), "{answer:?}");
            let answer = worker.ask("0 child size")?;
            ensure!(answer == Ok(vec![next + RECORD as u64]), "{answer:?}");
            ensure!(worker.ask("1 size")? == Ok(vec![10 * RECORD as u64]));
        }
        ensure!(direct_calls(&mut worker, 0)? == direct, "a file has come back behind a fork");
        // What is opened later goes direct.
        ensure!(worker.ask("open later rwc")? == Ok(vec![2]));
        for seed in 0..100 {
            ensure!(worker.ask(&format!("2 append {RECORD} {seed}"))?.is_ok());
        }
        let direct = direct_calls(&mut worker, 2)?;
        ensure!(direct > 50 || !volume.is_mount(), "{direct} calls went direct");
        worker.finish()?;
        let found = std::fs::read(volume.join("file"))?;
        let expected: Vec<u8> = (0..310).flat_map(|seed| pattern(seed, RECORD)).collect();
        ensure!(found == expected, "{} bytes", found.len());
        volume.check()
    });
}

#[test]
fn a_process_with_threads_forks_amid_their_calls() {
    proof(|| {
        let mut volume = volume("libterrace-storms")?;
        let mut worker = worker(volume.root())?;
        let (threads, each) = (3, 400);
        let mut went_direct = 0;
        for round in 0..20 {
            let name = format!("storm-{round}");
            ensure!(worker.ask(&format!("open {name} rwc"))? == Ok(vec![0]));
            let children = worker.ask(&format!("0 storm {threads} {each} {RECORD}"))?;
            let children = children.ok().and_then(|numbers| numbers.first().copied());
            let count = threads * each + children.context("a storm failed")?;
            went_direct += u64::from(direct_calls(&mut worker, 0)? > 0);
            ensure!(worker.ask("0 close")? == Ok(Vec::new()));
            let found = std::fs::read(volume.join(&name))?;
            ensure!(found.len() as u64 == count * RECORD as u64, "{} bytes", found.len());
            let found: BTreeSet<&[u8]> = found.chunks(RECORD).collect();
            let is_there = |seed| found.contains(pattern(seed, RECORD).as_slice());
            ensure!((0..count).all(is_there), "round {round}: a record is missing");
        }
        ensure!(went_direct > 10 || !volume.is_mount(), "{went_direct} of 20 went direct");
        worker.finish()?;
        volume.check()
    });
}

#[test]
fn a_child_writes_where_its_parent_has_written() {
    proof(|| -> Result<()> {
        let mut volume = volume("libterrace-children")?;
        let mut worker = worker(volume.root())?;
        ensure!(worker.ask("open file rwc")? == Ok(vec![0]));
        ensure!(worker.ask("0 pwrite 0 5000 1")? == Ok(vec![5000]));
        ensure!(worker.ask("0 child usage")? == worker.ask("0 usage")?);
        let answer = worker.ask("0 child pwrite 1000 5000 2")?;
        ensure!(answer == Ok(vec![5000]), "{answer:?}");
        let mut expected = pattern(1, 1000);
        expected.extend(pattern(2, 5000));
        ensure!(std::fs::read(volume.join("file"))? == expected);
        worker.finish()?;
        volume.check()
    });
}
