//! What one benchmark runs on: a new volume whose PM is a file in `/dev/shm`, a directory on the same tmpfs as
//! baseline, and, for rows on mounts, the volume and the do-nothing file system mounted in directories of their own.
//!
//! Invariant: fields are dropped mounts first, then the volume, then directories: nothing is left behind, whichever
//! way a run ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustix::process::{getegid, geteuid};
use tempfile::TempDir;
use terrace_engine::{FormatOptions, OpenOptions, Volume};
use terrace_fuse::{MountConfig, Mounted, mount, mount_null};
use terrace_media::{Disk, DiskOpenOptions, Pm, PmOpenOptions, create_disk_file, open_disk};

use crate::catalog::Place;
use crate::options::Options;
use crate::workload::{BLOCK_BYTES, Sizes};

const SHM: &str = "/dev/shm";
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Tables, logs and slack of a volume, beyond what files need.
const PM_BYTES_BASE: u64 = 32 << 20;
/// The disk's file is sparse and stays empty as long as PM has room.
const DISK_BYTES: u64 = 1 << 30;
const CACHE_BYTES: u64 = 32 << 20;

/// Both mounts of a benchmark, with the same settings.
#[derive(Debug)]
pub struct Mounts {
    /// The volume.
    pub ours: Mounted,
    /// The file system that does nothing.
    pub null: Mounted,
}

/// Everything that one benchmark runs on.
#[derive(Debug)]
pub struct Stage {
    mounts: Option<Mounts>,
    volume: Arc<Volume>,
    pm: Arc<Pm>,
    sizes: Sizes,
    memory: TempDir,
    _directory: Option<TempDir>,
}

impl Stage {
    /// Makes everything that a benchmark at `place` needs.
    ///
    /// # Errors
    /// If the system refuses any of it; nothing is left behind then.
    pub fn set(place: Place, options: &Options) -> Result<Self> {
        let sizes = sizes(place, options);
        let memory = new_directory(Path::new(SHM))?;
        fs::create_dir(memory.path().join("tmpfs"))?;
        let pm_path = memory.path().join("pm");
        Pm::create_file(&pm_path, pm_bytes(sizes))?;
        let pm = Pm::open(&pm_path, &PmOpenOptions::default())?;
        map_all(&pm);
        let Place::Mount { durable } = place else {
            let volume = new_volume(&pm, Vec::new(), true)?;
            return Ok(Self { mounts: None, volume, pm, sizes, memory, _directory: None });
        };
        let directory = new_directory(&std::env::temp_dir())?;
        let disk_path = directory.path().join("disk");
        create_disk_file(&disk_path, DISK_BYTES)?;
        let disk = open_disk(&disk_path, &DiskOpenOptions::default())?;
        let volume = new_volume(&pm, vec![disk], durable)?;
        let config = MountConfig { fs_name: "terrace-bench".to_owned(), durable, ..MountConfig::default() };
        let ours = mount(volume.clone(), &new_mount_point(&directory, "terrace")?, &config)?;
        let null = mount_null(&new_mount_point(&directory, "null")?, &config)?;
        Ok(Self { mounts: Some(Mounts { ours, null }), volume, pm, sizes, memory, _directory: Some(directory) })
    }

    /// Unmounts and closes everything, and removes it.
    ///
    /// # Errors
    /// If a mount was in use or the volume could not be closed.
    pub fn strike(self) -> Result<()> {
        if let Some(mounts) = self.mounts {
            mounts.ours.unmount()?;
            mounts.null.unmount()?;
        }
        self.volume.close().context("closing the volume")
    }

    /// The mounts, if the place is one.
    pub fn mounts(&self) -> Option<&Mounts> {
        self.mounts.as_ref()
    }

    /// The volume.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Its PM.
    pub fn pm(&self) -> &Arc<Pm> {
        &self.pm
    }

    /// How large files are to be here.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// An empty directory on tmpfs.
    pub fn tmpfs(&self) -> PathBuf {
        self.memory.path().join("tmpfs")
    }
}

fn sizes(place: Place, options: &Options) -> Sizes {
    match place {
        Place::Engine => Sizes::in_process(options),
        Place::Mount { .. } => Sizes::on_mounts(options),
    }
}

/// PM for the files, for the log entries of a file overwritten block by block, and for an appended file that is being
/// freed while the next one grows.
fn pm_bytes(sizes: Sizes) -> u64 {
    sizes.file_bytes + sizes.file_bytes / 2 + 2 * sizes.appended_bytes_max + PM_BYTES_BASE
}

/// Touches every page, as a daemon has done that has run for a while: a first touch is a page fault, which would be
/// measured in place of the operation that happens to be the first.
fn map_all(pm: &Pm) {
    for page in (0..pm.len()).step_by(BLOCK_BYTES) {
        std::hint::black_box(pm.load_u64(page));
    }
}

fn new_directory(parent: &Path) -> Result<TempDir> {
    let prefix = format!("terrace-bench-{}-", std::process::id());
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
    directory.with_context(|| format!("creating a directory in {}", parent.display()))
}

fn new_mount_point(directory: &TempDir, name: &str) -> Result<PathBuf> {
    let path = directory.path().join(name);
    fs::create_dir(&path).with_context(|| format!("creating {}", path.display()))?;
    Ok(path)
}

fn new_volume(pm: &Arc<Pm>, disks: Vec<Arc<dyn Disk>>, durable: bool) -> Result<Arc<Volume>> {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let format = FormatOptions { pm_data_checksums: false, uid, gid, ..FormatOptions::default() };
    terrace_engine::format(pm, &disks, &format).context("formatting a volume")?;
    let options = OpenOptions { durable, cache_bytes: CACHE_BYTES, ..OpenOptions::default() };
    Volume::open(pm.clone(), disks, options, &|_, _, _| {}).context("opening the volume")
}

/// Refuses what memory has no room for, before anything is made.
///
/// # Errors
/// If `/dev/shm` is no tmpfs, or if it or the machine's memory lacks room.
pub fn check_room(place: Place, options: &Options) -> Result<()> {
    let statfs = rustix::fs::statfs(SHM).with_context(|| format!("{SHM}: the benchmarks need a tmpfs there"))?;
    // The field's type differs between architectures; the number has 32 bits.
    if statfs.f_type as u64 & 0xffff_ffff != TMPFS_MAGIC {
        bail!("{SHM} is no tmpfs; mount one: mount -t tmpfs tmpfs {SHM}");
    }
    let sizes = sizes(place, options);
    let in_shm_bytes = pm_bytes(sizes) + sizes.file_bytes.max(sizes.appended_bytes_max);
    // The kernel caches the files of both mounts.
    let cached_bytes = if place == Place::Engine { 0 } else { 2 * sizes.file_bytes };
    let shm_bytes = statfs.f_bavail.saturating_mul(u64::try_from(statfs.f_bsize).unwrap_or(0));
    for (what, available_bytes, need_bytes) in [
        (SHM, Some(shm_bytes), in_shm_bytes),
        ("the machine's memory", available_memory_bytes(), in_shm_bytes + cached_bytes),
    ] {
        if let Some(available_bytes) = available_bytes.filter(|&available_bytes| available_bytes < need_bytes) {
            bail!(
                "{what} has {} MiB free, but the rows on the {} need {} MiB: give a smaller --size, or make room",
                available_bytes >> 20,
                if place == Place::Engine { "engine" } else { "mounts" },
                need_bytes.div_ceil(1 << 20)
            );
        }
    }
    Ok(())
}

/// None where the system does not say.
fn available_memory_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Why nothing can be mounted here, if so; found out by mounting.
pub fn why_no_mounts() -> Option<anyhow::Error> {
    let try_it = || -> Result<()> {
        fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").context("opening /dev/fuse")?;
        let directory = new_directory(&std::env::temp_dir())?;
        mount_null(&new_mount_point(&directory, "null")?, &MountConfig::default())?.unmount()
    };
    try_it().err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn what_memory_cannot_hold_is_refused_with_a_remedy() {
        let options = Options::parse_from(["terrace-bench", "--size", "1024G"]);
        let refusal = check_room(Place::Engine, &options).unwrap_err().to_string();
        assert!(refusal.contains("--size"), "{refusal}");
    }

    #[test]
    fn small_files_fit_and_leave_nothing_behind() {
        let options = Options::parse_from(["terrace-bench", "--size", "16M"]);
        check_room(Place::Engine, &options).unwrap();
        let stage = Stage::set(Place::Engine, &options).unwrap();
        let made = stage.memory.path().to_owned();
        assert!(made.join("pm").exists() && made.join("tmpfs").is_dir());
        stage.strike().unwrap();
        assert!(!made.exists());
    }
}
