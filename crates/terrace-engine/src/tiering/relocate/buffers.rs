//! Buffers that data is copied through on its way to another tier.

use terrace_layout::BLOCK_BYTES;
use terrace_media::AlignedBuf;
use terrace_store::file::BLOCK;
use terrace_store::sync::{Mutex, limit};

use crate::pageio::runs::Page;

/// Blocks that are copied through one buffer, which the CPU's caches should hold, and committed
/// together: 16 MiB.
pub(crate) const BUFFER_BLOCKS: u64 = limit(4096, 2) as u64;

/// Blocks of several files that are copied through one buffer: 4 MiB. While they are written, the
/// next are read.
pub(crate) const BATCH_BLOCKS: u64 = limit(1024, 1) as u64;

/// A copied block.
#[derive(Clone, Copy)]
pub(crate) struct Copied<'a> {
    /// The file's number among those that are copied together.
    pub file: usize,
    pub block: u64,
    pub data: &'a [u8],
    pub crc: u32,
}

impl Page for Copied<'_> {
    fn block(&self) -> u64 {
        self.block
    }

    fn file(&self) -> usize {
        self.file
    }

    fn data(&self) -> &[u8] {
        self.data
    }

    fn crc(&self) -> u32 {
        self.crc
    }
}

/// Holds source runs on their way.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub bytes: AlignedBuf,
    /// Blocks and their checksums, in the order of the bytes: the file's number, its block. Blocks
    /// that could not be read are left out.
    pub blocks: Vec<(usize, u64, u32)>,
}

impl Buffer {
    fn new(blocks: u64) -> Self {
        Self { bytes: AlignedBuf::new(blocks as usize * BLOCK), blocks: Vec::new() }
    }

    pub fn copied(&self) -> Vec<Copied<'_>> {
        let pages = self.blocks.iter().zip(self.bytes.chunks(BLOCK));
        pages.map(|(&(file, block, crc), data)| Copied { file, block, data, crc }).collect()
    }
}

/// Buffers of earlier relocations for the next ones: fresh memory costs as much as a copy. The
/// memory is given back when a series of relocations has ended.
#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Vec<Buffer>>);

impl Buffers {
    pub fn take(&self, blocks: u64) -> Buffer {
        let mut spare = self.0.lock();
        let fits =
            spare.iter().position(|buffer| buffer.bytes.len() as u64 >= blocks * BLOCK_BYTES);
        fits.filter(|_| blocks > 0)
            .map_or_else(|| Buffer::new(blocks), |fits| spare.swap_remove(fits))
    }

    pub fn give_back(&self, buffer: Buffer) {
        if buffer.bytes.len() as u64 >= BATCH_BLOCKS * BLOCK_BYTES {
            self.0.lock().push(buffer);
        }
    }

    /// Gives the memory back to the system.
    pub fn release(&self) {
        self.0.lock().clear();
    }
}
