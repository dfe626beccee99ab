//! A moment at which the power may go, and the states that it may leave.
//!
//! A point is what is durable, and parts that are not. A part has options: option 0 keeps nothing
//! of it, the last one all. A state picks an option of every part.
//!
//! * A PM line that holds metadata: every prefix of its stores.
//! * All PM lines that hold plain data, together: none, all, and a few ways in between.
//! * A disk write: lost, applied, or torn at sectors, in a few ways.
//!
//! With up to `bound` states all are enumerated. Above that there are the corner cases (none, all,
//! each part alone, all but one), as many as asked for, and states from a seed.

use std::sync::Arc;

use fastrand::Rng;
use terrace_layout::{
    BLOCK_BYTES, CHUNK_MAGIC, ChunkHeader, INODE_BYTES, LOG_PAGE_MAGIC, MediaStruct,
};
use terrace_media::{DiskSim, PendingLine, PendingWrite, PmSim, SECTOR_BYTES};

use crate::image::{Change, Image, Scratch};

const BLOCK: usize = BLOCK_BYTES as usize;
const LINE_BYTES: u64 = 64;

/// Where in a run of the engine a point lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Moment {
    /// Before its so many-th fence takes effect, from 1.
    Fence(u32),
    /// Before the so many-th flush of a disk takes effect.
    Flush(u32),
    /// Between an unmount and the mount after it.
    Unmounted,
    /// When what happened in the middle of it has returned.
    Meanwhile,
    /// After it has returned.
    End,
}

impl Moment {
    /// Whether something has returned.
    pub fn is_end(self) -> bool {
        matches!(self, Moment::Unmounted | Moment::Meanwhile | Moment::End)
    }
}

/// Something that is not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A PM line with metadata.
    Line(PendingLine),
    /// The PM lines with plain data.
    Data(Vec<PendingLine>),
    /// A write to disk `device`.
    Write {
        /// Its device, from 1.
        device: usize,
        /// The write.
        write: PendingWrite,
    },
}

/// Options of [`Part::Data`]: none, the first half of the lines, the second, three random sets,
/// all.
const DATA_OPTIONS: usize = 7;
/// Options of [`Part::Write`]: lost; one sector, half, all but one; every other sector; all but the
/// first; applied.
const WRITE_OPTIONS: usize = 7;

impl Part {
    /// How many options there are.
    pub fn options(&self) -> usize {
        match self {
            Part::Line(line) => line.stores.len() + 1,
            Part::Data(_) => DATA_OPTIONS,
            Part::Write { .. } => WRITE_OPTIONS,
        }
    }

    /// `salt`: where the random sets of plain data come from.
    fn store(&self, option: usize, salt: u64, scratch: &mut Scratch) {
        match self {
            Part::Line(line) => store_line(line, option, scratch),
            Part::Data(lines) => {
                let half = lines.len() / 2;
                let mut random = Rng::with_seed(salt ^ option as u64);
                for (i, line) in lines.iter().enumerate() {
                    let all = line.stores.len();
                    let kept = match option {
                        0 => 0,
                        1 => all * usize::from(i < half),
                        2 => all * usize::from(i >= half),
                        DATA_OPTIONS.. => unreachable!("no such option"),
                        o if o == DATA_OPTIONS - 1 => all,
                        _ => random.usize(..=all),
                    };
                    store_line(line, kept, scratch);
                }
            }
            Part::Write { device, write } => {
                let count = write.data.len().div_ceil(SECTOR_BYTES);
                for (i, sector) in write.data.chunks(SECTOR_BYTES).enumerate() {
                    let applied = match option {
                        0 => false,
                        1 => i == 0,
                        2 => i < count / 2,
                        3 => i + 1 < count,
                        4 => i % 2 == 1,
                        5 => i > 0,
                        _ => true,
                    };
                    if applied {
                        scratch.store(*device, write.offset as usize + i * SECTOR_BYTES, sector);
                    }
                }
            }
        }
    }
}

fn store_line(line: &PendingLine, kept: usize, scratch: &mut Scratch) {
    for store in &line.stores[..kept] {
        scratch.store(0, store.offset as usize, store.data());
    }
}

/// A moment at which the power may go.
#[derive(Clone, Debug)]
pub struct Point {
    /// Which step of the run it belongs to.
    pub step: usize,
    /// Where in it.
    pub moment: Moment,
    /// What is durable, as it differs from the image that the run started from.
    pub durable: Vec<Change>,
    /// What is not.
    pub parts: Vec<Part>,
}

/// A state of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Choice {
    /// The so many-th of all.
    Index(u64),
    /// The so many-th corner case.
    Corner(usize),
    /// The one from this seed.
    Seed(u64),
}

impl Choice {
    /// Whether it is the one of a point's choices that is made to keep all, if it does. A seed may
    /// do so, too.
    pub fn is_the_one_that_keeps_all(self) -> bool {
        matches!(self, Choice::Index(_) | Choice::Corner(1))
    }
}

/// What a state keeps of what is not durable.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The option of each part.
    pub options: Vec<usize>,
    salt: u64,
}

/// How many states of a point are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// All of them up to this many.
    pub bound: u64,
    /// Above that: so many corner cases at most.
    pub corners: usize,
    /// And so many seeds.
    pub seeds: u64,
}

impl Point {
    /// What is and what is not durable now.
    pub fn capture(
        step: usize,
        moment: Moment,
        base: &Image,
        pm: &PmSim,
        disks: &[Arc<DiskSim>],
    ) -> Point {
        let lines = pm.pending_stores();
        let (mut parts, mut durable) = pm.look_at_durable(|image| {
            (parts_of_pm(image, lines), base.changes(0, image).collect::<Vec<Change>>())
        });
        for (i, disk) in disks.iter().enumerate() {
            let device = i + 1;
            disk.look_at_durable(|image| durable.extend(base.changes(device, image)));
            parts.extend(
                disk.pending_writes().into_iter().map(|write| Part::Write { device, write }),
            );
        }
        Point { step, moment, durable, parts }
    }

    /// Whether the power leaves the same here as there.
    pub fn same_states(&self, other: &Point) -> bool {
        self.parts == other.parts && self.durable == other.durable
    }

    /// How many states there are; `None`: more than can be counted.
    pub fn states(&self) -> Option<u64> {
        self.parts.iter().try_fold(1u64, |n, part| n.checked_mul(part.options() as u64))
    }

    /// The states to look at, and whether they are all.
    pub fn choices(&self, effort: &Effort, seed: u64) -> (Vec<Choice>, bool) {
        if let Some(all) = self.states().filter(|&n| n <= effort.bound) {
            return ((0..all).map(Choice::Index).collect(), true);
        }
        let mut choices = vec![Choice::Corner(0), Choice::Corner(1)];
        choices
            .extend(self.corners(effort.corners.saturating_sub(2)).into_iter().map(Choice::Corner));
        choices.extend((0..effort.seeds).map(|i| Choice::Seed(seed.wrapping_add(i))));
        (choices, false)
    }

    /// So many of the corner cases in which one part is not like the others: half of them of the
    /// parts with the fewest stores, since a single word may be what commits all the others, the
    /// rest spread over the other parts.
    fn corners(&self, wanted: usize) -> Vec<usize> {
        let mut parts: Vec<usize> = (0..self.parts.len()).collect();
        parts.sort_by_key(|&i| self.parts[i].options());
        let mut corners: Vec<usize> =
            parts.into_iter().flat_map(|i| [2 + 2 * i, 3 + 2 * i]).collect();
        if corners.len() > wanted {
            let rest = corners.split_off(wanted / 2);
            let more = wanted - corners.len();
            corners.extend((0..more).map(|i| rest[i * rest.len() / more]));
        }
        corners
    }

    /// What a state keeps; `None`: there is no such state.
    pub fn kept(&self, choice: Choice) -> Option<Kept> {
        let seed = if let Choice::Seed(seed) = choice { seed } else { 0 };
        let (kind, number) = match self.moment {
            Moment::Fence(n) => (0, n),
            Moment::Flush(n) => (1, n),
            Moment::Unmounted => (2, 0),
            Moment::End => (3, 0),
            Moment::Meanwhile => (4, 0),
        };
        let place = (self.step as u64) << 40 | kind << 32 | u64::from(number);
        Some(Kept {
            options: self.options(choice)?,
            salt: Rng::with_seed(seed).u64(..) ^ Rng::with_seed(place).u64(..),
        })
    }

    /// The option of each part that a state picks.
    fn options(&self, choice: Choice) -> Option<Vec<usize>> {
        match choice {
            Choice::Index(mut index) => {
                let digit = |part: &Part| {
                    let n = part.options() as u64;
                    let option = (index % n) as usize;
                    index /= n;
                    option
                };
                let options = self.parts.iter().map(digit).collect();
                (index == 0).then_some(options)
            }
            Choice::Corner(n) => {
                let (part, others) = (n.checked_sub(2).map(|i| i / 2), n % 2 == 1);
                if part.is_some_and(|i| i >= self.parts.len()) {
                    return None;
                }
                let whole = |(i, p): (usize, &Part)| {
                    let all = others != (Some(i) == part);
                    if all { p.options() - 1 } else { 0 }
                };
                Some(self.parts.iter().enumerate().map(whole).collect())
            }
            Choice::Seed(seed) => {
                let mut random = Rng::with_seed(seed);
                let pick = |part: &Part| match random.usize(..4) {
                    0 => 0,
                    1 => part.options() - 1,
                    _ => random.usize(..part.options()),
                };
                Some(self.parts.iter().map(pick).collect())
            }
        }
    }

    /// Whether a state keeps all.
    pub fn is_all(&self, kept: &Kept) -> bool {
        self.parts.iter().zip(&kept.options).all(|(part, &option)| option + 1 == part.options())
    }

    /// Whether a killed daemon leaves something of PM in the cache here.
    pub fn has_cached(&self) -> bool {
        let is_cached = |line: &PendingLine| line.past_cache < line.stores.len();
        self.parts.iter().any(|part| match part {
            Part::Line(line) => is_cached(line),
            Part::Data(lines) => lines.iter().any(is_cached),
            Part::Write { .. } => false,
        })
    }

    /// The state that a killed daemon leaves: the durable image, with all that disks were given,
    /// and the stores to PM that are still in the cache.
    pub fn left_by_kill(&self, base: &Arc<Image>) -> (Arc<Image>, Vec<PendingLine>) {
        let mut scratch = Scratch::new(base);
        self.store_durable(&mut scratch);
        let mut cached = Vec::new();
        for part in &self.parts {
            let lines = match part {
                Part::Line(line) => std::slice::from_ref(line),
                Part::Data(lines) => lines,
                Part::Write { .. } => {
                    part.store(part.options() - 1, 0, &mut scratch);
                    &[]
                }
            };
            for line in lines {
                store_line(line, line.past_cache, &mut scratch);
                let stores = line.stores[line.past_cache..].to_vec();
                if !stores.is_empty() {
                    cached.push(PendingLine { index: line.index, stores, past_cache: 0 });
                }
            }
        }
        (Arc::new(scratch.image().clone()), cached)
    }

    /// Stores what is durable.
    pub fn store_durable(&self, scratch: &mut Scratch) {
        self.durable
            .iter()
            .for_each(|change| scratch.store(change.device, change.offset, &change.bytes));
    }

    /// Stores what a state keeps of the rest.
    pub fn store_kept(&self, kept: &Kept, scratch: &mut Scratch) {
        self.parts
            .iter()
            .zip(&kept.options)
            .for_each(|(part, &option)| part.store(option, kept.salt, scratch));
    }
}

/// Lines of metadata one by one, the others together.
fn parts_of_pm(durable: &[u8], lines: Vec<PendingLine>) -> Vec<Part> {
    let metadata = metadata_blocks(durable, &lines);
    let (lines, data): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| metadata[(line.index * LINE_BYTES) as usize / BLOCK]);
    let mut parts: Vec<Part> = lines.into_iter().map(Part::Line).collect();
    if !data.is_empty() {
        parts.push(Part::Data(data));
    }
    parts
}

/// Which blocks of PM hold metadata: what comes before the data area, and in it chunks of inode
/// tables and log pages, those included whose headers are about to be stored.
fn metadata_blocks(durable: &[u8], lines: &[PendingLine]) -> Vec<bool> {
    let mut metadata: Vec<bool> =
        durable.chunks(BLOCK).map(|block| block[..4] == LOG_PAGE_MAGIC.to_le_bytes()).collect();
    for line in lines.iter().filter(|line| (line.index * LINE_BYTES).is_multiple_of(BLOCK_BYTES)) {
        let first = &line.stores[0];
        let is_page = first.offset.is_multiple_of(BLOCK_BYTES)
            && first.data().starts_with(&LOG_PAGE_MAGIC.to_le_bytes());
        metadata[(line.index * LINE_BYTES) as usize / BLOCK] |= is_page;
    }
    let mut first_chunk = metadata.len();
    for i in (0..metadata.len()).rev() {
        let block = &durable[i * BLOCK..][..BLOCK];
        if block[..8] == CHUNK_MAGIC.to_le_bytes() {
            first_chunk = i;
            let bytes = u64::from(ChunkHeader::from_bytes(block).records) * INODE_BYTES;
            let end = (i + bytes.div_ceil(BLOCK_BYTES) as usize).min(metadata.len());
            metadata[i..end].fill(true);
        }
    }
    // The first chunk begins the data area; before a volume is there, everything is metadata.
    metadata[..first_chunk].fill(true);
    metadata
}
