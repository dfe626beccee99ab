//! The kernel's asynchronous I/O (io_submit(2)), as far as reads need it: `libc` has its numbers,
//! and nothing else.
//!
//! io_uring would do the same, but hands a completion to the thread that submitted the read. Has
//! that gone on to wait for something else, then it is woken for each completion, or the completion
//! waits for the thread. Here a completion goes from the interrupt to whoever waits for it.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::Errno;

use crate::error::errno_of;

const READ: u16 = 0;
const POLL: u16 = 5;

/// `struct iocb` of linux/aio_abi.h.
#[repr(C)]
#[derive(Default)]
struct ControlBlock {
    data: u64,
    /// The order of these two is that of little-endian machines.
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    len_bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

const _: () = assert!(size_of::<ControlBlock>() == 64 && cfg!(target_endian = "little"));

/// `struct io_event`: the end of an operation.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    /// What the operation was given as its number.
    pub number: u64,
    block: u64,
    /// Bytes, or minus an errno.
    pub result: i64,
    result_2: i64,
}

/// A context: operations under way, and a queue of those that have ended.
#[derive(Debug)]
pub(super) struct Context(libc::c_ulong);

impl Context {
    /// For so many operations at a time.
    ///
    /// # Errors
    /// If the system refuses: `fs.aio-max-nr` bounds those of all processes.
    pub(super) fn new(operations_max: usize) -> Result<Self, Errno> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel writes one number, to this variable.
        let done = unsafe {
            libc::syscall(libc::SYS_io_setup, operations_max as libc::c_uint, &raw mut context)
        };
        if done < 0 { Err(last_errno()) } else { Ok(Self(context)) }
    }

    /// Begins to read so many bytes at an offset, which ends with an [`Event`] of this number.
    ///
    /// # Safety
    /// The memory from `start` on is valid for writes of `len_bytes`, and nobody else uses it until
    /// the event has come, or an error was returned.
    ///
    /// # Errors
    /// It has not begun.
    pub(super) unsafe fn read(
        &self,
        number: u64,
        fd: BorrowedFd<'_>,
        offset: u64,
        start: *mut u8,
        len_bytes: usize,
    ) -> Result<(), Errno> {
        self.submit(ControlBlock {
            data: number,
            opcode: READ,
            fd: fd.as_raw_fd().cast_unsigned(),
            buffer: start as u64,
            len_bytes: len_bytes as u64,
            offset: offset.cast_signed(),
            ..ControlBlock::default()
        })
    }

    /// Has an [`Event`] of this number come once the descriptor can be read.
    ///
    /// # Errors
    /// It will not.
    pub(super) fn poll(&self, number: u64, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        self.submit(ControlBlock {
            data: number,
            opcode: POLL,
            fd: fd.as_raw_fd().cast_unsigned(),
            buffer: libc::POLLIN as u64,
            ..ControlBlock::default()
        })
    }

    fn submit(&self, mut block: ControlBlock) -> Result<(), Errno> {
        let mut blocks = [&raw mut block];
        loop {
            // SAFETY: the kernel copies the one block before it returns. The block's maker vouches
            // for the memory that it names.
            match unsafe { libc::syscall(libc::SYS_io_submit, self.0, 1, blocks.as_mut_ptr()) } {
                1 => return Ok(()),
                0 => return Err(Errno::AGAIN),
                _ if last_errno() == Errno::INTR => {}
                _ => return Err(last_errno()),
            }
        }
    }

    /// Waits for operations that end, and returns those that have.
    ///
    /// # Errors
    /// A signal came, or the context is broken.
    pub(super) fn wait<'a>(&self, events: &'a mut [Event]) -> Result<&'a [Event], Errno> {
        let (least, most) = (1 as libc::c_long, events.len() as libc::c_long);
        let timeout = ptr::null_mut::<libc::timespec>();
        // SAFETY: the kernel writes at most so many events as there is room for.
        let come = unsafe {
            let start = events.as_mut_ptr();
            libc::syscall(libc::SYS_io_getevents, self.0, least, most, start, timeout)
        };
        usize::try_from(come).map(|come| &events[..come]).map_err(|_| last_errno())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Waits for what is under way.
        // SAFETY: a context of this process, which nobody uses any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

fn last_errno() -> Errno {
    errno_of(&std::io::Error::last_os_error())
}
