//! How long devices are: block devices, files and device-DAX devices.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::MediaError;

/// The length of a block device, a file or a device-DAX device (bytes).
///
/// # Errors
/// It cannot be opened or examined, or is of another sort.
pub fn device_len(path: &Path) -> Result<u64, MediaError> {
    let file = File::open(path).map_err(|error| MediaError::open(path, "open", error))?;
    open_device_len(path, &file)
}

/// As [`device_len`], of an open file.
pub(crate) fn open_device_len(path: &Path, file: &File) -> Result<u64, MediaError> {
    let examine = |error: io::Error| MediaError::open(path, "examine", error);
    let metadata = file.metadata().map_err(examine)?;
    let found = metadata.file_type();
    if found.is_file() {
        Ok(metadata.len())
    } else if found.is_block_device() {
        io::Seek::seek(&mut &*file, io::SeekFrom::End(0)).map_err(examine)
    } else {
        let dax = found.is_char_device().then(|| dax_device_len(metadata.rdev())).flatten();
        dax.ok_or(MediaError::Unsuitable {
            path: path.to_owned(),
            found: "neither a file nor a block or dax device",
            expected: "give one of these",
        })
    }
}

/// The length of a device-DAX device; None if the device is of another sort.
pub(crate) fn dax_device_len(rdev: u64) -> Option<u64> {
    dax_device_number(rdev, "size")
}

/// What sysfs says of a device-DAX device; None if the device is of another sort.
pub(crate) fn dax_device_number(rdev: u64, attribute: &str) -> Option<u64> {
    let device =
        PathBuf::from(format!("/sys/dev/char/{}:{}", libc::major(rdev), libc::minor(rdev)));
    let subsystem = device.join("subsystem").canonicalize().ok()?;
    if subsystem.file_name()? != "dax" {
        return None;
    }
    std::fs::read_to_string(device.join(attribute)).ok()?.trim().parse().ok()
}
