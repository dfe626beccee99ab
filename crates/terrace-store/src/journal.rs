//! The shard journals: several words of PM change together, or none of them.
//!
//! Everything that the words make visible, and the record without its state, are durable before the
//! state is stored, which commits; the words are durable before it is cleared, and the clearing
//! before the caller goes on, so that a replay never undoes a later store to the same word. A
//! replay makes the state that it finds durable first. No crash leaves a state with a torn record:
//! that is damage.

use std::collections::HashMap;

use terrace_layout::{
    BLOCK_BYTES, JOURNAL_OFFSET, JOURNAL_WORDS_MAX, JournalRecord, JournalWord, MediaStruct,
};
use terrace_media::Pm;

use crate::damage::{Damage, DamageKind, Structure};
use crate::error::{FsResult, fence};
use crate::planted::{Bug, planted};
use crate::sync::Mutex;

/// Words that count as if they stood in PM, by byte.
pub type Pending = HashMap<u64, u64>;

/// Reads whole words of PM, from byte `start` on, as if those that are pending were stored.
///
/// # Errors
/// PM that cannot be read.
pub fn read_pending(
    pm: &Pm,
    pending: Option<&Pending>,
    start: u64,
    bytes: &mut [u8],
) -> FsResult<()> {
    pm.try_read(start, bytes)?;
    let range = start..start + bytes.len() as u64;
    for (at, value) in pending.into_iter().flatten().filter(|(at, _)| range.contains(at)) {
        let at = (at - start) as usize;
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    Ok(())
}

/// The journal of one shard.
#[derive(Debug)]
pub struct Journal {
    at: u64,
    sequence: Mutex<u64>,
}

impl Journal {
    /// The journal in the shard page at PM block `block`.
    pub fn new(block: u64) -> Self {
        Self { at: block * BLOCK_BYTES + JOURNAL_OFFSET, sequence: Mutex::new(0) }
    }

    /// Stores all `words`, durably and atomically, after everything that this thread has flushed.
    ///
    /// # Errors
    /// If PM refuses to become durable; then nobody knows how far it got, and the volume must not
    /// be written again.
    pub fn commit(&self, pm: &Pm, words: &[JournalWord]) -> FsResult<()> {
        let mut sequence = self.sequence.lock();
        *sequence += 1;
        self.store(pm, *sequence, words)?;
        apply(pm, words);
        if !planted(Bug::JournalClearedEarly) {
            fence(pm)?;
        }
        self.clear(pm)
    }

    /// Commits `words`, durably, but leaves storing them to [`Self::replay`]: as long as the
    /// checkpoint is valid they mean nothing, and with its end they count.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn promise(&self, pm: &Pm, words: &[JournalWord]) -> FsResult<()> {
        let mut sequence = self.sequence.lock();
        *sequence += 1;
        self.store(pm, *sequence, words)
    }

    /// Stores a record, and then its state.
    fn store(&self, pm: &Pm, sequence: u64, words: &[JournalWord]) -> FsResult<()> {
        assert!(words.len() <= JOURNAL_WORDS_MAX, "journal record too long");
        let record = JournalRecord::new(sequence, words);
        if planted(Bug::JournalStateFirst) {
            self.set_state(pm, record.state)?;
        }
        pm.write_nt(self.at + size_of_val(&record.state) as u64, record.body());
        if !planted(Bug::JournalNotFenced) {
            fence(pm)?;
        }
        self.set_state(pm, record.state)
    }

    /// The words of a committed record that a crash left in the journal; `None` if it is empty.
    ///
    /// # Errors
    /// Damage: to the record, or it points outside PM.
    pub fn pending(&self, pm: &Pm) -> FsResult<Option<Vec<JournalWord>>> {
        let damaged = |kind| Damage::in_pm(pm, Structure::Journal(None), kind).at(self.at);
        let mut bytes = [0u8; size_of::<JournalRecord>()];
        pm.try_read(self.at, &mut bytes)?;
        let record = JournalRecord::from_bytes(&bytes);
        let words = record.committed().map_err(|_| damaged(DamageKind::Damaged))?;
        if let Some(word) =
            words.unwrap_or_default().iter().find(|w| w.at % 8 != 0 || w.at >= pm.len())
        {
            let what = format!("names byte {} of PM, which does not exist", word.at);
            return Err(damaged(DamageKind::Wrong(what.into())).into());
        }
        Ok(words.map(<[_]>::to_vec))
    }

    /// Whether the journal of a volume in use is empty, as it is between two commits. If it is not
    /// and `clear` is set, it is cleared: a crash would repeat what it holds.
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

    /// Repeats a committed record that a crash left behind.
    ///
    /// # Errors
    /// As [`Self::pending`]; PM errors.
    pub fn replay(&self, pm: &Pm) -> FsResult<()> {
        if !planted(Bug::JournalStateTrusted) {
            // It may have been stored by a daemon that was killed before its own fence.
            pm.flush(self.at, 8);
            fence(pm)?;
        }
        let Some(words) = self.pending(pm)? else {
            return Ok(());
        };
        if planted(Bug::ReplayClearsFirst) {
            self.clear(pm)?;
        }
        apply(pm, &words);
        fence(pm)?;
        self.clear(pm)
    }

    /// Forgets what the journal holds.
    ///
    /// # Errors
    /// PM errors.
    pub fn clear(&self, pm: &Pm) -> FsResult<()> {
        self.set_state(pm, 0)
    }

    fn set_state(&self, pm: &Pm, state: u64) -> FsResult<()> {
        pm.store_u64(self.at, state);
        pm.flush(self.at, 8);
        fence(pm)
    }
}

fn apply(pm: &Pm, words: &[JournalWord]) {
    for word in words {
        pm.store_u64(word.at, word.value);
        if !planted(Bug::JournalWordsNotFlushed) {
            pm.flush(word.at, 8);
        }
    }
}
