//! Blocks: a header with a checksum of its own, and a payload of records or of the trace's end.
//!
//! Header, little-endian: 0 length of the payload (u32), 4 number of records (u32), 8 number of the
//! block (u64), 16 time of the first record in microseconds (u64), 24 operations lost so far (u64),
//! 32 kind (u32: 0 records without durations, 1 the end, 2 records), 36 CRC32C of the payload
//! (u32), 40 CRC32C of the bytes before (u32). A length is believed only after its checksum was.

use crate::error::{TraceError, damaged};
use crate::record::{Context, RECORD_BYTES_MAX, Record};

pub(crate) const HEADER_BYTES: usize = 44;
/// Most bytes of records in a block.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Records that do not say how long operations took: until format 2.
    Untimed,
    End,
    Records,
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub payload_bytes: u32,
    pub records: u32,
    pub number: u64,
    pub time_us: u64,
    pub lost: u64,
    pub kind: Kind,
    pub payload_crc: u32,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.records.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.time_us.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lost.to_le_bytes());
        bytes[32..36].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[36..40].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c(&bytes[..40]);
        bytes[40..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `offset`: where the header is, for the error.
    pub fn decode(bytes: &[u8; HEADER_BYTES], offset: u64) -> Result<Header, TraceError> {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if crc32c(&bytes[..40]) != u32_at(40) {
            return Err(damaged(offset, "the checksum of a block's header does not match"));
        }
        let kind = match u32_at(32) {
            0 => Kind::Untimed,
            1 => Kind::End,
            2 => Kind::Records,
            kind => return Err(damaged(offset, format!("a block of unknown kind {kind}"))),
        };
        let header = Header {
            payload_bytes: u32_at(0),
            records: u32_at(4),
            number: u64_at(8),
            time_us: u64_at(16),
            lost: u64_at(24),
            kind,
            payload_crc: u32_at(36),
        };
        if header.payload_bytes as usize > PAYLOAD_BYTES_MAX {
            return Err(damaged(offset, format!("a block of {} bytes", header.payload_bytes)));
        }
        Ok(header)
    }

    /// Appends the records of the payload to `records`.
    pub fn decode_records(
        &self,
        payload: &[u8],
        offset: u64,
        records: &mut Vec<Record>,
    ) -> Result<(), TraceError> {
        let mut context = match self.kind {
            Kind::Untimed => Context::untimed(self.time_us),
            _ => Context::new(self.time_us),
        };
        let mut rest = payload;
        for number in 0..self.records {
            let record = context.decode(&mut rest).ok_or_else(|| {
                damaged(
                    offset,
                    format!("record {number} of the block is none that this program knows"),
                )
            })?;
            records.push(record);
        }
        if !rest.is_empty() {
            return Err(damaged(
                offset,
                format!("{} bytes follow the last record of the block", rest.len()),
            ));
        }
        Ok(())
    }
}

/// Makes the blocks of a trace, one after another.
#[derive(Debug)]
pub struct BlockEncoder {
    payload_bytes_max: usize,
    payload: Vec<u8>,
    records: u32,
    number: u64,
    /// Of the first record, and of the last one.
    times_us: (u64, u64),
    context: Context,
}

impl BlockEncoder {
    /// For blocks of at most `block_bytes` bytes altogether, within [`PAYLOAD_BYTES_MAX`]; at least
    /// one record always fits.
    pub fn new(block_bytes: usize) -> Self {
        Self {
            payload_bytes_max: payload_bytes_max(block_bytes),
            payload: Vec::new(),
            records: 0,
            number: 0,
            times_us: (0, 0),
            context: Context::new(0),
        }
    }

    /// Another limit than the one given to [`Self::new`].
    pub fn limit(&mut self, block_bytes: usize) {
        self.payload_bytes_max = payload_bytes_max(block_bytes);
    }

    /// Adds a record; false if the block must be finished first. A time before that of the last
    /// record becomes that.
    pub fn push(&mut self, record: &Record) -> bool {
        if self.payload.len() + RECORD_BYTES_MAX > self.payload_bytes_max {
            return false;
        }
        let record = Record { time_us: record.time_us.max(self.times_us.1), ..*record };
        if self.records == 0 {
            self.times_us.0 = record.time_us;
            self.context = Context::new(record.time_us);
        }
        self.times_us.1 = record.time_us;
        self.context.encode(&record, &mut self.payload);
        self.records += 1;
        true
    }

    /// Whether nothing was added since the last block.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// The block, and begins the next. `lost`: operations that nobody recorded, so far.
    pub fn finish(&mut self, lost: u64) -> Vec<u8> {
        let payload = std::mem::take(&mut self.payload);
        let records = std::mem::take(&mut self.records);
        let block = encode(Kind::Records, self.number, records, self.times_us.0, lost, &payload);
        self.number += 1;
        block
    }
}

fn payload_bytes_max(block_bytes: usize) -> usize {
    block_bytes.saturating_sub(HEADER_BYTES).clamp(RECORD_BYTES_MAX, PAYLOAD_BYTES_MAX)
}

pub(crate) fn encode(
    kind: Kind,
    number: u64,
    records: u32,
    time_us: u64,
    lost: u64,
    payload: &[u8],
) -> Vec<u8> {
    let payload_crc = crc32c(payload);
    let header = Header {
        payload_bytes: payload.len() as u32,
        records,
        number,
        time_us,
        lost,
        kind,
        payload_crc,
    };
    let mut block = header.encode().to_vec();
    block.extend_from_slice(payload);
    block
}

/// The CRC32C of bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
