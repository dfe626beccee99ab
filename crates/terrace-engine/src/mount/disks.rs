//! Disks join a mounted volume, and leave it.
//!
//! The device table in PM's superblock says which disks there are; writing it is the commit of
//! both. A disk gets its own superblock before that, and loses it after that: so a disk that the
//! table names can always be opened, and one that it does not name can never be taken for another
//! that has its index. For the latter, see also `docs/FORMAT.md`, section 4.

use std::collections::BTreeSet;

use terrace_layout::{DEVICES_MAX, DeviceEntry, Superblock};
use terrace_media::Disk;
use terrace_store::error::{FsError, FsResult};
use terrace_store::members::Member;
use terrace_store::planted::{Bug, planted};
use terrace_store::superblock::{
    erase_disk_superblock, write_disk_superblock, write_pm_superblock,
};
use terrace_store::sync::Arc;

use crate::inode::core::Core;
use crate::mount::format::{disk_entry, fresh_alloc};

/// Opens the disk that is to have this device index.
pub type OpenDisk<'a> = &'a dyn Fn(u16) -> FsResult<Arc<dyn Disk>>;

/// Indices that nobody else may have in this mount: a disk that is no part of the volume has a
/// superblock with that index and this mount's epoch. Its lock is held by whoever changes the
/// device table.
pub(crate) type Unerased = BTreeSet<u16>;

impl Core {
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
        let entry = disk_entry(disk.as_ref(), index, tier, sb.shards)?;
        let label = || write_disk_superblock(disk.as_ref(), &sb, &entry);
        if !planted(Bug::RowBeforeLabel)
            && let Err(error) = label()
        {
            self.erase(disk.as_ref(), index, &mut unerased);
            return Err(error);
        }
        let member = Member { entry, disk: disk.clone(), alloc: fresh_alloc(&entry, sb.shards) };
        self.change_table(|sb| sb.set_row(entry), || self.space.members.join(member))?;
        if planted(Bug::RowBeforeLabel) {
            label()?;
        }
        tracing::info!("device {index} added: {}, tier {tier}", disk.path().display());
        Ok(index)
    }

    fn table_is_full(&self, unerased: &Unerased) -> FsError {
        let advice = match unerased.is_empty() {
            true => "remove one first",
            false => {
                "remove one, or mount the volume anew: some indices belong to disks that could not be erased"
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
        let disk = self.space.disk(device)?.disk.clone();
        if planted(Bug::EraseBeforeRow) {
            erase_disk_superblock(disk.as_ref())?;
        }
        let forget = |sb: &mut Superblock| sb.set_row(DeviceEntry::absent(device));
        self.change_table(forget, || self.space.members.part(device))?;
        self.disk_works(device);
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
        write_pm_superblock(&self.pm, &changed)?;
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
