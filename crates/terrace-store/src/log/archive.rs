//! The part of a log that lies on a disk: its *archive* (TPFS, section 5.6).
//!
//! What is live of a cold inode's log is written anew, without pages, to free blocks of a disk; if
//! it is short enough, into the inode's record, and there is no archive. The log's pages are free
//! then.
//!
//! Invariants:
//! * The pages of a log are numbered on and on, or what an earlier one left in a block would pass
//!   for the next one's: an archive takes a number, too, and the attributes in a record remember
//!   the last.
//! * An archive comes first in its log: the record's first slot leads to it, and what is appended
//!   later follows in the record's other slots, then in pages as ever.
//! * Its blocks never change, and are free when the journal has replaced what leads to them. They
//!   are durable before that leads to them.
//! * Its entries are in DRAM as long as the inode is. The volatile state refers to them by position
//!   as to others: theirs lie beyond every byte of PM.

use terrace_layout::{
    ArchiveEntry, BLOCK_BYTES, BlockAddr, CheckedPtr, HEAD_OFFSET, INLINE_OFFSET, INLINE_SLOTS,
    InodeRecord, JournalWord, LogEntry, MediaStruct, PAGE_SLOTS, SLOT_BYTES, TAIL_OFFSET, Tail,
    finish_entry, lay_out_entry, page_seed, slots_for,
};
use terrace_media::{AlignedBuf, MediaError, Pm};

use super::{Log, LogDamage, Refs, Visit, inline_tails, place, walk};
use crate::disks::FindDisk;
use crate::error::{FsError, FsResult, advice, fail};
use crate::journal::{Journal, Pending, read_pending};
use crate::planted::{Bug, planted};
use crate::source::BlockSource;
use crate::sync::Arc;

/// Position of the first entry of an archive.
pub(super) const ARCHIVE_START: u64 = 1 << 60;

/// Where logs are read from.
#[derive(Debug, Clone, Copy)]
pub struct LogMedia<'a> {
    /// PM.
    pub pm: &'a Pm,
    /// The disks, some of which may be missing.
    pub disks: &'a dyn FindDisk,
    /// Words that count as if they stood in PM.
    pub pending: Option<&'a Pending>,
}

impl LogMedia<'_> {
    /// Reads the slots of the record at `record_at`.
    pub(super) fn read_slots(
        &self,
        record_at: u64,
    ) -> FsResult<[u8; (INLINE_SLOTS * SLOT_BYTES) as usize]> {
        let mut slots = [0u8; (INLINE_SLOTS * SLOT_BYTES) as usize];
        self.read(record_at + INLINE_OFFSET, &mut slots)?;
        Ok(slots)
    }

    /// Reads whole words of PM, from byte `start` on.
    pub(super) fn read(&self, start: u64, bytes: &mut [u8]) -> FsResult<()> {
        read_pending(self.pm, self.pending, start, bytes)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Archive {
    /// First block.
    pub addr: BlockAddr,
    pub(super) seed: u32,
    pub(super) entries: Box<[u8]>,
}

impl Archive {
    /// Blocks on the disk.
    pub fn blocks(&self) -> u64 {
        ArchiveEntry::blocks_for(self.slots())
    }

    pub(super) fn slots(&self) -> u64 {
        self.entries.len() as u64 / SLOT_BYTES
    }

    /// What its blocks hold.
    pub fn fill(&self, blocks: &mut [u8]) {
        blocks[..self.entries.len()].copy_from_slice(&self.entries);
    }

    /// Compares with `bytes`, as its blocks were read. What differs, and its byte on the disk.
    pub fn verify(&self, bytes: &[u8]) -> Option<LogDamage> {
        let differs = |(old, new): (&[u8], &[u8])| old != new;
        let slot = self
            .entries
            .chunks(SLOT_BYTES as usize)
            .zip(bytes.chunks(SLOT_BYTES as usize))
            .position(differs)?;
        Some((
            self.addr.byte() + slot as u64 * SLOT_BYTES,
            "a log entry on this disk is damaged".to_owned(),
        ))
    }
}

/// The entries of a log, to be read by position.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'a> {
    pm: &'a Pm,
    archive: Option<&'a Archive>,
}

impl<'a> Entries<'a> {
    /// Of the log with this archive.
    pub fn new(pm: &'a Pm, archive: Option<&'a Archive>) -> Self {
        Self { pm, archive }
    }

    /// Fills `buf` from the byte at `position` on.
    ///
    /// # Errors
    /// PM that cannot be read; there is no such position.
    #[inline]
    pub fn read(&self, position: u64, buf: &mut [u8]) -> FsResult<()> {
        if position < ARCHIVE_START {
            return Ok(self.pm.try_read(position, buf)?);
        }
        let from = (position - ARCHIVE_START) as usize;
        let found = self.archive.and_then(|archive| archive.entries.get(from..from + buf.len()));
        buf.copy_from_slice(
            found.ok_or_else(|| place(self.pm, position, "a log has no such entry"))?,
        );
        Ok(())
    }

    /// Asks for an entry before it is needed.
    pub fn prefetch(&self, position: u64) {
        if position < ARCHIVE_START {
            self.pm.prefetch(position);
        }
    }

    /// Slots from `position` on to the end of the region that it lies in.
    pub fn room(&self, position: u64) -> u64 {
        match position.checked_sub(ARCHIVE_START) {
            None => (BLOCK_BYTES - position % BLOCK_BYTES) / SLOT_BYTES,
            Some(from) => {
                self.archive.map_or(0, |archive| archive.slots().saturating_sub(from / SLOT_BYTES))
            }
        }
    }
}

/// A log written anew.
pub trait NewLog {
    /// Adds an entry; returns its position.
    ///
    /// # Errors
    /// `ENOSPC`.
    fn push<T: MediaStruct>(&mut self, head: &T, parts: &[&[u8]]) -> FsResult<u64>;

    /// What the attributes are to remember of the pages:
    /// [`AttrEntry::next_page`](terrace_layout::AttrEntry::next_page).
    fn next_page(&self) -> u64 {
        0
    }
}

/// What is live of a log, in DRAM, on its way to the record or to an archive.
#[derive(Debug)]
pub struct Draft {
    /// Position of the first entry.
    start: u64,
    seed: u32,
    slots_max: u64,
    bytes: Vec<u8>,
    /// The log as it was: its tail, the sequence number of the next page, which is the archive's,
    /// and what changed where it stood.
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
    /// Blocks that it needs on a disk; none if it goes to the record.
    pub fn disk_blocks(&self) -> u64 {
        if self.goes_to_disk() { ArchiveEntry::blocks_for(self.slots()) } else { 0 }
    }

    fn goes_to_disk(&self) -> bool {
        self.start >= ARCHIVE_START
    }

    /// What its blocks are to hold.
    pub fn fill(&self, blocks: &mut [u8]) {
        blocks[..self.bytes.len()].copy_from_slice(&self.bytes);
    }

    fn slots(&self) -> u64 {
        self.bytes.len() as u64 / SLOT_BYTES
    }
}

impl Log {
    /// To read entries by position.
    pub fn entries<'a>(&'a self, pm: &'a Pm) -> Entries<'a> {
        Entries::new(pm, self.archive.as_deref())
    }

    /// The part of the log that lies on a disk.
    pub fn archive(&self) -> Option<&Arc<Archive>> {
        self.archive.as_ref()
    }

    /// Reads the archive that the record's first slot leads to, if it does; returns how many bytes
    /// of `slots` that took.
    pub(super) fn load_archive(
        &mut self,
        media: LogMedia<'_>,
        slots: &[u8],
        visit: Visit<'_>,
    ) -> FsResult<usize> {
        let slot = SLOT_BYTES as usize;
        let first = slots.get(..slot).map(|first| LogEntry::decode(first, self.seed));
        let Some(Ok(LogEntry::Archive(e))) = first else {
            return Ok(0);
        };
        self.next_sequence = e.sequence + 1;
        let addr = BlockAddr(e.address);
        let bad = |what: String| {
            FsError::corrupt(format!("{what} (log of inode {}): {}", self.ino, advice(media.pm)))
        };
        let disk = media.disks.find_disk(addr.device());
        let disk =
            disk.ok_or_else(|| bad(format!("{addr:?}: there is no disk {}", addr.device())))?;
        let mut blocks = AlignedBuf::new((e.blocks() * BLOCK_BYTES) as usize);
        let unread = |error: MediaError| bad(error.to_string()).at(addr.device(), addr.byte());
        disk.read_at(addr.byte(), &mut blocks).map_err(unread)?;
        let entries = &blocks[..e.entry_slots as usize * slot];
        let archive =
            Archive { addr, seed: page_seed(self.seed, e.sequence), entries: entries.into() };
        let damaged = |position, what: &str| {
            let at = addr.byte() + position - ARCHIVE_START;
            bad(format!("{}: at byte {at}: {what}", disk.path().display())).at(addr.device(), at)
        };
        let refs = &mut self.refs;
        walk(archive.seed, ARCHIVE_START, entries, &damaged, &mut |position, entry| {
            visit(refs, position, entry)
        })?;
        self.slots += archive.slots();
        self.archive = Some(Arc::new(archive));
        Ok(slot)
    }

    /// Whether the log has pages that an archive would make free.
    pub fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// The same, as the record at `record_at` has it.
    pub fn has_pages_on_media(record_at: u64, record: &InodeRecord) -> bool {
        Tail(record.tail).get().is_ok_and(|(tail, _)| !inline_tails(record_at).contains(&tail))
    }

    /// The archive that the record at `record_at` leads to, unread.
    pub fn archive_on_media(pm: &Pm, record_at: u64, record: &InodeRecord) -> Option<ArchiveEntry> {
        let head = CheckedPtr(record.head).get().ok()?;
        if head.is_some_and(|(_, dropped)| dropped) && Self::has_pages_on_media(record_at, record) {
            return None;
        }
        let mut first = [0; SLOT_BYTES as usize];
        pm.try_read(record_at + INLINE_OFFSET, &mut first).ok()?;
        match LogEntry::decode(&first, record.log_seed()) {
            Ok(LogEntry::Archive(entry)) => Some(entry),
            _ => None,
        }
    }

    /// Pages that entries of so many slots take at most: of each two adjacent pages the second
    /// begins with what the first had no room for.
    pub fn pages_max(slots: u64) -> u64 {
        (2 * slots.div_ceil(PAGE_SLOTS)).saturating_sub(1)
    }

    /// A draft for what is live: the record, or an archive.
    pub fn draft(&self, for_record: bool) -> Draft {
        let sequence = self.next_sequence;
        let (start, seed, slots_max) = match for_record {
            true => (self.record_at + INLINE_OFFSET, self.inline_seed, INLINE_SLOTS),
            false => (
                ARCHIVE_START,
                page_seed(self.inline_seed, sequence),
                terrace_layout::ARCHIVE_SLOTS_MAX,
            ),
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

    /// Whether the log is still what the draft was made of.
    pub fn is_as_drafted(&self, draft: &Draft) -> bool {
        (self.tail, self.next_sequence, self.rewrites)
            == (draft.tail, draft.sequence, draft.rewrites)
    }

    /// Replaces the log by a draft, which is durable at `addr` if it needs that, and must be all
    /// that is live. The caller's references are void then: it retains the new ones.
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
        // Nothing may stand behind the tail that would pass for an entry of this mount.
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

    /// Gives back whatever the log consists of, but for the record.
    pub(super) fn free_all(&mut self, source: &dyn BlockSource) {
        for block in self.pages.drain(..).chain(self.limbo.drain(..)).chain(self.free.drain(..)) {
            source.free(BlockAddr::pm(block), 1);
        }
        if let Some(archive) = self.archive.take() {
            source.free(archive.addr, archive.blocks());
        }
    }
}
