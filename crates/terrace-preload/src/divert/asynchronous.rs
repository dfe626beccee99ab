//! Asynchronous I/O: the files that requests name stay on the mount from then on.
//!
//! Programs set up io_uring, and fill its queue, by code of their own that nothing can divert. Its
//! requests reach the daemon as any others do, and take the file back.

use std::ffi::{c_int, c_long, c_void};

use libc::{aiocb, sigevent};

use crate::backend::Reason;
use crate::{fault, real, state};

/// Where a request of the kernel's own asynchronous I/O has its descriptor.
const DESCRIPTOR: usize = 20;

/// Puts back the file of one request, whose descriptor stands at an address.
fn put_back(descriptor: *const c_int) {
    // SAFETY: Any bytes are a number, and a bad address is survived.
    if let Some(fd) = unsafe { fault::fetch(descriptor) } {
        state::put_back(fd, Reason::Asynchronous);
    }
}

/// Puts back the files of the requests in a list of pointers.
///
/// # Safety
///
/// Memory behind `list` that does not fault may be read.
pub(super) unsafe fn put_back_all(list: *const *const c_void, count: usize, descriptor: usize) {
    for number in 0..count {
        // SAFETY: The caller vouches for it.
        let Some(request) = (unsafe { fault::fetch(list.wrapping_add(number)) }) else { return };
        if !request.is_null() {
            put_back(request.cast::<u8>().wrapping_add(descriptor).cast());
        }
    }
}

/// Puts back the files of `io_submit`.
///
/// # Safety
///
/// As `put_back_all`.
pub(super) unsafe fn submitted(count: c_long, list: *const *const c_void) {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: The caller vouches for it.
    unsafe { put_back_all(list, count, DESCRIPTOR) };
}

divert! {
    fn aio_read64(request: *mut aiocb) -> c_int {
        put_back(request.cast());
        real::aio_read64(request)
    }

    fn aio_read(request: *mut aiocb) -> c_int {
        aio_read64(request)
    }

    fn aio_write64(request: *mut aiocb) -> c_int {
        put_back(request.cast());
        real::aio_write64(request)
    }

    fn aio_write(request: *mut aiocb) -> c_int {
        aio_write64(request)
    }

    fn aio_fsync64(operation: c_int, request: *mut aiocb) -> c_int {
        put_back(request.cast());
        real::aio_fsync64(operation, request)
    }

    fn aio_fsync(operation: c_int, request: *mut aiocb) -> c_int {
        aio_fsync64(operation, request)
    }

    fn lio_listio64(
        mode: c_int,
        list: *const *mut aiocb,
        count: c_int,
        event: *mut sigevent
    ) -> c_int {
        put_back_all(list.cast(), usize::try_from(count).unwrap_or(0), 0);
        real::lio_listio64(mode, list, count, event)
    }

    fn lio_listio(
        mode: c_int,
        list: *const *mut aiocb,
        count: c_int,
        event: *mut sigevent
    ) -> c_int {
        lio_listio64(mode, list, count, event)
    }

    fn io_submit(context: *mut c_void, count: c_long, list: *mut *mut c_void) -> c_int {
        submitted(count, list.cast_const().cast());
        real::io_submit(context, count, list)
    }
}
