//! Entries that are changed in place, where there is no room for new ones: removing a name frees an
//! inode, and must not need room.
//!
//! The journal stores the words, all or none, with the others of the same change. So an entry is
//! whole at any time: it is the old one or the new one. A name that is removed this way is replaced
//! by the entry that removes it, with pads behind that.
//!
//! Invariant: each request for such stores is counted (`Log::rewrites`), whether they are committed
//! or not: a draft of the log that was begun before is out of date.

use std::mem::offset_of;

use terrace_layout::{
    AttrEntry, DentryAddEntry, DentryRemoveEntry, EntryType, JournalWord, LogEntry, SLOT_BYTES,
    Stamp, encode_pad, entry_slots, finish_entry, lay_out_entry,
};
use terrace_media::Pm;

use super::archive::ARCHIVE_START;
use super::{Log, entry_damage};
use crate::damage::DamageKind;
use crate::error::FsResult;
use crate::{Ino, Time};

const WORD: usize = 8;

/// Stores an integer at byte `at` of an entry.
fn put(entry: &mut [u8], at: usize, value: &[u8]) {
    entry[at..at + value.len()].copy_from_slice(value);
}

impl Log {
    /// Whether the entry at `position` can be changed in place: entries of an archive never change.
    pub fn can_rewrite(position: u64) -> bool {
        (1..ARCHIVE_START).contains(&position)
    }

    /// The stores that change the entry at `position`, which keeps its length.
    ///
    /// # Errors
    /// An entry that cannot be read.
    pub fn rewrite(
        &mut self,
        pm: &Pm,
        position: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> FsResult<Vec<JournalWord>> {
        self.rewrites += 1;
        let (old, seed) = self.entry_at(pm, position)?;
        let mut new = old.clone();
        change(&mut new);
        finish_entry(&mut new, seed, Stamp::of_entry(&old));
        Ok(differences(position, &old, &new))
    }

    /// The stores that replace the entry at `position`, which added a name, by `remove`, which
    /// removes it.
    ///
    /// # Errors
    /// As [`Self::rewrite`].
    pub fn strike(
        &mut self,
        pm: &Pm,
        position: u64,
        remove: &DentryRemoveEntry,
    ) -> FsResult<Vec<JournalWord>> {
        self.rewrites += 1;
        let (old, seed) = self.entry_at(pm, position)?;
        let mut new = Vec::with_capacity(old.len());
        lay_out_entry(&mut new, remove, &[]);
        finish_entry(&mut new, seed, None);
        let slots = (old.len() - new.len()) as u64 / SLOT_BYTES;
        if slots > 0 {
            new.extend_from_slice(&encode_pad(seed, slots));
            // Only the first slot of a pad matters.
            new.extend_from_slice(&old[new.len()..]);
        }
        Ok(differences(position, &old, &new))
    }

    /// The stores that make the entry at `position` of a directory's log give these times.
    ///
    /// # Errors
    /// As [`Self::rewrite`].
    pub fn retime(&mut self, pm: &Pm, position: u64, now: Time) -> FsResult<Vec<JournalWord>> {
        let now = now.0.to_le_bytes();
        self.rewrite(pm, position, |entry| match entry[0] {
            kind if kind == EntryType::DentryAdd as u8 => {
                put(entry, offset_of!(DentryAddEntry, mtime_ns), &now)
            }
            kind if kind == EntryType::DentryRemove as u8 => {
                put(entry, offset_of!(DentryRemoveEntry, mtime_ns), &now)
            }
            _ => {
                put(entry, offset_of!(AttrEntry, mtime_ns), &now);
                put(entry, offset_of!(AttrEntry, ctime_ns), &now);
            }
        })
    }

    /// The entry at `position`, and the seed of its checksum.
    fn entry_at(&self, pm: &Pm, position: u64) -> FsResult<(Vec<u8>, u32)> {
        let seed = self.seed_at(pm, position);
        let damaged = |kind| entry_damage(pm, Ino(self.ino), position, kind);
        let mut bytes = vec![0; SLOT_BYTES as usize];
        pm.try_read(position, &mut bytes)?;
        let room = self.entries(pm).room(position);
        let slots = entry_slots(&bytes, room).ok_or_else(|| damaged(DamageKind::Missing))?;
        bytes.resize((slots * SLOT_BYTES) as usize, 0);
        pm.try_read(position, &mut bytes)?;
        LogEntry::decode(&bytes, seed).map_err(|e| damaged(DamageKind::Malformed(e)))?;
        Ok((bytes, seed))
    }
}

/// The words at `position` and behind it that change.
fn differences(position: u64, old: &[u8], new: &[u8]) -> Vec<JournalWord> {
    debug_assert_eq!(old.len(), new.len());
    let words = old
        .chunks_exact(WORD)
        .zip(new.chunks_exact(WORD))
        .enumerate()
        .filter(|(_, (old, new))| old != new);
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    words
        .map(|(i, (_, new))| JournalWord { at: position + (i * WORD) as u64, value: word(new) })
        .collect()
}
