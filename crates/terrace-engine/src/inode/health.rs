//! Whether the volume may be written, and what is wrong with its disks.

use std::collections::BTreeMap;

use terrace_media::MediaError;
use terrace_store::error::FsError;
use terrace_store::sync::Mutex;
use terrace_store::sync::atomic::{AtomicBool, Ordering};

/// See the module.
#[derive(Debug)]
pub(crate) struct Health {
    read_only: AtomicBool,
    read_only_reason: Mutex<Option<FsError>>,
    /// By device index: the last failure of a disk that has not been written and flushed since.
    disk_failures: Mutex<BTreeMap<u16, String>>,
    /// The volume is being closed: threads end.
    pub stopping: AtomicBool,
}

impl Health {
    /// A volume without failures.
    pub fn new(read_only: bool) -> Self {
        Self {
            read_only: AtomicBool::new(read_only),
            read_only_reason: Mutex::new(None),
            disk_failures: Mutex::default(),
            stopping: AtomicBool::new(false),
        }
    }
}

impl Health {
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// Why the volume turned read-only, if it did.
    pub fn read_only_reason(&self) -> Option<FsError> {
        self.read_only_reason.lock().clone()
    }

    /// The volume is unmounted: nothing changes it any more.
    pub fn end(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    /// From now on nothing is written any more.
    pub fn turn_read_only(&self, reason: &FsError) {
        let mut known = self.read_only_reason.lock();
        if known.is_none() {
            tracing::error!("the volume is read-only from now on: {reason}");
            *known = Some(reason.clone());
        }
        self.read_only.store(true, Ordering::Release);
    }

    /// A disk said this: `status` tells, until the disk works.
    pub fn disk_failed(&self, device: u16, error: &MediaError) {
        self.disk_failures.lock().insert(device, error.to_string());
    }

    /// A disk took data and made it durable.
    pub fn disk_works(&self, device: u16) {
        self.disk_failures.lock().remove(&device);
    }

    /// What a disk said last, if that was an error.
    pub fn disk_failure(&self, device: u16) -> Option<String> {
        self.disk_failures.lock().get(&device).cloned()
    }
}
