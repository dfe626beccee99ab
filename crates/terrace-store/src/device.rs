//! Rows of the device table: what a device that joins a volume gets.

use std::path::Path;

use terrace_layout::{BLOCK_BYTES, DeviceEntry, ROLE_DISK, ROLE_PM, SUPERBLOCK_BLOCKS};
use terrace_media::Disk;

use crate::alloc::DeviceAlloc;
use crate::error::{FsError, FsResult};

/// Tier of a disk unless asked otherwise.
pub const TIER_DEFAULT: u8 = 1;

/// Least blocks of a disk.
const DISK_BLOCKS_MIN: u64 = 256;

fn invalid(message: String) -> FsError {
    FsError::with_message(libc::EINVAL, message)
}

/// Blocks of an allocation group: enough groups for every shard to have its own, at most 32768
/// blocks each.
fn group_blocks(blocks: u64, shards: u64) -> u32 {
    let per_shard = blocks / (4 * shards);
    per_shard.next_power_of_two().clamp(1024, 32768) as u32
}

/// The row of a device of so many blocks, whose checkpoint area begins at block `area_start`.
pub fn device_entry(
    index: u16,
    tier: u8,
    blocks: u64,
    area_start: u64,
    shards: u64,
) -> DeviceEntry {
    let mut entry = DeviceEntry {
        index,
        tier,
        role: if index == 0 { ROLE_PM } else { ROLE_DISK },
        group_blocks: group_blocks(blocks, shards),
        blocks,
        checkpoint_start: area_start,
        ..DeviceEntry::EMPTY
    };
    entry.checkpoint_blocks = entry.checkpoint_blocks_needed();
    entry.data_start = entry.checkpoint_start + entry.checkpoint_blocks;
    entry
}

/// The row of a disk of a volume with so many shards.
///
/// # Errors
/// `EINVAL`: it is too small, its path is too long, or its tier is PM's.
pub fn disk_entry(disk: &dyn Disk, index: u16, tier: u8, shards: u16) -> FsResult<DeviceEntry> {
    let (path, blocks) = (disk.path(), disk.len() / BLOCK_BYTES);
    if blocks < DISK_BLOCKS_MIN {
        return Err(invalid(format!(
            "{}: {} bytes are too few for a disk: give it at least {} KiB",
            path.display(),
            disk.len(),
            DISK_BLOCKS_MIN * BLOCK_BYTES / 1024
        )));
    }
    if tier == 0 {
        return Err(invalid(format!("{}: tier 0 is PM: choose 1 or more", path.display())));
    }
    let mut entry = device_entry(index, tier, blocks, SUPERBLOCK_BLOCKS, shards.into());
    set_path(&mut entry, path)?;
    Ok(entry)
}

/// Notes where a device was found.
///
/// # Errors
/// `EINVAL`: the path is too long for the table.
pub fn set_path(entry: &mut DeviceEntry, path: &Path) -> FsResult<()> {
    use std::os::unix::ffi::OsStrExt;
    entry.set_path(path.as_os_str().as_bytes()).map_err(|e| invalid(e.0))
}

/// The allocator of a device on which nothing is.
pub fn fresh_alloc(device: &DeviceEntry, shards: u16) -> DeviceAlloc {
    let mut words = vec![0u64; device.blocks.div_ceil(64) as usize];
    for block in 0..device.data_start {
        words[(block / 64) as usize] |= 1 << (block % 64);
    }
    DeviceAlloc::from_bitmap(device.blocks, u64::from(device.group_blocks), shards.into(), words)
}
