//! Where the blocks of a simulated file are, and what its predictors know of it.
//!
//! Invariants: extents do not overlap; `blocks_in` counts their blocks by place. A block that is
//! dirty in the page cache is nowhere else: what it replaced is gone at once.

use std::collections::BTreeMap;

use terrace_policy::{Life, LogSlots, MeanTime, Overlap, Synchronicity, compacts_log};

/// Most blocks of an extent.
pub(crate) const EXTENT_BLOCKS_MAX: u64 = 1 << 20;

/// Where the newest version of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Pm,
    /// In the page cache, and not on the disk yet.
    Dirty,
    Disk,
}

/// Entries of a log that its inode's record holds, and those of a page of PM.
const RECORD_ENTRIES: u64 = 3;
const PAGE_ENTRIES: u64 = 63;

/// How many places there are.
pub(crate) const PLACES: usize = 3;

/// Blocks that were written together, or what is left of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub blocks: u32,
    /// Length of the write that made it; roughly, once it is on media.
    pub area_blocks: u32,
    pub mtime_ns: i64,
    /// Of the write size predictor.
    pub counter: u16,
    pub place: Place,
}

/// The length of a write as its entry holds it: a power of two, rounded down.
pub(crate) fn area_on_media(blocks: u32) -> u32 {
    blocks.checked_ilog2().map_or(0, |log2| 1 << log2)
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct File {
    extents: BTreeMap<u64, Extent>,
    blocks_in: [u64; PLACES],
    /// Entries of its log.
    pub entries: u64,
    /// How many there were when its log was last written anew.
    pub entries_when_new: u64,
    /// It was made while recording: what is not known of it is a hole. Else that was there before.
    pub is_new: bool,
    pub size_bytes: u64,
    /// The size without what only dirty pages have reached.
    pub committed_bytes: u64,
    /// It replaces contents that were truncated away.
    pub is_rewritten: bool,
    pub synchronicity: Synchronicity,
    /// What it has done since its birth, and what its siblings have.
    pub life: Life,
    /// Of all blocks.
    pub mtimes: MeanTime,
    pub last_write_ns: i64,
    /// Of the blocks that were read.
    pub rtimes: MeanTime,
    /// Blocks read since the last write.
    pub read_in_a_row: u64,
    /// Where the last read ended.
    pub read_end: u64,
    /// Since when it has dirty pages.
    pub dirty_since_ns: i64,
    /// When those are on the disk that are on their way.
    pub flushed_ns: i64,
}

impl File {
    /// Blocks by place.
    pub fn blocks_in(&self) -> [u64; PLACES] {
        self.blocks_in
    }

    /// Blocks in one place.
    pub fn blocks_at(&self, place: Place) -> u64 {
        self.blocks_in[place as usize]
    }

    /// Blocks of PM that its log takes.
    pub fn log_blocks(&self) -> u64 {
        if self.entries <= RECORD_ENTRIES { 0 } else { self.entries.div_ceil(PAGE_ENTRIES) }
    }

    /// Its log has an entry more.
    pub fn note_entry(&mut self) {
        self.entries += 1;
    }

    /// Whether its log is so long that it may be written anew.
    pub fn has_long_log(&self) -> bool {
        self.entries > PAGE_ENTRIES
    }

    /// Its log is written anew if that is worth it. `is_tight`: data has to leave PM.
    pub fn compact_log(&mut self, pm_free_blocks: u64, is_tight: bool) {
        let live = self.extents.len() as u64;
        let slots = LogSlots { all: self.entries, live, when_new: self.entries_when_new };
        if self.has_long_log() && compacts_log(slots, pm_free_blocks, is_tight) {
            (self.entries, self.entries_when_new) = (live, live);
        }
    }

    /// Size in blocks.
    pub fn size_blocks(&self) -> u64 {
        self.size_bytes.div_ceil(crate::config::BLOCK_BYTES)
    }

    /// The extents of a range, cut to it: first block, extent.
    pub fn overlaps(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Extent)> + '_ {
        let before = self.extents.range(..from).next_back();
        let within = self.extents.range(from..to.max(from));
        before.into_iter().chain(within).filter_map(move |(&start, &extent)| {
            let (a, b) = (start.max(from), (start + u64::from(extent.blocks)).min(to));
            (a < b).then(|| (a, Extent { blocks: (b - a) as u32, ..extent }))
        })
    }

    /// The range as extents and holes without a gap: first block, blocks, extent.
    pub fn pieces(&self, from: u64, to: u64) -> Vec<(u64, u64, Option<Extent>)> {
        let mut pieces = Vec::new();
        let mut at = from;
        for (start, extent) in self.overlaps(from, to) {
            if at < start {
                pieces.push((at, start - at, None));
            }
            at = start + u64::from(extent.blocks);
            pieces.push((start, u64::from(extent.blocks), Some(extent)));
        }
        if at < to {
            pieces.push((at, to - at, None));
        }
        pieces
    }

    /// What a write to a range lands on.
    pub fn predecessors(&self, from: u64, to: u64) -> impl Iterator<Item = Overlap> + '_ {
        let overlap = |(_, e): (u64, Extent)| Overlap {
            counter: e.counter,
            area_blocks: u64::from(e.area_blocks),
        };
        self.overlaps(from, to).map(overlap)
    }

    /// Makes a range a hole; returns how many blocks there were.
    pub fn cut(&mut self, from: u64, to: u64) -> u64 {
        let mut cut_blocks = 0;
        let first = self.extents.range(..from).next_back().map(|(&start, _)| start).unwrap_or(from);
        let mut next = self
            .extents
            .range(first..to.max(first))
            .next()
            .map(|(&start, &extent)| (start, extent));
        while let Some((start, extent)) = next {
            let end = start + u64::from(extent.blocks);
            let (a, b) = (start.max(from), end.min(to));
            if a < b {
                cut_blocks += b - a;
                self.blocks_in[extent.place as usize] -= b - a;
                self.extents.remove(&start);
                for (left, right) in [(start, a), (b, end)] {
                    if left < right {
                        self.extents
                            .insert(left, Extent { blocks: (right - left) as u32, ..extent });
                    }
                }
            }
            next = self
                .extents
                .range(end..to.max(end))
                .next()
                .map(|(&start, &extent)| (start, extent));
        }
        cut_blocks
    }

    /// Fills a hole.
    pub fn put(&mut self, block: u64, extent: Extent) {
        self.blocks_in[extent.place as usize] += u64::from(extent.blocks);
        self.extents.insert(block, extent);
    }

    /// Moves what is in a range and `wanted` to another place; returns the pieces (first block,
    /// blocks). Blocks that come to the disk side by side are one extent there, which keeps the
    /// least of the counters and the longest write.
    pub fn relocate(
        &mut self,
        from: u64,
        to: u64,
        place: Place,
        wanted: impl Fn(u64, &Extent) -> bool,
    ) -> Vec<(u64, u64)> {
        let mut moving: Vec<(u64, Extent)> = Vec::new();
        for (start, extent) in
            self.overlaps(from, to).filter(|(start, extent)| wanted(*start, extent))
        {
            let fits = |(before, e): &&mut (u64, Extent)| {
                let blocks = u64::from(e.blocks);
                *before + blocks == start && blocks + u64::from(extent.blocks) <= EXTENT_BLOCKS_MAX
            };
            match moving.last_mut().filter(|last| place == Place::Disk && fits(last)) {
                Some((_, open)) => {
                    open.blocks += extent.blocks;
                    open.counter = open.counter.min(extent.counter);
                    open.area_blocks = open.area_blocks.max(extent.area_blocks);
                    open.mtime_ns = open.mtime_ns.max(extent.mtime_ns);
                }
                None => moving.push((start, extent)),
            }
        }
        for &(start, extent) in &moving {
            self.cut(start, start + u64::from(extent.blocks));
            self.note_entry();
            self.put(
                start,
                Extent { place, area_blocks: area_on_media(extent.area_blocks), ..extent },
            );
        }
        moving.into_iter().map(|(start, extent)| (start, u64::from(extent.blocks))).collect()
    }

    /// A range was read.
    pub fn note_read(&mut self, from: u64, to: u64, now_ns: i64) {
        self.read_in_a_row = self.read_in_a_row.saturating_add(to - from);
        self.rtimes.replace(to - from, now_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn extent(blocks: u64, place: Place, counter: u16) -> Extent {
        Extent { blocks: blocks as u32, area_blocks: blocks as u32, mtime_ns: 0, counter, place }
    }

    #[test]
    fn an_extent_that_is_cut_keeps_its_ends() {
        let mut file = File::default();
        file.put(10, extent(10, Place::Pm, 3));
        assert_eq!(file.cut(12, 15), 3);
        assert_eq!(file.blocks_at(Place::Pm), 7);
        let left: Vec<_> =
            file.overlaps(0, 100).map(|(start, e)| (start, e.blocks, e.area_blocks)).collect();
        assert_eq!(left, [(10, 2, 10), (15, 5, 10)]);
        let pieces: Vec<_> =
            file.pieces(11, 17).iter().map(|p| (p.0, p.1, p.2.is_some())).collect();
        assert_eq!(pieces, [(11, 1, true), (12, 3, false), (15, 2, true)]);
        assert_eq!(file.predecessors(0, 100).count(), 2);
        assert_eq!(file.relocate(16, 30, Place::Disk, |_, _| true), [(16, 4)]);
        assert_eq!(file.blocks_in(), [3, 0, 4]);
    }

    proptest! {
        /// Against an array of blocks.
        #[test]
        fn it_is_a_map_of_blocks(
            steps in prop::collection::vec((0..4u8, 0..50u64, 1..20u64), 1..60),
        ) {
            let mut file = File::default();
            let mut blocks: Vec<Option<(Place, u16)>> = vec![None; 80];
            for (number, (step, from, len)) in steps.into_iter().enumerate() {
                let (to, counter) = (from + len, number as u16);
                match step {
                    0 | 1 => {
                        let place = if step == 0 { Place::Pm } else { Place::Dirty };
                        let were = blocks[from as usize..to as usize].iter().flatten()
                            .count() as u64;
                        prop_assert_eq!(file.cut(from, to), were);
                        file.put(from, extent(len, place, counter));
                        blocks[from as usize..to as usize].fill(Some((place, counter)));
                    }
                    2 => {
                        file.cut(from, to);
                        blocks[from as usize..to as usize].fill(None);
                    }
                    _ => {
                        file.relocate(from, to, Place::Disk, |_, e| e.place == Place::Dirty);
                        let is_dirty = |block: &Option<(Place, u16)>| {
                            block.is_some_and(|b| b.0 == Place::Dirty)
                        };
                        let runs = blocks[from as usize..to as usize]
                            .chunk_by_mut(|a, b| is_dirty(a) == is_dirty(b));
                        for run in runs {
                            if is_dirty(&run[0]) {
                                let least = run.iter().flatten().map(|block| block.1).min()
                                    .unwrap();
                                run.fill(Some((Place::Disk, least)));
                            }
                        }
                    }
                }
                let mut seen: Vec<Option<(Place, u16)>> = Vec::new();
                for (start, blocks, extent) in file.pieces(0, 80) {
                    prop_assert_eq!(start, seen.len() as u64);
                    seen.extend((0..blocks).map(|_| extent.map(|e| (e.place, e.counter))));
                }
                prop_assert_eq!(&seen, &blocks);
                let count = |place| blocks.iter().flatten().filter(|b| b.0 == place).count() as u64;
                let counts = [Place::Pm, Place::Dirty, Place::Disk].map(count);
                prop_assert_eq!(file.blocks_in(), counts);
            }
        }
    }
}
