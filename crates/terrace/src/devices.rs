//! Opening a volume's devices: PM by its path, the disks by the device table in PM's superblock.
//!
//! The table's paths are only hints: what counts is the label (volume UUID, device index) on each
//! disk.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, bail};
use terrace_engine::{
    DeviceLabel, FsError, VolumeLabel, read_disk_label, read_pm_label, with_advice,
};
use terrace_media::{
    DeviceContents, Disk, DiskOpenOptions, IoEngine, MediaError, Pm, PmOpenOptions, open_disk,
    probe_device,
};

use crate::models::{ModelChoice, model_of};
use crate::{mounts, output};

/// How devices are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For this process alone, to be changed.
    Change,
    /// For this process alone, unchanged: what is stored to PM stays in this process.
    Examine,
    /// Read-only, beside whoever uses them.
    Peek,
}

/// How a volume's devices are opened.
#[derive(Clone, Copy, Debug)]
pub struct DeviceOptions<'a> {
    /// What for.
    pub access: Access,
    /// How disks are driven.
    pub engine: IoEngine,
    /// Whether disk I/O bypasses the kernel's page cache.
    pub direct: bool,
    /// Device models.
    pub models: &'a [ModelChoice],
    /// A volume that was not unmounted may be lent to programs still.
    pub may_be_shared: bool,
}

impl DeviceOptions<'_> {
    /// The default engine, no models.
    pub const fn new(access: Access) -> Self {
        let (engine, models) = (IoEngine::Auto, &[]);
        DeviceOptions { access, engine, direct: true, models, may_be_shared: false }
    }

    /// Opens a PM device.
    ///
    /// # Errors
    /// As [`Pm::open`]; of a device in use, also where its volume is mounted.
    pub fn open_pm(&self, path: &Path) -> Result<Arc<Pm>> {
        let options = PmOpenOptions {
            read_only: self.access == Access::Peek,
            private: self.access == Access::Examine,
            lock: self.access != Access::Peek,
            model: model_of(self.models, 0),
        };
        let pm = match Pm::open(&std::path::absolute(path)?, &options) {
            Err(MediaError::InUse { .. }) => return Err(in_use(path)),
            pm => pm?,
        };
        // Nothing of a volume that was unmounted cleanly is lent.
        let is_clean = || matches!(read_pm_label(&pm), Ok(Some(label)) if label.clean);
        if options.lock && !self.may_be_shared && !is_clean() {
            pm.must_not_be_shared()?;
        }
        Ok(pm)
    }

    /// Opens the disk that has, or will have, this device index.
    ///
    /// # Errors
    /// As [`open_disk`].
    pub fn open_disk(&self, path: &Path, index: u16) -> Result<Arc<dyn Disk>> {
        let options = DiskOpenOptions {
            read_only: self.access != Access::Change,
            lock: self.access != Access::Peek,
            direct: self.direct,
            engine: self.engine,
            model: model_of(self.models, index),
        };
        Ok(open_disk(&std::path::absolute(path)?, &options)?)
    }

    /// As [`Self::open_disk`], a disk that is to become one of a volume. Unless by `force`, it is
    /// not if it holds something, but for what is `left_over` of a volume with this UUID and had
    /// this index there.
    ///
    /// # Errors
    /// As `open_disk`; what it holds.
    pub fn open_new_disk(
        &self,
        path: &Path,
        index: u16,
        force: bool,
        left_over: impl Fn(&str, u16) -> bool,
    ) -> Result<Arc<dyn Disk>> {
        let disk = self.open_disk(path, index)?;
        let is_left_over = || {
            matches!(read_disk_label(&*disk),
            Ok(Some((uuid, index))) if left_over(&uuid, index))
        };
        if !force && !is_left_over() {
            refuse_contents(path, volume_on_disk(&*disk))?;
        }
        Ok(disk)
    }
}

/// The opened devices of one volume.
#[derive(Debug)]
pub struct Devices {
    /// The PM device.
    pub pm: Arc<Pm>,
    /// Its label.
    pub label: VolumeLabel,
    /// The disks that were found, by device index.
    pub disks: Vec<Arc<dyn Disk>>,
    /// What is wrong with those that were not.
    pub missing: Vec<Error>,
}

impl Devices {
    /// Where they are.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        [self.pm.path()].into_iter().chain(self.disks.iter().map(|disk| disk.path()))
    }

    /// Opens the PM device at `pm` and the disks of its volume: those at `moved` (in any order),
    /// the others where the table says they were. Disks that cannot be found are listed in
    /// `missing`.
    ///
    /// # Errors
    /// PM cannot be opened or holds no volume; a disk at `moved` is not one of this volume.
    pub fn find(pm: &Path, moved: &[PathBuf], options: &DeviceOptions<'_>) -> Result<Devices> {
        let pm_path = pm;
        let pm = options.open_pm(pm_path)?;
        let label = label_of(&pm, pm_path)?;
        let expected: Vec<&DeviceLabel> =
            label.devices.iter().filter(|device| device.index > 0).collect();
        let mut found = Vec::with_capacity(expected.len());
        for path in moved {
            let index = index_of_moved(path, pm_path, &label)?;
            found.push((index, options.open_disk(path, index)?));
        }
        let mut missing = Vec::new();
        for device in expected {
            if found.iter().any(|(index, _)| *index == device.index) {
                continue;
            }
            match open_listed(device, &label, options) {
                Ok(disk) => found.push((device.index, disk)),
                Err(error) => missing.push(error),
            }
        }
        found.sort_by_key(|(index, _)| *index);
        let disks = found.into_iter().map(|(_, disk)| disk).collect();
        Ok(Devices { pm, label, disks, missing })
    }

    /// As [`find`](Devices::find), but a missing disk is an error.
    ///
    /// # Errors
    /// As `find`; every missing disk, with its last path and the remedy.
    pub fn open(pm: &Path, moved: &[PathBuf], options: &DeviceOptions<'_>) -> Result<Devices> {
        let devices = Devices::find(pm, moved, options)?;
        if devices.missing.is_empty() {
            return Ok(devices);
        }
        let missing: Vec<String> =
            devices.missing.iter().map(|error| format!("{error:#}")).collect();
        bail!(
            "{}: volume {} is not complete: {}",
            pm.display(),
            devices.label.uuid,
            missing.join("; ")
        );
    }
}

/// Why a volume could not be opened, and what to do about damage.
pub fn refused(pm: &Path) -> impl FnOnce(FsError) -> Error {
    let pm = pm.to_owned();
    move |error| match error.damage() {
        Some(_) => Error::msg(with_advice(&error, &pm)),
        None => about(&pm)(error),
    }
}

/// Makes an error of the engine one about a device, unless it names one already.
pub fn about(path: &Path) -> impl FnOnce(FsError) -> Error {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    move |error| match error.device() {
        Some(_) => error.into(),
        None => Error::new(error).context(path.display().to_string()),
    }
}

/// The label of an opened PM device.
///
/// # Errors
/// It holds no volume, or one that this program cannot read.
pub fn label_of(pm: &Pm, path: &Path) -> Result<VolumeLabel> {
    let label = read_pm_label(pm).map_err(about(path))?;
    match label {
        Some(label) if label.device_index == 0 => Ok(label),
        Some(label) => bail!(
            "{}: is disk {} of volume {}; give the volume's PM device",
            path.display(),
            label.device_index,
            label.uuid
        ),
        None => bail!("{}: holds no Terrace volume; `terrace format` makes one", path.display()),
    }
}

/// What makes two paths the same device: a file's place, a device's number, or the path of what
/// does not exist yet.
///
/// # Errors
/// The working directory is gone.
pub fn identity(path: &Path) -> Result<(PathBuf, u64, u64)> {
    Ok(match fs::metadata(path) {
        Ok(meta) if meta.file_type().is_block_device() || meta.file_type().is_char_device() => {
            (PathBuf::new(), u64::MAX, meta.rdev())
        }
        Ok(meta) => (PathBuf::new(), meta.dev(), meta.ino()),
        Err(_) => (std::path::absolute(path)?, 0, 0),
    })
}

/// What is open to others, who find everybody's data there, whatever the mount denies them, and
/// the remedy. Devices belong to groups on purpose, files hardly do.
pub fn exposed(path: &Path) -> Option<(String, String)> {
    let meta = fs::metadata(path).ok()?;
    let mode = meta.mode() & if meta.is_file() { 0o066 } else { 0o006 };
    let may = match (mode & 0o044 != 0, mode & 0o022 != 0) {
        (false, false) => return None,
        (true, false) => "read",
        (false, true) => "write",
        (true, true) => "read and write",
    };
    let mode = meta.mode() & 0o7777;
    let found = format!("its mode, {mode:04o}, lets other users {may} it");
    Some((found, format!("`chmod 600 {}`", path.display())))
}

/// The same as a remark.
pub fn exposure(path: &Path) -> Option<String> {
    let (found, remedy) = exposed(path)?;
    Some(format!("{}: {found}; {remedy} ends that", path.display()))
}

/// Says so if a file or device is open to others.
pub fn tell_exposure(path: &Path, quiet: bool) {
    if let Some(exposure) = exposure(path) {
        tracing::warn!("{exposure}");
        output::remark(quiet, &format!("note: {exposure}"));
    }
}

/// Refuses a device that holds something: a volume, or what a probe knows or does not know.
///
/// # Errors
/// What it holds.
pub fn refuse_contents(path: &Path, volume: Option<String>) -> Result<()> {
    let contents = match volume {
        Some(volume) => volume,
        None => match probe_device(path)? {
            DeviceContents::Empty => return Ok(()),
            contents => contents.to_string(),
        },
    };
    bail!("{}: holds {contents}; use --force to overwrite it", path.display())
}

/// What volume a PM device holds, also if it is damaged or of a newer version.
pub fn volume_on_pm(pm: &Pm) -> Option<String> {
    match read_pm_label(pm) {
        Ok(None) => None,
        Ok(Some(label)) => Some(format!("the Terrace volume {}", label.uuid)),
        Err(error) => Some(format!("a Terrace volume that cannot be read ({error})")),
    }
}

/// As [`volume_on_pm`], of a disk.
fn volume_on_disk(disk: &dyn Disk) -> Option<String> {
    match read_disk_label(disk) {
        Ok(None) => None,
        Ok(Some((uuid, index))) => Some(format!("device {index} of the Terrace volume {uuid}")),
        Err(error) => Some(format!("a Terrace volume that cannot be read ({error})")),
    }
}

/// Opens a disk where the table says it is, if it is still there.
fn open_listed(
    device: &DeviceLabel,
    label: &VolumeLabel,
    options: &DeviceOptions<'_>,
) -> Result<Arc<dyn Disk>> {
    let index = device.index;
    let remedy = || {
        format!(
            "device {index}, last seen at {}, is missing; if it moved, say where with --disk PATH",
            device.path.display()
        )
    };
    let disk = options.open_disk(&device.path, index).with_context(remedy)?;
    let found = read_disk_label(&*disk).with_context(remedy)?;
    match found {
        Some((uuid, found_index)) if uuid == label.uuid && found_index == index => match disk.len()
        {
            len if len >= device.size_bytes => Ok(disk),
            len => bail!(
                "{}: truncated: {len} bytes, the volume needs {}; restore the device's full size",
                device.path.display(),
                device.size_bytes
            ),
        },
        found => {
            Err(anyhow!("{}: {}", device.path.display(), describe(found.as_ref()))
                .context(remedy()))
        }
    }
}

/// Which device of the volume the disk at a path given by the user is.
fn index_of_moved(path: &Path, pm: &Path, label: &VolumeLabel) -> Result<u16> {
    let peek = DeviceOptions::new(Access::Peek).open_disk(path, 0)?;
    let found = read_disk_label(&*peek).map_err(about(path))?;
    match found {
        Some((uuid, index)) if uuid == label.uuid => Ok(index),
        found => bail!(
            "{}: {}, but {} belongs to volume {}; give the path of a disk of that volume",
            path.display(),
            describe(found.as_ref()),
            pm.display(),
            label.uuid
        ),
    }
}

/// What a disk is by its label.
fn describe(found: Option<&(String, u16)>) -> String {
    match found {
        Some((uuid, index)) => format!("is device {index} of volume {uuid}"),
        None => "holds no disk of a Terrace volume".to_owned(),
    }
}

/// Who has a PM device.
fn in_use(pm: &Path) -> Error {
    let pm_path = pm.display();
    match mounts::of_pm(pm) {
        Ok(Some(mount)) => {
            let place = mount.mountpoint.display();
            anyhow!(
                "{pm_path}: is in use: its volume is mounted at {place}; unmount it with \
                 `terrace umount {place}`"
            )
        }
        _ => {
            match mounts::elsewhere(|mount| fs::canonicalize(pm).is_ok_and(|pm| mount.source == pm))
            {
                Some((pid, mount)) => anyhow!(
                    "{pm_path}: is in use: its volume is mounted at {} in another mount \
                     namespace, that of process {pid}",
                    mount.mountpoint.display()
                ),
                None => anyhow!(
                    "{pm_path}: is in use: by another command, in another mount namespace, or by \
                     a daemon that was just unmounted and is still writing (`terrace umount` \
                     waits for it); try again later"
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_may_belong_to_groups() {
        let null = exposure(Path::new("/dev/null")).expect("everybody may use it");
        assert!(null.contains("mode, 0666, lets other users read and write it"), "{null}");
        assert_eq!(exposure(Path::new("/no/such/device")), None);
    }
}
