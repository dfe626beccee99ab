//! The disks of a volume while it is mounted: they come and go.
//!
//! Invariants:
//! * A disk stays a member until none of its blocks is in use: whoever owns a block of it, or has
//!   allocated one, finds it.
//! * An allocating thread holds the lock shared, from its look at a disk's standing until it has
//!   the blocks; standings change under the exclusive lock. So nothing is allocated on a disk that
//!   was found empty and closed.

use terrace_layout::{DEVICES_MAX, DeviceEntry};
use terrace_media::Disk;

use crate::alloc::DeviceAlloc;
use crate::disks::FindDisk;
use crate::sync::{Arc, RwLock, RwLockReadGuard};

/// A disk of the volume.
#[derive(Debug)]
pub struct Member {
    /// Its row in the device table.
    pub entry: DeviceEntry,
    /// The disk itself.
    pub disk: Arc<dyn Disk>,
    /// Its free blocks.
    pub alloc: DeviceAlloc,
}

impl Member {
    /// Blocks that files own.
    pub fn data_blocks(&self) -> u64 {
        (self.entry.blocks - self.entry.data_start).saturating_sub(self.alloc.free_blocks())
    }
}

/// What a disk takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Everything.
    Open,
    /// It is to be removed, and takes what can go nowhere else: dirty pages that were promised
    /// room, or, if it is the last disk, what must go to a disk.
    Leaving,
    /// Nothing more: it is to be removed.
    Closed,
}

/// A member and its standing.
#[derive(Clone, Debug)]
pub struct Place {
    /// The disk.
    pub member: Arc<Member>,
    /// What it takes.
    pub standing: Standing,
}

/// Places by device index less one.
pub type Places = [Option<Place>; DEVICES_MAX - 1];

/// See the module.
#[derive(Debug)]
pub struct Members(RwLock<Places>);

impl Members {
    /// A table of these disks, each open.
    pub fn new(members: Vec<Member>) -> Self {
        let places = Members(RwLock::new(Default::default()));
        members.into_iter().for_each(|member| places.join(member));
        places
    }

    /// Takes a disk in, where there is none.
    pub fn join(&self, member: Member) {
        let slot = usize::from(member.entry.index) - 1;
        let place = Place { member: Arc::new(member), standing: Standing::Open };
        let before = self.0.write()[slot].replace(place);
        assert!(before.is_none(), "two disks with one index");
    }

    /// Forgets a disk.
    pub fn part(&self, device: u16) {
        self.0.write()[usize::from(device) - 1] = None;
    }

    /// The disk with this index.
    #[inline]
    pub fn get(&self, device: u16) -> Option<Arc<Member>> {
        let slot = usize::from(device).checked_sub(1)?;
        Some(self.0.read().get(slot)?.as_ref()?.member.clone())
    }

    /// All disks, by index.
    pub fn all(&self) -> Vec<Arc<Member>> {
        self.0.read().iter().flatten().map(|place| place.member.clone()).collect()
    }

    /// Keeps standings as they are, for as long as it is held.
    #[inline]
    pub fn places(&self) -> RwLockReadGuard<'_, Places> {
        self.0.read()
    }

    /// Changes a disk's standing to what `decide` says, if anything; it sees all places. None if
    /// there is no such disk.
    pub fn decide(
        &self,
        device: u16,
        decide: impl FnOnce(&Places) -> Option<Standing>,
    ) -> Option<Standing> {
        let mut places = self.0.write();
        let decided = decide(&places);
        let place = places.get_mut(usize::from(device) - 1)?.as_mut()?;
        place.standing = decided.unwrap_or(place.standing);
        decided
    }
}

impl FindDisk for Members {
    fn find_disk(&self, device: u16) -> Option<Arc<dyn Disk>> {
        self.get(device).map(|member| member.disk.clone())
    }
}

/// The places but for those that are closed.
#[inline]
pub fn not_closed(places: &Places) -> impl Iterator<Item = &Place> {
    places.iter().flatten().filter(|place| place.standing != Standing::Closed)
}

/// The places of disks that take everything.
#[inline]
pub fn open(places: &Places) -> impl Iterator<Item = &Place> {
    places.iter().flatten().filter(|place| place.standing == Standing::Open)
}

/// Free blocks of some disks.
#[inline]
pub fn free_blocks<'a>(places: impl Iterator<Item = &'a Place>) -> u64 {
    places.map(|place| place.member.alloc.free_blocks()).sum()
}
