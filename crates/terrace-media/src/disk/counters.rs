//! What a disk has been asked to do. Next to a disk operation a locked add costs nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What was done to a disk since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Read calls that succeeded.
    pub reads: u64,
    /// Bytes they read.
    pub bytes_read: u64,
    /// Write calls that succeeded.
    pub writes: u64,
    /// Bytes they wrote.
    pub bytes_written: u64,
    /// Flush calls.
    pub flushes: u64,
    /// Discard calls that succeeded.
    pub discards: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self, bytes: u64) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn written(&self, bytes: u64) {
        self.writes.fetch_add(1, Relaxed);
        self.bytes_written.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn flushed(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    pub(crate) fn discarded(&self) {
        self.discards.fetch_add(1, Relaxed);
    }

    pub(crate) fn total(&self) -> DiskStats {
        DiskStats {
            reads: self.reads.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            writes: self.writes.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            discards: self.discards.load(Relaxed),
        }
    }
}
