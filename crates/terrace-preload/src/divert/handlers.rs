//! The program's handlers for the signals of bad memory, and whether threads may end anywhere.

use std::ffi::{c_int, c_long};

use libc::{SIG_IGN, sighandler_t};

use crate::holds::{Hold, Why};
use crate::{fault, real, signals, state, thread};

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

/// What the kernel's own call takes. The C library's function adds its way back from a handler,
/// which the library's handler has already.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct KernelAction {
    handler: sighandler_t,
    flags: usize,
    restorer: usize,
    mask: usize,
}

/// The system call `rt_sigaction` for one of the two signals.
///
/// # Safety
///
/// The addresses are null or those of actions; bad ones fail.
pub(super) unsafe fn rt_sigaction(
    signal: c_int,
    new: *const KernelAction,
    old: *mut KernelAction,
) -> c_long {
    // SAFETY: A bad address is survived.
    let action = if new.is_null() { None } else { unsafe { fault::fetch(new) } };
    if !new.is_null() && action.is_none() {
        thread::set_errno(libc::EFAULT);
        return -1;
    }
    let action = action.map(|new| signals::action(new.handler, new.flags as c_int, new.mask));
    let Some(was) = signals::change(signal, action.as_ref()) else {
        thread::set_errno(libc::EINVAL);
        return -1;
    };
    if old.is_null() {
        return 0;
    }
    let was = KernelAction {
        handler: was.sa_sigaction,
        flags: was.sa_flags as usize,
        restorer: 0,
        mask: signals::mask_of(&was),
    };
    let from = std::ptr::from_ref(&was).cast_mut().cast::<u8>();
    // SAFETY: The copy survives a bad address.
    match unsafe { fault::copy(old.cast(), from, size_of::<KernelAction>()) } {
        Ok(()) => 0,
        Err(_) => {
            thread::set_errno(libc::EFAULT);
            -1
        }
    }
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

    fn sigprocmask(how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
        thread::mask_changed();
        real::sigprocmask(how, new, old)
    }

    fn pthread_sigmask(how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
        thread::mask_changed();
        real::pthread_sigmask(how, new, old)
    }

    // A thread that may end at any instruction must hold no lock: its calls are system calls. So
    // the kernel has all positions meanwhile.
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
        let (before, after) = (thread::is_asynchronous(), kind == CANCEL_ASYNCHRONOUS);
        if after && !before {
            std::mem::forget(state::hold_all());
            thread::set_asynchronous(true);
        }
        let result = real::pthread_setcanceltype(kind, old);
        let now = if result == 0 { after } else { before };
        thread::set_asynchronous(now);
        if !now && (before || after) {
            Hold::end(Why::Changing);
        }
        result
    }
}
