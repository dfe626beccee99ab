//! Takes in the entries that a borrower has committed, one by one. Each must be one that the
//! borrower may commit: it changes this file's data only, in blocks that the borrower has.

use terrace_layout::{
    AppendEntry, BLOCK_BYTES, BlockAddr, CRC_COMMIT, CRC_NONE, FILE_BYTES_MAX, LogEntry,
    PatchEntry, SetSizeEntry, WRITE_UNWRITTEN, WriteEntry,
};
use terrace_media::Pm;
use terrace_store::delegation::Tally;
use terrace_store::error::{FsError, FsResult};
use terrace_store::file::{FileData, Seen};
use terrace_store::index::Segment;
use terrace_store::log::{Adopt, Refs};

use super::books::Books;
use crate::base::types::Time;
use crate::inode::resident::Meta;

/// Changes that were taken in, and have not been counted yet.
#[derive(Debug, Default)]
pub(super) struct Adopted {
    pub writes: u64,
    pub bytes: u64,
    pub blocks: u64,
    /// The counts of the control page, as of the last time.
    pub tally: Tally,
}

/// See the module.
pub(super) struct Adopting<'a> {
    file: &'a mut FileData,
    meta: &'a mut Meta,
    books: &'a mut Books,
    adopted: &'a mut Adopted,
    seen: Seen,
}

fn refused(why: &str) -> FsError {
    FsError::with_message(libc::EIO, format!("an entry of its log {why}"))
}

impl<'a> Adopting<'a> {
    pub fn new(
        file: &'a mut FileData,
        meta: &'a mut Meta,
        books: &'a mut Books,
        adopted: &'a mut Adopted,
    ) -> Self {
        Self { file, meta, books, adopted, seen: Seen::default() }
    }

    /// The borrower applies each patch before it commits anything else, so all but the last one are
    /// where they belong. Returns where that one was stored, and how many bytes.
    pub fn repeat_last_patch(&mut self, pm: &Pm) -> Option<(u64, u64)> {
        self.seen.keep_last_patch();
        self.file.repeat_patches(pm, &self.seen)
    }

    /// Whether file block `block` has this PM block already, set aside and never written.
    fn is_reserved(&self, block: u64, pm_block: u64) -> bool {
        matches!(self.file.index.lookup(block), Segment::Extent(e)
            if e.unwritten() && e.addr == BlockAddr::pm(pm_block))
    }

    /// The blocks of an entry, each of which the borrower has, or the file has there already.
    fn check_write(&self, e: &WriteEntry) -> FsResult<()> {
        let (addr, blocks) = (BlockAddr(e.address), u64::from(e.blocks));
        let is_plain = !e.is_move()
            && e.flags & WRITE_UNWRITTEN == 0
            && [CRC_NONE, CRC_COMMIT].contains(&e.crc_form);
        let last = e.file_block.checked_add(blocks);
        if !is_plain || blocks == 0 || !addr.is_pm() || e.size > FILE_BYTES_MAX {
            return Err(refused("is no write to PM"));
        }
        if last.is_none_or(|last| last > FILE_BYTES_MAX.div_ceil(BLOCK_BYTES)) {
            return Err(refused("reaches beyond the longest file"));
        }
        let may = |i: u64| {
            let block = addr.block() + i;
            self.books.has(block) || self.is_reserved(e.file_block + i, block)
        };
        if (0..blocks).all(may) { Ok(()) } else { Err(refused("maps blocks that were not lent")) }
    }

    fn check_append(&self, e: &AppendEntry) -> FsResult<()> {
        let in_block = e.from % BLOCK_BYTES;
        let fits = e.from == self.file.committed
            && e.size > e.from
            && e.size - e.from <= BLOCK_BYTES - in_block;
        let is_there =
            self.file.written_pm_block(e.from / BLOCK_BYTES) == Some(BlockAddr(e.address));
        if fits && in_block > 0 && is_there {
            return Ok(());
        }
        Err(refused("appends elsewhere than at the end"))
    }

    fn check_patch(&self, e: &PatchEntry, data: &[u8]) -> FsResult<()> {
        let end = e.offset.checked_add(data.len() as u64);
        let fits = !data.is_empty()
            && end.is_some_and(|end| {
                end <= self.file.committed && (end - 1) / BLOCK_BYTES == e.offset / BLOCK_BYTES
            });
        if fits && self.file.written_pm_block(e.offset / BLOCK_BYTES).is_some() {
            return Ok(());
        }
        Err(refused("patches bytes that the file does not have in PM"))
    }

    fn check_size(e: &SetSizeEntry) -> FsResult<()> {
        if e.size <= FILE_BYTES_MAX {
            Ok(())
        } else {
            Err(refused("sets a size beyond the longest"))
        }
    }

    /// Blocks that were freed are the borrower's, but for those that an entry has kept.
    fn put_back(&mut self, kept: &[u64]) {
        for (addr, blocks) in self.seen.freed.drain(..) {
            debug_assert!(addr.is_pm(), "only files in PM are lent");
            let freed = addr.block()..addr.block() + blocks;
            freed
                .filter(|block| !kept.contains(block))
                .for_each(|block| self.books.put_back(block));
        }
    }

    fn wrote(&mut self, blocks: u64, bytes: u64, time_ns: i64) {
        self.adopted.writes += 1;
        self.adopted.bytes += bytes;
        self.adopted.blocks += blocks;
        self.file.heat.wrote(blocks, self.file.index.data_blocks(), Time(time_ns));
    }

    fn apply(&mut self, refs: &mut Refs, position: u64, entry: LogEntry<'_>) -> FsResult<()> {
        let is_of_file = self.file.apply(refs, position, entry, &mut self.seen);
        self.meta.ctime = self.meta.ctime.max(self.file.mtime);
        if is_of_file { Ok(()) } else { Err(refused("is none that changes a file's data")) }
    }
}

impl Adopt for Adopting<'_> {
    fn page(&mut self, block: u64) -> FsResult<()> {
        if self.books.take(block) { Ok(()) } else { Err(refused("stands in a page not lent")) }
    }

    fn entry(&mut self, refs: &mut Refs, position: u64, entry: LogEntry<'_>) -> FsResult<()> {
        match entry {
            LogEntry::Pad => return Ok(()),
            LogEntry::Write(e, _) => {
                self.check_write(&e)?;
                let (first, blocks) = (BlockAddr(e.address).block(), u64::from(e.blocks));
                let taken = first..first + blocks;
                let kept: Vec<u64> = taken.filter(|&block| !self.books.take(block)).collect();
                self.apply(refs, position, entry)?;
                self.put_back(&kept);
                self.wrote(blocks, blocks * BLOCK_BYTES, e.mtime_ns);
            }
            LogEntry::Append(e) => {
                self.check_append(&e)?;
                self.apply(refs, position, entry)?;
                let len = e.size - e.from;
                self.wrote(1, len, e.mtime_ns);
                self.file.heat.append(e.from / BLOCK_BYTES, e.size.div_ceil(BLOCK_BYTES));
            }
            LogEntry::Patch(e, data) => {
                self.check_patch(&e, data)?;
                self.apply(refs, position, entry)?;
                self.wrote(1, data.len() as u64, e.mtime_ns);
                self.file.heat.patch(e.offset / BLOCK_BYTES);
            }
            LogEntry::SetSize(e) => {
                Self::check_size(&e)?;
                self.apply(refs, position, entry)?;
                self.put_back(&[]);
                self.wrote(0, 0, e.mtime_ns);
            }
            _ => return Err(refused("is none that a borrower may write")),
        }
        Ok(())
    }
}
