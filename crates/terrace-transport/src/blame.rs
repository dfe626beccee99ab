//! When the daemon dies of its own fault, the request that the thread was serving is to blame: one
//! that has killed two daemons is not carried out a third time.
//!
//! A fault is a signal that the processor or `abort` raises in the thread. A signal that another
//! process sent blames nobody.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ledger::record_of_thread;

/// Signals of faults, and `abort`'s, which a panic ends with.
const FAULTS: [libc::c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// A daemon dies once.
static IS_BLAMED: AtomicBool = AtomicBool::new(false);

/// What the signals led to before.
static mut BEFORE: [Option<libc::sigaction>; FAULTS.len()] = [None; FAULTS.len()];

/// Whether this process, or the one that it is a fork of, watches.
static IS_WATCHING: AtomicBool = AtomicBool::new(false);

/// Notes from now on whose fault the death of this process is. To be called before there are other
/// threads that could fault.
///
/// # Errors
/// The system refuses a handler.
pub(crate) fn watch() -> io::Result<()> {
    if IS_WATCHING.swap(true, Ordering::AcqRel) {
        // Handlers that were set again would lead to themselves.
        return Ok(());
    }
    for (index, &signal) in FAULTS.iter().enumerate() {
        // SAFETY: all-zero is a valid sigaction; the handler is async-signal-safe, and runs on the
        // alternative stack where the thread has one. `BEFORE` is written before a signal can lead
        // to the handler, which reads it.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            BEFORE[index] = Some(before);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_fault as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            if libc::sigaction(signal, &action, std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

/// Blames the request, and lets the signal do what it did before: the fault comes again, or
/// `abort` raises its signal again.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands over a valid `info`. Calls and accesses are async-signal-safe: of
    // `BEFORE`, nothing is written any more.
    unsafe {
        let sent = (*info).si_code <= 0;
        let by_itself = !sent || (*info).si_pid() == libc::getpid();
        if by_itself && !IS_BLAMED.swap(true, Ordering::AcqRel) {
            record_of_thread().into_iter().for_each(crate::ledger::Record::blame);
        }
        let index = FAULTS.iter().position(|&fault| fault == signal);
        let before = index.and_then(|index| BEFORE[index]);
        let mut default: libc::sigaction = std::mem::zeroed();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &before.unwrap_or(default), std::ptr::null_mut());
        // One that was sent comes once.
        if sent {
            libc::raise(signal);
        }
    }
}
