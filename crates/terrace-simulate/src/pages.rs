//! Clean pages in the page cache, the least recently used first to go.
//!
//! Invariants: `slots` has exactly the pages of the ring, and each is there once. The ring's oldest
//! page follows its head, the youngest precedes it. The head itself is slot 0 and no page.

use rustc_hash::FxHashMap;

/// A block of a file.
pub(crate) type PageId = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Node {
    id: PageId,
    older: u32,
    younger: u32,
}

const HEAD: u32 = 0;

/// See the module.
#[derive(Debug)]
pub(crate) struct CleanPages {
    slots: FxHashMap<PageId, u32>,
    ring: Vec<Node>,
    unused: Vec<u32>,
}

impl Default for CleanPages {
    fn default() -> Self {
        Self {
            slots: FxHashMap::default(),
            ring: vec![Node { id: (0, 0), older: HEAD, younger: HEAD }],
            unused: Vec::new(),
        }
    }
}

impl CleanPages {
    pub fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Whether a page is there; it is the youngest then.
    pub fn touch(&mut self, id: PageId) -> bool {
        let Some(&slot) = self.slots.get(&id) else { return false };
        self.unlink(slot);
        self.link_youngest(slot);
        true
    }

    /// Whether a page is there, without using it.
    pub fn contains(&self, id: PageId) -> bool {
        self.slots.contains_key(&id)
    }

    /// Adds a page, the youngest, where `room` pages may be.
    pub fn insert(&mut self, id: PageId, room: u64) {
        if room == 0 || self.touch(id) {
            return;
        }
        self.shrink(room - 1);
        let node = Node { id, older: HEAD, younger: HEAD };
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.ring[slot as usize] = node;
                slot
            }
            None => {
                self.ring.push(node);
                (self.ring.len() - 1) as u32
            }
        };
        self.slots.insert(id, slot);
        self.link_youngest(slot);
    }

    /// Drops the oldest until there are no more than `room`.
    pub fn shrink(&mut self, room: u64) {
        while self.len() > room {
            let oldest = self.ring[HEAD as usize].younger;
            self.remove(self.ring[oldest as usize].id);
        }
    }

    pub fn remove(&mut self, id: PageId) {
        if let Some(slot) = self.slots.remove(&id) {
            self.unlink(slot);
            self.unused.push(slot);
        }
    }

    /// Drops the pages of a range of a file.
    pub fn remove_range(&mut self, ino: u64, from: u64, to: u64) {
        if to.saturating_sub(from) <= self.len() {
            (from..to).for_each(|block| self.remove((ino, block)));
            return;
        }
        let within = |id: &PageId| id.0 == ino && (from..to).contains(&id.1);
        let found: Vec<PageId> = self.slots.keys().copied().filter(within).collect();
        found.into_iter().for_each(|id| self.remove(id));
    }

    fn unlink(&mut self, slot: u32) {
        let Node { older, younger, .. } = self.ring[slot as usize];
        self.ring[older as usize].younger = younger;
        self.ring[younger as usize].older = older;
    }

    fn link_youngest(&mut self, slot: u32) {
        let youngest = self.ring[HEAD as usize].older;
        self.ring[slot as usize].older = youngest;
        self.ring[slot as usize].younger = HEAD;
        self.ring[youngest as usize].younger = slot;
        self.ring[HEAD as usize].older = slot;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut pages = CleanPages::default();
        (0..3).for_each(|block| pages.insert((1, block), 3));
        assert!(pages.touch((1, 0)));
        pages.insert((1, 3), 3);
        assert!(!pages.contains((1, 1)) && pages.contains((1, 0)) && pages.contains((1, 2)));
        pages.insert((1, 4), 0);
        assert!(!pages.contains((1, 4)) && pages.len() == 3);
        pages.remove_range(1, 0, u64::MAX);
        assert_eq!(pages.len(), 0);
    }

    proptest! {
        /// Against a list that is kept in order.
        #[test]
        fn it_is_a_list_in_the_order_of_use(
            steps in prop::collection::vec((0..5u8, 0..12u64, 0..6u64), 0..200),
        ) {
            let mut pages = CleanPages::default();
            let mut list: Vec<PageId> = Vec::new();
            for (step, block, room) in steps {
                let id = (block % 2, block);
                match step {
                    0 | 1 => {
                        pages.insert(id, room);
                        if room > 0 {
                            let was_there = list.contains(&id);
                            list.retain(|&other| other != id);
                            if !was_there {
                                list.drain(..(list.len() + 1).saturating_sub(room as usize));
                            }
                            list.push(id);
                        }
                    }
                    2 => {
                        let there = list.contains(&id);
                        prop_assert_eq!(pages.touch(id), there);
                        if there {
                            list.retain(|&other| other != id);
                            list.push(id);
                        }
                    }
                    3 => {
                        pages.shrink(room);
                        list.drain(..list.len().saturating_sub(room as usize));
                    }
                    _ => {
                        pages.remove_range(id.0, block, block + room);
                        list.retain(|other| {
                            other.0 != id.0 || !(block..block + room).contains(&other.1)
                        });
                    }
                }
                prop_assert_eq!(pages.len(), list.len() as u64);
                prop_assert!(list.iter().all(|&id| pages.contains(id)));
            }
        }
    }
}
