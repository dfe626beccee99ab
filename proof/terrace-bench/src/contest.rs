//! A contest: baseline, ours, baseline, ours … in short rounds, so that a busy moment of the
//! machine hits both sides alike. Ratios are taken pair by pair within a round.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use terrace_fuse::{Message, MessageCounts};
use terrace_media::Pm;

use crate::benchmark::{Against, Contest, How};
use crate::ground::Ground;
use crate::group::Group;
use crate::interrupt;
use crate::median::median;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::{Site, Stage, small_pm_bytes};
use crate::workload::Workload;

/// Tries at a round, of which each but the last may be disturbed.
const ROUND_TRIES: u32 = 3;
/// What processes need for themselves may be more by one part in so many in a later round.
const NEED_SLACK: u64 = 8;

/// Something else on the machine changed what a row is about. The row can then not be measured;
/// nothing else is wrong.
#[derive(Debug, thiserror::Error)]
#[error("disturbed: {0}; repeat it on a quiet machine with memory to spare")]
pub struct Disturbed(String);

/// Repeats what was disturbed.
///
/// # Errors
/// The last [`Disturbed`], or at once any other error of `attempt`.
fn undisturbed<T>(tries: u32, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..tries {
        match attempt() {
            Err(error) if error.is::<Disturbed>() => {}
            result => return result,
        }
    }
    attempt()
}

/// Counters behind one side.
#[derive(Default)]
struct Meter {
    pm: Option<Arc<Pm>>,
    messages: Option<Arc<MessageCounts>>,
}

/// What the counters of one side say, or what was added to them.
#[derive(Clone, Copy, Default)]
struct Reading {
    pm_bytes_stored: u64,
    /// FUSE messages but FORGET, for which nobody waits.
    messages: u64,
    read_messages: u64,
}

impl Meter {
    fn of(site: &Site) -> Self {
        Self {
            pm: site.pm().cloned(),
            messages: site.fuse().map(|mounted| mounted.shared_counts()),
        }
    }

    fn read(&self) -> Reading {
        let messages =
            self.messages.as_ref().map(|counts| counts.snapshot().without(Message::Forget));
        Reading {
            pm_bytes_stored: self.pm.as_ref().map_or(0, |pm| pm.stats().bytes_stored),
            messages: messages.map_or(0, |messages| messages.total()),
            read_messages: messages.map_or(0, |messages| messages.of(Message::Read)),
        }
    }
}

/// Operations done and what they took.
#[derive(Clone, Copy, Default)]
struct Tally {
    ops: u64,
    spent: Duration,
    used: Reading,
}

impl Reading {
    fn since(self, earlier: Reading) -> Reading {
        Reading {
            pm_bytes_stored: self.pm_bytes_stored - earlier.pm_bytes_stored,
            messages: self.messages - earlier.messages,
            read_messages: self.read_messages - earlier.read_messages,
        }
    }
}

impl Tally {
    fn add(&mut self, ops: u64, spent: Duration, used: Reading) {
        self.ops += ops;
        self.spent += spent;
        self.used.pm_bytes_stored += used.pm_bytes_stored;
        self.used.messages += used.messages;
        self.used.read_messages += used.read_messages;
    }
}

/// One side, ready to run, and what its rounds gave.
struct Side {
    name: String,
    ground: Ground,
    workload: Box<dyn Workload>,
    meter: Meter,
    /// Operations per second of each round.
    rates: Vec<f64>,
    total: Tally,
}

impl Side {
    fn new(name: &str, ground: Ground, how: How, stage: &Stage) -> Result<Self> {
        let site = stage.site(ground)?;
        let workload = match how {
            How::Files(on_files) => on_files(site.directory(), stage.sizes()),
            How::Volume(on_volume) => on_volume(
                site.volume().with_context(|| format!("{ground} has no volume"))?,
                stage.sizes(),
            ),
        };
        let workload = workload.with_context(|| format!("preparing {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            ground,
            workload,
            meter: Meter::of(site),
            rates: Vec::new(),
            total: Tally::default(),
        })
    }

    /// One round of about `time`; it counts only if caches did what the contest is about.
    fn round(&mut self, time: Duration, contest: &Contest, stage: &Stage) -> Result<()> {
        let round = undisturbed(ROUND_TRIES, || self.attempt(time, contest, stage))?;
        self.rates.push(round.ops as f64 / round.spent.as_secs_f64().max(1e-9));
        self.total.add(round.ops, round.spent, round.used);
        Ok(())
    }

    fn attempt(&mut self, time: Duration, contest: &Contest, stage: &Stage) -> Result<Tally> {
        let mut round = Tally::default();
        let site = stage.site(self.ground)?;
        let disk_before = site.disk_bytes_read();
        while round.spent < time {
            interrupt::check()?;
            let ops = self.workload.batch_ops();
            self.workload.prepare(ops)?;
            let before = self.meter.read();
            let start = Instant::now();
            self.workload.run(ops)?;
            let spent = start.elapsed();
            let used = self.meter.read().since(before);
            round.add(ops, self.workload.spent().unwrap_or(spent), used);
        }
        if let (Some(cold_bytes), Some(before), Some(after)) =
            (contest.cold_bytes, disk_before, site.disk_bytes_read())
        {
            check_cold(round.ops * cold_bytes, after - before)?;
        }
        if let (Some(reads), true) = (contest.reads, self.meter.messages.is_some()) {
            check_messages(round.ops, reads * round.ops, round.used.read_messages)?;
        }
        Ok(round)
    }
}

/// A cold read comes from the disk.
fn check_cold(asked: u64, came: u64) -> Result<(), Disturbed> {
    if came >= asked / 10 * 9 {
        return Ok(());
    }
    Err(Disturbed(format!("of {asked} bytes only {came} came from the disk, a cache had the rest")))
}

/// The kernel's cache serves all reads, or none.
fn check_messages(ops: u64, expected: u64, came: u64) -> Result<(), Disturbed> {
    if came == expected {
        return Ok(());
    }
    Err(Disturbed(format!(
        "the kernel's cache had {ops} operations take {came} READ messages instead of {expected}"
    )))
}

/// Runs a contest and returns its selected rows.
///
/// # Errors
/// If an operation fails or the run is interrupted; [`Disturbed`] if caches did something else in
/// each try.
pub fn hold(
    contest: &Contest,
    stage: &mut Stage,
    options: &Options,
    progress: &Progress,
) -> Result<Vec<Row>> {
    // The row against the slowest needs them all.
    let all = contest.slowest_reach.is_some() && options.selects(&contest.slowest_row_name());
    let is_compared = |against: &&Against| all || options.selects(&contest.rate_row_name(against));
    let compared: Vec<&Against> = contest.against.iter().filter(is_compared).collect();
    // PM has been touched by now. Sides are dropped before it.
    let group = contest.little_memory.then(Group::enter).transpose()?;
    let mut sides = Vec::new();
    for against in &compared {
        sides.push(Side::new(against.name, against.ground, against.how, stage)?);
    }
    // Between the first two baselines if there are as many: so each of them runs right beside ours.
    let our_place = sides.len().min(1);
    sides.insert(our_place, Side::new("Terrace", contest.ground, contest.how, stage)?);
    let limit = group.as_ref().map(|group| bound(group, &mut sides, contest, stage, options));
    let limit = limit.transpose()?;
    let rounds = options.rounds.min(contest.rounds_max);
    for round in 1..=rounds {
        progress.round(round, rounds);
        for side in &mut sides {
            let run = side.round(Duration::from_secs_f64(options.seconds), contest, stage);
            run.with_context(|| format!("on {}", side.name))?;
        }
        if let Some(probe) = stage.probe() {
            probe.measure()?;
        }
    }
    let ours = sides.remove(our_place);
    let fdatasync_us = stage.probe().and_then(|probe| probe.fdatasync_us());
    let rated = |name, baseline: &[f64], reach| {
        rate_row(name, contest, &ours, baseline, reach, fdatasync_us)
    };
    let mut rows: Vec<Row> = (compared.iter().zip(&sides))
        .map(|(against, side)| rated(contest.rate_row_name(against), &side.rates, against.reach))
        .collect();
    if let Some(reach) = contest.slowest_reach {
        rows.push(rated(contest.slowest_row_name(), &slowest(&sides), Some(reach)));
    }
    rows.extend(bytes_row(contest, &ours.total));
    if let Some(bytes) = limit {
        let limited = |note| format!("{note}, {} MiB of memory", bytes >> 20);
        rows.iter_mut().for_each(|row| row.note = row.note.take().map(limited));
    }
    rows.retain(|row| options.selects(&row.name));
    Ok(rows)
}

/// Bounds the memory of all sides to what they need, and as much as a small PM for what is cached;
/// returns the bound. What they need is seen in a round of each that does not count.
fn bound(
    group: &Group,
    sides: &mut [Side],
    contest: &Contest,
    stage: &Stage,
    options: &Options,
) -> Result<u64> {
    let time = Duration::from_secs_f64(options.seconds);
    let need_bytes = group.need_during(|| {
        let mut try_it = |side: &mut Side| side.attempt(time, contest, stage).map(drop);
        sides.iter_mut().try_for_each(&mut try_it)
    })?;
    // Caches of volumes are among what is needed.
    let sizes = stage.sizes();
    let cached_bytes = small_pm_bytes(sizes).saturating_sub(sizes.cache_bytes);
    let bytes = need_bytes + need_bytes / NEED_SLACK + cached_bytes;
    group.limit(bytes)?;
    Ok(bytes)
}

/// The lowest rate of all sides in each round.
fn slowest(sides: &[Side]) -> Vec<f64> {
    let rounds = sides.iter().map(|side| side.rates.len()).min().unwrap_or(0);
    (0..rounds)
        .map(|round| sides.iter().map(|side| side.rates[round]).fold(f64::INFINITY, f64::min))
        .collect()
}

fn rate_row(
    name: String,
    contest: &Contest,
    ours: &Side,
    baseline: &[f64],
    reach: Option<f64>,
    fdatasync_us: Option<f64>,
) -> Row {
    let ratios: Vec<f64> =
        ours.rates.iter().zip(baseline).map(|(ours, baseline)| ours / baseline).collect();
    let ratio = median(&ratios);
    let messages = ours.total.used.messages as f64 / ours.total.ops as f64;
    Row {
        ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        fdatasync_us,
        note: match ours.meter.messages {
            Some(_) => Some(format!("{messages:.2} messages")),
            None => ours.workload.note(),
        },
        ..Row::new(name, contest.unit, median(baseline), median(&ours.rates), ratio, reach)
    }
}

/// Bytes that the program writes, as the baseline, and bytes stored to PM for them. The ratio is
/// the share of payload, so that here, too, more is better.
fn bytes_row(contest: &Contest, total: &Tally) -> Option<Row> {
    let (payload_bytes, stored_bytes_max) = contest.payload?;
    let payload = payload_bytes as f64;
    let stored = total.used.pm_bytes_stored as f64 / total.ops as f64;
    let reach = stored_bytes_max.map(|stored_bytes_max| payload / stored_bytes_max as f64);
    Some(Row {
        note: Some(format!("{:+.0} bytes", stored - payload)),
        ..Row::new(
            contest.bytes_row_name(),
            Unit::BytesPerOp,
            payload,
            stored,
            payload / stored,
            reach,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::benchmark::Benchmark;
    use crate::catalog;

    struct Idle;

    impl Workload for Idle {
        fn run(&mut self, _ops: u64) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disturbed_round_is_repeated_and_given_up_in_the_end() {
        let disturbed = || -> Result<u32> { Ok(check_messages(483_008, 0, 20).map(|()| 0)?) };
        let mut tries = 0;
        let quiet_at_last = undisturbed(3, || {
            tries += 1;
            if tries < 3 { disturbed() } else { Ok(tries) }
        });
        assert_eq!(quiet_at_last.unwrap(), 3);

        let mut tries = 0;
        let never_quiet = undisturbed(3, || {
            tries += 1;
            disturbed()
        });
        let error = never_quiet.context("on Terrace").unwrap_err();
        assert!(tries == 3 && error.is::<Disturbed>(), "{tries} tries: {error:#}");
        assert!(format!("{error:#}").contains("20 READ messages instead of 0"), "{error:#}");

        let mut tries = 0;
        let broken = undisturbed(3, || -> Result<()> {
            tries += 1;
            anyhow::bail!("broken")
        });
        assert!(tries == 1 && !broken.unwrap_err().is::<Disturbed>());
    }

    #[test]
    fn caches_are_seen_to_disturb() {
        assert!(check_messages(100, 100, 100).is_ok() && check_messages(100, 100, 99).is_err());
        assert!(check_cold(100, 90).is_ok() && check_cold(100, 89).is_err());
    }

    fn side(rates: &[f64]) -> Side {
        let (name, meter) = ("side".to_owned(), Meter::default());
        Side {
            name,
            ground: Ground::Engine,
            workload: Box::new(Idle),
            meter,
            rates: rates.to_vec(),
            total: Tally::default(),
        }
    }

    fn contest(title: &str) -> Contest {
        let found = catalog::all().find_map(|benchmark| match benchmark {
            Benchmark::Contest(contest) if contest.title() == title => Some(*contest),
            _ => None,
        });
        found.unwrap()
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let contest = contest("engine: 4 KiB random read");
        // The machine was half as fast in the second round; the ratio does not show it.
        let ours = side(&[80.0, 40.0, 90.0]);
        let row =
            rate_row("row".to_owned(), &contest, &ours, &[100.0, 50.0, 100.0], Some(0.9), None);
        assert_eq!(
            (row.baseline, row.ours, row.ratio, row.met),
            (Some(100.0), 80.0, Some(0.8), Some(false))
        );
        assert_eq!((row.ratio_min, row.ratio_max), (0.8, 0.9));
    }

    #[test]
    fn the_slowest_baseline_is_found_round_by_round() {
        assert_eq!(slowest(&[side(&[3.0, 1.0]), side(&[2.0, 5.0])]), [2.0, 1.0]);
    }

    #[test]
    fn bytes_are_the_share_of_payload() {
        let used = Reading { pm_bytes_stored: 2560, ..Reading::default() };
        let append = contest("engine: 128-byte durable append");
        let row = bytes_row(&append, &Tally { ops: 10, used, ..Tally::default() }).unwrap();
        assert_eq!(
            (row.baseline, row.ours, row.ratio, row.met),
            (Some(128.0), 256.0, Some(0.5), Some(true))
        );
    }
}
