//! Counters cheap enough for every store: each thread has a stripe to itself, so counting is a
//! plain add.
//!
//! A locked add would do more than cost its own few nanoseconds: it would drain the write-combining
//! buffers that a streaming copy has just filled.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

const STRIPES: usize = 64;
/// The stripe of all threads that found no other free; adds to it are locked.
const SHARED: usize = STRIPES - 1;

#[repr(align(64))]
struct Stripe<const N: usize>([AtomicU64; N]);

/// `N` counters, by number, which wrap around at 2^64.
pub struct Striped<const N: usize> {
    stripes: Box<[Stripe<N>]>,
}

impl<const N: usize> Default for Striped<N> {
    fn default() -> Self {
        Striped {
            stripes: (0..STRIPES).map(|_| Stripe([const { AtomicU64::new(0) }; N])).collect(),
        }
    }
}

impl<const N: usize> Striped<N> {
    /// Adds `amount` to the counter `number`, which is less than `N`.
    #[inline]
    pub fn add(&self, number: usize, amount: u64) {
        let stripe = my_stripe();
        let counter = &self.stripes[stripe].0[number];
        if stripe == SHARED {
            counter.fetch_add(amount, Relaxed);
        } else {
            // This thread alone adds to its stripe, so nothing is lost between the load and the
            // store.
            counter.store(counter.load(Relaxed).wrapping_add(amount), Relaxed);
        }
    }

    /// The counter `number`, which is less than `N`; what other threads add meanwhile may be
    /// missing.
    pub fn total(&self, number: usize) -> u64 {
        self.stripes.iter().fold(0, |sum, stripe| sum.wrapping_add(stripe.0[number].load(Relaxed)))
    }

    /// All counters, each as by [`Striped::total`].
    pub fn totals(&self) -> [u64; N] {
        std::array::from_fn(|number| self.total(number))
    }
}

impl<const N: usize> fmt::Debug for Striped<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.totals().fmt(f)
    }
}

/// Stripe numbers that no live thread holds. Its lock also orders a stripe's old owner before its
/// new one.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// Stripes handed out at least once.
static USED: Mutex<usize> = Mutex::new(0);

thread_local! {
    /// The number in `MINE`, at hand without a look at whether that has a value yet.
    static STRIPE: Cell<usize> = const { Cell::new(UNCLAIMED) };
    static MINE: Claim = Claim::new();
}

const UNCLAIMED: usize = usize::MAX;

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
        STRIPE.set(SHARED);
        if self.0 != SHARED {
            FREE.lock().push(self.0);
        }
    }
}

#[inline]
fn my_stripe() -> usize {
    match STRIPE.get() {
        UNCLAIMED => claim(),
        stripe => stripe,
    }
}

#[cold]
fn claim() -> usize {
    // A thread that is being torn down has given its stripe back already.
    let stripe = MINE.try_with(|claim| claim.0).unwrap_or(SHARED);
    STRIPE.set(stripe);
    stripe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_stripes_and_with_threads_that_follow_others() {
        let counters = Striped::<3>::default();
        for _ in 0..2 {
            std::thread::scope(|scope| {
                for _ in 0..STRIPES + 8 {
                    scope.spawn(|| {
                        for _ in 0..500 {
                            counters.add(0, 3);
                            counters.add(2, 1);
                        }
                    });
                }
            });
        }
        let operations = 2 * (STRIPES as u64 + 8) * 500;
        assert_eq!(counters.totals(), [3 * operations, 0, operations]);
    }
}
