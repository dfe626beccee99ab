//! When data moves between tiers: how full PM may be, and whether reads use PM and DRAM as much as
//! they could.
//!
//! The caller calls `tick` once a second with counters that only grow. Counters that fell began
//! anew: nothing is taken to have happened in that second.

use crate::{Param, Params};

/// Seconds with traffic after which a byte counts half in formula (1).
const HALF_LIFE_SECONDS: f64 = 8.0;

/// Bytes since the volume was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// File data read from PM.
    pub pm_read: u64,
    /// Those of them that programs read themselves. Nothing but PM can serve such reads: from
    /// elsewhere they would come as messages or system calls, which take longer.
    pub pm_read_direct: u64,
    /// File data that programs wrote to PM.
    pub pm_written: u64,
    /// File data read from the page cache, whether it was there or had to be fetched.
    pub dram_read: u64,
    /// File data that had to leave PM, because it was too full.
    pub pm_left: u64,
}

impl Traffic {
    /// What came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            pm_read: self.pm_read.saturating_sub(before.pm_read),
            pm_read_direct: self.pm_read_direct.saturating_sub(before.pm_read_direct),
            pm_written: self.pm_written.saturating_sub(before.pm_written),
            dram_read: self.dram_read.saturating_sub(before.dram_read),
            pm_left: self.pm_left.saturating_sub(before.pm_left),
        }
    }

    /// File data read from PM that could be read from DRAM as well.
    fn pm_read_movable(self) -> u64 {
        self.pm_read.saturating_sub(self.pm_read_direct)
    }
}

/// The window of formula (1): what PM was used for of late.
///
/// In each second with PM traffic, everything older fades by the same factor, so that it counts
/// half after 8 of them. Idle seconds do not count: what PM is good for does not change while
/// nobody uses it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utilization {
    last: Traffic,
    read: f64,
    written: f64,
}

impl Utilization {
    /// Counts from `now` on; by default from zero.
    pub fn starting_at(now: Traffic) -> Self {
        Self { last: now, ..Self::default() }
    }

    /// A second has passed.
    pub fn tick(&mut self, now: Traffic) {
        let second = now.since(self.last);
        self.last = now;
        if second.pm_read > 0 || second.pm_written > 0 {
            let fade = (-1.0 / HALF_LIFE_SECONDS).exp2();
            self.read = self.read * fade + second.pm_read as f64;
            self.written = self.written * fade + second.pm_written as f64;
        }
    }

    /// PM usage in percent above which data moves to disk.
    pub fn threshold_percent(&self, params: &Params) -> f64 {
        threshold_of(self.read, self.written, params)
    }
}

/// Formula (1): [`Param::MigrateAt`] + [`Param::MigrateStep`] × log2(`read` / `written`) percent,
/// bytes of PM, within [`Param::MigrateMin`] and [`Param::MigrateMax`] (the lesser of the two,
/// should they cross).
///
/// With neither reads nor writes, or a step of 0, it is [`Param::MigrateAt`]; with reads only the
/// maximum, with writes only the minimum.
pub fn utilization_threshold(read: u64, written: u64, params: &Params) -> f64 {
    threshold_of(read as f64, written as f64, params)
}

fn threshold_of(read: f64, written: f64, params: &Params) -> f64 {
    let percent = |param| params.get(param) as f64;
    let step = percent(Param::MigrateStep);
    // log2 of a zero or of its inverse is an infinity, which the limits take care of; 0/0 and 0 ×
    // infinity would be no number.
    let undecided = step == 0.0 || (read == 0.0 && written == 0.0);
    let shift = if undecided { 0.0 } else { step * (read / written).log2() };
    (percent(Param::MigrateAt) + shift)
        .max(percent(Param::MigrateMin))
        .min(percent(Param::MigrateMax))
}

/// What the reads of the last seconds ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Nothing.
    #[default]
    Balanced,
    /// PM is read so much more than DRAM that DRAM idles: read migration, from PM to disk and into
    /// the page cache.
    PmBusy,
    /// DRAM is read so much more than PM that PM idles: reverse migration, from disk to PM.
    DramBusy,
}

/// Formula (2), reads from PM / reads from DRAM, in each of the last seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dataflow {
    last: Traffic,
    second: Traffic,
    leaning: Flow,
    seconds: u64,
    under_way: Flow,
    /// Seconds since data had to leave PM; `None`: none had to.
    settled: Option<u64>,
}

impl Dataflow {
    /// Counts from `now` on; by default from zero.
    pub fn starting_at(now: Traffic) -> Self {
        Self { last: now, ..Self::default() }
    }

    /// A second has passed. Says where the reads lean if they have leaned there in each of
    /// [`Param::FlowSeconds`] seconds, and goes on to say so each second until one does not.
    pub fn tick(&mut self, now: Traffic, params: &Params) -> Flow {
        self.second = now.since(self.last);
        self.last = now;
        self.settled = match self.second.pm_left {
            0 => self.settled.map(|seconds| seconds.saturating_add(1)),
            _ => Some(0),
        };
        let leaning = leaning(self.second, params);
        if leaning != self.leaning {
            (self.leaning, self.seconds) = (leaning, 0);
        }
        self.seconds = self.seconds.saturating_add(1);
        if self.seconds >= params.get(Param::FlowSeconds) { leaning } else { Flow::Balanced }
    }

    /// As [`Self::tick`], and which migration follows: what has begun goes on for longer than it
    /// takes to begin, as long as [`read_migration_goes_on`] or [`reverse_migration_goes_on`] says
    /// so. `pm_is_slower`: whether PM is slower than memory for what is read, if that is known.
    pub fn choose(
        &mut self,
        now: Traffic,
        pm_used_percent: f64,
        threshold_percent: f64,
        pm_is_slower: Option<bool>,
        params: &Params,
    ) -> Flow {
        let wanted = match self.tick(now, params) {
            Flow::Balanced => self.under_way,
            flow => flow,
        };
        let goes_on = match wanted {
            Flow::Balanced => false,
            Flow::PmBusy => read_migration_goes_on(self.second, pm_is_slower, params),
            Flow::DramBusy => {
                self.is_settled(params)
                    && reverse_migration_goes_on(self.second, pm_used_percent, threshold_percent)
            }
        };
        self.under_way = if goes_on { wanted } else { Flow::Balanced };
        self.under_way
    }

    /// Whether no data had to leave PM for [`Param::Settle`] seconds: what comes back may stay.
    fn is_settled(&self, params: &Params) -> bool {
        self.settles_in_seconds(params) == 0
    }

    /// Seconds that reverse migration still waits if no data has to leave PM meanwhile.
    pub fn settles_in_seconds(&self, params: &Params) -> u64 {
        let passed = self.settled.unwrap_or(u64::MAX);
        params.get(Param::Settle).saturating_sub(passed)
    }

    /// The migration that is under way, as of the last second.
    pub fn under_way(&self) -> Flow {
        self.under_way
    }

    /// The traffic of the last second.
    pub fn last_second(&self) -> Traffic {
        self.second
    }
}

/// Where the reads of one second lean. Reads from one side only lean there; a second without reads
/// leans nowhere.
fn leaning(second: Traffic, params: &Params) -> Flow {
    let percent_of_dram = |param| u128::from(params.get(param)) * u128::from(second.dram_read);
    let times_100 = |bytes| 100 * u128::from(bytes);
    if times_100(second.pm_read_movable()) > percent_of_dram(Param::FlowHigh) {
        Flow::PmBusy
    } else if times_100(second.pm_read) < percent_of_dram(Param::FlowLow) {
        Flow::DramBusy
    } else {
        Flow::Balanced
    }
}

/// Whether write migration goes on, or begins: PM is fuller than the threshold.
pub fn write_migration_goes_on(pm_used_percent: f64, threshold_percent: f64) -> bool {
    pm_used_percent > threshold_percent
}

/// Whether logs of cold files leave PM, too, once there is no cold data left to move: PM is fuller
/// than [`Param::LogsAt`] (the papers say "extremely high").
pub fn logs_leave(pm_used_percent: f64, params: &Params) -> bool {
    pm_used_percent > params.get(Param::LogsAt) as f64
}

/// Whether read migration, once begun, goes on: until less is read from PM than from DRAM, or
/// nothing at all. If PM is slower than memory, it goes on to half the way to where PM idles
/// ([`Param::FlowLow`]), from where on data would come back; if PM is not, nothing is gained by it.
/// Direct reads do not count.
pub fn read_migration_goes_on(
    last_second: Traffic,
    pm_is_slower: Option<bool>,
    params: &Params,
) -> bool {
    let pm_read = last_second.pm_read_movable();
    let least_percent = match pm_is_slower {
        Some(false) => return false,
        Some(true) => (100 + params.get(Param::FlowLow).min(100)) / 2,
        None => 100,
    };
    let times_100 = 100 * u128::from(pm_read);
    pm_read > 0 && times_100 >= u128::from(least_percent) * u128::from(last_second.dram_read)
}

/// Whether reverse migration, once begun, goes on: until as much is read from PM as from DRAM, and
/// only while PM has room below the threshold, lest write migration bring everything back.
pub fn reverse_migration_goes_on(
    last_second: Traffic,
    pm_used_percent: f64,
    threshold_percent: f64,
) -> bool {
    pm_used_percent < threshold_percent && last_second.pm_read < last_second.dram_read
}

/// Used space in percent; a tier without blocks is full.
pub fn used_percent(blocks: u64, free: u64) -> f64 {
    if blocks == 0 { 100.0 } else { blocks.saturating_sub(free) as f64 * 100.0 / blocks as f64 }
}

/// Whether a tier of disks is so full that it moves cold data to the next: above
/// [`Param::TierFull`].
pub fn tier_is_full(blocks: u64, free: u64, params: &Params) -> bool {
    used_percent(blocks, free) > params.get(Param::TierFull) as f64
}

/// Whether data that write migration moves to disk stays in the page cache, too: while `used` of
/// its `budget` pages are below [`Param::KeepCached`]. (What read migration moves always does.)
pub fn keeps_cached(used: u64, budget: u64, params: &Params) -> bool {
    u128::from(used) * 100 < u128::from(budget) * u128::from(params.get(Param::KeepCached))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn params(settings: &[(Param, u64)]) -> Params {
        let mut params = Params::default();
        settings.iter().for_each(|&(param, value)| params.set(param, value).unwrap());
        params
    }

    #[test]
    fn what_has_begun_ends_later_than_it_would_begin() {
        let params = params(&[(Param::FlowSeconds, 2)]);
        let (mut flows, mut now) = (Dataflow::default(), Traffic::default());
        let mut second = |pm_read, dram_read, used| {
            now = Traffic {
                pm_read: now.pm_read + pm_read,
                dram_read: now.dram_read + dram_read,
                ..now
            };
            let flow = flows.choose(now, used, 70.0, None, &params);
            assert_eq!(flow, flows.under_way());
            flow
        };
        use Flow::{Balanced, DramBusy, PmBusy};
        assert_eq!([second(300, 100, 0.0), second(300, 100, 0.0)], [Balanced, PmBusy]);
        // Not enough to begin with, enough to go on, until reads are even.
        assert_eq!(
            [second(120, 100, 0.0), second(100, 100, 0.0), second(99, 100, 0.0)],
            [PmBusy, PmBusy, Balanced]
        );
        assert_eq!(
            [second(10, 100, 0.0), second(10, 100, 0.0), second(90, 100, 0.0)],
            [Balanced, DramBusy, DramBusy]
        );
        assert_eq!(second(10, 100, 70.0), Balanced, "PM is as full as it may be");
        assert_eq!(second(100, 10, 0.0), Balanced, "once is not twice");
    }

    #[test]
    fn nothing_comes_back_to_a_pm_that_other_data_has_to_leave() {
        let params = params(&[(Param::FlowSeconds, 1), (Param::Settle, 2)]);
        let (mut flows, mut now) = (Dataflow::default(), Traffic::default());
        let mut second = |pm_left| {
            now.dram_read += 100;
            now.pm_left += pm_left;
            flows.choose(now, 0.0, 70.0, None, &params)
        };
        use Flow::{Balanced, DramBusy};
        assert_eq!([second(0), second(0)], [DramBusy; 2], "none had to leave so far");
        assert_eq!([second(1), second(0), second(0)], [Balanced, Balanced, DramBusy]);
        assert_eq!(second(1), Balanced);
    }

    #[test]
    fn reads_leave_a_pm_that_is_slower_and_no_other() {
        let params = params(&[(Param::FlowSeconds, 1)]);
        let (mut flows, mut now) = (Dataflow::default(), Traffic::default());
        let mut second = |pm_read, dram_read, slower| {
            now = Traffic {
                pm_read: now.pm_read + pm_read,
                dram_read: now.dram_read + dram_read,
                ..now
            };
            flows.choose(now, 0.0, 70.0, slower, &params)
        };
        use Flow::{Balanced, PmBusy};
        assert_eq!([second(300, 0, None), second(300, 10, Some(false))], [PmBusy, Balanced]);
        assert_eq!(second(300, 10, Some(true)), PmBusy);
        // It ends half the way to where data would come back.
        assert_eq!([second(75, 100, Some(true)), second(74, 100, Some(true))], [PmBusy, Balanced]);
        (0..9).for_each(|_| assert_eq!(second(51, 100, Some(true)), Balanced));
    }

    #[test]
    fn direct_reads_neither_begin_nor_keep_up_read_migration() {
        let params = params(&[(Param::FlowSeconds, 1)]);
        let (mut flows, mut now) = (Dataflow::default(), Traffic::default());
        let mut second = |pm_read, pm_read_direct, dram_read| {
            now = Traffic {
                pm_read: now.pm_read + pm_read,
                pm_read_direct: now.pm_read_direct + pm_read_direct,
                dram_read: now.dram_read + dram_read,
                ..now
            };
            flows.choose(now, 0.0, 70.0, None, &params)
        };
        use Flow::{Balanced, DramBusy, PmBusy};
        assert_eq!([second(900, 900, 0), second(900, 900, 1)], [Balanced; 2]);
        assert_eq!([second(900, 200, 10), second(900, 890, 10)], [PmBusy; 2]);
        assert_eq!([second(900, 891, 10), second(900, 900, 0)], [Balanced; 2]);
        // PM does not idle while programs read it themselves.
        assert_eq!([second(100, 100, 100), second(1, 1, 100)], [Balanced, DramBusy]);
    }

    #[test]
    fn formula_one_between_its_limits() {
        let at = |read, written| utilization_threshold(read, written, &Params::default());
        assert_eq!(at(MIB, MIB), 70.0);
        assert_eq!(
            [at(2, 1), at(4, 1), at(8, 1), at(16, 1), at(17, 1)],
            [75.0, 80.0, 85.0, 90.0, 90.0]
        );
        assert_eq!(
            [at(1, 2), at(1, 4), at(1, 8), at(1, 16), at(1, 17)],
            [65.0, 60.0, 55.0, 50.0, 50.0]
        );
        assert!((at(3, 2) - 72.925).abs() < 0.001, "5 × log2(1.5) = 2.925");
        assert_eq!((at(u64::MAX, 1), at(1, u64::MAX)), (90.0, 50.0));
    }

    #[test]
    fn formula_one_at_its_corners() {
        let at = |read, written| utilization_threshold(read, written, &Params::default());
        assert_eq!((at(0, 0), at(1, 0), at(0, 1)), (70.0, 90.0, 50.0));
        let fixed = params(&[(Param::MigrateStep, 0), (Param::MigrateAt, 60)]);
        assert!(
            [(0, 0), (1, 0), (0, 1), (9, 2)]
                .iter()
                .all(|&(r, w)| utilization_threshold(r, w, &fixed) == 60.0)
        );
        let high = params(&[(Param::MigrateAt, 95)]);
        assert_eq!(utilization_threshold(0, 0, &high), 90.0, "the limits hold for it, too");
        let crossed = params(&[(Param::MigrateMin, 80), (Param::MigrateMax, 60)]);
        assert!(
            [(0, 0), (1, 0), (0, 1)]
                .iter()
                .all(|&(r, w)| utilization_threshold(r, w, &crossed) == 60.0)
        );
    }

    #[test]
    fn old_traffic_fades_and_idle_seconds_do_not_count() {
        let params = Params::default();
        let mut window = Utilization::default();
        assert_eq!(window.threshold_percent(&params), 70.0);
        let mut now = Traffic { pm_read: 1 << 30, dram_read: 0, ..Traffic::default() };
        window.tick(now);
        assert_eq!(window.threshold_percent(&params), 90.0);
        for _ in 0..1000 {
            window.tick(now);
        }
        assert_eq!(window.threshold_percent(&params), 90.0, "nothing new is known");
        // In the 8th second of writing, the reads count half. As much is written as would balance
        // that.
        let fade = (-1.0f64 / 8.0).exp2();
        let written: f64 = (0..8).map(|i| fade.powi(i)).sum();
        for _ in 0..8 {
            now.pm_written += ((1u64 << 29) as f64 / written) as u64;
            window.tick(now);
        }
        assert!((window.threshold_percent(&params) - 70.0).abs() < 0.001);
        for _ in 0..1000 {
            now.pm_written += 1;
            window.tick(now);
        }
        assert_eq!(window.threshold_percent(&params), 50.0, "long ago counts nothing");
    }

    #[test]
    fn reads_from_dram_are_not_in_formula_one() {
        let mut window = Utilization::starting_at(Traffic {
            pm_read: 50,
            pm_written: 7,
            dram_read: 0,
            ..Traffic::default()
        });
        window.tick(Traffic { pm_read: 50, pm_written: 7, dram_read: MIB, ..Traffic::default() });
        assert_eq!(window.threshold_percent(&Params::default()), 70.0);
        window.tick(Traffic { pm_read: 90, pm_written: 27, dram_read: MIB, ..Traffic::default() });
        assert_eq!(window.threshold_percent(&Params::default()), 75.0);
    }

    /// Runs seconds with (read from PM, read from DRAM) bytes each.
    fn flows(params: &Params, seconds: &[(u64, u64)]) -> Vec<Flow> {
        let mut now = Traffic { pm_read: 17, pm_written: 3, dram_read: 4, ..Traffic::default() };
        let mut dataflow = Dataflow::starting_at(now);
        let tick = |&(pm, dram): &(u64, u64)| {
            (now.pm_read, now.dram_read) = (now.pm_read + pm, now.dram_read + dram);
            let flow = dataflow.tick(now, params);
            assert_eq!(
                dataflow.last_second(),
                Traffic { pm_read: pm, dram_read: dram, ..Traffic::default() }
            );
            flow
        };
        seconds.iter().map(tick).collect()
    }

    use Flow::{Balanced, DramBusy, PmBusy};

    #[test]
    fn formula_two_over_four_seconds() {
        let of = |seconds: &[(u64, u64)]| flows(&Params::default(), seconds);
        assert_eq!(of(&[(21, 10); 5]), [Balanced, Balanced, Balanced, PmBusy, PmBusy]);
        assert_eq!(of(&[(4, 10); 5]), [Balanced, Balanced, Balanced, DramBusy, DramBusy]);
        assert_eq!(of(&[(20, 10); 5]), [Balanced; 5], "2 is not above 2");
        assert_eq!(of(&[(5, 10); 5]), [Balanced; 5], "0.5 is not below 0.5");
    }

    #[test]
    fn one_other_second_starts_the_run_anew() {
        let of = |middle| {
            flows(
                &Params::default(),
                &[(9, 1), (9, 1), (9, 1), middle, (9, 1), (9, 1), (9, 1), (9, 1)],
            )
        };
        for middle in [(1, 1), (0, 0), (1, 9)] {
            assert_eq!(of(middle)[..7], [Balanced; 7], "{middle:?}");
            assert_eq!(of(middle)[7], PmBusy);
        }
    }

    #[test]
    fn formula_two_with_zeros() {
        let of = |second| flows(&Params::default(), &[second; 4])[3];
        assert_eq!((of((1, 0)), of((0, 1)), of((0, 0))), (PmBusy, DramBusy, Balanced));
    }

    #[test]
    fn formula_two_with_other_thresholds_and_great_numbers() {
        let quick =
            params(&[(Param::FlowSeconds, 1), (Param::FlowHigh, 10_000), (Param::FlowLow, 1)]);
        assert_eq!(
            flows(&quick, &[(101, 1), (100, 1), (1, 100), (1, 101)]),
            [PmBusy, Balanced, Balanced, DramBusy]
        );
        assert_eq!(flows(&quick, &[(1 << 63, 1)]), [PmBusy]);
        assert_eq!(flows(&quick, &[(1, 1 << 63)]), [DramBusy]);
    }

    #[test]
    fn counters_that_began_anew_are_no_traffic() {
        let mut dataflow =
            Dataflow::starting_at(Traffic { pm_read: 1000, dram_read: 1000, ..Traffic::default() });
        dataflow.tick(Traffic::default(), &Params::default());
        assert_eq!(dataflow.last_second(), Traffic::default());
    }

    #[test]
    fn each_migration_stops_where_its_reason_ends() {
        let reads = |pm_read, dram_read| Traffic { pm_read, dram_read, ..Traffic::default() };
        assert!(write_migration_goes_on(70.1, 70.0) && !write_migration_goes_on(70.0, 70.0));
        let goes_on = |reads| read_migration_goes_on(reads, None, &Params::default());
        assert!(goes_on(reads(10, 10)) && !goes_on(reads(9, 10)) && !goes_on(reads(0, 0)));
        assert!(reverse_migration_goes_on(reads(9, 10), 69.9, 70.0));
        assert!(!reverse_migration_goes_on(reads(10, 10), 69.9, 70.0));
        assert!(!reverse_migration_goes_on(reads(9, 10), 70.0, 70.0));
    }

    #[test]
    fn how_full_tiers_and_the_cache_are() {
        assert_eq!(
            (used_percent(200, 50), used_percent(0, 0), used_percent(10, 20)),
            (75.0, 100.0, 0.0)
        );
        let params = Params::default();
        assert!(logs_leave(95.1, &params) && !logs_leave(95.0, &params));
        assert!(tier_is_full(1000, 99, &params) && !tier_is_full(1000, 100, &params));
        assert!(keeps_cached(499, 1000, &params) && !keeps_cached(500, 1000, &params));
        assert!(!keeps_cached(0, 0, &params));
    }
}
