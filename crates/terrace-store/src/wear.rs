//! The wear record on media: reading it, and writing the next one.
//!
//! Invariant: the slot that counts is never written. The other one is durable before anybody goes
//! on, so a crash leaves the record before it or the new one.

use terrace_layout::{
    BLOCK_BYTES, Superblock, WEAR_OFFSET, WEAR_SLOT_BYTES, WEAR_SLOTS, WearFound, WearRecord,
};
use terrace_media::Pm;
use zerocopy::IntoBytes;

use crate::error::{FsResult, fence};

/// Byte of the first slot in PM.
fn slots_at(sb: &Superblock) -> u64 {
    sb.shards_start * BLOCK_BYTES + WEAR_OFFSET
}

/// What the slots hold.
///
/// # Errors
/// The memory there has failed.
pub fn read(pm: &Pm, sb: &Superblock) -> FsResult<WearFound> {
    let mut slots = [0; (WEAR_SLOTS * WEAR_SLOT_BYTES) as usize];
    pm.try_read(slots_at(sb), &mut slots)?;
    Ok(WearRecord::find(&slots))
}

/// Writes a record, durably, into the slot that does not count.
///
/// # Errors
/// Fatal ones.
pub fn write(pm: &Pm, sb: &Superblock, record: &WearRecord) -> FsResult<()> {
    let mut record = *record;
    record.seal();
    pm.write_nt(slots_at(sb) + record.slot() * WEAR_SLOT_BYTES, record.as_bytes());
    fence(pm)
}

/// Takes away what the slots hold: nobody has counted yet.
///
/// # Errors
/// Fatal ones.
pub fn clear(pm: &Pm, sb: &Superblock) -> FsResult<()> {
    pm.zero_nt(slots_at(sb), WEAR_SLOTS * WEAR_SLOT_BYTES);
    fence(pm)
}
