//! Which slots hold the pages of one file: chunks of adjacent blocks, so that a run of pages costs
//! a few steps through the tree, not one each.
//!
//! Invariants: a bit is set in at most one of a chunk's two masks; slots count only where one is;
//! no chunk is empty.

use std::collections::BTreeMap;

use super::slots::SlotId;

/// Blocks of a chunk: the bits of a mask.
const CHUNK_BLOCKS: u64 = 16;

/// Whether a page is clean or dirty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Clean,
    Dirty,
}

#[derive(Clone, Copy, Default)]
struct Chunk {
    slots: [SlotId; CHUNK_BLOCKS as usize],
    clean: u16,
    dirty: u16,
}

impl Chunk {
    fn mask(&mut self, kind: Kind) -> &mut u16 {
        match kind {
            Kind::Clean => &mut self.clean,
            Kind::Dirty => &mut self.dirty,
        }
    }

    fn kind(&self, bit: u64) -> Option<Kind> {
        match (self.clean >> bit & 1, self.dirty >> bit & 1) {
            (1, _) => Some(Kind::Clean),
            (_, 1) => Some(Kind::Dirty),
            _ => None,
        }
    }
}

/// The slots by file block.
#[derive(Default)]
pub(super) struct Pages {
    chunks: BTreeMap<u64, Chunk>,
}

fn place(block: u64) -> (u64, u64) {
    (block / CHUNK_BLOCKS, block % CHUNK_BLOCKS)
}

impl Pages {
    /// The page of a block.
    pub fn get(&self, block: u64) -> Option<(SlotId, Kind)> {
        let (number, bit) = place(block);
        let chunk = self.chunks.get(&number)?;
        Some((chunk.slots[bit as usize], chunk.kind(bit)?))
    }

    /// Puts a page where none is.
    pub fn insert(&mut self, block: u64, slot: SlotId, kind: Kind) {
        let (number, bit) = place(block);
        let chunk = self.chunks.entry(number).or_default();
        debug_assert!(chunk.kind(bit).is_none(), "block {block} has a page");
        chunk.slots[bit as usize] = slot;
        *chunk.mask(kind) |= 1 << bit;
    }

    /// Takes a block's page out.
    pub fn remove(&mut self, block: u64) -> Option<(SlotId, Kind)> {
        let (number, bit) = place(block);
        let chunk = self.chunks.get_mut(&number)?;
        let kind = chunk.kind(bit)?;
        *chunk.mask(kind) &= !(1 << bit);
        let slot = chunk.slots[bit as usize];
        if chunk.clean | chunk.dirty == 0 {
            self.chunks.remove(&number);
        }
        Some((slot, kind))
    }

    /// Turns a block's page clean if it is this slot, dirty; says whether it was.
    pub fn make_clean(&mut self, block: u64, slot: SlotId) -> bool {
        let (number, bit) = place(block);
        let Some(chunk) = self.chunks.get_mut(&number) else {
            return false;
        };
        let found = chunk.kind(bit) == Some(Kind::Dirty) && chunk.slots[bit as usize] == slot;
        if found {
            chunk.dirty &= !(1 << bit);
            chunk.clean |= 1 << bit;
        }
        found
    }

    /// The pages among `from..to`, ascending.
    pub fn range(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, SlotId, Kind)> {
        let chunks = self
            .chunks
            .range(from / CHUNK_BLOCKS..to.div_ceil(CHUNK_BLOCKS).max(from / CHUNK_BLOCKS));
        let pages = chunks.flat_map(|(number, chunk)| {
            (0..CHUNK_BLOCKS).filter_map(move |bit| {
                Some((number * CHUNK_BLOCKS + bit, chunk.slots[bit as usize], chunk.kind(bit)?))
            })
        });
        pages.filter(move |&(block, ..)| (from..to).contains(&block))
    }

    /// The dirty pages among `from..to`, ascending.
    pub fn dirty(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, SlotId)> {
        let chunks = self
            .chunks
            .range(from / CHUNK_BLOCKS..to.div_ceil(CHUNK_BLOCKS).max(from / CHUNK_BLOCKS));
        let pages = chunks.filter(|(_, chunk)| chunk.dirty != 0).flat_map(|(number, chunk)| {
            let dirty = (0..CHUNK_BLOCKS).filter(|bit| chunk.dirty >> bit & 1 == 1);
            dirty.map(move |bit| (number * CHUNK_BLOCKS + bit, chunk.slots[bit as usize]))
        });
        pages.filter(move |&(block, _)| (from..to).contains(&block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_where_they_were_put() {
        let mut pages = Pages::default();
        for block in [0, 15, 16, 1000, u64::MAX >> 1] {
            pages.insert(
                block,
                block as SlotId,
                if block % 2 == 0 { Kind::Clean } else { Kind::Dirty },
            );
        }
        assert_eq!(pages.get(15), Some((15, Kind::Dirty)));
        assert_eq!(pages.get(16), Some((16, Kind::Clean)));
        assert_eq!(pages.get(17), None);
        let blocks = |from, to| pages.range(from, to).map(|(block, ..)| block).collect::<Vec<_>>();
        assert_eq!(blocks(0, 16), [0, 15]);
        assert_eq!(blocks(1, 17), [15, 16]);
        assert!(blocks(16, 16).is_empty());
        assert_eq!(blocks(1001, u64::MAX), [u64::MAX >> 1]);
        assert_eq!(
            pages.dirty(0, u64::MAX).map(|(block, _)| block).collect::<Vec<_>>(),
            [15, u64::MAX >> 1]
        );
    }

    #[test]
    fn only_the_slot_that_was_written_back_turns_clean() {
        let mut pages = Pages::default();
        pages.insert(3, 7, Kind::Dirty);
        assert!(!pages.make_clean(3, 8) && !pages.make_clean(4, 7));
        assert!(pages.make_clean(3, 7) && !pages.make_clean(3, 7));
        assert_eq!(pages.remove(3), Some((7, Kind::Clean)));
        assert_eq!(pages.remove(3), None);
        assert!(pages.chunks.is_empty());
    }
}
