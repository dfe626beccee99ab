//! Waits, by cause: operations of programs that wait now, that waited lately, and how long.
//! Only operations that wait touch any of this.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use terrace_store::sync::atomic::{AtomicU64, Ordering};

/// Declares the causes: variant, name, what it is.
macro_rules! causes {
    ($($variant:ident $name:literal $words:literal),* $(,)?) => {
        /// The cause for which an operation of a program waits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum WaitCause {
            $(#[doc = $words] $variant),*
        }

        impl WaitCause {
            /// Every cause, in the order in which they are shown.
            pub const ALL: &[WaitCause] = &[$(WaitCause::$variant),*];

            /// Its name: lower case.
            pub fn name(self) -> &'static str {
                match self {
                    $(WaitCause::$variant => $name),*
                }
            }

            /// The cause in a few words.
            pub fn words(self) -> &'static str {
                match self {
                    $(WaitCause::$variant => $words),*
                }
            }
        }
    };
}

causes! {
    Room "room" "room in PM or on disks",
    Cache "cache" "pages of the page cache",
    Flush "flush" "an fsync's way to a disk",
    Read "read" "data from a disk",
    Loan "loan" "a program that has the file",
}

const CAUSES: usize = WaitCause::ALL.len();
/// Waits are counted by such parts of a second.
const TICKS_PER_SECOND: u64 = 8;
/// Parts of the last second, and the one that has begun.
const TICKS: usize = TICKS_PER_SECOND as usize + 1;
/// Bits of a word in which a tick's waits are counted; the others hold the tick.
const COUNT_BITS: u32 = 24;

/// Waits for one thing. As JSON, it may be of a daemon of another version: what that does not know
/// is zero here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitStats {
    /// `room`, `cache`, `flush`, `read` or `loan`.
    pub cause: String,
    /// Operations that wait now.
    pub waiting: u64,
    /// Operations that waited within the last second, or still do.
    pub last_second: u64,
    /// Operations whose waits ended in the period.
    pub waits: u64,
    /// How long all of them waited, in nanoseconds.
    pub total_ns: u64,
    /// How long the one that waited longest did, in nanoseconds, since the volume was opened.
    pub longest_ns: u64,
}

impl WaitStats {
    /// The same, and what was added after `earlier`.
    pub(crate) fn since(&self, earlier: &WaitStats) -> WaitStats {
        WaitStats {
            waits: self.waits.saturating_sub(earlier.waits),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            ..self.clone()
        }
    }
}

/// Those who wait for one thing.
#[derive(Debug, Default)]
struct Queue {
    waiting: AtomicU64,
    waits: AtomicU64,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
    /// Waits that ended, by tick: a ring.
    ended: [AtomicU64; TICKS],
}

impl Queue {
    fn ends(&self, waited: Duration, tick: u64) {
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(waited_ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(waited_ns, Ordering::Relaxed);
        let one_more = |word: u64| match word >> COUNT_BITS == tick {
            true => Some(word + 1),
            false => Some((tick << COUNT_BITS) + 1),
        };
        let word = &self.ended[(tick % TICKS as u64) as usize];
        // It always has a next value.
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn stats(&self, cause: WaitCause, tick: u64) -> WaitStats {
        let waiting = self.waiting.load(Ordering::Relaxed);
        let count = |word: &AtomicU64| {
            let word = word.load(Ordering::Relaxed);
            let (of, count) = (word >> COUNT_BITS, word & ((1 << COUNT_BITS) - 1));
            if tick.saturating_sub(of) <= TICKS_PER_SECOND { count } else { 0 }
        };
        WaitStats {
            cause: cause.name().to_owned(),
            waiting,
            last_second: waiting + self.ended.iter().map(count).sum::<u64>(),
            waits: self.waits.load(Ordering::Relaxed),
            total_ns: self.total_ns.load(Ordering::Relaxed),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Waits {
    queues: [Queue; CAUSES],
    since: Instant,
}

impl Default for Waits {
    fn default() -> Self {
        Self { queues: Default::default(), since: Instant::now() }
    }
}

impl Waits {
    /// A program's operation waits until what is returned is dropped.
    pub fn begin(&self, cause: WaitCause) -> Waiting<'_> {
        Waiting { waits: self, cause, begun: self.start(cause) }
    }

    /// As [`Self::begin`], where the wait ends elsewhere: [`Self::end`] or [`Self::never_mind`]
    /// follows.
    pub fn start(&self, cause: WaitCause) -> Instant {
        self.queues[cause as usize].waiting.fetch_add(1, Ordering::Relaxed);
        Instant::now()
    }

    /// A wait that began then is over.
    pub fn end(&self, cause: WaitCause, begun: Instant) {
        let now = Instant::now();
        let waited = now.saturating_duration_since(begun);
        self.queues[cause as usize].ends(waited, self.tick(now));
    }

    /// A wait that was started does not come to be.
    pub fn never_mind(&self, cause: WaitCause) {
        self.queues[cause as usize].waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn stats(&self) -> Vec<WaitStats> {
        let tick = self.tick(Instant::now());
        let of = |&cause: &WaitCause| self.queues[cause as usize].stats(cause, tick);
        WaitCause::ALL.iter().map(of).collect()
    }

    /// Ticks begin with 1: a word of zeros is of none.
    fn tick(&self, now: Instant) -> u64 {
        let since_ms = now.saturating_duration_since(self.since).as_millis() as u64;
        TICKS_PER_SECOND + 1 + since_ms * TICKS_PER_SECOND / 1000
    }
}

/// An operation that waits.
#[derive(Debug)]
#[must_use]
pub(crate) struct Waiting<'a> {
    waits: &'a Waits,
    cause: WaitCause,
    begun: Instant,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.end(self.cause, self.begun);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_while_they_last_and_for_a_second() {
        let waits = Waits::default();
        let of = |cause: WaitCause| waits.stats().swap_remove(cause as usize);
        let first = waits.begin(WaitCause::Flush);
        let flush = of(WaitCause::Flush);
        assert_eq!((flush.waiting, flush.last_second, flush.waits), (1, 1, 0));
        let second = waits.begin(WaitCause::Flush);
        std::thread::sleep(Duration::from_millis(2));
        drop(first);
        let flush = of(WaitCause::Flush);
        assert_eq!((flush.waiting, flush.last_second, flush.waits), (1, 2, 1));
        assert!(flush.total_ns >= 2_000_000 && flush.longest_ns == flush.total_ns);
        drop(second);
        let both = of(WaitCause::Flush).since(&flush);
        assert_eq!((both.waiting, both.last_second, both.waits), (0, 2, 1));
        waits.start(WaitCause::Read);
        waits.never_mind(WaitCause::Read);
        assert_eq!(of(WaitCause::Read), WaitStats { cause: "read".into(), ..Default::default() });
    }

    #[test]
    fn a_second_later_nobody_waited_lately() {
        let queue = Queue::default();
        queue.waiting.fetch_add(5, Ordering::Relaxed);
        let lately = |tick| queue.stats(WaitCause::Room, tick).last_second;
        for tick in [20, 20, 24, 28, 29] {
            queue.ends(Duration::from_secs(1), tick);
        }
        // The ring has one place for ticks 20 and 29.
        assert_eq!([28, 29, 32, 33, 36, 37, 38].map(lately), [3, 3, 3, 2, 2, 1, 0]);
        assert_eq!(queue.stats(WaitCause::Room, 29).waits, 5);
    }
}
