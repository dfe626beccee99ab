//! Logs of inodes: when one is written anew, and when its part on a disk comes back to PM.

/// A log may keep dead entries in so much of what is free in PM: one block in so many.
const LOGS_SHARE: u64 = 32;
/// Log slots in a block.
const SLOTS_PER_BLOCK: u64 = 64;
/// Writing a log anew gains so many slots at least while PM has room for data: it costs a journal
/// record and a few pages' worth of stores.
const GAIN_SLOTS_MIN: u64 = 252;

/// The slots of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSlots {
    /// Live and dead ones.
    pub all: u64,
    /// Of entries that say something which still holds.
    pub live: u64,
    /// All of them when the log was last written anew.
    pub when_new: u64,
}

/// Whether a log is written anew, with what is live of it, while so many blocks of PM are free. It
/// may be half dead; while PM has room, three quarters, since each time costs as much as is live,
/// whatever it gains.
///
/// `is_tight`: data has to leave PM, so each page that logs give back keeps a page of data there.
/// Then a log is written anew although it gains little.
pub fn compacts_log(slots: LogSlots, pm_free_blocks: u64, is_tight: bool) -> bool {
    let LogSlots { all, live, when_new } = slots;
    let (gain, free) = if is_tight { (0, 0) } else { (GAIN_SLOTS_MIN, pm_free_blocks) };
    // A log that has not doubled since it was new would be nearly as long again, unless much of
    // what was live then is dead by now.
    let has_grown = all > gain + (2 * when_new).min(4 * live);
    has_grown && all.saturating_sub(live) > dead_slots_max(live, free)
}

/// The dead slots that a log may keep.
fn dead_slots_max(live: u64, free: u64) -> u64 {
    (free / LOGS_SHARE * SLOTS_PER_BLOCK).min(3 * live).max(live)
}

/// Whether the part of a log that lies on a disk comes back to PM, now that the log is being
/// written again: while it is small beside what PM has free.
pub fn log_comes_back(live: u64, pm_free_blocks: u64) -> bool {
    live <= pm_free_blocks / LOGS_SHARE * SLOTS_PER_BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_may_be_half_dead_and_more_while_pm_has_room() {
        let compacts = |dead: u64, free| {
            let slots = LogSlots { all: 1000 + dead, live: 1000, when_new: 0 };
            compacts_log(slots, free, false)
        };
        assert!(!compacts(1000, 0) && compacts(1001, 0));
        assert!(!compacts(3000, 1 << 20) && compacts(3001, 1 << 20));
        // 32 × 31 blocks, of which one in 32 may hold dead entries: 31 × 64 slots.
        assert!(!compacts(1984, 32 * 31) && compacts(1985, 32 * 31));
    }

    #[test]
    fn little_is_gained_only_while_data_has_to_leave() {
        let compacts = |all, live, is_tight| {
            compacts_log(LogSlots { all, live, when_new: 0 }, 1 << 20, is_tight)
        };
        assert!(!compacts(252, 1, false) && compacts(253 + 3, 1, false));
        assert!(compacts(64, 31, true) && !compacts(64, 32, true) && !compacts(64, 31, false));
    }

    #[test]
    fn a_log_that_was_as_long_when_it_was_new_stays() {
        let compacts = |all| compacts_log(LogSlots { all, live: 100, when_new: 150 }, 0, true);
        assert!(!compacts(300) && compacts(301));
        // Much of what was live then is dead by now.
        let slots = LogSlots { all: 250, live: 50, when_new: 150 };
        assert!(compacts_log(slots, 0, true));
    }

    #[test]
    fn logs_come_back_while_they_are_small_beside_what_is_free() {
        assert!(log_comes_back(1984, 32 * 31) && !log_comes_back(1985, 32 * 31));
        assert!(!log_comes_back(1, 31));
    }
}
