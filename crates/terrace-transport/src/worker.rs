//! A worker of a queue of io_uring: a thread's ring with its one entry.
//!
//! With a keeper, each worker has a seat in the ledger, and its entry lies there. A successor's
//! worker goes on with what the one before it on the seat left. The kernel (6.14 to 6.18) keeps a
//! request that it delivered to an entry until that is answered with a commit, by whomever, and
//! copies the answer from that entry's memory. Afterwards the entry is the committing worker's.
//!
//! | left in the entry | what the worker does |
//! |---|---|
//! | a message without an answer | carries it out by what was noted of it, and commits the answer |
//! | a message with its answer | commits that; if the kernel has it, registers the entry anew |
//! | nothing | registers the entry anew |
//!
//! Invariants:
//! * Between the delivery of a message and the commit of its answer, the worker and the
//!   [`Reply`] own the entry's memory: the reply alone writes to the payload, and the worker reads
//!   the answer's length once it is given.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{opcode, types::Fd};
use zerocopy::{FromBytes, IntoBytes};

use crate::abi::{InHeader, ReadIn, UringCommand};
use crate::connection::{Connection, FileSystem};
use crate::entry::{EntryMemory, Left};
use crate::interrupts;
use crate::kind::Message;
use crate::ledger::{RESENT, UnderWay};
use crate::load::{Counted, Load};
use crate::planted::{Bug, Step, planted, step};
use crate::reply::Reply;
use crate::slot::Slot;
#[cfg(feature = "planted")]
use crate::stand_in::StandIn;
use crate::tripwire;
use crate::uring::{IoRing, new_ring};

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Whether the connection has ended: the file system was unmounted, or the kernel told to drop it.
pub(crate) fn has_ended(error: &io::Error) -> bool {
    let ends = [libc::ENOTCONN, libc::ECANCELED, libc::ECONNABORTED, libc::ENODEV];
    error.raw_os_error().is_some_and(|errno| ends.contains(&errno))
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The kernel keeps the entry until there is a message.
    Kept,
    /// A message was delivered.
    Delivered,
    /// There is no such request.
    NoRequest,
}

impl Outcome {
    /// That of a command with this result; `None`: it has none yet.
    fn of(result: Option<i32>) -> io::Result<Outcome> {
        match result {
            None => Ok(Outcome::Kept),
            Some(0) => Ok(Outcome::Delivered),
            Some(refused) if refused == -libc::ENOENT => Ok(Outcome::NoRequest),
            Some(refused) => Err(io::Error::from_raw_os_error(-refused)),
        }
    }
}

/// Whether a command ended with a message; false: the connection has ended.
fn is_message(result: i32) -> io::Result<bool> {
    if result == 0 {
        return Ok(true);
    }
    let error = io::Error::from_raw_os_error(-result);
    if has_ended(&error) { Ok(false) } else { Err(error) }
}

/// A thread's way to the kernel.
#[cfg_attr(feature = "planted", expect(clippy::large_enum_variant, reason = "one each thread"))]
enum Way {
    Ring(Ring),
    /// In a test that plays the kernel.
    #[cfg(feature = "planted")]
    StandIn(StandIn),
}

impl Way {
    #[cfg_attr(not(feature = "planted"), expect(unused_variables, reason = "rings have no seat"))]
    fn new(connection: &Connection, queue: u16, seat: usize) -> io::Result<Way> {
        #[cfg(feature = "planted")]
        if let Some(stand_in) = StandIn::of(seat) {
            return Ok(Way::StandIn(stand_in));
        }
        Ring::new(connection, queue).map(Way::Ring)
    }

    /// Sends a command with the next wait.
    fn push(&mut self, command: u32, commit_id: u64) {
        match self {
            Way::Ring(ring) => ring.push(command, commit_id, None),
            #[cfg(feature = "planted")]
            Way::StandIn(stand_in) => {
                stand_in.push(command, commit_id, None, false).expect("a test that listens")
            }
        }
    }

    /// Sends a command, and looks what came of it at once.
    fn ask(
        &mut self,
        command: u32,
        commit_id: u64,
        iovecs: Option<&[libc::iovec; 2]>,
    ) -> io::Result<Outcome> {
        match self {
            Way::Ring(ring) => ring.ask(command, commit_id, iovecs),
            #[cfg(feature = "planted")]
            Way::StandIn(stand_in) => Outcome::of(stand_in.ask(command, commit_id, iovecs)?),
        }
    }

    /// Waits for the next message; false: the connection has ended.
    fn wait(&mut self) -> io::Result<bool> {
        match self {
            Way::Ring(ring) => ring.wait(),
            #[cfg(feature = "planted")]
            Way::StandIn(stand_in) => is_message(stand_in.result()?),
        }
    }
}

/// A thread's ring.
struct Ring {
    ring: IoRing,
    device: Arc<OwnedFd>,
    queue: u16,
}

impl Ring {
    /// With a keeper, all that the kernel gives to this ring is delivered.
    fn new(connection: &Connection, queue: u16) -> io::Result<Ring> {
        let mut ring = new_ring()?;
        if connection.ledger.is_some() {
            let wait = tripwire::wait_for_nothing()?;
            // SAFETY: it names no memory.
            unsafe { ring.submission().push(&wait) }.expect("the first entry");
            ring.submit()?;
        }
        Ok(Ring { ring, device: Arc::clone(&connection.device), queue })
    }

    fn push(&mut self, command: u32, commit_id: u64, iovecs: Option<&[libc::iovec; 2]>) {
        let request = UringCommand { flags: 0, commit_id, qid: self.queue, padding: [0; 3] };
        let mut bytes = [0; 80];
        bytes[..size_of::<UringCommand>()].copy_from_slice(request.as_bytes());
        let fd = Fd(self.device.as_raw_fd());
        let address = iovecs.map(|iovecs| iovecs.as_ptr() as u64);
        let mut entry = opcode::UringCmd80::new(fd, command).cmd(bytes).addr(address).build();
        // SAFETY: an entry is the kernel's structure of 128 bytes, with the number of iovecs, which
        // the library has no setter for, at byte 24.
        unsafe { (&raw mut entry).cast::<u8>().add(24).cast::<u32>().write(2) };
        // SAFETY: the kernel reads iovecs while they are borrowed: only `ask` hands some over. The
        // memory that they name lives as long as the ring.
        unsafe { self.ring.submission().push(&entry) }.expect("one entry at a time");
    }

    /// Sends a command, and looks what came of it at once.
    fn ask(
        &mut self,
        command: u32,
        commit_id: u64,
        iovecs: Option<&[libc::iovec; 2]>,
    ) -> io::Result<Outcome> {
        self.push(command, commit_id, iovecs);
        self.ring.submit()?;
        Outcome::of(self.next_result())
    }

    /// What came of the last command, if it is over.
    fn next_result(&mut self) -> Option<i32> {
        let mut completed = self.ring.completion();
        completed.find(|done| done.user_data() != tripwire::MARK).map(|done| done.result())
    }

    /// Waits for the next message; false: the connection has ended.
    fn wait(&mut self) -> io::Result<bool> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if let Some(result) = self.next_result() {
                return is_message(result);
            }
        }
    }
}

/// See the module.
pub(crate) struct Worker {
    way: Way,
    memory: EntryMemory,
    slot: Arc<Slot>,
    /// A message was delivered already.
    has_message: bool,
    /// A daemon before this one had it, too.
    is_again: bool,
    _counted: Counted,
}

impl Worker {
    /// A worker of the queue, with this seat in the ledger.
    pub(crate) fn new(connection: &Connection, queue: u16, seat: usize) -> io::Result<Worker> {
        let way = Way::new(connection, queue, seat)?;
        let bytes = connection.message_bytes_max;
        let memory = match connection.ledger {
            Some(ledger) => EntryMemory::kept(ledger, seat, bytes)?,
            None => EntryMemory::new(bytes)?,
        };
        // SAFETY: the worker drops its memory after its last message was answered, and until then
        // leaves the payload to the reply under way.
        let slot = Arc::new(unsafe { Slot::new(memory.payload, memory.payload_bytes) });
        let buffer_bytes = EntryMemory::buffer_bytes(bytes);
        let share = Load { workers: 1, entries: 1, buffer_bytes, ..Load::default() };
        let _counted = connection.load.add(share);
        Ok(Worker { way, memory, slot, has_message: false, is_again: false, _counted })
    }

    /// Whether a daemon before this one left a message without an answer.
    pub(crate) fn has_left_message(&self) -> bool {
        matches!(self.memory.left(), Left::Delivered(_) | Left::Taken(_))
    }

    /// Hands the entry to the kernel, or goes on with what is left in it.
    pub(crate) fn stand(mut self) -> io::Result<Worker> {
        let outcome = match self.memory.left() {
            Left::Delivered(_) if planted(Bug::DeliveryIgnored) => Outcome::NoRequest,
            Left::Answered(_) if planted(Bug::AnswerIgnored) => Outcome::NoRequest,
            Left::Delivered(_) | Left::Taken(_) => {
                (self.has_message, self.is_again) = (true, true);
                return Ok(self);
            }
            Left::Answered(id) => {
                self.memory.store();
                self.way.ask(COMMIT_AND_FETCH, id, None)?
            }
            Left::Nothing => Outcome::NoRequest,
        };
        let outcome = match outcome {
            Outcome::NoRequest => self.way.ask(REGISTER, 0, Some(&self.memory.iovecs))?,
            outcome => outcome,
        };
        self.has_message = outcome == Outcome::Delivered;
        Ok(self)
    }

    /// Waits for the next message; false: the connection has ended.
    pub(crate) fn wait(&mut self) -> io::Result<bool> {
        if std::mem::take(&mut self.has_message) {
            return Ok(true);
        }
        match self.way.wait() {
            // Somebody has answered the request: the entry must be known to the kernel again.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                match self.way.ask(REGISTER, 0, Some(&self.memory.iovecs))? {
                    Outcome::Delivered => Ok(true),
                    Outcome::Kept | Outcome::NoRequest => self.way.wait(),
                }
            }
            result => result,
        }
    }

    /// The process that waits for an answer to the message.
    pub(crate) fn client(&self) -> u32 {
        self.delivered().pid
    }

    /// The message, if it is a READ.
    pub(crate) fn read(&self) -> Option<ReadIn> {
        if self.delivered().opcode != Message::Read.opcode() {
            return None;
        }
        let headers = self.memory.headers();
        Some(ReadIn::read_from_prefix(&headers.op_in).expect("long enough").0)
    }

    /// The header of the message, before it is taken.
    fn delivered(&self) -> InHeader {
        let headers = self.memory.headers();
        InHeader::read_from_prefix(&headers.in_out).expect("long enough").0
    }

    /// Answers the message in the entry, and asks for the next one.
    pub(crate) fn answer(&mut self, connection: &Connection, fs: &impl FileSystem) {
        let ledger = connection.ledger;
        let is_again = std::mem::take(&mut self.is_again);
        ledger.iter().for_each(|ledger| ledger.next_message());
        self.memory.take();
        let header = self.memory.header();
        step(Step::Taken);
        let unique = header.unique | if is_again { RESENT } else { 0 };
        interrupts::begin(&InHeader { unique, ..header });
        let under_way = ledger.and_then(|ledger| ledger.enter(unique, header.opcode));
        let is_write = header.opcode == Message::Write.opcode();
        let reply = Reply::over_ring(Arc::clone(&self.slot), is_write, under_way);
        connection.carry_out(&header, self.memory.message(), (reply, under_way), fs);
        let answer = self.slot.wait();
        step(Step::Answer);
        under_way.iter().for_each(UnderWay::will_be_answered);
        self.memory.note(&answer);
        step(Step::Commit);
        self.memory.store();
        // From here on, a successor commits what was noted.
        under_way.into_iter().for_each(UnderWay::is_answered);
        self.way.push(COMMIT_AND_FETCH, header.unique);
    }
}
