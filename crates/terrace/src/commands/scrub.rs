//! `terrace scrub`

use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use terrace_engine::{ScrubOptions, ScrubState};
use terrace_fuse::control;

use super::check::{DAMAGED, REPAIRED};
use crate::cli::scrub::{ScrubArgs, ScrubCommand, ScrubStartArgs};
use crate::progress::Progress;
use crate::report::{ScrubReport, ScrubStatus, Status};
use crate::size::format_size;
use crate::{mounts, output, report};

/// How often to ask the daemon how far it is.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Starts, shows or ends a scrub.
pub fn run(args: &ScrubArgs, quiet: bool) -> Result<ExitCode> {
    match (&args.action, &args.start) {
        (Some(ScrubCommand::Start(start)), _) | (None, Some(start)) => {
            return run_start(start, quiet);
        }
        (Some(ScrubCommand::Status(args)), _) => {
            show(&mounts::of_volume(&args.target)?.mountpoint, args.json)?
        }
        (Some(ScrubCommand::Cancel(args)), _) => {
            cancel(&mounts::of_volume(&args.target)?.mountpoint, quiet)?
        }
        (None, None) => bail!("what to scrub is missing"),
    }
    Ok(ExitCode::SUCCESS)
}

fn run_start(args: &ScrubStartArgs, quiet: bool) -> Result<ExitCode> {
    let mountpoint = mounts::of_volume(&args.target)?.mountpoint;
    let place = mountpoint.display();
    control::start_scrub(&mountpoint, &ScrubOptions { bytes_per_second: args.rate })?;
    if !args.wait {
        let rate = match args.rate {
            0 => "without a rate limit".to_owned(),
            rate => format!("at up to {}/s", format_size(rate)),
        };
        output::remark(
            quiet,
            &format!("{place}: scrub started {rate}; `terrace scrub status {place}` shows it"),
        );
        return Ok(ExitCode::SUCCESS);
    }
    let status = wait(&mountpoint, quiet).with_context(|| {
        format!("{place}: the scrub went out of sight; the daemon's log says what became of it")
    })?;
    if status.state() != ScrubState::Never {
        show(&mountpoint, args.json)?;
    }
    match status.state() {
        ScrubState::Finished => Ok(exit_code(&status)),
        ScrubState::Never => {
            bail!("{place}: the daemon died, and the scrub with it; start it again")
        }
        _ => bail!("{place}: the scrub was cancelled"),
    }
}

fn exit_code(status: &ScrubStatus) -> ExitCode {
    match status.damage() {
        (0, _) => ExitCode::SUCCESS,
        (errors, repaired) if errors == repaired => ExitCode::from(REPAIRED),
        _ => ExitCode::from(DAMAGED),
    }
}

/// Waits until the scrub has ended, and shows how far it is.
fn wait(mountpoint: &Path, quiet: bool) -> Result<ScrubStatus> {
    let progress = Progress::new(quiet);
    loop {
        let state: Status = serde_json::from_str(&control::status(mountpoint)?)?;
        let status = state.into_scrub();
        if status.state() != ScrubState::Running {
            return Ok(status);
        }
        progress.update("scrubbing", status.percent(), 100);
        sleep(ASK_EVERY);
    }
}

fn show(mountpoint: &Path, json: bool) -> Result<()> {
    let answer = control::scrub_report(mountpoint)?;
    if json {
        return output::print_json(&serde_json::from_str::<serde_json::Value>(&answer)?);
    }
    let found: ScrubReport = serde_json::from_str(&answer)?;
    output::print(&report::scrub(mountpoint, &found))
}

fn cancel(mountpoint: &Path, quiet: bool) -> Result<()> {
    control::cancel_scrub(mountpoint)?;
    let status = wait(mountpoint, true)?;
    output::remark(quiet, &format!("{}: scrub {}", mountpoint.display(), status.in_a_line()));
    Ok(())
}
