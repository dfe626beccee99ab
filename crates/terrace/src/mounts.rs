//! Volumes that are mounted, and unmounting.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use terrace_fuse::mount_table;
pub use terrace_fuse::mount_table::{FS_TYPE, Mount, is_dead};

/// The mount that a path shows: the topmost one at exactly this place.
///
/// # Errors
/// /proc cannot be read.
pub fn at(mountpoint: &Path) -> Result<Option<Mount>> {
    mount_table::at(&resolve(mountpoint)?)
}

/// Whether a file lies on the file system mounted at `mountpoint`, or would if it were made;
/// symbolic links are followed.
///
/// # Errors
/// There is no such directory.
pub fn lies_on(mountpoint: &Path, file: &Path) -> Result<bool> {
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev());
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let of_file =
        device(file).or_else(|_| device(dir)).with_context(|| dir.display().to_string())?;
    Ok(of_file == device(mountpoint).with_context(|| mountpoint.display().to_string())?)
}

/// The mount of ours that a mountpoint shows.
///
/// # Errors
/// There is none.
pub fn terrace_at(mountpoint: &Path) -> Result<Mount> {
    match at(mountpoint)? {
        Some(mount) if mount.is_terrace() => Ok(mount),
        Some(mount) => {
            bail!(
                "{}: the file system mounted here is {}, not Terrace",
                mountpoint.display(),
                mount.fs_type.display()
            )
        }
        None => bail!(
            "{}: no file system is mounted here; `findmnt -t {FS_TYPE}` lists volumes",
            mountpoint.display()
        ),
    }
}

/// The mount of ours that a path means: its mountpoint or its PM device.
///
/// # Errors
/// There is none.
pub fn of_volume(target: &Path) -> Result<Mount> {
    match of_pm(target)? {
        Some(mount) => Ok(mount),
        None => terrace_at(target),
    }
}

/// The mount of ours whose PM device is the same file as `pm`.
///
/// # Errors
/// /proc cannot be read.
pub fn of_pm(pm: &Path) -> Result<Option<Mount>> {
    Ok(mount_table::all()?.into_iter().rfind(|mount| mount.is_terrace() && is_of(mount, pm)))
}

/// Whether the PM device of a mount of ours is the same file as `pm`.
pub fn is_of(mount: &Mount, pm: &Path) -> bool {
    fs::canonicalize(pm)
        .is_ok_and(|pm| fs::canonicalize(&mount.source).is_ok_and(|source| source == pm))
}

/// A live mount of ours in another mount namespace, and a process of that; `None` also if it is
/// hidden from this user.
pub fn elsewhere(is_wanted: impl Fn(&Mount) -> bool) -> Option<(String, Mount)> {
    let is_live = |pid: &str, mount: &Mount| {
        let root = Path::new("/proc").join(pid).join("root");
        !is_dead(&root.join(mount.mountpoint.strip_prefix("/").unwrap_or(&mount.mountpoint)))
    };
    let of = |pid: String| {
        let mut mounts = mount_table::of_process(&pid).ok()?.into_iter();
        let mount =
            mounts.find(|mount| mount.is_terrace() && is_wanted(mount) && is_live(&pid, mount))?;
        Some((pid, mount))
    };
    let processes = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    processes.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).find_map(of)
}

/// The absolute path without symbolic links, also of a mountpoint whose daemon is dead and that
/// cannot be entered.
///
/// # Errors
/// The directory above it does not exist.
pub fn resolve(mountpoint: &Path) -> Result<PathBuf> {
    if let Ok(path) = fs::canonicalize(mountpoint) {
        return Ok(path);
    }
    let path = std::path::absolute(mountpoint)?;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => {
            let parent =
                fs::canonicalize(parent).with_context(|| format!("{}", parent.display()))?;
            Ok(parent.join(name))
        }
        _ => Ok(path),
    }
}

/// Unmounts: with the system call if we may, else with fusermount3. `detach` hides a busy mount at
/// once and ends it when the last user is gone.
///
/// # Errors
/// `EBUSY` where files are in use and `detach` is not set; what else the system says.
pub fn unmount(mountpoint: &Path, detach: bool) -> io::Result<()> {
    let path = CString::new(mountpoint.as_os_str().as_bytes())?;
    let flags = libc::UMOUNT_NOFOLLOW | if detach { libc::MNT_DETACH } else { 0 };
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    if unsafe { libc::umount2(path.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EPERM) {
        return Err(error);
    }
    unmount_by_helper(mountpoint, detach)
}

/// Has the set-user-id helper of FUSE unmount what this user mounted.
fn unmount_by_helper(mountpoint: &Path, detach: bool) -> io::Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg(if detach { "-uz" } else { "-u" }).arg("--").arg(mountpoint).env("LC_ALL", "C");
    let output = command
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("fusermount3: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("busy") {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    Err(io::Error::other(text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_mounts_and_none_of_ours_at_the_root() {
        assert!(terrace_at(Path::new("/")).unwrap_err().to_string().contains("not Terrace"));
        let message = terrace_at(Path::new("/proc/self")).unwrap_err().to_string();
        assert!(message.contains("no file system is mounted here"), "{message}");
    }

    #[test]
    fn a_path_that_cannot_be_entered_resolves_by_its_parent() {
        assert_eq!(
            resolve(Path::new("/proc/self/../no such")).unwrap(),
            Path::new("/proc/no such")
        );
        assert!(resolve(Path::new("/no/such/dir")).is_err());
    }
}
