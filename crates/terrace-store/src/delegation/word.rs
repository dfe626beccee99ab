//! The word that says who may change a lent file: the borrower, one of its threads, the owner for a
//! moment, or nobody any more.
//!
//! | state | who changes it to what |
//! |---|---|
//! | free | a thread of the borrower to held; the owner to looked at, or ended |
//! | held | that thread to free; the owner to ended, if it has waited too long |
//! | looked at | the owner to free, or ended |
//! | ended | the owner to free, with the generation of a new loan |
//!
//! The model checker (`schedules::loans` of the engine) takes all atomics for sequentially
//! consistent, so this is what weaker orders rest on.
//!
//! The word: every change to *held*, *looked at* or *ended* acquires, and every change from *held*
//! releases. So whoever takes the file sees all that its last holder has stored, and a borrower
//! that finds the word ended finds `adopted` as the owner has set it. A reader of the borrower
//! looks at the word, reads, and looks again, with an acquiring fence between; the owner stores to
//! blocks that it has taken from the file only after a full fence that follows the change to
//! *ended*. So a reader that met such a store finds the word ended. (The exchange is a full fence
//! on x86-64; the fence is for processors where it is not.)
//!
//! The other words of a control page are stored with release and loaded with acquire:
//! * `in_place` is stored before the exchange to *held*, which as a release keeps it there. The
//!   owner loads it after its own change to *ended*, which acquires what that exchange released.
//! * `adopted` is stored after all that moved: a borrower that loads it sees where to. It is loaded
//!   by a borrower that has found the word ended, again and again until it is there.
//! * The counters are relaxed. They are hints: a count that is late is counted with the next look.
//!
//! Replay reads the log and data after *looked at* or *ended*, which acquires what the last holder
//! released. A holder that was stopped has released nothing: the owner reads each byte of its once,
//! checks it, and takes in only entries whose checksums are right.
//!
//! Quarantine: blocks go to others after the borrower has said, over its socket, that it has let
//! go, or after its process has ended; either orders its stores before.

use crate::sync::atomic::{Ordering, fence};
use crate::sync::mapped::AtomicU64;

const STATE_BITS: u32 = 2;
const GENERATION_BITS: u32 = 30;
/// Generations count modulo this.
const GENERATIONS: u32 = 1 << GENERATION_BITS;

const FREE: u64 = 0;
const HELD: u64 = 1;
const LOOKED_AT: u64 = 2;
const ENDED: u64 = 3;
/// The holder of a loan that was broken off.
const BROKEN: u32 = u32::MAX;

fn pack(state: u64, generation: u32, holder: u32) -> u64 {
    state | u64::from(generation % GENERATIONS) << STATE_BITS | u64::from(holder) << 32
}

fn state_of(word: u64) -> u64 {
    word & ((1 << STATE_BITS) - 1)
}

fn generation_of(word: u64) -> u32 {
    (word as u32) >> STATE_BITS
}

/// Why the borrower does not get the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Somebody has it for a moment.
    Busy,
    /// The loan has ended.
    Ended,
}

/// See the module. One loan, known by its generation.
#[derive(Clone, Copy, Debug)]
pub struct Word<'a> {
    word: &'a AtomicU64,
    generation: u32,
}

impl<'a> Word<'a> {
    /// The word of the loan with this generation.
    #[inline]
    pub fn new(word: &'a AtomicU64, generation: u32) -> Self {
        Self { word, generation: generation % GENERATIONS }
    }

    /// The word of the loan that is, or was the last, as the word tells it.
    pub fn last(word: &'a AtomicU64) -> Self {
        Self { word, generation: generation_of(word.load(Ordering::Acquire)) }
    }

    /// Its generation.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Owner: begins the loan of the next generation, and returns it. Nobody has the one before.
    pub fn lend(self) -> Self {
        let next = Word::new(self.word, self.generation.wrapping_add(1));
        self.word.store(pack(FREE, next.generation, 0), Ordering::Release);
        next
    }

    #[inline]
    fn exchange(&self, from: u64, to: u64) -> Result<u64, u64> {
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Borrower: thread `holder` takes the file.
    ///
    /// # Errors
    /// It is refused, and nothing has changed.
    #[inline]
    pub fn take(&self, holder: u32) -> Result<(), Refused> {
        let free = pack(FREE, self.generation, 0);
        match self.exchange(free, pack(HELD, self.generation, holder)) {
            Ok(_) => Ok(()),
            Err(now) if generation_of(now) == self.generation && state_of(now) != ENDED => {
                Err(Refused::Busy)
            }
            Err(_) => Err(Refused::Ended),
        }
    }

    /// Borrower: thread `holder` lets the file go. False: the loan was broken meanwhile.
    #[inline]
    pub fn release(&self, holder: u32) -> bool {
        let held = pack(HELD, self.generation, holder);
        self.exchange(held, pack(FREE, self.generation, 0)).is_ok()
    }

    /// Whether the loan lasts: asked before and after the borrower reads.
    #[inline]
    pub fn lasts(&self) -> bool {
        fence(Ordering::Acquire);
        let now = self.word.load(Ordering::Acquire);
        generation_of(now) == self.generation && state_of(now) != ENDED
    }

    /// Owner: ends the loan, if nobody holds the file; false: somebody does, or the word is none
    /// that it can be.
    pub fn end(&self) -> bool {
        let ended = pack(ENDED, self.generation, 0);
        let ends = |from| self.exchange(pack(from, self.generation, 0), ended).is_ok();
        let has_ended = ends(FREE) || ends(LOOKED_AT);
        fence(Ordering::SeqCst);
        has_ended || self.word.load(Ordering::Acquire) == ended
    }

    /// Owner: ends the loan although somebody holds the file, or the word is none that it can be.
    pub fn break_off(&self) {
        self.word.swap(pack(ENDED, self.generation, BROKEN), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Owner: whether the loan was broken off.
    pub fn is_broken(&self) -> bool {
        let now = self.word.load(Ordering::Acquire);
        now == pack(ENDED, self.generation, BROKEN)
    }

    /// Owner: keeps the borrower from changing the file for a moment; [`Self::looked`] follows.
    /// False: somebody holds the file.
    pub fn look(&self) -> bool {
        let looked_at = pack(LOOKED_AT, self.generation, 0);
        self.exchange(pack(FREE, self.generation, 0), looked_at).is_ok()
    }

    /// Owner: what [`Self::look`] began is over.
    pub fn looked(&self) {
        let looked_at = pack(LOOKED_AT, self.generation, 0);
        // A borrower that has changed the word meanwhile finds out at the end of the loan.
        let _ = self.exchange(looked_at, pack(FREE, self.generation, 0));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn one_holds_it_at_a_time_and_none_after_the_end() {
        let memory = AtomicU64::new(0);
        let word = Word::last(&memory).lend();
        assert!(word.lasts() && word.generation() == 1);
        assert_eq!(word.take(7), Ok(()));
        assert_eq!((word.take(8), word.end(), word.look()), (Err(Refused::Busy), false, false));
        assert!(!word.release(8) && word.release(7));
        assert_eq!((word.look(), word.take(8)), (true, Err(Refused::Busy)));
        word.looked();
        assert!(word.end() && word.end() && !word.is_broken());
        assert_eq!(word.take(7), Err(Refused::Ended));
        assert!(!word.lasts() && !word.release(7));
    }

    #[test]
    fn a_broken_loan_is_no_later_one() {
        let memory = AtomicU64::new(pack(ENDED, GENERATIONS - 1, 0));
        let word = Word::last(&memory).lend();
        assert_eq!((word.generation(), word.take(7), word.is_broken()), (0, Ok(()), false));
        word.break_off();
        assert!(word.is_broken() && !word.end() && !word.lasts());
        let next = word.lend();
        assert!(next.lasts() && !word.lasts() && !word.release(7));
        assert_eq!((word.take(7), next.take(7)), (Err(Refused::Ended), Ok(())));
    }

    /// A borrower may write anything there.
    #[test]
    fn no_word_keeps_the_owner_from_ending_a_loan() {
        let memory = AtomicU64::new(0);
        let word = Word::last(&memory).lend();
        let words = [FREE, HELD, LOOKED_AT, ENDED].map(|state| {
            [(0, 0), (0, 9), (1, 0), (1, 9)]
                .map(|(later, holder)| pack(state, word.generation() + later, holder))
        });
        for wild in words.into_iter().flatten().chain([0, u64::MAX]) {
            memory.store(wild, Ordering::Relaxed);
            word.look();
            word.looked();
            if !word.end() {
                word.break_off();
            }
            assert!(!word.lasts() && word.take(7) == Err(Refused::Ended), "{wild:#x}");
            assert!(word.lend().lasts());
        }
    }
}
