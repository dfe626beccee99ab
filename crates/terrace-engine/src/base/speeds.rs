//! How long reads and writes take under load, by what serves them. Disks time their own operations
//! ([`DiskStats`](terrace_media::DiskStats)); here PM and the page cache are timed, as far as an
//! operation was served by one of them alone.

use std::cell::Cell;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use terrace_layout::BLOCK_BYTES;
use terrace_policy::{LONG_BLOCKS, Load, READ_CLASSES, Timed, is_long, is_timed, read_class};
use terrace_store::sync::atomic::{AtomicU64, Ordering};

/// Timed operations of a device, or of the page cache. As JSON, it may be of a daemon of another
/// version: what that does not know is zero here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpeedStats {
    /// `pm`, `cache`, `disk1`, `disk2`, …
    pub device: String,
    /// `read` (of disks all that a thread waited for; else those of one to 15 blocks, one in 61 of
    /// them), `long_read`, `long_write` (16 blocks and more), or `flush`.
    pub operation: String,
    /// Bytes of the operations that were timed, in whole blocks; of flushes their number.
    pub timed: u64,
    /// How long they took, in nanoseconds.
    pub total_ns: u64,
}

impl SpeedStats {
    pub(crate) fn new(device: &str, operation: &str, timed: u64, total_ns: u64) -> Self {
        Self { device: device.to_owned(), operation: operation.to_owned(), timed, total_ns }
    }

    /// The operations that came after `earlier`.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            timed: self.timed.saturating_sub(earlier.timed),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            ..self.clone()
        }
    }
}

#[derive(Debug, Default)]
struct Meter {
    ns: AtomicU64,
    blocks: AtomicU64,
}

impl Meter {
    fn add(&self, blocks: u64, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.ns.fetch_add(took_ns, Ordering::Relaxed);
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
    }

    fn timed(&self) -> Timed {
        Timed { ns: self.ns.load(Ordering::Relaxed), blocks: self.blocks.load(Ordering::Relaxed) }
    }
}

/// See the module. Reads by class ([`read_class`]).
#[derive(Debug, Default)]
pub(crate) struct Speeds {
    pm_reads: [Meter; READ_CLASSES],
    cache_reads: [Meter; READ_CLASSES],
    pm_writes: Meter,
    cache_writes: Meter,
}

/// The target of a long write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WrittenTo {
    Pm,
    Cache,
}

/// Bytes of a read, by what served them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub all: usize,
    pub from_pm: usize,
    pub from_cache: usize,
}

fn blocks_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BLOCK_BYTES)
}

impl Speeds {
    /// A read of so many bytes begins; its time, if it is one that is timed.
    #[inline]
    pub fn begin_read(&self, bytes: usize) -> Option<Instant> {
        thread_local! {
            static READS: Cell<u32> = const { Cell::new(0) };
        }
        let is_next = || {
            let nth = READS.get();
            READS.set(nth.wrapping_add(1));
            is_timed(nth)
        };
        // The time of less than a block is that of all that is done around it.
        let is_wanted = bytes as u64 >= BLOCK_BYTES && (is_long(blocks_of(bytes)) || is_next());
        is_wanted.then(Instant::now)
    }

    /// A read is over that began at this time.
    pub fn end_read(&self, begun: Instant, served: Served) {
        let blocks = blocks_of(served.all);
        let class = read_class(blocks);
        if served.from_pm == served.all {
            self.pm_reads[class].add(blocks, begun.elapsed());
        } else if served.from_cache == served.all {
            self.cache_reads[class].add(blocks, begun.elapsed());
        }
    }

    /// A write of so many bytes begins; its time, if it is one that is timed.
    #[inline]
    pub fn begin_write(&self, bytes: usize) -> Option<Instant> {
        is_long(blocks_of(bytes)).then(Instant::now)
    }

    /// A write is over that began at this time.
    pub fn end_write(&self, begun: Instant, bytes: usize, to: WrittenTo) {
        let meter = match to {
            WrittenTo::Pm => &self.pm_writes,
            WrittenTo::Cache => &self.cache_writes,
        };
        meter.add(blocks_of(bytes), begun.elapsed());
    }

    /// All that was timed so far; nothing of disks.
    pub fn load(&self) -> Load {
        Load {
            pm_reads: self.pm_reads.each_ref().map(Meter::timed),
            cache_reads: self.cache_reads.each_ref().map(Meter::timed),
            pm_writes: self.pm_writes.timed(),
            cache_writes: self.cache_writes.timed(),
            ..Load::default()
        }
    }

    /// The same, for those who look from outside.
    pub fn stats(&self) -> Vec<SpeedStats> {
        let Load { pm_reads, cache_reads, pm_writes, cache_writes, .. } = self.load();
        let (short, long) = (..read_class(LONG_BLOCKS), read_class(LONG_BLOCKS)..);
        let sum = |reads: &[Timed]| {
            let add = |a: Timed, b: &Timed| Timed { ns: a.ns + b.ns, blocks: a.blocks + b.blocks };
            reads.iter().fold(Timed::default(), add)
        };
        let rows = [
            ("pm", "read", sum(&pm_reads[short])),
            ("pm", "long_read", sum(&pm_reads[long.clone()])),
            ("pm", "long_write", pm_writes),
            ("cache", "read", sum(&cache_reads[short])),
            ("cache", "long_read", sum(&cache_reads[long])),
            ("cache", "long_write", cache_writes),
        ];
        rows.map(|(device, operation, timed)| {
            SpeedStats::new(device, operation, timed.blocks * BLOCK_BYTES, timed.ns)
        })
        .into()
    }
}
