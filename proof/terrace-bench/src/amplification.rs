//! Bytes written to the disk for each byte that a program writes, on a volume with a small PM:
//! whether rules that let data go past a full PM, or leave it later, wear the disk.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use terrace_engine::{OpenOptions, Volume};

use crate::files::OnFiles;
use crate::loads;
use crate::median::median;
use crate::options::Options;
use crate::passing::{RULES_OFF, Settings, on_mount, params};
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::rocksdb;
use crate::stage::{Room, small_pm_bytes};
use crate::workload::{CACHE_BYTES, Sizes};

const ROCKSDB: &str =
    "wear: RocksDB fillrandom of a database, sync, bytes to the disk vs with rules off";
const VARMAIL: &str = "wear: varmail, bytes to the disk vs with rules off";

/// All rows.
pub const ROWS: &[&str] = &[ROCKSDB, VARMAIL];

const ROUNDS_MAX: u32 = 3;
/// The rules must not cost the disk anything.
const REACH: f64 = 1.0;
/// Batches of varmail: each of its files is replaced many times.
const VARMAIL_BATCHES: u64 = 120;

/// With so much to overwrite, a mail server has all of its files, also in a run that only tries
/// things out: more than a small PM holds.
const FILE_BYTES_MIN: u64 = 256 << 20;

/// Three times the smallest PM: some of it has to leave, however slow the machine is.
const DATABASE_BYTES_MIN: u64 = 24 << 20;

fn sizes(options: &Options) -> Sizes {
    let sizes = Sizes::on_mounts(options);
    Sizes {
        file_bytes: sizes.file_bytes.max(FILE_BYTES_MIN),
        database_bytes: sizes.database_bytes.max(DATABASE_BYTES_MIN),
        ..sizes
    }
}

/// What runs on a small PM, for as long as it says much of it.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    make: OnFiles,
    batches: u64,
}

impl Load {
    /// RocksDB, all of a database with its keys in random order.
    pub const ROCKSDB: Self = Self { make: rocksdb::fillrandom_all, batches: 1 };
    /// A mail server.
    pub const VARMAIL: Self = Self { make: loads::varmail, batches: VARMAIL_BATCHES };

    /// Runs it once. `begun` is told when its files are there.
    ///
    /// # Errors
    /// If the file system refuses, or the program is missing.
    pub fn run(
        self,
        root: &Path,
        options: &Options,
        begun: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut workload = (self.make)(root, sizes(options))?;
        let batches = if options.quick { self.batches.div_ceil(20) } else { self.batches };
        let ops = workload.batch_ops() * batches;
        workload.prepare(ops)?;
        begun()?;
        workload.run(ops)
    }
}

/// What a volume with a small PM has: PM, and a disk.
pub fn devices(options: &Options) -> [u64; 2] {
    let sizes = sizes(options);
    [small_pm_bytes(sizes), 8 * sizes.database_bytes.max(sizes.file_bytes)]
}

/// What such a volume needs.
pub fn room(options: &Options) -> Room {
    let ([shm, disk], sizes) = (devices(options), sizes(options));
    Room { shm, cached: sizes.database_bytes.max(sizes.file_bytes), disk }
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let loads = [(ROCKSDB, Load::ROCKSDB), (VARMAIL, Load::VARMAIL)];
    let selected = loads.into_iter().filter(|(name, _)| options.selects(name));
    let row = |(name, load)| match beside(options, progress, load) {
        Ok(rounds) => Ok(row(name, &rounds)),
        Err(error) if crate::interrupt::requested() => Err(error),
        // A program that is not there keeps no other from running.
        Err(error) => Ok(Row::not_measured(name.to_owned(), format!("{error:#}"))),
    };
    selected.map(row).collect()
}

/// Bytes to the disk per byte written: with rules off, and with all of them.
fn row(name: &str, rounds: &[[f64; 2]]) -> Row {
    let side = |side: usize| median(&rounds.iter().map(|round| round[side]).collect::<Vec<_>>());
    let ratios: Vec<f64> = rounds.iter().map(|[off, on]| off / on).collect();
    Row::lower_is_better(name, Unit::BytesPerByte, side(0), side(1), Some(REACH))
        .with_ratios(&ratios)
}

fn beside(options: &Options, progress: &Progress, load: Load) -> Result<Vec<[f64; 2]>> {
    let rounds = options.rounds.min(ROUNDS_MAX);
    let sides: [Settings; 2] = [RULES_OFF, &[]];
    let round = |round| -> Result<[f64; 2]> {
        progress.round(round, rounds);
        let [off, on] = sides.map(|settings| to_disk(options, load, settings));
        Ok([off?, on?])
    };
    (1..=rounds).map(round).collect()
}

/// Bytes written to the disk per byte that programs wrote, on a new volume.
fn to_disk(options: &Options, load: Load, settings: Settings) -> Result<f64> {
    let open = OpenOptions {
        cache_bytes: CACHE_BYTES,
        params: params(settings)?,
        ..OpenOptions::default()
    };
    on_mount(options, devices(options), open, |root, volume| {
        let mut before = [0; 2];
        load.run(root, options, || {
            // What was there before is on its disk before anything counts.
            volume.sync()?;
            before = written(volume)?;
            Ok(())
        })?;
        volume.sync()?;
        let after = written(volume)?;
        let [programs, disk] = [0, 1].map(|of| after[of] - before[of]);
        ensure!(programs > 0 && disk > 0, "{programs} bytes written, {disk} to the disk");
        Ok(disk as f64 / programs as f64)
    })
}

/// Bytes that programs wrote, and bytes written to the disk.
fn written(volume: &Volume) -> Result<[u64; 2]> {
    let wear = volume.stats().wear;
    let disk = wear.devices.iter().find(|device| device.index > 0).context("a disk")?;
    Ok([wear.programs_bytes, disk.written_bytes])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_bytes_are_better() {
        let met = row(VARMAIL, &[[0.5, 0.4], [0.6, 0.6], [0.4, 0.5]]);
        assert_eq!((met.baseline, met.ours, met.ratio), (Some(0.5), 0.5, Some(1.0)));
        assert_eq!((met.met, met.ratio_min, met.ratio_max), (Some(true), 0.8, 1.25));
        assert_eq!(row(VARMAIL, &[[0.4, 0.5]]).met, Some(false));
    }
}
