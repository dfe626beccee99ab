//! What a log-structured store such as RocksDB asks of a file system, on a volume in process: each
//! put is appended to a log and synced; a table in memory that is full becomes a file, written in
//! long pieces and synced once, and its log is removed; files are merged into others. As there, one
//! thread puts and another flushes and merges, one table behind at most. The merge reads nothing: a
//! mount's kernel has its input cached, so that the volume is not asked for it either.
//!
//! Sizes are a 64th of RocksDB's defaults for a 64th of 8 GiB, and so on.

use std::collections::VecDeque;
use std::fs::File as KernelFile;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

use anyhow::{Context, Result, anyhow};
use rustix::fs::{Mode, OFlags, open};
use terrace_engine::{Ino, Volume};
use terrace_media::AlignedBuf;

use crate::engine::{BUFFERED, FILE, OnVolume, write_all};
use crate::files::OnFiles;
use crate::interrupt;
use crate::migration::GROUP_BYTES;
use crate::workload::{BLOCK_BYTES, FILLING, PIECE_BYTES, Sizes, Workload};

/// Key, value, and what the log adds.
const RECORD_BYTES: usize = 16 + 1000 + 24;
/// Tables in memory that make up the database.
const TABLES: u64 = 128;
/// Files that come from memory before they are merged.
const LEVEL_0_TABLES: usize = 4;
/// Files of the level below; what is more goes further down.
const LEVEL_1_TABLES: usize = 4;
/// Files of the last level that one from above is merged with.
const OVERLAPS_MAX: usize = 10;
/// How long the file is that stands for the disk.
const FILE_BYTES_MAX: u64 = 16 * GROUP_BYTES as u64;

/// A database whose keys come in order: files are never merged.
pub fn fill_in_order(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Store::new(volume, sizes, false)))
}

/// A database whose keys come in random order.
pub fn fill_at_random(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Store::new(volume, sizes, true)))
}

const _: [OnVolume; 2] = [fill_in_order, fill_at_random];

/// The work of a disk for such a database if all tables go there: the limit of a small PM.
pub fn leave_in_order(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Leaving::new(directory, sizes, false)?))
}

/// The same for keys in random order.
pub fn leave_at_random(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Leaving::new(directory, sizes, true)?))
}

const _: [OnFiles; 2] = [leave_in_order, leave_at_random];

/// Tables in memory, and puts that fill one.
#[derive(Clone, Copy)]
struct Shape {
    tables: u64,
    puts_per_table: u64,
}

impl Shape {
    fn of(sizes: Sizes) -> Self {
        let table_bytes = (sizes.database_bytes / TABLES).max(BLOCK_BYTES as u64);
        Self {
            tables: sizes.database_bytes / table_bytes,
            puts_per_table: table_bytes / RECORD_BYTES as u64,
        }
    }

    fn puts(self) -> u64 {
        self.tables * self.puts_per_table
    }

    fn table_bytes(self) -> u64 {
        self.puts_per_table * RECORD_BYTES as u64
    }
}

struct Store {
    volume: Arc<Volume>,
    shape: Shape,
    merges: bool,
    /// What is left of the run before.
    left: Vec<File>,
    logs: u64,
}

/// A file of the store.
struct File {
    ino: Ino,
    name: String,
}

impl File {
    fn create(volume: &Volume, name: String) -> Result<Self> {
        let ino = volume.create(Ino::ROOT, name.as_bytes(), &FILE)?.ino;
        Ok(Self { ino, name })
    }

    fn remove(self, volume: &Volume) -> Result<()> {
        volume
            .unlink(Ino::ROOT, self.name.as_bytes())
            .with_context(|| format!("removing {}", self.name))?;
        volume.forget(self.ino, 1);
        Ok(())
    }
}

impl Store {
    fn new(volume: &Arc<Volume>, sizes: Sizes, merges: bool) -> Self {
        Self { volume: volume.clone(), shape: Shape::of(sizes), merges, left: Vec::new(), logs: 0 }
    }

    /// Appends to logs, each of them handed on when it is as long as a table.
    fn put(&mut self, ops: u64, full: &SyncSender<File>) -> Result<()> {
        let mut done = 0;
        while done < ops {
            interrupt::check()?;
            self.logs += 1;
            let log = File::create(&self.volume, format!("log{}", self.logs))?;
            let puts = self.shape.puts_per_table.min(ops - done);
            for put in 0..puts {
                let offset = put * RECORD_BYTES as u64;
                write_all(&self.volume, log.ino, offset, &FILLING[..RECORD_BYTES], BUFFERED)?;
                self.volume.fsync(log.ino, true)?;
            }
            done += puts;
            // The flushing thread has failed if it is not there; its error counts.
            if full.send(log).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Workload for Store {
    fn batch_ops(&self) -> u64 {
        self.shape.puts()
    }

    fn prepare(&mut self, _ops: u64) -> Result<()> {
        let volume = &self.volume;
        self.left.drain(..).try_for_each(|file| file.remove(volume))?;
        // Dirty pages of the run before must not be written in this one.
        Ok(volume.sync()?)
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let (full, logs) = sync_channel::<File>(0);
        let on_volume = OnVolumeOf { volume: self.volume.clone(), shape: self.shape, made: 0 };
        let mut tables = Tables::new(on_volume, self.merges);
        let volume = self.volume.clone();
        std::thread::scope(|scope| {
            let flusher = scope.spawn(move || {
                for log in logs {
                    tables.flush()?;
                    log.remove(&volume)?;
                    tables.merge_if_wanted()?;
                }
                Ok::<_, anyhow::Error>(tables.into_all())
            });
            let put = self.put(ops, &full);
            drop(full);
            self.left = flusher.join().map_err(|_| anyhow!("the flushing thread panicked"))??;
            put
        })
    }
}

/// What tables are: files, or counted only.
trait Medium {
    type Table;
    fn write(&mut self) -> Result<Self::Table>;
    fn remove(&mut self, table: Self::Table) -> Result<()>;
}

/// What is flushed, by levels.
struct Tables<M: Medium> {
    medium: M,
    merges: bool,
    levels: [VecDeque<M::Table>; 3],
}

impl<M: Medium> Tables<M> {
    fn new(medium: M, merges: bool) -> Self {
        Self { medium, merges, levels: Default::default() }
    }

    /// A table in memory is full.
    fn flush(&mut self) -> Result<()> {
        let table = self.medium.write()?;
        self.levels[0].push_back(table);
        Ok(())
    }

    fn merge_if_wanted(&mut self) -> Result<()> {
        if self.merges && self.levels[0].len() >= LEVEL_0_TABLES {
            let above = std::mem::take(&mut self.levels[0]);
            let all = self.levels[1].len();
            self.merge(above, 1, all)?;
            while self.levels[1].len() > LEVEL_1_TABLES {
                let above = self.levels[1].drain(..1).collect();
                let overlaps = (self.levels[2].len() / LEVEL_1_TABLES).min(OVERLAPS_MAX);
                self.merge(above, 2, overlaps)?;
            }
        }
        Ok(())
    }

    /// Merges files with the oldest `overlaps` of the level below.
    fn merge(&mut self, above: VecDeque<M::Table>, below: usize, overlaps: usize) -> Result<()> {
        let olds: Vec<_> = above.into_iter().chain(self.levels[below].drain(..overlaps)).collect();
        for _ in &olds {
            interrupt::check()?;
            let table = self.medium.write()?;
            self.levels[below].push_back(table);
        }
        olds.into_iter().try_for_each(|old| self.medium.remove(old))
    }

    /// The tables that are there in the end.
    fn into_all(self) -> Vec<M::Table> {
        self.levels.into_iter().flatten().collect()
    }
}

/// Tables that are files of a volume.
struct OnVolumeOf {
    volume: Arc<Volume>,
    shape: Shape,
    made: u64,
}

impl Medium for OnVolumeOf {
    type Table = File;

    /// Writes a file as RocksDB does: as much as it buffers at a time, and a sync at the end.
    fn write(&mut self) -> Result<File> {
        self.made += 1;
        let table = File::create(&self.volume, format!("table{}", self.made))?;
        let bytes = self.shape.table_bytes();
        for offset in (0..bytes).step_by(PIECE_BYTES) {
            let piece = (bytes - offset).min(PIECE_BYTES as u64) as usize;
            write_all(&self.volume, table.ino, offset, &FILLING[..piece], BUFFERED)?;
        }
        self.volume.fsync(table.ino, false)?;
        Ok(table)
    }

    fn remove(&mut self, table: File) -> Result<()> {
        table.remove(&self.volume)
    }
}

/// Tables that are counted.
#[derive(Default)]
struct Counted {
    made: u64,
}

impl Medium for Counted {
    type Table = ();

    fn write(&mut self) -> Result<()> {
        self.made += 1;
        Ok(())
    }

    fn remove(&mut self, (): ()) -> Result<()> {
        Ok(())
    }
}

/// All tables of a database, written to a disk one after the other, past the kernel's cache: as
/// much at a time as migration writes, and a sync behind each.
struct Leaving {
    shape: Shape,
    table_count: u64,
    file: KernelFile,
    data: AlignedBuf,
}

impl Leaving {
    fn new(directory: &Path, sizes: Sizes, merges: bool) -> Result<Self> {
        let shape = Shape::of(sizes);
        let mut tables = Tables::new(Counted::default(), merges);
        for _ in 0..shape.tables {
            tables.flush()?;
            tables.merge_if_wanted()?;
        }
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = open(directory.join("leaving"), flags, Mode::RUSR | Mode::WUSR)?.into();
        let mut leaving = Self {
            shape,
            table_count: tables.medium.made,
            file,
            data: AlignedBuf::new(GROUP_BYTES),
        };
        leaving.data.fill(1);
        // Blocks that a file system allocates first take longer.
        leaving.run(shape.puts())?;
        Ok(leaving)
    }
}

impl Workload for Leaving {
    fn batch_ops(&self) -> u64 {
        self.shape.puts()
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let all_bytes = self.table_count * self.shape.table_bytes() * ops / self.shape.puts();
        for at in (0..all_bytes).step_by(GROUP_BYTES) {
            interrupt::check()?;
            let piece = (all_bytes - at).next_multiple_of(BLOCK_BYTES as u64);
            let piece = piece.min(GROUP_BYTES as u64) as usize;
            self.file.write_all_at(&self.data[..piece], at % FILE_BYTES_MAX)?;
            self.file.sync_data()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::{Bed, DiskKind};
    use crate::options::Options;
    use clap::Parser;
    use terrace_engine::{Counter, OpenOptions};

    fn filled(make: OnVolume) -> (u64, usize, [u64; 2]) {
        let directory = crate::stage::memory_directory().unwrap();
        let disk = DiskKind::Sparse(256 << 20);
        let mut bed =
            Bed::new(directory.path(), "lsm", 32 << 20, &disk, OpenOptions::default()).unwrap();
        let sizes = Sizes::on_mounts(&Options::parse_from(["terrace-bench", "--size", "16M"]));
        let volume = bed.volume().clone();
        let mut store = make(&volume, sizes).unwrap();
        let puts = store.batch_ops();
        store.run(puts).unwrap();
        let mut files = 0;
        let visit = &mut |_: terrace_engine::DirEntry<'_>| {
            files += 1;
            true
        };
        volume.readdir(Ino::ROOT, 0, visit).unwrap();
        let counters = volume.stats().counters;
        let written = counters.get(Counter::WrittenPm) + counters.get(Counter::WrittenCache);
        store.prepare(puts).unwrap();
        let after = [written, counters.get(Counter::Fsyncs)];
        drop((store, volume));
        bed.close().unwrap();
        (puts, files - 2, after)
    }

    #[test]
    fn every_put_is_synced_and_tables_hold_them_all() {
        let (puts, files, [written, fsyncs]) = filled(fill_in_order);
        // 2 MiB in 128 tables of 15 puts each: all that remains, and once more in the logs.
        assert_eq!((puts, files), (128 * 15, 128));
        assert_eq!(written, 2 * puts * RECORD_BYTES as u64);
        assert_eq!(fsyncs, puts + 128);
    }

    #[test]
    fn the_disk_alone_writes_what_the_tables_hold() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let sizes = Sizes::on_mounts(&Options::parse_from(["terrace-bench", "--size", "16M"]));
        for (merges, tables) in [(false, 128..129), (true, 500..2000)] {
            let leaving = Leaving::new(directory.path(), sizes, merges).unwrap();
            assert!(tables.contains(&leaving.table_count), "{} tables", leaving.table_count);
        }
    }

    #[test]
    fn merging_keeps_as_many_tables_and_writes_them_again() {
        let (puts, files, [written, _]) = filled(fill_at_random);
        assert_eq!(files, 128);
        let times = written as f64 / (puts * RECORD_BYTES as u64) as f64;
        assert!((5.0..15.0).contains(&times), "{times}");
    }
}
