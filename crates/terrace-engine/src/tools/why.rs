//! Why a file's data lies where it does, and what would move it. The functions of the policy that
//! decide say so here.

use std::collections::BTreeMap;

use terrace_layout::BLOCK_BYTES;
use terrace_policy::{ColdCut, Flow, Moment, Param, Pressure, Rule, Traits, used_percent};
use terrace_store::error::FsResult;
use terrace_store::file::FileData;
use terrace_store::index::Extent;
use terrace_store::space::Tiers;

use crate::base::types::{Ino, Time};
use crate::base::why::{Dirty, FileWhy, Kind, Leaning, Leaves, Share};
use crate::base::words::tier_name;
use crate::inode::resident::Inode;
use crate::tools::status::Reports;

/// Extents that are looked at before the lock is given away for a moment.
const EXTENTS_PER_LOOK: usize = 4096;
const NS_PER_SECOND: i64 = 1_000_000_000;

/// Blocks by tier and rule; [`PAGE_CACHE`] comes behind all tiers.
type Blocks = BTreeMap<(u16, Rule), u64>;
const PAGE_CACHE: u16 = u16::MAX;

impl Reports {
    pub fn file_why(&self, ino: Ino) -> FsResult<FileWhy> {
        let inode = self.inodes.get(ino)?;
        let mut blocks = self.blocks_on_devices(&inode)?;
        let inner = inode.glance()?;
        let file = inner.file()?;
        let dirty = inode.pages.dirty_pages();
        let mut unnoted = dirty;
        for (rule, more) in file.cached.rules(0, u64::MAX) {
            unnoted = unnoted.saturating_sub(more);
            *blocks.entry((PAGE_CACHE, rule)).or_default() += more;
        }
        if unnoted > 0 {
            *blocks.entry((PAGE_CACHE, Rule::Unnoted)).or_default() += unnoted;
        }
        let (params, now) = (self.placement.tuning.params(), Time::now());
        let grace_ns = self.placement.kin.grace_ns(file, now);
        let counted_now = Moment::at(now.0.saturating_sub(grace_ns));
        let has_blocks = file.index.data_blocks() + dirty > 0;
        let written = file.heat.last_write().max(file.mtime);
        let unwritten = now.0.saturating_sub(written.0).max(0) / NS_PER_SECOND;
        let cached = self.cache.cached_blocks(&inode.pages, 0, u64::MAX).len() as u64;
        let (leaves, leaning) = (self.leaves(&blocks), self.leaning());
        Ok(FileWhy {
            ino: ino.0,
            size_bytes: file.size,
            shares: shares(blocks),
            copies_bytes: cached.saturating_sub(dirty) * BLOCK_BYTES,
            pin: inode.tiers.pin.get().map(tier_name),
            opinion: self.placement.opinion_of(&inode, file),
            kind: self.kind_of(file),
            migrates: self.schedule.conditions.migrates(),
            leaves,
            unwritten_seconds: has_blocks.then_some(unwritten as u64),
            cold_age_seconds: params.get(Param::ColdAge),
            grace_seconds: grace_ns / NS_PER_SECOND,
            cold: file.heat.cold(Pressure::Low, counted_now, &params) == Some(ColdCut::Whole),
            blocks_read: inode.reading.blocks_read_since_write(),
            blocks_read_of_others: file.size.div_ceil(BLOCK_BYTES) * params.get(Param::ReadFactor),
            leaning,
            dirty: self.dirty_of(&inode),
        })
    }

    /// Where the file's blocks on devices are, and by which rule. They are not all of one time.
    fn blocks_on_devices(&self, inode: &Inode) -> FsResult<Blocks> {
        let (mut blocks, mut at) = (Blocks::new(), 0);
        loop {
            let inner = inode.glance()?;
            let extents: Vec<(u64, Extent)> =
                inner.file()?.index.extents_from(at).take(EXTENTS_PER_LOOK).collect();
            let Some(&(start, last)) = extents.last() else { return Ok(blocks) };
            at = start + u64::from(last.blocks);
            for (_, extent) in extents {
                let tier = self.store.space.tier_of(extent.addr);
                *blocks.entry((tier.into(), extent.rule())).or_default() +=
                    u64::from(extent.blocks);
            }
        }
    }

    fn kind_of(&self, file: &FileData) -> Kind {
        let nature = file.life.nature();
        let (siblings, of_its_directory) = self.placement.kin.siblings_of(file).unwrap_or_default();
        Kind {
            awaited: nature.has(Traits::AWAITED),
            scattered: nature.has(Traits::SCATTERED),
            rewritten: nature.has(Traits::REWRITTEN),
            brief: nature.has(Traits::BRIEF),
            awaited_by_itself: file.life.has_been_judged(),
            shape_by_itself: file.life.is_telling(),
            siblings,
            of_its_directory,
        }
    }

    /// The tiers of these blocks, and when data leaves them.
    fn leaves(&self, blocks: &Blocks) -> Vec<Leaves> {
        let threshold_percent = self.schedule.leanings().threshold_percent;
        let tiers = self.store.space.tiers().filter(|&tier| {
            blocks
                .range((tier.into(), Rule::Unknown)..)
                .next()
                .is_some_and(|((t, _), _)| *t == u16::from(tier))
        });
        let leaves = |tier| {
            let (size, free) = match tier {
                0 => (self.store.space.pm().blocks(), self.store.space.pm().free_blocks()),
                tier => self.store.space.tier_space(tier),
            };
            let next = self.store.space.tiers().find(|&next| next > tier);
            Leaves {
                tier: tier_name(tier),
                used_percent: used_percent(size, free),
                above_percent: match tier {
                    0 => threshold_percent,
                    _ => self.placement.tuning.get(Param::TierFull) as f64,
                },
                to: next.map(tier_name),
                held_up: next.and_then(|next| self.wear.held_up(Tiers::from(next))),
            }
        };
        tiers.map(leaves).collect()
    }

    fn leaning(&self) -> Leaning {
        let leanings = self.schedule.leanings();
        let param = |param| self.placement.tuning.get(param);
        let migration = match leanings.flow {
            Flow::Balanced => "none",
            Flow::PmBusy => "read",
            Flow::DramBusy => "reverse",
        };
        Leaning {
            migration: migration.into(),
            pm_read_bytes: leanings.second.pm_read,
            dram_read_bytes: leanings.second.dram_read,
            seconds: param(Param::FlowSeconds),
            high_percent: param(Param::FlowHigh),
            low_percent: param(Param::FlowLow),
            settles_in_seconds: leanings.settles_in_seconds,
            helpers_percent: param(Param::Helpers),
            pm_is_slower: leanings.pm_is_slower,
        }
    }

    fn dirty_of(&self, inode: &Inode) -> Dirty {
        let since = self.dirty.since(inode);
        Dirty {
            bytes: inode.pages.dirty_pages() * BLOCK_BYTES,
            seconds: since.map_or(0, |since| since.elapsed().as_secs()),
            after_seconds: self.options.writeback_seconds.into(),
            cache_percent: self.cache.dirty_pages() * 100 / self.cache.budget_pages().max(1),
        }
    }
}

/// Shares of places in their order, what is most first.
fn shares(blocks: Blocks) -> Vec<Share> {
    let mut shares: Vec<((u16, Rule), u64)> = blocks.into_iter().collect();
    shares.sort_by_key(|&((place, rule), blocks)| (place, std::cmp::Reverse(blocks), rule));
    let share = |((place, rule), blocks): ((u16, Rule), u64)| Share {
        place: u8::try_from(place).map_or_else(|_| "page cache".to_owned(), tier_name),
        rule: rule.name().to_owned(),
        why: rule.words().to_owned(),
        bytes: blocks * BLOCK_BYTES,
    };
    shares.into_iter().map(share).collect()
}
