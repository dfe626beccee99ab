//! The patience of those on whose behalf a thread waits. A program that gets a signal may not want
//! to wait any longer for room, or for what others do: its call ends with EINTR.
//!
//! The front end says of each of its threads how the wait of a call can be over. Places that wait
//! ask with [`go_on`], again and again as long as they wait, and nowhere else. Threads of the
//! engine work for nobody in particular, and wait as long as it takes.
//!
//! Invariant: a call ends with EINTR only before it has had any effect. From its first effect on it
//! waits under [`endure`], or says how much it has done.

use std::cell::Cell;
use std::time::Duration;

use terrace_store::error::{FsError, FsResult, fail};
use terrace_store::planted::{Bug, planted};
use terrace_store::sync::{Mutex, MutexGuard, thread_local};

/// How long a thread waits before it asks again.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

thread_local! {
    static IS_OVER: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// From now on, calls of this thread that wait and have had no effect yet end with EINTR once
/// `is_over` says so. It is asked every few milliseconds of a wait.
pub fn let_waits_end(is_over: fn() -> bool) {
    IS_OVER.with(|held| held.set(Some(is_over)));
}

/// Whether waits of this thread can be over.
pub(crate) fn is_limited() -> bool {
    IS_OVER.with(Cell::get).is_some()
}

/// To be asked before a call waits, and while it does.
///
/// # Errors
/// `EINTR`: the wait is over.
pub(crate) fn go_on() -> FsResult<()> {
    match IS_OVER.with(Cell::get) {
        Some(is_over) if is_over() => fail(libc::EINTR),
        _ => Ok(()),
    }
}

/// Whether somebody has lost patience.
pub(crate) fn is_lost(error: &FsError) -> bool {
    error.errno() == libc::EINTR
}

/// Does a part of a call that waits as long as it takes, since the call has had an effect.
pub(crate) fn endure<T>(part: impl FnOnce() -> T) -> T {
    if planted(Bug::LostAfterEffect) {
        return part();
    }
    let is_over = IS_OVER.with(|held| held.replace(None));
    let done = part();
    IS_OVER.with(|held| held.set(is_over));
    done
}

/// Waits for a lock that others hold while they wait for a disk.
///
/// # Errors
/// As [`go_on`].
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> FsResult<MutexGuard<'_, T>> {
    if !is_limited() {
        return Ok(mutex.lock());
    }
    loop {
        if let Some(guard) = mutex.try_lock_for(LOOK) {
            return Ok(guard);
        }
        go_on()?;
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use terrace_store::sync::thread;

    use super::*;

    #[test]
    fn only_threads_with_a_limit_lose_patience_and_none_that_endures() {
        go_on().unwrap();
        let_waits_end(|| true);
        assert!(go_on().is_err_and(|error| is_lost(&error)));
        endure(go_on).unwrap();
        assert!(go_on().is_err(), "what followed an effect is over");
        thread::spawn(|| go_on().unwrap()).join().unwrap();
    }

    #[test]
    fn a_lock_that_is_held_is_not_waited_for_without_end() {
        let mutex = Mutex::new(1);
        let_waits_end(|| true);
        let held = mutex.lock();
        thread::scope(|scope| {
            let waits = || {
                let_waits_end(|| true);
                lock(&mutex).is_err_and(|error| is_lost(&error))
            };
            assert!(scope.spawn(waits).join().unwrap());
        });
        drop(held);
        assert_eq!(*lock(&mutex).unwrap(), 1, "one that is free needs no patience");
    }
}
