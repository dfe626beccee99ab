//! Messages that carry descriptors from process to process.

use std::ffi::{c_int, c_uint};

use libc::{cmsghdr, mmsghdr, msghdr, ssize_t, timespec};

use crate::backend::Reason;
use crate::{fault, real, state};

/// More descriptors than the kernel puts into one message.
const MOST: usize = 256;

/// Calls `each` for the descriptors in a message.
fn descriptors(message: *const msghdr, each: impl Fn(c_int)) {
    // SAFETY: Any bytes are such a header, and a bad address is survived.
    let Some(header) = (unsafe { fault::fetch(message) }) else { return };
    let start = header.msg_control as *const u8;
    let (mut at, end) = (0, header.msg_controllen);
    while !start.is_null() && at + size_of::<cmsghdr>() <= end {
        // SAFETY: As above.
        let Some(part) = (unsafe { fault::fetch(start.wrapping_add(at).cast::<cmsghdr>()) }) else {
            return;
        };
        let len = part.cmsg_len;
        if len < size_of::<cmsghdr>() || len > end - at {
            return;
        }
        if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_RIGHTS {
            let numbers = start.wrapping_add(at + size_of::<cmsghdr>()).cast::<c_int>();
            let count = (len - size_of::<cmsghdr>()) / size_of::<c_int>();
            for number in 0..count.min(MOST) {
                // SAFETY: As above.
                if let Some(fd) = unsafe { fault::fetch(numbers.wrapping_add(number)) } {
                    each(fd);
                }
            }
        }
        at += len.next_multiple_of(size_of::<usize>());
    }
}

/// Another process gets the descriptors of a message.
pub(super) fn sent(message: *const msghdr) {
    descriptors(message, |fd| state::put_back(fd, Reason::Shared));
}

/// A message has brought descriptors of another process.
pub(super) fn received(message: *const msghdr) {
    descriptors(message, |fd| state::forget(fd, Reason::Shared));
}

divert! {
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
        sent(message);
        real::sendmsg(fd, message, flags)
    }

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        for number in 0..count.min(1024) as usize {
            sent(messages.wrapping_add(number).cast());
        }
        real::sendmmsg(fd, messages, count, flags)
    }

    fn __sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
        sendmmsg(fd, messages, count, flags)
    }

    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
        let result = real::recvmsg(fd, message, flags);
        if result >= 0 {
            received(message);
        }
        result
    }

    fn recvmmsg(
        fd: c_int,
        messages: *mut mmsghdr,
        count: c_uint,
        flags: c_int,
        timeout: *mut timespec
    ) -> c_int {
        let result = real::recvmmsg(fd, messages, count, flags, timeout);
        for number in 0..usize::try_from(result).unwrap_or(0) {
            received(messages.wrapping_add(number).cast());
        }
        result
    }
}
