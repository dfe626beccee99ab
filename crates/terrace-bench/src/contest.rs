//! A contest: baseline, ours, baseline, ours … in short rounds, so that a busy moment of the machine hits both sides
//! alike. Ratios are taken pair by pair within a round.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use terrace_fuse::{Message, MessageCounts, Mounted};
use terrace_media::Pm;

use crate::catalog::{Against, Baseline, Benchmark, is_selected};
use crate::interrupt;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::Stage;
use crate::workload::{BATCH_OPS, Workload};

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
    fn read(&self) -> Reading {
        let messages = self.messages.as_ref().map(|counts| counts.snapshot().without(Message::Forget));
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
    workload: Box<dyn Workload>,
    meter: Meter,
    /// Operations per second of each round.
    rates: Vec<f64>,
    total: Tally,
}

impl Side {
    fn new(name: String, workload: Result<Box<dyn Workload>>, meter: Meter) -> Result<Self> {
        let workload = workload.with_context(|| format!("preparing {name}"))?;
        Ok(Self { name, workload, meter, rates: Vec::new(), total: Tally::default() })
    }

    fn on_mount(name: String, benchmark: &Benchmark, stage: &Stage, mounted: &Mounted) -> Result<Self> {
        let meter = Meter { pm: None, messages: Some(mounted.shared_counts()) };
        Self::new(name, (benchmark.on_files)(mounted.mountpoint(), stage.sizes()), meter)
    }

    fn ours(benchmark: &Benchmark, stage: &Stage) -> Result<Self> {
        let name = "Terrace".to_owned();
        match (benchmark.on_volume, stage.mounts()) {
            (Some(on_volume), _) => {
                let meter = Meter { pm: Some(stage.pm().clone()), messages: None };
                Self::new(name, on_volume(stage.volume(), stage.sizes()), meter)
            }
            (None, Some(mounts)) => Self::on_mount(name, benchmark, stage, &mounts.ours),
            (None, None) => bail!("this benchmark runs neither in process nor on a mount"),
        }
    }

    fn baseline(baseline: Baseline, benchmark: &Benchmark, stage: &Stage) -> Result<Self> {
        let name = baseline.to_string();
        match (baseline, stage.mounts()) {
            (Baseline::Null, Some(mounts)) => Self::on_mount(name, benchmark, stage, &mounts.null),
            (Baseline::Null, None) => bail!("{name} is a baseline for mounts only"),
            (Baseline::Tmpfs, _) => {
                Self::new(name, (benchmark.on_files)(&stage.tmpfs(), stage.sizes()), Meter::default())
            }
        }
    }

    /// One round of about `time`; each operation must take `reads` READ messages, if given.
    fn round(&mut self, time: Duration, reads: Option<u64>) -> Result<()> {
        let mut round = Tally::default();
        while round.spent < time {
            interrupt::check()?;
            self.workload.prepare(BATCH_OPS)?;
            let before = self.meter.read();
            let start = Instant::now();
            self.workload.run(BATCH_OPS)?;
            let spent = start.elapsed();
            round.add(BATCH_OPS, spent, self.meter.read().since(before));
        }
        let (expected, came) = (reads.map(|reads| reads * round.ops), round.used.read_messages);
        if let Some(expected) = expected.filter(|&expected| self.meter.messages.is_some() && expected != came) {
            bail!(
                "{} operations took {came} READ messages instead of {expected}: the kernel's cache did not do what the \
                 row is about (is memory short?)",
                round.ops
            );
        }
        self.rates.push(round.ops as f64 / round.spent.as_secs_f64().max(1e-9));
        self.total.add(round.ops, round.spent, round.used);
        Ok(())
    }
}

/// Runs a benchmark and returns its selected rows.
///
/// # Errors
/// If an operation fails, if the kernel's cache interfered, or if the run is interrupted.
pub fn hold(benchmark: &Benchmark, stage: &Stage, options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let is_compared = |against: &&Against| is_selected(&benchmark.rate_row_name(against.baseline), options);
    let compared: Vec<&Against> = benchmark.against.iter().filter(is_compared).collect();
    let mut sides = Vec::new();
    for against in &compared {
        sides.push(Side::baseline(against.baseline, benchmark, stage)?);
    }
    // Between the baselines if there are two: so each of them runs right beside ours.
    let our_place = sides.len().min(1);
    sides.insert(our_place, Side::ours(benchmark, stage)?);
    for round in 1..=options.rounds {
        progress.round(round, options.rounds);
        for side in &mut sides {
            let run = side.round(Duration::from_secs_f64(options.seconds), benchmark.reads);
            run.with_context(|| format!("on {}", side.name))?;
        }
    }
    let ours = sides.remove(our_place);
    let rate_rows = compared.iter().zip(&sides).map(|(against, side)| rate_row(benchmark, against, &side.rates, &ours));
    let bytes_row = bytes_row(benchmark, &ours.total).filter(|row| is_selected(&row.name, options));
    Ok(rate_rows.chain(bytes_row).collect())
}

fn rate_row(benchmark: &Benchmark, against: &Against, baseline: &[f64], ours: &Side) -> Row {
    let ratios: Vec<f64> = ours.rates.iter().zip(baseline).map(|(ours, baseline)| ours / baseline).collect();
    let ratio = median(&ratios);
    let messages = ours.total.used.messages as f64 / ours.total.ops as f64;
    Row {
        name: benchmark.rate_row_name(against.baseline),
        unit: Unit::OpsPerSecond,
        baseline: median(baseline),
        ours: median(&ours.rates),
        ratio,
        ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        reach: against.reach,
        met: against.reach.map(|reach| ratio >= reach),
        note: benchmark.on_volume.is_none().then(|| format!("{messages:.2} messages")),
    }
}

/// Bytes that the program writes, as the baseline, and bytes stored to PM for them. The ratio is the share of payload,
/// so that here, too, more is better.
fn bytes_row(benchmark: &Benchmark, total: &Tally) -> Option<Row> {
    let payload = benchmark.payload_bytes? as f64;
    let stored = total.used.pm_bytes_stored as f64 / total.ops as f64;
    let ratio = payload / stored;
    Some(Row {
        name: benchmark.bytes_row_name(),
        unit: Unit::BytesPerOp,
        baseline: payload,
        ours: stored,
        ratio,
        ratio_min: ratio,
        ratio_max: ratio,
        reach: None,
        met: None,
        note: Some(format!("{:+.0} bytes", stored - payload)),
    })
}

/// The middle of an odd number of samples, the mean of the two middle ones otherwise; NaN of none.
fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => (sorted[len / 2 - 1] + sorted[len / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Idle;

    impl Workload for Idle {
        fn run(&mut self, _ops: u64) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn medians_lie_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let benchmark = &crate::catalog::CATALOG[0];
        let against = Against { baseline: Baseline::Tmpfs, reach: Some(0.9) };
        let mut ours = Side::new("ours".to_owned(), Ok(Box::new(Idle)), Meter::default()).unwrap();
        ours.rates = vec![80.0, 40.0, 90.0];
        // The machine was half as fast in the second round; the ratio does not show it.
        let row = rate_row(benchmark, &against, &[100.0, 50.0, 100.0], &ours);
        assert_eq!((row.baseline, row.ours, row.ratio, row.met), (100.0, 80.0, 0.8, Some(false)));
        assert_eq!((row.ratio_min, row.ratio_max), (0.8, 0.9));
    }

    #[test]
    fn bytes_are_the_share_of_payload() {
        let used = Reading { pm_bytes_stored: 2560, ..Reading::default() };
        let append = crate::catalog::CATALOG.iter().find(|benchmark| benchmark.payload_bytes == Some(128)).unwrap();
        let row = bytes_row(append, &Tally { ops: 10, used, ..Tally::default() }).unwrap();
        assert_eq!((row.baseline, row.ours, row.ratio), (128.0, 256.0, 0.5));
    }
}
