//! Shuttle's locks, atomics and threads in the shape of the real ones.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::{Deref, DerefMut};
pub use std::sync::{Arc, Weak};
use std::time::Duration;

use shuttle::rand::Rng;
use shuttle::sync::{MutexGuard as Guard, TryLockError};
pub use shuttle::sync::{RwLockReadGuard, RwLockWriteGuard};
pub use shuttle::thread_local;

/// Iterated in the same order whenever a schedule is replayed.
pub type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// Another thread may go on from here.
pub fn switch() {
    atomic::AtomicBool::new(false).load(atomic::Ordering::SeqCst);
}

pub fn spawn_scoped<'scope, T: Send + 'scope>(
    scope: &'scope shuttle::thread::Scope<'scope, '_>,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Option<shuttle::thread::ScopedJoinHandle<'scope, T>> {
    Some(scope.spawn(body))
}

/// There is no time here: it passes at any look, or, with no patience at all, at the first.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    is_at_once: bool,
}

impl Deadline {
    pub fn after(patience: Duration) -> Self {
        Self { is_at_once: patience.is_zero() }
    }

    pub fn has_passed(&self) -> bool {
        self.is_at_once || shuttle::rand::thread_rng().gen_range(0..4) == 0
    }
}

pub const fn limit(_real: usize, model: usize) -> usize {
    model
}

/// A lock that is passed on although a holder panicked, as `parking_lot`'s are.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The lock is held; the guard is absent only while a condition is waited for.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    lock: &'a shuttle::sync::Mutex<T>,
    held: Option<Guard<'a, T>>,
}

fn held<T>(lock: &shuttle::sync::Mutex<T>) -> Guard<'_, T> {
    lock.lock().unwrap_or_else(|e| e.into_inner())
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { lock: &self.0, held: Some(held(&self.0)) }
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let held = match self.0.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(MutexGuard { lock: &self.0, held: Some(held) })
    }

    /// There is no time here: whoever does not get it at once gives up.
    pub fn try_lock_for(&self, _timeout: Duration) -> Option<MutexGuard<'_, T>> {
        let guard = self.try_lock();
        if guard.is_none() {
            thread::yield_now();
        }
        guard
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.held.as_ref().expect("held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.held.as_mut().expect("held")
    }
}

/// As [`Mutex`].
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    /// Panics if this thread has it already: with a writer waiting in between, that would be a
    /// deadlock.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|e| e.into_inner())
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }

    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read().ok()
    }

    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok()
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|e| e.into_inner())
    }
}

#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.held.take().expect("held");
        guard.held = Some(self.0.wait(held).unwrap_or_else(|e| e.into_inner()));
    }

    /// There is no time here: the timeout comes before any notification, sooner or later.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) {
        guard.held = None;
        for _ in 0..shuttle::rand::thread_rng().gen_range(1..4) {
            thread::yield_now();
        }
        guard.held = Some(held(guard.lock));
    }
}

pub mod atomic {
    pub use shuttle::sync::atomic::{
        AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering,
    };

    /// Shuttle's atomics are all sequentially consistent.
    pub fn fence(_order: Ordering) {}
}

pub mod mapped {
    use super::atomic::Ordering;
    use super::switch;

    macro_rules! mapped_atomic {
        ($name:ident, $number:ty) => {
            /// The real one, which shuttle hears of.
            #[derive(Debug, Default)]
            #[repr(transparent)]
            pub struct $name(std::sync::atomic::$name);

            #[allow(dead_code, reason = "all have the same")]
            impl $name {
                pub fn load(&self, order: Ordering) -> $number {
                    switch();
                    self.0.load(order)
                }

                pub fn store(&self, value: $number, order: Ordering) {
                    switch();
                    self.0.store(value, order);
                }

                pub fn swap(&self, value: $number, order: Ordering) -> $number {
                    switch();
                    self.0.swap(value, order)
                }

                pub fn fetch_min(&self, value: $number, order: Ordering) -> $number {
                    switch();
                    self.0.fetch_min(value, order)
                }

                pub fn compare_exchange(
                    &self,
                    old: $number,
                    new: $number,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$number, $number> {
                    switch();
                    self.0.compare_exchange(old, new, success, failure)
                }
            }
        };
    }
    mapped_atomic!(AtomicI64, i64);
    mapped_atomic!(AtomicU32, u32);
    mapped_atomic!(AtomicU64, u64);
}

pub mod thread {
    use std::io;
    use std::num::NonZero;

    pub use shuttle::thread::{Builder, JoinHandle, scope, yield_now};

    /// Others go on. Shuttle's own lets PCT go on with this thread for ever, as if it had no reason
    /// to sleep.
    pub fn sleep(_: std::time::Duration) {
        yield_now();
    }

    /// One, whatever the machine: a schedule is to be replayed anywhere.
    pub fn available_parallelism() -> io::Result<NonZero<usize>> {
        Ok(NonZero::<usize>::MIN)
    }
}
