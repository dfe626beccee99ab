//! The least that an operation in process can cost on this machine: its stores and fences, or its copy, on bare PM of the
//! same size and kind, and the checksums that make one fence enough.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use terrace_layout::data_crc;
use terrace_media::{Pm, PmOpenOptions};

use crate::interrupt;
use crate::profile::Profile;
use crate::stage::memory_directory;
use crate::workload::{BATCH_OPS, BLOCK_BYTES, FILLING, RECORD_BYTES, RandomOffsets, Sizes};

/// A log entry.
const ENTRY_BYTES: usize = 64;
/// The entry of a short name takes two slots.
const NAME_ENTRY_BYTES: usize = 128;
/// Where entries go: behind the file, one after the other.
const LOG_BYTES: u64 = 64 << 20;

/// A step that an operation cannot do without, and what it costs by itself, in nanoseconds.
pub struct Step {
    pub what: &'static str,
    pub nanoseconds: f64,
}

struct Bare {
    pm: Arc<Pm>,
    offsets: RandomOffsets,
    /// Bytes stored behind the file so far.
    logged: u64,
    log_at: u64,
    buf: Vec<u8>,
}

impl Bare {
    fn new(directory: &Path, sizes: Sizes) -> Result<Self> {
        let path = directory.join("floor");
        Pm::create_file(&path, sizes.file_bytes + LOG_BYTES)?;
        let pm = Pm::open(&path, &PmOpenOptions::default())?;
        for offset in (0..pm.len()).step_by(BLOCK_BYTES) {
            pm.write_nt(offset, &FILLING[..BLOCK_BYTES]);
        }
        pm.fence()?;
        let buf = FILLING[..BLOCK_BYTES].to_vec();
        Ok(Self { pm, offsets: RandomOffsets::new(sizes), logged: 0, log_at: sizes.file_bytes, buf })
    }

    fn block(&mut self) {
        let at = self.offsets.next();
        self.pm.write_nt(at, &self.buf);
    }

    fn log(&mut self, len: usize) {
        self.pm.write_nt(self.log_at + self.logged, &self.buf[..len]);
        self.logged = (self.logged + len as u64) % (LOG_BYTES - BLOCK_BYTES as u64);
    }

    fn fence(&mut self) {
        black_box(self.pm.fence().is_ok());
    }

    fn read(&mut self) {
        let at = self.offsets.next();
        self.pm.read(at, &mut self.buf);
        black_box(&self.buf);
    }

    fn checksum(&mut self, len: usize) {
        black_box(data_crc(black_box(&self.buf[..len])));
    }
}

/// The steps of an operation, each measured for a while; every one contains those before it, but for the checksums.
///
/// # Errors
/// If there is no memory for the PM, or the run is interrupted.
pub fn steps(profile: Profile, sizes: Sizes, time: Duration) -> Result<Vec<Step>> {
    let directory = memory_directory()?;
    let mut bare = Bare::new(directory.path(), sizes)?;
    let mut step = |what, mut work: Box<dyn FnMut(&mut Bare)>| -> Result<Step> {
        let (mut ops, mut spent) = (0, Duration::ZERO);
        while spent < time {
            interrupt::check()?;
            let start = Instant::now();
            (0..BATCH_OPS).for_each(|_| work(&mut bare));
            spent += start.elapsed();
            ops += BATCH_OPS;
        }
        Ok(Step { what, nanoseconds: spent.as_nanos() as f64 / ops as f64 })
    };
    match profile {
        Profile::Overwrite => Ok(vec![
            step("4 KiB to any block", Box::new(Bare::block))?,
            step(
                "+ an entry and a fence",
                Box::new(|bare| {
                    bare.block();
                    bare.log(ENTRY_BYTES);
                    bare.fence();
                }),
            )?,
            step(
                "checksums of both",
                Box::new(|bare| {
                    bare.checksum(BLOCK_BYTES);
                    bare.checksum(ENTRY_BYTES);
                }),
            )?,
        ]),
        Profile::Read => Ok(vec![step("4 KiB from any block", Box::new(Bare::read))?]),
        Profile::Append => Ok(vec![
            step("128 bytes", Box::new(|bare| bare.log(RECORD_BYTES)))?,
            step(
                "+ an entry and a fence",
                Box::new(|bare| {
                    bare.log(RECORD_BYTES);
                    bare.log(ENTRY_BYTES);
                    bare.fence();
                }),
            )?,
            step(
                "checksums of both",
                Box::new(|bare| {
                    bare.checksum(RECORD_BYTES);
                    bare.checksum(ENTRY_BYTES);
                }),
            )?,
        ]),
        Profile::Create => Ok(vec![
            step(
                "record, name, fence, tail, fence",
                Box::new(|bare| {
                    bare.log(ENTRY_BYTES);
                    bare.log(NAME_ENTRY_BYTES);
                    bare.fence();
                    bare.log(size_of::<u64>());
                    bare.fence();
                }),
            )?,
            step(
                "+ 4 KiB, an entry and a fence, an entry and a fence",
                Box::new(|bare| {
                    bare.log(ENTRY_BYTES);
                    bare.log(NAME_ENTRY_BYTES);
                    bare.fence();
                    bare.log(size_of::<u64>());
                    bare.fence();
                    bare.block();
                    bare.log(ENTRY_BYTES);
                    bare.fence();
                    bare.log(ENTRY_BYTES);
                    bare.fence();
                }),
            )?,
            step(
                "checksums of all",
                Box::new(|bare| {
                    bare.checksum(BLOCK_BYTES);
                    (0..5).for_each(|_| bare.checksum(ENTRY_BYTES));
                }),
            )?,
        ]),
    }
}
