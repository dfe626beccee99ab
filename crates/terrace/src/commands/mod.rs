//! The subcommands, one module each.

mod check;
mod device;
mod doctor;
mod documents;
mod dump;
mod failures;
mod format;
mod mount;
mod pin;
mod place;
mod record;
pub mod run;
mod save;
mod scrub;
mod set;
mod simulate;
mod stats;
mod status;
mod sync;
mod top;
mod umount;
mod upgrade;
mod r#where;
mod why;

use std::process::ExitCode;

use anyhow::Result;

pub use mount::{mount, serve};
pub use umount::umount;

use crate::cli::{Cli, Command};

/// Does what the command line asks for.
///
/// # Errors
/// The operation failed; a [`Usage`](crate::exit::Usage) error if the command line is wrong.
pub fn run(cli: &Cli) -> Result<ExitCode> {
    let quiet = cli.quiet;
    match &cli.command {
        Command::Check(args) => return check::run(args, quiet),
        Command::Scrub(args) => return scrub::run(args, quiet),
        Command::Doctor(args) => return doctor::run(args),
        Command::Run(args) => return run::run(args, quiet),
        Command::Where(args) => return r#where::run(args),
        Command::Why(args) => return why::run(args),
        Command::Evict(args) => return Ok(place::evict(args, quiet)),
        Command::Warm(args) => return Ok(place::warm(args, quiet)),
        Command::Pin(args) => return Ok(pin::pin(args, quiet)),
        Command::Unpin(args) => return Ok(pin::unpin(args, quiet)),
        Command::Format(args) => format::run(args, quiet)?,
        Command::Mount(args) => mount::run(args, quiet)?,
        Command::Umount(args) => umount(&args.mountpoint, quiet)?,
        Command::Status(args) => status::run(args)?,
        Command::Stats(args) => stats::run(args, quiet)?,
        Command::Top(args) => top::run(args, quiet)?,
        Command::Record(args) => record::run(args, quiet)?,
        Command::Simulate(args) => simulate::run(args, quiet)?,
        Command::Device(command) => device::run(command, quiet)?,
        Command::Set(args) => set::run(args, quiet)?,
        Command::Upgrade(args) => upgrade::run(args, quiet)?,
        Command::Sync(args) => sync::run(args)?,
        Command::Save(args) => save::save(args, quiet)?,
        Command::Restore(args) => save::restore(args, quiet)?,
        Command::Dump(command) => dump::run(command)?,
        Command::Completions(args) => documents::completions(args)?,
        Command::Man(args) => documents::manual(args)?,
    }
    Ok(ExitCode::SUCCESS)
}
