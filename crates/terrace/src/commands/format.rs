//! `terrace format`

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustix::process::{getegid, geteuid};
use terrace_engine::{FormatOptions, counted, discard_page_cache, read_pm_label};
use terrace_media::{Disk, MediaError, Pm, PmKind, create_disk_file};

use crate::cli::{DeviceArg, FormatArgs};
use crate::devices::{
    Access, DeviceOptions, identity, refuse_contents, tell_exposure, volume_on_pm,
};
use crate::exit::Usage;
use crate::size::format_size;
use crate::{daemon, output};

/// Lengths of created files are multiples of this.
const LEN_MULTIPLE_BYTES: u64 = 4096;

/// Makes a volume.
pub fn run(args: &FormatArgs, quiet: bool) -> Result<()> {
    let tiers = tiers(args)?;
    refuse_twice(args)?;
    let mut created = CreatedFiles::default();
    let options = DeviceOptions { models: &args.models, ..DeviceOptions::new(Access::Change) };
    let (pm, former) = open_pm(&args.pm, args.force, &options, &mut created)?;
    let mut disks = Vec::with_capacity(args.disks.len());
    for (disk, index) in args.disks.iter().zip(1..) {
        disks.push(open_disk(disk, index, args.force, &options, &mut created)?);
    }
    let format = FormatOptions {
        shards: args.shards,
        pm_data_checksums: args.data_checksums,
        tiers,
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    };
    terrace_engine::format(&pm, &disks, &format)
        .with_context(|| format!("{}: cannot format", args.pm.path.display()))?;
    created.keep();
    if let Some(uuid) = former {
        forget_volume(&uuid);
    }
    tell(&pm, &disks, quiet)
}

/// Nobody will recover what a dead daemon left in memory of a volume that is overwritten.
fn forget_volume(uuid: &str) {
    if let Err(error) = discard_page_cache(&daemon::default_cache_dir(), uuid) {
        output::remark(
            false,
            &format!("terrace: of the volume that was overwritten, something is left: {error}"),
        );
    }
}

/// The tier of each disk.
fn tiers(args: &FormatArgs) -> Result<Vec<u8>> {
    match args.tiers.len() {
        0 => Ok(vec![1; args.disks.len()]),
        count if count == args.disks.len() => Ok(args.tiers.clone()),
        count => Err(Usage::error(format!(
            "{} given, but tiers for {count}: give --tier once for each --disk, in the same \
             order, or never",
            counted(args.disks.len() as u64, "disk", "disks")
        ))),
    }
}

/// Refuses a device that is named twice, whatever its names.
fn refuse_twice(args: &FormatArgs) -> Result<()> {
    let mut seen = HashMap::new();
    for path in std::iter::once(&args.pm).chain(&args.disks).map(|device| &device.path) {
        if let Some(other) = seen.insert(identity(path)?, path) {
            return Err(Usage::error(format!(
                "{} and {} are the same device; each device of a volume must be another",
                other.display(),
                path.display()
            )));
        }
    }
    Ok(())
}

/// Opens or creates the PM device; also tells the UUID of the volume that was on it.
fn open_pm(
    device: &DeviceArg,
    force: bool,
    options: &DeviceOptions<'_>,
    created: &mut CreatedFiles,
) -> Result<(Arc<Pm>, Option<String>)> {
    let uuid_on =
        |pm: &Pm| read_pm_label(pm).ok().flatten().filter(|l| l.device_index == 0).map(|l| l.uuid);
    let mut former = None;
    let open_former = |path: &Path| options.open_pm(path).map(|pm| former = uuid_on(&pm));
    if let Some(len_bytes) = len_to_create(device, force, open_former)? {
        let path = std::path::absolute(&device.path)?;
        created.make(&path, || Pm::create_file(&path, len_bytes))?;
        return Ok((options.open_pm(&path)?, former));
    }
    let pm = options.open_pm(&device.path)?;
    if !force {
        refuse_contents(&device.path, volume_on_pm(&pm))?;
    }
    let former = uuid_on(&pm);
    Ok((pm, former))
}

fn open_disk(
    device: &DeviceArg,
    index: u16,
    force: bool,
    options: &DeviceOptions<'_>,
    created: &mut CreatedFiles,
) -> Result<Arc<dyn Disk>> {
    create_disk(device, force, options, created)?;
    options.open_new_disk(&device.path, index, force, |_, _| false)
}

/// Creates the file that is to be a disk, if one is to be.
pub(super) fn create_disk(
    device: &DeviceArg,
    force: bool,
    options: &DeviceOptions<'_>,
    created: &mut CreatedFiles,
) -> Result<()> {
    if let Some(len_bytes) =
        len_to_create(device, force, |path| options.open_disk(path, 0).map(drop))?
    {
        let path = std::path::absolute(&device.path)?;
        created.make(&path, || create_disk_file(&path, len_bytes))?;
    }
    Ok(())
}

/// The length of the file to create; `None` if none is to be, because the device exists. A regular
/// file that is there makes way if `force` is set and `open` shows that nobody uses it.
fn len_to_create(
    device: &DeviceArg,
    force: bool,
    open: impl FnOnce(&Path) -> Result<()>,
) -> Result<Option<u64>> {
    let path = &device.path;
    let Some(size_bytes) = device.size_bytes else {
        return match fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let path = path.display();
                bail!(
                    "{path}: {error}; with a size behind it, as in {path}:4G, a file is created \
                     there"
                )
            }
            // Other faults show when it is opened.
            _ => Ok(None),
        };
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
        Ok(meta) if meta.is_file() && force => {
            if meta.len() > 0 {
                open(path)?;
            }
            fs::remove_file(path)
                .with_context(|| format!("{}: cannot be replaced", path.display()))?;
        }
        Ok(meta) if meta.is_file() => {
            bail!(
                "{}: exists; leave out the size to format it as it is, or use --force to replace \
                 it",
                path.display()
            )
        }
        Ok(_) => bail!(
            "{}: exists and is no regular file; leave out the size to format it as it is",
            path.display()
        ),
    }
    Ok(Some(size_bytes / LEN_MULTIPLE_BYTES * LEN_MULTIPLE_BYTES))
}

/// Says what was made, and what to know about it.
fn tell(pm: &Pm, disks: &[Arc<dyn Disk>], quiet: bool) -> Result<()> {
    let uuid = read_pm_label(pm)?.map(|label| label.uuid).unwrap_or_default();
    let disk_bytes = disks.iter().map(|disk| disk.len()).sum();
    let (pm_size, disk_size) = (format_size(pm.len()), format_size(disk_bytes));
    output::remark(quiet, &format!("volume {uuid}: {pm_size} of PM, {disk_size} of disk"));
    if pm.kind() == PmKind::Emulated {
        let note = "note: this PM is memory of the machine: contents are lost at reboot; \
                    `terrace save` and `terrace restore` carry them across one";
        output::remark(quiet, note);
    }
    for path in [pm.path()].into_iter().chain(disks.iter().map(|disk| disk.path())) {
        tell_exposure(path, quiet);
    }
    Ok(())
}

/// The files that this command has created; they are removed again unless they are to be kept.
#[derive(Debug, Default)]
pub(super) struct CreatedFiles(Vec<PathBuf>);

impl CreatedFiles {
    /// Creates a file that does not exist.
    pub(super) fn make(
        &mut self,
        path: &Path,
        create: impl FnOnce() -> Result<(), MediaError>,
    ) -> Result<()> {
        create()?;
        self.0.push(path.to_owned());
        Ok(())
    }

    /// All is well.
    pub(super) fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for CreatedFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = fs::remove_file(path) {
                output::remark(
                    false,
                    &format!("terrace: {}: cannot be removed again: {error}", path.display()),
                );
            }
        }
    }
}
