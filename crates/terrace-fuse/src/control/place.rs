//! The places that commands name: opening them, and what their errors mean.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::mount_table::is_of_dead;

/// `f_type` of every FUSE mount.
const FUSE_SUPER_MAGIC: rustix::fs::FsWord = 0x6573_5546;

/// The caller is neither root nor the daemon's user.
#[derive(Debug)]
pub(super) struct NotPermitted(PathBuf);

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: only root and the user who mounted the volume may do this", self.0.display())
    }
}

impl std::error::Error for NotPermitted {}

/// Opens a file or directory on a FUSE mount. Anything else is refused unopened: opening a device
/// acts on it.
pub(super) fn open(path: &Path) -> Result<File> {
    let metadata = std::fs::metadata(path).map_err(|error| match path.is_symlink() {
        true if error.kind() == io::ErrorKind::NotFound => {
            anyhow::anyhow!("{} is a symbolic link that leads nowhere", path.display())
        }
        _ => explain(error, path),
    })?;
    if let Some(kind) = special(metadata.file_type()) {
        bail!("{} is a {kind}: it has no data on a volume", path.display());
    }
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| explain(error, path))?;
    let fs = rustix::fs::fstatfs(&file).map_err(|error| explain(error.into(), path))?;
    if fs.f_type != FUSE_SUPER_MAGIC {
        bail!("{} is not on a Terrace mount", path.display());
    }
    Ok(file)
}

/// The kind of a file that no command opens, in words.
fn special(kind: std::fs::FileType) -> Option<&'static str> {
    [
        (kind.is_fifo(), "named pipe"),
        (kind.is_socket(), "socket"),
        (kind.is_block_device() || kind.is_char_device(), "device file"),
    ]
    .into_iter()
    .find_map(|(is, name)| is.then_some(name))
}

pub(super) fn explain(error: io::Error, path: &Path) -> anyhow::Error {
    match error.raw_os_error() {
        Some(libc::ENOTTY | libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP) => {
            anyhow::anyhow!("{} is not on a Terrace mount", path.display())
        }
        Some(libc::EPERM) => anyhow::Error::new(NotPermitted(path.to_owned())),
        Some(libc::EBUSY) => anyhow::anyhow!(
            "{}: a scrub is running already; `terrace scrub status` shows it, `terrace scrub \
             cancel` ends it",
            path.display()
        ),
        Some(libc::ESRCH) => anyhow::anyhow!("{}: no scrub is running", path.display()),
        Some(libc::ENXIO) => {
            anyhow::anyhow!(
                "{}: the volume has no such tier; `terrace status` shows its tiers",
                path.display()
            )
        }
        Some(libc::EALREADY) => anyhow::anyhow!(
            "{}: is being recorded already; end the other `terrace record`, which must be done \
             first",
            path.display()
        ),
        Some(libc::ECANCELED) => anyhow::anyhow!(
            "{}: the recording is over: its daemon died, or for ten seconds nobody asked for what \
             was recorded",
            path.display()
        ),
        Some(libc::EXDEV) => anyhow::anyhow!(
            "{}: is pinned to another tier; `terrace where` shows which, `terrace unpin` lifts \
             that",
            path.display()
        ),
        Some(libc::ESHUTDOWN) => {
            anyhow::anyhow!("{}: the volume is being unmounted", path.display())
        }
        Some(errno) if is_of_dead(errno) => anyhow::anyhow!(
            "{}: the daemon of this mount is gone; mount the volume again to recover it",
            path.display()
        ),
        _ => anyhow::Error::new(error).context(path.display().to_string()),
    }
}
