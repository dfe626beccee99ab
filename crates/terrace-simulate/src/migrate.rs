//! Migration: what moves between PM and the disk: a group of a file, or what many files have
//! little of.
//!
//! Invariant: what is under way is one transfer of the disk. It has chosen its blocks when it
//! began; when it ends, those move that are still where they were and were not written since.

use std::collections::VecDeque;
use std::time::Duration;

use terrace_policy::{
    Bucket, ColdCut, Flow, HOT_FILES_MAX, Moment, Offer, Pace, Param, PartTimes, Piece, Pressure,
    Rest, allowance, cold_under, groups, hottest, is_read_dominated, keeps_cached,
};

use crate::config::{BLOCK_BYTES, Config};
use crate::cost::Work;
use crate::file::{File, Place};
use crate::volume::Volume;

/// Files of which the coldest part is looked for, coldest first.
const COLD_FILES: usize = 16;

/// A file that has more cold blocks moves by itself.
const ALONE_BLOCKS: u64 = 256;
/// Least blocks that are to leave PM at once.
const LITTLE_BLOCKS: u64 = 256;
/// Most blocks that leave it at once: what the engine's buffers hold.
const TOGETHER_BLOCKS_MAX: u64 = 4096;

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
    under_way: Option<(i64, Vec<Move>)>,
    /// Chosen, and to be done next.
    planned: VecDeque<Move>,
    /// There was nothing to do: it looks again at the next tick, or sooner.
    rests: bool,
    rest: Rest,
    /// When it began to rest.
    rests_since_ns: i64,
    /// Files that read or reverse migration looks at before the next tick, hottest first.
    hot: VecDeque<u64>,
    pace: Pace,
    /// What movers may write to PM, and to the disks.
    buckets: [Option<Bucket>; 2],
}

impl Mover {
    pub fn new(config: &Config) -> Self {
        let bucket = |per_day: u64| (per_day > 0).then(|| Bucket::full(per_day, 0));
        Self {
            under_way: None,
            planned: VecDeque::new(),
            rests: false,
            rest: Rest::default(),
            rests_since_ns: 0,
            hot: VecDeque::new(),
            pace: Pace::new(config.params.get(Param::MigrateRate)),
            buckets: config.wear.map(bucket),
        }
    }

    /// When the move that is under way ends, or the rest of a mover that found nothing to move.
    pub fn next_ns(&self) -> i64 {
        match (&self.under_way, self.rest.most) {
            (Some((ends_ns, _)), _) => *ends_ns,
            (None, Some(most)) if self.rests => self.rests_until_ns(most),
            _ => i64::MAX,
        }
    }

    fn rests_until_ns(&self, rest: Duration) -> i64 {
        self.rests_since_ns.saturating_add(i64::try_from(rest.as_nanos()).unwrap_or(i64::MAX))
    }

    /// That time has come.
    pub fn go_on(&mut self, volume: &mut Volume) {
        if self.under_way.is_some() {
            self.finish(volume);
        } else {
            self.rests = false;
            self.wake(volume);
        }
    }

    /// A write has found PM full: the mover rests no longer than it has to.
    pub fn hurry(&mut self, volume: &mut Volume) {
        if self.rests && volume.clock.now_ns() >= self.rests_until_ns(self.rest.least) {
            self.rests = false;
            self.wake(volume);
        }
    }

    /// Once a second: begins and ends read and reverse migration, and wakes the mover.
    pub fn choose(&mut self, volume: &mut Volume) {
        let (used, params) = (volume.pm_used_percent(), &volume.config.params);
        volume.dataflow.choose(
            volume.traffic,
            used,
            volume.utilization.threshold_percent(params),
            None,
            params,
        );
        self.rests = false;
        self.hot = hot_files(volume).into();
        self.wake(volume);
    }

    /// The mover begins with something if there is anything and it is not at work.
    pub fn wake(&mut self, volume: &mut Volume) {
        if volume.config.params.get(Param::Migrate) == 0 {
            return;
        }
        while self.under_way.is_none() && !self.rests {
            match self.planned.pop_front() {
                Some(next) if is_wanted(volume, next.reason) => self.begin(volume, next),
                Some(_) => {}
                None => {
                    self.rests = !self.plan(volume);
                    self.rest = match self.rests {
                        true => self.rest.after_vain(volume.lately_ns()),
                        false => Rest::default(),
                    };
                    self.rests_since_ns = volume.clock.now_ns();
                }
            }
        }
        // Below the threshold it does not rest, but there was nothing to look for.
        self.rests &= volume.is_above_threshold() || volume.dataflow.under_way() != Flow::Balanced;
    }

    /// Chooses what to move next; false if there is nothing.
    fn plan(&mut self, volume: &mut Volume) -> bool {
        if volume.is_above_threshold() && self.plan_cold(volume) {
            return true;
        }
        while let Some(ino) = self.hot.pop_front() {
            let reason = if volume.dataflow.under_way() == Flow::PmBusy {
                Reason::Read
            } else {
                Reason::Reverse
            };
            if is_wanted(volume, reason) {
                self.plan_of(volume, ino, reason, ColdCut::Whole);
            }
            if !self.planned.is_empty() {
                return true;
            }
        }
        false
    }

    /// Something cold of one of the coldest files, or of those that have little of it, under more
    /// and more pressure.
    fn plan_cold(&mut self, volume: &mut Volume) -> bool {
        let lately_ns = volume.lately_ns();
        let most = volume.blocks_too_many().clamp(LITTLE_BLOCKS, TOGETHER_BLOCKS_MAX);
        let mut looked_at: Vec<(u64, i64)> = Vec::new();
        for pressure in Pressure::RISING {
            let (mut at, mut in_vain) = (0, 0);
            while in_vain < COLD_FILES && self.planned_blocks() < most {
                if at == looked_at.len() {
                    let Some(coldest) = volume.pop_coldest() else { break };
                    looked_at.push(coldest);
                }
                let (before, planned) = (self.planned_blocks(), self.planned.len());
                self.plan_under(volume, pressure, lately_ns, looked_at[at].0);
                at += 1;
                match self.planned_blocks() - before {
                    0 => in_vain += 1,
                    little if little <= ALONE_BLOCKS => {}
                    _ => {
                        // Behind others it is next.
                        if planned > 0 {
                            self.planned.truncate(planned);
                        }
                        break;
                    }
                }
            }
            if !self.planned.is_empty() {
                break;
            }
        }
        looked_at.into_iter().for_each(|(ino, rank_ns)| volume.cold.note(ino, rank_ns));
        !self.planned.is_empty()
    }

    fn planned_blocks(&self) -> u64 {
        self.planned.iter().map(|planned| planned.blocks).sum()
    }

    /// Plans to move what of a file is cold.
    fn plan_under(&mut self, volume: &mut Volume, pressure: Pressure, lately_ns: i64, ino: u64) {
        let (params, file) = (&volume.config.params, &volume.files[&ino]);
        let is_scarce = volume.config.placement().is_scarce(volume.pm_space(), params);
        let counts_as_it_is = pressure >= Pressure::High && is_scarce;
        let grace_ns = if counts_as_it_is { 0 } else { volume.grace_ns(file) };
        let moment = Moment { now_ns: volume.clock.now_ns().saturating_sub(grace_ns), lately_ns };
        let cut = match pressure {
            Pressure::Highest => times_in_pm(file).older_half(moment, params),
            _ => cold_under(pressure, moment, file.mtimes.time_ns(), file.last_write_ns, params),
        };
        if let Some(cut) = cut {
            self.plan_of(volume, ino, Reason::Write, cut);
        }
    }

    /// Plans to move what of a file is cold enough: to the disk in groups, to PM extent by extent.
    fn plan_of(&mut self, volume: &mut Volume, ino: u64, reason: Reason, cut: ColdCut) {
        let Some(file) = volume.files.get(&ino) else { return };
        let (place, chosen_ns) = (source(reason), volume.clock.now_ns());
        let moving =
            file.overlaps(0, u64::MAX).filter(|(_, e)| e.place == place && cut.is_cold(e.mtime_ns));
        let pieces =
            moving.map(|(block, extent)| Piece { block, blocks: u64::from(extent.blocks) });
        let planned = &mut self.planned;
        let mut plan =
            |block, blocks| planned.push_back(Move { reason, ino, block, blocks, chosen_ns, cut });
        match reason {
            Reason::Reverse => pieces.for_each(|piece| plan(piece.block, piece.blocks)),
            _ => {
                let group_blocks = volume.config.params.get(Param::Group) / BLOCK_BYTES;
                groups(pieces, group_blocks)
                    .into_iter()
                    .for_each(|group| plan(group.block, group.blocks));
            }
        }
    }

    /// Begins with a move, and with those planned behind it that leave PM with it.
    fn begin(&mut self, volume: &mut Volume, mut next: Move) {
        if next.reason == Reason::Reverse && !volume.pm_has_room(next.blocks) {
            return;
        }
        let Some(blocks) = self.may_write(volume, &next) else {
            // It has time until the next tick, however full PM is.
            self.planned.clear();
            (self.rests, self.rests_since_ns) = (true, volume.clock.now_ns());
            self.rest = Rest { least: Duration::from_secs(1), most: None };
            volume.outcome.held_up_seconds += 1;
            return;
        };
        next.blocks = blocks;
        let (reason, mut together, mut all) = (next.reason, vec![next], blocks);
        while reason == Reason::Write
            && let Some(&other) = self.planned.front()
            && all + other.blocks <= most_together(volume, other.ino == together[0].ino)
            && let Some(blocks) = self.may_write(volume, &other)
        {
            self.planned.pop_front();
            together.push(Move { blocks, ..other });
            all += blocks;
        }
        let bytes = all * BLOCK_BYTES;
        let done_ns = if reason == Reason::Reverse {
            volume.clock.read(bytes)
        } else {
            volume.clock.write(bytes)
        };
        let now = Duration::from_nanos(volume.clock.now_ns().max(0) as u64);
        let pause_ns = i64::try_from(self.pace.pause(bytes, now).as_nanos()).unwrap_or(i64::MAX);
        // The engine copies before the disk moves anything, and commits behind it.
        let costs = &volume.config.costs;
        let work_ns = costs.ns(Work::ReadPm, bytes).saturating_add(costs.ns(Work::Flush, bytes));
        let done_ns = done_ns.saturating_add(i64::try_from(work_ns).unwrap_or(i64::MAX));
        let ends_ns = done_ns.max(volume.clock.now_ns().saturating_add(pause_ns));
        self.under_way = Some((ends_ns, together));
    }

    /// How many of a move's blocks the budget of their target lets move now; `None`: none. They are
    /// spent.
    fn may_write(&mut self, volume: &Volume, next: &Move) -> Option<u64> {
        let (now_ns, bytes) = (volume.clock.now_ns(), next.blocks * BLOCK_BYTES);
        let device = usize::from(next.reason != Reason::Reverse);
        let Some(bucket) = &mut self.buckets[device] else { return Some(next.blocks) };
        let budget = Some((bucket.available(now_ns), bucket.least()));
        let offer = Offer { device: device as u16, tier: device as u8, budget };
        let blocks = (allowance(&[offer], bytes)?.most / BLOCK_BYTES).max(1);
        bucket.spend(blocks * BLOCK_BYTES, now_ns);
        Some(blocks)
    }

    /// Data that the move under way has copied takes effect.
    pub fn finish(&mut self, volume: &mut Volume) {
        let done = self.under_way.take().map(|(_, moves)| moves);
        done.iter().flatten().for_each(|done| settle(volume, done));
        self.wake(volume);
    }
}

/// Data that was copied takes effect, as far as it was not changed meanwhile.
fn settle(volume: &mut Volume, done: &Move) {
    let (source, target) =
        (source(done.reason), if done.reason == Reason::Reverse { Place::Pm } else { Place::Disk });
    if volume.files.contains_key(&done.ino) {
        // PM may have filled up meanwhile.
        let has_room = target == Place::Disk || volume.pm_has_room(done.blocks);
        let moved = match has_room {
            true => volume.edit(done.ino, |file| {
                file.relocate(done.block, done.block + done.blocks, target, |_, extent| {
                    extent.place == source
                        && extent.mtime_ns <= done.chosen_ns
                        && done.cut.is_cold(extent.mtime_ns)
                })
            }),
            false => Vec::new(),
        };
        count(volume, done, &moved);
    }
}

fn hot_files(volume: &Volume) -> Vec<u64> {
    let params = &volume.config.params;
    let flow = volume.dataflow.under_way();
    let is_candidate = |file: &File| match flow {
        Flow::PmBusy => {
            file.blocks_at(Place::Pm) > 0
                && is_read_dominated(file.read_in_a_row, file.size_blocks(), params)
        }
        Flow::DramBusy => file.blocks_at(Place::Disk) > 0,
        Flow::Balanced => false,
    };
    if flow == Flow::Balanced {
        return Vec::new();
    }
    let candidates =
        volume.files.iter().filter(|(_, file)| file.rtimes.blocks() > 0 && is_candidate(file));
    let mut files: Vec<_> = candidates.map(|(&ino, file)| (file.rtimes.time_ns(), ino)).collect();
    hottest(&mut files, HOT_FILES_MAX);
    files.into_iter().map(|(_, ino)| ino).collect()
}

fn is_wanted(volume: &Volume, reason: Reason) -> bool {
    match reason {
        Reason::Write => volume.is_above_threshold(),
        // Data that moves to where reads are slowest must find a place in the page cache.
        Reason::Read => {
            volume.dataflow.under_way() == Flow::PmBusy
                && volume.room_for_clean() >= volume.clean.len() + group_blocks(volume)
        }
        Reason::Reverse => {
            volume.dataflow.under_way() == Flow::DramBusy && !volume.is_above_threshold()
        }
    }
}

/// How many blocks of one file, or of several, leave PM together at most. A limit is kept best with
/// little at a time.
fn most_together(volume: &Volume, is_one_file: bool) -> u64 {
    match is_one_file && volume.config.params.get(Param::MigrateRate) > 0 {
        true => group_blocks(volume),
        false => TOGETHER_BLOCKS_MAX,
    }
}

fn group_blocks(volume: &Volume) -> u64 {
    volume.config.params.get(Param::Group) / BLOCK_BYTES
}

/// Counts what has moved, and keeps or drops its pages.
fn count(volume: &mut Volume, done: &Move, moved: &[(u64, u64)]) {
    let bytes = moved.iter().map(|&(_, blocks)| blocks).sum::<u64>() * BLOCK_BYTES;
    let room = volume.room_for_clean();
    let used = volume.clean.len() + volume.blocks_at(Place::Dirty);
    let stays_cached = match done.reason {
        Reason::Write => keeps_cached(used, volume.config.cache_pages(), &volume.config.params),
        Reason::Read => true,
        Reason::Reverse => false,
    };
    for &(start, blocks) in moved {
        match done.reason {
            Reason::Reverse => volume.clean.remove_range(done.ino, start, start + blocks),
            _ if stays_cached => {
                (start..start + blocks)
                    .for_each(|block| volume.clean.insert((done.ino, block), room));
            }
            _ => {}
        }
    }
    let counted = match done.reason {
        Reason::Write => &mut volume.outcome.migrated_write_bytes,
        Reason::Read => &mut volume.outcome.migrated_read_bytes,
        Reason::Reverse => &mut volume.outcome.migrated_reverse_bytes,
    };
    *counted += bytes;
    volume.traffic.pm_left = volume.outcome.migrated_write_bytes;
    if done.reason == Reason::Reverse && bytes > 0 {
        volume.cold.note(done.ino, volume.files[&done.ino].mtimes.time_ns());
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
