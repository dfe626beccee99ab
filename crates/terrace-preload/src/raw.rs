//! Bare system calls of the library's own. They touch neither `errno` nor the diverted functions.

use std::ffi::{c_char, c_int, c_long};
use std::os::fd::RawFd;
use std::sync::atomic::AtomicU32;

/// A system call, as the kernel answers it: an error is a negative number.
///
/// # Safety
///
/// The arguments are what the call expects.
#[inline]
pub(crate) unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: The caller vouches for the arguments.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: As above.
    unsafe {
        std::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") args[0] as isize => result,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
            options(nostack),
        );
    }
    result
}

/// Moves the kernel's position. A negative number is an error.
pub(crate) fn lseek(fd: RawFd, offset: i64, whence: c_int) -> isize {
    // SAFETY: No memory is involved.
    unsafe { call(libc::SYS_lseek, [fd as usize, offset as usize, whence as usize, 0, 0, 0]) }
}

/// The flags of an open file. A negative number is an error.
pub(crate) fn flags(fd: RawFd) -> isize {
    // SAFETY: No memory is involved.
    unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) }
}

/// Whether an `exec` closes a descriptor.
pub(crate) fn closes_on_exec(fd: RawFd) -> bool {
    // SAFETY: No memory is involved.
    let flags = unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags & libc::FD_CLOEXEC as isize != 0
}

/// Has the kernel ask the file system for the attributes of an open file.
pub(crate) fn ask_attributes(fd: RawFd) {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: The kernel writes to the structure, which lives during the call.
    unsafe { call(libc::SYS_fstat, [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) };
}

/// The kernel's number of this thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: No memory is involved.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// The usual attributes of a file, as the kernel knows them: it asks nobody.
pub(crate) fn statx(at: RawFd, path: *const c_char, flags: c_int) -> Option<libc::statx> {
    let mut statx = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let flags = (flags | libc::AT_STATX_DONT_SYNC) as usize;
    let (wanted, into) = (libc::STATX_BASIC_STATS as usize, statx.as_mut_ptr() as usize);
    // SAFETY: The kernel survives a bad path, and writes to the structure, which lives.
    let failed =
        unsafe { call(libc::SYS_statx, [at as usize, path as usize, flags, wanted, into, 0]) };
    // SAFETY: All zero is a value of it, and so is what the kernel has written.
    (failed == 0).then(|| unsafe { statx.assume_init() })
}

/// Writes to a descriptor, past the diverted function.
pub(crate) fn write(fd: RawFd, bytes: &[u8]) -> isize {
    // SAFETY: The kernel only reads the bytes.
    unsafe { call(libc::SYS_write, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) }
}

/// The path behind a link, cut at the length of the buffer.
pub(crate) fn readlink<'a>(path: &std::ffi::CStr, into: &'a mut [u8]) -> Option<&'a [u8]> {
    let at = libc::AT_FDCWD as usize;
    let (path, buffer) = (path.as_ptr() as usize, into.as_mut_ptr() as usize);
    // SAFETY: The path ends with a zero, and the buffer is as long as said.
    let len = unsafe { call(libc::SYS_readlinkat, [at, path, buffer, into.len(), 0, 0]) };
    into.get(..usize::try_from(len).ok()?)
}

/// Changes this thread's mask of signals, and gives the old one.
fn change_mask(how: c_int, mask: usize) -> usize {
    let mut old = 0_usize;
    let (set, into) = (std::ptr::from_ref(&mask) as usize, std::ptr::from_mut(&mut old) as usize);
    // SAFETY: Both masks live during the call.
    unsafe {
        call(libc::SYS_rt_sigprocmask, [how as usize, set, into, size_of::<usize>(), 0, 0]);
    }
    old
}

fn mask(signals: &[c_int]) -> usize {
    signals.iter().fold(0, |mask, signal| mask | 1 << (signal - 1))
}

/// Lets signals through to this thread.
pub(crate) fn unblock(signals: &[c_int]) {
    change_mask(libc::SIG_UNBLOCK, mask(signals));
}

/// Signals that an instruction causes: the kernel kills a process that has them blocked then.
const CAUSED: [c_int; 5] = [libc::SIGILL, libc::SIGTRAP, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];

/// No signal handler interrupts this thread as long as this lives.
#[derive(Debug)]
pub(crate) struct Undisturbed(usize);

impl Undisturbed {
    pub(crate) fn begin() -> Self {
        Self(change_mask(libc::SIG_BLOCK, !mask(&CAUSED)))
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        change_mask(libc::SIG_SETMASK, self.0);
    }
}

/// Waits as long as the word has a value, at most so many nanoseconds.
pub(crate) fn futex_wait(word: &AtomicU32, value: u32, nanoseconds: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let (word, time) = (word.as_ptr() as usize, std::ptr::from_ref(&time) as usize);
    // SAFETY: Both addresses live during the call.
    unsafe { call(libc::SYS_futex, [word, wait as usize, value as usize, time, 0, 0]) };
}

/// Wakes one that waits.
pub(crate) fn futex_wake(word: &AtomicU32) {
    let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: The word lives.
    unsafe { call(libc::SYS_futex, [word.as_ptr() as usize, wake as usize, 1, 0, 0, 0]) };
}
