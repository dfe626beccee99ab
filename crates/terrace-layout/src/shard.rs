//! The page of a shard: where its inode table starts, and its journal.
//!
//! The journal holds one redo record: words to store. Its life: written with its checksum but
//! without its state, made durable, given its state, made durable (this commits it), applied, made
//! durable, cleared. Replaying it any number of times gives the same result. A crash cannot tear a
//! record that has a state, so one that does not pass is damaged.

use crate::crc::crc_with_hole;
use crate::field::media_struct;
use crate::{LayoutError, MediaStruct};
use zerocopy::IntoBytes;

/// Shards are at most this many.
pub const SHARDS_MAX: u16 = 64;
/// First word of a shard page.
pub const SHARD_MAGIC: u64 = u64::from_le_bytes(*b"TERSHARD");
/// State of a journal whose record is committed.
pub const JOURNAL_COMMITTED: u64 = u64::from_le_bytes(*b"TERREDO1");
/// Words in a journal record at most.
pub const JOURNAL_WORDS_MAX: usize = 32;
/// Byte of the journal record in a shard page.
pub const JOURNAL_OFFSET: u64 = 64;

media_struct! {
    /// Head of a shard's page; the journal record follows at byte 64.
    pub struct ShardPage [64] {
        /// [`SHARD_MAGIC`].
        pub magic: u64,
        /// CRC32C of the head, this field taken as zero.
        pub crc: u32,
        /// Which shard.
        pub shard: u16,
        /// Zero.
        pub reserved0: u16,
        /// Checked pointer to the first chunk of the shard's inode table.
        pub table: u64,
        /// Zero.
        pub reserved1: [u8; 40],
    }
}

media_struct! {
    /// A store to repeat: eight bytes at an 8-aligned byte of PM.
    pub struct JournalWord [16] {
        /// Byte of PM.
        pub at: u64,
        /// What to store.
        pub value: u64,
    }
}

media_struct! {
    /// The journal of a shard.
    pub struct JournalRecord [536] {
        /// [`JOURNAL_COMMITTED`], or 0: empty.
        pub state: u64,
        /// CRC32C of the record, this field taken as zero.
        pub crc: u32,
        /// Words in use.
        pub count: u32,
        /// Counts the records of this journal.
        pub sequence: u64,
        /// The stores.
        pub words: [JournalWord; 32],
    }
}

impl ShardPage {
    /// Sets the checksum.
    pub fn seal(&mut self) {
        self.crc = crc_with_hole(0, self.as_bytes(), 8);
    }

    /// Reads the head of shard `shard`'s page.
    ///
    /// # Errors
    /// If it is damaged or another shard's.
    pub fn decode(bytes: &[u8], shard: u16) -> Result<ShardPage, LayoutError> {
        let page = ShardPage::from_bytes(bytes);
        if page.magic != SHARD_MAGIC
            || page.crc != crc_with_hole(0, page.as_bytes(), 8)
            || page.shard != shard
        {
            return Err(LayoutError(format!("page of shard {shard} is damaged")));
        }
        Ok(page)
    }
}

impl JournalRecord {
    /// A committed record of `words`, at most [`JOURNAL_WORDS_MAX`].
    pub fn new(sequence: u64, stores: &[JournalWord]) -> JournalRecord {
        let mut words = [JournalWord { at: 0, value: 0 }; JOURNAL_WORDS_MAX];
        words[..stores.len()].copy_from_slice(stores);
        let mut record = JournalRecord {
            state: JOURNAL_COMMITTED,
            crc: 0,
            count: stores.len() as u32,
            sequence,
            words,
        };
        record.crc = crc_with_hole(0, record.used_bytes(), 8);
        record
    }

    /// The bytes that are written before `state`, which is stored alone.
    pub fn body(&self) -> &[u8] {
        &self.used_bytes()[size_of::<u64>()..]
    }

    /// The bytes that count: the head and the words in use.
    fn used_bytes(&self) -> &[u8] {
        let used = 24 + (self.count as usize).min(JOURNAL_WORDS_MAX) * size_of::<JournalWord>();
        &self.as_bytes()[..used]
    }

    /// The stores of a committed record, `None` if the journal is empty.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn committed(&self) -> Result<Option<&[JournalWord]>, LayoutError> {
        if self.state == 0 {
            return Ok(None);
        }
        let whole = self.state == JOURNAL_COMMITTED
            && self.count as usize <= JOURNAL_WORDS_MAX
            && self.crc == crc_with_hole(0, self.used_bytes(), 8);
        if whole {
            Ok(Some(&self.words[..self.count as usize]))
        } else {
            Err(LayoutError("a journal is damaged".into()))
        }
    }
}
