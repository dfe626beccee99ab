//! The direct path, as lines of a mount's state.

use std::fmt::Write as _;

use terrace_engine::counted;
use terrace_fuse::control::{DirectProcess, DirectStatus};

use super::line;
use crate::size::format_size;

/// Processes that have a line of their own.
const PROCESSES_MAX: usize = 10;

/// Who is connected, and how many files each has.
pub fn status(status: &DirectStatus) -> String {
    let files = status.processes.iter().map(|process| process.inodes.len() as u64).sum();
    let (files, processes) = (
        counted(files, "file", "files"),
        counted(status.processes.len() as u64, "process", "processes"),
    );
    let mut text = format!("direct path: {files} lent, {processes} connected");
    if status.quarantined_bytes > 0 {
        let bytes = format_size(status.quarantined_bytes);
        let _ = write!(text, ", {bytes} kept from others until a stopped process goes on or ends");
    }
    text.push('\n');
    // Those that have most come first.
    let mut processes: Vec<&DirectProcess> = status.processes.iter().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.inodes.len()));
    for DirectProcess { process, user, name, inodes } in processes.iter().take(PROCESSES_MAX) {
        let files = counted(inodes.len() as u64, "file", "files");
        text += &line(&format!("  process {process} ({name}) of user {user}: {files}"));
    }
    if let Some(more @ 1..) = processes.len().checked_sub(PROCESSES_MAX) {
        let _ = writeln!(text, "  and {}", counted(more as u64, "other process", "others"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(process: u64, name: &str, inodes: usize) -> DirectProcess {
        let inodes = (0..inodes as u64).collect();
        DirectProcess { process, user: 7, name: name.to_owned(), inodes }
    }

    #[test]
    fn each_process_has_a_line() {
        let processes = vec![process(12, "cat\n", 0), process(34, "sqlite3", 2)];
        let text = status(&DirectStatus { processes, quarantined_bytes: 0 });
        let expected = "direct path: 2 files lent, 2 processes connected
  process 34 (sqlite3) of user 7: 2 files
  process 12 (cat\\n) of user 7: 0 files
";
        assert_eq!(text, expected);
    }

    #[test]
    fn many_processes_are_counted() {
        let processes = (0..PROCESSES_MAX as u64 + 3).map(|number| process(number, "a", 1));
        let text =
            status(&DirectStatus { processes: processes.collect(), quarantined_bytes: 1 << 20 });
        assert!(text.starts_with(
            "direct path: 13 files lent, 13 processes connected, 1 MiB kept from others until a \
             stopped process goes on or ends\n"
        ));
        assert_eq!(text.lines().count(), 1 + PROCESSES_MAX + 1);
        assert!(text.ends_with("  and 3 others\n"));
    }
}
