//! Which files' data a mover takes, and moving it: write migration, demotion, read migration, reverse migration.

use std::ops::Range;

use terrace_layout::{BLOCK_BYTES, WriteEntry};
use terrace_policy::{ColdCut, Group, Param, Piece, groups, hottest, is_read_dominated, keeps_cached};

use crate::core::Core;
use crate::counters::Counter;
use crate::error::FsResult;
use crate::file::{Heat, read_write_entry};
use crate::index::Extent;
use crate::inode::{Body, Inode};
use crate::migrate::{Moved, Order, Wanted};
use crate::mover::Round;
use crate::stats::tier_name;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::types::{Ino, Time};

/// Inodes that nobody has used since the mount, of which so many are looked at when cold data is looked for.
const SCAN_RECORDS: u64 = 256;
/// Coldest files that are tried before less cold blocks are taken.
const TRIED_FILES_MAX: usize = 16;
/// Extents that are looked at before the lock is given away for a moment.
const EXTENTS_PER_LOOK: usize = 512;
/// A stretch that is moved at once spans no more than this, however little of it moves: 256 MiB.
const SPAN_BLOCKS_MAX: u64 = 65536;

/// How cold is cold: more and more is taken when nothing else is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pressure {
    /// As the papers have it: of a file that was written lately, what is older than its average.
    Low,
    /// What is not younger than the average: there is always something, unless the older part has moved already.
    Medium,
    /// The coldest file, whole.
    High,
}

impl Core {
    /// Moves cold data of one of the coldest files of a shard from `tier` to the next.
    ///
    /// # Errors
    /// What keeps data from moving, as [`Core::move_stretch`] says it.
    pub fn migrate_cold(&self, shard: usize, tier: u8, counter: Counter) -> FsResult<Round> {
        let Some(target) = self.space.tiers().find(|&t| t > tier) else {
            return Ok(Round::Idle);
        };
        self.scan_some(shard);
        let mut tried: Vec<Arc<Inode>> = Vec::new();
        let mut copied = 0;
        let mut failed = Ok(());
        while copied == 0 && tried.len() < TRIED_FILES_MAX {
            let Some(inode) = self.pop_coldest(shard, tier) else {
                break;
            };
            let moved = self.migrate_file(&inode, tier, target, Pressure::Low, counter);
            tried.push(inode);
            match moved {
                Ok(bytes) => copied = bytes,
                Err(error) if error.is_fatal() => return Err(error),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        for pressure in [Pressure::Medium, Pressure::High] {
            for inode in tried.iter().filter(|_| failed.is_ok()) {
                if copied == 0 {
                    copied = self.migrate_file(inode, tier, target, pressure, counter)?;
                }
            }
        }
        tried.iter().for_each(|inode| self.list_again(inode, tier));
        failed?;
        Ok(match (copied, tried.is_empty()) {
            (0, true) => Round::Stuck(format!("no file has data to give away in {}", tier_name(tier))),
            (0, false) => Round::Stuck(format!("what is in {} is in use", tier_name(tier))),
            (bytes, _) => Round::Moved(bytes),
        })
    }

    /// Lists files that nobody has used since the mount, a few at a time.
    fn scan_some(&self, shard: usize) {
        let shards = self.shards.len() as u64;
        let records = self.shards[shard].table.read().counts().0;
        let scanned = self.shards[shard].mover.lists.lock().scanned;
        let next = (scanned + SCAN_RECORDS).min(records);
        for index in scanned..next {
            let ino = Ino(index * shards + shard as u64 + 1);
            // Records that nobody uses, and damaged ones, are not listed.
            if let Ok(inode) = self.get(ino) {
                self.list_everywhere(&inode);
                self.evict(inode);
            }
        }
        self.shards[shard].mover.lists.lock().scanned = next;
    }

    /// Lists a file in every tier where it has data.
    fn list_everywhere(&self, inode: &Inode) {
        let inner = inode.inner.read();
        let Body::File(file) = &inner.body else {
            return;
        };
        let mut tiers: Vec<u8> = file.index.iter().map(|(_, extent)| self.space.tier_of(extent.addr)).collect();
        tiers.sort_unstable();
        tiers.dedup();
        tiers.iter().for_each(|&tier| self.list_file(inode.ino, tier, file.heat.mean().0));
    }

    /// The coldest file of a tier that still exists.
    fn pop_coldest(&self, shard: usize, tier: u8) -> Option<Arc<Inode>> {
        loop {
            let inodes = self.shards[shard].inodes.read();
            // A file that is not in DRAM has not changed since it was listed.
            let current = |ino| match inodes.get(&ino).map(|inode| inode.inner.try_read()) {
                Some(Some(inner)) => Some(inner.file().map_or(i64::MIN, |file| file.heat.mean().0)),
                _ => Some(i64::MIN),
            };
            let (ino, _) = self.shards[shard].mover.lists.lock().of_tier(tier).pop_coldest(current)?;
            drop(inodes);
            if let Ok(inode) = self.get(Ino(ino)) {
                inode.listed.fetch_and(!tier_bit(tier), Ordering::Relaxed);
                return Some(inode);
            }
        }
    }

    /// Lists a file again, if there is still something of it in the tier.
    fn list_again(&self, inode: &Arc<Inode>, tier: u8) {
        let inner = inode.inner.read();
        let Ok(file) = inner.file() else {
            return;
        };
        let lies_there = |(_, extent): (u64, Extent)| self.space.tier_of(extent.addr) == tier;
        if file.index.iter().any(lies_there) && !inode.doomed.load(Ordering::Acquire) {
            inode.listed.fetch_or(tier_bit(tier), Ordering::Relaxed);
            self.list_file(inode.ino, tier, file.heat.mean().0);
        }
    }

    /// The file has got data in a tier.
    #[inline]
    pub fn note_data_in(&self, inode: &Inode, tier: u8, mean: Time) {
        if inode.listed.load(Ordering::Relaxed) & tier_bit(tier) == 0 {
            inode.listed.fetch_or(tier_bit(tier), Ordering::Relaxed);
            self.list_file(inode.ino, tier, mean.0);
        }
    }

    /// Moves a group's worth of a file's cold data, or less; returns how many bytes were copied.
    fn migrate_file(
        &self,
        inode: &Arc<Inode>,
        from: u8,
        to: u8,
        pressure: Pressure,
        counter: Counter,
    ) -> FsResult<u64> {
        let params = self.tuning.params();
        let cut = match (inode.shared()?.file()?.heat.cold(Time::now(), &params), pressure) {
            (_, Pressure::High) => ColdCut::Whole,
            (ColdCut::OlderThan(mean), Pressure::Medium) => ColdCut::OlderThan(mean.saturating_add(1)),
            (cut, _) => cut,
        };
        let is_cold = |_: u64, extent: &Extent, entry: &WriteEntry| {
            self.space.tier_of(extent.addr) == from && cut.is_cold(entry.mtime_ns)
        };
        let (used, budget) = (self.cache.clean_pages() + self.cache.dirty_pages(), self.cache.budget_pages());
        let keep_cached = from == 0 && keeps_cached(used, budget, &params);
        self.migrate_wanted_of(inode, &is_cold, cut != ColdCut::Whole, to, keep_cached, counter)
    }

    /// Moves as much of what is wanted of a file as a group holds.
    fn migrate_wanted_of(
        &self,
        inode: &Arc<Inode>,
        wanted: Wanted<'_>,
        spares_touched: bool,
        tier: u8,
        keep_cached: bool,
        counter: Counter,
    ) -> FsResult<u64> {
        let group_blocks = (self.tuning.get(Param::Group) / BLOCK_BYTES).max(1);
        let pieces = self.find_pieces(inode, wanted, spares_touched, group_blocks)?;
        let planned = groups(pieces.into_iter(), group_blocks);
        let mut copied = 0;
        for batch in batches(&planned, group_blocks) {
            let order = Order { stretches: &batch, wanted, tier, keep_cached };
            let Moved { blocks, overtaken } = self.move_stretch(inode, order)?;
            self.counters.add(counter, blocks * BLOCK_BYTES);
            self.counters.add(Counter::MigrationsOvertaken, overtaken * BLOCK_BYTES);
            copied += (blocks + overtaken) * BLOCK_BYTES;
        }
        if tier > 0 {
            self.counters.add(Counter::GroupsWritten, planned.len() as u64);
        }
        if copied > 0 {
            self.note_data_in(inode, tier, inode.inner.read().file()?.heat.mean());
        }
        Ok(copied)
    }

    /// The first pieces that are wanted, up to `most` blocks. `spares_touched`: what has changed in place since the last look is
    /// not taken this time.
    fn find_pieces(&self, inode: &Inode, wanted: Wanted<'_>, spares_touched: bool, most: u64) -> FsResult<Vec<Piece>> {
        let (mut pieces, mut found, mut at) = (Vec::new(), 0, 0);
        let mut touched: Vec<Range<u64>> = Vec::new();
        'file: loop {
            let inner = inode.shared()?;
            let file = inner.file()?;
            let mut looked_at = 0;
            for (start, extent) in file.index.overlaps(at, u64::MAX) {
                if looked_at == EXTENTS_PER_LOOK {
                    continue 'file;
                }
                looked_at += 1;
                at = start + u64::from(extent.blocks);
                if !wanted(start, &extent, &read_write_entry(&self.pm, extent.entry())?) {
                    continue;
                }
                if self.cache.is_dirty(&inode.pages, start, at) {
                    continue;
                }
                for blocks in untouched(&file.heat, start..at, spares_touched, &mut touched) {
                    let blocks = blocks.start..blocks.end.min(blocks.start + (most - found));
                    found += blocks.end - blocks.start;
                    pieces.push(Piece { block: blocks.start, blocks: blocks.end - blocks.start });
                    if found == most {
                        break 'file;
                    }
                }
            }
            break;
        }
        if !touched.is_empty() {
            let mut inner = inode.exclusive()?;
            let (_, file) = inner.file_mut()?;
            touched.iter().for_each(|blocks| file.heat.cool(blocks.start, blocks.end));
        }
        Ok(pieces)
    }

    /// Moves read-hot data of read-dominated files from PM to a disk and into the page cache.
    ///
    /// # Errors
    /// As [`Self::migrate_cold`].
    pub fn migrate_read_hot(&self, shard: usize) -> FsResult<Round> {
        let params = self.tuning.params();
        let group_blocks = (params.get(Param::Group) / BLOCK_BYTES).max(1);
        let (used, budget) = (self.cache.clean_pages() + self.cache.dirty_pages(), self.cache.budget_pages());
        // What does not fit would be read from the disk.
        if used + group_blocks > budget {
            return Ok(Round::Stuck("read migration: the page cache is full".into()));
        }
        let in_pm = |_: u64, extent: &Extent, _: &WriteEntry| extent.addr.is_pm();
        for inode in self.hottest_files(shard) {
            let blocks = inode.shared()?.file()?.size.div_ceil(BLOCK_BYTES);
            if !is_read_dominated(inode.reads_in_row.load(Ordering::Relaxed), blocks, &params) {
                continue;
            }
            let copied = self.migrate_wanted_of(&inode, &in_pm, false, 1, true, Counter::MigratedRead)?;
            if copied > 0 {
                return Ok(Round::Moved(copied));
            }
        }
        Ok(Round::Stuck("read migration: no read-dominated file has data in PM".into()))
    }

    /// Moves data of the files that are read most from disks to PM, up to `room` blocks.
    ///
    /// # Errors
    /// As [`Self::migrate_cold`].
    pub fn migrate_reverse(&self, shard: usize, room: u64) -> FsResult<Round> {
        let on_disk = |_: u64, extent: &Extent, _: &WriteEntry| !extent.addr.is_pm();
        if room == 0 {
            return Ok(Round::Idle);
        }
        for inode in self.hottest_files(shard) {
            let copied = self.migrate_wanted_of(&inode, &on_disk, false, 0, false, Counter::MigratedReverse)?;
            if copied > 0 {
                return Ok(Round::Moved(copied));
            }
        }
        Ok(Round::Stuck("reverse migration: no file that is read has data on a disk".into()))
    }

    /// Files of a shard that were read, hottest first.
    fn hottest_files(&self, shard: usize) -> Vec<Arc<Inode>> {
        let inodes = self.shards[shard].inodes.read();
        let mut files: Vec<(i64, u64)> = inodes
            .values()
            .filter(|inode| inode.reads_in_row.load(Ordering::Relaxed) > 0)
            .map(|inode| (inode.read_time.load(Ordering::Relaxed), inode.ino.0))
            .collect();
        hottest(&mut files, TRIED_FILES_MAX);
        files.iter().filter_map(|(_, ino)| inodes.get(ino).cloned()).filter(|inode| inode.is_file()).collect()
    }
}

/// What of `blocks` may go: all of it, or, if that is `spared`, not what has changed in place since the last look. That goes to
/// `touched`.
fn untouched(heat: &Heat, blocks: Range<u64>, spared: bool, touched: &mut Vec<Range<u64>>) -> Vec<Range<u64>> {
    if !spared || !heat.is_touched(blocks.start, blocks.end) {
        return vec![blocks];
    }
    touched.push(blocks.clone());
    let mut rest: Vec<Range<u64>> = Vec::new();
    for block in blocks.filter(|&block| !heat.is_touched(block, block + 1)) {
        match rest.last_mut().filter(|last| last.end == block) {
            Some(last) => last.end += 1,
            None => rest.push(block..block + 1),
        }
    }
    rest
}

/// Groups that are moved together, with one flush of the disk and one commit.
fn batches(groups: &[Group], most: u64) -> Vec<Vec<Range<u64>>> {
    let mut batches: Vec<Vec<Range<u64>>> = Vec::new();
    let mut blocks = 0;
    for group in groups {
        let range = group.block..group.block + group.blocks;
        blocks += group.blocks;
        match batches.last_mut().filter(|batch| blocks <= most && range.end - batch[0].start <= SPAN_BLOCKS_MAX) {
            Some(batch) => batch.push(range),
            None => {
                blocks = group.blocks;
                batches.push(vec![range]);
            }
        }
    }
    batches
}

fn tier_bit(tier: u8) -> u64 {
    1 << tier.min(63)
}
