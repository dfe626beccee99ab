//! What `terrace simulate` predicts, beside what is measured: each program is recorded on a volume
//! with room for all in PM. From that trace, the time that it spends in operations with a small PM
//! is predicted, and then measured on such a volume.
//!
//! The costs of the engine come from that recording, and from one of a program that uses the disk.
//! Nothing of the run that is predicted goes into its prediction.

mod programs;
mod record;

use anyhow::Result;
use terrace_media::DeviceModel;
use terrace_policy::Params;
use terrace_simulate::{Calibration, Config, Cost, Costs, Replay, Work};
use terrace_trace::{Facts, Reader, Record};

use crate::median::median;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::Room;
use record::{Bare, Program, record};

const ROCKSDB: &str = "simulated: RocksDB fillrandom and overwrite, predicted vs measured time";
const VARMAIL: &str = "simulated: varmail, predicted vs measured time";
const BUILD: &str = "simulated: build, predicted vs measured time";
const MAIL_DAY: &str = "simulated: a mail server's day, predicted vs measured time";

/// All rows.
pub const ROWS: &[&str] = &[ROCKSDB, VARMAIL, BUILD, MAIL_DAY];

/// Of the measured time, the prediction is to be no less and no more.
const REACH: std::ops::RangeInclusive<f64> = 0.85..=1.15;
const DISK: &str = "sata-ssd";
/// More than any of the programs needs.
const LARGE_PM_BYTES: u64 = 512 << 20;
const CALIBRATION_PM_BYTES: u64 = 8 << 20;
const CALIBRATION_CACHE_BYTES: u64 = 16 << 20;

/// A program, with the size of the small PM and of the page cache in MiB.
const PROGRAMS: [(&str, Program, u64, u64); ROWS.len()] = [
    (ROCKSDB, programs::rocksdb, 16, 16),
    (VARMAIL, programs::varmail, 8, 8),
    (BUILD, programs::build, 6, 4),
    (MAIL_DAY, programs::mail_day, 32, 8),
];

/// What it needs.
pub fn room(_: &Options) -> Room {
    Room { shm: LARGE_PM_BYTES + (256 << 20), cached: 256 << 20, disk: 0 }
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let less = if options.quick { 50 } else { 1 };
    let disk: DeviceModel = DISK.parse()?;
    progress.step("calibrating");
    let of_disk = calibrate(disk, less)?;
    let mut rows = Vec::new();
    for (name, program, pm_mib, cache_mib) in PROGRAMS {
        if !options.selects(name) {
            continue;
        }
        progress.step(name);
        let (params, cache_bytes) = (Params::default(), cache_mib << 20);
        let large =
            Bare { pm_bytes: LARGE_PM_BYTES, pm_full_percent: 90, cache_bytes, disk, params };
        let small = Bare { pm_bytes: pm_mib << 20, ..large.clone() };
        let (mut predicted, mut measured, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let rounds = options.rounds.min(ROUNDS_MAX);
        for round in 1..=rounds {
            progress.round(round, rounds);
            let outcome = predict(&large, &small, program, less, &of_disk);
            match outcome {
                Ok((predicted_ms, measured_ms)) => {
                    ratios.push(predicted_ms / measured_ms);
                    predicted.push(predicted_ms);
                    measured.push(measured_ms);
                }
                Err(error) if crate::interrupt::requested() => return Err(error),
                // A program that is not there keeps no other from running.
                Err(error) => {
                    rows.push(Row::not_measured(name.to_owned(), format!("{error:#}")));
                    break;
                }
            }
        }
        if ratios.len() == rounds as usize {
            rows.push(row(name, &measured, &predicted, &ratios));
        }
    }
    Ok(rows)
}

/// A round takes half a minute.
const ROUNDS_MAX: u32 = 3;

fn row(name: &str, measured: &[f64], predicted: &[f64], ratios: &[f64]) -> Row {
    let (measured, predicted) = (median(measured), median(predicted));
    let unit = Unit::Milliseconds;
    let reach = Some(*REACH.start());
    Row::new(name.to_owned(), unit, measured, predicted, 1.0, reach)
        .at_most(*REACH.end())
        .with_ratios(ratios)
}

/// What is learnt of a trace.
type Known = [Option<Cost>; Work::ALL.len()];

/// What the engine costs where the disk is used.
fn calibrate(disk: DeviceModel, less: u64) -> Result<Known> {
    let (pm_bytes, cache_bytes) = (CALIBRATION_PM_BYTES, CALIBRATION_CACHE_BYTES);
    let pm_full_percent = 0;
    let bare = Bare { pm_bytes, pm_full_percent, cache_bytes, disk, params: Params::default() };
    let (facts, records) = read(&record(bare, programs::calibration, less)?)?;
    Ok(learn(Config::new(&facts, disk), &records))
}

fn learn(recorded: Config, records: &[Record]) -> Known {
    let mut calibration = Calibration::new(recorded);
    records.iter().for_each(|record| calibration.push(record));
    calibration.finish()
}

/// Predicted and measured time in operations, in milliseconds.
fn predict(
    large: &Bare,
    small: &Bare,
    program: Program,
    less: u64,
    of_disk: &Known,
) -> Result<(f64, f64)> {
    let (facts, records) = read(&record(large.clone(), program, less)?)?;
    let recorded = Config::new(&facts, large.disk);
    let costs = Costs::learnt(&[learn(recorded.clone(), &records), *of_disk]);
    let mut replay = Replay::new(Config { pm_bytes: small.pm_bytes, costs, ..recorded });
    records.iter().for_each(|record| replay.push(record, &mut |_| {}));
    replay.finish(&mut |_| {});
    let (_, measured) = read(&record(small.clone(), program, less)?)?;
    let measured_ns: u64 = measured.iter().map(|record| record.took_ns).sum();
    Ok((replay.outcome().io_ns as f64 / 1e6, measured_ns as f64 / 1e6))
}

fn read(trace: &[u8]) -> Result<(Facts, Vec<Record>)> {
    let mut reader = Reader::new(trace)?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block)? {
        all.append(&mut block);
    }
    Ok((reader.facts().clone(), all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_may_be_neither_too_low_nor_too_high() {
        let of = |ratio: f64| row(BUILD, &[100.0], &[100.0 * ratio], &[ratio]).met;
        assert_eq!([0.84, 0.86, 1.14, 1.16].map(of), [false, true, true, false].map(Some));
        let row = row(BUILD, &[90.0, 100.0, 120.0], &[95.0, 99.0, 110.0], &[1.0, 0.9, 1.1]);
        assert_eq!((row.baseline, row.ours, row.ratio), (Some(100.0), 99.0, Some(1.0)));
    }
}
