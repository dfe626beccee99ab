//! Ctrl-C and its like set a flag, which the work asks at every batch: so everything that was made
//! is removed on the way out.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};

static REQUESTED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_signal: libc::c_int) {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// From now on SIGINT, SIGTERM and SIGHUP only ask the run to end.
///
/// # Errors
/// If the system refuses.
pub fn listen() -> Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: all-zero is a valid sigaction (empty mask). The handler only stores to an atomic,
        // which is async-signal-safe; SA_RESTART keeps the signal from failing system calls of any
        // thread.
        let refused = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_signal as *const () as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut()) != 0
        };
        if refused {
            return Err(io::Error::last_os_error()).context("cannot handle signals");
        }
    }
    Ok(())
}

/// Whether the run was asked to end.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// An error once the run was asked to end.
///
/// # Errors
/// That one.
pub fn check() -> Result<()> {
    if requested() {
        bail!("interrupted");
    }
    Ok(())
}
