//! The part of a log that lies on a disk: its *archive* (TPFS, section 5.6).
//!
//! The live entries of a cold inode's log are written anew (`draft`), without pages, to free blocks
//! of a disk. If they fit into the inode's record, they go there, and there is no archive. Then the
//! log's pages are free.
//!
//! Invariants:
//! * The numbers of a log's pages never repeat; otherwise the bytes that an earlier page left in a
//!   block would pass for those of a later one. An archive takes a number, too, and the attributes
//!   in a record remember the last.
//! * An archive comes first in its log: the record's first slot leads to it, and what is appended
//!   later follows in the record's other slots, then in pages as ever.
//! * Its blocks never change. They are durable before the slot leads to them, and free when the
//!   journal has replaced the slot.
//! * Its entries are in DRAM as long as the inode is. The volatile state refers to them by position
//!   as to others: theirs lie beyond every byte of PM.
use terrace_layout::{
    ArchiveEntry, BLOCK_BYTES, BlockAddr, CheckedPtr, INLINE_OFFSET, InodeRecord, LogEntry,
    PAGE_SLOTS, SLOT_BYTES, Tail, page_seed,
};
use terrace_media::{AlignedBuf, Pm};

use super::load::Visit;
use super::media::LogMedia;
use super::walk::walk;
use super::{Log, inline_tails};
use crate::damage::{Damage, DamageKind, Structure};
use crate::error::FsResult;
use crate::source::BlockSource;
use crate::sync::Arc;
use crate::types::Ino;

/// Position of the first entry of an archive: beyond what a process can map of PM, and below the
/// bits that an extent keeps beside a position.
pub(super) const ARCHIVE_START: u64 = 1 << 57;

/// The archive of one log, in DRAM.
#[derive(Debug)]
pub struct Archive {
    /// First block.
    pub addr: BlockAddr,
    pub(super) seed: u32,
    pub(super) entries: Box<[u8]>,
}

impl Archive {
    /// Blocks on the disk.
    pub fn blocks(&self) -> u64 {
        ArchiveEntry::blocks_for(self.slots())
    }

    pub(super) fn slots(&self) -> u64 {
        self.entries.len() as u64 / SLOT_BYTES
    }

    /// Fills `blocks` with the bytes of its blocks on the disk.
    pub fn fill(&self, blocks: &mut [u8]) {
        blocks[..self.entries.len()].copy_from_slice(&self.entries);
    }

    /// Compares the archive with `bytes`, read from its blocks. Returns the first difference, as
    /// its byte on the disk.
    pub fn verify(&self, bytes: &[u8]) -> Option<u64> {
        let differs = |(old, new): (&[u8], &[u8])| old != new;
        let slot = self
            .entries
            .chunks(SLOT_BYTES as usize)
            .zip(bytes.chunks(SLOT_BYTES as usize))
            .position(differs)?;
        Some(self.addr.byte() + slot as u64 * SLOT_BYTES)
    }
}

impl Log {
    /// The part of the log that lies on a disk.
    #[inline]
    pub fn archive(&self) -> Option<&Arc<Archive>> {
        self.archive.as_ref()
    }

    /// Reads the archive that the record's first slot leads to, if it does; returns how many bytes
    /// of `slots` that took.
    pub(super) fn load_archive(
        &mut self,
        media: LogMedia<'_>,
        slots: &[u8],
        visit: Visit<'_>,
    ) -> FsResult<usize> {
        let slot = SLOT_BYTES as usize;
        let first = slots.get(..slot).map(|first| LogEntry::decode(first, self.seed));
        let Some(Ok(LogEntry::Archive(e))) = first else {
            return Ok(0);
        };
        self.next_sequence = e.sequence + 1;
        let addr = BlockAddr(e.address);
        let (ino, device) = (Ino(self.ino), addr.device());
        let Some(disk) = media.disks.find_disk(device) else {
            let damage = Damage::in_pm(media.pm, Structure::Archive, DamageKind::NoDisk(device));
            return Err(damage.at(self.record_at).of(ino).into());
        };
        let damage =
            |structure, at, kind| Damage::new(device, disk.path(), structure, kind).at(at).of(ino);
        let mut blocks = AlignedBuf::new((e.blocks() * BLOCK_BYTES) as usize);
        disk.read_at(addr.byte(), &mut blocks).map_err(|error| {
            damage(Structure::Archive, addr.byte(), DamageKind::Unreadable(error.errno()))
        })?;
        let entries = &blocks[..e.entry_slots as usize * slot];
        let archive =
            Archive { addr, seed: page_seed(self.seed, e.sequence), entries: entries.into() };
        let damaged = |position: u64, kind| {
            damage(Structure::LogEntry, addr.byte() + position - ARCHIVE_START, kind)
        };
        let refs = &mut self.refs;
        walk(archive.seed, ARCHIVE_START, entries, &damaged, &mut |position, entry| {
            visit(refs, position, entry)
        })?;
        self.slots += archive.slots();
        self.archive = Some(Arc::new(archive));
        Ok(slot)
    }

    /// Whether the log has pages that an archive would make free.
    #[inline]
    pub fn has_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// As [`Self::has_pages`], of a log that is not loaded.
    pub fn has_pages_on_media(record_at: u64, record: &InodeRecord) -> bool {
        Tail(record.tail).get().is_ok_and(|(tail, _)| !inline_tails(record_at).contains(&tail))
    }

    /// The archive that the record at `record_at` leads to, unread.
    pub fn archive_on_media(pm: &Pm, record_at: u64, record: &InodeRecord) -> Option<ArchiveEntry> {
        let head = CheckedPtr(record.head).get().ok()?;
        if head.is_some_and(|(_, dropped)| dropped) && Self::has_pages_on_media(record_at, record) {
            return None;
        }
        let mut first = [0; SLOT_BYTES as usize];
        pm.try_read(record_at + INLINE_OFFSET, &mut first).ok()?;
        match LogEntry::decode(&first, record.log_seed()) {
            Ok(LogEntry::Archive(entry)) => Some(entry),
            _ => None,
        }
    }

    /// The most pages that entries of `slots` slots in all can take: of each two adjacent pages
    /// the second begins with an entry for which the first had no room.
    pub fn pages_max(slots: u64) -> u64 {
        (2 * slots.div_ceil(PAGE_SLOTS)).saturating_sub(1)
    }

    /// Gives back all blocks of the log: its pages and its archive.
    pub(super) fn free_all(&mut self, source: &dyn BlockSource) {
        for block in self.pages.drain(..).chain(self.limbo.drain(..)).chain(self.free.drain(..)) {
            source.free(BlockAddr::pm(block), 1);
        }
        if let Some(archive) = self.archive.take() {
            source.free(archive.addr, archive.blocks());
        }
    }
}
