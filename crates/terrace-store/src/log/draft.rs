//! A cold log written anew, in DRAM: it goes to an archive, or into the record if it is short
//! enough.

use terrace_layout::{
    ARCHIVE_SLOTS_MAX, ArchiveEntry, BlockAddr, CheckedPtr, HEAD_OFFSET, INLINE_OFFSET,
    INLINE_SLOTS, JournalWord, MediaStruct, SLOT_BYTES, TAIL_OFFSET, Tail, finish_entry,
    lay_out_entry, page_seed, slots_for,
};
use terrace_media::Pm;

use super::Log;
use super::archive::{ARCHIVE_START, Archive};
use super::new_log::NewLog;
use super::refs::Refs;
use crate::error::{FsResult, fail};
use crate::journal::Journal;
use crate::planted::{Bug, planted};
use crate::source::BlockSource;
use crate::sync::Arc;

/// The live entries of a log, in DRAM, on their way to the record or to an archive.
#[derive(Debug)]
pub struct Draft {
    /// Position of the first entry.
    start: u64,
    seed: u32,
    slots_max: u64,
    bytes: Vec<u8>,
    /// The log when the draft was begun: its tail, the sequence number of the next page, which is
    /// the archive's, and the count of entries changed in place.
    tail: u64,
    sequence: u64,
    rewrites: u64,
}

impl NewLog for Draft {
    fn push<T: MediaStruct>(&mut self, head: &T, parts: &[&[u8]]) -> FsResult<u64> {
        let start = self.bytes.len();
        let slots = slots_for(size_of::<T>() + parts.iter().map(|part| part.len()).sum::<usize>());
        if start as u64 / SLOT_BYTES + slots > self.slots_max {
            return fail(libc::ENOSPC);
        }
        lay_out_entry(&mut self.bytes, head, parts);
        finish_entry(&mut self.bytes[start..], self.seed, None);
        Ok(self.start + start as u64)
    }

    fn next_page(&self) -> u64 {
        if self.goes_to_disk() { 0 } else { self.sequence }
    }
}

impl Draft {
    /// Blocks that the draft needs on a disk; none if it goes to the record.
    pub fn disk_blocks(&self) -> u64 {
        if self.goes_to_disk() { ArchiveEntry::blocks_for(self.slots()) } else { 0 }
    }

    fn goes_to_disk(&self) -> bool {
        self.start >= ARCHIVE_START
    }

    /// Fills `blocks` with the bytes that go to the disk.
    pub fn fill(&self, blocks: &mut [u8]) {
        blocks[..self.bytes.len()].copy_from_slice(&self.bytes);
    }

    fn slots(&self) -> u64 {
        self.bytes.len() as u64 / SLOT_BYTES
    }
}

impl Log {
    /// An empty draft, for the record or for an archive.
    pub fn draft(&self, for_record: bool) -> Draft {
        let sequence = self.next_sequence;
        let (start, seed, slots_max) = match for_record {
            true => (self.record_at + INLINE_OFFSET, self.inline_seed, INLINE_SLOTS),
            false => (ARCHIVE_START, page_seed(self.inline_seed, sequence), ARCHIVE_SLOTS_MAX),
        };
        Draft {
            start,
            seed,
            slots_max,
            bytes: Vec::new(),
            tail: self.tail,
            sequence,
            rewrites: self.rewrites,
        }
    }

    /// Whether the log has not changed since the draft was begun.
    pub fn is_as_drafted(&self, draft: &Draft) -> bool {
        (self.tail, self.next_sequence, self.rewrites)
            == (draft.tail, draft.sequence, draft.rewrites)
    }

    /// Replaces the log by a draft. The draft holds all live entries, and if it goes to a disk, it
    /// is durable at `addr`. The caller's references are void then: it retains the new ones.
    ///
    /// # Errors
    /// PM errors: the volume must not be written again.
    pub fn replace_by(
        &mut self,
        draft: Draft,
        addr: BlockAddr,
        pm: &Pm,
        source: &dyn BlockSource,
        journal: &Journal,
    ) -> FsResult<()> {
        self.flush_unfenced(pm);
        let on_disk = draft.goes_to_disk();
        let mut slots = Vec::with_capacity((INLINE_SLOTS * SLOT_BYTES) as usize);
        if on_disk {
            lay_out_entry(&mut slots, &ArchiveEntry::new(addr, draft.slots(), draft.sequence), &[]);
            finish_entry(&mut slots, self.inline_seed, None);
        } else {
            slots.extend_from_slice(&draft.bytes);
        }
        let tail = self.record_at + INLINE_OFFSET + slots.len() as u64;
        // No bytes behind the tail may pass for an entry of this mount.
        if !planted(Bug::ArchiveLeavesSlots) {
            slots.resize((INLINE_SLOTS * SLOT_BYTES) as usize, 0);
        }
        journal.commit(pm, &self.words_of(&slots, tail))?;
        self.free_all(source);
        self.next_sequence = draft.sequence + u64::from(on_disk);
        self.archive = on_disk
            .then(|| Arc::new(Archive { addr, seed: draft.seed, entries: draft.bytes.into() }));
        self.refs = Refs::new(self.record_at);
        self.tail = tail;
        self.seed = self.inline_seed;
        self.slots = INLINE_SLOTS + self.archive.as_ref().map_or(0, |archive| archive.slots());
        self.slots_after_compaction = self.slots;
        self.inline_dropped = false;
        (self.unfenced, self.tail_behind) = (None, false);
        Ok(())
    }

    /// The stores that make `slots` the record's, and the log one without pages.
    fn words_of(&self, slots: &[u8], tail: u64) -> Vec<JournalWord> {
        let start = self.record_at + INLINE_OFFSET;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let words =
            (start..).step_by(8).zip(slots.chunks_exact(8)).map(|(at, bytes)| (at, word(bytes)));
        let head = (self.record_at + HEAD_OFFSET, CheckedPtr::NULL.0);
        let tail = (self.record_at + TAIL_OFFSET, Tail::new(tail, self.tail_generation).0);
        words.chain([head, tail]).map(|(at, value)| JournalWord { at, value }).collect()
    }
}
