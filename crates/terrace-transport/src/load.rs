//! How a session is served at the moment: threads, queues and the memory of their buffers.

use std::sync::{Arc, Mutex, PoisonError};

/// What serves a session at one moment, or one thread's share of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Threads that take messages from `/dev/fuse`.
    pub threads: usize,
    /// Queues of io_uring, one for each CPU.
    pub queues: usize,
    /// Threads that take messages from these.
    pub workers: usize,
    /// Messages that these can have under way.
    pub entries: usize,
    /// Buffers of all of them. A buffer takes memory as far as messages were long.
    pub buffer_bytes: usize,
}

impl Load {
    fn combine(&mut self, other: &Load, with: impl Fn(usize, usize) -> usize) {
        for (part, other) in [
            (&mut self.threads, other.threads),
            (&mut self.queues, other.queues),
            (&mut self.workers, other.workers),
            (&mut self.entries, other.entries),
            (&mut self.buffer_bytes, other.buffer_bytes),
        ] {
            *part = with(*part, other);
        }
    }
}

/// Sums up what serves a session.
#[derive(Clone, Debug, Default)]
pub struct LoadMeter(Arc<Mutex<Load>>);

impl LoadMeter {
    /// What serves now.
    pub fn now(&self) -> Load {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a share until what is returned is dropped.
    pub(crate) fn add(&self, share: Load) -> Counted {
        self.change(&share, usize::saturating_add);
        Counted { meter: self.clone(), share }
    }

    fn change(&self, share: &Load, with: impl Fn(usize, usize) -> usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).combine(share, with);
    }
}

/// A share that is counted.
#[derive(Debug)]
#[must_use = "it counts until it is dropped"]
pub(crate) struct Counted {
    meter: LoadMeter,
    share: Load,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.meter.change(&self.share, usize::saturating_sub);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_counts_as_long_as_it_lives() {
        let meter = LoadMeter::default();
        let share = Load { workers: 1, entries: 1, buffer_bytes: 100, ..Load::default() };
        let queues = meter.add(Load { queues: 2, ..Load::default() });
        let shares = [meter.add(share), meter.clone().add(share)];
        let all = Load { queues: 2, workers: 2, entries: 2, buffer_bytes: 200, threads: 0 };
        assert_eq!(meter.now(), all);
        drop(shares);
        assert_eq!(meter.now(), Load { queues: 2, ..Load::default() });
        drop(queues);
        assert_eq!(meter.now(), Load::default());
    }
}
