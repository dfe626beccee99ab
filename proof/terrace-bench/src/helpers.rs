//! Disks that help PM with long writes: files written in long pieces and synced, with the share
//! that goes past PM measured out by the engine, beside the same with helpers switched off. PM has
//! a device model; the disk is as fast as it is.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use terrace_engine::{Counter, Ino, OpenOptions, Volume};
use terrace_media::{DeviceModel, create_disk_file};
use terrace_policy::Param;

use crate::bed::{Bed, DiskKind, Models};
use crate::disk::disk_directory;
use crate::engine::{BUFFERED, FILE, file_past_pm, write_all};
use crate::interrupt;
use crate::median::median;
use crate::options::Options;
use crate::progress::Progress;
use crate::read_migration::ONE_MODULE;
use crate::report::{Row, Unit};
use crate::stage::{Room, memory_directory, new_directory};
use crate::workload::{FILLING, PIECE_BYTES};

const FAST: &str = "engine: files of 16 MiB written and synced, two threads, helpers vs none";
const SLOW: &str = "engine: the same writes, PM of one slow module, helpers vs none";

/// All rows.
pub const ROWS: &[&str] = &[FAST, SLOW];

const THREADS: u64 = 2;
const FILE_BYTES: u64 = 16 << 20;
/// Files of a thread that stay: the oldest goes when another comes.
const KEPT: u64 = 2;
/// So many bytes of PM that nothing has to leave it.
const PM_BYTES: u64 = 256 << 20;
const DISK_BYTES: u64 = 512 << 20;
const CACHE_BYTES: u64 = 128 << 20;
/// Until the share is found, by steps of a second.
const SETTLING: Duration = Duration::from_secs(8);
const ROUND: Duration = Duration::from_secs(2);
/// It is never worse than nothing.
const REACH: f64 = 1.0;

/// What it needs.
pub fn room() -> Room {
    Room { shm: 2 * PM_BYTES, cached: 2 * CACHE_BYTES, disk: 2 * DISK_BYTES }
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let rows = [(FAST, "pm".parse()?), (SLOW, ONE_MODULE)];
    rows.into_iter().map(|(name, model)| beside(options, progress, name, model)).collect()
}

fn beside(options: &Options, progress: &Progress, name: &str, model: DeviceModel) -> Result<Row> {
    let (memory, on_disk) = (memory_directory()?, new_directory(&disk_directory(options)?)?);
    let mut sides = Vec::new();
    for side in ["none", "helpers"] {
        let disk = on_disk.path().join(side);
        create_disk_file(&disk, DISK_BYTES)?;
        let open = OpenOptions { cache_bytes: CACHE_BYTES, ..OpenOptions::default() };
        let disk = DiskKind::Device(disk);
        let models = Models { pm: Some(model), disk: None };
        let bed = Bed::modelled(memory.path(), side, PM_BYTES, &disk, open, models)?;
        if side == "none" {
            bed.volume().tune(Param::Helpers, 0)?;
        }
        sides.push(Side { bed, files: 0 });
    }
    progress.step("settling");
    for side in &mut sides {
        side.seed()?;
        side.rate(SETTLING)?;
    }
    let mut rates = [Vec::new(), Vec::new()];
    let before = sides[1].written();
    for round in 1..=options.rounds {
        progress.round(round, options.rounds);
        for (side, rates) in sides.iter_mut().zip(&mut rates) {
            rates.push(side.rate(ROUND)?);
        }
    }
    let after = sides[1].written();
    let (past, all) = (after.0 - before.0, after.1 - before.1);
    let ratios: Vec<f64> =
        rates[1].iter().zip(&rates[0]).map(|(ours, baseline)| ours / baseline).collect();
    let (baseline, ours) = (median(&rates[0]), median(&rates[1]));
    let row =
        Row::new(name.to_owned(), Unit::MibPerSecond, baseline, ours, ours / baseline, Some(REACH));
    sides.iter_mut().try_for_each(|side| side.bed.close())?;
    let note = format!("{} % past PM", 100 * past / all.max(1));
    Ok(Row { note: Some(note), ..row.with_ratios(&ratios) })
}

struct Side {
    bed: Bed,
    files: u64,
}

impl Side {
    /// Writes a file to the disk, so that its speed is known.
    fn seed(&self) -> Result<()> {
        let volume = self.bed.volume();
        write_file(volume, file_past_pm(volume, b"seed")?)
    }

    /// Bytes written past PM, and in all, so far.
    fn written(&self) -> (u64, u64) {
        let counters = self.bed.volume().stats().counters;
        let [past, pm, cache] = [Counter::PlacedPast, Counter::WrittenPm, Counter::WrittenCache]
            .map(|counter| counters.get(counter));
        (past, pm + cache)
    }

    /// MiB per second by all threads.
    fn rate(&mut self, time: Duration) -> Result<f64> {
        let (begin, first) = (Instant::now(), self.files);
        let volume = self.bed.volume();
        let written = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || write_files(volume, thread, first, time)))
                .collect();
            let counts = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
            counts.collect::<Result<Vec<u64>>>()
        })?;
        self.files += written.iter().max().copied().unwrap_or(0);
        let bytes = written.iter().sum::<u64>() * FILE_BYTES;
        Ok(bytes as f64 / f64::from(1 << 20) / begin.elapsed().as_secs_f64())
    }
}

fn write_file(volume: &Volume, ino: Ino) -> Result<()> {
    for offset in (0..FILE_BYTES).step_by(PIECE_BYTES) {
        write_all(volume, ino, offset, &FILLING[..PIECE_BYTES], BUFFERED)?;
    }
    Ok(volume.fsync(ino, false)?)
}

/// Writes files of a thread, from a number on, and removes the older ones; returns how many.
fn write_files(volume: &Arc<Volume>, thread: u64, first: u64, time: Duration) -> Result<u64> {
    let (begin, mut kept, mut written) = (Instant::now(), VecDeque::new(), 0);
    while begin.elapsed() < time {
        interrupt::check()?;
        let name = format!("{thread}-{}", first + written);
        let ino = volume.create(Ino::ROOT, name.as_bytes(), &FILE)?.ino;
        write_file(volume, ino)?;
        written += 1;
        kept.push_back((name, ino));
        if kept.len() as u64 > KEPT {
            remove(volume, kept.pop_front())?;
        }
    }
    kept.into_iter().try_for_each(|file| remove(volume, Some(file)))?;
    Ok(written)
}

fn remove(volume: &Volume, file: Option<(String, Ino)>) -> Result<()> {
    if let Some((name, ino)) = file {
        volume.unlink(Ino::ROOT, name.as_bytes())?;
        volume.forget(ino, 1);
    }
    Ok(())
}
