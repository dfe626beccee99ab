//! Disks: block devices and files, read and written in multiples of 4 KiB.
//!
//! Invariant of every implementation: offsets and lengths are multiples of 4 KiB and within the
//! device, checked before anything is touched ([`check_run`]), so that what works on one works on
//! all.

mod aio;
mod counters;
mod file;
mod queue;
mod run;
mod sync;
mod uring;

use std::fmt;
use std::io::{IoSlice, IoSliceMut};
use std::path::Path;

pub(crate) use counters::Counters;
pub use counters::DiskStats;
pub use file::{DiskOpenOptions, IoEngine, create_disk_file, open_disk};

use crate::buffer::{AlignedBuf, IO_ALIGN_BYTES};
use crate::error::{IoOp, MediaError};

/// What is told that a read has come: the buffer, and whether all that was asked for is in it. If
/// not, [`Disk::read_at`] says why.
pub type ReadDone = Box<dyn FnOnce(AlignedBuf, bool) + Send>;

/// A read that nobody waits for.
pub struct LaterRead {
    /// Where it goes.
    pub buffer: AlignedBuf,
    /// How much of the buffer it fills.
    pub len_bytes: usize,
    /// Called once, from a thread of the disk: it must not wait for other reads of this kind.
    pub done: ReadDone,
}

impl fmt::Debug for LaterRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaterRead").field("len_bytes", &self.len_bytes).finish_non_exhaustive()
    }
}

/// A disk. Offsets and lengths are bytes, in multiples of 4 KiB; a buffer that starts on a 4 KiB
/// boundary ([`AlignedBuf`](crate::AlignedBuf)) spares a copy.
///
/// Operations from several threads run side by side; overlapping ones are ordered by the caller.
/// Every operation gives an error that names the device and the offset when the device fails, or
/// when the range is misaligned or past the end; what it read or wrote of the range until then is
/// undefined.
#[allow(clippy::len_without_is_empty, reason = "a disk is never empty")]
pub trait Disk: Send + Sync + fmt::Debug {
    /// The device or file, or a name in angle brackets for one in memory.
    fn path(&self) -> &Path;

    /// The length (bytes, a multiple of 4 KiB).
    fn len(&self) -> u64;

    /// Fills `buf` from `off`.
    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError>;

    /// Fills the buffers, one after the other, from the run of bytes that begins at `off`.
    fn read_vectored_at(&self, off: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<(), MediaError> {
        check_parts(self, IoOp::Read, off, bufs.iter().map(|buf| buf.len()))?;
        scatter(bufs, |joined| self.read_at(off, joined))
    }

    /// Begins a read at `off` and does not wait for it. A disk that cannot, or that has enough of
    /// them under way, gives it back: then the caller reads by itself.
    ///
    /// # Errors
    /// The read, untouched.
    fn begin_read(&self, _off: u64, read: LaterRead) -> Result<(), LaterRead> {
        Err(read)
    }

    /// Writes `buf` at `off`; durable after the next [`Disk::flush`].
    fn write_at(&self, off: u64, buf: &[u8]) -> Result<(), MediaError>;

    /// Writes the buffers, one after the other, to the run of bytes that begins at `off`: any
    /// number of them; durable after the next [`Disk::flush`].
    fn write_vectored_at(&self, off: u64, bufs: &[IoSlice<'_>]) -> Result<(), MediaError> {
        check_parts(self, IoOp::Write, off, bufs.iter().map(|buf| buf.len()))?;
        self.write_at(off, &gather(bufs))
    }

    /// Makes every write durable that returned before this began.
    fn flush(&self) -> Result<(), MediaError>;

    /// Tells the device that the range is not needed; what it holds afterwards is undefined. Ok
    /// where the device has no such operation.
    fn discard(&self, off: u64, len: u64) -> Result<(), MediaError>;

    /// What was done to the disk since it was opened.
    fn stats(&self) -> DiskStats;
}

/// Checks the range of an operation: aligned and within the disk.
pub(crate) fn check_run<D: Disk + ?Sized>(
    disk: &D,
    op: IoOp,
    offset: u64,
    len_bytes: u64,
) -> Result<(), MediaError> {
    let aligned = |value: u64| value.is_multiple_of(IO_ALIGN_BYTES as u64);
    if !aligned(offset) || !aligned(len_bytes) {
        return Err(MediaError::Misaligned { path: disk.path().to_owned(), op, offset, len_bytes });
    }
    if offset.checked_add(len_bytes).is_none_or(|end| end > disk.len()) {
        let device_len_bytes = disk.len();
        return Err(MediaError::OutOfRange {
            path: disk.path().to_owned(),
            op,
            offset,
            len_bytes,
            device_len_bytes,
        });
    }
    Ok(())
}

/// Checks the range of a vectored operation, each buffer of which must do by itself.
fn check_parts<D: Disk + ?Sized>(
    disk: &D,
    op: IoOp,
    offset: u64,
    mut lens: impl Iterator<Item = usize>,
) -> Result<(), MediaError> {
    let check = |at, len| check_run(disk, op, at, len as u64).map(|()| at + len as u64);
    lens.try_fold(offset, check).map(|_| ())
}

/// The contents of many buffers in one.
fn gather(bufs: &[IoSlice<'_>]) -> AlignedBuf {
    let mut joined = AlignedBuf::new(bufs.iter().map(|buf| buf.len()).sum());
    let mut rest = &mut joined[..];
    for buf in bufs {
        let (part, more) = rest.split_at_mut(buf.len());
        part.copy_from_slice(buf);
        rest = more;
    }
    joined
}

/// Fills many buffers from one that `read` fills.
fn scatter(
    bufs: &mut [IoSliceMut<'_>],
    read: impl FnOnce(&mut [u8]) -> Result<(), MediaError>,
) -> Result<(), MediaError> {
    let mut joined = AlignedBuf::new(bufs.iter().map(|buf| buf.len()).sum());
    read(&mut joined)?;
    let mut rest = &joined[..];
    for buf in bufs {
        let (part, more) = rest.split_at(buf.len());
        buf.copy_from_slice(part);
        rest = more;
    }
    Ok(())
}
