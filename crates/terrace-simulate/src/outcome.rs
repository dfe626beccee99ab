//! What a simulated volume did, and which of several is worth its price.

use serde::Serialize;

use crate::hindsight::Hindsight;

/// An outcome that takes at most so much longer than the best is as good.
pub const GOOD_ENOUGH_PERCENT: u64 = 5;

/// What a simulated volume did with a trace. Times in virtual nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Operations.
    pub operations: u64,
    /// Bytes of files read from PM.
    pub read_pm_bytes: u64,
    /// Bytes of files read that were in the page cache, dirty or clean.
    pub read_cache_bytes: u64,
    /// Bytes of files read that a disk had to bring.
    pub read_disk_bytes: u64,
    /// Bytes written to PM.
    pub written_pm_bytes: u64,
    /// Bytes written to the page cache because the write was large and asynchronous.
    pub written_large_async_bytes: u64,
    /// Bytes written to the page cache because nobody waits for them and data was leaving PM.
    pub written_bulk_bytes: u64,
    /// Bytes written to the page cache because PM was full.
    pub written_pm_full_bytes: u64,
    /// Bytes written to the page cache because older versions of their blocks were dirty there.
    pub written_joins_dirty_bytes: u64,
    /// Bytes taken from the page cache to the disk.
    pub written_back_bytes: u64,
    /// Bytes that write migration took from PM to the disk.
    pub migrated_write_bytes: u64,
    /// Bytes that read migration took from PM to the disk and the page cache.
    pub migrated_read_bytes: u64,
    /// Bytes that reverse migration took from the disk to PM.
    pub migrated_reverse_bytes: u64,
    /// Seconds in which a budget of wear kept data from moving.
    pub held_up_seconds: u64,
    /// Writes that waited for pages of the page cache.
    pub stalls: u64,
    /// How long these waited for them.
    pub stalled_ns: u64,
    /// How long programs waited for the disk, stalls included.
    pub disk_wait_ns: u64,
    /// What all operations took together.
    pub io_ns: u64,
    /// What they would have taken with everything in PM.
    pub all_pm_ns: u64,
    /// Predictions of synchronicity that came true, one per write.
    pub predicted_right: u64,
    /// Those that did not.
    pub predicted_wrong: u64,
    /// Bytes of file data in PM at the end.
    pub pm_used_bytes: u64,
    /// Whether data of new files went where it belongs.
    pub hindsight: Hindsight,
}

impl Outcome {
    /// All bytes of files read, holes left out.
    pub fn read_bytes(&self) -> u64 {
        self.read_pm_bytes + self.read_cache_bytes + self.read_disk_bytes
    }

    /// All bytes written.
    pub fn written_bytes(&self) -> u64 {
        self.written_pm_bytes + self.written_cache_bytes()
    }

    /// Bytes written to the page cache, for whatever reason.
    pub fn written_cache_bytes(&self) -> u64 {
        let others = self.written_pm_full_bytes + self.written_joins_dirty_bytes;
        self.written_large_async_bytes + self.written_bulk_bytes + others
    }

    /// Bytes of file data written to PM, by programs and by movers.
    pub fn pm_device_bytes(&self) -> u64 {
        self.written_pm_bytes + self.migrated_reverse_bytes
    }

    /// Bytes of file data written to the disks, by writeback and by movers.
    pub fn disk_device_bytes(&self) -> u64 {
        self.written_back_bytes + self.migrated_write_bytes + self.migrated_read_bytes
    }

    /// How many times as long everything took as with everything in PM; 1 if nothing takes time
    /// there.
    pub fn slowdown(&self) -> f64 {
        if self.all_pm_ns == 0 { 1.0 } else { self.io_ns as f64 / self.all_pm_ns as f64 }
    }
}

/// Which of several volumes to buy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The one that takes the least time (of several, the one with the least PM).
    pub best: usize,
    /// The one with the least PM among those that are about as good (of several, the fastest).
    pub enough: usize,
}

/// Looks at volumes of (bytes of PM, total time); `None` if there are none. About as good: at most
/// [`GOOD_ENOUGH_PERCENT`] slower than the best.
pub fn advice(volumes: &[(u64, u64)]) -> Option<Advice> {
    let best = (0..volumes.len()).min_by_key(|&at| (volumes[at].1, volumes[at].0))?;
    let limit_ns = u128::from(volumes[best].1) * u128::from(100 + GOOD_ENOUGH_PERCENT);
    let is_enough = |&at: &usize| u128::from(volumes[at].1) * 100 <= limit_ns;
    let enough = (0..volumes.len()).filter(is_enough).min_by_key(|&at| volumes[at])?;
    Some(Advice { best, enough })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_within_five_percent_of_the_best_is_enough() {
        let of = |volumes: &[(u64, u64)]| advice(volumes).map(|a| (a.best, a.enough));
        assert_eq!(of(&[(1, 200), (2, 105), (4, 100), (8, 100)]), Some((2, 1)));
        assert_eq!(of(&[(1, 200), (2, 106), (4, 100), (8, 101)]), Some((2, 2)));
        assert_eq!(of(&[(8, 100), (8, 90)]), Some((1, 1)));
        assert_eq!(of(&[(3, 0)]), Some((0, 0)));
        assert_eq!(of(&[(3, u64::MAX), (1, u64::MAX)]), Some((1, 1)));
        assert_eq!(of(&[]), None);
    }
}
