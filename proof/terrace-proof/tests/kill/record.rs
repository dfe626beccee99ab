//! Self-describing records: whatever bytes come back, we can tell which write they are from.

use terrace_proof::{Rng, crc32c};

/// Magic (8), length (4), checksum of the rest (4), slot (8), version (8).
pub const HEADER_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"RECORD01";

/// A record for `slot` in `version`, `len_bytes` long, its payload a function of both.
pub fn encode(slot: u64, version: u64, len_bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len_bytes);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&(len_bytes as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&slot.to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
    let payload = len_bytes.saturating_sub(HEADER_BYTES);
    out.extend_from_slice(&Rng::new(slot << 32 ^ version).bytes(payload));
    let crc = crc32c(&out[16..]);
    out[12..16].copy_from_slice(&crc.to_le_bytes());
    out
}

/// A record found at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    pub slot: u64,
    pub version: u64,
    pub len_bytes: usize,
}

/// Decodes the record at the start of `bytes`; `None` if there is no whole and undamaged one.
pub fn decode(bytes: &[u8]) -> Option<Found> {
    let number = |at: usize, len: usize| {
        let mut word = [0u8; 8];
        word[..len].copy_from_slice(bytes.get(at..at + len)?);
        Some(u64::from_le_bytes(word))
    };
    let len_bytes = number(8, 4)? as usize;
    let whole =
        bytes.get(..len_bytes).filter(|b| b.len() >= HEADER_BYTES && b.starts_with(MAGIC))?;
    let sound = u64::from(crc32c(&whole[16..])) == number(12, 4)?;
    sound.then_some(Found { slot: number(16, 8)?, version: number(24, 8)?, len_bytes })
}

#[test]
fn damage_is_noticed() {
    let record = encode(3, 9, 500);
    assert_eq!(decode(&record), Some(Found { slot: 3, version: 9, len_bytes: 500 }));
    for at in [0, 9, 13, 20, 30, 499] {
        let mut damaged = record.clone();
        damaged[at] ^= 1;
        assert_eq!(decode(&damaged), None, "byte {at}");
    }
    assert_eq!(decode(&record[..499]), None);
}
