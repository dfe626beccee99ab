//! Migration: how fast groups go to disk, beside the disk alone and beside one entry at a time; and
//! what it costs programs that write meanwhile.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use terrace_engine::{Counter, FsResult, Ino, OpenOptions, Volume};
use terrace_media::{AlignedBuf, DiskOpenOptions, create_disk_file, open_disk};
use terrace_policy::Param;

use crate::bed::{Bed, DiskKind};
use crate::disk::disk_directory;
use crate::engine::{DURABLE, FILE, write_all};
use crate::interrupt;
use crate::median::median;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Room, memory_directory, new_directory};
use crate::workload::{BLOCK_BYTES, FILLING};

const GROUPS: &str =
    "migration: PM to disk in groups, data of random 4 KiB writes vs the disk, sequentially";
const SINGLY: &str =
    "migration: PM to disk in groups, data of random 4 KiB writes vs entry by entry";
const BESIDE: &str =
    "migration: p99 of durable 4 KiB overwrites while it runs flat out vs without it";

/// All rows.
pub const ROWS: &[&str] = &[GROUPS, SINGLY, BESIDE];

/// Data that migrates.
const COLD_BYTES: u64 = 128 << 20;
/// Of which so much goes entry by entry.
const SINGLE_BYTES: u64 = 2 << 20;
/// Data that is overwritten meanwhile.
const HOT_BYTES: u64 = 32 << 20;
const PM_BYTES: u64 = COLD_BYTES + HOT_BYTES + (64 << 20);
pub const DISK_BYTES: u64 = 1 << 30;
/// What the disk alone writes at a time: what a group is long.
pub const GROUP_BYTES: usize = 16 << 20;
const ROUNDS: usize = 5;
const OVERWRITES: usize = 100_000;

/// What it needs.
pub fn room(_: &Options) -> Room {
    Room { shm: PM_BYTES + (16 << 20), disk: DISK_BYTES + COLD_BYTES, ..Room::default() }
}

/// A volume whose data moves only when a benchmark asks for it.
pub struct Still {
    // Before the directories: it has files in them.
    pub bed: Bed,
    /// The directory of its disk.
    pub on_disk: TempDir,
    /// The directory of its PM.
    pub memory: TempDir,
}

impl Still {
    /// # Errors
    /// If the system or the engine refuses.
    pub fn new(name: &str, pm_bytes: u64, options: &Options) -> Result<Self> {
        let (memory, on_disk) = (memory_directory()?, new_directory(&disk_directory(options)?)?);
        let disk = on_disk.path().join("disk");
        create_disk_file(&disk, DISK_BYTES)?;
        let open = OpenOptions { cache_bytes: 64 << 20, workers: false, ..OpenOptions::default() };
        let bed = Bed::new(memory.path(), name, pm_bytes, &DiskKind::Device(disk), open)?;
        Ok(Self { bed, on_disk, memory })
    }
}

/// Has all data leave PM as soon as it is asked for.
///
/// # Errors
/// If the engine refuses.
pub fn tune_to_leave(volume: &Volume) -> Result<()> {
    for param in [Param::MigrateMin, Param::MigrateAt, Param::MigrateMax] {
        volume.tune(param, 1)?;
    }
    volume.tune(Param::ColdAge, 0)?;
    // Data that stays cached costs a copy, and is no part of the comparison with the disk.
    volume.tune(Param::KeepCached, 0)?;
    Ok(())
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let (rounds, cold_bytes, overwrites) = match options.quick {
        true => (1, COLD_BYTES / 8, OVERWRITES / 50),
        false => (ROUNDS, COLD_BYTES, OVERWRITES),
    };
    let Still { memory: _memory, on_disk, mut bed } = Still::new("migration", PM_BYTES, options)?;
    let volume = bed.volume().clone();
    tune_to_leave(&volume)?;
    let cold = cold_files(&volume)?;
    let (mut disk_rates, mut group_ratios, mut group_rates, mut single_rates) =
        (vec![], vec![], vec![], vec![]);
    for round in 1..=rounds {
        progress.step(&format!("round {round} of {rounds}"));
        interrupt::check()?;
        let disk = measure_disk(on_disk.path(), cold_bytes)?.write;
        let groups = migrate_in_groups(&volume, &cold, cold_bytes)?;
        disk_rates.push(disk);
        group_rates.push(groups);
        group_ratios.push(groups / disk);
        single_rates.push(migrate_singly(&volume, cold[0])?);
    }
    let hot = volume.create(Ino::ROOT, b"hot", &FILE)?.ino;
    progress.step("overwriting");
    let (alone, beside) = overwrite_beside_moves(&volume, hot, cold[0], cold_bytes, overwrites)?;
    drop(volume);
    bed.close()?;

    let (disk, groups, singly) = (median(&disk_rates), median(&group_rates), median(&single_rates));
    let spread = |row: Row, ratios: &[f64]| {
        let (min, max) =
            ratios.iter().fold((f64::MAX, f64::MIN), |(min, max), &r| (min.min(r), max.max(r)));
        Row { ratio_min: min, ratio_max: max, ..row }
    };
    let row = |name: &str, baseline, ratio, reach| {
        Row::new(name.to_owned(), Unit::MibPerSecond, baseline, groups, ratio, Some(reach))
    };
    let us = |latency: Duration| latency.as_secs_f64() * 1e6;
    Ok(vec![
        spread(row(GROUPS, disk, median(&group_ratios), 0.9), &group_ratios),
        row(SINGLY, singly, groups / singly, 5.0),
        Row::lower_is_better(BESIDE, Unit::Microseconds, us(alone), us(beside), Some(0.5)),
    ])
}

fn mib_per_second(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / f64::from(1 << 20) / time.as_secs_f64()
}

/// What the disk alone does with as much data; MiB/s.
#[derive(Clone, Copy, Debug)]
pub struct DiskRates {
    /// In long writes to a new file, all of it durable at the end.
    pub write: f64,
    /// In long reads of that file.
    pub read: f64,
}

/// Measures the disk of a directory.
///
/// # Errors
/// If the system refuses.
pub fn measure_disk(directory: &Path, bytes: u64) -> Result<DiskRates> {
    let path = directory.join("alone");
    create_disk_file(&path, bytes)?;
    let disk = open_disk(&path, &DiskOpenOptions::default())?;
    let mut buf = AlignedBuf::new(GROUP_BYTES);
    buf.chunks_mut(FILLING.len()).for_each(|chunk| chunk.copy_from_slice(&FILLING[..chunk.len()]));
    let begin = Instant::now();
    for offset in (0..bytes).step_by(GROUP_BYTES) {
        disk.write_at(offset, &buf)?;
    }
    disk.flush()?;
    let write = mib_per_second(bytes, begin.elapsed());
    let begin = Instant::now();
    for offset in (0..bytes).step_by(GROUP_BYTES) {
        disk.read_at(offset, &mut buf)?;
    }
    let read = mib_per_second(bytes, begin.elapsed());
    drop(disk);
    std::fs::remove_file(&path).with_context(|| path.display().to_string())?;
    Ok(DiskRates { write, read })
}

/// Writes each block of the file once, in an order that no two neighbours share.
fn write_randomly(volume: &Volume, ino: Ino, bytes: u64) -> Result<()> {
    let blocks = bytes / BLOCK_BYTES as u64;
    // Odd, so that every block comes up once among a power of two of them.
    let step = 0x9e37_79b1 | 1;
    ensure!(blocks.is_power_of_two(), "{blocks} blocks are no power of two");
    for i in 0..blocks {
        let block = i.wrapping_mul(step) % blocks;
        write_all(volume, ino, block * BLOCK_BYTES as u64, &FILLING[..BLOCK_BYTES], DURABLE)?;
    }
    Ok(())
}

/// A file for each shard's mover.
fn cold_files(volume: &Volume) -> Result<Vec<Ino>> {
    let mut files = Vec::new();
    // Files go to one shard after the other, dozens at a time; inode numbers tell which.
    for i in 0..128 * volume.shards() {
        let ino = volume.create(Ino::ROOT, format!("cold {i}").as_bytes(), &FILE)?.ino;
        let shard = |ino: Ino| (ino.0 - 1) % volume.shards() as u64;
        if files.iter().all(|&file| shard(file) != shard(ino)) {
            files.push(ino);
        }
    }
    ensure!(files.len() == volume.shards(), "files of {} shards only", files.len());
    Ok(files)
}

/// Runs the movers of all shards side by side, as the threads of a mount do; what each ended with.
///
/// A mover that has done its part says that it is stuck as long as the others have not done theirs.
pub fn run_movers(volume: &Volume) -> Vec<FsResult<()>> {
    std::thread::scope(|scope| {
        let shards = 0..volume.shards();
        let movers: Vec<_> =
            shards.map(|shard| scope.spawn(move || volume.migrate_shard(shard))).collect();
        movers.into_iter().map(|mover| mover.join().expect("a mover does not panic")).collect()
    })
}

/// As much data of all shards together, moved by all their movers.
fn migrate_in_groups(volume: &Volume, files: &[Ino], bytes: u64) -> Result<f64> {
    files.iter().try_for_each(|&file| write_randomly(volume, file, bytes / files.len() as u64))?;
    let moved = || volume.stats().counters.get(Counter::MigratedWrite);
    let before = moved();
    let begin = Instant::now();
    let ends = run_movers(volume);
    let (time, moved) = (begin.elapsed(), moved() - before);
    ensure!(moved > bytes / 10 * 9, "no more than {moved} bytes have left PM: {ends:?}");
    Ok(mib_per_second(moved, time))
}

fn migrate_singly(volume: &Volume, ino: Ino) -> Result<f64> {
    write_randomly(volume, ino, SINGLE_BYTES)?;
    let begin = Instant::now();
    for offset in (0..SINGLE_BYTES).step_by(BLOCK_BYTES) {
        volume.move_range(ino, 1, offset, BLOCK_BYTES as u64)?;
    }
    Ok(mib_per_second(SINGLE_BYTES, begin.elapsed()))
}

/// p99 of overwrites alone, and while another file goes to disk and back all the time.
fn overwrite_beside_moves(
    volume: &Volume,
    hot: Ino,
    cold: Ino,
    cold_bytes: u64,
    count: usize,
) -> Result<(Duration, Duration)> {
    write_randomly(volume, hot, HOT_BYTES)?;
    write_randomly(volume, cold, cold_bytes)?;
    let alone = overwrite(volume, hot, |done| done < count)?;
    let (stop, moves) = (AtomicBool::new(false), AtomicU64::new(0));
    let beside = std::thread::scope(|scope| -> Result<Duration> {
        let mover = scope.spawn(|| -> Result<()> {
            while !stop.load(Ordering::Relaxed) {
                volume.move_file(
                    cold,
                    if moves.fetch_add(1, Ordering::Relaxed) % 2 == 0 { 1 } else { 0 },
                )?;
            }
            Ok(())
        });
        // A short run may be over before the mover's thread has begun its second move.
        let is_beside = || moves.load(Ordering::Relaxed) < 2 && !mover.is_finished();
        let beside = overwrite(volume, hot, |done| done < count || is_beside());
        stop.store(true, Ordering::Relaxed);
        mover.join().expect("the mover does not panic")?;
        beside
    })?;
    Ok((alone, beside))
}

/// p99 of durable overwrites, as long as `go_on` says so of those that are done.
fn overwrite(volume: &Volume, ino: Ino, go_on: impl Fn(usize) -> bool) -> Result<Duration> {
    let blocks = HOT_BYTES / BLOCK_BYTES as u64;
    let mut latencies = Vec::new();
    while go_on(latencies.len()) {
        let block = (latencies.len() as u64).wrapping_mul(0x9e37_79b1) % blocks;
        let begin = Instant::now();
        write_all(volume, ino, block * BLOCK_BYTES as u64, &FILLING[..BLOCK_BYTES], DURABLE)?;
        latencies.push(begin.elapsed());
        if latencies.len().is_multiple_of(1024) {
            interrupt::check()?;
        }
    }
    let p99 = latencies.len() * 99 / 100;
    Ok(*latencies.select_nth_unstable(p99).1)
}
