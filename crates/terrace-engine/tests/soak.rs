//! A PM that is always nearly full, under mixed load from several threads, with migration going on
//! all the time: every read is compared with what was written last. `TERRACE_SOAK_OPERATIONS` makes
//! it longer.

mod rig;

use std::io::{IoSlice, IoSliceMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rig::{FILE, Rig};
use terrace_engine::{
    Counter, Fallocate, FormatOptions, Ino, OpenOptions, SetAttr, Volume, WriteOptions, format,
};
use terrace_media::{Disk, DiskStats, IoOp, MediaError, Pm, memory_disk};
use terrace_policy::Param;

const PM_BYTES: u64 = 12 << 20;
const DISK_BYTES: u64 = 96 << 20;
const THREADS: u64 = 3;
const FILES: u64 = 6;
const FILE_BYTES: u64 = 2 << 20;

fn operations() -> u64 {
    std::env::var("TERRACE_SOAK_OPERATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(2500)
}

/// A file and what it must hold.
struct Shadow {
    ino: Ino,
    data: Vec<u8>,
}

impl Shadow {
    fn write(&mut self, volume: &Volume, at: u64, bytes: &[u8], durable: bool) {
        let options = WriteOptions { durable, ..Default::default() };
        assert_eq!(volume.write(self.ino, at, bytes, options).expect("room"), bytes.len());
        let end = at as usize + bytes.len();
        self.data.resize(self.data.len().max(end), 0);
        self.data[at as usize..end].copy_from_slice(bytes);
    }

    fn resize(&mut self, volume: &Volume, size: u64) {
        volume
            .setattr(self.ino, &SetAttr { size: Some(size), ..Default::default() })
            .expect("a truncation");
        self.data.resize(size as usize, 0);
    }

    fn punch(&mut self, volume: &Volume, at: u64, len: u64) {
        volume.fallocate(self.ino, Fallocate::PunchHole, at, len).expect("a hole");
        let (from, to) = (at as usize, ((at + len) as usize).min(self.data.len()));
        if from < to {
            self.data[from..to].fill(0);
        }
    }

    fn verify(&self, volume: &Volume, at: u64, len: u64) {
        let mut found = vec![0; len as usize];
        let n = volume.read(self.ino, at, &mut found).expect("reading");
        let expected = &self.data
            [(at as usize).min(self.data.len())..((at + len) as usize).min(self.data.len())];
        assert_eq!(n, expected.len(), "inode {}, at {at}", self.ino.0);
        let wrong = found.iter().zip(expected).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "inode {}, at {at}: the first wrong byte", self.ino.0);
    }
}

/// The first of what a soak is for that has not happened yet.
fn missing(volume: &Volume) -> Option<&'static str> {
    let stats = volume.stats();
    let count = |counter| stats.counters.get(counter);
    let logs_move = volume.params().get(Param::LogsAt) == 0;
    let wanted = [
        ("PM was never full", count(Counter::PlacedPmFull) > 0),
        // Where everything counts as cold, what is in use moves, and is overtaken.
        ("too little moved", logs_move || count(Counter::MigratedWrite) > PM_BYTES / 2),
        ("no log moved", !logs_move || count(Counter::MigratedLogs) > 0),
    ];
    wanted.into_iter().find(|&(_, happened)| !happened).map(|(text, _)| text)
}

/// One thread's load on files of its own. It goes on for a while where migration has had no turn
/// yet.
fn load(volume: &Volume, thread: u64, operations: u64) -> Vec<Shadow> {
    let mut random = fastrand::Rng::with_seed(thread);
    let name = |i: u64| format!("file-{thread}-{i}");
    let create = |i: u64| volume.create(Ino::ROOT, name(i).as_bytes(), &FILE).unwrap().ino;
    let mut files: Vec<Shadow> =
        (0..FILES).map(|i| Shadow { ino: create(i), data: Vec::new() }).collect();
    let mut patience = None;
    let mut goes_on = |done: u64| {
        if done < operations || !done.is_multiple_of(64) {
            return true;
        }
        let until = *patience.get_or_insert_with(|| Instant::now() + Duration::from_secs(60));
        missing(volume).is_some() && Instant::now() < until
    };
    for _ in (0..).take_while(|&done| goes_on(done)) {
        let i = random.u64(..FILES);
        let file = &mut files[i as usize];
        let at = random.u64(..FILE_BYTES);
        let seed = random.u64(..);
        match random.u64(..100) {
            0..40 => {
                let len = [100, 700, 4096, 8192][random.u64(..4) as usize];
                let at = if seed.is_multiple_of(2) { at / 4096 * 4096 } else { at };
                let bytes: Vec<u8> =
                    (0..len as u64).map(|i| (seed.wrapping_add(i * 7) >> 3) as u8).collect();
                file.write(volume, at, &bytes, random.u64(..4) == 0);
            }
            40..55 => {
                // Long writes at the same places, again and again.
                let at = at / (256 << 10) * (256 << 10);
                let bytes: Vec<u8> =
                    (0..256u64 << 10).map(|i| (seed.wrapping_add(i * 3) >> 5) as u8).collect();
                file.write(volume, at, &bytes, false);
            }
            55..85 => file.verify(volume, at, 1 + random.u64(..64 << 10)),
            85..90 => volume.fsync(file.ino, false).expect("fsync"),
            90..91 => file.resize(volume, at),
            91..93 => file.punch(volume, at, 1 + random.u64(..100 << 10)),
            93..94 => {
                // Moves by hand meet those in the background.
                volume.move_file(file.ino, random.u64(..2) as u8).expect("a move");
            }
            94 => {
                volume.unlink(Ino::ROOT, name(i).as_bytes()).expect("unlink");
                volume.forget(file.ino, 1);
                *file = Shadow { ino: create(i), data: Vec::new() };
            }
            _ => {
                let at = file.data.len() as u64 % FILE_BYTES;
                file.write(volume, at, &seed.to_le_bytes(), false);
            }
        }
    }
    files
}

/// Loads a volume from all threads; then everything is verified, as it is, after a crash and after
/// an unmount.
fn soak(rig: &Rig, operations: u64, thresholds: &[(Param, u64)]) -> Arc<Volume> {
    let options = OpenOptions {
        cache_bytes: 6 << 20,
        pm_full_percent: 95,
        writeback_seconds: 1,
        ..Default::default()
    };
    let open =
        || Volume::open(rig.pm.clone(), rig.disks.clone(), options.clone(), &|_, _, _| {}).unwrap();
    let volume = open();
    let common = [
        (Param::MigrateMin, 90),
        (Param::MigrateAt, 90),
        (Param::MigrateMax, 90),
        (Param::SyncBlocks, 128),
        (Param::Group, 1 << 20),
        (Param::FlowSeconds, 1),
        (Param::Settle, 0),
    ];
    for &(param, value) in common.iter().chain(thresholds) {
        volume.tune(param, value).unwrap();
    }
    let loads = (0..THREADS).map(|thread| {
        let volume = volume.clone();
        thread::spawn(move || load(&volume, thread, operations))
    });
    let loads: Vec<_> = loads.collect();
    let files: Vec<Shadow> =
        loads.into_iter().flat_map(|load| load.join().expect("no thread fails")).collect();
    let verify = |volume: &Volume| files.iter().for_each(|file| file.verify(volume, 0, 3 << 20));
    verify(&volume);
    for file in &files {
        volume.fsync(file.ino, false).unwrap();
    }
    assert_eq!(volume.status().read_only, None);
    assert_eq!(missing(&volume), None, "{:?}", volume.stats().counters);
    let logs_moved = volume.stats().counters.get(Counter::MigratedLogs) > 0;
    assert_eq!(
        logs_moved,
        volume.params().get(Param::LogsAt) == 0,
        "logs move only where they are to"
    );
    volume.abandon();
    drop(volume);
    let volume = open();
    verify(&volume);
    volume.close().unwrap();
    let report = rig.check(false);
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
    volume
}

fn rig(disks: Vec<Arc<dyn Disk>>) -> Rig {
    let pm = Pm::anonymous(PM_BYTES);
    format(&pm, &disks, &FormatOptions { shards: Some(2), ..Default::default() }).unwrap();
    Rig { pm, disks }
}

#[test]
fn a_pm_that_is_nearly_full_all_the_time() {
    soak(&rig(vec![memory_disk(DISK_BYTES), memory_disk(DISK_BYTES)]), operations(), &[]);
}

#[test]
fn the_same_while_logs_move_too() {
    let disks = vec![memory_disk(DISK_BYTES), memory_disk(DISK_BYTES)];
    soak(&rig(disks), operations(), &[(Param::ColdAge, 0), (Param::LogsAt, 0)]);
}

/// A disk that does not take writes now and then.
#[derive(Debug)]
struct Failing {
    disk: Arc<dyn Disk>,
    writes: AtomicU64,
    refused: AtomicU64,
}

impl Failing {
    /// Of every two hundred writes, the last hundred fail.
    fn refuse(&self, off: u64) -> Result<(), MediaError> {
        if self.writes.fetch_add(1, Ordering::Relaxed) % 200 < 100 {
            return Ok(());
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        let (path, op) = (self.path().to_owned(), IoOp::Write);
        Err(MediaError::Ended { path, op, offset: off })
    }
}

impl Disk for Failing {
    fn path(&self) -> &Path {
        self.disk.path()
    }
    fn len(&self) -> u64 {
        self.disk.len()
    }
    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.disk.read_at(off, buf)
    }
    fn read_vectored_at(&self, off: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<(), MediaError> {
        self.disk.read_vectored_at(off, bufs)
    }
    fn write_at(&self, off: u64, buf: &[u8]) -> Result<(), MediaError> {
        // The volume gets room for its own writes.
        if off >= 1 << 20 {
            self.refuse(off)?;
        }
        self.disk.write_at(off, buf)
    }
    fn write_vectored_at(&self, off: u64, bufs: &[IoSlice<'_>]) -> Result<(), MediaError> {
        self.refuse(off)?;
        self.disk.write_vectored_at(off, bufs)
    }
    fn flush(&self) -> Result<(), MediaError> {
        self.disk.flush()
    }
    fn discard(&self, off: u64, len: u64) -> Result<(), MediaError> {
        self.disk.discard(off, len)
    }
    fn stats(&self) -> DiskStats {
        self.disk.stats()
    }
}

#[test]
fn the_same_with_a_disk_that_fails_now_and_then() {
    let failing = Arc::new(Failing {
        disk: memory_disk(DISK_BYTES),
        writes: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    });
    let disks: Vec<Arc<dyn Disk>> = vec![failing.clone(), memory_disk(DISK_BYTES)];
    soak(&rig(disks), operations(), &[(Param::ColdAge, 0), (Param::LogsAt, 0)]);
    assert!(failing.refused.load(Ordering::Relaxed) > 100);
}
