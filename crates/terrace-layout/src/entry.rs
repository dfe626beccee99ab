//! Log entries: what an inode's log is made of.
//!
//! An entry takes one slot of 64 bytes or a few adjacent ones in the same page. It starts with
//! type, length in slots, flags and a CRC32C that is seeded with inode, generation, a secret of the
//! inode and the log page, so that an entry of another inode, of an earlier one with the same
//! number, or of another page, never passes for one of this.

mod kinds;

pub use kinds::*;

use crate::crc::crc_with_hole;
use crate::{BlockAddr, LayoutError, MediaStruct, PAGE_SLOTS, SLOT_BYTES};
use zerocopy::IntoBytes;

/// A decoded entry; variable parts borrow from the bytes it was read from.
#[derive(Clone, Copy, Debug)]
pub enum LogEntry<'a> {
    /// See [`WriteEntry`]; with [`CRC_SLOTS`] the checksums, four bytes each, little-endian.
    Write(WriteEntry, &'a [u8]),
    /// See [`AppendEntry`].
    Append(AppendEntry),
    /// See [`PatchEntry`]; the bytes.
    Patch(PatchEntry, &'a [u8]),
    /// See [`SetSizeEntry`].
    SetSize(SetSizeEntry),
    /// See [`HoleEntry`].
    Hole(HoleEntry),
    /// See [`AttrEntry`].
    Attr(AttrEntry),
    /// See [`XattrEntry`]; name and inline value.
    XattrSet(XattrEntry, &'a [u8], &'a [u8]),
    /// See [`XattrEntry`]; name.
    XattrRemove(XattrEntry, &'a [u8]),
    /// See [`DentryAddEntry`]; name.
    DentryAdd(DentryAddEntry, &'a [u8]),
    /// See [`DentryRemoveEntry`].
    DentryRemove(DentryRemoveEntry),
    /// See [`TargetEntry`]; the piece.
    Target(TargetEntry, &'a [u8]),
    /// See [`PadEntry`].
    Pad,
    /// See [`ArchiveEntry`].
    Archive(ArchiveEntry),
}

/// Seed of the checksums of an inode's entries. Log pages and records are not cleared before they
/// are used again: the `secret` keeps programs from preparing, in data or names that end up there,
/// what would pass for an entry.
pub fn entry_seed(ino: u64, generation: u32, secret: u32) -> u32 {
    let mixed = (ino ^ u64::from(generation) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32 ^ secret
}

/// Seed of the checksums of the entries in page `sequence` of a log whose own seed (that of the
/// entries in the inode record) is `seed`: what an earlier page of the same log left in a block
/// never passes for this page's.
pub fn page_seed(seed: u32, sequence: u64) -> u32 {
    let mixed =
        (u64::from(seed) ^ (sequence + 1).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// Bits of an entry's flags that hold its [`Stamp`].
const STAMP_SHIFT: u32 = 1;
/// Where the flags begin in an entry's first eight bytes.
const FLAGS_SHIFT: u32 = 16;

/// Which mount wrote an entry that commits itself: bits 1 to 15 of its flags, zero in all other
/// entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u16);

impl Stamp {
    /// Stamps are below this.
    const LIMIT: u16 = 1 << (16 - STAMP_SHIFT);

    /// The stamp of the mount with this epoch; never zero.
    pub fn of_epoch(mount_epoch: u64) -> Stamp {
        Stamp((mount_epoch % u64::from(Self::LIMIT - 1)) as u16 + 1)
    }

    /// The stamp of an encoded entry, if it has one.
    pub fn of_entry(bytes: &[u8]) -> Option<Stamp> {
        let stamp = u16::from_le_bytes([bytes[2], bytes[3]]) >> STAMP_SHIFT;
        (stamp != 0).then_some(Stamp(stamp))
    }
}

/// Slots that `bytes` take.
pub const fn slots_for(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(SLOT_BYTES)
}

/// Builds an entry from its fixed part and what follows it: sets length and checksum, pads with
/// zeros.
///
/// The result's length is a multiple of [`SLOT_BYTES`]. `head` is one of this module's structures,
/// whose type is set already.
///
/// # Panics
/// If the entry would be longer than [`ENTRY_BYTES_MAX`]: callers bound what they put in.
pub fn encode_entry<'b, T: MediaStruct>(
    buf: &'b mut Vec<u8>,
    seed: u32,
    head: &T,
    parts: &[&[u8]],
) -> &'b [u8] {
    let start = buf.len();
    lay_out_entry(buf, head, parts);
    finish_entry(&mut buf[start..], seed, None);
    &buf[start..]
}

/// As [`encode_entry`], up to [`finish_entry`].
///
/// # Panics
/// As [`encode_entry`].
#[inline]
pub fn lay_out_entry<T: MediaStruct>(buf: &mut Vec<u8>, head: &T, parts: &[&[u8]]) {
    let start = buf.len();
    let len = size_of::<T>() + parts.iter().map(|part| part.len()).sum::<usize>();
    let slots = slots_for(len);
    assert!(slots <= PAGE_SLOTS, "log entry too long");
    let mut head = *head;
    head.as_mut_bytes()[1] = slots as u8;
    buf.extend_from_slice(head.as_bytes());
    if len as u64 != SLOT_BYTES || size_of::<T>() != len {
        parts.iter().for_each(|part| buf.extend_from_slice(part));
        buf.resize(start + (slots * SLOT_BYTES) as usize, 0);
    }
}

/// Sets what depends on where an entry goes and how it commits: stamp and checksum.
pub fn finish_entry(entry: &mut [u8], seed: u32, stamp: Option<Stamp>) {
    // A copy of an entry that committed itself does not.
    // In one word: the processor has to wait for a word that was stored in parts.
    let (first, _) = entry.split_first_chunk_mut().expect("an entry has a slot");
    let stamped = |stamp: u16| u64::from(stamp << STAMP_SHIFT) << FLAGS_SHIFT;
    let own = u64::from_le_bytes(*first) & !stamped(u16::MAX);
    *first = (own | stamped(stamp.map_or(0, |Stamp(stamp)| stamp))).to_le_bytes();
    let crc = crc_with_hole(seed, entry, 4);
    entry[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// A pad of `slots` slots; only its first slot carries anything.
pub fn encode_pad(seed: u32, slots: u64) -> [u8; SLOT_BYTES as usize] {
    let mut pad = PadEntry {
        kind: EntryType::Pad as u8,
        slots: slots as u8,
        flags: 0,
        crc: 0,
        reserved: [0; 56],
    };
    pad.crc = crc_with_hole(seed, pad.as_bytes(), 4);
    pad.as_bytes().try_into().expect("one slot")
}

/// Slots that the entry starting with these bytes says it takes, if that is possible with
/// `available` slots left.
pub fn entry_slots(first: &[u8], available: u64) -> Option<u64> {
    let slots = u64::from(first[1]);
    (slots >= 1 && slots <= available && EntryType::from_u8(first[0]).is_some()).then_some(slots)
}

impl<'a> LogEntry<'a> {
    /// Reads the entry that `bytes` (its slots, exactly) hold.
    ///
    /// # Errors
    /// If its checksum does not match or a field is impossible.
    pub fn decode(bytes: &'a [u8], seed: u32) -> Result<LogEntry<'a>, LayoutError> {
        let kind = EntryType::from_u8(bytes[0])
            .ok_or_else(|| LayoutError("its type is unknown".into()))?;
        let covered = if kind == EntryType::Pad { &bytes[..SLOT_BYTES as usize] } else { bytes };
        let crc = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        if crc != crc_with_hole(seed, covered, 4) {
            return Err(LayoutError("its checksum does not match".into()));
        }
        Self::decode_kind(kind, bytes)
            .ok_or_else(|| LayoutError(format!("{kind:?} with impossible fields")))
    }

    fn decode_kind(kind: EntryType, bytes: &'a [u8]) -> Option<LogEntry<'a>> {
        let tail = |head: usize, len: usize| bytes.get(head..head.checked_add(len)?);
        Some(match kind {
            EntryType::Write | EntryType::Move => decode_write(bytes)?,
            EntryType::Append => {
                let e = AppendEntry::from_bytes(bytes);
                (e.size <= FILE_BYTES_MAX).then_some(LogEntry::Append(e))?
            }
            EntryType::Patch => {
                let e = PatchEntry::from_bytes(bytes);
                let end = e.offset.checked_add(u64::from(e.len))?;
                let one_block =
                    e.len > 0 && e.offset / 4096 == (end - 1) / 4096 && end <= FILE_BYTES_MAX;
                one_block.then_some(())?;
                LogEntry::Patch(e, tail(size_of::<PatchEntry>(), e.len as usize)?)
            }
            EntryType::SetSize => {
                let e = SetSizeEntry::from_bytes(bytes);
                (e.size <= FILE_BYTES_MAX).then_some(LogEntry::SetSize(e))?
            }
            EntryType::Hole => {
                let e = HoleEntry::from_bytes(bytes);
                let end = e.file_block.checked_add(e.blocks)?;
                (end <= 1 << 51 && e.size <= FILE_BYTES_MAX).then_some(LogEntry::Hole(e))?
            }
            EntryType::Attr => {
                let e = AttrEntry::from_bytes(bytes);
                (e.next_page <= crate::LOG_SEQUENCE_MAX).then_some(LogEntry::Attr(e))?
            }
            EntryType::XattrSet | EntryType::XattrRemove => decode_xattr(kind, bytes)?,
            EntryType::DentryAdd => {
                let e = DentryAddEntry::from_bytes(bytes);
                let name = tail(size_of::<DentryAddEntry>(), usize::from(e.name_len))?;
                let possible =
                    !name.is_empty() && e.ino != 0 && (COOKIE_MIN..=COOKIE_MAX).contains(&e.cookie);
                possible.then_some(LogEntry::DentryAdd(e, name))?
            }
            EntryType::DentryRemove => {
                let e = DentryRemoveEntry::from_bytes(bytes);
                (COOKIE_MIN..=COOKIE_MAX)
                    .contains(&e.cookie)
                    .then_some(LogEntry::DentryRemove(e))?
            }
            EntryType::Target => {
                let e = TargetEntry::from_bytes(bytes);
                (e.offset <= 4096).then_some(())?;
                LogEntry::Target(e, tail(size_of::<TargetEntry>(), e.len as usize)?)
            }
            EntryType::Pad => LogEntry::Pad,
            EntryType::Archive => {
                let e = ArchiveEntry::from_bytes(bytes);
                e.is_possible().then_some(LogEntry::Archive(e))?
            }
        })
    }
}

fn decode_write(bytes: &[u8]) -> Option<LogEntry<'_>> {
    let e = WriteEntry::from_bytes(bytes);
    let blocks = u64::from(e.blocks);
    let addr = BlockAddr(e.address);
    let in_range = blocks > 0
        && e.file_block.checked_add(blocks)? <= 1 << 51
        && usize::from(addr.device()) < crate::DEVICES_MAX
        && addr.block().checked_add(blocks)? < crate::DEVICE_BLOCKS_MAX
        && e.size <= FILE_BYTES_MAX;
    let crcs = match e.crc_form {
        CRC_NONE => &[],
        CRC_BLOCKS => has_crc_blocks(&e).then_some(&[])?,
        CRC_ENTRY if blocks <= CRC_ENTRY_BLOCKS_MAX => &[],
        CRC_COMMIT if blocks <= CRC_ENTRY_BLOCKS_MAX && addr.is_pm() => &[],
        CRC_SLOTS => bytes.get(64..64 + blocks as usize * 4)?,
        _ => return None,
    };
    in_range.then_some(LogEntry::Write(e, crcs))
}

/// Whether an entry's checksum blocks lie on the disk of its data, and hold as many checksums as it
/// needs.
fn has_crc_blocks(e: &WriteEntry) -> bool {
    let (addr, [skipped, crc_blocks]) = (BlockAddr(e.crc_address), e.crcs);
    addr.device() == BlockAddr(e.address).device()
        && !addr.is_pm()
        && addr.block() + u64::from(crc_blocks) < crate::DEVICE_BLOCKS_MAX
        && u64::from(skipped) + u64::from(e.blocks) <= u64::from(crc_blocks) * crate::CRCS_PER_BLOCK
}

fn decode_xattr(kind: EntryType, bytes: &[u8]) -> Option<LogEntry<'_>> {
    let e = XattrEntry::from_bytes(bytes);
    let head = size_of::<XattrEntry>();
    let name = bytes.get(head..head + usize::from(e.name_len))?;
    if name.is_empty()
        || name.len() > XATTR_NAME_BYTES_MAX
        || e.value_len as usize > XATTR_VALUE_BYTES_MAX
    {
        return None;
    }
    if kind == EntryType::XattrRemove {
        return Some(LogEntry::XattrRemove(e, name));
    }
    let inline = if e.address == 0 { e.value_len as usize } else { 0 };
    let value = bytes.get(head + name.len()..head + name.len() + inline)?;
    Some(LogEntry::XattrSet(e, name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn dentry(name: &[u8]) -> DentryAddEntry {
        DentryAddEntry {
            kind: EntryType::DentryAdd as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            ino: 7,
            cookie: 9,
            mtime_ns: -5,
            generation: 3,
            file_type: 8,
            name_len: name.len() as u8,
            reserved: 0,
        }
    }

    proptest! {
        #[test]
        fn a_dentry_round_trips(name in proptest::collection::vec(1u8..255, 1..256)) {
            let mut buf = Vec::new();
            let bytes = encode_entry(&mut buf, 42, &dentry(&name), &[&name]).to_vec();
            prop_assert_eq!(entry_slots(&bytes, PAGE_SLOTS), Some(bytes.len() as u64 / 64));
            match LogEntry::decode(&bytes, 42).unwrap() {
                LogEntry::DentryAdd(e, n) => {
                    prop_assert_eq!((e.ino, e.cookie, e.mtime_ns), (7, 9, -5));
                    prop_assert_eq!(n, &name[..]);
                }
                other => prop_assert!(false, "decoded {:?}", other),
            }
        }

        #[test]
        fn a_flipped_bit_is_noticed(byte in 0usize..64, bit in 0u8..8) {
            let mut buf = Vec::new();
            let mut bytes = encode_entry(&mut buf, 1, &dentry(b"name"), &[b"name"]).to_vec();
            bytes[byte] ^= 1 << bit;
            prop_assert!(
                entry_slots(&bytes, PAGE_SLOTS) != Some(1) || LogEntry::decode(&bytes, 1).is_err()
            );
        }

        #[test]
        fn arbitrary_slots_never_panic(bytes in proptest::collection::vec(any::<u8>(), 64 * 3)) {
            let _ = LogEntry::decode(&bytes, 0);
            if let Some(kind) = EntryType::from_u8(bytes[0] % 14) {
                let _ = LogEntry::decode_kind(kind, &bytes);
            }
        }
    }

    #[test]
    fn histories_round_trip_to_a_power_of_two() {
        for (blocks, area) in [(1, 1), (8, 8), (9, 8), (4096, 4096), (1 << 40, 1 << 40)] {
            for (counter, rule) in [(0, 0), (7, 1), (15, 16), (15, 63)] {
                let history = History::new(counter, blocks, rule);
                assert_eq!(History::of_word(history.to_word()), history);
                assert_eq!((history.counter, history.rule), (counter, rule));
                assert_eq!(history.area_blocks(24), area);
            }
        }
        assert_eq!(History::of_word(0).area_blocks(24), 24);
        assert_eq!(History::of_word(u16::MAX).area_blocks(24), 1 << 62);
        // As formats up to 3.5 have it: bits that were zero are those of the rule.
        let old = History { counter: 9, area_log2: 13, rule: 0 };
        assert_eq!(History::of_word(9 | 13 << 8), old);
    }

    #[test]
    fn entries_of_other_inodes_are_refused() {
        let mut buf = Vec::new();
        let bytes = encode_entry(&mut buf, entry_seed(5, 1, 7), &dentry(b"x"), &[b"x"]);
        assert!(LogEntry::decode(bytes, entry_seed(5, 1, 7)).is_ok());
        assert!(LogEntry::decode(bytes, entry_seed(5, 2, 7)).is_err());
        assert!(LogEntry::decode(bytes, entry_seed(6, 1, 7)).is_err());
        assert!(LogEntry::decode(bytes, entry_seed(5, 1, 8)).is_err());
    }
}
