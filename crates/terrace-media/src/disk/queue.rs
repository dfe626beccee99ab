//! Reads that nobody waits for: many in flight in one ring, and one thread that takes what has
//! come.
//!
//! Invariants:
//! * A read is in `waiting` from before the kernel may take it until after its completion. Its
//!   buffer belongs to it meanwhile, so the kernel never writes to memory that has gone.
//! * At most [`READS_MAX`] are in flight; both queues of the ring hold more.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use io_uring::{IoUring, opcode, squeue, types};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::LaterRead;
use crate::buffer::AlignedBuf;
use crate::error::errno_of;

/// Reads in flight: more than a disk's own queue gains by.
const READS_MAX: usize = 64;
/// Number of the entry that ends the thread.
const END: u64 = u64::MAX;

/// See the module.
pub(super) struct ReadQueue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    ring: IoUring,
    /// Held by whoever hands entries to the kernel; taken before `waiting`.
    handing: Mutex<()>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    reads: HashMap<u64, Waited>,
    next: u64,
    /// Nothing more is taken.
    closed: bool,
}

/// A read in flight.
struct Waited {
    read: LaterRead,
    /// Told whether all of it came.
    settle: Box<dyn FnOnce(LaterRead, bool) + Send>,
}

impl ReadQueue {
    /// A ring with its thread.
    ///
    /// # Errors
    /// If the system refuses either.
    pub(super) fn new() -> Result<Self, Errno> {
        let ring = IoUring::new(READS_MAX as u32 * 2).map_err(|error| errno_of(&error))?;
        let shared =
            Arc::new(Shared { ring, handing: Mutex::default(), waiting: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("terrace-reads".to_owned())
            .spawn(move || of_thread.reap())
            .map_err(|error| errno_of(&error))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Begins a read at `offset` of the file; `settle` is told by the thread. `Err`: enough are in
    /// flight.
    pub(super) fn begin(
        &self,
        file: &File,
        offset: u64,
        mut read: LaterRead,
        settle: impl FnOnce(LaterRead, bool) + Send + 'static,
    ) -> Result<(), LaterRead> {
        let (start, len) = (read.buffer.as_mut_ptr(), read.len_bytes as u32);
        let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), start, len).offset(offset);
        let number = {
            let mut waiting = self.shared.waiting.lock();
            if waiting.closed || waiting.reads.len() >= READS_MAX {
                return Err(read);
            }
            waiting.next += 1;
            let number = waiting.next;
            waiting.reads.insert(number, Waited { read, settle: Box::new(settle) });
            number
        };
        if self.shared.hand(&entry.build().user_data(number)) {
            return Ok(());
        }
        let untaken = self.shared.waiting.lock().reads.remove(&number);
        let untaken = untaken.expect("the kernel has not taken it");
        // The ring still holds the entry. So that the kernel finds memory there, should it ever
        // take it, the buffer is left to it.
        let LaterRead { buffer: left, len_bytes, done } = untaken.read;
        let buffer = AlignedBuf::new(left.len());
        std::mem::forget(left);
        Err(LaterRead { buffer, len_bytes, done })
    }
}

impl Shared {
    /// Hands an entry to the kernel; false if the ring is broken, after which it takes nothing
    /// more.
    fn hand(&self, entry: &squeue::Entry) -> bool {
        let _handing = self.handing.lock();
        // SAFETY: nobody else queues, under this lock. The buffer is valid until the completion:
        // see the module.
        let pushed = unsafe { self.ring.submission_shared().push(entry) };
        if pushed.is_err() {
            // Full of what a broken ring did not take.
            return false;
        }
        loop {
            match self.ring.submit().map_err(|error| errno_of(&error)) {
                Ok(_) => return true,
                Err(Errno::INTR | Errno::BUSY | Errno::AGAIN) => std::thread::yield_now(),
                Err(_) => {
                    self.waiting.lock().closed = true;
                    return false;
                }
            }
        }
    }

    /// The thread: takes what has come until it is told to end and nothing is in flight.
    fn reap(&self) {
        let mut ends = false;
        while !(ends && self.waiting.lock().reads.is_empty()) {
            const GETEVENTS: u32 = 1;
            // SAFETY: no argument is passed, so there is none to be valid.
            let waited = unsafe { self.ring.submitter().enter::<()>(0, 1, GETEVENTS, None) };
            if let Err(error) = waited
                && !matches!(errno_of(&error), Errno::INTR | Errno::BUSY | Errno::AGAIN)
            {
                // What has come is in the queue all the same.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            // SAFETY: this thread alone looks at completions.
            let come: Vec<(u64, i32)> = unsafe { self.ring.completion_shared() }
                .map(|entry| (entry.user_data(), entry.result()))
                .collect();
            for (number, result) in come {
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
        self.shared.waiting.lock().closed = true;
        let told = self.shared.hand(&opcode::Nop::new().build().user_data(END));
        // One that cannot be told sleeps on.
        let Some(thread) = self.thread.take().filter(|_| told) else { return };
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
