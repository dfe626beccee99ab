//! Compaction: the live entries are written anew to pages of their own. No pointer leads to these
//! pages before the journal swaps them in.

use terrace_layout::{
    BLOCK, BLOCK_BYTES, BlockAddr, CheckedPtr, HEAD_OFFSET, JournalWord, LogPageHeader,
    MediaStruct, NEXT_OFFSET, SLOT_BYTES, encode_pad, finish_entry, lay_out_entry, page_seed,
    slots_for,
};
use terrace_media::Pm;
use zerocopy::IntoBytes;

use super::Log;
use super::new_log::NewLog;
use super::refs::Refs;
use crate::error::FsResult;
use crate::journal::Journal;
use crate::planted::{Bug, planted};
use crate::seal;
use crate::source::BlockSource;

/// The pages written so far, and the one that is being filled, in DRAM.
#[derive(Debug)]
pub struct Compaction<'a> {
    pm: &'a Pm,
    source: &'a dyn BlockSource,
    ino: u64,
    generation: u32,
    inline_seed: u32,
    next_sequence: u64,
    seed: u32,
    blocks: Vec<u64>,
    page: Vec<u8>,
}

impl NewLog for Compaction<'_> {
    fn push<T: MediaStruct>(&mut self, head: &T, parts: &[&[u8]]) -> FsResult<u64> {
        let slots = slots_for(size_of::<T>() + parts.iter().map(|part| part.len()).sum::<usize>());
        if self.page.len() + (slots * SLOT_BYTES) as usize > BLOCK {
            let next = self.source.alloc_meta()?;
            self.end_page(next);
            self.begin_page(next);
        }
        let start = self.page.len();
        lay_out_entry(&mut self.page, head, parts);
        finish_entry(&mut self.page[start..], self.seed, None);
        Ok(self.last_block() * BLOCK_BYTES + start as u64)
    }
}

impl Compaction<'_> {
    fn last_block(&self) -> u64 {
        *self.blocks.last().expect("a compaction begins with a page")
    }

    fn begin_page(&mut self, block: u64) {
        self.blocks.push(block);
        self.page.clear();
        let header = LogPageHeader::new(self.ino, self.generation, self.next_sequence);
        self.page.extend_from_slice(header.as_bytes());
        self.seed = page_seed(self.inline_seed, self.next_sequence);
        self.next_sequence += 1;
    }

    fn end_page(&mut self, next: u64) {
        let room = (BLOCK - self.page.len()) as u64 / SLOT_BYTES;
        if room > 0 {
            self.page.extend_from_slice(&encode_pad(self.seed, room));
            self.page.resize(BLOCK, 0);
        }
        let at = NEXT_OFFSET as usize;
        self.page[at..at + 8]
            .copy_from_slice(&CheckedPtr::new(BlockAddr::pm(next), false).0.to_le_bytes());
        self.store_page();
    }

    fn store_page(&self) {
        self.pm.write_nt(self.last_block() * BLOCK_BYTES, &self.page);
    }

    /// Gives the new pages back: nothing has changed.
    pub fn give_up(self) {
        self.blocks.iter().for_each(|&block| self.source.free(BlockAddr::pm(block), 1));
    }
}

impl Log {
    /// Starts writing the log anew.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub fn begin_compaction<'a>(
        &self,
        pm: &'a Pm,
        source: &'a dyn BlockSource,
    ) -> FsResult<Compaction<'a>> {
        let mut compaction = Compaction {
            pm,
            source,
            ino: self.ino,
            generation: self.generation,
            inline_seed: self.inline_seed,
            next_sequence: self.next_sequence,
            seed: 0,
            blocks: Vec::new(),
            page: Vec::with_capacity(BLOCK),
        };
        compaction.begin_page(source.alloc_meta()?);
        Ok(compaction)
    }

    /// Replaces the log by the pushed entries, which must be all live ones. The caller's references
    /// are void then: it retains the new ones.
    ///
    /// # Errors
    /// PM errors: the volume must not be written again.
    pub fn end_compaction(
        &mut self,
        compaction: Compaction<'_>,
        journal: &Journal,
    ) -> FsResult<()> {
        let (pm, source) = (compaction.pm, compaction.source);
        self.flush_unfenced(pm);
        compaction.store_page();
        self.begin();
        let last = compaction.last_block() * BLOCK_BYTES;
        self.batch.new_tail = last + compaction.page.len() as u64;
        seal::forget(pm, self.batch.new_tail, last + BLOCK_BYTES);
        (self.batch.new_seed, self.batch.sealed) = (compaction.seed, false);
        let head = CheckedPtr::new(BlockAddr::pm(compaction.blocks[0]), true);
        let words =
            [JournalWord { at: self.record_at + HEAD_OFFSET, value: head.0 }, self.tail_word()];
        match planted(Bug::CompactionInTwoSteps) {
            true => {
                words.iter().try_for_each(|word| journal.commit(pm, std::slice::from_ref(word)))?
            }
            false => journal.commit(pm, &words)?,
        }
        self.free_all(source);
        self.batch.new_pages = compaction.blocks;
        self.refs = Refs::new(self.record_at);
        self.slots = 0;
        self.inline_dropped = true;
        self.published();
        self.slots_after_compaction = self.slots;
        Ok(())
    }
}
