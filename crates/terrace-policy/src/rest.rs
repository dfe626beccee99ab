//! How long a mover rests that has found nothing to move.

use std::time::Duration;

/// Rest after the first round in vain.
const LEAST: Duration = Duration::from_millis(1);
/// Time after which a mover is woken in any case, while anything is written or read.
const MOST: Duration = Duration::from_secs(1);

/// A mover's rest; by default, until it is woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// It rests for so long whatever happens.
    pub least: Duration,
    /// It rests no longer, even if nobody wakes it.
    pub most: Option<Duration>,
}

impl Rest {
    /// The rest after another round in vain: twice as long at least, and until data that counts as
    /// written lately, for `lately_ns`, has grown older.
    pub fn after_vain(self, lately_ns: i64) -> Self {
        let least = (2 * self.least).clamp(LEAST, MOST);
        let lately = Duration::from_nanos(lately_ns.max(0).unsigned_abs());
        Self { least, most: (lately < MOST).then(|| lately.max(least)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_and_end_when_data_is_not_young_any_more() {
        let ms = Duration::from_millis;
        let mut rest = Rest::default();
        let mut rests = Vec::new();
        for _ in 0..12 {
            rest = rest.after_vain(9_000_000);
            rests.push(rest);
        }
        assert_eq!(rests[0], Rest { least: ms(1), most: Some(ms(9)) });
        assert_eq!(rests[3], Rest { least: ms(8), most: Some(ms(9)) });
        assert_eq!(rests[4], Rest { least: ms(16), most: Some(ms(16)) });
        assert_eq!(rests[11], Rest { least: ms(1000), most: Some(ms(1000)) });
    }

    #[test]
    fn a_slow_pm_leaves_the_next_try_to_the_pulse() {
        assert_eq!(Rest::default().after_vain(1_000_000_000).most, None);
        assert_eq!(Rest::default().after_vain(-1).most, Some(LEAST));
    }
}
