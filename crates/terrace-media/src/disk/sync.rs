//! The engine of plain system calls: piece after piece with preadv and pwritev.

use std::fs::File;
use std::os::fd::AsRawFd;

use rustix::io::Errno;

use super::run::Run;
use crate::error::IoOp;

/// Why a run failed, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) offset: u64,
    pub(super) cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Errno(Errno),
    /// The device gave or took nothing although something was left.
    Ended,
}

/// Reads or writes all of a run.
pub(super) fn execute(file: &File, run: &mut Run<'_>) -> Result<(), Failure> {
    (0..run.pieces.len()).try_for_each(|piece| execute_piece(file, run, piece))
}

/// Reads or writes what is left of a piece: finishes short operations and repeats interrupted ones.
pub(super) fn execute_piece(file: &File, run: &mut Run<'_>, piece: usize) -> Result<(), Failure> {
    while run.pieces[piece].left_bytes > 0 {
        let done = call(file, run, piece);
        settle(run, piece, done)?;
    }
    Ok(())
}

/// Takes note of the result of one operation on a piece: bytes done, or minus an errno.
pub(super) fn settle(run: &mut Run<'_>, piece: usize, result: isize) -> Result<(), Failure> {
    let offset = run.pieces[piece].offset;
    match usize::try_from(result) {
        Ok(0) => Err(Failure { offset, cause: Cause::Ended }),
        Ok(done_bytes) => {
            run.advance(piece, done_bytes);
            Ok(())
        }
        Err(_) => match Errno::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EIO)) {
            Errno::INTR | Errno::AGAIN => Ok(()),
            errno => Err(Failure { offset, cause: Cause::Errno(errno) }),
        },
    }
}

fn call(file: &File, run: &Run<'_>, piece: usize) -> isize {
    let parts = run.parts(piece);
    let offset = run.pieces[piece].offset as libc::off_t;
    let count = parts.len() as libc::c_int;
    // SAFETY: the parts name memory that the run borrows, exclusively if it is a read, and count is
    // their number.
    let done = unsafe {
        match run.op {
            IoOp::Read => libc::preadv(file.as_raw_fd(), parts.as_ptr(), count, offset),
            _ => libc::pwritev(file.as_raw_fd(), parts.as_ptr(), count, offset),
        }
    };
    if done < 0 {
        -(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO).raw_os_error()
            as isize)
    } else {
        done
    }
}
