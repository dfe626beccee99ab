//! System calls by number: those of programs that call `syscall` for what has a function.

use std::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};

use crate::backend::Reason;
use crate::{real, signals, state, thread};

use super::{
    asynchronous, attributes, copies, data, descriptors, handlers, messages, position, processes,
    vectors,
};

divert! {
    fn syscall(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize
    ) -> c_long {
        let fd = a as c_int;
        match number {
            libc::SYS_read => data::read(fd, b as *mut c_void, c) as c_long,
            libc::SYS_write => data::write(fd, b as *const c_void, c) as c_long,
            libc::SYS_pread64 => data::pread64(fd, b as *mut c_void, c, d as i64) as c_long,
            libc::SYS_pwrite64 => data::pwrite64(fd, b as *const c_void, c, d as i64) as c_long,
            libc::SYS_readv => vectors::readv(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_writev => vectors::writev(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_preadv => {
                vectors::preadv64(fd, b as *const _, c as c_int, d as i64) as c_long
            }
            libc::SYS_pwritev => {
                vectors::pwritev64(fd, b as *const _, c as c_int, d as i64) as c_long
            }
            libc::SYS_preadv2 => {
                vectors::preadv64v2(fd, b as *const _, c as c_int, d as i64, f as c_int) as c_long
            }
            libc::SYS_pwritev2 => {
                vectors::pwritev64v2(fd, b as *const _, c as c_int, d as i64, f as c_int) as c_long
            }
            libc::SYS_lseek => position::lseek64(fd, b as i64, c as c_int),
            libc::SYS_fsync => c_long::from(position::fsync(fd)),
            libc::SYS_fdatasync => c_long::from(position::fdatasync(fd)),
            libc::SYS_sync_file_range => {
                c_long::from(position::sync_file_range(fd, b as i64, c as i64, d as c_uint))
            }
            libc::SYS_ftruncate => c_long::from(position::ftruncate64(fd, b as i64)),
            libc::SYS_fstat => c_long::from(attributes::fstat(fd, b as *mut _)),
            libc::SYS_newfstatat => {
                c_long::from(attributes::fstatat(fd, b as *const _, c as *mut _, d as c_int))
            }
            libc::SYS_statx => {
                let (path, wanted) = (b as *const c_char, d as c_uint);
                c_long::from(attributes::statx(fd, path, c as c_int, wanted, e as *mut _))
            }
            libc::SYS_close => c_long::from(descriptors::close(fd)),
            libc::SYS_close_range => {
                c_long::from(descriptors::close_range(a as c_uint, b as c_uint, c as c_int))
            }
            libc::SYS_dup => c_long::from(descriptors::dup(fd)),
            libc::SYS_dup3 => c_long::from(descriptors::dup3(fd, b as c_int, c as c_int)),
            libc::SYS_fcntl => c_long::from(descriptors::fcntl64(fd, b as c_int, c as *mut c_void)),
            libc::SYS_mmap => {
                copies::mmap64(a as *mut c_void, b, c as c_int, d as c_int, e as c_int, f as i64)
                    as c_long
            }
            libc::SYS_sendfile => copies::sendfile64(fd, b as c_int, c as *mut i64, d) as c_long,
            libc::SYS_splice => {
                copies::splice(fd, b as *mut i64, c as c_int, d as *mut i64, e, f as c_uint)
                    as c_long
            }
            libc::SYS_copy_file_range => {
                let (at, to, to_at) = (b as *mut i64, c as c_int, d as *mut i64);
                copies::copy_file_range(fd, at, to, to_at, e, f as c_uint) as c_long
            }
            libc::SYS_sendmsg => messages::sendmsg(fd, b as *const _, c as c_int) as c_long,
            libc::SYS_sendmmsg => {
                c_long::from(messages::sendmmsg(fd, b as *mut _, c as c_uint, d as c_int))
            }
            libc::SYS_recvmsg => messages::recvmsg(fd, b as *mut _, c as c_int) as c_long,
            libc::SYS_recvmmsg => {
                let (count, flags, timeout) = (c as c_uint, d as c_int, e as *mut _);
                c_long::from(messages::recvmmsg(fd, b as *mut _, count, flags, timeout))
            }
            libc::SYS_execve => {
                let (path, args) = (a as *const c_char, b as *const *const c_char);
                c_long::from(processes::execve(path, args, c as *const *const c_char))
            }
            libc::SYS_io_submit => {
                asynchronous::submitted(b as c_long, c as *const *const c_void);
                real::syscall(number, a, b, c, d, e, f)
            }
            _ => others(number, [a, b, c, d, e, f]),
        }
    }
}

/// Whether a call gives a number of a file that may be one of a mount.
fn opens_a_file(number: c_long) -> bool {
    match number {
        libc::SYS_openat | libc::SYS_openat2 | libc::SYS_open_by_handle_at => true,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open | libc::SYS_creat => true,
        _ => false,
    }
}

/// Calls that change nothing for a descriptor, or give a new one.
unsafe fn others(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> c_long {
    let _sharing = match number {
        libc::SYS_clone => processes::before_clone(a as c_int),
        // SAFETY: The first word has the flags, and a bad address is survived.
        libc::SYS_clone3 => unsafe { crate::fault::fetch(a as *const u64) }
            .and_then(|flags| processes::before_clone(flags as c_int)),
        // SAFETY: As the caller.
        libc::SYS_unshare => return c_long::from(unsafe { processes::unshare(a as c_int) }),
        // SAFETY: As the caller.
        libc::SYS_ioctl => unsafe {
            return c_long::from(descriptors::ioctl(a as c_int, b as c_ulong, c as *mut c_void));
        },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork => processes::before_clone(0),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: No memory is involved.
        libc::SYS_dup2 => unsafe {
            return c_long::from(descriptors::dup2(a as c_int, b as c_int));
        },
        libc::SYS_rt_sigprocmask => {
            thread::mask_changed();
            None
        }
        libc::SYS_rt_sigaction if signals::is_ours(a as c_int) && d == size_of::<usize>() => {
            // SAFETY: As the caller.
            return unsafe { handlers::rt_sigaction(a as c_int, b as *const _, c as *mut _) };
        }
        _ => None,
    };
    // SAFETY: The caller vouches for the arguments.
    let real = || unsafe { real::syscall(number, a, b, c, d, e, f) };
    if opens_a_file(number) {
        return c_long::from(state::open(|| real() as c_int));
    }
    let result = real();
    let Ok(new) = c_int::try_from(result) else { return result };
    match number {
        libc::SYS_socket
        | libc::SYS_accept
        | libc::SYS_accept4
        | libc::SYS_eventfd2
        | libc::SYS_epoll_create1
        | libc::SYS_signalfd4
        | libc::SYS_timerfd_create
        | libc::SYS_inotify_init1
        | libc::SYS_fanotify_init
        | libc::SYS_memfd_create
        | libc::SYS_memfd_secret
        | libc::SYS_pidfd_open
        | libc::SYS_perf_event_open
        | libc::SYS_userfaultfd
        | libc::SYS_bpf
        | libc::SYS_io_uring_setup
        | libc::SYS_mq_open
        | libc::SYS_fsopen
        | libc::SYS_fsmount
        | libc::SYS_fspick
        | libc::SYS_open_tree => state::forget(new, Reason::NotOurs),
        libc::SYS_pidfd_getfd => state::forget(new, Reason::Shared),
        _ => {}
    }
    result
}
