//! The mounts that this process knows.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::mount::{Mount, NoMount};

/// `f_type` of every FUSE mount.
const FUSE_SUPER_MAGIC: i64 = 0x6573_5546;

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

    /// The mount with this device number, if it is known.
    pub fn known(&self, device: u64) -> Option<&Arc<Mount>> {
        self.0.get(&device)
    }

    /// The mount that the open file is on, whose device number is `device`. `found` gets one that
    /// was not known before.
    ///
    /// # Errors
    /// As [`Mount::of`].
    pub fn of(
        &mut self,
        fd: BorrowedFd<'_>,
        device: u64,
        found: impl FnOnce(&Arc<Mount>),
    ) -> Result<Arc<Mount>, NoMount> {
        let known = self.known(device);
        // The number of a mount that has ended may be that of another one.
        if let Some(mount) = known.filter(|mount| mount.is_alive()) {
            return Ok(Arc::clone(mount));
        }
        if !is_on_fuse(fd) {
            return Err(NoMount::NotOurs);
        }
        // Its daemon may be dead, and its successor not there yet.
        if let Some(mount) = known.filter(|mount| mount.has(fd)) {
            return Ok(Arc::clone(mount));
        }
        let mount = Arc::new(Mount::of(fd, device)?);
        found(&mount);
        // Numbers of descriptors that it holds may be the program's by now: it is never closed.
        std::mem::forget(self.0.insert(device, Arc::clone(&mount)));
        Ok(mount)
    }
}
