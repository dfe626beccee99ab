//! Keeping background reads at a rate.

use std::time::Duration;

/// Time that a reader which was slower than its rate may make up for; what it lost beyond that is
/// lost.
const CREDIT: Duration = Duration::from_millis(100);
/// Shorter waits are put off until they are worth a sleep.
const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// Spreads reads over time so that they do not exceed a rate.
///
/// At any moment, no more has been read than the rate allows for the time since the beginning and
/// `110 ms` more, and the last piece.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    bytes_per_second: u64,
    /// When the rate has caught up with what was read.
    due: Duration,
}

impl Pace {
    /// At most `bytes_per_second`; 0: without a limit.
    pub fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, due: Duration::ZERO }
    }

    /// `bytes` have been read at `now`, counted from the beginning: how long to wait before the
    /// next read.
    pub fn pause(&mut self, bytes: u64, now: Duration) -> Duration {
        if self.bytes_per_second == 0 {
            return Duration::ZERO;
        }
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.due = self.due.max(now.saturating_sub(CREDIT)).saturating_add(cost);
        let ahead = self.due.saturating_sub(now);
        if ahead < LEAST_PAUSE { Duration::ZERO } else { ahead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: u64 = 1 << 20;

    /// Reads `pieces` pieces, each of which takes `read`; returns when all are done, and checks the
    /// promise throughout.
    fn time_of(rate: u64, pieces: u64, read: Duration) -> Duration {
        let mut pace = Pace::new(rate);
        let mut now = Duration::ZERO;
        for i in 1..=pieces {
            now += read;
            let allowed = rate as f64 * (now + CREDIT + LEAST_PAUSE).as_secs_f64() + PIECE as f64;
            assert!((i * PIECE) as f64 <= allowed, "{i} pieces after {now:?}");
            now += pace.pause(PIECE, now);
        }
        now
    }

    #[test]
    fn a_fast_device_is_read_at_the_rate() {
        let time = time_of(100 * PIECE, 1000, Duration::from_micros(300));
        assert!((9.8..10.1).contains(&time.as_secs_f64()), "{time:?}");
    }

    #[test]
    fn a_slow_device_is_never_waited_for_and_builds_up_no_claims() {
        assert_eq!(time_of(100 * PIECE, 50, Duration::from_millis(20)), Duration::from_secs(1));
        let mut pace = Pace::new(100 * PIECE);
        pace.pause(PIECE, Duration::from_secs(60));
        // After a minute of nothing, a tenth of a second is what may be made up for.
        let free =
            (0..100).take_while(|_| pace.pause(PIECE, Duration::from_secs(60)).is_zero()).count();
        assert!((9..=11).contains(&free), "{free}");
    }

    #[test]
    fn small_reads_are_paid_for_together() {
        let mut pace = Pace::new(1 << 20);
        let pauses: Vec<Duration> = (0..100).map(|_| pace.pause(256, Duration::ZERO)).collect();
        assert!(pauses[..40].iter().all(Duration::is_zero));
        assert!(pauses[99] > Duration::from_millis(20));
    }

    #[test]
    fn no_limit_is_no_limit_and_nothing_overflows() {
        assert_eq!(Pace::new(0).pause(u64::MAX, Duration::ZERO), Duration::ZERO);
        let mut slow = Pace::new(1);
        assert!(slow.pause(u64::MAX, Duration::ZERO) > Duration::from_secs(1));
        assert!(slow.pause(u64::MAX, Duration::from_secs(u64::MAX / 2)) > Duration::ZERO);
    }
}
