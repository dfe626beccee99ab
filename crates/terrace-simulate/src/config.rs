//! What the simulated volume is made of.

use terrace_media::DeviceModel;
use terrace_policy::{Params, Placement};
use terrace_trace::Facts;

use crate::cost::Costs;

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Memory, by the table of the TPFS paper, which has the other models, too.
pub const DRAM: DeviceModel = DeviceModel {
    read_latency_ns: 100,
    write_latency_ns: 100,
    read_bytes_per_s: 25_000_000_000,
    write_bytes_per_s: 25_000_000_000,
};

/// A volume to simulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Size of PM in bytes; whole blocks count.
    pub pm_bytes: u64,
    /// Budget of the page cache in bytes; whole blocks count, at least one MiB of them.
    pub cache_bytes: u64,
    /// PM takes file data up to this usage.
    pub pm_full_percent: u8,
    /// Age in seconds at which dirty pages are written back.
    pub writeback_seconds: u32,
    /// Every write is durable when it returns.
    pub durable: bool,
    /// The thresholds of the policy.
    pub params: Params,
    /// What movers may write to PM, and to the disks together, in bytes per day; 0: any number.
    pub wear: [u64; 2],
    /// What the engine costs besides waiting for the disk.
    pub costs: Costs,
    /// How fast the disks are, all of them together as one.
    pub disk: DeviceModel,
}

impl Config {
    /// The volume that was recorded, with PM as in the TPFS paper and a disk of this model.
    pub fn new(facts: &Facts, disk: DeviceModel) -> Self {
        Self {
            pm_bytes: facts.pm_bytes(),
            cache_bytes: facts.cache_bytes,
            pm_full_percent: facts.pm_full_percent,
            writeback_seconds: facts.writeback_seconds,
            durable: facts.durable,
            params: Params::default(),
            wear: [0; 2],
            costs: Costs::Devices { pm: "pm".parse().expect("there is such a model"), dram: DRAM },
            disk,
        }
    }

    pub(crate) fn pm_blocks(&self) -> u64 {
        self.pm_bytes / BLOCK_BYTES
    }

    pub(crate) fn cache_pages(&self) -> u64 {
        (self.cache_bytes / BLOCK_BYTES).max((1 << 20) / BLOCK_BYTES)
    }

    pub(crate) fn placement(&self) -> Placement {
        Placement { pm_full_percent: self.pm_full_percent }
    }
}
