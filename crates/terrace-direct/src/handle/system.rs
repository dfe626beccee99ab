//! System calls that are carried on until all is done.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, IoSlice, ReadWriteFlags};

/// The offset that stands for the position of the open file.
const AT_POSITION: u64 = u64::MAX;

/// Repeats a call that a signal interrupts.
pub(super) fn repeated<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Fewer bytes come at the end of the file only.
pub(super) fn read(fd: BorrowedFd<'_>, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let mut done = 0;
    loop {
        let at = offset.wrapping_add(done as u64);
        match repeated(|| rustix::io::pread(fd, &mut into[done..], at))? {
            0 => return Ok(done),
            n => done += n,
        }
        if done == into.len() {
            return Ok(done);
        }
    }
}

/// Writes all bytes.
pub(super) fn write(fd: BorrowedFd<'_>, data: &[u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    loop {
        let at = offset.wrapping_add(done as u64);
        let written = repeated(|| rustix::io::pwrite(fd, &data[done..], at))?;
        done += written;
        match written {
            _ if done == data.len() => return Ok(()),
            0 => return Err(Errno::IO),
            _ => {}
        }
    }
}

/// Writes all bytes at the end, and returns where they begin. Nobody else moves the position of the
/// open file meanwhile.
pub(super) fn append(fd: BorrowedFd<'_>, data: &[u8]) -> Result<u64, Errno> {
    let (mut begin, mut done) = (None, 0);
    while done < data.len() {
        let rest = [IoSlice::new(&data[done..])];
        let flags = ReadWriteFlags::APPEND;
        let written = repeated(|| rustix::io::pwritev2(fd, &rest, AT_POSITION, flags))?;
        // The kernel leaves the position behind what it has appended.
        let at = rustix::fs::tell(fd)? - written as u64;
        let begins = *begin.get_or_insert(at);
        if written == 0 || begins + done as u64 != at {
            // Somebody else has appended between two parts.
            return Err(Errno::IO);
        }
        done += written;
    }
    Ok(begin.unwrap_or_default())
}

/// The same with an open file of its own, for a descriptor whose position others may move.
pub(super) fn append_anew(fd: BorrowedFd<'_>, data: &[u8]) -> Result<u64, Errno> {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let kept = rustix::fs::fcntl_getfl(fd)? & (OFlags::SYNC | OFlags::DSYNC);
    let flags = OFlags::WRONLY | OFlags::CLOEXEC | kept;
    let own: OwnedFd = repeated(|| rustix::fs::open(&path, flags, Mode::empty()))?;
    append(std::os::fd::AsFd::as_fd(&own), data)
}
