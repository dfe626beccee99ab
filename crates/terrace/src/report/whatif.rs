//! Simulated volumes beside each other, and which of them is enough.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use terrace_engine::counted;
use terrace_simulate::{Advice, Cost, Costs, Fit, GOOD_ENOUGH_PERCENT, Outcome, Work, advice};

use super::{Table, line};
use crate::size::format_size;

/// Microseconds of a day.
const DAY_US: f64 = 86_400e6;

/// Thresholds and budgets that were set, by name.
pub type Settings = BTreeMap<&'static str, u64>;

/// The trace that was replayed.
#[derive(Clone, Debug, Serialize)]
pub struct Trace {
    /// Its file.
    pub path: String,
    /// Operations in it.
    pub operations: u64,
    /// Operations that were not recorded.
    pub lost: u64,
    /// It has no end: its writer was killed.
    pub torn: bool,
    /// From the start of the recording to the last operation.
    pub duration_us: u64,
    /// The model of the disks.
    pub disk: String,
    /// Their size together.
    pub disk_bytes: u64,
    /// How well the volume that was recorded is predicted, if the trace says how long operations
    /// took.
    pub fit: Option<Fit>,
    /// What the engine was found to cost; empty if no trace says it.
    pub costs: Vec<WorkCost>,
}

/// What a kind of work costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct WorkCost {
    work: Work,
    #[serde(flatten)]
    cost: Cost,
}

/// Costs that were learnt, by the kind of work.
pub fn costs(costs: Option<&Costs>) -> Vec<WorkCost> {
    match costs {
        Some(Costs::Measured(costs)) => {
            Work::ALL.into_iter().zip(*costs).map(|(work, cost)| WorkCost { work, cost }).collect()
        }
        _ => Vec::new(),
    }
}

/// A simulated volume.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pm_bytes: u64,
    cache_bytes: u64,
    settings: Settings,
    cost_usd: f64,
    slowdown: f64,
    /// Bytes of file data written to PM and to the disks, per day.
    pm_bytes_per_day: u64,
    disk_bytes_per_day: u64,
    #[serde(flatten)]
    outcome: Outcome,
}

impl Row {
    /// What came of a volume of these sizes with a trace of this duration.
    pub fn new(
        pm_bytes: u64,
        cache_bytes: u64,
        settings: Settings,
        cost_usd: f64,
        outcome: Outcome,
        duration_us: u64,
    ) -> Self {
        let per_day = |bytes: u64| (bytes as f64 * DAY_US / duration_us.max(1) as f64) as u64;
        Self {
            pm_bytes,
            cache_bytes,
            settings,
            cost_usd,
            slowdown: outcome.slowdown(),
            pm_bytes_per_day: per_day(outcome.pm_device_bytes()),
            disk_bytes_per_day: per_day(outcome.disk_device_bytes()),
            outcome,
        }
    }

    /// What tells it from the others.
    fn name(&self) -> String {
        let settings = settings(&self.settings);
        let separator = if settings.is_empty() { "" } else { ", " };
        format!(
            "{} of PM, {} of page cache{separator}{settings}",
            format_size(self.pm_bytes),
            format_size(self.cache_bytes)
        )
    }
}

fn settings(settings: &Settings) -> String {
    let part = |(name, value): (&&str, &u64)| match value {
        // No threshold begins like that.
        0 if name.starts_with("wear_") => format!("{name}=off"),
        _ => format!("{name}={value}"),
    };
    settings.iter().map(part).collect::<Vec<_>>().join(" ")
}

#[derive(Debug, Serialize)]
struct Whole<'a> {
    trace: &'a Trace,
    results: &'a [Row],
    /// Index of the fastest.
    best: Option<usize>,
    /// Index of the one with the least PM that is about as fast.
    enough: Option<usize>,
}

fn advice_of(rows: &[Row]) -> Option<Advice> {
    advice(&rows.iter().map(|row| (row.pm_bytes, row.outcome.io_ns)).collect::<Vec<_>>())
}

/// All of it, for programs.
pub fn json<'a>(trace: &'a Trace, results: &'a [Row]) -> impl Serialize + use<'a> {
    let advice = advice_of(results);
    Whole { trace, results, best: advice.map(|a| a.best), enough: advice.map(|a| a.enough) }
}

/// All of it, for people.
pub fn text(trace: &Trace, rows: &[Row]) -> String {
    let mut text = head(trace);
    text += &table(rows);
    if let Some(Advice { best, enough }) = advice_of(rows) {
        text += "\n";
        text += &match best == enough {
            true => {
                format!(
                    "enough: {}: nothing smaller comes within {GOOD_ENOUGH_PERCENT} % of it\n",
                    rows[best].name()
                )
            }
            false => format!(
                "enough: {}: {:.1} % slower than the best, {}\n",
                rows[enough].name(),
                (rows[enough].outcome.io_ns as f64 / rows[best].outcome.io_ns.max(1) as f64 - 1.0)
                    * 100.0,
                rows[best].name()
            ),
        };
    }
    text
}

fn head(trace: &Trace) -> String {
    let Trace { path, operations, lost, torn, duration_us, disk, disk_bytes, fit, costs } = trace;
    let mut text = line(&format!(
        "{path}: {} in {}; disk: {disk}, {}",
        counted(*operations, "operation", "operations"),
        seconds(duration_us * 1000),
        format_size(*disk_bytes)
    ));
    if let Some((fit, ratio)) = fit.and_then(|fit| Some((fit, fit.ratio()?))) {
        let _ = writeln!(
            text,
            "half of the operations: {} as measured, {} as predicted for the volume that was \
             recorded ({ratio:.2})",
            seconds(fit.measured_ns),
            seconds(fit.predicted_ns)
        );
    }
    if costs.is_empty() {
        text +=
            "the trace does not say how long operations took: times are those of devices alone\n";
    }
    if *lost > 0 {
        let lost = counted(*lost, "operation was", "operations were");
        let _ = writeln!(
            text,
            "{lost} lost when it was recorded: the volume did more than is counted here"
        );
    }
    if *torn {
        text += "it has no end: its writer was killed, or its disk was full\n";
    }
    text + "\n"
}

fn table(rows: &[Row]) -> String {
    let set = if rows.iter().all(|row| row.settings.is_empty()) { "" } else { "SET" };
    let mut table = Table::new(&[
        ">PM",
        ">CACHE",
        set,
        ">READ PM",
        ">CACHE",
        ">DISK",
        ">WRITE PM",
        ">TO DISK",
        ">MOVED DOWN",
        ">TO DRAM",
        ">BACK UP",
        ">PM/DAY",
        ">DISK/DAY",
        ">STALLS",
        ">RIGHT",
        ">I/O TIME",
        ">× ALL PM",
        ">COST",
    ]);
    for row in rows {
        let outcome = &row.outcome;
        let read = |bytes| share(bytes, outcome.read_bytes());
        table.row([
            format_size(row.pm_bytes),
            format_size(row.cache_bytes),
            settings(&row.settings),
            read(outcome.read_pm_bytes),
            read(outcome.read_cache_bytes),
            read(outcome.read_disk_bytes),
            share(outcome.written_pm_bytes, outcome.written_bytes()),
            format_size(outcome.written_back_bytes),
            format_size(outcome.migrated_write_bytes),
            format_size(outcome.migrated_read_bytes),
            format_size(outcome.migrated_reverse_bytes),
            format_size(row.pm_bytes_per_day),
            format_size(row.disk_bytes_per_day),
            outcome.stalls.to_string(),
            outcome.hindsight.right_share().map_or_else(|| "-".to_owned(), percent),
            seconds(outcome.io_ns),
            format!("{:.2}", row.slowdown),
            format!("${:.2}", row.cost_usd),
        ]);
    }
    table.to_text()
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn seconds(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    let decimals = match seconds {
        s if s < 10.0 => 3,
        s if s < 1000.0 => 1,
        _ => 0,
    };
    format!("{seconds:.decimals$} s")
}

#[cfg(test)]
mod tests {
    use terrace_simulate::Hindsight;

    use super::*;

    fn row(pm_bytes: u64, io_ns: u64, settings: &[(&'static str, u64)]) -> Row {
        let outcome = Outcome {
            read_pm_bytes: 750,
            read_disk_bytes: 250,
            written_pm_bytes: 10,
            migrated_write_bytes: 1 << 20,
            hindsight: Hindsight {
                pm_right_bytes: 900,
                past_wrong_bytes: 23,
                ..Hindsight::default()
            },
            io_ns,
            all_pm_ns: 1_000_000_000,
            ..Outcome::default()
        };
        let settings = settings.iter().copied().collect();
        Row::new(pm_bytes, 256 << 20, settings, 12.345, outcome, 43_200_000_000)
    }

    fn trace() -> Trace {
        Trace {
            path: "day.trace".into(),
            operations: 1234,
            lost: 0,
            torn: false,
            duration_us: 90_000_000,
            disk: "hdd".into(),
            disk_bytes: 1 << 40,
            fit: None,
            costs: Vec::new(),
        }
    }

    #[test]
    fn volumes_stand_in_a_table_and_the_smallest_good_one_is_named() {
        let rows = [
            row(1 << 30, 1_600_000_000, &[]),
            row(2 << 30, 1_030_000_000, &[]),
            row(4 << 30, 1_000_000_000, &[]),
        ];
        let text = text(&trace(), &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "day.trace: 1234 operations in 90.0 s; disk: hdd, 1 TiB");
        assert!(lines[1].contains("times are those of devices alone"), "{text}");
        assert!(lines[3].contains("READ PM") && !lines[3].contains("SET"), "{text}");
        for part in [
            "1 GiB", "75.0 %", "25.0 %", "100.0 %", "1 MiB", "20 B", "2 MiB", "1.600 s", "1.60",
            "97.5 %", "$12.35",
        ] {
            assert!(lines[4].contains(part), "{part}: {text}");
        }
        let last = "enough: 2 GiB of PM, 256 MiB of page cache: 3.0 % slower than the best, 4 \
                    GiB of PM, 256 MiB of page cache";
        assert_eq!(*lines.last().unwrap(), last);
    }

    #[test]
    fn what_was_predicted_stands_beside_what_was_measured() {
        let known = Costs::Measured([Cost { each_ns: 5, byte_ps: 7 }; Work::ALL.len()]);
        let fit = Fit { measured_ns: 2_000_000_000, predicted_ns: 1_800_000_000 };
        let trace = Trace { fit: Some(fit), costs: costs(Some(&known)), ..trace() };
        let rows = [row(1 << 30, 100, &[])];
        let text = text(&trace, &rows);
        let line = "half of the operations: 2.000 s as measured, 1.800 s as predicted for the \
                    volume that was recorded (0.90)";
        assert_eq!(text.lines().nth(1), Some(line));
        let json = serde_json::to_value(json(&trace, &rows)).unwrap();
        assert_eq!(json["trace"]["fit"]["measured_ns"], 2_000_000_000u64);
        let first = serde_json::json!({"work": "create", "each_ns": 5, "byte_ps": 7});
        assert_eq!(json["trace"]["costs"][0], first);
    }

    #[test]
    fn settings_are_named_and_losses_too() {
        let rows = [row(1 << 30, 100, &[("group", 65_536), ("cold_age", 5)])];
        let text = text(&Trace { lost: 7, torn: true, ..trace() }, &rows);
        assert!(text.contains("SET") && text.contains("cold_age=5 group=65536"), "{text}");
        assert!(
            text.contains("7 operations were lost") && text.contains("it has no end"),
            "{text}"
        );
        assert!(
            text.ends_with("cold_age=5 group=65536: nothing smaller comes within 5 % of it\n"),
            "{text}"
        );
    }

    #[test]
    fn json_has_every_number() {
        let rows =
            [row(1 << 30, 1_600_000_000, &[("group", 65_536)]), row(4 << 30, 1_000_000_000, &[])];
        let json = serde_json::to_value(json(&trace(), &rows)).unwrap();
        assert_eq!(
            (&json["trace"]["operations"], &json["best"], &json["enough"]),
            (&1234.into(), &1.into(), &1.into())
        );
        let first = &json["results"][0];
        assert_eq!(
            (&first["pm_bytes"], &first["settings"]["group"]),
            (&(1u64 << 30).into(), &65_536.into())
        );
        assert_eq!((&first["read_pm_bytes"], &first["slowdown"]), (&750.into(), &1.6.into()));
        assert_eq!(first["hindsight"]["pm_right_bytes"], 900);
    }
}
