//! The store: PM, the free space of all devices, and the journals, for every component above.

use std::path::PathBuf;

use terrace_layout::{INCOMPAT_PM_DATA_CRC, Stamp, Superblock};
use terrace_media::Pm;
use terrace_policy::PM_RESERVE_BLOCKS;
use terrace_store::file::PmIo;
use terrace_store::itable::shard_of;
use terrace_store::journal::Journal;
use terrace_store::space::{ShardSource, Space};
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::{AtomicU64, Ordering};

use crate::base::types::Ino;

/// Free PM blocks beyond the reserve from which on nothing more is left unreclaimed: more than an
/// operation takes.
const PM_LOW_BLOCKS: u64 = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Store {
    pub pm: Arc<Pm>,
    pub space: Space,
    /// By shard.
    pub journals: Vec<Journal>,
    /// PM data carries checksums.
    pub data_crc: bool,
    /// The superblock's mount epoch.
    epoch: AtomicU64,
}

impl Store {
    /// The store of the volume that this superblock describes.
    pub fn new(pm: Arc<Pm>, sb: &Superblock, space: Space) -> Self {
        Self {
            pm,
            space,
            journals: (0..sb.shards)
                .map(|s| Journal::new(sb.shards_start + u64::from(s)))
                .collect(),
            data_crc: sb.incompat & INCOMPAT_PM_DATA_CRC != 0,
            epoch: AtomicU64::new(sb.mount_epoch),
        }
    }

    /// How many shards the volume has.
    pub fn shards(&self) -> usize {
        self.journals.len()
    }

    /// A new mount has begun.
    pub fn set_epoch(&self, epoch: u64) {
        self.epoch.store(epoch, Ordering::Relaxed);
    }
}

impl Store {
    /// The mount's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// Marks what this mount commits with one fence.
    pub fn stamp(&self) -> Stamp {
        Stamp::of_epoch(self.epoch())
    }

    /// What a file's data path works on, for shard `shard`.
    pub fn io<'a>(&'a self, source: &'a ShardSource<'a>) -> PmIo<'a> {
        PmIo { pm: &self.pm, source, data_crc: self.data_crc, stamp: self.stamp() }
    }

    /// Whether PM has next to no room left, for metadata either.
    pub fn pm_is_low(&self) -> bool {
        self.space.pm().free_blocks() < PM_RESERVE_BLOCKS + PM_LOW_BLOCKS
    }

    /// Where a device of the volume is; of one that there is not any more, PM's.
    pub fn device_path(&self, device: u16) -> PathBuf {
        let disk = self.space.members.get(device);
        disk.as_ref().map_or(self.pm.path(), |member| member.disk.path()).to_owned()
    }

    pub fn shard_index(&self, ino: Ino) -> usize {
        shard_of(ino, self.shards() as u64)
    }
}
