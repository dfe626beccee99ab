//! Reads that nobody waits for: many in flight, and one thread that takes what has come.
//!
//! Invariants:
//! * A read is in `waiting` from before the kernel may take it until after its completion. Its
//!   buffer belongs to it meanwhile, so the kernel never writes to memory that has gone.
//! * At most [`READS_MAX`] are in flight, and the context takes as many.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::LaterRead;
use super::aio::{Context, Event};
use crate::error::errno_of;

/// Reads in flight: more than a disk's own queue gains by.
const READS_MAX: usize = 64;
/// Number of the operation that ends the thread.
const END: u64 = 0;

/// See the module.
pub(super) struct ReadQueue {
    shared: Arc<Shared>,
    /// Ends the thread once it can be read.
    end: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    context: Context,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    reads: HashMap<u64, Waited>,
    last: u64,
}

/// A read in flight.
struct Waited {
    read: LaterRead,
    /// Told whether all of it came.
    settle: Box<dyn FnOnce(LaterRead, bool) + Send>,
}

impl ReadQueue {
    /// A queue with its thread.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn new() -> Result<Self, Errno> {
        let context = Context::new(READS_MAX + 1)?;
        let end = eventfd(0, EventfdFlags::CLOEXEC)?;
        context.poll(END, end.as_fd())?;
        let shared = Arc::new(Shared { context, waiting: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("terrace-reads".to_owned())
            .spawn(move || of_thread.reap())
            .map_err(|error| errno_of(&error))?;
        Ok(Self { shared, end, thread: Some(thread) })
    }

    /// Begins a read at `offset` of the file, which must be open for direct I/O, as others would
    /// be waited for; `settle` is told by the thread. `Err`: enough are in flight.
    pub(super) fn begin(
        &self,
        file: &File,
        offset: u64,
        mut read: LaterRead,
        settle: impl FnOnce(LaterRead, bool) + Send + 'static,
    ) -> Result<(), LaterRead> {
        let (start, len_bytes) = (read.buffer.as_mut_ptr(), read.len_bytes);
        let number = {
            let mut waiting = self.shared.waiting.lock();
            if waiting.reads.len() >= READS_MAX {
                return Err(read);
            }
            waiting.last += 1;
            let number = waiting.last;
            waiting.reads.insert(number, Waited { read, settle: Box::new(settle) });
            number
        };
        // SAFETY: the buffer has that length, and stays where it is, in `waiting`, until the event
        // has come.
        let begun =
            unsafe { self.shared.context.read(number, file.as_fd(), offset, start, len_bytes) };
        begun.map_err(|_| {
            let untaken = self.shared.waiting.lock().reads.remove(&number);
            untaken.expect("only the end of a read takes it away").read
        })
    }
}

impl Shared {
    /// The thread: takes what has come until it is told to end and nothing is in flight.
    fn reap(&self) {
        let mut ends = false;
        let mut events = [Event::default(); READS_MAX];
        while !(ends && self.waiting.lock().reads.is_empty()) {
            let come = self.context.wait(&mut events).unwrap_or_else(|errno| {
                if errno != Errno::INTR {
                    std::thread::sleep(Duration::from_millis(1));
                }
                &[]
            });
            for &Event { number, result, .. } in come {
                ends |= number == END;
                let found = self.waiting.lock().reads.remove(&number);
                if let Some(Waited { read, settle }) = found {
                    let is_whole = usize::try_from(result) == Ok(read.len_bytes);
                    settle(read, is_whole);
                }
            }
        }
    }
}

impl Drop for ReadQueue {
    fn drop(&mut self) {
        let told = rustix::io::write(&self.end, &1u64.to_ne_bytes());
        // One that cannot be told sleeps on.
        let Some(thread) = self.thread.take().filter(|_| told.is_ok()) else { return };
        // The last owner of the disk may have been a read that this thread has just settled.
        if thread.thread().id() != std::thread::current().id() {
            thread.join().expect("the thread settles reads, and their owners do not panic");
        }
    }
}

impl fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadQueue")
            .field("in_flight", &self.shared.waiting.lock().reads.len())
            .finish()
    }
}
