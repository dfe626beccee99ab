//! From engine errors to what the kernel is told, and to the log.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use terrace_engine::{FsError, with_advice};

/// Turns engine errors into errnos and logs those that carry a message for people.
///
/// A failing device produces the same message for each request: a repetition of the last one is
/// only counted, and the count is logged with the next different one.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    /// Where the volume's PM is.
    pm: PathBuf,
    last: Mutex<Repeated>,
}

#[derive(Debug, Default)]
struct Repeated {
    message: String,
    times: u64,
}

impl ErrorLog {
    /// Of the volume whose PM is there.
    pub(crate) fn new(pm: &Path) -> Self {
        Self { pm: pm.to_owned(), last: Mutex::default() }
    }

    /// The errno to answer with, after logging what there is to say, and what to do.
    pub(crate) fn errno(&self, error: &FsError) -> i32 {
        if error.has_message() {
            self.log(&with_advice(error, &self.pm));
        }
        errno_for_kernel(error.errno())
    }

    fn log(&self, message: &str) {
        let mut last = self.last.lock();
        if last.message == message {
            last.times += 1;
            return;
        }
        if last.times > 0 {
            tracing::warn!("{} more times: {}", last.times, last.message);
        }
        tracing::warn!("{message}");
        *last = Repeated { message: message.to_owned(), times: 0 };
    }
}

impl Drop for ErrorLog {
    fn drop(&mut self) {
        let last = self.last.get_mut();
        if last.times > 0 {
            tracing::warn!("{} more times: {}", last.times, last.message);
        }
    }
}

/// Keeps an errno from meaning something else to the kernel.
fn errno_for_kernel(errno: i32) -> i32 {
    match errno {
        // To the kernel this says: never send this kind of message again.
        libc::ENOSYS => libc::EOPNOTSUPP,
        errno => errno,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_never_disables_a_message() {
        assert_eq!(errno_for_kernel(libc::ENOENT), libc::ENOENT);
        assert_eq!(errno_for_kernel(libc::ENOSYS), libc::EOPNOTSUPP);
    }

    #[test]
    fn repetitions_are_counted_not_logged() {
        let log = ErrorLog::new(Path::new("/dev/pm"));
        let error = FsError::with_message(libc::EIO, "/dev/sdz: read failed at byte 4096");
        for _ in 0..3 {
            assert_eq!(log.errno(&error), libc::EIO);
        }
        assert_eq!(log.last.lock().times, 2);
        log.errno(&FsError::with_message(libc::ENOSPC, "all tiers are full"));
        assert_eq!(log.last.lock().times, 0);
        log.errno(&FsError::new(libc::ENOENT));
        assert_eq!(log.last.lock().message, "all tiers are full");
    }
}
