//! The report of `terrace run`: how many calls of a program went direct, and why others did not.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::kernel::run;

/// Calls of a program on files of mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectShare {
    direct: u64,
    /// Calls that took the mount, by the reason.
    mount: BTreeMap<String, u64>,
}

impl DirectShare {
    /// Runs a command that `terrace run` is in, and reads what it reports. Counting takes time.
    ///
    /// # Errors
    /// If it fails.
    pub fn of(mut command: Command) -> Result<Self> {
        let directory = TempDir::new().context("a directory for a report")?;
        let report = directory.path().join("report");
        run(command.env("TERRACE_REPORT", &report))?;
        Self::read(&report)
    }

    /// Reads a report; there is none if no file of a mount was used.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(report: &std::path::Path) -> Result<Self> {
        match fs::read(report) {
            Ok(text) => Ok(Self::parse(&String::from_utf8_lossy(&text))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).context("the report of `terrace run`"),
        }
    }

    fn parse(report: &str) -> Self {
        let mut share = Self::default();
        // Two blanks stand before the path.
        let counts = report.lines().filter_map(|line| line.trim_start().split_once(" direct"));
        for (direct, rest) in counts {
            share.direct += first_number(direct).unwrap_or(0);
            let mount = rest.split("  ").next().unwrap_or("");
            for part in mount.split("), ").filter_map(|part| part.split_once(" mount (")) {
                let reason = part.1.trim_end_matches(')').to_owned();
                let calls = first_number(part.0.trim_start_matches(", ")).unwrap_or(0);
                *share.mount.entry(reason).or_default() += calls;
            }
        }
        share
    }

    /// In a few words: the share, and the reason that most of the others have.
    pub fn note(&self) -> String {
        let others: u64 = self.mount.values().sum();
        if self.direct + others == 0 {
            return "no file was asked for".to_owned();
        }
        // Not rounded up to all of them.
        let percent = (self.direct as f64 / (self.direct + others) as f64 * 1000.0).floor() / 10.0;
        match self.mount.iter().max_by_key(|(_, calls)| **calls) {
            None => "all calls direct".to_owned(),
            Some((reason, _)) => format!("{percent} % of calls direct; else {reason}"),
        }
    }
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_added_over_files_and_processes() {
        let lines = [
            "Terrace's direct path, process 2999: calls and bytes",
            "         9  8732 direct, 3 524 mount (few calls)  /mnt/a.db-journal",
            "Terrace's direct path, process 3000: calls and bytes",
            "         6  20496 direct, 4 8192 mount (few calls), 8 1 mount (mapped)  /mnt/a",
            "        70  0 direct  /mnt/a direct, 5 5 mount (x)",
        ];
        let share = DirectShare::parse(&lines.join("\n"));
        let mount = [("few calls".to_owned(), 7), ("mapped".to_owned(), 8)];
        assert_eq!(share, DirectShare { direct: 85, mount: mount.into() });
        assert_eq!(share.note(), "85 % of calls direct; else mapped");
        assert_eq!(DirectShare::parse("").note(), "no file was asked for");
    }
}
