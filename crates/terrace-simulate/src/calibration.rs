//! What the engine costs, from a trace that says how long operations took: the costs with which
//! the volume that was recorded comes closest to it.
//!
//! What an operation took is what its work costs, each time and per byte, and how long it waited
//! for the disk, of which the simulation has the model. So the costs are a linear least-squares
//! problem, in which no cost is negative. Half of the operations go into it; the others are there
//! to tell how well it fits.

use serde::Serialize;
use terrace_trace::Record;

use crate::config::Config;
use crate::cost::{Cost, Costs, Work};
use crate::replay::{Done, Replay};

const WORKS: usize = Work::ALL.len();
/// For each kind of work, its times and its KiB.
const UNKNOWNS: usize = 2 * WORKS;
/// Kinds of work that were done less often stay unknown.
const OPERATIONS_MIN: u64 = 16;
/// Longer than this and [`LONGEST_BYTE_NS`] per byte, the engine does not work on an operation.
/// Something else came between, and no cost is learnt from it.
const LONGEST_NS: u64 = 100_000;
const LONGEST_BYTE_NS: u64 = 1;
/// Rounds in which the costs are improved, one after the other.
const ROUNDS: usize = 2000;
const KIB: f64 = 1024.0;

/// Learns costs from a trace. See the module.
#[derive(Debug)]
pub struct Calibration {
    replay: Replay,
    squares: Squares,
}

/// What the least squares are made of: products of the amounts of work in an operation with each
/// other, and with what it took.
#[derive(Debug)]
struct Squares {
    products: [[f64; UNKNOWNS]; UNKNOWNS],
    times: [f64; UNKNOWNS],
    operations: [u64; WORKS],
    timed: u64,
}

impl Squares {
    fn note(&mut self, done: Done<'_>) {
        let Done { record, waited_ns, works, .. } = done;
        if record.took_ns == 0 {
            return;
        }
        self.timed += 1;
        if !is_learnt_from(self.timed - 1) {
            return;
        }
        let bytes: u64 = works.iter().map(|&(_, bytes)| bytes).sum();
        let longest_ns = LONGEST_NS + bytes * LONGEST_BYTE_NS;
        let Some(worked_ns) = record.took_ns.checked_sub(waited_ns).filter(|&ns| ns <= longest_ns)
        else {
            return;
        };
        let mut amounts = [0.0; UNKNOWNS];
        for &(work, bytes) in works {
            let at = 2 * work as usize;
            amounts[at] += 1.0;
            amounts[at + 1] += bytes as f64 / KIB;
        }
        for (work, operations) in self.operations.iter_mut().enumerate() {
            *operations += u64::from(amounts[2 * work] > 0.0);
        }
        for row in 0..UNKNOWNS {
            self.times[row] += amounts[row] * worked_ns as f64;
            for column in 0..UNKNOWNS {
                self.products[row][column] += amounts[row] * amounts[column];
            }
        }
    }
}

/// Whether costs are learnt from an operation that took time: `number` counts these, from 0. Half
/// of them are, and of those that come in a rhythm, too.
fn is_learnt_from(number: u64) -> bool {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0
}

impl Calibration {
    /// `recorded`: the volume that was recorded, with the model of its disk.
    pub fn new(recorded: Config) -> Self {
        let squares = Squares {
            products: [[0.0; UNKNOWNS]; UNKNOWNS],
            times: [0.0; UNKNOWNS],
            operations: [0; WORKS],
            timed: 0,
        };
        Self { replay: Replay::new(recorded), squares }
    }

    /// The next operation of the trace.
    pub fn push(&mut self, record: &Record) {
        self.replay.push(record, &mut |done| self.squares.note(done));
    }

    /// The trace has ended: what was learnt, by the order of [`Work::ALL`]; `None` for work that
    /// was done too seldom.
    pub fn finish(mut self) -> [Option<Cost>; Work::ALL.len()] {
        self.replay.finish(&mut |done| self.squares.note(done));
        let solved = least(&self.squares.products, &self.squares.times);
        std::array::from_fn(|work| {
            let cost = Cost {
                each_ns: solved[2 * work].round() as u64,
                byte_ps: (solved[2 * work + 1] * 1000.0 / KIB).round() as u64,
            };
            (self.squares.operations[work] >= OPERATIONS_MIN).then_some(cost)
        })
    }
}

/// The unknowns that are not negative and for which the squares are least: each in turn takes the
/// best value beside the others.
fn least(products: &[[f64; UNKNOWNS]; UNKNOWNS], times: &[f64; UNKNOWNS]) -> [f64; UNKNOWNS] {
    let mut unknowns = [0.0; UNKNOWNS];
    for _ in 0..ROUNDS {
        for at in (0..UNKNOWNS).filter(|&at| products[at][at] > 0.0) {
            let others: f64 =
                (0..UNKNOWNS).filter(|&o| o != at).map(|o| products[at][o] * unknowns[o]).sum();
            unknowns[at] = f64::max((times[at] - others) / products[at][at], 0.0);
        }
    }
    unknowns
}

/// How well costs fit the trace that they were learnt from: its other operations, as they were
/// measured and as they are predicted for the volume that was recorded.
#[derive(Debug)]
pub struct Check {
    replay: Replay,
    fit: Fit,
    timed: u64,
}

/// Measured and predicted time in the same operations, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Fit {
    /// What they took when they were recorded.
    pub measured_ns: u64,
    /// What they take when they are simulated.
    pub predicted_ns: u64,
}

impl Fit {
    /// How much of the measured time is predicted; `None` if none was measured.
    pub fn ratio(self) -> Option<f64> {
        (self.measured_ns > 0).then(|| self.predicted_ns as f64 / self.measured_ns as f64)
    }
}

impl Check {
    /// `recorded`: the volume that was recorded, with the costs that were learnt.
    pub fn new(recorded: Config) -> Self {
        Self { replay: Replay::new(recorded), fit: Fit::default(), timed: 0 }
    }

    /// The next operation of the trace.
    pub fn push(&mut self, record: &Record) {
        self.replay.push(record, &mut |done| note(&mut self.fit, &mut self.timed, done));
    }

    /// The trace has ended.
    pub fn finish(mut self) -> Fit {
        self.replay.finish(&mut |done| note(&mut self.fit, &mut self.timed, done));
        self.fit
    }
}

fn note(fit: &mut Fit, timed: &mut u64, done: Done<'_>) {
    if done.record.took_ns > 0 {
        if !is_learnt_from(*timed) {
            fit.measured_ns += done.record.took_ns;
            fit.predicted_ns += done.took_ns;
        }
        *timed += 1;
    }
}

impl Costs {
    /// Costs that were learnt, the first that is known of each kind of work. What nobody knows is
    /// taken to cost what is most like it, and nothing if that is not known either.
    pub fn learnt(known: &[[Option<Cost>; Work::ALL.len()]]) -> Self {
        let first = |work: Work| known.iter().find_map(|costs| costs[work as usize]);
        let like = |work: Work| match work {
            Work::ReadPm => first(Work::ReadCache),
            Work::ReadCache | Work::ReadDisk => first(Work::ReadPm),
            Work::WritePm => first(Work::WriteCache),
            Work::WriteCache | Work::Flush => first(Work::WritePm),
            _ => None,
        };
        Self::Measured(Work::ALL.map(|work| first(work).or_else(|| like(work)).unwrap_or_default()))
    }
}
