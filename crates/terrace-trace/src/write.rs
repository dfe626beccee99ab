//! Writing a trace.
//!
//! Invariant: blocks are numbered from 0 without a gap, and the last one says how the trace ended.
//! A trace whose writer was killed lacks that one and is read all the same.

use std::io::Write;

use crate::block::{BlockEncoder, HEADER_BYTES, Header, Kind, PAYLOAD_BYTES_MAX, encode};
use crate::error::{TraceError, damaged};
use crate::facts::Facts;
use crate::record::Record;

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nobody wants more records.
    Asked,
    /// The volume was unmounted, or its daemon died: the operations of the last moment may be
    /// missing.
    Unmounted,
    /// It just stops: its writer was killed, or the disk was full.
    Torn,
}

impl Ending {
    pub(crate) const WRITTEN: [Self; 2] = [Self::Asked, Self::Unmounted];
}

/// Writes a trace.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    encoder: BlockEncoder,
    written_bytes: u64,
    blocks: u64,
    records: u64,
    lost: u64,
    last_us: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the preamble.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(mut out: W, facts: &Facts) -> Result<Self, TraceError> {
        let written_bytes = facts.write(&mut out)?;
        let encoder = BlockEncoder::new(PAYLOAD_BYTES_MAX + HEADER_BYTES);
        Ok(Self { out, encoder, written_bytes, blocks: 0, records: 0, lost: 0, last_us: 0 })
    }

    /// Writes a record. Not to be mixed with [`Self::append_block`].
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn push(&mut self, record: &Record) -> Result<(), TraceError> {
        if !self.encoder.push(record) {
            self.finish_block()?;
            self.encoder.push(record);
        }
        Ok(())
    }

    fn finish_block(&mut self) -> Result<(), TraceError> {
        let block = self.encoder.finish(self.lost);
        self.append_block(&block)
    }

    /// Writes the next block that a [`BlockEncoder`] made elsewhere.
    ///
    /// # Errors
    /// It is none, or not the next; `out` cannot be written.
    pub fn append_block(&mut self, block: &[u8]) -> Result<(), TraceError> {
        let at = self.written_bytes;
        let (header, payload) =
            block.split_first_chunk().ok_or_else(|| damaged(at, "a block without a header"))?;
        let header = Header::decode(header, at)?;
        if header.payload_bytes as usize != payload.len()
            || header.payload_crc != crate::block::crc32c(payload)
        {
            return Err(damaged(at, "the checksum of a block that was recorded does not match"));
        }
        if header.number != self.blocks {
            return Err(damaged(
                at,
                format!("block {} was recorded where {} comes next", header.number, self.blocks),
            ));
        }
        self.out.write_all(block)?;
        self.written_bytes += block.len() as u64;
        self.blocks += 1;
        self.records += u64::from(header.records);
        self.lost = header.lost;
        self.last_us = self.last_us.max(header.time_us);
        Ok(())
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Records written so far, without those of a block that is not finished.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Operations that nobody recorded, so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Writes what there is to disk or pipe, as far as it is whole blocks.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn flush(&mut self) -> Result<(), TraceError> {
        Ok(self.out.flush()?)
    }

    /// Ends the trace. `lost`: operations that nobody recorded, in all. [`Ending::Torn`] leaves the
    /// end out.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn finish(mut self, ending: Ending, lost: u64) -> Result<W, TraceError> {
        if !self.encoder.is_empty() {
            self.finish_block()?;
        }
        if let Some(code) = Ending::WRITTEN.iter().position(|&written| written == ending) {
            let end =
                encode(Kind::End, self.blocks, 0, self.last_us, lost.max(self.lost), &[code as u8]);
            self.append_block(&end)?;
        }
        self.flush()?;
        Ok(self.out)
    }
}
