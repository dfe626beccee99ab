//! Processes of a mount, as their keeper sees them: starting, ending, and the signals that ask the
//! mount to end.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::exit;
use std::sync::atomic::{AtomicI32, Ordering};

use anyhow::{Context, Result};
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::line::Line;
use crate::daemon::{self, TERMINATIONS};
use crate::exit::FAILED;

/// The score of a process that the kernel never ends for want of memory.
const NEVER: &str = "-1000";
const SCORE: &str = "/proc/self/oom_score_adj";

/// Locks what the keeper needs in memory, and has the kernel spare it when memory runs out, both
/// where that is permitted. Returns the score that daemons have.
pub fn spare_this_process() -> Option<String> {
    // The ledger, which is mapped later, is locked where it is used.
    let _ = mlockall(MlockAllFlags::CURRENT);
    let score = fs::read_to_string(SCORE).ok()?;
    fs::write(SCORE, NEVER).is_ok().then_some(score)
}

/// The daemon that signals are passed on to; 0: there is none.
static DAEMON: AtomicI32 = AtomicI32::new(0);
/// The last signal that asked the mount to end; 0: none has. A daemon that dies may not have got
/// it, so its successor gets it, too.
static ASKED: AtomicI32 = AtomicI32::new(0);

/// Passes a signal on to the daemon.
pub extern "C" fn pass_on(signal: libc::c_int) {
    ASKED.store(signal, Ordering::SeqCst);
    match DAEMON.load(Ordering::SeqCst) {
        0 => {}
        // SAFETY: async-signal-safe, and the daemon has not been waited for yet.
        daemon => drop(unsafe { libc::kill(daemon, signal) }),
    }
}

/// The last signal that asked the mount to end; 0: none has.
pub fn asked() -> i32 {
    ASKED.load(Ordering::SeqCst)
}

/// Notes what another program has heard.
pub fn set_asked(signal: i32) {
    ASKED.store(signal, Ordering::SeqCst);
}

/// A daemon, or a process that may become one.
#[derive(Debug)]
pub struct Child {
    id: i32,
    /// Readable once it has ended.
    process: OwnedFd,
    /// The keeper's end of their line.
    pub line: Line,
}

impl Child {
    /// The child with this number, which nobody has waited for.
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub fn of(id: i32, line: Line) -> Result<Child> {
        let pid = Pid::from_raw(id).context("0 is no process")?;
        let process = pidfd_open(pid, PidfdFlags::empty()).context("no descriptor of a process")?;
        Ok(Child { id, process, line })
    }

    /// Its number.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Readable once it has ended.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.process.as_fd()
    }

    /// SIGKILL, and waits.
    ///
    /// # Errors
    /// As [`wait`].
    pub fn kill(&self) -> Result<Ending> {
        // It may have ended already.
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
        wait(self)
    }
}

/// Forks a process, which ends with `work`; signals that ask it to end wait until it listens.
///
/// # Errors
/// The system gives no process or descriptor.
pub fn fork(score: Option<&str>, work: impl FnOnce(Line) -> Result<()>) -> Result<Child> {
    let (ours, theirs) = Line::pair().context("cannot make a socket")?;
    daemon::block_signals(TERMINATIONS, true);
    // SAFETY: this process has one thread, so the child may do everything that the parent may.
    let id = unsafe { libc::fork() };
    if id == 0 {
        DAEMON.store(0, Ordering::SeqCst);
        drop(ours);
        if let Some(score) = score {
            let _ = fs::write(SCORE, score);
        }
        exit(if work(theirs).is_ok() { 0 } else { FAILED.into() })
    }
    let error = io::Error::last_os_error();
    daemon::block_signals(TERMINATIONS, false);
    if id < 0 {
        return Err(error).context("cannot fork");
    }
    Child::of(id, ours).inspect_err(|_| {
        // SAFETY: a child that nobody has waited for; the status is not wanted.
        unsafe {
            libc::kill(id, libc::SIGKILL);
            libc::waitpid(id, std::ptr::null_mut(), 0);
        }
    })
}

/// From now on signals are passed on to this daemon, one that has come before as well.
pub fn entrust(daemon: &Child) {
    daemon::block_signals(TERMINATIONS, true);
    DAEMON.store(daemon.id, Ordering::SeqCst);
    match asked() {
        0 => {}
        signal => pass_on(signal),
    }
    daemon::block_signals(TERMINATIONS, false);
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ending::Exited(status) => write!(f, "ended with status {status}"),
            Ending::Killed(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}

/// Waits for processes that were left to this one, as they are to the first of a container. To be
/// called while no child is waited for.
pub fn reap_orphans() {
    // SAFETY: no status is wanted.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

/// Waits until the process has ended, with all of its threads. To be called once.
///
/// # Errors
/// It is none of this process's.
pub fn wait(child: &Child) -> Result<Ending> {
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
    let (id, flags) = (child.id, libc::WEXITED | libc::WNOWAIT);
    // SAFETY: `info` is valid and writable. The number stays the daemon's, whom a signal may reach.
    retry(&mut || unsafe { libc::waitid(libc::P_PID, id as u32, &mut info, flags) })?;
    let _ = DAEMON.compare_exchange(id, 0, Ordering::SeqCst, Ordering::SeqCst);
    let mut status = 0;
    // SAFETY: `status` is valid and writable; nobody else waits for this child.
    retry(&mut || unsafe { libc::waitpid(id, &mut status, 0) })?;
    Ok(match libc::WIFSIGNALED(status) {
        true => Ending::Killed(libc::WTERMSIG(status)),
        false => Ending::Exited(libc::WEXITSTATUS(status)),
    })
}
