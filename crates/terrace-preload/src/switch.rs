//! Whether this process may use the direct path: a page that the kernel empties in forked children.
//!
//! A child has the parent's memory and its open files, but no delegation. However it was made, by
//! the C library or by a bare system call, it finds the switch off.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

// As large as the largest page of any machine: nothing else may lie in it.
#[repr(C, align(65536))]
struct Page {
    on: AtomicU32,
    rest: [u8; 65532],
}

static PAGE: Page = Page { on: AtomicU32::new(0), rest: [0; 65532] };
/// Whether `start` was called, here or in a parent.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Turns the switch on. It stays off if the kernel cannot turn it off in children.
pub(crate) fn start() {
    let page = std::ptr::from_ref(&PAGE).cast_mut().cast();
    // SAFETY: The page is this module's alone, and has nothing else in it.
    let wiped = unsafe { libc::madvise(page, size_of::<Page>(), libc::MADV_WIPEONFORK) } == 0;
    if wiped {
        STARTED.store(true, Relaxed);
        PAGE.on.store(1, Relaxed);
    }
}

/// Turns the switch off for ever, in a process whose threads do not have the same descriptors.
pub(crate) fn stop() {
    STARTED.store(false, Relaxed);
    PAGE.on.store(0, Relaxed);
}

/// Whether the direct path may be used.
#[inline(always)]
pub(crate) fn on() -> bool {
    PAGE.on.load(Relaxed) != 0
}

/// Whether this is a child that the kernel has turned off, at its first call here.
#[cold]
pub(crate) fn fresh_child() -> bool {
    !on() && STARTED.swap(false, Relaxed)
}
