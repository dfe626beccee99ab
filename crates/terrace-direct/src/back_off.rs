//! How long a file stays on the mount before the daemon is asked for it again.
//!
//! All of it is heuristic: threads change it without a lock, and may lose each other's counts.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use terrace_store::delegation::NotLent;

use crate::borrowed::Reason;

/// After a loan has ended, so many calls go to the mount before the daemon is asked again; twice as
/// many each time, if the loan was short.
const CALLS_FIRST: u32 = 8;
const CALLS_MAX: u32 = 4096;
/// Calls on a borrowed file that make a loan a long one.
const LONG: u32 = 1000;

/// Reasons that are not the daemon's.
const OWN: [Reason; 5] =
    [Reason::Ended, Reason::Busy, Reason::Renew, Reason::NotInPm, Reason::Damaged];
/// Reasons to stay on the mount, by their numbers here.
const REASONS: [Reason; OWN.len() + NotLent::ALL.len()] = {
    let mut all = [Reason::Ended; OWN.len() + NotLent::ALL.len()];
    let mut i = 0;
    while i < all.len() {
        let own = i < OWN.len();
        all[i] = if own { OWN[i] } else { Reason::NotLent(NotLent::ALL[i - OWN.len()]) };
        i += 1;
    }
    all
};

/// See the module.
#[derive(Debug)]
pub(crate) struct BackOff {
    /// Calls that go to the mount before the daemon is asked, and how many the next time.
    left: AtomicU32,
    next: AtomicU32,
    /// Calls since the loan began.
    calls: AtomicU32,
    /// Number of the reason why the file was last refused, or given back.
    why: AtomicU8,
}

impl BackOff {
    /// The daemon may be asked at once.
    pub(crate) const fn new() -> Self {
        Self {
            left: AtomicU32::new(0),
            next: AtomicU32::new(CALLS_FIRST),
            calls: AtomicU32::new(0),
            why: AtomicU8::new(0),
        }
    }

    /// Counts a call.
    ///
    /// # Errors
    /// The call goes to the mount, for this reason.
    #[inline]
    pub(crate) fn call(&self) -> Result<(), Reason> {
        match self.left.load(Relaxed) {
            0 => {
                let calls = self.calls.load(Relaxed).wrapping_add(1);
                self.calls.store(calls, Relaxed);
                Ok(())
            }
            left => {
                self.left.store(left - 1, Relaxed);
                Err(self.why())
            }
        }
    }

    /// Why the file was last refused, or given back.
    pub(crate) fn why(&self) -> Reason {
        REASONS[usize::from(self.why.load(Relaxed))]
    }

    /// A loan has begun.
    pub(crate) fn begin(&self) {
        self.calls.store(0, Relaxed);
    }

    /// A loan has ended, or the daemon has refused one.
    pub(crate) fn wait(&self, why: Reason) {
        let was_long = self.calls.swap(0, Relaxed) > LONG;
        let calls = if was_long { CALLS_FIRST } else { self.next.load(Relaxed) };
        self.next.store((2 * calls).min(CALLS_MAX), Relaxed);
        self.wait_for(calls, why);
    }

    /// The daemon does not answer. Its successor may lend at once.
    pub(crate) fn no_answer(&self) {
        self.wait_for(CALLS_FIRST, Reason::Ended);
    }

    /// The file is used in a way for which the mount is better.
    pub(crate) fn wait_longest(&self, why: Reason) {
        self.wait_for(CALLS_MAX, why);
    }

    /// Nothing is known of the file: it was just made.
    pub(crate) fn forget(&self) {
        self.left.store(0, Relaxed);
        self.next.store(CALLS_FIRST, Relaxed);
    }

    fn wait_for(&self, calls: u32, why: Reason) {
        let number = REASONS.iter().position(|&reason| reason == why);
        self.why.store(number.expect("all reasons are there") as u8, Relaxed);
        self.left.store(calls, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that go to the mount from now on, all for this reason.
    fn waits(of: &BackOff, why: Reason) -> u32 {
        let calls = (0..).take_while(|_| of.call().is_err_and(|reason| reason == why));
        u32::try_from(calls.count()).unwrap()
    }

    #[test]
    fn short_loans_are_asked_for_less_and_less_often() {
        let back_off = BackOff::new();
        assert_eq!(back_off.call(), Ok(()));
        for expected in [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 4096] {
            back_off.begin();
            back_off.wait(Reason::Ended);
            assert_eq!(waits(&back_off, Reason::Ended), expected);
        }
        back_off.begin();
        (0..=LONG).for_each(|_| back_off.call().unwrap());
        back_off.wait(Reason::NotInPm);
        assert_eq!(waits(&back_off, Reason::NotInPm), CALLS_FIRST, "a long loan came before");
        back_off.forget();
        assert_eq!(back_off.call(), Ok(()));
    }

    #[test]
    fn every_reason_is_told_as_it_was_noted() {
        for why in REASONS {
            let back_off = BackOff::new();
            back_off.wait_longest(why);
            assert_eq!(back_off.why(), why);
        }
        let lent = REASONS.iter().filter(|reason| matches!(reason, Reason::NotLent(_)));
        assert_eq!(lent.count(), NotLent::ALL.len());
    }
}
