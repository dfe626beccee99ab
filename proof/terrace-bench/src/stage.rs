//! What one contest runs on: a site for each side, and a probe of the disk if one is involved.
//!
//! Invariant: within a site, mounts are dropped first, then the volume, and all of that before the
//! directories: nothing is left behind, whichever way a run ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use terrace_engine::{OpenOptions, Volume};
use terrace_fuse::{MountConfig, Mounted, Transport, mount};
use terrace_media::Pm;
use terrace_nullfs::mount_null;
use terrace_policy::Params;

use crate::bed::{Bed, DiskKind};
use crate::daemon::{self, Daemon, Place};
use crate::disk::{DiskProbe, disk_directory, is_tmpfs};
use crate::ground::Ground;
use crate::kernel::{KernelMount, LOG_BYTES, disk_image};
use crate::options::Options;
use crate::switch::Switch;
use crate::workload::{BLOCK_BYTES, Sizes};

const SHM: &str = "/dev/shm";
/// Tables, logs and slack of a volume, beyond what files need.
const PM_BYTES_BASE: u64 = 32 << 20;
/// A disk that stays empty as long as PM has room; its file is sparse.
const SPARE_DISK_BYTES: u64 = 1 << 30;
/// PM of a volume whose file data is on disk.
const PM_BYTES_OF_LOGS: u64 = 128 << 20;
/// PM that is small, in percent of a database.
const SMALL_PM_PERCENT: u64 = 6;
const SMALL_PM_BYTES_MIN: u64 = 4 << 20;
const IMAGE_BYTES_MIN: u64 = 96 << 20;
/// Least that mkfs.xfs takes, with slack.
const XFS_BYTES_MIN: u64 = 320 << 20;

/// One side's file system, mounted if that is what it is about.
#[derive(Debug)]
pub struct Site {
    ground: Ground,
    fuse: Option<Mounted>,
    daemon: Option<Daemon>,
    kernel: Option<KernelMount>,
    bed: Option<Bed>,
    /// Where its files are; unused in process.
    directory: PathBuf,
}

impl Site {
    fn new(
        ground: Ground,
        sizes: Sizes,
        options: &Options,
        memory: &Path,
        mounts: &Path,
    ) -> Result<Self> {
        let transport = options.transport;
        let name = format!("{ground:?}").replace(|c: char| !c.is_ascii_alphanumeric(), "");
        let directory = mounts.join(&name);
        let mut site =
            Self { ground, fuse: None, daemon: None, kernel: None, bed: None, directory };
        let device =
            || disk_image(&mounts.join(format!("{name}-image")), image_bytes(ground, sizes));
        let config = |durable| MountConfig {
            fs_name: "terrace-bench".to_owned(),
            durable,
            transport,
            ..MountConfig::default()
        };
        let in_pm = |durable| OpenOptions {
            durable,
            cache_bytes: sizes.cache_bytes,
            params: if ground.has_small_pm() { options.params() } else { Params::default() },
            ..OpenOptions::default()
        };
        let directory = match ground {
            Ground::Tmpfs => memory.join(&name),
            _ => site.directory.clone(),
        };
        fs::create_dir(&directory).with_context(|| format!("creating {}", directory.display()))?;
        site.directory = directory;
        match ground {
            Ground::Tmpfs => {}
            Ground::TmpfsHuge => site.kernel = Some(KernelMount::huge_tmpfs(&site.directory)?),
            Ground::Engine => {
                site.bed = Some(Bed::new(
                    memory,
                    &name,
                    pm_bytes(ground, sizes),
                    &DiskKind::None,
                    in_pm(true),
                )?);
            }
            Ground::Mount { durable } => {
                let disk = DiskKind::Sparse(SPARE_DISK_BYTES);
                let bed = Bed::new(memory, &name, pm_bytes(ground, sizes), &disk, in_pm(durable))?;
                site.fuse = Some(mount(bed.volume().clone(), &site.directory, &config(durable))?);
                site.bed = Some(bed);
            }
            Ground::Lending => {
                let [pm, log] = ["pm", "log"].map(|of| memory.join(format!("{name}-{of}")));
                let place = Place {
                    pm: (&pm, pm_bytes(ground, sizes)),
                    disk: (&mounts.join(format!("{name}-disk")), SPARE_DISK_BYTES),
                    mountpoint: &site.directory,
                    log: &log,
                };
                let way = match transport {
                    Transport::IoUring => "io_uring",
                    Transport::Device => "device",
                    Transport::Auto => "auto",
                };
                let options = format!("lend=owner,transport={way},cache_dir={}", memory.display());
                site.daemon = Some(Daemon::new(daemon::program()?, place, Some(&options))?);
            }
            Ground::MountOnDisk => {
                let device = device()?;
                let disk = DiskKind::Device(device.path().to_owned());
                // A file that is streamed must not fit.
                let cache_bytes = sizes.stream_bytes / 2;
                let open =
                    OpenOptions { pm_full_percent: 0, cache_bytes, ..OpenOptions::default() };
                let bed = Bed::new(memory, &name, pm_bytes(ground, sizes), &disk, open)?;
                site.fuse = Some(mount(bed.volume().clone(), &site.directory, &config(false))?);
                site.bed = Some(bed);
            }
            Ground::Tiered { durable, .. } => {
                let device = device()?;
                let disk = DiskKind::Device(device.path().to_owned());
                let bed = Bed::new(memory, &name, pm_bytes(ground, sizes), &disk, in_pm(durable))?;
                site.fuse = Some(mount(bed.volume().clone(), &site.directory, &config(durable))?);
                site.bed = Some(bed);
            }
            Ground::EngineTiered { .. } => {
                let device = device()?;
                let disk = DiskKind::Device(device.path().to_owned());
                site.bed =
                    Some(Bed::new(memory, &name, pm_bytes(ground, sizes), &disk, in_pm(false))?);
            }
            Ground::Null { durable } => {
                site.fuse = Some(mount_null(&site.directory, &config(durable))?)
            }
            Ground::Ext4 | Ground::Ext4Journal | Ground::XfsLog => {
                site.kernel = Some(KernelMount::new(ground, device()?, memory, &site.directory)?);
            }
        }
        Ok(site)
    }

    fn strike(self) -> Result<()> {
        if let Some(mounted) = self.fuse {
            mounted.unmount()?;
        }
        if let Some(mounted) = self.kernel {
            mounted.unmount()?;
        }
        if let Some(mut daemon) = self.daemon {
            daemon.unmount()?;
        }
        self.bed.map_or(Ok(()), |mut bed| bed.close())
    }

    /// Where files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The FUSE mount, if it is one.
    pub fn fuse(&self) -> Option<&Mounted> {
        self.fuse.as_ref()
    }

    /// Terrace's own program that has mounted it, if so.
    pub fn daemon(&self) -> Option<&Daemon> {
        self.daemon.as_ref()
    }

    /// The volume behind it, if there is one.
    pub fn volume(&self) -> Option<&Arc<Volume>> {
        self.bed.as_ref().map(Bed::volume)
    }

    /// Bytes read so far from the disk that was made for it, where that is known.
    pub fn disk_bytes_read(&self) -> Option<u64> {
        let of_volume = || Some(self.bed.as_ref()?.disk()?.stats().bytes_read);
        self.kernel.as_ref().map_or_else(of_volume, KernelMount::disk_bytes_read)
    }

    /// That volume's PM.
    pub fn pm(&self) -> Option<&Arc<Pm>> {
        self.bed.as_ref().map(Bed::pm)
    }
}

/// Everything that one contest runs on.
#[derive(Debug)]
pub struct Stage {
    sites: Vec<Site>,
    probe: Option<DiskProbe>,
    sizes: Sizes,
    _mounts: TempDir,
    _memory: TempDir,
}

impl Stage {
    /// Makes a site for each of the `grounds` (one for those that occur twice).
    ///
    /// # Errors
    /// If the system refuses any of it; nothing is left behind then.
    pub fn set(grounds: &[Ground], sizes: Sizes, options: &Options) -> Result<Self> {
        let memory = memory_directory()?;
        let on_disk = grounds.iter().any(|ground| ground.has_image());
        let mounts =
            new_directory(&if on_disk { disk_directory(options)? } else { std::env::temp_dir() })?;
        let probe = on_disk.then(|| DiskProbe::new(mounts.path())).transpose()?;
        let mut stage = Self { sites: Vec::new(), probe, sizes, _mounts: mounts, _memory: memory };
        let is_over_ring = options.transport == Transport::IoUring
            && grounds.iter().any(|ground| ground.is_fuse());
        let _switch = is_over_ring.then(|| Switch::set(true)).transpose()?;
        for &ground in grounds {
            if stage.sites.iter().all(|site| site.ground != ground) {
                stage.sites.push(Site::new(
                    ground,
                    sizes,
                    options,
                    stage._memory.path(),
                    stage._mounts.path(),
                )?);
            }
        }
        Ok(stage)
    }

    /// Unmounts and closes everything, and removes it.
    ///
    /// # Errors
    /// If a mount was in use or a volume could not be closed.
    pub fn strike(self) -> Result<()> {
        self.sites.into_iter().try_for_each(Site::strike)
    }

    /// The site of a ground that the stage was set with.
    pub fn site(&self, ground: Ground) -> Result<&Site> {
        self.sites
            .iter()
            .find(|site| site.ground == ground)
            .with_context(|| format!("no site for {ground}"))
    }

    /// The PM of any of its volumes.
    pub fn any_pm(&self) -> Option<&Arc<Pm>> {
        self.sites.iter().find_map(Site::pm)
    }

    /// Measures the disk, if one is involved.
    pub fn probe(&mut self) -> Option<&mut DiskProbe> {
        self.probe.as_mut()
    }

    /// How large files are to be here.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }
}

/// PM for the files, for the log entries of a file overwritten block by block, and for an appended
/// file that is being freed while the next one grows.
fn pm_bytes(ground: Ground, sizes: Sizes) -> u64 {
    match ground {
        Ground::MountOnDisk => PM_BYTES_OF_LOGS,
        Ground::Tiered { small: true, .. } | Ground::EngineTiered { small: true } => {
            small_pm_bytes(sizes)
        }
        // Twice the data: below the threshold from which on it moves to disk.
        Ground::Tiered { small: false, .. } | Ground::EngineTiered { small: false } => {
            2 * (2 * sizes.database_bytes).max(sizes.file_bytes) + PM_BYTES_BASE
        }
        _ => sizes.file_bytes + sizes.file_bytes / 2 + 2 * sizes.appended_bytes_max + PM_BYTES_BASE,
    }
}

/// PM that is small.
pub fn small_pm_bytes(sizes: Sizes) -> u64 {
    let bytes = (sizes.database_bytes * SMALL_PM_PERCENT / 100).max(SMALL_PM_BYTES_MIN);
    bytes.next_multiple_of(BLOCK_BYTES as u64)
}

/// A device for a file that is read, one that is written anew, and its predecessor.
fn image_bytes(ground: Ground, sizes: Sizes) -> u64 {
    let least = if ground == Ground::XfsLog { XFS_BYTES_MIN } else { IMAGE_BYTES_MIN };
    (3 * sizes.stream_bytes).max(least)
}

/// A directory that goes when it is dropped.
///
/// # Errors
/// If it cannot be made.
pub fn new_directory(parent: &Path) -> Result<TempDir> {
    let prefix = format!("terrace-bench-{}-", std::process::id());
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent);
    directory.with_context(|| format!("creating a directory in {}", parent.display()))
}

/// A new directory in memory.
///
/// # Errors
/// If the system refuses.
pub fn memory_directory() -> Result<TempDir> {
    new_directory(Path::new(SHM))
}

/// What a benchmark needs while it runs, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// In `/dev/shm`.
    pub shm: u64,
    /// Memory beyond that: what the kernel caches of mounted files.
    pub cached: u64,
    /// On the disk.
    pub disk: u64,
}

impl Room {
    /// What the sites of these grounds need.
    pub fn of(grounds: &[Ground], sizes: Sizes) -> Self {
        let mut room = Room::default();
        for &ground in grounds {
            room.shm += match ground {
                Ground::Tmpfs | Ground::TmpfsHuge => sizes.file_bytes.max(sizes.appended_bytes_max),
                _ if ground.is_volume() => pm_bytes(ground, sizes),
                Ground::Ext4Journal | Ground::XfsLog => LOG_BYTES,
                _ => 0,
            };
            room.cached += if ground.is_fuse() { sizes.file_bytes } else { 0 };
            room.disk += if ground.has_image() { image_bytes(ground, sizes) } else { 0 };
        }
        room
    }

    /// Refuses what there is no room for, before anything is made.
    ///
    /// # Errors
    /// If `/dev/shm` is no tmpfs, or if it, the machine's memory or the disk lacks room.
    pub fn check(&self, options: &Options) -> Result<()> {
        let statfs = rustix::fs::statfs(SHM)
            .with_context(|| format!("{SHM}: the benchmarks need a tmpfs there"))?;
        if !is_tmpfs(&statfs) {
            bail!("{SHM} is no tmpfs; mount one: mount -t tmpfs tmpfs {SHM}");
        }
        let free_bytes = |statfs: rustix::fs::StatFs| {
            statfs.f_bavail.saturating_mul(u64::try_from(statfs.f_bsize).unwrap_or(0))
        };
        let mut limits = vec![
            (SHM.to_owned(), Some(free_bytes(statfs)), self.shm),
            ("the machine's memory".to_owned(), available_memory_bytes(), self.shm + self.cached),
        ];
        if self.disk > 0 {
            let directory = disk_directory(options)?;
            let statfs =
                rustix::fs::statfs(&directory).with_context(|| directory.display().to_string())?;
            limits.push((directory.display().to_string(), Some(free_bytes(statfs)), self.disk));
        }
        for (what, available, need_bytes) in limits {
            if let Some(available_bytes) =
                available.filter(|&available_bytes| available_bytes < need_bytes)
            {
                bail!(
                    "{what} has {} MiB free, but this benchmark needs {} MiB: give a smaller \
                     --size, --quick, or make room",
                    available_bytes >> 20,
                    need_bytes.div_ceil(1 << 20)
                );
            }
        }
        Ok(())
    }
}

/// None where the system does not say.
fn available_memory_bytes() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Why nothing can be mounted here, if so; found out by mounting.
pub fn why_no_fuse() -> Option<anyhow::Error> {
    let try_it = || -> Result<()> {
        fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .context("opening /dev/fuse")?;
        let directory = new_directory(&std::env::temp_dir())?;
        mount_null(directory.path(), &MountConfig::default())?.unmount()
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
        let room = Room::of(&[Ground::Engine], Sizes::in_process(&options));
        let refusal = room.check(&options).unwrap_err().to_string();
        assert!(refusal.contains("--size"), "{refusal}");
    }

    #[test]
    fn small_files_fit_and_leave_nothing_behind() {
        let options = Options::parse_from(["terrace-bench", "--size", "16M"]);
        let (grounds, sizes) = ([Ground::Engine, Ground::Tmpfs], Sizes::in_process(&options));
        Room::of(&grounds, sizes).check(&options).unwrap();
        let stage = Stage::set(&grounds, sizes, &options).unwrap();
        let made = stage.site(Ground::Tmpfs).unwrap().directory().to_owned();
        assert!(made.is_dir() && stage.site(Ground::Engine).unwrap().pm().is_some());
        assert!(stage.site(Ground::Ext4).is_err());
        stage.strike().unwrap();
        assert!(!made.parent().unwrap().exists());
    }
}
