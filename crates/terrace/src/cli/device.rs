//! `device`: what clap parses.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{DeviceArg, TIERS_MAX, parse_device};
use crate::size;

/// `device`
#[derive(Debug, Subcommand)]
pub enum DeviceCommand {
    /// Show the devices of a mounted volume
    #[command(after_help = "\
Examples:
  terrace device list /mnt
  terrace device list --json /mnt | jq '.[] | select(.state != \"in use\")'")]
    List(DeviceListArgs),
    /// Add disks to a mounted volume
    #[command(after_help = add_help())]
    Add(DeviceAddArgs),
    /// Move everything from disks of a mounted volume to its other devices, and take them out
    #[command(after_help = "\
Example:
  terrace device remove /mnt /dev/sdb

Data goes to other disks of the tier, then to those of slower and of faster ones,
and to PM only if there is no other disk. Programs go on meanwhile. If there is no
room for all of it, the bytes that lack room are named and the disk stays in use; so
it does after Ctrl-C, with less on it. A disk whose data cannot be read stays, too,
and the file is named.")]
    Remove(DeviceRemoveArgs),
    /// Put a disk in another's place, while the volume is in use
    #[command(after_help = "\
Example:
  terrace device replace /mnt /dev/sdb /dev/nvme2n1

NEW is added in the tier of OLD, takes what it can hold of it, and OLD is removed,
as by terrace device remove. If that cannot be done, both are in use.")]
    Replace(DeviceReplaceArgs),
}

/// `device list`
#[derive(Args, Debug)]
pub struct DeviceListArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `device add`
#[derive(Args, Debug)]
pub struct DeviceAddArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// Block devices or files. With :SIZE, a file is created
    #[arg(required = true, value_name = "PATH[:SIZE]", value_parser = parse_device)]
    pub disks: Vec<DeviceArg>,
    /// Their tier: 1 is the fastest [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..TIERS_MAX))]
    pub tier: Option<u8>,
    /// Overwrite what they hold
    #[arg(long)]
    pub force: bool,
}

fn add_help() -> String {
    format!(
        "\
Examples:
  terrace device add /mnt /dev/nvme2n1
  terrace device add /mnt /data/disk2:100G --tier 2

A disk that holds something is refused without --force; one that is in use is
refused always.

{}",
        size::HELP
    )
}

/// `device remove`
#[derive(Args, Debug)]
pub struct DeviceRemoveArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// Disks of the volume
    #[arg(required = true, value_name = "PATH")]
    pub disks: Vec<PathBuf>,
}

/// `device replace`
#[derive(Args, Debug)]
pub struct DeviceReplaceArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// A disk of the volume
    #[arg(value_name = "OLD")]
    pub old: PathBuf,
    /// A block device or a file. With :SIZE, a file is created
    #[arg(value_name = "NEW[:SIZE]", value_parser = parse_device)]
    pub new: DeviceArg,
    /// Overwrite what NEW holds
    #[arg(long)]
    pub force: bool,
}
