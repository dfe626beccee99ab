//! Superblocks: reading and writing both copies of PM's and of each disk's.
//!
//! Invariant: the copies of a superblock are written one after the other, each durable before the
//! other is touched, and first the one that does not count.

use std::path::Path;

use terrace_layout::{
    BLOCK, BLOCK_BYTES, DEVICES_MAX, DeviceEntry, INCOMPAT_ABSENT, INCOMPAT_ARCHIVES,
    INCOMPAT_GAPS, INCOMPAT_MOVES, SUPERBLOCK_BLOCKS, Superblock,
};
use terrace_media::{AlignedBuf, Disk, Pm};
use uuid::Uuid;
use zerocopy::IntoBytes;

use crate::checkpoint::Area;
use crate::damage::DamageKind;
pub use crate::disks::Disks;
use crate::error::{FsError, FsResult, fence};
use crate::planted::{Bug, planted};
use crate::sync::Arc;

/// The checkpoint areas of all devices, by index.
pub fn areas(pm: &Arc<Pm>, disks: &Disks) -> Vec<(usize, Area)> {
    let of_disks =
        disks.iter().map(|(&index, disk)| (usize::from(index), Area::Disk(disk.clone())));
    std::iter::once((0, Area::Pm(pm.clone()))).chain(of_disks).collect()
}

/// The order in which the copies of a superblock are written: first the one that does not count,
/// since a crash may leave it torn. Usually that is the second; after a crash that tore the first,
/// it is the first.
fn order_of_writing(copies: &[u8]) -> [u64; 2] {
    if planted(Bug::SuperblockOrder) {
        return [1, 0];
    }
    let (first, second) = copies.split_at(BLOCK);
    let sequence = |bytes| Superblock::decode(bytes).ok().flatten().map(|sb| sb.sequence);
    if sequence(second) > sequence(first) { [0, 1] } else { [1, 0] }
}

/// Writes both copies of PM's superblock, each durable before the other is touched.
pub fn write_pm_superblock(pm: &Pm, sb: &Superblock) -> FsResult<()> {
    let mut sb = *sb;
    sb.seal();
    let mut copies = vec![0u8; 2 * BLOCK];
    pm.read(0, &mut copies);
    for copy in order_of_writing(&copies) {
        pm.write_nt(copy * BLOCK_BYTES, sb.as_bytes());
        if copy == 1 && planted(Bug::SuperblockTogether) {
            continue;
        }
        fence(pm)?;
    }
    Ok(())
}

/// Flushes both copies of PM's superblock.
pub fn flush_superblock(pm: &Pm) {
    pm.flush_readable(0, SUPERBLOCK_BLOCKS * BLOCK_BYTES);
}

/// Writes both copies of a disk's superblock, as PM's has it, each durable before the other is
/// touched.
pub fn write_disk_superblock(
    disk: &dyn Disk,
    volume: &Superblock,
    entry: &DeviceEntry,
) -> FsResult<()> {
    let mut sb = Superblock {
        device_index: entry.index,
        blocks: entry.blocks,
        shards: 0,
        shards_start: 0,
        checkpoint_header: 0,
        device_count: 0,
        previous_epoch: 0,
        devices: [DeviceEntry::EMPTY; DEVICES_MAX],
        ..*volume
    };
    sb.seal();
    let mut copies = AlignedBuf::new(2 * BLOCK);
    disk.read_at(0, &mut copies)?;
    let mut buf = AlignedBuf::new(BLOCK);
    buf.copy_from_slice(sb.as_bytes());
    for copy in order_of_writing(&copies) {
        disk.write_at(copy * BLOCK_BYTES, &buf)?;
        disk.flush()?;
    }
    Ok(())
}

/// Takes the superblock off a disk, durably: it is no part of a volume any more.
pub fn erase_disk_superblock(disk: &dyn Disk) -> FsResult<()> {
    disk.write_at(0, &AlignedBuf::new(SUPERBLOCK_BLOCKS as usize * BLOCK))?;
    Ok(disk.flush()?)
}

/// Of the copies in `copies` (whole blocks) the valid one with the higher sequence; `None` if none
/// is ours.
pub fn choose(device: &Path, copies: &[u8]) -> FsResult<Option<Superblock>> {
    let mut best: Option<Superblock> = None;
    let mut problem = None;
    for (i, bytes) in copies.chunks(BLOCK).enumerate() {
        match Superblock::decode(bytes) {
            // One of them was meant for another device. Believing the wrong one would exchange the
            // two.
            Ok(Some(sb))
                if best.is_some_and(|b| b.uuid == sb.uuid && b.device_index != sb.device_index) =>
            {
                let message = format!(
                    "the copies of its superblock, at byte 0 and at byte {BLOCK_BYTES}, are of \
                     different devices of the volume"
                );
                return Err(FsError::about(device, libc::EIO, message));
            }
            Ok(Some(sb)) if best.is_none_or(|b| b.sequence < sb.sequence) => best = Some(sb),
            Ok(_) => {}
            Err(error) => problem = problem.or(Some((i, error))),
        }
    }
    match (best, problem) {
        (None, Some((i, error))) => Err(FsError::about(
            device,
            libc::EIO,
            format!("superblock (copy {i}, at byte {}): {error}", i as u64 * BLOCK_BYTES),
        )),
        (best, _) => Ok(best),
    }
}

/// What is wrong with a copy that is not `good`, the one that counts.
pub fn damage_to_copy(copy: &[u8], good: Option<&Superblock>) -> DamageKind {
    match Superblock::decode(copy) {
        Ok(Some(found)) if good.is_some_and(|good| found.sequence < good.sequence) => {
            DamageKind::Wrong("is older than the other one".into())
        }
        Ok(Some(_)) => DamageKind::Wrong("is not the same as the other one".into()),
        Ok(None) => DamageKind::Wrong("is no superblock".into()),
        Err(error) => DamageKind::Malformed(error),
    }
}

/// PM's superblock; `None` if the device holds none.
///
/// # Errors
/// A newer version, an unknown feature, damage to both copies.
pub fn read_pm_superblock(pm: &Pm) -> FsResult<Option<Superblock>> {
    let mut bytes = vec![0u8; copies_bytes(pm.len())];
    pm.read(0, &mut bytes);
    let found = choose(pm.path(), &bytes)?;
    if found.is_none() {
        // Nothing is there, or what is there cannot be read.
        pm.check(0, bytes.len() as u64)?;
    }
    Ok(found)
}

/// Bytes of the copies for which a device has room. One that was cut short may still say what it
/// was.
fn copies_bytes(device_bytes: u64) -> usize {
    (device_bytes / BLOCK_BYTES).min(SUPERBLOCK_BLOCKS) as usize * BLOCK
}

/// A disk's superblock; `None` if the device holds none.
///
/// # Errors
/// As [`read_pm_superblock`]; what the disk says.
pub fn read_disk_superblock(disk: &dyn Disk) -> FsResult<Option<Superblock>> {
    let mut buf = AlignedBuf::new(copies_bytes(disk.len()));
    disk.read_at(0, &mut buf)?;
    choose(disk.path(), &buf)
}

/// Features that come and go with what a mount writes.
const WRITTEN_FEATURES: u64 = INCOMPAT_MOVES | INCOMPAT_ABSENT | INCOMPAT_ARCHIVES | INCOMPAT_GAPS;

/// Whether `found` differs from `good` only in what a mount writes, wholly or in part: rows come
/// and go, too.
pub fn differs_by_a_write(mut found: Superblock, good: &Superblock) -> bool {
    found.crc = good.crc;
    found.sequence = good.sequence;
    found.mount_epoch = good.mount_epoch;
    found.previous_epoch = good.previous_epoch;
    found.device_count = good.device_count;
    found.minor = good.minor;
    found.incompat = found.incompat & !WRITTEN_FEATURES | good.incompat & WRITTEN_FEATURES;
    for (row, good) in found.devices.iter_mut().zip(&good.devices).skip(1) {
        if row.blocks == 0 || good.blocks == 0 {
            *row = *good;
        }
    }
    for (row, good) in found.devices.iter_mut().zip(&good.devices) {
        *row = DeviceEntry { path_bytes: good.path_bytes, path: good.path, ..*row };
    }
    found == *good
}

/// UUID of a superblock's volume, as text.
pub fn uuid_text(sb: &Superblock) -> String {
    Uuid::from_bytes(sb.uuid).to_string()
}

/// Format of a superblock, as text.
pub fn format_text(sb: &Superblock) -> String {
    format!("{}.{}", sb.major, sb.minor)
}
