//! The control page of a loan: words that owner and borrower share.
//!
//! Neither trusts the other's words. Whatever the borrower has written there, the owner harms no
//! other file: it keeps books of its own on the blocks that it has lent, and takes `in_place` and
//! the counters as hints.

use super::word::Word;
use crate::alloc::Run;
use crate::sync::atomic::Ordering;
use crate::sync::mapped::AtomicU64;

/// Words of a control page.
pub(super) const WORDS: usize = 512;
/// Runs of blocks that a pool has at most, over the life of a loan.
pub const POOL_RUNS_MAX: usize = (WORDS - POOL) / 2;

const WORD: usize = 0;
const IN_PLACE: usize = 1;
const ADOPTED: usize = 2;
const INO: usize = 3;
const RECORD: usize = 4;
const STAMP_EPOCH: usize = 5;
const BORROWER: usize = 6;
const POOL_RUNS: usize = 7;
const TAKEN_UP: usize = 8;
/// A position, and a generation of the log's tail.
const VERDICT: usize = 9;
/// Counters lie in lines of their own: the borrower's readers change them.
const TALLY: usize = 16;
const POOL: usize = 32;

/// What a borrower has done with a file, since the loan began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Reads.
    pub reads: u64,
    /// Bytes that they copied.
    pub read_bytes: u64,
    /// Requests for durability.
    pub syncs: u64,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Control<'a> {
    words: &'a [AtomicU64; WORDS],
}

impl<'a> Control<'a> {
    pub(super) fn new(words: &'a [AtomicU64; WORDS]) -> Self {
        Self { words }
    }

    fn get(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    fn set(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Release);
    }

    /// The word of the loan with this generation.
    #[inline]
    pub fn word(&self, generation: u32) -> Word<'a> {
        Word::new(&self.words[WORD], generation)
    }

    /// The word of the loan that is, or was the last.
    pub fn last_word(&self) -> Word<'a> {
        Word::last(&self.words[WORD])
    }

    /// Owner: makes the page that of a new loan, without blocks. [`Word::lend`] follows.
    pub fn prepare(&self, ino: u64, record_at: u64, epoch: u64, borrower: u64) {
        for (word, value) in [
            (IN_PLACE, 0),
            (ADOPTED, 0),
            (INO, ino),
            (RECORD, record_at),
            (STAMP_EPOCH, epoch),
            (BORROWER, borrower),
            (POOL_RUNS, 0),
            (TAKEN_UP, 0),
            (VERDICT, 0),
            (VERDICT + 1, 0),
            (TALLY, 0),
            (TALLY + 1, 0),
            (TALLY + 2, 0),
        ] {
            self.set(word, value);
        }
    }

    /// Borrower: takes the loan up, which can be done once: who has the loan knows which of its
    /// blocks are in use. False: it was taken up before.
    pub fn take_up(&self) -> bool {
        let taken_up = &self.words[TAKEN_UP];
        taken_up.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the loan was taken up.
    pub fn is_taken_up(&self) -> bool {
        self.get(TAKEN_UP) != 0
    }

    /// The inode that is lent; 0: none is.
    pub fn ino(&self) -> u64 {
        self.get(INO)
    }

    /// Byte of its record in PM.
    pub fn record_at(&self) -> u64 {
        self.get(RECORD)
    }

    /// The mount epoch whose stamp entries carry that commit themselves.
    pub fn epoch(&self) -> u64 {
        self.get(STAMP_EPOCH)
    }

    /// The process that has borrowed it.
    pub fn borrower(&self) -> u64 {
        self.get(BORROWER)
    }

    /// Owner: the loan is over in every respect, and the page can be used for another.
    pub fn clear(&self) {
        self.set(INO, 0);
    }

    /// Owner: adds a run to the pool. False: the page has no room for it.
    pub fn add_run(&self, run: Run) -> bool {
        let runs = self.get(POOL_RUNS) as usize;
        if runs >= POOL_RUNS_MAX {
            return false;
        }
        self.set(POOL + 2 * runs, run.start);
        self.set(POOL + 2 * runs + 1, run.len);
        self.set(POOL_RUNS, runs as u64 + 1);
        true
    }

    /// Owner, of a broken loan: the borrower may still store to these blocks, which are sorted by
    /// their first. Where there are too many runs for the page, some gaps count as well.
    pub fn set_reach(&self, runs: &[Run]) {
        let mut runs = runs.to_vec();
        while runs.len() > POOL_RUNS_MAX {
            let gap = |i: &usize| runs[i + 1].start - (runs[*i].start + runs[*i].len);
            let narrowest = (0..runs.len() - 1).min_by_key(gap).expect("there are several");
            let next = runs.remove(narrowest + 1);
            runs[narrowest].len = next.start + next.len - runs[narrowest].start;
        }
        for (i, run) in runs.iter().enumerate() {
            self.set(POOL + 2 * i, run.start);
            self.set(POOL + 2 * i + 1, run.len);
        }
        self.set(POOL_RUNS, runs.len() as u64);
    }

    /// The runs of the pool, or, of a broken loan, all that the borrower may store to.
    pub fn runs(&self) -> impl Iterator<Item = Run> + use<'a> {
        let (this, runs) = (*self, (self.get(POOL_RUNS) as usize).min(POOL_RUNS_MAX));
        let word = move |i: usize| this.get(POOL + i);
        (0..runs).map(move |i| Run { start: word(2 * i), len: word(2 * i + 1) })
    }

    /// Borrower: it is going to change this PM block in place (0: none), the next time that it
    /// holds the file. To be said before the word is taken.
    #[inline]
    pub fn set_in_place(&self, block: u64) {
        self.set(IN_PLACE, block);
    }

    /// The PM block that the borrower changes in place while it holds the file; 0: none.
    pub fn in_place(&self) -> u64 {
        self.get(IN_PLACE)
    }

    /// Owner, of a broken loan: once the log's tail on media has this generation,
    /// [`Self::set_adopted`] is to say this position.
    pub fn set_verdict(&self, position: u64, generation: u16) {
        self.set(VERDICT + 1, generation.into());
        self.set(VERDICT, position);
    }

    /// As [`Self::set_verdict`] has set it, perhaps by an earlier daemon.
    pub fn verdict(&self) -> Option<(u64, u16)> {
        let position = Some(self.get(VERDICT)).filter(|&position| position != 0)?;
        Some((position, u16::try_from(self.get(VERDICT + 1)).ok()?))
    }

    /// Owner, of a broken loan: the position behind the last entry that counts.
    pub fn set_adopted(&self, position: u64) {
        self.set(ADOPTED, position);
    }

    /// Position behind the last entry that counts, of a broken loan; 0: the owner does not know
    /// yet.
    pub fn adopted(&self) -> u64 {
        self.get(ADOPTED)
    }

    /// Borrower: it has read so many bytes. Counts of threads that meet may be lost.
    #[inline]
    pub fn count_read(&self, bytes: u64) {
        self.count(TALLY, 1);
        self.count(TALLY + 1, bytes);
    }

    /// Borrower: it was asked to make the file durable.
    #[inline]
    pub fn count_sync(&self) {
        self.count(TALLY + 2, 1);
    }

    #[inline]
    fn count(&self, word: usize, more: u64) {
        let word = &self.words[word];
        word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn tally(&self) -> Tally {
        let [reads, read_bytes, syncs] = [0, 1, 2].map(|i| self.get(TALLY + i));
        Tally { reads, read_bytes, syncs }
    }
}
