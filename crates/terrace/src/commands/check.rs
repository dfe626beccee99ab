//! `terrace check`

use std::process::ExitCode;

use anyhow::Result;
use terrace_engine::{CheckOptions, CheckReport, check};

use crate::cli::CheckArgs;
use crate::devices::{Access, DeviceOptions, Devices, about};
use crate::progress::Progress;
use crate::{daemon, output, report};

/// Everything that was damaged has been repaired.
pub(super) const REPAIRED: u8 = 4;
/// Damage is left.
pub(super) const DAMAGED: u8 = 8;

/// Checks a volume and prints what was found.
pub fn run(args: &CheckArgs, quiet: bool) -> Result<ExitCode> {
    let access = if args.repair { Access::Change } else { Access::Examine };
    let devices = Devices::open(&args.pm, &args.disks, &DeviceOptions::new(access))?;
    daemon::tell_waiting_pages(&devices.pm, None, quiet);
    let progress = Progress::new(quiet);
    let options = CheckOptions { repair: args.repair, give_up: args.give_up, data: !args.no_data };
    let found = check(&devices.pm, &devices.disks, &options, &|what, done, total| {
        progress.update(what, done, total)
    })
    .map_err(about(&args.pm))?;
    drop(progress);
    if args.json {
        output::print_json(&found)?;
    } else {
        output::print(&report::check(&found))?;
    }
    Ok(exit_code(&found))
}

fn exit_code(report: &CheckReport) -> ExitCode {
    match report.problems.as_slice() {
        [] => ExitCode::SUCCESS,
        problems if problems.iter().all(|problem| problem.repaired) => ExitCode::from(REPAIRED),
        _ => ExitCode::from(DAMAGED),
    }
}
