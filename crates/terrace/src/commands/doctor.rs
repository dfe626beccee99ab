//! `terrace doctor`

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;
use terrace_engine::read_pm_label;
use terrace_fuse::control;

use crate::cli::doctor::DoctorArgs;
use crate::devices::{Access, DeviceOptions};
use crate::doctor::{self, Machine, PmDevice, Subject};
use crate::exit::UNSAFE;
use crate::{mounts, output};

/// Looks at the machine, and at a mount or devices, and prints what was found.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let mut subject = match &args.target {
        Some(target) => subject(target)?,
        None => Subject::default(),
    };
    subject.disks.extend_from_slice(&args.disks);
    let findings = doctor::examine(&Machine::here(), &subject);
    match args.json {
        true => output::print_json(&json!({ "findings": findings }))?,
        false => output::print(&doctor::to_text(&findings))?,
    }
    Ok(if doctor::is_unsafe(&findings) { ExitCode::from(UNSAFE) } else { ExitCode::SUCCESS })
}

/// What a mountpoint or a PM device leads to.
fn subject(target: &Path) -> Result<Subject> {
    let mount = match mounts::at(target)?.filter(mounts::Mount::is_terrace) {
        None => mounts::of_pm(target)?.filter(|mount| !mounts::is_dead(&mount.mountpoint)),
        mount => mount,
    };
    if let Some(mount) = mount {
        return of_mount(&mount.mountpoint);
    }
    if target.is_dir() {
        bail!(
            "{}: no Terrace volume is mounted here; `findmnt -t {}` lists volumes",
            target.display(),
            mounts::FS_TYPE
        );
    }
    of_pm(target)
}

fn of_mount(mountpoint: &Path) -> Result<Subject> {
    let state: doctor::MountState = serde_json::from_str(&control::status(mountpoint)?)?;
    let mut devices = state.devices.iter();
    let pm =
        devices.next().map(|pm| PmDevice { path: pm.path.clone().into(), kind: pm.kind.clone() });
    let disks = devices.map(|disk| disk.path.clone().into()).collect();
    Ok(Subject { pm, disks, mount: Some(state) })
}

/// A PM device that is not in use; if it holds a volume, its disks where they were.
fn of_pm(path: &Path) -> Result<Subject> {
    let pm = DeviceOptions::new(Access::Peek).open_pm(path)?;
    let disks = match read_pm_label(&pm) {
        Ok(Some(label)) => label.devices.into_iter().skip(1).map(|disk| disk.path).collect(),
        // None yet, or one that `terrace check` has to say more about.
        Ok(None) | Err(_) => Vec::new(),
    };
    let device = PmDevice { path: path.to_owned(), kind: pm.kind().to_string() };
    Ok(Subject { mount: None, pm: Some(device), disks })
}
