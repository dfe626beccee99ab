//! A stretch of a file, one slot per block.
//!
//! Invariant: a used slot is an extent of one block; an unused one is of none.

use terrace_layout::BlockAddr;

use super::{Extent, Segment};

/// File blocks of a table: with its 12 KiB it stays small beside the data, and unit tests see several in a small file.
pub(super) const TABLE_BLOCKS: u64 = if cfg!(test) { 16 } else { 512 };

const UNUSED: Extent = Extent { addr: BlockAddr(0), entry_and_flags: 0, blocks: 0, skip: 0 };

#[derive(Debug)]
pub(super) struct Table {
    slots: Box<[Extent; TABLE_BLOCKS as usize]>,
    used: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self { slots: Box::new([UNUSED; TABLE_BLOCKS as usize]), used: 0 }
    }
}

impl Table {
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Used slots.
    pub fn len(&self) -> usize {
        self.used as usize
    }

    /// What lies in slot `i`; a hole reaches to the next used slot or to the table's end.
    pub fn lookup(&self, i: u64) -> Segment {
        let slot = self.slots[i as usize];
        if slot.blocks > 0 {
            return Segment::Extent(slot);
        }
        let hole = self.slots[i as usize..].iter().take_while(|s| s.blocks == 0).count();
        Segment::Hole(hole as u64)
    }

    /// Fills the unused slot `i`.
    pub fn set(&mut self, i: u64, extent: Extent) {
        debug_assert!(self.slots[i as usize].blocks == 0 && extent.blocks == 1);
        self.slots[i as usize] = extent;
        self.used += 1;
    }

    /// The slot `i`, if it is used.
    pub fn slot_mut(&mut self, i: u64) -> Option<&mut Extent> {
        Some(&mut self.slots[i as usize]).filter(|slot| slot.blocks > 0)
    }

    /// Empties the slot `i` and returns what it held.
    pub fn take(&mut self, i: u64) -> Option<Extent> {
        let slot = std::mem::replace(&mut self.slots[i as usize], UNUSED);
        self.used -= slot.blocks;
        (slot.blocks > 0).then_some(slot)
    }

    /// Used slots with their file blocks; the table starts at file block `start`.
    pub fn iter(&self, start: u64) -> impl Iterator<Item = (u64, &Extent)> {
        (start..).zip(self.slots.iter()).filter(|(_, slot)| slot.blocks > 0)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Extent> {
        self.slots.iter_mut().filter(|slot| slot.blocks > 0)
    }

    /// The first used slot at or after file block `block`; the table starts at `start`.
    pub fn next_used(&self, start: u64, block: u64) -> Option<(u64, Extent)> {
        let from = block.saturating_sub(start) as usize;
        let i = self.slots[from..].iter().position(|slot| slot.blocks > 0)?;
        Some((start + (from + i) as u64, self.slots[from + i]))
    }
}
