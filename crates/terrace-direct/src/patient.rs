//! A lock that nobody waits for in vain: a thread may have left the library in the middle of a
//! call, by a jump out of a signal handler, and holds it for ever then. Or a handler makes a call
//! while its own thread holds it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{ReentrantMutex, ReentrantMutexGuard};

/// See the module.
#[derive(Debug)]
pub struct Patient<T> {
    inner: ReentrantMutex<RefCell<T>>,
    /// Somebody has waited in vain: others try only.
    abandoned: AtomicBool,
}

impl<T> Patient<T> {
    /// A lock that is free.
    pub const fn new(value: T) -> Self {
        let inner = ReentrantMutex::new(RefCell::new(value));
        Self { inner, abandoned: AtomicBool::new(false) }
    }

    /// Calls `with` while this thread has it. `None`: another thread has it for longer than
    /// `patience`, or this one has it already.
    pub fn with<R>(&self, patience: Duration, with: impl FnOnce(&mut T) -> R) -> Option<R> {
        let guard = self.lock(patience)?;
        let mut value = guard.try_borrow_mut().ok()?;
        Some(with(&mut value))
    }

    fn lock(&self, patience: Duration) -> Option<ReentrantMutexGuard<'_, RefCell<T>>> {
        let guard = match self.inner.try_lock() {
            None if self.abandoned.load(Ordering::Relaxed) => None,
            None => self.inner.try_lock_for(patience),
            got => got,
        };
        self.abandoned.store(guard.is_none(), Ordering::Relaxed);
        guard
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn a_thread_that_has_it_does_not_wait_for_itself() {
        let lock = Patient::new(1);
        let nested = lock.with(LONG, |value| {
            *value += 1;
            lock.with(LONG, |_| ())
        });
        assert_eq!((nested, lock.with(LONG, |value| *value)), (Some(None), Some(2)));
    }

    #[test]
    fn one_waits_for_a_thread_that_is_gone_and_the_others_do_not() {
        let lock = Patient::new(1);
        let ((held, is_held), (release, released)) = (channel(), channel());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                lock.with(LONG, move |_| {
                    held.send(()).unwrap();
                    released.recv().unwrap();
                })
            });
            is_held.recv().unwrap();
            assert_eq!(lock.with(SHORT, |_| ()), None);
            let start = Instant::now();
            assert_eq!(lock.with(LONG, |_| ()), None);
            assert!(start.elapsed() < LONG);
            release.send(()).unwrap();
        });
        assert_eq!(lock.with(SHORT, |value| *value), Some(1));
    }
}
