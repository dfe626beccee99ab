//! Wear in words that programs see: budgets as they are asked for, and what was counted.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::counters::Counter;

/// A device, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedDevice {
    /// Its index: 0 is PM.
    Index(u16),
    /// Its path.
    Path(PathBuf),
}

/// Bytes that movers may write to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WearBudget {
    /// The device.
    pub device: NamedDevice,
    /// Bytes per day, at least one.
    pub bytes_per_day: u64,
}

/// The budget of a device and what is left of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetStatus {
    /// Bytes per day that movers may write.
    pub bytes_per_day: u64,
    /// Bytes of it that are left; below 0: overdrawn.
    pub left_bytes: i64,
    /// Seconds until movers may write again; 0: they may now.
    pub more_in_seconds: u64,
}

impl BudgetStatus {
    /// How long movers wait, in words, if they do.
    pub fn wait(&self) -> Option<String> {
        (self.more_in_seconds > 0).then(|| more_in(self.more_in_seconds))
    }
}

/// How long movers wait for so many seconds, in words.
pub(crate) fn more_in(seconds: u64) -> String {
    format!("more in {} min", seconds.div_ceil(60))
}

/// Bytes written to a device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceWear {
    /// Index of the device; 0 is PM.
    pub index: u16,
    /// `pm`, `disk1`, `disk2`, …: its name in `terrace device list`.
    pub name: String,
    /// When counting began, in seconds since the epoch.
    pub since_unix_seconds: i64,
    /// Bytes written since then, by whomever.
    pub written_bytes: u64,
    /// Those of them that movers wrote.
    pub moved_bytes: u64,
    /// Those that movers wrote beyond their budget.
    pub overdrawn_bytes: u64,
    /// Bytes per day since counting began; none before it has gone on for a minute.
    pub bytes_per_day: Option<u64>,
    /// Bytes written since the mount.
    pub mount_written_bytes: u64,
    /// Bytes per day since the mount; none in its first minute, and offline.
    pub mount_bytes_per_day: Option<u64>,
    /// Bytes that movers may write, if that is bounded.
    pub budget: Option<BudgetStatus>,
}

/// Bytes written to the devices of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VolumeWear {
    /// When counting began, in seconds since the epoch.
    pub since_unix_seconds: i64,
    /// Bytes that programs wrote since then.
    pub programs_bytes: u64,
    /// Bytes written to disks that have left the volume.
    pub departed_bytes: u64,
    /// Bytes written to PM per byte that programs wrote; none if they wrote none.
    pub pm_amplification: Option<f64>,
    /// Bytes written to disks, those that have left counted, per byte that programs wrote.
    pub disk_amplification: Option<f64>,
    /// By device, PM first.
    pub devices: Vec<DeviceWear>,
}

/// Whether bytes that this counter counts were moved by the policy, not because somebody asked for
/// it: only those are bounded.
pub(crate) fn is_of_movers(counter: Counter) -> bool {
    matches!(
        counter,
        Counter::MigratedWrite
            | Counter::MigratedRead
            | Counter::MigratedReverse
            | Counter::MigratedDemoted
            | Counter::MigratedLogs
    )
}
