//! Appending: a batch of entries is put together in DRAM, staged behind the tail, and committed.

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CheckedPtr, HEAD_OFFSET, JournalWord, LogPageHeader, MediaStruct,
    NEXT_OFFSET, PAGE_SLOTS, SLOT_BYTES, Stamp, TAIL_OFFSET, Tail, encode_pad, finish_entry,
    lay_out_entry, page_seed,
};
use terrace_media::Pm;
use zerocopy::IntoBytes;

use super::refs::Refs;
use super::{Log, inline_tails};
use crate::error::{FsResult, fence};
use crate::planted::{Bug, planted};
use crate::seal;
use crate::source::BlockSource;

/// Entries of one commit, and their positions once they are staged.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The entries as they are on media, one behind the other.
    pub bytes: Vec<u8>,
    /// The end of each entry in `bytes`.
    pub ends: Vec<usize>,
    /// The position of each entry in PM.
    pub positions: Vec<u64>,
    /// PM blocks of the pages that the batch adds.
    pub new_pages: Vec<u64>,
    pub new_tail: u64,
    /// Seed of the region that the new tail is in.
    pub new_seed: u32,
    /// The batch is one entry that commits itself.
    pub sealed: bool,
}

impl Log {
    /// Starts a new batch of entries.
    #[inline]
    pub fn begin(&mut self) {
        self.batch.bytes.clear();
        self.batch.ends.clear();
    }

    /// Adds an entry to the batch; returns its index in it.
    #[inline]
    pub fn push<T: MediaStruct>(&mut self, head: &T, parts: &[&[u8]]) -> usize {
        lay_out_entry(&mut self.batch.bytes, head, parts);
        self.batch.ends.push(self.batch.bytes.len());
        self.batch.ends.len() - 1
    }

    /// Whether the batch is empty.
    #[inline]
    pub fn batch_is_empty(&self) -> bool {
        self.batch.ends.is_empty()
    }

    /// The position in PM of entry `index` of the last batch.
    #[inline]
    pub fn position(&self, index: usize) -> u64 {
        self.batch.positions[index]
    }

    /// The references, and the positions of the entries of the last batch.
    #[inline]
    pub fn refs_and_positions(&mut self) -> (&mut Refs, &[u64]) {
        (&mut self.refs, &self.batch.positions)
    }

    /// Writes the batch behind the tail. [`Self::commit`] must follow, or a commit of
    /// [`Self::tail_word`] through the journal, or [`Self::abort`]. With `stamp`, a batch of one
    /// entry may commit itself: the commit depends on no other stores of the caller than those that
    /// the entry's own checksums cover.
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
        self.batch.positions.clear();
        if let Some(stamp) = stamp.filter(|_| self.can_seal()) {
            self.stage_sealed(pm, stamp);
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        let result = self.stage_pages(pm, source, &mut batch);
        self.batch = batch;
        if result.is_err() {
            self.abort(pm, source);
        }
        result
    }

    /// Whether the batch is one entry that can vouch for its data, and it fits into the region.
    #[inline]
    fn can_seal(&self) -> bool {
        let batch = &self.batch;
        batch.ends.len() == 1
            && self.tail + batch.bytes.len() as u64 <= self.region_end(self.pages.back().copied())
            && seal::can_seal(&batch.bytes)
    }

    /// The byte behind the region of `page` (`None`: of the record).
    #[inline]
    pub(super) fn region_end(&self, page: Option<u64>) -> u64 {
        page.map_or(*inline_tails(self.record_at).end(), |p| (p + 1) * BLOCK_BYTES)
    }

    #[inline]
    fn stage_sealed(&mut self, pm: &Pm, stamp: Stamp) {
        let batch = &mut self.batch;
        finish_entry(&mut batch.bytes, self.seed, Some(stamp));
        pm.write_nt(self.tail, &batch.bytes);
        batch.positions.push(self.tail);
        batch.new_tail = self.tail + batch.bytes.len() as u64;
        batch.new_seed = self.seed;
        batch.sealed = true;
    }

    /// Stores the entries behind the tail, on new pages where the last one ends; durable at the
    /// next fence.
    fn stage_pages(&self, pm: &Pm, source: &dyn BlockSource, batch: &mut Batch) -> FsResult<()> {
        let (mut at, mut seed) = (self.tail, self.seed);
        let mut page = self.pages.back().copied();
        let mut start = 0;
        for &end in &batch.ends {
            let entry = &mut batch.bytes[start..end];
            start = end;
            let region_end = self.region_end(page);
            if at + entry.len() as u64 > region_end {
                let sequence = self.next_sequence + batch.new_pages.len() as u64;
                let block = self.add_page(pm, source, (page, at, seed), sequence)?;
                batch.new_pages.push(block);
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

    /// Ends the region of `page` (`None`: of the record), of which `at` is the first unused byte,
    /// and adds a page behind it; durable at the next fence. Returns its PM block.
    pub(super) fn add_page(
        &self,
        pm: &Pm,
        source: &dyn BlockSource,
        (page, at, seed): (Option<u64>, u64, u32),
        sequence: u64,
    ) -> FsResult<u64> {
        let region_end = self.region_end(page);
        if at < region_end {
            pm.write_nt(at, &encode_pad(seed, (region_end - at) / SLOT_BYTES));
        }
        let block = source.alloc_meta()?;
        if !planted(Bug::PageNotInitialised) {
            let header = LogPageHeader::new(self.ino, self.generation, sequence);
            pm.write_nt(block * BLOCK_BYTES, header.as_bytes());
        }
        seal::forget(pm, block * BLOCK_BYTES + SLOT_BYTES, (block + 1) * BLOCK_BYTES);
        self.link(pm, page, block);
        Ok(block)
    }

    /// Makes `page` (or the record, if there is no page yet) lead to `block`; durable at the next
    /// fence.
    pub(super) fn link(&self, pm: &Pm, page: Option<u64>, block: u64) {
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
    pub fn abort(&mut self, pm: &Pm, source: &dyn BlockSource) {
        seal::forget(pm, self.tail, self.region_end(self.pages.back().copied()));
        for block in self.batch.new_pages.drain(..) {
            source.free(BlockAddr::pm(block), 1);
        }
    }

    /// The store that commits the staged batch, for the journal.
    #[inline]
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
            match self.is_lent {
                false => pm.store_u64(word.at, word.value),
                true => self.exchange_tail(pm, word)?,
            }
            if !planted(Bug::TailNotFlushed) {
                pm.flush(word.at, 8);
            }
            fence(pm)?;
        }
        self.published();
        Ok(())
    }

    /// The fence of a batch that commits itself failed. Its entry may be durable although its data
    /// are lost, so it is overwritten, as far as PM still works: the data that it replaces are
    /// still there.
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
    #[inline]
    pub fn published(&mut self) {
        // Staging flushed the unfenced stores, and a fence has followed.
        self.unfenced = None;
        self.tail_behind = self.batch.sealed;
        self.seed = self.batch.new_seed;
        self.tail = self.batch.new_tail;
        if !self.limbo.is_empty() {
            self.free.append(&mut self.limbo);
        }
        if !self.batch.new_pages.is_empty() {
            self.slots += self.batch.new_pages.len() as u64 * PAGE_SLOTS;
            self.next_sequence += self.batch.new_pages.len() as u64;
            self.pages.extend(self.batch.new_pages.drain(..));
        }
    }
}
