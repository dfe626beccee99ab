//! References from the volatile state into a log.

use rustc_hash::FxHashMap;
use terrace_layout::BLOCK_BYTES;

/// References from the volatile state into a log: they tell which pages are live.
#[derive(Debug)]
pub struct Refs {
    /// Byte of the inode's record in PM.
    record_at: u64,
    /// References into each page; pages without any are absent.
    pub(super) pages: FxHashMap<u64, u32>,
    /// References into the slots of the inode record.
    pub(super) inline: u32,
    /// Slots of all entries referred to.
    pub(super) slots: u64,
}

impl Refs {
    /// No references yet, for an inode whose record stands at byte `record_at`.
    pub(super) fn new(record_at: u64) -> Self {
        Self { record_at, pages: FxHashMap::default(), inline: 0, slots: 0 }
    }

    /// The volatile state refers to the entry of `slots` slots at `position`.
    #[inline]
    pub fn retain(&mut self, position: u64, slots: u64) {
        self.slots += slots;
        match self.page_of(position) {
            None => self.inline += 1,
            Some(page) => *self.pages.entry(page).or_default() += 1,
        }
    }

    /// The volatile state no longer refers to that entry.
    #[inline]
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
    #[inline]
    pub fn move_to(&mut self, reference: &mut u64, position: u64) {
        match *reference {
            0 => self.retain(position, 1),
            old => self.replace(old, position, 1),
        }
        *reference = position;
    }

    /// The volatile state refers to the entry at `new` instead of the one at `old`, both of `slots`
    /// slots.
    #[inline]
    pub fn replace(&mut self, old: u64, new: u64, slots: u64) {
        // Most often both stand in one block, which either is a page or holds records.
        if old / BLOCK_BYTES != new / BLOCK_BYTES && self.page_of(old) != self.page_of(new) {
            self.retain(new, slots);
            self.release(old, slots);
        }
    }

    #[inline]
    pub(super) fn page_of(&self, position: u64) -> Option<u64> {
        let in_record =
            (self.record_at..self.record_at + terrace_layout::INODE_BYTES).contains(&position);
        (!in_record).then_some(position / BLOCK_BYTES)
    }
}
