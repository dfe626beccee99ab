//! Metrics in the text format of Prometheus. What there is, and what it means, stands in tables:
//! here for what is not a [`Counter`]. docs/METRICS.md shows the same, and a test compares.

use std::fmt::Write as _;

use terrace_engine::{Counter, DeviceWear, SpeedStats, Stats, TierStats, WaitStats};

/// Kinds of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Grows from zero when the volume is mounted.
    Counter,
    /// Goes up and down.
    Gauge,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

/// A metric: its name, kind and meaning, and its value.
struct Metric<T>(&'static str, Kind, &'static str, fn(&T) -> u64);

/// One sample per tier, with the label `tier`.
const OF_TIERS: &[Metric<TierStats>] = &[
    Metric("terrace_tier_capacity_bytes", Kind::Gauge, "Size of the tier's devices", |tier| {
        tier.capacity_bytes
    }),
    Metric("terrace_tier_used_bytes", Kind::Gauge, "Bytes of the tier in use", |tier| {
        tier.used_bytes
    }),
    Metric("terrace_tier_free_bytes", Kind::Gauge, "Bytes of the tier that are free", |tier| {
        tier.free_bytes
    }),
    Metric(
        "terrace_tier_reads_total",
        Kind::Counter,
        "Reads: of PM, those of file data; of disks, all that the devices did",
        |tier| tier.reads,
    ),
    Metric("terrace_tier_read_bytes_total", Kind::Counter, "Bytes of these reads", |tier| {
        tier.read_bytes
    }),
    Metric(
        "terrace_tier_writes_total",
        Kind::Counter,
        "Writes: to PM, those of file data; to disks, all that the devices did",
        |tier| tier.writes,
    ),
    Metric("terrace_tier_written_bytes_total", Kind::Counter, "Bytes of these writes", |tier| {
        tier.written_bytes
    }),
    Metric(
        "terrace_tier_file_read_bytes_total",
        Kind::Counter,
        "Bytes of files that were read from the tier, without read-ahead, checksums and scrubs",
        |tier| tier.file_read_bytes,
    ),
    Metric(
        "terrace_tier_fetched_bytes_total",
        Kind::Counter,
        "Bytes of files that were read from the tier into the page cache, read-ahead included",
        |tier| tier.fetched_bytes,
    ),
    Metric(
        "terrace_tier_file_written_bytes_total",
        Kind::Counter,
        "Bytes that programs wrote to the tier at once: to PM",
        |tier| tier.file_written_bytes,
    ),
    Metric(
        "terrace_tier_written_back_bytes_total",
        Kind::Counter,
        "Bytes that writeback brought to the tier from the page cache",
        |tier| tier.written_back_bytes,
    ),
    Metric(
        "terrace_tier_moved_in_bytes_total",
        Kind::Counter,
        "Bytes of files that moved to the tier from another, for whatever reason",
        |tier| tier.moved_in_bytes,
    ),
    Metric(
        "terrace_tier_moved_out_bytes_total",
        Kind::Counter,
        "Bytes of files that moved from the tier to another, for whatever reason",
        |tier| tier.moved_out_bytes,
    ),
];

/// One sample per cause of waits, with the label `cause`.
const OF_WAITS: &[Metric<WaitStats>] = &[
    Metric(
        "terrace_waiting_operations",
        Kind::Gauge,
        "Operations of programs that wait for the cause now",
        |wait| wait.waiting,
    ),
    Metric(
        "terrace_waited_last_second_operations",
        Kind::Gauge,
        "Operations that waited within the last second, or still do",
        |wait| wait.last_second,
    ),
    Metric("terrace_waits_total", Kind::Counter, "Operations that have waited", |wait| wait.waits),
    Metric(
        "terrace_wait_nanoseconds_total",
        Kind::Counter,
        "How long all of them waited",
        |wait| wait.total_ns,
    ),
    Metric(
        "terrace_longest_wait_nanoseconds",
        Kind::Gauge,
        "How long the one that waited longest did",
        |wait| wait.longest_ns,
    ),
];

/// One sample per device and operation, with the labels `device` and `operation`.
const OF_SPEEDS: &[Metric<SpeedStats>] = &[
    Metric(
        "terrace_timed_total",
        Kind::Counter,
        "Bytes of the operations that were timed, in whole blocks; of flushes their number",
        |speed| speed.timed,
    ),
    Metric(
        "terrace_timed_nanoseconds_total",
        Kind::Counter,
        "How long these operations took",
        |speed| speed.total_ns,
    ),
];

/// One sample per device, with the label `device`.
const OF_DEVICES: &[Metric<DeviceWear>] = &[
    Metric(
        "terrace_device_written_bytes_total",
        Kind::Counter,
        "Bytes written to the device since counting began, across mounts",
        |device| device.written_bytes,
    ),
    Metric(
        "terrace_device_moved_bytes_total",
        Kind::Counter,
        "Those of them that movers wrote",
        |device| device.moved_bytes,
    ),
    Metric(
        "terrace_device_overdrawn_bytes_total",
        Kind::Counter,
        "Those of them that movers wrote beyond their budget",
        |device| device.overdrawn_bytes,
    ),
    Metric(
        "terrace_device_budget_bytes",
        Kind::Gauge,
        "Bytes per day that movers may write to the device; 0: any number",
        |device| device.budget.map_or(0, |budget| budget.bytes_per_day),
    ),
    Metric(
        "terrace_device_budget_left_bytes",
        Kind::Gauge,
        "Bytes of that budget that are left",
        |device| device.budget.map_or(0, |budget| budget.left_bytes.max(0) as u64),
    ),
];

/// One sample each.
const OF_VOLUME: &[Metric<Stats>] = &[
    Metric("terrace_mounted_seconds", Kind::Gauge, "Time since the volume was mounted", |stats| {
        stats.elapsed_ms / 1000
    }),
    Metric(
        "terrace_cache_budget_bytes",
        Kind::Gauge,
        "Bytes that the page cache may take",
        |stats| stats.cache.budget_bytes,
    ),
    Metric(
        "terrace_cache_clean_bytes",
        Kind::Gauge,
        "Bytes of clean pages in the page cache",
        |stats| stats.cache.clean_bytes,
    ),
    Metric(
        "terrace_cache_dirty_bytes",
        Kind::Gauge,
        "Bytes of dirty pages in the page cache",
        |stats| stats.cache.dirty_bytes,
    ),
    Metric("terrace_lent_files", Kind::Gauge, "Files that processes have by themselves", |stats| {
        stats.loans.files
    }),
    Metric(
        "terrace_borrowing_processes",
        Kind::Gauge,
        "Processes that have files by themselves",
        |stats| stats.loans.processes,
    ),
    Metric(
        "terrace_quarantined_bytes",
        Kind::Gauge,
        "Bytes of PM that nobody gets before a stopped process goes on or ends",
        |stats| stats.loans.quarantined_bytes,
    ),
    Metric(
        "terrace_pm_stored_bytes_total",
        Kind::Counter,
        "Bytes stored to PM, for file data and everything else",
        |stats| stats.pm_stored_bytes,
    ),
    Metric("terrace_pm_fences_total", Kind::Counter, "Fences of PM", |stats| stats.pm_fences),
    Metric(
        "terrace_programs_written_bytes_total",
        Kind::Counter,
        "Bytes that programs wrote since counting began, across mounts",
        |stats| stats.wear.programs_bytes,
    ),
];

/// Tells which volume it is.
const INFO: (&str, &str) =
    ("terrace_volume_info", "Always 1; the label uuid says which volume it is");

fn name_of(counter: Counter) -> String {
    format!("terrace_{}_total", counter.name())
}

/// All metrics of a volume. `stats` is since the volume was mounted.
pub fn text(stats: &Stats) -> String {
    let mut text = String::new();
    head(&mut text, INFO.0, Kind::Gauge, INFO.1);
    let _ = writeln!(text, "{}{{uuid=\"{}\"}} 1", INFO.0, stats.uuid);
    for Metric(name, kind, help, value) in OF_TIERS {
        head(&mut text, name, *kind, help);
        for tier in &stats.tiers {
            let _ = writeln!(text, "{name}{{tier=\"{}\"}} {}", tier.name, value(tier));
        }
    }
    for Metric(name, kind, help, value) in OF_WAITS.iter().filter(|_| !stats.waits.is_empty()) {
        head(&mut text, name, *kind, help);
        for wait in &stats.waits {
            let _ = writeln!(text, "{name}{{cause=\"{}\"}} {}", wait.cause, value(wait));
        }
    }
    for Metric(name, kind, help, value) in OF_SPEEDS.iter().filter(|_| !stats.speeds.is_empty()) {
        head(&mut text, name, *kind, help);
        for speed @ SpeedStats { device, operation, .. } in &stats.speeds {
            let labels = format!("device=\"{device}\",operation=\"{operation}\"");
            let _ = writeln!(text, "{name}{{{labels}}} {}", value(speed));
        }
    }
    for Metric(name, kind, help, value) in OF_DEVICES {
        head(&mut text, name, *kind, help);
        for device in &stats.wear.devices {
            let _ = writeln!(text, "{name}{{device=\"{}\"}} {}", device.name, value(device));
        }
    }
    for Metric(name, kind, help, value) in OF_VOLUME {
        head(&mut text, name, *kind, help);
        let _ = writeln!(text, "{name} {}", value(stats));
    }
    for &counter in Counter::ALL {
        let name = name_of(counter);
        head(&mut text, &name, Kind::Counter, counter.help());
        let _ = writeln!(text, "{name} {}", stats.counters.get(counter));
    }
    text
}

fn head(text: &mut String, name: &str, kind: Kind, help: &str) {
    let _ = write!(text, "# HELP {name} {help}.\n# TYPE {name} {}\n", kind.name());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use terrace_engine::{BudgetStatus, VolumeWear};

    /// Reads the format as a scraper does: samples by name and labels. Panics at what it does not
    /// allow.
    fn parse(text: &str) -> BTreeMap<String, f64> {
        let (mut samples, mut families) = (BTreeMap::new(), Vec::new());
        let mut family: Option<(&str, &str)> = None;
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, help) = help.split_once(' ').expect("a name and a help text");
                assert!(!help.is_empty() && !help.contains('\\'), "{line}");
                let kind =
                    lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
                assert!(matches!(kind, Some("counter" | "gauge")), "{name}: {kind:?}");
                assert!(!families.contains(&name), "{name} comes twice");
                families.push(name);
                family = kind.map(|kind| (name, kind));
                assert!(
                    lines.peek().is_some_and(|line| line.starts_with(name)),
                    "{name} has no sample"
                );
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let (known, kind) = family.expect("HELP and TYPE before samples");
            assert_eq!(name, known, "samples of one family stand together");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
                    && name.starts_with("terrace_"),
                "{name}"
            );
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            let labels = labels.strip_suffix('}').expect("closed labels");
            for label in labels.split(',').filter(|label| !label.is_empty()) {
                let value = label.split_once("=\"").and_then(|(_, value)| value.strip_suffix('"'));
                assert!(value.is_some_and(|value| !value.contains(['"', '\\', '\n'])), "{label}");
            }
            let value: f64 = value.parse().expect("a number");
            assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes twice");
        }
        assert!(text.ends_with('\n'));
        samples
    }

    #[test]
    fn a_scraper_understands_everything() {
        let tier = |number, name: &str, writes| TierStats {
            tier: number,
            name: name.to_owned(),
            writes,
            ..Default::default()
        };
        let worn = DeviceWear {
            name: "disk1".to_owned(),
            written_bytes: 11,
            budget: Some(BudgetStatus { left_bytes: -5, bytes_per_day: 12, ..Default::default() }),
            ..DeviceWear::default()
        };
        let stats = Stats {
            uuid: "0-1".to_owned(),
            elapsed_ms: 65_400,
            tiers: vec![tier(0, "pm", 7), tier(1, "disk1", 9)],
            counters: serde_json::from_str(r#"{"fsyncs": 5}"#).unwrap(),
            waits: vec![WaitStats { cause: "flush".into(), waits: 3, ..Default::default() }],
            speeds: vec![SpeedStats {
                device: "disk1".into(),
                operation: "flush".into(),
                timed: 2,
                total_ns: 13,
            }],
            pm_fences: 6,
            wear: VolumeWear { devices: vec![worn], ..VolumeWear::default() },
            ..Stats::default()
        };
        let samples = parse(&text(&stats));
        let of_labels = 2 * OF_TIERS.len() + OF_WAITS.len() + OF_SPEEDS.len() + OF_DEVICES.len();
        assert_eq!(samples.len(), 1 + of_labels + OF_VOLUME.len() + Counter::ALL.len());
        for (series, value) in [
            ("terrace_volume_info{uuid=\"0-1\"}", 1.0),
            ("terrace_tier_writes_total{tier=\"pm\"}", 7.0),
            ("terrace_tier_writes_total{tier=\"disk1\"}", 9.0),
            ("terrace_device_written_bytes_total{device=\"disk1\"}", 11.0),
            ("terrace_device_budget_bytes{device=\"disk1\"}", 12.0),
            ("terrace_device_budget_left_bytes{device=\"disk1\"}", 0.0),
            ("terrace_mounted_seconds", 65.0),
            ("terrace_pm_fences_total", 6.0),
            ("terrace_fsyncs_total", 5.0),
            ("terrace_waits_total{cause=\"flush\"}", 3.0),
            ("terrace_timed_nanoseconds_total{device=\"disk1\",operation=\"flush\"}", 13.0),
            ("terrace_pm_read_bytes_total", 0.0),
        ] {
            assert_eq!(samples.get(series), Some(&value), "{series}");
        }
    }

    #[test]
    fn the_documentation_lists_every_metric() {
        let row = |name: &str, kind: Kind, help: &str| {
            format!("| `{name}` | {} | {help} |\n", kind.name())
        };
        let mut table = row(INFO.0, Kind::Gauge, INFO.1);
        OF_TIERS.iter().for_each(|Metric(name, kind, help, _)| table += &row(name, *kind, help));
        OF_WAITS.iter().for_each(|Metric(name, kind, help, _)| table += &row(name, *kind, help));
        OF_SPEEDS.iter().for_each(|Metric(name, kind, help, _)| table += &row(name, *kind, help));
        OF_DEVICES.iter().for_each(|Metric(name, kind, help, _)| table += &row(name, *kind, help));
        OF_VOLUME.iter().for_each(|Metric(name, kind, help, _)| table += &row(name, *kind, help));
        Counter::ALL
            .iter()
            .for_each(|&counter| table += &row(&name_of(counter), Kind::Counter, counter.help()));
        let page =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/METRICS.md"))
                .unwrap();
        let (_, shown) = page.split_once("|---|---|---|\n").expect("a table");
        let shown: String = shown
            .lines()
            .take_while(|line| line.starts_with('|'))
            .map(|line| line.to_owned() + "\n")
            .collect();
        assert!(shown == table, "docs/METRICS.md should have this table:\n{table}");
    }
}
