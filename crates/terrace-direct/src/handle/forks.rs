//! Processes that fork, and their children.
//!
//! Both have the same open files then. So before a fork, all files go back to the mount for good,
//! and a child never goes direct. It takes none of the locks here, which threads may have held that
//! it does not have.
//!
//! Each process has a *mark*. A file that was opened under another mark was inherited.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use super::shared;
use crate::wiped::WipedOnFork;

/// The mark: 0 in a process that `fork` has not made, 1 in the first one.
static MARK: WipedOnFork = WipedOnFork::new();
/// The mark of the process that may go direct.
const FIRST: u32 = 1;
/// Somebody has begun to start.
static STARTED: AtomicBool = AtomicBool::new(false);
/// Nobody is to wait for the start any longer: it has ended, or may never end.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// The start takes microseconds, but its thread may not get a processor at once.
const PATIENCE: Duration = Duration::from_millis(100);
/// The highest mark so far, of this process and those that it comes from.
static LAST: AtomicU32 = AtomicU32::new(FIRST);
/// The mark of the process that forks.
static PARENT: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread is forking, and holds the table.
    static FORKING: Cell<bool> = const { Cell::new(false) };
}

/// The mark.
#[inline(always)]
pub(super) fn mark() -> u32 {
    MARK.get()
}

/// Whether files that were opened under this mark may go direct.
#[inline(always)]
pub(super) fn may_go_direct(opened_in: u32) -> bool {
    opened_in == FIRST && mark() == FIRST
}

/// Whether nobody else has the open files that were opened under this mark, as far as is known.
pub(super) fn is_own(opened_in: u32) -> bool {
    opened_in != 0 && opened_in == mark()
}

/// Whether this process is a child of one that had opened files, made in a way that the library
/// cannot notice.
pub(super) fn is_unknown_child(opened_in: u32) -> bool {
    opened_in != 0 && mark() == 0
}

/// Before the first file is opened. It takes no lock: a thread that forks meanwhile may leave one
/// behind. Files that are opened before this has ended have the mark 0, so threads that open their
/// first files at once wait, but not for ever: the thread that starts may be the parent's.
pub(super) fn start() {
    if IS_OVER.load(SeqCst) {
        return;
    }
    if STARTED.swap(true, SeqCst) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            thread::yield_now();
            if IS_OVER.load(SeqCst) {
                return;
            }
        }
    } else {
        // SAFETY: the functions are there as long as this library is.
        let status = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        // Without one of them the mark stays 0, and all files take the mount.
        let _ = status == 0 && MARK.start(FIRST);
    }
    IS_OVER.store(true, SeqCst);
}

extern "C" fn before() {
    PARENT.store(mark(), SeqCst);
    if mark() == FIRST {
        shared::lock_and_leave_all();
        FORKING.set(true);
    }
}

extern "C" fn in_parent() {
    if FORKING.replace(false) {
        shared::unlock();
    }
}

extern "C" fn in_child() {
    FORKING.set(false);
    // The files of a process that has no mark are those of an ancestor, who knows nothing of it.
    if PARENT.load(SeqCst) != 0 {
        MARK.set(LAST.fetch_add(1, SeqCst) + 1);
    }
}
