//! Disks by their index in the device table.

use std::collections::BTreeMap;

use terrace_media::Disk;

use crate::sync::Arc;

/// Disks by device index.
pub type Disks = BTreeMap<u16, Arc<dyn Disk>>;

/// Knows the disks of a volume.
pub trait FindDisk: std::fmt::Debug + Sync {
    /// The disk with this index, if there is one.
    fn find_disk(&self, device: u16) -> Option<Arc<dyn Disk>>;
}

impl FindDisk for Disks {
    fn find_disk(&self, device: u16) -> Option<Arc<dyn Disk>> {
        self.get(&device).cloned()
    }
}
