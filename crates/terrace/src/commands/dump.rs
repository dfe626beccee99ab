//! `terrace dump`

use anyhow::{Context, Result};
use terrace_engine::{Ino, dump_inode, dump_superblock};

use crate::cli::DumpCommand;
use crate::devices::{Access, DeviceOptions, Devices, about};
use crate::output;

/// Prints a structure of a PM device. The device may be in use: what changes meanwhile may look
/// damaged.
pub fn run(command: &DumpCommand) -> Result<()> {
    let options = DeviceOptions::new(Access::Peek);
    let mut text = Vec::new();
    match command {
        DumpCommand::Superblock { pm } => {
            dump_superblock(&*options.open_pm(pm)?, &mut text).map_err(about(pm))?;
        }
        DumpCommand::Inode { ino, pm, log } => {
            let Devices { pm: opened, disks, .. } = Devices::find(pm, &[], &options)?;
            dump_inode(&opened, &disks, Ino(*ino), *log, &mut text)
                .map_err(about(pm))
                .with_context(|| format!("inode {ino}"))?;
        }
    }
    output::print(&String::from_utf8_lossy(&text))
}
