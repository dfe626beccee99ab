//! `doctor`.

use std::path::PathBuf;

use clap::Args;

pub const DOCTOR_HELP: &str = "\
Examples:
  terrace doctor                                  this machine
  terrace doctor /mnt                             and what is mounted there
  terrace doctor /dev/shm/pm                      and a volume by its PM device
  terrace doctor --disk /dev/nvme1n1              and a disk, before it is used
  terrace doctor --json | jq '.findings[] | select(.verdict != \"ok\")'

Each line has a verdict, what was looked at, what was found, and the remedy:
  ok       as it should be
  slow     it works, and could be faster
  unsafe   data may be lost, or read by others
  missing  something that would be of use is not there
The exit status is 8 if anything is unsafe, else 0. Nothing is changed.";

/// `doctor`
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Where a volume is mounted, or its PM device; without it, the machine alone
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: Option<PathBuf>,
    /// A disk to look at as well; may be repeated
    #[arg(long = "disk", value_name = "PATH")]
    pub disks: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
