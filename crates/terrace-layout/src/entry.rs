//! Log entries: what an inode's log is made of.
//!
//! An entry takes one slot of 64 bytes or a few adjacent ones in the same page. It starts with
//! type, length in slots, flags and a CRC32C that is seeded with inode, generation, a secret of the
//! inode and the log page, so that an entry of another inode, of an earlier one with the same
//! number, or of another page, never passes for one of this.

use crate::crc::crc_with_hole;
use crate::field::media_struct;
use crate::{BLOCK_BYTES, BlockAddr, LayoutError, MediaStruct, PAGE_SLOTS, SLOT_BYTES};
use zerocopy::IntoBytes;

/// Longest entry: a page's worth of slots.
pub const ENTRY_BYTES_MAX: usize = (PAGE_SLOTS * SLOT_BYTES) as usize;
/// Longest name of a directory entry.
pub const NAME_BYTES_MAX: usize = 255;
/// First position in a directory that an entry can have; what lists directories puts `.` and `..`
/// before it.
pub const COOKIE_MIN: u64 = 3;
/// Last position in a directory that an entry can have: the next one is a position, too.
pub const COOKIE_MAX: u64 = i64::MAX as u64 - 1;
/// Longest payload of a patch: beyond it, rewriting the block costs less than writing the bytes
/// twice.
pub const PATCH_BYTES_MAX: usize = 1024;
/// Longest piece of a symbolic link's target in one entry.
pub const TARGET_PIECE_BYTES_MAX: usize = ENTRY_BYTES_MAX - size_of::<TargetEntry>();
/// Longest extended attribute name, as Linux has it.
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Longest extended attribute value, as Linux has it.
pub const XATTR_VALUE_BYTES_MAX: usize = 65536;
/// Longest file: what `off_t` can address.
pub const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// Most slots of an archive: 64 MiB, which is what a reader must be ready to take into memory.
pub const ARCHIVE_SLOTS_MAX: u64 = 1 << 20;

/// Bits of an entry's flags that hold its [`Stamp`].
const STAMP_SHIFT: u32 = 1;

/// Flag of a write entry: the blocks are allocated but were never written; they read as zeros.
pub const WRITE_UNWRITTEN: u16 = 1;

/// Flag of a set-size entry: a truncation; blocks wholly beyond the new size are gone.
pub const SET_SIZE_TRUNCATES: u16 = 1;

/// Write entry without data checksums.
pub const CRC_NONE: u16 = 0;
/// Write entry of at most two blocks, whose checksums are in the entry.
pub const CRC_ENTRY: u16 = 1;
/// Write entry whose checksums stand in the slots that follow it.
pub const CRC_SLOTS: u16 = 2;
/// Write entry whose checksums stand in CRC blocks.
pub const CRC_BLOCKS: u16 = 3;
/// Write entry to PM without data checksums, whose first checksum covers the data as they were
/// committed. It matters only as long as the entry lies beyond the tail: later writes in place do
/// not keep it up.
pub const CRC_COMMIT: u16 = 4;
/// Most blocks of an entry with [`CRC_ENTRY`] or [`CRC_COMMIT`].
pub const CRC_ENTRY_BLOCKS_MAX: u64 = 2;
/// Blocks that the checksums of a [`CRC_SLOTS`] entry can cover.
pub const CRC_SLOTS_BLOCKS_MAX: u64 = (PAGE_SLOTS - 1) * SLOT_BYTES / 4;

/// Types of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "each names its structure")]
pub enum EntryType {
    Write = 1,
    Append = 2,
    Patch = 3,
    SetSize = 4,
    Hole = 5,
    Attr = 6,
    XattrSet = 7,
    XattrRemove = 8,
    DentryAdd = 9,
    DentryRemove = 10,
    Target = 11,
    Pad = 12,
    Move = 13,
    Archive = 14,
}

impl EntryType {
    fn from_u8(value: u8) -> Option<EntryType> {
        use EntryType::*;
        [
            Write,
            Append,
            Patch,
            SetSize,
            Hole,
            Attr,
            XattrSet,
            XattrRemove,
            DentryAdd,
            DentryRemove,
            Target,
            Pad,
            Move,
            Archive,
        ]
        .into_iter()
        .find(|&t| t as u8 == value)
    }
}

media_struct! {
    /// Maps a run of file blocks to a run of device blocks: the unit of placement, prediction and
    /// migration.
    pub struct WriteEntry [64] {
        /// 1, or 13 (move): the same bytes of the file are elsewhere now; its size and times stay
        /// what they were.
        pub kind: u8,
        /// Slots that the entry takes.
        pub slots: u8,
        /// [`WRITE_UNWRITTEN`].
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// First file block.
        pub file_block: u64,
        /// First device block ([`BlockAddr`]).
        pub address: u64,
        /// Blocks.
        pub blocks: u32,
        /// What the write-size predictor remembers: bits 0 to 7 its counter; bits 8 to 15 one more
        /// than the binary logarithm of the blocks of the write that brought the data, 0 if that
        /// were all of the entry's.
        pub counter: u16,
        /// Where the data checksums are: [`CRC_NONE`], [`CRC_ENTRY`], [`CRC_SLOTS`], [`CRC_BLOCKS`]
        /// or [`CRC_COMMIT`].
        pub crc_form: u16,
        /// File size after this write, in bytes.
        pub size: u64,
        /// Modification time; of a move that of the youngest block.
        pub mtime_ns: i64,
        /// First CRC block ([`BlockAddr`]), with [`CRC_BLOCKS`].
        pub crc_address: u64,
        /// With [`CRC_ENTRY`] the checksums of the blocks; with [`CRC_COMMIT`] one checksum of all
        /// their bytes; with [`CRC_BLOCKS`] how many checksums to skip, and how many checksum
        /// blocks there are.
        pub crcs: [u32; 2],
    }
}

media_struct! {
    /// New bytes inside the last block, written in place beyond the size committed before.
    pub struct AppendEntry [64] {
        /// 2.
        pub kind: u8,
        /// 1.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// File size after this append, in bytes.
        pub size: u64,
        /// Modification time.
        pub mtime_ns: i64,
        /// The block that holds the bytes ([`BlockAddr`]).
        pub address: u64,
        /// File size before it, in bytes.
        pub from: u64,
        /// CRC32C of the bytes from there to the new size, as they were committed.
        pub data_crc: u32,
        /// Zero.
        pub reserved: [u8; 20],
    }
}

media_struct! {
    /// A small overwrite: the bytes themselves follow. After the commit they are applied to their
    /// block in place.
    pub struct PatchEntry [32] {
        /// 3.
        pub kind: u8,
        /// Slots that the entry takes.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// Where in the file, in bytes; the patch lies in one block.
        pub offset: u64,
        /// Bytes that follow.
        pub len: u32,
        /// Zero.
        pub reserved: u32,
        /// Modification time.
        pub mtime_ns: i64,
    }
}

media_struct! {
    /// The file was truncated or extended.
    pub struct SetSizeEntry [64] {
        /// 4.
        pub kind: u8,
        /// 1.
        pub slots: u8,
        /// [`SET_SIZE_TRUNCATES`].
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// New size in bytes.
        pub size: u64,
        /// Modification time.
        pub mtime_ns: i64,
        /// Zero.
        pub reserved: [u8; 40],
    }
}

media_struct! {
    /// A run of file blocks was deallocated.
    pub struct HoleEntry [64] {
        /// 5.
        pub kind: u8,
        /// 1.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// First file block.
        pub file_block: u64,
        /// Blocks.
        pub blocks: u64,
        /// Modification time.
        pub mtime_ns: i64,
        /// File size after it, in bytes.
        pub size: u64,
        /// Zero.
        pub reserved: [u8; 24],
    }
}

media_struct! {
    /// All attributes but the size; the latest counts.
    pub struct AttrEntry [64] {
        /// 6.
        pub kind: u8,
        /// 1.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// Permission and set-id bits.
        pub mode: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Hard links (1 for directories, whose links are counted from their entries).
        pub nlink: u32,
        /// Access time.
        pub atime_ns: i64,
        /// Modification time.
        pub mtime_ns: i64,
        /// Change time.
        pub ctime_ns: i64,
        /// The sequence number of the log's next page is at least this: a log that lost all its
        /// pages remembers here how many it had.
        pub next_page: u64,
        /// Zero.
        pub reserved: [u8; 8],
    }
}

media_struct! {
    /// An extended attribute set (7) or removed (8): name, then value if it is inline.
    pub struct XattrEntry [40] {
        /// 7 or 8.
        pub kind: u8,
        /// Slots that the entry takes.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// Change time.
        pub ctime_ns: i64,
        /// First of the PM blocks that hold a value too long for the entry, else 0.
        pub address: u64,
        /// Bytes of the value.
        pub value_len: u32,
        /// CRC32C of such a value, else 0.
        pub value_crc: u32,
        /// Bytes of the name.
        pub name_len: u16,
        /// Zero.
        pub reserved: [u8; 6],
    }
}

media_struct! {
    /// A name was added to a directory; the name follows.
    pub struct DentryAddEntry [40] {
        /// 9.
        pub kind: u8,
        /// Slots that the entry takes.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// The inode.
        pub ino: u64,
        /// Position in listings, unique in the directory for ever.
        pub cookie: u64,
        /// Modification time of the directory.
        pub mtime_ns: i64,
        /// Generation of the inode.
        pub generation: u32,
        /// File type of the inode: `S_IFMT` bits shifted right by 12.
        pub file_type: u8,
        /// Bytes of the name.
        pub name_len: u8,
        /// Zero.
        pub reserved: u16,
    }
}

media_struct! {
    /// A name was removed from a directory.
    pub struct DentryRemoveEntry [64] {
        /// 10.
        pub kind: u8,
        /// 1.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// Cookie of the entry that added it.
        pub cookie: u64,
        /// Modification time of the directory.
        pub mtime_ns: i64,
        /// Zero.
        pub reserved: [u8; 40],
    }
}

media_struct! {
    /// (A piece of) a symbolic link's target; its bytes follow.
    pub struct TargetEntry [16] {
        /// 11.
        pub kind: u8,
        /// Slots that the entry takes.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// Where in the target the piece belongs, in bytes.
        pub offset: u32,
        /// Bytes of the piece.
        pub len: u32,
    }
}

media_struct! {
    /// Nothing: fills the slots that an entry would not fit in.
    pub struct PadEntry [64] {
        /// 12.
        pub kind: u8,
        /// Slots to skip.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the first slot.
        pub crc: u32,
        /// Zero.
        pub reserved: [u8; 56],
    }
}

media_struct! {
    /// The log goes on, at this point, with its archive: entries that lie on a disk.
    pub struct ArchiveEntry [64] {
        /// 14.
        pub kind: u8,
        /// 1.
        pub slots: u8,
        /// Zero.
        pub flags: u16,
        /// CRC32C of the entry.
        pub crc: u32,
        /// First block of the archive ([`BlockAddr`]), on a disk.
        pub address: u64,
        /// Slots of the entries in it.
        pub entry_slots: u32,
        /// Zero.
        pub reserved0: u32,
        /// Counts the archive among the pages that this log ever had: part of the seed of the
        /// entries in it.
        pub sequence: u64,
        /// Zero.
        pub reserved1: [u8; 32],
    }
}

impl ArchiveEntry {
    /// The entry of the archive at `addr` that holds so many slots.
    pub fn new(addr: BlockAddr, entry_slots: u64, sequence: u64) -> Self {
        ArchiveEntry {
            kind: EntryType::Archive as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            address: addr.0,
            entry_slots: entry_slots as u32,
            reserved0: 0,
            sequence,
            reserved1: [0; 32],
        }
    }

    /// Blocks that hold `entry_slots` slots.
    pub const fn blocks_for(entry_slots: u64) -> u64 {
        (entry_slots * SLOT_BYTES).div_ceil(BLOCK_BYTES)
    }

    /// Blocks of the archive.
    pub fn blocks(&self) -> u64 {
        Self::blocks_for(u64::from(self.entry_slots))
    }

    fn is_possible(&self) -> bool {
        let addr = BlockAddr(self.address);
        let on_disk = !addr.is_pm()
            && usize::from(addr.device()) < crate::DEVICES_MAX
            && addr.block() + self.blocks() < crate::DEVICE_BLOCKS_MAX;
        self.slots == 1
            && self.sequence <= crate::LOG_SEQUENCE_MAX
            && (1..=ARCHIVE_SLOTS_MAX).contains(&u64::from(self.entry_slots))
            && on_disk
    }
}

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
    buf.extend_from_slice(head.as_bytes());
    if !(parts.is_empty() && size_of::<T>() as u64 == SLOT_BYTES) {
        parts.iter().for_each(|part| buf.extend_from_slice(part));
        let slots = slots_for(buf.len() - start);
        assert!(slots <= PAGE_SLOTS, "log entry too long");
        buf.resize(start + (slots * SLOT_BYTES) as usize, 0);
    }
    buf[start + 1] = ((buf.len() - start) as u64 / SLOT_BYTES) as u8;
}

/// Sets what depends on where an entry goes and how it commits: stamp and checksum.
pub fn finish_entry(entry: &mut [u8], seed: u32, stamp: Option<Stamp>) {
    // A copy of an entry that committed itself does not.
    let own = u16::from_le_bytes([entry[2], entry[3]]) & ((1 << STAMP_SHIFT) - 1);
    let flags = own | stamp.map_or(0, |Stamp(stamp)| stamp << STAMP_SHIFT);
    entry[2..4].copy_from_slice(&flags.to_le_bytes());
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

impl WriteEntry {
    /// Whether the data only came from elsewhere: the entry maps, and sets neither size nor times.
    pub fn is_move(&self) -> bool {
        self.kind == EntryType::Move as u8
    }

    /// The counter of the write-size predictor.
    pub fn counter(&self) -> u8 {
        self.counter as u8
    }

    /// Blocks of the write that brought the data, as a power of two, rounded down.
    pub fn area_blocks(&self) -> u64 {
        match self.counter >> 8 {
            0 => u64::from(self.blocks),
            log2 => 1 << (log2 - 1).min(62),
        }
    }

    /// The two in the form in which the entry holds them.
    pub fn history(counter: u8, area_blocks: u64) -> u16 {
        let log2 = area_blocks.checked_ilog2().map_or(0, |log2| log2 as u16 + 1);
        u16::from(counter) | log2 << 8
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
        let entry =
            |counter| WriteEntry { counter, blocks: 24, ..WriteEntry::from_bytes(&[0; 64]) };
        for (blocks, area) in [(1, 1), (8, 8), (9, 8), (4096, 4096), (1 << 40, 1 << 40)] {
            let entry = entry(WriteEntry::history(7, blocks));
            assert_eq!((entry.counter(), entry.area_blocks()), (7, area));
        }
        assert_eq!((entry(0).counter(), entry(0).area_blocks()), (0, 24));
        assert_eq!(entry(u16::MAX).area_blocks(), 1 << 62);
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
