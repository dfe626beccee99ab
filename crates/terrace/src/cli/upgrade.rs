//! `upgrade`.

use std::path::PathBuf;

use clap::Args;

/// `upgrade`
#[derive(Args, Debug)]
pub struct UpgradeArgs {
    /// Where the volume is mounted
    pub mountpoint: PathBuf,
    /// The program to change to [default: the one that is run as terrace]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

pub(super) const UPGRADE_HELP: &str = "\
Examples:
  terrace upgrade /mnt              after a new terrace was installed
  terrace upgrade --program /opt/terrace-0.1/bin/terrace /mnt
  terrace status /mnt               shows which program serves

Programs that use the mount see a pause, and none of their calls fails. The new
program is asked first: if it does not know a format or an option of the mount,
the daemon goes on, and the command says why. If it fails before it has answered
anything, the one before goes on. A scrub, a recording and the removal of a disk
end with the daemon. A mount without a keeper cannot be upgraded. Root and the
user whose daemon it is may do this.";
