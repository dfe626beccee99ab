//! A number that no child process has.
//!
//! A child has its parent's memory and its open files, but nothing that was lent to the parent.
//! However it was made, by the C library or by a bare system call, it finds 0.

use std::sync::atomic::{AtomicU32, Ordering};

/// A page of its own, which the kernel empties in forked children. It is a static.
///
/// It is as large as the largest page of any machine: nothing else may lie in it.
#[derive(Debug)]
#[repr(C, align(65536))]
pub struct WipedOnFork {
    number: AtomicU32,
    rest: [u8; 65532],
}

impl WipedOnFork {
    /// The number is 0.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "it is a static")]
    pub const fn new() -> Self {
        Self { number: AtomicU32::new(0), rest: [0; 65532] }
    }

    /// Sets the number for the first time. `false`: the kernel cannot empty it in children, and it
    /// stays 0.
    pub fn start(&'static self, number: u32) -> bool {
        let page = std::ptr::from_ref(self).cast_mut().cast();
        // SAFETY: the page is this static's alone, and has nothing else in it.
        let wiped = unsafe { libc::madvise(page, size_of::<Self>(), libc::MADV_WIPEONFORK) } == 0;
        if wiped {
            self.set(number);
        }
        wiped
    }

    /// Sets the number.
    pub fn set(&self, number: u32) {
        self.number.store(number, Ordering::Release);
    }

    /// The number.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }
}
