//! A file that this process has borrowed.
//!
//! Invariants:
//! * Log and index are as on media, as long as the loan lasts; afterwards they mean nothing.
//! * The word is held only between two lines of [`Borrowed::change`]. Nothing in between waits, or
//!   touches a byte that the program has given.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use terrace_layout::{BLOCK_BYTES, FILE_BYTES_MAX, InodeRecord, LogEntry, MediaStruct, Stamp};
use terrace_media::{Pm, step};
use terrace_store::Time;
use terrace_store::delegation::word::{Refused, Word};
use terrace_store::delegation::{Control, NotLent, Pool, Segment};
use terrace_store::disks::Disks;
use terrace_store::error::{FsResult, fail};
use terrace_store::file::{
    BLOCK, FileData, Mark, PmIo, PmWrite, ReadOld, Seen, WritePath, copy_edge, covered_bytes,
    read_edges,
};
use terrace_store::index::Segment as Part;
use terrace_store::log::{Log, LogMedia};
use terrace_store::planted::{Bug, is_planted, planted};
use terrace_store::sync::{limit, thread};

/// How long a thread waits for another one of this process, or for the daemon.
const PATIENCE: Duration = Duration::from_millis(20);
/// How often it looks meanwhile, after it has tried a few times.
const LOOK_EVERY: Duration = Duration::from_micros(50);
const SPINS: usize = limit(100, 1);
/// How often it looks, all in all.
const LOOKS: usize = SPINS + looks(PATIENCE);
/// How long the daemon may take to say which entry of a broken loan counts. Its successor may have
/// to recover a large volume first. A change that was made is made once more if nobody says so.
const VERDICT: Duration = Duration::from_secs(600);
/// A planted bug may keep the daemon from ever saying it.
const VERDICT_OF_BUGGY: Duration = Duration::from_secs(5);
/// Commits after which the daemon is asked to tidy up the log.
const COMMITS_MAX: u32 = 4096;
/// A longer write is committed in pieces of this size, as on the mount.
pub const PIECE_BYTES_MAX: usize = 4 << 20;

/// Looks in so much time. The model checker has no time: there are more looks than the others take
/// steps to be done.
const fn looks(time: Duration) -> usize {
    limit((time.as_micros() / LOOK_EVERY.as_micros()) as usize, 100_000)
}

/// Memory that the program has given is none of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// Gets the bytes of a read, in pieces: how many came before, and the piece.
pub type Give<'a> = &'a mut dyn FnMut(usize, Piece<'_>) -> Result<(), Fault>;

/// Bytes where they lie in PM. If the loan ends, others may store to them: they mean something only
/// if the read succeeds in the end.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    at: *const u8,
    len: usize,
    pm: PhantomData<&'a Pm>,
}

impl Piece<'_> {
    /// Their address. They can be read as long as this lives.
    pub fn as_ptr(&self) -> *const u8 {
        self.at
    }

    /// How many; never none.
    #[allow(clippy::len_without_is_empty, reason = "no piece is empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies them.
    ///
    /// # Panics
    /// If `into` has another length.
    #[inline]
    pub fn copy_to(&self, into: &mut [u8]) {
        assert_eq!(self.len, into.len());
        // SAFETY: so many bytes are mapped there as long as this lives; `into` is exclusive, so it
        // lies elsewhere.
        unsafe { self.at.copy_to_nonoverlapping(into.as_mut_ptr(), self.len) };
    }
}

/// Holes have as many zeros as one wants.
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Why a call goes to the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The loan has ended.
    Ended,
    /// Another thread of this process, or the daemon, has the file for long.
    Busy,
    /// The loan has no blocks left, or its log is long: renewed, it can go on.
    Renew,
    /// The daemon does not lend the file.
    NotLent(NotLent),
    /// The data is not in PM.
    NotInPm,
    /// PM cannot be read there, or is not as it must be: the daemon says what is wrong.
    Damaged,
}

/// Why a call was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The call's own error.
    Errno(i32),
    /// Nothing was done: the mount is to do it.
    Mount(Reason),
}

impl From<Fault> for Refusal {
    fn from(_: Fault) -> Self {
        Refusal::Errno(libc::EFAULT)
    }
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Refusal::Mount(reason)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Borrowed {
    pm: Arc<Pm>,
    segment: Arc<Segment>,
    page: usize,
    generation: u32,
    stamp: Stamp,
    process: u32,
    log: Log,
    file: FileData,
    /// Only changes reach for it, and they have all of this: the lock is never taken.
    pool: Mutex<Pool>,
    /// Since the loan began.
    commits: u32,
}

/// Reads a file's log from PM.
fn load(pm: &Pm, record_at: u64) -> FsResult<(Log, FileData)> {
    let mut bytes = [0; size_of::<InodeRecord>()];
    pm.try_read(record_at, &mut bytes)?;
    let record = InodeRecord::from_bytes(&bytes);
    let mut file = FileData::new(Time(record.created_ns));
    let mut seen = Seen::default();
    // Disks are the daemon's.
    let media = LogMedia { pm, disks: &Disks::new(), pending: None };
    let mut log = Log::load(media, record_at, &record, None, &mut |refs, position, entry| {
        match entry {
            LogEntry::Pad | LogEntry::XattrSet(..) | LogEntry::XattrRemove(..) => {}
            LogEntry::Attr(e) => file.load_mtime(refs, position, e.mtime_ns),
            // The owner has stored the patches.
            entry if file.apply(refs, position, entry, &mut seen) => seen.clear(),
            _ => return fail(libc::EISDIR),
        }
        Ok(())
    })?;
    log.borrowed();
    Ok((log, file))
}

impl Borrowed {
    /// The file of the loan that the control page with this number describes, of this generation.
    /// `process`: this one.
    ///
    /// # Errors
    /// PM that cannot be read, or is not as it must be; `EBUSY`: the loan was taken up before.
    pub fn new(
        pm: Arc<Pm>,
        segment: Arc<Segment>,
        page: usize,
        generation: u32,
        process: u32,
    ) -> FsResult<Self> {
        let control = segment.control(page);
        if !control.take_up() {
            return fail(libc::EBUSY);
        }
        let (log, file) = load(&pm, control.record_at())?;
        let (stamp, pool) = (Stamp::of_epoch(control.epoch()), Mutex::new(Pool::new(control)));
        Ok(Self { pm, segment, page, generation, stamp, process, log, file, pool, commits: 0 })
    }

    /// The loan has been renewed, as that of this page and generation; the log has stayed as it
    /// was.
    pub fn renewed(&mut self, page: usize, generation: u32) {
        (self.page, self.generation, self.commits) = (page, generation, 0);
        self.control().take_up();
        self.pool = Mutex::new(Pool::new(self.control()));
    }

    /// Number of the control page, and generation of the loan.
    pub fn loan(&self) -> (usize, u32) {
        (self.page, self.generation)
    }

    fn control(&self) -> Control<'_> {
        self.segment.control(self.page)
    }

    #[inline]
    fn word(&self) -> Word<'_> {
        self.control().word(self.generation)
    }

    /// Whether the loan lasts.
    pub fn lasts(&self) -> bool {
        self.word().lasts()
    }

    /// Whether the loan was ended while this process held the word.
    pub fn is_broken(&self) -> bool {
        self.word().is_broken()
    }

    /// Takes the word, for which others wait no longer than a change takes.
    #[inline]
    fn take(&self) -> Result<(), Reason> {
        match self.word().take(self.process) {
            Ok(()) => Ok(()),
            Err(Refused::Ended) => Err(Reason::Ended),
            Err(Refused::Busy) => self.take_later(self.word()),
        }
    }

    #[cold]
    fn take_later(&self, word: Word<'_>) -> Result<(), Reason> {
        for i in 0..LOOKS {
            match word.take(self.process) {
                Ok(()) => return Ok(()),
                Err(Refused::Ended) => return Err(Reason::Ended),
                Err(Refused::Busy) if i < SPINS => std::hint::spin_loop(),
                Err(Refused::Busy) => thread::sleep(LOOK_EVERY),
            }
        }
        Err(Reason::Busy)
    }

    /// Changes the file while this process holds it. `in_place`: the block that is changed in
    /// place.
    #[inline]
    fn change(
        &mut self,
        in_place: u64,
        change: impl FnOnce(&mut Log, &mut FileData, PmIo<'_>) -> FsResult<bool>,
    ) -> Result<(), Refusal> {
        self.control().set_in_place(if planted(Bug::LoanNamesNothing) { 0 } else { in_place });
        step();
        match self.take() {
            Err(_) if planted(Bug::LoanStoresUnasked) => {}
            taken => taken?,
        }
        let io =
            PmIo { pm: &self.pm, source: self.pool.get_mut(), data_crc: false, stamp: self.stamp };
        let changed = change(&mut self.log, &mut self.file, io);
        step();
        let is_ours = self.word().release(self.process);
        self.commits += 1;
        match changed {
            Ok(true) if is_ours => Ok(()),
            Ok(true) if planted(Bug::LoanVerdictIgnored) => Err(Reason::Ended.into()),
            Ok(true) if self.verdict() == self.log.tail() => Ok(()),
            Ok(true) => Err(Reason::Ended.into()),
            Ok(false) if is_ours => Err(Reason::Renew.into()),
            Err(error) if is_ours && error.is_no_room() => Err(Reason::Renew.into()),
            Err(_) if is_ours => Err(Reason::Damaged.into()),
            Ok(false) | Err(_) => Err(Reason::Ended.into()),
        }
    }

    /// Position behind the last entry that counts, of a loan that was broken in the middle of a
    /// change; 0 if the daemon does not say.
    #[cold]
    fn verdict(&self) -> u64 {
        for _ in 0..looks(if is_planted() { VERDICT_OF_BUGGY } else { VERDICT }) {
            match self.control().adopted() {
                0 => thread::sleep(LOOK_EVERY),
                position => return position,
            }
        }
        0
    }

    /// Reads up to `len` bytes from `offset` on; fewer at the end of the file. `give` gets them in
    /// pieces, in order, each with the number of those before it.
    ///
    /// # Errors
    /// [`Refusal::Mount`], also after some or all pieces; `EFAULT` if `give` fails at once.
    pub fn read_at(&self, offset: u64, len: usize, give: Give<'_>) -> Result<usize, Refusal> {
        if !self.lasts() {
            return Err(Reason::Ended.into());
        }
        let len = self.file.size.saturating_sub(offset).min(len as u64) as usize;
        let given = self.give(offset, len, give);
        if !self.lasts() && !planted(Bug::LoanReadUnchecked) {
            return Err(Reason::Ended.into());
        }
        let done = given?;
        self.control().count_read(done as u64);
        Ok(done)
    }

    /// Gives bytes of the file, all of which there are, until `give` fails. It may fail because PM
    /// cannot be read: the mount says so then.
    #[inline]
    fn give(&self, offset: u64, len: usize, give: Give<'_>) -> Result<usize, Refusal> {
        let mut done = 0;
        while done < len {
            let (addr, n) = self.part(offset + done as u64, len - done)?;
            let mut piece = |at, len| give(done, Piece { at, len, pm: PhantomData });
            let (given, n) = match addr {
                Some(addr) => {
                    let given = self.pm.copy(addr, n, &mut piece);
                    self.pm.check(addr, n as u64).map_err(|_| Reason::Damaged)?;
                    (given, n)
                }
                None => {
                    let n = n.min(ZEROS.len());
                    (piece(ZEROS.as_ptr(), n), n)
                }
            };
            match given {
                Ok(()) => done += n,
                Err(fault) if done == 0 => return Err(fault.into()),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    /// Copies bytes of the file, all of which there are.
    #[inline]
    fn copy(&self, offset: u64, out: &mut [u8]) -> Result<(), Reason> {
        let mut done = 0;
        while done < out.len() {
            let rest = &mut out[done..];
            let (addr, n) = self.part(offset + done as u64, rest.len())?;
            match addr {
                None => rest[..n].fill(0),
                Some(addr) => {
                    self.pm.try_read(addr, &mut rest[..n]).map_err(|_| Reason::Damaged)?;
                }
            }
            done += n;
        }
        Ok(())
    }

    /// How many of `len` bytes from `offset` on lie together, and where in PM; `None`: in a hole.
    #[inline]
    fn part(&self, offset: u64, len: usize) -> Result<(Option<u64>, usize), Reason> {
        let (block, in_block) = (offset / BLOCK_BYTES, offset % BLOCK_BYTES);
        let (blocks, addr) = match self.file.index.lookup(block) {
            Part::Hole(blocks) => (blocks.min(FILE_BYTES_MAX / BLOCK_BYTES), None),
            Part::Extent(e) if e.unwritten() => (e.blocks.into(), None),
            Part::Extent(e) if e.addr.is_pm() => (e.blocks.into(), Some(e.addr)),
            Part::Extent(_) => return Err(Reason::NotInPm),
        };
        let there = (blocks * BLOCK_BYTES - in_block).min(len as u64) as usize;
        Ok((addr.map(|addr| addr.byte() + in_block), there))
    }

    /// Writes `data`, which nobody else changes, at `offset`, or at the end of the file (`None`);
    /// durable on return. Returns where it begins. Up to [`PIECE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`Refusal::Mount`]; `EFBIG`.
    pub fn write_at(&mut self, offset: Option<u64>, data: &[u8]) -> Result<u64, Refusal> {
        debug_assert!((1..=PIECE_BYTES_MAX).contains(&data.len()));
        if !self.lasts() {
            return Err(Reason::Ended.into());
        }
        let offset = offset.unwrap_or(self.file.size);
        let end = offset.checked_add(data.len() as u64).filter(|&end| end <= FILE_BYTES_MAX);
        let end = end.ok_or(Refusal::Errno(libc::EFBIG))?;
        let blocks = end.div_ceil(BLOCK_BYTES) - offset / BLOCK_BYTES;
        // Each run that the pool is cut into takes an entry, and many entries take a page.
        if self.pool.get_mut().blocks() < blocks + blocks / 32 + 2 || self.commits >= COMMITS_MAX {
            return Err(Reason::Renew.into());
        }
        let path = self.file.write_path(offset, end, false);
        let edges = match path {
            WritePath::Copy => {
                let read = |block, out: &mut _| self.read_block(block, out);
                read_edges((offset, end), self.file.size, read)?
            }
            WritePath::Patch(_) | WritePath::Append(_) => [None, None],
        };
        let read_old: ReadOld<'_> = &|block, out| {
            copy_edge(&edges, block, out);
            Ok(())
        };
        let in_place = self.file.changed_in_place(Some(path));
        let mark = Mark::of_borrower(Time::now(), blocks);
        let write = PmWrite { offset, data, mark, read_old };
        self.change(in_place, |log, file, io| file.write(log, io, path, &write))?;
        Ok(offset)
    }

    /// A block as it is, with zeros beyond the end of the file.
    fn read_block(&self, block: u64, out: &mut [u8; BLOCK]) -> Result<(), Reason> {
        self.copy(block * BLOCK_BYTES, &mut out[..covered_bytes(block, self.file.size)])
    }

    /// Sets the size, in bytes; durable on return.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    pub fn truncate(&mut self, size: u64) -> Result<(), Refusal> {
        if size > FILE_BYTES_MAX {
            return Err(Refusal::Errno(libc::EFBIG));
        }
        if !self.lasts() {
            return Err(Reason::Ended.into());
        }
        let in_place = self.file.changed_in_place(None);
        self.change(in_place, |log, file, io| {
            file.set_size(log, io, size, Time::now(), || {}).map(|()| true)
        })
    }

    /// The size (bytes).
    ///
    /// # Errors
    /// [`Refusal::Mount`].
    pub fn size(&self) -> Result<u64, Refusal> {
        if self.lasts() { Ok(self.file.size) } else { Err(Reason::Ended.into()) }
    }

    /// Size (bytes), pieces of 512 bytes, and time of the last change (nanoseconds since 1970).
    ///
    /// # Errors
    /// [`Refusal::Mount`].
    pub fn attributes(&self) -> Result<(u64, u64, i64), Refusal> {
        let blocks_512 = self.file.index.blocks() * (BLOCK_BYTES / 512);
        let attributes = (self.size()?, blocks_512, self.file.mtime.0);
        if self.lasts() { Ok(attributes) } else { Err(Reason::Ended.into()) }
    }

    /// All that was written is durable already; the daemon's predictors hear of it.
    ///
    /// # Errors
    /// [`Refusal::Mount`].
    pub fn sync(&self) -> Result<(), Refusal> {
        self.control().count_sync();
        if self.lasts() { Ok(()) } else { Err(Reason::Ended.into()) }
    }
}
