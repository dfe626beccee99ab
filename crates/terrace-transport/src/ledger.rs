//! Memory that outlives the daemon, for the one that takes its connection up: requests under way,
//! lookups that the kernel has not taken back, and the buffers of threads: a message from
//! `/dev/fuse` is read into it, or it is the entry of a ring ([`EntryMemory`]).
//!
//! The keeper makes it before it starts a daemon, and each daemon is a fork of the keeper, or a
//! program that maps the same file ([`Ledger::of`]).
//!
//! A daemon can die between any two instructions. The successor has the kernel hand out again every
//! request that has no answer ([`Session::take_up`](crate::Session::take_up)), or finds it in the
//! entry of a ring. Messages that have none, FORGETs, do not come again: the successor carries them
//! out from the buffers of the dead threads ([`Ledger::inherit`]).
//!
//! Invariants:
//! * A record belongs to the request with its `unique`, from when the request is taken until after
//!   its answer. A record whose request was answered right before the daemon died stays in use
//!   until its place is needed.
//! * A seat belongs to one thread.
//! * A word of lookups is never lower than the kernel's count: lookups are counted before an entry
//!   is answered, and taken back after the thread has noted that it does so.
//!
//! [`EntryMemory`]: crate::entry::EntryMemory

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, fstat, ftruncate, memfd_create};
use rustix::io::pread;
use rustix::mm::mlock;
#[cfg(feature = "planted")]
use rustix::mm::{Advice, madvise};

use crate::abi::{InHeader, InitFlags, WriteIn};
use crate::kind::Message;
use crate::planted::{AtomicU32, AtomicU64, Bug, planted};
use crate::request::{Operation, decode, split};

pub use self::note::NOTE_BYTES_MAX;
use self::note::Note;
pub use self::record::Past;
pub(crate) use self::record::Record;

mod memory;
mod note;
mod record;

/// Number of this layout. It changes with every structure and constant below, with the meaning of a
/// field, and with that of a note or an effect of the file system: programs with another number
/// must not use the memory.
pub const LEDGER_LAYOUT: u32 = 3;

/// Records of requests: more than the kernel has under way in the background and threads take.
const RECORDS: usize = 8192;
/// Threads with neighbouring seats look for free records so far from each other.
const RECORDS_APART: usize = 67;
/// Threads that have a place of their own.
pub const SEATS_MAX: usize = 16_384;
/// Entries that the longest answer to READDIRPLUS holds, and more.
const ENTRIES_MAX: usize = 8192;
/// Inode numbers that have words of lookups and of the file system.
const INODES_MAX: u64 = 1 << 37;

const RECORDS_AT: usize = 64 << 10;
const SEATS_AT: usize = 1 << 20;
const SEAT_BYTES: usize = 4 << 20;
/// Where the buffer of a seat begins.
const BUFFER_AT: usize = 128 << 10;
/// Where a message begins in a buffer, which begins on a page: so that the data of a WRITE does,
/// too.
pub(crate) const MESSAGE_AT: usize = 4096 - size_of::<InHeader>() - size_of::<WriteIn>();
const LOOKUPS_AT: usize = SEATS_AT + SEATS_MAX * SEAT_BYTES;
const WORDS_AT: usize = LOOKUPS_AT + (INODES_MAX * 8) as usize;
const BYTES: usize = WORDS_AT + (INODES_MAX * 8) as usize;

/// The `unique` of a record that a thread is taking.
const TAKING: u64 = u64::MAX;
/// Set in the number of a request that comes again.
pub(crate) const RESENT: u64 = 1 << 63;
/// Set in a word of lookups: the inode may get a first name.
const LINKABLE: u64 = 1 << 63;

#[repr(C)]
struct Head {
    /// Which daemon serves: 1 is the first.
    life: AtomicU32,
    /// Whether this daemon, or one before it that the keeper has not counted, answered anything.
    answered: AtomicU32,
    /// The flags of INIT.
    flags: AtomicU64,
    /// Seats that were ever taken: a look at others would cost memory.
    seats: AtomicU32,
    /// Which of the two notes counts.
    note_turn: AtomicU32,
    notes: [Note; 2],
    /// The address at which the first program has mapped it.
    address: AtomicU64,
    /// Over io_uring: workers of a queue.
    depth: AtomicU32,
}

/// What a thread keeps beside its buffer.
#[repr(C)]
struct Seat {
    /// Inodes of the FORGET in the buffer that were forgotten already.
    forgotten: AtomicU64,
    /// Inodes looked up for the answer under way.
    looked_up: AtomicU64,
    inodes: [AtomicU64; ENTRIES_MAX],
    /// Of a queue's first worker: 1 if the queue has all of its workers.
    is_whole: AtomicU32,
}

const _: () = assert!(size_of::<Head>() <= RECORDS_AT);
const _: () = assert!(RECORDS_AT + RECORDS * size_of::<Record>() <= SEATS_AT);
const _: () = assert!(size_of::<Seat>() <= BUFFER_AT);

thread_local! {
    /// The seat of this thread, and the request that it serves.
    static HERE: Cell<(Option<&'static Seat>, Option<&'static Record>)> =
        const { Cell::new((None, None)) };
    /// What a planted bug notes later.
    static LATE: Cell<Option<(u32, u64)>> = const { Cell::new(None) };
}

/// The record of the request that this thread serves. Safe in a signal handler.
pub(crate) fn record_of_thread() -> Option<&'static Record> {
    HERE.try_with(|here| here.get().1).ok().flatten()
}

/// See the module.
#[derive(Debug)]
pub struct Ledger {
    memory: NonNull<u8>,
    file: OwnedFd,
}

// SAFETY: all of the memory is atomic, but for buffers, which belong to one thread each, and notes,
// which are written under a lock and read by one thread before there are others.
unsafe impl Send for Ledger {}
// SAFETY: as above.
unsafe impl Sync for Ledger {}

impl Ledger {
    /// An empty one, for the life of this process and of its forks.
    ///
    /// # Errors
    /// The system gives no memory: 2 TiB of addresses, of which little is ever used.
    pub fn new() -> io::Result<&'static Ledger> {
        let file = memfd_create("terrace-ledger", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, BYTES as u64)?;
        let memory = memory::map(&file, BYTES, None)?;
        let ledger = Box::leak(Box::new(Ledger { memory, file }));
        ledger.head().address.store(ledger.address(), Ordering::Release);
        Ok(ledger)
    }

    /// The one in this file, which a program with the same [`LEDGER_LAYOUT`] has made.
    ///
    /// # Errors
    /// As [`Ledger::new`]; the file has another length; the mount is over io_uring, and this
    /// program has something else where the memory must be.
    pub fn of(file: OwnedFd) -> io::Result<&'static Ledger> {
        if u64::try_from(fstat(&file)?.st_size) != Ok(BYTES as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "this file is no ledger"));
        }
        let mut address = [0; 8];
        pread(&file, &mut address, std::mem::offset_of!(Head, address) as u64)?;
        let address = usize::try_from(u64::from_ne_bytes(address)).ok();
        let memory = memory::map(&file, BYTES, address)?;
        let ledger = Box::leak(Box::new(Ledger { memory, file }));
        let is_elsewhere = ledger.head().address.load(Ordering::Acquire) != ledger.address();
        if is_elsewhere && ledger.flags().contains(InitFlags::OVER_IO_URING) {
            return Err(io::Error::other("its addresses are taken in this program; try again"));
        }
        Ok(ledger)
    }

    fn address(&self) -> u64 {
        self.memory.addr().get() as u64
    }

    /// The file of its memory.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The structure at this byte.
    ///
    /// # Safety
    /// `T` is all atomic or in cells, any bytes are a value of it, and it lies within the memory,
    /// aligned.
    unsafe fn at<T>(&self, byte: usize) -> &'static T {
        debug_assert!(byte + size_of::<T>() <= BYTES && byte.is_multiple_of(align_of::<T>()));
        // SAFETY: the memory is mapped as long as the process lives; the rest is the caller's.
        unsafe { self.memory.add(byte).cast::<T>().as_ref() }
    }

    fn head(&self) -> &'static Head {
        // SAFETY: atomics and cells of bytes, at the beginning.
        unsafe { self.at(0) }
    }

    fn record(&self, index: usize) -> &'static Record {
        assert!(index < RECORDS);
        // SAFETY: all atomic, and within by the constants.
        unsafe { self.at(RECORDS_AT + index * size_of::<Record>()) }
    }

    fn seat(&self, number: usize) -> &'static Seat {
        assert!(number < SEATS_MAX);
        // SAFETY: all atomic, and within by the constants.
        unsafe { self.at(SEATS_AT + number * SEAT_BYTES) }
    }

    /// The word of an inode; `None`: its number is beyond all that are counted.
    fn lookups_of(&self, ino: u64) -> Option<&'static AtomicU64> {
        // SAFETY: atomic, and within by the bound.
        (ino < INODES_MAX).then(|| unsafe { self.at(LOOKUPS_AT + (ino * 8) as usize) })
    }

    fn word_of(&self, ino: u64) -> Option<&'static AtomicU64> {
        // SAFETY: atomic, and within by the bound.
        (ino < INODES_MAX).then(|| unsafe { self.at(WORDS_AT + (ino * 8) as usize) })
    }

    /// Whether a request was answered since this was asked last.
    pub fn take_answered(&self) -> bool {
        self.head().answered.swap(0, Ordering::AcqRel) != 0
    }

    /// Whether a request was answered since [`Self::take_answered`] was called last.
    pub fn has_answered(&self) -> bool {
        self.head().answered.load(Ordering::Acquire) != 0
    }

    /// Makes it empty again. No daemon must use it.
    ///
    /// # Errors
    /// The system's.
    #[cfg(feature = "planted")]
    pub fn clear(&self) -> io::Result<()> {
        // SAFETY: the whole mapping, of which nobody holds anything but atomics.
        unsafe { madvise(self.memory.as_ptr().cast(), BYTES, Advice::LinuxRemove)? };
        Ok(())
    }

    /// A request is about to be answered, or none waits for an answer.
    pub(crate) fn note_answer(&self) {
        let answered = &self.head().answered;
        if answered.load(Ordering::Relaxed) == 0 {
            answered.store(1, Ordering::Release);
        }
    }

    /// The first daemon begins to serve, with these flags of INIT.
    pub(crate) fn begin(&self, flags: InitFlags) {
        self.head().flags.store(flags.bits(), Ordering::Release);
        self.head().life.store(1, Ordering::Release);
    }

    /// The flags of INIT that the first daemon and the kernel agreed on.
    pub fn flags(&self) -> InitFlags {
        InitFlags::from_bits_retain(self.head().flags.load(Ordering::Acquire))
    }

    /// A successor takes over: what dead threads had read and not forgotten is forgotten, and
    /// lookups for answers that were never given are taken back. To be called once in a process,
    /// before anything of it uses the rest.
    pub fn inherit(&self) {
        self.head().life.fetch_add(1, Ordering::AcqRel);
        let taking = |record: &&Record| record.unique.load(Ordering::Acquire) == TAKING;
        let records = (0..RECORDS).map(|index| self.record(index));
        records.filter(taking).for_each(|record| record.unique.store(0, Ordering::Release));
        for number in 0..self.head().seats.load(Ordering::Acquire) as usize {
            let seat = self.seat(number);
            if planted(Bug::LookupsNotTakenBack) {
                seat.looked_up.store(0, Ordering::Release);
            }
            while let Some(last) = seat.looked_up.load(Ordering::Relaxed).checked_sub(1) {
                let ino = seat.inodes[last as usize].load(Ordering::Relaxed);
                seat.looked_up.store(last, Ordering::Release);
                self.take_back(ino, 1);
            }
            self.forget_what_was_read(number);
        }
    }

    /// Carries out the rest of a FORGET in a thread's buffer.
    fn forget_what_was_read(&self, number: usize) {
        // SAFETY: no thread of this process has a seat yet, and other processes have ended.
        let buffer = unsafe { self.buffer(number) };
        let start = &buffer[MESSAGE_AT..];
        let Ok(len) = <[u8; 4]>::try_from(&start[..4]).map(u32::from_ne_bytes) else { return };
        let Some(Ok((header, body))) = start.get(..len as usize).map(split) else { return };
        let kind = Message::from_opcode(header.opcode);
        if !matches!(kind, Some(Message::Forget | Message::BatchForget)) {
            return;
        }
        let done = || self.seat(number).forgotten.load(Ordering::Acquire) as usize;
        let forget = |ino, count| {
            self.seat(number).forgotten.fetch_add(1, Ordering::AcqRel);
            self.take_back(ino, count);
        };
        match decode(header, body).map(|request| (request.ino, request.operation)) {
            Ok((ino, Operation::Forget { lookups })) if done() == 0 => forget(ino, lookups),
            Ok((_, Operation::BatchForget(inodes))) => {
                inodes.iter().skip(done()).for_each(|one| forget(one.nodeid, one.nlookup))
            }
            _ => {}
        }
    }

    /// The buffer of a seat.
    ///
    /// # Safety
    /// The caller is the only one that uses it.
    unsafe fn buffer(&self, number: usize) -> &'static mut [u8] {
        assert!(number < SEATS_MAX);
        // SAFETY: within the memory by the constants, initialized by the system, and the caller's
        // alone.
        unsafe {
            let start = self.memory.add(SEATS_AT + number * SEAT_BYTES + BUFFER_AT);
            std::slice::from_raw_parts_mut(start.as_ptr(), SEAT_BYTES - BUFFER_AT)
        }
    }

    /// Gives the calling thread the seat with this number, and its buffer.
    ///
    /// # Errors
    /// There are fewer seats.
    pub(crate) fn sit_down(&self, number: usize) -> io::Result<&'static mut [u8]> {
        if number >= SEATS_MAX {
            return Err(io::Error::other(
                "the keeper has no room for so many threads: mount with fewer, or with -o nokeeper",
            ));
        }
        self.head().seats.fetch_max(number as u32 + 1, Ordering::AcqRel);
        HERE.set((Some(self.seat(number)), None));
        // SAFETY: threads are numbered, so the seat is this thread's alone.
        Ok(unsafe { self.buffer(number) })
    }

    /// As [`Self::sit_down`], for a thread that reads messages of so many bytes.
    ///
    /// # Errors
    /// There are fewer seats.
    ///
    /// # Panics
    /// If messages are longer than buffers.
    pub(crate) fn sit_down_to_read(
        &self,
        number: usize,
        bytes: usize,
    ) -> io::Result<&'static mut [u8]> {
        let buffer = &mut self.sit_down(number)?[..bytes];
        // A fork inherits no pages of shared memory. If the kernel met a page that is not there
        // while the daemon is being killed, it would fail the request.
        buffer.fill(0);
        // SAFETY: memory of this process. Without the right to lock memory it works, too, as long
        // as nothing of it is swapped out.
        let _ = unsafe { mlock(buffer.as_mut_ptr().cast(), buffer.len()) };
        Ok(buffer)
    }

    /// Over io_uring: how many workers a queue has in this daemon and in each after it.
    pub(crate) fn keep_depth(&self, depth: usize) -> usize {
        let new = u32::try_from(depth).unwrap_or(u32::MAX);
        let kept = &self.head().depth;
        match kept.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => depth,
            Err(depth) => depth as usize,
        }
    }

    /// Notes that the queue whose first worker has this seat has all of its workers.
    pub(crate) fn set_whole(&self, number: usize) {
        self.seat(number).is_whole.store(1, Ordering::Release);
    }

    /// Whether that was noted, by any daemon.
    pub(crate) fn is_whole(&self, number: usize) -> bool {
        let seats = self.head().seats.load(Ordering::Acquire) as usize;
        number < seats && self.seat(number).is_whole.load(Ordering::Acquire) != 0
    }

    /// The calling thread is about to read into its buffer, where no message stands any more.
    pub(crate) fn next_message(&self) {
        if let (Some(seat), _) = HERE.get() {
            seat.forgotten.store(0, Ordering::Release);
            seat.looked_up.store(0, Ordering::Release);
        }
    }

    /// The calling thread serves this request from now on. `None`: there are more requests than
    /// records, and this one would simply be carried out again.
    pub(crate) fn enter(&'static self, unique: u64, opcode: u32) -> Option<UnderWay> {
        let known = (unique & RESENT != 0).then(|| self.find(unique & !RESENT)).flatten();
        let record = known.or_else(|| self.claim(unique & !RESENT, opcode));
        if let Some(record) = record {
            record.life.store(self.head().life.load(Ordering::Relaxed), Ordering::Release);
        }
        HERE.set((HERE.get().0, record));
        record.map(|record| UnderWay { ledger: self, record, is_known: known.is_some() })
    }

    /// The calling thread does not serve its request any longer; the answer may come later.
    pub(crate) fn leave(&self) {
        HERE.set((HERE.get().0, None));
    }

    fn find(&self, unique: u64) -> Option<&'static Record> {
        let mut records = (0..RECORDS).map(|index| self.record(index));
        records.find(|record| record.unique.load(Ordering::Acquire) == unique)
    }

    fn claim(&self, unique: u64, opcode: u32) -> Option<&'static Record> {
        let life = self.head().life.load(Ordering::Relaxed);
        let take = |record: &Record, from| {
            let orders = (Ordering::AcqRel, Ordering::Relaxed);
            record.unique.compare_exchange(from, TAKING, orders.0, orders.1).is_ok()
        };
        let first = self.first_record();
        let all = || (0..RECORDS).map(|index| self.record((first + index) % RECORDS));
        let free = |record: &&Record| record.unique.load(Ordering::Relaxed) == 0 && take(record, 0);
        // Records of requests that were answered in the moment of a death.
        let left = |record: &&Record| {
            let of = record.unique.load(Ordering::Relaxed);
            of != TAKING && record.life.load(Ordering::Acquire) != life && take(record, of)
        };
        let record = all().find(free).or_else(|| all().find(left).inspect(|r| r.clear()))?;
        record.life.store(life, Ordering::Relaxed);
        record.opcode.store(opcode, Ordering::Relaxed);
        record.unique.store(unique, Ordering::Release);
        Some(record)
    }

    /// The first record at which the calling thread looks. Threads begin far from each other: each
    /// finds the one free that it gave back last, and none touches those of others.
    fn first_record(&self) -> usize {
        let Some(seat) = HERE.get().0 else { return 0 };
        let byte = std::ptr::from_ref(seat).addr().wrapping_sub(self.memory.addr().get());
        // An odd number, so that no two seats begin at the same record.
        (byte.wrapping_sub(SEATS_AT) / SEAT_BYTES).wrapping_mul(RECORDS_APART) % RECORDS
    }

    /// What the request of this thread is about to do, in the file system's words: to be told right
    /// before it is done.
    ///
    /// # Panics
    /// If the kind is 0.
    pub fn note_effect(&self, kind: u32, word: u64) {
        assert_ne!(kind, 0);
        if planted(Bug::EffectNotedLate) {
            LATE.set(Some((kind, word)));
        } else if let Some(record) = record_of_thread() {
            record.note(kind, word);
        }
    }

    /// What the request of this thread was about to do, if it has been told.
    pub fn noted_effect(&self) -> Option<(u32, u64)> {
        record_of_thread().and_then(Record::noted)
    }

    /// Lookups of an inode that the kernel has not taken back.
    pub fn lookups(&self, ino: u64) -> u64 {
        // One that is not counted may be open.
        self.lookups_of(ino).map_or(1, |word| word.load(Ordering::Acquire) & !LINKABLE)
    }

    /// The answer of the calling thread will name the inode: one lookup more.
    pub fn look_up(&self, ino: u64) {
        let Some(word) = self.lookups_of(ino) else { return };
        word.fetch_add(1, Ordering::AcqRel);
        let (Some(seat), _) = HERE.get() else { return };
        let len = seat.looked_up.load(Ordering::Relaxed);
        if let Some(place) = seat.inodes.get(len as usize) {
            place.store(ino, Ordering::Relaxed);
            seat.looked_up.store(len + 1, Ordering::Release);
        }
    }

    /// The kernel takes lookups back, as the message in the calling thread's buffer says; or the
    /// thread does, of the inode that it looked up last, which its answer will not name. Returns
    /// how many there were before.
    pub fn forget(&self, ino: u64, count: u64) -> u64 {
        let before = planted(Bug::ForgetMarkedLate).then(|| self.take_back(ino, count));
        if let (Some(seat), _) = HERE.get() {
            let last = seat.looked_up.load(Ordering::Relaxed).checked_sub(1);
            match last.filter(|&last| seat.inodes[last as usize].load(Ordering::Relaxed) == ino) {
                // A successor must not take it back once more.
                Some(last) => seat.looked_up.store(last, Ordering::Release),
                None => drop(seat.forgotten.fetch_add(1, Ordering::AcqRel)),
            }
        }
        before.unwrap_or_else(|| self.take_back(ino, count))
    }

    fn take_back(&self, ino: u64, count: u64) -> u64 {
        let Some(word) = self.lookups_of(ino) else { return u64::MAX };
        let less = |word: u64| match (word & !LINKABLE).saturating_sub(count) {
            0 => Some(0),
            left => Some(word & LINKABLE | left),
        };
        let noted = self.word(ino);
        let before = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, less);
        let before = before.unwrap_or_else(|before| before) & !LINKABLE;
        if before <= count && noted != 0 {
            // One that is looked up again by now, and opened, keeps what it has.
            self.change_word(ino, |word| (word == noted).then_some(0));
        }
        before
    }

    /// The word of the file system about an inode that the kernel knows. It is 0 in the beginning,
    /// and again when the kernel has forgotten the inode.
    pub fn word(&self, ino: u64) -> u64 {
        self.word_of(ino).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Changes that word, unless `change` gives `None`, and returns what it was before. `None`: it
    /// is not changed, or the number is beyond all that have a word.
    pub fn change_word(&self, ino: u64, change: impl FnMut(u64) -> Option<u64>) -> Option<u64> {
        self.word_of(ino)?.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok()
    }

    /// Whether an inode without names may get one.
    pub fn is_linkable(&self, ino: u64) -> bool {
        self.lookups_of(ino).is_some_and(|word| word.load(Ordering::Acquire) & LINKABLE != 0)
    }

    /// Notes whether an inode without names may get one, until it has no lookups any more.
    pub fn set_linkable(&self, ino: u64, linkable: bool) {
        let Some(word) = self.lookups_of(ino) else { return };
        match linkable {
            true => word.fetch_or(LINKABLE, Ordering::AcqRel),
            false => word.fetch_and(!LINKABLE, Ordering::AcqRel),
        };
    }
}

/// A request under way, with its record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnderWay {
    ledger: &'static Ledger,
    record: &'static Record,
    /// A daemon before this one took it, too.
    is_known: bool,
}

impl UnderWay {
    /// What was noted of it by a daemon before this one.
    pub fn past(&self) -> Option<Past> {
        if planted(Bug::NotesIgnored) {
            return None;
        }
        let outcome = self.record.outcome.load(Ordering::Acquire).checked_sub(1);
        self.is_known.then(|| Past { effect: self.record.noted(), outcome })
    }

    /// How many daemons died of it.
    pub fn killed(&self) -> u32 {
        self.record.blamed.load(Ordering::Acquire)
    }

    /// Notes what came of it.
    pub fn set_outcome(&self, outcome: u64) {
        self.record.outcome.store(outcome + 1, Ordering::Release);
    }

    /// Its answer is about to be sent: the daemon counts as one that answers, and lookups for the
    /// answer are the kernel's.
    pub fn will_be_answered(&self) {
        if planted(Bug::EffectNotedLate) {
            LATE.take().into_iter().for_each(|(kind, word)| self.record.note(kind, word));
        }
        self.ledger.note_answer();
        if let (Some(seat), _) = HERE.get() {
            seat.looked_up.store(0, Ordering::Release);
        }
    }

    /// It has its answer.
    pub fn is_answered(self) {
        self.record.clear();
        self.record.unique.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
