//! The checkpoint of a clean unmount: free space of every device, for the next mount.
//!
//! Order of writing: bitmaps and summaries of all devices, durable; the header without its `valid`
//! word, durable; that word. Order of use: the word is cleared, durably, before anything changes.

use std::mem::offset_of;
use std::path::Path;

use terrace_layout::{
    BLOCK, BLOCK_BYTES, CHECKPOINT_VALID, CheckpointDevice, CheckpointHeader, DeviceEntry,
    GroupSummary, MediaStruct, SIBLING_ROWS_MAX, SiblingRow, Superblock, verify_checkpoint_part,
};
use terrace_media::{AlignedBuf, Disk, Pm};
use zerocopy::IntoBytes;

use crate::alloc::{DeviceAlloc, GroupLoader};
use crate::damage::{Damage, DamageKind, Structure};
use crate::error::{FsResult, fence};
use crate::planted::{Bug, planted};
use crate::sync::Arc;

/// Reads and writes whole blocks of one device's checkpoint area.
#[derive(Debug, Clone)]
pub enum Area {
    /// Of PM.
    Pm(Arc<Pm>),
    /// Of a disk.
    Disk(Arc<dyn Disk>),
}

impl Area {
    fn path(&self) -> &Path {
        match self {
            Area::Pm(pm) => pm.path(),
            Area::Disk(disk) => disk.path(),
        }
    }

    fn read(&self, block: u64, buf: &mut AlignedBuf) -> FsResult<()> {
        match self {
            Area::Pm(pm) => pm.try_read(block * BLOCK_BYTES, buf)?,
            Area::Disk(disk) => disk.read_at(block * BLOCK_BYTES, buf)?,
        }
        Ok(())
    }

    fn write(&self, block: u64, buf: &AlignedBuf) -> FsResult<()> {
        match self {
            Area::Pm(pm) => pm.write_nt(block * BLOCK_BYTES, buf),
            Area::Disk(disk) => disk.write_at(block * BLOCK_BYTES, buf)?,
        }
        Ok(())
    }

    fn make_durable(&self) -> FsResult<()> {
        match self {
            Area::Pm(pm) => fence(pm),
            Area::Disk(disk) => Ok(disk.flush()?),
        }
    }
}

/// Where group `g`'s part of a device's bitmap is: block, byte in it.
pub fn bitmap_place(device: &DeviceEntry, g: u64) -> (u64, usize) {
    let byte = g * u64::from(device.group_blocks) / 8;
    (
        device.checkpoint_start + device.summary_blocks() + byte / BLOCK_BYTES,
        (byte % BLOCK_BYTES) as usize,
    )
}

fn group_bytes(device: &DeviceEntry) -> usize {
    device.group_blocks as usize / 8
}

/// The allocator of a device as the checkpoint has it; bitmaps are read when needed.
///
/// # Errors
/// If the summaries are damaged or unreadable: recover from the logs.
pub fn load_device(
    area: Area,
    device: DeviceEntry,
    known: &CheckpointDevice,
    shards: usize,
) -> FsResult<DeviceAlloc> {
    let mut buf = AlignedBuf::new(device.summary_blocks() as usize * BLOCK);
    area.read(device.checkpoint_start, &mut buf)?;
    let groups = device.groups() as usize;
    let bytes = &buf[..groups * size_of::<GroupSummary>()];
    let at = device.checkpoint_start * BLOCK_BYTES;
    let damaged = |kind| Damage::new(device.index, area.path(), Structure::FreeSpace, kind).at(at);
    verify_checkpoint_part("group summaries", bytes, known.summaries_crc)
        .map_err(|e| damaged(DamageKind::Malformed(e)))?;
    let summaries: Vec<GroupSummary> =
        bytes.chunks_exact(size_of::<GroupSummary>()).map(GroupSummary::from_bytes).collect();
    let free: Vec<u32> = summaries.iter().map(|s| s.free).collect();
    if free.iter().map(|&f| u64::from(f)).sum::<u64>() != known.free {
        let kind = DamageKind::Wrong("is damaged: free counts do not add up".into());
        return Err(damaged(kind).into());
    }
    let loader: GroupLoader = Box::new(move |g| {
        let (block, at) = bitmap_place(&device, g);
        let mut buf = AlignedBuf::new(BLOCK);
        match area.read(block, &mut buf) {
            // PM that cannot be read stays so; a disk may come back.
            Err(_) if matches!(area, Area::Pm(_)) => return Ok(None),
            read => read?,
        }
        let bytes = &buf[at..at + group_bytes(&device)];
        let sound =
            verify_checkpoint_part("bitmap", bytes, summaries[g as usize].bitmap_crc).is_ok();
        let words =
            bytes.chunks_exact(8).map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")));
        let words: Vec<u64> = words.collect();
        Ok((sound && is_possible(&device, g, &words, summaries[g as usize].free)).then_some(words))
    });
    let group_blocks = u64::from(device.group_blocks);
    Ok(DeviceAlloc::from_summaries(device.blocks, group_blocks, shards, &free, loader))
}

/// Whether these can be the bits of group `g`, of which `free` are clear: no bit is that of a block
/// outside the device, or of one that the volume itself needs.
fn is_possible(device: &DeviceEntry, g: u64, words: &[u64], free: u32) -> bool {
    let (base, group_blocks) = (g * u64::from(device.group_blocks), u64::from(device.group_blocks));
    let is_used = |block: u64| words[((block - base) / 64) as usize] >> (block % 64) & 1 == 1;
    words.iter().map(|w| w.count_zeros()).sum::<u32>() == free
        && (base..base + group_blocks)
            .all(|b| (device.data_start..device.blocks).contains(&b) || is_used(b))
}

/// The header, if it may be used.
pub fn usable_header(pm: &Pm, sb: &Superblock) -> Option<CheckpointHeader> {
    let mut bytes = [0u8; size_of::<CheckpointHeader>()];
    pm.read(sb.checkpoint_header * BLOCK_BYTES, &mut bytes);
    let mount_epoch = match planted(Bug::CheckpointStays) {
        true => CheckpointHeader::from_bytes(&bytes).mount_epoch,
        false => sb.mount_epoch,
    };
    CheckpointHeader::usable(&bytes, mount_epoch)
}

/// What is known of kinds of files, as the last clean unmount has left it.
pub fn siblings(pm: &Pm, sb: &Superblock) -> Vec<SiblingRow> {
    let mut block = [0u8; BLOCK];
    pm.read(sb.checkpoint_header * BLOCK_BYTES, &mut block);
    CheckpointHeader::siblings(&block).collect()
}

/// Flushes the header.
pub fn flush_header(pm: &Pm, sb: &Superblock) {
    pm.flush_readable(sb.checkpoint_header * BLOCK_BYTES, size_of::<CheckpointHeader>() as u64);
}

/// Forbids the use of the checkpoint, durably.
pub fn invalidate(pm: &Pm, sb: &Superblock) -> FsResult<()> {
    if planted(Bug::CheckpointStays) {
        return Ok(());
    }
    let at = sb.checkpoint_header * BLOCK_BYTES + offset_of!(CheckpointHeader, valid) as u64;
    pm.store_u64(at, 0);
    pm.flush(at, 8);
    fence(pm)
}

/// Writes the checkpoint of all devices, and as many rows of siblings as have room beside its
/// header; makes it valid.
///
/// # Errors
/// If a device fails: the checkpoint stays invalid, and the next mount recovers from the logs.
pub fn write<'a>(
    pm: &Pm,
    sb: &Superblock,
    devices: impl Iterator<Item = (Area, &'a DeviceEntry, &'a DeviceAlloc)>,
    inodes: u64,
    siblings: &[SiblingRow],
) -> FsResult<()> {
    let devices: Vec<_> = devices.collect();
    if devices.iter().any(|(_, _, alloc)| alloc.is_damaged()) {
        return Ok(());
    }
    let mut header = CheckpointHeader::from_bytes(&[0; size_of::<CheckpointHeader>()]);
    header.mount_epoch = sb.mount_epoch;
    header.inodes = inodes;
    for (area, device, alloc) in devices {
        header.devices[usize::from(device.index)] = write_device(&area, alloc, device)?;
    }
    let rows = siblings[..siblings.len().min(SIBLING_ROWS_MAX)].as_bytes();
    header.siblings = (rows.len() / size_of::<SiblingRow>()) as u32;
    header.siblings_crc = terrace_layout::data_crc(rows);
    header.seal();
    let at = sb.checkpoint_header * BLOCK_BYTES;
    pm.write_nt(at, header.as_bytes());
    pm.write_nt(at + size_of::<CheckpointHeader>() as u64, rows);
    fence(pm)?;
    let valid = at + offset_of!(CheckpointHeader, valid) as u64;
    pm.store_u64(valid, CHECKPOINT_VALID);
    pm.flush(valid, 8);
    fence(pm)
}

fn write_device(
    area: &Area,
    alloc: &DeviceAlloc,
    device: &DeviceEntry,
) -> FsResult<CheckpointDevice> {
    let summary_bytes = device.summary_blocks() as usize * BLOCK;
    let mut buf = AlignedBuf::new(device.checkpoint_blocks_needed() as usize * BLOCK);
    // Groups that nobody needed this time are as they were.
    area.read(device.checkpoint_start, &mut buf)?;
    let group_bytes = group_bytes(device);
    let mut free = 0;
    alloc.visit_groups(|g, words, group_free| {
        free += group_free;
        let Some(words) = words else {
            return;
        };
        let at = summary_bytes + g as usize * group_bytes;
        let bitmap = &mut buf[at..at + group_bytes];
        bitmap.copy_from_slice(words.as_bytes());
        let summary =
            GroupSummary { free: group_free as u32, bitmap_crc: terrace_layout::data_crc(bitmap) };
        let at = g as usize * size_of::<GroupSummary>();
        buf[at..at + size_of::<GroupSummary>()].copy_from_slice(summary.as_bytes());
    })?;
    let used = device.groups() as usize * size_of::<GroupSummary>();
    let summaries_crc = terrace_layout::data_crc(&buf[..used]);
    area.write(device.checkpoint_start, &buf)?;
    area.make_durable()?;
    Ok(CheckpointDevice { free, summaries_crc, reserved: 0 })
}
