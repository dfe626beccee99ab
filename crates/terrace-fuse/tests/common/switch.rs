//! Whether the kernel offers FUSE over io_uring.

use std::fs;

use parking_lot::ReentrantMutexGuard;
use terrace_fuse::{MountConfig, Transport};

use super::{alone, is_root, skip};

pub const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// The kernel offers io_uring, or does not; when this is dropped, it does as before. Held by one
/// test at a time.
#[derive(Debug)]
pub struct Switch {
    before: String,
    _alone: ReentrantMutexGuard<'static, ()>,
}

impl Switch {
    /// `None` if this kernel or user cannot.
    pub fn set(test: &str, state: &str) -> Option<Switch> {
        let alone = alone(test)?;
        let why_not = match fs::read_to_string(SWITCH) {
            Ok(before) if is_root() => {
                fs::write(SWITCH, state).expect("root sets it");
                return Some(Switch { before, _alone: alone });
            }
            Ok(_) => "only root switches FUSE over io_uring on",
            Err(_) => "this kernel has no FUSE over io_uring",
        };
        skip(test, why_not);
        None
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, &self.before);
    }
}

/// A mount over io_uring, with so many workers for each CPU.
pub fn over_ring(queue_depth: usize) -> MountConfig {
    MountConfig {
        transport: Transport::IoUring,
        queue_depth: Some(queue_depth),
        ..MountConfig::default()
    }
}
