//! `terrace simulate`

use std::fs::{self, File};
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use terrace_media::DeviceModel;
use terrace_policy::OutOfRange;
use terrace_simulate::{Calibration, Check, Config, Costs, Fit, Outcome, Prices, Replay};
use terrace_trace::{Ending, Reader, Record, Summary};

use crate::cli::measure::{SimulateArgs, ThresholdValues, WearValues};
use crate::exit::Usage;
use crate::output;
use crate::progress::Progress;
use crate::report::whatif::{self, Row, Settings, Trace};

/// More would take hours to run and nobody reads so long a table.
const CHOICES_MAX: usize = 1000;
/// How large PM is by default, as parts of its present size.
const PM_PARTS: [(u64, u64); 5] = [(1, 4), (1, 2), (1, 1), (2, 1), (4, 1)];

/// A volume to try, and in which thresholds it differs from the default.
#[derive(Clone, Debug)]
struct Choice {
    config: Config,
    settings: Settings,
}

/// What came of one pass through the trace.
#[derive(Clone, Debug)]
struct Pass {
    outcome: Outcome,
    summary: Summary,
    last_us: u64,
}

/// Replays a trace on each of the volumes asked for, and compares them.
pub fn run(args: &SimulateArgs, quiet: bool) -> Result<()> {
    let prices = args.prices.as_deref().map_or_else(|| Ok(Prices::default()), read_prices)?;
    let facts = open(&args.trace)?.facts().clone();
    let disk: DeviceModel = args.disk.parse()?;
    let (costs, fit) = learn(args, disk)?;
    let recorded = Config::new(&facts, disk);
    let recorded = Config { costs: costs.unwrap_or(recorded.costs), ..recorded };
    let choices = choices(args, recorded)?;
    let passes = simulate(&args.trace, &choices, quiet)?;
    let Some(first) = passes.first().filter(|pass| pass.summary.records > 0) else {
        bail!("{}: nothing was recorded: there is nothing to compare", args.trace.display());
    };
    let trace = Trace {
        path: args.trace.to_string_lossy().into_owned(),
        operations: first.summary.records,
        lost: first.summary.lost,
        torn: first.summary.ending == Ending::Torn,
        duration_us: first.last_us,
        disk: args.disk.clone(),
        disk_bytes: facts.disk_bytes(),
        fit,
        costs: whatif::costs(costs.as_ref()),
    };
    let row = |(choice, pass): (Choice, &Pass)| {
        let (pm_bytes, cache_bytes) = (choice.config.pm_bytes, choice.config.cache_bytes);
        let cost_usd = prices.of(pm_bytes, cache_bytes, &args.disk, facts.disk_bytes());
        let outcome = pass.outcome.clone();
        Row::new(pm_bytes, cache_bytes, choice.settings, cost_usd, outcome, pass.last_us)
    };
    let rows: Vec<Row> = choices.into_iter().zip(&passes).map(row).collect();
    if args.json {
        output::print_json(&whatif::json(&trace, &rows))
    } else {
        output::print(&whatif::text(&trace, &rows))
    }
}

fn open(path: &Path) -> Result<Reader<File>> {
    let about = || path.display().to_string();
    let file = File::open(path).with_context(about)?;
    if !file.metadata().with_context(about)?.is_file() {
        bail!("{}: is no regular file; a trace is read several times", path.display());
    }
    Reader::new(file).with_context(about)
}

fn read_prices(path: &Path) -> Result<Prices> {
    let about = || path.display().to_string();
    Prices::parse(&fs::read_to_string(path).with_context(about)?).with_context(about)
}

/// What the engine costs, as the traces have it, and how well that fits the first of them; `None`
/// if none says how long operations took.
fn learn(args: &SimulateArgs, disk: DeviceModel) -> Result<(Option<Costs>, Option<Fit>)> {
    let mut known = Vec::new();
    for path in std::iter::once(&args.trace).chain(&args.costs) {
        let mut calibration = Calibration::new(Config::new(open(path)?.facts(), disk));
        for_each_record(path, &|_| {}, |record| calibration.push(record))?;
        let costs = calibration.finish();
        if path != &args.trace && costs.iter().all(Option::is_none) {
            bail!("{}: does not say how long operations took: record it again", path.display());
        }
        known.push(costs);
    }
    if known.iter().flatten().all(Option::is_none) {
        return Ok((None, None));
    }
    let costs = Costs::learnt(&known);
    let recorded = Config::new(open(&args.trace)?.facts(), disk);
    let mut check = Check::new(Config { costs, ..recorded });
    for_each_record(&args.trace, &|_| {}, |record| check.push(record))?;
    let fit = check.finish();
    Ok((Some(costs), Some(fit).filter(|fit| fit.ratio().is_some())))
}

/// Every combination of PM, page cache and thresholds.
fn choices(args: &SimulateArgs, recorded: Config) -> Result<Vec<Choice>> {
    let pm_sizes = match &args.pm[..] {
        [] => PM_PARTS.iter().map(|(times, part)| recorded.pm_bytes / part * times).collect(),
        sizes => sizes.to_vec(),
    };
    let cache_sizes =
        if args.cache.is_empty() { vec![recorded.cache_bytes] } else { args.cache.clone() };
    let mut choices = Vec::new();
    for &pm_bytes in &pm_sizes {
        for &cache_bytes in &cache_sizes {
            let config = Config { pm_bytes, cache_bytes, ..recorded.clone() };
            choices.push(Choice { config, settings: Settings::default() });
        }
    }
    for ThresholdValues { param, values } in &args.settings {
        let name = param.tunable().name;
        let set = |config: &mut Config, value| config.params.set(*param, value);
        choices = multiplied(choices, (name, "--set"), values, set)?;
    }
    for WearValues { device, values } in &args.wear {
        let name = ["wear_pm", "wear_disk"][*device];
        let set = |config: &mut Config, value| {
            config.wear[*device] = value;
            Ok(())
        };
        choices = multiplied(choices, (name, "--wear"), values, set)?;
    }
    if choices.len() > CHOICES_MAX {
        return Err(Usage::error(format!(
            "these are more than {CHOICES_MAX} combinations; try fewer at a time"
        )));
    }
    Ok(choices)
}

/// Each of the choices with each of the values of a setting.
fn multiplied(
    choices: Vec<Choice>,
    (name, option): (&'static str, &str),
    values: &[u64],
    set: impl Fn(&mut Config, u64) -> Result<(), OutOfRange>,
) -> Result<Vec<Choice>> {
    if choices.iter().any(|choice| choice.settings.contains_key(name)) {
        return Err(Usage::error(format!(
            "{name} is set twice; give its values once, separated by commas, with {option}"
        )));
    }
    if choices.len() > CHOICES_MAX {
        return Ok(choices);
    }
    let with = |choice: &Choice, &value: &u64| {
        let mut choice = choice.clone();
        set(&mut choice.config, value)?;
        choice.settings.insert(name, value);
        Ok(choice)
    };
    choices.iter().flat_map(|choice| values.iter().map(move |value| with(choice, value))).collect()
}

/// Passes through the trace once for each choice, as many at a time as there are processors.
fn simulate(path: &Path, choices: &[Choice], quiet: bool) -> Result<Vec<Pass>> {
    let (progress, done_bytes, next) =
        (Progress::new(quiet), AtomicU64::new(0), AtomicUsize::new(0));
    let total_bytes = fs::metadata(path)?.len() * choices.len() as u64;
    let advance = |bytes: u64| {
        let done = done_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        progress.update("simulating", done.min(total_bytes), total_bytes);
    };
    let passes: Vec<Mutex<Option<Result<Pass>>>> =
        choices.iter().map(|_| Mutex::default()).collect();
    let work = || {
        while let Some(at) =
            Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&at| at < choices.len())
        {
            let pass = pass(path, &choices[at].config, &advance);
            *passes[at].lock().unwrap_or_else(|e| e.into_inner()) = Some(pass);
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(choices.len());
    thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let passed = |slot: Mutex<Option<Result<Pass>>>| {
        slot.into_inner()
            .unwrap_or_else(|e| e.into_inner())
            .context("a thread of the simulation has ended early")?
    };
    passes.into_iter().map(passed).collect()
}

fn pass(path: &Path, config: &Config, advance: &dyn Fn(u64)) -> Result<Pass> {
    let (mut replay, mut last_us) = (Replay::new(config.clone()), 0);
    let summary = for_each_record(path, advance, |record| {
        last_us = record.time_us;
        replay.push(record, &mut |_| {});
    })?;
    replay.finish(&mut |_| {});
    Ok(Pass { outcome: replay.outcome(), summary, last_us })
}

/// Reads a trace once; `advance` is told of bytes that were read.
fn for_each_record(
    path: &Path,
    advance: &dyn Fn(u64),
    mut visit: impl FnMut(&Record),
) -> Result<Summary> {
    let (mut reader, mut records) = (open(path)?, Vec::new());
    loop {
        let before_bytes = reader.summary().whole_bytes;
        let goes_on =
            reader.next_block(&mut records).with_context(|| path.display().to_string())?;
        records.iter().for_each(&mut visit);
        advance(reader.summary().whole_bytes - before_bytes);
        if !goes_on {
            return Ok(reader.summary());
        }
    }
}
