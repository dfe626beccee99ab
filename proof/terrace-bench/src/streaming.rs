//! Small durable writes while another program streams a long file through a small PM that is full,
//! beside the same on a PM that is empty and has room for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use terrace_engine::{Ino, OpenOptions, Volume};
use terrace_media::create_disk_file;

use crate::bed::{Bed, DiskKind};
use crate::disk::disk_directory;
use crate::engine::{BUFFERED, DURABLE, FILE, write_all};
use crate::interrupt;
use crate::median::median;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Room, memory_directory, new_directory};
use crate::workload::{BLOCK_BYTES, FILLING, PIECE_BYTES};

const STREAM: &str =
    "engine: p99 of durable 4 KiB appends while 1 GiB streams, full PM vs empty PM";

/// All rows.
pub const ROWS: &[&str] = &[STREAM];

const SMALL_PM_BYTES: u64 = 64 << 20;
/// Files that fill it, each synced.
const FILLER_BYTES: usize = 64 << 10;
/// How long the log becomes that is appended to, before the next.
const LOG_BYTES: u64 = 16 << 20;
/// A block of it in so long: what waits is latency, not the CPU.
const PAUSE: Duration = Duration::from_micros(100);
const ROUNDS: usize = 5;

fn stream_bytes(options: &Options) -> u64 {
    if options.quick { 64 << 20 } else { 1 << 30 }
}

fn large_pm_bytes(options: &Options) -> u64 {
    2 * stream_bytes(options) + 8 * LOG_BYTES + SMALL_PM_BYTES
}

fn disk_bytes(options: &Options) -> u64 {
    2 * stream_bytes(options) + (256 << 20)
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    Room {
        shm: SMALL_PM_BYTES + large_pm_bytes(options) + (64 << 20),
        disk: 2 * disk_bytes(options),
        ..Room::default()
    }
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let (memory, on_disk) = (memory_directory()?, new_directory(&disk_directory(options)?)?);
    let mut beds = Vec::new();
    for (name, pm_bytes) in [("empty", large_pm_bytes(options)), ("full", SMALL_PM_BYTES)] {
        let disk = on_disk.path().join(name);
        create_disk_file(&disk, disk_bytes(options))?;
        let open = OpenOptions { cache_bytes: SMALL_PM_BYTES, ..OpenOptions::default() };
        beds.push(Bed::new(memory.path(), name, pm_bytes, &DiskKind::Device(disk), open)?);
    }
    progress.step("filling");
    fill(beds[1].volume())?;
    let rounds = if options.quick { 1 } else { ROUNDS };
    let (mut latencies, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    for round in 1..=rounds {
        progress.round(round as u32, rounds as u32);
        for (bed, latencies) in beds.iter().zip(&mut latencies) {
            let p99 = append_beside_stream(bed.volume(), round, stream_bytes(options))?;
            latencies.push(p99.as_secs_f64() * 1e6);
        }
        ratios.push(latencies[0][round - 1] / latencies[1][round - 1]);
    }
    beds.iter_mut().try_for_each(Bed::close)?;
    let [empty, full] = latencies.map(|of| median(&of));
    Ok(vec![Row {
        ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        ..Row::lower_is_better(STREAM, Unit::Microseconds, empty, full, Some(0.5))
    }])
}

/// Files that somebody has waited for, as much as PM holds.
fn fill(volume: &Volume) -> Result<()> {
    for number in 0..SMALL_PM_BYTES / FILLER_BYTES as u64 {
        interrupt::check()?;
        let ino = volume.create(Ino::ROOT, format!("{number}.filler").as_bytes(), &FILE)?.ino;
        write_all(volume, ino, 0, &FILLING[..FILLER_BYTES], BUFFERED)?;
        volume.fsync(ino, true)?;
    }
    Ok(())
}

/// p99 of durable appends as long as another thread streams a new file of so many bytes.
fn append_beside_stream(volume: &Arc<Volume>, round: usize, bytes: u64) -> Result<Duration> {
    let is_over = AtomicBool::new(false);
    let mut latencies = std::thread::scope(|scope| -> Result<Vec<Duration>> {
        let stream = scope.spawn(|| {
            let streamed = stream(volume, &format!("{round}.stream"), bytes);
            is_over.store(true, Ordering::Relaxed);
            streamed
        });
        let latencies = append(volume, round, || is_over.load(Ordering::Relaxed));
        stream.join().expect("the stream does not panic")?;
        latencies
    })?;
    let p99 = latencies.len() * 99 / 100;
    Ok(*latencies.select_nth_unstable(p99).1)
}

/// Writes a file in long pieces, as a copy of a film does; it is gone at the end.
fn stream(volume: &Volume, name: &str, bytes: u64) -> Result<()> {
    let ino = volume.create(Ino::ROOT, name.as_bytes(), &FILE)?.ino;
    for offset in (0..bytes).step_by(PIECE_BYTES) {
        interrupt::check()?;
        write_all(volume, ino, offset, &FILLING[..PIECE_BYTES], BUFFERED)?;
    }
    volume.fsync(ino, false)?;
    remove(volume, ino, name)
}

fn remove(volume: &Volume, ino: Ino, name: &str) -> Result<()> {
    volume.unlink(Ino::ROOT, name.as_bytes())?;
    volume.forget(ino, 1);
    Ok(())
}

/// Appends to one log after the other until it is over, once at least.
fn append(volume: &Volume, round: usize, is_over: impl Fn() -> bool) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    for number in 0.. {
        let name = format!("{round}-{number}.log");
        let ino = volume.create(Ino::ROOT, name.as_bytes(), &FILE)?.ino;
        for offset in (0..LOG_BYTES).step_by(BLOCK_BYTES) {
            let begin = Instant::now();
            write_all(volume, ino, offset, &FILLING[..BLOCK_BYTES], DURABLE)?;
            latencies.push(begin.elapsed());
            if is_over() {
                remove(volume, ino, &name)?;
                return Ok(latencies);
            }
            std::thread::sleep(PAUSE);
        }
        remove(volume, ino, &name)?;
    }
    unreachable!("a log follows each log")
}
