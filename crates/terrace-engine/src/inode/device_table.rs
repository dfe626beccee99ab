//! Disks join a mounted volume, and leave it.
//!
//! The device table in PM's superblock says which disks there are; writing it is the commit of
//! both. A disk gets its own superblock before that, and loses it after that: so a disk that the
//! table names can always be opened, and one that it does not name can never be taken for another
//! that has its index. For the latter, see also `docs/FORMAT.md`, section 4.

use std::collections::BTreeSet;

use terrace_layout::{DEVICES_MAX, DeviceEntry, INCOMPAT_ARCHIVES, INCOMPAT_GAPS, Superblock};
use terrace_media::Disk;
use terrace_store::device::{disk_entry, fresh_alloc};
use terrace_store::error::{FsError, FsResult};
use terrace_store::members::Member;
use terrace_store::planted::{Bug, planted};
use terrace_store::superblock::{
    erase_disk_superblock, write_disk_superblock, write_pm_superblock,
};
use terrace_store::sync::atomic::{AtomicBool, Ordering};
use terrace_store::sync::{Arc, Mutex};

use crate::inode::health::Health;
use crate::inode::store::Store;
use crate::inode::wear::Wear;

/// Opens the disk that is to have this device index.
pub type OpenDisk<'a> = &'a dyn Fn(u16) -> FsResult<Arc<dyn Disk>>;

/// Indices that nobody else may have in this mount: a disk that is no part of the volume has a
/// superblock with that index and this mount's epoch. Its lock is held by whoever changes the
/// device table.
pub(crate) type Unerased = BTreeSet<u16>;

/// See the module.
#[derive(Debug)]
pub(crate) struct DeviceTable {
    store: Arc<Store>,
    health: Arc<Health>,
    wear: Arc<Wear>,
    pub sb: Mutex<Superblock>,
    /// Parts of logs may lie on disks.
    archives: AtomicBool,
    /// Inode tables may have gaps.
    gaps: AtomicBool,
    /// Held from before a disk is labelled until it is in the table.
    unerased: Mutex<Unerased>,
}

impl DeviceTable {
    /// The table in this superblock.
    pub fn new(store: Arc<Store>, health: Arc<Health>, wear: Arc<Wear>, sb: Superblock) -> Self {
        Self {
            store,
            health,
            wear,
            archives: AtomicBool::new(sb.incompat & INCOMPAT_ARCHIVES != 0),
            gaps: AtomicBool::new(sb.incompat & INCOMPAT_GAPS != 0),
            sb: Mutex::new(sb),
            unerased: Mutex::default(),
        }
    }

    /// Whether inode tables may have gaps.
    pub fn has_gaps(&self) -> bool {
        self.gaps.load(Ordering::Relaxed)
    }
}

impl DeviceTable {
    /// Whether an inode that is not in DRAM may take a read of a disk.
    pub fn has_archives(&self) -> bool {
        self.archives.load(Ordering::Relaxed)
    }

    /// Older programs know nothing of archives, and must not take the volume from now on.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn allow_archives(&self) -> FsResult<()> {
        if !self.has_archives() {
            self.change_table(
                |sb| sb.incompat |= INCOMPAT_ARCHIVES,
                || self.archives.store(true, Ordering::Relaxed),
            )?;
        }
        Ok(())
    }

    /// Older programs know nothing of gaps in inode tables, and must not take the volume from now
    /// on.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn allow_gaps(&self) -> FsResult<()> {
        if !self.gaps.load(Ordering::Relaxed) {
            self.change_table(
                |sb| sb.incompat |= INCOMPAT_GAPS,
                || self.gaps.store(true, Ordering::Relaxed),
            )?;
        }
        Ok(())
    }

    pub fn add_disk(&self, tier: u8, open: OpenDisk<'_>) -> FsResult<u16> {
        if usize::from(tier) >= DEVICES_MAX {
            let message = format!("tier {tier}: choose 1 to {}", DEVICES_MAX - 1);
            return Err(FsError::with_message(libc::EINVAL, message));
        }
        let mut unerased = self.unerased.lock();
        let sb = *self.sb.lock();
        let Some(index) = sb.free_row(|row| !unerased.contains(&row)) else {
            return Err(self.table_is_full(&unerased));
        };
        let disk = open(index)?;
        let counted = disk.stats().bytes_written;
        let entry = disk_entry(disk.as_ref(), index, tier, sb.shards)?;
        let label = || write_disk_superblock(disk.as_ref(), &sb, &entry);
        if !planted(Bug::RowBeforeLabel)
            && let Err(error) = label()
        {
            self.erase(disk.as_ref(), index, &mut unerased);
            return Err(error);
        }
        let member = Member { entry, disk: disk.clone(), alloc: fresh_alloc(&entry, sb.shards) };
        self.change_table(|sb| sb.set_row(entry), || self.store.space.members.join(member))?;
        if planted(Bug::RowBeforeLabel) {
            label()?;
        }
        self.wear.join(index, counted)?;
        tracing::info!("device {index} added: {}, tier {tier}", disk.path().display());
        Ok(index)
    }

    fn table_is_full(&self, unerased: &Unerased) -> FsError {
        let advice = match unerased.is_empty() {
            true => "remove one first",
            false => {
                "remove one, or mount the volume anew: some indices belong to disks that could \
                 not be erased"
            }
        };
        FsError::with_message(
            libc::EINVAL,
            format!("the volume has {DEVICES_MAX} devices, as many as it can: {advice}"),
        )
    }

    /// Takes a disk that is empty and closed out of the volume; returns what to know about it.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn forget_disk(&self, device: u16) -> FsResult<Option<String>> {
        let mut unerased = self.unerased.lock();
        let disk = self.store.space.disk(device)?.disk.clone();
        if planted(Bug::EraseBeforeRow) {
            erase_disk_superblock(disk.as_ref())?;
        }
        let forget = |sb: &mut Superblock| sb.set_row(DeviceEntry::absent(device));
        self.change_table(forget, || self.store.space.members.part(device))?;
        self.health.disk_works(device);
        self.wear.part(device, disk.stats().bytes_written)?;
        tracing::info!("device {device} removed: {}", disk.path().display());
        Ok(self.erase(disk.as_ref(), device, &mut unerased))
    }

    /// Writes PM's superblock with a change, durably, and follows it in memory, both at once for
    /// those who look.
    pub fn change_table(
        &self,
        change: impl FnOnce(&mut Superblock),
        follow: impl FnOnce(),
    ) -> FsResult<()> {
        let mut sb = self.sb.lock();
        let mut changed = *sb;
        change(&mut changed);
        changed.sequence += 1;
        write_pm_superblock(&self.store.pm, &changed)?;
        *sb = changed;
        follow();
        Ok(())
    }

    /// Makes a disk nobody's; returns what to know about it if that fails.
    fn erase(&self, disk: &dyn Disk, index: u16, unerased: &mut Unerased) -> Option<String> {
        let error = erase_disk_superblock(disk).err()?;
        unerased.insert(index);
        let path = disk.path().display();
        let note =
            format!("{path}: is no part of the volume any more, but could not be erased: {error}");
        tracing::warn!("{note}");
        Some(note)
    }
}
