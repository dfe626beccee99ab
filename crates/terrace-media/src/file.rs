//! What PM files and disk files share: creating them whole or not at all, and taking them
//! exclusively.
//!
//! Invariant: nothing is created that another user may open, whatever the umask, not even for a
//! moment: [`private`] gives the mode to open(2).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::{MediaError, errno_of};

/// How a file is opened that holds what a volume does, to be written: if it is created, then for
/// this user alone.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

/// Creates a file that was not there, gives it its space with `allocate` and makes its existence
/// durable; removes it again when that fails.
pub(crate) fn create_with(
    path: &Path,
    len_bytes: u64,
    allocate: impl FnOnce(&File) -> Result<(), MediaError>,
) -> Result<(), MediaError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => MediaError::AlreadyExists { path: path.to_owned() },
        _ => MediaError::Create { path: path.to_owned(), len_bytes, errno: errno_of(&error) },
    };
    let file = private().read(true).create_new(true).open(path).map_err(failed)?;
    let result = allocate(&file)
        .and_then(|()| file.sync_all().and_then(|()| sync_parent(path)).map_err(failed));
    if result.is_err() {
        // The error worth telling is the first one.
        let _ = fs::remove_file(path);
    }
    result
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match File::open(parent)?.sync_all() {
        // Some file systems have nothing to sync in a directory and say so.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        result => result,
    }
}

/// Gives a new file its length with every block allocated.
pub(crate) fn allocate(file: &File, len_bytes: u64) -> Result<(), Errno> {
    let len = libc::off_t::try_from(len_bytes).map_err(|_| Errno::FBIG)?;
    loop {
        // SAFETY: posix_fallocate takes a descriptor, which is open, and two numbers.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, len) } {
            0 => return Ok(()),
            libc::EINTR => {}
            errno => return Err(Errno::from_raw_os_error(errno)),
        }
    }
}

/// How long a device may stay in use after whoever used it has closed it, or died: io_uring lets go
/// of its files later.
const LEAVING: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Tries to take a device until it is not `in_use` any more, for a moment at least.
pub(crate) fn wait_while_in_use<T>(
    in_use: Errno,
    mut take: impl FnMut() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let start = Instant::now();
    loop {
        match take() {
            Err(errno) if errno == in_use && start.elapsed() < LEAVING => thread::sleep(LOOK_AGAIN),
            result => return result,
        }
    }
}

/// Takes an open device exclusively until it is closed.
pub(crate) fn lock(path: &Path, file: &File) -> Result<(), MediaError> {
    let take = || flock(file, FlockOperation::NonBlockingLockExclusive);
    wait_while_in_use(Errno::WOULDBLOCK, take).map_err(|errno| match errno {
        Errno::WOULDBLOCK => MediaError::InUse { path: path.to_owned() },
        errno => MediaError::open(path, "lock", errno),
    })
}
