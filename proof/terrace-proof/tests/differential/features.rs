//! What the host's file system supports.

use std::fs::File;

use rustix::fs::{FallocateFlags, OFlags, XattrFlags};
use terrace_proof::Scratch;

use crate::calls::{open, set_acl};

/// What the reference file system supports; the rest cannot be compared here.
#[derive(Debug, Clone, Copy)]
pub struct Features {
    pub direct: bool,
    pub xattrs: bool,
    pub acls: bool,
    punch: bool,
    zero: bool,
}

impl Features {
    /// Tries each on a file in `dir`.
    pub fn of(dir: &Scratch) -> anyhow::Result<Features> {
        let path = dir.join("probe");
        let file = File::create(&path)?;
        file.set_len(8192)?;
        let allocates = |mode| rustix::fs::fallocate(&file, mode, 0, 4096).is_ok();
        let features = Features {
            direct: open(&path, OFlags::RDONLY | OFlags::DIRECT).is_ok(),
            xattrs: rustix::fs::setxattr(&path, "user.probe", b"1", XattrFlags::empty()).is_ok(),
            acls: set_acl(&path, false, 0o640).is_ok(),
            punch: allocates(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE),
            zero: allocates(FallocateFlags::ZERO_RANGE),
        };
        std::fs::remove_file(path)?;
        Ok(features)
    }

    /// The modes to draw from. Collapsing and inserting ranges never reach a FUSE file system.
    pub fn fallocate_modes(&self) -> Vec<FallocateFlags> {
        let mut modes = vec![FallocateFlags::empty(), FallocateFlags::KEEP_SIZE];
        if self.punch {
            modes.push(FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE);
        }
        if self.zero {
            modes.extend([
                FallocateFlags::ZERO_RANGE,
                FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
            ]);
        }
        modes
    }
}
