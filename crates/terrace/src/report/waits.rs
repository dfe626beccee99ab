//! Bytes that come to tiers and leave them, and waits of programs, in tables.

use terrace_engine::{Counter, Stats, TierStats, WaitCause, WaitStats};

use super::Table;
use crate::size::format_size;

/// A row of what comes to a place and what leaves it, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passages {
    /// A tier's name, or `cache`.
    pub place: String,
    /// Written by programs, written back, moved there; read by programs, fetched into the page
    /// cache, moved away. `None`: that does not happen there.
    pub bytes: [Option<u64>; 6],
}

/// Headings of these bytes.
pub const PASSAGES: [&str; 6] =
    ["WRITTEN", "WRITTEN BACK", "MOVED IN", "READ", "FETCHED", "MOVED OUT"];

/// The tiers, then the page cache.
pub fn passages(stats: &Stats) -> Vec<Passages> {
    let of = |tier: &TierStats| Passages {
        place: tier.name.clone(),
        bytes: [
            (tier.tier == 0).then_some(tier.file_written_bytes),
            (tier.tier > 0).then_some(tier.written_back_bytes),
            Some(tier.moved_in_bytes),
            Some(tier.file_read_bytes),
            (tier.tier > 0).then_some(tier.fetched_bytes),
            Some(tier.moved_out_bytes),
        ],
    };
    let count = |counter| stats.counters.get(counter);
    let (written, read) = (Some(count(Counter::WrittenCache)), Some(count(Counter::ReadCache)));
    let bytes = [written, None, None, read, None, None];
    let cache = Passages { place: "cache".to_owned(), bytes };
    stats.tiers.iter().map(of).chain([cache]).collect()
}

/// In a table.
pub fn passages_table(stats: &Stats) -> String {
    let headings = PASSAGES.map(|heading| format!(">{heading}"));
    let [a, b, c, d, e, f] = headings.each_ref().map(String::as_str);
    let mut table = Table::new(&["TIER", a, b, c, d, e, f]);
    for Passages { place, bytes } in passages(stats) {
        let shown = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), format_size);
        table.row([place].into_iter().chain(bytes.map(shown)));
    }
    table.to_text()
}

/// What is waited for, in a few words.
pub fn cause_words(wait: &WaitStats) -> &str {
    let known = WaitCause::ALL.iter().find(|cause| cause.name() == wait.cause);
    known.map_or(&wait.cause, |cause| cause.words())
}

/// Waits in a table: of a period, or since the mount.
pub fn waits_table(waits: &[WaitStats]) -> String {
    let mut table =
        Table::new(&["WAITS FOR", "CAUSE", ">NOW", ">LAST SECOND", ">WAITS", ">TOTAL", ">LONGEST"]);
    for wait in waits {
        table.row([
            cause_words(wait).to_owned(),
            wait.cause.clone(),
            wait.waiting.to_string(),
            wait.last_second.to_string(),
            wait.waits.to_string(),
            format_time(wait.total_ns),
            format_time(wait.longest_ns),
        ]);
    }
    table.to_text()
}

/// Who waits and who has waited in the period, in a line. `None`: nobody.
pub fn waits_line(waits: &[WaitStats]) -> Option<String> {
    let is_any = |wait: &&WaitStats| wait.waiting + wait.waits > 0;
    let of = |wait: &WaitStats| {
        let (now, waits, time) = (wait.waiting, wait.waits, format_time(wait.total_ns));
        format!("{} {now} now, {waits} in {time}", wait.cause)
    };
    let all: Vec<String> = waits.iter().filter(is_any).map(of).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// A time in a few letters.
pub fn format_time(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{} µs", ns / 1000),
        10_000_000..10_000_000_000 => format!("{} ms", ns / 1_000_000),
        _ => format!("{} s", ns / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits() -> Vec<WaitStats> {
        let wait = |cause: &str, waiting, waits, total_ns| WaitStats {
            cause: cause.to_owned(),
            waiting,
            last_second: waiting + waits / 2,
            waits,
            total_ns,
            longest_ns: total_ns / 2,
        };
        vec![wait("room", 0, 0, 0), wait("flush", 2, 4, 90_000_000), wait("moon", 1, 0, 0)]
    }

    #[test]
    fn waits_have_a_row_each_and_those_of_other_versions_their_names() {
        let expected = "\
WAITS FOR               CAUSE  NOW  LAST SECOND  WAITS  TOTAL  LONGEST
room in PM or on disks  room     0            0      0      0        0
an fsync's way to a disk  flush    2            4      4  90 ms    45 ms
moon                    moon     1            1      0      0        0
";
        let words = |text: &str| {
            let lines = text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(words(&waits_table(&waits())), words(expected));
        let line = "flush 2 now, 4 in 90 ms; moon 1 now, 0 in 0";
        assert_eq!(waits_line(&waits()).as_deref(), Some(line));
        assert_eq!(waits_line(&waits()[..1]), None);
    }

    #[test]
    fn what_comes_and_goes_is_shown_of_tiers_and_of_the_page_cache() {
        let disk = TierStats {
            tier: 1,
            name: "disk1".to_owned(),
            file_read_bytes: 1,
            fetched_bytes: 2,
            written_back_bytes: 3,
            moved_in_bytes: 4,
            moved_out_bytes: 5,
            ..TierStats::default()
        };
        let counters = r#"{"cache_written_bytes": 6, "cache_read_bytes": 7}"#;
        let stats = Stats {
            tiers: vec![disk],
            counters: serde_json::from_str(counters).unwrap(),
            ..Stats::default()
        };
        let expected = "\
TIER   WRITTEN  WRITTEN BACK  MOVED IN  READ  FETCHED  MOVED OUT
disk1        -           3 B       4 B   1 B      2 B        5 B
cache      6 B             -         -   7 B        -          -
";
        assert_eq!(passages_table(&stats), expected);
    }

    #[test]
    fn times_have_two_digits_and_more() {
        let texts = [0, 999, 10_000, 12_345_678, 10_000_000_000].map(format_time);
        assert_eq!(texts, ["0", "999 ns", "10 µs", "12 ms", "10 s"]);
    }
}
