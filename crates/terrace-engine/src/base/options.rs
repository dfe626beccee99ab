//! How to open a volume.

use std::path::PathBuf;

use terrace_policy::Params;
use terrace_store::delegation::Segment;
use terrace_store::sync::{Arc, limit};

use super::heritage::Heritage;
use super::types::AtimePolicy;
use super::wear::WearBudget;

/// Told of the progress of long work: what, done, total.
pub type Progress<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

/// Least budget of the page cache: without any, nothing could reach a disk.
pub const CACHE_BYTES_MIN: u64 = limit(1 << 20, 16 << 10) as u64;

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Change nothing. The PM region must be private then: recovery happens in DRAM.
    pub read_only: bool,
    /// When reads update access times.
    pub atime: AtimePolicy,
    /// Every write is durable when it returns.
    pub durable: bool,
    /// Budget of the page cache in bytes; at least [`CACHE_BYTES_MIN`].
    pub cache_bytes: u64,
    /// Directory (in memory) for the page cache's file, which outlives the daemon; `None`: dirty
    /// pages die with it.
    pub cache_dir: Option<PathBuf>,
    /// Age in seconds at which dirty pages are written back.
    pub writeback_seconds: u32,
    /// PM takes file data up to this usage.
    pub pm_full_percent: u8,
    /// The policy's thresholds; [`Volume::tune`](crate::Volume::tune) changes them later.
    pub params: Params,
    /// Bytes that movers may write to devices; those that are not named take any number.
    pub wear: Vec<WearBudget>,
    /// The mount goes on from a daemon that was opened with these options: a disk with a budget may
    /// have left the volume since.
    pub goes_on: bool,
    /// Memory that outlives the daemon, for one that takes the mount over; `None`: nobody will.
    pub heritage: Option<Arc<dyn Heritage>>,
    /// Files may be lent to other processes ([`Volume::lend`](crate::Volume::lend)).
    pub lends: bool,
    /// Memory that is shared with those processes. By default it is a file in `cache_dir`, which
    /// outlives the daemon.
    pub loans: Option<Arc<Segment>>,
    /// Threads write back and reclaim by themselves. Without them that happens only when an
    /// operation needs it, at [`Volume::sync`](crate::Volume::sync) and at
    /// [`Volume::close`](crate::Volume::close): whoever counts every store wants no others in
    /// between.
    pub workers: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            atime: AtimePolicy::Relatime,
            durable: false,
            cache_bytes: 256 << 20,
            cache_dir: None,
            writeback_seconds: 5,
            pm_full_percent: 90,
            params: Params::default(),
            wear: Vec::new(),
            goes_on: false,
            heritage: None,
            lends: false,
            loans: None,
            workers: true,
        }
    }
}
