//! What the policy remembers of writes that are in the page cache and in no log entry yet.
//!
//! Invariant: the records do not overlap; each covers what is left of one write.

use std::collections::BTreeMap;
use std::ops::Range;

use terrace_layout::History;
use terrace_policy::{Overlap, Rule};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    blocks: u64,
    counter: u8,
    area_blocks: u64,
    rule: Rule,
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

    /// A write to the page cache, which this rule has put there. A write that joins others there
    /// has their rule.
    #[inline]
    pub fn note(&mut self, from: u64, blocks: u64, counter: u8, rule: Rule) {
        let joined = || self.0.range(..from + blocks).next_back().map(|(_, record)| record.rule);
        let rule = if rule == Rule::JoinsDirty { joined().unwrap_or(rule) } else { rule };
        self.forget(from, from + blocks);
        self.0.insert(from, Record { blocks, counter, area_blocks: blocks, rule });
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

    /// The rules that put blocks of `from..to` where they are, and how many blocks each, in order
    /// of the file.
    pub fn rules(&self, from: u64, to: u64) -> impl Iterator<Item = (Rule, u64)> {
        self.within(from, to).map(move |(start, record)| {
            (record.rule, (start + record.blocks).min(to) - start.max(from))
        })
    }

    /// What an entry for `from..to` has to say: the least counter, the longest write, and the rule
    /// of most blocks.
    pub fn history(&self, from: u64, to: u64) -> u16 {
        let (known, _) = self.split(from, to);
        let counter = known.iter().map(|write| write.counter).min().unwrap_or(0);
        let area_blocks = known.iter().map(|write| write.area_blocks).max().unwrap_or(0);
        let mut shares = BTreeMap::<Rule, u64>::new();
        self.rules(from, to).for_each(|(rule, blocks)| *shares.entry(rule).or_default() += blocks);
        let most = shares.into_iter().rev().max_by_key(|&(_, blocks)| blocks);
        let rule = most.map_or(Rule::Unnoted, |(rule, _)| rule);
        History::new(counter as u8, area_blocks, rule.number()).to_word()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_has_the_rule_of_most_blocks() {
        let mut cached = CachedWrites::default();
        cached.note(20, 1, 0, Rule::JoinsDirty);
        let rule = |cached: &CachedWrites, from, to| {
            Rule::of_number(History::of_word(cached.history(from, to)).rule)
        };
        assert_eq!(rule(&cached, 0, 9), Rule::Unnoted);
        assert_eq!(rule(&cached, 0, 30), Rule::JoinsDirty, "nobody knows what it has joined");
        cached.note(0, 4, 1, Rule::PmFull);
        cached.note(4, 3, 2, Rule::Bulk);
        cached.note(9, 3, 3, Rule::JoinsDirty);
        assert_eq!(rule(&cached, 0, 12), Rule::Bulk, "it has joined those before it");
        assert_eq!(rule(&cached, 0, 9), Rule::PmFull);
        let rules: Vec<_> = cached.rules(3, 10).collect();
        let expected = [(Rule::PmFull, 1), (Rule::Bulk, 3), (Rule::Bulk, 1)];
        assert_eq!(rules, expected);
    }

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
                    cached.note(from, blocks, counter, Rule::Bulk);
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
