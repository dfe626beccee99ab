//! Temperatures: when the blocks of a file were written or read on average, and who is coldest and
//! hottest.
//!
//! Times are nanoseconds since any epoch.
//!
//! Invariants: a [`MeanTime`] without blocks is `default()`, and it never has more than 2^60 of
//! them, so that its products fit into 128 bits. Each id is in a [`ColdList`] at most once.

use std::collections::{BTreeSet, HashMap};

use crate::{Param, Params};

/// Most blocks that a mean is taken of.
const BLOCKS_MAX: u64 = 1 << 60;
pub(crate) const NS_PER_SECOND: i64 = 1_000_000_000;

/// The mean of the times of a file's blocks, kept up to date by differences: each change moves it
/// by a fraction and is rounded to a nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeanTime {
    mean_ns: i64,
    blocks: u64,
}

impl MeanTime {
    /// The mean; 0 without blocks.
    pub fn time_ns(&self) -> i64 {
        self.mean_ns
    }

    /// How many blocks it is the mean of.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// So many blocks are new, with this time.
    pub fn add(&mut self, blocks: u64, time_ns: i64) {
        let blocks = blocks.min(BLOCKS_MAX - self.blocks);
        self.blocks += blocks;
        self.move_towards(time_ns, blocks);
    }

    /// So many blocks have this time now. Their own times would have to be read back, so they leave
    /// as if each had had the mean; blocks beyond those that there are are new.
    pub fn replace(&mut self, blocks: u64, time_ns: i64) {
        let blocks = blocks.min(BLOCKS_MAX);
        self.blocks = self.blocks.max(blocks);
        self.move_towards(time_ns, blocks);
    }

    /// So many blocks are gone, each as if it had had the mean.
    pub fn remove(&mut self, blocks: u64) {
        self.blocks = self.blocks.saturating_sub(blocks);
        if self.blocks == 0 {
            *self = Self::default();
        }
    }

    /// `blocks` of all blocks leave with the mean and come back with `time_ns`.
    fn move_towards(&mut self, time_ns: i64, blocks: u64) {
        if blocks > 0 {
            let way = i128::from(time_ns) - i128::from(self.mean_ns);
            let step = rounded_quotient(way * i128::from(blocks), self.blocks);
            // Between two i64, since blocks <= self.blocks.
            self.mean_ns = (i128::from(self.mean_ns) + step) as i64;
        }
    }
}

impl FromIterator<(u64, i64)> for MeanTime {
    fn from_iter<I: IntoIterator<Item = (u64, i64)>>(pieces: I) -> Self {
        let (mut blocks, mut sum_ns) = (0, 0);
        for (more, time_ns) in pieces {
            let more = more.min(BLOCKS_MAX - blocks);
            blocks += more;
            sum_ns += i128::from(more) * i128::from(time_ns);
        }
        // The mean lies between the least and the greatest time.
        if blocks == 0 {
            Self::default()
        } else {
            Self { mean_ns: rounded_quotient(sum_ns, blocks) as i64, blocks }
        }
    }
}

/// The nearest integer, the greater of two that are as near.
fn rounded_quotient(dividend: i128, divisor: u64) -> i128 {
    let (doubled, divisor) = (2 * dividend + i128::from(divisor), 2 * i128::from(divisor));
    match (i64::try_from(doubled), i64::try_from(divisor)) {
        // Nearly always, and a division of 128 bits takes longer than all else that the policy does
        // for a write.
        (Ok(doubled), Ok(divisor)) => doubled.div_euclid(divisor).into(),
        _ => doubled.div_euclid(divisor),
    }
}

/// What of a file is cold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColdCut {
    /// All of it.
    Whole,
    /// Entries that were last written before this time, in nanoseconds.
    OlderThan(i64),
}

impl ColdCut {
    /// Whether an entry of this time is cold.
    pub fn is_cold(self, mtime_ns: i64) -> bool {
        match self {
            Self::Whole => true,
            Self::OlderThan(cut_ns) => mtime_ns < cut_ns,
        }
    }
}

/// What of a file is cold that was last written at `last_write_ns`: everything if that is
/// [`Param::ColdAge`] ago or more, else what is older than its average. A last write in the future
/// is no older than now.
pub fn cold_before(now_ns: i64, amtime_ns: i64, last_write_ns: i64, params: &Params) -> ColdCut {
    let age_ns = now_ns.saturating_sub(last_write_ns).max(0);
    let cold_age_ns = params.get(Param::ColdAge) as i64 * NS_PER_SECOND;
    if age_ns >= cold_age_ns { ColdCut::Whole } else { ColdCut::OlderThan(amtime_ns) }
}

/// How cold is cold: more and more is taken while nothing is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// As the papers have it ([`cold_before`]).
    Low,
    /// The part that is not younger than the average: there is always one, unless the older part
    /// has moved already.
    Medium,
    /// All of a file that was not written lately, which would be back at once.
    High,
    /// The older half of what a file still has in the tier, however lately it was written. Of one
    /// that is written on and on, what is older than all of it on average has moved before; what
    /// fills the tier is younger than that, and in use no longer.
    Highest,
}

impl Pressure {
    /// In the order in which they are tried.
    pub const RISING: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Highest];
}

/// A moment at which cold data is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When it is.
    pub now_ns: i64,
    /// For how long data counts as written lately ([`Turnover::lately_ns`](crate::Turnover)).
    pub lately_ns: i64,
}

impl Moment {
    /// One at which data counts as written lately for a second.
    pub fn at(now_ns: i64) -> Self {
        Self { now_ns, lately_ns: NS_PER_SECOND }
    }
}

/// As [`cold_before`], under pressure; `None` if nothing of the file is cold even so. Under
/// [`Pressure::Highest`], the times are those of what is in the tier ([`PartTimes`]), else of the
/// file.
pub fn cold_under(
    pressure: Pressure,
    moment: Moment,
    amtime_ns: i64,
    last_write_ns: i64,
    params: &Params,
) -> Option<ColdCut> {
    let Moment { now_ns, lately_ns } = moment;
    match (cold_before(now_ns, amtime_ns, last_write_ns, params), pressure) {
        (ColdCut::Whole, _) => Some(ColdCut::Whole),
        (cut, Pressure::Low) => Some(cut),
        (ColdCut::OlderThan(mean_ns), Pressure::Medium) => {
            Some(ColdCut::OlderThan(mean_ns.saturating_add(1)))
        }
        (_, Pressure::High) => {
            (now_ns.saturating_sub(last_write_ns) >= lately_ns).then_some(ColdCut::Whole)
        }
        (ColdCut::OlderThan(mean_ns), Pressure::Highest) => {
            (mean_ns < last_write_ns).then(|| ColdCut::OlderThan(mean_ns.saturating_add(1)))
        }
    }
}

/// Whether the log of an inode is cold that was last changed then. Under [`Pressure::Highest`] each
/// is: the alternative is that PM has no room for the next one.
pub fn log_is_cold(pressure: Pressure, moment: Moment, changed_ns: i64, params: &Params) -> bool {
    pressure == Pressure::Highest
        || cold_under(pressure, moment, changed_ns, changed_ns, params) == Some(ColdCut::Whole)
}

/// When the blocks of a part of a file were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartTimes {
    mean: MeanTime,
    youngest_ns: Option<i64>,
}

impl PartTimes {
    /// So many of its blocks were written at this time.
    pub fn add(&mut self, blocks: u64, time_ns: i64) {
        self.mean.add(blocks, time_ns);
        self.youngest_ns = self.youngest_ns.max(Some(time_ns));
    }

    /// What of the part is cold under [`Pressure::Highest`]: what is not younger than its mean,
    /// unless it is all of one time.
    pub fn older_half(&self, moment: Moment, params: &Params) -> Option<ColdCut> {
        cold_under(Pressure::Highest, moment, self.mean.time_ns(), self.youngest_ns?, params)
    }
}

/// Files ordered by their temperatures, coldest first.
///
/// A write does not touch the list: it only makes its file hotter, so the key here is at most the
/// file's temperature, and a file that comes up too early goes back with the key it has by then. A
/// file that becomes colder (its mean was computed anew, the clock was set back) is to be removed
/// and noted again.
#[derive(Clone, Debug, Default)]
pub struct ColdList {
    by_time: BTreeSet<(i64, u64)>,
    times: HashMap<u64, i64>,
}

impl ColdList {
    /// Lists a file. One that is listed stays as it is.
    pub fn note(&mut self, id: u64, time_ns: i64) {
        self.times.entry(id).or_insert_with(|| {
            self.by_time.insert((time_ns, id));
            time_ns
        });
    }

    /// Takes the coldest file from the list, with its temperature (of two, the one of the lesser
    /// id). `current` tells the temperature that a file has now, or that it is gone: then it is
    /// dropped.
    pub fn pop_coldest(
        &mut self,
        mut current: impl FnMut(u64) -> Option<i64>,
    ) -> Option<(u64, i64)> {
        while let Some((listed_ns, id)) = self.by_time.pop_first() {
            self.times.remove(&id);
            let Some(time_ns) = current(id) else { continue };
            if time_ns <= listed_ns || self.by_time.first().is_none_or(|&next| (time_ns, id) < next)
            {
                return Some((id, time_ns));
            }
            self.note(id, time_ns);
        }
        None
    }

    /// The files in the order in which they come up, (temperature, id): what they were noted with,
    /// so they may be hotter by now.
    pub fn coldest_first(&self) -> impl Iterator<Item = (i64, u64)> {
        self.by_time.iter().copied()
    }

    /// Takes a file from the list; whether it was there.
    pub fn remove(&mut self, id: u64) -> bool {
        let Some(time_ns) = self.times.remove(&id) else { return false };
        self.by_time.remove(&(time_ns, id))
    }

    /// Whether a file is listed.
    pub fn contains(&self, id: u64) -> bool {
        self.times.contains_key(&id)
    }

    /// How many files are listed.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }
}

/// Hot files that one look at all files remembers, of a shard.
pub const HOT_FILES_MAX: usize = 65_536;

/// Leaves the `n` hottest of `files`, (artime in nanoseconds, id), hottest first; of two, the one
/// of the lesser id.
pub fn hottest(files: &mut Vec<(i64, u64)>, n: usize) {
    let hotter = |a: &(i64, u64), b: &(i64, u64)| b.0.cmp(&a.0).then(a.1.cmp(&b.1));
    if n < files.len() {
        // Only those that are wanted need to be in order.
        files.select_nth_unstable_by(n, hotter);
        files.truncate(n);
    }
    files.sort_unstable_by(hotter);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Entries (offset, length, mtime): (0,2,2) (2,2,4) (4,2,6), then (6,2,8).
    #[test]
    fn quotients_are_the_same_in_64_bits_and_in_more() {
        let dividends =
            [0, 1, 7, i64::MAX as i128 / 2, i64::MAX as i128, i128::from(i64::MAX) << 30];
        for dividend in dividends.into_iter().flat_map(|dividend| [dividend, -dividend]) {
            for divisor in [1, 2, 3, 1000, 1 << 52, u64::MAX] {
                let exact =
                    (2 * dividend + i128::from(divisor)).div_euclid(2 * i128::from(divisor));
                assert_eq!(rounded_quotient(dividend, divisor), exact, "{dividend} / {divisor}");
            }
        }
    }

    #[test]
    fn the_slides_example() {
        let mut amtime: MeanTime = [(2, 2), (2, 4), (2, 6)].into_iter().collect();
        assert_eq!((amtime.time_ns(), amtime.blocks()), (4, 6));
        amtime.add(2, 8);
        assert_eq!((amtime.time_ns(), amtime.blocks()), (5, 8));
        let mut step_by_step = MeanTime::default();
        [2, 4, 6, 8].into_iter().for_each(|t| step_by_step.add(2, t));
        assert_eq!(step_by_step, amtime);
        let cut = cold_before(9, amtime.time_ns(), 8, &Params::default());
        assert_eq!([2, 4, 6, 8].map(|t| cut.is_cold(t)), [true, true, false, false]);
    }

    #[test]
    fn pressure_takes_more_and_more() {
        let cut = |pressure, written_before_ns| {
            cold_under(
                pressure,
                Moment::at(100 * NS_PER_SECOND),
                7,
                100 * NS_PER_SECOND - written_before_ns,
                &Params::default(),
            )
        };
        use Pressure::{High, Low, Medium};
        let lately = NS_PER_SECOND;
        assert_eq!(
            [Low, Medium, High].map(|p| cut(p, lately)),
            [Some(ColdCut::OlderThan(7)), Some(ColdCut::OlderThan(8)), Some(ColdCut::Whole)]
        );
        assert_eq!(cut(High, lately - 1), None);
        assert_eq!(
            [Low, Medium, High].map(|p| cut(p, 30 * NS_PER_SECOND)),
            [Some(ColdCut::Whole); 3]
        );
        assert!(Pressure::RISING.is_sorted());
    }

    #[test]
    fn what_is_left_has_an_older_half_unless_it_is_all_of_one_time() {
        let (now, params) = (100 * NS_PER_SECOND, Params::default());
        let older_half = |pieces: &[(u64, i64)]| {
            let mut times = PartTimes::default();
            pieces.iter().for_each(|&(blocks, before_ns)| times.add(blocks, now - before_ns));
            times.older_half(Moment::at(now), &params)
        };
        // Appends a millisecond apart, the last one just now: three of the five go.
        let appends = [4, 3, 2, 1, 0].map(|ms| (1, ms * 1_000_000));
        let cut = older_half(&appends).unwrap();
        assert_eq!(
            appends.map(|(_, before_ns)| cut.is_cold(now - before_ns)),
            [true, true, true, false, false]
        );
        // Most of it is young: the rest goes.
        let cut = older_half(&[(1, 1000), (99, 0)]).unwrap();
        assert!(cut.is_cold(now - 1000) && !cut.is_cold(now));
        assert_eq!(older_half(&[(3, 7), (5, 7)]), None);
        assert_eq!(older_half(&[]), None);
        assert_eq!(older_half(&[(8, 30 * NS_PER_SECOND)]), Some(ColdCut::Whole), "cold anyhow");
    }

    #[test]
    fn it_is_small_and_never_overflows() {
        assert!(size_of::<MeanTime>() <= 16);
        for (first, then) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN)] {
            for blocks in [1, 1 << 40, u64::MAX] {
                let mut mean = MeanTime::default();
                mean.add(blocks, first);
                assert_eq!(mean.time_ns(), first);
                mean.replace(u64::MAX, then);
                assert_eq!(mean.time_ns(), then);
                mean.add(u64::MAX, first);
                mean = [(u64::MAX, first), (u64::MAX, then)].into_iter().collect();
                assert_eq!((mean.time_ns(), mean.blocks()), (first, BLOCKS_MAX));
                mean.remove(u64::MAX);
                assert_eq!(mean, MeanTime::default());
            }
        }
    }

    #[test]
    fn replaced_blocks_leave_with_the_mean() {
        let mut mean: MeanTime = [(2, 0), (2, 100)].into_iter().collect();
        mean.replace(1, 150);
        assert_eq!((mean.time_ns(), mean.blocks()), (75, 4), "(3 × 50 + 150) / 4");
        mean.remove(3);
        assert_eq!((mean.time_ns(), mean.blocks()), (75, 1));
        mean.replace(3, 9);
        assert_eq!((mean.time_ns(), mean.blocks()), (9, 3));
        mean.replace(0, 1_000);
        mean.add(0, 1_000);
        assert_eq!((mean.time_ns(), mean.blocks()), (9, 3));
    }

    #[test]
    fn a_file_is_cold_as_a_whole_after_thirty_seconds() {
        let mut params = Params::default();
        let at = |seconds: i64| seconds * NS_PER_SECOND;
        assert_eq!(cold_before(at(100), at(5), at(70), &params), ColdCut::Whole);
        assert_eq!(cold_before(at(100), at(5), at(70) + 1, &params), ColdCut::OlderThan(at(5)));
        assert_eq!(
            cold_before(at(100), at(5), at(200), &params),
            ColdCut::OlderThan(at(5)),
            "the clock was set back"
        );
        assert_eq!(cold_before(i64::MAX, 0, i64::MIN, &params), ColdCut::Whole);
        assert_eq!(cold_before(i64::MIN, 0, i64::MAX, &params), ColdCut::OlderThan(0));
        params.set(Param::ColdAge, 0).unwrap();
        assert_eq!(cold_before(at(100), at(5), at(200), &params), ColdCut::Whole, "0: every file");
    }

    #[test]
    fn a_file_that_got_hotter_goes_back() {
        let mut list = ColdList::default();
        [(1, 10), (2, 20), (3, 30)].into_iter().for_each(|(id, t)| list.note(id, t));
        list.note(3, 0);
        let current = |id| {
            Some(match id {
                1 => 25,
                id => id as i64 * 10,
            })
        };
        assert_eq!(list.pop_coldest(current), Some((2, 20)));
        assert!(list.contains(1) && !list.contains(2) && list.len() == 2);
        assert!(list.remove(3) && !list.remove(3));
        assert_eq!(list.pop_coldest(|_| None), None, "gone files are dropped");
        assert!(list.is_empty());
    }

    #[test]
    fn the_hottest_come_first() {
        let files = vec![(5, 1), (9, 2), (7, 3), (9, 4), (1, 5)];
        let of = |n| {
            let mut files = files.clone();
            hottest(&mut files, n);
            files
        };
        assert_eq!(of(3), [(9, 2), (9, 4), (7, 3)]);
        assert_eq!(of(1), [(9, 2)]);
        assert_eq!(of(0), []);
        assert_eq!(of(9), [(9, 2), (9, 4), (7, 3), (5, 1), (1, 5)]);
    }

    proptest! {
        /// Each step is wrong by half a nanosecond at most.
        #[test]
        fn additions_give_the_mean(
            pieces in prop::collection::vec((0..1u64 << 40, any::<i64>()), 0..50),
        ) {
            let exact: MeanTime = pieces.iter().copied().collect();
            let mut mean = MeanTime::default();
            for &(blocks, time_ns) in &pieces {
                mean.add(blocks, time_ns);
            }
            prop_assert_eq!(mean.blocks(), exact.blocks());
            prop_assert!(mean.time_ns().abs_diff(exact.time_ns()) <= pieces.len() as u64);
        }

        /// Blocks rewritten in no special order: the mean stays within the times there were, and
        /// follows them.
        #[test]
        fn replacing_everything_in_turn_comes_near(
            first in 0i64..1 << 40,
            then in 0i64..1 << 40,
            blocks in 1u64..100,
        ) {
            let mut mean = MeanTime::default();
            mean.add(blocks, first);
            let mut left = (then - first).abs();
            for _ in 0..20 * blocks {
                mean.replace(1, then);
                let now = (then - mean.time_ns()).abs();
                prop_assert!(now <= left, "{now} > {left}");
                left = now;
            }
            prop_assert!(left <= (1 << 40) / 1000 + blocks as i64, "{left}");
        }

        /// Against a model that sorts all files by their temperatures at each pop.
        #[test]
        fn the_coldest_is_found(
            steps in prop::collection::vec((0u8..4, 0u64..12, 0i64..50), 0..200),
        ) {
            let mut list = ColdList::default();
            let mut listed = BTreeSet::new();
            let mut times: HashMap<u64, i64> = HashMap::new();
            let mut gone = BTreeSet::new();
            for (step, id, by) in steps {
                match step {
                    // An id comes back only after the list has forgotten it.
                    0 if !gone.contains(&id) => {
                        let time_ns = *times.entry(id).or_insert(by);
                        list.note(id, time_ns);
                        listed.insert(id);
                    }
                    0 | 1 => {
                        times.entry(id).and_modify(|time_ns| *time_ns += by);
                    }
                    2 if by < 5 => {
                        times.remove(&id);
                        gone.remove(&id);
                        prop_assert_eq!(list.remove(id), listed.remove(&id));
                    }
                    2 => prop_assert_eq!(list.contains(id), listed.contains(&id)),
                    _ => {
                        if id < 3 && times.remove(&id).is_some() {
                            gone.insert(id);
                        }
                        let coldest = listed.iter().filter_map(|id| Some((*times.get(id)?, *id)))
                            .min();
                        let popped = list.pop_coldest(|id| times.get(&id).copied());
                        prop_assert_eq!(popped, coldest.map(|(time_ns, id)| (id, time_ns)));
                        listed.retain(|&id| list.contains(id));
                        gone.retain(|&id| list.contains(id));
                    }
                }
                prop_assert_eq!(list.len(), listed.len());
            }
        }
    }
}
