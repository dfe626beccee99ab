//! An inode table gives back blocks in which no inode has a record.
//!
//! A chunk that nobody uses leaves the chain. Of another one, the blocks that nobody uses are cut
//! out, and what is behind them is a chunk of its own, whose header takes the place of a free
//! record: one journal record stores both headers. The indexes of what is cut out, and of that
//! record, are a gap: no inode has them, until a chunk fills the gap.

use std::ops::Range;

use terrace_layout::{BLOCK_BYTES, BlockAddr, CHUNK_NEXT_OFFSET, CheckedPtr, JournalWord};
use terrace_media::Pm;
use zerocopy::IntoBytes;

use super::{Chunk, InodeTable, RECORDS_PER_BLOCK, header};
use crate::error::FsResult;
use crate::journal::Journal;
use crate::planted::{Bug, planted};
use crate::space::Space;

/// Records that are freed before it is worth a look.
const FREED_MIN: u64 = 64;

impl Chunk {
    fn is_used(&self, slot: u64) -> bool {
        self.used.as_ref().expect("loaded")[(slot / 64) as usize] >> (slot % 64) & 1 == 1
    }

    /// The runs of blocks behind the first in which no record is in use, the last one first.
    fn empty_runs(&self) -> Vec<Range<u64>> {
        let slots = |block: u64| block * RECORDS_PER_BLOCK - 1..(block + 1) * RECORDS_PER_BLOCK - 1;
        let is_empty = |block: u64| !slots(block).any(|slot| self.is_used(slot));
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in (1..self.blocks()).filter(|&block| is_empty(block)) {
            match runs.last_mut() {
                Some(run) if run.end == block => run.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs.reverse();
        runs
    }

    /// The part of it that is left when it begins with block `from`, whose first record makes room
    /// for the header, and ends before block `to`.
    fn part(&self, from: u64, to: u64) -> Chunk {
        let (first, records) = (from * RECORDS_PER_BLOCK, (to - from) * RECORDS_PER_BLOCK - 1);
        let mut used = vec![0u64; records.div_ceil(64) as usize];
        let in_use = (0..records).filter(|&slot| self.is_used(first + slot));
        let count =
            in_use.inspect(|slot| used[(slot / 64) as usize] |= 1 << (slot % 64)).count() as u64;
        Chunk {
            at: self.at + from * BLOCK_BYTES,
            first_index: self.first_index + first,
            records,
            free: records - count,
            used: Some(used),
            cursor: 0,
        }
    }
}

impl InodeTable {
    /// Whether there may be so much to give back that looking for it is worth the trouble.
    pub fn wants_to_shrink(&self, pm_is_low: bool) -> bool {
        let (records, free) =
            self.chunks[1..].iter().fold((0, 0), |(n, f), c| (n + c.records, f + c.free));
        let is_rather_empty = free > records / 2 && self.freed > records / 8;
        self.freed >= FREED_MIN && (pm_is_low || is_rather_empty)
    }

    /// Gives back what it does not need, but for the first chunk, which each table gets at format.
    ///
    /// # Errors
    /// PM errors: the volume must not be written again.
    pub fn shrink(&mut self, pm: &Pm, journal: &Journal, space: &Space) -> FsResult<()> {
        self.freed = 0;
        // From the end: what is cut in two changes the numbers of those behind it.
        for c in (1..self.chunks.len()).rev() {
            if self.chunks[c].free + 1 < RECORDS_PER_BLOCK {
                continue;
            }
            self.load_chunk(pm, c);
            let chunk = &self.chunks[c];
            if chunk.free == chunk.records {
                let link = JournalWord {
                    at: self.chunks[c - 1].at + CHUNK_NEXT_OFFSET,
                    value: self.pointer(c + 1).0,
                };
                commit(pm, journal, &[link])?;
                let gone = self.chunks.remove(c);
                space.free(BlockAddr::pm(gone.at / BLOCK_BYTES), gone.blocks());
                continue;
            }
            for run in chunk.empty_runs() {
                self.cut(pm, journal, space, c, run)?;
            }
        }
        Ok(())
    }

    /// Cuts the blocks `from..to`, which are empty, out of a chunk.
    fn cut(
        &mut self,
        pm: &Pm,
        journal: &Journal,
        space: &Space,
        c: usize,
        blocks: Range<u64>,
    ) -> FsResult<()> {
        let Range { start: from, end: to } = blocks;
        let chunk = &self.chunks[c];
        let (start, blocks) = (chunk.at / BLOCK_BYTES, chunk.blocks());
        // The chain after it needs a header.
        let to = if to < blocks && chunk.is_used(to * RECORDS_PER_BLOCK - 1) { to - 1 } else { to };
        if to <= from {
            return Ok(());
        }
        let head = chunk.part(0, from);
        let rest = (to < blocks).then(|| chunk.part(to, blocks));
        let after = self.pointer(c + 1);
        let to_rest = |rest: &Chunk| CheckedPtr::new(BlockAddr::pm(rest.at / BLOCK_BYTES), false);
        let mut words = self.header_words(&head, rest.as_ref().map_or(after, to_rest));
        words.extend(rest.iter().flat_map(|rest| self.header_words(rest, after)));
        commit(pm, journal, &words)?;
        self.chunks[c] = head;
        rest.into_iter().for_each(|rest| self.chunks.insert(c + 1, rest));
        space.free(BlockAddr::pm(start + from), to - from);
        Ok(())
    }

    /// The stores that make a chunk's header.
    fn header_words(&self, chunk: &Chunk, next: CheckedPtr) -> Vec<JournalWord> {
        let header = header(self.shard as u16, chunk.first_index, chunk.records, next, chunk.free);
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let words = header.as_bytes().chunks_exact(8).map(word);
        (chunk.at..).step_by(8).zip(words).map(|(at, value)| JournalWord { at, value }).collect()
    }
}

fn commit(pm: &Pm, journal: &Journal, words: &[JournalWord]) -> FsResult<()> {
    match planted(Bug::TableCutInSteps) {
        true => words.iter().try_for_each(|word| journal.commit(pm, std::slice::from_ref(word))),
        false => journal.commit(pm, words),
    }
}
