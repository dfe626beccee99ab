//! Reading a trace.
//!
//! Invariant: every record that is handed out was in a block with two matching checksums, and its
//! block came next. A block that is not whole is cut off at the very end ([`Ending::Torn`]); in the
//! middle it is damage.

use std::io::{BufRead, BufReader, Read};

use crate::block::{HEADER_BYTES, Header, Kind};
use crate::error::{TraceError, damaged};
use crate::facts::{Facts, read_more};
use crate::record::Record;
use crate::write::Ending;

/// What a trace had in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Records.
    pub records: u64,
    /// Operations that could not be recorded.
    pub lost: u64,
    /// How it ended.
    pub ending: Ending,
    /// Bytes of it that were whole.
    pub whole_bytes: u64,
}

/// Reads a trace, block by block.
#[derive(Debug)]
pub struct Reader<R: Read> {
    input: BufReader<R>,
    facts: Facts,
    blocks: u64,
    summary: Summary,
    ended: bool,
    payload: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the preamble.
    ///
    /// # Errors
    /// It is no trace, one of a newer version, damaged, or shorter than its preamble; `input`
    /// cannot be read.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let mut input = BufReader::with_capacity(1 << 18, input);
        let (facts, whole_bytes) = Facts::read(&mut input)?;
        let summary = Summary { records: 0, lost: 0, ending: Ending::Torn, whole_bytes };
        Ok(Self { input, facts, blocks: 0, summary, ended: false, payload: Vec::new() })
    }

    /// The volume that was recorded.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What was read so far; after the last block, of the whole trace.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Replaces `records` by those of the next block; false after the last one.
    ///
    /// # Errors
    /// Damage, with its place; `input` cannot be read.
    pub fn next_block(&mut self, records: &mut Vec<Record>) -> Result<bool, TraceError> {
        records.clear();
        let offset = self.summary.whole_bytes;
        let Some(header) = self.read_header(offset)? else { return Ok(false) };
        if header.number != self.blocks {
            return Err(damaged(
                offset,
                format!("block {} stands where {} comes next", header.number, self.blocks),
            ));
        }
        self.payload.clear();
        read_more(&mut self.input, &mut self.payload, header.payload_bytes as usize)?;
        let is_short = self.payload.len() < header.payload_bytes as usize;
        if is_short || crate::block::crc32c(&self.payload) != header.payload_crc {
            if is_short || self.is_at_end()? {
                self.ended = true;
                return Ok(false);
            }
            return Err(damaged(offset, "the checksum of a block does not match"));
        }
        match header.kind {
            Kind::End => self.end(offset)?,
            _ => header.decode_records(&self.payload, offset, records)?,
        }
        self.blocks += 1;
        self.summary.records += records.len() as u64;
        self.summary.lost = header.lost;
        self.summary.whole_bytes += (HEADER_BYTES + self.payload.len()) as u64;
        Ok(header.kind != Kind::End)
    }

    /// The header of the next block; `None` where the trace ends, torn or not.
    fn read_header(&mut self, offset: u64) -> Result<Option<Header>, TraceError> {
        let mut bytes = Vec::new();
        if !self.ended {
            read_more(&mut self.input, &mut bytes, HEADER_BYTES)?;
        }
        let Ok(bytes) = <&[u8; HEADER_BYTES]>::try_from(&bytes[..]) else {
            self.ended = true;
            return Ok(None);
        };
        match Header::decode(bytes, offset) {
            // A file system may have lengthened the file, but not written it, before the power
            // failed.
            Err(_) if bytes.iter().all(|&byte| byte == 0) && self.only_zeros_follow()? => {
                self.ended = true;
                Ok(None)
            }
            header => header.map(Some),
        }
    }

    fn end(&mut self, offset: u64) -> Result<(), TraceError> {
        let code = self.payload.first().copied().unwrap_or(u8::MAX);
        let ending = Ending::WRITTEN.get(usize::from(code));
        self.summary.ending =
            *ending.ok_or_else(|| damaged(offset, format!("unknown ending {code}")))?;
        self.ended = true;
        if !self.is_at_end()? {
            let after = offset + (HEADER_BYTES + self.payload.len()) as u64;
            return Err(damaged(after, "something follows the end of the trace"));
        }
        Ok(())
    }

    fn is_at_end(&mut self) -> Result<bool, TraceError> {
        Ok(self.input.fill_buf()?.is_empty())
    }

    fn only_zeros_follow(&mut self) -> Result<bool, TraceError> {
        loop {
            let buffer = self.input.fill_buf()?;
            if buffer.is_empty() {
                return Ok(true);
            }
            if buffer.iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            let len = buffer.len();
            self.input.consume(len);
        }
    }
}
