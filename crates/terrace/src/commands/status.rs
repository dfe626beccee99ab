//! `terrace status`

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;
use terrace_engine::offline_status;

use crate::cli::StatusArgs;
use crate::devices::{Access, DeviceOptions, Devices, about, exposure};
use crate::report::{self, Endurance, Endurances, Status};
use crate::{mounts, output};

/// Prints the state of a volume.
pub fn run(args: &StatusArgs) -> Result<()> {
    let mut status: Value = serde_json::from_str(&status(args)?)?;
    note_exposures(&mut status);
    add_endurance(&mut status)?;
    match args.json {
        true => output::print_json(&status),
        false => output::print(&report::status(&serde_json::from_value(status)?)),
    }
}

/// Notes which devices are open to others, so far as the caller may see them.
fn note_exposures(status: &mut Value) {
    let rows = status["devices"].as_array().into_iter().flatten();
    let paths = rows.filter_map(|device| device["path"].as_str());
    let exposures: Vec<Value> =
        paths.filter_map(|path| exposure(Path::new(path))).map(Value::from).collect();
    if let Some(notes) = status["notes"].as_array_mut() {
        notes.extend(exposures);
    }
}

/// Adds how worn the devices say they are, so far as they tell the caller.
fn add_endurance(status: &mut Value) -> Result<()> {
    let seen: Status = serde_json::from_value(status.clone())?;
    let told = seen.device_rows().into_iter().filter_map(|row| {
        let told = terrace_media::endurance(Path::new(&row.path))?;
        Some((report::device_name(row.index), Endurance::from(told)))
    });
    status["endurance"] = serde_json::to_value(told.collect::<Endurances>())?;
    Ok(())
}

/// The state as JSON: the daemon's answer, or as it would answer.
fn status(args: &StatusArgs) -> Result<String> {
    let target = &args.target;
    if let Some(mount) = mounts::at(target)?.filter(mounts::Mount::is_terrace) {
        return terrace_fuse::control::status(&mount.mountpoint);
    }
    if target.is_dir() {
        bail!(
            "{}: no Terrace volume is mounted here; `findmnt -t {}` lists volumes",
            target.display(),
            mounts::FS_TYPE
        );
    }
    match mounts::of_pm(target)? {
        Some(mount) if !mounts::is_dead(&mount.mountpoint) => {
            terrace_fuse::control::status(&mount.mountpoint)
        }
        // Not mounted, or by a daemon that has died: the devices tell.
        _ => offline(args),
    }
}

/// The state of a volume that is not mounted; disks that cannot be found are noted.
fn offline(args: &StatusArgs) -> Result<String> {
    let devices = Devices::find(&args.target, &args.disks, &DeviceOptions::new(Access::Examine))?;
    let mut status = offline_status(&devices.pm, &devices.disks).map_err(about(&args.target))?;
    status.notes.extend(devices.missing.iter().map(|error| format!("{error:#}")));
    Ok(serde_json::to_string(&status)?)
}
