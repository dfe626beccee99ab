//! A mounted volume for a moment: one whose thresholds are set, and that is asked afterwards what
//! it has counted.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use terrace_engine::{OpenOptions, Volume};
use terrace_fuse::{MountConfig, mount};
use terrace_media::create_disk_file;
use terrace_policy::{OutOfRange, Param, Params};

use crate::bed::{Bed, DiskKind};
use crate::disk::disk_directory;
use crate::options::Options;
use crate::stage::{memory_directory, new_directory};

/// Thresholds that differ from their defaults.
pub type Settings = &'static [(Param, u64)];

/// The rules that look at a file's siblings, at who waits for it, and at how fast PM fills, off: as
/// it was before there were any.
pub const RULES_OFF: Settings = &[(Param::Siblings, 0), (Param::AwaitBytes, 0), (Param::Lately, 0)];

/// The defaults, but for these.
///
/// # Errors
/// If a value is none that the threshold may have.
pub fn params(settings: Settings) -> Result<Params, OutOfRange> {
    let mut params = Params::default();
    settings.iter().try_for_each(|&(param, value)| params.set(param, value))?;
    Ok(params)
}

/// Formats and mounts a volume with so much PM and disk, does something on it, and removes it.
///
/// # Errors
/// If the system or the engine refuses; those of `act`.
pub fn on_mount<T>(
    options: &Options,
    [pm_bytes, disk_bytes]: [u64; 2],
    open: OpenOptions,
    act: impl FnOnce(&Path, &Arc<Volume>) -> Result<T>,
) -> Result<T> {
    let (memory, on_disk) = (memory_directory()?, new_directory(&disk_directory(options)?)?);
    let (disk, root) = (on_disk.path().join("disk"), on_disk.path().join("mount"));
    create_disk_file(&disk, disk_bytes)?;
    std::fs::create_dir(&root).with_context(|| format!("creating {}", root.display()))?;
    let mut bed = Bed::new(memory.path(), "volume", pm_bytes, &DiskKind::Device(disk), open)?;
    let mounted = mount(bed.volume().clone(), &root, &MountConfig::default())?;
    let outcome = act(&root, bed.volume());
    mounted.unmount()?;
    bed.close()?;
    outcome
}
