//! What the policy remembers of an inode in memory, in words of its own: how a file is read, and
//! what the tiering floor knows of it. All floors may read and note; nobody takes a lock for it.
//!
//! Each word is a hint: it survives a race with a value that one of the two has written.

use terrace_layout::BLOCK_BYTES;
use terrace_store::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::base::pin::Pin;
use crate::base::types::Time;

/// How a file is read.
#[derive(Debug, Default)]
pub(crate) struct ReadHabits {
    /// Where the last read ended.
    end: AtomicU64,
    /// Blocks read by messages since the last write: the read-frequency predictor (TPFS, section
    /// 5.2).
    blocks_read_since_write: AtomicU64,
    /// Mean time of reads, by blocks (artime), in nanoseconds; 0 if there were none.
    mean_time: AtomicI64,
}

impl ReadHabits {
    /// `len` bytes of a file of `size` bytes were read: the predictor counts them, and the mean
    /// time of reads moves by as much of the way to now.
    pub fn note(&self, len: usize, size: u64) {
        let blocks = self.blocks_read_since_write() + (len as u64).div_ceil(BLOCK_BYTES);
        self.blocks_read_since_write.store(blocks, Ordering::Relaxed);
        self.note_direct(len, size);
    }

    /// The same, by a program that has borrowed the file: such reads are no reason to move it.
    pub fn note_direct(&self, len: usize, size: u64) {
        let (mean, now) = (self.mean_time_ns(), Time::now().0);
        let share = (len as f64 / size.max(1) as f64).min(1.0);
        let moved =
            if mean == 0 { now } else { mean + (now.saturating_sub(mean) as f64 * share) as i64 };
        self.mean_time.store(moved, Ordering::Relaxed);
    }

    /// Notes where a read of `len` bytes at `offset` ends; true if it began where the last one
    /// ended.
    pub fn note_end(&self, offset: u64, len: usize) -> bool {
        // Not in one step: a locked instruction costs more than all the rest.
        let sequential = self.goes_on_at(offset);
        self.end.store(offset + len as u64, Ordering::Relaxed);
        sequential
    }

    /// Whether a read that begins here begins where the last one ended.
    pub fn goes_on_at(&self, offset: u64) -> bool {
        self.end.load(Ordering::Relaxed) == offset
    }

    /// The file is written: reads are counted anew.
    pub fn note_written(&self) {
        self.blocks_read_since_write.store(0, Ordering::Relaxed);
    }

    /// Blocks read by messages since the last write.
    pub fn blocks_read_since_write(&self) -> u64 {
        self.blocks_read_since_write.load(Ordering::Relaxed)
    }

    /// Mean time of reads in nanoseconds since the epoch; 0 if there were none.
    pub fn mean_time_ns(&self) -> i64 {
        self.mean_time.load(Ordering::Relaxed)
    }
}

/// What the tiering floor knows of an inode.
#[derive(Debug)]
pub(crate) struct TierWords {
    /// The tier that its data belongs to, if it is pinned.
    pub pin: Pin,
    /// Mean time of writes, by blocks (amtime), in nanoseconds: what the file's `heat` says, for
    /// those who do not hold `inner`.
    amtime: AtomicI64,
    /// The order in which files leave a tier: the mean time of writes, and how much younger or
    /// older than that the file counts.
    rank: AtomicI64,
    /// A bit per tier: the file is listed there.
    listed: AtomicU64,
    /// When its log was last copied in vain, since somebody changed it meanwhile; 0: never.
    log_overtaken: AtomicI64,
    /// How often it was synced without its predictor's knowledge.
    syncs: AtomicU64,
}

impl TierWords {
    /// Of an inode that has just been made or loaded.
    pub fn new(pin: Option<u8>, amtime: Time) -> Self {
        Self {
            pin: Pin::new(pin),
            amtime: AtomicI64::new(amtime.0),
            rank: AtomicI64::new(amtime.0),
            listed: AtomicU64::new(0),
            log_overtaken: AtomicI64::new(0),
            syncs: AtomicU64::new(0),
        }
    }

    /// Mean time of writes in nanoseconds since the epoch.
    pub fn amtime_ns(&self) -> i64 {
        self.amtime.load(Ordering::Relaxed)
    }

    /// When the file counts as written, in the order in which files leave a tier.
    pub fn rank_ns(&self) -> i64 {
        self.rank.load(Ordering::Relaxed)
    }

    /// The file was written, and counts as so much younger.
    pub fn set_times(&self, mean: Time, grace_ns: i64) {
        self.amtime.store(mean.0, Ordering::Relaxed);
        self.rank.store(mean.0.saturating_add(grace_ns), Ordering::Relaxed);
    }

    /// The file is to be listed in a tier; false if it was listed there before.
    #[inline]
    pub fn list(&self, tier: u8) -> bool {
        // Most often it is, and nobody else's copy of the line need go.
        let is_new = self.listed.load(Ordering::Relaxed) & tier_bit(tier) == 0;
        if is_new {
            self.listed.fetch_or(tier_bit(tier), Ordering::Relaxed);
        }
        is_new
    }

    /// The file is not listed in a tier any more.
    pub fn unlist(&self, tier: u8) {
        self.listed.fetch_and(!tier_bit(tier), Ordering::Relaxed);
    }

    /// The file is listed nowhere any more.
    pub fn unlist_everywhere(&self) {
        self.listed.store(0, Ordering::Relaxed);
    }

    /// When the log was last copied in vain, in nanoseconds since the epoch; 0: never.
    pub fn log_overtaken_ns(&self) -> i64 {
        self.log_overtaken.load(Ordering::Relaxed)
    }

    /// The log has been copied in vain.
    pub fn note_log_overtaken(&self) {
        self.log_overtaken.store(Time::now().0, Ordering::Relaxed);
    }

    /// The file was synced, and nobody could tell its predictor at once.
    pub fn note_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the syncs that the predictor has not heard of.
    pub fn take_syncs(&self) -> u64 {
        match self.syncs.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.syncs.swap(0, Ordering::Relaxed),
        }
    }
}

fn tier_bit(tier: u8) -> u64 {
    1 << tier.min(63)
}
