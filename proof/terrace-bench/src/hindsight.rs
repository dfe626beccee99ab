//! Whether data of new files goes where hindsight would have put it: programs run on a volume with
//! a small PM, which records them, and the trace is replayed with the rules and without them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use terrace_engine::{OpenOptions, Volume};
use terrace_policy::Param;
use terrace_simulate::{Config, Hindsight, Simulation};
use terrace_trace::{Ending, Reader, Writer};

use crate::amplification::{Load, devices};
use crate::median::median;
use crate::options::Options;
use crate::passing::{RULES_OFF, Settings, on_mount, params};
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::workload::CACHE_BYTES;

const ROCKSDB: &str =
    "hindsight: bytes of new files in place, RocksDB fillrandom of a database, sync";
const VARMAIL: &str = "hindsight: bytes of new files in place, varmail";

/// How each load is replayed: what a row's name ends with, the share to reach, thresholds.
const WAYS: [(&str, Option<f64>, Settings); 3] = [
    (" vs all", Some(0.95), &[]),
    (", siblings=0 vs all", None, &[(Param::Siblings, 0)]),
    (", siblings=0 await_bytes=0 lately=0 vs all", None, RULES_OFF),
];

const ROUNDS_MAX: u32 = 3;
/// What is recorded is fetched so often: there is room for far more.
const FETCH_EVERY: Duration = Duration::from_millis(5);
const BLOCK_BYTES_MAX: usize = 512 << 10;
/// The disk in the simulation is one of TPFS's.
const DISK: &str = "optane-ssd";

/// All rows.
pub fn rows() -> Vec<String> {
    let ways = |load: &'static str| WAYS.iter().map(move |(way, ..)| format!("{load}{way}"));
    [ROCKSDB, VARMAIL].into_iter().flat_map(ways).collect()
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, load) in [(ROCKSDB, Load::ROCKSDB), (VARMAIL, Load::VARMAIL)] {
        let names = WAYS.map(|(way, ..)| format!("{name}{way}"));
        if !names.iter().any(|name| options.selects(name)) {
            continue;
        }
        match replayed(options, progress, load) {
            Ok(rounds) => rows.extend(rows_of(names, &rounds)),
            Err(error) if crate::interrupt::requested() => return Err(error),
            // A program that is not there keeps no other from running.
            Err(error) => {
                let why = format!("{error:#}");
                rows.extend(names.map(|name| Row::not_measured(name, why.clone())));
            }
        }
    }
    Ok(rows)
}

/// By round, and within it by way.
fn replayed(options: &Options, progress: &Progress, load: Load) -> Result<Vec<[Hindsight; 3]>> {
    let rounds = options.rounds.min(ROUNDS_MAX);
    let round = |round| -> Result<[Hindsight; 3]> {
        progress.round(round, rounds);
        let trace = recorded(options, load)?;
        let [all, alone, off] = WAYS.map(|(_, _, settings)| replay(&trace, settings));
        Ok([all?, alone?, off?])
    };
    (1..=rounds).map(round).collect()
}

fn rows_of(names: [String; 3], rounds: &[[Hindsight; 3]]) -> Vec<Row> {
    let row = |(way, name): (usize, String)| {
        let of = |hindsight: &[Hindsight; 3]| hindsight[way].right_share().unwrap_or(f64::NAN);
        let shares: Vec<f64> = rounds.iter().map(of).collect();
        let share = median(&shares);
        let last = rounds.last().map_or_else(Hindsight::default, |round| round[way]);
        Row {
            note: Some(format!(
                "MiB of the last round: {} rightly in PM, {} wrongly; {} rightly past it, {} \
                 wrongly",
                last.pm_right_bytes >> 20,
                last.pm_wrong_bytes >> 20,
                last.past_right_bytes >> 20,
                last.past_wrong_bytes >> 20
            )),
            ..Row::new(name, Unit::Share, 1.0, share, share, WAYS[way].1).with_ratios(&shares)
        }
    };
    names.into_iter().enumerate().map(row).collect()
}

/// A trace of the load on a small PM, from its first file on.
fn recorded(options: &Options, load: Load) -> Result<Vec<u8>> {
    let open = OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() };
    on_mount(options, devices(options), open, |root, volume| {
        record(volume, || load.run(root, options, || Ok(())))
    })
}

/// Records what the volume is asked to do while `work` goes on.
fn record(volume: &Arc<Volume>, work: impl FnOnce() -> Result<()> + Send) -> Result<Vec<u8>> {
    let recording = volume.start_recording()?;
    let mut trace = Writer::new(Vec::new(), &recording.facts)?;
    let is_over = AtomicBool::new(false);
    let mut fetch = |stop: bool| -> Result<u64> {
        loop {
            let recorded = volume.take_recorded(recording.token, stop, BLOCK_BYTES_MAX)?;
            if recorded.block.is_empty() {
                return Ok(recorded.lost);
            }
            trace.append_block(&recorded.block)?;
        }
    };
    let lost = std::thread::scope(|scope| -> Result<u64> {
        let worker = scope.spawn(|| {
            let outcome = work();
            is_over.store(true, Ordering::Release);
            outcome
        });
        while !is_over.load(Ordering::Acquire) && !worker.is_finished() {
            fetch(false)?;
            std::thread::sleep(FETCH_EVERY);
        }
        worker.join().map_err(|_| anyhow!("the thread of the load panicked"))??;
        fetch(true)
    })?;
    ensure!(lost == 0, "{lost} operations were not recorded");
    Ok(trace.finish(Ending::Asked, lost)?)
}

/// What a simulated volume like the recorded one did with these thresholds.
fn replay(trace: &[u8], settings: Settings) -> Result<Hindsight> {
    let mut reader = Reader::new(trace)?;
    let config = Config { params: params(settings)?, ..Config::new(reader.facts(), DISK.parse()?) };
    let (mut simulation, mut records) = (Simulation::new(config), Vec::new());
    loop {
        let goes_on = reader.next_block(&mut records).context("what was just recorded")?;
        for record in &records {
            simulation.step(record);
        }
        if !goes_on {
            return Ok(simulation.outcome().hindsight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_row_and_only_the_rules_have_a_target() {
        let hindsight = |right, wrong| Hindsight {
            pm_right_bytes: right,
            past_wrong_bytes: wrong,
            ..Hindsight::default()
        };
        let round = [hindsight(96 << 20, 4 << 20), hindsight(1, 1), hindsight(1, 3)];
        let rows = rows_of(WAYS.map(|(way, ..)| format!("load{way}")), &[round]);
        assert_eq!(rows[0].name, "load vs all");
        assert_eq!((rows[0].ours, rows[0].met), (0.96, Some(true)));
        assert_eq!([rows[1].ours, rows[2].ours], [0.5, 0.25]);
        assert!(rows[1..].iter().all(|row| row.met.is_none()));
        assert!(rows[0].note.as_ref().unwrap().contains("96 rightly in PM"));
        assert_eq!(super::rows().len(), 6);
    }
}
