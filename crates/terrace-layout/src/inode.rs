//! Inode tables and inode records.
//!
//! A shard's table is a chain of chunks. A chunk is a run of PM blocks: a header in the place of
//! the first record, then records. A record is four cache lines: what never changes and the two
//! words that commit, then the first three slots of the inode's log, so that a small file needs no
//! log page.

use crate::crc::crc_with_hole;
use crate::field::media_struct;
use crate::{CheckedPtr, LayoutError, MediaStruct, SLOT_BYTES, Tail};
use zerocopy::IntoBytes;

/// Bytes of an inode record.
pub const INODE_BYTES: u64 = 256;
/// Log slots inside an inode record.
pub const INLINE_SLOTS: u64 = 3;
/// Byte of the first inline slot in a record.
pub const INLINE_OFFSET: u64 = SLOT_BYTES;
/// First word of a chunk.
pub const CHUNK_MAGIC: u64 = u64::from_le_bytes(*b"TERCHUNK");
/// Records in the first chunk of a table and in the largest (headers included).
pub const CHUNK_RECORDS_MIN: u32 = 256;
/// See [`CHUNK_RECORDS_MIN`].
pub const CHUNK_RECORDS_MAX: u32 = 65536;

/// State of a record that no inode uses.
pub const INODE_FREE: u8 = 0;
/// State of a record in use.
pub const INODE_USED: u8 = 1;

media_struct! {
    /// Header of a chunk of an inode table.
    pub struct ChunkHeader [64] {
        /// [`CHUNK_MAGIC`].
        pub magic: u64,
        /// CRC32C of this header up to `next`, this field taken as zero.
        pub crc: u32,
        /// The shard that owns it.
        pub shard: u16,
        /// Zero.
        pub reserved0: u16,
        /// Records, this header counted.
        pub records: u32,
        /// Zero.
        pub reserved1: u32,
        /// Index in the shard of the record after this header.
        pub first_index: u64,
        /// Checked pointer to the next chunk, or null.
        pub next: u64,
        /// Free records when the volume was last unmounted cleanly.
        pub free_at_checkpoint: u64,
        /// Zero.
        pub reserved2: [u8; 16],
    }
}

media_struct! {
    /// Head of an inode record.
    pub struct InodeRecord [64] {
        /// [`INODE_FREE`] or [`INODE_USED`].
        pub state: u8,
        /// File type: `S_IFMT` bits of the mode, shifted right by 12.
        pub kind: u8,
        /// Zero.
        pub reserved0: u16,
        /// CRC32C of the bytes before `head`, this field taken as zero.
        pub crc: u32,
        /// Inode number.
        pub ino: u64,
        /// Counts the inodes that had this number.
        pub generation: u32,
        /// Permission and set-id bits at creation.
        pub mode: u32,
        /// Owner at creation.
        pub uid: u32,
        /// Group at creation.
        pub gid: u32,
        /// Device number of a device file.
        pub rdev: u32,
        /// Known to nobody else: part of the seed of the log's checksums
        /// ([`entry_seed`](crate::entry_seed)).
        pub secret: u32,
        /// When it was created: all its times until an entry says otherwise.
        pub created_ns: i64,
        /// Checked pointer to the first log page, or null; its flag: the inline slots are no longer
        /// part of the log.
        pub head: u64,
        /// [`Tail`] of the log.
        pub tail: u64,
    }
}

/// Byte of the head pointer in a record.
pub const HEAD_OFFSET: u64 = core::mem::offset_of!(InodeRecord, head) as u64;
/// Byte of the tail word in a record.
pub const TAIL_OFFSET: u64 = core::mem::offset_of!(InodeRecord, tail) as u64;
/// Byte of the next pointer in a chunk header.
pub const CHUNK_NEXT_OFFSET: u64 = core::mem::offset_of!(ChunkHeader, next) as u64;
/// Byte of the free count in a chunk header.
pub const CHUNK_FREE_OFFSET: u64 = core::mem::offset_of!(ChunkHeader, free_at_checkpoint) as u64;

impl ChunkHeader {
    /// Sets the checksum.
    pub fn seal(&mut self) {
        self.crc = crc_with_hole(0, &self.as_bytes()[..CHUNK_NEXT_OFFSET as usize], 8);
    }

    /// Reads the header of a chunk of `shard` whose records start at `first_index`, or, after a
    /// gap, later.
    ///
    /// # Errors
    /// If it is damaged or does not belong there.
    pub fn decode(bytes: &[u8], shard: u16, first_index: u64) -> Result<ChunkHeader, LayoutError> {
        let header = ChunkHeader::from_bytes(bytes);
        let sound = header.magic == CHUNK_MAGIC
            && header.crc == crc_with_hole(0, &bytes[..CHUNK_NEXT_OFFSET as usize], 8)
            && header.shard == shard
            && (first_index..1 << 56).contains(&header.first_index)
            && (2..=CHUNK_RECORDS_MAX).contains(&header.records);
        if !sound {
            return Err(LayoutError(format!("the chunk at index {first_index} is damaged")));
        }
        Ok(header)
    }
}

/// The user and the group that own an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Owner {
    /// The superuser and its group.
    pub const ROOT: Owner = Owner { uid: 0, gid: 0 };
}

impl InodeRecord {
    /// A record at byte `at` of PM with an empty log. Add [`Self::with_secret`] to the record of an
    /// inode that programs write to, and [`Self::with_device`] to that of a device node.
    pub fn new(
        at: u64,
        ino: u64,
        generation: u32,
        mode: u32,
        owner: Owner,
        created_ns: i64,
    ) -> Self {
        let mut record = InodeRecord {
            state: INODE_USED,
            kind: (mode >> 12) as u8,
            reserved0: 0,
            crc: 0,
            ino,
            generation,
            mode: mode & 0o7777,
            uid: owner.uid,
            gid: owner.gid,
            rdev: 0,
            secret: 0,
            created_ns,
            head: CheckedPtr::NULL.0,
            tail: Tail::new(at + INLINE_OFFSET, 0).0,
        };
        record.crc = record.checksum();
        record
    }

    /// The same record, of a device node with this number.
    #[must_use]
    pub fn with_device(mut self, rdev: u32) -> Self {
        if rdev != self.rdev {
            self.rdev = rdev;
            self.crc = self.checksum();
        }
        self
    }

    /// Who owns the inode, if no later entry of its log changes that.
    pub fn owner(&self) -> Owner {
        Owner { uid: self.uid, gid: self.gid }
    }

    /// The same record with a secret of its own.
    #[must_use]
    pub fn with_secret(mut self, secret: u32) -> Self {
        self.secret = secret;
        self.crc = self.checksum();
        self
    }

    /// Seed of the checksums of the entries in the record.
    pub fn log_seed(&self) -> u32 {
        crate::entry_seed(self.ino, self.generation, self.secret)
    }

    /// The first word (state, type, checksum): stored last when a record is made, and alone when it
    /// is freed.
    pub fn first_word(&self) -> u64 {
        u64::from_le_bytes(self.as_bytes()[..8].try_into().expect("eight bytes"))
    }

    /// The same record, free: it differs in its first word only.
    #[must_use]
    pub fn freed(mut self) -> Self {
        self.state = INODE_FREE;
        self.crc = self.checksum();
        self
    }

    /// A free record that remembers its generation.
    pub fn free(ino: u64, generation: u32) -> Self {
        let mut record = InodeRecord::new(0, ino, generation, 0, Owner::ROOT, 0);
        record.state = INODE_FREE;
        record.tail = 0;
        record.crc = record.checksum();
        record
    }

    fn checksum(&self) -> u32 {
        crc_with_hole(0, &self.as_bytes()[..HEAD_OFFSET as usize], 4)
    }

    /// Reads record `ino`. A record of zeros was never used and is free.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn decode(bytes: &[u8], ino: u64) -> Result<InodeRecord, LayoutError> {
        let record = InodeRecord::from_bytes(bytes);
        if record.as_bytes().iter().all(|&b| b == 0) {
            return Ok(InodeRecord::free(ino, 0));
        }
        if record.crc != record.checksum() || record.ino != ino || record.state > INODE_USED {
            return Err(LayoutError("an inode's record is damaged".into()));
        }
        Ok(record)
    }
}
