//! The least that an operation in process can cost on this machine: its stores and fences, or its
//! copy, on bare PM of the same size and kind, and the checksums that make one fence enough.

use std::hint::black_box;
use std::sync::Arc;

use anyhow::Result;
use tempfile::TempDir;
use terrace_layout::data_crc;
use terrace_media::{Pm, PmOpenOptions};

use crate::stage::memory_directory;
use crate::workload::{BLOCK_BYTES, FILLING, RECORD_BYTES, RandomOffsets, Sizes, Workload};

/// A log entry.
const ENTRY_BYTES: usize = 64;
/// The entry of a short name takes two slots.
const NAME_ENTRY_BYTES: usize = 128;
/// A tail.
const WORD_BYTES: usize = 8;
/// Where entries go: behind the file, one after the other.
const LOG_BYTES: u64 = 64 << 20;

/// What an operation does to PM.
#[derive(Clone, Copy)]
enum Act {
    /// Stores 4 KiB to any block.
    Block,
    /// Stores so many bytes behind the last ones.
    Log(usize),
    Fence,
    /// Reads 4 KiB from any block.
    Read,
    /// Computes the checksum of so many bytes.
    Checksum(usize),
}
use Act::{Block, Checksum, Fence, Log, Read};

/// A step that an operation cannot do without: what it is called, what it does.
pub struct Step(pub &'static str, &'static [Act]);

/// Steps of a durable overwrite; here as below, each contains those before it, but for the
/// checksums.
pub const OVERWRITE: &[Step] = &[
    Step("4 KiB to any block", &[Block]),
    Step("+ an entry and a fence", &[Block, Log(ENTRY_BYTES), Fence]),
    Step("checksums of both", &[Checksum(BLOCK_BYTES), Checksum(ENTRY_BYTES)]),
];
/// Steps of a read.
pub const READ: &[Step] = &[Step("4 KiB from any block", &[Read])];
/// Steps of a durable append.
pub const APPEND: &[Step] = &[
    Step("128 bytes", &[Log(RECORD_BYTES)]),
    Step("+ an entry and a fence", &[Log(RECORD_BYTES), Log(ENTRY_BYTES), Fence]),
    Step("checksums of both", &[Checksum(RECORD_BYTES), Checksum(ENTRY_BYTES)]),
];
const ENTRY: Act = Checksum(ENTRY_BYTES);
const NAME: [Act; 5] = [Log(ENTRY_BYTES), Log(NAME_ENTRY_BYTES), Fence, Log(WORD_BYTES), Fence];
/// Steps of create, write and unlink.
pub const CREATE: &[Step] = &[
    Step("record, name, fence, tail, fence", &NAME),
    Step(
        "+ 4 KiB, an entry and a fence, an entry and a fence",
        &[
            NAME[0],
            NAME[1],
            NAME[2],
            NAME[3],
            NAME[4],
            Block,
            Log(ENTRY_BYTES),
            Fence,
            Log(ENTRY_BYTES),
            Fence,
        ],
    ),
    Step("checksums of all", &[Checksum(BLOCK_BYTES), ENTRY, ENTRY, ENTRY, ENTRY, ENTRY]),
];

/// Bare PM.
pub struct Bare {
    pm: Arc<Pm>,
    offsets: RandomOffsets,
    /// Bytes stored behind the file so far.
    logged: u64,
    log_at: u64,
    buf: Vec<u8>,
    _directory: TempDir,
}

/// A step, as often as one likes.
pub struct Repeated<'a>(pub &'a mut Bare, pub &'a Step);

impl Bare {
    /// As long as the file that is read and overwritten, and a log.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(sizes: Sizes) -> Result<Self> {
        let directory = memory_directory()?;
        let path = directory.path().join("floor");
        Pm::create_file(&path, sizes.file_bytes + LOG_BYTES)?;
        let pm = Pm::open(&path, &PmOpenOptions::default())?;
        for offset in (0..pm.len()).step_by(BLOCK_BYTES) {
            pm.write_nt(offset, &FILLING[..BLOCK_BYTES]);
        }
        pm.fence()?;
        let (offsets, buf) = (RandomOffsets::new(sizes), FILLING[..BLOCK_BYTES].to_vec());
        Ok(Self { pm, offsets, logged: 0, log_at: sizes.file_bytes, buf, _directory: directory })
    }

    #[inline]
    fn act(&mut self, act: Act) -> Result<()> {
        match act {
            Block => self.pm.write_nt(self.offsets.next(), &self.buf),
            Log(len) => {
                self.pm.write_nt(self.log_at + self.logged, &self.buf[..len]);
                self.logged = (self.logged + len as u64) % (LOG_BYTES - BLOCK_BYTES as u64);
            }
            Fence => self.pm.fence()?,
            Read => {
                self.pm.read(self.offsets.next(), &mut self.buf);
                black_box(&self.buf);
            }
            Checksum(len) => {
                black_box(data_crc(black_box(&self.buf[..len])));
            }
        }
        Ok(())
    }
}

impl Workload for Repeated<'_> {
    fn run(&mut self, ops: u64) -> Result<()> {
        let Step(_, acts) = self.1;
        (0..ops).try_for_each(|_| acts.iter().try_for_each(|&act| self.0.act(act)))
    }
}
