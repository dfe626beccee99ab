//! The io_uring engine: all pieces of a run in flight at once.
//!
//! Each call takes a ring from a pool (so there are as many as threads ever were active at once),
//! submits the pieces and waits for every one of them. Invariant: `execute` does not return while
//! the kernel may still touch the run's buffers, whatever fails.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::run::Run;
use super::sync::{self, Failure};
use crate::error::{IoOp, errno_of};

/// The most pieces in flight per ring.
const RING_ENTRIES: u32 = 64;

/// The rings that nobody is using.
pub(super) struct RingPool {
    idle: Mutex<Vec<IoUring>>,
}

impl RingPool {
    /// A pool with its first ring; the errno if the system refuses io_uring.
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(RingPool { idle: Mutex::new(vec![new_ring()?]) })
    }

    /// Reads or writes all of a run.
    pub(super) fn execute(&self, file: &File, run: &mut Run<'_>) -> Result<(), Failure> {
        let idle = self.idle.lock().pop();
        let Some(mut ring) = idle.or_else(|| new_ring().ok()) else {
            // The system grants no more rings just now.
            return sync::execute(file, run);
        };
        let mut flight =
            Flight { ring: &mut ring, file, in_flight: 0, failure: None, broken: false };
        flight.fly(run);
        let Flight { failure, broken, .. } = flight;
        if !broken {
            self.idle.lock().push(ring);
        }
        match failure {
            Some(failure) => Err(failure),
            // A broken ring leaves pieces that were never submitted.
            None => sync::execute(file, run),
        }
    }
}

impl std::fmt::Debug for RingPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingPool").field("idle", &self.idle.lock().len()).finish()
    }
}

fn new_ring() -> Result<IoUring, Errno> {
    IoUring::new(RING_ENTRIES).map_err(|error| errno_of(&error))
}

/// One run's way through a ring.
struct Flight<'a> {
    ring: &'a mut IoUring,
    file: &'a File,
    /// Pieces that were queued and have not completed.
    in_flight: usize,
    /// The first failure; nothing new is queued after it.
    failure: Option<Failure>,
    /// The ring could not be entered; it must not be used again.
    broken: bool,
}

impl Flight<'_> {
    fn fly(&mut self, run: &mut Run<'_>) {
        // Pieces to be queued, the first last.
        let mut waiting: Vec<usize> = (0..run.pieces.len()).rev().collect();
        loop {
            while self.failure.is_none() && !self.broken && self.in_flight < RING_ENTRIES as usize {
                let Some(piece) = waiting.pop() else { break };
                self.queue(run, piece);
            }
            if self.in_flight == 0 {
                return;
            }
            self.enter();
            self.reap(run, &mut waiting);
        }
    }

    fn queue(&mut self, run: &Run<'_>, piece: usize) {
        let fd = types::Fd(self.file.as_raw_fd());
        let parts = run.parts(piece);
        let (start, count) = (parts.as_ptr(), parts.len() as u32);
        let offset = run.pieces[piece].offset;
        let entry = match run.op {
            IoOp::Read => opcode::Readv::new(fd, start, count).offset(offset).build(),
            _ => opcode::Writev::new(fd, start, count).offset(offset).build(),
        };
        let entry = entry.user_data(piece as u64);
        // SAFETY: the buffers and the list of parts belong to `run`, which is borrowed until fly()
        // returns, and that waits for this entry's completion. Parts of a piece do not move or
        // change while it is in flight.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("no more entries are queued than the ring holds");
        self.in_flight += 1;
    }

    /// Hands the queued entries to the kernel and waits for a completion.
    fn enter(&mut self) {
        if !self.broken {
            match self.ring.submit_and_wait(1).map_err(|error| errno_of(&error)) {
                Ok(_) | Err(Errno::INTR | Errno::BUSY | Errno::AGAIN) => return,
                Err(_) => {
                    // The kernel will never take the entries that it has not taken: the ring is not
                    // entered again.
                    self.broken = true;
                    self.in_flight -= self.ring.submission().len();
                }
            }
        }
        std::thread::sleep(Duration::from_micros(50));
    }

    fn reap(&mut self, run: &mut Run<'_>, waiting: &mut Vec<usize>) {
        // Copied out first: settling a piece may queue it again.
        let done: Vec<(usize, i32)> = self
            .ring
            .completion()
            .map(|entry| (entry.user_data() as usize, entry.result()))
            .collect();
        for (piece, result) in done {
            self.in_flight -= 1;
            match sync::settle(run, piece, result as isize) {
                Ok(()) if run.pieces[piece].left_bytes > 0 => waiting.push(piece),
                Ok(()) => {}
                Err(failure) => self.failure = self.failure.or(Some(failure)),
            }
        }
    }
}
