//! Many small files on their way between tiers, and from the page cache to a disk: how fast they go
//! together, beside the disk alone.

use std::time::Instant;

use anyhow::{Result, ensure};
use terrace_engine::{Counter, Ino, Volume};
use terrace_policy::Param;

use crate::engine::{BUFFERED, DURABLE, FILE, file_past_pm, write_all};
use crate::interrupt;
use crate::median::median;
use crate::migration::{DISK_BYTES, GROUP_BYTES, Still, measure_disk, run_movers, tune_to_leave};
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::Room;
use crate::workload::{BLOCK_BYTES, FILLING};

const SMALL: &str = "migration: cold files of 16 KiB to disk vs the disk, sequentially";
const BACK: &str = "migration: read files of 16 KiB back to PM vs the disk, sequentially";
const DIRTY: &str = "writeback: dirty files of 16 KiB to disk vs the disk, sequentially";
const ALONE: &str = "writeback: dirty files of 16 KiB to disk vs one file at a time";
/// Of the disk's rate.
const REACH: f64 = 0.6;
const BACK_REACH: f64 = 0.4;

const ALONE_REACH: f64 = 2.0;

/// All rows.
pub const ROWS: &[&str] = &[SMALL, BACK, DIRTY, ALONE];

const FILE_BYTES: usize = 16 << 10;
const ROUNDS: usize = 5;
/// Files that fit into the page cache.
const DIRTY_FILES: usize = 3000;

fn files(options: &Options) -> usize {
    if options.quick { 500 } else { 10_000 }
}

/// Data, a log page and a record of each file, and what the volume needs.
fn pm_bytes(options: &Options) -> u64 {
    let bytes = files(options) * (FILE_BYTES + BLOCK_BYTES + 512) + (64 << 20);
    bytes.next_multiple_of(BLOCK_BYTES) as u64
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    Room { shm: pm_bytes(options), disk: 2 * DISK_BYTES, ..Room::default() }
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let mut still = Still::new("small", pm_bytes(options), options)?;
    let volume = still.bed.volume().clone();
    tune_to_leave(&volume)?;
    let inos = (0..files(options))
        .map(|number| Ok(volume.create(Ino::ROOT, number.to_string().as_bytes(), &FILE)?.ino))
        .collect::<Result<Vec<Ino>>>()?;
    let dirty = (0..files(options).min(DIRTY_FILES))
        .map(|number| file_past_pm(&volume, format!("dirty{number}").as_bytes()))
        .collect::<Result<Vec<Ino>>>()?;
    let bytes = inos.len() * FILE_BYTES;
    let (mut out, mut back) = (Side::default(), Side::default());
    let (mut together, mut alone) = (Side::default(), Side::default());
    let group_bytes = Param::FlushGroup.tunable().default;
    let rounds = if options.quick { 1 } else { ROUNDS };
    for round in 1..=rounds {
        progress.step(&format!("round {round} of {rounds}"));
        interrupt::check()?;
        for &ino in &inos {
            write_all(&volume, ino, 0, &FILLING[..FILE_BYTES], DURABLE)?;
        }
        let disk = measure_disk(still.on_disk.path(), bytes.next_multiple_of(GROUP_BYTES) as u64)?;
        tune_to_leave(&volume)?;
        out.add(migrate(&volume, bytes as u64)?, disk.write);
        back.add(fetch_back(&volume, &inos)?, disk.read);
        let one_at_a_time = write_back(&volume, &dirty, 0)?;
        let rate = write_back(&volume, &dirty, group_bytes)?;
        together.add(rate, disk.write);
        alone.add(rate, one_at_a_time);
    }
    drop(volume);
    still.bed.close()?;
    Ok(vec![
        out.row(SMALL, REACH),
        back.row(BACK, BACK_REACH),
        together.row(DIRTY, REACH),
        alone.row(ALONE, ALONE_REACH),
    ])
}

/// Writes these files, and has them written back; MiB per second of the latter.
fn write_back(volume: &Volume, inos: &[Ino], group_bytes: u64) -> Result<f64> {
    volume.tune(Param::FlushGroup, group_bytes)?;
    for &ino in inos {
        write_all(volume, ino, 0, &FILLING[..FILE_BYTES], BUFFERED)?;
    }
    let before = volume.stats().counters.get(Counter::WrittenBack);
    let begin = Instant::now();
    volume.sync()?;
    let time = begin.elapsed();
    let written = volume.stats().counters.get(Counter::WrittenBack) - before;
    ensure!(written == (inos.len() * FILE_BYTES) as u64, "{written} bytes were written back");
    Ok(written as f64 / f64::from(1 << 20) / time.as_secs_f64())
}

/// Rates of all rounds, MiB per second, and what they are compared with.
#[derive(Default)]
struct Side {
    rates: Vec<f64>,
    baselines: Vec<f64>,
}

impl Side {
    fn add(&mut self, rate: f64, baseline: f64) {
        self.rates.push(rate);
        self.baselines.push(baseline);
    }

    fn row(&self, name: &str, reach: f64) -> Row {
        let ratios: Vec<f64> = self.rates.iter().zip(&self.baselines).map(|(r, b)| r / b).collect();
        let (baseline, rate) = (median(&self.baselines), median(&self.rates));
        Row::new(name.to_owned(), Unit::MibPerSecond, baseline, rate, rate / baseline, Some(reach))
            .with_ratios(&ratios)
    }
}

/// Reads all files, and has what was read come back to PM; MiB per second of that.
fn fetch_back(volume: &Volume, inos: &[Ino]) -> Result<f64> {
    for param in [Param::MigrateMin, Param::MigrateAt, Param::MigrateMax] {
        volume.tune(param, 90)?;
    }
    volume.tune(Param::FlowSeconds, 1)?;
    volume.tune(Param::Settle, 0)?;
    let mut buf = vec![0; FILE_BYTES];
    for &ino in inos {
        volume.read(ino, 0, &mut buf)?;
    }
    let before = volume.stats().counters.get(Counter::MigratedReverse);
    let begin = Instant::now();
    volume.pass_seconds(1);
    let ended = run_movers(volume);
    let time = begin.elapsed();
    let moved = volume.stats().counters.get(Counter::MigratedReverse) - before;
    let bytes = (inos.len() * FILE_BYTES) as u64;
    ensure!(moved >= bytes / 10 * 9, "no more than {moved} bytes have come back: {ended:?}");
    Ok(moved as f64 / f64::from(1 << 20) / time.as_secs_f64())
}

/// Moves all data, or nearly; MiB per second.
fn migrate(volume: &Volume, bytes: u64) -> Result<f64> {
    let before = volume.stats().counters.get(Counter::MigratedWrite);
    let begin = Instant::now();
    let ended = run_movers(volume);
    let time = begin.elapsed();
    let moved = volume.stats().counters.get(Counter::MigratedWrite) - before;
    // Migration ends where PM is no longer fuller than it may be.
    ensure!(moved >= bytes / 10 * 9, "no more than {moved} bytes have left PM: {ended:?}");
    Ok(moved as f64 / f64::from(1 << 20) / time.as_secs_f64())
}
