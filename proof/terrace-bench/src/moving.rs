//! A hot set that moves: many threads read and write blocks of which few are used most, by Zipf's
//! law, on a volume whose PM has room for a sixteenth of all, beside one whose PM has room for all.
//! Every ten seconds other files are the hottest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use terrace_engine::{Counter, Ino, OpenOptions, Volume};
use terrace_media::create_disk_file;
use terrace_policy::{Param, Placement, PmSpace};

use crate::bed::{Bed, DiskKind};
use crate::disk::disk_directory;
use crate::engine::{BUFFERED, FILE, write_all};
use crate::interrupt;
use crate::median::median;
use crate::options::Options;
use crate::passing::{Settings, params};
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Room, memory_directory, new_directory};
use crate::workload::{BLOCK_BYTES, FILLING, Random, Zipf};

const RATE: &str = "engine: hot set that moves every 10 s, PM of a sixteenth vs all in PM";
const HITS: &str =
    "engine: hot set that moves, reads served from PM or DRAM vs the hottest data there";
const BACK: &str = "engine: hot set that moves, until as many reads are served again";

/// All rows.
pub const ROWS: &[&str] = &[RATE, HITS, BACK];

const REACH: f64 = 0.8;
const ROUNDS_MAX: u32 = 5;
/// As many as a server has: while some wait for the disk, others go on.
const THREADS: u64 = 16;
const PM_BYTES: u64 = 16 << 20;
/// So many times as much data.
const DATA_TIMES: u64 = 16;
/// PM with room for all of it, and for logs.
const LARGE_TIMES: u64 = 24;
/// Long enough that logs, a page of PM for each file at least, leave room for data.
const FILE_BYTES: u64 = 1 << 20;
const FILE_BLOCKS: u64 = FILE_BYTES / BLOCK_BYTES as u64;
/// One operation of so many is a write.
const WRITES: u64 = 4;
const PHASE: Duration = Duration::from_secs(10);
/// Phases of a round on the small PM; the first is not counted.
const PHASES: usize = 3;
/// By so many eighths of all files the hot set moves: it comes back after eight moves.
const MOVE_EIGHTHS: u64 = 3;
const SAMPLES: u32 = 500;
/// Samples that are compared with those before a move, together.
const WINDOW: usize = 5;
/// Samples before a move that say what it was like.
const BEFORE: usize = 100;
/// Served again: so much of the share of before.
const ENOUGH: f64 = 0.95;
const BATCH_OPS: u64 = 16;

/// How large everything is.
#[derive(Clone, Copy, Debug)]
struct Shape {
    pm_bytes: u64,
    phase: Duration,
}

impl Shape {
    fn of(options: &Options) -> Self {
        match options.quick {
            true => Self { pm_bytes: PM_BYTES / 4, phase: PHASE / 40 },
            false => Self { pm_bytes: PM_BYTES, phase: PHASE },
        }
    }

    fn files(self) -> u64 {
        DATA_TIMES * self.pm_bytes / FILE_BYTES
    }

    fn large_pm_bytes(self) -> u64 {
        LARGE_TIMES * self.pm_bytes
    }

    fn disk_bytes(self) -> u64 {
        2 * DATA_TIMES * self.pm_bytes
    }

    /// As much as PM holds.
    fn cache_bytes(self) -> u64 {
        self.pm_bytes
    }

    /// The share of reads that meets the blocks which are used most, if all room in PM and DRAM has
    /// them.
    fn hottest_share(self) -> f64 {
        let blocks = self.pm_bytes / BLOCK_BYTES as u64;
        let placement = Placement { pm_full_percent: OpenOptions::default().pm_full_percent };
        let in_pm = placement.room_for_data(PmSpace { blocks, free: blocks });
        let in_dram = self.cache_bytes() / BLOCK_BYTES as u64;
        Zipf::of(self.files() * FILE_BLOCKS).share_below(in_pm + in_dram)
    }
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    let shape = Shape::of(options);
    Room {
        shm: shape.pm_bytes + shape.large_pm_bytes(),
        cached: 2 * shape.cache_bytes(),
        disk: 2 * shape.disk_bytes(),
    }
}

/// One of the two volumes.
struct Side {
    bed: Bed,
    inos: Vec<Ino>,
    zipf: Zipf,
    /// How often the hot set has moved.
    moves: AtomicU64,
    reads: AtomicU64,
    ops: AtomicU64,
}

/// What was seen in a phase.
struct Phase {
    ops: u64,
    spent: Duration,
    /// The share of reads that PM or DRAM served, from sample to sample.
    served: Vec<f64>,
    /// The share that PM served, of all of them.
    by_pm: f64,
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let shape = Shape::of(options);
    let (memory, on_disk) = (memory_directory()?, new_directory(&disk_directory(options)?)?);
    let mut sides = Vec::new();
    let of_sides: [(&str, u64, Settings); 2] =
        [("all", shape.large_pm_bytes(), &[(Param::Migrate, 0)]), ("small", shape.pm_bytes, &[])];
    for (name, pm_bytes, settings) in of_sides {
        progress.step("filling");
        let disk = on_disk.path().join(name);
        create_disk_file(&disk, shape.disk_bytes())?;
        let open = OpenOptions {
            cache_bytes: shape.cache_bytes(),
            params: params(settings)?,
            ..OpenOptions::default()
        };
        let bed = Bed::new(memory.path(), name, pm_bytes, &DiskKind::Device(disk), open)?;
        sides.push(Side::fill(bed, shape.files())?);
    }
    let rounds = options.rounds.min(ROUNDS_MAX);
    let mut found = Found::default();
    for round in 1..=rounds {
        progress.round(round, rounds);
        found.add(&sides[0].phases(1, shape)?, &sides[1].phases(PHASES, shape)?, shape);
    }
    sides.iter_mut().try_for_each(|side| side.bed.close())?;
    Ok(found.rows(shape))
}

/// What all rounds gave.
#[derive(Default)]
struct Found {
    /// Operations per second of both sides.
    rates: Vec<[f64; 2]>,
    served: Vec<f64>,
    by_pm: Vec<f64>,
    /// Milliseconds until as many reads were served as before.
    back: Vec<f64>,
    never: usize,
}

impl Found {
    fn add(&mut self, all: &[Phase], small: &[Phase], shape: Shape) {
        self.rates.push([rate(all), rate(&small[1..])]);
        let served: Vec<f64> = small[1..].iter().flat_map(|phase| phase.served.clone()).collect();
        self.served.push(served.iter().sum::<f64>() / served.len().max(1) as f64);
        self.by_pm.extend(small[1..].iter().map(|phase| phase.by_pm));
        for pair in small.windows(2) {
            let sample = shape.phase / SAMPLES;
            let after = back_after(&pair[0].served, &pair[1].served);
            self.never += usize::from(after.is_none());
            let samples = after.unwrap_or(SAMPLES as usize);
            self.back.push(samples as f64 * sample.as_secs_f64() * 1e3);
        }
    }

    fn rows(self, shape: Shape) -> Vec<Row> {
        let ratios: Vec<f64> = self.rates.iter().map(|[all, small]| small / all).collect();
        let side = |side: usize| median(&self.rates.iter().map(|of| of[side]).collect::<Vec<_>>());
        let rate = Row::new(RATE.into(), Unit::OpsPerSecond, side(0), side(1), 0.0, Some(REACH));
        let (best, served) = (shape.hottest_share(), median(&self.served));
        let back = Row::figure(BACK, Unit::Milliseconds, median(&self.back));
        let slowest = self.back.iter().copied().fold(0.0, f64::max);
        let (never, moves) = (self.never, self.back.len());
        let note = format!("at most {slowest:.0} ms; never after {never} of {moves} moves");
        let by_pm = format!("{:.0} % of reads were PM's", 100.0 * median(&self.by_pm));
        let shares: Vec<f64> = self.served.iter().map(|served| served / best).collect();
        let hits = Row::new(HITS.into(), Unit::Share, best, served, 0.0, None);
        vec![
            rate.with_ratios(&ratios),
            Row { note: Some(by_pm), ..hits.with_ratios(&shares) },
            Row { note: Some(note), ..back },
        ]
    }
}

fn rate(phases: &[Phase]) -> f64 {
    let spent: Duration = phases.iter().map(|phase| phase.spent).sum();
    phases.iter().map(|phase| phase.ops).sum::<u64>() as f64 / spent.as_secs_f64().max(1e-9)
}

/// Samples after a move until as many reads are served as at the end of the phase before it.
fn back_after(before: &[f64], after: &[f64]) -> Option<usize> {
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len().max(1) as f64;
    let enough = ENOUGH * mean(&before[before.len().saturating_sub(BEFORE)..]);
    let first = after.windows(WINDOW).position(|window| mean(window) >= enough);
    first.map(|samples| samples + WINDOW)
}

impl Side {
    fn fill(bed: Bed, files: u64) -> Result<Self> {
        let volume = bed.volume();
        let mut inos = Vec::new();
        for number in 0..files {
            interrupt::check()?;
            let ino = volume.create(Ino::ROOT, number.to_string().as_bytes(), &FILE)?.ino;
            write_all(volume, ino, 0, &FILLING[..FILE_BYTES as usize], BUFFERED)?;
            inos.push(ino);
        }
        volume.sync()?;
        // Neighbours in a directory are not equally hot.
        let mut random = Random::new();
        for left in (1..inos.len()).rev() {
            inos.swap(left, random.below(left as u64 + 1) as usize);
        }
        let zipf = Zipf::of(files * FILE_BLOCKS);
        let [moves, reads, ops] = [(); 3].map(|()| AtomicU64::new(0));
        Ok(Self { bed, inos, zipf, moves, reads, ops })
    }

    /// Lets all threads work for so many phases; the hot set moves at the end of each.
    fn phases(&self, phases: usize, shape: Shape) -> Result<Vec<Phase>> {
        let is_over = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| scope.spawn(move || self.work(thread, is_over)))
                .collect();
            let seen: Result<Vec<Phase>> = (0..phases).map(|_| self.watch(shape)).collect();
            is_over.store(true, Ordering::Relaxed);
            for thread in threads {
                thread.join().map_err(|_| anyhow!("a thread panicked"))??;
            }
            seen
        })
    }

    /// Looks on for a phase, and moves the hot set.
    fn watch(&self, shape: Shape) -> Result<Phase> {
        let begin = Instant::now();
        let first_op = self.ops.load(Ordering::Relaxed);
        let first = self.seen();
        let (mut served, mut before) = (Vec::new(), first);
        for sample in 1..=SAMPLES {
            interrupt::check()?;
            std::thread::sleep((shape.phase * sample / SAMPLES).saturating_sub(begin.elapsed()));
            let now = self.seen();
            let [reads, misses] = [0, 1].map(|of| (now[of] - before[of]) as f64);
            served.push((1.0 - misses / reads.max(1.0)).max(0.0));
            before = now;
        }
        let ops = self.ops.load(Ordering::Relaxed) - first_op;
        let spent = begin.elapsed();
        self.moves.fetch_add(1, Ordering::Relaxed);
        let [reads, of_pm] = [0, 2].map(|of| (before[of] - first[of]) as f64);
        Ok(Phase { ops, spent, served, by_pm: of_pm / reads.max(1.0) })
    }

    /// Blocks that were read so far, those that a disk had to bring, and those that PM had.
    fn seen(&self) -> [u64; 3] {
        let counters = self.bed.volume().stats().counters;
        let of_pm = counters.get(Counter::ReadPm) / BLOCK_BYTES as u64;
        [self.reads.load(Ordering::Relaxed), counters.get(Counter::CacheMisses), of_pm]
    }

    fn work(&self, thread: u64, is_over: &AtomicBool) -> Result<()> {
        let volume: &Arc<Volume> = self.bed.volume();
        let mut random = Random::nth(THREADS * self.ops.load(Ordering::Relaxed) + thread);
        let mut block = vec![0; BLOCK_BYTES];
        while !is_over.load(Ordering::Relaxed) {
            let mut reads = 0;
            for _ in 0..BATCH_OPS {
                let (ino, offset) = self.draw(&mut random);
                if random.below(WRITES) == 0 {
                    write_all(volume, ino, offset, &FILLING[..BLOCK_BYTES], BUFFERED)?;
                } else {
                    let got = volume.read(ino, offset, &mut block).context("reading")?;
                    ensure!(got == BLOCK_BYTES, "a read of a block got {got} bytes");
                    reads += 1;
                }
            }
            self.reads.fetch_add(reads, Ordering::Relaxed);
            self.ops.fetch_add(BATCH_OPS, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A block: its file, and where it begins.
    #[inline]
    fn draw(&self, random: &mut Random) -> (Ino, u64) {
        let rank = self.zipf.draw(random);
        let files = self.inos.len() as u64;
        let moved = self.moves.load(Ordering::Relaxed) * files / 8 * MOVE_EIGHTHS;
        let file = (rank / FILE_BLOCKS + moved) % files;
        (self.inos[file as usize], rank % FILE_BLOCKS * BLOCK_BYTES as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_back_when_some_samples_are_as_good_as_before() {
        let before = [vec![0.0; 50], vec![0.8; BEFORE]].concat();
        let after = [vec![0.1; 7], vec![0.8], vec![0.2], vec![0.78; 9]].concat();
        assert_eq!(back_after(&before, &after), Some(9 + WINDOW));
        assert_eq!(back_after(&before, &vec![0.7; 100]), None);
    }

    #[test]
    fn it_moves_and_counts() {
        let options = clap::Parser::parse_from(["terrace-bench", "--quick"]);
        let rows = run(&options, &Progress::new(1)).unwrap();
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ROWS);
        assert!(rows[0].ours > 0.0 && rows[1].ours > 0.0 && rows[1].ours <= 1.0, "{rows:?}");
    }
}
