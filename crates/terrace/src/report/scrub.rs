//! Scrubs: how far one is, what it verified and found.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use terrace_engine::{ScrubState, counted};

use super::{Table, device_name, line};
use crate::size::format_size;

/// What is shown of a [`terrace_engine::ScrubStatus`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ScrubStatus {
    state: ScrubState,
    started_unix_seconds: i64,
    ended_unix_seconds: Option<i64>,
    elapsed_ms: u64,
    bytes_per_second: u64,
    total_bytes: u64,
    passed_bytes: u64,
    percent: u8,
    remaining_seconds: Option<u64>,
    verified_bytes: u64,
    errors: u64,
    repaired: u64,
}

/// What is shown of a [`terrace_engine::ScrubReport`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ScrubReport {
    #[serde(flatten)]
    status: ScrubStatus,
    tallies: Vec<Tally>,
    damage: Vec<Damage>,
    unlisted_errors: u64,
}

/// What is shown of a [`terrace_engine::ScrubTally`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tally {
    device_index: u16,
    device: String,
    kind: String,
    verified_bytes: u64,
    errors: u64,
}

/// What is shown of a [`terrace_engine::ScrubError`].
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Damage {
    device: String,
    kind: String,
    offset_bytes: u64,
    len_bytes: u64,
    ino: Option<u64>,
    path: Option<String>,
    file_offset_bytes: Option<u64>,
    what: String,
    repaired: bool,
}

impl ScrubStatus {
    /// What became of it.
    pub fn state(&self) -> ScrubState {
        self.state
    }

    /// How much of it is done, in percent.
    pub fn percent(&self) -> u64 {
        self.percent.into()
    }

    /// Damaged blocks and structures, and how many of them were repaired.
    pub fn damage(&self) -> (u64, u64) {
        (self.errors, self.repaired)
    }

    /// Where it stands, in one line.
    pub fn in_a_line(&self) -> String {
        let ended = || utc(self.ended_unix_seconds.unwrap_or_default());
        let found = match (self.errors, self.repaired) {
            (0, _) => "no damage".to_owned(),
            (errors, 0) => counted(errors, "error", "errors"),
            (1, _) => "1 error, repaired".to_owned(),
            (errors, repaired) => format!("{errors} errors, {repaired} of them repaired"),
        };
        match self.state {
            ScrubState::Never => "none since the volume was mounted".to_owned(),
            ScrubState::Running => {
                let left = self
                    .remaining_seconds
                    .map_or_else(String::new, |s| format!(", {} left", duration(s * 1000)));
                let since = utc(self.started_unix_seconds);
                format!("running since {since}, {} % done{left}, {found} so far", self.percent)
            }
            ScrubState::Finished => {
                format!("finished at {}, {found} in {}", ended(), format_size(self.verified_bytes))
            }
            ScrubState::Cancelled => {
                format!("cancelled at {}, {} % done, {found}", ended(), self.percent)
            }
            ScrubState::Unmounted => format!("ended by an unmount at {}, {found}", ended()),
        }
    }
}

/// All about a scrub of the volume at `mountpoint`.
pub fn scrub(mountpoint: &Path, report: &ScrubReport) -> String {
    let status = &report.status;
    let mut text = line(&format!("scrub of {}: {}", mountpoint.display(), status.in_a_line()));
    if status.state == ScrubState::Never {
        return text;
    }
    let limit = match status.bytes_per_second {
        0 => "no rate limit".to_owned(),
        rate => format!("at most {}/s", format_size(rate)),
    };
    let _ = writeln!(
        text,
        "{} of {} in {}, {limit}; {} verified\n",
        format_size(status.passed_bytes),
        format_size(status.total_bytes),
        duration(status.elapsed_ms),
        format_size(status.verified_bytes)
    );
    let mut table = Table::new(&["DEVICE", "KIND", ">VERIFIED", ">ERRORS", "PATH"]);
    for tally in &report.tallies {
        table.row([
            device_name(tally.device_index),
            tally.kind.clone(),
            format_size(tally.verified_bytes),
            tally.errors.to_string(),
            tally.device.clone(),
        ]);
    }
    text += &table.to_text();
    if !report.damage.is_empty() {
        text += "\n";
    }
    for damage in &report.damage {
        text += &line(&in_words(damage));
    }
    if report.unlisted_errors > 0 {
        let _ =
            writeln!(text, "and {}", counted(report.unlisted_errors, "more error", "more errors"));
    }
    text
}

fn in_words(damage: &Damage) -> String {
    let outcome = if damage.repaired { "repaired" } else { "NOT repaired" };
    let owner = match (&damage.path, damage.ino) {
        (Some(path), Some(ino)) => format!(": {path} (inode {ino})"),
        (None, Some(ino)) => format!(": inode {ino}"),
        _ => String::new(),
    };
    let place = damage.file_offset_bytes.map_or_else(String::new, |at| {
        format!(
            ", bytes {at} to {} of the file",
            at.saturating_add(damage.len_bytes).saturating_sub(1)
        )
    });
    format!(
        "{}, {} at byte {}{owner}{place}: {} [{outcome}]",
        damage.device, damage.kind, damage.offset_bytes, damage.what
    )
}

/// A duration for people, in its two largest units.
fn duration(ms: u64) -> String {
    match ms / 1000 {
        0 => format!("{ms} ms"),
        s @ 1..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min {} s", s / 60, s % 60),
        s @ 3600..86400 => format!("{} h {} min", s / 3600, s / 60 % 60),
        s => format!("{} d {} h", s / 86400, s / 3600 % 24),
    }
}

/// A time of day in UTC; the calendar is Gregorian, with years that begin in March, so that a leap
/// day comes last.
pub(super) fn utc(unix_seconds: i64) -> String {
    let (days, second) = (unix_seconds.div_euclid(86400), unix_seconds.rem_euclid(86400));
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_engine::{ScrubError, ScrubKind, ScrubTally};

    fn shown(report: &terrace_engine::ScrubReport) -> String {
        scrub(
            Path::new("/mnt"),
            &serde_json::from_str(&serde_json::to_string(report).unwrap()).unwrap(),
        )
    }

    #[test]
    fn a_report_has_what_was_verified_and_what_is_damaged() {
        assert_eq!(
            shown(&Default::default()),
            "scrub of /mnt: none since the volume was mounted\n"
        );
        let damage = |kind, ino, path: Option<&str>, file_offset_bytes, repaired| ScrubError {
            device_index: 1,
            device: "/dev/sdb".into(),
            kind,
            offset_bytes: 40960,
            len_bytes: 8192,
            ino,
            path: path.map(str::to_owned),
            file_offset_bytes,
            what: "it is damaged".into(),
            repaired,
        };
        let tally = |device_index, kind, verified_bytes, errors| ScrubTally {
            device_index,
            device: format!("/dev/d{device_index}"),
            kind,
            verified_bytes,
            errors,
        };
        let report = terrace_engine::ScrubReport {
            status: terrace_engine::ScrubStatus {
                state: ScrubState::Finished,
                started_unix_seconds: 1_700_000_000,
                ended_unix_seconds: Some(1_700_000_075),
                elapsed_ms: 75_040,
                bytes_per_second: 100 << 20,
                total_bytes: 3 << 30,
                passed_bytes: 3 << 30,
                percent: 100,
                remaining_seconds: None,
                verified_bytes: 2 << 30,
                errors: 5,
                repaired: 1,
            },
            tallies: vec![
                tally(0, ScrubKind::InodeTable, 65536, 0),
                tally(1, ScrubKind::Data, 2 << 30, 4),
            ],
            damage: vec![
                damage(ScrubKind::Superblock, None, None, None, true),
                damage(ScrubKind::Log, Some(7), None, None, false),
                damage(ScrubKind::Data, Some(8), Some("/a b"), Some(4096), false),
            ],
            unlisted_errors: 1,
        };
        let expected = "\
scrub of /mnt: finished at 2023-11-14 22:14:35 UTC, 5 errors, 1 of them repaired in 2 GiB
3 GiB of 3 GiB in 1 min 15 s, at most 100 MiB/s; 2 GiB verified

DEVICE  KIND         VERIFIED  ERRORS  PATH
pm      inode-table    64 KiB       0  /dev/d0
disk1   data            2 GiB       4  /dev/d1

/dev/sdb, superblock at byte 40960: it is damaged [repaired]
/dev/sdb, log at byte 40960: inode 7: it is damaged [NOT repaired]
/dev/sdb, data at byte 40960: /a b (inode 8), \
bytes 4096 to 12287 of the file: it is damaged [NOT repaired]
and 1 more error
";
        assert_eq!(shown(&report), expected);
    }

    #[test]
    fn each_state_has_its_line() {
        let line = |state| {
            let status = ScrubStatus {
                state,
                percent: 7,
                remaining_seconds: Some(125),
                ..Default::default()
            };
            status.in_a_line()
        };
        let epoch = "1970-01-01 00:00:00 UTC";
        assert_eq!(
            line(ScrubState::Running),
            format!("running since {epoch}, 7 % done, 2 min 5 s left, no damage so far")
        );
        assert_eq!(
            line(ScrubState::Cancelled),
            format!("cancelled at {epoch}, 7 % done, no damage")
        );
        assert_eq!(line(ScrubState::Finished), format!("finished at {epoch}, no damage in 0 B"));
        assert_eq!(
            line(ScrubState::Unmounted),
            format!("ended by an unmount at {epoch}, no damage")
        );
    }

    #[test]
    fn times_and_durations() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_827_696, "2000-02-29 12:34:56 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59:59 UTC"),
            (-1, "1969-12-31 23:59:59 UTC"),
        ] {
            assert_eq!(utc(seconds), text);
        }
        for (ms, text) in [
            (850, "850 ms"),
            (12_345, "12 s"),
            (192_000, "3 min 12 s"),
            (7_500_000, "2 h 5 min"),
            (180_000_000, "2 d 2 h"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }
}
