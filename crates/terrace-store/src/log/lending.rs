//! A log that another process appends to for a while: the *borrower*. It has a [`Log`] of its own
//! on the same PM. The *owner* takes in what it finds there ([`Log::catch_up`]), and may end the
//! loan at any time, also while the borrower is in the middle of a commit.
//!
//! Invariants:
//! * A log is lent with its tail in a page, and settled ([`Log::prepare_to_lend`]). So of the
//!   inode's record the borrower stores to the tail word only.
//! * The borrower moves the tail by an exchange that expects the generation of the loan. An owner
//!   that ends a loan by force gives the tail a new generation first: an exchange that is late
//!   fails.
//! * The borrower never stores to the head, and drops and compacts nothing.
//! * Nothing that the borrower has written is trusted: all of it is read once, checked, and told to
//!   an [`Adopt`], which refuses blocks that were not lent.

use terrace_layout::{
    BLOCK_BYTES, CheckedPtr, JournalWord, LogEntry, LogPageHeader, NEXT_OFFSET, PAGE_SLOTS,
    SLOT_BYTES, Stamp, TAIL_OFFSET, Tail, page_seed,
};
use terrace_media::Pm;

use super::refs::Refs;
use super::walk::walk;
use super::{Log, entry_damage};
use crate::damage::{DamageKind, Structure};
use crate::error::{FsResult, fail};
use crate::planted::{Bug, planted};
use crate::source::BlockSource;
use crate::types::Ino;

/// Takes in what a borrower has appended, piece by piece, and refuses what it must not append.
pub trait Adopt {
    /// The log goes on in this PM block.
    ///
    /// # Errors
    /// The borrower has no such block.
    fn page(&mut self, block: u64) -> FsResult<()>;

    /// A committed entry: the references to count, its position, the entry.
    ///
    /// # Errors
    /// It is none that the borrower may append.
    fn entry(&mut self, refs: &mut Refs, position: u64, entry: LogEntry<'_>) -> FsResult<()>;
}

impl Log {
    /// Moves the tail into a page, if it is in the record or at the end of a page, and settles.
    ///
    /// # Errors
    /// `ENOSPC`: the log is settled all the same. PM errors.
    pub fn prepare_to_lend(&mut self, pm: &Pm, source: &dyn BlockSource) -> FsResult<()> {
        self.settle(pm, source)?;
        let last = self.pages.back().copied();
        if last.is_some() && self.tail < self.region_end(last) {
            return Ok(());
        }
        self.begin();
        let sequence = self.next_sequence;
        let block = self.add_page(pm, source, (last, self.tail, self.seed), sequence)?;
        self.batch.new_pages.push(block);
        self.batch.new_tail = block * BLOCK_BYTES + SLOT_BYTES;
        self.batch.new_seed = page_seed(self.inline_seed, sequence);
        self.batch.sealed = false;
        self.commit(pm)
    }

    /// This is the borrower's log.
    pub fn borrowed(&mut self) {
        self.is_lent = true;
    }

    /// The byte of PM behind the last committed entry.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// The generation with which the tail is stored.
    pub fn generation_of_tail(&self) -> u16 {
        self.tail_generation
    }

    /// Late exchanges of a borrower fail from the next commit of the tail on.
    pub fn turn_generation(&mut self) {
        if !planted(Bug::LoanGenerationStays) {
            self.tail_generation = (self.tail_generation + 1) % Tail::GENERATIONS;
        }
    }

    /// Moves the borrower's tail, unless the loan has ended.
    #[cold]
    pub(super) fn exchange_tail(&self, pm: &Pm, word: JournalWord) -> FsResult<()> {
        let now = pm.load_u64(word.at);
        let is_ours = Tail(now).get().is_ok_and(|(_, turn)| turn == self.tail_generation);
        if !is_ours || pm.compare_exchange_u64(word.at, now, word.value).is_err() {
            return fail(libc::ESTALE);
        }
        Ok(())
    }

    /// Takes in what the borrower has committed since the log was lent, or since the last time.
    /// `stamp` marks entries that commit themselves. An entry of that kind which is the last one
    /// counts only if all its data are there.
    ///
    /// # Errors
    /// Damage, and errors of `adopt`: all before that place is taken in. PM that cannot be read.
    pub fn catch_up(&mut self, pm: &Pm, stamp: Stamp, adopt: &mut dyn Adopt) -> FsResult<()> {
        let at = self.record_at + TAIL_OFFSET;
        let damaged = |kind| self.damage(pm, at, Structure::LogTail, kind);
        let (tail, generation) =
            Tail(pm.load_u64(at)).get().map_err(|e| damaged(DamageKind::Malformed(e)))?;
        if generation != self.tail_generation {
            return Err(damaged(DamageKind::Wrong("is of another loan".into())).into());
        }
        loop {
            let page = *self.pages.back().expect("a log is lent with its tail in a page");
            let (first, end) = (page * BLOCK_BYTES + SLOT_BYTES, (page + 1) * BLOCK_BYTES);
            if (first..=end).contains(&tail) {
                if tail >= self.tail {
                    self.adopt_until(pm, tail, adopt)?;
                    self.tail_behind = false;
                }
                break;
            }
            self.adopt_until(pm, end, adopt)?;
            self.adopt_page(pm, page, adopt)?;
        }
        let end = self.region_end(self.pages.back().copied());
        let mut rest = vec![0; (end - self.tail) as usize];
        pm.try_read(self.tail, &mut rest)?;
        self.take_chain(pm, &rest, stamp, &mut |refs, at, entry| adopt.entry(refs, at, entry))?;
        Ok(())
    }

    /// Takes in the entries from the tail to `end`, in the tail's page.
    fn adopt_until(&mut self, pm: &Pm, end: u64, adopt: &mut dyn Adopt) -> FsResult<()> {
        let mut bytes = vec![0; (end - self.tail) as usize];
        pm.try_read(self.tail, &mut bytes)?;
        let (seed, start, ino) = (self.seed, self.tail, Ino(self.ino));
        let damaged = |at, kind| entry_damage(pm, ino, at, kind);
        let (refs, tail) = (&mut self.refs, &mut self.tail);
        walk(seed, start, &bytes, &damaged, &mut |position, entry| {
            // All before this entry is taken in.
            *tail = position;
            adopt.entry(refs, position, entry)
        })?;
        self.tail = end;
        Ok(())
    }

    /// Goes on to the page behind `page`.
    fn adopt_page(&mut self, pm: &Pm, page: u64, adopt: &mut dyn Adopt) -> FsResult<()> {
        let at = page * BLOCK_BYTES + NEXT_OFFSET;
        let wrong = |what: &'static str| {
            self.damage(pm, at, Structure::LogPointer, DamageKind::Wrong(what.into()))
        };
        let next = CheckedPtr(pm.load_u64(at)).get();
        let Some((addr, _)) = next
            .map_err(|_| wrong("is damaged"))?
            .filter(|(addr, _)| addr.is_pm() && addr.byte() + BLOCK_BYTES <= pm.len())
        else {
            return Err(wrong("does not lead to the page of the tail").into());
        };
        adopt.page(addr.block())?;
        let mut header = [0; size_of::<LogPageHeader>()];
        pm.try_read(addr.byte(), &mut header)?;
        let header = LogPageHeader::decode(&header, self.ino, self.generation);
        if !header.is_ok_and(|header| header.sequence == self.next_sequence) {
            return Err(wrong("leads to a page that does not belong there").into());
        }
        self.seed = page_seed(self.inline_seed, self.next_sequence);
        self.next_sequence += 1;
        self.pages.push_back(addr.block());
        self.slots += PAGE_SLOTS;
        self.tail = addr.byte() + SLOT_BYTES;
        Ok(())
    }
}
