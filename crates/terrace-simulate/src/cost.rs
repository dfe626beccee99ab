//! What the engine itself costs: what it does in an operation besides waiting for a disk.

use serde::Serialize;
use terrace_media::DeviceModel;

use crate::clock::transfer_ns;

/// Something that the engine does in an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Makes a file.
    Create,
    /// Finds that there is nothing to read.
    ReadNothing,
    /// Reads bytes in PM.
    ReadPm,
    /// Reads bytes in the page cache.
    ReadCache,
    /// Brings bytes of a disk, besides waiting for them.
    ReadDisk,
    /// Writes bytes to PM.
    WritePm,
    /// Writes bytes to the page cache.
    WriteCache,
    /// Takes an fsync.
    Fsync,
    /// Takes dirty bytes to a disk, besides waiting for it.
    Flush,
    /// Changes a size.
    Truncate,
    /// Reserves space, or makes holes.
    Allocate,
}

impl Work {
    /// All of them, in their order.
    pub const ALL: [Self; 11] = [
        Self::Create,
        Self::ReadNothing,
        Self::ReadPm,
        Self::ReadCache,
        Self::ReadDisk,
        Self::WritePm,
        Self::WriteCache,
        Self::Fsync,
        Self::Flush,
        Self::Truncate,
        Self::Allocate,
    ];

    /// Whether a volume with everything in PM does as much of it.
    pub(crate) fn is_everywhere(self) -> bool {
        use Work::{Allocate, Create, Fsync, ReadNothing, Truncate};
        matches!(self, Create | ReadNothing | Fsync | Truncate | Allocate)
    }
}

/// What one kind of work costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Nanoseconds each time.
    pub each_ns: u64,
    /// Picoseconds per byte.
    pub byte_ps: u64,
}

impl Cost {
    /// Of so many bytes, in nanoseconds.
    pub fn ns(self, bytes: u64) -> u64 {
        let bytes_ns = u128::from(bytes) * u128::from(self.byte_ps) / 1000;
        self.each_ns.saturating_add(u64::try_from(bytes_ns).unwrap_or(u64::MAX))
    }
}

/// What all of it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Costs {
    /// What the devices take for the bytes that are read and written, and nothing for the rest.
    Devices {
        /// How fast PM is.
        pm: DeviceModel,
        /// How fast the page cache is.
        dram: DeviceModel,
    },
    /// What was measured, by the order of [`Work::ALL`].
    Measured([Cost; Work::ALL.len()]),
}

impl Costs {
    /// Of some work with so many bytes, in nanoseconds.
    pub fn ns(&self, work: Work, bytes: u64) -> u64 {
        match self {
            Self::Measured(costs) => costs[work as usize].ns(bytes),
            Self::Devices { pm, dram } => match work {
                Work::ReadPm => read_ns(pm, bytes),
                Work::ReadCache => read_ns(dram, bytes),
                Work::WritePm => write_ns(pm, bytes),
                Work::WriteCache => write_ns(dram, bytes),
                _ => 0,
            },
        }
    }
}

/// How long a device without a queue takes to read.
fn read_ns(device: &DeviceModel, bytes: u64) -> u64 {
    device.read_latency_ns.saturating_add(transfer_ns(bytes, device.read_bytes_per_s))
}

/// How long a device without a queue takes to write.
fn write_ns(device: &DeviceModel, bytes: u64) -> u64 {
    device.write_latency_ns.saturating_add(transfer_ns(bytes, device.write_bytes_per_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_numbered_as_it_is_listed() {
        assert!(Work::ALL.iter().enumerate().all(|(number, &work)| work as usize == number));
    }

    #[test]
    fn a_cost_is_so_much_each_time_and_so_much_a_byte() {
        assert_eq!(Cost { each_ns: 700, byte_ps: 250 }.ns(4096), 700 + 1024);
        assert_eq!(Cost { each_ns: 1, byte_ps: u64::MAX }.ns(u64::MAX), u64::MAX);
        let (pm, dram) = ("pm".parse().unwrap(), crate::DRAM);
        let devices = Costs::Devices { pm, dram };
        assert_eq!(devices.ns(Work::WritePm, 15_000), 100 + 1000);
        assert_eq!(devices.ns(Work::Create, 15_000), 0);
    }
}
