//! Whether this process may use the direct path: a number that children do not have.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use terrace_direct::WipedOnFork;

static PAGE: WipedOnFork = WipedOnFork::new();
/// Whether `start` was called, here or in a parent.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Turns the switch on. It stays off if the kernel cannot turn it off in children.
pub(crate) fn start() {
    if PAGE.start(1) {
        STARTED.store(true, Relaxed);
    }
}

/// Turns the switch off for ever, in a process whose threads do not have the same descriptors.
pub(crate) fn stop() {
    STARTED.store(false, Relaxed);
    PAGE.set(0);
}

/// Whether the direct path may be used.
#[inline(always)]
pub(crate) fn on() -> bool {
    PAGE.get() != 0
}

/// Whether this is a child that the kernel has turned off, at its first call here.
#[cold]
pub(crate) fn fresh_child() -> bool {
    !on() && STARTED.swap(false, Relaxed)
}
