//! Files that are lent to other processes (`terrace_store::delegation` says what that is).
//!
//! Invariants:
//! * While a file is lent, [`Inner`] is what it was when the loan began, or when the owner last
//!   looked. [`Borrowable`] sees to it that nobody meets it so: whoever locks it has the file taken
//!   back first, or, to look at it only, brought up to date.
//! * Blocks that were lent belong to the loan's [`Books`], which follow the log: a block is in the
//!   books or in the file, never in both. When the loan ends, those in the books are free.
//! * Of a broken loan, they and every other place to which the borrower may still store are in
//!   quarantine, until its process has let go.

mod adopting;
mod books;
mod borrowable;
mod broken;
mod process;
mod succession;

use std::time::Duration;

use terrace_policy::Param;
use terrace_store::delegation::word::Word;
use terrace_store::delegation::{Control, POOL_RUNS_MAX, Segment};
use terrace_store::error::{FsError, FsResult, fail, fence};
use terrace_store::source::BlockSource;
use terrace_store::space::Purpose;
use terrace_store::sync::{Arc, Deadline, Mutex, Weak, thread};

use self::adopting::{Adopted, Adopting};
use self::books::Books;
pub(crate) use self::borrowable::Borrowable;
use self::broken::Quarantined;
pub(crate) use self::succession::{Broken, end_loans, forget_segment, open_segment};
use crate::base::counters::{Counter, Counters};
use crate::base::tuning::Tuning;
use crate::base::types::{Ino, Time};
use crate::base::waits::WaitCause;
use crate::inode::health::Health;
use crate::inode::kin::Kin;
use crate::inode::resident::{Inner, Inode};
use crate::inode::store::Store;

/// How long a borrower may hold a file that is wanted back: far longer than any change takes, and
/// short for those who wait.
const PATIENCE: Duration = Duration::from_millis(40);
/// A borrower that runs lets go within this time.
const SPIN: Duration = Duration::from_micros(50);
/// How often somebody who waits looks after that.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// The parts of the volume that loans use.
#[derive(Debug)]
pub(crate) struct Below {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub counters: Arc<Counters>,
    pub tuning: Arc<Tuning>,
    pub kin: Arc<Kin>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Loans {
    store: Arc<Store>,
    health: Arc<Health>,
    counters: Arc<Counters>,
    tuning: Arc<Tuning>,
    kin: Arc<Kin>,
    /// Control pages; `None`: nothing is lent.
    segment: Option<Arc<Segment>>,
    /// By control page: the file and the process that it is about, if it is in use.
    pages: Mutex<Vec<Option<(Ino, u64)>>>,
    quarantined: Mutex<Vec<Quarantined>>,
}

/// A file that is lent.
#[derive(Debug)]
pub(crate) struct Loan {
    loans: Arc<Loans>,
    inode: Weak<Inode>,
    page: usize,
    generation: u32,
    borrower: u64,
    books: Books,
    adopted: Adopted,
}

/// A loan that has begun, as the borrower needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lent {
    /// Number of the control page.
    pub page: usize,
    /// Generation of the loan.
    pub generation: u32,
}

impl Loans {
    /// Nothing is lent yet.
    pub fn new(below: Below, segment: Option<Arc<Segment>>) -> Self {
        let Below { store, health, counters, tuning, kin } = below;
        let pages = segment.as_ref().map_or(0, |segment| segment.pages());
        let (pages, quarantined) = (Mutex::new(vec![None; pages]), Mutex::default());
        Self { store, health, counters, tuning, kin, segment, pages, quarantined }
    }

    /// Whether files can be lent at all.
    pub fn is_on(&self) -> bool {
        self.segment.is_some()
    }

    /// The files that are lent.
    pub fn lent(&self) -> Vec<Ino> {
        self.pages.lock().iter().flatten().map(|&(ino, _)| ino).collect()
    }

    /// The files that are lent, each with the process that has it. Those of broken loans are not.
    pub fn files(&self) -> Vec<(Ino, u64)> {
        let broken = self.quarantined_pages();
        let pages = self.pages.lock();
        let lent = pages.iter().enumerate().filter(|(page, _)| !broken.contains(page));
        lent.filter_map(|(_, of)| *of).collect()
    }

    /// The file that a control page is in use for, if that is lent to this process.
    pub fn file_of(&self, page: usize, borrower: u64) -> Option<Ino> {
        let of = self.pages.lock().get(page).copied().flatten();
        of.filter(|of| of.1 == borrower).map(|(ino, _)| ino)
    }

    /// The files that are lent to this process.
    pub fn lent_to(&self, borrower: u64) -> Vec<Ino> {
        let pages = self.pages.lock();
        pages.iter().flatten().filter(|of| of.1 == borrower).map(|&(ino, _)| ino).collect()
    }

    /// The process that this file is lent to.
    pub fn borrower(&self, ino: Ino) -> Option<u64> {
        self.files().into_iter().find(|of| of.0 == ino).map(|(_, process)| process)
    }

    /// Whether this file is lent.
    pub fn is_lent(&self, ino: Ino) -> bool {
        self.borrower(ino).is_some()
    }

    fn control(&self, page: usize) -> Control<'_> {
        self.segment.as_ref().expect("there are loans only with control pages").control(page)
    }

    /// Lends a file to process `borrower`, with about so many blocks. The caller has looked whether
    /// it can be lent.
    ///
    /// # Errors
    /// `ENOSPC`: PM has no room for a log page or for blocks; `EMFILE`: all control pages are in
    /// use. PM errors.
    pub fn lend(
        self: &Arc<Self>,
        inode: &Arc<Inode>,
        inner: &mut Inner,
        borrower: u64,
        blocks: u64,
    ) -> FsResult<Lent> {
        let source = self.store.space.source(inode.shard, Purpose::Ordinary);
        inner.log.prepare_to_lend(&self.store.pm, &source)?;
        let page = self.take_page(inode.ino, borrower)?;
        let control = self.control(page);
        let epoch = self.store.epoch();
        control.prepare(inode.ino.0, inner.log.record_at(), epoch, borrower);
        let mut books = Books::default();
        while books.lent() < blocks && books.runs() < POOL_RUNS_MAX {
            let Some(run) = source.alloc_data(blocks - books.lent()) else { break };
            assert!(control.add_run(run), "a new control page has room for its runs");
            books.lend(run);
        }
        if books.lent() == 0 {
            self.give_back_page(page);
            return fail(libc::ENOSPC);
        }
        let generation = control.last_word().lend().generation();
        inner.loan = Some(Box::new(Loan {
            loans: Arc::clone(self),
            inode: Arc::downgrade(inode),
            page,
            generation,
            borrower,
            books,
            adopted: Adopted::default(),
        }));
        self.counters.add(Counter::Loans, 1);
        Ok(Lent { page, generation })
    }

    fn take_page(&self, ino: Ino, borrower: u64) -> FsResult<usize> {
        let segment = self.segment.as_ref().expect("files are lent only with control pages");
        let mut pages = self.pages.lock();
        match segment.places(ino.0).find(|&page| pages[page].is_none()) {
            Some(page) => {
                pages[page] = Some((ino, borrower));
                Ok(page)
            }
            None => fail(libc::EMFILE),
        }
    }

    /// A page is in use on account of a loan that an earlier daemon has broken.
    fn claim_page(&self, page: usize, ino: Ino, borrower: u64) {
        self.pages.lock()[page] = Some((ino, borrower));
    }

    fn give_back_page(&self, page: usize) {
        self.control(page).clear();
        self.pages.lock()[page] = None;
    }
}

/// Tries something that a process which holds a file keeps from succeeding, until the deadline or
/// the end of that process; whether it succeeded.
fn wait(process: u64, deadline: Deadline, mut attempt: impl FnMut() -> bool) -> bool {
    let spin = Deadline::after(SPIN);
    loop {
        if attempt() {
            return true;
        }
        if deadline.has_passed() || process::is_gone(process) {
            return attempt();
        }
        if spin.has_passed() { thread::sleep(LOOK_EVERY) } else { thread::yield_now() }
    }
}

impl Loan {
    /// The process that has the file.
    pub fn borrower(&self) -> u64 {
        self.borrower
    }

    fn control(&self) -> Control<'_> {
        self.loans.control(self.page)
    }

    fn word(&self) -> Word<'_> {
        self.control().word(self.generation)
    }

    /// As [`wait`] for the borrower, on behalf of a program, which is counted if it waits.
    fn wait(&self, deadline: Deadline, mut attempt: impl FnMut() -> bool) -> bool {
        if attempt() {
            return true;
        }
        if deadline.has_passed() {
            return false;
        }
        let _waiting = self.loans.counters.waits.begin(WaitCause::Loan);
        wait(self.borrower, deadline, attempt)
    }

    /// Ends the loan. False: the borrower holds the file and does not let go until `deadline`, so
    /// the loan is broken.
    fn end(&self, deadline: Deadline) -> bool {
        let word = self.word();
        let has_ended = self.wait(deadline, || word.end());
        if !has_ended {
            word.break_off();
        }
        has_ended
    }

    /// Takes in what the borrower has committed. If the loan `is_whole`, the borrower has made that
    /// durable.
    fn adopt(&mut self, inner: &mut Inner, is_whole: bool) -> FsResult<()> {
        let Inner { log, meta, body, .. } = inner;
        let crate::inode::resident::Body::File(file) = body else {
            return fail(libc::EINVAL);
        };
        let store = &self.loans.store;
        let mut adopting = Adopting::new(file, meta, &mut self.books, &mut self.adopted);
        let caught_up = log.catch_up(&store.pm, store.stamp(), &mut adopting);
        if !is_whole {
            log.flush_chain(&store.pm);
            fence(&store.pm)?;
        }
        if let Some((at, len)) = adopting.repeat_last_patch(&store.pm) {
            log.leave_unfenced(at, len);
        }
        caught_up
    }

    /// Counts the borrower's reads, writes and syncs as if they had come as messages.
    fn count(&mut self, inner: &mut Inner) {
        let Self { loans, adopted, .. } = self;
        let (writes, bytes) =
            (std::mem::take(&mut adopted.writes), std::mem::take(&mut adopted.bytes));
        let tally = loans.control(self.page).tally();
        let before = std::mem::replace(&mut adopted.tally, tally);
        let read_bytes = tally.read_bytes.wrapping_sub(before.read_bytes);
        let (reads, syncs) =
            (tally.reads.wrapping_sub(before.reads), tally.syncs.wrapping_sub(before.syncs));
        for (counter, amount) in [
            (Counter::PmWrites, writes),
            (Counter::DirectWrites, writes),
            (Counter::WrittenPm, bytes),
            (Counter::DirectWrittenBytes, bytes),
            (Counter::PmReads, reads),
            (Counter::DirectReads, reads),
            (Counter::ReadPm, read_bytes),
            (Counter::DirectReadBytes, read_bytes),
            (Counter::Fsyncs, syncs),
        ] {
            loans.counters.add(counter, amount);
        }
        let (Some(inode), Ok((_, file))) = (self.inode.upgrade(), inner.file_mut()) else { return };
        // As if as much had been written before each sync.
        let blocks = std::mem::take(&mut adopted.blocks);
        let threshold = loans.tuning.get(Param::SyncBlocks);
        let threshold_bytes = loans.tuning.get(Param::AwaitBytes);
        let _ = file.habits.wrote(blocks / syncs.saturating_add(1), threshold);
        if writes > 0 {
            inode.reading.note_written();
            loans.kin.meet(file);
            let shown = file.life.was_written(bytes, syncs, file.size, threshold_bytes);
            loans.kin.note(file, shown);
            loans.kin.rank(&inode.tiers, file, Time::now());
        }
        if read_bytes > 0 {
            inode.reading.note_direct(read_bytes as usize, file.size);
        }
        // The predictor forgets all but the last two.
        (0..syncs.min(2)).for_each(|_| inode.tiers.note_sync());
    }
}

impl Inner {
    /// Takes the file back, if it is lent.
    pub fn take_back(&mut self) {
        self.take_back_until(Deadline::after(PATIENCE));
    }

    fn take_back_until(&mut self, deadline: Deadline) {
        let Some(mut loan) = self.loan.take().map(|loan| *loan) else { return };
        let is_whole = loan.end(deadline);
        let adopted = loan.adopt(self, is_whole);
        loan.count(self);
        let loans = Arc::clone(&loan.loans);
        match adopted {
            Ok(()) if is_whole => loan.close(),
            adopted => {
                match adopted {
                    Err(error) if error.is_fatal() => loans.health.turn_read_only(&error),
                    Err(error) => loan.complain(&error),
                    Ok(()) => {}
                }
                loans.counters.add(Counter::LoansBroken, 1);
                loan.break_up(self);
            }
        }
        loans.release_quarantined();
    }

    /// Brings a lent file up to date, without taking it back.
    pub fn look_at(&mut self) {
        let deadline = Deadline::after(PATIENCE);
        if !self.look_until(deadline) {
            self.take_back_until(deadline);
        }
    }

    /// As [`Self::look_at`], unless the borrower is in the middle of a call just now.
    pub fn peek_at(&mut self) {
        self.look_until(Deadline::after(Duration::ZERO));
    }

    /// Brings a lent file up to date. False: the borrower does not let go until `deadline`.
    fn look_until(&mut self, deadline: Deadline) -> bool {
        let Some(mut loan) = self.loan.take() else { return true };
        if !loan.wait(deadline, || loan.word().look()) {
            self.loan = Some(loan);
            return false;
        }
        let adopted = loan.adopt(self, true);
        loan.count(self);
        let is_sound = adopted.is_ok();
        if is_sound {
            loan.word().looked();
        }
        self.loan = Some(loan);
        if !is_sound {
            self.take_back();
        }
        true
    }

    /// The process that the file is lent to.
    pub fn borrower(&self) -> Option<u64> {
        self.loan.as_ref().map(|loan| loan.borrower())
    }
}

impl Loan {
    /// The loan has ended, and the borrower stores to nothing any more.
    fn close(self) {
        let space = &self.loans.store.space;
        self.books.blocks().for_each(|run| space.free(run.0, run.1));
        self.loans.give_back_page(self.page);
    }

    fn complain(&self, error: &FsError) {
        let ino = self.inode.upgrade().map_or(Ino(0), |inode| inode.ino);
        tracing::warn!(
            "inode {}: process {} has left its log in disorder ({error}); all before that place \
             counts",
            ino.0,
            self.borrower
        );
    }
}
