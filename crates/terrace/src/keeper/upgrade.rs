//! Replacing daemon and keeper of a mount by another program, step by step, so that at each moment
//! a process is there that serves the mount or is about to:
//!
//! 1. The keeper runs the program as a process that will be the next daemon. It looks at what it is
//!    told, touches nothing, and says whether it can take over. Until it does, the daemon serves.
//! 2. The keeper kills the daemon, as a death is what its successors are made for, and lets the
//!    next one go on. If the keeper dies meanwhile, the next one kills the daemon itself.
//! 3. The next daemon serves. If it dies before that, or before it has answered anything, the
//!    keeper starts a successor of its own program.
//! 4. The keeper becomes the program, which has proved itself by now. If that fails, the daemon
//!    goes on without it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::exit;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use terrace_fuse::Handover;

use super::line::{Told, Word, is_ready};
use super::process::{Child, Ending, asked, entrust, fork};
use super::takeover::{Mount, Part, Takeover};
use super::way::Past;
use super::{Cause, Keeper};
use crate::daemon::{self, TERMINATIONS};

/// How long another program may take to say whether it can take over.
const READY_MAX: Duration = Duration::from_secs(10);
/// How long a daemon may serve without an answer until it counts as one that answers: if nobody
/// asks, there is nothing to answer.
const ANSWER_MAX: Duration = Duration::from_millis(200);

impl Keeper {
    /// Upgrades the mount to this program, or tells the daemon why not.
    pub(super) fn upgrade(&mut self, token: u64, program: BorrowedFd<'_>) -> Result<()> {
        let next = match self.prepare(token, program) {
            Ok(next) => next,
            Err(why) => {
                self.refuse(&format!("{why:#}"));
                return Ok(());
            }
        };
        if let Ending::Exited(status) = self.daemon.kill()? {
            // It was unmounted in this moment.
            next.kill()?;
            exit(status);
        }
        self.deaths = if self.ledger.take_answered() { 0 } else { self.deaths };
        entrust(&next);
        // One that is gone is found below.
        let _ = next.line.tell(Word::Go, "", None);
        if self.serves(&next) {
            self.daemon = next;
            self.become_program(program);
            return Ok(());
        }
        let ending = match next.kill()? {
            Ending::Exited(0) => exit(0),
            ending => ending,
        };
        let why = format!(
            "the new program {ending} before it had answered anything, see the log; the one \
             before goes on"
        );
        self.start(Cause::FailedUpgrade, Some(Past { token, outcome: Some(Err(why)) }))
    }

    /// Tells the daemon why it is not replaced.
    pub(super) fn refuse(&self, why: &str) {
        // A daemon that has died is found next.
        let _ = self.daemon.line.tell(Word::Refused, why, None);
    }

    /// Starts the program, as the next daemon that waits for its moment.
    fn prepare(&self, token: u64, program: BorrowedFd<'_>) -> Result<Child> {
        if asked() != 0 {
            return Err(anyhow!("the volume is being unmounted"));
        }
        let mount = self.mount()?;
        let connection = self.handover.connection.as_fd();
        let before = self.daemon.end();
        let part = Part::Daemon { before: before.as_raw_fd(), token };
        let takeover = Takeover::new(self.ledger, mount, part);
        let open = [connection, self.ledger.descriptor(), before];
        let keeper = rustix::process::getpid();
        let next = fork(self.score.as_deref(), |line| {
            die_with(keeper)?;
            let error = takeover.exec(program, &line, &open);
            line.tell(Word::Refused, &cannot_be_run(&error), None)?;
            Err(error.into())
        })?;
        match self.is_ready(&next) {
            Ok(()) => Ok(next),
            Err(why) => {
                let ending = next.kill()?;
                Err(why.unwrap_or_else(|| {
                    anyhow!(
                        "the program {ending} before it said whether it can take the mount over: \
                         is it terrace, of a version that can?"
                    )
                }))
            }
        }
    }

    /// The mount, as other programs are told of it.
    fn mount(&self) -> Result<Mount> {
        let Handover { connection, device } = &self.handover;
        let mount = Mount::of(&self.request, &self.log, self.ledger, connection.as_fd(), device);
        mount.context("unmount it, and mount the volume with the new program")
    }

    /// Waits until the next daemon can take over. An error of `None`: it has ended without a word.
    fn is_ready(&self, next: &Child) -> Result<(), Option<anyhow::Error>> {
        match is_ready(&[next.line.as_fd(), self.daemon.end()], READY_MAX) {
            Ok(Some(0)) => {}
            Ok(Some(_)) => return Err(Some(anyhow!("the daemon died meanwhile; try again"))),
            Ok(None) => {
                return Err(Some(anyhow!(
                    "the program does not say whether it can take \
                the mount over: is it terrace?"
                )));
            }
            Err(error) => return Err(Some(error.into())),
        }
        match next.line.hear() {
            Ok(Some(Told { word: Word::Ready, .. })) => Ok(()),
            Ok(Some(Told { text, .. })) => Err(Some(anyhow!(text))),
            Ok(None) => Err(None),
            Err(error) => Err(Some(error.into())),
        }
    }

    /// Waits until the next daemon serves, and has answered something if anybody asks.
    fn serves(&self, next: &Child) -> bool {
        if !matches!(next.line.hear(), Ok(Some(Told { word: Word::Serves, .. }))) {
            return false;
        }
        let begun = Instant::now();
        while !self.ledger.has_answered() && begun.elapsed() < ANSWER_MAX {
            match is_ready(&[next.end()], Duration::from_millis(2)) {
                Ok(None) => {}
                Ok(Some(_)) | Err(_) => return false,
            }
        }
        true
    }

    /// Becomes the program that the daemon is already. Returns if that fails.
    fn become_program(&self, program: BorrowedFd<'_>) {
        // They wait until the new program listens.
        daemon::block_signals(TERMINATIONS, true);
        let part = Part::Keeper {
            daemon: self.daemon.id(),
            score: self.score.clone(),
            deaths: self.deaths,
            asked: asked(),
        };
        let open = [self.handover.connection.as_fd(), self.ledger.descriptor()];
        let error = match self.mount() {
            Ok(mount) => Takeover::new(self.ledger, mount, part)
                .exec(program, &self.daemon.line, &open)
                .into(),
            Err(error) => error,
        };
        daemon::block_signals(TERMINATIONS, false);
        let why = format!(
            "the keeper is still the program before, and so would be a successor of the daemon \
             ({error:#}); upgrade again"
        );
        // A daemon that has died is found next.
        let _ = self.daemon.line.tell(Word::Kept, &why, None);
    }
}

/// Has this process end with its parent, the keeper, for as long as nobody knows what program it
/// is: it would keep the connection open, and programs waiting, after the daemon's death.
fn die_with(keeper: Pid) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match getppid() {
        Some(parent) if parent == keeper => Ok(()),
        _ => Err(anyhow!("the keeper is gone")),
    }
}

fn cannot_be_run(error: &io::Error) -> String {
    let hint = match error.raw_os_error() {
        Some(libc::ENOEXEC) => ": it is no program for this machine",
        Some(libc::ENOENT) => ": it is a script, or lacks its interpreter",
        Some(libc::EACCES) => ": it may not be executed",
        _ => "",
    };
    format!("the new program cannot be run{hint} ({error})")
}
