//! The place where the reply to a worker's message is given.

use std::ptr::NonNull;
use std::sync::{Condvar, Mutex, PoisonError};

/// The answer to one message, before it is committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub error: i32,
    /// Bytes in the payload, or in `small`.
    pub len: usize,
    /// Of a WRITE, whose data still lies in the payload.
    pub small: [u8; 16],
}

/// Where the reply to a worker's message is given.
#[derive(Debug)]
pub(crate) struct Slot {
    payload: NonNull<u8>,
    capacity: usize,
    answer: Mutex<Option<Answer>>,
    given: Condvar,
}

// SAFETY: the payload is memory of the worker, which lives as long as the slot. Only the one reply
// of the message under way writes to it, before it gives the answer under the lock.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    /// One without an answer.
    ///
    /// # Safety
    /// The payload is mapped memory of `capacity` initialized bytes. It stays so, and nobody but
    /// the reply under way uses it, until that reply has given its answer.
    pub(crate) unsafe fn new(payload: NonNull<u8>, capacity: usize) -> Self {
        Self { payload, capacity, answer: Mutex::default(), given: Condvar::new() }
    }

    /// The payload, for the one reply.
    ///
    /// # Safety
    /// The caller is the only reply of the message under way, and the message is no WRITE.
    #[expect(clippy::mut_from_ref, reason = "the reply is its only user")]
    pub(crate) unsafe fn payload(&self) -> &mut [u8] {
        // SAFETY: memory of the worker, mapped with this length and filled with zeros at first; the
        // caller is its only user.
        unsafe { std::slice::from_raw_parts_mut(self.payload.as_ptr(), self.capacity) }
    }

    /// Gives the answer.
    pub(crate) fn give(&self, answer: Answer) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        self.given.notify_one();
    }

    /// Waits for the answer.
    pub(crate) fn wait(&self) -> Answer {
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match answer.take() {
                Some(answer) => return answer,
                None => answer = self.given.wait(answer).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
