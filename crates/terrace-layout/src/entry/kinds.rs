//! The types of entries and the fixed part of each.

use crate::field::media_struct;
use crate::{BLOCK_BYTES, BlockAddr, PAGE_SLOTS, SLOT_BYTES};

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
    pub(super) fn from_u8(value: u8) -> Option<EntryType> {
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
        /// What the policy remembers: see [`History`].
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

    pub(super) fn is_possible(&self) -> bool {
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

impl WriteEntry {
    /// Whether the data only came from elsewhere: the entry maps, and sets neither size nor times.
    pub fn is_move(&self) -> bool {
        self.kind == EntryType::Move as u8
    }

    /// What the policy remembers of the data.
    pub fn history(&self) -> History {
        History::of_word(self.counter)
    }
}

/// What the policy remembers of the data that an entry maps: a word of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Counter of the write-size predictor, at most 15: bits 0 to 3.
    pub counter: u8,
    /// One more than the binary logarithm of the blocks of the write that brought the data, at
    /// most 63; 0 if those are all of the entry's: bits 8 to 13.
    pub area_log2: u8,
    /// Number of the rule that put the data where it is, at most 63; 0 if nobody has noted it:
    /// its lower four bits in bits 4 to 7, the others in bits 14 and 15.
    pub rule: u8,
}

impl History {
    /// Of data that a write of so many blocks has brought.
    #[inline]
    pub const fn new(counter: u8, area_blocks: u64, rule: u8) -> Self {
        let area_log2 = match area_blocks.checked_ilog2() {
            Some(log2) => log2 as u8 + 1,
            None => 0,
        };
        Self { counter, area_log2, rule }
    }

    /// As an entry holds it.
    #[inline]
    pub const fn of_word(word: u16) -> Self {
        let [low, high] = word.to_le_bytes();
        Self { counter: low & 15, area_log2: high & 63, rule: low >> 4 | (high >> 6) << 4 }
    }

    /// The word for an entry.
    #[inline]
    pub const fn to_word(self) -> u16 {
        let low = self.counter & 15 | self.rule << 4;
        u16::from_le_bytes([low, self.area_log2 & 63 | (self.rule >> 4) << 6])
    }

    /// Blocks of the write that brought the data, as a power of two, rounded down; `blocks` are
    /// those of the entry.
    #[inline]
    pub fn area_blocks(self, blocks: u32) -> u64 {
        match self.area_log2 {
            0 => u64::from(blocks),
            log2 => 1 << (log2 - 1).min(62),
        }
    }
}
