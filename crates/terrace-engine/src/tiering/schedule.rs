//! Background migration: when data moves to another tier, and what.
//!
//! Once a second, while anything happens, the *pulse* looks at what was read and written and asks
//! `terrace-policy` how full PM may be and which way reads lean. A *mover* per shard does what
//! follows from that, one stretch of a file at a time, and sleeps while there is nothing to do: an
//! idle volume takes no time of any CPU.
//!
//! Invariant: a mover that is wanted either moves something, or says in [`Schedule`] why it
//! cannot and sleeps until somebody wakes it; it never tries the same in vain twice in a row.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use terrace_policy::{
    Dataflow, Flow, Pace, Param, Pressure, Traffic, Utilization, logs_leave, tier_is_full,
    used_percent, write_migration_goes_on,
};
use terrace_store::error::{FsError, FsResult};
use terrace_store::sync::Mutex;
use terrace_store::sync::atomic::{AtomicBool, Ordering};

use crate::base::counters::Counter;
use crate::base::types::MigrationStatus;
use crate::inode::activity::ShardActivity;
use crate::tiering::Tiering;

/// The pulse.
const TICK: Duration = Duration::from_secs(1);
/// Seconds without any traffic after which the pulse rests: longer than any window of the policy
/// that a pause could disturb.
const QUIET_TICKS_MAX: u32 = 5;

/// Longest rest of who makes room in PM in vain.
const RELIEF_RESTS_MAX: Duration = Duration::from_secs(10);

/// What all movers share.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// The threads run.
    pub started: AtomicBool,
    pulse: Mutex<Pulse>,
    /// Why a mover that is wanted does not get on, by shard.
    trouble: Mutex<BTreeMap<usize, Trouble>>,
    relief: Mutex<Relief>,
    pace: Mutex<Option<Paced>>,
}

/// Room that programs make.
#[derive(Debug, Default)]
struct Relief {
    /// Whose files give way first.
    next_shard: usize,
    /// It was in vain, and is not tried again until then.
    rests_until: Option<Instant>,
}

/// Why a mover did not get on.
#[derive(Debug)]
struct Trouble {
    why: String,
    /// It has moved something since. If it ends like that again, the log need not say so again.
    is_past: bool,
}

/// What is known of the traffic.
#[derive(Debug, Default)]
struct Pulse {
    utilization: Utilization,
    dataflow: Dataflow,
    last: Traffic,
    quiet_ticks: u32,
}

#[derive(Debug)]
struct Paced {
    bytes_per_second: u64,
    pace: Pace,
    since: Instant,
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
            Round::Stuck(why) | Round::Failed { why, .. } => {
                Err(FsError::with_message(libc::EAGAIN, why))
            }
        }
    }

    /// Nothing has moved.
    pub fn is_in_vain(&self) -> bool {
        !matches!(self, Round::Moved(_))
    }

    /// This round, or the other if that did more.
    fn or(self, other: Round) -> Round {
        match (&self, &other) {
            (Round::Idle, _) | (_, Round::Moved(_)) | (Round::Stuck(_), Round::Failed { .. }) => {
                other
            }
            _ => self,
        }
    }
}

impl Tiering {
    /// Whether data moves by itself.
    pub fn migrates(&self) -> bool {
        self.tuning.get(Param::Migrate) == 1
            && self.store.space.has_disks()
            && !self.health.is_read_only()
    }

    /// What has been read and written so far.
    fn traffic(&self) -> Traffic {
        let counters = self.counters.snapshot();
        let from_disks: u64 =
            self.store.space.tiers().skip(1).map(|tier| self.counters.disk_read_bytes(tier)).sum();
        Traffic {
            pm_read: counters.get(Counter::ReadPm),
            pm_written: counters.get(Counter::WrittenPm),
            dram_read: counters.get(Counter::ReadCache) + from_disks,
        }
    }

    /// Thresholds have changed, or are looked at for the first time.
    pub fn set_floor(&self) {
        let pulse = self.schedule.pulse.lock();
        self.store_floor(pulse.utilization.threshold_percent(&self.tuning.params()));
    }

    fn store_floor(&self, threshold_percent: f64) {
        let blocks = self.store.space.pm().blocks() as f64 * (100.0 - threshold_percent) / 100.0;
        // Nobody is to be woken for nothing.
        let floor = if self.migrates() { blocks as u64 } else { 0 };
        self.activity.floor_blocks.store(floor, Ordering::Relaxed);
    }

    /// The thread behind the pulse.
    pub fn beat(&self) {
        while !self.health.stopping.load(Ordering::Acquire) {
            self.wait_for_tick();
            if self.health.stopping.load(Ordering::Acquire) {
                return;
            }
            self.tick(&mut self.schedule.pulse.lock());
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
            self.schedule.pulse.lock().quiet_ticks = 0;
            if !self.health.stopping.load(Ordering::Acquire) {
                bell.wake.wait_for(&mut rung, TICK);
            }
        }
    }

    /// A second of the volume's life for the policy, without waiting for it: for tests and tools
    /// that have a clock of their own.
    pub fn tick_now(&self) {
        self.tick(&mut self.schedule.pulse.lock());
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
        self.activity.resting.store(quiet, Ordering::Relaxed);
        match self.migrates() && self.is_anything_wanted(pulse) {
            true if !quiet => self.activity.shards.iter().for_each(ShardActivity::notify),
            true => {}
            false => self.schedule.trouble.lock().clear(),
        }
    }

    fn pm_used_percent(&self) -> f64 {
        used_percent(self.store.space.pm().blocks(), self.store.space.pm().free_blocks())
    }

    fn is_anything_wanted(&self, pulse: &Pulse) -> bool {
        let params = self.tuning.params();
        pulse.dataflow.under_way() != Flow::Balanced
            || write_migration_goes_on(
                self.pm_used_percent(),
                pulse.utilization.threshold_percent(&params),
            )
            || logs_leave(self.pm_used_percent(), &params)
            || self.full_tier().is_some()
            || self.activity.has_strays()
    }

    /// A tier of disks that moves data to the next: it is nearly full, and there is a next one
    /// which is not.
    fn full_tier(&self) -> Option<(u8, u8)> {
        let tiers: Vec<u8> = self.store.space.tiers().skip(1).collect();
        let moves = |pair: &&[u8]| self.is_full_tier(pair[0]) && !self.is_full_tier(pair[1]);
        tiers.windows(2).find(moves).map(|pair| (pair[0], pair[1]))
    }

    /// Whether a tier of disks is so full that data is to leave it.
    pub fn is_full_tier(&self, tier: u8) -> bool {
        let (blocks, free) = self.store.space.tier_space(tier);
        tier_is_full(blocks, free, &self.tuning.params())
    }

    /// The thread of a shard's mover.
    pub fn move_data(&self, shard: usize) {
        let mover = &self.activity.shards[shard];
        while !self.health.stopping.load(Ordering::Acquire) {
            {
                let mut work = mover.mover.rung.lock();
                // Whoever stops the movers does so before the lock and wakes them after it.
                while !*work && !self.health.stopping.load(Ordering::Acquire) {
                    mover.mover.wake.wait(&mut work);
                }
                *work = false;
            }
            while !self.health.stopping.load(Ordering::Acquire) {
                match self.migrate_some(shard) {
                    Round::Moved(bytes) => self.keep_pace(shard, bytes),
                    Round::Idle => {
                        mover.notified.store(false, Ordering::Relaxed);
                        break;
                    }
                    Round::Stuck(_) | Round::Failed { .. } => break,
                }
            }
        }
    }

    /// Does one piece of what is wanted.
    pub fn migrate_some(&self, shard: usize) -> Round {
        if !self.migrates() {
            return Round::Idle;
        }
        let _under_way = self.relocations.begin_after_seekers();
        let round = self.round(shard, || self.migrate_wanted(shard));
        if round.is_in_vain() {
            self.buffers.release();
        }
        round
    }

    /// A round of migration in a shard, and what is remembered of it.
    fn round(&self, shard: usize, work: impl FnOnce() -> FsResult<Round>) -> Round {
        let round = self.inodes.mutate(work);
        let round =
            round.unwrap_or_else(|error| Round::Failed { why: error.to_string(), is_final: true });
        self.note_round(shard, &round);
        round
    }

    /// Remembers why a mover does not get on, as long as that is so.
    fn note_round(&self, shard: usize, round: &Round) {
        let mut trouble = self.schedule.trouble.lock();
        match round {
            Round::Idle => drop(trouble.remove(&shard)),
            Round::Moved(_) => {
                trouble.get_mut(&shard).into_iter().for_each(|trouble| trouble.is_past = true);
            }
            Round::Stuck(why) | Round::Failed { why, .. } => {
                // The log says so once, however often it is so.
                if matches!(round, Round::Failed { .. })
                    && !trouble.values().any(|known| known.why == *why)
                {
                    tracing::warn!("migration waits: {why}");
                }
                trouble.insert(shard, Trouble { why: why.clone(), is_past: false });
            }
        }
    }

    /// Does what is wanted most and can be done: each kind has its turn when those before it have
    /// nothing to do.
    fn migrate_wanted(&self, shard: usize) -> FsResult<Round> {
        let params = self.tuning.params();
        let (threshold, flow) = {
            let pulse = self.schedule.pulse.lock();
            (pulse.utilization.threshold_percent(&params), pulse.dataflow.under_way())
        };
        let used = self.pm_used_percent();
        let mut round = self.bring_home(shard)?;
        if round.is_in_vain() && write_migration_goes_on(used, threshold) {
            round = round.or(self.migrate_cold(shard, 0, Counter::MigratedWrite)?);
        }
        if round.is_in_vain() && logs_leave(used, &params) {
            round = round.or(self.migrate_logs(shard, Pressure::Low)?);
        }
        if let (true, Some((tier, _))) = (round.is_in_vain(), self.full_tier()) {
            round = round.or(self.migrate_cold(shard, tier, Counter::MigratedDemoted)?);
        }
        Ok(match flow {
            Flow::FavoursPm if round.is_in_vain() => round.or(self.migrate_read_hot(shard)?),
            Flow::FavoursDram if round.is_in_vain() && used < threshold => {
                let room = (threshold - used) / 100.0 * self.store.space.pm().blocks() as f64;
                round.or(self.migrate_reverse(shard, room as u64 / self.store.shards() as u64)?)
            }
            _ => round,
        })
    }

    /// Called, without any lock, by those who are about to need room in PM for metadata.
    pub fn relieve_pm_if_low(&self) {
        if self.store.pm_is_low() {
            self.relieve_pm(false);
        }
    }

    /// Makes such room at once: nothing else does in time where files come faster than they grow
    /// cold. Whoever comes meanwhile waits for this one. Where it was in vain it rests, unless it
    /// is `urgent`. Read-only volumes are found out by who asked, who holds no lock.
    #[cold]
    pub fn relieve_pm(&self, urgent: bool) {
        let mut relief = self.schedule.relief.lock();
        let begun = Instant::now();
        let rests = !urgent && relief.rests_until.is_some_and(|until| begun < until);
        if !self.migrates() || rests {
            return;
        }
        let _under_way = self.relocations.begin();
        // What was removed makes room first.
        let _ = self.inodes.mutate(|| self.inodes.reclaim_if_any());
        let mut is_in_vain = true;
        for shard in (0..self.store.shards()).map(|n| (relief.next_shard + n) % self.store.shards())
        {
            while self.store.pm_is_low() {
                if self.round(shard, || self.give_way(shard)).is_in_vain() {
                    break;
                }
                is_in_vain = false;
            }
        }
        self.buffers.release();
        relief.next_shard = (relief.next_shard + 1) % self.store.shards();
        // It is to take no more than a tenth of the time then; nor is a disk that works again to
        // wait for long.
        let rest = (10 * begun.elapsed()).min(RELIEF_RESTS_MAX);
        relief.rests_until = (is_in_vain && self.store.pm_is_low()).then(|| Instant::now() + rest);
    }

    /// Files of a shard give room away: logs first, which are many to one flush, then data.
    fn give_way(&self, shard: usize) -> FsResult<Round> {
        let logs = self.migrate_logs(shard, Pressure::Highest)?;
        Ok(if logs.is_in_vain() {
            logs.or(self.migrate_cold(shard, 0, Counter::MigratedWrite)?)
        } else {
            logs
        })
    }

    /// Waits as long as the limit of migration asks for.
    fn keep_pace(&self, shard: usize, bytes: u64) {
        let rate = self.tuning.get(Param::MigrateRate);
        let pause = {
            let mut paced = self.schedule.pace.lock();
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
        let mover = &self.activity.shards[shard];
        let mut work = mover.mover.rung.lock();
        // Until then, or until the limit changes.
        while !self.health.stopping.load(Ordering::Acquire)
            && self.tuning.get(Param::MigrateRate) == rate
        {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            mover.mover.wake.wait_for(&mut work, left.min(TICK));
        }
    }

    /// Wakes everybody here, to end.
    pub fn stop_migration(&self) {
        self.activity.pulse.ring();
        self.activity.shards.iter().for_each(|shard| shard.mover.ring());
    }

    /// What migration is about.
    pub fn migration_status(&self) -> MigrationStatus {
        let params = self.tuning.params();
        let pulse = self.schedule.pulse.lock();
        let threshold_percent = pulse.utilization.threshold_percent(&params);
        let used = self.pm_used_percent();
        let state = match pulse.dataflow.under_way() {
            _ if !self.migrates() => "off",
            _ if write_migration_goes_on(used, threshold_percent) => {
                "write migration: PM is fuller than the threshold"
            }
            _ if logs_leave(used, &params) => "log migration: PM is fuller than its threshold",
            _ if self.activity.has_strays() => "pins: data waits for its tier",
            _ if self.full_tier().is_some() => "demotion: a disk tier is nearly full",
            Flow::FavoursPm => "read migration: reads lean towards PM",
            Flow::FavoursDram => "reverse migration: reads lean towards DRAM",
            Flow::Balanced => "idle",
        };
        let logs_only =
            !write_migration_goes_on(used, threshold_percent) && logs_leave(used, &params);
        let threshold_percent =
            if logs_only { params.get(Param::LogsAt) as f64 } else { threshold_percent };
        // Nobody has looked since, perhaps, if nothing is wanted any more.
        let is_wanted = self.migrates() && self.is_anything_wanted(&pulse);
        let trouble = self
            .schedule
            .trouble
            .lock()
            .values()
            .find(|trouble| is_wanted && !trouble.is_past)
            .map(|t| t.why.clone());
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
