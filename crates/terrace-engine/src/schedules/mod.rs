//! Models of what threads share, each run under thousands of schedules by shuttle: a schedule says
//! which thread goes on at every use of a lock, an atomic, a fence or a disk (see `sync`).
//!
//! ```text
//! make schedules                                   # all of them, as `make test` runs them
//! make schedules ARGS='names::'                    # some
//! TERRACE_SCHEDULES=20 make schedules              # twenty times as many schedules
//! TERRACE_SEED=7 make schedules                    # others
//! TERRACE_SCHEDULE=pct:77 make schedules ARGS='lives::a_removed_file_is_whole_for_who_holds_it'
//! ```
//!
//! A failure names its test and what to give as `TERRACE_SCHEDULE` to see it again: the scheduler
//! and its seed. Nothing else decides what happens: seeds are fixed unless one asks for others, and
//! models use no clock.
//!
//! Half of the schedules come from the random scheduler, half from PCT, which runs one thread until
//! it blocks, but for a few switches at random places: the one finds what needs many switches, the
//! other what needs them far apart.
//!
//! Shuttle is sequentially consistent: it shows which thread goes on, not what a processor may
//! reorder. Orders weaker than that (`Relaxed`, `Acquire`, `Release`) are taken as if they were
//! `SeqCst`.
//!
//! `planted` names bugs; each must be found by the model that looks for its like.

mod blocks;
mod data;
mod lives;
mod loans;
mod logs;
mod moves;
mod names;
mod pages;
mod patience;
mod workers;

use std::io::{IoSlice, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use terrace_media::{Disk, DiskStats, MediaError, Pm, memory_disk};
use terrace_store::planted::{Bug, plant};
use terrace_store::sync::{Arc, switch};

use crate::{
    CheckOptions, FileKind, FormatOptions, Ino, NewInode, OpenOptions, SetAttr, Volume,
    WriteOptions, check, format,
};

/// Switches that PCT makes where no thread blocks.
const PCT_DEPTH: usize = 4;
/// Schedules of one PCT scheduler; it needs the first to learn how long the model is.
const PCT_BATCH: usize = 25;
/// More steps than this are a thread that waits for ever.
const STEPS_MAX: usize = 400_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    Random,
    Pct,
}

impl Scheduler {
    fn name(self) -> &'static str {
        if self == Scheduler::Random { "random" } else { "pct" }
    }

    /// Runs the model under the schedules of one seed; returns how many.
    fn run(self, seed: u64, model: fn()) -> usize {
        let mut config = Config::new();
        config.stack_size = 256 << 10;
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
        config.silence_warnings = true;
        match self {
            Scheduler::Random => {
                Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(model)
            }
            Scheduler::Pct => {
                Runner::new(PctScheduler::new_from_seed(seed, PCT_DEPTH, PCT_BATCH), config)
                    .run(model)
            }
        }
    }
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value}: give a number")))
}

/// The scheduler and seed that `TERRACE_SCHEDULE` asks for.
fn asked_for() -> Option<(Scheduler, u64)> {
    let value = std::env::var("TERRACE_SCHEDULE").ok()?;
    let (name, seed) = value.split_once(':').unwrap_or((&value, ""));
    let scheduler = [Scheduler::Random, Scheduler::Pct].into_iter().find(|s| s.name() == name);
    match (scheduler, seed.parse()) {
        (Some(scheduler), Ok(seed)) => Some((scheduler, seed)),
        _ => panic!("TERRACE_SCHEDULE={value}: give random:SEED or pct:SEED"),
    }
}

/// Both schedulers with all their seeds, for `schedules` schedules in total.
fn seeds(schedules: usize) -> Vec<(Scheduler, u64)> {
    if let Some(one) = asked_for() {
        return vec![one];
    }
    let schedules = schedules as u64 * number("TERRACE_SCHEDULES").unwrap_or(1);
    let first = number("TERRACE_SEED").unwrap_or(0) << 32;
    let random = (0..schedules / 2).map(|n| (Scheduler::Random, first + n));
    let pct = (0..(schedules / 2).div_ceil(PCT_BATCH as u64)).map(|n| (Scheduler::Pct, first + n));
    random.chain(pct).collect()
}

/// Runs the model under about so many schedules. It must hold under all of them.
fn holds(schedules: usize, model: fn()) {
    for (scheduler, seed) in seeds(schedules) {
        if let Err(failure) = catch_unwind(AssertUnwindSafe(|| scheduler.run(seed, model))) {
            eprintln!("the schedule that fails: TERRACE_SCHEDULE={}:{seed}", scheduler.name());
            resume_unwind(failure);
        }
    }
}

/// The model must fail under one of about so many schedules when this bug is planted.
fn finds(bug: Bug, schedules: usize, model: fn()) {
    plant(Some(bug));
    let mut tried = 0;
    let found = seeds(schedules).into_iter().find(|&(scheduler, seed)| {
        let run = catch_unwind(AssertUnwindSafe(|| scheduler.run(seed, model)));
        tried += run.as_ref().map_or(1, |&n| n);
        run.is_err()
    });
    plant(None);
    let (scheduler, seed) = found.unwrap_or_else(|| panic!("{bug:?} hides from {tried} schedules"));
    println!("{bug:?} was found by schedule {tried}, {}:{seed}", scheduler.name());
}

/// Runs closures on threads of the model, and waits for all.
macro_rules! together {
    ($($body:block)*) => {
        thread::scope(|scope| {
            $(scope.spawn(|| $body);)*
        })
    };
}
use together;

const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 0, gid: 0, rdev: 0 };
const DIR: NewInode =
    NewInode { kind: FileKind::Directory, mode: 0o755, umask: 0, uid: 0, gid: 0, rdev: 0 };
const BLOCK: usize = 4096;

/// A disk where threads switch before and after each operation, as they do while a real one is at
/// work.
#[derive(Debug)]
struct SwitchingDisk(Arc<dyn Disk>);

impl SwitchingDisk {
    fn at_work<T>(&self, operation: impl FnOnce(&dyn Disk) -> T) -> T {
        switch();
        let done = operation(self.0.as_ref());
        switch();
        done
    }
}

impl Disk for SwitchingDisk {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.at_work(|disk| disk.read_at(off, buf))
    }

    fn read_vectored_at(&self, off: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<(), MediaError> {
        self.at_work(|disk| disk.read_vectored_at(off, bufs))
    }

    fn write_at(&self, off: u64, buf: &[u8]) -> Result<(), MediaError> {
        self.at_work(|disk| disk.write_at(off, buf))
    }

    fn write_vectored_at(&self, off: u64, bufs: &[IoSlice<'_>]) -> Result<(), MediaError> {
        self.at_work(|disk| disk.write_vectored_at(off, bufs))
    }

    fn flush(&self) -> Result<(), MediaError> {
        self.at_work(|disk| disk.flush())
    }

    fn discard(&self, off: u64, len: u64) -> Result<(), MediaError> {
        self.at_work(|disk| disk.discard(off, len))
    }

    fn stats(&self) -> DiskStats {
        self.0.stats()
    }
}

/// The devices of a small volume.
struct Rig {
    pm: Arc<Pm>,
    disks: Vec<Arc<dyn Disk>>,
}

/// Where file data goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    Pm,
    /// Through a page cache of this many pages.
    Disk(u64),
}

impl Rig {
    fn new() -> Rig {
        Self::with_pm(2 << 20)
    }

    fn with_pm(bytes: u64) -> Rig {
        let disk = SwitchingDisk(memory_disk(2 << 20));
        let rig = Rig { pm: Pm::anonymous(bytes), disks: vec![Arc::new(disk)] };
        let options = FormatOptions { shards: Some(1), ..Default::default() };
        format(&rig.pm, &rig.disks, &options).unwrap();
        rig
    }

    /// Dirty pages are due for writeback at once.
    fn open(&self, tier: Tier) -> Arc<Volume> {
        let (pm_full_percent, pages) =
            if let Tier::Disk(pages) = tier { (0, pages) } else { (100, 16) };
        let options = OpenOptions {
            cache_bytes: pages * BLOCK as u64,
            pm_full_percent,
            writeback_seconds: 0,
            ..Default::default()
        };
        Volume::open(self.pm.clone(), self.disks.clone(), options, &|_, _, _| {}).unwrap()
    }

    /// Nothing is wrong with the unmounted volume.
    fn must_be_sound(&self) {
        let report = check(
            &self.pm,
            &self.disks,
            &CheckOptions { repair: false, data: true, ..CheckOptions::default() },
            &|_, _, _| {},
        )
        .unwrap();
        assert!(report.problems.is_empty(), "{:#?}", report.problems);
    }

    /// Unmounts a volume with nothing lost or left over.
    fn close(&self, volume: Arc<Volume>) {
        assert!(
            !volume.parts.health.is_read_only(),
            "{:?}",
            volume.parts.health.read_only_reason()
        );
        volume.close().unwrap();
        drop(volume);
        self.must_be_sound();
    }
}

fn make(volume: &Volume, dir: Ino, name: &str, new: &NewInode) -> Ino {
    volume.create(dir, name.as_bytes(), new).unwrap().ino
}

fn put(volume: &Volume, ino: Ino, at: u64, data: &[u8]) {
    assert_eq!(volume.write(ino, at, data, WriteOptions::default()).unwrap(), data.len());
}

fn contents(volume: &Volume, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let len = volume.read(ino, 0, &mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// What an operation answered: its errno if it failed.
fn errno<T>(result: crate::FsResult<T>) -> Result<T, i32> {
    result.map_err(|e| e.errno())
}

/// The byte that fills all of it.
fn uniform(bytes: &[u8]) -> u8 {
    let first = *bytes.first().expect("not empty");
    assert!(bytes.iter().all(|&b| b == first), "a torn write");
    first
}

fn truncate(volume: &Volume, ino: Ino, size: usize) {
    volume.setattr(ino, &SetAttr { size: Some(size as u64), ..Default::default() }).unwrap();
}

/// Unmounts and mounts again: the file must be as it was.
fn must_survive(rig: &Rig, volume: Arc<Volume>, tier: Tier, name: &str) {
    let ino = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
    let before = contents(&volume, ino);
    rig.close(volume);
    let volume = rig.open(tier);
    let ino = volume.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino;
    assert!(contents(&volume, ino) == before, "the file changed over an unmount");
    rig.close(volume);
}
