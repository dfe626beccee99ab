//! The state of a thread: whether it is inside the library.
//!
//! Rust's own thread-local variables go through a function of the loader, which may allocate. This
//! one lies at a fixed distance from the thread pointer, so a signal handler may use it.

use std::cell::Cell;
use std::ffi::c_int;
use std::marker::PhantomData;

use crate::raw;

#[repr(C)]
struct Thread {
    /// How many calls of the library this thread is in.
    depth: Cell<u32>,
    /// Whether the thread may be cancelled at any instruction.
    asynchronous: Cell<u32>,
    /// The kernel's number of the thread, once it was asked for. That of a forked child's thread is
    /// its parent's.
    id: Cell<u32>,
    /// Whether the thread has announced an open.
    announced: Cell<u32>,
    /// Whether the signals of bad memory reach the thread. 0: nobody has looked.
    reached: Cell<u32>,
    /// Makes the size a multiple of the alignment.
    unused: Cell<u32>,
}

std::arch::global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".hidden terrace_preload_thread",
    ".globl terrace_preload_thread",
    ".type terrace_preload_thread,@object",
    ".size terrace_preload_thread, 24",
    ".balign 8",
    "terrace_preload_thread:",
    ".zero 24",
    ".popsection",
);

#[inline(always)]
fn this() -> *const Thread {
    let at: *const Thread;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: Reads the variable's distance, which the loader has stored, and the thread pointer.
    unsafe {
        std::arch::asm!(
            "mov {at}, qword ptr [rip + terrace_preload_thread@GOTTPOFF]",
            "add {at}, qword ptr fs:[0]",
            at = out(reg) at,
            options(pure, nomem, nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: As above.
    unsafe {
        std::arch::asm!(
            "mrs {at}, tpidr_el0",
            "adrp {distance}, :gottprel:terrace_preload_thread",
            "ldr {distance}, [{distance}, :gottprel_lo12:terrace_preload_thread]",
            "add {at}, {at}, {distance}",
            at = out(reg) at,
            distance = out(reg) _,
            options(pure, nomem, nostack),
        );
    }
    at
}

/// This thread is inside the library as long as this lives.
#[derive(Debug)]
pub(crate) struct Inside {
    errno: c_int,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

/// Goes inside. `None` if the thread is inside already: a signal handler has interrupted a call,
/// or one was left by a jump; or if the thread may be cancelled at any instruction. Such a call
/// takes no lock and does not reach the backend.
#[inline(always)]
pub(crate) fn enter() -> Option<Inside> {
    // SAFETY: The variable lives as long as the thread, and only this thread touches it.
    let thread = unsafe { &*this() };
    if thread.depth.get() | thread.asynchronous.get() != 0 {
        return None;
    }
    thread.depth.set(1);
    std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
    Some(Inside { errno: errno(), thread: PhantomData })
}

/// Whether `enter` would succeed.
#[inline]
pub(crate) fn may_enter() -> bool {
    // SAFETY: As in `enter`.
    let thread = unsafe { &*this() };
    thread.depth.get() | thread.asynchronous.get() == 0
}

/// Sees to it that the signals of bad memory reach this thread: the kernel kills a process at a
/// fault whose signal is blocked, also if the fault is in a copy for a call with a bad buffer.
#[inline(always)]
pub(crate) fn be_reached() {
    // SAFETY: As in `enter`.
    let reached = unsafe { &(*this()).reached };
    if reached.get() == 0 {
        raw::unblock(&[libc::SIGSEGV, libc::SIGBUS]);
        reached.set(1);
    }
}

/// The thread's mask of signals has changed: they may not reach it any more.
pub(crate) fn mask_changed() {
    // SAFETY: As in `enter`.
    unsafe { (*this()).reached.set(0) };
}

/// Notes whether this thread has announced an open, and tells whether it had.
#[inline]
pub(crate) fn set_announced(announced: bool) -> bool {
    // SAFETY: As in `enter`.
    unsafe { (*this()).announced.replace(u32::from(announced)) != 0 }
}

/// Whether this thread is inside the library.
#[inline]
pub(crate) fn is_inside() -> bool {
    // SAFETY: As in `enter`.
    unsafe { (*this()).depth.get() != 0 }
}

/// The kernel's number of this thread.
#[inline]
pub(crate) fn id() -> u32 {
    // SAFETY: As in `enter`.
    let id = unsafe { &(*this()).id };
    if id.get() == 0 {
        id.set(raw::thread_id());
    }
    id.get()
}

/// Whether the thread may be cancelled at any instruction.
#[inline(always)]
pub(crate) fn is_asynchronous() -> bool {
    // SAFETY: As in `enter`.
    unsafe { (*this()).asynchronous.get() != 0 }
}

/// Notes whether the thread may be cancelled at any instruction.
pub(crate) fn set_asynchronous(asynchronous: bool) {
    // SAFETY: As in `enter`.
    unsafe { (*this()).asynchronous.set(u32::from(asynchronous)) };
}

impl Drop for Inside {
    /// Goes out, and leaves `errno` as it was.
    #[inline(always)]
    fn drop(&mut self) {
        set_errno(self.errno);
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        // SAFETY: As in `enter`.
        unsafe { (*this()).depth.set(0) };
    }
}

impl Inside {
    /// The call fails: `errno` will be this.
    #[inline]
    pub(crate) fn fail(&mut self, errno: c_int) -> isize {
        self.errno = errno;
        -1
    }

    /// Keeps the `errno` that a system call has just set.
    #[inline]
    pub(crate) fn keep_errno(&mut self) {
        self.errno = errno();
    }
}

#[inline(always)]
pub(crate) fn errno() -> c_int {
    // SAFETY: Each thread has one.
    unsafe { *libc::__errno_location() }
}

#[inline(always)]
pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: Each thread has one.
    unsafe { *libc::__errno_location() = errno };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_inside_once_and_errno_stays() {
        set_errno(7);
        let first = enter().unwrap();
        assert!(enter().is_none());
        std::thread::spawn(|| assert!(enter().is_some())).join().unwrap();
        set_errno(8);
        drop(first);
        assert_eq!(errno(), 7);
        let mut second = enter().unwrap();
        assert_eq!(second.fail(9), -1);
        drop(second);
        assert_eq!(errno(), 9);
    }
}
