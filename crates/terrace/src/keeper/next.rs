//! The other side of an upgrade: what the program does that takes a mount over.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Signal, pidfd_send_signal, set_parent_process_death_signal};
use terrace_fuse::{Handover, Ledger};

use super::line::{Line, Word, is_ready};
use super::process::{Child, entrust, pass_on, set_asked, spare_this_process};
pub use super::takeover::SUBCOMMAND;
use super::takeover::{Mount, Part, Takeover, adopt};
use super::way::{Past, Way};
use super::{Cause, Keeper, LONG, Role, Serve};
use crate::daemon::{self, TERMINATIONS};
use crate::exit::FAILED;
use crate::output;

/// `terrace take-over TOLD LINE MOUNTPOINT`: takes a mount over, which `serve` serves.
pub fn take_over(args: impl Iterator<Item = OsString>, serve: Serve) -> ExitCode {
    let number = |text: &OsStr| text.to_str().and_then(|text| text.parse::<RawFd>().ok());
    let numbers: Vec<RawFd> = args.take(2).filter_map(|text| number(&text)).collect();
    let opened = || -> Result<(File, Line)> {
        let [told, line] = numbers[..] else { bail!("two descriptors are missing") };
        Ok((File::from(adopt(told)?), Line::of(adopt(line)?)))
    };
    let (told, line) = match opened() {
        Ok(opened) => opened,
        Err(error) => {
            output::error(&format!("{SUBCOMMAND} is only for keepers of mounts: {error:#}"));
            return ExitCode::from(FAILED);
        }
    };
    // It is run by its descriptor, which older kernels take for its name.
    let _ = rustix::thread::set_name(c"terrace");
    let ended = match read(told) {
        Ok(told) => {
            let log = told.mount.log();
            go_on(told, line, serve).inspect_err(|error| {
                // A daemon has one already.
                let _ = daemon::start_log(&log);
                tracing::error!("{error:#}");
            })
        }
        Err(why) => line.tell(Word::Refused, &why, None).context(why),
    };
    ExitCode::from(if ended.is_ok() { 0 } else { FAILED })
}

fn read(mut told: File) -> Result<Takeover, String> {
    let mut text = String::new();
    let read = told.rewind().and_then(|()| told.read_to_string(&mut text));
    read.map_err(|error| format!("what it is told cannot be read: {error}"))?;
    Takeover::parse(&text)
}

/// Takes the mount over. Does not return as long as that lives.
fn go_on(told: Takeover, line: Line, serve: Serve) -> Result<()> {
    match &told.part {
        &Part::Daemon { before, token } => become_daemon(&told.mount, before, token, line, serve),
        Part::Keeper { daemon, score, deaths, asked } => {
            let daemon = Child::of(*daemon, line)?;
            set_asked(*asked);
            daemon::handle_signals(TERMINATIONS, pass_on)?;
            // This process has no other score than that of a keeper.
            spare_this_process();
            entrust(&daemon);
            let (ledger, handover) = inherited(&told.mount)?;
            let request = told.mount.request().map_err(|why| anyhow!(why))?;
            // A daemon that has died is found next.
            let _ = daemon.line.tell(Word::Kept, "", None);
            let (score, log, deaths) = (score.clone(), told.mount.log(), *deaths);
            Keeper { ledger, handover, score, request, log, serve, daemon, deaths }.run()
        }
    }
}

/// The ledger and the connection of the mount.
fn inherited(mount: &Mount) -> Result<(&'static Ledger, Handover)> {
    let connection = adopt(mount.connection)?;
    let ledger = Ledger::of(adopt(mount.ledger)?).context("no memory for the ledger")?;
    Ok((ledger, Handover { connection, device: mount.device.clone() }))
}

/// Says whether this process can be the next daemon, and is it once it may.
fn become_daemon(mount: &Mount, before: RawFd, token: u64, line: Line, serve: Serve) -> Result<()> {
    let all = || Ok::<_, anyhow::Error>((adopt(before)?, inherited(mount)?));
    let (before, (ledger, handover)) = match all() {
        Ok(all) => all,
        Err(error) => return line.tell(Word::Refused, &format!("{error:#}"), None).context(error),
    };
    let request = mount.request().map_err(|why| anyhow!(why))?;
    // From now on it takes the mount up, also if the keeper dies.
    set_parent_process_death_signal(None)?;
    line.tell(Word::Ready, env!("CARGO_PKG_VERSION"), None)?;
    await_turn(&line, before.as_fd())?;
    let way = Way::of_successor(line, Some(Past { token, outcome: None }));
    let mut role = Role::Successor(ledger, Some(handover), way, Cause::Upgrade);
    serve(&request, &mount.log(), &mut role)
}

/// Waits until the daemon before has ended. If the keeper is gone that was to end it, this process
/// does: nobody else would take the mount up.
fn await_turn(line: &Line, before: BorrowedFd<'_>) -> Result<()> {
    if let Ok(Some(told)) = line.hear()
        && told.word == Word::Go
    {
        return Ok(());
    }
    // It may have ended already.
    let _ = pidfd_send_signal(before, Signal::KILL);
    is_ready(&[before], LONG).context("cannot wait for the daemon before this one")?;
    Ok(())
}
