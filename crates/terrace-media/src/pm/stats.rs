//! Counters cheap enough for every store: each thread has a stripe to itself, so counting is a
//! plain add.
//!
//! A locked add would do more than cost its own few nanoseconds: it would drain the write-combining
//! buffers that a streaming copy has just filled.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// What a PM region has been asked to do since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmStats {
    /// Bytes stored, by every kind of store.
    pub bytes_stored: u64,
    /// Calls of [`Pm::flush`](crate::Pm::flush).
    pub flushes: u64,
    /// Calls of [`Pm::fence`](crate::Pm::fence).
    pub fences: u64,
}

const STRIPES: usize = 64;
/// The stripe of all threads that found no other free; adds to it are locked.
const SHARED: usize = STRIPES - 1;

#[derive(Default)]
#[repr(align(64))]
struct Stripe {
    bytes_stored: AtomicU64,
    flushes: AtomicU64,
    fences: AtomicU64,
}

pub(super) struct Counters {
    stripes: Box<[Stripe]>,
}

impl Counters {
    pub(super) fn new() -> Self {
        Counters { stripes: (0..STRIPES).map(|_| Stripe::default()).collect() }
    }

    #[inline]
    pub(super) fn stored(&self, bytes: u64) {
        let stripe = my_stripe();
        add(stripe, &self.stripes[stripe].bytes_stored, bytes);
    }

    #[inline]
    pub(super) fn flushed(&self) {
        let stripe = my_stripe();
        add(stripe, &self.stripes[stripe].flushes, 1);
    }

    #[inline]
    pub(super) fn fenced(&self) {
        let stripe = my_stripe();
        add(stripe, &self.stripes[stripe].fences, 1);
    }

    pub(super) fn total(&self) -> PmStats {
        let sum = |counter: fn(&Stripe) -> &AtomicU64| {
            self.stripes.iter().fold(0u64, |sum, stripe| sum.wrapping_add(counter(stripe).load(Relaxed)))
        };
        PmStats {
            bytes_stored: sum(|stripe| &stripe.bytes_stored),
            flushes: sum(|stripe| &stripe.flushes),
            fences: sum(|stripe| &stripe.fences),
        }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.total().fmt(f)
    }
}

#[inline]
fn add(stripe: usize, counter: &AtomicU64, amount: u64) {
    if stripe == SHARED {
        counter.fetch_add(amount, Relaxed);
    } else {
        // This thread alone adds to its stripe, so nothing is lost between the load and the store.
        counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
    }
}

/// Stripe numbers that no live thread holds. Its lock also orders a stripe's old owner before its
/// new one.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Stripes handed out at least once.
static USED: Mutex<usize> = Mutex::new(0);

thread_local! {
    static MINE: Claim = Claim::new();
}

struct Claim(usize);

impl Claim {
    fn new() -> Self {
        if let Some(stripe) = FREE.lock().pop() {
            return Claim(stripe);
        }
        let mut used = USED.lock();
        let stripe = (*used).min(SHARED);
        *used = stripe + 1;
        Claim(stripe)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.0 != SHARED {
            FREE.lock().push(self.0);
        }
    }
}

#[inline]
fn my_stripe() -> usize {
    // A thread that is being torn down has given its stripe back already.
    MINE.try_with(|claim| claim.0).unwrap_or(SHARED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_stripes_and_with_threads_that_follow_others() {
        let counters = Counters::new();
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..STRIPES + 8 {
                    scope.spawn(|| {
                        for _ in 0..500 {
                            counters.stored(3);
                            counters.flushed();
                            counters.fenced();
                        }
                    });
                }
            });
        }
        let operations = 2 * (STRIPES as u64 + 8) * 500;
        let expected = PmStats { bytes_stored: 3 * operations, flushes: operations, fences: operations };
        assert_eq!(counters.total(), expected);
    }
}
