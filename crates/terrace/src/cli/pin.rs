//! `pin` and `unpin`.

use std::path::PathBuf;

use clap::Args;

use crate::output;

/// `pin`
#[derive(Args, Debug)]
pub struct PinArgs {
    /// pm, or the number of a tier of disks
    #[arg(value_parser = parse_tier)]
    pub tier: u8,
    /// Files of mounted volumes, and directories with everything below them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

/// Parses a tier as pins name it.
fn parse_tier(text: &str) -> Result<u8, String> {
    terrace_engine::parse_pin(text.as_bytes())
        .ok_or_else(|| format!("{} is no tier: pm, 1, 2, …", output::quoted(text)))
}

pub const PIN_HELP: &str = "\
Examples:
  terrace pin pm /mnt/db/wal
  terrace pin 2 /mnt/archive
  setfattr -n user.terrace.pin -v pm /mnt/new     the same, without moving data
  getfattr -R -n user.terrace.pin /mnt            all pins

A pin is an extended attribute: cp -a, tar --xattrs and rsync -X carry it. What
is made in a pinned directory is pinned, too; a new name changes no pin.
Symbolic links have none: named here, what they lead to is pinned; below a
directory, they are passed over. What has no room on its tier lies below it
(from pm: on a disk) until there is room. Whoever may write a file may pin it.";

/// `unpin`
#[derive(Args, Debug)]
pub struct UnpinArgs {
    /// Files of mounted volumes, and directories with everything below them
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiers_are_named_as_in_pins() {
        assert_eq!([parse_tier("pm"), parse_tier("2")], [Ok(0), Ok(2)]);
        assert_eq!(parse_tier("fast"), Err("\"fast\" is no tier: pm, 1, 2, …".to_owned()));
    }
}
