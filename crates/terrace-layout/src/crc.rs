//! Checksums: CRC32C everywhere.
//!
//! Data blocks on disks are covered by CRCs kept apart from them. An extent too long to keep its CRCs in its write
//! entry keeps them in CRC blocks on the same device: 1023 CRCs, then the CRC of those.

use crate::BLOCK_BYTES;

/// CRCs of data blocks that one CRC block holds.
pub const CRCS_PER_BLOCK: u64 = BLOCK_BYTES / 4 - 1;

/// CRC blocks that an extent of `blocks` data blocks needs.
pub const fn crc_blocks_for(blocks: u64) -> u64 {
    blocks.div_ceil(CRCS_PER_BLOCK)
}

/// The checksum of (the committed bytes of) a data block.
pub fn data_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}

/// Writes the checksum of a CRC block into its last four bytes.
pub fn seal_crc_block(block: &mut [u8]) {
    let (body, seal) = block.split_at_mut(BLOCK_BYTES as usize - 4);
    seal.copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
}

/// Whether a CRC block's own checksum holds.
pub fn verify_crc_block(block: &[u8]) -> bool {
    let (body, seal) = block.split_at(BLOCK_BYTES as usize - 4);
    crc32c::crc32c(body).to_le_bytes() == seal
}

/// CRC32C of `bytes` with the four bytes at `hole` taken as zero, continued from `seed`.
pub(crate) fn crc_with_hole(seed: u32, bytes: &[u8], hole: usize) -> u32 {
    let crc = crc32c::crc32c_append(seed, &bytes[..hole]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    crc32c::crc32c_append(crc, &bytes[hole + 4..])
}
