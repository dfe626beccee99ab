//! What a disk has been asked to do. Next to a disk operation a locked add costs nothing.

use std::time::Duration;

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
    /// Bytes of the reads that were timed: those that a thread waited for.
    pub timed_read_bytes: u64,
    /// How long these reads took, in nanoseconds.
    pub read_ns: u64,
    /// Bytes of long writes: of 64 KiB and more.
    pub long_written_bytes: u64,
    /// How long these writes took, in nanoseconds.
    pub long_write_ns: u64,
    /// How long flushes took, in nanoseconds.
    pub flush_ns: u64,
}

/// The time of a shorter write says little of how fast a disk transfers: 64 KiB.
pub const LONG_BYTES: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Counters {
    reads: AtomicU64,
    bytes_read: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    timed_read_bytes: AtomicU64,
    read_ns: AtomicU64,
    long_written_bytes: AtomicU64,
    long_write_ns: AtomicU64,
    flush_ns: AtomicU64,
}

fn ns(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
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

    /// A read that a thread has waited for took so long.
    pub(crate) fn read_took(&self, bytes: u64, took: Duration) {
        self.timed_read_bytes.fetch_add(bytes, Relaxed);
        self.read_ns.fetch_add(ns(took), Relaxed);
    }

    pub(crate) fn write_took(&self, bytes: u64, took: Duration) {
        if bytes >= LONG_BYTES {
            self.long_written_bytes.fetch_add(bytes, Relaxed);
            self.long_write_ns.fetch_add(ns(took), Relaxed);
        }
    }

    pub(crate) fn flush_took(&self, took: Duration) {
        self.flush_ns.fetch_add(ns(took), Relaxed);
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
            timed_read_bytes: self.timed_read_bytes.load(Relaxed),
            read_ns: self.read_ns.load(Relaxed),
            long_written_bytes: self.long_written_bytes.load(Relaxed),
            long_write_ns: self.long_write_ns.load(Relaxed),
            flush_ns: self.flush_ns.load(Relaxed),
        }
    }
}
