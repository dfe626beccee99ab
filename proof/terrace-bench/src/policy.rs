//! What the policy costs: its share of a durable write of 4 KiB in process.
//!
//! Batches of plain writes, of writes each of which is followed by an empty rehearsal (the inode is
//! found and locked), and of writes with a rehearsal of the policy take turns. The policy then
//! works beside real writes and meets the processor's caches as they leave them, as it does inside
//! a write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use terrace_engine::{Ino, OpenOptions, Volume};

use crate::bed::{Bed, DiskKind};
use crate::engine::{DURABLE, FILE, aged_file, write_all};
use crate::interrupt;
use crate::median::median;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Room, memory_directory};
use crate::workload::{BATCH_OPS, BLOCK_BYTES, FILLING, RandomOffsets, Sizes};

const OVERWRITE: &str = "engine: policy in a 4 KiB durable overwrite vs 5 % of it";
const APPEND: &str = "engine: policy in a 4 KiB durable append vs 5 % of it";

/// All rows.
pub const ROWS: &[&str] = &[OVERWRITE, APPEND];

/// Most that it may take of a write.
const SHARE_MAX: f64 = 0.05;
/// A migration that has work would be measured, too; a disk that it could use is there.
const DISK_BYTES: u64 = 1 << 30;
/// What follows each write of a batch.
const KINDS: [Option<u32>; 3] = [None, Some(0), Some(1)];

/// Small: data that is a miss of the processor's caches makes writes slower and the policy's share
/// less.
fn sizes(options: &Options) -> Sizes {
    let on_mounts = Sizes::on_mounts(options);
    Sizes {
        file_bytes: on_mounts.file_bytes / 2,
        appended_bytes_max: on_mounts.appended_bytes_max / 2,
        ..on_mounts
    }
}

fn pm_bytes(options: &Options) -> u64 {
    let sizes = sizes(options);
    // Twice as much as there is data: below the least threshold of migration.
    4 * (sizes.file_bytes + sizes.appended_bytes_max) + (64 << 20)
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    Room { shm: pm_bytes(options), ..Room::default() }
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let memory = memory_directory()?;
    let disk = DiskKind::Sparse(DISK_BYTES);
    let mut bed =
        Bed::new(memory.path(), "policy", pm_bytes(options), &disk, OpenOptions::default())?;
    let (volume, sizes) = (bed.volume().clone(), sizes(options));
    let ino = aged_file(&volume, b"overwritten", sizes)?;
    let mut offsets = RandomOffsets::new(sizes);
    let overwrite =
        share(options, progress, &volume, OVERWRITE, &mut || Ok((ino, offsets.next())))?;
    let mut end = Appending {
        volume: volume.clone(),
        ino: None,
        len_bytes: 0,
        len_bytes_max: sizes.appended_bytes_max,
    };
    let append = share(options, progress, &volume, APPEND, &mut || end.next())?;
    drop((volume, end));
    bed.close()?;
    Ok(vec![overwrite, append])
}

/// Where the next append goes: a new file each time one has grown large.
struct Appending {
    volume: Arc<Volume>,
    ino: Option<Ino>,
    len_bytes: u64,
    len_bytes_max: u64,
}

impl Appending {
    fn next(&mut self) -> Result<(Ino, u64)> {
        const NAME: &[u8] = b"appended";
        let ino = match self.ino.filter(|_| self.len_bytes < self.len_bytes_max) {
            Some(ino) => ino,
            None => {
                if let Some(old) = self.ino {
                    self.volume.unlink(Ino::ROOT, NAME)?;
                    self.volume.forget(old, 1);
                }
                self.len_bytes = 0;
                *self.ino.insert(self.volume.create(Ino::ROOT, NAME, &FILE)?.ino)
            }
        };
        self.len_bytes += BLOCK_BYTES as u64;
        Ok((ino, self.len_bytes - BLOCK_BYTES as u64))
    }
}

/// The row of one kind of write; `next` says where each goes.
fn share(
    options: &Options,
    progress: &Progress,
    volume: &Volume,
    name: &str,
    next: &mut dyn FnMut() -> Result<(Ino, u64)>,
) -> Result<Row> {
    // Logs have grown, and the memory of what is written is the process's.
    round_of(options, volume, next)?;
    let (mut writes, mut policies, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        progress.round(round, options.rounds);
        let (write, policy) = round_of(options, volume, next)?;
        writes.push(write);
        policies.push(policy);
        ratios.push(SHARE_MAX * write / policy);
    }
    let (write, policy) = (median(&writes), median(&policies));
    let row = Row::new(
        name.to_owned(),
        Unit::Nanoseconds,
        SHARE_MAX * write,
        policy,
        median(&ratios),
        Some(1.0),
    );
    Ok(Row {
        ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        note: Some(format!("{:.1} % of {write:.0} ns", 100.0 * policy / write)),
        ..row
    })
}

/// Nanoseconds of a write, and of the policy for it: medians of batches, which neither the log's
/// compaction nor other programs move.
fn round_of(
    options: &Options,
    volume: &Volume,
    next: &mut dyn FnMut() -> Result<(Ino, u64)>,
) -> Result<(f64, f64)> {
    let mut batches: [Vec<f64>; KINDS.len()] = Default::default();
    let round = Instant::now();
    while round.elapsed() < Duration::from_secs_f64(options.seconds) {
        interrupt::check()?;
        for (kind, batches) in KINDS.into_iter().zip(&mut batches) {
            let places = (0..BATCH_OPS).map(|_| next()).collect::<Result<Vec<_>>>()?;
            let begin = Instant::now();
            for (ino, offset) in places {
                write_all(volume, ino, offset, &FILLING[..BLOCK_BYTES], DURABLE)?;
                if let Some(times) = kind {
                    volume.rehearse_placement(ino, offset, BLOCK_BYTES as u64, times)?;
                }
            }
            batches.push(begin.elapsed().as_secs_f64() * 1e9 / BATCH_OPS as f64);
        }
    }
    let [plain, asked, placed] = &batches;
    let policy: Vec<f64> = placed.iter().zip(asked).map(|(placed, asked)| placed - asked).collect();
    // Less than the clock can tell apart is nothing.
    Ok((median(plain), median(&policy).max(1.0)))
}
