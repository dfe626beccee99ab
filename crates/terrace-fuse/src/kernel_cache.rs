//! The kernel's cache of a mount, and the orders to drop parts of it. Nothing is ever stored there:
//! a store overtakes writes (`tests/stores.rs`).

use std::io;

use terrace_transport::Notifier;

use crate::transport::Serving;

/// The kernel's cache of a mount, and the way to it.
#[derive(Clone, Debug)]
pub struct KernelCache {
    notifier: Notifier,
    kernel_checks: bool,
    serving: Serving,
}

impl KernelCache {
    /// Of the mount whose kernel `notifier` tells something. `kernel_checks`: whether the kernel
    /// checks permissions.
    pub(crate) fn new(notifier: Notifier, kernel_checks: bool, serving: Serving) -> Self {
        Self { notifier, kernel_checks, serving }
    }

    /// How messages come from the kernel.
    pub(crate) fn serving(&self) -> &Serving {
        &self.serving
    }

    /// How many answers may wait for [`Self::drop_pages`], by what the transport needs: over
    /// io_uring, a worker that keeps an answer takes no messages, and some must.
    pub(crate) fn answers_kept_max(&self) -> usize {
        self.serving.entries_per_queue_max.map_or(usize::MAX, |entries| entries * 3 / 4)
    }

    /// Makes the kernel ask again for an inode's attributes after an access ACL was set on it,
    /// which changes the mode: with POSIX_ACL the kernel does so by itself.
    ///
    /// Safe inside the handler of a message about that very inode, before the answer: that message
    /// pins the inode, and an invalidation of attributes alone (negative offset) takes no lock that
    /// a request in flight can hold. One that drops pages would wait for them, and must never be
    /// sent from here.
    pub(crate) fn forget_attributes(&self, ino: u64) {
        if self.kernel_checks {
            return;
        }
        if let Err(error) = self.notifier.invalidate(ino, -1, 0) {
            tracing::warn!(
                "inode {ino}: the kernel may show an old mode until it is remounted: {error}"
            );
        }
    }

    /// Has the kernel drop what it caches of a range of a file, and waits for it: for the pages'
    /// readers, and for dirty ones to be written back. Never from a thread that takes messages.
    ///
    /// # Errors
    /// The kernel's. An inode that the kernel does not know is no error.
    pub(crate) fn drop_pages(&self, ino: u64, offset: u64, len_bytes: u64) -> io::Result<()> {
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        // To the kernel, a length of 0 is all the rest.
        self.notifier.invalidate(ino, offset, i64::try_from(len_bytes).unwrap_or(0))
    }
}
