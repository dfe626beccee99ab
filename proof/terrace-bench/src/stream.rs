//! A file that is read or written from one end to the other, 1 MiB at a time. An operation is one
//! of these pieces.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::Result;
use rustix::fs::{Advice, AtFlags, OFlags, fadvise, unlinkat};

use crate::files::{NAME, create, open_directory};
use crate::interrupt;
use crate::workload::{FILLING, PIECE_BYTES, Sizes, Workload};

fn pieces(sizes: Sizes) -> u64 {
    sizes.stream_bytes / PIECE_BYTES as u64
}

/// Writes the file from its start to its end and makes it durable.
fn write_out(file: &File, pieces: u64) -> Result<()> {
    for piece in 0..pieces {
        interrupt::check()?;
        file.write_all_at(&FILLING, piece * PIECE_BYTES as u64)?;
    }
    Ok(file.sync_all()?)
}

/// pread of all of a file that nothing has cached: the kernel is told to forget it, and a later
/// file as large as the volume's own cache has taken its place there.
pub fn read(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let directory = open_directory(directory)?;
    let file = create(&directory, NAME, OFlags::EXCL)?;
    write_out(&file, pieces(sizes))?;
    let later = create(&directory, "later", OFlags::EXCL)?;
    write_out(&later, pieces(sizes).div_ceil(2) + 1)?;
    fadvise(&file, 0, None, Advice::Sequential)?;
    Ok(Box::new(Read { file, pieces: pieces(sizes), buffer: vec![0; PIECE_BYTES] }))
}

struct Read {
    file: File,
    pieces: u64,
    buffer: Vec<u8>,
}

impl Workload for Read {
    fn batch_ops(&self) -> u64 {
        self.pieces
    }

    fn prepare(&mut self, _ops: u64) -> Result<()> {
        Ok(fadvise(&self.file, 0, None, Advice::DontNeed)?)
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        (0..ops).try_for_each(|piece| {
            Ok(self.file.read_exact_at(&mut self.buffer, piece * PIECE_BYTES as u64)?)
        })
    }
}

/// pwrite of all of a new file, and fsync.
pub fn write(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Write { directory: open_directory(directory)?, file: None, pieces: pieces(sizes) }))
}

struct Write {
    directory: OwnedFd,
    file: Option<File>,
    pieces: u64,
}

impl Workload for Write {
    fn batch_ops(&self) -> u64 {
        self.pieces
    }

    fn prepare(&mut self, _ops: u64) -> Result<()> {
        if self.file.take().is_some() {
            unlinkat(&self.directory, NAME, AtFlags::empty())?;
        }
        let file = create(&self.directory, NAME, OFlags::EXCL)?;
        // The predecessor's removal is not to be waited for in the time that counts.
        file.sync_all()?;
        self.file = Some(file);
        Ok(())
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| write_out(file, ops))
    }
}
