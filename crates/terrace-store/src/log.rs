//! An inode's log: append, commit, walk, drop what is dead, compact.
//!
//! Invariants:
//! * Entries at or after the tail mean nothing. Appending writes them there; storing the tail
//!   commits them all.
//! * But for a chain: an entry alone in its batch that carries the stamp of this mount commits
//!   itself (see `seal`), and the tail on media stays behind. The next batch that does not commit
//!   itself moves it. So what stands right behind the tail, stamped by the mount that crashed,
//!   counts, up to the end of the tail's page. An entry of the chain is on media before the next
//!   one is stored: only the last may be torn.
//! * The tail on media does not stay behind an inode that leaves DRAM, nor an unmount: only after a
//!   crash has anybody to look for a chain.
//! * Head and next pointers are stored, durable, before the tail moves past them; one that lies
//!   beyond the tail means nothing.
//! * Dead pages are dropped only from the front: an entry that undoes an earlier one may be dropped
//!   only when the earlier one is gone, and the front has no earlier ones. What is dead further
//!   back goes with compaction, which writes the live entries anew and swaps head and tail through
//!   the journal.
//! * [`Refs`] counts references from the volatile state into each page. It is volatile, derived by
//!   walking.
//! * Committed entries never change, but for a few that the journal changes where there is no room
//!   for others (see `rewrite`).
//! * A dropped page is given back only after a fence has made the head that skips it durable.
//! * The first part of the log may lie on a disk (see `archive`).

mod archive;
mod compact;
mod rewrite;
mod verify;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use archive::ARCHIVE_START;
use rustc_hash::FxHashMap;
use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CheckedPtr, HEAD_OFFSET, INLINE_OFFSET, INLINE_SLOTS, InodeRecord,
    JournalWord, LogEntry, LogPageHeader, MediaStruct, NEXT_OFFSET, PAGE_SLOTS, SLOT_BYTES, Stamp,
    TAIL_OFFSET, Tail, encode_pad, entry_slots, finish_entry, lay_out_entry, page_seed,
};
use terrace_media::Pm;
use terrace_policy::PmSpace;
use zerocopy::IntoBytes;

pub use crate::disks::FindDisk;
use crate::error::{FsError, FsResult, advice, fence};
use crate::journal::Journal;
use crate::planted::{Bug, planted};
use crate::seal;
use crate::source::BlockSource;
use crate::sync::Arc;
pub use archive::{Archive, Draft, Entries, LogMedia, NewLog};
pub use verify::LogDamage;

/// Slots that compaction must be able to gain: it costs a journal record and a few pages' worth of
/// stores.
const COMPACTED_SLOTS_MIN: u64 = 4 * PAGE_SLOTS;

/// Entries being put together for one commit, and where they went.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    positions: Vec<u64>,
    new_pages: Vec<u64>,
    new_tail: u64,
    /// Seed of the region that the new tail is in.
    new_seed: u32,
    /// The batch is one entry that commits itself.
    sealed: bool,
}

/// Sees a committed entry: the references to count, its position, the entry.
pub type Visit<'a> = &'a mut dyn FnMut(&mut Refs, u64, LogEntry<'_>) -> FsResult<()>;

/// References from the volatile state into a log: they tell which pages are live.
#[derive(Debug)]
pub struct Refs {
    record_at: u64,
    /// References into each page; pages without any are absent.
    pages: FxHashMap<u64, u32>,
    /// References into the slots of the inode record.
    inline: u32,
    /// Slots of all entries referred to.
    slots: u64,
}

impl Refs {
    /// Of an inode whose record stands at byte `record_at`: none yet.
    fn new(record_at: u64) -> Self {
        Self { record_at, pages: FxHashMap::default(), inline: 0, slots: 0 }
    }

    /// The volatile state refers to the entry of `slots` slots at `position`.
    pub fn retain(&mut self, position: u64, slots: u64) {
        self.slots += slots;
        match self.page_of(position) {
            None => self.inline += 1,
            Some(page) => *self.pages.entry(page).or_default() += 1,
        }
    }

    /// It no longer does.
    pub fn release(&mut self, position: u64, slots: u64) {
        self.slots -= slots;
        match self.page_of(position) {
            None => self.inline -= 1,
            Some(page) => {
                let count = self.pages.get_mut(&page).expect("released what was retained");
                *count -= 1;
                if *count == 0 {
                    self.pages.remove(&page);
                }
            }
        }
    }

    /// References, into pages and the record.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        u64::from(self.inline) + self.pages.values().map(|&n| u64::from(n)).sum::<u64>()
    }

    /// Moves the "latest of its kind" reference `reference` (0: none yet) to a one-slot entry at
    /// `position`.
    pub fn move_to(&mut self, reference: &mut u64, position: u64) {
        match *reference {
            0 => self.retain(position, 1),
            old => self.replace(old, position, 1),
        }
        *reference = position;
    }

    /// The volatile state refers to the entry at `new` instead of the one at `old`, both of `slots`
    /// slots.
    pub fn replace(&mut self, old: u64, new: u64, slots: u64) {
        if self.page_of(old) != self.page_of(new) {
            self.retain(new, slots);
            self.release(old, slots);
        }
    }

    fn page_of(&self, position: u64) -> Option<u64> {
        let in_record =
            (self.record_at..self.record_at + terrace_layout::INODE_BYTES).contains(&position);
        (!in_record).then_some(position / BLOCK_BYTES)
    }
}

/// The log of one inode, seen from DRAM.
#[derive(Debug)]
pub struct Log {
    record_at: u64,
    ino: u64,
    generation: u32,
    /// Seed of the entries in the record, and in the region that the tail is in.
    inline_seed: u32,
    seed: u32,
    tail: u64,
    tail_generation: u16,
    /// The tail on media is behind by entries that committed themselves.
    tail_behind: bool,
    /// How often entries were changed where they stand, which moves no tail, since the log is in
    /// DRAM.
    rewrites: u64,
    /// Byte of an entry beyond the tail that the last crash tore.
    torn: Option<u64>,
    archive: Option<Arc<Archive>>,
    /// PM blocks of the pages, in log order.
    pages: VecDeque<u64>,
    /// What the volatile state refers to.
    pub refs: Refs,
    inline_dropped: bool,
    next_sequence: u64,
    /// Slots of all pages, of the archive, and of the inline region still in the log.
    slots: u64,
    slots_after_compaction: u64,
    /// Pages that the head no longer reaches, waiting for a fence: those of which the next fence
    /// will make that durable, and those of which it has.
    limbo: Vec<u64>,
    free: Vec<u64>,
    /// Bytes of PM that a patch changed and nobody has fenced since. A fence counts only for what
    /// its own thread flushed, so the next commit, whoever makes it, flushes them again.
    unfenced: Option<(u64, u64)>,
    batch: Batch,
}

/// Where the tail of a log is that ends in the record: from its first slot to behind its last.
fn inline_tails(record_at: u64) -> RangeInclusive<u64> {
    let start = record_at + INLINE_OFFSET;
    start..=start + INLINE_SLOTS * SLOT_BYTES
}

impl Log {
    /// The empty log of a new inode whose record stands at byte `record_at`.
    pub fn new(record_at: u64, record: &InodeRecord) -> Self {
        let seed = record.log_seed();
        Self {
            record_at,
            ino: record.ino,
            generation: record.generation,
            inline_seed: seed,
            seed,
            tail: record_at + INLINE_OFFSET,
            tail_generation: 0,
            tail_behind: false,
            rewrites: 0,
            torn: None,
            archive: None,
            pages: VecDeque::new(),
            refs: Refs::new(record_at),
            inline_dropped: false,
            next_sequence: 0,
            slots: INLINE_SLOTS,
            slots_after_compaction: 0,
            limbo: Vec::new(),
            free: Vec::new(),
            unfenced: None,
            batch: Batch::default(),
        }
    }

    /// Reads a log from media, handing every committed entry with its position to `visit`, in
    /// order. `crashed`: stamp of the mount that wrote last, if what it left has not been
    /// recovered.
    ///
    /// # Errors
    /// Damage, with the place; or what `visit` returns.
    pub fn load(
        media: LogMedia<'_>,
        record_at: u64,
        record: &InodeRecord,
        crashed: Option<Stamp>,
        visit: Visit<'_>,
    ) -> FsResult<Self> {
        let pm = media.pm;
        let mut log = Log::new(record_at, record);
        let damaged = |e: terrace_layout::LayoutError| place(pm, record_at, &e.0);
        (log.tail, log.tail_generation) = Tail(record.tail).get().map_err(damaged)?;
        let head = CheckedPtr(record.head).get().map_err(damaged)?;
        let inline = inline_tails(record_at);
        let tail_inline = inline.contains(&log.tail);
        log.inline_dropped = !tail_inline && head.is_some_and(|(_, dropped)| dropped);
        if !log.inline_dropped {
            let (start, end) =
                (*inline.start(), if tail_inline { log.tail } else { *inline.end() });
            let slots = media.read_slots(record_at)?;
            let skip = log.load_archive(media, &slots[..(end - start) as usize], visit)?;
            log.visit_region(pm, start + skip as u64, end, &slots[skip..], visit)?;
            if tail_inline {
                log.roll_forward(pm, &slots[(end - start) as usize..], crashed, visit)?;
            }
        } else {
            log.slots = 0;
        }
        let mut next = if tail_inline { None } else { head };
        let mut reached = tail_inline;
        while let Some((addr, _)) = next.take() {
            next = log.load_page(media, addr, crashed, visit, &mut reached)?;
        }
        if !reached {
            return Err(place(
                pm,
                record_at,
                &format!("log of inode {} does not reach its tail", log.ino),
            ));
        }
        log.slots_after_compaction = log.slots / 2;
        Ok(log)
    }

    fn load_page(
        &mut self,
        media: LogMedia<'_>,
        addr: BlockAddr,
        crashed: Option<Stamp>,
        visit: Visit<'_>,
        reached: &mut bool,
    ) -> FsResult<Option<(BlockAddr, bool)>> {
        let pm = media.pm;
        if !addr.is_pm() || addr.byte() + BLOCK_BYTES > pm.len() {
            return Err(place(
                pm,
                self.record_at,
                &format!("log of inode {} leads to block {addr:?}", self.ino),
            ));
        }
        let start = addr.byte();
        let mut page = [0u8; BLOCK_BYTES as usize];
        media.read(start, &mut page)?;
        let header = LogPageHeader::decode(&page, self.ino, self.generation)
            .map_err(|e| place(pm, start, &e.0))?;
        if header.sequence < self.next_sequence {
            return Err(place(pm, start, &format!("log of inode {} runs in a circle", self.ino)));
        }
        self.next_sequence = header.sequence + 1;
        self.seed = page_seed(self.inline_seed, header.sequence);
        self.pages.push_back(addr.block());
        self.slots += PAGE_SLOTS;
        let first = start + SLOT_BYTES;
        *reached = (first..=start + BLOCK_BYTES).contains(&self.tail);
        let end = if *reached { self.tail } else { start + BLOCK_BYTES };
        self.visit_region(pm, first, end, &page[SLOT_BYTES as usize..], visit)?;
        if *reached {
            self.roll_forward(pm, &page[(end - start) as usize..], crashed, visit)?;
            return Ok(None);
        }
        CheckedPtr(header.next).get().map_err(|e| place(pm, start, &e.0))
    }

    /// Takes in the chain of entries behind the tail that committed themselves; `rest`: what stands
    /// there, up to the end of the region. Without a crash there is none.
    fn roll_forward(
        &mut self,
        pm: &Pm,
        rest: &[u8],
        crashed: Option<Stamp>,
        visit: Visit<'_>,
    ) -> FsResult<()> {
        let mut behind = rest;
        if let Some(stamp) = crashed {
            behind = self.take_chain(pm, rest, stamp, visit)?;
            if has_stamp(behind, stamp) {
                // Entries reach media one after the other: what was torn is the last one.
                self.torn = Some(self.tail);
                behind = &behind[SLOT_BYTES as usize..];
            }
        }
        // Recovery leaves nothing behind the tail that would pass for an entry, whoever wrote it:
        // this has not been recovered, or the entry before it is damaged.
        let mut slots = (0..behind.len()).step_by(SLOT_BYTES as usize);
        match slots.any(|at| {
            Stamp::of_entry(&behind[at..]).is_some() && self.sound(&behind[at..]).is_some()
        }) {
            true => {
                let what = format!(
                    "log of inode {}: a committed entry is damaged, others follow it",
                    self.ino
                );
                Err(place(pm, self.tail, &what))
            }
            false => Ok(()),
        }
    }

    /// Takes in the entries at the beginning of `rest` with this stamp, but for a last one whose
    /// data are not there; returns what follows.
    fn take_chain<'b>(
        &mut self,
        pm: &Pm,
        mut rest: &'b [u8],
        stamp: Stamp,
        visit: Visit<'_>,
    ) -> FsResult<&'b [u8]> {
        let stamped = |log: &Self, bytes: &'b [u8]| {
            if has_stamp(bytes, stamp) { log.sound(bytes) } else { None }
        };
        while let Some((slots, entry)) = stamped(self, rest) {
            let next = &rest[(slots * SLOT_BYTES) as usize..];
            let is_last = stamped(self, next).is_none();
            if is_last && !seal::holds(pm, &entry) && !planted(Bug::SealIgnoresData) {
                break;
            }
            visit(&mut self.refs, self.tail, entry)?;
            self.tail += slots * SLOT_BYTES;
            self.tail_behind = true;
            rest = next;
            if planted(Bug::ChainOfOne) {
                return Ok(&[]);
            }
        }
        Ok(rest)
    }

    /// The sound entry of the tail's region at the beginning of `bytes`, and its slots.
    fn sound<'b>(&self, bytes: &'b [u8]) -> Option<(u64, LogEntry<'b>)> {
        let slots = entry_slots(bytes, bytes.len() as u64 / SLOT_BYTES)?;
        let entry = LogEntry::decode(&bytes[..(slots * SLOT_BYTES) as usize], self.seed).ok()?;
        Some((slots, entry))
    }

    /// After a crash: the tail on media catches up, and what was torn goes, so that nobody takes it
    /// for an entry of a later mount. Durable at the next fence.
    pub fn recover(&mut self, pm: &Pm) {
        self.flush_tail(pm);
        self.tail_behind = false;
        if let Some(at) = self.torn {
            pm.store_u64(at, 0);
            pm.flush(at, 8);
        }
    }

    /// Byte of an entry beyond the tail that does not count, since the data that it stands for were
    /// lost.
    pub fn torn(&self) -> Option<u64> {
        self.torn
    }

    fn visit_region(
        &mut self,
        pm: &Pm,
        start: u64,
        end: u64,
        bytes: &[u8],
        visit: Visit<'_>,
    ) -> FsResult<()> {
        let (seed, refs, next_sequence) = (self.seed, &mut self.refs, &mut self.next_sequence);
        let damaged = |at, what: &str| place(pm, at, &format!("log of inode {}: {what}", self.ino));
        walk(seed, start, &bytes[..(end - start) as usize], &damaged, &mut |position, entry| {
            if let LogEntry::Attr(e) = entry {
                *next_sequence = e.next_page.max(*next_sequence);
            }
            visit(refs, position, entry)
        })
    }

    /// Seed of the checksum of the entry at `position`.
    pub fn seed_at(&self, pm: &Pm, position: u64) -> u32 {
        if let Some(archive) = self.archive.as_ref().filter(|_| position >= ARCHIVE_START) {
            return archive.seed;
        }
        let Some(page) = self.refs.page_of(position) else {
            return self.inline_seed;
        };
        let mut header = [0u8; size_of::<LogPageHeader>()];
        pm.read(page * BLOCK_BYTES, &mut header);
        page_seed(self.inline_seed, LogPageHeader::from_bytes(&header).sequence)
    }

    /// Byte of the inode's record in PM.
    pub fn record_at(&self) -> u64 {
        self.record_at
    }

    /// PM blocks of the log's pages.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().chain(&self.limbo).chain(&self.free).copied()
    }

    /// Starts a new batch of entries.
    pub fn begin(&mut self) {
        self.batch.bytes.clear();
        self.batch.ends.clear();
    }

    /// Adds an entry to the batch; returns its index in it.
    pub fn push<T: MediaStruct>(&mut self, head: &T, parts: &[&[u8]]) -> usize {
        lay_out_entry(&mut self.batch.bytes, head, parts);
        self.batch.ends.push(self.batch.bytes.len());
        self.batch.ends.len() - 1
    }

    /// Whether the batch is empty.
    pub fn batch_is_empty(&self) -> bool {
        self.batch.ends.is_empty()
    }

    /// Where entry `index` of the last batch went.
    pub fn position(&self, index: usize) -> u64 {
        self.batch.positions[index]
    }

    /// The references, and where the entries of the last batch went.
    pub fn refs_and_positions(&mut self) -> (&mut Refs, &[u64]) {
        (&mut self.refs, &self.batch.positions)
    }

    /// Writes the batch behind the tail: [`Self::commit`] must follow, or the journal, or
    /// [`Self::abort`]. With `stamp`, a batch of one entry may commit itself: the caller has stored
    /// nothing else that the commit depends on but what the entry's own checksum covers.
    ///
    /// # Errors
    /// `ENOSPC` if there is no room for log pages; nothing is changed then.
    pub fn stage(
        &mut self,
        pm: &Pm,
        source: &dyn BlockSource,
        stamp: Option<Stamp>,
    ) -> FsResult<()> {
        self.flush_unfenced(pm);
        let mut batch = std::mem::take(&mut self.batch);
        batch.positions.clear();
        let result = match stamp.filter(|_| self.can_seal(&batch)) {
            Some(stamp) => {
                self.stage_sealed(pm, &mut batch, stamp);
                Ok(())
            }
            None => {
                let page = self.pages.back().copied();
                self.stage_from(pm, source, &mut batch, self.tail, page, self.seed)
            }
        };
        self.batch = batch;
        if result.is_err() {
            self.abort(source);
        }
        result
    }

    /// One entry, which can vouch for all that it stands for, and has room before the region ends.
    fn can_seal(&self, batch: &Batch) -> bool {
        batch.ends.len() == 1
            && self.tail + batch.bytes.len() as u64 <= self.region_end(self.pages.back().copied())
            && seal::can_seal(&batch.bytes)
    }

    fn region_end(&self, page: Option<u64>) -> u64 {
        page.map_or(*inline_tails(self.record_at).end(), |p| (p + 1) * BLOCK_BYTES)
    }

    fn stage_sealed(&self, pm: &Pm, batch: &mut Batch, stamp: Stamp) {
        finish_entry(&mut batch.bytes, self.seed, Some(stamp));
        pm.write_nt(self.tail, &batch.bytes);
        batch.positions.push(self.tail);
        batch.new_tail = self.tail + batch.bytes.len() as u64;
        batch.new_seed = self.seed;
        batch.sealed = true;
    }

    /// Bytes were stored and flushed after a commit, without a fence of their own.
    pub fn leave_unfenced(&mut self, at: u64, len: u64) {
        self.unfenced = Some((at, len));
    }

    fn flush_unfenced(&self, pm: &Pm) {
        if let Some((at, len)) = self.unfenced {
            pm.flush(at, len);
        }
        if !self.limbo.is_empty() {
            pm.flush(self.record_at + HEAD_OFFSET, 8);
        }
    }

    /// The tail on media catches up with entries that committed themselves; durable at the next
    /// fence.
    fn flush_tail(&self, pm: &Pm) {
        if self.tail_behind && !planted(Bug::TailStaysBehind) {
            let at = self.record_at + TAIL_OFFSET;
            pm.store_u64(at, Tail::new(self.tail, self.tail_generation).0);
            pm.flush(at, 8);
        }
    }

    fn stage_from(
        &self,
        pm: &Pm,
        source: &dyn BlockSource,
        batch: &mut Batch,
        mut at: u64,
        mut page: Option<u64>,
        mut seed: u32,
    ) -> FsResult<()> {
        let mut start = 0;
        for &end in &batch.ends {
            let entry = &mut batch.bytes[start..end];
            start = end;
            let region_end = self.region_end(page);
            if at + entry.len() as u64 > region_end {
                if at < region_end {
                    pm.write_nt(at, &encode_pad(seed, (region_end - at) / SLOT_BYTES));
                }
                let block = source.alloc_meta()?;
                batch.new_pages.push(block);
                let sequence = self.next_sequence + batch.new_pages.len() as u64 - 1;
                if !planted(Bug::PageNotInitialised) {
                    let header = LogPageHeader::new(self.ino, self.generation, sequence);
                    pm.write_nt(block * BLOCK_BYTES, header.as_bytes());
                }
                self.link(pm, page, block);
                page = Some(block);
                seed = page_seed(self.inline_seed, sequence);
                at = block * BLOCK_BYTES + SLOT_BYTES;
            }
            finish_entry(entry, seed, None);
            pm.write_nt(at, entry);
            batch.positions.push(at);
            at += entry.len() as u64;
        }
        (batch.new_tail, batch.new_seed, batch.sealed) = (at, seed, false);
        Ok(())
    }

    /// Makes `page` (or the record, if there is no page yet) lead to `block`; durable at the next
    /// fence.
    fn link(&self, pm: &Pm, page: Option<u64>, block: u64) {
        let (at, flag) = match page {
            Some(page) => (page * BLOCK_BYTES + NEXT_OFFSET, false),
            None => (self.record_at + HEAD_OFFSET, self.inline_dropped),
        };
        pm.store_u64(at, CheckedPtr::new(BlockAddr::pm(block), flag).0);
        if !planted(Bug::NextNotFlushed) {
            pm.flush(at, 8);
        }
    }

    /// Gives up a staged batch.
    pub fn abort(&mut self, source: &dyn BlockSource) {
        for block in self.batch.new_pages.drain(..) {
            source.free(BlockAddr::pm(block), 1);
        }
    }

    /// The store that commits the staged batch, for the journal.
    pub fn tail_word(&self) -> JournalWord {
        let value = Tail::new(self.batch.new_tail, self.tail_generation).0;
        JournalWord { at: self.record_at + TAIL_OFFSET, value }
    }

    /// Commits the staged batch: on return it is durable, with all that this thread has flushed
    /// before. A batch that commits itself does so with one fence, others with two.
    ///
    /// # Errors
    /// If PM refuses to become durable.
    pub fn commit(&mut self, pm: &Pm) -> FsResult<()> {
        let unfenced = if self.batch.sealed { Bug::WriteNotFenced } else { Bug::TailNotFenced };
        if !planted(unfenced) {
            fence(pm).inspect_err(|_| self.take_back(pm))?;
        }
        if planted(Bug::EntriesOneByOne)
            && let Some(&second) = self.batch.positions.get(1)
        {
            pm.store_u64(self.record_at + TAIL_OFFSET, Tail::new(second, self.tail_generation).0);
            pm.flush(self.record_at + TAIL_OFFSET, 8);
            fence(pm)?;
        }
        if !self.batch.sealed {
            let word = self.tail_word();
            pm.store_u64(word.at, word.value);
            if !planted(Bug::TailNotFlushed) {
                pm.flush(word.at, 8);
            }
            fence(pm)?;
        }
        self.published();
        Ok(())
    }

    /// What was to commit itself did not become durable, though its entry may have: as far as PM
    /// still works, nobody shall find it there, whose data may be lost while those that it replaces
    /// are not.
    #[cold]
    fn take_back(&self, pm: &Pm) {
        if self.batch.sealed {
            pm.store_u64(self.batch.positions[0], 0);
            pm.flush(self.batch.positions[0], 8);
            // It fails again; the instructions are executed all the same.
            let _ = pm.fence();
        }
    }

    /// The staged batch was committed (by [`Self::commit`] or through the journal).
    pub fn published(&mut self) {
        // A fence has passed since the batch was staged, which flushed what waited for it.
        self.unfenced = None;
        self.tail_behind = self.batch.sealed;
        self.seed = self.batch.new_seed;
        self.free.append(&mut self.limbo);
        self.tail = self.batch.new_tail;
        self.slots += self.batch.new_pages.len() as u64 * PAGE_SLOTS;
        self.next_sequence += self.batch.new_pages.len() as u64;
        self.pages.extend(self.batch.new_pages.drain(..));
    }

    /// Makes durable what was left to the next commit, and gives back what waited for that: before
    /// the inode leaves DRAM.
    ///
    /// # Errors
    /// If PM refuses to become durable.
    pub fn settle(&mut self, pm: &Pm, source: &dyn BlockSource) -> FsResult<()> {
        if self.flush_unsettled(pm) {
            fence(pm)?;
        }
        self.settled(source);
        Ok(())
    }

    /// The first half of [`Self::settle`]: what was left to the next commit is durable at the next
    /// fence of this thread, then [`Self::settled`]. False if nothing was left.
    pub fn flush_unsettled(&self, pm: &Pm) -> bool {
        self.flush_unfenced(pm);
        self.flush_tail(pm);
        self.unfenced.is_some() || self.tail_behind || !self.limbo.is_empty()
    }

    /// What [`Self::flush_unsettled`] flushed is durable.
    pub fn settled(&mut self, source: &dyn BlockSource) {
        (self.unfenced, self.tail_behind) = (None, false);
        self.free.append(&mut self.limbo);
        self.drain_free(source);
    }

    /// Whether pages wait for the next commit to be given back.
    pub fn holds_back_pages(&self) -> bool {
        !self.limbo.is_empty() || !self.free.is_empty()
    }

    /// Whether nothing is left to the next commit.
    pub fn is_settled(&self) -> bool {
        self.unfenced.is_none()
            && !self.tail_behind
            && self.limbo.is_empty()
            && self.free.is_empty()
    }

    fn drain_free(&mut self, source: &dyn BlockSource) {
        for block in self.free.drain(..) {
            source.free(BlockAddr::pm(block), 1);
        }
    }

    /// Drops dead pages from the front; they go back to `source` after the next commit.
    pub fn drop_dead_front(&mut self, pm: &Pm, source: &dyn BlockSource) {
        self.drain_free(source);
        let begins_in_record =
            !self.inline_dropped && (self.refs.inline > 0 || self.archive.is_some());
        if self.pages.is_empty() || begins_in_record {
            return;
        }
        let before = self.pages.len();
        while self.pages.len() > 1 && !self.refs.pages.contains_key(&self.pages[0]) {
            self.limbo.extend(self.pages.pop_front());
        }
        let dropped = (before - self.pages.len()) as u64;
        if dropped == 0 && self.inline_dropped {
            return;
        }
        self.slots -= dropped * PAGE_SLOTS + if self.inline_dropped { 0 } else { INLINE_SLOTS };
        self.inline_dropped = true;
        if planted(Bug::DroppedPageZeroed) {
            self.limbo.iter().for_each(|block| pm.zero_nt(block * BLOCK_BYTES, BLOCK_BYTES));
        }
        self.link(pm, None, self.pages[0]);
    }

    /// Whether so much of the log is dead that rewriting it is worth the trouble, or it is being
    /// written again and its archive has room in PM.
    pub fn wants_compaction(&self, pm: PmSpace) -> bool {
        let is_back = self.archive.is_some()
            && self.has_pages()
            && terrace_policy::log_comes_back(self.refs.slots, pm);
        is_back
            || self.pages.len() > 1
                && self.slots
                    > COMPACTED_SLOTS_MIN
                        + (2 * self.slots_after_compaction).min(4 * self.refs.slots)
                && terrace_policy::compacts_log(
                    self.refs.slots,
                    self.slots.saturating_sub(self.refs.slots),
                    pm,
                )
    }
}

/// Visits the entries of a region that starts at byte `start` of PM; `damaged` makes an error of a
/// place and what is wrong there.
fn walk(
    seed: u32,
    start: u64,
    bytes: &[u8],
    damaged: &dyn Fn(u64, &str) -> FsError,
    visit: &mut dyn FnMut(u64, LogEntry<'_>) -> FsResult<()>,
) -> FsResult<()> {
    let mut at = 0;
    while at < bytes.len() {
        let position = start + at as u64;
        let room = (bytes.len() - at) as u64 / SLOT_BYTES;
        let slots = entry_slots(&bytes[at..], room)
            .ok_or_else(|| damaged(position, "no entry where one must be"))?;
        let next = at + (slots * SLOT_BYTES) as usize;
        let entry =
            LogEntry::decode(&bytes[at..next], seed).map_err(|e| damaged(position, &e.0))?;
        visit(position, entry)?;
        at = next;
    }
    Ok(())
}

/// Whether a slot carries this stamp.
fn has_stamp(bytes: &[u8], stamp: Stamp) -> bool {
    !bytes.is_empty() && Stamp::of_entry(bytes) == Some(stamp)
}

/// Damage at a byte of PM, or at the position of an entry that is on a disk.
pub fn place(pm: &Pm, position: u64, what: &str) -> FsError {
    let path = pm.path().display();
    FsError::corrupt(format!("{path}: {what} (at {}): {}", position_text(position), advice(pm)))
}

/// Where an entry stands.
pub fn position_text(position: u64) -> String {
    match position.checked_sub(ARCHIVE_START) {
        None => format!("byte {position}"),
        Some(byte) => format!("byte {byte} of its archive"),
    }
}
