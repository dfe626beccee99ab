//! The order in which a trace's operations come on a volume of another speed.
//!
//! Each thread of a program waits for its own operations, and thinks between them as long as it did
//! when it was recorded. So an operation begins as much later (or earlier) than in the trace as the
//! one before it of the same thread ended. A thread that thought for longer than [`PAUSE_NS`] is
//! taken to have waited for others: it goes on as late as whichever operation had ended last in
//! the trace before it did.
//!
//! Invariants: operations of one thread and operations on one file keep their order. Of those that
//! may come next, the earliest does.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use terrace_trace::Record;

use crate::config::Config;
use crate::cost::Work;
use crate::outcome::Outcome;
use crate::simulation::Simulation;

/// How many operations are held back, so that they may come in another order.
const WINDOW: usize = 4096;
/// Whoever thinks for longer waits for others.
const PAUSE_NS: i64 = 10_000_000;

/// An operation of the trace, until those are done that may refer to it.
#[derive(Debug)]
struct Slot {
    record: Record,
    /// The operations before it of the same thread, and on the same file, by number.
    after: [Option<u64>; 2],
    /// The operation that had ended last in the trace when it began.
    ended_before: Option<u64>,
    /// How much later than in the trace it ended, once it has.
    late_ns: Option<i64>,
}

/// An operation that was simulated.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// As it was recorded.
    pub record: &'a Record,
    /// How long it takes on the volume, in nanoseconds.
    pub took_ns: u64,
    /// How much of that it waits for the disk.
    pub waited_ns: u64,
    /// What the engine does meanwhile, each with its bytes.
    pub works: &'a [(Work, u64)],
}

/// Replays a trace on a volume.
#[derive(Debug)]
pub struct Replay {
    simulation: Simulation,
    /// Operations from number `first` on.
    slots: VecDeque<Slot>,
    first: u64,
    /// How late the last operation before those ended.
    late_ns_before: i64,
    /// Numbers of those that each thread has still to do.
    waiting: BTreeMap<u64, VecDeque<u64>>,
    held: usize,
    last_of_caller: FxHashMap<u64, u64>,
    last_of_file: FxHashMap<u64, u64>,
}

impl Replay {
    /// On an empty volume.
    pub fn new(config: Config) -> Self {
        Self {
            simulation: Simulation::new(config),
            slots: VecDeque::new(),
            first: 0,
            late_ns_before: 0,
            waiting: BTreeMap::new(),
            held: 0,
            last_of_caller: FxHashMap::default(),
            last_of_file: FxHashMap::default(),
        }
    }

    /// The next operation of the trace. `done` is told of each that is simulated.
    pub fn push(&mut self, record: &Record, done: &mut dyn FnMut(Done<'_>)) {
        let number = self.first + self.slots.len() as u64;
        let begun_us = record.time_us.saturating_sub(record.took_ns.div_ceil(1000));
        let ended = self.slots.partition_point(|slot| slot.record.time_us <= begun_us) as u64;
        let slot = Slot {
            record: *record,
            after: [
                self.last_of_caller.insert(record.caller, number),
                self.last_of_file.insert(record.ino, number),
            ],
            ended_before: ended.checked_sub(1).map(|before| self.first + before),
            late_ns: None,
        };
        self.slots.push_back(slot);
        self.waiting.entry(record.caller).or_default().push_back(number);
        self.held += 1;
        if self.held > WINDOW {
            self.do_next(done);
        }
        // What is done long ago is as late as what is done since, for all that refers to it.
        while let Some(late_ns) = self.slots.front().and_then(|slot| slot.late_ns)
            && self.slots.len() > 2 * WINDOW
        {
            self.late_ns_before = late_ns;
            self.slots.pop_front();
            self.first += 1;
        }
    }

    /// The trace has ended: what was held back comes now.
    pub fn finish(&mut self, done: &mut dyn FnMut(Done<'_>)) {
        while self.held > 0 {
            self.do_next(done);
        }
    }

    /// What was done so far.
    pub fn outcome(&self) -> Outcome {
        self.simulation.outcome()
    }

    fn do_next(&mut self, done: &mut dyn FnMut(Done<'_>)) {
        let heads = self.waiting.values().filter_map(|numbers| numbers.front().copied());
        let next = heads.filter_map(|number| Some((self.begins_ns(number)?, number))).min();
        // The first in the trace of all that wait depends on none of them.
        let Some((begins_ns, number)) = next else { return };
        let record = self.slots[(number - self.first) as usize].record;
        let took_ns = self.simulation.step_at(&record, begins_ns);
        // A trace that does not say how long an operation took has it in the thoughts.
        let waited_ns = self.simulation.waited_ns();
        let engaged_ns = if record.took_ns == 0 { waited_ns } else { took_ns };
        let ended_ns = begins_ns.saturating_add(nanoseconds(engaged_ns));
        let slot = &mut self.slots[(number - self.first) as usize];
        slot.late_ns = Some(ended_ns.saturating_sub(ended_ns_in_trace(&record)));
        if let Some(numbers) = self.waiting.get_mut(&record.caller) {
            numbers.pop_front();
            if numbers.is_empty() {
                self.waiting.remove(&record.caller);
            }
        }
        self.held -= 1;
        let works = self.simulation.works();
        done(Done { record: &record, took_ns, waited_ns, works });
    }

    /// When an operation begins; `None` if it waits for another.
    fn begins_ns(&self, number: u64) -> Option<i64> {
        let slot = &self.slots[(number - self.first) as usize];
        let [caller, file] = slot.after;
        if let Some(file) = file {
            self.late_ns(file)?;
        }
        let begun_ns =
            ended_ns_in_trace(&slot.record).saturating_sub(nanoseconds(slot.record.took_ns));
        let before = match caller {
            Some(before) => Some((self.late_ns(before)?, self.ended_in_trace(before))),
            None => None,
        };
        match before {
            Some((late_ns, Some(ended_ns))) if begun_ns.saturating_sub(ended_ns) <= PAUSE_NS => {
                Some(begun_ns.max(ended_ns).saturating_add(late_ns))
            }
            before => {
                let late_ns = slot.ended_before.map_or(Some(0), |number| self.late_ns(number))?;
                let begins_ns = begun_ns.saturating_add(late_ns);
                let free_ns = before.and_then(|(late_ns, ended)| Some(late_ns + ended?));
                Some(begins_ns.max(free_ns.unwrap_or(i64::MIN)))
            }
        }
    }

    /// How late an operation ended; `None` if it has not.
    fn late_ns(&self, number: u64) -> Option<i64> {
        match number.checked_sub(self.first) {
            Some(at) => self.slots[at as usize].late_ns,
            None => Some(self.late_ns_before),
        }
    }

    /// When it had ended in the trace, unless that is long ago.
    fn ended_in_trace(&self, number: u64) -> Option<i64> {
        let at = number.checked_sub(self.first)?;
        Some(ended_ns_in_trace(&self.slots[at as usize].record))
    }
}

fn ended_ns_in_trace(record: &Record) -> i64 {
    nanoseconds(record.time_us.saturating_mul(1000))
}

fn nanoseconds(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
