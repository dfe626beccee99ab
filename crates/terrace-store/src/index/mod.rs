//! The volatile index of a file: which device blocks hold which file blocks.
//!
//! Long runs live in a B-tree of extents, so that 16 MiB cost what 4 KiB cost. Where random writes
//! have cut a stretch of the file into single blocks, a table with one slot per block takes over
//! (`table`): a lookup there costs one cache miss instead of a descent.
//!
//! Invariants:
//! * Extents do not overlap; each maps a run of file blocks to a run of device blocks, within one
//!   write entry.
//! * The blocks of a table's stretch are in the table only; no extent of the tree reaches into it.
//! * Each extent, and each used slot of a table, holds one reference on its entry in the log, so
//!   that the log knows which pages are live.
//! * An entry's checksum blocks belong to it as a whole: they are freed with its last extent.

mod extent;
mod table;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use terrace_layout::BlockAddr;

pub use self::extent::Extent;
pub use self::table::TABLE_BLOCKS;
use self::table::{Table, Tables};
use crate::log::Refs;

/// Scattered extents in a table's stretch from which on the table is the smaller of the two.
const TABLE_EXTENTS_MIN: usize = TABLE_BLOCKS as usize / 2;
/// Extents that the tree takes in before it looks whether a table would do better.
const TREE_INSERTS_PER_LOOK: u32 = 32;

/// Blocks that became stale; freed by the caller once that is durable.
pub type Freed = Vec<(BlockAddr, u64)>;

/// Checksum blocks, shared by the pieces into which compaction may have cut their entry.
#[derive(Debug, Clone, Copy)]
struct CrcRun {
    blocks: u64,
    extents: u32,
}

/// The index of one file.
#[derive(Debug, Default)]
pub struct Index {
    tree: BTreeMap<u64, Extent>,
    tables: Tables,
    tree_inserts: u32,
    /// First checksum block of each entry that has some, and its extents.
    crc_of: FxHashMap<u64, (BlockAddr, u32)>,
    crc_runs: FxHashMap<BlockAddr, CrcRun>,
    /// Data blocks mapped, on all devices.
    blocks: u64,
}

/// What lies at a file block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment {
    /// Nothing, for this many blocks (`u64::MAX`: to the end).
    Hole(u64),
    /// The extent from this block on.
    Extent(Extent),
}

impl Index {
    /// Blocks of the file on any device, those of checksums included.
    #[inline]
    pub fn blocks(&self) -> u64 {
        self.blocks + self.crc_runs.values().map(|r| r.blocks).sum::<u64>()
    }

    /// Extents with their file blocks; the order is not that of the file, but always the same.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Extent)> {
        self.tree.iter().map(|(&b, &e)| (b, e)).chain(self.tables.slots())
    }

    /// Checksum block runs of all entries.
    pub fn crc_runs(&self) -> impl Iterator<Item = (BlockAddr, u64)> {
        self.crc_runs.iter().map(|(&addr, r)| (addr, r.blocks))
    }

    /// What lies at `block` and how far it reaches, at least.
    #[inline]
    pub fn lookup(&self, block: u64) -> Segment {
        match self.tables.get(block / TABLE_BLOCKS) {
            Some(table) => table.lookup(block % TABLE_BLOCKS),
            None => self.lookup_in_tree(block),
        }
    }

    #[inline]
    fn lookup_in_tree(&self, block: u64) -> Segment {
        // The last extent is found without a search: appends look there.
        let last = self.tree.last_key_value().filter(|&(&start, _)| start <= block);
        if let Some((&start, extent)) = last.or_else(|| self.tree.range(..=block).next_back())
            && start + u64::from(extent.blocks) > block
        {
            return Segment::Extent(extent.tail(block - start));
        }
        match self.next_start(block) {
            Some(start) => Segment::Hole(start - block),
            None => Segment::Hole(u64::MAX),
        }
    }

    /// Where `block` is, if it was written and stands in a table: all that a read of scattered
    /// blocks needs.
    #[inline]
    pub fn written_in_table(&self, block: u64) -> Option<BlockAddr> {
        self.tables.get(block / TABLE_BLOCKS)?.written(block % TABLE_BLOCKS)
    }

    /// Asks for what a write of `block` will need, while the caller does something else.
    #[inline]
    pub fn prefetch(&self, block: u64) {
        if let Some(table) = self.tables.get(block / TABLE_BLOCKS) {
            table.prefetch(block % TABLE_BLOCKS);
        }
    }

    /// First block at or after `block`, outside of tables, at which an extent or a table starts.
    fn next_start(&self, block: u64) -> Option<u64> {
        let extent = self.tree.range(block..).next().map(|(&start, _)| start);
        let table =
            self.tables.from(block / TABLE_BLOCKS).next().map(|stretch| stretch * TABLE_BLOCKS);
        extent.into_iter().chain(table).min()
    }

    /// The first extent that starts at or after `block`.
    #[inline]
    pub fn next_extent(&self, block: u64) -> Option<(u64, Extent)> {
        let in_tree = self.tree.range(block..).next().map(|(&b, &e)| (b, e));
        let mut stretches = self.tables.from(block / TABLE_BLOCKS);
        let in_table =
            stretches.find_map(|s| self.tables.get(s)?.next_used(s * TABLE_BLOCKS, block));
        in_tree.into_iter().chain(in_table).min_by_key(|&(start, _)| start)
    }

    /// Data blocks, without those of checksums.
    #[inline]
    pub fn data_blocks(&self) -> u64 {
        self.blocks
    }

    /// The extents that start at or after `block`, in order of the file.
    #[inline]
    pub fn extents_from(&self, block: u64) -> impl Iterator<Item = (u64, Extent)> {
        let mut at = block;
        std::iter::from_fn(move || {
            let (start, extent) = self.next_extent(at)?;
            at = start + u64::from(extent.blocks);
            Some((start, extent))
        })
    }

    /// The extents that reach into `from..to`, whole, in order of the file; none into a range that
    /// is empty or ends before it begins.
    #[inline]
    pub fn overlaps(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Extent)> {
        let reaches_in =
            |&(&start, e): &(&u64, &Extent)| from < to && start + u64::from(e.blocks) > from;
        let before = self.tree.range(..from).next_back().filter(reaches_in);
        let first = before.map(|(&start, &extent)| (start, extent));
        first.into_iter().chain(self.extents_from(from).take_while(move |&(start, _)| start < to))
    }

    /// Maps `extent` at `file_block`, where nothing is mapped. `crc_run`: the entry's checksum
    /// blocks.
    pub fn map(
        &mut self,
        refs: &mut Refs,
        file_block: u64,
        extent: Extent,
        crc_run: Option<(BlockAddr, u64)>,
    ) {
        self.blocks += u64::from(extent.blocks);
        if let Some((addr, blocks)) = crc_run {
            self.crc_of.entry(extent.entry()).or_insert((addr, 0));
            self.crc_runs.entry(addr).or_insert(CrcRun { blocks, extents: 0 });
        }
        let end = file_block + u64::from(extent.blocks);
        let mut at = file_block;
        while at < end {
            let part = extent.tail(at - file_block);
            if self.tables.get(at / TABLE_BLOCKS).is_some() {
                let stop = end.min((at / TABLE_BLOCKS + 1) * TABLE_BLOCKS);
                self.fill_table(refs, at, part.head(stop - at));
                at = stop;
            } else {
                let next_table = self.tables.from(at / TABLE_BLOCKS).next();
                let stop = next_table.map_or(end, |stretch| end.min(stretch * TABLE_BLOCKS));
                self.add_reference(refs, &part);
                self.tree.insert(at, part.head(stop - at));
                self.note_tree_insert(refs, at);
                at = stop;
            }
        }
    }

    /// Maps `extent` at `file_block`, block by block, in the table that holds all of its stretch.
    fn fill_table(&mut self, refs: &mut Refs, file_block: u64, extent: Extent) {
        for i in 0..u64::from(extent.blocks) {
            self.add_reference(refs, &extent);
            let table =
                self.tables.get_mut(file_block / TABLE_BLOCKS).expect("the caller saw the table");
            table.set(file_block % TABLE_BLOCKS + i, extent.tail(i).head(1));
        }
    }

    fn note_tree_insert(&mut self, refs: &mut Refs, file_block: u64) {
        self.tree_inserts += 1;
        if self.tree_inserts.is_multiple_of(TREE_INSERTS_PER_LOOK) {
            let stretch = file_block / TABLE_BLOCKS;
            let (start, end) = (stretch * TABLE_BLOCKS, (stretch + 1) * TABLE_BLOCKS);
            if self.pieces(start, end) >= TABLE_EXTENTS_MIN {
                self.move_to_table(refs, stretch, start, end);
            }
        }
    }

    /// Extents in a stretch, those not counted that compaction will join.
    fn pieces(&self, start: u64, end: u64) -> usize {
        let mut last: Option<(u64, Extent)> = None;
        let mut pieces = 0;
        for (&at, extent) in self.tree.range(start..end) {
            pieces +=
                usize::from(!last.is_some_and(|(before, last)| last.touches(before, extent, at)));
            last = Some((at, *extent));
        }
        pieces
    }

    fn move_to_table(&mut self, refs: &mut Refs, stretch: u64, start: u64, end: u64) {
        self.tables.add(stretch);
        if let Some((&before, &extent)) = self.tree.range(..start).next_back()
            && before + u64::from(extent.blocks) > start
        {
            self.tree.insert(before, extent.head(start - before));
            self.fill_table(refs, start, extent.tail(start - before));
        }
        while let Some((&at, &extent)) = self.tree.range(start..end).next() {
            self.tree.remove(&at);
            let inside = (end - at).min(u64::from(extent.blocks));
            self.fill_table(refs, at, extent.head(inside));
            if inside < u64::from(extent.blocks) {
                self.tree.insert(end, extent.tail(inside));
            } else {
                self.release_reference(refs, &extent);
            }
        }
    }

    /// Maps `extent` at `file_block` in place of what is there, which goes to `freed`. `crc_run`:
    /// as in [`Self::map`].
    pub fn put(
        &mut self,
        refs: &mut Refs,
        file_block: u64,
        extent: Extent,
        crc_run: Option<(BlockAddr, u64)>,
        freed: &mut Freed,
    ) {
        if !self.replace_block(refs, file_block, extent, freed) {
            self.unmap(refs, file_block, file_block + u64::from(extent.blocks), freed);
            self.map(refs, file_block, extent, crc_run);
        }
    }

    /// Maps an extent of one block over another of one block, if that is all there is to do: the
    /// way of small overwrites.
    fn replace_block(
        &mut self,
        refs: &mut Refs,
        file_block: u64,
        extent: Extent,
        freed: &mut Freed,
    ) -> bool {
        if extent.blocks != 1 || extent.has_crc_blocks() {
            return false;
        }
        let may_go = |old: &Extent| old.blocks == 1 && !old.has_crc_blocks();
        let old = match self.tables.get_mut(file_block / TABLE_BLOCKS) {
            Some(table) => {
                let Some(old) = table.get(file_block % TABLE_BLOCKS).filter(may_go) else {
                    return false;
                };
                table.set(file_block % TABLE_BLOCKS, extent);
                old
            }
            None => match self.tree.get_mut(&file_block).filter(|old| may_go(old)) {
                Some(slot) => std::mem::replace(slot, extent),
                None => return false,
            },
        };
        freed.push((old.addr, 1));
        refs.replace(old.entry(), extent.entry(), 1);
        true
    }

    /// Unmaps the file blocks `from..to`; what they occupied goes to `freed`.
    pub fn unmap(&mut self, refs: &mut Refs, from: u64, to: u64, freed: &mut Freed) {
        if from >= to {
            return;
        }
        if !self.tables.is_empty() {
            self.unmap_in_tables(refs, from, to, freed);
        }
        self.unmap_in_tree(refs, from, to, freed);
    }

    fn unmap_in_tables(&mut self, refs: &mut Refs, from: u64, to: u64, freed: &mut Freed) {
        let last = (to - 1) / TABLE_BLOCKS;
        let mut next = from / TABLE_BLOCKS;
        loop {
            let found = self.tables.from(next).next().filter(|&stretch| stretch <= last);
            let Some(stretch) = found else {
                return;
            };
            let start = stretch * TABLE_BLOCKS;
            for i in from.saturating_sub(start)..(to - start).min(TABLE_BLOCKS) {
                let table = self.tables.get_mut(stretch).expect("seen above");
                if let Some(slot) = table.take(i) {
                    self.freed_part(slot, freed);
                    self.drop_reference(refs, &slot, freed);
                }
            }
            if to - from > 1 && self.tables.get(stretch).is_some_and(Table::is_empty) {
                self.tables.remove(stretch);
            }
            next = stretch + 1;
        }
    }

    fn unmap_in_tree(&mut self, refs: &mut Refs, from: u64, to: u64, freed: &mut Freed) {
        // Most new data goes behind all other.
        let ends_before = |(&start, last): (&u64, &Extent)| start + u64::from(last.blocks) <= from;
        if self.tree.last_key_value().is_none_or(ends_before) {
            return;
        }
        if let Some((&start, &extent)) = self.tree.range(..from).next_back() {
            let end = start + u64::from(extent.blocks);
            if end > from {
                self.tree.insert(start, extent.head(from - start));
                let cut_end = end.min(to);
                self.freed_part(extent.tail(from - start).head(cut_end - from), freed);
                if end > to {
                    self.add_reference(refs, &extent);
                    self.tree.insert(to, extent.tail(to - start));
                    return;
                }
            }
        }
        while let Some((&start, &extent)) = self.tree.range(from..to).next() {
            self.tree.remove(&start);
            let end = start + u64::from(extent.blocks);
            if end > to {
                self.tree.insert(to, extent.tail(to - start));
                self.freed_part(extent.head(to - start), freed);
                return;
            }
            self.freed_part(extent, freed);
            self.drop_reference(refs, &extent, freed);
        }
    }

    /// What entries must map after compaction: the extents in order of [`Self::iter`], neighbours
    /// in the tree as one where `can_join` lets them (asked of extents of the same kind that touch
    /// in the file and on the device).
    pub fn runs(&self, can_join: impl Fn(&Extent, &Extent) -> bool) -> Vec<(u64, Extent)> {
        let mut runs: Vec<(u64, Extent)> = Vec::with_capacity(self.tree.len());
        for (&start, extent) in &self.tree {
            if let Some((before, last)) = runs.last_mut()
                && last.touches(*before, extent, start)
                && can_join(last, extent)
            {
                last.blocks += extent.blocks;
            } else {
                runs.push((start, *extent));
            }
        }
        runs.extend(self.tables.slots());
        runs
    }

    /// Compaction has written an entry for each of `runs`: `position` tells where.
    pub fn moved(
        &mut self,
        refs: &mut Refs,
        runs: Vec<(u64, Extent)>,
        position: impl Fn(usize) -> u64,
    ) {
        let crc_of = std::mem::take(&mut self.crc_of);
        let in_tree = runs.len() - self.tables.len();
        let mut moved = runs.into_iter().enumerate().map(|(i, (block, extent))| {
            let entry = position(i);
            refs.retain(entry, 1);
            if let Some(&(addr, _)) = crc_of.get(&extent.entry()) {
                self.crc_of.entry(entry).or_insert((addr, 0)).1 += 1;
            }
            (block, extent.with_entry(entry))
        });
        self.tree = moved.by_ref().take(in_tree).collect();
        for (block, extent) in moved {
            let table =
                self.tables.get_mut(block / TABLE_BLOCKS).expect("the runs come from there");
            table.set(block % TABLE_BLOCKS, extent);
        }
    }

    fn freed_part(&mut self, part: Extent, freed: &mut Freed) {
        self.blocks -= u64::from(part.blocks);
        freed.push((part.addr, u64::from(part.blocks)));
    }

    fn add_reference(&mut self, refs: &mut Refs, extent: &Extent) {
        refs.retain(extent.entry(), 1);
        if extent.has_crc_blocks() {
            let (addr, extents) =
                self.crc_of.get_mut(&extent.entry()).expect("entry has checksum blocks");
            *extents += 1;
            self.crc_runs.get_mut(addr).expect("run of the entry").extents += 1;
        }
    }

    fn drop_reference(&mut self, refs: &mut Refs, extent: &Extent, freed: &mut Freed) {
        if let Some((addr, blocks)) = self.release_reference(refs, extent) {
            freed.push((addr, blocks));
        }
    }

    /// Drops one reference; returns the entry's checksum blocks if nobody needs them any more.
    fn release_reference(&mut self, refs: &mut Refs, extent: &Extent) -> Option<(BlockAddr, u64)> {
        refs.release(extent.entry(), 1);
        if !extent.has_crc_blocks() {
            return None;
        }
        let (addr, extents) =
            self.crc_of.get_mut(&extent.entry()).expect("entry has checksum blocks");
        let addr = *addr;
        *extents -= 1;
        if *extents == 0 {
            self.crc_of.remove(&extent.entry());
        }
        let run = self.crc_runs.get_mut(&addr).expect("run of the entry");
        run.extents -= 1;
        if run.extents > 0 {
            return None;
        }
        let blocks = run.blocks;
        self.crc_runs.remove(&addr);
        Some((addr, blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Log;
    use proptest::prelude::*;
    use terrace_layout::{InodeRecord, Owner};

    fn no_refs() -> Refs {
        Log::new(0, &InodeRecord::new(0, 1, 1, 0, Owner::ROOT, 0)).refs
    }

    /// Ends of ranges, before their beginning, too.
    const ENDS: [u64; 9] = [0, 1, 6, 7, 8, 20, 63, u64::MAX >> 13, u64::MAX];

    proptest! {
        /// The index against a plain map from file block to device block.
        #[test]
        fn behaves_as_a_block_map(
            ops in proptest::collection::vec((any::<bool>(), 0u64..64, 1u64..9), 1..160),
        ) {
            let mut refs = no_refs();
            let mut index = Index::default();
            let mut model: BTreeMap<u64, BlockAddr> = BTreeMap::new();
            let mut next = 100;
            for (write, from, len) in ops {
                let mut freed = Freed::new();
                index.unmap(&mut refs, from, from + len, &mut freed);
                let mut gone: Vec<BlockAddr> =
                    (from..from + len).filter_map(|b| model.remove(&b)).collect();
                let mut given: Vec<BlockAddr> =
                    freed.iter().flat_map(|&(a, n)| (0..n).map(move |i| a.offset(i))).collect();
                gone.sort();
                given.sort();
                prop_assert_eq!(&gone, &given);
                if write && len == 1 && !given.is_empty() {
                    // Put back what was there, to have it replaced.
                    index.map(&mut refs, from,
                        Extent::new(given[0], 1, 4096 * next, false, false), None);
                    let extent = Extent::new(BlockAddr::pm(next), 1, 4096 * next, false, false);
                    let mut replaced = Freed::new();
                    prop_assert!(index.replace_block(&mut refs, from, extent, &mut replaced));
                    prop_assert_eq!(replaced, vec![(given[0], 1)]);
                    model.insert(from, BlockAddr::pm(next));
                    next += 1;
                } else if write {
                    let extent = Extent::new(BlockAddr::pm(next), len as u32, 4096 * next, false,
                        false);
                    index.map(&mut refs, from, extent, None);
                    (0..len).for_each(|i| { model.insert(from + i, BlockAddr::pm(next + i)); });
                    next += len;
                }
                prop_assert_eq!(index.blocks(), model.len() as u64);
                let mut mapped = 0;
                for (start, extent) in index.iter() {
                    for i in 0..u64::from(extent.blocks) {
                        prop_assert_eq!(model.get(&(start + i)), Some(&extent.addr.offset(i)));
                        mapped += 1;
                    }
                }
                prop_assert_eq!(mapped, model.len());
                prop_assert_eq!(refs.count(), index.iter().count() as u64);
                for (from, to) in (0..90).step_by(7).flat_map(|from| ENDS.map(|to| (from, to))) {
                    let reaches_in = |&(start, e): &(u64, Extent)| {
                        from < to && start < to && start + u64::from(e.blocks) > from
                    };
                    let mut all: Vec<_> = index.iter().filter(reaches_in).collect();
                    all.sort_unstable_by_key(|&(start, _)| start);
                    prop_assert_eq!(index.overlaps(from, to).collect::<Vec<_>>(), all, "{}..{}",
                        from, to);
                }
                for block in 0..90 {
                    let next = index.next_extent(block).map(|(start, _)| start);
                    let runs = index.iter().map(|(start, _)| start).filter(|&start| start >= block)
                        .min();
                    prop_assert_eq!(next, runs);
                    if let Segment::Hole(n) = index.lookup(block) {
                        prop_assert_eq!(model.range(block..block.saturating_add(n)).count(), 0);
                    }
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
            let mut refs = no_refs();
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
