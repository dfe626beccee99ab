//! The preamble of a trace: what the volume was like.
//!
//! Layout: magic (8 bytes), major and minor version (u16 each), length of the facts (u32), the
//! facts as JSON, CRC32C of all of that (u32). Numbers are little-endian.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use crate::error::{TraceError, damaged};
use crate::version::{FORMAT_MAJOR, FORMAT_MINOR};

const MAGIC: [u8; 8] = *b"TERRTRC\n";
const FIXED_BYTES: usize = 16;
/// Far more than the facts of the greatest volume take.
const FACTS_BYTES_MAX: u32 = 1 << 20;

/// The volume that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// Version of the program that recorded.
    pub program: String,
    /// When recording began, in nanoseconds since 1970.
    pub started_unix_ns: i64,
    /// PM first.
    pub tiers: Vec<TierFacts>,
    /// Budget of the page cache in bytes.
    pub cache_bytes: u64,
    /// PM took file data up to this usage.
    pub pm_full_percent: u8,
    /// Age in seconds at which dirty pages were written back.
    pub writeback_seconds: u32,
    /// Every write was durable when it returned.
    pub durable: bool,
}

/// A tier of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TierFacts {
    /// Its number; 0 is PM.
    pub tier: u8,
    /// Size of its devices in bytes.
    pub capacity_bytes: u64,
    /// Bytes in use when recording began.
    pub used_bytes: u64,
}

impl Facts {
    /// Size of PM in bytes.
    pub fn pm_bytes(&self) -> u64 {
        self.tiers.iter().filter(|tier| tier.tier == 0).map(|tier| tier.capacity_bytes).sum()
    }

    /// Size of all disks in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.tiers
            .iter()
            .filter(|tier| tier.tier > 0)
            .fold(0, |sum, tier| sum.saturating_add(tier.capacity_bytes))
    }

    pub(crate) fn write(&self, out: &mut impl Write) -> Result<u64, TraceError> {
        let json = serde_json::to_vec(self).map_err(std::io::Error::from)?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT_MAJOR.to_le_bytes());
        bytes.extend_from_slice(&FORMAT_MINOR.to_le_bytes());
        bytes.extend_from_slice(&(json.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&json);
        bytes.extend_from_slice(&crate::block::crc32c(&bytes).to_le_bytes());
        out.write_all(&bytes)?;
        Ok(bytes.len() as u64)
    }

    /// The facts, and the length of the preamble.
    pub(crate) fn read(input: &mut impl Read) -> Result<(Facts, u64), TraceError> {
        let mut bytes = Vec::new();
        read_more(input, &mut bytes, FIXED_BYTES)?;
        if !MAGIC.starts_with(&bytes[..bytes.len().min(MAGIC.len())]) || bytes.is_empty() {
            return Err(TraceError::Foreign);
        }
        if bytes.len() < FIXED_BYTES {
            return Err(TraceError::NoHeader { bytes: bytes.len() as u64 });
        }
        let major = u16::from_le_bytes([bytes[8], bytes[9]]);
        if major > FORMAT_MAJOR {
            return Err(TraceError::Newer { major });
        }
        let facts_bytes = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
        if facts_bytes > FACTS_BYTES_MAX {
            return Err(damaged(12, format!("a header of {facts_bytes} bytes")));
        }
        let crc_at = FIXED_BYTES + facts_bytes as usize;
        read_more(input, &mut bytes, facts_bytes as usize + 4)?;
        let Some((checked, crc)) = bytes.split_at_checked(crc_at).filter(|(_, crc)| crc.len() == 4)
        else {
            return Err(TraceError::NoHeader { bytes: bytes.len() as u64 });
        };
        if crate::block::crc32c(checked).to_le_bytes() != crc {
            return Err(damaged(0, "the checksum of the header does not match"));
        }
        let facts = serde_json::from_slice(&checked[FIXED_BYTES..]).map_err(|error| {
            damaged(FIXED_BYTES as u64, format!("the facts of the volume: {error}"))
        })?;
        Ok((facts, bytes.len() as u64))
    }
}

/// Appends up to `len` bytes; fewer at the end of the input.
pub(crate) fn read_more(
    input: &mut impl Read,
    bytes: &mut Vec<u8>,
    len: usize,
) -> Result<(), TraceError> {
    input.take(len as u64).read_to_end(bytes)?;
    Ok(())
}
