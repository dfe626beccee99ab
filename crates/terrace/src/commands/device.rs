//! `terrace device`: disks of a mounted volume come and go.

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use terrace_engine::RemovalState;
use terrace_fuse::control::{self, AddDisk, RemoveDisk};

use super::format::{CreatedFiles, create_disk};
use crate::cli::DeviceArg;
use crate::cli::device::{
    DeviceAddArgs, DeviceCommand, DeviceListArgs, DeviceRemoveArgs, DeviceReplaceArgs,
};
use crate::devices::{Access, DeviceOptions, identity, tell_exposure};
use crate::progress::Progress;
use crate::report::{DeviceRow, Status};
use crate::{daemon, mounts, output, report};

/// How often to ask the daemon how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Lists, adds, removes or replaces.
pub fn run(command: &DeviceCommand, quiet: bool) -> Result<()> {
    match command {
        DeviceCommand::List(args) => list(args),
        DeviceCommand::Add(args) => add(args, quiet),
        DeviceCommand::Remove(args) => remove(args, quiet),
        DeviceCommand::Replace(args) => replace(args, quiet),
    }
}

fn status(mountpoint: &Path) -> Result<Status> {
    Ok(serde_json::from_str(&control::status(mountpoint)?)?)
}

fn list(args: &DeviceListArgs) -> Result<()> {
    let rows = status(&mounts::of_volume(&args.target)?.mountpoint)?.device_rows();
    match args.json {
        true => output::print_json(&rows),
        false => output::print(&report::device_list(&rows)),
    }
}

fn add(args: &DeviceAddArgs, quiet: bool) -> Result<()> {
    let mountpoint = mounts::of_volume(&args.target)?.mountpoint;
    args.disks
        .iter()
        .try_for_each(|disk| add_one(&mountpoint, disk, args.tier, args.force, quiet).map(drop))
}

/// Adds a disk; returns its index.
fn add_one(
    mountpoint: &Path,
    disk: &DeviceArg,
    tier: Option<u8>,
    force: bool,
    quiet: bool,
) -> Result<u16> {
    let path = std::path::absolute(&disk.path)?;
    if mounts::lies_on(mountpoint, &path)? {
        bail!(
            "{}: lies on the volume itself, which cannot be its own disk; choose a place elsewhere",
            path.display()
        );
    }
    let mut created = CreatedFiles::default();
    create_disk(disk, force, &DeviceOptions::new(Access::Change), &mut created)?;
    let wanted = AddDisk { path: path.clone(), tier, force };
    let added = control::add_disk(mountpoint, &wanted);
    // Only a disk that was refused for certain may go again.
    if !matches!(added, Ok(Err(_))) {
        created.keep();
    }
    let index = added?.map_err(Error::msg)?;
    output::remark(quiet, &format!("{}: added, device {index}", path.display()));
    tell_exposure(&path, quiet);
    Ok(index)
}

fn remove(args: &DeviceRemoveArgs, quiet: bool) -> Result<()> {
    let mountpoint = mounts::of_volume(&args.target)?.mountpoint;
    let signals = daemon::terminations()?;
    args.disks.iter().try_for_each(|path| {
        let disk = find_disk(&mountpoint, path)?;
        empty(&mountpoint, &disk, None, &signals, quiet)
    })
}

fn replace(args: &DeviceReplaceArgs, quiet: bool) -> Result<()> {
    let mountpoint = mounts::of_volume(&args.target)?.mountpoint;
    let signals = daemon::terminations()?;
    let old = find_disk(&mountpoint, &args.old)?;
    let new = add_one(&mountpoint, &args.new, Some(old.tier), args.force, quiet)?;
    empty(&mountpoint, &old, Some(new), &signals, quiet).with_context(|| {
        format!(
            "{} was added, but {} was not removed: both are in use",
            args.new.path.display(),
            old.path
        )
    })
}

/// The disk of the volume that a path means.
fn find_disk(mountpoint: &Path, path: &Path) -> Result<DeviceRow> {
    let (wanted, place) = (identity(path)?, mountpoint.display());
    let is_wanted =
        |row: &DeviceRow| identity(Path::new(&row.path)).is_ok_and(|found| found == wanted);
    match status(mountpoint)?.device_rows().into_iter().find(is_wanted) {
        Some(row) if row.index == 0 => {
            bail!("{}: is the PM device of the volume, which cannot be removed", path.display())
        }
        Some(row) => Ok(row),
        None => {
            bail!(
                "{}: is no device of the volume at {place}; `terrace device list {place}` shows \
                 them",
                path.display()
            )
        }
    }
}

/// Has a disk removed, and shows how far that is. A signal stops it.
fn empty(
    mountpoint: &Path,
    disk: &DeviceRow,
    successor: Option<u16>,
    signals: &Receiver<i32>,
    quiet: bool,
) -> Result<()> {
    let request = RemoveDisk { device: disk.index, successor };
    control::start_removal(mountpoint, request)?;
    let progress = Progress::new(quiet);
    loop {
        let removal = status(mountpoint)
            .with_context(|| {
                format!("{}: is out of sight; its removal ends with the daemon", disk.path)
            })?
            .removal
            .with_context(|| {
                format!("{}: is not being removed any more: the volume was mounted anew", disk.path)
            })?;
        match removal.state {
            RemovalState::Running => {}
            RemovalState::Finished => {
                let note = removal.message.unwrap_or_else(|| format!("{}: removed", disk.path));
                drop(progress);
                output::remark(quiet, &note);
                return Ok(());
            }
            RemovalState::Cancelled => {
                bail!("{}: the removal was cancelled, the disk is in use", disk.path)
            }
            RemovalState::Failed => {
                return Err(Error::msg(removal.message.unwrap_or_default()));
            }
        }
        progress.update(
            "moving",
            removal.total_bytes.saturating_sub(removal.left_bytes),
            removal.total_bytes.max(1),
        );
        match signals.recv_timeout(ASK_EVERY) {
            Err(RecvTimeoutError::Timeout) => {}
            // It may have ended just now.
            Ok(_) => drop(control::cancel_removal(mountpoint)),
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the thread that waits for signals has ended")
            }
        }
    }
}
