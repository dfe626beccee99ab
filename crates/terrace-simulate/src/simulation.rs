//! The simulated volume at work: what each operation does first, and what time brings about.
//!
//! Events between operations happen in the order of their times: once a second a tick, at which
//! rates are looked at, and whenever the mover has finished a group.

use terrace_policy::{Kinds, Life, Param};
use terrace_trace::{Operation, Record};

use crate::config::{BLOCK_BYTES, Config};
use crate::cost::Work;
use crate::file::Place;
use crate::flush::{flush_and_wait, write_back_due, write_back_oldest};
use crate::migrate::Mover;
use crate::outcome::Outcome;
use crate::read::read;
use crate::volume::Volume;
use crate::write::write;

const NS_PER_SECOND: i64 = 1_000_000_000;
/// After so many idle seconds nothing changes any more: every threshold of time is shorter.
const IDLE_TICKS_MAX: i64 = 100_000;

/// A volume that might have been, at work on a trace.
#[derive(Debug)]
pub struct Simulation {
    volume: Volume,
    mover: Mover,
    next_tick_ns: i64,
    /// By the last operation.
    waited_ns: u64,
}

impl Simulation {
    /// An empty volume.
    pub fn new(config: Config) -> Self {
        let mover = Mover::new(&config);
        Self { volume: Volume::new(config), mover, next_tick_ns: NS_PER_SECOND, waited_ns: 0 }
    }

    /// Does the next operation of a trace of one thread that never thinks less than it did; how
    /// long it takes, in nanoseconds.
    pub fn step(&mut self, record: &Record) -> u64 {
        let begins_ns = self.volume.clock.arrival_ns(record.time_us, record.took_ns);
        let took_ns = self.step_at(record, begins_ns);
        // A trace that does not say how long an operation took has it in the time between two.
        let longer_ns = match record.took_ns {
            0 => self.waited_ns as i64,
            recorded_ns => took_ns as i64 - recorded_ns as i64,
        };
        self.volume.clock.delay(longer_ns);
        took_ns
    }

    /// Does an operation that begins then; how long it takes. Others may begin before it ends.
    pub(crate) fn step_at(&mut self, record: &Record, begins_ns: i64) -> u64 {
        self.advance(begins_ns);
        let begun_ns = self.volume.clock.now_ns();
        self.volume.outcome.operations += 1;
        let (io_ns, waited_ns) = (self.volume.outcome.io_ns, self.volume.outcome.disk_wait_ns);
        self.volume.doing.clear();
        self.operate(record);
        let took_ns = self.volume.outcome.io_ns - io_ns;
        self.waited_ns = self.volume.outcome.disk_wait_ns - waited_ns;
        self.volume.clock.go_back(begun_ns);
        took_ns
    }

    /// What the engine did in the last operation, each with its bytes.
    pub(crate) fn works(&self) -> &[(Work, u64)] {
        &self.volume.doing
    }

    /// How long the last operation waited for the disk, in nanoseconds.
    pub(crate) fn waited_ns(&self) -> u64 {
        self.waited_ns
    }

    fn operate(&mut self, record: &Record) {
        let ino = record.ino;
        let end = record.offset.saturating_add(record.len);
        match record.operation {
            Operation::Create => {
                self.volume.work(Work::Create, 0);
                self.create(ino);
            }
            Operation::Read => read(&mut self.volume, ino, record.offset, end),
            Operation::Write => {
                let durable = record.durable || self.volume.config.durable;
                write(&mut self.volume, &mut self.mover, ino, record.offset, end, durable);
            }
            Operation::Fsync => self.fsync(ino),
            Operation::Truncate => {
                self.volume.work(Work::Truncate, 0);
                self.truncate(ino, record.offset);
            }
            Operation::Allocate => {
                self.volume.work(Work::Allocate, 0);
                self.grow(ino, end);
            }
            Operation::Deallocate => {
                self.volume.hindsight.discarded(ino, record.offset..end);
                self.volume.work(Work::Allocate, 0);
                self.punch(ino, record.offset.div_ceil(BLOCK_BYTES), end / BLOCK_BYTES)
            }
            Operation::Remove => self.remove(ino),
            Operation::Kinds => self.name(ino, Kinds::from_numbers([record.offset, record.len])),
        }
    }

    /// What was done so far.
    pub fn outcome(&self) -> Outcome {
        Outcome {
            pm_used_bytes: self.volume.blocks_at(Place::Pm) * BLOCK_BYTES,
            hindsight: self.volume.hindsight.hindsight(),
            ..self.volume.outcome.clone()
        }
    }

    /// Lets time pass.
    fn advance(&mut self, to_ns: i64) {
        let idle_ns = to_ns.saturating_sub(IDLE_TICKS_MAX * NS_PER_SECOND);
        self.next_tick_ns = self.next_tick_ns.max(idle_ns);
        loop {
            let mover_next_ns = self.mover.next_ns();
            let next_ns = self.next_tick_ns.min(mover_next_ns);
            if next_ns > to_ns {
                break;
            }
            self.volume.clock.set(next_ns);
            if next_ns == mover_next_ns {
                self.mover.go_on(&mut self.volume);
            } else {
                self.next_tick_ns += NS_PER_SECOND;
                self.tick();
            }
        }
        self.volume.clock.set(to_ns);
        write_back_oldest(&mut self.volume);
    }

    /// A second has passed.
    fn tick(&mut self) {
        self.volume.utilization.tick(self.volume.traffic);
        write_back_due(&mut self.volume);
        self.volume.reclaim();
        self.mover.choose(&mut self.volume);
    }

    fn create(&mut self, ino: u64) {
        // The trace may have lost the removal of the file that had this number before.
        self.remove(ino);
        self.volume.edit(ino, |file| file.is_new = true);
        self.volume.hindsight.born(ino);
    }

    /// The file that was just made is of these kinds.
    fn name(&mut self, ino: u64, kinds: Kinds) {
        let now_ns = self.volume.clock.now_ns();
        self.volume.edit(ino, |file| file.life = Life::born(kinds, now_ns));
    }

    fn fsync(&mut self, ino: u64) {
        self.volume.work(Work::Fsync, 0);
        let sync_blocks = self.volume.config.params.get(Param::SyncBlocks);
        let judged = self.volume.edit(ino, |file| file.synchronicity.synced(sync_blocks));
        self.volume.judge(judged);
        let await_bytes = self.volume.config.params.get(Param::AwaitBytes);
        let shown = self.volume.edit(ino, |file| file.life.synced(await_bytes));
        self.volume.showed(ino, shown);
        self.volume.hindsight.synced(ino);
        flush_and_wait(&mut self.volume, ino);
    }

    fn truncate(&mut self, ino: u64, size_bytes: u64) {
        if self.volume.files.get(&ino).is_some_and(|file| size_bytes > file.committed_bytes) {
            self.settle_size(ino);
        }
        self.volume.hindsight.discarded(ino, size_bytes..u64::MAX);
        self.discard(ino, size_bytes.div_ceil(BLOCK_BYTES), u64::MAX);
        self.volume.edit(ino, |file| {
            file.is_rewritten = size_bytes == 0 && file.size_bytes > 0;
            file.size_bytes = size_bytes;
            file.committed_bytes = size_bytes;
        });
    }

    /// A size that only dirty pages have reached is written back before a commit to the file's log.
    fn settle_size(&mut self, ino: u64) {
        if self.volume.files.get(&ino).is_some_and(|file| file.size_bytes > file.committed_bytes) {
            flush_and_wait(&mut self.volume, ino);
        }
    }

    fn punch(&mut self, ino: u64, from: u64, to: u64) {
        self.settle_size(ino);
        self.discard(ino, from, to);
    }

    fn grow(&mut self, ino: u64, size_bytes: u64) {
        self.settle_size(ino);
        self.volume.edit(ino, |file| {
            if size_bytes > file.size_bytes {
                (file.size_bytes, file.committed_bytes) = (size_bytes, size_bytes);
            }
        });
    }

    /// Makes whole blocks a hole.
    fn discard(&mut self, ino: u64, from: u64, to: u64) {
        self.volume.drop_clean(ino, from, to);
        self.volume.edit(ino, |file| {
            let cut = file.cut(from, to);
            file.mtimes.remove(cut);
        });
        self.volume.forget_if_clean(ino);
    }

    fn remove(&mut self, ino: u64) {
        if self.volume.files.contains_key(&ino) {
            let now_ns = self.volume.clock.now_ns();
            let shown = self.volume.edit(ino, |file| file.life.ended(now_ns));
            self.volume.showed(ino, shown);
            self.volume.hindsight.removed(ino);
            let file = &self.volume.files[&ino];
            let pm_blocks = file.blocks_at(Place::Pm) + file.log_blocks();
            self.discard(ino, 0, u64::MAX);
            self.volume.edit(ino, |file| file.entries = 0);
            self.volume.files.remove(&ino);
            self.volume.note_removed(pm_blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use terrace_policy::Params;

    use super::*;

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
                (
                    gap_us,
                    Record {
                        time_us: 0,
                        took_ns: 0,
                        caller: 0,
                        operation,
                        durable,
                        ino,
                        offset,
                        len,
                    },
                )
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
            wear in prop::sample::select(vec![0, 1 << 20, 100 << 20]),
        ) {
            let mut params = Params::default();
            params.set(Param::SyncBlocks, sync_blocks).unwrap();
            params.set(Param::LargeWrites, 0).unwrap();
            let facts = terrace_trace::Facts {
                pm_full_percent: 90,
                writeback_seconds: 5,
                ..Default::default()
            };
            let config = Config {
                pm_bytes: pm_blocks * BLOCK_BYTES,
                cache_bytes: 2 << 20,
                params,
                wear: [wear, wear],
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
                simulation.volume.check();
                written += if record.operation == Operation::Write { record.len } else { 0 };
                prop_assert_eq!(simulation.outcome().written_bytes(), written);
            }
            let outcome = simulation.outcome();
            prop_assert_eq!(&outcome, &again.outcome(), "it is deterministic");
            prop_assert!(outcome.hindsight.bytes() <= written);
            prop_assert!(outcome.io_ns >= outcome.disk_wait_ns);
            prop_assert!(outcome.disk_wait_ns >= outcome.stalled_ns);
        }
    }
}
