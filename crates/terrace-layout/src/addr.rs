//! Addresses on media: blocks on any device, slots in PM, and the words that commit them.

use crate::LayoutError;

/// Bytes in a block, the unit of allocation on every device.
pub const BLOCK_BYTES: u64 = 4096;

/// [`BLOCK_BYTES`] as a `usize`.
pub const BLOCK: usize = BLOCK_BYTES as usize;

/// Bytes of file block `block` that lie in a file of `size` bytes: those that a checksum covers in
/// a PM entry that set the size to `size`.
#[inline]
pub fn covered_bytes(block: u64, size: u64) -> usize {
    size.saturating_sub(block * BLOCK_BYTES).min(BLOCK_BYTES) as usize
}
/// Bytes in a log slot: one cache line, the unit of log entries and of the tail.
pub const SLOT_BYTES: u64 = 64;
/// Device indices are below this (7 bits in a checked pointer).
pub const DEVICES_MAX: usize = 16;
/// Blocks per device are below this (40 bits: 4 PiB).
pub const DEVICE_BLOCKS_MAX: u64 = 1 << 40;

/// A block on a device: index of the device above bit 48, number of the block below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockAddr(pub u64);

impl std::fmt::Debug for BlockAddr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.device(), self.block())
    }
}

impl BlockAddr {
    /// Block `block` of device `device`.
    pub const fn new(device: u16, block: u64) -> Self {
        debug_assert!(block < DEVICE_BLOCKS_MAX && (device as usize) < DEVICES_MAX);
        Self((device as u64) << 48 | block)
    }

    /// A block of PM, device 0.
    pub const fn pm(block: u64) -> Self {
        Self::new(0, block)
    }

    /// Index of the device.
    pub const fn device(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Number of the block on its device.
    pub const fn block(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }

    /// Whether the block lies in PM.
    pub const fn is_pm(self) -> bool {
        self.device() == 0
    }

    /// First byte of the block on its device.
    pub const fn byte(self) -> u64 {
        self.block() * BLOCK_BYTES
    }

    /// The block `n` further on the same device.
    #[must_use]
    pub const fn offset(self, n: u64) -> Self {
        Self(self.0 + n)
    }
}

/// Check bits of a committed word: a multiplicative hash, since a CRC of eight bytes buys nothing
/// here.
const fn check_bits(value: u64, bits: u32) -> u64 {
    (value ^ 0x5445_5252_4143_4531).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)
}

/// A pointer to a block in one atomic word: 16 check bits, a flag, 7 bits of device, 40 bits of
/// block.
///
/// Zero is the null pointer: block 0 of PM holds a superblock, so nobody points there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CheckedPtr(pub u64);

impl CheckedPtr {
    /// Points nowhere.
    pub const NULL: CheckedPtr = CheckedPtr(0);
    const FLAG: u64 = 1 << 47;

    /// A pointer to `addr`; the flag's meaning is the owner's.
    pub const fn new(addr: BlockAddr, flag: bool) -> Self {
        let value = (addr.device() as u64) << 40 | addr.block() | if flag { Self::FLAG } else { 0 };
        Self(check_bits(value, 16) << 48 | value)
    }

    /// The address and the flag, `None` for the null pointer.
    ///
    /// # Errors
    /// If the check bits do not match: the word was damaged.
    pub fn get(self) -> Result<Option<(BlockAddr, bool)>, LayoutError> {
        if self.0 == 0 {
            return Ok(None);
        }
        let value = self.0 & ((1 << 48) - 1);
        let device = (value >> 40 & 0x7f) as u16;
        if self.0 >> 48 != check_bits(value, 16) || device as usize >= DEVICES_MAX {
            return Err(LayoutError(format!("it reads {:#018x}", self.0)));
        }
        let block = value & (DEVICE_BLOCKS_MAX - 1);
        Ok(Some((BlockAddr::new(device, block), value & Self::FLAG != 0)))
    }
}

/// The tail of an inode log in one atomic word: 12 bits of generation, 8 check bits, 44 bits of
/// slot number in PM.
///
/// Storing it commits everything appended before it. The generation lets a delegation be revoked:
/// whoever appends under an old generation fails its compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail(pub u64);

impl Tail {
    /// Generations are below this.
    pub const GENERATIONS: u16 = 1 << 12;

    /// A tail at byte `pm_byte` of PM, which must be a multiple of [`SLOT_BYTES`].
    pub const fn new(pm_byte: u64, generation: u16) -> Self {
        debug_assert!(pm_byte.is_multiple_of(SLOT_BYTES) && generation < Self::GENERATIONS);
        let slot = pm_byte / SLOT_BYTES;
        let check = check_bits(slot | (generation as u64) << 52, 8);
        Self((generation as u64) << 52 | check << 44 | slot)
    }

    /// The byte of PM and the generation.
    ///
    /// # Errors
    /// If the check bits do not match: the word was damaged.
    pub fn get(self) -> Result<(u64, u16), LayoutError> {
        let slot = self.0 & ((1 << 44) - 1);
        let generation = (self.0 >> 52) as u16;
        if Self::new(slot * SLOT_BYTES, generation) != self {
            return Err(LayoutError(format!("it reads {:#018x}", self.0)));
        }
        Ok((slot * SLOT_BYTES, generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pointers_round_trip(device in 0u16..16, block in 1u64..DEVICE_BLOCKS_MAX, flag: bool) {
            let addr = BlockAddr::new(device, block);
            prop_assert_eq!(CheckedPtr::new(addr, flag).get(), Ok(Some((addr, flag))));
        }

        #[test]
        fn tails_round_trip(slot in 0u64..1 << 44, generation in 0u16..Tail::GENERATIONS) {
            prop_assert_eq!(Tail::new(slot * 64, generation).get(), Ok((slot * 64, generation)));
        }

        #[test]
        fn a_flipped_bit_of_a_pointer_is_noticed(block in 1u64..1 << 30, bit in 0u32..64) {
            let damaged = CheckedPtr(CheckedPtr::new(BlockAddr::pm(block), false).0 ^ 1 << bit);
            prop_assert!(damaged.get().is_err());
        }
    }

    #[test]
    fn null_is_null() {
        assert_eq!(CheckedPtr::NULL.get(), Ok(None));
    }
}
