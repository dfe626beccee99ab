//! Disks that are real: a block device or a file, behind either I/O engine.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::queue::ReadQueue;
use super::run::Run;
use super::sync::{self, Cause, Failure};
use super::uring::RingPool;
use super::{Counters, Disk, DiskStats, LaterRead, check_parts, check_run, gather, scatter};
use crate::buffer::{AlignedBuf, IO_ALIGN_BYTES};
use crate::error::{IoOp, MediaError, errno_of};
use crate::file;
use crate::length::open_device_len;
use crate::model::{DeviceModel, Throttle};
use crate::steps::step;

/// How disk operations reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoEngine {
    /// io_uring, or system calls where it is refused.
    #[default]
    Auto,
    /// io_uring; an error where it is refused.
    Uring,
    /// preadv and pwritev.
    Sync,
}

/// How to open a disk; by default writable, taken exclusively, past the kernel's page cache and at
/// its own speed.
#[derive(Clone, Copy, Debug)]
pub struct DiskOpenOptions {
    /// Writes and discards fail.
    pub read_only: bool,
    /// Take the device exclusively; fail if somebody else has, a mounted file system for instance.
    pub lock: bool,
    /// Pass the kernel's page cache by (O_DIRECT), where the file system can.
    pub direct: bool,
    /// The engine.
    pub engine: IoEngine,
    /// Make the disk as slow as this.
    pub model: Option<DeviceModel>,
}

impl Default for DiskOpenOptions {
    fn default() -> Self {
        DiskOpenOptions {
            read_only: false,
            lock: true,
            direct: true,
            engine: IoEngine::Auto,
            model: None,
        }
    }
}

/// Opens a block device or a file as a disk. Its length is rounded down to a multiple of 4 KiB.
///
/// # Errors
/// The path is neither, is shorter than 4 KiB, is in use (with `lock`), cannot be opened, or
/// io_uring was demanded and is refused.
pub fn open_disk(path: &Path, options: &DiskOpenOptions) -> Result<Arc<dyn Disk>, MediaError> {
    let is_block_device = check_type(path)?;
    let (file, direct) = open_file(path, options, is_block_device)?;
    if options.lock {
        file::lock(path, &file)?;
    }
    let device_len_bytes = open_device_len(path, &file)?;
    let len = device_len_bytes - device_len_bytes % IO_ALIGN_BYTES as u64;
    if len == 0 {
        let multiple_bytes = IO_ALIGN_BYTES as u64;
        return Err(MediaError::BadLength {
            path: path.to_owned(),
            len_bytes: device_len_bytes,
            multiple_bytes,
        });
    }
    let rings = match options.engine {
        IoEngine::Sync => None,
        IoEngine::Auto => RingPool::new().ok(),
        IoEngine::Uring => Some(
            RingPool::new()
                .map_err(|errno| MediaError::EngineRefused { path: path.to_owned(), errno })?,
        ),
    };
    Ok(Arc::new(FileDisk {
        path: path.to_owned(),
        file,
        len,
        direct,
        is_block_device,
        rings,
        throttle: options.model.map(Throttle::new),
        flush_failed: Mutex::new(None),
        counters: Arc::default(),
        reads: OnceLock::new(),
    }))
}

/// Creates a sparse file to serve as a disk.
///
/// # Errors
/// It exists already, its length is not a multiple of 4 KiB, or the system refuses. Nothing is left
/// behind then.
pub fn create_disk_file(path: &Path, len_bytes: u64) -> Result<(), MediaError> {
    let multiple_bytes = IO_ALIGN_BYTES as u64;
    if len_bytes == 0 || !len_bytes.is_multiple_of(multiple_bytes) {
        return Err(MediaError::BadLength { path: path.to_owned(), len_bytes, multiple_bytes });
    }
    file::create_with(path, len_bytes, |file| {
        file.set_len(len_bytes).map_err(|error| MediaError::Create {
            path: path.to_owned(),
            len_bytes,
            errno: errno_of(&error),
        })
    })
}

/// Whether the path is a block device; an error if it is not a file either. Asked before opening,
/// since opening some things (a FIFO, a tape) has effects.
fn check_type(path: &Path) -> Result<bool, MediaError> {
    let metadata =
        std::fs::metadata(path).map_err(|error| MediaError::open(path, "open", error))?;
    let found = match metadata.file_type() {
        kind if kind.is_block_device() => return Ok(true),
        kind if kind.is_file() => return Ok(false),
        kind if kind.is_dir() => "a directory",
        kind if kind.is_char_device() => "a character device",
        _ => "neither a file nor a device",
    };
    Err(MediaError::Unsuitable {
        path: path.to_owned(),
        found,
        expected: "give a block device or a file",
    })
}

/// Opens the device, with O_DIRECT if that was asked for and works; tells whether it does.
fn open_file(
    path: &Path,
    options: &DiskOpenOptions,
    is_block_device: bool,
) -> Result<(File, bool), MediaError> {
    // On a block device O_EXCL claims it: neither mount nor another claim succeeds meanwhile.
    let exclusive = if is_block_device && options.lock { libc::O_EXCL } else { 0 };
    let open = |flags: i32| {
        let mut how = OpenOptions::new();
        how.read(true).write(!options.read_only).custom_flags(exclusive | flags);
        let open = || how.open(path).map_err(|error| errno_of(&error));
        file::wait_while_in_use(Errno::BUSY, open).map_err(|errno| match errno {
            Errno::BUSY => MediaError::InUse { path: path.to_owned() },
            errno => MediaError::open(path, "open", errno),
        })
    };
    if options.direct {
        // A file system without O_DIRECT refuses it here or at the first operation, always with
        // EINVAL.
        match open(libc::O_DIRECT) {
            Ok(file) if direct_works(&file) => return Ok((file, true)),
            Err(error) if error.errno() != libc::EINVAL => return Err(error),
            _ => {}
        }
    }
    Ok((open(0)?, false))
}

fn direct_works(file: &File) -> bool {
    let mut block = AlignedBuf::new(IO_ALIGN_BYTES);
    match file.read_at(&mut block, 0) {
        Ok(_) => true,
        // Any other error is one that the operation itself will report.
        Err(error) => errno_of(&error) != Errno::INVAL,
    }
}

#[derive(Debug)]
struct FileDisk {
    path: PathBuf,
    file: File,
    len: u64,
    direct: bool,
    is_block_device: bool,
    rings: Option<RingPool>,
    throttle: Option<Throttle>,
    /// Why an earlier flush failed: the kernel may have dropped what it could not write, so no
    /// later one may succeed.
    flush_failed: Mutex<Option<Errno>>,
    counters: Arc<Counters>,
    /// Made when it is first used; `None` in it: the system has refused.
    reads: OnceLock<Option<ReadQueue>>,
}

impl FileDisk {
    /// Whether the kernel takes the buffers as they are.
    fn takes(&self, run: &Run<'_>) -> bool {
        !self.direct || run.buffers_aligned()
    }

    /// Reads or writes a run whose range has been checked.
    fn execute(&self, run: &mut Run<'_>) -> Result<(), MediaError> {
        let (op, bytes, begun) = (run.op, run.len_bytes as u64, Instant::now());
        // With a single piece there is nothing to overlap: one system call is quicker than a trip
        // through a ring.
        let mut execute = || match &self.rings {
            Some(rings) if run.pieces.len() > 1 => rings.execute(&self.file, run),
            _ => sync::execute(&self.file, run),
        };
        let result = match (&self.throttle, op) {
            (None, _) => execute(),
            (Some(throttle), IoOp::Read) => throttle.read(bytes, execute),
            (Some(throttle), _) => throttle.write(bytes, execute),
        };
        result.map_err(|failure| self.failed(op, bytes, failure))?;
        match op {
            IoOp::Read => {
                self.counters.read(bytes);
                self.counters.read_took(bytes, begun.elapsed());
            }
            _ => {
                self.counters.written(bytes);
                self.counters.write_took(bytes, begun.elapsed());
            }
        }
        Ok(())
    }

    fn failed(&self, op: IoOp, len_bytes: u64, Failure { offset, cause }: Failure) -> MediaError {
        let path = self.path.clone();
        match cause {
            Cause::Ended => MediaError::Ended { path, op, offset },
            Cause::Errno(errno) => MediaError::Io { path, op, offset, len_bytes, errno },
        }
    }

    fn discard_errno(&self, off: u64, len: u64) -> Result<(), Errno> {
        if !self.is_block_device {
            return fallocate(
                &self.file,
                FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
                off,
                len,
            );
        }
        /// From linux/fs.h: _IO(0x12, 119).
        const BLKDISCARD: libc::Ioctl = 0x1277;
        let range = [off, len];
        // SAFETY: BLKDISCARD reads two u64 (offset and length), and the descriptor is open.
        match unsafe { libc::ioctl(self.file.as_raw_fd(), BLKDISCARD, range.as_ptr()) } {
            -1 => Err(errno_of(&std::io::Error::last_os_error())),
            _ => Ok(()),
        }
    }
}

impl Disk for FileDisk {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.read_vectored_at(off, &mut [IoSliceMut::new(buf)])
    }

    fn read_vectored_at(&self, off: u64, bufs: &mut [IoSliceMut<'_>]) -> Result<(), MediaError> {
        check_parts(self, IoOp::Read, off, bufs.iter().map(|buf| buf.len()))?;
        let mut run = Run::read(off, bufs);
        if self.takes(&run) {
            self.execute(&mut run)
        } else {
            scatter(bufs, |joined| self.read_at(off, joined))
        }
    }

    fn begin_read(&self, off: u64, read: LaterRead) -> Result<(), LaterRead> {
        let fits = read.len_bytes > 0
            && read.len_bytes <= read.buffer.len()
            && check_run(self, IoOp::Read, off, read.len_bytes as u64).is_ok();
        // A model has whoever reads wait for the time that the device would take, and the kernel's
        // page cache whoever begins to.
        let waits = self.throttle.is_some() || !self.direct;
        if !fits || waits || self.rings.is_none() {
            return Err(read);
        }
        let Some(queue) = self.reads.get_or_init(|| ReadQueue::new().ok()) else {
            return Err(read);
        };
        let counters = Arc::clone(&self.counters);
        queue.begin(&self.file, off, read, move |read, is_whole| {
            if is_whole {
                counters.read(read.len_bytes as u64);
            }
            (read.done)(read.buffer, is_whole);
        })
    }

    fn write_at(&self, off: u64, buf: &[u8]) -> Result<(), MediaError> {
        self.write_vectored_at(off, &[IoSlice::new(buf)])
    }

    fn write_vectored_at(&self, off: u64, bufs: &[IoSlice<'_>]) -> Result<(), MediaError> {
        check_parts(self, IoOp::Write, off, bufs.iter().map(|buf| buf.len()))?;
        step();
        let mut run = Run::write(off, bufs);
        if self.takes(&run) { self.execute(&mut run) } else { self.write_at(off, &gather(bufs)) }
    }

    fn flush(&self) -> Result<(), MediaError> {
        self.counters.flushed();
        let sync = || loop {
            match self.file.sync_data().map_err(|error| errno_of(&error)) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        };
        // Not held during the sync: concurrent flushes share a journal commit.
        let failed_before = *self.flush_failed.lock();
        let begun = Instant::now();
        let result = match (failed_before, &self.throttle) {
            (Some(errno), _) => Err(errno),
            (None, None) => sync(),
            (None, Some(throttle)) => throttle.write(0, sync),
        };
        self.counters.flush_took(begun.elapsed());
        result.map_err(|errno| {
            *self.flush_failed.lock() = Some(errno);
            self.failed(IoOp::Flush, self.len, Failure { offset: 0, cause: Cause::Errno(errno) })
        })
    }

    fn discard(&self, off: u64, len: u64) -> Result<(), MediaError> {
        check_run(self, IoOp::Discard, off, len)?;
        step();
        if len > 0 {
            match self.discard_errno(off, len) {
                Ok(()) => self.counters.discarded(),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY) => {}
                Err(errno) => {
                    return Err(self.failed(
                        IoOp::Discard,
                        len,
                        Failure { offset: off, cause: Cause::Errno(errno) },
                    ));
                }
            }
        }
        Ok(())
    }

    fn stats(&self) -> DiskStats {
        self.counters.total()
    }
}
