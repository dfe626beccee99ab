//! Background migration: when data moves to another tier, and which kind of migration is next.
//!
//! Once a second, while the volume is in use, the *pulse* counts what was read and written and asks
//! `terrace-policy` how full PM may be and which way reads lean. A *migration thread* per shard
//! does what follows from that, one stretch of a file at a time. It sleeps while there is nothing
//! to do: an idle volume takes no CPU time.
//!
//! Invariant: a migration thread that is woken either moves something, or notes in [`Rounds`] why
//! it cannot and sleeps until the next wake-up. While PM turns over within seconds, it tries again
//! once data that counted as written lately has grown older. After each round in vain it sleeps for
//! at least twice as long as after the one before.

use std::time::{Duration, Instant};

use terrace_layout::BLOCK_BYTES;
use terrace_policy::{
    Dataflow, Flow, Helpers, Leaving, Load, Pace, Param, Past, Pressure, Rest, Traffic,
    Utilization, logs_leave, write_migration_goes_on,
};
use terrace_store::error::FsResult;
use terrace_store::sync::atomic::{AtomicBool, Ordering};
use terrace_store::sync::{Arc, Mutex};

use crate::base::counters::{Counter, Counters, Passage};
use crate::base::tuning::Tuning;
use crate::base::types::MigrationStatus;
use crate::inode::activity::{Activity, ShardActivity};
use crate::inode::health::Health;
use crate::inode::store::Store;
use crate::inode::wear::Wear;
use crate::tiering::cold_logs::ColdLogs;
use crate::tiering::conditions::Conditions;
use crate::tiering::gate::Gate;
use crate::tiering::pins::Pins;
use crate::tiering::relocate::Relocator;
use crate::tiering::round::{Round, Rounds};
use crate::tiering::select::{LITTLE_BLOCKS, Selector};

/// The pulse.
const TICK: Duration = Duration::from_secs(1);
/// Seconds without any traffic after which the pulse rests: longer than any window of the policy
/// that a pause could disturb.
const QUIET_TICKS_MAX: u32 = 5;
/// Ticks after which what was written to the devices is noted for good.
const SAVE_TICKS: u32 = 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub store: Arc<Store>,
    pub health: Arc<Health>,
    pub activity: Arc<Activity>,
    pub counters: Arc<Counters>,
    pub tuning: Arc<Tuning>,
    pub conditions: Arc<Conditions>,
    pub wear: Arc<Wear>,
    pub gate: Arc<Gate>,
    pub relocator: Arc<Relocator>,
    pub selector: Arc<Selector>,
    pub pins: Pins,
    pub cold_logs: Arc<ColdLogs>,
    pub rounds: Arc<Rounds>,
    /// The threads run.
    pub started: AtomicBool,
    pub pulse: Mutex<Pulse>,
    pub pace: Mutex<Option<Paced>>,
}

/// What is known of the traffic.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    utilization: Utilization,
    dataflow: Dataflow,
    helpers: Helpers,
    last: Traffic,
    /// Seconds of the policy's clock.
    ticks: u64,
    quiet_ticks: u32,
}

/// The sides to which data and reads lean, as of the last second with traffic.
#[derive(Debug)]
pub(crate) struct Leanings {
    /// How full PM may be.
    pub threshold_percent: f64,
    /// The migration that follows from reads.
    pub flow: Flow,
    pub second: Traffic,
    /// Reverse migration waits for so long.
    pub settles_in_seconds: u64,
    /// PM is slower than memory for what is read; `None`: that is not known.
    pub pm_is_slower: Option<bool>,
}

/// The limit of migration that is kept, and since when.
#[derive(Debug)]
pub(crate) struct Paced {
    bytes_per_second: u64,
    pace: Pace,
    since: Instant,
}

impl Schedule {
    /// What has been read and written so far.
    fn traffic(&self) -> Traffic {
        let counters = self.counters.snapshot();
        let from_disks: u64 = self
            .store
            .space
            .tiers()
            .skip(1)
            .map(|tier| self.counters.passed_bytes(Passage::Read, tier))
            .sum();
        Traffic {
            pm_read: counters.get(Counter::ReadPm),
            pm_read_direct: counters.get(Counter::DirectReadBytes),
            pm_written: counters.get(Counter::WrittenPm),
            dram_read: counters.get(Counter::ReadCache) + from_disks,
            pm_left: counters.get(Counter::MigratedWrite),
        }
    }

    /// How long PM, memory and the fastest disks took so far.
    fn load(&self) -> Load {
        let mut load = self.counters.speeds.load();
        let fastest = self.store.space.tiers().find(|&tier| tier > 0);
        for member in self.store.space.members.all() {
            if Some(member.entry.tier) == fastest {
                let disk = member.disk.stats();
                // Disks do not change their places among each other.
                load.disks = load.disks.wrapping_mul(31) + u64::from(member.entry.index) + 1;
                load.disk_writes.ns += disk.long_write_ns;
                load.disk_writes.blocks += disk.long_written_bytes / BLOCK_BYTES;
                load.flushes.ns += disk.flush_ns;
                load.flushes.blocks += disk.flushes;
            }
        }
        load
    }

    /// Thresholds have changed, or are looked at for the first time.
    pub fn set_floor(&self) {
        let pulse = self.pulse.lock();
        self.store_floor(pulse.utilization.threshold_percent(&self.tuning.params()));
        let has_tight_logs = self.tuning.get(Param::TightLogs) == 1;
        self.activity.has_tight_logs.store(has_tight_logs, Ordering::Relaxed);
        if self.tuning.get(Param::Helpers) == 0 {
            self.activity.set_past(Past::NONE);
        }
    }

    fn store_floor(&self, threshold_percent: f64) {
        let blocks = self.store.space.pm().blocks() as f64 * (100.0 - threshold_percent) / 100.0;
        // While nothing migrates, no thread is woken.
        let floor = if self.conditions.migrates() { blocks as u64 } else { 0 };
        self.activity.floor_blocks.store(floor, Ordering::Relaxed);
    }

    /// The thread of the pulse.
    pub fn run_pulse(&self) {
        let mut unsaved_ticks = 0;
        while !self.health.stopping.load(Ordering::Acquire) {
            self.wait_for_tick();
            if self.health.stopping.load(Ordering::Acquire) {
                return;
            }
            self.tick(&mut self.pulse.lock());
            unsaved_ticks += 1;
            // It may rest for long.
            if unsaved_ticks >= SAVE_TICKS || self.activity.resting.load(Ordering::Relaxed) {
                unsaved_ticks = 0;
                self.save_wear();
            }
        }
    }

    fn save_wear(&self) {
        if !self.health.is_read_only()
            && let Err(error) = self.wear.save()
        {
            self.health.turn_read_only(&error);
        }
    }

    fn wait_for_tick(&self) {
        let bell = &self.activity.pulse;
        let mut rung = bell.rung.lock();
        if !*rung {
            if self.activity.resting.load(Ordering::Relaxed) {
                bell.wake.wait(&mut rung);
            } else {
                bell.wake.wait_for(&mut rung, TICK);
            }
        }
        if std::mem::take(&mut *rung) {
            // A second from now there is something to see.
            self.pulse.lock().quiet_ticks = 0;
            if !self.health.stopping.load(Ordering::Acquire) {
                bell.wake.wait_for(&mut rung, TICK);
            }
        }
    }

    /// A second of the volume's life for the policy, without waiting for it: for tests and tools
    /// that have a clock of their own.
    pub fn tick_now(&self) {
        self.tick(&mut self.pulse.lock());
    }

    fn tick(&self, pulse: &mut Pulse) {
        let (now, params) = (self.traffic(), self.tuning.params());
        pulse.ticks += 1;
        pulse.utilization.tick(now);
        let threshold = pulse.utilization.threshold_percent(&params);
        pulse.helpers.tick(self.load(), &params);
        let slower = pulse.helpers.pm_reads_are_slower(&params);
        let used = self.conditions.pm_used_percent();
        pulse.dataflow.choose(now, used, threshold, slower, &params);
        self.activity.set_past(pulse.helpers.past());
        self.store_floor(threshold);
        pulse.quiet_ticks = if now == pulse.last { pulse.quiet_ticks + 1 } else { 0 };
        pulse.last = now;
        let quiet = pulse.quiet_ticks > QUIET_TICKS_MAX;
        if quiet {
            self.activity.set_past(Past::NONE);
        }
        self.activity.resting.store(quiet, Ordering::Relaxed);
        match self.conditions.migrates() && self.is_anything_wanted(pulse) {
            true if !quiet => self.activity.shards.iter().for_each(ShardActivity::notify),
            true => {}
            false => self.rounds.forget_trouble(),
        }
    }

    fn is_anything_wanted(&self, pulse: &Pulse) -> bool {
        let params = self.tuning.params();
        pulse.dataflow.under_way() != Flow::Balanced
            || write_migration_goes_on(
                self.conditions.pm_used_percent(),
                pulse.utilization.threshold_percent(&params),
            )
            || self.conditions.logs_leave()
            || self.conditions.full_tier().is_some()
            || self.activity.has_misplaced()
    }

    /// The migration thread of a shard.
    pub fn run(&self, shard: usize) {
        let mut rest = Rest::default();
        while !self.health.stopping.load(Ordering::Acquire) {
            self.wait_for_work(shard, rest);
            self.activity.shards[shard].found_pm_full.store(false, Ordering::Relaxed);
            while !self.health.stopping.load(Ordering::Acquire) {
                match self.migrate_some(shard) {
                    Round::Moved(bytes) => {
                        rest = Rest::default();
                        self.keep_pace(shard, bytes);
                    }
                    Round::Idle => {
                        rest = Rest::default();
                        self.activity.shards[shard].notified.store(false, Ordering::Relaxed);
                        break;
                    }
                    Round::Stuck(_) | Round::Failed { .. } => {
                        rest = rest.after_vain(self.selector.lately_ns());
                        break;
                    }
                }
            }
        }
    }

    /// Until the least rest is over, and there is work or the longest rest is over, too.
    fn wait_for_work(&self, shard: usize, rest: Rest) {
        let migration = &self.activity.shards[shard].migration;
        let mut work = migration.rung.lock();
        // `stopping` is set before this lock is taken to wake the thread.
        let goes_on = || !self.health.stopping.load(Ordering::Acquire);
        let since = Instant::now();
        while goes_on() && since.elapsed() < rest.least {
            migration.wake.wait_for(&mut work, rest.least - since.elapsed().min(rest.least));
        }
        if rest.most.is_none() {
            self.relocator.buffers.release();
        }
        while goes_on() && !*work {
            match rest.most {
                None => migration.wake.wait(&mut work),
                Some(most) if since.elapsed() < most => {
                    migration.wake.wait_for(&mut work, most - since.elapsed().min(most));
                }
                Some(_) => break,
            }
        }
        *work = false;
    }

    /// Does one piece of what is wanted.
    pub fn migrate_some(&self, shard: usize) -> Round {
        if !self.conditions.migrates() {
            return Round::Idle;
        }
        let _under_way = self.gate.begin_after_seekers();
        self.rounds.run(shard, || self.migrate_wanted(shard))
    }

    /// Does what is wanted most and can be done: each kind has its turn when those before it have
    /// nothing to do.
    fn migrate_wanted(&self, shard: usize) -> FsResult<Round> {
        let params = self.tuning.params();
        let (threshold, flow, second) = {
            let pulse = self.pulse.lock();
            let threshold = pulse.utilization.threshold_percent(&params);
            (threshold, pulse.dataflow.under_way(), pulse.ticks)
        };
        let used = self.conditions.pm_used_percent();
        let mut round = self.pins.migrate(shard)?;
        if round.is_in_vain() && write_migration_goes_on(used, threshold) {
            // No more than has to leave.
            let too_much = (used - threshold) / 100.0 * self.store.space.pm().blocks() as f64;
            let most = (too_much as u64).max(LITTLE_BLOCKS);
            round = round.or(self.selector.migrate_cold(shard, 0, Leaving::FullPm, most)?);
        }
        if round.is_in_vain() && logs_leave(used, &params) {
            round = round.or(self.cold_logs.migrate(shard, Pressure::Low)?);
        }
        if let (true, Some((tier, _))) = (round.is_in_vain(), self.conditions.full_tier()) {
            let most = self.conditions.blocks_too_many(tier).max(LITTLE_BLOCKS);
            round = round.or(self.selector.migrate_cold(shard, tier, Leaving::FullTier, most)?);
        }
        Ok(match flow {
            Flow::PmBusy if round.is_in_vain() => {
                round.or(self.selector.migrate_read_hot(shard, second)?)
            }
            Flow::DramBusy if round.is_in_vain() && used < threshold => {
                let room = (threshold - used) / 100.0 * self.store.space.pm().blocks() as f64;
                round.or(self.selector.migrate_reverse(
                    shard,
                    second,
                    room as u64 / self.store.shards() as u64,
                )?)
            }
            _ => round,
        })
    }

    /// Waits as long as the limit of migration asks for.
    fn keep_pace(&self, shard: usize, bytes: u64) {
        let rate = self.tuning.get(Param::MigrateRate);
        let pause = {
            let mut paced = self.pace.lock();
            if paced.as_ref().is_none_or(|paced| paced.bytes_per_second != rate) {
                *paced = Some(Paced {
                    bytes_per_second: rate,
                    pace: Pace::new(rate),
                    since: Instant::now(),
                });
            }
            let paced = paced.as_mut().expect("just made");
            paced.pace.pause(bytes, paced.since.elapsed())
        };
        if pause.is_zero() {
            return;
        }
        let until = Instant::now() + pause;
        let activity = &self.activity.shards[shard];
        let mut work = activity.migration.rung.lock();
        // Until then, or until the limit changes.
        while !self.health.stopping.load(Ordering::Acquire)
            && self.tuning.get(Param::MigrateRate) == rate
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            activity.migration.wake.wait_for(&mut work, left.min(TICK));
        }
    }

    /// Wakes all threads, to end.
    pub fn stop(&self) {
        self.activity.pulse.ring();
        self.activity.shards.iter().for_each(|shard| shard.migration.ring());
    }

    /// See [`Leanings`].
    pub fn leanings(&self) -> Leanings {
        let (pulse, params) = (self.pulse.lock(), self.tuning.params());
        Leanings {
            threshold_percent: pulse.utilization.threshold_percent(&params),
            flow: pulse.dataflow.under_way(),
            second: pulse.dataflow.last_second(),
            settles_in_seconds: pulse.dataflow.settles_in_seconds(&params),
            pm_is_slower: pulse.helpers.pm_reads_are_slower(&params),
        }
    }

    /// What migration does, and why.
    pub fn status(&self) -> MigrationStatus {
        let params = self.tuning.params();
        let pulse = self.pulse.lock();
        let threshold_percent = pulse.utilization.threshold_percent(&params);
        let used = self.conditions.pm_used_percent();
        // Misplaced data comes first (`migrate_wanted`), but often waits for room: then what makes
        // room says more.
        let state = match pulse.dataflow.under_way() {
            _ if !self.conditions.migrates() => "off",
            _ if write_migration_goes_on(used, threshold_percent) => {
                "write migration: PM is fuller than the threshold"
            }
            _ if logs_leave(used, &params) => "log migration: PM is fuller than its threshold",
            _ if self.activity.has_misplaced() => "pins: data waits for its tier",
            _ if self.conditions.full_tier().is_some() => "demotion: a disk tier is nearly full",
            Flow::PmBusy if pulse.helpers.pm_reads_are_slower(&params) == Some(true) => {
                "read migration: PM is slower than memory"
            }
            Flow::PmBusy => "read migration: reads lean towards PM",
            Flow::DramBusy => "reverse migration: reads lean towards DRAM",
            Flow::Balanced => "idle",
        };
        let logs_only =
            !write_migration_goes_on(used, threshold_percent) && logs_leave(used, &params);
        let threshold_percent =
            if logs_only { params.get(Param::LogsAt) as f64 } else { threshold_percent };
        // Nobody has looked since, perhaps, if nothing is wanted any more.
        let is_wanted = self.conditions.migrates() && self.is_anything_wanted(&pulse);
        let trouble = self.rounds.trouble().filter(|_| is_wanted);
        let percent = |share: f64| share.round() as u8;
        let (pinned_files, pinned_elsewhere) = self.activity.count_pinned();
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
