//! Errors of calls on a file.

use std::error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error of a call on a [`File`](crate::File). Its text names the file, the call and, where
/// there is one, the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    path: PathBuf,
    call: &'static str,
    errno: i32,
    remedy: &'static str,
}

impl Error {
    pub(super) fn new(path: &Path, call: &'static str, errno: i32) -> Self {
        Self::with_remedy(path, call, errno, remedy(call, errno))
    }

    pub(super) fn with_remedy(
        path: &Path,
        call: &'static str,
        errno: i32,
        remedy: &'static str,
    ) -> Self {
        Self { path: path.to_owned(), call, errno, remedy }
    }

    /// The system's number of the error, such as `libc::ENOSPC`.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

fn remedy(call: &str, errno: i32) -> &'static str {
    match (call, errno) {
        ("read", libc::EBADF) => "open it for reading",
        ("write" | "append", libc::EBADF) | ("set length", libc::EBADF | libc::EINVAL) => {
            "open it for writing; no length is negative"
        }
        ("read" | "write", libc::EINVAL) => "offsets end at 2^63 - 1",
        ("append", libc::ESPIPE) => "only a regular file has an end to append at",
        (_, libc::ENOSPC) => "remove something, or add a disk (terrace device add)",
        (_, libc::EFBIG) => "it would be longer than its file system allows",
        (_, libc::ENOTCONN) => {
            "the daemon of its mount has ended: mount it again, and open it anew"
        }
        (_, libc::EIO) => "the log of the mount's daemon, or of the kernel, says more",
        _ => "",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errno = io::Error::from_raw_os_error(self.errno);
        write!(f, "{}: {}: {errno}", self.path.display(), self.call)?;
        if self.remedy.is_empty() { Ok(()) } else { write!(f, "; {}", self.remedy) }
    }
}

impl error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(Self::from_raw_os_error(error.errno).kind(), error)
    }
}
