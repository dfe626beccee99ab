//! The checkpoint that a clean unmount leaves: free space, so that the next mount need not scan the
//! logs.
//!
//! Every device keeps its own: group summaries, then a bitmap of its blocks. PM's checkpoint header
//! binds them together; its `valid` word is cleared durably before the first change after a mount.

use crate::crc::{crc_with_hole, data_crc};
use crate::field::media_struct;
use crate::{BLOCK, LayoutError, MediaStruct};
use zerocopy::IntoBytes;

/// Value of the `valid` word of a checkpoint that may be used.
pub const CHECKPOINT_VALID: u64 = u64::from_le_bytes(*b"TERCLEAN");

media_struct! {
    /// One allocation group in a device's checkpoint.
    pub struct GroupSummary [8] {
        /// Free blocks.
        pub free: u32,
        /// CRC32C of the group's part of the bitmap.
        pub bitmap_crc: u32,
    }
}

media_struct! {
    /// One device in the checkpoint header.
    pub struct CheckpointDevice [16] {
        /// Free blocks.
        pub free: u64,
        /// CRC32C of the device's group summaries.
        pub summaries_crc: u32,
        /// Zero.
        pub reserved: u32,
    }
}

media_struct! {
    /// The checkpoint header, in a block of its own in PM.
    pub struct CheckpointHeader [320] {
        /// [`CHECKPOINT_VALID`], or anything else: recover from the logs.
        pub valid: u64,
        /// CRC32C of what follows this field and its neighbour.
        pub crc: u32,
        /// Zero.
        pub reserved0: u32,
        /// Mount epoch that wrote it.
        pub mount_epoch: u64,
        /// Inodes in use.
        pub inodes: u64,
        /// Devices, as in the device table.
        pub devices: [CheckpointDevice; 16],
        /// Rows of kinds of files, behind the header.
        pub siblings: u32,
        /// CRC32C of these rows.
        pub siblings_crc: u32,
        /// Zero.
        pub reserved1: [u8; 24],
    }
}

media_struct! {
    /// Files of one kind, counted: a hint for the placement of new ones.
    pub struct SiblingRow [32] {
        /// Hash of the directory and the pattern of names.
        pub kind: u64,
        /// When a file was last born to it, in births of all kinds.
        pub last_birth: u32,
        /// Files born, with a weight that fades.
        pub births: u8,
        /// Of these, files that showed a trait, by its number.
        pub showed: [u8; 12],
        /// Zero.
        pub reserved: [u8; 7],
    }
}

/// Rows that have room behind the checkpoint header, in its block.
pub const SIBLING_ROWS_MAX: usize =
    (BLOCK - size_of::<CheckpointHeader>()) / size_of::<SiblingRow>();

impl CheckpointHeader {
    fn checksum(&self) -> u32 {
        crc_with_hole(0, &self.as_bytes()[8..], 0)
    }

    /// Sets the checksum (which leaves out `valid`, stored last and alone).
    pub fn seal(&mut self) {
        self.crc = self.checksum();
    }

    /// The rows of siblings in the block of a header, whether the checkpoint is valid or not: they
    /// are as true after a crash. None if the block is damaged.
    pub fn siblings(block: &[u8; BLOCK]) -> impl Iterator<Item = SiblingRow> + '_ {
        let (header, rows) = block.split_at(size_of::<CheckpointHeader>());
        let header = CheckpointHeader::from_bytes(header);
        let known = (header.siblings as usize).min(SIBLING_ROWS_MAX);
        let rows = &rows[..known * size_of::<SiblingRow>()];
        let is_sound = header.crc == header.checksum() && header.siblings_crc == data_crc(rows);
        let rows = if is_sound { rows } else { &[] };
        rows.chunks_exact(size_of::<SiblingRow>()).map(SiblingRow::from_bytes)
    }

    /// The header, if it is valid and was written by the mount with this epoch.
    pub fn usable(bytes: &[u8], mount_epoch: u64) -> Option<CheckpointHeader> {
        let header = CheckpointHeader::from_bytes(bytes);
        let usable = header.valid == CHECKPOINT_VALID
            && header.crc == header.checksum()
            && header.mount_epoch == mount_epoch;
        usable.then_some(header)
    }
}

/// Compares a checksum of checkpoint bytes.
///
/// # Errors
/// Names `what` is damaged.
pub fn verify_checkpoint_part(what: &str, bytes: &[u8], crc: u32) -> Result<(), LayoutError> {
    if data_crc(bytes) == crc {
        Ok(())
    } else {
        Err(LayoutError(format!("checkpoint: {what} is damaged")))
    }
}
