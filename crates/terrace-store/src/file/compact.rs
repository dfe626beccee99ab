//! A file's live entries, written anew when its log is compacted.

use terrace_layout::{BLOCK_BYTES, EntryType, WriteEntry};

use super::entries::{
    blocks_before, copy_of, extent_crcs_in_log, read_write_entry, set_size_entry,
};
use super::{FileData, PmIo};
use crate::Time;
use crate::error::FsResult;
use crate::index::Extent;
use crate::log::{Entries, NewLog, Refs};

/// Entries that compaction joins cover no more than the largest group of the papers.
pub const JOINED_BLOCKS_MAX: u64 = 4096;
/// How far ahead of itself compaction asks for entries: each stands in a cache line of its own,
/// anywhere in the log.
const PREFETCHED_ENTRIES: usize = 8;

impl FileData {
    /// What entries must map after compaction. Without data checksums, entries for neighbours in PM
    /// become one: a file that was appended to is one run again.
    pub fn runs(&self, io: PmIo<'_>) -> Vec<(u64, Extent)> {
        let fits =
            |a: &Extent, b: &Extent| u64::from(a.blocks) + u64::from(b.blocks) <= JOINED_BLOCKS_MAX;
        self.index.runs(|a, b| !io.data_crc && a.addr.is_pm() && fits(a, b))
    }

    /// Puts an entry for each of [`Self::runs`], and one for the size unless the last run's gives
    /// it, into a new log; returns where they will stand. Then [`Self::compacted`]. `ctime`: no
    /// change of the file was later.
    ///
    /// # Errors
    /// `ENOSPC`; PM that cannot be read.
    pub fn push_live(
        &self,
        log: &mut impl NewLog,
        entries: Entries<'_>,
        runs: &[(u64, Extent)],
        ctime: Time,
    ) -> FsResult<Vec<u64>> {
        let mut positions = Vec::with_capacity(runs.len() + 1);
        let mut size_is_given = false;
        for (i, &(file_block, ref extent)) in runs.iter().enumerate() {
            if let Some((_, soon)) = runs.get(i + PREFETCHED_ENTRIES) {
                entries.prefetch(soon.entry());
            }
            let entry = read_write_entry(entries, extent.entry())?;
            let skip = blocks_before(&entry, file_block);
            let crcs = extent_crcs_in_log(entries, &entry, skip, extent)?;
            let (address, mtime_ns) = (extent.addr.0, entry.mtime_ns.min(ctime.0));
            let mut piece =
                WriteEntry { file_block, address, blocks: extent.blocks, mtime_ns, ..entry };
            if i + 1 == runs.len() && self.may_give_size(file_block, extent, mtime_ns) {
                (piece.kind, piece.size) = (EntryType::Write as u8, self.committed);
                size_is_given = true;
            }
            let (piece, slots) = copy_of(piece, skip, &crcs);
            positions.push(log.push(&piece, &[slots])?);
        }
        if !size_is_given {
            // Blocks reserved beyond the end stay: this sets the size and truncates nothing.
            positions.push(log.push(&set_size_entry(self.committed, self.mtime, false), &[])?);
        }
        Ok(positions)
    }

    /// Whether the entry of the last run may give size and modification time as well, so that none
    /// is needed for them. Of data in PM, the size says how much its checksums cover.
    fn may_give_size(&self, file_block: u64, last: &Extent, mtime_ns: i64) -> bool {
        !last.addr.is_pm()
            && !last.unwritten()
            && mtime_ns == self.mtime.0
            && self.committed > file_block * BLOCK_BYTES
    }

    /// Compaction moved the live entries of `runs` to `positions`, the last of which gives the
    /// size; the last entry that gives the modification time is at `mtime`.
    pub fn compacted(
        &mut self,
        refs: &mut Refs,
        runs: Vec<(u64, Extent)>,
        positions: &[u64],
        mtime: u64,
    ) {
        self.index.moved(refs, runs, |i| positions[i]);
        (self.size_ref, self.mtime_ref) = (0, 0);
        let last = *positions.last().expect("there is one of the size");
        refs.move_to(&mut self.size_ref, last);
        refs.move_to(&mut self.mtime_ref, mtime);
    }
}
