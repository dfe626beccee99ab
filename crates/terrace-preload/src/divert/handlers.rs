//! The program's handlers for the signals of bad memory, and whether threads may end anywhere.

use std::ffi::c_int;

use libc::{SIG_IGN, sighandler_t};

use crate::{real, signals, thread};

/// `PTHREAD_CANCEL_ASYNCHRONOUS`, which the libc crate lacks.
const CANCEL_ASYNCHRONOUS: c_int = 1;

/// Sets a handler as the old functions do, and gives the old one.
fn set(signal: c_int, handler: sighandler_t, flags: c_int, mask: bool) -> sighandler_t {
    // SAFETY: All zero is the default action with no flags.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    if mask {
        // SAFETY: The set is whole, and the signal is one.
        unsafe { libc::sigaddset(&mut new.sa_mask, signal) };
    }
    signals::change(signal, Some(&new)).map_or(libc::SIG_ERR, |old| old.sa_sigaction)
}

divert! {
    fn sigaction(
        signal: c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction
    ) -> c_int {
        if !signals::is_ours(signal) {
            return real::sigaction(signal, new, old);
        }
        let new = match new.is_null() {
            true => None,
            // A bad address is the program's error, as in the C library.
            false => Some(&*new),
        };
        match signals::change(signal, new) {
            Some(was) => {
                if !old.is_null() {
                    *old = was;
                }
                0
            }
            None => {
                thread::set_errno(libc::EINVAL);
                -1
            }
        }
    }

    fn __sigaction(
        signal: c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction
    ) -> c_int {
        sigaction(signal, new, old)
    }

    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        if !signals::is_ours(signal) {
            return real::signal(signal, handler);
        }
        set(signal, handler, libc::SA_RESTART, true)
    }

    fn bsd_signal(number: c_int, handler: sighandler_t) -> sighandler_t {
        signal(number, handler)
    }

    fn ssignal(number: c_int, handler: sighandler_t) -> sighandler_t {
        signal(number, handler)
    }

    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        if !signals::is_ours(signal) {
            return real::sysv_signal(signal, handler);
        }
        set(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, false)
    }

    fn __sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
        sysv_signal(signal, handler)
    }

    // It may also hold a signal back, which changes no handler.
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t {
        if !signals::is_ours(signal) || handler == 2 {
            return real::sigset(signal, handler);
        }
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&mut only, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &only, std::ptr::null_mut());
        set(signal, handler, 0, false)
    }

    fn sigignore(signal: c_int) -> c_int {
        if !signals::is_ours(signal) {
            return real::sigignore(signal);
        }
        set(signal, SIG_IGN, 0, false);
        0
    }

    // A thread that may end at any instruction must hold no lock.
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
        let asynchronous = kind == CANCEL_ASYNCHRONOUS;
        if asynchronous {
            thread::set_asynchronous(true);
        }
        let result = real::pthread_setcanceltype(kind, old);
        if result == 0 {
            thread::set_asynchronous(asynchronous);
        }
        result
    }
}
