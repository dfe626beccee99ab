//! Entries that commit themselves.
//!
//! An entry alone in its batch needs no tail that moves past it if it can tell by itself whether
//! all that it stands for is on media: its own checksum covers the entry, a checksum in it covers
//! data stored under the same fence. Recovery asks [`holds`] of the last entry behind the tail that
//! carries the stamp of the mount that crashed. Bytes that the data checksum covers stay as they
//! are until the entry's own commit is over: a later write to the same file is what changes or
//! frees them, and its own entry follows in the log.
//!
//! A stamp that stands behind the tail, in bytes that are no entry of the log, is all that recovery
//! sees of an entry which a crash has torn. So bytes that another use has left in the slots of a
//! log must not look like that: [`forget`] sees to it before the log gets them.

use terrace_layout::{
    AppendEntry, BLOCK, BLOCK_BYTES, BlockAddr, CRC_COMMIT, CRC_ENTRY, EntryType, LogEntry,
    MediaStruct, SLOT_BYTES, Stamp, WriteEntry, XattrEntry, covered_bytes, data_crc,
};
use terrace_media::Pm;

/// Whether the entry, as laid out, can vouch for itself. A new name can not: it depends on the
/// inode's record.
pub fn can_seal(entry: &[u8]) -> bool {
    use EntryType::{
        Append, Attr, DentryRemove, Hole, Patch, SetSize, Write, XattrRemove, XattrSet,
    };
    let is = |t: EntryType| entry[0] == t as u8;
    if is(Write) {
        let e = WriteEntry::from_bytes(entry);
        return e.crc_form == CRC_COMMIT
            || (e.crc_form == CRC_ENTRY && BlockAddr(e.address).is_pm());
    }
    if is(XattrSet) {
        return XattrEntry::from_bytes(entry).address == 0;
    }
    [Append, Attr, DentryRemove, Hole, Patch, SetSize, XattrRemove].into_iter().any(is)
}

/// Zeroes what an earlier use has left in these slots of PM, at most a page of them, from the first
/// on that would pass for an entry with a stamp; durable at the next fence. Of whichever mount the
/// stamp is: any may be that of a mount to come.
pub fn forget(pm: &Pm, start: u64, end: u64) {
    let mut bytes = [0; BLOCK];
    let bytes = &mut bytes[..(end - start) as usize];
    let is_readable = pm.try_read(start, bytes).is_ok();
    let mut slots = bytes.chunks_exact(SLOT_BYTES as usize);
    let first = match is_readable {
        true => slots.position(|slot| Stamp::of_entry(slot).is_some()),
        false => Some(0),
    };
    if let Some(first) = first {
        let from = start + first as u64 * SLOT_BYTES;
        pm.zero_nt(from, end - from);
    }
}

/// Whether all that the entry, itself sound, stands for is on media. Of what cannot be read nobody
/// knows: the entry counts, and reads of the data fail.
pub fn holds(pm: &Pm, entry: &LogEntry<'_>) -> bool {
    match entry {
        LogEntry::Write(e, _) => write_holds(pm, e),
        LogEntry::Append(e) => append_holds(pm, e),
        LogEntry::XattrSet(e, ..) => e.address == 0,
        LogEntry::Attr(_)
        | LogEntry::DentryRemove(_)
        | LogEntry::Hole(_)
        | LogEntry::Patch(..)
        | LogEntry::SetSize(_)
        | LogEntry::XattrRemove(..) => true,
        LogEntry::DentryAdd(..) | LogEntry::Target(..) | LogEntry::Pad | LogEntry::Archive(_) => {
            false
        }
    }
}

/// The bytes of PM (first, count) that the entry's own checksum does not cover and that the entry
/// stands for, if there are any.
pub fn data_of(pm: &Pm, entry: &LogEntry<'_>) -> Option<(u64, u64)> {
    let (addr, in_block, len) = match entry {
        LogEntry::Write(e, _) => (e.address, 0, u64::from(e.blocks) * BLOCK_BYTES),
        LogEntry::Append(e) => (e.address, e.from % BLOCK_BYTES, e.size.saturating_sub(e.from)),
        _ => return None,
    };
    let addr = BlockAddr(addr);
    let end = addr.byte().checked_add(in_block)?.checked_add(len)?;
    (addr.is_pm() && len > 0 && end <= pm.len()).then_some((addr.byte() + in_block, len))
}

fn write_holds(pm: &Pm, e: &WriteEntry) -> bool {
    let (addr, blocks) = (BlockAddr(e.address), u64::from(e.blocks));
    if !addr.is_pm() || addr.byte() + blocks * BLOCK_BYTES > pm.len() {
        return false;
    }
    let covered = |i: u64| covered_bytes(e.file_block + i, e.size);
    let mut bytes = vec![0; blocks as usize * BLOCK];
    if pm.try_read(addr.byte(), &mut bytes).is_err() {
        return true;
    }
    match e.crc_form {
        CRC_COMMIT => data_crc(&bytes[..(0..blocks).map(covered).sum()]) == e.crcs[0],
        CRC_ENTRY => (0..blocks).all(|i| {
            let block = &bytes[i as usize * BLOCK..][..covered(i)];
            data_crc(block) == e.crcs[i as usize]
        }),
        _ => false,
    }
}

fn append_holds(pm: &Pm, e: &AppendEntry) -> bool {
    let (addr, start) = (BlockAddr(e.address), e.from % BLOCK_BYTES);
    let in_block = e.from < e.size && e.size - e.from <= BLOCK_BYTES - start;
    if !in_block || !addr.is_pm() || addr.byte() + BLOCK_BYTES > pm.len() {
        return false;
    }
    let mut bytes = vec![0; (e.size - e.from) as usize];
    pm.try_read(addr.byte() + start, &mut bytes).is_err() || data_crc(&bytes) == e.data_crc
}
