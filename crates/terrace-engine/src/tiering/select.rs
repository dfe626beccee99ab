//! Selection: which files' data moves, and how much of it together. Write migration, demotion, read
//! migration, reverse migration.

use std::ops::{ControlFlow, Range};

use terrace_layout::BLOCK_BYTES;
use terrace_policy::{
    ColdCut, Group, Leaving, Moment, Param, PartTimes, Piece, Pressure, Rule, Turnover, groups,
    keeps_cached,
};
use terrace_store::error::FsResult;
use terrace_store::file::{FileData, Heat, read_write_entry};
use terrace_store::index::Extent;
use terrace_store::log::Entries;
use terrace_store::space::Tiers;
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, Mutex};

use crate::base::counters::{Counter, Counters};
use crate::base::tuning::Tuning;
use crate::base::types::{Ino, Time};
use crate::base::words::tier_name;
use crate::inode::activity::Activity;
use crate::inode::cache::PageCache;
use crate::inode::kin::Kin;
use crate::inode::resident::Inode;
use crate::inode::store::Store;
use crate::inode::table::Inodes;
use crate::tiering::cold::{Cold, Together, Way, target_of};
use crate::tiering::hot_files::HotFiles;
use crate::tiering::relocate::{Order, Relocator, Wanted};
use crate::tiering::round::{Direction, Round};

/// Inodes that nobody has used since the mount, of which so many are looked at when cold data is
/// looked for.
const SCAN_RECORDS: u64 = 256;
/// A file that has more cold blocks moves by itself: 1 MiB.
pub(crate) const ALONE_BLOCKS: u64 = 256;
/// Least blocks that are to leave a tier at once: a flush takes as long as to write a part of them.
pub(crate) const LITTLE_BLOCKS: u64 = 256;
/// Coldest files that are tried before less cold blocks are taken.
pub(crate) const TRIED_FILES_MAX: usize = 16;
/// Extents that are looked at before the lock is given away for a moment.
const EXTENTS_PER_LOOK: usize = 512;
/// Groups that a disk makes durable together: a flush costs about as much as the write of some
/// megabytes.
pub(crate) const GROUPS_PER_FLUSH: u64 = 4;
/// A stretch that is moved at once spans no more than this, however little of it moves: 256 MiB.
pub(crate) const SPAN_BLOCKS_MAX: u64 = 65536;

/// See the module.
#[derive(Debug)]
pub(crate) struct Selector {
    pub store: Arc<Store>,
    pub cache: Arc<PageCache>,
    pub activity: Arc<Activity>,
    pub inodes: Arc<Inodes>,
    pub kin: Arc<Kin>,
    pub counters: Arc<Counters>,
    pub tuning: Arc<Tuning>,
    pub relocator: Arc<Relocator>,
    pub turnover: Mutex<Turnover>,
    /// By shard.
    pub hot: Vec<Mutex<HotFiles>>,
}

impl Selector {
    /// Relocates cold data of the coldest files of a shard from `tier` to the next slower tier that
    /// has room: about `most` blocks, of one file or of many small ones.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn migrate_cold(
        &self,
        shard: usize,
        tier: u8,
        leaving: Leaving,
        most: u64,
    ) -> FsResult<Round> {
        let target = match target_of(&self.store, &self.relocator.wear, tier) {
            Ok(target) => target,
            Err(round) => return Ok(round),
        };
        self.scan_some(shard);
        let lately_ns = self.lately_ns();
        let (space, params) = (&self.store.space, self.tuning.params());
        let is_scarce = space.placement.is_scarce(space.pm_space(), &params);
        let way = Way { shard, from: tier, to: target, leaving, most, lately_ns, is_scarce };
        let mut tried: Vec<Arc<Inode>> = Vec::new();
        let direction = Direction { from: tier_name(tier), to: "the tiers below" };
        let mut round =
            Round::Stuck(format!("no file has data to give away in {}", direction.from));
        for pressure in Pressure::RISING {
            if !round.may_try_another() {
                break;
            }
            // Those that were tried before, and more if they do not do.
            let coldest = (0..).map_while(|n| {
                if n == tried.len() {
                    tried.push(self.pop_coldest(shard, tier)?);
                }
                Some(tried[n].clone())
            });
            round = self.migrate_some(coldest, way, pressure, round, &direction)?;
        }
        if let (true, Some(why)) = (tried.is_empty(), self.activity.pinned_in_words(shard, tier)) {
            round = Round::Stuck(why);
        }
        for inode in tried {
            self.list_again(&inode, tier);
            self.inodes.let_go(inode);
        }
        Ok(round)
    }

    /// Relocates data that is cold under this pressure. The files come coldest first: the first one
    /// that has much moves alone, or those before it that have little move together.
    fn migrate_some(
        &self,
        files: impl Iterator<Item = Arc<Inode>>,
        way: Way,
        pressure: Pressure,
        mut round: Round,
        direction: &Direction,
    ) -> FsResult<Round> {
        let (mut together, mut in_vain) = (Together::default(), 0);
        for inode in files {
            match self.cold_pieces(&inode, way, pressure) {
                Ok(Some(cold)) if cold.blocks() > ALONE_BLOCKS => {
                    if together.files.is_empty() {
                        let moved = self.relocate_pieces(&inode, cold, way);
                        round = round.after(moved, direction)?;
                    }
                    // Else it is next.
                    if !together.files.is_empty() || !round.may_try_another() {
                        break;
                    }
                }
                Ok(Some(cold)) => together.add(inode, cold),
                Ok(None) => in_vain += 1,
                Err(error) => round = round.after_failure(error)?,
            }
            if in_vain >= TRIED_FILES_MAX || together.is_enough(way.most) {
                break;
            }
        }
        if !together.files.is_empty() {
            let moved = self.relocate_cold(together, way);
            round = round.after(moved, direction)?;
        }
        Ok(round)
    }

    /// For how long data counts as written lately, at the rate at which PM is written now.
    pub fn lately_ns(&self) -> i64 {
        let counted = self.counters.snapshot();
        let written = counted.get(Counter::WrittenPm) + counted.get(Counter::PlacedPmFull);
        let mut turnover = self.turnover.lock();
        turnover.note(Time::now().0, written);
        turnover.lately_ns(self.store.space.pm().blocks() * BLOCK_BYTES, &self.tuning.params())
    }

    /// Lists files that nobody has used since the mount, a few at a time.
    pub fn scan_some(&self, shard: usize) {
        let lists = &self.activity.shards[shard].lists;
        let records = self.inodes.shards[shard].table.read().end();
        let scanned = lists.lock().scanned;
        let next = (scanned + SCAN_RECORDS).min(records);
        // Records that nobody uses, and damaged ones, are not listed.
        let list = &mut |found: FsResult<&Arc<Inode>>| {
            if let Ok(inode) = found {
                self.activity.list_everywhere(inode, &inode.inner.look());
            }
            Ok(())
        };
        self.inodes.visit_inodes(shard, scanned..next, list).expect("listing does not fail");
        lists.lock().scanned = next;
    }

    /// The coldest file of a tier that still exists and is not pinned.
    fn pop_coldest(&self, shard: usize, tier: u8) -> Option<Arc<Inode>> {
        loop {
            let inodes = self.inodes.shards[shard].inodes.read();
            // A file that is not in DRAM has not changed since it was listed.
            let current =
                |ino| Some(inodes.get(&ino).map_or(i64::MIN, |inode| inode.tiers.rank_ns()));
            let (ino, _) =
                self.activity.shards[shard].lists.lock().of_tier(tier).pop_coldest(current)?;
            drop(inodes);
            // The number may be another's by now, or nobody's.
            if let Some(inode) = self.inodes.get(Ino(ino)).ok().filter(|inode| inode.is_file()) {
                inode.tiers.unlist(tier);
                if inode.tiers.pin.get().is_none() {
                    return Some(inode);
                }
                self.inodes.let_go(inode);
            }
        }
    }

    /// Lists a file again, if there is still something of it in the tier.
    fn list_again(&self, inode: &Arc<Inode>, tier: u8) {
        let inner = inode.inner.look();
        let Ok(file) = inner.file() else {
            return;
        };
        let lies_there = |(_, extent): (u64, Extent)| self.store.space.tier_of(extent.addr) == tier;
        if file.index.iter().any(lies_there) && !inode.deleted.load(Ordering::Acquire) {
            self.activity.note_data_in(inode, tier);
        }
    }

    /// Looks up a file's data that is cold under this pressure, in the tier that it leaves.
    fn cold_pieces(
        &self,
        inode: &Arc<Inode>,
        way: Way,
        pressure: Pressure,
    ) -> FsResult<Option<Cold>> {
        let params = self.tuning.params();
        // Files that will be gone soon leave last, but before PM is full.
        let counts_as_it_is = pressure >= Pressure::High && (way.from > 0 || way.is_scarce);
        let now = if counts_as_it_is { Time::now() } else { self.counted_now(inode)? };
        let moment = Moment { now_ns: now.0, lately_ns: way.lately_ns };
        let there = |extent: &Extent| self.store.space.tier_of(extent.addr) == way.from;
        let cut = match pressure {
            Pressure::Highest => self.times_of_part(inode, &there)?.older_half(moment, &params),
            _ => inode.shared()?.file()?.heat.cold(pressure, moment, &params),
        };
        let Some(cut) = cut else { return Ok(None) };
        let such = (cut != ColdCut::Whole).then_some(cut);
        let spares: Option<Spared> = match pressure {
            // Blocks that are patched keep the time of their entry, and such a file may seem
            // cold as a whole.
            Pressure::Highest => Some(Heat::is_in_use),
            _ if cut == ColdCut::Whole => None,
            _ => Some(Heat::is_touched),
        };
        let wanted = Wanted { there: &there, such };
        let pieces = self.find_pieces(inode, wanted, spares, self.blocks_at_once())?;
        Ok((!pieces.is_empty()).then_some(Cold { pressure, such, pieces }))
    }

    /// Blocks that are made durable together at most.
    pub fn blocks_at_once(&self) -> u64 {
        // A limit is kept best with little at a time.
        let groups = if self.tuning.get(Param::MigrateRate) > 0 { 1 } else { GROUPS_PER_FLUSH };
        groups * self.group_blocks()
    }

    fn group_blocks(&self) -> u64 {
        (self.tuning.get(Param::Group) / BLOCK_BYTES).max(1)
    }

    fn keeps_cached(&self, way: Way) -> bool {
        let (used, budget) =
            (self.cache.clean_pages() + self.cache.dirty_pages(), self.cache.budget_pages());
        way.from == 0 && keeps_cached(used, budget, &self.tuning.params())
    }

    /// Relocates some groups of a file's cold data, or less; returns how many bytes are elsewhere
    /// now.
    fn relocate_pieces(&self, inode: &Arc<Inode>, cold: Cold, way: Way) -> FsResult<u64> {
        let there = |extent: &Extent| self.store.space.tier_of(extent.addr) == way.from;
        let order = Order {
            stretches: &[],
            wanted: Wanted { there: &there, such: cold.such },
            tiers: Tiers::from(way.to),
            keep_cached: self.keeps_cached(way),
            rule: way.rule(&cold, false),
        };
        self.relocate_groups(inode, cold.pieces, order)
    }

    /// Relocates the cold data of several files, with one flush; returns how many bytes are
    /// elsewhere now.
    fn relocate_cold(&self, together: Together, way: Way) -> FsResult<u64> {
        let there = |extent: &Extent| self.store.space.tier_of(extent.addr) == way.from;
        let keep_cached = self.keeps_cached(way);
        let order = |cold: &Cold| Order {
            stretches: &[],
            wanted: Wanted { there: &there, such: cold.such },
            tiers: Tiers::from(way.to),
            keep_cached,
            rule: way.rule(cold, true),
        };
        self.relocate_together(way.shard, &together, &order)
    }

    /// Relocates pieces of several files together; returns how many bytes are elsewhere now.
    /// `order`: what is to be done with those of a file.
    pub fn relocate_together<'a>(
        &self,
        shard: usize,
        together: &'a Together,
        order: &dyn Fn(&'a Cold) -> Order<'a>,
    ) -> FsResult<u64> {
        let stretches: Vec<Vec<Range<u64>>> =
            together.files.iter().map(|(_, cold)| cold.stretches()).collect();
        let orders: Vec<(Arc<Inode>, Order<'_>)> = (together.files.iter().zip(&stretches))
            .map(|((inode, cold), stretches)| (inode.clone(), Order { stretches, ..order(cold) }))
            .collect();
        let moved = self.relocator.relocate_together(shard, &orders);
        if moved.blocks > 0 && orders.iter().any(|(_, order)| order.tiers.first > 0) {
            self.counters.add(Counter::GroupsWritten, 1);
        }
        match moved.failed {
            Err(error) if moved.blocks > 0 && !error.is_fatal() => {}
            failed => failed?,
        }
        Ok(moved.blocks * BLOCK_BYTES)
    }

    /// The time that it is for a file which counts as younger or older than it is.
    fn counted_now(&self, inode: &Inode) -> FsResult<Time> {
        let now = Time::now();
        let grace_ns = self.kin.grace_ns(inode.shared()?.file()?, now);
        Ok(Time(now.0.saturating_sub(grace_ns)))
    }

    /// Relocates as much of what is wanted of a file as is made durable together; returns how
    /// many bytes are elsewhere now.
    pub fn relocate_selection(
        &self,
        inode: &Arc<Inode>,
        selection: Selection<'_>,
    ) -> FsResult<u64> {
        let Selection { wanted, tiers, keep_cached, rule, .. } = selection;
        let most = self.blocks_at_once().min(selection.most);
        let pieces = self.find_pieces(inode, wanted, selection.spares, most)?;
        let order = Order { stretches: &[], wanted, tiers, keep_cached, rule };
        self.relocate_groups(inode, pieces, order)
    }

    /// Relocates pieces of a file, in groups; returns how many bytes are elsewhere now.
    pub fn relocate_groups(
        &self,
        inode: &Arc<Inode>,
        pieces: Vec<Piece>,
        order: Order<'_>,
    ) -> FsResult<u64> {
        let planned = groups(pieces.into_iter(), self.group_blocks());
        let mut moved_bytes = 0;
        for batch in batches(&planned, self.blocks_at_once()) {
            let moved = self.relocator.relocate(inode, Order { stretches: &batch, ..order });
            moved_bytes += moved.blocks * BLOCK_BYTES;
            if order.tiers.first > 0 && moved.blocks > 0 {
                self.counters.add(Counter::GroupsWritten, batch.len() as u64);
            }
            match moved.failed {
                // The bytes that moved count. The next attempt meets the failure first.
                Err(error) if moved_bytes > 0 && !error.is_fatal() => break,
                failed => failed?,
            }
        }
        Ok(moved_bytes)
    }

    /// The first pieces that are wanted, up to `most` blocks. Without what is spared.
    pub fn find_pieces(
        &self,
        inode: &Inode,
        wanted: Wanted<'_>,
        spares: Option<Spared>,
        most: u64,
    ) -> FsResult<Vec<Piece>> {
        let (mut pieces, mut found) = (Vec::new(), 0);
        let now = Time::now();
        if spares.is_some() && inode.shared()?.file()?.heat.is_to_be_cooled(now) {
            inode.exclusive()?.file_mut()?.1.heat.cool(now);
        }
        let look = |file: &FileData, entries: Entries<'_>, start: u64, extent: Extent| {
            let end = start + u64::from(extent.blocks);
            let is_wanted = (wanted.there)(&extent)
                && !self.cache.is_dirty(&inode.pages, start, end)
                && match wanted.such {
                    Some(cut) => cut.is_cold(read_write_entry(entries, extent.entry())?.mtime_ns),
                    None => true,
                };
            if !is_wanted {
                return Ok(ControlFlow::Continue(()));
            }
            for blocks in not_spared(&file.heat, start..end, spares) {
                let blocks = blocks.start..blocks.end.min(blocks.start + (most - found));
                found += blocks.end - blocks.start;
                pieces.push(Piece { block: blocks.start, blocks: blocks.end - blocks.start });
                if found == most {
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        self.visit_extents(inode, look)?;
        Ok(pieces)
    }

    /// When those blocks of a file were written that lie `there`.
    fn times_of_part(&self, inode: &Inode, there: &dyn Fn(&Extent) -> bool) -> FsResult<PartTimes> {
        let mut times = PartTimes::default();
        self.visit_extents(inode, |_, entries, _, extent| {
            if there(&extent) {
                times
                    .add(extent.blocks.into(), read_write_entry(entries, extent.entry())?.mtime_ns);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(times)
    }

    /// Shows the extents of a file, with their first blocks, ascending, until one is the last to be
    /// seen. The lock is given away for a moment now and then, so they are not all of one time.
    fn visit_extents(
        &self,
        inode: &Inode,
        mut look: impl FnMut(&FileData, Entries<'_>, u64, Extent) -> FsResult<ControlFlow<()>>,
    ) -> FsResult<()> {
        let mut at = 0;
        loop {
            let (inner, before) = (inode.shared()?, at);
            let (file, entries) = (inner.file()?, inner.log.entries(&self.store.pm));
            for (start, extent) in file.index.overlaps(at, u64::MAX).take(EXTENTS_PER_LOOK) {
                // Compaction may have joined what was seen with what follows it.
                let skip = at.saturating_sub(start);
                let (start, extent) =
                    (start + skip, extent.part(skip, u64::from(extent.blocks) - skip));
                at = start + u64::from(extent.blocks);
                if look(file, entries, start, extent)?.is_break() {
                    return Ok(());
                }
            }
            if at == before {
                return Ok(());
            }
        }
    }
}

/// Whether one of the blocks between these two is to stay.
type Spared = fn(&Heat, u64, u64) -> bool;

/// What is to be done with a file.
#[derive(Clone, Copy)]
pub(crate) struct Selection<'a> {
    pub wanted: Wanted<'a>,
    /// What of it stays: what has changed in place of late.
    pub spares: Option<Spared>,
    pub tiers: Tiers,
    pub keep_cached: bool,
    /// Blocks.
    pub most: u64,
    /// Why it moves.
    pub rule: Rule,
}

/// What of `blocks` may go.
fn not_spared(heat: &Heat, blocks: Range<u64>, spares: Option<Spared>) -> Vec<Range<u64>> {
    let is_spared = |from, to| spares.is_some_and(|is_spared| is_spared(heat, from, to));
    if !is_spared(blocks.start, blocks.end) {
        return vec![blocks];
    }
    let mut rest: Vec<Range<u64>> = Vec::new();
    for block in blocks.filter(|&block| !is_spared(block, block + 1)) {
        match rest.last_mut().filter(|last| last.end == block) {
            Some(last) => last.end += 1,
            None => rest.push(block..block + 1),
        }
    }
    rest
}

/// Groups that are moved together, with one flush of the disk.
fn batches(groups: &[Group], most: u64) -> Vec<Vec<Range<u64>>> {
    let mut batches: Vec<Vec<Range<u64>>> = Vec::new();
    let mut blocks = 0;
    for group in groups {
        let range = group.block..group.block + group.blocks;
        blocks += group.blocks;
        match batches
            .last_mut()
            .filter(|batch| blocks <= most && range.end - batch[0].start <= SPAN_BLOCKS_MAX)
        {
            Some(batch) => batch.push(range),
            None => {
                blocks = group.blocks;
                batches.push(vec![range]);
            }
        }
    }
    batches
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use terrace_media::{Pm, memory_disk};

    use crate::base::types::{FileKind, Ino, NewInode, WriteOptions};
    use crate::{FormatOptions, OpenOptions, Volume, format};

    #[test]
    fn a_file_that_is_gone_is_in_no_list() {
        let (pm, disks) = (Pm::anonymous(8 << 20), vec![memory_disk(16 << 20)]);
        format(&pm, &disks, &FormatOptions { shards: Some(1), ..Default::default() }).unwrap();
        let options = OpenOptions { cache_bytes: 4 << 20, workers: false, ..Default::default() };
        let volume = Volume::open(pm, disks, options, &|_, _, _| {}).unwrap();
        let new =
            NewInode { kind: FileKind::Regular, mode: 0o644, umask: 0, uid: 0, gid: 0, rdev: 0 };
        let listed = |tier| volume.parts.activity.shards[0].lists.lock().of_tier(tier).len();
        let inos: Vec<Ino> = ["a", "b", "c"]
            .map(|name| {
                let ino = volume.create(Ino::ROOT, name.as_bytes(), &new).unwrap().ino;
                volume.write(ino, 0, &[1; 8192], WriteOptions::default()).unwrap();
                ino
            })
            .to_vec();
        volume.move_range(inos[1], 1, 4096, 4096).unwrap();
        assert_eq!((listed(0), listed(1)), (3, 1), "the second lies on both");
        for name in ["a", "b"] {
            volume.unlink(Ino::ROOT, name.as_bytes()).unwrap();
        }
        assert_eq!((listed(0), listed(1)), (3, 1), "they are in use");
        volume.forget(inos[0], 1);
        volume.forget(inos[1], 1);
        assert_eq!((listed(0), listed(1)), (1, 0));
    }
}
