//! Room that is on its way back: until data has moved it takes room in both tiers, until a removed
//! file is gone it takes room without being there, and until a dirty page is written back, room is
//! promised to it beside the block that it replaces.
//!
//! Invariant: no write and no `fallocate` of a program is told that there is no room before dirty
//! pages were written back, as long as any were promised room (at most [`WRITEBACKS_MAX`] times:
//! others may take what that frees); and before a look at the tiers while no data moved, neither in
//! the background nor by hand, and after the removed files that the kernel has forgotten had been
//! reclaimed. It does not wait for moves longer than [`ROOM_WAIT_MAX`]. With `migrate` off nobody
//! waits for moves: what is moved by hand then takes room twice.

use std::time::{Duration, Instant};

use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::sync::{Condvar, Mutex, limit, thread};

use crate::tiering::Tiering;

/// How long who finds no room waits for moves: a thread that waits serves nobody else, and a disk
/// may hang.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(2);

/// How often in a row who finds no room writes back what is dirty. Each time others were faster, or
/// write what no disk has room for.
const WRITEBACKS_MAX: usize = limit(32, 2);

/// Who moves data, and who waits for the room that is left then. Its lock is the last of all.
#[derive(Debug, Default)]
pub(crate) struct Relocations {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    seekers: usize,
}

/// Relocations are under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<'a>(&'a Relocations);

/// Somebody looks for room; until this is dropped nothing moves but what makes room for programs at
/// once.
struct Seeking<'a>(&'a Relocations);

impl Relocations {
    /// Relocations that make room for a program begin.
    pub fn begin(&self) -> UnderWay<'_> {
        self.state.lock().under_way += 1;
        UnderWay(self)
    }

    /// Other moves begin, once nobody looks for room. Called without any lock that programs take.
    pub fn begin_after_seekers(&self) -> UnderWay<'_> {
        let mut state = self.state.lock();
        while state.seekers > 0 {
            self.changed.wait(&mut state);
        }
        state.under_way += 1;
        UnderWay(self)
    }

    /// Waits until nothing moves; `None` if that takes too long.
    fn seek(&self) -> Option<Seeking<'_>> {
        let until = Instant::now() + ROOM_WAIT_MAX;
        let mut state = self.state.lock();
        state.seekers += 1;
        while state.under_way > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.seekers -= 1;
                self.changed.notify_all();
                return None;
            }
            self.changed.wait_for(&mut state, left);
        }
        Some(Seeking(self))
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.under_way -= 1);
    }
}

impl Drop for Seeking<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.seekers -= 1);
    }
}

impl Tiering {
    /// As [`Self::mutate`], for what a program asks for, which holds no lock yet: where PM has next
    /// to no room for metadata, some is made first.
    pub fn operate<T>(&self, operation: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        self.relieve_pm_if_low();
        self.inodes.mutate(operation)
    }

    /// As [`Self::operate`], for what frees something, which changes nothing if it finds no room:
    /// then room is made once more, however lately that was in vain, and it is tried again.
    pub fn operate_to_free<T>(&self, mut operation: impl FnMut() -> FsResult<T>) -> FsResult<T> {
        match self.operate(&mut operation) {
            Err(error) if error.is_no_room() => {
                self.relieve_pm(true);
                self.inodes.mutate(operation)
            }
            done => done,
        }
    }

    /// Does what leaves everything as it was if it finds no room, and, if so, again when all room
    /// that is on its way back is there. Called without any lock that moves take.
    ///
    /// # Errors
    /// Those of `attempt`; `EROFS` if the volume has turned read-only meanwhile.
    pub fn with_all_room<T>(&self, attempt: impl Fn() -> FsResult<T>) -> FsResult<T> {
        let result = self.with_room_of_dirty(&attempt);
        if !result.as_ref().is_err_and(FsError::is_no_room) {
            return result;
        }
        self.inodes.open_orphans.wait();
        let seeking = self.migrates().then(|| self.relocations.seek());
        if self.health.is_read_only() {
            return fail(libc::EROFS);
        }
        if matches!(seeking, Some(None)) {
            return result;
        }
        self.inodes.reclaim_all()?;
        self.with_room_of_dirty(&attempt)
    }

    /// Does `attempt`; if it finds no room, writes back what is dirty and does it again. Ends when
    /// nothing was promised to dirty pages from before an attempt until after it: then writeback
    /// frees nothing.
    fn with_room_of_dirty<T>(&self, attempt: &impl Fn() -> FsResult<T>) -> FsResult<T> {
        for _ in 0..WRITEBACKS_MAX {
            // Both looks count: others may keep their promises, or get some, while this looks for
            // room.
            let were_promises = self.store.space.has_promises();
            let result = attempt();
            let may_come_back = were_promises || self.store.space.has_promises();
            if !may_come_back || !result.as_ref().is_err_and(FsError::is_no_room) {
                return result;
            }
            match self.pages.flush_all() {
                Err(error) if error.is_fatal() => return Err(error),
                _ if self.health.is_read_only() => return fail(libc::EROFS),
                // A disk that takes nothing frees nothing; what others took may do.
                Err(_) => return attempt(),
                // Who has a promise may not have made use of it yet.
                Ok(()) => thread::yield_now(),
            }
        }
        attempt()
    }
}
