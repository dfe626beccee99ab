//! The gate between data that moves and programs that look for room: until data has moved it takes
//! room in both tiers.
//!
//! Invariant: while somebody looks for room, nothing moves but what makes room for programs at
//! once. Nobody looks for longer than [`ROOM_WAIT_MAX`].

use std::time::{Duration, Instant};

use terrace_store::error::FsResult;
use terrace_store::sync::{Condvar, Mutex};

use crate::base::patience;

/// How long somebody who finds no room waits for data that moves: a thread that waits serves nobody
/// else, and a disk may hang.
const ROOM_WAIT_MAX: Duration = Duration::from_secs(2);

/// The threads that move data, and those that wait for the room which that leaves. Its mutex is the
/// last of all locks; a token of [`Moving`] is none.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    seekers: usize,
}

/// Data moves until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<'a>(&'a Gate);

/// Somebody looks for room; until this is dropped nothing moves but what makes room for programs at
/// once.
#[derive(Debug)]
pub(crate) struct Seeking<'a>(&'a Gate);

impl Gate {
    /// Begins a move that makes room for a program.
    pub fn begin(&self) -> UnderWay<'_> {
        self.state.lock().under_way += 1;
        UnderWay(self)
    }

    /// Begins another move, once nobody looks for room. Called without any lock that programs take.
    pub fn begin_after_seekers(&self) -> UnderWay<'_> {
        patience::endure(|| self.begin_by_hand()).expect("this wait has no other end")
    }

    /// As [`Self::begin_after_seekers`], for a program.
    ///
    /// # Errors
    /// `EINTR`: the program waits no longer.
    pub fn begin_by_hand(&self) -> FsResult<UnderWay<'_>> {
        let mut state = self.state.lock();
        while state.seekers > 0 {
            if patience::is_limited() {
                self.changed.wait_for(&mut state, patience::LOOK);
                patience::go_on()?;
            } else {
                self.changed.wait(&mut state);
            }
        }
        state.under_way += 1;
        Ok(UnderWay(self))
    }

    /// Waits until nothing moves; `None` if that takes too long.
    ///
    /// # Errors
    /// `EINTR`: the program waits no longer.
    pub fn seek(&self) -> FsResult<Option<Seeking<'_>>> {
        let until = Instant::now() + ROOM_WAIT_MAX;
        let mut state = self.state.lock();
        state.seekers += 1;
        let seeking = Seeking(self);
        while state.under_way > 0 {
            let left = until.saturating_duration_since(Instant::now());
            let waits = patience::go_on();
            if left.is_zero() || waits.is_err() {
                // Nobody drops the token under the lock.
                drop(state);
                return waits.map(|()| None);
            }
            self.changed.wait_for(&mut state, left.min(patience::LOOK));
        }
        Ok(Some(seeking))
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn whoever_loses_patience_leaves_the_gate_as_it_was() {
        let gate = Gate::default();
        patience::let_waits_end(|| true);
        drop(gate.seek().unwrap().expect("nothing moves"));
        let moving = gate.begin();
        assert!(gate.seek().is_err_and(|error| patience::is_lost(&error)));
        drop((moving, gate.begin_after_seekers()));
        let seeking = gate.seek().unwrap().expect("nothing moves any more");
        assert!(gate.begin_by_hand().is_err_and(|error| patience::is_lost(&error)));
        drop(seeking);
        drop(gate.begin_by_hand().unwrap());
    }
}
