//! `terrace sync`

use anyhow::Result;

use crate::cli::SyncArgs;
use crate::mounts;

/// Writes everything dirty to its device.
pub fn run(args: &SyncArgs) -> Result<()> {
    let mount = mounts::terrace_at(&args.mountpoint)?;
    terrace_fuse::control::sync(&mount.mountpoint)
}
