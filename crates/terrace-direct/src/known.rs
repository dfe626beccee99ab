//! The mounts that this process knows, and which files are on one.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::FileType;

use crate::mount::{Mount, NoMount};

/// `f_type` of every FUSE mount.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;

/// Device and inode number of an open file, if it is a regular one on a FUSE mount.
#[must_use]
pub fn identity(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let system = rustix::fs::fstatfs(fd).ok()?;
    let stat = rustix::fs::fstat(fd).ok()?;
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    (system.f_type as i64 == FUSE_SUPER_MAGIC && is_regular).then_some((stat.st_dev, stat.st_ino))
}

/// See the module. Each mount is connected to once.
#[derive(Debug, Default)]
pub struct Mounts(BTreeMap<u64, Arc<Mount>>);

impl Mounts {
    /// None yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The mount that the open file is on, whose device number is `device`.
    ///
    /// # Errors
    /// As [`Mount::of`].
    pub fn of(&mut self, fd: BorrowedFd<'_>, device: u64) -> Result<Arc<Mount>, NoMount> {
        // The number of a mount that has ended may be that of another one.
        let is_same = |mount: &&Arc<Mount>| !mount.is_gone() && mount.has(fd);
        if let Some(mount) = self.0.get(&device).filter(is_same) {
            return Ok(Arc::clone(mount));
        }
        let mount = Arc::new(Mount::of(fd, device)?);
        // Numbers of descriptors that it holds may be the program's by now: it is never closed.
        std::mem::forget(self.0.insert(device, Arc::clone(&mount)));
        Ok(mount)
    }
}
