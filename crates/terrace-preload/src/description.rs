//! An open file description that goes direct, or did: its state, file and position. Numbers that
//! were duplicated share one.

use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::time::{Duration, Instant};

use crate::inode::Inode;
use crate::raw;
use crate::room;
use crate::word::Cell;

/// Writes go to the end.
pub(crate) const APPEND: u32 = 1;
/// It may be read.
pub(crate) const READABLE: u32 = 2;
/// It may be written.
pub(crate) const WRITABLE: u32 = 4;
/// Each write is durable before it returns.
pub(crate) const SYNC: u32 = 8;

/// Memory of descriptions is never given back, so a thread that was late may still look at one.
/// It then finds that the table refers to another.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Description {
    /// On the mount or direct.
    pub(crate) state: Cell,
    inode: AtomicPtr<Inode>,
    /// The position while it is direct. While a call is under way, it stands behind that call.
    pub(crate) position: AtomicU64,
    /// What the kernel was told of it when the description was put back last.
    pub(crate) told: AtomicU64,
    lock: AtomicU32,
    /// Threads that have waited long for the lock: others let them go first.
    starving: AtomicU32,
    pub(crate) flags: AtomicU32,
    /// How many numbers refer to it.
    numbers: AtomicU32,
    /// The next one that is free.
    next: AtomicU64,
}

/// A call that holds the lock for longer was left in the middle, or takes long.
const PATIENCE: Duration = Duration::from_secs(1);
/// A thread that has waited so long for the lock goes before others.
const HUNGER: Duration = Duration::from_millis(1);
/// How long others let it (nanoseconds).
const GRACE_NS: i64 = 100_000;

/// Free descriptions: the address of the first, with a count of changes above it.
static FREE: AtomicU64 = AtomicU64::new(0);
const COUNT: u32 = 48;
const ADDRESS: u64 = (1 << COUNT) - 1;

impl Description {
    /// The description at an address of a word in the table.
    #[inline(always)]
    pub(crate) fn at(address: usize) -> &'static Self {
        // SAFETY: Words hold addresses that `take` gave, and that memory stays.
        unsafe { &*(address as *const Self) }
    }

    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    /// Takes a free one, for one number. `None` if there is no memory.
    pub(crate) fn take() -> Option<&'static Self> {
        let taken = loop {
            let first = FREE.load(Acquire);
            if first & ADDRESS == 0 {
                // SAFETY: The memory is new, and all zero is a description.
                break unsafe { &*room::take::<Self>()? };
            }
            let free = Self::at((first & ADDRESS) as usize);
            let next = free.next.load(Relaxed) | (first >> COUNT).wrapping_add(1) << COUNT;
            if FREE.compare_exchange(first, next, AcqRel, Relaxed).is_ok() {
                break free;
            }
        };
        taken.inode.store(std::ptr::null_mut(), Release);
        taken.numbers.store(1, Relaxed);
        Some(taken)
    }

    /// One more number refers to it, unless it is free meanwhile.
    pub(crate) fn share(&self) -> bool {
        self.numbers.fetch_update(AcqRel, Relaxed, |n| (n > 0).then_some(n + 1)).is_ok()
    }

    /// One number less refers to it. Behind the last one it is free, unless a call is under way or
    /// was left in the middle: then nobody may have it again.
    pub(crate) fn release(&'static self) {
        if self.numbers.fetch_sub(1, AcqRel) != 1 || self.lock.load(Acquire) != 0 {
            return;
        }
        loop {
            let first = FREE.load(Relaxed);
            self.next.store(first & ADDRESS, Relaxed);
            let count = (first >> COUNT).wrapping_add(1) << COUNT;
            let new = self.address() as u64 | count;
            if FREE.compare_exchange(first, new, Release, Relaxed).is_ok() {
                return;
            }
        }
    }

    #[inline(always)]
    pub(crate) fn inode(&self) -> Option<&'static Inode> {
        // SAFETY: Inodes are never given back.
        unsafe { self.inode.load(Acquire).as_ref() }
    }

    pub(crate) fn set_inode(&self, inode: &'static Inode) {
        self.inode.store(std::ptr::from_ref(inode).cast_mut(), Release);
    }

    /// A call has appended up to `end`. `before`: the position when it began. A handler's call in
    /// the middle may have appended more.
    #[inline(always)]
    pub(crate) fn appended(&self, before: u64, end: u64) {
        if self.position.compare_exchange(before, end, Relaxed, Relaxed).is_err() {
            self.position.fetch_max(end, Relaxed);
        }
    }

    #[inline(always)]
    pub(crate) fn has(&self, flag: u32) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    /// Takes the lock of the position. `None` if that takes a second: a call was left in the
    /// middle, or takes long; the caller then does without, because nothing must hang.
    #[inline(always)]
    pub(crate) fn lock(&self) -> Option<Locked<'_>> {
        if self.starving.load(Relaxed) == 0
            && self.lock.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        {
            return Some(Locked(self));
        }
        self.wait()
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> Option<Locked<'_>> {
        self.lock.compare_exchange(0, 1, Acquire, Relaxed).ok().map(|_| Locked(self))
    }

    #[cold]
    fn wait(&self) -> Option<Locked<'_>> {
        let begun = Instant::now();
        let mut starves = false;
        let locked = loop {
            let others = self.starving.load(Relaxed) - u32::from(starves);
            if others > 0 && !starves {
                // A thread has waited for longer, and takes a moment to wake up.
                raw::futex_wait(&self.starving, others, GRACE_NS);
            }
            if self.lock.swap(2, Acquire) == 0 {
                break Some(Locked(self));
            }
            let waited = begun.elapsed();
            if waited > PATIENCE {
                break None;
            }
            if !starves && waited > HUNGER {
                starves = true;
                self.starving.fetch_add(1, Relaxed);
            }
            // It ends early if the holder releases the lock and another thread takes it.
            raw::futex_wait(&self.lock, 2, 100_000_000);
        };
        if starves {
            self.starving.fetch_sub(1, Relaxed);
        }
        locked
    }
}

/// The lock of a position, held.
#[derive(Debug)]
pub(crate) struct Locked<'a>(&'a Description);

impl Drop for Locked<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0.lock.swap(0, Release) == 2 {
            raw::futex_wake(&self.0.lock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_one_is_taken_again_but_not_while_locked() {
        let locked = Description::take().unwrap();
        let held = locked.lock();
        locked.release();
        let other = Description::take().unwrap();
        assert_ne!(locked.address(), other.address());
        drop(held);
        assert!(other.share());
        other.release();
        other.release();
    }

    /// Threads that take the lock again and again keep nobody from it.
    #[test]
    fn nobody_gives_up_because_others_are_busy() {
        let shared = Description::take().unwrap();
        let taken = std::thread::scope(|scope| {
            let take = || (0..20_000).filter(|_| shared.lock().is_some()).count();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        });
        assert_eq!(taken, 60_000);
    }

    #[test]
    fn one_that_is_held_for_long_is_given_up() {
        let held = Description::take().unwrap();
        let _held = held.lock();
        assert!(held.lock().is_none());
    }
}
