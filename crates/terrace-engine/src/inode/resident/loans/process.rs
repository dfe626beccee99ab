//! Processes that borrow, as the system shows them.

/// Whether a process has ended: none of its stores is still to come.
pub(super) fn is_gone(process: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) else { return true };
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
    }
}
