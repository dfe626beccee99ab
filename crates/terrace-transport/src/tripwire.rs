//! Has the kernel deliver what it gave to a thread's ring, before it ends the thread.
//!
//! A request that the kernel has given to an entry is delivered when the entry's thread runs. If
//! the thread is killed before that, Linux 6.14 to 6.18 ends the request with ECANCELED some time
//! after the thread's end, and until then gives it more. But a thread that ends while its ring
//! waits on another ring first has all that it waits for cancelled, and then runs what the ring has
//! for it: `io_uring_cancel_generic` does so for requests that could hold a ring in memory for
//! ever. From that moment the entry gets no requests, and the last one has been delivered.
//!
//! So each ring with an entry waits for a ring that never has anything.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

use io_uring::{opcode, squeue, types::Fd};

use crate::uring::{IoRing, new_ring};

/// Marks that it completed, which happens when a ring ends.
pub(crate) const MARK: u64 = 1;

/// The order to wait for the ring that never has anything.
///
/// # Errors
/// The system gives no ring.
pub(crate) fn wait_for_nothing() -> io::Result<squeue::Entry128> {
    let events = u32::try_from(libc::POLLIN).expect("a small number");
    let wait = opcode::PollAdd::new(Fd(silent_ring()?), events).build().user_data(MARK);
    Ok(wait.into())
}

/// A ring that nobody submits anything to.
fn silent_ring() -> io::Result<RawFd> {
    static RING: OnceLock<IoRing> = OnceLock::new();
    if RING.get().is_none() {
        let ring = new_ring()?;
        // Another thread may have been first.
        drop(RING.set(ring));
    }
    Ok(RING.get().expect("a ring").as_raw_fd())
}
