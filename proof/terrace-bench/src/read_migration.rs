//! Read migration: files that are read and not written, half of them brought from PM to the page
//! cache, beside the same files in PM alone. PM has a device model: without one it would be the
//! same memory as the cache.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use terrace_engine::{Counter, Ino, OpenOptions, Volume};
use terrace_media::{DeviceModel, create_disk_file};
use terrace_policy::Param;

use crate::bed::{Bed, DiskKind, Models};
use crate::disk::disk_directory;
use crate::engine::{DURABLE, FILE, write_all};
use crate::interrupt;
use crate::median::median;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Room, memory_directory, new_directory};
use crate::workload::{BLOCK_BYTES, FILLING, PIECE_BYTES, Random};

const BLOCKS: &str =
    "engine: 4 KiB reads of read-dominated files, two threads, after read migration vs all in PM";
const PIECES: &str =
    "engine: 64 KiB reads of read-dominated files, two threads, after read migration vs all in PM";
const SLOW_BLOCKS: &str = "engine: the same 4 KiB reads, PM of one slow module vs all in PM";
const SLOW_PIECES: &str = "engine: the same 64 KiB reads, PM of one slow module vs all in PM";

/// All rows.
pub const ROWS: &[&str] = &[BLOCKS, PIECES, SLOW_BLOCKS, SLOW_PIECES];

/// The files together.
const DATA_BYTES: u64 = 128 << 20;
const THREADS: u64 = 2;
/// Passes over all files within which migration must have done what it can.
const PASSES_MAX: u32 = 20;
/// What a thread reads between two looks at the clock.
const BATCH_BYTES: u64 = 4 << 20;
/// A single module of the first persistent memory: a sixth of the bandwidth of the model "pm",
/// which is six of them.
pub const ONE_MODULE: DeviceModel = DeviceModel {
    read_latency_ns: 300,
    write_latency_ns: 100,
    read_bytes_per_s: 6_600_000_000,
    write_bytes_per_s: 2_300_000_000,
};
/// It costs nothing where PM is as fast as the cache, and gains where it is not.
const REACH: f64 = 1.0;
const SLOW_BLOCKS_REACH: f64 = 1.25;
const SLOW_PIECES_REACH: f64 = 1.6;

fn data_bytes(options: &Options) -> u64 {
    if options.quick { DATA_BYTES / 16 } else { DATA_BYTES }
}

fn pm_bytes(options: &Options) -> u64 {
    2 * data_bytes(options) + (64 << 20)
}

fn disk_bytes(options: &Options) -> u64 {
    2 * data_bytes(options)
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    Room { shm: 2 * pm_bytes(options), cached: data_bytes(options), disk: 2 * disk_bytes(options) }
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses, or if nothing migrates.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let pm: DeviceModel = "pm".parse()?;
    let mut rows = beside(
        options,
        progress,
        pm,
        [(BLOCKS, BLOCK_BYTES, Some(REACH)), (PIECES, 64 << 10, Some(REACH))],
    )?;
    rows.extend(beside(
        options,
        progress,
        ONE_MODULE,
        [
            (SLOW_BLOCKS, BLOCK_BYTES, Some(SLOW_BLOCKS_REACH)),
            (SLOW_PIECES, 64 << 10, Some(SLOW_PIECES_REACH)),
        ],
    )?);
    Ok(rows)
}

/// One volume that migrates and one that does not, and rows of reads of some lengths.
fn beside(
    options: &Options,
    progress: &Progress,
    model: DeviceModel,
    rows: [(&str, usize, Option<f64>); 2],
) -> Result<Vec<Row>> {
    let (memory, on_disk) = (memory_directory()?, new_directory(&disk_directory(options)?)?);
    let mut beds = Vec::new();
    let mut sides = Vec::new();
    for name in ["alone", "migrated"] {
        progress.step("filling");
        let disk = on_disk.path().join(name);
        create_disk_file(&disk, disk_bytes(options))?;
        // Migration brings to the cache half of the data, so that PM and DRAM serve as much.
        let open = OpenOptions {
            cache_bytes: data_bytes(options) / 2,
            workers: false,
            ..OpenOptions::default()
        };
        let disk = DiskKind::Device(disk);
        let models = Models { pm: Some(model), ..Models::default() };
        let bed = Bed::modelled(memory.path(), name, pm_bytes(options), &disk, open, models)?;
        sides.push(Files::fill(bed.volume(), data_bytes(options))?);
        beds.push(bed);
    }
    let mut measured = Vec::new();
    for (name, len_bytes, reach) in rows {
        progress.step("migrating");
        let cached_bytes = sides[1].migrate(len_bytes)?;
        let note = format!("{} % in the page cache", 100 * cached_bytes / data_bytes(options));
        let mut rates = [Vec::new(), Vec::new()];
        for round in 1..=options.rounds {
            progress.round(round, options.rounds);
            for (side, rates) in sides.iter().zip(&mut rates) {
                rates.push(side.rate(len_bytes, Duration::from_secs_f64(options.seconds))?);
            }
        }
        let ratios: Vec<f64> =
            rates[1].iter().zip(&rates[0]).map(|(ours, baseline)| ours / baseline).collect();
        let (baseline, ours) = (median(&rates[0]), median(&rates[1]));
        measured.push(Row {
            ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_max: ratios.iter().copied().fold(0.0, f64::max),
            note: Some(note),
            ..Row::new(name.to_owned(), Unit::OpsPerSecond, baseline, ours, median(&ratios), reach)
        });
    }
    drop(sides);
    beds.iter_mut().try_for_each(Bed::close)?;
    Ok(measured)
}

/// Files of [`PIECE_BYTES`] each, on a volume.
struct Files {
    volume: Arc<Volume>,
    inos: Vec<Ino>,
}

impl Files {
    fn fill(volume: &Arc<Volume>, bytes: u64) -> Result<Self> {
        let mut inos = Vec::new();
        for number in 0..bytes / PIECE_BYTES as u64 {
            interrupt::check()?;
            let ino = volume.create(Ino::ROOT, number.to_string().as_bytes(), &FILE)?.ino;
            write_all(volume, ino, 0, &FILLING, DURABLE)?;
            inos.push(ino);
        }
        Ok(Self { volume: volume.clone(), inos })
    }

    /// Reads all, again and again, so many bytes at a time, until what fits has moved to the page
    /// cache, or nothing is gained by it; returns how many bytes have moved so far.
    fn migrate(&self, len_bytes: usize) -> Result<u64> {
        let moved = || self.volume.stats().counters.get(Counter::MigratedRead);
        let mut piece = vec![0; len_bytes];
        self.volume.tune(Param::Migrate, 1)?;
        self.volume.tune(Param::FlowSeconds, 1)?;
        let mut before = 0;
        for _ in 0..PASSES_MAX {
            interrupt::check()?;
            for &ino in &self.inos {
                for offset in (0..PIECE_BYTES).step_by(len_bytes) {
                    self.volume.read(ino, offset as u64, &mut piece)?;
                }
            }
            // That it has nothing more to move is an error, too.
            let _ = self.volume.migrate(1);
            if moved() == before && before > 0 {
                break;
            }
            before = moved();
        }
        ensure!(before > 0, "no file has moved to the page cache");
        // Nothing comes back while its reads are measured.
        self.volume.tune(Param::Migrate, 0)?;
        Ok(before)
    }

    /// Reads per second of `len_bytes` each, anywhere, by all threads.
    fn rate(&self, len_bytes: usize, time: Duration) -> Result<f64> {
        let begin = Instant::now();
        let reads = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || self.read(thread, len_bytes, time)))
                .collect();
            let counts = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
            counts.sum::<Result<u64>>()
        })?;
        Ok(reads as f64 / begin.elapsed().as_secs_f64())
    }

    fn read(&self, thread: u64, len_bytes: usize, time: Duration) -> Result<u64> {
        let (mut random, mut buf) = (Random::nth(thread), vec![0; len_bytes]);
        let (begin, mut reads) = (Instant::now(), 0);
        while begin.elapsed() < time {
            interrupt::check()?;
            for _ in 0..BATCH_BYTES / len_bytes as u64 {
                let ino = self.inos[random.below(self.inos.len() as u64) as usize];
                let offset = random.below((PIECE_BYTES / len_bytes) as u64) * len_bytes as u64;
                let got = self.volume.read(ino, offset, &mut buf).context("reading")?;
                ensure!(got == len_bytes, "a read of {len_bytes} bytes got {got}");
                reads += 1;
            }
        }
        Ok(reads)
    }
}
