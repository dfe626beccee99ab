//! What people read: tables of a volume's state, of a file's extents, of what a check found. Pure:
//! values in, text out.
//!
//! States and maps come as JSON, from a daemon that may be of another version: only what is shown
//! is read of them, and what is absent counts as zero, empty or false.

mod devices;
mod direct;
mod map;
mod scrub;
mod stats;
mod transport;
mod waits;
mod wear;
pub mod whatif;
mod why;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use terrace_engine::{CheckReport, RemovalStatus, VolumeWear, counted};

use crate::output::in_a_line;
use crate::size::{format_size, percent};

pub use devices::{DeviceRow, device_list};
pub use map::file_map;
pub use scrub::{ScrubReport, ScrubStatus, scrub};
pub use stats::{
    FLOWS, cache_line, direct_line, per_second, pm_stores, share, stats_live, stats_total,
};
pub use waits::{
    PASSAGES, Passages, cause_words, format_time, passages, passages_table, waits_line, waits_table,
};
pub use wear::{Endurance, Endurances};
pub use why::file_why;

/// What is shown of a [`terrace_engine::Status`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Status {
    uuid: String,
    format: String,
    state: String,
    read_only: Option<String>,
    devices: Vec<Device>,
    cache_budget_bytes: u64,
    cache_clean_bytes: u64,
    cache_dirty_bytes: u64,
    inodes: u64,
    notes: Vec<String>,
    scrub: Option<ScrubStatus>,
    migration: Option<Migration>,
    daemon: Option<terrace_fuse::control::DaemonStatus>,
    transport: Option<terrace_fuse::TransportStatus>,
    direct: Option<terrace_fuse::control::DirectStatus>,
    /// The removal of a disk that is under way, or the last one.
    pub removal: Option<RemovalStatus>,
    wear: Option<VolumeWear>,
    endurance: Endurances,
}

/// What is shown of a [`terrace_engine::MigrationStatus`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Migration {
    state: String,
    pm_used_percent: u8,
    threshold_percent: u8,
    trouble: Option<String>,
    pinned_files: u64,
    pinned_elsewhere: u64,
}

impl Status {
    /// The scrub that runs, or the last one.
    pub fn into_scrub(self) -> ScrubStatus {
        self.scrub.unwrap_or_default()
    }
}

/// What is shown of a [`terrace_engine::DeviceStatus`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Device {
    index: u16,
    tier: u8,
    path: String,
    kind: String,
    size_bytes: u64,
    used_bytes: u64,
    health: String,
    /// What is wrong, if anything is.
    failure: Option<String>,
}

/// A text as a line: names in it cannot make several of it.
fn line(text: &str) -> String {
    in_a_line(text).into_owned() + "\n"
}

/// The state of a volume.
pub fn status(status: &Status) -> String {
    let mut text =
        format!("volume {}\nformat {}\nstate  {}\n", status.uuid, status.format, status.state);
    if let Some(reason) = &status.read_only {
        text += &line(&format!("READ-ONLY: {reason}"));
    }
    text += "\n";
    text += &devices(status);
    text += "\n";
    text += &tiers(status);
    text += "\n";
    if let Some(worn) = &status.wear {
        text += &wear::wear(worn, &status.endurance);
        text += "\n";
    }
    let _ = writeln!(text, "inodes in use: {}", status.inodes);
    if status.cache_budget_bytes > 0 {
        let _ = writeln!(
            text,
            "page cache: {} dirty, {} clean, of {}",
            format_size(status.cache_dirty_bytes),
            format_size(status.cache_clean_bytes),
            format_size(status.cache_budget_bytes)
        );
    }
    text += &transport::served(status.daemon.as_ref(), status.transport.as_ref());
    text += &status.direct.as_ref().map_or_else(String::new, direct::status);
    if let Some(migration) = &status.migration {
        let Migration { state, pm_used_percent: used, threshold_percent: threshold, .. } =
            migration;
        let _ =
            writeln!(text, "migration: {state} (PM is {used} % full, the threshold {threshold} %)");
        if let Some(trouble) = &migration.trouble {
            text += &line(&format!("migration waits: {trouble}"));
        }
        if migration.pinned_files > 0 {
            let (files, elsewhere) =
                (counted(migration.pinned_files, "file", "files"), migration.pinned_elsewhere);
            let _ = writeln!(
                text,
                "pinned: {files} used since the mount, {elsewhere} with data on another tier"
            );
        }
    }
    if let Some(removal) = status.removal_in_a_line() {
        text += &line(&removal);
    }
    if let Some(status) = &status.scrub {
        let _ = writeln!(text, "scrub: {}", status.in_a_line());
    }
    for note in &status.notes {
        text += &line(&format!("note: {note}"));
    }
    text
}

fn devices(status: &Status) -> String {
    let mut table =
        Table::new(&["DEVICE", "TIER", ">SIZE", ">USED", ">USE%", "KIND", "HEALTH", "PATH"]);
    for device in &status.devices {
        table.row([
            device_name(device.index),
            device.tier.to_string(),
            format_size(device.size_bytes),
            format_size(device.used_bytes),
            format!("{} %", percent(device.used_bytes, device.size_bytes)),
            device.kind.clone(),
            device.health.clone(),
            device.path.clone(),
        ]);
    }
    table.to_text()
}

/// `pm`, `disk1`, `disk2`, …
pub fn device_name(index: u16) -> String {
    if index == 0 { "pm".to_owned() } else { format!("disk{index}") }
}

/// Size and usage per tier, and of all of them.
fn tiers(status: &Status) -> String {
    let mut tiers = BTreeMap::<String, (u64, u64)>::new();
    for device in &status.devices {
        let name = if device.tier == 0 { "0 (PM)".to_owned() } else { device.tier.to_string() };
        for name in [name, "all".to_owned()] {
            let (size_bytes, used_bytes) = tiers.entry(name).or_default();
            *size_bytes = size_bytes.saturating_add(device.size_bytes);
            *used_bytes = used_bytes.saturating_add(device.used_bytes);
        }
    }
    let mut table = Table::new(&["TIER", ">SIZE", ">USED", ">FREE", ">USE%"]);
    for (name, (size_bytes, used_bytes)) in tiers {
        table.row([
            name,
            format_size(size_bytes),
            format_size(used_bytes),
            format_size(size_bytes.saturating_sub(used_bytes)),
            format!("{} %", percent(used_bytes, size_bytes)),
        ]);
    }
    table.to_text()
}

/// What a check found.
pub fn check(report: &CheckReport) -> String {
    let mut text = String::new();
    for problem in &report.problems {
        let outcome = match (problem.repaired, problem.data_lost) {
            (true, true) => "repaired, with loss of data",
            (true, false) => "repaired",
            (false, true) => "NOT repaired, data is lost",
            (false, false) => "NOT repaired",
        };
        text += &line(&format!("{}: {} [{outcome}]", problem.place, problem.what));
    }
    let data_blocks: Vec<String> = report.data_blocks.iter().map(u64::to_string).collect();
    let _ = writeln!(
        text,
        "{}, {} of them directories; {}; data blocks per device: {}; {} verified",
        counted(report.inodes, "inode", "inodes"),
        report.directories,
        counted(report.log_entries, "log entry", "log entries"),
        data_blocks.join(", "),
        counted(report.blocks_verified, "block", "blocks")
    );
    let repaired = report.problems.iter().filter(|problem| problem.repaired).count();
    let all = report.problems.len();
    let problems = counted(all as u64, "problem", "problems");
    let _ = match (all, repaired) {
        (0, _) => writeln!(text, "no damage"),
        (1, 1) => writeln!(text, "{problems}, repaired"),
        _ if all == repaired => writeln!(text, "{problems}, all repaired"),
        (_, 0) => writeln!(text, "{problems}; `terrace check --repair` repairs what can be"),
        _ => writeln!(text, "{problems}, {repaired} repaired"),
    };
    if report.problems.iter().any(|problem| problem.can_be_given_up) {
        let _ = writeln!(
            text,
            "some files cannot be read: restore what they lie on, or give them up with `terrace \
             check --repair --give-up`"
        );
    }
    text
}

/// A table of left- and right-aligned columns, two spaces apart.
#[derive(Debug)]
pub struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings; a column whose heading begins with `>` is aligned to the right.
    pub fn new(headings: &[&str]) -> Self {
        let right = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let names =
            headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect();
        Table { right, rows: vec![names] }
    }

    /// Adds a row, a cell per column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| in_a_line(&cell).into_owned()).collect());
    }

    /// The table in lines.
    pub fn to_text(&self) -> String {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), &right) in row.iter().zip(&widths).zip(&self.right) {
                // A column that is empty throughout takes no room.
                let _ = match (width, right) {
                    (0, _) => Ok(()),
                    (_, true) => write!(line, "{cell:>width$}  "),
                    (_, false) => write!(line, "{cell:width$}  "),
                };
            }
            text += line.trim_end();
            text += "\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use terrace_engine::{CheckProblem, DeviceStatus};

    /// As the daemon's answer arrives.
    pub(super) fn through_json<T: DeserializeOwned>(value: &impl Serialize) -> T {
        serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
    }

    fn device(index: u16, tier: u8, size_bytes: u64, used_bytes: u64) -> DeviceStatus {
        DeviceStatus {
            index,
            tier,
            path: format!("/dev/d{index}"),
            role: if index == 0 { "pm" } else { "disk" }.to_owned(),
            kind: if index == 0 { "emulated" } else { "block" }.to_owned(),
            size_bytes,
            used_bytes,
            health: "ok".to_owned(),
            failure: None,
        }
    }

    #[test]
    fn a_status_shows_devices_tiers_cache_and_notes() {
        let state = terrace_engine::Status {
            uuid: "0123".to_owned(),
            format: "1.0".to_owned(),
            state: "mounted".to_owned(),
            read_only: Some("disk1 failed".to_owned()),
            devices: vec![
                device(0, 0, 256 << 20, 64 << 20),
                device(1, 1, 1 << 30, 1 << 29),
                device(2, 1, 1 << 30, 1 << 28),
            ],
            cache_budget_bytes: 1 << 30,
            cache_clean_bytes: 5 << 20,
            cache_dirty_bytes: 3 << 20,
            inodes: 42,
            notes: vec!["contents are lost at reboot".to_owned()],
            scrub: Some(terrace_engine::ScrubStatus {
                state: terrace_engine::ScrubState::Running,
                percent: 45,
                ..Default::default()
            }),
            removal: None,
            wear: None,
            migration: Some(terrace_engine::MigrationStatus {
                state: "idle".to_owned(),
                pm_used_percent: 25,
                threshold_percent: 70,
                trouble: Some("no disk has room".to_owned()),
                pinned_files: 12,
                pinned_elsewhere: 3,
            }),
        };
        let expected = "\
volume 0123
format 1.0
state  mounted
READ-ONLY: disk1 failed

DEVICE  TIER     SIZE     USED  USE%  KIND      HEALTH  PATH
pm      0     256 MiB   64 MiB  25 %  emulated  ok      /dev/d0
disk1   1       1 GiB  512 MiB  50 %  block     ok      /dev/d1
disk2   1       1 GiB  256 MiB  25 %  block     ok      /dev/d2

TIER        SIZE     USED      FREE  USE%
0 (PM)   256 MiB   64 MiB   192 MiB  25 %
1          2 GiB  768 MiB  1.25 GiB  37 %
all     2.25 GiB  832 MiB  1.44 GiB  36 %

inodes in use: 42
page cache: 3 MiB dirty, 5 MiB clean, of 1 GiB
migration: idle (PM is 25 % full, the threshold 70 %)
migration waits: no disk has room
pinned: 12 files used since the mount, 3 with data on another tier
scrub: running since 1970-01-01 00:00:00 UTC, 45 % done, no damage so far
note: contents are lost at reboot
";
        assert_eq!(status(&through_json(&state)), expected);
    }

    #[test]
    fn a_check_lists_problems_and_ends_with_a_verdict() {
        let problem = |repaired, data_lost| CheckProblem {
            place: "inode 5".to_owned(),
            what: "the log ends early".to_owned(),
            repaired,
            data_lost,
            can_be_given_up: false,
        };
        let mut report = CheckReport {
            inodes: 9,
            directories: 2,
            log_entries: 30,
            data_blocks: vec![4, 5],
            blocks_verified: 9,
            problems: vec![],
        };
        let counts = "9 inodes, 2 of them directories; 30 log entries; data blocks per device: \
                      4, 5; 9 blocks verified\n";
        assert_eq!(check(&report), format!("{counts}no damage\n"));
        report.problems = vec![problem(true, true), problem(true, false)];
        assert!(
            check(&report)
                .starts_with("inode 5: the log ends early [repaired, with loss of data]\n")
        );
        assert!(check(&report).ends_with("2 problems, all repaired\n"));
        report.problems.push(problem(false, false));
        assert!(check(&report).ends_with("3 problems, 2 repaired\n"));
        report.problems = vec![problem(false, true)];
        assert!(
            check(&report).ends_with("1 problem; `terrace check --repair` repairs what can be\n")
        );
        report.problems[0].can_be_given_up = true;
        assert!(
            check(&report).ends_with("or give them up with `terrace check --repair --give-up`\n")
        );
    }
}
