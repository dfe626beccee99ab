//! The command line: what clap parses, and the help texts and manual pages that come from it.
//!
//! Texts after the options are shown as they stand, in manual pages too: their lines are at most 80
//! characters long.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand};
use terrace_layout::{DEVICES_MAX, SHARDS_MAX};
use terrace_policy::Param;

use crate::models::ModelChoice;
use crate::options;
use crate::output;
use crate::size;
use crate::thresholds;

pub mod device;
pub mod doctor;
pub mod documents;
pub mod measure;
pub mod pin;
pub mod run;
pub mod scrub;
pub mod upgrade;

use self::doctor::{DOCTOR_HELP, DoctorArgs};
use self::documents::{CompletionsArgs, ManArgs};
use self::measure::{
    RECORD_HELP, RecordArgs, STATS_HELP, SimulateArgs, StatsArgs, TopArgs, simulate_help,
};
use self::pin::{PIN_HELP, PinArgs, UnpinArgs};
use self::run::{RUN_HELP, RunArgs};
use self::scrub::{ScrubArgs, scrub_help};
use self::upgrade::{UPGRADE_HELP, UpgradeArgs};

/// Tiers of a volume, PM's included: each needs a device.
const TIERS_MAX: i64 = DEVICES_MAX as i64;

const EXIT_STATUS: &str = "\
Exit status:
  0  success
  1  the operation failed; standard error says what happened and what to do
  2  the command line is wrong
  4  check, scrub --wait: there was damage, and all of it was repaired
  8  check, scrub --wait: there is damage (not repaired, or beyond repair);
     doctor: something is unsafe
  126, 127  run: the program cannot be run, or there is none; otherwise run has
     the status of the program
Called as mount.terrace by mount(8): 0, 1 (wrong usage), 32 (the mount failed).";

/// A file system over persistent memory and disks.
#[derive(Debug, Parser)]
#[command(name = "terrace", version, max_term_width = 110, after_help = EXIT_STATUS)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Print neither progress nor remarks, only results and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

impl Cli {
    /// The definition of the whole command, for completions and manual pages.
    pub fn definition() -> clap::Command {
        Cli::command()
    }
}

/// An error of the parser, in which what the user has typed is neither too long nor harms a
/// terminal.
pub fn harmless(mut error: clap::Error) -> clap::Error {
    let shown = |(kind, value): (ContextKind, &ContextValue)| match value {
        ContextValue::String(typed) => {
            let shown = output::in_a_line(&output::shortened(typed)).into_owned();
            (shown != *typed).then_some((kind, shown))
        }
        _ => None,
    };
    let typed: Vec<(ContextKind, String)> = error.context().filter_map(shown).collect();
    if !typed.is_empty() {
        // It repeats what was typed.
        error.remove(ContextKind::Suggested);
    }
    for (kind, shown) in typed {
        error.insert(kind, ContextValue::String(shown));
    }
    error
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a new volume on one PM device and one or more disks
    #[command(after_help = format_help())]
    Format(FormatArgs),
    /// Mount a volume
    #[command(after_help = mount_help())]
    Mount(MountArgs),
    /// Unmount a volume and wait until all of it is on its devices
    #[command(after_help = "\
Example:
  terrace umount /mnt

What a daemon that died left behind is cleaned up. The next mount recovers the volume.")]
    Umount(UmountArgs),
    /// Show devices, tiers, usage and health
    #[command(after_help = "\
Examples:
  terrace status /mnt               a mounted volume
  terrace status /dev/shm/pm        a volume by its PM device, mounted or not
  terrace status --json /mnt | jq '.devices[] | {path, used_bytes}'")]
    Status(StatusArgs),
    /// Show what a mounted volume does, every second
    #[command(after_help = STATS_HELP)]
    Stats(StatsArgs),
    /// Show what a mounted volume does on a screen
    #[command(after_help = "\
Example:
  terrace top /mnt

It shows how full the tiers are, what they do, what flows between them, and, to
root and the user who mounted the volume, the hottest and coldest files. q quits.
Without a terminal, use terrace stats.")]
    Top(TopArgs),
    /// Record what programs ask of a mounted volume, for simulate
    #[command(after_help = RECORD_HELP)]
    Record(RecordArgs),
    /// Show what a recorded volume would do with more or less PM, page cache, or other thresholds
    #[command(after_help = simulate_help())]
    Simulate(SimulateArgs),
    /// Run a program that reads and writes files in PM without system calls
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Show on which devices files are
    #[command(after_help = "\
Examples:
  terrace where /mnt/db/*.sst
  terrace where --json /mnt/db/000042.sst

Extents that go on where the one before ends, in the file and on the device, are
shown as one; its REWRITTEN is the highest of theirs. --extents shows each.")]
    Where(WhereArgs),
    /// Show what put the data of files where it is, and what would move it
    #[command(after_help = "\
Examples:
  terrace why /mnt/db/000042.sst
  terrace why --json /mnt/db/*.sst

docs/POLICY.md lists the rules and their names.")]
    Why(WhyArgs),
    /// Verify every checksum of a mounted volume in the background
    #[command(after_help = scrub_help())]
    Scrub(ScrubArgs),
    /// Show the devices of a mounted volume; add, remove or replace disks
    #[command(subcommand)]
    Device(device::DeviceCommand),
    /// Show the thresholds of placement and migration of a mounted volume, or change them
    #[command(after_help = "\
Examples:
  terrace set /mnt
  terrace set /mnt migrate_rate=200M cold_age=10
  terrace set /mnt migrate=0

Changes last until the volume is unmounted; mount options of the same names set
them from the start. docs/POLICY.md says what each of them does.")]
    Set(SetArgs),
    /// Move files from PM to disk, while they are used
    #[command(after_help = "\
Examples:
  terrace evict /mnt/db/*.sst
  terrace evict --tier 2 /mnt/archive.tar

What is written or read later may return: see `terrace set`.")]
    Evict(EvictArgs),
    /// Move files to PM, while they are used
    #[command(after_help = "\
Example:
  terrace warm /mnt/db/CURRENT /mnt/db/MANIFEST-*")]
    Warm(WarmArgs),
    /// Keep files on a tier, whatever they are used for, and move them there
    #[command(after_help = PIN_HELP)]
    Pin(PinArgs),
    /// Leave it to the policy again where files are
    #[command(after_help = "\
Example:
  terrace unpin /mnt/db

Data stays where it is until migration moves it.")]
    Unpin(UnpinArgs),
    /// Write everything that a mounted volume has in memory to its devices
    #[command(after_help = "\
Example:
  terrace sync /mnt")]
    Sync(SyncArgs),
    /// Replace the daemon of a mounted volume by the installed program, while it is used
    #[command(after_help = UPGRADE_HELP)]
    Upgrade(UpgradeArgs),
    /// Save the contents of a PM device to a file, to carry emulated PM across a reboot
    #[command(after_help = "\
Examples:
  terrace umount /mnt && terrace save /dev/shm/pm /var/lib/terrace/pm.saved
  terrace save /dev/shm/pm - | zstd > pm.saved.zst

The volume must not be mounted. The file replaces an older one only when it is
complete. The disks of the volume are not part of it: between save and restore,
they must stay as they are.")]
    Save(SaveArgs),
    /// Put saved contents back on a PM device
    #[command(after_help = "\
Examples:
  terrace restore /var/lib/terrace/pm.saved /dev/shm/pm
  zstd -d < pm.saved.zst | terrace restore - /dev/shm/pm

A PM file that does not exist is created with the size it had.")]
    Restore(RestoreArgs),
    /// Tell what makes this machine slow or a mount unsafe, and the remedies
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Check a volume that is not mounted, and repair it
    #[command(after_help = check_help())]
    Check(CheckArgs),
    /// Print structures of a PM device as text
    #[command(subcommand)]
    Dump(DumpCommand),
    /// Print a completion script for a shell
    #[command(after_help = "\
Example:
  terrace completions bash > /etc/bash_completion.d/terrace")]
    Completions(CompletionsArgs),
    /// Write the manual pages
    #[command(after_help = "\
Example:
  terrace man /usr/local/share/man/man1")]
    Man(ManArgs),
}

/// A device, and the size to create it with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceArg {
    /// The device or file.
    pub path: PathBuf,
    /// Bytes of the file to create; `None`: it exists.
    pub size_bytes: Option<u64>,
}

/// Parses `PATH[:SIZE]`. If a file exists under the whole text, that is a path, whatever it looks
/// like.
fn parse_device(text: &str) -> Result<DeviceArg, String> {
    let (path, size) = size::split_path_size(text);
    if text.is_empty() {
        return Err("the path is missing".to_owned());
    }
    match size {
        Some(size) if !std::path::Path::new(text).exists() => {
            let size_bytes = size?;
            if size_bytes < 4096 {
                return Err(format!(
                    "{}: a device of {size_bytes} bytes is too small",
                    output::quoted(text)
                ));
            }
            Ok(DeviceArg { path: path.into(), size_bytes: Some(size_bytes) })
        }
        _ => Ok(DeviceArg { path: text.into(), size_bytes: None }),
    }
}

/// `format`
#[derive(Args, Debug)]
pub struct FormatArgs {
    /// PM device: /dev/daxX.Y, a file on a DAX file system, on tmpfs (emulated) or on any file
    /// system (slow). With :SIZE, a file is created
    #[arg(long, value_name = "PATH[:SIZE]", value_parser = parse_device)]
    pub pm: DeviceArg,
    /// Disk: a block device or a file; may be repeated. With :SIZE, a file is created
    #[arg(long = "disk", value_name = "PATH[:SIZE]", required = true, value_parser = parse_device)]
    pub disks: Vec<DeviceArg>,
    /// Tier of each disk, in the order of the disks: 1 is the fastest [default: all in tier 1]
    #[arg(long = "tier", value_name = "N", value_delimiter = ',',
          value_parser = clap::value_parser!(u8).range(1..TIERS_MAX))]
    pub tiers: Vec<u8>,
    /// Overwrite what the devices hold
    #[arg(long)]
    pub force: bool,
    /// Number of shards [default: one per core, at most 16]
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=i64::from(SHARDS_MAX))
    )]
    pub shards: Option<u16>,
    /// Checksum data in PM as well (metadata, and data on disks, always are)
    #[arg(long)]
    pub data_checksums: bool,
    /// Make a device (pm, disk, disk1, …) as slow as MODEL; may be repeated
    #[arg(long = "model", value_name = "DEVICE=MODEL")]
    pub models: Vec<ModelChoice>,
}

fn format_help() -> String {
    format!(
        "\
Examples:
  terrace format --pm /dev/dax0.0 --disk /dev/nvme1n1
  terrace format --pm /dev/shm/pm:4G --disk /data/disk:100G
  terrace format --pm /pmem/vol --disk /dev/nvme1n1 --disk /dev/sdb --tier 1,2

A device that holds something is refused without --force; one that is in use is
refused always. If formatting fails, the files it created are removed. The size
of a created file is rounded down to a multiple of 4 KiB.

{}",
        size::HELP
    )
}

/// `mount`
#[derive(Args, Debug)]
pub struct MountArgs {
    /// The volume's PM device
    pub pm: PathBuf,
    /// An existing directory
    pub mountpoint: PathBuf,
    /// Mount options, separated by commas; may be repeated
    #[arg(short = 'o', long = "options", value_name = "OPTIONS")]
    pub options: Vec<String>,
    /// Where a disk of the volume is now, if not where it was; may be repeated
    #[arg(long = "disk", value_name = "PATH")]
    pub disks: Vec<PathBuf>,
    /// Stay in the foreground and log to standard error
    #[arg(long, short)]
    pub foreground: bool,
    /// The daemon's log [default: below /var/log/terrace, or $XDG_STATE_HOME/terrace for other
    /// users]
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Make a device (pm, disk, disk1, …) as slow as MODEL; may be repeated
    #[arg(long = "model", value_name = "DEVICE=MODEL")]
    pub models: Vec<ModelChoice>,
}

fn mount_help() -> String {
    format!(
        "\
Mount options:
{}
Options that mount(8) and fstab use for themselves (defaults, nofail, x-…) are
ignored.

{}

Examples:
  terrace mount /dev/shm/pm /mnt
  terrace mount /dev/dax0.0 /mnt -o noatime,allow_other --disk /dev/nvme2n1

With links to terrace named /sbin/mount.terrace and /sbin/umount.fuse.terrace:
  mount -t terrace /dev/shm/pm /mnt
and in /etc/fstab:
  /dev/dax0.0  /mnt  terrace  noatime,allow_other,nofail  0 0

The disks are found by the table in the PM device. The command returns when the
mount serves. SIGTERM, SIGINT and SIGHUP make the daemon unmount. TERRACE_LOG
sets what is logged: error, warn, info (default), debug or trace.",
        options::help(),
        size::HELP
    )
}

/// `umount`
#[derive(Args, Debug)]
pub struct UmountArgs {
    /// Where the volume is mounted
    pub mountpoint: PathBuf,
}

/// `status`
#[derive(Args, Debug)]
pub struct StatusArgs {
    /// Where the volume is mounted, or its PM device
    #[arg(value_name = "MOUNTPOINT|PM")]
    pub target: PathBuf,
    /// Where a disk of an unmounted volume is now, if not where it was; may be repeated
    #[arg(long = "disk", value_name = "PATH")]
    pub disks: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `where`
#[derive(Args, Debug)]
pub struct WhereArgs {
    /// Files of mounted volumes
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Show each extent, also where one goes on where the one before ends
    #[arg(long)]
    pub extents: bool,
    /// Print JSON: an array with one object per file
    #[arg(long)]
    pub json: bool,
}

/// `why`
#[derive(Args, Debug)]
pub struct WhyArgs {
    /// Files of mounted volumes
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Print JSON: an array with one object per file
    #[arg(long)]
    pub json: bool,
}

/// `sync`
#[derive(Args, Debug)]
pub struct SyncArgs {
    /// Where the volume is mounted
    pub mountpoint: PathBuf,
}

/// `set`
#[derive(Args, Debug)]
pub struct SetArgs {
    /// Where the volume is mounted
    pub mountpoint: PathBuf,
    /// Thresholds to change; without any, all are shown
    #[arg(value_name = "NAME=VALUE", value_parser = thresholds::parse_setting)]
    pub settings: Vec<(Param, u64)>,
    /// Print JSON: an object of names and values
    #[arg(long, conflicts_with = "settings")]
    pub json: bool,
}

/// `evict`
#[derive(Args, Debug)]
pub struct EvictArgs {
    /// Files of mounted volumes
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Tier of disks to move them to, or to the next below it with room
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..TIERS_MAX))]
    pub tier: u8,
}

/// `warm`
#[derive(Args, Debug)]
pub struct WarmArgs {
    /// Files of mounted volumes
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// `save`
#[derive(Args, Debug)]
pub struct SaveArgs {
    /// The PM device
    pub pm: PathBuf,
    /// Where to save it; - is standard output
    pub file: PathBuf,
}

/// `restore`
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// What `terrace save` wrote; - is standard input
    pub file: PathBuf,
    /// The PM device
    pub pm: PathBuf,
    /// Overwrite what the PM device holds
    #[arg(long)]
    pub force: bool,
}

/// `check`
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The volume's PM device
    pub pm: PathBuf,
    /// Repair what can be repaired; without it, nothing is written
    #[arg(long)]
    pub repair: bool,
    /// Remove the files and directories that cannot be read; what only they named goes to
    /// /lost+found, but for empty directories
    #[arg(long, requires = "repair")]
    pub give_up: bool,
    /// Where a disk of the volume is now, if not where it was; may be repeated
    #[arg(long = "disk", value_name = "PATH")]
    pub disks: Vec<PathBuf>,
    /// Do not read data to verify its checksums: much faster
    #[arg(long)]
    pub no_data: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn check_help() -> String {
    format!(
        "{EXIT_STATUS}\n
Examples:
  terrace check /dev/shm/pm
  terrace check --repair /dev/dax0.0 --disk /dev/nvme2n1
  terrace check --repair --give-up /dev/shm/pm

A file or directory whose record or log is damaged can be neither read nor
removed, and a volume that crashed with one is read-only. --give-up removes such
files for good, and names them. Files and directories of a directory that is
lost get names in /lost+found, as inode-NUMBER, but for empty directories, which
are removed. Bring back devices that have failed first, and restore what a
backup has afterwards. Without such damage it does nothing."
    )
}

/// `dump`
#[derive(Debug, Subcommand)]
pub enum DumpCommand {
    /// The superblock and the device table
    Superblock {
        /// The PM device
        pm: PathBuf,
    },
    /// An inode
    #[command(after_help = "\
Example:
  terrace dump inode 1 --log /dev/shm/pm        (1 is the root directory)")]
    Inode {
        /// The inode number, as `ls -i` prints it
        ino: u64,
        /// The PM device
        pm: PathBuf,
        /// Print the entries of its log as well
        #[arg(long)]
        log: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn the_rate_of_a_scrub_is_the_engines() {
        let parsed = Cli::try_parse_from(["terrace", "scrub", "/mnt"]).unwrap();
        let Command::Scrub(ScrubArgs { action: None, start: Some(start) }) = parsed.command else {
            panic!("{parsed:?}");
        };
        assert_eq!(start.rate, terrace_engine::ScrubOptions::default().bytes_per_second);
    }

    #[test]
    fn devices_with_and_without_a_size() {
        let device = |path: &str, size_bytes| Ok(DeviceArg { path: path.into(), size_bytes });
        assert_eq!(parse_device("/dev/pmem0"), device("/dev/pmem0", None));
        assert_eq!(parse_device("/dev/shm/no such:4G"), device("/dev/shm/no such", Some(4 << 30)));
        assert_eq!(parse_device("/no/such:thing"), device("/no/such:thing", None));
        assert!(parse_device("/no/such:4X").unwrap_err().contains("4X"));
        assert!(parse_device("/no/such:0").unwrap_err().contains("too small"));
        assert!(parse_device("").is_err());
    }

    #[test]
    fn an_existing_path_is_a_path_even_if_it_ends_like_a_size() {
        let path = std::env::temp_dir().join(format!("terrace-cli-{}:4G", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let parsed = parse_device(path.to_str().unwrap());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(parsed, Ok(DeviceArg { path, size_bytes: None }));
    }
}
