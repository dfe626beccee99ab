//! The kernel reads or writes a file itself: the file goes back to the mount first.

use std::ffi::{c_int, c_uint, c_void};

use libc::{off_t, size_t, ssize_t};

use crate::backend::Reason;
use crate::state::Outside;
use crate::{real, state};

/// Two files that the kernel copies between.
fn copied(both: [c_int; 2]) -> [Option<Outside>; 2] {
    both.map(|fd| state::give_back(fd, Reason::Copied))
}

divert! {
    fn mmap64(
        at: *mut c_void,
        len: size_t,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: off_t
    ) -> *mut c_void {
        let is_of_file = flags & libc::MAP_ANONYMOUS == 0;
        let _outside = is_of_file.then(|| state::give_back(fd, Reason::Mapped));
        real::mmap64(at, len, protection, flags, fd, offset)
    }

    fn mmap(
        at: *mut c_void,
        len: size_t,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: off_t
    ) -> *mut c_void {
        mmap64(at, len, protection, flags, fd, offset)
    }

    fn __mmap(
        at: *mut c_void,
        len: size_t,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: off_t
    ) -> *mut c_void {
        mmap64(at, len, protection, flags, fd, offset)
    }

    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t {
        let _outside = copied([from, to]);
        real::sendfile64(to, from, offset, len)
    }

    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, len: size_t) -> ssize_t {
        sendfile64(to, from, offset, len)
    }

    fn splice(
        from: c_int,
        at: *mut off_t,
        to: c_int,
        to_at: *mut off_t,
        len: size_t,
        flags: c_uint
    ) -> ssize_t {
        let _outside = copied([from, to]);
        real::splice(from, at, to, to_at, len, flags)
    }

    fn copy_file_range(
        from: c_int,
        at: *mut off_t,
        to: c_int,
        to_at: *mut off_t,
        len: size_t,
        flags: c_uint
    ) -> ssize_t {
        let _outside = copied([from, to]);
        real::copy_file_range(from, at, to, to_at, len, flags)
    }
}
