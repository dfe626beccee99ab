//! The mounts that this process knows, and which files are on one.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, StatxFlags};

use crate::mount::{Mount, NoMount};

/// `f_type` of every FUSE mount.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;

/// Device and inode number of an open file, if it is a regular one. The kernel tells what it knows:
/// no file system is asked.
#[must_use]
pub fn identity(fd: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let statx = rustix::fs::statx(fd, c"", flags, StatxFlags::TYPE | StatxFlags::INO).ok()?;
    let is_regular = FileType::from_raw_mode(statx.stx_mode.into()) == FileType::RegularFile;
    let device = rustix::fs::makedev(statx.stx_dev_major, statx.stx_dev_minor);
    is_regular.then_some((device, statx.stx_ino))
}

fn is_on_fuse(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|system| system.f_type == FUSE_SUPER_MAGIC)
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
        // The number of a mount that has ended may be that of another one, and a volume that is
        // mounted again has the same socket. If the daemon of a mount that has not ended is dead,
        // its successor may not be there yet.
        let is_same = |mount: &&Arc<Mount>| {
            mount.is_alive() == Some(true)
                || is_on_fuse(fd) && mount.has(fd) && !mount.is_replaced()
        };
        if let Some(mount) = self.0.get(&device).filter(is_same) {
            return Ok(Arc::clone(mount));
        }
        if !is_on_fuse(fd) {
            return Err(NoMount::NotOurs);
        }
        let mount = Arc::new(Mount::of(fd, device)?);
        // Numbers of descriptors that it holds may be the program's by now: it is never closed.
        std::mem::forget(self.0.insert(device, Arc::clone(&mount)));
        Ok(mount)
    }
}
