//! An inode's log, as in NOVA and TPFS: a list of PM pages with entries of 64-byte slots.
//!
//! The log begins in the inode's record and goes on in pages. `append` puts entries together and
//! commits them; `settle` makes durable what a commit leaves to a later fence, and drops dead
//! pages; `load` reads a log from media; `compact` and `draft` write the live entries anew;
//! `verify` compares a log in use with media; `lending` lets another process append for a while.
//!
//! Invariants:
//! * Entries at or after the tail mean nothing. Appending writes them there; storing the tail
//!   commits them all.
//! * A chain is the exception: an entry alone in its batch that carries the stamp of this mount
//!   commits itself (see `seal`), and the tail on media stays behind. The next batch that does not
//!   commit itself moves it. So entries right behind the tail count if the mount that crashed has
//!   stamped them, up to the end of the tail's page. An entry of the chain is on media before the
//!   next one is stored: only the last may be torn.
//! * The tail on media catches up before an inode leaves DRAM, and before an unmount: chains exist
//!   only after a crash.
//! * Head and next pointers are stored, durable, before the tail moves past them; a pointer beyond
//!   the tail means nothing.
//! * Dead pages are dropped only from the front: an entry that undoes an earlier one may be dropped
//!   only when the earlier one is gone, and the front has no earlier ones. Compaction removes dead
//!   entries further back: it writes the live ones anew and swaps head and tail through the
//!   journal.
//! * [`Refs`] counts references from the volatile state into each page. It is volatile, derived by
//!   walking.
//! * Committed entries never change. The exception are a few that the journal changes where there
//!   is no room for new ones (see `rewrite`).
//! * A dropped page is given back only after a fence has made the head that skips it durable.
//! * The first part of the log may lie on a disk (see `archive`).

mod append;
mod archive;
mod compact;
mod draft;
mod entries;
mod lending;
mod load;
mod media;
mod new_log;
mod refs;
mod rewrite;
mod settle;
mod verify;
mod walk;

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use terrace_layout::{
    BLOCK_BYTES, INLINE_OFFSET, INLINE_SLOTS, InodeRecord, LogPageHeader, MediaStruct, PAGE_SLOTS,
    SLOT_BYTES, page_seed,
};
use terrace_media::Pm;
use terrace_policy::{LogSlots, compacts_log, log_comes_back};

use self::append::Batch;
use self::archive::ARCHIVE_START;
pub use self::archive::Archive;
pub use self::draft::Draft;
pub use self::entries::Entries;
pub use self::lending::Adopt;
pub use self::load::Visit;
pub use self::media::LogMedia;
pub use self::new_log::NewLog;
pub use self::refs::Refs;
use crate::damage::{Damage, DamageKind, Structure};
pub use crate::disks::FindDisk;
use crate::sync::Arc;
use crate::types::Ino;

/// The log of one inode, seen from DRAM.
#[derive(Debug)]
pub struct Log {
    /// Byte of the inode's record in PM.
    record_at: u64,
    ino: u64,
    generation: u32,
    /// Seed of the entries in the record, and in the region that the tail is in.
    inline_seed: u32,
    seed: u32,
    /// Byte in PM behind the last committed entry.
    tail: u64,
    tail_generation: u16,
    /// The tail on media is behind by entries that committed themselves.
    tail_behind: bool,
    /// The log belongs to another process, which may take it back at any time (see `lending`).
    is_lent: bool,
    /// Counts changes of entries in place since the log was loaded: they move no tail.
    rewrites: u64,
    /// Byte of an entry beyond the tail that the last crash tore.
    torn: Option<u64>,
    archive: Option<Arc<Archive>>,
    /// PM blocks of the pages, in log order.
    pages: VecDeque<u64>,
    /// References from the volatile state.
    pub refs: Refs,
    inline_dropped: bool,
    next_sequence: u64,
    /// Slots of all pages, of the archive, and of the inline region still in the log.
    slots: u64,
    slots_after_compaction: u64,
    /// PM blocks of dropped pages: no fence has made the head that skips them durable yet.
    limbo: Vec<u64>,
    /// PM blocks of dropped pages that can be given back.
    free: Vec<u64>,
    /// Bytes of PM (first, count) that a patch changed and no fence has followed yet. A fence
    /// counts only for stores that its own thread has flushed, so the next commit, by any thread,
    /// flushes them again.
    unfenced: Option<(u64, u64)>,
    batch: Batch,
}

/// The tails of logs that end in the record: from its first slot to behind its last.
fn inline_tails(record_at: u64) -> RangeInclusive<u64> {
    let start = record_at + INLINE_OFFSET;
    start..=start + INLINE_SLOTS * SLOT_BYTES
}

impl Log {
    /// The empty log of a new inode whose record stands at byte `record_at`.
    pub fn new(record_at: u64, record: &InodeRecord) -> Self {
        let seed = record.log_seed();
        Self {
            record_at,
            ino: record.ino,
            generation: record.generation,
            inline_seed: seed,
            seed,
            tail: record_at + INLINE_OFFSET,
            tail_generation: 0,
            tail_behind: false,
            is_lent: false,
            rewrites: 0,
            torn: None,
            archive: None,
            pages: VecDeque::new(),
            refs: Refs::new(record_at),
            inline_dropped: false,
            next_sequence: 0,
            slots: INLINE_SLOTS,
            slots_after_compaction: 0,
            limbo: Vec::new(),
            free: Vec::new(),
            unfenced: None,
            batch: Batch::default(),
        }
    }

    /// Seed of the checksum of the entry at `position`.
    pub fn seed_at(&self, pm: &Pm, position: u64) -> u32 {
        if let Some(archive) = self.archive.as_ref().filter(|_| position >= ARCHIVE_START) {
            return archive.seed;
        }
        let Some(page) = self.refs.page_of(position) else {
            return self.inline_seed;
        };
        let mut header = [0u8; size_of::<LogPageHeader>()];
        pm.read(page * BLOCK_BYTES, &mut header);
        page_seed(self.inline_seed, LogPageHeader::from_bytes(&header).sequence)
    }

    /// Damage to a part of the log in PM.
    fn damage(&self, pm: &Pm, at: u64, structure: Structure, kind: DamageKind) -> Damage {
        Damage::in_pm(pm, structure, kind).at(at).of(Ino(self.ino))
    }

    /// Byte of the inode's record in PM.
    #[inline]
    pub fn record_at(&self) -> u64 {
        self.record_at
    }

    /// PM blocks of the log's pages.
    pub fn pages(&self) -> impl Iterator<Item = u64> {
        self.pages.iter().chain(&self.limbo).chain(&self.free).copied()
    }

    /// Whether what is live may fit into the record when it is written anew, which joins adjacent
    /// runs.
    pub fn may_fit_record(&self) -> bool {
        self.refs.slots <= 2 * INLINE_SLOTS
    }

    /// Whether so much of the log is dead that compaction is worth its cost, or the log is in use
    /// again and PM has room for its archive. `is_tight`: data has to leave PM.
    pub fn wants_compaction(&self, pm_free_blocks: u64, is_tight: bool) -> bool {
        let (live, pages) = (self.refs.slots, self.pages.len() as u64);
        let slots = LogSlots { all: self.slots, live, when_new: self.slots_after_compaction };
        let is_back =
            self.archive.is_some() && self.has_pages() && log_comes_back(live, pm_free_blocks);
        // The live entries of an archive would come to PM.
        let gives_pages = live.div_ceil(PAGE_SLOTS) < pages;
        is_back || pages > 1 && compacts_log(slots, pm_free_blocks, is_tight && gives_pages)
    }
}

/// Damage to the entry at `position` of an inode's log: in PM, or on a disk.
pub fn entry_damage(pm: &Pm, ino: Ino, position: u64, kind: DamageKind) -> Damage {
    match position.checked_sub(ARCHIVE_START) {
        None => Damage::in_pm(pm, Structure::LogEntry, kind).at(position),
        Some(byte) => Damage::in_pm(pm, Structure::ArchivedEntry(byte), kind),
    }
    .of(ino)
}

/// The place of an entry, as text.
pub fn position_text(position: u64) -> String {
    match position.checked_sub(ARCHIVE_START) {
        None => format!("byte {position}"),
        Some(byte) => format!("byte {byte} of its archive"),
    }
}
