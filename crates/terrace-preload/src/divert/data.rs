//! Reading and writing one buffer.

use std::ffi::{c_int, c_void};

use libc::{off_t, size_t, ssize_t};

use crate::backend::ProgramBytes;
use crate::carry::{Call, carry};
use crate::real;

/// A call with one buffer.
#[inline(always)]
fn one<'a>(
    fd: c_int,
    write: bool,
    at: *const c_void,
    len: size_t,
    offset: Option<off_t>,
) -> Call<'a> {
    let bytes = ProgramBytes::one(at.cast_mut().cast(), len);
    Call { fd, write, bytes, at: offset, sync: false, append: false }
}

divert_or_jump! {
    fn read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
        carry(&one(fd, false, into, len, None), |at| match at {
            None => real::read(fd, into, len),
            Some(at) => real::pread64(fd, into, len, at),
        })
    }

    fn write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        carry(&one(fd, true, from, len, None), |at| match at {
            None => real::write(fd, from, len),
            Some(at) => real::pwrite64(fd, from, len, at),
        })
    }

    fn pread64(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t {
        carry(&one(fd, false, into, len, Some(at)), |_| real::pread64(fd, into, len, at))
    }

    fn pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        carry(&one(fd, true, from, len, Some(at)), |_| real::pwrite64(fd, from, len, at))
    }
}

divert! {
    fn pread(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t {
        pread64(fd, into, len, at)
    }

    fn pwrite(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        pwrite64(fd, from, len, at)
    }

    fn __read(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
        read(fd, into, len)
    }

    fn __write(fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
        write(fd, from, len)
    }

    fn __pread64(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t {
        pread64(fd, into, len, at)
    }

    fn __pwrite64(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
        pwrite64(fd, from, len, at)
    }

    // The fortified ones end the program if the buffer has less room: the real ones do that.
    fn __read_chk(fd: c_int, into: *mut c_void, len: size_t, room: size_t) -> ssize_t {
        if len > room {
            return real::__read_chk(fd, into, len, room);
        }
        read(fd, into, len)
    }

    fn __pread64_chk(
        fd: c_int,
        into: *mut c_void,
        len: size_t,
        at: off_t,
        room: size_t
    ) -> ssize_t {
        if len > room {
            return real::__pread64_chk(fd, into, len, at, room);
        }
        pread64(fd, into, len, at)
    }

    fn __pread_chk(fd: c_int, into: *mut c_void, len: size_t, at: off_t, room: size_t) -> ssize_t {
        __pread64_chk(fd, into, len, at, room)
    }
}
