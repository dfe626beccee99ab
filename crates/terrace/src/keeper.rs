//! The keeper of a mount: a process that holds the connection to the kernel, and starts a successor
//! when the daemon dies of anything. It has one thread, opens no volume, and reads no message.
//!
//! Daemons are forks of the keeper, so a successor needs neither the program's file, which may have
//! been replaced, nor the command line. They share the [`Ledger`], which the keeper makes before it
//! starts the first one.
//!
//! If the daemon ends by itself, so does the keeper, with the same exit status. SIGTERM, SIGINT and
//! SIGHUP go on to the daemon, which unmounts. If somebody kills the keeper alone, the daemon goes
//! on without.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result, anyhow, bail};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use terrace_fuse::{Handover, Ledger, Mounted};

use crate::daemon::{self, Log, Ready, TERMINATIONS};
use crate::exit::FAILED;
use crate::output;

/// So many daemons may die one after the other without having answered anything.
const DEATHS_MAX: u32 = 3;
/// The score of a process that the kernel never ends for want of memory.
const NEVER: &str = "-1000";
const SCORE: &str = "/proc/self/oom_score_adj";

/// The first byte of what the first daemon tells its keeper: it serves (the device follows), or it
/// does not (why follows).
const SERVES: u8 = b'+';
const FAILS: u8 = b'-';
/// Longest such message that is read.
const MESSAGE_BYTES_MAX: usize = 16 << 10;

/// What a daemon is in the life of its mount.
#[derive(Debug)]
pub enum Role<'a> {
    /// The only one.
    Alone(&'a mut Ready),
    /// The first one, with the way to its keeper.
    First(&'static Ledger, UnixStream, Terms),
    /// One that takes the mount of another up, which died of this signal.
    Successor(&'static Ledger, Option<Handover>, i32),
}

/// What holds between the first daemon and its keeper.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The daemon leaves the terminal once it serves.
    leaves: bool,
    /// Without a keeper there is to be no mount.
    is_wanted: bool,
}

impl Role<'_> {
    /// Memory that outlives this daemon.
    pub fn ledger(&self) -> Option<&'static Ledger> {
        match self {
            Role::Alone(_) => None,
            Role::First(ledger, ..) | Role::Successor(ledger, ..) => Some(ledger),
        }
    }

    /// The connection that a successor takes up.
    pub fn take_handover(&mut self) -> Option<Handover> {
        match self {
            Role::Successor(_, handover, _) => handover.take(),
            Role::Alone(_) | Role::First(..) => None,
        }
    }

    /// The mount is served: whoever waits for that is told.
    ///
    /// # Errors
    /// They are gone; the kernel is too old for a keeper.
    pub fn serves(&mut self, mounted: &mut Mounted) -> Result<()> {
        match self {
            Role::Alone(ready) => ready.serve(),
            Role::First(_, keeper, terms) => {
                let handover = mounted.take_handover();
                if handover.is_none() && terms.is_wanted {
                    bail!("a keeper needs Linux 6.9 or later; mount with -o nokeeper");
                }
                if terms.leaves {
                    daemon::leave_terminal()?;
                }
                hand_over(keeper, handover.as_ref()).context("the keeper of this daemon is gone")
            }
            Role::Successor(..) => Ok(()),
        }
    }
}

/// Keeps the mount that `serve` serves, as the first daemon and as each successor; logs to `log`.
/// Does not return once the mount is served: the process ends with it. Where no successor could
/// take the mount up, it is served all the same, unless a keeper `is_wanted`.
///
/// # Errors
/// What `serve` returned before it served; the system gives no memory or process.
pub fn keep(
    ready: &mut Ready,
    log: &Log,
    is_wanted: bool,
    serve: &dyn Fn(&mut Role<'_>) -> Result<()>,
) -> Result<()> {
    let score = spare_this_process();
    let ledger =
        Ledger::new().context("a keeper has no memory for its ledger; mount with -o nokeeper")?;
    daemon::handle_signals(TERMINATIONS, pass_on)?;
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
    let terms = Terms { leaves: ready.is_awaited(), is_wanted };
    let first = start(&score, || {
        // The command that waits for this mount waits for all copies of its pipe to be closed.
        *ready = Ready::nobody();
        let keeper = theirs.try_clone()?;
        let served = serve(&mut Role::First(ledger, theirs.try_clone()?, terms));
        served.map_err(|error| tell_failure(keeper, error))
    })?;
    drop(theirs);
    let handover = match hear(&ours)? {
        Heard::Serves(handover) => handover,
        Heard::Fails(why) => {
            wait(first)?;
            return Err(anyhow!(why));
        }
        Heard::Nothing => match wait(first)? {
            Ending::Killed(signal) => {
                bail!("the daemon was killed by signal {signal} before it served; see its log")
            }
            Ending::Exited(_) => bail!("the daemon ended before it served; see its log"),
        },
    };
    if let Err(error) = ready.serve() {
        // Nobody knows of the mount.
        pass_on(libc::SIGTERM);
        wait(first)?;
        return Err(error);
    }
    match handover {
        Some(handover) => replace_until_it_ends(first, ledger, &handover, &score, log, serve),
        None => match wait(first)? {
            Ending::Exited(status) => exit(status),
            Ending::Killed(_) => exit(FAILED.into()),
        },
    }
}

/// Starts a successor of each daemon that dies.
fn replace_until_it_ends(
    mut daemon: i32,
    ledger: &'static Ledger,
    handover: &Handover,
    score: &Option<String>,
    log: &Log,
    serve: &dyn Fn(&mut Role<'_>) -> Result<()>,
) -> Result<()> {
    let mut deaths = 0;
    loop {
        let signal = match wait(daemon)? {
            Ending::Exited(status) => exit(status),
            Ending::Killed(signal) => signal,
        };
        deaths = if ledger.take_answered() { 1 } else { deaths + 1 };
        if deaths == DEATHS_MAX {
            give_up(log, signal);
        }
        daemon = start(score, || {
            let connection = handover.connection.try_clone()?;
            let handover = Handover { connection, device: handover.device.clone() };
            let served = serve(&mut Role::Successor(ledger, Some(handover), signal));
            served.inspect_err(|error| tracing::error!("{error:#}"))
        })?;
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

/// Locks what the keeper needs in memory, and has the kernel spare it when memory runs out, both
/// where that is permitted. Returns the score that daemons have.
fn spare_this_process() -> Option<String> {
    // The ledger, which is mapped later, is locked where it is used.
    let _ = mlockall(MlockAllFlags::CURRENT);
    let score = fs::read_to_string(SCORE).ok()?;
    fs::write(SCORE, NEVER).is_ok().then_some(score)
}

/// The daemon under way; 0: there is none.
static DAEMON: AtomicI32 = AtomicI32::new(0);
/// The last signal that asked the mount to end; 0: none has. A daemon that dies may not have got
/// it, so its successor gets it, too.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Passes a signal on to the daemon.
extern "C" fn pass_on(signal: libc::c_int) {
    ASKED.store(signal, Ordering::SeqCst);
    match DAEMON.load(Ordering::SeqCst) {
        0 => {}
        // SAFETY: async-signal-safe, and the daemon has not been waited for yet.
        daemon => drop(unsafe { libc::kill(daemon, signal) }),
    }
}

/// Forks a daemon, which ends with `work`.
fn start(score: &Option<String>, work: impl FnOnce() -> Result<()>) -> Result<i32> {
    // They wait until the daemon can be told, and in the daemon until it listens.
    daemon::block_signals(TERMINATIONS, true);
    // SAFETY: this process has one thread, so the child may do everything that the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()).context("cannot fork"),
        0 => {
            DAEMON.store(0, Ordering::SeqCst);
            if let Some(score) = score {
                let _ = fs::write(SCORE, score);
            }
            exit(if work().is_ok() { 0 } else { FAILED.into() })
        }
        daemon => {
            DAEMON.store(daemon, Ordering::SeqCst);
            match ASKED.load(Ordering::SeqCst) {
                0 => {}
                signal => pass_on(signal),
            }
            daemon::block_signals(TERMINATIONS, false);
            Ok(daemon)
        }
    }
}

enum Ending {
    Exited(i32),
    Killed(i32),
}

/// Waits until the daemon has ended, with all of its threads.
fn wait(daemon: i32) -> Result<Ending> {
    let retry = |call: &mut dyn FnMut() -> i32| loop {
        if call() >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error).context("cannot wait for the daemon");
        }
    };
    // SAFETY: all-zero is a valid siginfo_t.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let flags = libc::WEXITED | libc::WNOWAIT;
    // SAFETY: `info` is valid and writable. The number stays the daemon's, whom a signal may reach.
    retry(&mut || unsafe { libc::waitid(libc::P_PID, daemon as u32, &mut info, flags) })?;
    DAEMON.store(0, Ordering::SeqCst);
    let mut status = 0;
    // SAFETY: `status` is valid and writable; nobody else waits for this child.
    retry(&mut || unsafe { libc::waitpid(daemon, &mut status, 0) })?;
    Ok(match libc::WIFSIGNALED(status) {
        true => Ending::Killed(libc::WTERMSIG(status)),
        false => Ending::Exited(libc::WEXITSTATUS(status)),
    })
}

/// What the keeper hears of the first daemon.
enum Heard {
    /// What a successor needs, if one could take the mount up.
    Serves(Option<Handover>),
    Fails(String),
    /// It has ended.
    Nothing,
}

fn hand_over(mut keeper: &UnixStream, handover: Option<&Handover>) -> io::Result<()> {
    let Some(handover) = handover else {
        return keeper.write_all(&[SERVES]);
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let connection = [handover.connection.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&connection));
    let message = [IoSlice::new(&[SERVES]), IoSlice::new(handover.device.as_bytes())];
    sendmsg(keeper, &message, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Tells why the mount is not served; what comes after that only the log is told.
fn tell_failure(mut keeper: UnixStream, error: anyhow::Error) -> anyhow::Error {
    let mut message = vec![FAILS];
    message.extend(format!("{error:#}").bytes().take(MESSAGE_BYTES_MAX - 1));
    if keeper.write_all(&message).is_err() {
        tracing::error!("{error:#}");
    }
    error
}

fn hear(daemon: &UnixStream) -> Result<Heard> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut message = [IoSliceMut::new(&mut bytes)];
        match recvmsg(daemon, &mut message, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received.context("cannot hear of the daemon")?,
        }
    };
    let connection = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(match (bytes[..received.bytes].split_first(), connection) {
        (Some((&SERVES, device)), connection) => Heard::Serves(
            connection.map(|connection| Handover { connection, device: text(device) }),
        ),
        (Some((_, why)), _) => Heard::Fails(text(why)),
        (None, _) => Heard::Nothing,
    })
}
