//! Decisions of Terrace FS, pure: numbers in, decisions out; no I/O, no locks, no clock.
//!
//! Three predictors say where a write goes and what a file's reads are like; temperatures and two
//! thresholds say what moves between tiers and when. `docs/POLICY.md` gives every formula, and
//! [`TUNABLES`] every threshold.

mod groups;
mod helpers;
mod kinds;
mod life;
mod logs;
mod pace;
mod params;
mod read_frequency;
mod rest;
mod rule;
mod siblings;
mod synchronicity;
mod temperature;
mod thresholds;
mod turnover;
mod wear;
mod write_size;
mod writeback;

pub use groups::{Group, Piece, groups};
pub use helpers::{
    Helpers, LONG_BLOCKS, Load, Past, READ_CLASSES, Timed, is_long, is_timed, read_class,
};
pub use kinds::{Kind, Kinds};
pub use life::{Life, Stroke, Traits};
pub use logs::{LogSlots, compacts_log, log_comes_back};
pub use pace::Pace;
pub use params::{OutOfRange, PARAMS, Param, Params, TUNABLES, Tunable, Unit};
pub use read_frequency::is_read_dominated;
pub use rest::Rest;
pub use rule::{Leaving, Rule};
pub use siblings::{Row, Siblings};
pub use synchronicity::{Judged, Synchronicity};
pub use temperature::{
    ColdCut, ColdList, HOT_FILES_MAX, MeanTime, Moment, PartTimes, Pressure, cold_before,
    cold_under, hottest, log_is_cold,
};
pub use thresholds::{
    Dataflow, Flow, Traffic, Utilization, keeps_cached, logs_leave, read_migration_goes_on,
    reverse_migration_goes_on, tier_is_full, used_percent, utilization_threshold,
    write_migration_goes_on,
};
pub use turnover::Turnover;
pub use wear::{Allowance, Bucket, Left, Offer, allowance};
pub use write_size::{Overlap, is_large, next_counter};
pub use writeback::{DirtyState, Due, flush_groups, is_crowded, writeback_due};

/// PM blocks that only operations which free space may take.
pub const PM_RESERVE_BLOCKS: u64 = 16;
/// A longer write leaves room in PM to others.
const ROOM_LEAVING_BLOCKS: u64 = 16;
/// What a write has beyond that finds so many times its size free.
const ROOM_FACTOR: u64 = 4;
/// Least blocks of a read that goes past the page cache: 256 KiB.
const READ_PAST_CACHE_BLOCKS: u64 = 64;
/// Least blocks of a read out of order that leaves nothing in the page cache, if no thread waits
/// for it: 64 KiB.
const READ_UNCACHED_BLOCKS: u64 = 16;
/// Least blocks that a miss of a sequential reader fetches.
const FETCH_AHEAD_BLOCKS_MIN: u64 = 32;

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Persistent memory: durable when the write returns.
    Pm,
    /// The DRAM page cache, and a disk later.
    PageCache,
}

/// How full PM is, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmSpace {
    /// All blocks of the device.
    pub blocks: u64,
    /// Free ones.
    pub free: u64,
}

/// Where data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// PM takes file data up to this usage, in percent; the rest is for logs and inode tables, so
    /// that a file system full of data can still be changed.
    pub pm_full_percent: u8,
}

impl Placement {
    /// PM blocks that file data leaves free.
    pub fn kept_blocks(&self, pm_blocks: u64) -> u64 {
        let kept = pm_blocks * u64::from(100 - self.pm_full_percent.min(100)) / 100;
        kept.max(2 * PM_RESERVE_BLOCKS)
    }

    /// Blocks of file data that PM still takes.
    pub fn room_for_data(&self, pm: PmSpace) -> u64 {
        pm.free.saturating_sub(self.kept_blocks(pm.blocks))
    }

    /// Whether PM has so little room for data that files leave it which will be gone soon: less
    /// than is written while data counts as written lately, [`Param::Lately`] percent of PM, 1 at
    /// least.
    pub fn is_scarce(&self, pm: PmSpace, params: &Params) -> bool {
        self.room_for_data(pm) * 100 < pm.blocks * params.get(Param::Lately).max(1)
    }

    /// Where a write of up to `blocks` blocks goes that can go to a disk as well. `joins_dirty`:
    /// some of them are dirty in the page cache, and a block's newest version must be in one place.
    pub fn place_write(&self, pm: PmSpace, blocks: u64, joins_dirty: bool) -> Target {
        if !joins_dirty && self.room_for_data(pm) >= room_wanted(blocks) {
            Target::Pm
        } else {
            Target::PageCache
        }
    }
}

/// Free PM blocks that a write of so many wants to find: a large one does not take the last room
/// from small ones that come after it and are waited for. Those lose most on a disk, whose latency
/// is the same for all, and one large write takes the room of hundreds of them.
pub fn room_wanted(blocks: u64) -> u64 {
    blocks.saturating_add(
        (ROOM_FACTOR - 1).saturating_mul(blocks.saturating_sub(ROOM_LEAVING_BLOCKS)),
    )
}

/// Whether a write goes to the page cache and then to disk rather than to PM: one that is large and
/// that nobody waits for.
pub fn prefers_disk(synchronous: bool, large: bool) -> bool {
    large && !synchronous
}

/// Blocks to fetch from a disk for a read that misses `wanted` of them: more for a reader that goes
/// on in sequence, up to `most`.
pub fn fetch_blocks(wanted: u64, sequential: bool, most: u64) -> u64 {
    if sequential {
        wanted.saturating_mul(2).max(FETCH_AHEAD_BLOCKS_MIN).min(most).max(wanted)
    } else {
        wanted
    }
}

/// Whether a read of so many blocks from a disk goes past the page cache: who reads that much at a
/// time has a cache (the kernel's) or needs none, and the pages would push out others.
pub fn reads_past_cache(blocks: u64) -> bool {
    blocks >= READ_PAST_CACHE_BLOCKS
}

/// Whether so many blocks that were read out of order stay in the page cache. To copy long reads
/// there, and to make room for them, costs more than to verify them.
pub fn keeps_random_read(blocks: u64) -> bool {
    blocks < READ_UNCACHED_BLOCKS
}

#[cfg(test)]
mod tests {
    use super::*;

    const NINETY: Placement = Placement { pm_full_percent: 90 };

    #[test]
    fn pm_takes_data_up_to_its_limit_and_not_a_block_more() {
        let at = |free, blocks| NINETY.place_write(PmSpace { blocks: 10_000, free }, blocks, false);
        assert_eq!(at(1_016, 16), Target::Pm);
        assert_eq!(at(1_015, 16), Target::PageCache);
        assert_eq!(at(1_001, 1), Target::Pm);
        assert_eq!(at(1_000, 1), Target::PageCache);
        assert_eq!(at(0, 0), Target::Pm);
    }

    #[test]
    fn large_writes_leave_room_to_small_ones() {
        assert_eq!([0, 1, 16, 17, 256].map(room_wanted), [0, 1, 16, 20, 976]);
        assert_eq!(room_wanted(u64::MAX), u64::MAX);
        let at = |free, blocks| NINETY.place_write(PmSpace { blocks: 10_000, free }, blocks, false);
        assert_eq!(at(1_976, 256), Target::Pm);
        assert_eq!(at(1_975, 256), Target::PageCache);
        assert_eq!(at(1_975, 16), Target::Pm);
        assert_eq!(at(10_000, 2_262), Target::Pm);
        assert_eq!(at(10_000, 2_263), Target::PageCache);
    }

    #[test]
    fn room_is_scarce_below_what_is_written_lately() {
        let mut params = Params::default();
        let at = |free, params: &Params| NINETY.is_scarce(PmSpace { blocks: 10_000, free }, params);
        assert!(at(2_199, &params) && !at(2_200, &params), "12 % beside what is kept");
        params.set(Param::Lately, 0).unwrap();
        assert!(at(1_099, &params) && !at(1_100, &params));
    }

    #[test]
    fn dirty_blocks_keep_their_place() {
        assert_eq!(
            NINETY.place_write(PmSpace { blocks: 100_000, free: 100_000 }, 1, true),
            Target::PageCache
        );
    }

    #[test]
    fn metadata_keeps_a_reserve_even_when_data_may_take_everything() {
        let all = Placement { pm_full_percent: 100 };
        assert_eq!(all.kept_blocks(1_000_000), 2 * PM_RESERVE_BLOCKS);
        assert_eq!(Placement { pm_full_percent: 255 }.kept_blocks(1_000), 2 * PM_RESERVE_BLOCKS);
        assert_eq!(
            Placement { pm_full_percent: 0 }.room_for_data(PmSpace { blocks: 1_000, free: 1_000 }),
            0
        );
    }

    #[test]
    fn sequential_readers_get_more_within_bounds() {
        assert_eq!(fetch_blocks(1, false, 256), 1);
        assert_eq!(fetch_blocks(1, true, 256), 32);
        assert_eq!(fetch_blocks(100, true, 256), 200);
        assert_eq!(fetch_blocks(200, true, 256), 256);
        assert_eq!(fetch_blocks(300, true, 256), 300);
        assert_eq!(fetch_blocks(1, true, 1), 1);
        assert_eq!(fetch_blocks(1, true, 16), 16);
        assert_eq!(fetch_blocks(1000, true, 4096), 2000);
        assert_eq!(fetch_blocks(u64::MAX, true, 4096), u64::MAX);
    }

    #[test]
    fn only_large_asynchronous_writes_prefer_disk() {
        assert!(prefers_disk(false, true));
        assert!(
            !prefers_disk(false, false) && !prefers_disk(true, true) && !prefers_disk(true, false)
        );
    }

    #[test]
    fn long_reads_leave_the_cache_alone() {
        assert!(!reads_past_cache(63));
        assert!(reads_past_cache(64) && reads_past_cache(256));
        assert!(keeps_random_read(15) && !keeps_random_read(16));
    }
}
