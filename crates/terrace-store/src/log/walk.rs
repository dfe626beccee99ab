//! The entries of a region of a log, one after the other.

use terrace_layout::{LogEntry, SLOT_BYTES, entry_slots};

use crate::damage::{Damage, DamageKind};
use crate::error::FsResult;

/// Visits the entries of a region that starts at byte `start` of PM; `damaged` makes damage of a
/// place and what is wrong there.
pub(super) fn walk(
    seed: u32,
    start: u64,
    bytes: &[u8],
    damaged: &dyn Fn(u64, DamageKind) -> Damage,
    visit: &mut dyn FnMut(u64, LogEntry<'_>) -> FsResult<()>,
) -> FsResult<()> {
    let mut at = 0;
    while at < bytes.len() {
        let position = start + at as u64;
        let room = (bytes.len() - at) as u64 / SLOT_BYTES;
        let slots = entry_slots(&bytes[at..], room)
            .ok_or_else(|| damaged(position, DamageKind::Missing))?;
        let next = at + (slots * SLOT_BYTES) as usize;
        let entry = LogEntry::decode(&bytes[at..next], seed)
            .map_err(|e| damaged(position, DamageKind::Malformed(e)))?;
        visit(position, entry)?;
        at = next;
    }
    Ok(())
}
