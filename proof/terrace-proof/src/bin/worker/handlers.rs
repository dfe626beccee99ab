//! A handler that forks in the middle of whatever the program does.

use std::ffi::c_int;
use std::io;

/// Forks, and waits for the child, which ends at once.
extern "C" fn fork(_: c_int) {
    // SAFETY: the child does nothing but end.
    match unsafe { libc::fork() } {
        // SAFETY: it ends this process.
        0 => unsafe { libc::_exit(0) },
        child if child > 0 => {
            // SAFETY: no status is wanted.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        }
        _ => {}
    }
}

/// SIGUSR1 makes the program fork.
pub fn forks() -> io::Result<()> {
    let handler = fork as extern "C" fn(c_int) as libc::sighandler_t;
    // SAFETY: the handler makes calls only that handlers may make.
    match unsafe { libc::signal(libc::SIGUSR1, handler) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
