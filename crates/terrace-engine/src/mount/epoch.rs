//! The epoch of a mount.

use terrace_layout::Superblock;
use terrace_store::error::FsResult;
use terrace_store::superblock::{read_disk_superblock, write_disk_superblock, write_pm_superblock};

use crate::base::types::Time;
use crate::inode::store::Store;
use crate::mount::parts::Parts;

/// This mount gets an epoch of its own: dirty pages that an earlier daemon may have left elsewhere
/// are not this volume's any more, and neither PM nor a disk can be replaced by an older copy
/// unnoticed. Nothing is dirty now, so it does not matter which of the two, cache and superblock, a
/// crash leaves behind.
pub(super) fn begin_epoch(parts: &Parts) -> FsResult<()> {
    if parts.health.is_read_only() {
        return Ok(());
    }
    let mut sb = parts.devices.sb.lock();
    // Unlike a count, a time does not come back when an older image of PM is restored.
    let old = *sb;
    sb.previous_epoch = old.mount_epoch;
    sb.mount_epoch = (old.mount_epoch + 1).max(Time::now().0 as u64);
    parts.store.set_epoch(sb.mount_epoch);
    sb.sequence += 1;
    // A crash may have kept a disk from following PM last time: it must have caught up before PM
    // goes on.
    write_disk_epochs(&parts.store, &old)?;
    parts.cache.set_epoch(sb.mount_epoch);
    write_pm_superblock(&parts.store.pm, &sb)?;
    write_disk_epochs(&parts.store, &sb)?;
    // All disks have followed: one that has the last epoch is an older copy from now on.
    sb.previous_epoch = sb.mount_epoch;
    sb.sequence += 1;
    write_pm_superblock(&parts.store.pm, &sb)
}

fn write_disk_epochs(store: &Store, sb: &Superblock) -> FsResult<()> {
    for member in store.space.members.all() {
        let label = read_disk_superblock(member.disk.as_ref())?;
        if label.is_none_or(|label| label.mount_epoch != sb.mount_epoch) {
            write_disk_superblock(member.disk.as_ref(), sb, &member.entry)?;
        }
    }
    Ok(())
}
