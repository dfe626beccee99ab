//! One thread and two, on files of their own or on one. An operation of either counts.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use terrace_engine::{Ino, Volume};

use crate::engine::{DURABLE, aged_file, write_all};
use crate::workload::{BLOCK_BYTES, FILLING, Random, Sizes, Workload};

/// Long enough that starting a thread does not count.
const OPS_PER_THREAD: u64 = 16384;

/// What each thread repeats: does so many operations.
type Work = Box<dyn FnMut(u64) -> Result<()> + Send>;

struct Threads(Vec<Work>);

impl Workload for Threads {
    fn batch_ops(&self) -> u64 {
        OPS_PER_THREAD * self.0.len() as u64
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let each = ops / self.0.len() as u64;
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                self.0.iter_mut().map(|work| scope.spawn(move || work(each))).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
        })
    }
}

/// The files, each with a share of the bytes; found again if an earlier workload on the volume made
/// them.
fn files(volume: &Arc<Volume>, sizes: Sizes) -> Result<[(Ino, u64); 2]> {
    let share = Sizes { file_bytes: sizes.file_bytes / 2, ..sizes };
    let file = |name: &[u8]| -> Result<(Ino, u64)> {
        let ino = match volume.lookup(Ino::ROOT, name) {
            Ok(attr) => attr.ino,
            Err(error) if error.errno() == libc::ENOENT => aged_file(volume, name, share)?,
            Err(error) => return Err(error.into()),
        };
        Ok((ino, share.file_bytes / BLOCK_BYTES as u64))
    };
    Ok([file(b"first")?, file(b"second")?])
}

fn overwrite(volume: &Arc<Volume>, thread: u64, (ino, blocks): (Ino, u64)) -> Work {
    let (volume, mut random) = (volume.clone(), Random::nth(thread));
    Box::new(move |ops| {
        for _ in 0..ops {
            let offset = random.below(blocks) * BLOCK_BYTES as u64;
            write_all(&volume, ino, offset, &FILLING[..BLOCK_BYTES], DURABLE)?;
        }
        Ok(())
    })
}

fn read(volume: &Arc<Volume>, thread: u64, (ino, blocks): (Ino, u64)) -> Work {
    let (volume, mut random) = (volume.clone(), Random::nth(thread));
    Box::new(move |ops| {
        let mut block = [0; BLOCK_BYTES];
        for _ in 0..ops {
            volume.read(ino, random.below(blocks) * BLOCK_BYTES as u64, &mut block)?;
        }
        Ok(())
    })
}

fn threads(works: impl IntoIterator<Item = Work>) -> Result<Box<dyn Workload>> {
    Ok(Box::new(Threads(works.into_iter().collect())))
}

/// Durable overwrite of blocks, one thread.
pub fn overwrite_one(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    threads([overwrite(volume, 0, files(volume, sizes)?[0])])
}

/// Durable overwrite of blocks, two threads, each on its file.
pub fn overwrite_two(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let [first, second] = files(volume, sizes)?;
    threads([overwrite(volume, 0, first), overwrite(volume, 1, second)])
}

/// Reads of blocks, one thread.
pub fn read_one(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    threads([read(volume, 0, files(volume, sizes)?[0])])
}

/// Reads of blocks, two threads, each on its file.
pub fn read_two(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let [first, second] = files(volume, sizes)?;
    threads([read(volume, 0, first), read(volume, 1, second)])
}

/// Reads of blocks, two threads on one file.
pub fn read_shared_two(volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let [first, _] = files(volume, sizes)?;
    threads([read(volume, 0, first), read(volume, 1, first)])
}

/// Copies of blocks from memory, one thread: what the machine can do.
pub fn copy_one(_volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    threads([copy(0, sizes)])
}

/// The same, two threads.
pub fn copy_two(_volume: &Arc<Volume>, sizes: Sizes) -> Result<Box<dyn Workload>> {
    threads([copy(0, sizes), copy(1, sizes)])
}

fn copy(thread: u64, sizes: Sizes) -> Work {
    let memory = vec![1_u8; sizes.file_bytes as usize / 4];
    let mut random = Random::nth(thread);
    Box::new(move |ops| {
        let mut block = [0; BLOCK_BYTES];
        for _ in 0..ops {
            let at = random.below((memory.len() / BLOCK_BYTES) as u64) as usize * BLOCK_BYTES;
            block.copy_from_slice(&memory[at..at + BLOCK_BYTES]);
            std::hint::black_box(&block);
        }
        Ok(())
    })
}
