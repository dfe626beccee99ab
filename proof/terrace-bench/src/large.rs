//! Mount and recovery of very many files.
//!
//! Files lie in directories of a thousand. Write entries come from `fallocate` on a sparse disk,
//! block by block with gaps between them: real entries of the log, each an extent of its own,
//! without the data that would take days and terabytes. Nine files in ten have two of them, which
//! fit into the inode's record, the tenth has the rest, in pages of its log.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;
use terrace_engine::{Fallocate, FileKind, Ino, NewInode, OpenOptions};
use terrace_fuse::{MountConfig, mount};

use crate::bed::{Bed, DiskKind};
use crate::engine::FILE;
use crate::interrupt;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Room, memory_directory, why_no_fuse};
use crate::workload::BLOCK_BYTES;

const MOUNT_FEW: &str = "mount: after a clean unmount, 10 thousand files";
const MOUNT_MORE: &str = "mount: after a clean unmount, 100 thousand files vs 10 thousand";
const MOUNT_MANY: &str = "mount: after a clean unmount, 1 million files vs 10 thousand";
const MOUNT_LIMIT: &str = "mount: after a clean unmount, 1 million files vs 1 s";
const RECOVERY_RATE: &str =
    "recovery: 1 million files, 10 million write entries, rate vs 1 million/s/core";
const RECOVERY_TIME: &str =
    "recovery: 1 million files, 10 million write entries, until it serves vs 10 s";

/// All rows.
pub const ROWS: &[&str] =
    &[MOUNT_FEW, MOUNT_MORE, MOUNT_MANY, MOUNT_LIMIT, RECOVERY_RATE, RECOVERY_TIME];

const FILES_PER_DIRECTORY: u64 = 1000;
/// Entries of nine files in ten, and of the tenth: ten on average.
const FEW_ENTRIES: u64 = 2;
const MANY_ENTRIES: u64 = 82;
/// Mounts, and recoveries, of which the median counts.
const MOUNTS: usize = 5;
const RECOVERIES: usize = 3;
const MOUNT_MS_MAX: f64 = 1_000.0;
const RECOVERY_MS_MAX: f64 = 10_000.0;
const RECOVERY_RATE_MIN: f64 = 1e6;

fn pm_bytes(options: &Options) -> u64 {
    // A record, a directory entry and ten slots each, and as much again for pages that are not
    // full.
    (options.many() * 1900).next_multiple_of(BLOCK_BYTES as u64) + (64 << 20)
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    Room { shm: pm_bytes(options) + (16 << 20), ..Room::default() }
}

/// The volume, and the files on it.
struct Town {
    bed: Bed,
    directory: TempDir,
    fuse: bool,
    inodes: Vec<Ino>,
}

/// Builds, mounts, abandons and recovers a volume.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let mut town = Town::new(options)?;
    let many = options.many();
    let mut mount_ms = Vec::new();
    for files in [many / 100, many / 10, many] {
        progress.step(&format!("creating {files} files"));
        town.grow(files)?;
        progress.step(&format!("mounting {files} files"));
        mount_ms.push(town.mount_ms()?);
    }
    progress.step("writing log entries");
    let entries = town.add_entries()?;
    progress.step("recovering");
    let recovery = town.recover()?;
    town.bed.close()?;

    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let recovery_ms = recovery.serving.as_secs_f64() * 1e3;
    let rate = entries as f64 / recovery.opening.as_secs_f64() / cores;
    let (few, more, all) = (mount_ms[0], mount_ms[1], mount_ms[2]);
    let noted = |row: Row, note: String| Row { note: Some(note), ..row };
    let files = |row: Row, files: u64| noted(row, format!("{files} files"));
    let lower = |name, baseline, ours, reach| {
        Row::lower_is_better(name, Unit::Milliseconds, baseline, ours, reach)
    };
    let what = format!("{many} files, {entries} write entries, {cores} cores");
    Ok(vec![
        files(Row::figure(MOUNT_FEW, Unit::Milliseconds, few), many / 100),
        files(lower(MOUNT_MORE, few, more, Some(0.8)), many / 10),
        files(lower(MOUNT_MANY, few, all, Some(0.8)), many),
        files(lower(MOUNT_LIMIT, MOUNT_MS_MAX, all, Some(1.0)), many),
        noted(
            Row::new(
                RECOVERY_RATE.to_owned(),
                Unit::EntriesPerSecond,
                RECOVERY_RATE_MIN,
                rate,
                rate / RECOVERY_RATE_MIN,
                Some(1.0),
            ),
            what.clone(),
        ),
        noted(lower(RECOVERY_TIME, RECOVERY_MS_MAX, recovery_ms, Some(1.0)), what),
    ])
}

struct Recovery {
    /// Until the volume is open.
    opening: Duration,
    /// Until a file's attributes were asked for and answered.
    serving: Duration,
}

impl Town {
    fn new(options: &Options) -> Result<Self> {
        let directory = memory_directory()?;
        let disk_bytes = options.many() * 12 * BLOCK_BYTES as u64 + (64 << 20);
        let open =
            OpenOptions { pm_full_percent: 0, cache_bytes: 16 << 20, ..OpenOptions::default() };
        let bed = Bed::new(
            directory.path(),
            "town",
            pm_bytes(options),
            &DiskKind::Sparse(disk_bytes),
            open,
        )?;
        std::fs::create_dir(directory.path().join("mount"))?;
        Ok(Self { bed, directory, fuse: why_no_fuse().is_none(), inodes: Vec::new() })
    }

    /// Creates files until there are so many, and closes the volume.
    fn grow(&mut self, files: u64) -> Result<()> {
        let volume = self.bed.volume();
        let directory_of = NewInode { kind: FileKind::Directory, mode: 0o755, ..FILE };
        let mut directory = Ino::ROOT;
        for file in self.inodes.len() as u64..files {
            interrupt::check()?;
            if file.is_multiple_of(FILES_PER_DIRECTORY) || directory == Ino::ROOT {
                let name = (file / FILES_PER_DIRECTORY).to_string();
                directory = match volume.lookup(Ino::ROOT, name.as_bytes()) {
                    Ok(attr) => attr.ino,
                    Err(_) => volume.create(Ino::ROOT, name.as_bytes(), &directory_of)?.ino,
                };
            }
            let ino = volume.create(directory, file.to_string().as_bytes(), &FILE)?.ino;
            volume.forget(ino, 1);
            self.inodes.push(ino);
        }
        Ok(())
    }

    /// From closed devices to an answer, in milliseconds: the median of several mounts.
    fn mount_ms(&mut self) -> Result<f64> {
        let mut took = Vec::new();
        for _ in 0..MOUNTS {
            interrupt::check()?;
            self.bed.close()?;
            took.push(self.serve()?.serving);
        }
        Ok(median(took).as_secs_f64() * 1e3)
    }

    /// Opens the volume, mounts it and asks for a file.
    fn serve(&mut self) -> Result<Recovery> {
        let start = Instant::now();
        self.bed.reopen()?;
        let opening = start.elapsed();
        let volume = self.bed.volume();
        if !self.fuse {
            let found = volume.lookup(volume.lookup(Ino::ROOT, b"0")?.ino, b"1")?;
            anyhow::ensure!(found.kind == FileKind::Regular, "file 1 is none");
            return Ok(Recovery { opening, serving: start.elapsed() });
        }
        let mounted =
            mount(volume.clone(), &self.directory.path().join("mount"), &MountConfig::default())?;
        std::fs::metadata(mounted.mountpoint().join("0/1")).context("the first file")?;
        let serving = start.elapsed();
        mounted.unmount()?;
        Ok(Recovery { opening, serving })
    }

    /// Gives files their write entries; returns how many.
    fn add_entries(&mut self) -> Result<u64> {
        let mut written = 0;
        for (file, &ino) in self.inodes.iter().enumerate() {
            interrupt::check()?;
            let entries = if file % 10 == 0 { MANY_ENTRIES } else { FEW_ENTRIES };
            for entry in 0..entries {
                let offset = 2 * entry * BLOCK_BYTES as u64;
                self.bed.volume().fallocate(
                    ino,
                    Fallocate::AllocateKeepSize,
                    offset,
                    BLOCK_BYTES as u64,
                )?;
            }
            written += entries;
        }
        Ok(written)
    }

    /// The medians of several recoveries of the same logs.
    fn recover(&mut self) -> Result<Recovery> {
        let (mut opening, mut serving) = (Vec::new(), Vec::new());
        for _ in 0..RECOVERIES {
            interrupt::check()?;
            self.bed.abandon();
            let recovery = self.serve()?;
            opening.push(recovery.opening);
            serving.push(recovery.serving);
        }
        Ok(Recovery { opening: median(opening), serving: median(serving) })
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
