//! How a mount is served, as a line of its state.

use terrace_engine::counted;
use terrace_fuse::TransportStatus;

use crate::size::format_size;

/// Threads, queues and the memory of their buffers.
pub fn transport(status: &TransportStatus) -> String {
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
