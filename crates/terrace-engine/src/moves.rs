//! Room that is on its way back: until data has moved it takes room in both tiers, and until a removed file is gone it takes room
//! without being there.
//!
//! Invariant: no program is told that there is no room before a look at the tiers while nothing moved, neither in the background
//! nor by hand, and after what was removed had been reclaimed. With `migrate` off nobody waits for moves: what is moved by hand then
//! takes room twice.

use std::time::Duration;

use crate::core::Core;
use crate::error::{FsError, FsResult};
use crate::sync::atomic::Ordering;
use crate::sync::{Condvar, Mutex, thread};

/// How often, and how long each time, who finds no room waits for what was removed.
const FORGET_TRIES: u32 = 50;
const FORGET_WAIT: Duration = Duration::from_millis(2);

/// Who moves data, and who waits for the room that is left then.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    seekers: usize,
}

/// A move; it has ended when this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay<'a>(&'a Moves);

/// Somebody looks for room; until this is dropped no move begins but those of who looks for room, too.
struct Seeking<'a>(&'a Moves);

impl Moves {
    /// A move begins.
    pub fn begin(&self) -> UnderWay<'_> {
        self.state.lock().under_way += 1;
        UnderWay(self)
    }

    /// Lets those go first who look for room. Called without any lock, by who is about to move something for another reason.
    pub fn let_seekers_go_first(&self) {
        let mut state = self.state.lock();
        while state.seekers > 0 {
            self.changed.wait(&mut state);
        }
    }

    /// Waits until nothing moves.
    fn seek(&self) -> Seeking<'_> {
        let mut state = self.state.lock();
        state.seekers += 1;
        while state.under_way > 0 {
            self.changed.wait(&mut state);
        }
        Seeking(self)
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

impl Core {
    /// Does what leaves everything as it was if it finds no room, and, if so, again when all room that is on its way back is there.
    /// Called without any lock.
    ///
    /// # Errors
    /// Those of `attempt`.
    pub fn with_all_room<T>(&self, attempt: impl Fn() -> FsResult<T>) -> FsResult<T> {
        let result = attempt();
        if !result.as_ref().is_err_and(FsError::is_no_room) {
            return result;
        }
        let _seeking = self.migrates().then(|| self.moves.seek());
        self.wait_for_the_removed();
        self.reclaim_all()?;
        attempt()
    }

    /// A file that a program has removed goes when the kernel forgets it. That message may have come before ours and not be read
    /// to its end; so files that somebody has open cost who finds no room this moment.
    fn wait_for_the_removed(&self) {
        for _ in 0..FORGET_TRIES {
            if self.nameless.load(Ordering::Acquire) == 0 {
                return;
            }
            thread::sleep(FORGET_WAIT);
        }
    }
}
