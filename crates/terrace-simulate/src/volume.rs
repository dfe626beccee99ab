//! What the simulated volume holds: its files, its page cache, its time, and what it has counted.
//!
//! Invariants: `blocks_in` and `log_blocks` are sums over all files. Dirty and clean pages together
//! fit the page cache's budget. Files with dirty pages are in `dirty_files`, with the time of the
//! first; files with blocks in PM are in `cold`.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use terrace_policy::{
    ColdList, Dataflow, Judged, Param, PmSpace, Siblings, Traffic, Traits, Turnover, Utilization,
    used_percent, write_migration_goes_on,
};

use crate::clock::Clock;
use crate::config::{BLOCK_BYTES, Config};
use crate::cost::Work;
use crate::file::{EXTENT_BLOCKS_MAX, Extent, File, PLACES, Place};
use crate::hindsight::Judge;
use crate::outcome::Outcome;
use crate::pages::CleanPages;

/// Removed files that wait before they are reclaimed together, at most for a second.
const REMOVED_BATCH: u64 = 64;

/// The state that all operations share.
#[derive(Debug)]
pub(crate) struct Volume {
    pub config: Config,
    pub clock: Clock,
    pub files: FxHashMap<u64, File>,
    blocks_in: [u64; PLACES],
    /// Blocks of PM that logs take.
    log_blocks: u64,
    /// Files that were removed and are not reclaimed yet, and their blocks in PM.
    removed: (u64, u64),
    pub clean: CleanPages,
    pub dirty_files: BTreeSet<(i64, u64)>,
    pub traffic: Traffic,
    pub utilization: Utilization,
    pub dataflow: Dataflow,
    turnover: Turnover,
    pub cold: ColdList,
    pub siblings: Siblings,
    pub hindsight: Judge,
    pub outcome: Outcome,
    /// What the engine has done in the operation that is under way, each with its bytes.
    pub doing: Vec<(Work, u64)>,
}

impl Volume {
    /// An empty volume.
    pub fn new(config: Config) -> Self {
        Self {
            clock: Clock::new(config.disk),
            hindsight: Judge::new(config.pm_blocks() * BLOCK_BYTES),
            config,
            files: FxHashMap::default(),
            blocks_in: [0; PLACES],
            log_blocks: 0,
            removed: (0, 0),
            clean: CleanPages::default(),
            dirty_files: BTreeSet::new(),
            traffic: Traffic::default(),
            utilization: Utilization::default(),
            dataflow: Dataflow::default(),
            turnover: Turnover::default(),
            cold: ColdList::default(),
            siblings: Siblings::default(),
            outcome: Outcome::default(),
            doing: Vec::new(),
        }
    }

    pub fn blocks_at(&self, place: Place) -> u64 {
        self.blocks_in[place as usize]
    }

    /// Pages of the page cache that clean pages may take.
    pub fn room_for_clean(&self) -> u64 {
        self.config.cache_pages().saturating_sub(self.blocks_at(Place::Dirty))
    }

    pub fn pm_space(&self) -> PmSpace {
        let blocks = self.config.pm_blocks();
        let used = self.blocks_at(Place::Pm) + self.log_blocks + self.removed.1;
        PmSpace { blocks, free: blocks.saturating_sub(used) }
    }

    /// A file is gone that had so many blocks in PM. They are used until it is reclaimed.
    pub fn note_removed(&mut self, pm_blocks: u64) {
        self.removed = (self.removed.0 + 1, self.removed.1 + pm_blocks);
        if self.removed.0 >= REMOVED_BATCH {
            self.reclaim();
        }
    }

    /// Frees what removed files had; whether that was anything.
    pub fn reclaim(&mut self) -> bool {
        std::mem::take(&mut self.removed).1 > 0
    }

    /// Whether so many blocks fit into PM that move there.
    pub fn pm_has_room(&self, blocks: u64) -> bool {
        self.config.placement().room_for_data(self.pm_space()) >= blocks
    }

    pub fn pm_used_percent(&self) -> f64 {
        let PmSpace { blocks, free } = self.pm_space();
        used_percent(blocks, free)
    }

    /// PM is fuller than formula (1) has it.
    pub fn is_above_threshold(&self) -> bool {
        self.blocks_at(Place::Pm) > 0
            && write_migration_goes_on(
                self.pm_used_percent(),
                self.utilization.threshold_percent(&self.config.params),
            )
    }

    /// How many blocks have to leave PM for it to be no fuller than formula (1) has it.
    pub fn blocks_too_many(&self) -> u64 {
        let threshold = self.utilization.threshold_percent(&self.config.params);
        let percent = f64::max(self.pm_used_percent() - threshold, 0.0);
        (percent / 100.0 * self.config.pm_blocks() as f64) as u64
    }

    /// Whether so many blocks more would have to leave PM at once.
    pub fn pm_is_left(&self, blocks: u64) -> bool {
        let threshold = self.utilization.threshold_percent(&self.config.params);
        let PmSpace { blocks: all, free } = self.pm_space();
        let floor = (all as f64 * (100.0 - threshold) / 100.0) as u64;
        self.config.params.get(Param::Migrate) == 1 && free < floor + blocks
    }

    /// Whether a page that a log gives back keeps a page of data in PM.
    fn logs_are_tight(&self) -> bool {
        self.config.params.get(Param::TightLogs) == 1 && self.pm_is_left(0)
    }

    /// A file is about to be written.
    pub fn meet(&mut self, ino: u64) {
        let file = self.files.entry(ino).or_default();
        if file.life.is_fresh() {
            let common = match self.config.params.get(Param::Siblings) {
                0 => None,
                _ => self.siblings.born(file.life.kinds()),
            };
            file.life.expect(common);
        }
    }

    /// A file has shown these for the first time.
    pub fn showed(&mut self, ino: u64, shown: Traits) {
        if !shown.is_empty() {
            self.siblings.showed(self.files[&ino].life.kinds(), shown);
        }
    }

    /// By how much a file counts as younger than it is.
    pub fn grace_ns(&self, file: &File) -> i64 {
        let params = &self.config.params;
        let (await_bytes, cold_age) = (params.get(Param::AwaitBytes), params.get(Param::ColdAge));
        file.life.grace_ns(self.clock.now_ns(), await_bytes, cold_age)
    }

    /// For how long data counts as written lately, at the rate at which PM is written now.
    pub fn lately_ns(&mut self) -> i64 {
        let written = self.traffic.pm_written + self.outcome.written_pm_full_bytes;
        self.turnover.note(self.clock.now_ns(), written);
        let pm_bytes = self.config.pm_blocks() * BLOCK_BYTES;
        self.turnover.lately_ns(pm_bytes, &self.config.params)
    }

    /// When a file counts as written, in the order in which files leave PM.
    pub fn rank_ns(&self, file: &File) -> i64 {
        file.mtimes.time_ns().saturating_add(self.grace_ns(file))
    }

    /// The file in PM that leaves it next is no longer listed: its number and rank.
    pub fn pop_coldest(&mut self) -> Option<(u64, i64)> {
        let mut cold = std::mem::take(&mut self.cold);
        let in_pm = |ino| self.files.get(&ino).filter(|file| file.blocks_at(Place::Pm) > 0);
        let coldest = cold.pop_coldest(|ino| in_pm(ino).map(|file| self.rank_ns(file)));
        self.cold = cold;
        coldest
    }

    /// Changes a file, and what the volume knows of it.
    pub fn edit<R>(&mut self, ino: u64, change: impl FnOnce(&mut File) -> R) -> R {
        let file = self.files.entry(ino).or_default();
        let (before, log_before) = (file.blocks_in(), file.log_blocks());
        let result = change(file);
        if file.has_long_log() {
            let (free, is_tight) = (self.pm_space().free, self.logs_are_tight());
            self.files.entry(ino).or_default().compact_log(free, is_tight);
        }
        let file = &self.files[&ino];
        self.log_blocks = self.log_blocks - log_before + file.log_blocks();
        for ((total, before), after) in self.blocks_in.iter_mut().zip(before).zip(file.blocks_in())
        {
            *total = *total - before + after;
        }
        result
    }

    pub fn judge(&mut self, judged: Judged) {
        self.outcome.predicted_right += u64::from(judged.right);
        self.outcome.predicted_wrong += u64::from(judged.wrong);
    }

    /// Drops the clean pages of a range.
    pub fn drop_clean(&mut self, ino: u64, from: u64, to: u64) {
        let Some(file) = self.files.get(&ino).filter(|file| file.blocks_at(Place::Disk) > 0) else {
            return;
        };
        for (start, extent) in
            file.overlaps(from, to).filter(|(_, extent)| extent.place == Place::Disk)
        {
            self.clean.remove_range(ino, start, start + u64::from(extent.blocks));
        }
    }

    /// A file that lost its last dirty page waits for no writeback.
    pub fn forget_if_clean(&mut self, ino: u64) {
        if let Some(file) = self.files.get(&ino).filter(|file| file.blocks_at(Place::Dirty) == 0) {
            self.dirty_files.remove(&(file.dirty_since_ns, ino));
        }
    }

    /// Data older than the recording is met for the first time: it lies in PM as far as write
    /// migration would have left it there, else on the disk.
    pub fn find(&mut self, ino: u64, from: u64, to: u64) {
        let holes: Vec<_> = {
            let file = self.files.entry(ino).or_default();
            if file.is_new {
                return;
            }
            file.pieces(from, to).into_iter().filter(|piece| piece.2.is_none()).collect()
        };
        for (start, blocks, _) in holes {
            let mut at = start;
            while at < start + blocks {
                let blocks = (start + blocks - at).min(EXTENT_BLOCKS_MAX);
                let place = if self.pm_has_room(blocks) && !self.is_above_threshold() {
                    Place::Pm
                } else {
                    Place::Disk
                };
                let extent = Extent {
                    blocks: blocks as u32,
                    area_blocks: blocks as u32,
                    mtime_ns: 0,
                    counter: 0,
                    place,
                };
                self.edit(ino, |file| {
                    file.put(at, extent);
                    file.mtimes.add(blocks, 0);
                });
                if place == Place::Pm {
                    self.cold.note(ino, self.rank_ns(&self.files[&ino]));
                }
                at += blocks;
            }
        }
    }

    /// The engine does something for a program.
    pub fn work(&mut self, work: Work, bytes: u64) {
        self.doing.push((work, bytes));
        self.outcome.io_ns += self.config.costs.ns(work, bytes);
        if work.is_everywhere() {
            self.would_cost(work, bytes);
        }
    }

    /// What that would cost if everything were in PM.
    pub fn would_cost(&mut self, work: Work, bytes: u64) {
        self.outcome.all_pm_ns += self.config.costs.ns(work, bytes);
    }

    /// A program waits for the disk.
    pub fn wait(&mut self, done_ns: i64) {
        let wait_ns = self.clock.wait_until(done_ns);
        self.outcome.io_ns += wait_ns;
        self.outcome.disk_wait_ns += wait_ns;
    }

    /// What the top of this file promises.
    #[cfg(test)]
    pub fn check(&self) {
        let mut blocks_in = [0; PLACES];
        for file in self.files.values() {
            blocks_in.iter_mut().zip(file.blocks_in()).for_each(|(sum, blocks)| *sum += blocks);
        }
        assert_eq!(blocks_in, self.blocks_in);
        let cached = self.clean.len() + self.blocks_at(Place::Dirty);
        assert!(cached <= self.config.cache_pages());
        let dirty: BTreeSet<(i64, u64)> = (self.files.iter())
            .filter(|(_, file)| file.blocks_at(Place::Dirty) > 0)
            .map(|(&ino, file)| (file.dirty_since_ns, ino))
            .collect();
        assert_eq!(dirty, self.dirty_files);
        for (ino, file) in self.files.iter().filter(|(_, file)| file.blocks_at(Place::Pm) > 0) {
            assert!(self.cold.contains(*ino), "{ino}");
            assert!(file.committed_bytes <= file.size_bytes);
        }
        assert_eq!(self.log_blocks, self.files.values().map(File::log_blocks).sum::<u64>());
        let blocks = self.config.pm_blocks();
        let kept = self.config.placement().kept_blocks(blocks).min(blocks);
        assert!(self.blocks_at(Place::Pm) + kept <= blocks);
    }
}
