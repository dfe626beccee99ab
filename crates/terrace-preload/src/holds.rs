//! Times in which no descriptor becomes direct: a process is being made, or a number is about to
//! mean something else.
//!
//! Invariant: once a [`Hold`] has begun, no thread is in the middle of a [`Taking`], and none gets
//! beyond its look at [`held`]; unless one has left a call by a jump.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::backend::Reason;
use crate::thread;

/// Holds, by their reason.
static HELD: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// Threads that let a descriptor go direct.
static TAKING: AtomicUsize = AtomicUsize::new(0);
/// Asking for a file takes no longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why no descriptor may become direct.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    /// Another process is about to have descriptors of this one.
    Sharing,
    /// Numbers are about to mean something else, or a thread may end anywhere.
    Changing,
}

/// As long as this lives, no descriptor becomes direct.
#[derive(Debug)]
pub(crate) struct Hold(Why);

impl Hold {
    pub(crate) fn begin(why: Why) -> Self {
        HELD[why as usize].fetch_add(1, SeqCst);
        wait_for_takes();
        Self(why)
    }

    /// Ends one that was forgotten.
    pub(crate) fn end(why: Why) {
        drop(Self(why));
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        HELD[self.0 as usize].fetch_sub(1, SeqCst);
    }
}

/// The reason that a descriptor has which may not become direct now.
pub(crate) fn held() -> Option<Reason> {
    let is_held = |why: Why| HELD[why as usize].load(SeqCst) > 0;
    match is_held(Why::Sharing) {
        true => Some(Reason::Shared),
        false => is_held(Why::Changing).then_some(Reason::Few),
    }
}

/// A thread looks at a number, and lets it go direct: it must mean the same all the time.
#[derive(Debug)]
pub(crate) struct Taking(());

impl Taking {
    pub(crate) fn begin() -> Self {
        TAKING.fetch_add(1, SeqCst);
        Self(())
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        // None is left if somebody has waited in vain.
        let _ = TAKING.fetch_update(SeqCst, SeqCst, |taking| taking.checked_sub(1));
    }
}

/// Waits for threads that could not see yet that no descriptor may become direct. Not for ever: one
/// may have left that by a jump. Nor in a handler that interrupts it.
fn wait_for_takes() {
    let begun = Instant::now();
    while TAKING.load(SeqCst) > 0 && !thread::is_inside() {
        if begun.elapsed() > PATIENCE {
            TAKING.store(0, SeqCst);
        }
        std::thread::yield_now();
    }
}

/// In a child: the threads that did all this are the parent's.
pub(crate) fn in_child() {
    HELD.iter().chain([&TAKING]).for_each(|count| count.store(0, SeqCst));
}
