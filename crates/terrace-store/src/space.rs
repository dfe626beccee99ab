//! Free space of the whole volume: one allocator per device.
//!
//! How much of PM file data may take is decided in `terrace-policy`.

use terrace_layout::{BLOCK_BYTES, BlockAddr, DeviceEntry};
use terrace_media::Pm;
use terrace_policy::{PM_RESERVE_BLOCKS, Placement, PmSpace};

use crate::alloc::{DeviceAlloc, Run, Use};
use crate::error::{FsError, FsResult, fail};
use crate::members::{Member, Members, Place, Places, Standing, free_blocks, not_closed, open};
use crate::planted::{Bug, planted};
pub use crate::source::BlockSource;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

/// What metadata blocks are for: how far into the last PM blocks an operation may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Anything else.
    Ordinary,
    /// Committing data that a program has written.
    Writeback,
    /// Making room: this must work when all else fails.
    Freeing,
}

/// Tiers of disks that data may go to: the first of them that has room. Both ends are among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// The fastest.
    pub first: u8,
    /// The slowest.
    pub last: u8,
}

impl Tiers {
    /// This tier and all below it.
    #[inline]
    pub fn from(first: u8) -> Tiers {
        Tiers { first, last: u8::MAX }
    }

    /// Whether a tier is among them.
    #[inline]
    pub fn contains(self, tier: u8) -> bool {
        (self.first..=self.last).contains(&tier)
    }
}

/// The allocators of a volume.
#[derive(Debug)]
pub struct Space {
    pm: Arc<Pm>,
    pm_entry: DeviceEntry,
    pm_alloc: DeviceAlloc,
    /// The disks.
    pub members: Members,
    /// How much of PM file data may take.
    pub placement: Placement,
    /// Disk blocks promised to dirty pages.
    disk_reserved: AtomicU64,
    /// The disk that is chosen before others of its tier; 0: none.
    preferred: AtomicU64,
    /// A block that two owners have given back; 0: none was.
    contested: AtomicU64,
}

impl Space {
    /// The space of a volume.
    pub fn new(
        pm: Arc<Pm>,
        pm_entry: DeviceEntry,
        pm_alloc: DeviceAlloc,
        members: Vec<Member>,
        placement: Placement,
    ) -> Self {
        let members = Members::new(members);
        let (disk_reserved, preferred, contested) = (0.into(), 0.into(), 0.into());
        Self { pm, pm_entry, pm_alloc, members, placement, disk_reserved, preferred, contested }
    }

    /// Disk blocks free and not promised to anybody.
    #[inline]
    pub fn disk_available(&self) -> u64 {
        self.disk_free().saturating_sub(self.disk_reserved.load(Ordering::Acquire))
    }

    /// The disk with this index.
    ///
    /// # Errors
    /// There is none.
    pub fn disk(&self, device: u16) -> FsResult<Arc<Member>> {
        self.members.get(device).ok_or_else(|| {
            FsError::with_message(libc::EIO, format!("device {device} is no disk of the volume"))
        })
    }

    /// Whether there is a disk that takes anything.
    #[inline]
    pub fn has_disks(&self) -> bool {
        not_closed(&self.members.places()).next().is_some()
    }

    /// Whether there is a disk that takes everything, beside this one.
    pub fn has_disks_beside(&self, device: u16) -> bool {
        open(&self.members.places()).any(|place| place.member.entry.index != device)
    }

    /// Whether a disk that is to be removed takes what can go nowhere else.
    pub fn takes_promised(&self, device: u16) -> bool {
        let leaves = |place: &Place| {
            place.member.entry.index == device && place.standing == Standing::Leaving
        };
        self.members.places().iter().flatten().any(leaves)
    }

    /// Disks that are to be removed.
    pub fn leaving(&self) -> Vec<u16> {
        let leaves = |place: &&Place| place.standing != Standing::Open;
        self.members
            .places()
            .iter()
            .flatten()
            .filter(leaves)
            .map(|place| place.member.entry.index)
            .collect()
    }

    /// Blocks of a device, and the free ones; none if there is no such device.
    pub fn device_space(&self, device: u16) -> (u64, u64) {
        let of = |alloc: &DeviceAlloc| (alloc.blocks(), alloc.free_blocks());
        match device {
            0 => of(&self.pm_alloc),
            _ => self.members.get(device).map_or((0, 0), |member| of(&member.alloc)),
        }
    }

    /// The tier of the device on which `addr` lies.
    #[inline]
    pub fn tier_of(&self, addr: BlockAddr) -> u8 {
        self.tier(addr.device())
    }

    /// Blocks of a tier, and the free ones; without disks that are to be removed.
    pub fn tier_space(&self, tier: u8) -> (u64, u64) {
        if tier == 0 {
            return self.device_space(0);
        }
        let places = self.members.places();
        let allocs = open(&places)
            .filter(|place| place.member.entry.tier == tier)
            .map(|place| &place.member.alloc);
        allocs.fold((0, 0), |(blocks, free), alloc| {
            (blocks + alloc.blocks(), free + alloc.free_blocks())
        })
    }

    /// The tiers that there are, PM's first.
    pub fn tiers(&self) -> impl Iterator<Item = u8> {
        let mut tiers = vec![0];
        tiers.extend(self.members.places().iter().flatten().map(|place| place.member.entry.tier));
        tiers.sort_unstable();
        tiers.dedup();
        tiers.into_iter()
    }

    /// Free space of PM.
    #[inline]
    pub fn pm(&self) -> &DeviceAlloc {
        &self.pm_alloc
    }

    /// The tier of a device; of one that there is not, PM's.
    #[inline]
    pub fn tier(&self, device: u16) -> u8 {
        if device == 0 {
            return 0;
        }
        let places = self.members.places();
        places
            .get(usize::from(device) - 1)
            .and_then(Option::as_ref)
            .map_or(0, |place| place.member.entry.tier)
    }

    /// The source of blocks for shard `shard` and this purpose.
    #[inline]
    pub fn source(&self, shard: usize, purpose: Purpose) -> ShardSource<'_> {
        ShardSource { space: self, shard, purpose }
    }

    /// How full PM is.
    #[inline]
    pub fn pm_space(&self) -> PmSpace {
        PmSpace { blocks: self.pm().blocks(), free: self.pm().free_blocks() }
    }

    /// Blocks of file data that PM still takes.
    #[inline]
    pub fn room_for_data(&self) -> u64 {
        self.placement.room_for_data(self.pm_space())
    }

    /// Blocks of file data that PM and the disks take together.
    pub fn available(&self) -> u64 {
        let reserved = self.disk_reserved.load(Ordering::Acquire);
        self.room_for_data() + fitting(self.disk_free()).saturating_sub(reserved)
    }

    /// A run of PM blocks, none of which is known to be unreadable.
    fn alloc_pm(&self, shard: usize, want: u64, what: Use) -> Option<Run> {
        loop {
            let run = self.pm().alloc(shard, want, what)?;
            self.note_contested(0, self.pm());
            if self.pm.check(run.start * BLOCK_BYTES, run.len * BLOCK_BYTES).is_ok() {
                return Some(run);
            }
            self.retire(BlockAddr::pm(run.start), run.len);
        }
    }

    /// A run on a disk of one of `tiers` that is not `avoided`, the fastest tier with room first,
    /// and in it the device with the most free blocks. Disks that are to be removed come last.
    ///
    /// # Errors
    /// `ENOSPC`, or what kept a disk from telling which of its blocks are free.
    pub fn alloc_disk(
        &self,
        shard: usize,
        want: u64,
        tiers: Tiers,
        avoided: &[u16],
    ) -> FsResult<(u16, Run)> {
        let places = self.members.places();
        let usable = |place: &&Place| {
            let Member { entry, alloc, .. } = &*place.member;
            tiers.contains(entry.tier) && alloc.free_blocks() > 0 && !avoided.contains(&entry.index)
        };
        let preferred = self.preferred.load(Ordering::Relaxed) as u16;
        let mut order: Vec<&Place> = not_closed(&places).filter(usable).collect();
        order.sort_by_key(|Place { member, standing }| {
            let free = member.alloc.free_blocks();
            (
                *standing != Standing::Open,
                member.entry.tier,
                member.entry.index != preferred,
                std::cmp::Reverse(free),
            )
        });
        let found = order.iter().find_map(|Place { member, .. }| {
            let run = member.alloc.alloc(shard, want, Use::Data)?;
            self.note_contested(member.entry.index, &member.alloc);
            Some((member.entry.index, run))
        });
        let trouble = || order.iter().find_map(|place| place.member.alloc.trouble());
        found.ok_or_else(|| trouble().unwrap_or(FsError::new(libc::ENOSPC)))
    }

    /// Has a disk chosen before others of its tier from now on; 0: none.
    pub fn prefer(&self, device: u16) {
        self.preferred.store(device.into(), Ordering::Relaxed);
    }

    /// A disk is to be removed: from now on it takes nothing, or, until the others can keep every
    /// promise, as little as possible.
    pub fn leave(&self, device: u16) {
        let reserved = || self.disk_reserved.load(Ordering::Acquire);
        self.members.decide(device, |places| {
            let mut others =
                open(places).filter(|place| place.member.entry.index != device).peekable();
            let closes = others.peek().is_some() && fits(reserved(), free_blocks(others));
            Some(if closes { Standing::Closed } else { Standing::Leaving })
        });
    }

    /// A disk is not to be removed after all.
    pub fn stay(&self, device: u16) {
        self.members.decide(device, |_| Some(Standing::Open));
    }

    /// Closes a disk for good, if nothing is on it and the others can keep every promise; else
    /// false.
    pub fn close_if_empty(&self, device: u16) -> bool {
        let decide = |places: &Places| {
            let others = open(places).filter(|place| place.member.entry.index != device);
            let reserved = self.disk_reserved.load(Ordering::Acquire);
            let keeps_promises = reserved == 0 || fits(reserved, free_blocks(others));
            let leaving = places.iter().flatten().find(|place| place.member.entry.index == device);
            let is_empty = leaving.is_some_and(|place| place.member.data_blocks() == 0);
            (keeps_promises && is_empty).then_some(Standing::Closed)
        };
        self.members.decide(device, decide).is_some()
    }

    /// How many blocks have no room elsewhere if all that is on a disk is moved from it. `growth`
    /// blocks more are wanted than it takes there.
    ///
    /// # Errors
    /// There is no such disk.
    pub fn lacks_to_empty(&self, device: u16, growth: u64) -> FsResult<u64> {
        let wanted = self.disk(device)?.data_blocks() + growth;
        let places = self.members.places();
        let mut others =
            open(&places).filter(|place| place.member.entry.index != device).peekable();
        let room = if others.peek().is_some() { free_blocks(others) } else { self.room_for_data() };
        Ok(wanted.saturating_sub(room.saturating_sub(self.disk_reserved.load(Ordering::Acquire))))
    }

    /// Blocks of file data that these tiers take for certain, with their checksums and what is
    /// promised to dirty pages.
    pub fn room_for(&self, tiers: Tiers) -> u64 {
        if tiers.first == 0 {
            return self.room_for_data();
        }
        let free: u64 = self
            .tiers()
            .filter(|&t| t > 0 && tiers.contains(t))
            .map(|t| self.tier_space(t).1)
            .sum();
        let free = free.min(self.disk_available());
        free.saturating_sub(free / 16 + 8)
    }

    /// Promises `blocks` of disk space to dirty pages; false if the disks cannot keep that.
    pub fn reserve_disk(&self, blocks: u64) -> bool {
        let free = self.disk_free();
        let promise = |reserved: u64| Some(reserved + blocks).filter(|&total| fits(total, free));
        let Ok(before) =
            self.disk_reserved.fetch_update(Ordering::AcqRel, Ordering::Acquire, promise)
        else {
            return false;
        };
        // Others may have kept their promises between the count of free blocks and ours, taking
        // some of those blocks. Those that have not by now find ours.
        if !fits(before + blocks, self.disk_free()) && !planted(Bug::ReserveUnchecked) {
            self.unreserve_disk(blocks);
            return false;
        }
        true
    }

    /// Whether any disk block is promised.
    #[inline]
    pub fn has_promises(&self) -> bool {
        self.disk_reserved.load(Ordering::Acquire) > 0
    }

    /// Runs what allocates up to `blocks` of disk space, none of which is promised to dirty pages.
    ///
    /// # Errors
    /// `ENOSPC`; those of `allocate`.
    pub fn beside_promises<T>(
        &self,
        blocks: u64,
        allocate: impl FnOnce() -> FsResult<T>,
    ) -> FsResult<T> {
        if !self.reserve_disk(blocks) {
            return fail(libc::ENOSPC);
        }
        let allocated = allocate();
        self.unreserve_disk(blocks);
        allocated
    }

    /// Whether the disks that stay have room for `blocks` more dirty pages.
    pub fn disk_takes(&self, blocks: u64) -> bool {
        let total = self.disk_reserved.load(Ordering::Acquire).checked_add(blocks);
        total.is_some_and(|total| fits(total, free_blocks(open(&self.members.places()))))
    }

    #[inline]
    fn disk_free(&self) -> u64 {
        free_blocks(not_closed(&self.members.places()))
    }

    /// Takes back what [`Self::reserve_disk`] promised for `blocks`.
    pub fn unreserve_disk(&self, blocks: u64) {
        let before = self.disk_reserved.fetch_sub(blocks, Ordering::AcqRel);
        assert!(before >= blocks, "more reservations returned than given");
    }

    /// Takes back blocks that nothing on media refers to any more.
    pub fn free(&self, addr: BlockAddr, blocks: u64) {
        if addr.is_pm() && self.pm.check(addr.byte(), blocks * BLOCK_BYTES).is_err() {
            return self.retire(addr, blocks);
        }
        let run = Run { start: addr.block(), len: blocks };
        if addr.is_pm() {
            self.pm_alloc.free(run);
            self.note_contested(0, &self.pm_alloc);
        } else {
            let member = self
                .members
                .get(addr.device())
                .expect("a disk stays as long as a block of it is in use");
            member.alloc.free(run);
            self.note_contested(addr.device(), &member.alloc);
        }
    }

    /// Takes back the PM blocks that can be read. The others are nobody's from now on, until the
    /// next mount.
    #[cold]
    fn retire(&self, addr: BlockAddr, blocks: u64) {
        for block in addr.block()..addr.block() + blocks {
            match self.pm.check(block * BLOCK_BYTES, BLOCK_BYTES) {
                Ok(()) => self.pm().free(Run { start: block, len: 1 }),
                Err(_) => self.pm().forbid_checkpoint(),
            }
        }
    }

    #[inline]
    fn note_contested(&self, device: u16, alloc: &DeviceAlloc) {
        if let Some(block) = alloc.freed_twice() {
            self.contested.store(BlockAddr::new(device, block).0, Ordering::Release);
        }
    }

    /// A block that two owners have given back.
    pub fn freed_twice(&self) -> Option<BlockAddr> {
        Some(BlockAddr(self.contested.load(Ordering::Acquire))).filter(|addr| addr.0 != 0)
    }

    /// Whether all of a run lies in PM, where files may own blocks; its numbers may be any.
    pub fn has_in_pm(&self, run: &Run) -> bool {
        let end = run.start.checked_add(run.len);
        run.start >= self.pm_entry.data_start && end.is_some_and(|end| end <= self.pm_entry.blocks)
    }

    /// Whether `addr..addr + blocks` lies on a device of this volume, where files may own blocks.
    #[inline]
    pub fn contains(&self, addr: BlockAddr, blocks: u64) -> bool {
        let inside =
            |d: &DeviceEntry| addr.block() >= d.data_start && addr.block() + blocks <= d.blocks;
        match addr.device() {
            0 => inside(&self.pm_entry),
            device => self.members.get(device).is_some_and(|member| inside(&member.entry)),
        }
    }
}

/// Blocks that so many pages take at most. Checksum blocks come on top: a sixteenth and a little
/// covers the worst mixture of long and short runs.
pub fn with_checksums(pages: u64) -> u64 {
    pages.saturating_add(pages / 16 + 8)
}

/// Whether `total` dirty pages fit into so many free blocks.
fn fits(total: u64, free: u64) -> bool {
    with_checksums(total) <= free
}

/// The most dirty pages that fit into so many free blocks.
pub fn fitting(free: u64) -> u64 {
    let most = free.saturating_sub(8) * 16 / 17;
    // The sixteenth is rounded down.
    if fits(most + 1, free) { most + 1 } else { most }
}

/// [`BlockSource`] of one shard.
#[derive(Debug, Clone, Copy)]
pub struct ShardSource<'a> {
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
