//! How fast PM turns over: in what time programs write as much to PM as it holds.
//!
//! The papers' PM is filled in minutes. One that is filled in a fraction of a second has no data
//! that is a second old, so ages under pressure are measured by its turnover.

use crate::temperature::NS_PER_SECOND;
use crate::{Param, Params};

/// Shorter periods say little of a rate: they are counted with the next.
const PERIOD_NS: i64 = 5_000_000;
/// Time after which a period counts half.
const HALF_LIFE_NS: f64 = 50e6;

/// The measured rate at which programs write to PM.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turnover {
    last_ns: i64,
    last_bytes: u64,
    bytes_per_second: f64,
}

impl Turnover {
    /// So many bytes have been written so far: to PM, and past it because it was full. A count that
    /// fell began anew, and so does a clock that was set back.
    pub fn note(&mut self, now_ns: i64, bytes: u64) {
        let period_ns = now_ns.saturating_sub(self.last_ns);
        if (0..PERIOD_NS).contains(&period_ns) {
            return;
        }
        if period_ns > 0 {
            let seconds = period_ns as f64 / NS_PER_SECOND as f64;
            let rate = bytes.saturating_sub(self.last_bytes) as f64 / seconds;
            let kept = (-(period_ns as f64) / HALF_LIFE_NS).exp2();
            self.bytes_per_second = self.bytes_per_second * kept + rate * (1.0 - kept);
        }
        (self.last_ns, self.last_bytes) = (now_ns, bytes);
    }

    /// For how long data counts as written lately: [`Param::Lately`] percent of the time in which
    /// as much is written as PM holds, at most a second.
    pub fn lately_ns(&self, pm_bytes: u64, params: &Params) -> i64 {
        let share = params.get(Param::Lately) as f64 / 100.0;
        if share == 0.0 || self.bytes_per_second == 0.0 {
            return NS_PER_SECOND;
        }
        let turnover_seconds = pm_bytes as f64 / self.bytes_per_second;
        (share * turnover_seconds * NS_PER_SECOND as f64).min(NS_PER_SECOND as f64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const MS: i64 = 1_000_000;

    /// Writes 1 MiB every `every_ms` for a second; says what "lately" means then in a PM of 8 MiB.
    fn lately_ms(every_ms: i64) -> i64 {
        let mut turnover = Turnover::default();
        let mut now = 1_000 * NS_PER_SECOND;
        turnover.note(now, 0);
        for n in 1..=1000 / every_ms {
            now += every_ms * MS;
            turnover.note(now, n as u64 * MIB);
        }
        turnover.lately_ns(8 * MIB, &Params::default()) / MS
    }

    #[test]
    fn a_pm_that_is_filled_fast_has_a_short_lately() {
        // 12 % of 80 ms, of 800 ms, and of 8 s.
        assert_eq!([10, 100, 1000].map(lately_ms), [9, 96, 960]);
    }

    #[test]
    fn lately_is_a_second_at_most_and_without_a_rate() {
        let (mut turnover, mut params) = (Turnover::default(), Params::default());
        assert_eq!(turnover.lately_ns(MIB, &params), NS_PER_SECOND);
        turnover.note(NS_PER_SECOND, 0);
        turnover.note(2 * NS_PER_SECOND, 1);
        assert_eq!(turnover.lately_ns(MIB, &params), NS_PER_SECOND);
        turnover.note(3 * NS_PER_SECOND, 100 * MIB);
        assert!(turnover.lately_ns(MIB, &params) < 2 * MS);
        params.set(Param::Lately, 0).unwrap();
        assert_eq!(turnover.lately_ns(MIB, &params), NS_PER_SECOND, "switched off");
    }

    #[test]
    fn a_rate_fades_and_short_periods_are_added_up() {
        let mut turnover = Turnover::default();
        turnover.note(NS_PER_SECOND, 0);
        turnover.note(NS_PER_SECOND + PERIOD_NS - 1, 100 * MIB);
        assert_eq!(turnover.lately_ns(8 * MIB, &Params::default()), NS_PER_SECOND, "too short");
        turnover.note(NS_PER_SECOND + PERIOD_NS, 100 * MIB);
        let busy = turnover.lately_ns(8 * MIB, &Params::default());
        turnover.note(NS_PER_SECOND + 100 * MS, 100 * MIB);
        let later = turnover.lately_ns(8 * MIB, &Params::default());
        assert!(busy < later && later < NS_PER_SECOND, "{busy} {later}");
        turnover.note(100 * NS_PER_SECOND, 100 * MIB);
        assert_eq!(turnover.lately_ns(8 * MIB, &Params::default()), NS_PER_SECOND);
    }

    #[test]
    fn a_clock_that_was_set_back_and_a_count_that_fell_begin_anew() {
        let mut turnover = Turnover::default();
        turnover.note(100 * NS_PER_SECOND, 100 * MIB);
        turnover.note(NS_PER_SECOND, 200 * MIB);
        turnover.note(2 * NS_PER_SECOND, 0);
        assert_eq!(turnover.lately_ns(8 * MIB, &Params::default()), NS_PER_SECOND);
        turnover.note(3 * NS_PER_SECOND, 800 * MIB);
        assert!(turnover.lately_ns(8 * MIB, &Params::default()) < 2 * MS);
    }
}
