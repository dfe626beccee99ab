//! The memory of an entry of a ring: headers, what became of the message, its payload, and a copy
//! of the message, whose place the answer may take.
//!
//! With a keeper, it lies in the ledger, at the same address in every daemon of the mount: the
//! kernel copies an answer from the addresses that it was given for the entry, whoever commits it.
//! So a successor can answer what a daemon before it left ([`Left`]).
//!
//! The kernel fails a request with EINTR if it meets a page that is not there when the daemon has
//! been killed and has not ended yet. So all pages are there from the beginning, with a keeper.
//!
//! Invariants:
//! * The kernel owns headers and payload from the registration of the entry, or from the commit of
//!   an answer, until the next message is delivered.
//! * Once [`EntryMemory::take`] has returned, the copy and, of a WRITE, the payload hold the
//!   message until an answer is noted.
//! * Once an answer is noted, state and payload hold it until it is committed.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{EntryHeaders, InHeader, OutHeader, WriteIn};
use crate::kind::Message;
use crate::ledger::{Ledger, MESSAGE_AT};
use crate::planted::{AtomicU64, Bug, Step, planted, step};
use crate::request::{Caller, Malformed, Operation, Request, decode};
use crate::slot::Answer;

/// Offset of the message's fate ([`State`]).
const STATE_AT: usize = 1024;
/// Offset of the payload, which begins on a page of its own.
const PAYLOAD_AT: usize = 4096;
/// Bytes of a copy beside those of the payload.
const COPY_MORE: usize = size_of::<InHeader>() + 128;

/// The fate of the message: whether it was copied, and its answer.
#[repr(C)]
struct State {
    /// The message that was copied.
    taken: AtomicU64,
    payload_len: AtomicU64,
    /// The message whose answer follows.
    answered: AtomicU64,
    error: AtomicU64,
    len: AtomicU64,
    small: [AtomicU64; 2],
}

const _: () = assert!(size_of::<EntryHeaders>() <= STATE_AT);
// A successor that looks there for a FORGET that was read finds none.
const _: () = assert!(STATE_AT + size_of::<State>() <= MESSAGE_AT);

/// The rest that a dead daemon left in an entry. The numbers are those of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// No message was ever delivered.
    Nothing,
    /// A message that the kernel waits for the answer of, and that was not copied.
    Delivered(u64),
    /// One that was copied. It may have been carried out.
    Taken(u64),
    /// One with its answer, which the kernel may have.
    Answered(u64),
}

impl Left {
    fn of(delivered: u64, taken: u64, answered: u64) -> Left {
        match delivered {
            0 => Left::Nothing,
            id if answered == id => Left::Answered(id),
            id if taken == id => Left::Taken(id),
            id => Left::Delivered(id),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct EntryMemory {
    headers: NonNull<EntryHeaders>,
    pub payload: NonNull<u8>,
    pub payload_bytes: usize,
    is_kept: bool,
    /// Headers and payload, as the kernel is told of them.
    pub iovecs: Box<[libc::iovec; 2]>,
}

// SAFETY: the memory belongs to the one who has this; nothing of it is bound to a thread.
unsafe impl Send for EntryMemory {}

impl EntryMemory {
    /// Bytes of one with payloads of so many bytes.
    pub(crate) const fn bytes(payload_bytes: usize) -> usize {
        PAYLOAD_AT + 2 * payload_bytes + COPY_MORE
    }

    /// Those of headers and payload.
    pub(crate) const fn buffer_bytes(payload_bytes: usize) -> usize {
        PAYLOAD_AT + payload_bytes
    }

    /// Memory of this process.
    pub(crate) fn new(payload_bytes: usize) -> io::Result<Self> {
        let (len, flags) = (Self::bytes(payload_bytes), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping, at no particular address.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), len, flags, MapFlags::PRIVATE)? };
        let start = NonNull::new(start.cast::<u8>()).expect("a mapping");
        // SAFETY: the mapping is that long, and this is its only user.
        Ok(unsafe { Self::at(start, payload_bytes, false) })
    }

    /// That of the calling thread, which gets the seat with this number.
    ///
    /// # Errors
    /// The ledger has no such seat; the system has no memory.
    ///
    /// # Panics
    /// If payloads are longer than the ledger has room for.
    pub(crate) fn kept(ledger: &Ledger, seat: usize, payload_bytes: usize) -> io::Result<Self> {
        let buffer = ledger.sit_down(seat)?;
        assert!(Self::bytes(payload_bytes) <= buffer.len());
        let start = NonNull::from(buffer).cast();
        // SAFETY: the ledger has so much there, on a page, and this thread is its only user.
        let memory = unsafe { Self::at(start, payload_bytes, true) };
        memory.populate()?;
        Ok(memory)
    }

    /// # Safety
    /// So much is mapped there, page by page, and nobody else uses it.
    unsafe fn at(start: NonNull<u8>, payload_bytes: usize, is_kept: bool) -> Self {
        // SAFETY: within the memory.
        let payload = unsafe { start.add(PAYLOAD_AT) };
        let part =
            |at: NonNull<u8>, len| libc::iovec { iov_base: at.as_ptr().cast(), iov_len: len };
        let iovecs =
            Box::new([part(start, size_of::<EntryHeaders>()), part(payload, payload_bytes)]);
        Self { headers: start.cast(), payload, payload_bytes, is_kept, iovecs }
    }

    /// Has the pages of headers and payload there, for as long as this process lives.
    fn populate(&self) -> io::Result<()> {
        let (start, len) = (self.headers.as_ptr().cast(), Self::buffer_bytes(self.payload_bytes));
        // SAFETY: within the mapping; pages keep what they hold.
        unsafe {
            madvise(start, len, Advice::LinuxPopulateWrite)?;
            // Without the right to lock memory it works, too, as long as nothing is swapped out.
            let _ = mlock(start, len);
        }
        Ok(())
    }

    /// The headers as they stand.
    pub(crate) fn headers(&self) -> EntryHeaders {
        // SAFETY: mapped, aligned, and any bytes are headers. The kernel may be writing them, if
        // no message was delivered: the caller then looks at nothing but the message's number.
        unsafe { self.headers.as_ptr().read_volatile() }
    }

    fn state(&self) -> &State {
        // SAFETY: within the first page, aligned, all atomic, and any bytes are a state.
        unsafe { self.headers.cast::<u8>().add(STATE_AT).cast::<State>().as_ref() }
    }

    fn payload(&self) -> &[u8] {
        // SAFETY: mapped; a message was delivered, and no answer has been given yet.
        unsafe { std::slice::from_raw_parts(self.payload.as_ptr(), self.payload_bytes) }
    }

    fn copy(&self) -> &[u8] {
        // SAFETY: mapped behind the payload, and written by `take` alone, which has the whole.
        unsafe {
            let start = self.payload.add(self.payload_bytes);
            std::slice::from_raw_parts(start.as_ptr(), self.payload_bytes + COPY_MORE)
        }
    }

    fn copy_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; nobody else has a part of it.
        unsafe {
            let start = self.payload.add(self.payload_bytes);
            std::slice::from_raw_parts_mut(start.as_ptr(), self.payload_bytes + COPY_MORE)
        }
    }

    /// Copies the message that was delivered, but for the data of a WRITE, unless a daemon before
    /// this one has.
    pub(crate) fn take(&mut self) {
        let headers = self.headers();
        if matches!(self.left(), Left::Taken(_)) {
            return;
        }
        let payload_len = (headers.payload_sz as usize).min(self.payload_bytes);
        let head = size_of::<InHeader>();
        let (header, _) = InHeader::read_from_prefix(&headers.in_out).expect("long enough");
        let op_len = op_len(&header, payload_len);
        if planted(Bug::TakenNotedEarly) {
            self.state().taken.store(headers.commit_id, Ordering::Release);
            step(Step::Change);
        }
        // SAFETY: mapped, and apart from the copy.
        let payload = unsafe { std::slice::from_raw_parts(self.payload.as_ptr(), payload_len) };
        let copy = self.copy_mut();
        copy[..head].copy_from_slice(&headers.in_out[..head]);
        copy[head..head + op_len].copy_from_slice(&headers.op_in[..op_len]);
        if header.opcode != Message::Write.opcode() {
            copy[head + op_len..][..payload_len].copy_from_slice(payload);
        }
        self.state().payload_len.store(payload_len as u64, Ordering::Relaxed);
        self.state().taken.store(headers.commit_id, Ordering::Release);
    }

    /// The header of the message that was taken.
    pub(crate) fn header(&self) -> InHeader {
        InHeader::read_from_prefix(self.copy()).expect("long enough").0
    }

    /// The message that was taken.
    pub(crate) fn message(&self) -> Result<Request<'_>, Malformed> {
        let header = self.header();
        let payload_len = self.state().payload_len.load(Ordering::Relaxed) as usize;
        let op_len = op_len(&header, payload_len);
        let body = &self.copy()[size_of::<InHeader>()..];
        if header.opcode != Message::Write.opcode() {
            return decode(&header, &body[..op_len + payload_len]);
        }
        let malformed = Malformed::Body(Message::Write);
        let (write, _) = WriteIn::ref_from_prefix(&body[..op_len]).map_err(|_| malformed)?;
        let data = self.payload()[..payload_len].get(..write.size as usize).ok_or(malformed)?;
        let caller = Caller { uid: header.uid, gid: header.gid, pid: header.pid };
        Ok(Request { ino: header.nodeid, caller, operation: Operation::Write(write, data) })
    }

    /// Notes the answer to the message that was taken.
    pub(crate) fn note(&self, answer: &Answer) {
        let state = self.state();
        state.error.store(u64::from(answer.error.cast_unsigned()), Ordering::Relaxed);
        state.len.store(answer.len as u64, Ordering::Relaxed);
        let (first, second) = answer.small.split_at(8);
        for (word, bytes) in state.small.iter().zip([first, second]) {
            let bytes = <[u8; 8]>::try_from(bytes).expect("8 bytes");
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
        if !planted(Bug::AnswerNotNoted) {
            state.answered.store(state.taken.load(Ordering::Relaxed), Ordering::Release);
        }
    }

    /// Stores the answer that was noted where the kernel looks for it.
    pub(crate) fn store(&mut self) {
        let state = self.state();
        let error = (state.error.load(Ordering::Relaxed) as u32).cast_signed();
        let len = state.len.load(Ordering::Relaxed) as usize;
        let small = [0, 1].map(|word| state.small[word].load(Ordering::Relaxed).to_ne_bytes());
        let header = self.header();
        let unique = header.unique;
        let out = OutHeader { len: (size_of::<OutHeader>() + len) as u32, error, unique };
        // SAFETY: mapped, and nobody else uses the entry: the answer was given, and is not
        // committed yet.
        let (headers, payload) = unsafe {
            let payload = std::slice::from_raw_parts_mut(self.payload.as_ptr(), self.payload_bytes);
            (self.headers.as_mut(), payload)
        };
        headers.in_out[..size_of::<OutHeader>()].copy_from_slice(out.as_bytes());
        headers.payload_sz = len as u32;
        if header.opcode == Message::Write.opcode() {
            payload[..len].copy_from_slice(&small.concat()[..len]);
        }
    }

    /// The rest that a daemon before this one left.
    pub(crate) fn left(&self) -> Left {
        let state = self.state();
        let (taken, answered) = (&state.taken, &state.answered);
        Left::of(
            self.headers().commit_id,
            taken.load(Ordering::Acquire),
            answered.load(Ordering::Acquire),
        )
    }
}

/// Bytes of a message between its header and its payload.
fn op_len(header: &InHeader, payload_len: usize) -> usize {
    (header.len as usize).saturating_sub(size_of::<InHeader>() + payload_len).min(128)
}

impl Drop for EntryMemory {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        let len = Self::bytes(self.payload_bytes);
        // SAFETY: the whole mapping, which nobody uses any more: the ring is closed, and the reply
        // has been given.
        let unmapped = unsafe { rustix::mm::munmap(self.headers.as_ptr().cast(), len) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers a message as the kernel does.
    fn deliver(entry: &mut EntryMemory, id: u64, kind: Message, op: &[u8], payload: &[u8]) {
        let len = size_of::<InHeader>() + op.len() + payload.len();
        let header = InHeader {
            len: len as u32,
            opcode: kind.opcode(),
            unique: id,
            nodeid: 7,
            ..InHeader::default()
        };
        // SAFETY: the test is the only user.
        unsafe {
            let headers = entry.headers.as_mut();
            headers.in_out[..size_of::<InHeader>()].copy_from_slice(header.as_bytes());
            headers.op_in[..op.len()].copy_from_slice(op);
            headers.payload_sz = payload.len() as u32;
            headers.commit_id = id;
            entry.payload.copy_from_nonoverlapping(NonNull::from(payload).cast(), payload.len());
        }
    }

    #[test]
    fn what_is_left_follows_from_three_numbers() {
        assert_eq!(Left::of(0, 0, 0), Left::Nothing);
        assert_eq!(Left::of(8, 6, 6), Left::Delivered(8));
        assert_eq!(Left::of(8, 8, 6), Left::Taken(8));
        assert_eq!(Left::of(8, 8, 8), Left::Answered(8));
    }

    #[test]
    fn a_message_survives_until_it_has_an_answer_and_the_answer_after_that() {
        let mut entry = EntryMemory::new(8192).unwrap();
        assert_eq!(entry.left(), Left::Nothing);
        for id in [4, 6] {
            deliver(&mut entry, id, Message::Unlink, &[], b"name\0");
            assert_eq!(entry.left(), Left::Delivered(id));
            entry.take();
            // SAFETY: the test is the only user; a reply writes its answer there.
            unsafe { entry.payload.write_bytes(0xff, 64) };
            assert_eq!(entry.left(), Left::Taken(id));
            entry.take();
            let request = entry.message().unwrap();
            assert!(matches!(request.operation, Operation::Unlink { name: b"name" }));
            assert_eq!((request.ino, entry.header().unique), (7, id));
            entry.note(&Answer { error: -2, len: 0, small: [0; 16] });
            assert_eq!(entry.left(), Left::Answered(id));
            entry.store();
            let (out, _) = OutHeader::read_from_prefix(&entry.headers().in_out).unwrap();
            assert_eq!((out.len, out.error, out.unique), (16, -2, id));
        }
    }

    #[test]
    fn data_of_a_write_stays_where_it_is_until_the_answer() {
        let mut entry = EntryMemory::new(8192).unwrap();
        let write = WriteIn { size: 5, ..WriteIn::default() };
        deliver(&mut entry, 4, Message::Write, write.as_bytes(), b"bytes");
        entry.take();
        assert_eq!(entry.left(), Left::Taken(4));
        let request = entry.message().unwrap();
        assert!(matches!(request.operation, Operation::Write(_, b"bytes")), "{request:?}");
        entry.note(&Answer { error: 0, len: 8, small: *b"12345678--------" });
        entry.store();
        assert_eq!(entry.payload()[..8], *b"12345678");
        let (out, _) = OutHeader::read_from_prefix(&entry.headers().in_out).unwrap();
        assert_eq!((out.len, out.error, entry.headers().payload_sz), (24, 0, 8));
    }
}
