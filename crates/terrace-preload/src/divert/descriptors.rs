//! Numbers: closing them, duplicating them, and calls that give new ones for anything but files.

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

use libc::{off_t, pid_t, sockaddr, socklen_t};

use crate::backend::Reason;
use crate::description::{APPEND, SYNC};
use crate::{raw, real, state};

/// A number that is new, and no file of a mount.
fn other(fd: c_int) -> c_int {
    state::forget(fd, Reason::NotOurs);
    fd
}

/// Two such numbers, if the call succeeded.
///
/// # Safety
///
/// After a success `pair` has two numbers.
unsafe fn others(result: c_int, pair: *const c_int) -> c_int {
    if result == 0 {
        // SAFETY: The caller vouches for it.
        let (first, second) = unsafe { (*pair, *pair.add(1)) };
        other(first);
        other(second);
    }
    result
}

/// `new` is to become another number of `old` by a call. What it was is closed, if it was open.
fn replaced(old: c_int, new: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if old != new && raw::flags(new) >= 0 {
        return state::replace(old, new, call);
    }
    duplicated(old, call())
}

fn duplicated(old: c_int, new: c_int) -> c_int {
    if new >= 0 && old != new {
        state::duplicated(old, new);
    }
    new
}

divert! {
    // What was thought of a number goes first: once it is closed, another thread may get it.
    fn close(fd: c_int) -> c_int {
        state::forget(fd, Reason::Foreign);
        real::close(fd)
    }

    fn __close(fd: c_int) -> c_int {
        close(fd)
    }

    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
        let unshares = flags & libc::CLOSE_RANGE_UNSHARE as c_int != 0;
        let _sharing = unshares.then(|| super::processes::before_clone(libc::CLONE_VM));
        let closes = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0;
        if first <= last && closes {
            let top = c_int::MAX as c_uint;
            state::forget_from(first.min(top) as c_int, last.min(top) as c_int);
        }
        real::close_range(first, last, flags)
    }

    fn closefrom(first: c_int) {
        state::forget_from(first.max(0), c_int::MAX);
        real::closefrom(first);
    }

    fn dup(fd: c_int) -> c_int {
        duplicated(fd, real::dup(fd))
    }

    fn dup2(fd: c_int, new: c_int) -> c_int {
        replaced(fd, new, || real::dup2(fd, new))
    }

    fn __dup2(fd: c_int, new: c_int) -> c_int {
        dup2(fd, new)
    }

    fn dup3(fd: c_int, new: c_int, flags: c_int) -> c_int {
        replaced(fd, new, || real::dup3(fd, new, flags))
    }

    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        match command {
            libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
                duplicated(fd, real::fcntl64(fd, command, argument))
            }
            libc::F_SETFL => {
                let result = real::fcntl64(fd, command, argument);
                if result == 0 && let Some(description) = state::direct(fd) {
                    let kept = description.flags.load(std::sync::atomic::Ordering::Relaxed);
                    let new = state::own_flags(raw::flags(fd) as c_int) & (APPEND | SYNC);
                    let flags = kept & !(APPEND | SYNC) | new;
                    description.flags.store(flags, std::sync::atomic::Ordering::Relaxed);
                }
                result
            }
            // A range may begin at the position.
            libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK
            | libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK => {
                let lock = crate::fault::fetch(argument.cast::<libc::flock>());
                if lock.is_some_and(|lock| c_int::from(lock.l_whence) == libc::SEEK_CUR) {
                    state::tell(fd);
                }
                real::fcntl64(fd, command, argument)
            }
            _ => real::fcntl64(fd, command, argument),
        }
    }

    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        fcntl64(fd, command, argument)
    }

    fn __fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        fcntl64(fd, command, argument)
    }

    // One request counts the bytes behind the position.
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        if request == libc::FIONREAD {
            state::tell(fd);
        }
        real::ioctl(fd, request, argument)
    }

    // Its range begins at the position.
    fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int {
        state::tell(fd);
        real::lockf64(fd, command, len)
    }

    fn lockf(fd: c_int, command: c_int, len: off_t) -> c_int {
        lockf64(fd, command, len)
    }

    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        other(real::socket(domain, kind, protocol))
    }

    fn __socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
        other(real::socket(domain, kind, protocol))
    }

    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
        others(real::socketpair(domain, kind, protocol, pair), pair)
    }

    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
        other(real::accept(fd, address, len))
    }

    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int {
        other(real::accept4(fd, address, len, flags))
    }

    fn pipe(pair: *mut c_int) -> c_int {
        others(real::pipe(pair), pair)
    }

    fn __pipe(pair: *mut c_int) -> c_int {
        others(real::pipe(pair), pair)
    }

    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
        others(real::pipe2(pair, flags), pair)
    }

    fn eventfd(value: c_uint, flags: c_int) -> c_int {
        other(real::eventfd(value, flags))
    }

    fn epoll_create(size: c_int) -> c_int {
        other(real::epoll_create(size))
    }

    fn epoll_create1(flags: c_int) -> c_int {
        other(real::epoll_create1(flags))
    }

    fn signalfd(fd: c_int, set: *const libc::sigset_t, flags: c_int) -> c_int {
        other(real::signalfd(fd, set, flags))
    }

    fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
        other(real::timerfd_create(clock, flags))
    }

    fn inotify_init() -> c_int {
        other(real::inotify_init())
    }

    fn inotify_init1(flags: c_int) -> c_int {
        other(real::inotify_init1(flags))
    }

    fn fanotify_init(flags: c_uint, events: c_uint) -> c_int {
        other(real::fanotify_init(flags, events))
    }

    fn pidfd_open(process: pid_t, flags: c_uint) -> c_int {
        other(real::pidfd_open(process, flags))
    }

    fn fsopen(name: *const c_char, flags: c_uint) -> c_int {
        other(real::fsopen(name, flags))
    }

    fn fsmount(fd: c_int, flags: c_uint, attributes: c_uint) -> c_int {
        other(real::fsmount(fd, flags, attributes))
    }

    fn fspick(at: c_int, path: *const c_char, flags: c_uint) -> c_int {
        other(real::fspick(at, path, flags))
    }

    fn open_tree(at: c_int, path: *const c_char, flags: c_uint) -> c_int {
        other(real::open_tree(at, path, flags))
    }

    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int {
        other(real::memfd_create(name, flags))
    }

    fn mq_open(
        name: *const c_char,
        flags: c_int,
        mode: libc::mode_t,
        attributes: *mut c_void
    ) -> c_int {
        other(real::mq_open(name, flags, mode, attributes))
    }

    fn posix_openpt(flags: c_int) -> c_int {
        other(real::posix_openpt(flags))
    }

    fn getpt() -> c_int {
        other(real::getpt())
    }

    fn openpty(
        main: *mut c_int,
        second: *mut c_int,
        name: *mut c_char,
        terminal: *const c_void,
        window: *const c_void
    ) -> c_int {
        let result = real::openpty(main, second, name, terminal, window);
        if result == 0 {
            other(*main);
            other(*second);
        }
        result
    }

    // A description of another process comes with it.
    fn pidfd_getfd(process: c_int, fd: c_int, flags: c_uint) -> c_int {
        let new = real::pidfd_getfd(process, fd, flags);
        state::forget(new, Reason::Shared);
        new
    }
}
