//! Virtual time, and the queue at the disk.
//!
//! Invariants: time goes back only to where an operation began, when it is done: others may have
//! begun meanwhile. A disk moves one transfer at a time, in the order in which
//! they were asked for, as the models of `terrace-media` do; latencies overlap. An operation that
//! takes longer than in the trace delays everything that the trace has after it.

use terrace_media::DeviceModel;

/// Time and the disk. Nanoseconds since recording began.
#[derive(Debug)]
pub(crate) struct Clock {
    now_ns: i64,
    /// How much later than in the trace operations come, since others before them took longer.
    delay_ns: i64,
    disk: DeviceModel,
    /// When the transfers asked for so far are through.
    disk_free_ns: i64,
}

impl Clock {
    pub fn new(disk: DeviceModel) -> Self {
        Self { now_ns: 0, delay_ns: 0, disk, disk_free_ns: 0 }
    }

    pub fn now_ns(&self) -> i64 {
        self.now_ns
    }

    /// When an operation begins that took so long in the trace, until `time_us`.
    pub fn arrival_ns(&self, time_us: u64, took_ns: u64) -> i64 {
        let begun_ns = ns(time_us.saturating_mul(1000)).saturating_sub(ns(took_ns));
        begun_ns.saturating_add(self.delay_ns).max(self.now_ns)
    }

    /// An operation took so much longer than in the trace.
    pub fn delay(&mut self, longer_ns: i64) {
        self.delay_ns = self.delay_ns.saturating_add(longer_ns);
    }

    /// Whether nobody has anything for the disk to do.
    pub fn is_idle(&self) -> bool {
        self.disk_free_ns <= self.now_ns
    }

    pub fn set(&mut self, now_ns: i64) {
        self.now_ns = self.now_ns.max(now_ns);
    }

    /// An operation that began then is done; the next may begin before its end.
    pub fn go_back(&mut self, begun_ns: i64) {
        self.now_ns = begun_ns;
    }

    /// A read of the disk that begins now; when it is done.
    pub fn read(&mut self, bytes: u64) -> i64 {
        self.transfer(transfer_ns(bytes, self.disk.read_bytes_per_s))
            .saturating_add(ns(self.disk.read_latency_ns))
    }

    /// A write of the disk that begins now, made durable; when it is done.
    pub fn write(&mut self, bytes: u64) -> i64 {
        // The write, and the flush.
        let latency_ns = ns(self.disk.write_latency_ns.saturating_mul(2));
        self.transfer(transfer_ns(bytes, self.disk.write_bytes_per_s)).saturating_add(latency_ns)
    }

    fn transfer(&mut self, transfer_ns: u64) -> i64 {
        self.disk_free_ns = self.disk_free_ns.max(self.now_ns).saturating_add(ns(transfer_ns));
        self.disk_free_ns
    }

    /// A program waits until then. Returns how long.
    pub fn wait_until(&mut self, done_ns: i64) -> u64 {
        let wait_ns = done_ns.saturating_sub(self.now_ns).max(0);
        self.now_ns += wait_ns;
        wait_ns as u64
    }
}

fn ns(ns: u64) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// How long bytes occupy a device. 0 bytes per second are without limit.
pub(crate) fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    match bytes_per_s {
        0 => 0,
        _ => u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s))
            .unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_queue_latencies_overlap_and_waiting_delays_what_follows() {
        let mut clock = Clock::new("hdd".parse().unwrap());
        assert_eq!(clock.read(1_000_000), 20_000_000, "10 ms at 100 MB/s, and 10 ms of latency");
        assert_eq!(clock.read(1_000_000), 30_000_000, "after the other's transfer");
        assert_eq!(clock.write(0), 40_000_000, "with a flush");
        assert_eq!(clock.wait_until(20_000_000), 20_000_000);
        clock.delay(20_000_000);
        assert_eq!((clock.arrival_ns(0, 0), clock.arrival_ns(1000, 0)), (20_000_000, 21_000_000));
        assert_eq!(clock.arrival_ns(1000, 300_000), 20_700_000, "it began before it ended");
        assert_eq!(clock.wait_until(5), 0);
        clock.set(100_000_000);
        assert_eq!(clock.read(0), 110_000_000, "an idle disk begins at once");
    }
}
