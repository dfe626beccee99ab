//! Memory and disks as helpers of a PM that is the slower one for what is asked: a slow module, or
//! one that many threads share. What operations take under load is measured, by device, reads and
//! writes apart. Reads move to where they are served faster, until latencies or shares are even;
//! long writes go past PM where a disk takes them sooner.
//!
//! The idea is that of Colloid (SOSP '24): balance the latencies of tiers under load, not how often
//! they are used. Copies of one block in two tiers, as MOST (FAST '26) keeps them, are not made:
//! data in PM changes in place, also by programs that have borrowed it.

use crate::params::{Param, Params};

/// Shorter writes stay in PM: each would have to wait for a disk as long as a long one.
const LONG_BLOCKS: u64 = 16;
/// Of fewer blocks that were timed, nothing is known.
const BLOCKS_MIN: u64 = 64;
/// Shares of long writes are counted in such parts, and change by so many in a second.
const PARTS: u32 = 16;
const STEP: u32 = 4;
/// Reads that are timed, of those that are not long: one in so many.
const SAMPLED: u32 = 64;

/// Whether a read or write of so many blocks is long: only then its time per block says how fast
/// a device transfers.
pub fn is_long(blocks: u64) -> bool {
    blocks >= LONG_BLOCKS
}

/// Whether the `nth` read of a thread is timed. Looking at a clock takes as long as a short read.
pub fn is_timed(nth: u32) -> bool {
    nth.is_multiple_of(SAMPLED)
}

/// Operations that were timed: a count that grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// How long all of them took, in nanoseconds.
    pub ns: u64,
    /// Their blocks; or how many there were, if they have none.
    pub blocks: u64,
}

impl Timed {
    fn since(self, earlier: Self) -> Self {
        Self {
            ns: self.ns.saturating_sub(earlier.ns),
            blocks: self.blocks.saturating_sub(earlier.blocks),
        }
    }

    /// What is older counts half.
    fn followed_by(self, second: Self) -> Self {
        Self { ns: self.ns / 2 + second.ns, blocks: self.blocks / 2 + second.blocks }
    }

    /// Nanoseconds per block, if enough were timed.
    fn per_block(self) -> Option<f64> {
        (self.blocks >= BLOCKS_MIN).then(|| self.ns as f64 / self.blocks as f64)
    }
}

/// How long devices took for what they were asked, since some moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Reads that PM served: short ones, and long ones.
    pub pm_reads: [Timed; 2],
    /// Reads that the page cache served, likewise.
    pub cache_reads: [Timed; 2],
    /// Long writes to PM.
    pub pm_writes: Timed,
    /// Long writes to the disks of the fastest tier.
    pub disk_writes: Timed,
    /// Flushes of those disks: a flush is a block.
    pub flushes: Timed,
}

impl Load {
    fn each(&mut self, other: &Self, how: impl Fn(Timed, Timed) -> Timed) {
        for (mine, theirs) in self.pm_reads.iter_mut().zip(other.pm_reads) {
            *mine = how(*mine, theirs);
        }
        for (mine, theirs) in self.cache_reads.iter_mut().zip(other.cache_reads) {
            *mine = how(*mine, theirs);
        }
        self.pm_writes = how(self.pm_writes, other.pm_writes);
        self.disk_writes = how(self.disk_writes, other.disk_writes);
        self.flushes = how(self.flushes, other.flushes);
    }
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
    recent: Load,
    past: Past,
}

impl Default for Helpers {
    fn default() -> Self {
        Self { last: Load::default(), recent: Load::default(), past: Past::NONE }
    }
}

impl Helpers {
    /// A second has passed; `now` is since the same moment as before.
    pub fn tick(&mut self, now: Load, params: &Params) {
        let mut second = now;
        second.each(&self.last, Timed::since);
        self.recent.each(&second, Timed::followed_by);
        self.last = now;
        let share = self.past.share;
        self.past = match self.blocks_past_pm(params) {
            Some(blocks) => Past { blocks, share: (share + STEP).min(PARTS) },
            // What evens the times out is found by steps.
            None if share > STEP => Past { share: share - STEP, ..self.past },
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
        let known =
            self.recent.pm_reads.iter().zip(self.recent.cache_reads).filter_map(|(pm, cache)| {
                pm.per_block()?;
                Some((pm.ns as f64, cache.per_block()? * pm.blocks as f64))
            });
        let both = known.reduce(|a, b| (a.0 + b.0, a.1 + b.1)).filter(|_| percent > 0);
        both.map(|(pm, cache)| pm * 100.0 >= cache * (100 + percent) as f64)
    }

    /// Writes of so many blocks and more take longer in PM, by [`Param::Helpers`] percent, than on
    /// a disk with a flush behind them. `None`: none do, or not enough is known.
    fn blocks_past_pm(&self, params: &Params) -> Option<u64> {
        let percent = params.get(Param::Helpers);
        let flushes = self.recent.flushes;
        let flush = (flushes.blocks > 0).then(|| flushes.ns as f64 / flushes.blocks as f64)?;
        let (pm, disk) = (self.recent.pm_writes.per_block()?, self.recent.disk_writes.per_block()?);
        let worse = 1.0 + percent as f64 / 100.0;
        let saved_per_block = pm - disk * worse;
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
        helpers.tick(load, &params(percent));
        helpers
    }

    fn params(percent: u64) -> Params {
        let mut params = Params::default();
        params.set(Param::Helpers, percent).unwrap();
        params
    }

    #[test]
    fn pm_is_slower_if_what_it_served_would_have_taken_less_in_memory() {
        let reads = |pm: [Timed; 2], cache: [Timed; 2]| {
            let load = Load { pm_reads: pm, cache_reads: cache, ..Load::default() };
            after(load, 25).pm_reads_are_slower(&params(25))
        };
        let none = Timed::default();
        assert_eq!(reads([timed(400, 100), none], [timed(300, 100), none]), Some(true));
        assert_eq!(reads([timed(374, 100), none], [timed(300, 100), none]), Some(false));
        // Long reads count by their blocks: PM is the faster one for most.
        let pm = [timed(400, 100), timed(100, 1000)];
        assert_eq!(reads(pm, [timed(200, 100), timed(150, 100)]), Some(false));
        assert_eq!(reads([timed(400, 63), none], [timed(300, 100), none]), None);
        assert_eq!(reads([timed(400, 100), none], [none, timed(300, 100)]), None);
        let load = Load { pm_reads: pm, cache_reads: pm, ..Load::default() };
        assert_eq!(after(load, 0).pm_reads_are_slower(&params(0)), None, "nobody asks");
    }

    #[test]
    fn a_write_goes_past_pm_from_where_the_flush_pays() {
        let writes = |pm, disk, flush, percent| {
            let load = Load {
                pm_writes: timed(pm, 100),
                disk_writes: timed(disk, 100),
                flushes: timed(flush, 1),
                ..Load::default()
            };
            after(load, percent).past().blocks
        };
        // Each block saves 2000 - 1.25 × 800 = 1000 ns; a flush costs 1.25 × 100 000.
        assert_eq!(writes(2_000, 800, 100_000, 25), 125);
        assert_eq!(writes(2_000, 800, 1, 25), LONG_BLOCKS);
        assert_eq!(writes(1_000, 800, 1, 25), u64::MAX, "a disk is not enough faster");
        assert_eq!(writes(2_000, 800, 100_000, 0), u64::MAX, "nobody asks");
        assert_eq!(Helpers::default().past(), Past::NONE);
    }

    #[test]
    fn what_was_known_is_forgotten_within_seconds() {
        let load = Load {
            pm_writes: timed(2_000, 10_000),
            disk_writes: timed(800, 1_000_000),
            flushes: timed(1_000, 1 << 20),
            ..Load::default()
        };
        let mut helpers = after(load, 25);
        let mut shares = Vec::new();
        while helpers.past() != Past::NONE && shares.len() < 100 {
            shares.push(helpers.past().share);
            helpers.tick(load, &params(25));
        }
        // Once it is no longer known how slow PM is, more and more goes there again.
        assert_eq!(shares, [4, 8, 12, 16, 16, 16, 16, 16, 12, 8, 4]);
    }

    #[test]
    fn a_share_of_the_long_writes_goes_past() {
        let going = |share| (0..32).filter(|&nth| Past { blocks: 16, share }.has(nth)).count();
        assert_eq!([0, 4, 16].map(going), [0, 8, 32]);
        assert_eq!((0..100).filter(|&nth| Past::NONE.has(nth)).count(), 0);
    }
}
