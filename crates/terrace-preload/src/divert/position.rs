//! Positions, syncs and sizes.

use std::ffi::{c_int, c_uint};
use std::sync::atomic::Ordering::Relaxed;

use libc::off_t;

use crate::backend::Refusal;
use crate::carry::on_file;
use crate::description::{Description, WRITABLE};
use crate::thread::{self, Inside};
use crate::{real, state, switch};

/// Moves the position of a descriptor that goes direct. `None`: the kernel has the position.
fn seek(fd: c_int, offset: off_t, whence: c_int) -> Option<off_t> {
    let description = state::direct(fd)?;
    let Some(mut inside) = thread::enter() else {
        return seek_nested(description, offset, whence);
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
    let base = match whence {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => description.position.load(Relaxed),
        libc::SEEK_END => match description.inode()?.file.size() {
            Ok(size) => size,
            Err(_) => return Some(seek_by_kernel(fd, description, offset, whence, &mut inside)),
        },
        // Holes are the daemon's to know.
        _ => return Some(seek_by_kernel(fd, description, offset, whence, &mut inside)),
    };
    Some(match i64::try_from(base).ok().and_then(|base| base.checked_add(offset)) {
        Some(at) if at >= 0 => {
            description.position.store(at as u64, Relaxed);
            at
        }
        _ => inside.fail(libc::EINVAL) as off_t,
    })
}

/// Lets the kernel move the position, and takes over where it is then.
fn seek_by_kernel(
    fd: c_int,
    description: &Description,
    offset: off_t,
    whence: c_int,
    inside: &mut Inside,
) -> off_t {
    // SAFETY: No memory is involved.
    let at = unsafe { real::lseek64(fd, offset, whence) };
    match u64::try_from(at) {
        Ok(at) => description.position.store(at, Relaxed),
        Err(_) => inside.keep_errno(),
    }
    at
}

/// The same in the middle of another call, without the lock. The end needs the backend, so it is
/// the kernel's to know.
#[cold]
fn seek_nested(description: &Description, offset: off_t, whence: c_int) -> Option<off_t> {
    let base = match whence {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => i64::try_from(description.position.load(Relaxed)).ok()?,
        _ => return None,
    };
    let at = base.checked_add(offset).filter(|at| *at >= 0)?;
    description.position.store(at as u64, Relaxed);
    Some(at)
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
        if let Some(at) = seek(fd, offset, whence) {
            return at;
        }
        let at = real::lseek64(fd, offset, whence);
        // In the middle of another call the kernel has found the end or a hole.
        if at >= 0 && let Some(description) = state::direct(fd) {
            description.position.store(at as u64, Relaxed);
        }
        at
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
