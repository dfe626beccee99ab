//! The kernel's table of mounts, and unmounting.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;

/// What the kernel calls our mounts.
pub const FS_TYPE: &str = "fuse.terrace";

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub mountpoint: PathBuf,
    /// `ext4`, `fuse.terrace`, …
    pub fs_type: OsString,
    /// What: of our mounts, the PM device.
    pub source: PathBuf,
    /// Nothing can be written through it.
    pub read_only: bool,
}

impl Mount {
    /// Whether it is one of ours.
    pub fn is_terrace(&self) -> bool {
        self.fs_type == FS_TYPE
    }
}

/// All mounts of this process' namespace, oldest first.
///
/// # Errors
/// /proc cannot be read.
pub fn all() -> Result<Vec<Mount>> {
    let path = "/proc/self/mountinfo";
    let table = fs::read(path).with_context(|| format!("cannot read {path}; is /proc mounted?"))?;
    Ok(table.split(|&byte| byte == b'\n').filter_map(parse_line).collect())
}

/// The mount that a path shows: the topmost one at exactly this place.
///
/// # Errors
/// /proc cannot be read.
pub fn at(mountpoint: &Path) -> Result<Option<Mount>> {
    let place = resolve(mountpoint)?;
    Ok(all()?.into_iter().rev().find(|mount| mount.mountpoint == place))
}

/// The mount of ours that a mountpoint shows.
///
/// # Errors
/// There is none.
pub fn terrace_at(mountpoint: &Path) -> Result<Mount> {
    match at(mountpoint)? {
        Some(mount) if mount.is_terrace() => Ok(mount),
        Some(mount) => {
            bail!("{}: the file system mounted here is {}, not Terrace", mountpoint.display(), mount.fs_type.display())
        }
        None => bail!("{}: no file system is mounted here; `findmnt -t {FS_TYPE}` lists volumes", mountpoint.display()),
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
    let Ok(pm) = fs::canonicalize(pm) else {
        return Ok(None);
    };
    let same = |mount: &Mount| mount.is_terrace() && fs::canonicalize(&mount.source).is_ok_and(|source| source == pm);
    Ok(all()?.into_iter().rev().find(same))
}

/// The absolute path without symbolic links, also of a mountpoint whose daemon is dead and that cannot be entered.
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
            let parent = fs::canonicalize(parent).with_context(|| format!("{}", parent.display()))?;
            Ok(parent.join(name))
        }
        _ => Ok(path),
    }
}

/// Whether a mount's daemon is dead. What the kernel has cached of the mount outlives the daemon: so it is made to ask.
pub fn is_dead(mountpoint: &Path) -> bool {
    let answer = statx(CWD, mountpoint, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
    matches!(answer, Err(Errno::NOTCONN | Errno::CONNABORTED))
}

/// Unmounts: with the system call if we may, else with fusermount3. `detach` hides a busy mount at once and ends it
/// when the last user is gone.
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
    let output = command.output().map_err(|error| io::Error::new(error.kind(), format!("fusermount3: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("busy") {
        return Err(io::Error::from_raw_os_error(libc::EBUSY));
    }
    Err(io::Error::other(text.trim().to_owned()))
}

/// One line of mountinfo(5): `id parent major:minor root mountpoint options [tags…] - type source options`.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mountpoint = unescape(fields.nth(4)?);
    let read_only = fields.next()?.split(|&byte| byte == b',').any(|option| option == b"ro");
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = unescape(rest.next()?);
    let source = unescape(rest.next()?);
    Some(Mount { mountpoint: mountpoint.into(), fs_type, source: source.into(), read_only })
}

/// Undoes the kernel's `\040` for characters that separate fields.
fn unescape(field: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(OsStr::from_bytes(digits).to_str()?, 8).ok());
        match octal {
            Some(value) => {
                bytes.push(value);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_table() {
        let line =
            br"36 35 98:0 / /mnt/a\040b\134c rw,noatime shared:1 master:2 - fuse.terrace /dev/shm/p\040m rw,errors=1";
        let mount = parse_line(line).unwrap();
        assert_eq!(mount.mountpoint, Path::new(r"/mnt/a b\c"));
        assert_eq!(mount.source, Path::new("/dev/shm/p m"));
        assert!(mount.is_terrace());
        let plain = parse_line(b"22 1 0:21 / / ro,noatime - ext4 /dev/root rw").unwrap();
        assert!(!plain.is_terrace());
        assert!(plain.read_only && !mount.read_only);
        assert_eq!(plain.mountpoint, Path::new("/"));
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"22 1 0:21 / / rw - ext4"), None);
    }

    #[test]
    fn this_machine_has_mounts_and_none_of_ours_at_the_root() {
        assert!(all().unwrap().iter().any(|mount| mount.mountpoint == Path::new("/")));
        assert!(terrace_at(Path::new("/")).unwrap_err().to_string().contains("not Terrace"));
        let message = terrace_at(Path::new("/proc/self")).unwrap_err().to_string();
        assert!(message.contains("no file system is mounted here"), "{message}");
    }

    #[test]
    fn a_path_that_cannot_be_entered_resolves_by_its_parent() {
        assert_eq!(resolve(Path::new("/proc/self/../no such")).unwrap(), Path::new("/proc/no such"));
        assert!(resolve(Path::new("/no/such/dir")).is_err());
    }
}
