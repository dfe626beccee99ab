//! Durability for PM on an ordinary file system: what was dirtied is synced at each fence, with
//! group commit.
//!
//! Invariants: a range marked before a fence began is durable when that fence returns Ok; at most
//! one sync runs at a time, and fences that arrive meanwhile share the next one; after a sync has
//! failed every fence fails, since the kernel may have dropped the very pages that it could not
//! write.

use std::ops::Range;

use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

/// What a sync must cover (bytes, page-aligned).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Dirty {
    /// One run of pages: msync of that run.
    Run(Range<u64>),
    /// Runs apart from each other within these bounds: one fdatasync is quicker than an msync (a
    /// journal commit and a device flush) for each.
    Scattered(Range<u64>),
}

impl Dirty {
    pub(super) fn bounds(&self) -> &Range<u64> {
        match self {
            Dirty::Run(bounds) | Dirty::Scattered(bounds) => bounds,
        }
    }

    fn add(self, more: Range<u64>) -> Self {
        let bounds = self.bounds();
        let joined = bounds.start.min(more.start)..bounds.end.max(more.end);
        let touches = more.start <= bounds.end && bounds.start <= more.end;
        match self {
            Dirty::Run(_) if touches => Dirty::Run(joined),
            Dirty::Run(_) | Dirty::Scattered(_) => Dirty::Scattered(joined),
        }
    }
}

/// A sync failed: where the stores it was to cover begin, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyncFailure {
    pub(super) offset: u64,
    pub(super) errno: Errno,
}

#[derive(Debug, Default)]
struct State {
    /// Marked since the last sync began.
    dirty: Option<Dirty>,
    /// The number of syncs begun; the ranges in `dirty` belong to the next.
    begun: u64,
    /// The number of syncs that ended well: `begun`, or one less while a sync runs.
    ended: u64,
    failed: Option<SyncFailure>,
}

#[derive(Debug, Default)]
pub(super) struct GroupSync {
    state: Mutex<State>,
    sync_ended: Condvar,
}

const PAGE_BYTES: u64 = 4096;

impl GroupSync {
    /// Notes that `len` bytes at `off` are to be durable after the next fence.
    pub(super) fn mark(&self, off: u64, len: u64) {
        if len == 0 {
            return;
        }
        let pages = off / PAGE_BYTES * PAGE_BYTES..(off + len).next_multiple_of(PAGE_BYTES);
        let mut state = self.state.lock();
        state.dirty = Some(match state.dirty.take() {
            None => Dirty::Run(pages),
            Some(dirty) => dirty.add(pages),
        });
    }

    /// Makes everything marked so far durable, with `sync` if this caller becomes the leader.
    pub(super) fn fence(
        &self,
        sync: impl FnOnce(&Dirty) -> Result<(), Errno>,
    ) -> Result<(), SyncFailure> {
        let mut state = self.state.lock();
        // What this fence must wait for: the next sync if anything is marked, else the one that is
        // running.
        let wanted = state.begun + u64::from(state.dirty.is_some());
        loop {
            if let Some(failure) = state.failed {
                return Err(failure);
            }
            if state.ended >= wanted {
                return Ok(());
            }
            if state.begun == state.ended {
                break;
            }
            self.sync_ended.wait(&mut state);
        }
        let dirty = state.dirty.take().expect("a sync that has not begun has something to do");
        state.begun += 1;
        drop(state);

        let result = sync(&dirty);

        let result = result.map_err(|errno| SyncFailure { offset: dirty.bounds().start, errno });
        let mut state = self.state.lock();
        match result {
            Ok(()) => state.ended += 1,
            Err(failure) => state.failed = Some(failure),
        }
        self.sync_ended.notify_all();
        result
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn synced_by(group: &GroupSync) -> Option<Dirty> {
        let mut synced = None;
        group
            .fence(|dirty| {
                synced = Some(dirty.clone());
                Ok(())
            })
            .unwrap();
        synced
    }

    #[test]
    fn marks_are_joined_to_pages_and_a_clean_fence_costs_nothing() {
        let group = GroupSync::default();
        assert_eq!(synced_by(&group), None);
        group.mark(100, 0);
        assert_eq!(synced_by(&group), None);
        group.mark(5000, 1);
        assert_eq!(synced_by(&group), Some(Dirty::Run(4096..8192)));
        group.mark(5000, 1);
        group.mark(8192, 4096);
        group.mark(0, 10);
        assert_eq!(synced_by(&group), Some(Dirty::Run(0..12288)));
        group.mark(0, 10);
        group.mark(40960, 1);
        group.mark(4096, 1);
        assert_eq!(synced_by(&group), Some(Dirty::Scattered(0..45056)));
        assert_eq!(synced_by(&group), None);
    }

    #[test]
    fn a_failure_is_sticky_and_names_the_range() {
        let group = GroupSync::default();
        group.mark(8192, 1);
        let failure = SyncFailure { offset: 8192, errno: Errno::IO };
        assert_eq!(group.fence(|_| Err(Errno::IO)), Err(failure));
        assert_eq!(group.fence(|_| Ok(())), Err(failure), "even with nothing marked");
        group.mark(0, 1);
        assert_eq!(group.fence(|_| panic!("not tried again")), Err(failure));
    }

    #[test]
    fn fences_during_a_sync_share_the_next_one() {
        const FOLLOWERS: u64 = 8;
        let group = GroupSync::default();
        let syncs = AtomicUsize::new(0);
        let count = |_: &Dirty| {
            syncs.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let (started, leader_started) = mpsc::channel();
        let (release, leader_may_end) = mpsc::channel();
        group.mark(0, 1);
        std::thread::scope(|scope| {
            let group = &group;
            scope.spawn(move || {
                let hold = |_: &Dirty| {
                    started.send(()).unwrap();
                    leader_may_end.recv().unwrap();
                    Ok(())
                };
                group.fence(hold).unwrap();
            });
            leader_started.recv().unwrap();
            for follower in 0..FOLLOWERS {
                group.mark(follower * PAGE_BYTES, 1);
            }
            for _ in 0..FOLLOWERS {
                scope.spawn(|| group.fence(count).unwrap());
            }
            release.send(()).unwrap();
        });
        assert_eq!(
            syncs.load(Ordering::Relaxed),
            1,
            "all marks were there before the first follower"
        );
        assert_eq!(synced_by(&group), None);
    }
}
