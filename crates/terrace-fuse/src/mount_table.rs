//! The kernel's table of mounts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// What the kernel calls our mounts.
pub const FS_TYPE: &str = "fuse.terrace";

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// `major:minor`, unique among the mounts of different file systems.
    pub device: String,
    /// Where.
    pub mountpoint: PathBuf,
    /// `ext4`, `fuse.terrace`, …
    pub fs_type: OsString,
    /// What: of our mounts, the PM device.
    pub source: PathBuf,
    /// Nothing can be written through it.
    pub read_only: bool,
    /// What the kernel sees to by itself, in the words of mount(8), such as `rw,nosuid,relatime`.
    pub options: String,
    /// Options of its type, such as `size=64k,huge=never`.
    pub type_options: String,
    /// Who mounted it, of a FUSE mount.
    pub user: Option<u32>,
}

impl Mount {
    /// Whether it is one of ours.
    pub fn is_terrace(&self) -> bool {
        self.fs_type == FS_TYPE
    }

    /// One line of mountinfo(5): `id parent major:minor root mountpoint options [tags…] - type
    /// source options`.
    fn parse(line: &[u8]) -> Option<Mount> {
        let mut fields = line.split(|&byte| byte == b' ');
        let device = String::from_utf8_lossy(fields.nth(2)?).into_owned();
        let mountpoint = unescape(fields.nth(1)?);
        let options = String::from_utf8_lossy(fields.next()?).into_owned();
        let read_only = options.split(',').any(|option| option == "ro");
        let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
        let fs_type = unescape(rest.next()?);
        let source = unescape(rest.next()?);
        let type_options = String::from_utf8_lossy(rest.next()?).into_owned();
        let user = type_options
            .split(',')
            .find_map(|option| option.strip_prefix("user_id=")?.parse().ok());
        let (mountpoint, source) = (mountpoint.into(), source.into());
        Some(Mount { device, mountpoint, fs_type, source, read_only, options, type_options, user })
    }
}

/// All mounts of this process' namespace, oldest first.
///
/// # Errors
/// /proc cannot be read.
pub fn all() -> Result<Vec<Mount>> {
    of_process("self")
}

/// All mounts of a process' namespace, oldest first.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn of_process(pid: &str) -> Result<Vec<Mount>> {
    let path = format!("/proc/{pid}/mountinfo");
    let table =
        std::fs::read(&path).with_context(|| format!("cannot read {path}; is /proc mounted?"))?;
    Ok(of_text(&table))
}

/// The mounts of a table as mountinfo(5) describes it, oldest first.
pub fn of_text(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(Mount::parse).collect()
}

/// What is mounted exactly at `place` (absolute, without links), the topmost if several are.
///
/// # Errors
/// As [`all`].
pub fn at(place: &Path) -> Result<Option<Mount>> {
    Ok(all()?.into_iter().rfind(|mount| mount.mountpoint == place))
}

/// Whether a mount's daemon is dead. The kernel's cached attributes of the mount outlive the
/// daemon: so it is made to ask.
pub fn is_dead(mountpoint: &Path) -> bool {
    let answer = statx(CWD, mountpoint, AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
    answer.is_err_and(|error| is_of_dead(error.raw_os_error()))
}

/// Whether a call fails with this errno because the daemon of its mount is dead. The kernel takes a
/// moment to end what went over io_uring, and until then has the other two.
pub(crate) fn is_of_dead(errno: i32) -> bool {
    matches!(errno, libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED)
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
    fn lines_with_escapes_and_optional_fields() {
        let line = b"36 35 0:98 / /mnt/a\\040b\\134c rw,noatime shared:1 master:2 - fuse.terrace \
              /dev/shm/p\\040m rw,user_id=1000,x=1";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.user, Some(1000));
        assert_eq!(mount.device, "0:98");
        assert_eq!(mount.mountpoint, Path::new(r"/mnt/a b\c"));
        assert_eq!(mount.source, Path::new("/dev/shm/p m"));
        assert_eq!(mount.type_options, "rw,user_id=1000,x=1");
        assert!(mount.is_terrace());
        let plain = Mount::parse(b"22 1 0:21 / / ro,noatime - ext4 /dev/root rw").unwrap();
        assert!(!plain.is_terrace() && plain.user.is_none());
        assert!(plain.read_only && !mount.read_only);
        assert_eq!((&*plain.options, &*mount.options), ("ro,noatime", "rw,noatime"));
        assert_eq!(plain.mountpoint, Path::new("/"));
        assert_eq!(Mount::parse(b""), None);
        assert_eq!(Mount::parse(b"22 1 0:21 / / rw - ext4"), None);
        assert_eq!(Mount::parse(b"22 1 0:21 / / rw - ext4 /dev/root"), None);
        assert_eq!(unescape(br"\04"), OsStr::from_bytes(br"\04"));
    }

    #[test]
    fn the_root_is_mounted_and_alive() {
        assert!(at(Path::new("/")).unwrap().is_some());
        assert!(!is_dead(Path::new("/")));
        assert!(is_of_dead(libc::ECANCELED) && !is_of_dead(libc::EIO));
    }
}
