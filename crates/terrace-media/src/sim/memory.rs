//! A disk in memory, for tests that need neither a file nor a simulator.

use std::path::{Path, PathBuf};

use parking_lot::RwLock;

use crate::disk::{Counters, Disk, DiskStats, check_run};
use crate::error::{IoOp, MediaError};

#[derive(Debug)]
pub(super) struct MemoryDisk {
    path: PathBuf,
    len: u64,
    bytes: RwLock<Vec<u8>>,
    counters: Counters,
}

impl MemoryDisk {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        MemoryDisk {
            path: PathBuf::from("<memory disk>"),
            len,
            bytes: RwLock::new(bytes),
            counters: Counters::default(),
        }
    }
}

impl Disk for MemoryDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        check_run(self, IoOp::Read, off, buf.len() as u64)?;
        buf.copy_from_slice(&self.bytes.read()[off as usize..][..buf.len()]);
        self.counters.read(buf.len() as u64);
        Ok(())
    }

    fn write_at(&self, off: u64, buf: &[u8]) -> Result<(), MediaError> {
        check_run(self, IoOp::Write, off, buf.len() as u64)?;
        self.bytes.write()[off as usize..][..buf.len()].copy_from_slice(buf);
        self.counters.written(buf.len() as u64);
        Ok(())
    }

    fn flush(&self) -> Result<(), MediaError> {
        self.counters.flushed();
        Ok(())
    }

    fn discard(&self, off: u64, len: u64) -> Result<(), MediaError> {
        check_run(self, IoOp::Discard, off, len)?;
        self.bytes.write()[off as usize..(off + len) as usize].fill(0);
        self.counters.discarded();
        Ok(())
    }

    fn stats(&self) -> DiskStats {
        self.counters.total()
    }
}
