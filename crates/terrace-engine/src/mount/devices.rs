//! Which disk is which: devices are matched by their labels.

use terrace_layout::{BLOCK_BYTES, Superblock};
use terrace_media::{Disk, Pm};
use terrace_store::error::{FsError, FsResult};
use terrace_store::superblock::{Disks, read_disk_superblock, read_pm_superblock, uuid_text};
use terrace_store::sync::Arc;

/// The devices of a volume, matched by label.
pub(crate) struct Devices {
    pub sb: Superblock,
    pub disks: Disks,
}

/// Reads PM's superblock and finds out which disk is which.
///
/// # Errors
/// Names the device that is missing, foreign, truncated, or there twice, and the remedy.
pub(crate) fn match_devices(pm: &Pm, disks: Vec<Arc<dyn Disk>>) -> FsResult<Devices> {
    let (sb, disks) = match_present_devices(pm, disks)?;
    match sb.present().skip(1).find(|known| !disks.contains_key(&known.index)) {
        None => Ok(Devices { sb, disks }),
        Some(known) => Err(FsError::about(
            pm.path(),
            libc::EINVAL,
            format!(
                "disk {} of the volume is missing (last seen at {}): name it with --disk",
                known.index,
                String::from_utf8_lossy(known.path())
            ),
        )),
    }
}

/// As [`match_devices`], but disks may be missing.
pub(crate) fn match_present_devices(
    pm: &Pm,
    disks: Vec<Arc<dyn Disk>>,
) -> FsResult<(Superblock, Disks)> {
    let wrong = |message: String| FsError::about(pm.path(), libc::EINVAL, message);
    let Some(sb) = read_pm_superblock(pm)? else {
        return Err(wrong("no Terrace volume: format it with `terrace format`".to_owned()));
    };
    if sb.device_index != 0 {
        return Err(wrong(format!(
            "this is disk {} of a volume, not its PM device",
            sb.device_index
        )));
    }
    if pm.len() < sb.blocks * BLOCK_BYTES {
        return Err(wrong(format!(
            "truncated: {} bytes, the volume needs {}: restore the device's full size",
            pm.len(),
            sb.blocks * BLOCK_BYTES
        )));
    }
    let mut found = Disks::new();
    for disk in disks {
        let (path, of) = (pm.path().display(), disk.path().to_owned());
        let name = of.display();
        let unfit = |message: String| FsError::about(&of, libc::EINVAL, message);
        let Some(label) = read_disk_superblock(disk.as_ref())? else {
            return Err(unfit("no Terrace disk: name the right device with --disk".to_owned()));
        };
        if label.uuid != sb.uuid {
            return Err(unfit(format!(
                "belongs to volume {}, but {path} to volume {}: name the right device \
                 with --disk",
                uuid_text(&label),
                uuid_text(&sb)
            )));
        }
        let index = label.device_index;
        let Some(known) = sb.present().skip(1).find(|known| known.index == index) else {
            return Err(unfit(format!("is device {index} of the volume, which has no such disk")));
        };
        if disk.len() < known.blocks * BLOCK_BYTES {
            return Err(unfit(format!(
                "truncated: {} bytes, the volume needs {}: restore the device's full size",
                disk.len(),
                known.blocks * BLOCK_BYTES
            )));
        }
        if label.mount_epoch > sb.mount_epoch {
            return Err(wrong(format!(
                "older than {name}: the disk was written since this PM (an image, a \
                 copy?) was last mounted: bring back the PM that belongs to the disk"
            )));
        }
        if label.mount_epoch < sb.mount_epoch && label.mount_epoch != sb.previous_epoch {
            return Err(unfit(format!(
                "older than {path}: the volume was written since this disk (a copy?) was \
                 last part of it: bring back the disk that belongs to the PM"
            )));
        }
        if found.insert(index, disk).is_some() {
            return Err(unfit(format!("disk {index} of the volume is given twice")));
        }
    }
    Ok((sb, found))
}
