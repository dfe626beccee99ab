//! `scrub`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::size;

/// `scrub`
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
pub struct ScrubArgs {
    /// What to do; without it, start.
    #[command(subcommand)]
    pub action: Option<ScrubCommand>,
    /// What to start.
    #[command(flatten)]
    pub start: Option<ScrubStartArgs>,
}

/// The subcommands of `scrub`.
#[derive(Debug, Subcommand)]
pub enum ScrubCommand {
    /// Start a scrub
    Start(ScrubStartArgs),
    /// Show the scrub that runs, or the last one since the volume was mounted
    Status(ScrubStatusArgs),
    /// End the scrub that runs
    Cancel(ScrubCancelArgs),
}

/// `scrub start`
#[derive(Args, Debug)]
pub struct ScrubStartArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// Bytes to read per second at most, from all devices together; 0: no limit
    #[arg(long, value_name = "SIZE", default_value = "100M", value_parser = size::parse_size)]
    pub rate: u64,
    /// Wait until it has ended, and show the result; interrupting the wait does not end the scrub
    #[arg(long, short)]
    pub wait: bool,
    /// With --wait, print the result as JSON
    #[arg(long, requires = "wait")]
    pub json: bool,
}

/// `scrub status`
#[derive(Args, Debug)]
pub struct ScrubStatusArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `scrub cancel`
#[derive(Args, Debug)]
pub struct ScrubCancelArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
}

pub(super) fn scrub_help() -> String {
    format!(
        "\
Examples:
  terrace scrub /mnt                          the same as scrub start
  terrace scrub start --rate 500M --wait /mnt
  terrace scrub status /mnt
  terrace scrub status --json /mnt | jq '.damage[] | {{path, device, what}}'
  terrace scrub cancel /mnt

It reads superblocks, inode tables, logs, checksums and data from the devices,
past all caches, and compares checksums; data in PM has some if the volume was
formatted with --data-checksums, and is read in any case. Damaged superblock
copies are written anew from the good one; lost data is named, with its file.
The volume stays in use. The daemon does the work; its log has the damage, too.
The result is kept until the volume is unmounted, and a scrub that an unmount
ended is not resumed.

With --wait, the exit status is 4 if all damage was repaired, 8 if some is left,
and 1 if the scrub did not get to its end.

{}",
        size::HELP
    )
}
