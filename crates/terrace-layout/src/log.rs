//! Log pages: 4 KiB, a header of one slot and 63 slots of entries.
//!
//! Pages of one log are linked through `next`, a checked pointer that is stored once when the page
//! fills, and again when a dead page behind it is unlinked.

use crate::crc::crc_with_hole;
use crate::field::media_struct;
use crate::{BLOCK_BYTES, LayoutError, MediaStruct, SLOT_BYTES};
use zerocopy::IntoBytes;

/// First word of a log page.
pub const LOG_PAGE_MAGIC: u32 = u32::from_le_bytes(*b"TLOG");
/// Slots of entries in a page.
pub const PAGE_SLOTS: u64 = BLOCK_BYTES / SLOT_BYTES - 1;
/// Pages that a log can ever have had: more than anybody writes.
pub const LOG_SEQUENCE_MAX: u64 = 1 << 62;
/// Byte of the next pointer in a page.
pub const NEXT_OFFSET: u64 = core::mem::offset_of!(LogPageHeader, next) as u64;

media_struct! {
    /// Header of a log page.
    pub struct LogPageHeader [64] {
        /// [`LOG_PAGE_MAGIC`].
        pub magic: u32,
        /// CRC32C of the bytes before `next`, this field taken as zero.
        pub crc: u32,
        /// The inode that owns the page.
        pub ino: u64,
        /// That inode's generation.
        pub generation: u32,
        /// Zero.
        pub reserved0: u32,
        /// Counts the pages that this log ever had.
        pub sequence: u64,
        /// Checked pointer to the next page, or null.
        pub next: u64,
        /// Zero.
        pub reserved1: [u8; 24],
    }
}

impl LogPageHeader {
    /// The header of page `sequence` of an inode's log, with no page behind it.
    pub fn new(ino: u64, generation: u32, sequence: u64) -> LogPageHeader {
        let mut header = LogPageHeader {
            magic: LOG_PAGE_MAGIC,
            crc: 0,
            ino,
            generation,
            reserved0: 0,
            sequence,
            next: 0,
            reserved1: [0; 24],
        };
        header.crc = crc_with_hole(0, &header.as_bytes()[..NEXT_OFFSET as usize], 4);
        header
    }

    /// Reads the header of a page of inode `ino`.
    ///
    /// # Errors
    /// If it is damaged or another inode's.
    pub fn decode(bytes: &[u8], ino: u64, generation: u32) -> Result<LogPageHeader, LayoutError> {
        let header = LogPageHeader::from_bytes(bytes);
        let sound = header.magic == LOG_PAGE_MAGIC
            && header.crc == crc_with_hole(0, &bytes[..NEXT_OFFSET as usize], 4)
            && header.ino == ino
            && header.generation == generation
            && header.sequence <= LOG_SEQUENCE_MAX;
        if sound { Ok(header) } else { Err(LayoutError("a log page is damaged".into())) }
    }
}
