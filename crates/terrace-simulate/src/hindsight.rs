//! Whether the data of new files went where hindsight would have put it.
//!
//! A byte belongs to PM if somebody waits for it, if it is gone before programs have written as
//! much again as PM holds, or if no data was leaving PM when it was written. Any other byte belongs
//! past PM: it would only have passed through. What is true of a byte depends on the trace and on
//! the size of PM, and not on the thresholds that are tried: [`AWAIT_BYTES`] is always the default.
//!
//! Invariants: pieces of a file do not overlap, neither in `stretch` nor in `settled` nor between
//! the two. Each was written under pressure, and nobody is known to wait for it.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use serde::Serialize;

/// Somebody waits for less than this between two fsyncs: the default of
/// [`Param::AwaitBytes`](terrace_policy::Param::AwaitBytes).
const AWAIT_BYTES: u64 = 256 << 10;

/// Bytes that programs wrote to files born while recording, by where they went and where they
/// belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hindsight {
    /// Went to PM and belong there.
    pub pm_right_bytes: u64,
    /// Went to PM and belong past it.
    pub pm_wrong_bytes: u64,
    /// Went past PM and belong there.
    pub past_right_bytes: u64,
    /// Went past PM and belong to PM.
    pub past_wrong_bytes: u64,
    /// The trace ends too early to tell.
    pub undecided_bytes: u64,
}

impl Hindsight {
    /// The share of bytes that went where they belong, 0 to 1; `None` if there are none.
    pub fn right_share(&self) -> Option<f64> {
        let judged = self.bytes() - self.undecided_bytes;
        let right = self.pm_right_bytes + self.past_right_bytes;
        (judged > 0).then(|| right as f64 / judged as f64)
    }

    /// All bytes written to files born while recording.
    pub fn bytes(&self) -> u64 {
        let right = self.pm_right_bytes + self.past_right_bytes;
        right + self.pm_wrong_bytes + self.past_wrong_bytes + self.undecided_bytes
    }

    fn count(&mut self, bytes: u64, in_pm: bool, belongs_to_pm: bool) {
        *match (in_pm, belongs_to_pm) {
            (true, true) => &mut self.pm_right_bytes,
            (true, false) => &mut self.pm_wrong_bytes,
            (false, false) => &mut self.past_right_bytes,
            (false, true) => &mut self.past_wrong_bytes,
        } += bytes;
    }
}

/// How a range was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// It went to PM.
    pub in_pm: bool,
    /// Data was leaving PM.
    pub under_pressure: bool,
    /// It was durable when the write returned.
    pub durable: bool,
}

/// Bytes of a file that were written together: up to where, to PM or past it, and how much programs
/// had written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    end: u64,
    in_pm: bool,
    written_before: u64,
}

/// Pieces by their first byte.
type Pieces = BTreeMap<u64, Piece>;

/// A file that was born while recording.
#[derive(Debug, Default)]
struct Newborn {
    /// Bytes written since the last fsync, whatever is known of them.
    stretch_bytes: u64,
    /// Written since then: an fsync may show that somebody waits.
    stretch: Pieces,
    /// Nobody waits for these.
    settled: Pieces,
}

/// Looks at all that is written to new files, and at what becomes of it.
#[derive(Debug)]
pub(crate) struct Judge {
    pm_bytes: u64,
    files: FxHashMap<u64, Newborn>,
    /// Bytes that programs have written so far, to any file.
    written: u64,
    judged: Hindsight,
}

impl Judge {
    /// Of a volume with so much PM.
    pub fn new(pm_bytes: u64) -> Self {
        Self { pm_bytes, files: FxHashMap::default(), written: 0, judged: Hindsight::default() }
    }

    /// A file is born.
    pub fn born(&mut self, ino: u64) {
        self.files.insert(ino, Newborn::default());
    }

    /// A range was written.
    pub fn wrote(&mut self, ino: u64, range: Range<u64>, how: Written) {
        let Written { in_pm, under_pressure, durable } = how;
        let bytes = range.end - range.start;
        self.discarded(ino, range.clone());
        if let Some(file) = self.files.get_mut(&ino) {
            if durable || !under_pressure {
                self.judged.count(bytes, in_pm, true);
            } else {
                let piece = Piece { end: range.end, in_pm, written_before: self.written };
                file.stretch.insert(range.start, piece);
            }
            file.stretch_bytes += if durable { 0 } else { bytes };
            if file.stretch_bytes >= AWAIT_BYTES {
                file.settled.append(&mut file.stretch);
            }
        }
        self.written += bytes;
        if durable {
            self.synced(ino);
        }
    }

    /// Somebody has waited for what was written to a file.
    pub fn synced(&mut self, ino: u64) {
        if let Some(file) = self.files.get_mut(&ino) {
            // What is left here is part of a stretch that was short.
            for (start, piece) in std::mem::take(&mut file.stretch) {
                self.judged.count(piece.end - start, piece.in_pm, true);
            }
            file.stretch_bytes = 0;
        }
    }

    /// What was in a range is gone.
    pub fn discarded(&mut self, ino: u64, range: Range<u64>) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        for pieces in [&mut file.stretch, &mut file.settled] {
            for (start, piece) in cut(pieces, &range) {
                let in_time = self.written - piece.written_before < self.pm_bytes;
                self.judged.count(piece.end - start, piece.in_pm, in_time);
            }
        }
    }

    /// A file is gone.
    pub fn removed(&mut self, ino: u64) {
        self.discarded(ino, 0..u64::MAX);
        self.files.remove(&ino);
    }

    /// What is known by now.
    pub fn hindsight(&self) -> Hindsight {
        let mut hindsight = self.judged;
        let pieces = |file: &'_ Newborn| {
            file.stretch.iter().chain(&file.settled).map(|(&a, &b)| (a, b)).collect::<Vec<_>>()
        };
        for (start, piece) in self.files.values().flat_map(pieces) {
            let bytes = piece.end - start;
            match self.written - piece.written_before < self.pm_bytes {
                true => hindsight.undecided_bytes += bytes,
                false => hindsight.count(bytes, piece.in_pm, false),
            }
        }
        hindsight
    }
}

/// Takes a range out of pieces: what was in it, cut to it.
fn cut(pieces: &mut Pieces, range: &Range<u64>) -> Vec<(u64, Piece)> {
    let first = pieces.range(..range.start).next_back().map_or(range.start, |(&start, _)| start);
    let met: Vec<(u64, Piece)> =
        pieces.range(first..range.end).map(|(&start, &piece)| (start, piece)).collect();
    let mut taken = Vec::new();
    for (start, piece) in met.into_iter().filter(|(_, piece)| piece.end > range.start) {
        let (a, b) = (start.max(range.start), piece.end.min(range.end));
        pieces.remove(&start);
        taken.push((a, Piece { end: b, ..piece }));
        for (from, end) in [(start, a), (b, piece.end)].into_iter().filter(|(a, b)| a < b) {
            pieces.insert(from, Piece { end, ..piece });
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use terrace_policy::{Param, Params};

    use super::*;

    const KIB: u64 = 1 << 10;
    const TO_PM: Written = Written { in_pm: true, under_pressure: true, durable: false };
    const PAST: Written = Written { in_pm: false, ..TO_PM };

    /// A PM of 1 MiB, and a new file.
    fn judge() -> Judge {
        let mut judge = Judge::new(1 << 20);
        judge.born(1);
        judge
    }

    /// As many bytes are written elsewhere, to a file that is older.
    fn write_elsewhere(judge: &mut Judge, bytes: u64) {
        judge.wrote(9, 0..bytes, TO_PM);
    }

    #[test]
    fn the_length_of_a_stretch_is_the_policy_s() {
        assert_eq!(AWAIT_BYTES, Params::default().get(Param::AwaitBytes));
    }

    #[test]
    fn what_somebody_waits_for_belongs_to_pm() {
        let mut judge = judge();
        judge.wrote(1, 0..KIB, TO_PM);
        judge.wrote(1, KIB..3 * KIB, PAST);
        assert_eq!(judge.hindsight().undecided_bytes, 3 * KIB);
        judge.synced(1);
        judge.wrote(1, 0..KIB, Written { durable: true, ..PAST });
        write_elsewhere(&mut judge, 8 << 20);
        judge.removed(1);
        let expected =
            Hindsight { pm_right_bytes: KIB, past_wrong_bytes: 3 * KIB, ..Hindsight::default() };
        assert_eq!(judge.hindsight(), expected);
        assert_eq!(expected.right_share(), Some(0.25));
    }

    #[test]
    fn long_stretches_belong_past_a_pm_that_data_is_leaving() {
        let mut judge = judge();
        judge.wrote(1, 0..200 * KIB, TO_PM);
        judge.wrote(1, 200 * KIB..256 * KIB, PAST);
        judge.synced(1);
        assert_eq!(judge.hindsight().undecided_bytes, 256 * KIB);
        write_elsewhere(&mut judge, 1 << 20);
        let expected = Hindsight {
            pm_wrong_bytes: 200 * KIB,
            past_right_bytes: 56 * KIB,
            ..Hindsight::default()
        };
        assert_eq!(judge.hindsight(), expected);
        // It is judged once, whatever becomes of it later.
        judge.removed(1);
        assert_eq!(judge.hindsight(), expected);
    }

    #[test]
    fn what_is_gone_before_pm_turns_over_belongs_there() {
        let mut judge = judge();
        judge.wrote(1, 0..512 * KIB, PAST);
        write_elsewhere(&mut judge, 400 * KIB);
        // Its middle is written again in time, the rest goes too late.
        judge.wrote(1, 100 * KIB..200 * KIB, Written { under_pressure: false, ..TO_PM });
        write_elsewhere(&mut judge, 500 * KIB);
        judge.removed(1);
        let expected = Hindsight {
            pm_right_bytes: 100 * KIB,
            past_right_bytes: 412 * KIB,
            past_wrong_bytes: 100 * KIB,
            ..Hindsight::default()
        };
        assert_eq!(judge.hindsight(), expected);
    }

    #[test]
    fn without_pressure_all_belongs_to_pm() {
        let mut judge = judge();
        judge.wrote(1, 0..4 << 20, Written { under_pressure: false, ..TO_PM });
        judge.wrote(1, 0..KIB, Written { under_pressure: false, ..PAST });
        let hindsight = judge.hindsight();
        assert_eq!((hindsight.pm_right_bytes, hindsight.past_wrong_bytes), (4 << 20, KIB));
    }

    #[test]
    fn files_that_were_there_before_are_left_out() {
        let mut judge = judge();
        write_elsewhere(&mut judge, 1 << 20);
        judge.synced(9);
        judge.removed(9);
        assert_eq!(judge.hindsight(), Hindsight::default());
        assert_eq!(judge.hindsight().right_share(), None);
    }
}
