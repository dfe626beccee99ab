//! Memory and disks as helpers of a PM that is the slower one for what is asked: a slow module, or
//! one that many threads share. The times of operations under load are measured, by device, reads
//! and writes apart. Reads move to where they are served faster; long writes go past PM where a
//! disk takes them sooner.
//!
//! The idea is that of Colloid (SOSP '24): balance the latencies of tiers under load, not how often
//! they are used. Copies of one block in two tiers, as MOST keeps them, are not made: data in PM
//! changes in place, also by programs that have borrowed it.

use crate::params::{Param, Params};

/// Shorter writes stay in PM: each would have to wait for a disk as long as a long one.
pub const LONG_BLOCKS: u64 = 16;
/// Of fewer blocks of reads that were timed lately, nothing is known.
const READ_BLOCKS_MIN: f64 = 64.0;
/// The same of writes: 16 MiB. Fewer say more of caches and of the first use of memory.
const WRITTEN_BLOCKS_MIN: f64 = 4096.0;
/// Shares of long writes are counted in such parts, and change by so many in a second.
const PARTS: u32 = 16;
const STEP: u32 = 4;
/// Short reads that are timed: one in so many. Programs do not read in steps of a prime.
const SAMPLED: u32 = 61;
/// Classes of reads: of 1 block, of 2 and 3, and so on, and of 64 and more.
pub const READ_CLASSES: usize = 7;

/// Whether a read or write of so many blocks is long: only then its time per block says how fast
/// a device transfers.
pub fn is_long(blocks: u64) -> bool {
    blocks >= LONG_BLOCKS
}

/// Whether the `nth` short read of a thread is timed. Looking at a clock takes as long as the read.
pub fn is_timed(nth: u32) -> bool {
    nth.is_multiple_of(SAMPLED)
}

/// The class of a read of so many blocks, one at least. Reads are compared within a class: long
/// ones take less time per block.
pub fn read_class(blocks: u64) -> usize {
    (blocks.max(1).ilog2() as usize).min(READ_CLASSES - 1)
}

/// Operations that were timed: a count that grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// How long all of them took, in nanoseconds.
    pub ns: u64,
    /// Their blocks; of flushes how many there were.
    pub blocks: u64,
}

/// The same of the last seconds, of which older ones count less.
#[derive(Clone, Copy, Debug, Default)]
struct Lately {
    ns: f64,
    blocks: f64,
}

impl Lately {
    /// A second has passed, in which `before` has grown to `now`. What is older counts half.
    fn pass(&mut self, before: Timed, now: Timed) {
        self.ns = self.ns / 2.0 + now.ns.saturating_sub(before.ns) as f64;
        self.blocks = self.blocks / 2.0 + now.blocks.saturating_sub(before.blocks) as f64;
    }

    /// Nanoseconds per block, if at least so many were timed.
    fn per_block(self, least: f64) -> Option<f64> {
        (self.blocks >= least).then(|| self.ns / self.blocks)
    }
}

/// How long devices took for what they were asked, since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Reads that PM served, by class.
    pub pm_reads: [Timed; READ_CLASSES],
    /// Reads that the page cache served.
    pub cache_reads: [Timed; READ_CLASSES],
    /// Long writes to PM.
    pub pm_writes: Timed,
    /// Long writes to the page cache, on the way to a disk.
    pub cache_writes: Timed,
    /// Long writes to the disks of the fastest tier.
    pub disk_writes: Timed,
    /// Flushes of those disks.
    pub flushes: Timed,
    /// Tells sets of disks apart: the counts of one say nothing of another.
    pub disks: u64,
}

/// Which long writes go past PM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Of at least so many blocks.
    pub blocks: u64,
    /// So many sixteenths of them.
    pub share: u32,
}

impl Past {
    /// None.
    pub const NONE: Self = Self { blocks: u64::MAX, share: 0 };

    /// Whether the `nth` of those that are long enough goes past PM: they take turns.
    pub fn has(self, nth: u32) -> bool {
        nth % PARTS < self.share
    }
}

/// The load of the last seconds. Each second counts half of the one after it.
#[derive(Clone, Copy, Debug)]
pub struct Helpers {
    last: Load,
    pm_reads: [Lately; READ_CLASSES],
    cache_reads: [Lately; READ_CLASSES],
    pm_writes: Lately,
    cache_writes: Lately,
    disk_writes: Lately,
    flushes: Lately,
    past: Past,
}

impl Default for Helpers {
    fn default() -> Self {
        Self {
            last: Load::default(),
            pm_reads: Default::default(),
            cache_reads: Default::default(),
            pm_writes: Lately::default(),
            cache_writes: Lately::default(),
            disk_writes: Lately::default(),
            flushes: Lately::default(),
            past: Past::NONE,
        }
    }
}

impl Helpers {
    /// A second has passed; `now` is since the same moment as before.
    pub fn tick(&mut self, now: Load, params: &Params) {
        let last = self.last;
        for class in 0..READ_CLASSES {
            self.pm_reads[class].pass(last.pm_reads[class], now.pm_reads[class]);
            self.cache_reads[class].pass(last.cache_reads[class], now.cache_reads[class]);
        }
        self.pm_writes.pass(last.pm_writes, now.pm_writes);
        self.cache_writes.pass(last.cache_writes, now.cache_writes);
        if last.disks == now.disks {
            self.disk_writes.pass(last.disk_writes, now.disk_writes);
            self.flushes.pass(last.flushes, now.flushes);
        } else {
            (self.disk_writes, self.flushes) = Default::default();
        }
        self.last = now;
        let share = self.past.share;
        self.past = match self.blocks_past_pm(params) {
            Some(blocks) => Past { blocks, share: (share + STEP).min(PARTS) },
            // What evens the times out is found by steps.
            None if share > STEP && params.get(Param::Helpers) > 0 => {
                Past { share: share - STEP, ..self.past }
            }
            None => Past::NONE,
        };
    }

    /// Which long writes go past PM in the next second.
    pub fn past(&self) -> Past {
        self.past
    }

    /// Whether PM is slower than memory, by [`Param::Helpers`] percent at least, for the reads that
    /// it serves. `None`: not enough is known of either, or nobody is to ask.
    pub fn pm_reads_are_slower(&self, params: &Params) -> Option<bool> {
        let percent = params.get(Param::Helpers);
        let known = self.pm_reads.iter().zip(self.cache_reads).filter_map(|(pm, cache)| {
            pm.per_block(READ_BLOCKS_MIN)?;
            Some((pm.ns, cache.per_block(READ_BLOCKS_MIN)? * pm.blocks))
        });
        let both = known.reduce(|a, b| (a.0 + b.0, a.1 + b.1)).filter(|_| percent > 0);
        both.map(|(pm, cache)| pm * 100.0 >= cache * (100 + percent) as f64)
    }

    /// Writes of so many blocks and more take longer in PM, by [`Param::Helpers`] percent, than
    /// through the page cache on a disk, with a flush behind them. `None`: none do, or not enough
    /// is known.
    fn blocks_past_pm(&self, params: &Params) -> Option<u64> {
        let percent = params.get(Param::Helpers);
        let worse = 1.0 + percent as f64 / 100.0;
        let flush = self.flushes.per_block(1.0)?;
        let of = |writes: Lately| writes.per_block(WRITTEN_BLOCKS_MIN);
        let past = of(self.cache_writes)? + of(self.disk_writes)?;
        let saved_per_block = of(self.pm_writes)? - past * worse;
        (percent > 0 && saved_per_block > 0.0)
            .then(|| ((flush * worse / saved_per_block).ceil() as u64).max(LONG_BLOCKS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(ns_per_block: u64, blocks: u64) -> Timed {
        Timed { ns: ns_per_block * blocks, blocks }
    }

    fn after(load: Load, percent: u64) -> Helpers {
        let mut helpers = Helpers::default();
        helpers.tick(Load { disks: load.disks, ..Load::default() }, &params(percent));
        helpers.tick(load, &params(percent));
        helpers
    }

    fn params(percent: u64) -> Params {
        let mut params = Params::default();
        params.set(Param::Helpers, percent).unwrap();
        params
    }

    /// Of so many nanoseconds per block; a flush of `flush` nanoseconds.
    fn writes(pm: u64, cache: u64, disk: u64, flush: u64) -> Load {
        Load {
            pm_writes: timed(pm, 5_000),
            cache_writes: timed(cache, 5_000),
            disk_writes: timed(disk, 5_000),
            flushes: timed(flush, 1),
            disks: 1,
            ..Load::default()
        }
    }

    #[test]
    fn reads_have_classes_by_length() {
        let classes = [0, 1, 2, 3, 4, 15, 16, 63, 64, u64::MAX].map(read_class);
        assert_eq!(classes, [0, 0, 1, 1, 2, 3, 4, 5, 6, 6]);
    }

    #[test]
    fn pm_is_slower_if_what_it_served_would_have_taken_less_in_memory() {
        let reads = |pm: &[(usize, Timed)], cache: &[(usize, Timed)], percent| {
            let mut load = Load::default();
            pm.iter().for_each(|&(class, timed)| load.pm_reads[class] = timed);
            cache.iter().for_each(|&(class, timed)| load.cache_reads[class] = timed);
            after(load, percent).pm_reads_are_slower(&params(percent))
        };
        assert_eq!(reads(&[(0, timed(400, 100))], &[(0, timed(300, 100))], 25), Some(true));
        assert_eq!(reads(&[(0, timed(374, 100))], &[(0, timed(300, 100))], 25), Some(false));
        // Reads count by their blocks: PM is the faster one for most.
        let pm = [(0, timed(400, 100)), (6, timed(100, 1000))];
        let cache = [(0, timed(200, 100)), (6, timed(150, 100))];
        assert_eq!(reads(&pm, &cache, 25), Some(false));
        assert_eq!(reads(&pm, &cache, 0), None, "nobody asks");
        // Different lengths are not compared.
        assert_eq!(reads(&[(0, timed(400, 100))], &[(6, timed(100, 100))], 25), None);
        assert_eq!(reads(&[(0, timed(400, 63))], &[(0, timed(300, 100))], 25), None);
    }

    #[test]
    fn a_write_goes_past_pm_from_where_the_flush_pays() {
        let past = |load, percent| after(load, percent).past();
        // Each block saves 2000 - 1.25 × 800 = 1000 ns; a flush costs 1.25 × 100 000.
        assert_eq!(past(writes(2_000, 300, 500, 100_000), 25), Past { blocks: 125, share: 4 });
        assert_eq!(past(writes(2_000, 300, 500, 1), 25).blocks, LONG_BLOCKS);
        assert_eq!(past(writes(1_000, 300, 500, 1), 25), Past::NONE, "not enough is saved");
        assert_eq!(past(writes(2_000, 300, 500, 100_000), 0), Past::NONE, "nobody asks");
        let few = Load { disk_writes: timed(500, 4_095), ..writes(2_000, 300, 500, 1) };
        assert_eq!(past(few, 25), Past::NONE);
        assert_eq!(Helpers::default().past(), Past::NONE);
    }

    #[test]
    fn what_was_known_is_forgotten_within_seconds() {
        let load = Load {
            pm_writes: timed(2_000, 1 << 20),
            cache_writes: timed(1, 1 << 30),
            disk_writes: timed(800, 1 << 30),
            flushes: timed(1_000, 1 << 20),
            disks: 1,
            ..Load::default()
        };
        let mut helpers = after(load, 25);
        let mut shares = Vec::new();
        while helpers.past() != Past::NONE && shares.len() < 100 {
            shares.push(helpers.past().share);
            helpers.tick(load, &params(25));
        }
        // Once it is no longer known how slow PM is, more and more goes there again.
        assert_eq!(shares, [4, 8, 12, 16, 16, 16, 16, 16, 16, 12, 8, 4]);
    }

    #[test]
    fn one_flush_a_second_takes_as_long_as_it_takes() {
        let mut helpers = Helpers::default();
        for second in 0..20 {
            let now = Load { flushes: timed(1_000, second), disks: 1, ..Load::default() };
            helpers.tick(now, &params(25));
        }
        assert_eq!(helpers.flushes.per_block(1.0), Some(1_000.0));
    }

    #[test]
    fn the_counts_of_another_set_of_disks_say_nothing() {
        let mut helpers = after(writes(2_000, 300, 500, 1), 25);
        let other = Load { disks: 2, disk_writes: timed(1, 1 << 40), ..helpers.last };
        helpers.tick(other, &params(25));
        assert_eq!(helpers.past(), Past::NONE);
        helpers.tick(other, &params(25));
        assert_eq!(helpers.disk_writes.per_block(1.0), None);
    }

    #[test]
    fn a_share_of_the_long_writes_goes_past() {
        let going = |share| (0..32).filter(|&nth| Past { blocks: 16, share }.has(nth)).count();
        assert_eq!([0, 4, 16].map(going), [0, 8, 32]);
        assert_eq!((0..100).filter(|&nth| Past::NONE.has(nth)).count(), 0);
    }

    #[test]
    fn switched_off_none_goes_past_from_the_next_second_on() {
        let load = writes(2_000, 300, 500, 1);
        let mut helpers = after(load, 25);
        for times in 2..6 {
            let more = |timed: Timed| Timed { ns: timed.ns * times, blocks: timed.blocks * times };
            let mut now = load;
            now.pm_writes = more(load.pm_writes);
            now.cache_writes = more(load.cache_writes);
            now.disk_writes = more(load.disk_writes);
            now.flushes = more(load.flushes);
            helpers.tick(now, &params(25));
        }
        assert_eq!(helpers.past().share, PARTS);
        helpers.tick(helpers.last, &params(0));
        assert_eq!(helpers.past(), Past::NONE);
    }
}
