//! The functions that were diverted: those of the next library, found once.
//!
//! Functions that signal handlers may call are found when the library starts. Until then, bare
//! system calls take their place, because looking for a function may itself read a file. The
//! others are found at their first call.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use libc::{
    DIR, FILE, aiocb, iovec, mmsghdr, mode_t, msghdr, off_t, pid_t, posix_spawn_file_actions_t,
    posix_spawnattr_t, sigevent, sighandler_t, size_t, sockaddr, socklen_t, ssize_t, timespec,
};

use crate::{raw, thread};

/// What a function returns that is not there.
trait Missing {
    const RESULT: Self;
}

impl Missing for c_int {
    const RESULT: Self = -1;
}

impl Missing for i64 {
    const RESULT: Self = -1;
}

impl Missing for isize {
    const RESULT: Self = -1;
}

impl Missing for usize {
    const RESULT: Self = usize::MAX;
}

impl Missing for () {
    const RESULT: Self = ();
}

impl<T> Missing for *mut T {
    const RESULT: Self = std::ptr::null_mut();
}

/// The result of a system call as the C library gives it.
pub(crate) fn result(answer: isize) -> isize {
    if (-4095..0).contains(&answer) {
        thread::set_errno(-answer as c_int);
        return -1;
    }
    answer
}

/// Looks for the next function of a name.
#[cold]
fn find(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    // SAFETY: The name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    place.store(found, Relaxed);
    found
}

/// `fn name(arguments) -> result;` for functions that are found at their first call,
/// `fn name(arguments) -> result, early;` for those that are found at the start, and
/// `fn name(arguments) -> result = number;` for those with a system call that may replace them.
macro_rules! real {
    ($(
        fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $(= $number:expr)?
        $(, $early:ident)?;
    )*) => {
        #[allow(non_upper_case_globals)]
        mod place {
            use super::*;
            $(pub(super) static $name: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());)*
        }

        $(real!(@one $name($($arg: $type),*) -> ($($result)?) $(= $number)?);)*

        /// Finds the functions that must be there before anybody calls them.
        pub(crate) fn start() {
            $($(
                let _: c_long = $number;
                let name = concat!(stringify!($name), "\0");
                find(&place::$name, CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c""));
            )?)*
            $($(
                let name = concat!(stringify!($name), "\0");
                let _ = stringify!($early);
                find(&place::$name, CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c""));
            )?)*
            find(&TESTCANCEL, c"pthread_testcancel");
        }
    };
    (@bare [$($arg:ident),*]) => {};
    (@bare [$($arg:ident),*] = $number:expr) => {
        let args: &[usize] = &[$($arg as usize),*];
        let mut six = [0; 6];
        six[..args.len()].copy_from_slice(args);
        // SAFETY: The caller vouches for the arguments.
        return result(unsafe { raw::call($number, six) }) as _;
    };
    (@one $name:ident($($arg:ident: $type:ty),*) -> ($($result:ty)?) $(= $number:expr)?) => {
        #[inline(always)]
        #[allow(non_snake_case, clippy::too_many_arguments, reason = "it is the C library's")]
        pub(crate) unsafe fn $name($($arg: $type),*) $(-> $result)? {
            /// Not in line: a caller with nothing else to do needs no frame, and jumps.
            #[cold]
            #[inline(never)]
            unsafe extern "C-unwind" fn not_found_yet($($arg: $type),*) $(-> $result)? {
                real!(@bare [$($arg),*] $(= $number)?);
                #[allow(unreachable_code)]
                {
                    let name = concat!(stringify!($name), "\0");
                    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c"");
                    let at = find(&place::$name, name);
                    if at.is_null() {
                        thread::set_errno(libc::ENOSYS);
                        return Missing::RESULT;
                    }
                    // SAFETY: It is the function of this name, which has this type.
                    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(at) };
                    // SAFETY: The caller vouches for the arguments.
                    unsafe { function($($arg),*) }
                }
            }

            type Function = unsafe extern "C-unwind" fn($($type),*) $(-> $result)?;
            let at = place::$name.load(Relaxed);
            let function: Function = match at.is_null() {
                true => not_found_yet,
                // SAFETY: It is the function of this name, which has this type.
                false => unsafe { std::mem::transmute::<*mut c_void, Function>(at) },
            };
            // SAFETY: The caller vouches for the arguments.
            unsafe { function($($arg),*) }
        }
    };
}

static TESTCANCEL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Ends the thread here if another one has cancelled it.
#[inline(always)]
pub(crate) fn testcancel() {
    let at = TESTCANCEL.load(Relaxed);
    if !at.is_null() {
        // SAFETY: It is the function of this name.
        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn()>(at)() };
    }
}

/// Where the real function is, for a jump to it. Null if there is none.
pub(crate) fn address(name: &CStr) -> *mut c_void {
    // SAFETY: The name ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

real! {
    fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t = libc::SYS_read;
    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t = libc::SYS_write;
    fn pread64(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t = libc::SYS_pread64;
    fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t
        = libc::SYS_pwrite64;
    fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t = libc::SYS_readv;
    fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t = libc::SYS_writev;
    fn preadv64(fd: c_int, pieces: *const iovec, count: c_int, at: off_t) -> ssize_t
        = libc::SYS_preadv;
    fn pwritev64(fd: c_int, pieces: *const iovec, count: c_int, at: off_t) -> ssize_t
        = libc::SYS_pwritev;
    fn preadv64v2(fd: c_int, pieces: *const iovec, count: c_int, at: off_t, flags: c_int)
        -> ssize_t, early;
    fn pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, at: off_t, flags: c_int)
        -> ssize_t, early;
    fn __read_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t) -> ssize_t, early;
    fn __pread64_chk(fd: c_int, into: *mut c_void, len: size_t, at: off_t, room: size_t)
        -> ssize_t, early;
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t = libc::SYS_lseek;
    fn fsync(fd: c_int) -> c_int = libc::SYS_fsync;
    fn fdatasync(fd: c_int) -> c_int = libc::SYS_fdatasync;
    fn sync_file_range(fd: c_int, at: off_t, len: off_t, flags: c_uint) -> c_int;
    fn ftruncate64(fd: c_int, len: off_t) -> c_int = libc::SYS_ftruncate;

    fn fstat(fd: c_int, into: *mut libc::stat) -> c_int = libc::SYS_fstat;
    fn fstatat(at: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int
        = libc::SYS_newfstatat;
    fn statx(
        at: c_int, path: *const c_char, flags: c_int, wanted: c_uint, into: *mut libc::statx
    ) -> c_int = libc::SYS_statx;

    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, early;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int, early;
    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int
        = libc::SYS_openat;
    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, early;
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t)
        -> c_int = libc::SYS_openat;
    fn creat64(path: *const c_char, mode: mode_t) -> c_int;
    fn open_by_handle_at(at: c_int, handle: *mut c_void, flags: c_int) -> c_int;
    fn mkstemp64(template: *mut c_char) -> c_int;
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int;
    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int;
    fn mkostemps64(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    fn mq_open(name: *const c_char, flags: c_int, mode: mode_t, attributes: *mut c_void) -> c_int;

    fn close(fd: c_int) -> c_int = libc::SYS_close;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, early;
    fn closefrom(first: c_int), early;
    fn dup(fd: c_int) -> c_int = libc::SYS_dup;
    fn dup2(fd: c_int, new: c_int) -> c_int, early;
    fn dup3(fd: c_int, new: c_int, flags: c_int) -> c_int = libc::SYS_dup3;
    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int = libc::SYS_fcntl;
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int = libc::SYS_ioctl;
    fn lockf64(fd: c_int, command: c_int, len: off_t) -> c_int;

    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int = libc::SYS_socket;
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int = libc::SYS_accept;
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int
        = libc::SYS_accept4;
    fn pipe(pair: *mut c_int) -> c_int, early;
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int = libc::SYS_pipe2;
    fn eventfd(value: c_uint, flags: c_int) -> c_int;
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn signalfd(fd: c_int, set: *const libc::sigset_t, flags: c_int) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn inotify_init() -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn fanotify_init(flags: c_uint, events: c_uint) -> c_int;
    fn pidfd_open(process: pid_t, flags: c_uint) -> c_int;
    fn pidfd_getfd(process: c_int, fd: c_int, flags: c_uint) -> c_int;
    fn fsopen(name: *const c_char, flags: c_uint) -> c_int;
    fn fsmount(fd: c_int, flags: c_uint, attributes: c_uint) -> c_int;
    fn fspick(at: c_int, path: *const c_char, flags: c_uint) -> c_int;
    fn open_tree(at: c_int, path: *const c_char, flags: c_uint) -> c_int;
    fn posix_openpt(flags: c_int) -> c_int;
    fn getpt() -> c_int;
    fn openpty(
        main: *mut c_int, other: *mut c_int, name: *mut c_char, terminal: *const c_void,
        window: *const c_void
    ) -> c_int;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t = libc::SYS_sendmsg;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t = libc::SYS_recvmsg;
    fn recvmmsg(
        fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec
    ) -> c_int;

    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE;
    fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    fn tmpfile64() -> *mut FILE;
    fn fclose(file: *mut FILE) -> c_int;
    fn fcloseall() -> c_int;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut FILE;
    fn pclose(file: *mut FILE) -> c_int;
    fn opendir(path: *const c_char) -> *mut DIR;
    fn fdopendir(fd: c_int) -> *mut DIR;
    fn closedir(directory: *mut DIR) -> c_int;

    fn mmap64(
        at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t
    ) -> *mut c_void = libc::SYS_mmap;
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t;
    fn splice(
        from: c_int, at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint
    ) -> ssize_t;
    fn copy_file_range(
        from: c_int, at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint
    ) -> ssize_t;
    fn aio_read64(request: *mut aiocb) -> c_int;
    fn aio_write64(request: *mut aiocb) -> c_int;
    fn aio_fsync64(operation: c_int, request: *mut aiocb) -> c_int;
    fn lio_listio64(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut sigevent)
        -> c_int;
    fn io_submit(context: *mut c_void, count: c_long, list: *mut *mut c_void) -> c_int;

    fn fork() -> pid_t, early;
    fn _Fork() -> pid_t, early;
    fn daemon(stay: c_int, keep: c_int) -> c_int;
    fn forkpty(
        main: *mut c_int, name: *mut c_char, terminal: *const c_void, window: *const c_void
    ) -> pid_t;
    fn clone(
        function: *mut c_void, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent: *mut c_void, local: *mut c_void, child: *mut c_void
    ) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn posix_spawn(
        process: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t, args: *const *mut c_char,
        variables: *const *mut c_char
    ) -> c_int;
    fn posix_spawnp(
        process: *mut pid_t, path: *const c_char, actions: *const posix_spawn_file_actions_t,
        attributes: *const posix_spawnattr_t, args: *const *mut c_char,
        variables: *const *mut c_char
    ) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn execve(path: *const c_char, args: *const *const c_char, variables: *const *const c_char)
        -> c_int = libc::SYS_execve;
    fn execv(path: *const c_char, args: *const *const c_char) -> c_int, early;
    fn execvp(path: *const c_char, args: *const *const c_char) -> c_int, early;
    fn execvpe(path: *const c_char, args: *const *const c_char, variables: *const *const c_char)
        -> c_int;
    fn fexecve(fd: c_int, args: *const *const c_char, variables: *const *const c_char) -> c_int;
    fn execveat(
        at: c_int, path: *const c_char, args: *const *const c_char, variables: *const *const c_char,
        flags: c_int
    ) -> c_int;
    fn _exit(status: c_int), early;
    fn syscall(
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize
    ) -> c_long, early;

    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int;

    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int, early;
    fn sigprocmask(how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t)
        -> c_int, early;
    fn pthread_sigmask(how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t)
        -> c_int, early;
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction)
        -> c_int, early;
    fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t, early;
    fn sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sigset(signal: c_int, handler: sighandler_t) -> sighandler_t;
    fn sigignore(signal: c_int) -> c_int;
}
