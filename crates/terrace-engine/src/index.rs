//! The volatile index of a file: which device blocks hold which file blocks.
//!
//! Invariants:
//! * Extents do not overlap; each maps a run of file blocks to a run of device blocks, within one write entry.
//! * Each extent holds one reference on its entry in the log, so that the log knows which pages are live.
//! * An entry's checksum blocks belong to it as a whole: they are freed with its last extent.

use std::collections::{BTreeMap, HashMap};

use terrace_layout::BlockAddr;

use crate::log::Refs;

/// Blocks that became stale; freed by the caller once that is durable.
pub(crate) type Freed = Vec<(BlockAddr, u64)>;

/// A run of file blocks on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First device block.
    pub addr: BlockAddr,
    /// Position of the write entry; slots are 64 bytes long, so the low bits hold flags.
    entry_and_flags: u64,
    pub blocks: u32,
    /// Blocks of the entry before this extent.
    pub skip: u32,
}

const UNWRITTEN: u64 = 1;
const HAS_CRC_BLOCKS: u64 = 2;
const FLAGS: u64 = 63;

impl Extent {
    pub fn new(addr: BlockAddr, blocks: u32, entry: u64, unwritten: bool, has_crc_blocks: bool) -> Self {
        let flags = if unwritten { UNWRITTEN } else { 0 } | if has_crc_blocks { HAS_CRC_BLOCKS } else { 0 };
        Self { addr, entry_and_flags: entry | flags, blocks, skip: 0 }
    }

    /// Position of the write entry in PM.
    pub fn entry(&self) -> u64 {
        self.entry_and_flags & !FLAGS
    }

    /// Allocated, never written.
    pub fn unwritten(&self) -> bool {
        self.entry_and_flags & UNWRITTEN != 0
    }

    fn has_crc_blocks(&self) -> bool {
        self.entry_and_flags & HAS_CRC_BLOCKS != 0
    }

    fn head(&self, blocks: u64) -> Extent {
        Extent { blocks: blocks as u32, ..*self }
    }

    fn tail(&self, skip: u64) -> Extent {
        let n = skip as u32;
        Extent { addr: self.addr.offset(skip), blocks: self.blocks - n, skip: self.skip + n, ..*self }
    }
}

/// Checksum blocks, shared by the pieces into which compaction may have cut their entry.
#[derive(Debug, Clone, Copy)]
struct CrcRun {
    blocks: u64,
    extents: u32,
}

/// The index of one file.
#[derive(Debug, Default)]
pub(crate) struct Index {
    map: BTreeMap<u64, Extent>,
    /// First checksum block of each entry that has some, and its extents.
    crc_of: HashMap<u64, (BlockAddr, u32)>,
    crc_runs: HashMap<BlockAddr, CrcRun>,
    /// Data blocks mapped, on all devices.
    blocks: u64,
}

/// What lies at a file block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Nothing, for this many blocks (`u64::MAX`: to the end).
    Hole(u64),
    /// The extent from this block on.
    Extent(Extent),
}

impl Index {
    pub fn blocks(&self) -> u64 {
        self.blocks + self.crc_runs.values().map(|r| r.blocks).sum::<u64>()
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, &Extent)> {
        self.map.iter().map(|(&b, e)| (b, e))
    }

    /// Checksum block runs of all entries.
    pub fn crc_runs(&self) -> impl Iterator<Item = (BlockAddr, u64)> {
        self.crc_runs.iter().map(|(&addr, r)| (addr, r.blocks))
    }

    /// What lies at `block` and how far it reaches.
    pub fn lookup(&self, block: u64) -> Segment {
        if let Some((&start, extent)) = self.map.range(..=block).next_back()
            && start + u64::from(extent.blocks) > block
        {
            return Segment::Extent(extent.tail(block - start));
        }
        match self.map.range(block..).next() {
            Some((&start, _)) => Segment::Hole(start - block),
            None => Segment::Hole(u64::MAX),
        }
    }

    /// The first extent that starts at or after `block`.
    pub fn next_extent(&self, block: u64) -> Option<(u64, Extent)> {
        self.map.range(block..).next().map(|(&b, &e)| (b, e))
    }

    /// Maps `extent` at `file_block`, where nothing is mapped. `crc_run`: the entry's checksum blocks.
    pub fn map(&mut self, refs: &mut Refs, file_block: u64, extent: Extent, crc_run: Option<(BlockAddr, u64)>) {
        refs.retain(extent.entry(), 1);
        self.blocks += u64::from(extent.blocks);
        if let Some((addr, blocks)) = crc_run {
            self.crc_of.entry(extent.entry()).or_insert((addr, 0)).1 += 1;
            self.crc_runs.entry(addr).or_insert(CrcRun { blocks, extents: 0 }).extents += 1;
        }
        self.map.insert(file_block, extent);
    }

    /// Unmaps the file blocks `from..to`; what they occupied goes to `freed`.
    pub fn unmap(&mut self, refs: &mut Refs, from: u64, to: u64, freed: &mut Freed) {
        if let Some((&start, &extent)) = self.map.range(..from).next_back() {
            let end = start + u64::from(extent.blocks);
            if end > from {
                self.map.insert(start, extent.head(from - start));
                let cut_end = end.min(to);
                self.freed_part(extent.tail(from - start).head(cut_end - from), freed);
                if end > to {
                    self.add_reference(refs, &extent);
                    self.map.insert(to, extent.tail(to - start));
                    return;
                }
            }
        }
        while let Some((&start, &extent)) = self.map.range(from..to).next() {
            self.map.remove(&start);
            let end = start + u64::from(extent.blocks);
            if end > to {
                self.map.insert(to, extent.tail(to - start));
                self.freed_part(extent.head(to - start), freed);
                return;
            }
            self.freed_part(extent, freed);
            self.drop_reference(refs, &extent, freed);
        }
    }

    /// Moves the extents to where compaction has copied their entries: `position` gives it, in order of extents.
    pub fn moved(&mut self, refs: &mut Refs, mut position: impl FnMut(usize) -> u64) {
        let crc_of = std::mem::take(&mut self.crc_of);
        for (i, extent) in self.map.values_mut().enumerate() {
            let entry = position(i);
            refs.retain(entry, 1);
            if let Some(&(addr, _)) = crc_of.get(&extent.entry()) {
                self.crc_of.entry(entry).or_insert((addr, 0)).1 += 1;
            }
            *extent = Extent { entry_and_flags: entry | (extent.entry_and_flags & FLAGS), skip: 0, ..*extent };
        }
    }

    fn freed_part(&mut self, part: Extent, freed: &mut Freed) {
        self.blocks -= u64::from(part.blocks);
        freed.push((part.addr, u64::from(part.blocks)));
    }

    fn add_reference(&mut self, refs: &mut Refs, extent: &Extent) {
        refs.retain(extent.entry(), 1);
        if extent.has_crc_blocks() {
            let (addr, extents) = self.crc_of.get_mut(&extent.entry()).expect("entry has checksum blocks");
            *extents += 1;
            self.crc_runs.get_mut(addr).expect("run of the entry").extents += 1;
        }
    }

    fn drop_reference(&mut self, refs: &mut Refs, extent: &Extent, freed: &mut Freed) {
        refs.release(extent.entry(), 1);
        if !extent.has_crc_blocks() {
            return;
        }
        let (addr, extents) = self.crc_of.get_mut(&extent.entry()).expect("entry has checksum blocks");
        let addr = *addr;
        *extents -= 1;
        if *extents == 0 {
            self.crc_of.remove(&extent.entry());
        }
        let run = self.crc_runs.get_mut(&addr).expect("run of the entry");
        run.extents -= 1;
        if run.extents == 0 {
            freed.push((addr, run.blocks));
            self.crc_runs.remove(&addr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;
    use proptest::prelude::*;

    proptest! {
        /// The index against a plain map from file block to device block.
        #[test]
        fn behaves_as_a_block_map(ops in proptest::collection::vec((any::<bool>(), 0u64..64, 1u64..20), 1..80)) {
            let mut refs = Log::new(0, 1, 1).refs;
            let mut index = Index::default();
            let mut model: BTreeMap<u64, BlockAddr> = BTreeMap::new();
            let mut next = 100;
            for (write, from, len) in ops {
                let mut freed = Freed::new();
                index.unmap(&mut refs, from, from + len, &mut freed);
                let mut gone: Vec<BlockAddr> = (from..from + len).filter_map(|b| model.remove(&b)).collect();
                let mut given: Vec<BlockAddr> = freed.iter().flat_map(|&(a, n)| (0..n).map(move |i| a.offset(i))).collect();
                gone.sort();
                given.sort();
                prop_assert_eq!(gone, given);
                if write {
                    let extent = Extent::new(BlockAddr::pm(next), len as u32, 4096 * next, false, false);
                    index.map(&mut refs, from, extent, None);
                    (0..len).for_each(|i| { model.insert(from + i, BlockAddr::pm(next + i)); });
                    next += len;
                }
                prop_assert_eq!(index.blocks(), model.len() as u64);
                for block in 0..90 {
                    let found = match index.lookup(block) {
                        Segment::Extent(e) => Some(e.addr),
                        Segment::Hole(_) => None,
                    };
                    prop_assert_eq!(found, model.get(&block).copied());
                }
            }
        }

        /// Checksum blocks go with the last extent of their entry, and not before.
        #[test]
        fn checksum_blocks_go_last(order in Just((0u64..8).collect::<Vec<_>>()).prop_shuffle()) {
            let mut refs = Log::new(0, 1, 1).refs;
            let mut index = Index::default();
            let extent = Extent::new(BlockAddr::new(1, 50), 8, 4096, false, true);
            index.map(&mut refs, 0, extent, Some((BlockAddr::new(1, 49), 1)));
            let crc = (BlockAddr::new(1, 49), 1);
            for (i, block) in order.iter().enumerate() {
                let mut freed = Freed::new();
                index.unmap(&mut refs, *block, block + 1, &mut freed);
                prop_assert_eq!(freed.contains(&crc), i == 7);
            }
        }
    }
}
