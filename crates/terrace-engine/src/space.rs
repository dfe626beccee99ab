//! Free space of the whole volume: one allocator per device.
//!
//! How much of PM file data may take is decided in `terrace-policy`.

use terrace_layout::{BLOCK_BYTES, BlockAddr, DeviceEntry};
use terrace_media::Pm;
use terrace_policy::{PM_RESERVE_BLOCKS, Placement, PmSpace};

use crate::alloc::{DeviceAlloc, Run, Use};
use crate::error::{FsError, FsResult, fail};
use crate::planted::{Bug, planted};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// What metadata blocks are for: how far into the last PM blocks an operation may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Anything else.
    Ordinary,
    /// Committing data that a program has written.
    Writeback,
    /// Making room: this must work when all else fails.
    Freeing,
}

/// Where an inode's log and PM data get their blocks from. All that a file's data path knows of the volume's space.
pub(crate) trait BlockSource {
    /// A run of up to `want` PM blocks for file data; `None` when PM has no room for data.
    fn alloc_data(&self, want: u64) -> Option<Run>;
    /// One PM block for metadata.
    ///
    /// # Errors
    /// `ENOSPC` when PM is full.
    fn alloc_meta(&self) -> FsResult<u64>;
    /// Takes back blocks that nothing on media refers to any more.
    fn free(&self, addr: BlockAddr, blocks: u64);
}

/// The allocators of a volume.
#[derive(Debug)]
pub(crate) struct Space {
    pm: Arc<Pm>,
    devices: Vec<DeviceAlloc>,
    /// What the device table says of each.
    table: Vec<DeviceEntry>,
    pub placement: Placement,
    /// Disk blocks promised to dirty pages.
    disk_reserved: AtomicU64,
}

impl Space {
    pub fn new(pm: Arc<Pm>, devices: Vec<DeviceAlloc>, table: &[DeviceEntry], placement: Placement) -> Self {
        Self { pm, devices, table: table.to_vec(), placement, disk_reserved: AtomicU64::new(0) }
    }

    /// Disk blocks free and not promised to anybody.
    pub fn disk_available(&self) -> u64 {
        self.disk_free().saturating_sub(self.disk_reserved.load(Ordering::Acquire))
    }

    pub fn devices(&self) -> &[DeviceAlloc] {
        &self.devices
    }

    /// The tier of the device on which `addr` lies.
    pub fn tier_of(&self, addr: BlockAddr) -> u8 {
        self.tier(addr.device())
    }

    /// Blocks of a tier, and the free ones.
    pub fn tier_space(&self, tier: u8) -> (u64, u64) {
        let devices = self.devices.iter().zip(&self.table).filter(|(_, entry)| entry.tier == tier);
        devices.fold((0, 0), |(blocks, free), (device, _)| (blocks + device.blocks(), free + device.free_blocks()))
    }

    /// The tiers that there are, PM's first.
    pub fn tiers(&self) -> impl Iterator<Item = u8> {
        let mut tiers: Vec<u8> = self.table.iter().map(|device| device.tier).collect();
        tiers.sort_unstable();
        tiers.dedup();
        tiers.into_iter()
    }

    pub fn pm(&self) -> &DeviceAlloc {
        &self.devices[0]
    }

    /// The tier of a device.
    pub fn tier(&self, device: u16) -> u8 {
        self.table[usize::from(device)].tier
    }

    /// The source of blocks for shard `shard` and this purpose.
    pub fn source(&self, shard: usize, purpose: Purpose) -> ShardSource<'_> {
        ShardSource { space: self, shard, purpose }
    }

    /// How full PM is.
    pub fn pm_space(&self) -> PmSpace {
        PmSpace { blocks: self.pm().blocks(), free: self.pm().free_blocks() }
    }

    /// Blocks of file data that PM still takes.
    pub fn room_for_data(&self) -> u64 {
        self.placement.room_for_data(self.pm_space())
    }

    /// A run of PM blocks, none of which is known to be unreadable.
    fn alloc_pm(&self, shard: usize, want: u64, what: Use) -> Option<Run> {
        loop {
            let run = self.pm().alloc(shard, want, what)?;
            if self.pm.check(run.start * BLOCK_BYTES, run.len * BLOCK_BYTES).is_ok() {
                return Some(run);
            }
            self.retire(BlockAddr::pm(run.start), run.len);
        }
    }

    /// A run on a disk of `tier` or a slower one that is not `avoided`, the fastest tier with room first, and in it the
    /// device with the most free blocks.
    ///
    /// # Errors
    /// `ENOSPC`, or what kept a disk from telling which of its blocks are free.
    pub fn alloc_disk(&self, shard: usize, want: u64, tier: u8, avoided: &[u16]) -> FsResult<(u16, Run)> {
        let usable = |d: &usize| {
            self.table[*d].tier >= tier && self.devices[*d].free_blocks() > 0 && !avoided.contains(&(*d as u16))
        };
        let mut order: Vec<usize> = (1..self.devices.len()).filter(usable).collect();
        order.sort_by_key(|&d| (self.table[d].tier, std::cmp::Reverse(self.devices[d].free_blocks())));
        let found =
            order.iter().find_map(|&d| self.devices[d].alloc(shard, want, Use::Data).map(|run| (d as u16, run)));
        let trouble = || order.iter().find_map(|&d| self.devices[d].trouble());
        found.ok_or_else(|| trouble().unwrap_or(FsError::new(libc::ENOSPC)))
    }

    /// Promises `blocks` of disk space to dirty pages; false if the disks cannot keep that.
    pub fn reserve_disk(&self, blocks: u64) -> bool {
        let free = self.disk_free();
        let promise = |reserved: u64| Some(reserved + blocks).filter(|&total| fits(total, free));
        let Ok(before) = self.disk_reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, promise) else {
            return false;
        };
        // Others may have kept their promises between the count of free blocks and ours, taking some of those blocks.
        // Whoever has not by now finds ours.
        if !fits(before + blocks, self.disk_free()) && !planted(Bug::ReserveUnchecked) {
            self.unreserve_disk(blocks);
            return false;
        }
        true
    }

    /// Whether the disks have room for `blocks` more dirty pages.
    pub fn disk_takes(&self, blocks: u64) -> bool {
        self.disk_reserved
            .load(Ordering::Acquire)
            .checked_add(blocks)
            .is_some_and(|total| fits(total, self.disk_free()))
    }

    fn disk_free(&self) -> u64 {
        self.devices[1..].iter().map(DeviceAlloc::free_blocks).sum()
    }

    /// Takes back what [`Self::reserve_disk`] promised for `blocks`.
    pub fn unreserve_disk(&self, blocks: u64) {
        let before = self.disk_reserved.fetch_sub(blocks, Ordering::AcqRel);
        assert!(before >= blocks, "more reservations returned than given");
    }

    pub fn free(&self, addr: BlockAddr, blocks: u64) {
        if addr.is_pm() && self.pm.check(addr.byte(), blocks * BLOCK_BYTES).is_err() {
            return self.retire(addr, blocks);
        }
        self.devices[usize::from(addr.device())].free(Run { start: addr.block(), len: blocks });
    }

    /// Takes back the PM blocks that can be read. The others are nobody's from now on, until the next mount.
    #[cold]
    fn retire(&self, addr: BlockAddr, blocks: u64) {
        for block in addr.block()..addr.block() + blocks {
            match self.pm.check(block * BLOCK_BYTES, BLOCK_BYTES) {
                Ok(()) => self.pm().free(Run { start: block, len: 1 }),
                Err(_) => self.pm().forbid_checkpoint(),
            }
        }
    }

    /// A block that two owners have given back.
    pub fn freed_twice(&self) -> Option<BlockAddr> {
        let of = |(i, device): (usize, &DeviceAlloc)| device.freed_twice().map(|block| BlockAddr::new(i as u16, block));
        self.devices.iter().enumerate().find_map(of)
    }

    /// Whether `addr..addr + blocks` lies on a device of this volume, where files may own blocks.
    pub fn contains(&self, addr: BlockAddr, blocks: u64) -> bool {
        let device = self.table.get(usize::from(addr.device()));
        device.is_some_and(|d| addr.block() >= d.data_start && addr.block() + blocks <= d.blocks)
    }
}

/// Whether `total` dirty pages fit into so many free blocks. Checksum blocks come on top: a sixteenth and a little covers the
/// worst mixture of long and short runs.
fn fits(total: u64, free: u64) -> bool {
    total + total / 16 + 8 <= free
}

/// [`BlockSource`] of one shard.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShardSource<'a> {
    space: &'a Space,
    shard: usize,
    purpose: Purpose,
}

impl BlockSource for ShardSource<'_> {
    fn alloc_data(&self, want: u64) -> Option<Run> {
        let room = self.space.room_for_data();
        if room == 0 {
            return None;
        }
        self.space.alloc_pm(self.shard, want.min(room), Use::Data)
    }

    fn alloc_meta(&self) -> FsResult<u64> {
        let floor = match self.purpose {
            Purpose::Ordinary => PM_RESERVE_BLOCKS,
            Purpose::Writeback => PM_RESERVE_BLOCKS / 2,
            Purpose::Freeing => 0,
        };
        if self.space.pm().free_blocks() <= floor {
            return fail(libc::ENOSPC);
        }
        match self.space.alloc_pm(self.shard, 1, Use::Metadata) {
            Some(run) => Ok(run.start),
            None => fail(libc::ENOSPC),
        }
    }

    fn free(&self, addr: BlockAddr, blocks: u64) {
        self.space.free(addr, blocks);
    }
}
