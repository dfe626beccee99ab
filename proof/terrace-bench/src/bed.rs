//! A volume for benchmarks: its PM a file on tmpfs, its disk, if any, a sparse file or a block
//! device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::process::{getegid, geteuid};
use terrace_engine::{FormatOptions, OpenOptions, Volume};
use terrace_media::{
    DeviceModel, Disk, DiskOpenOptions, Pm, PmOpenOptions, create_disk_file, open_disk,
};

use crate::workload::BLOCK_BYTES;

/// The disk of a volume.
#[derive(Clone, Debug)]
pub enum DiskKind {
    None,
    /// A new sparse file of this many bytes, in the volume's directory.
    Sparse(u64),
    /// This block device.
    Device(PathBuf),
}

/// How slow its devices are; without a model, as slow as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Models {
    /// Of PM.
    pub pm: Option<DeviceModel>,
    /// Of the disk.
    pub disk: Option<DeviceModel>,
}

/// A formatted volume, open unless it was closed.
#[derive(Debug)]
pub struct Bed {
    pm_path: PathBuf,
    disk_path: Option<PathBuf>,
    open: OpenOptions,
    models: Models,
    running: Option<Running>,
}

#[derive(Clone, Debug)]
struct Devices {
    pm: Arc<Pm>,
    disk: Option<Arc<dyn Disk>>,
}

impl Devices {
    fn disks(&self) -> Vec<Arc<dyn Disk>> {
        self.disk.iter().cloned().collect()
    }
}

#[derive(Debug)]
struct Running {
    volume: Arc<Volume>,
    devices: Devices,
}

impl Bed {
    /// Formats and opens a volume named `name` in `directory`.
    ///
    /// # Errors
    /// If the system or the engine refuses.
    pub fn new(
        directory: &Path,
        name: &str,
        pm_bytes: u64,
        disk: &DiskKind,
        open: OpenOptions,
    ) -> Result<Self> {
        Self::modelled(directory, name, pm_bytes, disk, open, Models::default())
    }

    /// As [`Bed::new`], with devices as slow as the models say.
    ///
    /// # Errors
    /// If the system or the engine refuses.
    pub fn modelled(
        directory: &Path,
        name: &str,
        pm_bytes: u64,
        disk: &DiskKind,
        open: OpenOptions,
        models: Models,
    ) -> Result<Self> {
        let pm_path = directory.join(format!("{name}-pm"));
        Pm::create_file(&pm_path, pm_bytes)?;
        let disk_path = match disk {
            DiskKind::None => None,
            DiskKind::Device(path) => Some(path.clone()),
            DiskKind::Sparse(len_bytes) => {
                let path = directory.join(format!("{name}-disk"));
                create_disk_file(&path, *len_bytes)?;
                Some(path)
            }
        };
        let mut bed = Self { pm_path, disk_path, open, models, running: None };
        let devices = bed.open_devices()?;
        map_all(&devices.pm);
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        let format =
            FormatOptions { pm_data_checksums: false, uid, gid, ..FormatOptions::default() };
        terrace_engine::format(&devices.pm, &devices.disks(), &format)
            .context("formatting a volume")?;
        bed.start(devices)?;
        Ok(bed)
    }

    fn open_devices(&self) -> Result<Devices> {
        let pm = Pm::open(
            &self.pm_path,
            &PmOpenOptions { model: self.models.pm, ..PmOpenOptions::default() },
        )?;
        let options = DiskOpenOptions { model: self.models.disk, ..DiskOpenOptions::default() };
        let open = |path: &PathBuf| open_disk(path, &options);
        Ok(Devices { pm, disk: self.disk_path.as_ref().map(open).transpose()? })
    }

    fn start(&mut self, devices: Devices) -> Result<()> {
        let (pm, open) = (devices.pm.clone(), self.open.clone());
        let volume =
            Volume::open(pm, devices.disks(), open, &|_, _, _| {}).context("opening the volume")?;
        self.running = Some(Running { volume, devices });
        Ok(())
    }

    /// Opens the devices and the volume again, after [`Bed::close`] or [`Bed::abandon`].
    ///
    /// # Errors
    /// If either fails.
    pub fn reopen(&mut self) -> Result<()> {
        let devices = self.open_devices()?;
        self.start(devices)
    }

    /// Closes the volume cleanly, and the devices.
    ///
    /// # Errors
    /// If something could not be written.
    pub fn close(&mut self) -> Result<()> {
        match self.running.take() {
            Some(running) => running.volume.close().context("closing the volume"),
            None => Ok(()),
        }
    }

    /// Leaves the volume as SIGKILL would.
    pub fn abandon(&mut self) {
        if let Some(running) = self.running.take() {
            running.volume.abandon();
        }
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("whoever closes a volume opens it again")
    }

    /// The volume.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.running().volume
    }

    /// Its PM.
    pub fn pm(&self) -> &Arc<Pm> {
        &self.running().devices.pm
    }

    /// Its disk.
    pub fn disk(&self) -> Option<&Arc<dyn Disk>> {
        self.running().devices.disk.as_ref()
    }
}

/// Touches every page, as a daemon has done that has run for a while: a first touch is a page
/// fault, which would be measured in place of the operation that happens to be the first.
fn map_all(pm: &Pm) {
    for page in (0..pm.len()).step_by(BLOCK_BYTES) {
        std::hint::black_box(pm.load_u64(page));
    }
}
