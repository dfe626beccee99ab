//! How a mount is served, as lines of its state.

use terrace_engine::counted;
use terrace_fuse::TransportStatus;
use terrace_fuse::control::DaemonStatus;

use super::line;
use crate::size::format_size;

/// The daemon, and the way of its messages, as far as they are known.
pub fn served(daemon: Option<&DaemonStatus>, way: Option<&TransportStatus>) -> String {
    let lines = daemon.map(program).into_iter().chain(way.map(transport));
    lines.map(|text| line(&text)).collect()
}

/// Version and process; whether its program has been replaced.
fn program(daemon: &DaemonStatus) -> String {
    let DaemonStatus { version, process, replaced, .. } = daemon;
    let hint = match replaced {
        true => "; its program has been replaced or removed: see `terrace upgrade`",
        false => "",
    };
    format!("daemon: terrace {version}, process {process}{hint}")
}

/// Threads, queues and the memory of their buffers.
fn transport(status: &TransportStatus) -> String {
    let count = |count: usize, one, many| counted(count as u64, one, many);
    let buffers = format_size(status.buffer_bytes as u64);
    if status.way != "io_uring" {
        let threads = count(status.threads, "thread", "threads");
        return format!("transport: /dev/fuse, {threads}, buffers of {buffers}");
    }
    format!(
        "transport: io_uring, {} of up to {}; {} with {}, buffers of {buffers}",
        count(status.queues, "queue", "queues"),
        count(status.entries_per_queue_max, "entry", "entries"),
        count(status.workers, "worker", "workers"),
        count(status.entries, "entry", "entries"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_of_an_old_program_is_seen() {
        let daemon = DaemonStatus { version: "0.1.0".into(), process: 7, ..Default::default() };
        assert_eq!(served(Some(&daemon), None), "daemon: terrace 0.1.0, process 7\n");
        let old = DaemonStatus { replaced: true, ..daemon };
        assert!(served(Some(&old), None).contains("`terrace upgrade`"));
        assert_eq!(served(None, None), "");
    }

    #[test]
    fn both_ways_have_a_line() {
        let device = TransportStatus {
            way: "device".into(),
            threads: 2,
            buffer_bytes: 2 << 20,
            ..TransportStatus::default()
        };
        assert_eq!(transport(&device), "transport: /dev/fuse, 2 threads, buffers of 2 MiB");
        let ring = TransportStatus {
            way: "io_uring".into(),
            threads: 1,
            queues: 2,
            workers: 3,
            entries: 3,
            entries_per_queue_max: 15,
            buffer_bytes: 4 << 20,
        };
        assert_eq!(
            transport(&ring),
            "transport: io_uring, 2 queues of up to 15 entries; 3 workers with 3 entries, buffers \
             of 4 MiB"
        );
    }
}
