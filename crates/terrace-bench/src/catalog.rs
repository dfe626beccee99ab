//! Which benchmarks there are, what each is compared with, and how its rows are called.

use std::fmt;

use crate::engine::{self, OnVolume};
use crate::files::{self, OnFiles};
use crate::options::Options;
use crate::workload::{BLOCK_BYTES, RECORD_BYTES};

/// Where our side of a benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a volume in process.
    Engine,
    /// On a mount; `durable` as in `terrace mount -o durable`.
    Mount { durable: bool },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Place::Engine => "engine",
            Place::Mount { durable: false } => "mount",
            Place::Mount { durable: true } => "mount -o durable",
        })
    }
}

/// What our side is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The same system calls on the kernel's file system in memory.
    Tmpfs,
    /// The same system calls on the FUSE file system that does nothing, mounted the same way.
    Null,
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Baseline::Tmpfs => "tmpfs",
            Baseline::Null => "do-nothing FUSE",
        })
    }
}

/// A comparison, and the ratio to reach where one is set.
#[derive(Clone, Copy, Debug)]
pub struct Against {
    /// With what.
    pub baseline: Baseline,
    /// Least ratio of rates that counts as met.
    pub reach: Option<f64>,
}

/// One operation, measured on our side and on each baseline.
#[derive(Debug)]
pub struct Benchmark {
    /// The operation, in a few words.
    pub name: &'static str,
    /// Where our side runs.
    pub place: Place,
    /// The comparisons, each a row.
    pub against: &'static [Against],
    /// The operation as system calls: the baselines', and on mounts ours.
    pub on_files: OnFiles,
    /// The operation in process: ours if `place` is the engine.
    pub on_volume: Option<OnVolume>,
    /// Of writes in process: bytes that the program writes. A row compares them with the bytes stored to PM.
    pub payload_bytes: Option<usize>,
    /// READ messages that each operation must take on every FUSE mount, if that is what it is about.
    pub reads: Option<u64>,
}

/// Appended to a benchmark's title for the row of bytes stored to PM.
const PM_BYTES: &str = "bytes stored to PM vs bytes written";

impl Benchmark {
    /// Place and operation.
    pub fn title(&self) -> String {
        format!("{}: {}", self.place, self.name)
    }

    /// The name of the row of one comparison.
    pub fn rate_row_name(&self, baseline: Baseline) -> String {
        format!("{} vs {baseline}", self.title())
    }

    /// The name of the row of bytes stored to PM.
    pub fn bytes_row_name(&self) -> String {
        format!("{}, {PM_BYTES}", self.title())
    }

    /// Names of all rows.
    pub fn row_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.against.iter().map(|against| self.rate_row_name(against.baseline)).collect();
        if self.payload_bytes.is_some() {
            names.push(self.bytes_row_name());
        }
        names
    }

    /// Whether any row is selected.
    pub fn matches(&self, options: &Options) -> bool {
        self.row_names().iter().any(|name| is_selected(name, options))
    }
}

/// Whether a row of this name is selected.
pub fn is_selected(row_name: &str, options: &Options) -> bool {
    row_name.to_lowercase().contains(&options.filter.to_lowercase())
}

const TMPFS: Against = Against { baseline: Baseline::Tmpfs, reach: None };
const NULL: Against = Against { baseline: Baseline::Null, reach: None };

const fn in_process(name: &'static str, on_volume: OnVolume, on_files: OnFiles) -> Benchmark {
    let on_volume = Some(on_volume);
    Benchmark { name, place: Place::Engine, against: &[TMPFS], on_files, on_volume, payload_bytes: None, reads: None }
}

const fn mounted(name: &'static str, on_files: OnFiles) -> Benchmark {
    let (place, against) = (Place::Mount { durable: false }, &[NULL, TMPFS]);
    Benchmark { name, place, against, on_files, on_volume: None, payload_bytes: None, reads: None }
}

/// All benchmarks, in the order of their rows.
pub static CATALOG: [Benchmark; 13] = [
    Benchmark {
        payload_bytes: Some(BLOCK_BYTES),
        ..in_process("4 KiB durable overwrite", engine::overwrite, files::overwrite)
    },
    in_process("4 KiB random read", engine::read, files::read),
    in_process("create + write 4 KiB + unlink", engine::create_write_unlink, files::create_write_unlink),
    Benchmark {
        payload_bytes: Some(RECORD_BYTES),
        ..in_process("128-byte durable append", engine::append, files::append)
    },
    mounted("4 KiB pwrite", files::overwrite),
    mounted("4 KiB pwrite + fsync", files::overwrite_fsync),
    Benchmark { place: Place::Mount { durable: true }, ..mounted("4 KiB pwrite + fsync", files::overwrite_fsync) },
    Benchmark { reads: Some(1), ..mounted("4 KiB read, cold", files::cold_read) },
    Benchmark { reads: Some(0), ..mounted("4 KiB read, cached", files::read) },
    mounted("stat, cached", files::stat),
    mounted("create + unlink", files::create_unlink),
    mounted("128-byte append", files::append),
    Benchmark { reads: Some(0), ..mounted("open + read 64 KiB + close, cached", files::open_read_close) },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_name_of_its_own() {
        let names: Vec<String> = CATALOG.iter().flat_map(Benchmark::row_names).collect();
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn what_runs_in_process_says_how() {
        for benchmark in &CATALOG {
            assert_eq!(benchmark.on_volume.is_some(), benchmark.place == Place::Engine, "{}", benchmark.title());
        }
    }
}
