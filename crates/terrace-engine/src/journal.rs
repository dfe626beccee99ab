//! The shard journals: several words of PM change together, or none of them.
//!
//! Everything that the words make visible is durable before the record is written. The record commits when it is
//! durable; the words are durable before it is cleared, and the clearing before the caller goes on, so that a replay
//! never undoes a later store to the same word.

use terrace_layout::{BLOCK_BYTES, JOURNAL_OFFSET, JOURNAL_WORDS_MAX, JournalRecord, JournalWord, MediaStruct};
use terrace_media::Pm;

use crate::error::{FsError, FsResult, fence};
use crate::sync::Mutex;

/// The journal of one shard.
#[derive(Debug)]
pub(crate) struct Journal {
    at: u64,
    sequence: Mutex<u64>,
}

impl Journal {
    /// The journal in the shard page at PM block `block`.
    pub fn new(block: u64) -> Self {
        Self { at: block * BLOCK_BYTES + JOURNAL_OFFSET, sequence: Mutex::new(0) }
    }

    /// Stores all `words`, durably and atomically.
    ///
    /// # Errors
    /// If PM refuses to become durable; then nobody knows how far it got, and the volume must not be written again.
    pub fn commit(&self, pm: &Pm, words: &[JournalWord]) -> FsResult<()> {
        assert!(words.len() <= JOURNAL_WORDS_MAX, "journal record too long");
        let mut sequence = self.sequence.lock();
        *sequence += 1;
        pm.write_nt(self.at, JournalRecord::new(*sequence, words).used_bytes());
        fence(pm)?;
        apply(pm, words);
        fence(pm)?;
        self.clear(pm)
    }

    /// What a crash left in the journal: whether anything, and the words of a committed record.
    ///
    /// # Errors
    /// A record that points outside PM: damage.
    pub fn pending(&self, pm: &Pm) -> FsResult<(bool, Vec<JournalWord>)> {
        let mut bytes = [0u8; size_of::<JournalRecord>()];
        pm.try_read(self.at, &mut bytes)?;
        let record = JournalRecord::from_bytes(&bytes);
        let words = record.committed();
        if let Some(word) = words.iter().find(|w| w.at % 8 != 0 || w.at >= pm.len()) {
            return Err(FsError::corrupt(format!(
                "{}: journal at byte {} names byte {} of PM, which does not exist",
                pm.path().display(),
                self.at,
                word.at
            )));
        }
        Ok((record.state != 0, words.to_vec()))
    }

    /// Whether the journal of a volume in use is empty, as it is between two commits. If it is not and `clear` is set, it
    /// is cleared: a crash would repeat what it holds.
    ///
    /// # Errors
    /// PM errors while clearing.
    pub fn verify_idle(&self, pm: &Pm, clear: bool) -> FsResult<bool> {
        let _nobody_commits = self.sequence.lock();
        let idle = pm.load_u64(self.at) == 0;
        if !idle && clear {
            self.clear(pm)?;
        }
        Ok(idle)
    }

    /// Repeats a committed record that a crash left behind; returns whether there was one.
    ///
    /// # Errors
    /// A record that points outside PM (damage), or PM errors.
    pub fn replay(&self, pm: &Pm) -> FsResult<bool> {
        let (anything, words) = self.pending(pm)?;
        apply(pm, &words);
        fence(pm)?;
        if anything {
            self.clear(pm)?;
        }
        Ok(!words.is_empty())
    }

    /// Forgets what the journal holds.
    ///
    /// # Errors
    /// PM errors.
    pub fn clear(&self, pm: &Pm) -> FsResult<()> {
        pm.store_u64(self.at, 0);
        pm.flush(self.at, 8);
        fence(pm)
    }
}

fn apply(pm: &Pm, words: &[JournalWord]) {
    for word in words {
        pm.store_u64(word.at, word.value);
        pm.flush(word.at, 8);
    }
}
