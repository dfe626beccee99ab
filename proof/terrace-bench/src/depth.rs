//! Random reads of a file on disk, many under way at a time, by `fio` past the kernel's cache. The
//! time is what it reports.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Advice, OFlags, fadvise};

use crate::files::{NAME, OnFiles, create, open_directory};
use crate::interrupt;
use crate::kernel::run;
use crate::workload::{FILLING, PIECE_BYTES, Sizes, Workload, to_fill};

/// Of each read.
pub const READ_BYTES: u64 = 64 << 10;
const DEPTH: u64 = 32;
/// As large as the volume's own cache, whose place its contents take there.
const LATER: &str = "later";

/// All workloads of this module.
pub const ALL: [OnFiles; 1] = [random_read];

/// Random reads, each block of the file at most once in a run.
pub fn random_read(directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let path = directory.join(NAME);
    let directory = open_directory(directory)?;
    let file = create(&directory, NAME, OFlags::EXCL)?;
    write_whole(&file, sizes.stream_bytes)?;
    let blocks = sizes.stream_bytes / READ_BYTES;
    Ok(Box::new(RandomRead {
        directory,
        path,
        file,
        stream_bytes: sizes.stream_bytes,
        ops: (blocks / 8).max(1),
        round: sizes.round,
        spent: Duration::ZERO,
    }))
}

fn write_whole(file: &File, bytes: u64) -> Result<()> {
    for offset in (0..bytes).step_by(PIECE_BYTES) {
        interrupt::check()?;
        file.write_all_at(&FILLING, offset)?;
    }
    Ok(file.sync_all()?)
}

struct RandomRead {
    directory: OwnedFd,
    path: PathBuf,
    file: File,
    stream_bytes: u64,
    /// Of the next run: as many as fill a round, judging by the last run.
    ops: u64,
    round: Duration,
    spent: Duration,
}

impl Workload for RandomRead {
    fn batch_ops(&self) -> u64 {
        self.ops
    }

    fn prepare(&mut self, _ops: u64) -> Result<()> {
        let later = create(&self.directory, LATER, OFlags::TRUNC)?;
        write_whole(&later, self.stream_bytes / 2 + PIECE_BYTES as u64)?;
        Ok(fadvise(&self.file, 0, None, Advice::DontNeed)?)
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let printed = run(Command::new("fio")
            .args(["--name=depth", "--rw=randread", "--ioengine=libaio", "--direct=1", "--thread"])
            .args(["--allow_file_create=0", "--output-format=json"])
            .arg(format!("--bs={READ_BYTES}"))
            .arg(format!("--iodepth={DEPTH}"))
            .arg(format!("--size={}", self.stream_bytes))
            .arg(format!("--io_size={}", ops * READ_BYTES))
            .arg(format!("--filename={}", self.path.display())))?;
        let iops = reads_per_second(&printed)
            .with_context(|| format!("fio reports no rate: {printed}"))?;
        self.spent = Duration::from_secs_f64(ops as f64 / iops);
        let blocks = self.stream_bytes / READ_BYTES;
        self.ops = to_fill(self.round, ops, self.spent).clamp(DEPTH, blocks);
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }
}

fn reads_per_second(printed: &str) -> Option<f64> {
    // Notes may stand before the report.
    let report: serde_json::Value = serde_json::from_str(&printed[printed.find('{')?..]).ok()?;
    let iops = report["jobs"][0]["read"]["iops"].as_f64()?;
    (iops > 0.0).then_some(iops)
}

/// Why fio cannot be run here, if so.
pub fn why_not() -> Option<anyhow::Error> {
    run(Command::new("fio").arg("--version")).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_in_the_report() {
        let printed = "a note\n{\"jobs\": [{\"read\": {\"iops\": 1234.5}}]}";
        assert_eq!(reads_per_second(printed), Some(1234.5));
        assert_eq!(reads_per_second("{\"jobs\": []}"), None);
        assert_eq!(reads_per_second("nothing"), None);
    }
}
