//! Checksums and check bits made right after a change: what a checksum would catch is not what
//! needs the fuzzing.

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CheckedPtr, DEVICES_MAX, EntryType, JOURNAL_WORDS_MAX, PAGE_SLOTS,
    SLOT_BYTES, Tail, seal_crc_block,
};

/// How the bytes of a structure are made to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    /// A CRC32C of the first `covered` bytes from `from` on, in the field at `field`, which counts
    /// as zero.
    Crc {
        /// First byte covered.
        from: usize,
        /// Byte after the last one.
        to: usize,
        /// Byte of the checksum.
        field: usize,
    },
    /// A log entry with this seed.
    Entry(u32),
    /// A journal record.
    Journal,
    /// A checksum block.
    CrcBlock,
    /// A checked pointer at this byte; null stays null.
    Pointer(usize),
    /// A tail at this byte.
    Tail(usize),
}

fn crc(seed: u32, bytes: &mut [u8], field: usize) {
    bytes[field..field + 4].fill(0);
    let crc = terrace_layout::crc_append(seed, bytes);
    bytes[field..field + 4].copy_from_slice(&crc.to_le_bytes());
}

fn word(bytes: &mut [u8], at: usize, change: impl FnOnce(u64) -> u64) {
    let word = &mut bytes[at..at + 8];
    let value = u64::from_le_bytes(word.try_into().expect("eight bytes"));
    word.copy_from_slice(&change(value).to_le_bytes());
}

fn pointer(value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let (device, block) =
        ((value >> 40) as u16 & (DEVICES_MAX as u16 - 1), value & ((1 << 40) - 1));
    CheckedPtr::new(BlockAddr::new(device, block), value >> 47 & 1 != 0).0
}

fn tail(value: u64) -> u64 {
    Tail::new((value & ((1 << 44) - 1)) * SLOT_BYTES, (value >> 52) as u16).0
}

/// Seals the structure at the start of `bytes`, which may go on behind it. One that claims to be
/// longer than `bytes` is left alone.
pub fn seal(how: Seal, bytes: &mut [u8]) {
    match how {
        Seal::Crc { from, to, field } => crc(0, &mut bytes[from..to], field - from),
        Seal::Entry(seed) => {
            let slots = if bytes[0] == EntryType::Pad as u8 {
                1
            } else {
                u64::from(bytes[1]).min(PAGE_SLOTS)
            };
            if let Some(entry) = bytes.get_mut(..(slots * SLOT_BYTES) as usize)
                && !entry.is_empty()
            {
                crc(seed, entry, 4);
            }
        }
        Seal::Journal => {
            let count = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes")) as usize;
            crc(0, &mut bytes[..24 + count.min(JOURNAL_WORDS_MAX) * 16], 8);
        }
        Seal::CrcBlock => seal_crc_block(&mut bytes[..BLOCK_BYTES as usize]),
        Seal::Pointer(at) => word(bytes, at, pointer),
        Seal::Tail(at) => word(bytes, at, tail),
    }
}
