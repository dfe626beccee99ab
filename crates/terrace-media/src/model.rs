//! Device models: make a device as slow as the hardware it stands for.
//!
//! An operation under a model takes at least as long as the modelled device would need: its turn at
//! the device's bandwidth, then its latency. Latencies of concurrent operations overlap; transfers
//! share one virtual clock, so together they never exceed the bandwidth.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The speed of a modelled device. Parsed from a name with [`FromStr`]; see [`DeviceModel::NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModel {
    /// Latency of each read (ns).
    pub read_latency_ns: u64,
    /// Latency of each write and each flush (ns).
    pub write_latency_ns: u64,
    /// Read bandwidth (bytes per second; 0 means unlimited).
    pub read_bytes_per_s: u64,
    /// Write bandwidth (bytes per second; 0 means unlimited).
    pub write_bytes_per_s: u64,
}

const MODELS: [(&str, DeviceModel); 5] = [
    ("pm", model(300, 100, 40_000, 15_000)),
    ("optane-ssd", model(10_000, 10_000, 2_500, 2_000)),
    ("nvme-ssd", model(120_000, 30_000, 2_000, 500)),
    ("sata-ssd", model(80_000, 80_000, 500, 260)),
    ("hdd", model(10_000_000, 10_000_000, 100, 100)),
];

const fn model(
    read_ns: u64,
    write_ns: u64,
    read_mb_per_s: u64,
    write_mb_per_s: u64,
) -> DeviceModel {
    DeviceModel {
        read_latency_ns: read_ns,
        write_latency_ns: write_ns,
        read_bytes_per_s: read_mb_per_s * 1_000_000,
        write_bytes_per_s: write_mb_per_s * 1_000_000,
    }
}

impl DeviceModel {
    /// The names that can be parsed.
    pub const NAMES: [&'static str; MODELS.len()] =
        [MODELS[0].0, MODELS[1].0, MODELS[2].0, MODELS[3].0, MODELS[4].0];
}

/// A device model was asked for by a name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no device model is called {name:?}; the models are {}", DeviceModel::NAMES.join(", "))]
pub struct UnknownModel {
    /// The name given.
    pub name: String,
}

impl FromStr for DeviceModel {
    type Err = UnknownModel;

    fn from_str(name: &str) -> Result<Self, UnknownModel> {
        let found = MODELS.iter().find(|(known, _)| *known == name);
        found.map(|&(_, model)| model).ok_or_else(|| UnknownModel { name: name.to_owned() })
    }
}

/// The last part of a wait is spun through, because a sleep overshoots by about as much.
const SPIN_BELOW: Duration = Duration::from_micros(50);

/// One device's model at work. Times are nanoseconds since the throttle was made.
#[derive(Debug)]
pub(crate) struct Throttle {
    model: DeviceModel,
    epoch: Instant,
    /// When the transfers accepted so far will be through.
    busy_until_ns: AtomicU64,
}

impl Throttle {
    pub(crate) fn new(model: DeviceModel) -> Self {
        Throttle { model, epoch: Instant::now(), busy_until_ns: AtomicU64::new(0) }
    }

    /// Runs a read of `bytes` and returns when the modelled device would have.
    pub(crate) fn read<R>(&self, bytes: u64, operation: impl FnOnce() -> R) -> R {
        self.run(
            self.model.read_latency_ns,
            transfer_ns(bytes, self.model.read_bytes_per_s),
            operation,
        )
    }

    /// Runs a write of `bytes` (0 for a flush) and returns when the modelled device would have.
    pub(crate) fn write<R>(&self, bytes: u64, operation: impl FnOnce() -> R) -> R {
        self.run(
            self.model.write_latency_ns,
            transfer_ns(bytes, self.model.write_bytes_per_s),
            operation,
        )
    }

    fn run<R>(&self, latency_ns: u64, transfer_ns: u64, operation: impl FnOnce() -> R) -> R {
        let now_ns = self.now_ns();
        let accept = |busy_until_ns| Some(end_of_transfer(busy_until_ns, now_ns, transfer_ns));
        let before = self.busy_until_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, accept);
        let (Ok(before) | Err(before)) = before;
        let done_ns = end_of_transfer(before, now_ns, transfer_ns).saturating_add(latency_ns);
        let result = operation();
        self.wait_until(done_ns);
        result
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn wait_until(&self, done_ns: u64) {
        loop {
            let left = Duration::from_nanos(done_ns.saturating_sub(self.now_ns()));
            if left.is_zero() {
                return;
            }
            if left <= SPIN_BELOW {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(left - SPIN_BELOW);
            }
        }
    }
}

/// When a transfer that arrives at `now_ns` ends: it starts when the earlier ones are through.
fn end_of_transfer(busy_until_ns: u64, now_ns: u64, transfer_ns: u64) -> u64 {
    busy_until_ns.max(now_ns).saturating_add(transfer_ns)
}

/// How long `bytes` occupy a device of the given bandwidth (0: unlimited).
fn transfer_ns(bytes: u64, bytes_per_s: u64) -> u64 {
    if bytes_per_s == 0 {
        return 0;
    }
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_and_unknown_ones_list_the_known() {
        for name in DeviceModel::NAMES {
            assert!(name.parse::<DeviceModel>().is_ok(), "{name}");
        }
        let hdd: DeviceModel = "hdd".parse().unwrap();
        assert_eq!((hdd.read_latency_ns, hdd.write_bytes_per_s), (10_000_000, 100_000_000));
        let message = "floppy".parse::<DeviceModel>().unwrap_err().to_string();
        assert!(message.contains("\"floppy\""), "{message}");
        assert!(DeviceModel::NAMES.iter().all(|name| message.contains(name)), "{message}");
    }

    #[test]
    fn transfer_times_follow_the_bandwidth() {
        assert_eq!(transfer_ns(1_000_000, 100_000_000), 10_000_000);
        assert_eq!(transfer_ns(4096, 0), 0);
        assert_eq!(transfer_ns(0, 1), 0);
        assert_eq!(transfer_ns(u64::MAX, 1), u64::MAX);
    }

    #[test]
    fn concurrent_transfers_queue_and_idle_time_is_not_saved_up() {
        let first = end_of_transfer(0, 1_000, 500);
        assert_eq!(first, 1_500);
        let second = end_of_transfer(first, 1_100, 500);
        assert_eq!(second, 2_000, "the second waits for the first");
        assert_eq!(end_of_transfer(second, 9_000, 500), 9_500, "an idle device starts at once");
    }

    #[test]
    fn an_operation_takes_at_least_its_modelled_time() {
        let throttle = Throttle::new(model(20_000, 100_000, 1, 1));
        let begun = Instant::now();
        assert_eq!(throttle.read(0, || 5), 5);
        assert!(begun.elapsed() >= Duration::from_micros(20));
        let begun = Instant::now();
        throttle.write(100, || ());
        assert!(
            begun.elapsed() >= Duration::from_micros(200),
            "100 us of transfer and 100 us of latency"
        );
        assert!(throttle.busy_until_ns.load(Ordering::Relaxed) >= 100_000);
    }
}
