//! Rings of io_uring as workers use them.

use std::io;

use io_uring::{IoUring, cqueue, squeue};

/// A ring of one thread.
pub(crate) type IoRing = IoUring<squeue::Entry128, cqueue::Entry>;

/// A ring for the calling thread, which alone may use it.
///
/// # Errors
/// The system gives none.
pub(crate) fn new_ring() -> io::Result<IoRing> {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(2)
}
