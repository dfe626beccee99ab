//! Processes that need not be children of the test.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, pidfd_send_signal, waitpid,
};

/// No process takes nearly this long to die.
const DEATH_LIMIT: Duration = Duration::from_secs(120);

/// The first child of a process that has not ended.
pub fn child_of(process: u32) -> Option<Pid> {
    children_of(process).into_iter().next()
}

/// All children of a process that have not ended, the oldest first.
pub fn children_of(process: u32) -> Vec<Pid> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    let ids = children.split_whitespace().filter(|id| !has_ended(id));
    ids.filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
}

/// Whether nothing is left of a process but its status.
fn has_ended(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
}

/// How long a keeper may take to get the connection of a daemon that serves. One on an old kernel
/// never does.
const CONNECTION_LIMIT: Duration = Duration::from_secs(2);

/// Waits until a keeper has the connection of its first daemon, which programs may find serving a
/// moment earlier.
pub fn wait_for_connection(keeper: u32) {
    let is_device = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = entry.and_then(|entry| std::fs::read_link(entry.path()));
        target.is_ok_and(|target| target == Path::new("/dev/fuse"))
    };
    let has_one = || {
        let all = std::fs::read_dir(format!("/proc/{keeper}/fd"));
        all.is_ok_and(|mut all| all.any(is_device))
    };
    let deadline = Instant::now() + CONNECTION_LIMIT;
    while !has_one() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The daemon of a keeper, a child of ours that starts no other one from now on.
pub fn daemon_of_stopped(keeper: u32) -> Result<Option<Pid>> {
    let process = Pid::from_raw(keeper.cast_signed()).context("a process")?;
    kill_process(process, Signal::STOP)?;
    waitpid(Some(process), WaitOptions::UNTRACED)?;
    Ok(child_of(keeper))
}

/// Sends a signal to a process, which need not be a child, and waits until it has ended.
pub fn end(process: Pid, signal: Signal) -> Result<()> {
    // What it names stays the same process.
    let Ok(handle) = pidfd_open(process, PidfdFlags::empty()) else {
        return Ok(());
    };
    match pidfd_send_signal(&handle, signal) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => return Err(error).context("cannot send a signal to the daemon"),
    }
    let limit = Timespec::try_from(DEATH_LIMIT)?;
    match poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit))? {
        0 => bail!("the daemon outlives {signal:?}"),
        _ => Ok(()),
    }
}
