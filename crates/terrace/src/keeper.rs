//! The keeper of a mount: a process that holds the connection to the kernel, and starts a successor
//! when the daemon dies of anything. It has one thread, opens no volume, and reads no message.
//!
//! Daemons are forks of the keeper, so a successor needs neither the program's file, which may have
//! been replaced, nor the command line. They share the [`Ledger`], which the keeper makes before it
//! starts the first one. An upgrade replaces both, daemon and keeper, by another program
//! (`upgrade`).
//!
//! If the daemon ends by itself, so does the keeper, with the same exit status. SIGTERM, SIGINT and
//! SIGHUP go on to the daemon, which unmounts. If somebody kills the keeper alone, the daemon goes
//! on without.

mod line;
mod next;
mod process;
mod role;
mod takeover;
mod upgrade;
mod way;

use std::os::fd::AsFd;
use std::process::exit;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use terrace_fuse::{Handover, Ledger};

use self::line::{Told, Word, is_ready};
pub use self::next::{SUBCOMMAND, take_over};
use self::process::{
    Child, Ending, entrust, fork, pass_on, reap_orphans, spare_this_process, wait,
};
use self::role::Terms;
pub use self::role::{Cause, Role};
use self::way::{Past, Way};
use crate::daemon::{self, Log, Ready, TERMINATIONS};
use crate::exit::FAILED;
use crate::output;
use crate::request::MountRequest;

/// So many daemons may die one after the other without having answered anything.
const DEATHS_MAX: u32 = 3;
/// The keeper has nothing else to do; some limit is needed.
const LONG: Duration = Duration::from_secs(86_400);

/// A daemon's life, in the process that is it.
pub type Serve = fn(&MountRequest, &Log, &mut Role<'_>) -> Result<()>;

/// Keeps the mount that `serve` serves, as the first daemon and as each successor. Does not return
/// once the mount is served: the process ends with it. Where no successor could take the mount up,
/// it is served all the same, unless a keeper is asked for.
///
/// # Errors
/// What `serve` returned before it served; the system gives no memory or process.
pub fn keep(ready: &mut Ready, request: &MountRequest, log: &Log, serve: Serve) -> Result<()> {
    let score = spare_this_process();
    let ledger =
        Ledger::new().context("a keeper has no memory for its ledger; mount with -o nokeeper")?;
    daemon::handle_signals(TERMINATIONS, pass_on)?;
    let is_wanted = request.options.keeper == Some(true);
    let terms = Terms { leaves: ready.is_awaited(), is_wanted };
    let first = fork(score.as_deref(), |line| {
        // The command that waits for this mount waits for all copies of its pipe to be closed.
        *ready = Ready::nobody();
        let way = Way::of_first(line);
        serve(request, log, &mut Role::First(ledger, way.clone(), terms))
            .map_err(|error| tell_failure(&way, error))
    })?;
    entrust(&first);
    let handover = match first.line.hear().context("cannot hear of the daemon")? {
        Some(Told { word: Word::Serves, text, descriptor }) => {
            descriptor.map(|connection| Handover { connection, device: text })
        }
        Some(Told { text, .. }) => {
            wait(&first)?;
            return Err(anyhow!(text));
        }
        None => bail!("the daemon {} before it served; see its log", wait(&first)?),
    };
    if let Err(error) = ready.serve() {
        // Nobody knows of the mount.
        pass_on(libc::SIGTERM);
        wait(&first)?;
        return Err(error);
    }
    let Some(handover) = handover else {
        match wait(&first)? {
            Ending::Exited(status) => exit(status),
            Ending::Killed(_) => exit(FAILED.into()),
        }
    };
    let (request, log) = (request.clone(), log.clone());
    Keeper { ledger, handover, score, request, log, serve, daemon: first, deaths: 0 }.run()
}

/// Tells why the mount is not served; what comes after that only the log is told.
fn tell_failure(way: &Way, error: anyhow::Error) -> anyhow::Error {
    if way.line().tell(Word::Fails, &format!("{error:#}"), None).is_err() {
        tracing::error!("{error:#}");
    }
    error
}

/// A keeper whose daemons have successors.
struct Keeper {
    ledger: &'static Ledger,
    handover: Handover,
    /// Daemons have this score when memory runs out.
    score: Option<String>,
    request: MountRequest,
    log: Log,
    serve: Serve,
    daemon: Child,
    /// Daemons that died one after the other without having answered anything.
    deaths: u32,
}

impl Keeper {
    /// Starts a successor of each daemon that dies, and upgrades those that ask for it.
    fn run(mut self) -> Result<()> {
        loop {
            match self.next()? {
                None => self.daemon_ends()?,
                Some(Told { word: Word::Upgrade, text, descriptor: Some(program) }) => {
                    self.upgrade(text.parse().unwrap_or(0), program.as_fd())?;
                }
                Some(Told { word: Word::Upgrade, .. }) => self.refuse("it has no descriptor left"),
                Some(_) => {}
            }
        }
    }

    /// The daemon's next words; `None`: it has ended, or is about to.
    fn next(&self) -> Result<Option<Told>> {
        loop {
            let both = [self.daemon.end(), self.daemon.line.as_fd()];
            match is_ready(&both, LONG).context("cannot wait for the daemon")? {
                None => {}
                Some(0) => return Ok(None),
                Some(_) => return self.daemon.line.hear().context("cannot hear the daemon"),
            }
        }
    }

    fn daemon_ends(&mut self) -> Result<()> {
        let signal = match wait(&self.daemon)? {
            Ending::Exited(status) => exit(status),
            Ending::Killed(signal) => signal,
        };
        reap_orphans();
        self.deaths = if self.ledger.take_answered() { 1 } else { self.deaths + 1 };
        if self.deaths == DEATHS_MAX {
            give_up(&self.log, signal);
        }
        self.start(Cause::Death(signal), None)
    }

    /// Starts a successor, a fork of this process.
    fn start(&mut self, cause: Cause, past: Option<Past>) -> Result<()> {
        let daemon = fork(self.score.as_deref(), |line| {
            let connection = self.handover.connection.try_clone()?;
            let handover = Handover { connection, device: self.handover.device.clone() };
            let way = Way::of_successor(line, past);
            let mut role = Role::Successor(self.ledger, Some(handover), way, cause);
            let served = (self.serve)(&self.request, &self.log, &mut role);
            served.inspect_err(|error| tracing::error!("{error:#}"))
        })?;
        entrust(&daemon);
        self.daemon = daemon;
        Ok(())
    }
}

fn give_up(log: &Log, signal: i32) -> ! {
    let words = format!(
        "{DEATHS_MAX} daemons died one after the other without an answer to any program, the last \
         of signal {signal}: the mount fails; unmount it, and mount the volume again"
    );
    match daemon::start_log(log) {
        Ok(()) => tracing::error!("{words}"),
        Err(_) => output::error(&words),
    }
    exit(FAILED.into())
}
