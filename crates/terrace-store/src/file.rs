//! One file's data in PM: where its blocks are, and how a change of it commits.
//!
//! A [`FileData`] and its [`Log`] are enough to read and write a file's data in PM. They know a
//! mapping of PM and a [`BlockSource`], but no volume, page cache or allocator.
//!
//! A write chooses its path ([`FileData::write_path`], `write`): a patch in the log that is then
//! applied in place, an append inside the last block (`tail`), or new blocks (`copy`). Each path
//! stages entries in the log's batch, commits the batch, and updates the index (`commit`). Beside
//! writes stand holes and reserved blocks (`reserve`), the size (`size`), relocation to another
//! tier (`relocation`) and compaction (`compact`). The entries themselves are made in `entries` and
//! read in `load`.
//!
//! Invariants:
//! * Live data is never overwritten, but for two cases: bytes beyond the committed size, which
//!   nobody can see, and patches, whose bytes are committed in the log before they are applied.
//! * Bytes of a PM block beyond the committed size are garbage: they read as zeros, and whatever
//!   commits a larger size zeroes them first.
//! * With data checksums neither case is used: every write goes to new blocks, and an entry's size
//!   says how many bytes of its blocks count; the others read as zeros. A truncation into a block
//!   therefore rewrites it.

mod cached;
mod commit;
mod compact;
mod copy;
mod entries;
mod heat;
mod load;
mod relocation;
mod reserve;
mod runs;
mod size;
mod tail;
mod write;

use terrace_layout::Stamp;
pub use terrace_layout::{BLOCK, covered_bytes};
use terrace_media::Pm;
use terrace_policy::{Life, Synchronicity};

pub use self::cached::CachedWrites;
pub use self::compact::JOINED_BLOCKS_MAX;
pub use self::entries::{blocks_before, extent_crcs_in_log, read_write_entry};
pub use self::heat::Heat;
pub use self::load::Seen;
use self::relocation::Relocation;
pub use self::reserve::Hole;
pub use self::runs::DataRun;
use self::runs::StagedRun;
pub use self::write::{
    Edge, Mark, PmWrite, ReadOld, WritePath, apply_patch, copy_edge, read_edges,
};
use crate::Time;
use crate::index::{Freed, Index};
use crate::log::Log;
use crate::planted::{Bug, planted};
use crate::source::BlockSource;

/// The mapping of PM and the source of blocks that operations on a file's data work on.
#[derive(Debug, Clone, Copy)]
pub struct PmIo<'a> {
    /// PM, mapped.
    pub pm: &'a Pm,
    /// New blocks come from here, and freed ones go back to it.
    pub source: &'a dyn BlockSource,
    /// Each block of data in PM carries a checksum (the mount option `data_crc`).
    pub data_crc: bool,
    /// Marks entries that this mount commits with one fence (see `seal`).
    pub stamp: Stamp,
}

/// A file's data: where it is and how long it is.
#[derive(Debug, Default)]
pub struct FileData {
    /// Where the blocks are.
    pub index: Index,
    /// Length in bytes; dirty pages may have taken it beyond what the log has committed.
    pub size: u64,
    /// Length that the log has committed: PM bytes from there on are garbage that nobody may see.
    pub committed: u64,
    /// Last modification.
    pub mtime: Time,
    /// Entry that holds the committed size, and the one that holds the mtime; 0 if none.
    size_ref: u64,
    mtime_ref: u64,
    /// How the file is written: the synchronicity predictor.
    pub habits: Synchronicity,
    /// What it has done since its birth, and what its siblings have.
    pub life: Life,
    /// When the blocks were written.
    pub heat: Heat,
    /// Writes that no entry knows of yet.
    pub cached: CachedWrites,
    /// The relocation that is under way.
    relocation: Option<Box<Relocation>>,
    /// Blocks that the last commit has replaced; empty between two operations.
    freed: Freed,
    /// The runs of the log's current batch.
    staged: Vec<StagedRun>,
}

impl FileData {
    /// An empty file.
    pub fn new(created: Time) -> Self {
        Self { mtime: created, ..Self::default() }
    }
}

/// Moves a "latest entry of its kind" reference to entry `index` of the last batch.
#[inline]
pub fn move_ref(log: &mut Log, reference: &mut u64, index: usize) {
    let position = log.position(index);
    log.refs.move_to(reference, position);
}

/// Stores file data, durable after the next fence.
fn store_data(pm: &Pm, at: u64, bytes: &[u8]) {
    match planted(Bug::DataNotFlushed) {
        true => pm.write(at, bytes),
        false => pm.write_nt(at, bytes),
    }
}
