//! Operations on names through system calls.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{AtFlags, OFlags, statat, unlinkat};

use crate::files::{NAME, create as create_file, open_directory};
use crate::workload::{BLOCK_BYTES, FILLING, Sizes, Workload};

/// Creation of a new name, and close.
pub fn create(directory: &Path, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Create(Batch { directory: open_directory(directory)?, first: 0, end: 0 })))
}

/// Unlink of a name that was created not long before.
pub fn unlink(directory: &Path, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Unlink(Batch { directory: open_directory(directory)?, first: 0, end: 0 })))
}

/// Names that are created together and removed together, each used once.
struct Batch {
    directory: OwnedFd,
    first: u64,
    end: u64,
}

impl Batch {
    fn create(&mut self, files: u64) -> Result<()> {
        for _ in 0..files {
            create_file(&self.directory, &self.end.to_string(), OFlags::EXCL)?;
            self.end += 1;
        }
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        for name in self.first..self.end {
            unlinkat(&self.directory, name.to_string(), AtFlags::empty())?;
        }
        self.first = self.end;
        Ok(())
    }
}

struct Create(Batch);

impl Workload for Create {
    fn prepare(&mut self, _ops: u64) -> Result<()> {
        self.0.remove()
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        self.0.create(ops)
    }
}

struct Unlink(Batch);

impl Workload for Unlink {
    fn prepare(&mut self, ops: u64) -> Result<()> {
        self.0.create(ops)
    }

    fn run(&mut self, _ops: u64) -> Result<()> {
        self.0.remove()
    }
}

/// Creation of a new name, pwrite of a block, close, unlink.
pub fn create_write_unlink(directory: &Path, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(CreateWriteUnlink { directory: open_directory(directory)?, created: 0 }))
}

struct CreateWriteUnlink {
    directory: OwnedFd,
    created: u64,
}

impl Workload for CreateWriteUnlink {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            self.created += 1;
            let name = self.created.to_string();
            let file = create_file(&self.directory, &name, OFlags::empty())?;
            file.write_all_at(&FILLING[..BLOCK_BYTES], 0)?;
            drop(file);
            unlinkat(&self.directory, name.as_str(), AtFlags::empty())?;
        }
        Ok(())
    }
}

/// Creation of a name, close, unlink.
pub fn create_unlink(directory: &Path, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(CreateUnlink { directory: open_directory(directory)? }))
}

struct CreateUnlink {
    directory: OwnedFd,
}

impl Workload for CreateUnlink {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            create_file(&self.directory, NAME, OFlags::EXCL)?;
            unlinkat(&self.directory, NAME, AtFlags::empty())?;
        }
        Ok(())
    }
}

/// fstatat of one name.
pub fn stat(directory: &Path, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    let directory = open_directory(directory)?;
    create_file(&directory, NAME, OFlags::EXCL)?;
    // The attributes that creation changed are asked for once.
    statat(&directory, NAME, AtFlags::empty())?;
    Ok(Box::new(Stat { directory }))
}

struct Stat {
    directory: OwnedFd,
}

impl Workload for Stat {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            std::hint::black_box(statat(&self.directory, NAME, AtFlags::empty())?);
        }
        Ok(())
    }
}
