//! What the write-size predictor remembers of writes that are in the page cache and in no log entry
//! yet.
//!
//! Invariant: the records do not overlap; each covers what is left of one write.

use std::collections::BTreeMap;
use std::ops::Range;

use terrace_layout::WriteEntry;
use terrace_policy::Overlap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    blocks: u64,
    counter: u8,
    area_blocks: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct CachedWrites(BTreeMap<u64, Record>);

impl CachedWrites {
    /// Whether no write is noted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A write to the page cache.
    #[inline]
    pub fn note(&mut self, from: u64, blocks: u64, counter: u8) {
        self.forget(from, from + blocks);
        self.0.insert(from, Record { blocks, counter, area_blocks: blocks });
    }

    /// Blocks that are elsewhere now, or gone.
    pub fn forget(&mut self, from: u64, to: u64) {
        let before = self.0.range(..from).next_back().map(|(&start, &record)| (start, record));
        if let Some((start, record)) =
            before.filter(|&(start, record)| start + record.blocks > from)
        {
            self.0.insert(start, Record { blocks: from - start, ..record });
            self.keep_behind(start, record, to);
        }
        while let Some((&start, &record)) = self.0.range(from..to).next() {
            self.0.remove(&start);
            self.keep_behind(start, record, to);
        }
    }

    fn keep_behind(&mut self, start: u64, record: Record, to: u64) {
        let end = start + record.blocks;
        if end > to {
            self.0.insert(to, Record { blocks: end - to, ..record });
        }
    }

    fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, Record)> {
        let before = self
            .0
            .range(..from)
            .next_back()
            .filter(|&(&start, record)| start + record.blocks > from);
        before.into_iter().chain(self.0.range(from..to)).map(|(&start, &record)| (start, record))
    }

    /// The writes of which something lies in `from..to`, and the parts of it of which nothing is
    /// known.
    pub fn split(&self, from: u64, to: u64) -> (Vec<Overlap>, Vec<Range<u64>>) {
        let (mut known, mut unknown, mut at) = (Vec::new(), Vec::new(), from);
        for (start, record) in self.within(from, to) {
            if start > at {
                unknown.push(at..start);
            }
            known.push(Overlap { counter: record.counter.into(), area_blocks: record.area_blocks });
            at = start + record.blocks;
        }
        if at < to {
            unknown.push(at..to);
        }
        (known, unknown)
    }

    /// What an entry for `from..to` has to say: the least counter, and the longest write.
    pub fn history(&self, from: u64, to: u64) -> u16 {
        let (known, _) = self.split(from, to);
        let counter = known.iter().map(|write| write.counter).min().unwrap_or(0);
        WriteEntry::history(
            counter as u8,
            known.iter().map(|write| write.area_blocks).max().unwrap_or(0),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against one record per block.
        #[test]
        fn behaves_as_a_record_per_block(
            ops in proptest::collection::vec((any::<bool>(), 0u64..40, 1u64..12, 0u8..16), 1..60),
        ) {
            let mut cached = CachedWrites::default();
            let mut model: BTreeMap<u64, (u8, u64)> = BTreeMap::new();
            for (writes, from, blocks, counter) in ops {
                if writes {
                    cached.note(from, blocks, counter);
                    (from..from + blocks).for_each(|b| { model.insert(b, (counter, blocks)); });
                } else {
                    cached.forget(from, from + blocks);
                    (from..from + blocks).for_each(|b| { model.remove(&b); });
                }
                prop_assert_eq!(cached.is_empty(), model.is_empty());
                for block in 0..60 {
                    let (known, unknown) = cached.split(block, block + 1);
                    let expected = model.get(&block).map(|&(counter, area_blocks)| Overlap {
                        counter: counter.into(),
                        area_blocks,
                    });
                    prop_assert_eq!(known.first().copied(), expected);
                    prop_assert_eq!(unknown.is_empty(), !known.is_empty());
                }
                let (_, unknown) = cached.split(3, 50);
                let blocks: u64 = unknown.iter().map(|gap| gap.end - gap.start).sum();
                prop_assert_eq!(blocks, (3..50).filter(|b| !model.contains_key(b)).count() as u64);
            }
        }
    }
}
