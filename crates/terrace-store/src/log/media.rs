//! The media that logs are loaded from.

use terrace_layout::{INLINE_OFFSET, INLINE_SLOTS, SLOT_BYTES};
use terrace_media::Pm;

use crate::disks::FindDisk;
use crate::error::FsResult;
use crate::journal::{Pending, read_pending};

/// Where logs are read from.
#[derive(Debug, Clone, Copy)]
pub struct LogMedia<'a> {
    /// PM.
    pub pm: &'a Pm,
    /// The disks, some of which may be missing.
    pub disks: &'a dyn FindDisk,
    /// Words that count as if they stood in PM.
    pub pending: Option<&'a Pending>,
}

impl LogMedia<'_> {
    /// Reads the slots of the record at `record_at`.
    pub(super) fn read_slots(
        &self,
        record_at: u64,
    ) -> FsResult<[u8; (INLINE_SLOTS * SLOT_BYTES) as usize]> {
        let mut slots = [0u8; (INLINE_SLOTS * SLOT_BYTES) as usize];
        self.read(record_at + INLINE_OFFSET, &mut slots)?;
        Ok(slots)
    }

    /// Reads whole words of PM, from byte `start` on.
    pub(super) fn read(&self, start: u64, bytes: &mut [u8]) -> FsResult<()> {
        read_pending(self.pm, self.pending, start, bytes)
    }
}
