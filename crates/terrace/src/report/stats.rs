//! How full a volume is and what it does, in tables and lines.

use std::fmt::Write as _;

use terrace_engine::{Counter, LoanStats, Stats, Unit, counted};

use super::{Table, passages_table, waits_line, waits_table};
use crate::size::{format_size, percent};

/// Data on its way from one place to another.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Its bytes.
    pub counter: Counter,
    /// What it is called.
    pub name: &'static str,
    /// Whence and where.
    pub way: &'static str,
}

const fn flow(counter: Counter, name: &'static str, way: &'static str) -> Flow {
    Flow { counter, name, way }
}

/// All that flows, from programs downwards.
pub const FLOWS: &[Flow] = &[
    flow(Counter::WrittenPm, "to PM", "programs → PM"),
    flow(Counter::WrittenCache, "to page cache", "programs → page cache"),
    flow(Counter::WrittenBack, "written back", "page cache → disks"),
    flow(Counter::MigratedWrite, "write migration", "PM → disks"),
    flow(Counter::MigratedRead, "read migration", "PM → disks, page cache"),
    flow(Counter::MigratedReverse, "reverse migration", "disks → PM"),
    flow(Counter::MigratedLogs, "log migration", "PM → disks"),
    flow(Counter::MigratedDemoted, "demotion", "disks → slower disks"),
    flow(Counter::MigratedPinned, "pinned data", "any tier → its own"),
    flow(Counter::MigratedByHand, "evict, warm, pin", "any tier → any other"),
];

/// An amount as one per second.
pub fn per_second(amount: u64, elapsed_ms: u64) -> u64 {
    u64::try_from(u128::from(amount) * 1000 / u128::from(elapsed_ms.max(1))).unwrap_or(u64::MAX)
}

/// What was done in a period, per second: a line per tier, and one each for the page cache and for
/// what flowed. Columns keep their width from one period to the next; `headings`: with their
/// headings.
pub fn stats_live(stats: &Stats, headings: bool) -> String {
    let rate = |amount| per_second(amount, stats.elapsed_ms);
    let mut table = Table::new(&[
        "TIER ",
        ">      USED",
        ">      FREE",
        ">READS/S",
        ">WRITES/S",
        ">    READ/S",
        ">   WRITE/S",
    ]);
    for tier in &stats.tiers {
        table.row([
            tier.name.clone(),
            format_size(tier.used_bytes),
            format_size(tier.free_bytes),
            rate(tier.reads).to_string(),
            rate(tier.writes).to_string(),
            format_size(rate(tier.read_bytes)),
            format_size(rate(tier.written_bytes)),
        ]);
    }
    let lines = table.to_text();
    let mut text = match (headings, lines.split_once('\n')) {
        (false, Some((_, rows))) => rows.to_owned(),
        _ => lines,
    };
    let _ = writeln!(text, "cache  {}", cache_line(stats));
    let flows: Vec<String> = FLOWS
        .iter()
        .map(|flow| (stats.counters.get(flow.counter), flow.name))
        .filter(|&(bytes, _)| bytes > 0)
        .map(|(bytes, name)| format!("{name} {}/s", format_size(rate(bytes))))
        .collect();
    if !flows.is_empty() {
        let _ = writeln!(text, "flows  {}", flows.join(", "));
    }
    if let Some(line) = direct_line(stats) {
        let _ = writeln!(text, "direct {line}");
    }
    if let Some(line) = waits_line(&stats.waits) {
        let _ = writeln!(text, "waits  {line}");
    }
    text
}

/// The direct path in a line: what is lent, and what processes did by themselves, per second.
/// `None`: nothing is lent, and nothing was done.
pub fn direct_line(stats: &Stats) -> Option<String> {
    let rate = |counter| per_second(stats.counters.get(counter), stats.elapsed_ms);
    let (reads, writes) = (rate(Counter::DirectReads), rate(Counter::DirectWrites));
    let loans = &stats.loans;
    if *loans == LoanStats::default() && reads + writes == 0 {
        return None;
    }
    let files = counted(loans.files, "file", "files");
    let to = counted(loans.processes, "process", "processes");
    let mut text = format!("{files} lent to {to}; {reads} reads/s, {writes} writes/s");
    if loans.quarantined_bytes > 0 {
        let _ = write!(text, "; {} in quarantine", format_size(loans.quarantined_bytes));
    }
    Some(text)
}

/// What was done since the volume was mounted: tiers, and every counter.
pub fn stats_total(stats: &Stats) -> String {
    let mut table = Table::new(&[
        "TIER", ">SIZE", ">USED", ">FREE", ">USE%", ">READS", ">WRITES", ">READ", ">WRITTEN",
    ]);
    for tier in &stats.tiers {
        table.row([
            tier.name.clone(),
            format_size(tier.capacity_bytes),
            format_size(tier.used_bytes),
            format_size(tier.free_bytes),
            format!("{} %", percent(tier.used_bytes, tier.capacity_bytes)),
            tier.reads.to_string(),
            tier.writes.to_string(),
            format_size(tier.read_bytes),
            format_size(tier.written_bytes),
        ]);
    }
    let mut text = format!("volume {}, mounted for {} s\n\n", stats.uuid, stats.elapsed_ms / 1000);
    text += &table.to_text();
    text += "\n";
    text += &passages_table(stats);
    if !stats.waits.is_empty() {
        text += "\n";
        text += &waits_table(&stats.waits);
    }
    let _ = writeln!(text, "\npage cache: {}", cache_line(stats));
    let _ = writeln!(text, "stored to PM: {}", pm_stores(stats));
    let _ = writeln!(text, "predictions that came true: {}\n", share(stats.predictor_accuracy));
    let mut table = Table::new(&["COUNTER", ">VALUE", "WHAT IT COUNTS"]);
    for &counter in Counter::ALL {
        let value = stats.counters.get(counter);
        let value =
            if counter.unit() == Unit::Bytes { format_size(value) } else { value.to_string() };
        table.row([counter.name().to_owned(), value, counter.help().to_owned()]);
    }
    text + &table.to_text()
}

/// The page cache in a line.
pub fn cache_line(stats: &Stats) -> String {
    let (hits, misses) =
        (stats.counters.get(Counter::CacheHits), stats.counters.get(Counter::CacheMisses));
    let mut text = format!(
        "{} dirty, {} clean, of {}",
        format_size(stats.cache.dirty_bytes),
        format_size(stats.cache.clean_bytes),
        format_size(stats.cache.budget_bytes)
    );
    if hits + misses > 0 {
        let _ = write!(text, "; {} % hits", percent(hits, hits + misses));
    }
    match stats.counters.get(Counter::Stalls) {
        0 => {}
        1 => text += "; 1 writer waited for it",
        stalls => {
            let _ = write!(text, "; {stalls} writers waited for it");
        }
    }
    text
}

/// What was stored to PM, and how much that is of what writes asked for.
pub fn pm_stores(stats: &Stats) -> String {
    let stored = format_size(stats.pm_stored_bytes);
    match stats.pm_write_amplification {
        Some(factor) => format!("{stored}, {factor:.2} times what writes there asked for"),
        None => stored,
    }
}

/// A share in percent.
pub fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "none were made".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_engine::{CacheStats, TierStats};

    const MIB: u64 = 1 << 20;

    fn stats() -> Stats {
        let tier = |tier, used_bytes, reads, writes| TierStats {
            tier,
            name: if tier == 0 { "pm".to_owned() } else { format!("disk{tier}") },
            capacity_bytes: 1024 * MIB,
            used_bytes,
            free_bytes: 1024 * MIB - used_bytes,
            reads,
            read_bytes: reads * 4096,
            writes,
            written_bytes: writes * MIB,
            file_read_bytes: reads * 4096,
            ..TierStats::default()
        };
        let counters = r#"{"cache_hits": 3, "cache_misses": 1, "pm_written_bytes": 10485760,
            "writer_stalls": 1, "written_back_bytes": 4194304, "direct_writes": 6,
            "predicted_right": 9,
            "predicted_wrong": 1}"#;
        Stats {
            uuid: "0123".to_owned(),
            elapsed_ms: 2000,
            tiers: vec![tier(0, 512 * MIB, 0, 10), tier(1, 3 * MIB, 1000, 4)],
            cache: CacheStats { budget_bytes: 64 * MIB, clean_bytes: MIB, dirty_bytes: 2 * MIB },
            speeds: Vec::new(),
            waits: Vec::new(),
            loans: LoanStats { files: 2, processes: 1, quarantined_bytes: 0 },
            counters: serde_json::from_str(counters).unwrap(),
            pm_stored_bytes: 11 * MIB,
            pm_fences: 20,
            pm_write_amplification: Some(1.1),
            predictor_accuracy: Some(0.9),
            wear: Default::default(),
        }
    }

    #[test]
    fn live_lines_are_rates_with_columns_that_stay() {
        let expected = "\
TIER         USED        FREE  READS/S  WRITES/S      READ/S     WRITE/S
pm        512 MiB     512 MiB        0         5         0 B       5 MiB
disk1       3 MiB    1021 MiB      500         2    1.95 MiB       2 MiB
cache  2 MiB dirty, 1 MiB clean, of 64 MiB; 75 % hits; 1 writer waited for it
flows  to PM 5 MiB/s, written back 2 MiB/s
direct 2 files lent to 1 process; 0 reads/s, 3 writes/s
";
        assert_eq!(stats_live(&stats(), true), expected);
        assert_eq!(stats_live(&stats(), false), expected.split_once('\n').unwrap().1);
        let idle = Stats { tiers: stats().tiers, ..Stats::default() };
        assert_eq!(
            stats_live(&idle, true).lines().next(),
            expected.lines().next(),
            "the width does not change"
        );
        assert!(!stats_live(&idle, false).contains("flows"));
    }

    #[test]
    fn totals_show_every_counter() {
        let text = stats_total(&stats());
        let expected = "\
volume 0123, mounted for 2 s

TIER    SIZE     USED      FREE  USE%  READS  WRITES      READ  WRITTEN
pm     1 GiB  512 MiB   512 MiB  50 %      0      10       0 B   10 MiB
disk1  1 GiB    3 MiB  1021 MiB   0 %   1000       4  3.91 MiB    4 MiB

TIER   WRITTEN  WRITTEN BACK  MOVED IN      READ  FETCHED  MOVED OUT
pm         0 B             -       0 B       0 B        -        0 B
disk1        -           0 B       0 B  3.91 MiB      0 B        0 B
cache      0 B             -         -       0 B        -          -

page cache: 2 MiB dirty, 1 MiB clean, of 64 MiB; 75 % hits; 1 writer waited for it
stored to PM: 11 MiB, 1.10 times what writes there asked for
predictions that came true: 90.0 %

";
        assert!(text.starts_with(expected), "{text}");
        let counters = &text[expected.len()..];
        assert_eq!(counters.lines().count(), Counter::ALL.len() + 1);
        assert!(
            counters.contains("\npm_written_bytes ")
                && counters.contains(" 10 MiB  Bytes that writes"),
            "{text}"
        );
        assert!(
            stats_total(&Stats::default()).contains("predictions that came true: none were made")
        );
    }

    #[test]
    fn rates_of_long_and_of_empty_periods() {
        assert_eq!(
            [(500, 250), (1, 1500), (7, 0)].map(|(n, ms)| per_second(n, ms)),
            [2000, 0, 7000]
        );
        assert_eq!(per_second(u64::MAX, 1), u64::MAX);
    }
}
