//! The simulated volume: its files, its time, and what each operation does first.
//!
//! Invariants: `blocks_in` is the sum over all files. Dirty and clean pages together fit the page
//! cache's budget. Files with dirty pages are in `dirty_files`, with the time of the first; files
//! with blocks in PM are in `cold`.
//!
//! Events between operations happen in the order of their times: once a second a tick, at which
//! rates are looked at, and whenever the mover has finished a group.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;
use terrace_policy::{
    ColdList, Dataflow, Judged, Param, PmSpace, Traffic, Utilization, used_percent,
    write_migration_goes_on,
};
use terrace_trace::{Operation, Record};

use crate::BLOCK_BYTES;
use crate::clock::Clock;
use crate::config::Config;
use crate::file::{EXTENT_BLOCKS_MAX, Extent, File, PLACES, Place};
use crate::migrate::Mover;
use crate::outcome::Outcome;
use crate::pages::CleanPages;

pub(crate) const NS_PER_SECOND: i64 = 1_000_000_000;
/// After so many idle seconds nothing changes any more: every threshold of time is shorter.
const IDLE_TICKS_MAX: i64 = 100_000;

/// A volume that might have been, at work on a trace.
#[derive(Debug)]
pub struct Simulation {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    next_tick_ns: i64,
    pub(crate) files: FxHashMap<u64, File>,
    blocks_in: [u64; PLACES],
    pub(crate) clean: CleanPages,
    pub(crate) dirty_files: BTreeSet<(i64, u64)>,
    pub(crate) traffic: Traffic,
    pub(crate) utilization: Utilization,
    pub(crate) dataflow: Dataflow,
    pub(crate) cold: ColdList,
    pub(crate) mover: Mover,
    pub(crate) outcome: Outcome,
}

impl Simulation {
    /// An empty volume.
    pub fn new(config: Config) -> Self {
        let clock = Clock::new(config.disk);
        let mover = Mover::new(&config.params);
        Self {
            config,
            clock,
            next_tick_ns: NS_PER_SECOND,
            files: FxHashMap::default(),
            blocks_in: [0; PLACES],
            clean: CleanPages::default(),
            dirty_files: BTreeSet::new(),
            traffic: Traffic::default(),
            utilization: Utilization::default(),
            dataflow: Dataflow::default(),
            cold: ColdList::default(),
            mover,
            outcome: Outcome::default(),
        }
    }

    /// Does the next operation of the trace.
    pub fn step(&mut self, record: &Record) {
        let arrival_ns = self.clock.arrival_ns(record.time_us);
        self.advance(arrival_ns);
        self.outcome.operations += 1;
        let ino = record.ino;
        let end = record.offset.saturating_add(record.len);
        match record.operation {
            Operation::Create => self.create(ino),
            Operation::Read => self.read(ino, record.offset, end),
            Operation::Write => {
                self.write(ino, record.offset, end, record.durable || self.config.durable)
            }
            Operation::Fsync => self.fsync(ino),
            Operation::Truncate => self.truncate(ino, record.offset),
            Operation::Allocate => self.grow(ino, end),
            Operation::Deallocate => {
                self.punch(ino, record.offset.div_ceil(BLOCK_BYTES), end / BLOCK_BYTES)
            }
            Operation::Remove => self.remove(ino),
        }
    }

    /// What was done so far.
    pub fn outcome(&self) -> Outcome {
        Outcome { pm_used_bytes: self.blocks_at(Place::Pm) * BLOCK_BYTES, ..self.outcome.clone() }
    }

    /// Lets time pass.
    fn advance(&mut self, to_ns: i64) {
        let idle_ns = to_ns.saturating_sub(IDLE_TICKS_MAX * NS_PER_SECOND);
        self.next_tick_ns = self.next_tick_ns.max(idle_ns);
        loop {
            let move_ends_ns = self.mover.ends_ns();
            let next_ns = self.next_tick_ns.min(move_ends_ns);
            if next_ns > to_ns {
                break;
            }
            self.clock.set(next_ns);
            if next_ns == move_ends_ns {
                self.finish_move();
            } else {
                self.next_tick_ns += NS_PER_SECOND;
                self.tick();
            }
        }
        self.clock.set(to_ns);
        self.write_back_oldest();
    }

    /// A second has passed.
    fn tick(&mut self) {
        self.utilization.tick(self.traffic);
        self.write_back_due();
        self.choose_migrations();
    }

    pub(crate) fn blocks_at(&self, place: Place) -> u64 {
        self.blocks_in[place as usize]
    }

    /// Pages of the page cache that clean pages may take.
    pub(crate) fn room_for_clean(&self) -> u64 {
        self.config.cache_pages().saturating_sub(self.blocks_at(Place::Dirty))
    }

    pub(crate) fn pm_space(&self) -> PmSpace {
        let blocks = self.config.pm_blocks();
        PmSpace { blocks, free: blocks.saturating_sub(self.blocks_at(Place::Pm)) }
    }

    /// Whether so many blocks fit into PM that move there.
    pub(crate) fn pm_has_room(&self, blocks: u64) -> bool {
        self.config.placement().room_for_data(self.pm_space()) >= blocks
    }

    pub(crate) fn pm_used_percent(&self) -> f64 {
        let PmSpace { blocks, free } = self.pm_space();
        used_percent(blocks, free)
    }

    /// PM is fuller than formula (1) has it.
    pub(crate) fn is_above_threshold(&self) -> bool {
        self.blocks_at(Place::Pm) > 0
            && write_migration_goes_on(
                self.pm_used_percent(),
                self.utilization.threshold_percent(&self.config.params),
            )
    }

    /// Changes a file, and what the volume knows of it.
    pub(crate) fn edit<R>(&mut self, ino: u64, change: impl FnOnce(&mut File) -> R) -> R {
        let file = self.files.entry(ino).or_default();
        let before = file.blocks_in();
        let result = change(file);
        for ((total, before), after) in self.blocks_in.iter_mut().zip(before).zip(file.blocks_in())
        {
            *total = *total - before + after;
        }
        result
    }

    pub(crate) fn judge(&mut self, judged: Judged) {
        self.outcome.predicted_right += u64::from(judged.right);
        self.outcome.predicted_wrong += u64::from(judged.wrong);
    }

    fn create(&mut self, ino: u64) {
        // The trace may have lost the removal of the file that had this number before.
        self.remove(ino);
        self.edit(ino, |file| file.is_new = true);
    }

    fn fsync(&mut self, ino: u64) {
        let sync_blocks = self.config.params.get(Param::SyncBlocks);
        let judged = self.edit(ino, |file| file.synchronicity.synced(sync_blocks));
        self.judge(judged);
        self.flush_and_wait(ino);
    }

    fn truncate(&mut self, ino: u64, size_bytes: u64) {
        if self.files.get(&ino).is_some_and(|file| size_bytes > file.committed_bytes) {
            self.settle_size(ino);
        }
        self.discard(ino, size_bytes.div_ceil(BLOCK_BYTES), u64::MAX);
        self.edit(ino, |file| {
            file.is_rewritten = size_bytes == 0 && file.size_bytes > 0;
            file.size_bytes = size_bytes;
            file.committed_bytes = size_bytes;
        });
    }

    /// A size that only dirty pages have reached is written back before a commit to the file's log.
    fn settle_size(&mut self, ino: u64) {
        if self.files.get(&ino).is_some_and(|file| file.size_bytes > file.committed_bytes) {
            self.flush_and_wait(ino);
        }
    }

    fn punch(&mut self, ino: u64, from: u64, to: u64) {
        self.settle_size(ino);
        self.discard(ino, from, to);
    }

    fn grow(&mut self, ino: u64, size_bytes: u64) {
        self.settle_size(ino);
        self.edit(ino, |file| {
            if size_bytes > file.size_bytes {
                (file.size_bytes, file.committed_bytes) = (size_bytes, size_bytes);
            }
        });
    }

    /// Makes whole blocks a hole.
    fn discard(&mut self, ino: u64, from: u64, to: u64) {
        self.drop_clean(ino, from, to);
        self.edit(ino, |file| {
            let cut = file.cut(from, to);
            file.mtimes.remove(cut);
        });
        self.forget_if_clean(ino);
    }

    /// Drops the clean pages of a range.
    pub(crate) fn drop_clean(&mut self, ino: u64, from: u64, to: u64) {
        let Some(file) = self.files.get(&ino).filter(|file| file.blocks_at(Place::Disk) > 0) else {
            return;
        };
        for (start, extent) in
            file.overlaps(from, to).filter(|(_, extent)| extent.place == Place::Disk)
        {
            self.clean.remove_range(ino, start, start + u64::from(extent.blocks));
        }
    }

    fn remove(&mut self, ino: u64) {
        if self.files.contains_key(&ino) {
            self.discard(ino, 0, u64::MAX);
            self.files.remove(&ino);
        }
    }

    /// A file that lost its last dirty page waits for no writeback.
    pub(crate) fn forget_if_clean(&mut self, ino: u64) {
        if let Some(file) = self.files.get(&ino).filter(|file| file.blocks_at(Place::Dirty) == 0) {
            self.dirty_files.remove(&(file.dirty_since_ns, ino));
        }
    }

    /// What of a range was there before recording began is met for the first time: as far as write
    /// migration would have left it there, in PM; else on the disk.
    pub(crate) fn find(&mut self, ino: u64, from: u64, to: u64) {
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
                let amtime_ns = self.edit(ino, |file| {
                    file.put(at, extent);
                    file.mtimes.add(blocks, 0);
                    file.mtimes.time_ns()
                });
                if place == Place::Pm {
                    self.cold.note(ino, amtime_ns);
                }
                at += blocks;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use terrace_policy::Params;

    use super::*;

    /// What the top of this file promises.
    fn check(simulation: &Simulation) {
        let mut blocks_in = [0; PLACES];
        for file in simulation.files.values() {
            blocks_in.iter_mut().zip(file.blocks_in()).for_each(|(sum, blocks)| *sum += blocks);
        }
        assert_eq!(blocks_in, simulation.blocks_in);
        assert!(
            simulation.clean.len() + blocks_in[Place::Dirty as usize]
                <= simulation.config.cache_pages()
        );
        let dirty: BTreeSet<(i64, u64)> = (simulation.files.iter())
            .filter(|(_, file)| file.blocks_at(Place::Dirty) > 0)
            .map(|(&ino, file)| (file.dirty_since_ns, ino))
            .collect();
        assert_eq!(dirty, simulation.dirty_files);
        for (ino, file) in simulation.files.iter().filter(|(_, file)| file.blocks_at(Place::Pm) > 0)
        {
            assert!(simulation.cold.contains(*ino), "{ino}");
            assert!(file.committed_bytes <= file.size_bytes);
        }
        let kept = simulation.config.placement().kept_blocks(simulation.config.pm_blocks());
        assert!(simulation.pm_space().free >= kept.min(simulation.config.pm_blocks()));
    }

    fn record() -> impl Strategy<Value = (u64, Record)> {
        let operation = prop::sample::select(vec![
            Operation::Create,
            Operation::Read,
            Operation::Read,
            Operation::Read,
            Operation::Write,
            Operation::Write,
            Operation::Write,
            Operation::Write,
            Operation::Fsync,
            Operation::Truncate,
            Operation::Allocate,
            Operation::Deallocate,
            Operation::Remove,
        ]);
        let range = prop_oneof![
            (0..1u64 << 21, 1..1u64 << 20),
            (0..500u64, 1..200u64).prop_map(|(a, b)| (a * 4096, b * 4096))
        ];
        let gap_us = prop_oneof![0..1000u64, 0..2_000_000u64, Just(40_000_000)];
        (gap_us, operation, 1..6u64, range, prop::bool::weighted(0.1)).prop_map(
            |(gap_us, operation, ino, (offset, len), durable)| {
                let len = if operation == Operation::Truncate { 0 } else { len };
                (gap_us, Record { time_us: 0, operation, durable, ino, offset, len })
            },
        )
    }

    proptest! {
        #[test]
        fn its_books_are_right_after_every_operation(
            records in prop::collection::vec(record(), 1..120),
            pm_blocks in 0..1500u64,
            disk in prop::sample::select(vec!["optane-ssd", "hdd"]),
            sync_blocks in 1..200u64,
        ) {
            let mut params = Params::default();
            params.set(Param::SyncBlocks, sync_blocks).unwrap();
            params.set(Param::LargeWrites, 0).unwrap();
            let facts = terrace_trace::Facts { pm_full_percent: 90, writeback_seconds: 5, ..Default::default() };
            let config = Config {
                pm_bytes: pm_blocks * BLOCK_BYTES,
                cache_bytes: 2 << 20,
                params,
                ..Config::new(&facts, disk.parse().unwrap())
            };
            let mut simulation = Simulation::new(config.clone());
            let mut again = Simulation::new(config);
            let (mut time_us, mut written) = (0, 0);
            for (gap_us, record) in records {
                time_us += gap_us;
                let record = Record { time_us, ..record };
                simulation.step(&record);
                again.step(&record);
                check(&simulation);
                written += if record.operation == Operation::Write { record.len } else { 0 };
                prop_assert_eq!(simulation.outcome().written_bytes(), written);
            }
            let outcome = simulation.outcome();
            prop_assert_eq!(&outcome, &again.outcome(), "it is deterministic");
            prop_assert!(outcome.io_ns >= outcome.disk_wait_ns && outcome.disk_wait_ns >= outcome.stalled_ns);
        }
    }
}
