//! Positions, syncs and sizes.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use libc::off_t;

use crate::backend::Refusal;
use crate::carry::on_file;
use crate::description::{Description, WRITABLE};
use crate::{real, state, switch, thread};

/// Moves the position of a descriptor that goes direct. `None`: the kernel has the position.
fn seek(fd: c_int, offset: off_t, whence: c_int) -> Option<off_t> {
    let description = state::direct(fd)?;
    let Some(mut inside) = thread::enter() else {
        return seek_nested(fd, description, offset, whence);
    };
    if !switch::on() {
        state::in_child();
        return None;
    }
    let Some(_locked) = description.lock() else {
        state::put_back(fd, crate::backend::Reason::Abandoned);
        return None;
    };
    // Another thread may have closed the number, or put it back.
    if !state::direct(fd).is_some_and(|now| std::ptr::eq(now, description)) {
        return None;
    }
    loop {
        let before = description.position.load(Relaxed);
        let base = match whence {
            libc::SEEK_SET => Some(0),
            libc::SEEK_CUR => Some(before),
            libc::SEEK_END => description.inode()?.file.size().ok(),
            // Holes are the daemon's to know.
            _ => None,
        };
        let at = match base {
            Some(base) => moved(base, offset).ok_or(libc::EINVAL),
            None => by_kernel(fd, offset, whence),
        };
        match at {
            Err(errno) => return Some(inside.fail(errno) as off_t),
            // A signal handler may have moved it meanwhile.
            Ok(at) if step(description, before, at) => return Some(at),
            Ok(_) => {}
        }
    }
}

/// A position moved by an offset, if it is one then.
fn moved(base: u64, offset: off_t) -> Option<off_t> {
    i64::try_from(base).ok()?.checked_add(offset).filter(|at| *at >= 0)
}

/// Moves the position, if it is where it was.
fn step(description: &Description, before: u64, at: off_t) -> bool {
    description.position.compare_exchange(before, at as u64, SeqCst, Relaxed).is_ok()
}

/// Has the kernel move its position, which counts from there. Gives the position, or the error.
fn by_kernel(fd: c_int, offset: off_t, whence: c_int) -> Result<off_t, c_int> {
    // SAFETY: No memory is involved.
    let at = unsafe { real::lseek64(fd, offset, whence) };
    if at < 0 { Err(thread::errno()) } else { Ok(at) }
}

/// The same in the middle of another call, without the lock. The end needs the backend, so it is
/// the kernel's to know.
#[cold]
fn seek_nested(
    fd: c_int,
    description: &Description,
    offset: off_t,
    whence: c_int,
) -> Option<off_t> {
    loop {
        let before = description.position.load(Relaxed);
        let at = match whence {
            libc::SEEK_SET => moved(0, offset).ok_or(libc::EINVAL),
            libc::SEEK_CUR => moved(before, offset).ok_or(libc::EINVAL),
            _ => by_kernel(fd, offset, whence),
        };
        match at {
            Err(errno) => {
                thread::set_errno(errno);
                return Some(-1);
            }
            // Another thread may have put it back meanwhile.
            Ok(at) if step(description, before, at) => {
                return description.state.load().is_direct().then_some(at);
            }
            Ok(_) => {}
        }
    }
}

divert_or_jump! {
    fn fsync(fd: c_int) -> c_int {
        on_file(fd, 0, |file| file.sync()).unwrap_or_else(|| real::fsync(fd))
    }

    fn fdatasync(fd: c_int) -> c_int {
        on_file(fd, 0, |file| file.sync()).unwrap_or_else(|| real::fdatasync(fd))
    }
}

divert! {
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        loop {
            if let Some(at) = seek(fd, offset, whence) {
                return at;
            }
            // The kernel has the position, and keeps it during this call.
            if let Some(_way) = state::positioned(fd) {
                return real::lseek64(fd, offset, whence);
            }
        }
    }

    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        lseek64(fd, offset, whence)
    }

    fn __lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        lseek64(fd, offset, whence)
    }

    fn llseek(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        lseek64(fd, offset, whence)
    }

    // All that was written direct is durable after a sync, whatever the range.
    fn sync_file_range(fd: c_int, at: off_t, len: off_t, flags: c_uint) -> c_int {
        on_file(fd, 0, |file| if at < 0 || len < 0 || at.checked_add(len).is_none() || flags > 7 {
            Err(Refusal::Errno(libc::EINVAL))
        } else {
            file.sync()
        })
        .unwrap_or_else(|| real::sync_file_range(fd, at, len, flags))
    }

    fn ftruncate64(fd: c_int, len: off_t) -> c_int {
        on_file(fd, WRITABLE, |file| match u64::try_from(len) {
            Ok(len) => file.truncate(len),
            Err(_) => Err(Refusal::Errno(libc::EINVAL)),
        })
        .unwrap_or_else(|| real::ftruncate64(fd, len))
    }

    fn ftruncate(fd: c_int, len: off_t) -> c_int {
        ftruncate64(fd, len)
    }
}
