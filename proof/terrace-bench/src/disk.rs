//! The disk under the benchmarks that touch one: where files on it go, and what it takes to make a
//! block durable.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::options::Options;
use crate::workload::{BLOCK_BYTES, FILLING};

const PROBES: u32 = 9;
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// The directory for files that stand for disks: what `--disk-dir` says, or the first for temporary
/// files that is not in memory.
///
/// # Errors
/// If there is none.
pub fn disk_directory(options: &Options) -> Result<PathBuf> {
    let candidates = match &options.disk_dir {
        Some(directory) => vec![directory.clone()],
        None => vec![std::env::temp_dir(), PathBuf::from("/var/tmp")],
    };
    for directory in &candidates {
        let statfs =
            rustix::fs::statfs(directory).with_context(|| directory.display().to_string())?;
        if !is_tmpfs(&statfs) {
            return Ok(directory.clone());
        }
    }
    bail!("{} is in memory: name a directory on a disk with --disk-dir", candidates[0].display())
}

/// Whether a file system is one in memory.
pub fn is_tmpfs(statfs: &rustix::fs::StatFs) -> bool {
    // The field's type differs between architectures; the number has 32 bits.
    statfs.f_type as u64 & 0xffff_ffff == TMPFS_MAGIC
}

/// Measures `fdatasync` after the write of a block to a file that has been written before.
#[derive(Debug)]
pub struct DiskProbe {
    file: File,
    /// One per measurement.
    medians: Vec<Duration>,
}

impl DiskProbe {
    /// On the disk of `directory`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(directory: &Path) -> Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(directory.join("probe"))?;
        file.write_all_at(&FILLING, 0)?;
        file.sync_all()?;
        Ok(Self { file, medians: Vec::new() })
    }

    /// Measures once more.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn measure(&mut self) -> Result<()> {
        let mut samples = Vec::new();
        for block in 0..PROBES {
            self.file
                .write_all_at(&FILLING[..BLOCK_BYTES], u64::from(block) * BLOCK_BYTES as u64)?;
            let start = Instant::now();
            self.file.sync_data()?;
            samples.push(start.elapsed());
        }
        samples.sort_unstable();
        self.medians.push(samples[samples.len() / 2]);
        Ok(())
    }

    /// The median of all measurements so far, in microseconds.
    pub fn fdatasync_us(&self) -> Option<f64> {
        let mut medians = self.medians.clone();
        medians.sort_unstable();
        Some(medians.get(medians.len() / 2)?.as_secs_f64() * 1e6)
    }
}
