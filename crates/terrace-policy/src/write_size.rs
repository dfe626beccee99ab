//! The write size predictor: are writes to this part of a file large, and will they stay so?
//!
//! Every write entry carries a counter: how many times in a row the range was written in large
//! pieces of a stable size.
//!
//! The predecessors of a write are all entries of which it replaces at least a block. It is of a
//! stable size if it is at least [`Param::LargeShare`] percent as long as the longest write among
//! them was, so as each of them; the longest and not the sum, since an entry of which only two ends
//! are left may appear twice. It inherits the least of their counters: one unstable block makes the
//! range unstable. Blocks without predecessor (holes, blocks behind the end) do not matter while
//! there is one.

use crate::{Param, Params};

/// Counters do not grow beyond this: one more than the greatest [`Param::LargeWrites`], which can
/// thus be exceeded.
const COUNTER_MAX: u16 = 15;

/// An entry that a write lands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// Its counter.
    pub counter: u16,
    /// Length of the write that made it, in blocks; less of it may still be live.
    pub area_blocks: u64,
}

/// The counter of the entry of a write of `write_blocks` blocks: its predecessors' least and one
/// more if it is long and of a stable size, 0 if it is short, of another size, or without
/// predecessor.
pub fn next_counter(
    write_blocks: u64,
    overlaps: impl IntoIterator<Item = Overlap>,
    params: &Params,
) -> u16 {
    if write_blocks < params.get(Param::LargeBlocks) {
        return 0;
    }
    let share = u128::from(params.get(Param::LargeShare));
    let covers = |area: u64| u128::from(write_blocks) * 100 >= u128::from(area) * share;
    let mut least = None;
    for overlap in overlaps {
        if !covers(overlap.area_blocks) {
            return 0;
        }
        least = Some(least.unwrap_or(u16::MAX).min(overlap.counter));
    }
    least.map_or(0, |counter| counter.saturating_add(1).min(COUNTER_MAX))
}

/// Whether a write with this counter is large.
pub fn is_large(counter: u16, params: &Params) -> bool {
    u64::from(counter) > params.get(Param::LargeWrites)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(write_blocks: u64, overlaps: &[(u16, u64)]) -> u16 {
        let overlaps =
            overlaps.iter().map(|&(counter, area_blocks)| Overlap { counter, area_blocks });
        next_counter(write_blocks, overlaps, &Params::default())
    }

    /// Log (offset, length, counter): (0,4,3) (4,4,1) (5,1,0) (6,1,0). The first two transitions of
    /// the slides are followed; in the third they find no predecessor since (4,4,1) was partly
    /// overwritten, and reset the counter.
    #[test]
    fn the_slides_example() {
        assert_eq!(next(4, &[(3, 4)]), 4, "write(0,4)");
        assert_eq!(next(1, &[(0, 1)]), 0, "write(6,1)");
        assert_eq!(next(4, &[(1, 4), (0, 1), (0, 1), (1, 4)]), 1, "write(4,4); 0 in the slides");
    }

    /// "If the number is larger than 4": five whole rewrites after the first.
    #[test]
    fn the_fifth_rewrite_of_a_range_is_large() {
        let params = Params::default();
        let mut counter = next(8, &[]);
        let mut large = Vec::new();
        for _ in 0..20 {
            large.push(is_large(counter, &params));
            counter = next(8, &[(counter, 8)]);
        }
        assert!(large[..5].iter().all(|large| !large) && large[5..].iter().all(|&large| large));
        assert_eq!(counter, COUNTER_MAX);
    }

    #[test]
    fn half_of_the_predecessor_is_enough_and_less_is_not() {
        assert_eq!(next(8, &[(4, 16)]), 5);
        assert_eq!(next(8, &[(4, 17)]), 0);
        assert_eq!(next(1 << 40, &[(4, 4)]), 5, "a longer write is stable");
        assert_eq!(next(u64::MAX, &[(4, u64::MAX)]), 5);
    }

    #[test]
    fn each_of_several_predecessors_must_be_covered_and_the_least_counts() {
        assert_eq!(next(8, &[(9, 16), (4, 8), (7, 1)]), 5);
        assert_eq!(next(8, &[(9, 17), (4, 8)]), 0);
        assert_eq!(
            next(8, &[(4, 16), (4, 16)]),
            next(8, &[(4, 16)]),
            "the ends of one entry are one predecessor"
        );
    }

    #[test]
    fn short_writes_and_first_writes_begin_anew() {
        assert_eq!(next(3, &[(9, 3)]), 0);
        assert_eq!(next(4, &[(9, 4)]), 10);
        assert_eq!(next(4096, &[]), 0);
        assert_eq!(next(0, &[(9, 0)]), 0);
    }

    #[test]
    fn counters_from_a_damaged_medium_are_bounded() {
        assert_eq!(next(4, &[(u16::MAX, 4)]), COUNTER_MAX);
    }

    #[test]
    fn thresholds_are_the_callers() {
        let mut params = Params::default();
        params.set(Param::LargeBlocks, 1).unwrap();
        params.set(Param::LargeShare, 100).unwrap();
        params.set(Param::LargeWrites, 0).unwrap();
        let on = |area_blocks| [Overlap { counter: 0, area_blocks }];
        assert_eq!((next_counter(1, on(1), &params), next_counter(1, on(2), &params)), (1, 0));
        assert!(is_large(1, &params) && !is_large(0, &params));
        params.set(Param::LargeWrites, 14).unwrap();
        assert!(is_large(COUNTER_MAX, &params), "the highest threshold can be exceeded");
    }
}
