//! The epoch of a mount.

use terrace_layout::Superblock;
use terrace_store::error::FsResult;
use terrace_store::superblock::{read_disk_superblock, write_disk_superblock, write_pm_superblock};
use terrace_store::sync::atomic::Ordering;

use crate::base::types::Time;
use crate::inode::core::Core;

/// This mount gets an epoch of its own: dirty pages that an earlier daemon may have left elsewhere
/// are not this volume's any more, and neither PM nor a disk can be replaced by an older copy
/// unnoticed. Nothing is dirty now, so it does not matter which of the two, cache and superblock, a
/// crash leaves behind.
pub(super) fn begin_epoch(core: &Core) -> FsResult<()> {
    if core.is_read_only() {
        return Ok(());
    }
    let mut sb = core.sb.lock();
    // Unlike a count, a time does not come back when an older image of PM is restored.
    let old = *sb;
    sb.previous_epoch = old.mount_epoch;
    sb.mount_epoch = (old.mount_epoch + 1).max(Time::now().0 as u64);
    core.epoch.store(sb.mount_epoch, Ordering::Relaxed);
    sb.sequence += 1;
    // A crash may have kept a disk from following PM last time: it must have caught up before PM
    // goes on.
    write_disk_epochs(core, &old)?;
    core.cache.set_epoch(sb.mount_epoch);
    write_pm_superblock(&core.pm, &sb)?;
    write_disk_epochs(core, &sb)?;
    // All disks have followed: one that has the last epoch is an older copy from now on.
    sb.previous_epoch = sb.mount_epoch;
    sb.sequence += 1;
    write_pm_superblock(&core.pm, &sb)
}

fn write_disk_epochs(core: &Core, sb: &Superblock) -> FsResult<()> {
    for member in core.space.members.all() {
        let label = read_disk_superblock(member.disk.as_ref())?;
        if label.is_none_or(|label| label.mount_epoch != sb.mount_epoch) {
            write_disk_superblock(member.disk.as_ref(), sb, &member.entry)?;
        }
    }
    Ok(())
}
