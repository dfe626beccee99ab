//! Background migration: when data moves to another tier, and what.
//!
//! Once a second, while anything happens, the *pulse* looks at what was read and written and asks `terrace-policy` how full PM may
//! be and which way reads lean. A *mover* per shard does what follows from that, one stretch of a file at a time, and sleeps
//! while there is nothing to do: an idle volume takes no time of any CPU.
//!
//! Invariant: a mover that is wanted either moves something, or says in `Core::migration` why it cannot and sleeps until
//! somebody wakes it; it never tries the same in vain twice in a row.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use terrace_policy::{
    ColdList, Dataflow, Flow, Pace, Param, Params, Traffic, Utilization, tier_is_full, used_percent,
    write_migration_goes_on,
};

use crate::core::Core;
use crate::counters::Counter;
use crate::error::{FsError, FsResult};
use crate::pin::PinnedFiles;
use crate::ranking::Recent;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::threads::spawn_movers;
use crate::types::{Ino, MigrationStatus};
use crate::volume::Volume;

/// The pulse.
const TICK: Duration = Duration::from_secs(1);
/// Seconds without any traffic after which the pulse rests: longer than any window of the policy that a pause could disturb.
const QUIET_TICKS_MAX: u32 = 5;

/// What all movers share.
#[derive(Debug, Default)]
pub(crate) struct Migration {
    /// Free PM blocks below which write migration is wanted, as of the last tick.
    floor_blocks: AtomicU64,
    /// The pulse rests; whoever does something wakes it.
    pub resting: AtomicBool,
    /// The threads run.
    pub started: AtomicBool,
    pulse: Mutex<Pulse>,
    wake: Condvar,
    /// Why a mover that is wanted does not get on, by shard.
    trouble: Mutex<BTreeMap<usize, String>>,
    pace: Mutex<Option<Paced>>,
}

/// What is known of the traffic.
#[derive(Debug, Default)]
struct Pulse {
    utilization: Utilization,
    dataflow: Dataflow,
    last: Traffic,
    quiet_ticks: u32,
    woken: bool,
}

#[derive(Debug)]
struct Paced {
    bytes_per_second: u64,
    pace: Pace,
    since: Instant,
}

/// One shard's part.
#[derive(Debug, Default)]
pub(crate) struct Mover {
    /// There is something to do.
    work: Mutex<bool>,
    wake: Condvar,
    /// It knows, or tried in vain and is to be left alone until the pulse wakes it: writers need not.
    notified: AtomicBool,
    pub lists: Mutex<Lists>,
    pub recent: Recent,
}

/// Files with data in a tier, coldest first.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// By tier.
    pub cold: Vec<ColdList>,
    /// Records of the inode table that have been looked at since the mount: what is in them is listed, or has been written since.
    pub scanned: u64,
    pub pins: PinnedFiles,
}

impl Lists {
    /// The files of a tier.
    pub fn of_tier(&mut self, tier: u8) -> &mut ColdList {
        let tier = usize::from(tier);
        if self.cold.len() <= tier {
            self.cold.resize_with(tier + 1, ColdList::default);
        }
        &mut self.cold[tier]
    }

    /// A file is gone.
    pub fn forget(&mut self, ino: Ino) {
        for list in &mut self.cold {
            list.remove(ino.0);
        }
        self.pins.note(ino, None, false);
    }
}

impl Mover {
    /// There is something to do.
    fn notify(&self) {
        self.notified.store(true, Ordering::Relaxed);
        *self.work.lock() = true;
        self.wake.notify_all();
    }
}

/// What a mover found to do.
#[derive(Debug)]
pub(crate) enum Round {
    /// Nothing is wanted.
    Idle,
    /// So many bytes were copied; there may be more to do.
    Moved(u64),
    /// There is nothing that would do what is wanted.
    Stuck(String),
    /// Something kept data from moving. `is_final`: it would keep all other data, too.
    Failed { why: String, is_final: bool },
}

impl Round {
    /// Whether there may be more to do.
    ///
    /// # Errors
    /// What keeps data from moving.
    pub fn into_progress(self) -> FsResult<bool> {
        match self {
            Round::Idle => Ok(false),
            Round::Moved(_) => Ok(true),
            Round::Stuck(why) | Round::Failed { why, .. } => Err(FsError::with_message(libc::EAGAIN, why)),
        }
    }

    /// Nothing has moved.
    pub fn is_in_vain(&self) -> bool {
        !matches!(self, Round::Moved(_))
    }

    /// This round, or the other if that did more.
    fn or(self, other: Round) -> Round {
        match (&self, &other) {
            (Round::Idle, _) | (_, Round::Moved(_)) | (Round::Stuck(_), Round::Failed { .. }) => other,
            _ => self,
        }
    }
}

impl Volume {
    /// The policy's thresholds as they are now.
    pub fn params(&self) -> Params {
        self.core.tuning.params()
    }

    /// Changes one of the policy's thresholds, until the volume is unmounted.
    ///
    /// # Errors
    /// `EINVAL` for a value outside its range.
    pub fn tune(&self, param: Param, value: u64) -> FsResult<()> {
        let set = self.core.tuning.set(param, value);
        set.map_err(|error| FsError::with_message(libc::EINVAL, error.to_string()))?;
        self.start_migration()
    }

    /// Migration may be wanted, or possible, from now on.
    pub(crate) fn start_migration(&self) -> FsResult<()> {
        self.core.set_floor();
        // Whoever closes the volume takes the threads' handles under this lock, after it has said so.
        let mut workers = self.workers.lock();
        if !self.core.stopping.load(Ordering::Acquire) {
            spawn_movers(&self.core, &mut workers)?;
        }
        Ok(())
    }

    /// Moves data as background migration would now, and returns when nothing more is to be done, or why it cannot be: for
    /// volumes without workers, and tests. `seconds` of the policy's clock pass first.
    ///
    /// # Errors
    /// What keeps data from moving.
    pub fn migrate(&self, seconds: u32) -> FsResult<()> {
        (0..seconds).for_each(|_| self.core.tick_now());
        (0..self.core.shards.len()).try_for_each(|shard| self.migrate_shard(shard))
    }

    /// As [`Self::migrate`], of one shard's files: what that shard's thread would do.
    ///
    /// # Errors
    /// As [`Self::migrate`].
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn migrate_shard(&self, shard: usize) -> FsResult<()> {
        while self.before_closing(|| self.core.migrate_some(shard).into_progress())? {}
        Ok(())
    }

    /// How many shards the volume has, each with a part of the files and threads of its own.
    pub fn shards(&self) -> usize {
        self.core.shards.len()
    }
}

impl Core {
    /// Whether data moves by itself.
    pub fn migrates(&self) -> bool {
        self.tuning.get(Param::Migrate) == 1 && self.space.has_disks() && !self.is_read_only()
    }

    /// Called after every read and write: wakes who should look.
    #[inline]
    pub fn note_traffic(&self) {
        if self.migration.resting.load(Ordering::Relaxed) {
            self.wake_pulse();
        }
    }

    /// Called after a write to PM: wakes the shard's mover if PM is too full.
    #[inline]
    pub fn note_pm_use(&self, shard: usize) {
        if self.space.pm().free_blocks() < self.migration.floor_blocks.load(Ordering::Relaxed) {
            let mover = &self.shards[shard].mover;
            if !mover.notified.load(Ordering::Relaxed) {
                mover.notify();
            }
        }
    }

    #[cold]
    fn wake_pulse(&self) {
        self.migration.resting.store(false, Ordering::Relaxed);
        self.migration.pulse.lock().woken = true;
        self.migration.wake.notify_all();
    }

    /// What has been read and written so far.
    fn traffic(&self) -> Traffic {
        let counters = self.counters.snapshot();
        let from_disks: u64 = self.space.tiers().skip(1).map(|tier| self.counters.disk_read_bytes(tier)).sum();
        Traffic {
            pm_read: counters.get(Counter::ReadPm),
            pm_written: counters.get(Counter::WrittenPm),
            dram_read: counters.get(Counter::ReadCache) + from_disks,
        }
    }

    /// Thresholds have changed, or are looked at for the first time.
    pub fn set_floor(&self) {
        let pulse = self.migration.pulse.lock();
        self.store_floor(pulse.utilization.threshold_percent(&self.tuning.params()));
    }

    fn store_floor(&self, threshold_percent: f64) {
        let blocks = self.space.pm().blocks() as f64 * (100.0 - threshold_percent) / 100.0;
        // Nobody is to be woken for nothing.
        let floor = if self.migrates() { blocks as u64 } else { 0 };
        self.migration.floor_blocks.store(floor, Ordering::Relaxed);
    }

    /// The thread behind the pulse.
    pub fn beat(&self) {
        while !self.stopping.load(Ordering::Acquire) {
            let mut pulse = self.migration.pulse.lock();
            if !pulse.woken {
                if self.migration.resting.load(Ordering::Relaxed) {
                    self.migration.wake.wait(&mut pulse);
                } else {
                    self.migration.wake.wait_for(&mut pulse, TICK);
                }
            }
            if std::mem::take(&mut pulse.woken) {
                // A second from now there is something to see.
                pulse.quiet_ticks = 0;
                if !self.stopping.load(Ordering::Acquire) {
                    self.migration.wake.wait_for(&mut pulse, TICK);
                }
            }
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            self.tick(&mut pulse);
        }
    }

    /// A second of the volume's life for the policy, without waiting for it: for tests and tools that have a clock of their
    /// own.
    pub fn tick_now(&self) {
        self.tick(&mut self.migration.pulse.lock());
    }

    fn tick(&self, pulse: &mut Pulse) {
        let (now, params) = (self.traffic(), self.tuning.params());
        pulse.utilization.tick(now);
        let threshold = pulse.utilization.threshold_percent(&params);
        pulse.dataflow.choose(now, self.pm_used_percent(), threshold, &params);
        self.store_floor(threshold);
        pulse.quiet_ticks = if now == pulse.last { pulse.quiet_ticks + 1 } else { 0 };
        pulse.last = now;
        let quiet = pulse.quiet_ticks > QUIET_TICKS_MAX;
        self.migration.resting.store(quiet, Ordering::Relaxed);
        match self.migrates() && self.is_anything_wanted(pulse) {
            true if !quiet => self.shards.iter().for_each(|shard| shard.mover.notify()),
            true => {}
            false => self.migration.trouble.lock().clear(),
        }
    }

    fn pm_used_percent(&self) -> f64 {
        used_percent(self.space.pm().blocks(), self.space.pm().free_blocks())
    }

    fn is_anything_wanted(&self, pulse: &Pulse) -> bool {
        let params = self.tuning.params();
        pulse.dataflow.under_way() != Flow::Balanced
            || write_migration_goes_on(self.pm_used_percent(), pulse.utilization.threshold_percent(&params))
            || self.full_tier().is_some()
            || self.has_strays()
    }

    /// A tier of disks that moves data to the next: it is nearly full, and there is a next one which is not.
    fn full_tier(&self) -> Option<(u8, u8)> {
        let params = self.tuning.params();
        let is_full = |tier: u8| {
            let (blocks, free) = self.space.tier_space(tier);
            tier_is_full(blocks, free, &params)
        };
        let tiers: Vec<u8> = self.space.tiers().skip(1).collect();
        tiers.windows(2).find(|pair| is_full(pair[0]) && !is_full(pair[1])).map(|pair| (pair[0], pair[1]))
    }

    /// The thread of a shard's mover.
    pub fn move_data(&self, shard: usize) {
        let mover = &self.shards[shard].mover;
        while !self.stopping.load(Ordering::Acquire) {
            {
                let mut work = mover.work.lock();
                // Whoever stops the movers does so before the lock and wakes them after it.
                while !*work && !self.stopping.load(Ordering::Acquire) {
                    mover.wake.wait(&mut work);
                }
                *work = false;
            }
            while !self.stopping.load(Ordering::Acquire) {
                match self.migrate_some(shard) {
                    Round::Moved(bytes) => self.keep_pace(shard, bytes),
                    Round::Idle => {
                        self.migration.trouble.lock().remove(&shard);
                        mover.notified.store(false, Ordering::Relaxed);
                        break;
                    }
                    Round::Stuck(why) => {
                        self.migration.trouble.lock().insert(shard, why);
                        break;
                    }
                    Round::Failed { why, .. } => {
                        self.note_failure(shard, why);
                        break;
                    }
                }
            }
        }
    }

    /// Does one piece of what is wanted.
    pub fn migrate_some(&self, shard: usize) -> Round {
        if !self.migrates() {
            return Round::Idle;
        }
        let round = self.mutate(|| self.migrate_wanted(shard));
        let round = round.unwrap_or_else(|error| Round::Failed { why: error.to_string(), is_final: true });
        if round.is_in_vain() {
            self.buffers.release();
        }
        round
    }

    /// Does what is wanted most and can be done: each kind has its turn when those before it have nothing to do.
    fn migrate_wanted(&self, shard: usize) -> FsResult<Round> {
        let params = self.tuning.params();
        let (threshold, flow) = {
            let pulse = self.migration.pulse.lock();
            (pulse.utilization.threshold_percent(&params), pulse.dataflow.under_way())
        };
        let used = self.pm_used_percent();
        let mut round = self.bring_home(shard)?;
        if round.is_in_vain() && write_migration_goes_on(used, threshold) {
            round = round.or(self.migrate_cold(shard, 0, Counter::MigratedWrite)?);
        }
        if let (true, Some((tier, _))) = (round.is_in_vain(), self.full_tier()) {
            round = round.or(self.migrate_cold(shard, tier, Counter::MigratedDemoted)?);
        }
        Ok(match flow {
            Flow::FavoursPm if round.is_in_vain() => round.or(self.migrate_read_hot(shard)?),
            Flow::FavoursDram if round.is_in_vain() && used < threshold => {
                let room = (threshold - used) / 100.0 * self.space.pm().blocks() as f64;
                round.or(self.migrate_reverse(shard, room as u64 / self.shards.len() as u64)?)
            }
            _ => round,
        })
    }

    /// Waits as long as the limit of migration asks for.
    fn keep_pace(&self, shard: usize, bytes: u64) {
        let rate = self.tuning.get(Param::MigrateRate);
        let pause = {
            let mut paced = self.migration.pace.lock();
            if paced.as_ref().is_none_or(|paced| paced.bytes_per_second != rate) {
                *paced = Some(Paced { bytes_per_second: rate, pace: Pace::new(rate), since: Instant::now() });
            }
            let paced = paced.as_mut().expect("just made");
            paced.pace.pause(bytes, paced.since.elapsed())
        };
        if pause.is_zero() {
            return;
        }
        let until = Instant::now() + pause;
        let mover = &self.shards[shard].mover;
        let mut work = mover.work.lock();
        // Until then, or until the limit changes.
        while !self.stopping.load(Ordering::Acquire) && self.tuning.get(Param::MigrateRate) == rate {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            mover.wake.wait_for(&mut work, left.min(TICK));
        }
    }

    /// Says so once, however often it is so.
    fn note_failure(&self, shard: usize, why: String) {
        let mut trouble = self.migration.trouble.lock();
        if !trouble.values().any(|known| *known == why) {
            tracing::warn!("migration waits: {why}");
        }
        trouble.insert(shard, why);
    }

    /// Wakes everybody here, to end.
    pub fn stop_migration(&self) {
        self.migration.pulse.lock().woken = true;
        self.migration.wake.notify_all();
        for shard in &self.shards {
            *shard.mover.work.lock() = true;
            shard.mover.wake.notify_all();
        }
    }

    /// What migration is about.
    pub fn migration_status(&self) -> MigrationStatus {
        let params = self.tuning.params();
        let pulse = self.migration.pulse.lock();
        let threshold_percent = pulse.utilization.threshold_percent(&params);
        let used = self.pm_used_percent();
        let state = match pulse.dataflow.under_way() {
            _ if !self.migrates() => "off",
            _ if write_migration_goes_on(used, threshold_percent) => "write migration: PM is fuller than the threshold",
            _ if self.has_strays() => "pins: data waits for its tier",
            _ if self.full_tier().is_some() => "demotion: a disk tier is nearly full",
            Flow::FavoursPm => "read migration: reads lean towards PM",
            Flow::FavoursDram => "reverse migration: reads lean towards DRAM",
            Flow::Balanced => "idle",
        };
        let trouble = self.migration.trouble.lock().values().next().cloned();
        let percent = |share: f64| share.round() as u8;
        let (pinned_files, pinned_elsewhere) = self.count_pinned();
        MigrationStatus {
            state: state.into(),
            pm_used_percent: percent(used),
            threshold_percent: percent(threshold_percent),
            trouble,
            pinned_files,
            pinned_elsewhere,
        }
    }
}
