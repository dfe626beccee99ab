//! The operations on a volume in process, without a kernel in between.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use terrace_engine::{
    FileKind, Ino, KillPriv, NewInode, PIN_XATTR, Volume, WriteOptions, XattrFlags,
};

use crate::workload::{
    BLOCK_BYTES, FILLING, RECORD_BYTES, RandomOffsets, Sizes, Workload, write_aged,
};

/// Makes a workload on a volume.
pub type OnVolume = fn(&Arc<Volume>, Sizes) -> Result<Box<dyn Workload>>;

const NAME: &[u8] = b"file";
/// A new file.
pub const FILE: NewInode =
    NewInode { kind: FileKind::Regular, mode: 0o600, umask: 0, uid: 0, gid: 0, rdev: 0 };
/// Durable when it returns.
pub const DURABLE: WriteOptions =
    WriteOptions { append: false, durable: true, kill_priv: KillPriv::Nothing };
/// Durable when somebody asks for that, or later.
pub const BUFFERED: WriteOptions = WriteOptions { durable: false, ..DURABLE };
const APPEND: WriteOptions = WriteOptions { append: true, ..DURABLE };

/// Creates a file whose data goes to the page cache, and to a disk from there.
///
/// # Errors
/// If the engine refuses.
pub fn file_past_pm(volume: &Volume, name: &[u8]) -> Result<Ino> {
    let ino = volume.create(Ino::ROOT, name, &FILE)?.ino;
    volume.setxattr(ino, PIN_XATTR.as_bytes(), b"1", XattrFlags::default(), None)?;
    Ok(ino)
}

/// Writes all of `data`.
pub fn write_all(
    volume: &Volume,
    ino: Ino,
    offset: u64,
    data: &[u8],
    options: WriteOptions,
) -> Result<()> {
    let written = volume.write(ino, offset, data, options)?;
    ensure!(written == data.len(), "a write of {} bytes wrote {written}", data.len());
    Ok(())
}

/// A file that has been written whole and then block by block.
pub fn aged_file(volume: &Volume, name: &[u8], sizes: Sizes) -> Result<Ino> {
    let ino = volume.create(Ino::ROOT, name, &FILE)?.ino;
    write_aged(sizes, |offset, data| write_all(volume, ino, offset, data, DURABLE))
        .context("filling a file")?;
    Ok(ino)
}

/// Durable write of a block at a random offset.
pub fn overwrite(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let ino = aged_file(volume, NAME, sizes)?;
    Ok(Box::new(Overwrite { volume: volume.clone(), ino, offsets: RandomOffsets::new(sizes) }))
}

struct Overwrite {
    volume: Arc<Volume>,
    ino: Ino,
    offsets: RandomOffsets,
}

impl Workload for Overwrite {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            write_all(
                &self.volume,
                self.ino,
                self.offsets.next(),
                &FILLING[..BLOCK_BYTES],
                DURABLE,
            )?;
        }
        Ok(())
    }
}

/// Read of a block at a random offset.
pub fn read(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let ino = aged_file(volume, NAME, sizes)?;
    Ok(Box::new(Read { volume: volume.clone(), ino, offsets: RandomOffsets::new(sizes) }))
}

struct Read {
    volume: Arc<Volume>,
    ino: Ino,
    offsets: RandomOffsets,
}

impl Workload for Read {
    fn run(&mut self, ops: u64) -> Result<()> {
        let mut block = [0; BLOCK_BYTES];
        for _ in 0..ops {
            let len_bytes = self.volume.read(self.ino, self.offsets.next(), &mut block)?;
            ensure!(len_bytes == BLOCK_BYTES, "a read of {BLOCK_BYTES} bytes got {len_bytes}");
        }
        Ok(())
    }
}

/// Creation of a new name, durable write of a block, unlink and the last forget, which frees the
/// inode.
pub fn create_write_unlink(volume: &Arc<Volume>, _sizes: Sizes) -> Result<Box<dyn Workload>> {
    Ok(Box::new(CreateWriteUnlink { volume: volume.clone(), created: 0 }))
}

struct CreateWriteUnlink {
    volume: Arc<Volume>,
    created: u64,
}

impl Workload for CreateWriteUnlink {
    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            self.created += 1;
            let name = self.created.to_string();
            let ino = self.volume.create(Ino::ROOT, name.as_bytes(), &FILE)?.ino;
            write_all(&self.volume, ino, 0, &FILLING[..BLOCK_BYTES], DURABLE)?;
            self.volume.unlink(Ino::ROOT, name.as_bytes())?;
            self.volume.forget(ino, 1);
        }
        Ok(())
    }
}

/// Durable append of a small record.
pub fn append(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let ino = volume.create(Ino::ROOT, NAME, &FILE)?.ino;
    Ok(Box::new(Append {
        volume: volume.clone(),
        ino,
        len_bytes: 0,
        len_bytes_max: sizes.appended_bytes_max,
    }))
}

struct Append {
    volume: Arc<Volume>,
    ino: Ino,
    len_bytes: u64,
    len_bytes_max: u64,
}

impl Workload for Append {
    fn prepare(&mut self, ops: u64) -> Result<()> {
        if self.len_bytes + ops * RECORD_BYTES as u64 > self.len_bytes_max {
            self.volume.unlink(Ino::ROOT, NAME)?;
            self.volume.forget(self.ino, 1);
            self.ino = self.volume.create(Ino::ROOT, NAME, &FILE)?.ino;
            self.len_bytes = 0;
        }
        Ok(())
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        for _ in 0..ops {
            write_all(&self.volume, self.ino, 0, &FILLING[..RECORD_BYTES], APPEND)?;
        }
        self.len_bytes += ops * RECORD_BYTES as u64;
        Ok(())
    }
}
