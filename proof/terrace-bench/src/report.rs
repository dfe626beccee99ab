//! Results for programs (rows as JSON) and for people (a table, and the machine it was measured
//! on).

use std::fmt;
use std::fs;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;
use terrace_media::Pm;

use crate::median::median;

/// What the numbers of a row count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Operations per second.
    #[serde(rename = "op/s")]
    OpsPerSecond,
    /// MiB per second.
    #[serde(rename = "MiB/s")]
    MibPerSecond,
    /// Log entries per second and core.
    #[serde(rename = "entries/s/core")]
    EntriesPerSecond,
    /// Bytes per operation.
    #[serde(rename = "B/op")]
    BytesPerOp,
    /// Bytes per byte.
    #[serde(rename = "B/B")]
    BytesPerByte,
    /// Bytes of DRAM.
    #[serde(rename = "B")]
    Bytes,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// Microseconds.
    #[serde(rename = "µs")]
    Microseconds,
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// How often threads began to run.
    #[serde(rename = "wake-ups")]
    WakeUps,
    /// A part of all, as a number up to 1.
    #[serde(rename = "share")]
    Share,
    /// Nothing: it could not be measured.
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl Unit {
    /// As in tables.
    pub fn text(self) -> &'static str {
        match self {
            Unit::OpsPerSecond => "op/s",
            Unit::MibPerSecond => "MiB/s",
            Unit::EntriesPerSecond => "entries/s/core",
            Unit::BytesPerOp => "B/op",
            Unit::BytesPerByte => "B/B",
            Unit::Bytes => "B",
            Unit::Milliseconds => "ms",
            Unit::Microseconds => "µs",
            Unit::Nanoseconds => "ns",
            Unit::WakeUps => "wake-ups",
            Unit::Share => "share",
            Unit::NotMeasured => "not measured",
        }
    }
}

/// The place of a row in the table of operations and servers.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cell {
    /// What clients did.
    pub operation: &'static str,
    /// On whose mount.
    pub server: &'static str,
    /// What it is compared with, if it is.
    pub against: Option<&'static str>,
    /// Of ours in all rounds.
    pub lowest: f64,
    /// Of ours in all rounds.
    pub highest: f64,
}

/// One comparison. In ratios, more is better.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was done, where, and what it is compared with.
    pub name: String,
    /// Median of the baseline, or a limit; none where a figure is only reported.
    pub baseline: Option<f64>,
    /// Median of ours.
    pub ours: f64,
    /// Of rates: the median over rounds of ours / baseline. Of bytes and times: baseline / ours.
    pub ratio: Option<f64>,
    /// The ratio to reach, where one is set.
    pub reach: Option<f64>,
    /// The ratio not to exceed, where one is set beside that.
    pub at_most: Option<f64>,
    /// Whether the ratio is within both.
    pub met: Option<bool>,
    /// What `baseline` and `ours` count.
    pub unit: Unit,
    /// The worst round.
    pub ratio_min: f64,
    /// The best round.
    pub ratio_max: f64,
    /// Where a disk is involved: what `fdatasync` took on it meanwhile, in microseconds.
    pub fdatasync_us: Option<f64>,
    /// What else was found: messages per operation, for instance.
    pub note: Option<String>,
    /// Of operations on several servers: which of each.
    pub cell: Option<Cell>,
}

impl Row {
    /// A comparison without spread.
    pub fn new(
        name: String,
        unit: Unit,
        baseline: f64,
        ours: f64,
        ratio: f64,
        reach: Option<f64>,
    ) -> Self {
        Self {
            name,
            unit,
            baseline: Some(baseline),
            ours,
            ratio: Some(ratio),
            reach,
            at_most: None,
            met: is_met(ratio, reach, None),
            ratio_min: ratio,
            ratio_max: ratio,
            fdatasync_us: None,
            note: None,
            cell: None,
        }
    }

    /// A comparison of two figures of which the lower is better.
    pub fn lower_is_better(
        name: &str,
        unit: Unit,
        baseline: f64,
        ours: f64,
        reach: Option<f64>,
    ) -> Self {
        Self::new(name.to_owned(), unit, baseline, ours, baseline / ours, reach)
    }

    /// The same with the ratio's median and spread over rounds.
    pub fn with_ratios(self, ratios: &[f64]) -> Self {
        let ratio = median(ratios);
        Self {
            ratio: Some(ratio),
            met: is_met(ratio, self.reach, self.at_most),
            ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_max: ratios.iter().copied().fold(0.0, f64::max),
            ..self
        }
    }

    /// The same where a higher ratio than `at_most` is no better than one below `reach`.
    pub fn at_most(self, at_most: f64) -> Self {
        let at_most = Some(at_most);
        let met = self.ratio.and_then(|ratio| is_met(ratio, self.reach, at_most));
        Self { at_most, met, ..self }
    }

    /// The target in words, and whether it is met; none without a target.
    pub fn target(&self) -> Option<String> {
        let reach = self.reach?;
        let most = self.at_most.map_or(String::new(), |most| format!(" to {most:.2}"));
        let met = if self.met == Some(true) { "met" } else { "missed" };
        Some(format!("{reach:.2}{most} {met}"))
    }

    /// A row that could not be measured, and why; its figures are null in JSON.
    pub fn not_measured(name: String, why: String) -> Self {
        let unknown = Self::new(name, Unit::NotMeasured, f64::NAN, f64::NAN, f64::NAN, None);
        Self { baseline: None, ratio: None, note: Some(why), ..unknown }
    }

    /// A figure that is compared with nothing.
    pub fn figure(name: &str, unit: Unit, ours: f64) -> Self {
        Self {
            baseline: None,
            ratio: None,
            ..Self::new(name.to_owned(), unit, ours, ours, 1.0, None)
        }
    }
}

/// None without a target.
fn is_met(ratio: f64, reach: Option<f64>, at_most: Option<f64>) -> Option<bool> {
    Some(ratio >= reach? && at_most.is_none_or(|most| ratio <= most))
}

/// Rows as one aligned table, but for those that stand in the table of operations and servers.
/// Targets have a column if there are any. Empty without any row.
pub fn table(rows: &[Row]) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| row.cell.is_none()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let with_targets = rows.iter().any(|row| row.reach.is_some());
    let mut head = vec!["", "unit", "baseline", "Terrace", "ratio", "min", "max"];
    head.extend(with_targets.then_some("target"));
    head.push("note");
    let mut lines: Vec<Vec<String>> = vec![head.into_iter().map(str::to_owned).collect()];
    lines.extend(rows.iter().map(|row| cells(row, with_targets)));
    aligned(&lines)
}

/// Lines of as many cells each, in columns.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines[0].len();
    let widths: Vec<usize> = (0..columns)
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in lines {
        let aligned: Vec<String> = (line.iter().zip(&widths).enumerate())
            .map(|(column, (cell, &width))| match column {
                // The first and the last are text, the others numbers.
                0 => format!("{cell:<width$}"),
                _ if column == columns - 1 => cell.clone(),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(aligned.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn cells(row: &Row, with_targets: bool) -> Vec<String> {
    let mut cells = vec![row.name.clone(), row.unit.text().to_owned()];
    cells.extend([row.baseline.map_or(String::new(), figure), figure(row.ours)]);
    let ratios = [row.ratio, row.ratio.map(|_| row.ratio_min), row.ratio.map(|_| row.ratio_max)];
    cells.extend(ratios.map(|ratio| ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))));
    if with_targets {
        cells.push(row.target().unwrap_or_default());
    }
    let disk = row.fdatasync_us.map(|fdatasync_us| format!("fdatasync {fdatasync_us:.0} us"));
    cells.push(disk.into_iter().chain(row.note.clone()).collect::<Vec<_>>().join(", "));
    cells
}

/// A figure; small ones need their decimals.
pub fn figure(number: f64) -> String {
    if number.is_nan() {
        return String::new();
    }
    if number.abs() < 10.0 { format!("{number:.2}") } else { grouped(number) }
}

/// A whole number with its digits in groups of three.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Where, when and how the rows were measured.
#[derive(Debug)]
pub struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    date: String,
    command: String,
    pm: Option<String>,
}

impl Machine {
    /// This machine, now.
    ///
    /// # Errors
    /// If the clock is beyond what a date can say.
    pub fn describe() -> Result<Self> {
        let uname = rustix::system::uname();
        let text = |field: &std::ffi::CStr| field.to_string_lossy().into_owned();
        Ok(Self {
            cpu: cpu_model().unwrap_or_else(|| text(uname.machine())),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
            date: date(SystemTime::now())?,
            command: std::env::args().collect::<Vec<_>>().join(" "),
            pm: None,
        })
    }

    /// Adds what kind of PM was measured; all volumes of a run have the same.
    pub fn note_pm(&mut self, pm: &Pm) {
        self.pm.get_or_insert_with(|| {
            format!("{}, flushed with {}", pm.kind(), pm.flush_instruction())
        });
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "CPU       {}, {} cores", self.cpu, self.cores)?;
        writeln!(f, "kernel    {}", self.kernel)?;
        if let Some(pm) = &self.pm {
            writeln!(f, "PM        {pm}")?;
        }
        writeln!(f, "date      {}", self.date)?;
        writeln!(f, "command   {}", self.command)
    }
}

/// None on architectures that do not name it.
fn cpu_model() -> Option<String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Date and time in UTC, to the minute.
fn date(at: SystemTime) -> Result<String> {
    let seconds = at.duration_since(UNIX_EPOCH).context("the clock is set before 1970")?.as_secs();
    let seconds = libc::time_t::try_from(seconds).context("the clock is set too late")?;
    // SAFETY: all-zero is a valid tm: numbers and a pointer to a zone's name that may be null.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types; tm is written, seconds only
    // read.
    if unsafe { libc::gmtime_r(&seconds, &mut tm) }.is_null() {
        return Err(io::Error::last_os_error()).context("the clock is set too late");
    }
    let (year, month) = (i64::from(tm.tm_year) + 1900, tm.tm_mon + 1);
    Ok(format!("{year:04}-{month:02}-{:02} {:02}:{:02} UTC", tm.tm_mday, tm.tm_hour, tm.tm_min))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn row(name: &str, reach: Option<f64>) -> Row {
        Row::new(name.to_owned(), Unit::OpsPerSecond, 1_234_567.0, 999.0, 0.5, reach)
    }

    #[test]
    fn lower_figures_make_higher_ratios() {
        let row = Row::lower_is_better("mount", Unit::Milliseconds, 1000.0, 250.0, Some(1.0));
        assert_eq!((row.ratio, row.met), (Some(4.0), Some(true)));
        let row = Row::lower_is_better("mount", Unit::Milliseconds, 1000.0, 2000.0, Some(1.0));
        assert_eq!((row.ratio, row.met), (Some(0.5), Some(false)));
        let alone = Row::figure("DRAM", Unit::Bytes, 7.25);
        assert!(table(&[alone]).contains("7.25"));
    }

    #[test]
    fn what_was_not_measured_says_why_and_has_no_figures() {
        let row = Row::not_measured("read vs tmpfs".to_owned(), "no tmpfs".to_owned());
        assert!(table(std::slice::from_ref(&row)).contains("no tmpfs"));
        let json = serde_json::to_value(&row).unwrap();
        for field in ["baseline", "ours", "ratio", "reach", "met"] {
            assert!(json[field].is_null(), "{field}");
        }
    }

    #[test]
    fn digits_come_in_groups_of_three() {
        assert_eq!(grouped(0.4), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1000.0), "1,000");
        assert_eq!(grouped(1_234_567.2), "1,234,567");
    }

    #[test]
    fn columns_are_aligned_and_targets_shown_where_there_are_any() {
        let plain = table(&[row("short", None), row("a longer name", None)]);
        let lines: Vec<&str> = plain.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1].find("1,234,567"), lines[2].find("1,234,567"));
        assert!(!plain.contains("target"));
        let with_targets = table(&[row("a", Some(0.4)), row("b", Some(0.7)), row("c", None)]);
        assert!(
            with_targets.contains("0.40 met") && with_targets.contains("0.70 missed"),
            "{with_targets}"
        );
        let within = |ratios: &[f64]| row("a", Some(0.4)).at_most(0.6).with_ratios(ratios);
        let targets = table(&[within(&[0.6]), within(&[0.7]), within(&[0.3]).at_most(0.8)]);
        assert_eq!(targets.matches("0.40 to 0.60 met").count(), 1, "{targets}");
        assert_eq!(targets.matches("0.40 to 0.60 missed").count(), 1, "{targets}");
        assert!(targets.contains("0.40 to 0.80 missed"), "{targets}");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(UNIX_EPOCH).unwrap(), "1970-01-01 00:00 UTC");
        assert_eq!(
            date(UNIX_EPOCH + Duration::from_secs(951_825_660)).unwrap(),
            "2000-02-29 12:01 UTC"
        );
    }
}
