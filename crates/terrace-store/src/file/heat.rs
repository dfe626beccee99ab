//! How hot a file's data is: what the policy needs to know to find what is cold.
//!
//! A block's own time stands in its log entry. Changes in place (patches, and appends inside the
//! last block) leave that entry as it is; a bit per block remembers them instead, until somebody
//! who looks for cold blocks has passed twice: a second chance.

use std::ops::Range;

use terrace_policy::{ColdCut, MeanTime, Moment, Params, Pressure, cold_under};

use crate::Time;

/// For how long at least a block is spared that has changed in place.
const SPARED_NS: i64 = 1_000_000_000;
/// Blocks beyond this have no bit of their own: 64 GiB into the file.
const TOUCHED_BLOCKS_MAX: u64 = 1 << 24;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Heat {
    /// Mean of the modification times of the blocks (amtime).
    mean: MeanTime,
    last_write: Time,
    touched: Vec<u64>,
    /// What had changed in place before that.
    spared: Vec<u64>,
    /// The blocks that the latest appends inside a block have filled up, one after the other:
    /// behind it lies the last of them.
    filled: Option<Range<u64>>,
    cooled: Time,
}

impl Heat {
    /// The temperature of a file of `blocks` blocks as its log tells it: the mean time of what was
    /// written, and the last.
    pub fn loaded(blocks: u64, mean: Time, last_write: Time) -> Self {
        let mut heat = Self { last_write, ..Self::default() };
        heat.mean.add(blocks, mean.0);
        heat
    }

    /// Mean modification time.
    #[inline]
    pub fn mean(&self) -> Time {
        Time(self.mean.time_ns())
    }

    /// `written` blocks were written, and now there are `blocks`.
    #[inline]
    pub fn wrote(&mut self, written: u64, blocks: u64, at: Time) {
        let known = self.mean.blocks();
        if blocks < known {
            self.mean.remove(known - blocks);
        }
        let new = blocks.saturating_sub(known);
        if new > 0 {
            self.mean.add(new, at.0);
        }
        if written > new {
            self.mean.replace((written - new).min(blocks), at.0);
        }
        if written > 0 {
            self.last_write = at;
        }
    }

    /// The block changed in place.
    #[inline]
    fn touch(&mut self, block: u64) {
        let (word, bit) = ((block / 64) as usize, block % 64);
        if block >= TOUCHED_BLOCKS_MAX {
            return;
        }
        if word >= self.touched.len() {
            self.touched.resize(word + 1, 0);
        }
        self.touched[word] |= 1 << bit;
    }

    /// An append that began inside a block changed these.
    #[inline]
    pub fn append(&mut self, from: u64, to: u64) {
        let before =
            self.filled.take().filter(|filled| (filled.end..=filled.end + 1).contains(&from));
        self.filled = Some(before.map_or(from, |filled| filled.start)..to - 1);
        self.touch(from);
    }

    /// Bytes of the block were overwritten in place.
    #[inline]
    pub fn patch(&mut self, block: u64) {
        self.touch(block);
        // It is used for more than appends.
        if let Some(filled) = self.filled.as_mut().filter(|filled| filled.contains(&block)) {
            filled.start = block + 1;
        }
    }

    /// Whether one of the blocks changed in place, has not been spared for it yet, and may change
    /// again: those that appends have filled up will not.
    #[inline]
    pub fn is_in_use(&self, from: u64, to: u64) -> bool {
        let Range { start, end } = self.filled.clone().unwrap_or(to..to);
        self.is_touched(from, to.min(start)) || self.is_touched(from.max(end), to)
    }

    /// Whether one of the blocks changed in place and has not been spared for it yet.
    pub fn is_touched(&self, from: u64, to: u64) -> bool {
        let is_set = |bits: &[u64]| {
            let to = to.min(bits.len() as u64 * 64);
            (from..to).any(|block| bits[(block / 64) as usize] >> (block % 64) & 1 == 1)
        };
        is_set(&self.touched) || is_set(&self.spared)
    }

    /// Somebody looks for cold blocks: what changed in place is spared until somebody looks a
    /// second later, or later still.
    pub fn cool(&mut self, now: Time) {
        if self.is_to_be_cooled(now) {
            self.spared = std::mem::take(&mut self.touched);
            self.cooled = now;
        }
    }

    /// Whether [`Self::cool`] has anything to do.
    #[inline]
    pub fn is_to_be_cooled(&self, now: Time) -> bool {
        now.0.saturating_sub(self.cooled.0) >= SPARED_NS
            && !(self.touched.is_empty() && self.spared.is_empty())
    }

    /// What of the file is cold, if anything is.
    pub fn cold(&self, pressure: Pressure, moment: Moment, params: &Params) -> Option<ColdCut> {
        cold_under(pressure, moment, self.mean.time_ns(), self.last_write.0, params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slides_example() {
        let mut heat = Heat::default();
        [(2, 2, 2), (2, 4, 4), (2, 6, 6)]
            .iter()
            .for_each(|&(written, blocks, at)| heat.wrote(written, blocks, Time(at)));
        assert_eq!(heat.mean(), Time(4));
        heat.wrote(2, 8, Time(8));
        assert_eq!(heat.mean(), Time(5));
        // Half of it again: 5 and 13, half and half.
        heat.wrote(4, 8, Time(13));
        assert_eq!(heat.mean(), Time(9));
        // A write over the end: two new blocks, two old ones.
        heat.wrote(4, 10, Time(9));
        assert_eq!((heat.mean(), heat.last_write), (Time(9), Time(9)));
        heat.wrote(0, 0, Time(20));
        assert_eq!((heat.mean(), heat.last_write), (Time(0), Time(9)));
    }

    #[test]
    fn changes_in_place_are_remembered_until_somebody_has_passed() {
        let mut heat = Heat::default();
        assert!(!heat.is_touched(0, u64::MAX));
        [3, 64, TOUCHED_BLOCKS_MAX].into_iter().for_each(|block| heat.touch(block));
        let touched =
            |heat: &Heat| (0..200).filter(|&b| heat.is_touched(b, b + 1)).collect::<Vec<_>>();
        assert_eq!(touched(&heat), [3, 64]);
        assert!(heat.is_touched(0, 4) && !heat.is_touched(4, 64) && heat.is_touched(0, u64::MAX));
        // Two looks, a second apart, and what was not touched in between is spared no more.
        heat.cool(Time(2 * SPARED_NS));
        heat.touch(64);
        heat.cool(Time(3 * SPARED_NS - 1));
        assert_eq!(touched(&heat), [3, 64]);
        heat.cool(Time(3 * SPARED_NS));
        assert_eq!(touched(&heat), [64]);
        heat.cool(Time(4 * SPARED_NS));
        assert!(touched(&heat).is_empty());
    }

    #[test]
    fn what_appends_have_filled_up_is_no_longer_in_use() {
        let mut heat = Heat::default();
        heat.patch(5);
        let in_use =
            |heat: &Heat| (0..200).filter(|&b| heat.is_in_use(b, b + 1)).collect::<Vec<_>>();
        [(7, 8), (7, 9), (9, 10), (9, 10), (10, 11)]
            .into_iter()
            .for_each(|(from, to)| heat.append(from, to));
        assert_eq!(in_use(&heat), [5, 10]);
        assert!(
            heat.is_in_use(0, 8)
                && heat.is_in_use(6, 20)
                && !heat.is_in_use(6, 10)
                && heat.is_touched(6, 10)
        );
        // Appends elsewhere: what was filled before may as well have been patched.
        heat.append(64, 65);
        assert_eq!(in_use(&heat), [5, 7, 9, 10, 64]);
        heat.append(65, 66);
        assert_eq!(in_use(&heat), [5, 7, 9, 10, 65]);
        // A group that was filled up and is then patched is in use again.
        heat.patch(64);
        assert_eq!(in_use(&heat), [5, 7, 9, 10, 64, 65]);
        // A log that begins behind a block is not that block's.
        let mut heat = Heat::default();
        heat.patch(0);
        heat.append(1, 2);
        assert_eq!(in_use(&heat), [0, 1]);
    }
}
