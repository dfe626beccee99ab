//! A stretch of a file, one slot per block.
//!
//! Invariant: a used slot is an extent of one block; an unused one has the address 0, where PM's
//! superblock is.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use terrace_layout::BlockAddr;
use terrace_media::prefetch;

use super::{Extent, Segment};

/// File blocks of a table: with its 8 KiB it stays small beside the data, and unit tests see
/// several in a small file.
pub const TABLE_BLOCKS: u64 = if cfg!(test) { 16 } else { 512 };

/// Of the addresses, marks blocks that are allocated and were never written: readers need not look
/// at the entries.
const UNWRITTEN: u64 = 1 << 63;

/// Addresses and entries apart: what readers touch is half as long, and fits the CPU's caches for
/// that much longer.
#[derive(Debug)]
pub(super) struct Table {
    addrs: Box<[u64; TABLE_BLOCKS as usize]>,
    entries: Box<[u64; TABLE_BLOCKS as usize]>,
    used: u32,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            addrs: Box::new([0; TABLE_BLOCKS as usize]),
            entries: Box::new([0; TABLE_BLOCKS as usize]),
            used: 0,
        }
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

    /// What lies in slot `i`; a hole reaches to the next used slot or to the table's end, what one
    /// entry has on a disk to the end of that: disks are read in runs.
    #[inline]
    pub fn lookup(&self, i: u64) -> Segment {
        match self.get(i) {
            Some(extent) if extent.addr.is_pm() => Segment::Extent(extent),
            Some(extent) => Segment::Extent(Extent { blocks: self.run_blocks(i), ..extent }),
            None => Segment::Hole(
                self.addrs[i as usize..].iter().take_while(|&&a| a == 0).count() as u64
            ),
        }
    }

    /// Slots from the used slot `i` on that go on with its entry, on the device.
    fn run_blocks(&self, i: u64) -> u32 {
        let from = i as usize;
        let (addrs, entries) = (&self.addrs[from..], &self.entries[from..]);
        let goes_on = |&(i, (addr, entry)): &(u64, (&u64, &u64))| {
            *addr == addrs[0] + i && *entry == entries[0]
        };
        (0..).zip(addrs.iter().zip(entries)).take_while(goes_on).count() as u32
    }

    /// What slot `i` holds, if it is used.
    #[inline]
    pub fn get(&self, i: u64) -> Option<Extent> {
        let (addr, entry_and_flags) = (self.addrs[i as usize], self.entries[i as usize]);
        let addr = BlockAddr(addr & !UNWRITTEN);
        (addr.0 != 0).then_some(Extent { addr, entry_and_flags, blocks: 1, area_log2: 0 })
    }

    /// As [`Self::get`], the address alone; `None` for a block that was never written, too.
    #[inline]
    pub fn written(&self, i: u64) -> Option<BlockAddr> {
        let addr = self.addrs[i as usize];
        (addr != 0 && addr & UNWRITTEN == 0).then_some(BlockAddr(addr))
    }

    /// Fills slot `i`.
    #[inline]
    pub fn set(&mut self, i: u64, extent: Extent) {
        debug_assert!(extent.blocks == 1 && extent.addr.0 != 0);
        self.used += u32::from(self.addrs[i as usize] == 0);
        self.addrs[i as usize] = extent.addr.0 | if extent.unwritten() { UNWRITTEN } else { 0 };
        self.entries[i as usize] = extent.entry_and_flags;
    }

    /// Empties slot `i` and returns what it held.
    pub fn take(&mut self, i: u64) -> Option<Extent> {
        let extent = self.get(i)?;
        self.addrs[i as usize] = 0;
        self.used -= 1;
        Some(extent)
    }

    /// Used slots with their file blocks; the table starts at file block `start`.
    pub fn iter(&self, start: u64) -> impl Iterator<Item = (u64, Extent)> {
        (0..TABLE_BLOCKS).filter_map(move |i| Some((start + i, self.get(i)?)))
    }

    /// The first used slot at or after file block `block`; the table starts at `start`.
    pub fn next_used(&self, start: u64, block: u64) -> Option<(u64, Extent)> {
        (block.saturating_sub(start)..TABLE_BLOCKS).find_map(|i| Some((start + i, self.get(i)?)))
    }

    /// Asks for slot `i`, which is going to be replaced.
    #[inline]
    pub fn prefetch(&self, i: u64) {
        prefetch(&self.addrs[i as usize]);
        prefetch(&self.entries[i as usize]);
    }
}

/// The tables of a file by number of their stretch.
#[derive(Debug, Default)]
pub(super) struct Tables {
    by_stretch: FxHashMap<u64, Table>,
    order: BTreeSet<u64>,
}

impl Tables {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_stretch.is_empty()
    }

    #[inline]
    pub fn get(&self, stretch: u64) -> Option<&Table> {
        self.by_stretch.get(&stretch)
    }

    #[inline]
    pub fn get_mut(&mut self, stretch: u64) -> Option<&mut Table> {
        self.by_stretch.get_mut(&stretch)
    }

    /// Adds an empty table.
    pub fn add(&mut self, stretch: u64) {
        self.by_stretch.insert(stretch, Table::default());
        self.order.insert(stretch);
    }

    pub fn remove(&mut self, stretch: u64) {
        self.by_stretch.remove(&stretch);
        self.order.remove(&stretch);
    }

    /// Stretches from `stretch` on that have a table, in order.
    pub fn from(&self, stretch: u64) -> impl Iterator<Item = u64> {
        self.order.range(stretch..).copied()
    }

    /// Used slots of all tables with their file blocks, in order.
    pub fn slots(&self) -> impl Iterator<Item = (u64, Extent)> {
        self.order
            .iter()
            .flat_map(|&stretch| self.by_stretch[&stretch].iter(stretch * TABLE_BLOCKS))
    }

    /// Used slots of all tables.
    pub fn len(&self) -> usize {
        self.by_stretch.values().map(Table::len).sum()
    }
}
