//! The same operation where there is little and where there is very much: a directory of ten files
//! and one of a million, files of 1 MiB and one of 100 GiB. Its cost must not depend on that.
//!
//! Files: both sides have the same number of blocks, so that the processor's caches serve both
//! alike, and what differs is how far the blocks of a file are apart.

use std::sync::Arc;

use anyhow::{Context, Result};
use terrace_engine::{FileKind, Ino, NewInode, Volume};

use crate::engine::{DURABLE, FILE, write_all};
use crate::interrupt;
use crate::workload::{BLOCK_BYTES, FILLING, PIECE_BYTES, Random, Sizes, Workload};

const FEW: u64 = 10;
const DIRECTORY: NewInode = NewInode { kind: FileKind::Directory, mode: 0o700, ..FILE };
/// As far as a file is spread out.
const LARGE_FILE_BYTES: u64 = 100 << 30;
/// Of `Sizes::file_bytes`, what these files have.
const SHARE: u64 = 4;

/// A directory with files that stay, and others that come and go.
struct Directory {
    volume: Arc<Volume>,
    ino: Ino,
    files: u64,
    random: Random,
    /// Those that come and go: the names that exist.
    first: u64,
    end: u64,
}

impl Directory {
    fn new(volume: &Arc<Volume>, files: u64) -> Result<Self> {
        Self::named(volume, &format!("of {files}"), files)
    }

    fn named(volume: &Arc<Volume>, name: &str, files: u64) -> Result<Self> {
        let ino = volume.create(Ino::ROOT, name.as_bytes(), &DIRECTORY)?.ino;
        let directory =
            Self { volume: volume.clone(), ino, files, random: Random::new(), first: 0, end: 0 };
        for file in 0..files {
            interrupt::check()?;
            directory.create_name(&format!("stays {file}"))?;
        }
        Ok(directory)
    }

    fn create_name(&self, name: &str) -> Result<()> {
        let ino = self.volume.create(self.ino, name.as_bytes(), &FILE)?.ino;
        self.volume.forget(ino, 1);
        Ok(())
    }

    fn create(&mut self, files: u64) -> Result<()> {
        for _ in 0..files {
            self.create_name(&self.end.to_string())?;
            self.end += 1;
        }
        Ok(())
    }

    fn unlink(&mut self) -> Result<()> {
        for name in self.first..self.end {
            self.volume.unlink(self.ino, name.to_string().as_bytes())?;
        }
        self.first = self.end;
        Ok(())
    }

    fn lookup(&mut self, files: u64) -> Result<()> {
        for _ in 0..files {
            let name = format!("stays {}", self.random.below(self.files));
            let ino = self.volume.lookup(self.ino, name.as_bytes())?.ino;
            self.volume.forget(ino, 1);
        }
        Ok(())
    }
}

/// Lookup of any of the same number of files, but in directories of few.
struct LookupInMany(Vec<Directory>, Random);

impl Workload for LookupInMany {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            let directory = self.1.below(self.0.len() as u64) as usize;
            self.0[directory].lookup(1)?;
        }
        Ok(())
    }
}

struct Create(Directory);

impl Workload for Create {
    fn prepare(&mut self, _ops: u64) -> Result<()> {
        self.0.unlink()
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        self.0.create(ops)
    }
}

struct Unlink(Directory);

impl Workload for Unlink {
    fn prepare(&mut self, ops: u64) -> Result<()> {
        self.0.create(ops)
    }

    fn run(&mut self, _ops: u64) -> Result<()> {
        self.0.unlink()
    }
}

struct Lookup(Directory);

impl Workload for Lookup {
    fn run(&mut self, ops: u64) -> Result<()> {
        self.0.lookup(ops)
    }
}

/// Creation in a directory of few files.
pub fn create_among_few(volume: &Arc<Volume>, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Create(Directory::new(volume, FEW)?)))
}

/// Creation in a directory of very many files.
pub fn create_among_many(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Create(Directory::new(volume, sizes.many)?)))
}

/// Unlink in a directory of few files.
pub fn unlink_among_few(volume: &Arc<Volume>, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Unlink(Directory::new(volume, FEW)?)))
}

/// Unlink in a directory of very many files.
pub fn unlink_among_many(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Unlink(Directory::new(volume, sizes.many)?)))
}

/// Lookup of any file in a directory of few.
pub fn lookup_among_few(volume: &Arc<Volume>, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Lookup(Directory::new(volume, FEW)?)))
}

/// Lookup of any of very many files, in directories of few.
pub fn lookup_in_many(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let named = |number: u64| Directory::named(volume, &format!("{number} of {FEW}"), FEW);
    Ok(Box::new(LookupInMany(
        (0..sizes.many / FEW).map(named).collect::<Result<_>>()?,
        Random::nth(1),
    )))
}

/// Lookup of any file in a directory of very many.
pub fn lookup_among_many(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Lookup(Directory::new(volume, sizes.many)?)))
}

/// Blocks in one file or in many.
struct Blocks {
    volume: Arc<Volume>,
    files: Vec<Ino>,
    /// In each file.
    blocks: u64,
    /// From the start of a block to that of the next.
    stride_bytes: u64,
    random: Random,
}

impl Blocks {
    fn new(
        volume: &Arc<Volume>,
        name: &str,
        files: u64,
        blocks: u64,
        stride_bytes: u64,
    ) -> Result<Self> {
        let create = |file| -> Result<Ino> {
            let ino = volume.create(Ino::ROOT, format!("{name} {file}").as_bytes(), &FILE)?.ino;
            for block in 0..blocks {
                interrupt::check()?;
                write_all(volume, ino, block * stride_bytes, &FILLING[..BLOCK_BYTES], DURABLE)?;
            }
            Ok(ino)
        };
        let files =
            (0..files).map(create).collect::<Result<Vec<Ino>>>().context("filling files")?;
        Ok(Self { volume: volume.clone(), files, blocks, stride_bytes, random: Random::new() })
    }

    fn in_small_files(volume: &Arc<Volume>, sizes: Sizes) -> Result<Self> {
        let blocks = (PIECE_BYTES / BLOCK_BYTES) as u64;
        Self::new(
            volume,
            "small",
            sizes.file_bytes / SHARE / PIECE_BYTES as u64,
            blocks,
            BLOCK_BYTES as u64,
        )
    }

    fn in_large_file(volume: &Arc<Volume>, sizes: Sizes) -> Result<Self> {
        let blocks = sizes.file_bytes / SHARE / BLOCK_BYTES as u64;
        let stride_bytes = LARGE_FILE_BYTES / blocks / BLOCK_BYTES as u64 * BLOCK_BYTES as u64;
        Self::new(volume, "large", 1, blocks, stride_bytes)
    }

    fn any(&mut self) -> (Ino, u64) {
        let file = self.files[self.random.below(self.files.len() as u64) as usize];
        (file, self.random.below(self.blocks) * self.stride_bytes)
    }
}

struct Overwrite(Blocks);

impl Workload for Overwrite {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            let (ino, offset) = self.0.any();
            write_all(&self.0.volume, ino, offset, &FILLING[..BLOCK_BYTES], DURABLE)?;
        }
        Ok(())
    }
}

struct Read(Blocks);

impl Workload for Read {
    fn run(&mut self, ops: u64) -> Result<()> {
        let mut block = [0; BLOCK_BYTES];
        for _ in 0..ops {
            let (ino, offset) = self.0.any();
            self.0.volume.read(ino, offset, &mut block)?;
        }
        Ok(())
    }
}

/// Durable overwrite of any block of many small files.
pub fn overwrite_small_files(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Overwrite(Blocks::in_small_files(volume, sizes)?)))
}

/// Durable overwrite of any block of a large sparse file.
pub fn overwrite_large_file(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Overwrite(Blocks::in_large_file(volume, sizes)?)))
}

/// Read of any block of many small files.
pub fn read_small_files(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Read(Blocks::in_small_files(volume, sizes)?)))
}

/// Read of any block of a large sparse file.
pub fn read_large_file(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Read(Blocks::in_large_file(volume, sizes)?)))
}
