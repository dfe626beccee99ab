//! Reading and writing several buffers.

use std::ffi::c_int;

use libc::{iovec, off_t, ssize_t};

use crate::backend::ProgramBytes;
use crate::carry::{Call, carry};
use crate::{fault, real, state, thread};

/// More pieces than these take the mount: they would need more stack than a signal handler has.
const PIECES: usize = 32;
/// Flags of the `v2` family that are carried.
const FLAGS: c_int = libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;

/// What a call with several buffers asks for.
#[derive(Clone, Copy)]
struct Vector {
    fd: c_int,
    write: bool,
    pieces: *const iovec,
    count: c_int,
    at: Option<off_t>,
    flags: c_int,
}

impl Vector {
    /// Carries it, with `real` as in `carry`.
    #[inline]
    fn carry(self, real: impl Fn(Option<off_t>) -> ssize_t) -> ssize_t {
        if state::on_mount(self.fd) {
            return real(None);
        }
        let mut own = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; PIECES];
        match self.bytes(&mut own) {
            Some(bytes) => {
                let sync = self.flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0;
                let append = self.flags & libc::RWF_APPEND != 0;
                let Self { fd, write, at, .. } = self;
                carry(&Call { fd, write, bytes, at, sync, append }, real)
            }
            None => self.on_mount(real),
        }
    }

    /// The buffers, if they are few and in order.
    fn bytes<'a>(&self, own: &'a mut [iovec; PIECES]) -> Option<ProgramBytes<'a>> {
        // Nobody needs them if the descriptor is the kernel's.
        if !state::may_go_direct(self.fd) {
            return Some(ProgramBytes::one(std::ptr::null_mut(), 0));
        }
        let count = usize::try_from(self.count).ok().filter(|count| *count <= PIECES)?;
        if self.flags & !FLAGS != 0 {
            return None;
        }
        let len = count * size_of::<iovec>();
        thread::be_reached();
        // SAFETY: The copy is as long as the array or shorter, and survives a bad address.
        unsafe { fault::copy(own.as_mut_ptr().cast(), self.pieces.cast(), len) }.ok()?;
        ProgramBytes::several(own.get(..count)?)
    }

    /// Takes the mount, from the position that is the descriptor's, and with the kernel knowing the
    /// file's size: a call without bytes for the library does.
    #[cold]
    fn on_mount(self, real: impl Fn(Option<off_t>) -> ssize_t) -> ssize_t {
        let Self { fd, write, at, flags, .. } = self;
        let bytes = ProgramBytes::one(std::ptr::null_mut(), 0);
        let append = flags & libc::RWF_APPEND != 0;
        carry(&Call { fd, write, bytes, at, sync: false, append }, real)
    }
}

divert! {
    fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        let call = Vector { fd, write: false, pieces, count, at: None, flags: 0 };
        call.carry(|at| match at {
            None => real::readv(fd, pieces, count),
            Some(at) => real::preadv64(fd, pieces, count, at),
        })
    }

    fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
        let call = Vector { fd, write: true, pieces, count, at: None, flags: 0 };
        call.carry(|at| match at {
            None => real::writev(fd, pieces, count),
            Some(at) => real::pwritev64(fd, pieces, count, at),
        })
    }

    fn preadv64(fd: c_int, pieces: *const iovec, count: c_int, at: off_t) -> ssize_t {
        let call = Vector { fd, write: false, pieces, count, at: Some(at), flags: 0 };
        call.carry(|_| real::preadv64(fd, pieces, count, at))
    }

    fn pwritev64(fd: c_int, pieces: *const iovec, count: c_int, at: off_t) -> ssize_t {
        let call = Vector { fd, write: true, pieces, count, at: Some(at), flags: 0 };
        call.carry(|_| real::pwritev64(fd, pieces, count, at))
    }

    fn preadv(fd: c_int, pieces: *const iovec, count: c_int, at: off_t) -> ssize_t {
        preadv64(fd, pieces, count, at)
    }

    fn pwritev(fd: c_int, pieces: *const iovec, count: c_int, at: off_t) -> ssize_t {
        pwritev64(fd, pieces, count, at)
    }

    // An offset of -1 is the position.
    fn preadv64v2(
        fd: c_int,
        pieces: *const iovec,
        count: c_int,
        at: off_t,
        flags: c_int
    ) -> ssize_t {
        let given = (at != -1).then_some(at);
        let call = Vector { fd, write: false, pieces, count, at: given, flags };
        call.carry(|own| real::preadv64v2(fd, pieces, count, own.unwrap_or(at), flags))
    }

    fn pwritev64v2(
        fd: c_int,
        pieces: *const iovec,
        count: c_int,
        at: off_t,
        flags: c_int
    ) -> ssize_t {
        let given = (at != -1).then_some(at);
        let call = Vector { fd, write: true, pieces, count, at: given, flags };
        call.carry(|own| real::pwritev64v2(fd, pieces, count, own.unwrap_or(at), flags))
    }

    fn preadv2(fd: c_int, pieces: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        preadv64v2(fd, pieces, count, at, flags)
    }

    fn pwritev2(fd: c_int, pieces: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
        pwritev64v2(fd, pieces, count, at, flags)
    }
}
