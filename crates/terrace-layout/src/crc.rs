//! Checksums: CRC32C everywhere.
//!
//! Data blocks on disks are covered by CRCs kept apart from them. An extent too long to keep its
//! CRCs in its write entry keeps them in CRC blocks on the same device: 1023 CRCs, then the CRC of
//! those.

use crc_fast::{CrcAlgorithm, Digest};
use zerocopy::IntoBytes;

use crate::BLOCK_BYTES;

/// CRCs of data blocks that one CRC block holds.
pub const CRCS_PER_BLOCK: u64 = BLOCK_BYTES / 4 - 1;

/// CRC blocks that an extent of `blocks` data blocks needs.
pub const fn crc_blocks_for(blocks: u64) -> u64 {
    blocks.div_ceil(CRCS_PER_BLOCK)
}

/// The checksum of (the committed bytes of) a data block.
pub fn data_crc(bytes: &[u8]) -> u32 {
    crc_append(0, bytes)
}

/// The CRC32C of bytes that follow those whose CRC32C is `crc`.
pub fn crc_append(crc: u32, bytes: &[u8]) -> u32 {
    if crc == 0 {
        return crc_fast::crc32_iscsi(bytes);
    }
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

/// Writes the checksum of a CRC block into its last four bytes.
pub fn seal_crc_block(block: &mut [u8]) {
    let (body, seal) = block.split_at_mut(BLOCK_BYTES as usize - 4);
    seal.copy_from_slice(&crc_append(0, body).to_le_bytes());
}

/// Whether a CRC block's own checksum holds.
pub fn verify_crc_block(block: &[u8]) -> bool {
    let (body, seal) = block.split_at(BLOCK_BYTES as usize - 4);
    crc_append(0, body).to_le_bytes() == seal
}

/// Words that [`crc_with_hole`] copies; each hole lies within one of them.
const SHORT_WORDS: usize = 8;
const WORD_BYTES: usize = size_of::<u64>();

/// CRC32C of `bytes` with the four bytes at `hole` taken as zero, continued from `seed`.
#[inline]
pub(crate) fn crc_with_hole(seed: u32, bytes: &[u8], hole: usize) -> u32 {
    // Short structures, the many, in one go: starting a checksum costs more than 64 bytes of it. In
    // whole words, since the processor has to wait for a word that was stored in parts.
    let (head, rest) = bytes.split_at(bytes.len().min(SHORT_WORDS * WORD_BYTES));
    let mut words = [0u64; SHORT_WORDS];
    match head.try_into() {
        Ok(whole) => words = whole_words(whole),
        Err(_) => words.as_mut_bytes()[..head.len()].copy_from_slice(head),
    }
    let in_word = 8 * (hole % WORD_BYTES) as u32;
    words[hole / WORD_BYTES] &= !(u64::from(u32::MAX) << in_word).to_le();
    // A CRC that goes on from another is the CRC of bytes of which the first four were changed by
    // that.
    words[0] ^= u64::from(seed).to_le();
    let crc = crc_append(0, &words.as_bytes()[..head.len()]);
    if rest.is_empty() { crc } else { crc_append(crc, rest) }
}

#[inline]
fn whole_words(bytes: &[u8; SHORT_WORDS * WORD_BYTES]) -> [u64; SHORT_WORDS] {
    std::array::from_fn(|i| {
        u64::from_ne_bytes(bytes[i * WORD_BYTES..][..WORD_BYTES].try_into().expect("a word"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// One bit after the other, as the polynomial says.
        #[test]
        fn is_crc32c(
            seed: u32,
            mut bytes in proptest::collection::vec(any::<u8>(), 8..200),
            hole in 0usize..4,
        ) {
            let bitwise = |crc: u32, bytes: &[u8]| {
                !bytes.iter().fold(!crc, |crc, &byte| {
                    (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                        crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
                    })
                })
            };
            prop_assert_eq!(crc_append(seed, &bytes), bitwise(seed, &bytes));
            prop_assert_eq!(data_crc(&bytes), bitwise(0, &bytes));
            let with_hole = crc_with_hole(seed, &bytes, hole);
            bytes[hole..hole + 4].fill(0);
            prop_assert_eq!(with_hole, bitwise(seed, &bytes));
        }
    }
}
