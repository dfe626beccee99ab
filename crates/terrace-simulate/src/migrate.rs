//! Migration: what moves between PM and the disk, one group at a time.
//!
//! Invariant: at most one move is under way. It has chosen its blocks when it began; when it ends,
//! those move that are still where they were and were not written since.

use std::collections::VecDeque;
use std::time::Duration;

use terrace_policy::{
    ColdCut, Flow, Pace, Param, Params, PartTimes, Piece, Pressure, cold_under, groups, hottest,
    is_read_dominated, keeps_cached,
};

use crate::BLOCK_BYTES;
use crate::file::{File, Place};
use crate::simulation::Simulation;

/// Files that read and reverse migration look at between two ticks.
const HOT_FILES: usize = 64;

/// Files of which the coldest part is looked for, coldest first.
const COLD_FILES: usize = 16;

/// Why data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Write,
    Read,
    Reverse,
}

/// Blocks of a file that move together: those of one place that were not written after a time.
#[derive(Clone, Copy, Debug)]
struct Move {
    reason: Reason,
    ino: u64,
    block: u64,
    blocks: u64,
    chosen_ns: i64,
    cut: ColdCut,
}

/// The mover's state.
#[derive(Debug)]
pub(crate) struct Mover {
    under_way: Option<(i64, Move)>,
    /// Chosen, and to be done next.
    planned: VecDeque<Move>,
    /// There was nothing to do: it looks again at the next tick.
    rests: bool,
    /// Files that read or reverse migration looks at before the next tick, hottest first.
    hot: VecDeque<u64>,
    pace: Pace,
}

impl Mover {
    pub fn new(params: &Params) -> Self {
        Self {
            under_way: None,
            planned: VecDeque::new(),
            rests: false,
            hot: VecDeque::new(),
            pace: Pace::new(params.get(Param::MigrateRate)),
        }
    }

    /// When the move that is under way ends.
    pub fn ends_ns(&self) -> i64 {
        self.under_way.as_ref().map_or(i64::MAX, |(ends_ns, _)| *ends_ns)
    }
}

impl Simulation {
    /// Once a second: begins and ends read and reverse migration, and wakes the mover.
    pub(crate) fn choose_migrations(&mut self) {
        let (used, params) = (self.pm_used_percent(), &self.config.params);
        self.dataflow.choose(
            self.traffic,
            used,
            self.utilization.threshold_percent(params),
            params,
        );
        self.mover.rests = false;
        self.mover.hot = self.hot_files().into();
        self.wake_mover();
    }

    fn hot_files(&self) -> Vec<u64> {
        let params = &self.config.params;
        let flow = self.dataflow.under_way();
        let is_candidate = |file: &File| match flow {
            Flow::FavoursPm => {
                file.blocks_at(Place::Pm) > 0
                    && is_read_dominated(file.read_in_a_row, file.size_blocks(), params)
            }
            Flow::FavoursDram => file.blocks_at(Place::Disk) > 0,
            Flow::Balanced => false,
        };
        if flow == Flow::Balanced {
            return Vec::new();
        }
        let candidates =
            self.files.iter().filter(|(_, file)| file.rtimes.blocks() > 0 && is_candidate(file));
        let mut files: Vec<_> =
            candidates.map(|(&ino, file)| (file.rtimes.time_ns(), ino)).collect();
        hottest(&mut files, HOT_FILES);
        files.into_iter().map(|(_, ino)| ino).collect()
    }

    /// The mover begins with something if there is anything and it is not at work.
    pub(crate) fn wake_mover(&mut self) {
        if self.config.params.get(Param::Migrate) == 0 {
            return;
        }
        while self.mover.under_way.is_none() && !self.mover.rests {
            match self.mover.planned.pop_front() {
                Some(next) if self.is_wanted(next.reason) => self.begin(next),
                Some(_) => {}
                None => self.mover.rests = !self.plan(),
            }
        }
        // Below the threshold it does not rest, but there was nothing to look for.
        self.mover.rests &=
            self.is_above_threshold() || self.dataflow.under_way() != Flow::Balanced;
    }

    fn is_wanted(&self, reason: Reason) -> bool {
        match reason {
            Reason::Write => self.is_above_threshold(),
            // What moves to where reads are slowest must find a place in the page cache.
            Reason::Read => {
                self.dataflow.under_way() == Flow::FavoursPm
                    && self.room_for_clean() >= self.clean.len() + self.group_blocks()
            }
            Reason::Reverse => {
                self.dataflow.under_way() == Flow::FavoursDram && !self.is_above_threshold()
            }
        }
    }

    fn group_blocks(&self) -> u64 {
        self.config.params.get(Param::Group) / BLOCK_BYTES
    }

    /// Chooses what to move next; false if there is nothing.
    fn plan(&mut self) -> bool {
        if self.is_above_threshold() && self.plan_cold() {
            return true;
        }
        while let Some(ino) = self.mover.hot.pop_front() {
            let reason = if self.dataflow.under_way() == Flow::FavoursPm {
                Reason::Read
            } else {
                Reason::Reverse
            };
            if self.is_wanted(reason) {
                self.plan_of(ino, reason, ColdCut::Whole);
            }
            if !self.mover.planned.is_empty() {
                return true;
            }
        }
        false
    }

    /// Something cold of one of the coldest files, under more and more pressure.
    fn plan_cold(&mut self) -> bool {
        let mut looked_at: Vec<(u64, i64)> = Vec::new();
        while looked_at.len() < COLD_FILES && self.mover.planned.is_empty() {
            let files = &self.files;
            let in_pm = |ino| files.get(&ino).filter(|file| file.blocks_at(Place::Pm) > 0);
            let Some((ino, amtime_ns)) =
                self.cold.pop_coldest(|ino| in_pm(ino).map(|file| file.mtimes.time_ns()))
            else {
                break;
            };
            looked_at.push((ino, amtime_ns));
            self.plan_under(Pressure::Low, ino, amtime_ns);
        }
        for pressure in Pressure::RISING {
            looked_at
                .iter()
                .for_each(|&(ino, amtime_ns)| self.plan_under(pressure, ino, amtime_ns));
        }
        looked_at.into_iter().for_each(|(ino, amtime_ns)| self.cold.note(ino, amtime_ns));
        !self.mover.planned.is_empty()
    }

    /// Plans to move what of a file is cold, if nothing is planned yet.
    fn plan_under(&mut self, pressure: Pressure, ino: u64, amtime_ns: i64) {
        if !self.mover.planned.is_empty() {
            return;
        }
        let (now_ns, params, file) = (self.clock.now_ns(), &self.config.params, &self.files[&ino]);
        let cut = match pressure {
            Pressure::Highest => times_in_pm(file).older_half(now_ns, params),
            _ => cold_under(pressure, now_ns, amtime_ns, file.last_write_ns, params),
        };
        if let Some(cut) = cut {
            self.plan_of(ino, Reason::Write, cut);
        }
    }

    /// Plans to move what of a file is cold enough: to the disk in groups, to PM extent by extent.
    fn plan_of(&mut self, ino: u64, reason: Reason, cut: ColdCut) {
        let Some(file) = self.files.get(&ino) else { return };
        let (place, chosen_ns) = (source(reason), self.clock.now_ns());
        let moving =
            file.overlaps(0, u64::MAX).filter(|(_, e)| e.place == place && cut.is_cold(e.mtime_ns));
        let pieces =
            moving.map(|(block, extent)| Piece { block, blocks: u64::from(extent.blocks) });
        let planned = &mut self.mover.planned;
        let mut plan =
            |block, blocks| planned.push_back(Move { reason, ino, block, blocks, chosen_ns, cut });
        match reason {
            Reason::Reverse => pieces.for_each(|piece| plan(piece.block, piece.blocks)),
            _ => {
                let group_blocks = self.config.params.get(Param::Group) / BLOCK_BYTES;
                groups(pieces, group_blocks)
                    .into_iter()
                    .for_each(|group| plan(group.block, group.blocks));
            }
        }
    }

    fn begin(&mut self, next: Move) {
        let bytes = next.blocks * BLOCK_BYTES;
        if next.reason == Reason::Reverse && !self.pm_has_room(next.blocks) {
            return;
        }
        let done_ns = if next.reason == Reason::Reverse {
            self.clock.read(bytes)
        } else {
            self.clock.write(bytes)
        };
        let now = Duration::from_nanos(self.clock.now_ns().max(0) as u64);
        let pause_ns =
            i64::try_from(self.mover.pace.pause(bytes, now).as_nanos()).unwrap_or(i64::MAX);
        let ends_ns = done_ns.max(self.clock.now_ns().saturating_add(pause_ns));
        self.mover.under_way = Some((ends_ns, next));
    }

    /// What the move under way has copied takes effect.
    pub(crate) fn finish_move(&mut self) {
        let Some((_, done)) = self.mover.under_way.take() else { return };
        let (source, target) = (
            source(done.reason),
            if done.reason == Reason::Reverse { Place::Pm } else { Place::Disk },
        );
        if self.files.contains_key(&done.ino) {
            // PM may have filled up meanwhile.
            let has_room = target == Place::Disk || self.pm_has_room(done.blocks);
            let moved = match has_room {
                true => self.edit(done.ino, |file| {
                    file.relocate(done.block, done.block + done.blocks, target, |_, extent| {
                        extent.place == source
                            && extent.mtime_ns <= done.chosen_ns
                            && done.cut.is_cold(extent.mtime_ns)
                    })
                }),
                false => Vec::new(),
            };
            self.settle(&done, &moved);
        }
        self.wake_mover();
    }

    /// Counts what has moved, and keeps or drops its pages.
    fn settle(&mut self, done: &Move, moved: &[(u64, u64)]) {
        let bytes = moved.iter().map(|&(_, blocks)| blocks).sum::<u64>() * BLOCK_BYTES;
        let room = self.room_for_clean();
        let used = self.clean.len() + self.blocks_at(Place::Dirty);
        let stays_cached = match done.reason {
            Reason::Write => keeps_cached(used, self.config.cache_pages(), &self.config.params),
            Reason::Read => true,
            Reason::Reverse => false,
        };
        for &(start, blocks) in moved {
            match done.reason {
                Reason::Reverse => self.clean.remove_range(done.ino, start, start + blocks),
                _ if stays_cached => {
                    (start..start + blocks)
                        .for_each(|block| self.clean.insert((done.ino, block), room));
                }
                _ => {}
            }
        }
        let counted = match done.reason {
            Reason::Write => &mut self.outcome.migrated_write_bytes,
            Reason::Read => &mut self.outcome.migrated_read_bytes,
            Reason::Reverse => &mut self.outcome.migrated_reverse_bytes,
        };
        *counted += bytes;
        if done.reason == Reason::Reverse && bytes > 0 {
            self.cold.note(done.ino, self.files[&done.ino].mtimes.time_ns());
        }
    }
}

/// When what a file has in PM was written.
fn times_in_pm(file: &File) -> PartTimes {
    let mut times = PartTimes::default();
    let in_pm = file.overlaps(0, u64::MAX).filter(|(_, extent)| extent.place == Place::Pm);
    in_pm.for_each(|(_, extent)| times.add(extent.blocks.into(), extent.mtime_ns));
    times
}

/// Where a move takes its blocks from.
fn source(reason: Reason) -> Place {
    if reason == Reason::Reverse { Place::Disk } else { Place::Pm }
}
