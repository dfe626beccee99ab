//! The one error type of this crate. Each value names the device and, for I/O, the offset; each
//! carries an errno. Its text says all of it: an error has no source that would say it again.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// What was being done to a device when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoOp {
    /// Reading from a disk.
    Read,
    /// Writing to a disk.
    Write,
    /// Making a disk's earlier writes durable (fdatasync).
    Flush,
    /// Giving a range of a disk back (punch hole, BLKDISCARD).
    Discard,
}

impl fmt::Display for IoOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoOp::Read => "read",
            IoOp::Write => "write",
            IoOp::Flush => "flush",
            IoOp::Discard => "discard",
        })
    }
}

/// An operating error of a device. Programmer errors (a PM access out of bounds, say) panic
/// instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The device could not be opened, examined or locked.
    #[error("{path}: cannot {action}: {errno}", path = path.display())]
    Open {
        /// The device.
        path: PathBuf,
        /// The step that failed ("open", "lock", …).
        action: &'static str,
        /// The system's reason.
        errno: Errno,
    },
    /// Somebody else holds the device.
    #[error(
        "{path}: already in use: is the volume mounted, or another program using the device?",
        path = path.display()
    )]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// Programs have the device mapped.
    #[error(
        "{path}: programs that `terrace run` has started have it mapped; end them (`fuser -v \
         {path}` shows which), then try again",
        path = path.display()
    )]
    Shared {
        /// The device.
        path: PathBuf,
    },
    /// The path names something that cannot serve.
    #[error("{path}: is {found}; {expected}", path = path.display())]
    Unsuitable {
        /// The path given.
        path: PathBuf,
        /// What is there.
        found: &'static str,
        /// What would do instead.
        expected: &'static str,
    },
    /// A file to be created is there already; it is never overwritten.
    #[error(
        "{path}: already exists; remove it first or choose another name",
        path = path.display()
    )]
    AlreadyExists {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be created at its full size. Nothing is left behind.
    #[error("{path}: cannot create a file of {len_bytes} bytes: {errno}", path = path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// The size asked for.
        len_bytes: u64,
        /// The system's reason.
        errno: Errno,
    },
    /// A length that this device cannot have.
    #[error("{path}: a length of {len_bytes} bytes does not do: it must be a non-zero multiple \
             of {multiple_bytes} bytes", path = path.display())]
    BadLength {
        /// The device.
        path: PathBuf,
        /// Its length, or the one asked for.
        len_bytes: u64,
        /// What the length must be a multiple of.
        multiple_bytes: u64,
    },
    /// Emulated PM needs more memory than there is.
    #[error("{path}: {need_bytes} bytes of memory are needed but {resource} leaves \
             {available_bytes}; choose a smaller size or free some", path = path.display())]
    NotEnoughMemory {
        /// The file asked for.
        path: PathBuf,
        /// Its size.
        need_bytes: u64,
        /// What is available.
        available_bytes: u64,
        /// What is short: the file system's limit, the machine's free RAM, the huge page pool.
        resource: &'static str,
    },
    /// The PM device could not be mapped.
    #[error("{path}: cannot map {len_bytes} bytes into memory: {errno}", path = path.display())]
    Map {
        /// The PM device.
        path: PathBuf,
        /// The length of the mapping.
        len_bytes: u64,
        /// The system's reason.
        errno: Errno,
    },
    /// A fence on PM of kind `msync` failed, now or earlier: what was stored since the last good
    /// fence may be lost.
    #[error(
        "{path}: cannot make stores durable: {errno}; unmount and check the device",
        path = path.display()
    )]
    Sync {
        /// The PM device.
        path: PathBuf,
        /// Where the stores that failed to become durable begin (bytes).
        offset: u64,
        /// The system's reason.
        errno: Errno,
    },
    /// PM that cannot be read: the memory there has failed, or the file was cut off.
    #[error("{path}: {len_bytes} bytes at offset {offset} cannot be read: the memory there has \
             failed, or the file was truncated; replace the device once what can be read is \
             copied from it", path = path.display())]
    Unreadable {
        /// The PM device.
        path: PathBuf,
        /// Where (bytes).
        offset: u64,
        /// How much.
        len_bytes: u64,
    },
    /// Something was stored to PM that cannot be read, now or earlier: it is lost.
    #[error("{path}: what was stored at offset {offset} is lost: the memory there has failed, or \
             the file was truncated; unmount and replace the device", path = path.display())]
    StoreLost {
        /// The PM device.
        path: PathBuf,
        /// Where the first such store went (bytes).
        offset: u64,
    },
    /// A disk operation failed.
    #[error(
        "{path}: {op} of {len_bytes} bytes at offset {offset} failed: {errno}",
        path = path.display()
    )]
    Io {
        /// The disk.
        path: PathBuf,
        /// What was being done.
        op: IoOp,
        /// Where (bytes).
        offset: u64,
        /// How much.
        len_bytes: u64,
        /// The system's reason.
        errno: Errno,
    },
    /// A disk took or gave nothing although it should be long enough.
    #[error(
        "{path}: {op} at offset {offset} ended early; was the device truncated?",
        path = path.display()
    )]
    Ended {
        /// The disk.
        path: PathBuf,
        /// What was being done.
        op: IoOp,
        /// Where it ended (bytes).
        offset: u64,
    },
    /// Disk I/O whose offset, or one of whose lengths, is not a multiple of 4 KiB.
    #[error(
        "{path}: {op} of {len_bytes} bytes at offset {offset}: both must be multiples of 4096",
        path = path.display()
    )]
    Misaligned {
        /// The disk.
        path: PathBuf,
        /// What was being done.
        op: IoOp,
        /// Where (bytes).
        offset: u64,
        /// The length that does not do.
        len_bytes: u64,
    },
    /// Disk I/O that reaches past the end of the device.
    #[error("{path}: {op} of {len_bytes} bytes at offset {offset} reaches past the end of the \
             device ({device_len_bytes} bytes)", path = path.display())]
    OutOfRange {
        /// The disk.
        path: PathBuf,
        /// What was being done.
        op: IoOp,
        /// Where (bytes).
        offset: u64,
        /// How much.
        len_bytes: u64,
        /// The length of the device.
        device_len_bytes: u64,
    },
    /// The io_uring engine was demanded, but the system refuses it.
    #[error(
        "{path}: io_uring is refused here: {errno}; use the sync engine",
        path = path.display()
    )]
    EngineRefused {
        /// The disk.
        path: PathBuf,
        /// The system's reason.
        errno: Errno,
    },
}

impl MediaError {
    /// The errno that a system call answering with this error gives.
    pub fn errno(&self) -> i32 {
        match self {
            MediaError::Open { errno, .. }
            | MediaError::Create { errno, .. }
            | MediaError::Map { errno, .. }
            | MediaError::Sync { errno, .. }
            | MediaError::Io { errno, .. }
            | MediaError::EngineRefused { errno, .. } => errno.raw_os_error(),
            MediaError::InUse { .. } | MediaError::Shared { .. } => libc::EBUSY,
            MediaError::AlreadyExists { .. } => libc::EEXIST,
            MediaError::NotEnoughMemory { .. } => libc::ENOMEM,
            MediaError::Unreadable { .. }
            | MediaError::StoreLost { .. }
            | MediaError::Ended { .. } => libc::EIO,
            MediaError::Unsuitable { .. }
            | MediaError::BadLength { .. }
            | MediaError::Misaligned { .. }
            | MediaError::OutOfRange { .. } => libc::EINVAL,
        }
    }

    /// Where on the device, if it is about a place.
    pub fn offset(&self) -> Option<u64> {
        match self {
            MediaError::Sync { offset, .. }
            | MediaError::Unreadable { offset, .. }
            | MediaError::StoreLost { offset, .. }
            | MediaError::Io { offset, .. }
            | MediaError::Ended { offset, .. }
            | MediaError::Misaligned { offset, .. }
            | MediaError::OutOfRange { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// The device or file that the error is about.
    pub fn path(&self) -> &Path {
        match self {
            MediaError::Open { path, .. }
            | MediaError::InUse { path }
            | MediaError::Shared { path }
            | MediaError::Unsuitable { path, .. }
            | MediaError::AlreadyExists { path }
            | MediaError::Create { path, .. }
            | MediaError::BadLength { path, .. }
            | MediaError::NotEnoughMemory { path, .. }
            | MediaError::Map { path, .. }
            | MediaError::Sync { path, .. }
            | MediaError::Unreadable { path, .. }
            | MediaError::StoreLost { path, .. }
            | MediaError::Io { path, .. }
            | MediaError::Ended { path, .. }
            | MediaError::Misaligned { path, .. }
            | MediaError::OutOfRange { path, .. }
            | MediaError::EngineRefused { path, .. } => path,
        }
    }

    pub(crate) fn open(path: &Path, action: &'static str, source: impl Into<io::Error>) -> Self {
        MediaError::Open { path: path.to_owned(), action, errno: errno_of(&source.into()) }
    }
}

/// The errno inside an I/O error; EIO for those that std made up itself.
pub(crate) fn errno_of(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}
