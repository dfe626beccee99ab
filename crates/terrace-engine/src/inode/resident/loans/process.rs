//! Processes that borrow, as the system shows them.

use rustix::process::{Pid, test_kill_process};

/// Whether there is a process of this number. It may be one that `/proc` hides from other users.
fn exists(process: u64) -> bool {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

/// Whether a process has ended: none of its stores is still to come.
pub(super) fn is_gone(process: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else {
        return !exists(process);
    };
    // Behind the name, which may hold anything, comes the state: of the first thread, which others
    // may outlive.
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    matches!(state, Some('Z' | 'X') | None) && threads <= 1
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::process::Command;

    use terrace_store::sync::thread;

    use super::*;

    #[test]
    fn a_process_is_gone_once_it_has_ended_though_nobody_has_waited_for_it() {
        assert!(!is_gone(std::process::id().into()));
        let mut child = Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let process = u64::from(child.id());
        assert!(!is_gone(process));
        child.kill().unwrap();
        while !is_gone(process) {
            thread::yield_now();
        }
        child.wait().unwrap();
        assert!(is_gone(process));
        assert!(exists(std::process::id().into()) && exists(1) && !exists(process));
        assert!(!exists(0) && !exists(u64::MAX), "no processes have these numbers");
    }
}
