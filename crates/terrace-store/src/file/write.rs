//! A write to PM: which path it takes, and the path itself.

use terrace_layout::{
    BLOCK, BLOCK_BYTES, BlockAddr, EntryType, History, PATCH_BYTES_MAX, PatchEntry,
};
use terrace_media::Pm;
use terrace_policy::Rule;

use super::{FileData, PmIo, move_ref};
use crate::Time;
use crate::error::FsResult;
use crate::index::Segment;
use crate::log::Log;
use crate::planted::{Bug, planted};

/// Reads a file block as it is now, with zeros beyond the end of the file. A write that covers a
/// block in part gets the other bytes this way.
pub type ReadOld<'a> = &'a dyn Fn(u64, &mut [u8; BLOCK]) -> FsResult<()>;

/// A block that a write covers in part, as it was: file block, contents.
pub type Edge = (u64, Box<[u8; BLOCK]>);

/// The first and the last block of a write of the bytes `offset..end`, where the write covers them
/// in part and the file, of `size` bytes, has something there; `read` fills them.
///
/// # Errors
/// Those of `read`.
#[inline]
pub fn read_edges<E>(
    (offset, end): (u64, u64),
    size: u64,
    mut read: impl FnMut(u64, &mut [u8; BLOCK]) -> Result<(), E>,
) -> Result<[Option<Edge>; 2], E> {
    let mut edge = |block: u64| {
        let mut bytes = Box::new([0; BLOCK]);
        read(block, &mut bytes)?;
        Ok(Some((block, bytes)))
    };
    let (first, last) = (offset / BLOCK_BYTES, (end - 1) / BLOCK_BYTES);
    let cuts_first = !offset.is_multiple_of(BLOCK_BYTES);
    let cuts_last = !end.is_multiple_of(BLOCK_BYTES) && end < size;
    Ok([
        if cuts_first { edge(first)? } else { None },
        if cuts_last && (last != first || !cuts_first) { edge(last)? } else { None },
    ])
}

/// Copies the edge of a write that is this block.
///
/// # Panics
/// It is none of them.
#[inline]
pub fn copy_edge(edges: &[Option<Edge>; 2], block: u64, out: &mut [u8; BLOCK]) {
    let edge = edges.iter().flatten().find(|(of, _)| *of == block);
    out.copy_from_slice(&edge.expect("only edges are merged").1[..]);
}

/// What the entries of a write say beside its data.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// The new modification time.
    pub now: Time,
    /// What the policy remembers of these blocks, in the form in which entries hold it
    /// ([`History`]).
    pub history: u16,
}

impl Mark {
    /// Of a write of so many blocks by a process that has borrowed the file.
    pub fn of_borrower(now: Time, blocks: u64) -> Self {
        Self { now, history: History::new(0, blocks, Rule::Direct.number()).to_word() }
    }
}

/// A write to PM.
#[derive(Clone, Copy)]
pub struct PmWrite<'a> {
    /// Where the data go, in bytes from the start of the file.
    pub offset: u64,
    /// The data: at least one byte.
    pub data: &'a [u8],
    /// What the entries say beside the data.
    pub mark: Mark,
    /// Reads the blocks that the write covers in part.
    pub read_old: ReadOld<'a>,
}

impl std::fmt::Debug for PmWrite<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PmWrite")
            .field("offset", &self.offset)
            .field("bytes", &self.data.len())
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

impl<'a> PmWrite<'a> {
    /// The byte of the file behind the last one that is written.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    /// The write without its first `bytes`.
    #[inline]
    pub(super) fn without_first(&self, bytes: usize) -> PmWrite<'a> {
        PmWrite { offset: self.offset + bytes as u64, data: &self.data[bytes..], ..*self }
    }
}

/// How a write goes to PM, cheapest first.
#[derive(Clone, Copy, Debug)]
pub enum WritePath {
    /// The data of a small overwrite go into the log, and from there to this block.
    Patch(BlockAddr),
    /// The data go behind the committed size, into this block, the last one.
    Append(BlockAddr),
    /// The data go to new or reserved blocks.
    Copy,
}

impl FileData {
    /// Writes to PM and commits, durably. `path` is what [`Self::write_path`] has returned for this
    /// write under the same lock. `Ok(false)`: PM has no room for the data, and nothing changed.
    ///
    /// # Errors
    /// `ENOSPC` if the log gets no page, and errors of [`PmWrite::read_old`]: nothing changed then.
    /// PM errors.
    #[inline]
    pub fn write(
        &mut self,
        log: &mut Log,
        io: PmIo<'_>,
        path: WritePath,
        write: &PmWrite<'_>,
    ) -> FsResult<bool> {
        // Not copied on the way down: that would wait for the stores that have just made it.
        let io = &io;
        let end = write.end();
        log.begin();
        self.staged.clear();
        let (from, to) = (write.offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        self.note_change(from, to);
        if let WritePath::Patch(block) | WritePath::Append(block) = path {
            // A block that is known to be bad takes no more stores: the bytes around them would be
            // lost.
            io.pm.check(block.byte(), BLOCK_BYTES)?;
        }
        if let WritePath::Patch(block) = path {
            self.patch(log, io, block, write)?;
            return Ok(true);
        }
        let staged = self.stage_write(log, io, path, write).and_then(|staged| {
            if let Some(vouched) = staged {
                log.stage(io.pm, io.source, vouched.then_some(io.stamp))?;
            }
            Ok(staged.is_some())
        });
        if !matches!(staged, Ok(true)) {
            self.give_up(io);
            return staged;
        }
        log.commit(io.pm)?;
        self.apply_staged(log, io, end.max(self.size), write.mark.now);
        self.heat.wrote(to - from, self.index.data_blocks(), write.mark.now);
        if let WritePath::Append(_) = path {
            self.heat.append(from, to);
        }
        Ok(true)
    }

    /// How a write of the bytes `offset..end` goes to PM.
    #[inline]
    pub fn write_path(&self, offset: u64, end: u64, data_crc: bool) -> WritePath {
        if data_crc {
            return WritePath::Copy;
        }
        if offset >= self.committed && offset / BLOCK_BYTES == self.committed / BLOCK_BYTES {
            return self.pm_tail_block().map_or(WritePath::Copy, WritePath::Append);
        }
        match self.patched_block(offset, end) {
            Some(block) => WritePath::Patch(block),
            None => WritePath::Copy,
        }
    }

    /// Whether a write of the bytes `offset..end` takes no new PM blocks: it is a patch, or lies
    /// within reserved blocks.
    #[inline]
    pub fn needs_no_pm_block(&self, offset: u64, end: u64, data_crc: bool) -> bool {
        let (from, to) = (offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        let reserved = matches!(self.index.lookup(from), Segment::Extent(e)
            if e.unwritten() && e.addr.is_pm() && u64::from(e.blocks) >= to - from);
        reserved || matches!(self.write_path(offset, end, data_crc), WritePath::Patch(_))
    }

    /// The committed PM block inside which a small overwrite lies.
    #[inline]
    pub(super) fn patched_block(&self, offset: u64, end: u64) -> Option<BlockAddr> {
        let one_block = offset / BLOCK_BYTES == (end - 1) / BLOCK_BYTES;
        if !one_block || end > self.committed || end - offset > PATCH_BYTES_MAX as u64 {
            return None;
        }
        self.written_pm_block(offset / BLOCK_BYTES)
    }

    /// Where file block `block` is, if PM holds it and it was written.
    #[inline]
    pub fn written_pm_block(&self, block: u64) -> Option<BlockAddr> {
        match self.index.lookup(block) {
            Segment::Extent(e) if e.addr.is_pm() && !e.unwritten() => Some(e.addr),
            _ => None,
        }
    }

    /// Commits the data in the log, then applies them to `block`.
    fn patch(
        &mut self,
        log: &mut Log,
        io: &PmIo<'_>,
        block: BlockAddr,
        write: &PmWrite<'_>,
    ) -> FsResult<()> {
        let PmWrite { offset, data, mark: Mark { now, .. }, .. } = *write;
        let entry = PatchEntry {
            kind: EntryType::Patch as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            offset,
            len: data.len() as u32,
            reserved: 0,
            mtime_ns: now.0,
        };
        let index = log.push(&entry, &[data]);
        if planted(Bug::PatchBeforeCommit) {
            apply_patch(io.pm, block, offset, data);
        }
        log.stage(io.pm, io.source, Some(io.stamp))?;
        log.commit(io.pm)?;
        self.mtime = now;
        move_ref(log, &mut self.mtime_ref, index);
        self.heat.wrote(1, self.index.data_blocks(), now);
        self.heat.patch(offset / BLOCK_BYTES);
        // The commit made the bytes part of the file; now they go where readers look. No fence: the
        // next one will do, and until then the log can repeat it.
        let (at, len) = apply_patch(io.pm, block, offset, data);
        log.leave_unfenced(at, len);
        Ok(())
    }

    /// Writes the data and puts the entries into the log's batch. Returns whether they vouch for
    /// all of the data; `None`: PM has no room.
    fn stage_write(
        &mut self,
        log: &mut Log,
        io: &PmIo<'_>,
        path: WritePath,
        write: &PmWrite<'_>,
    ) -> FsResult<Option<bool>> {
        let new_size = write.end().max(self.size);
        let tail = match path {
            WritePath::Append(tail) => Some(tail),
            // A write that begins below the committed size replaces the tail block.
            _ if write.offset > self.committed && new_size > self.committed && !io.data_crc => {
                self.pm_tail_block()
            }
            _ => None,
        };
        let Some(tail) = tail else {
            return Ok(self.stage_copy(log, io, write, new_size)?.then_some(true));
        };
        let taken = self.write_into_tail(io.pm, tail, write.offset, write.data, new_size);
        if taken == write.data.len() {
            let size = if planted(Bug::OldSizeCommitted) { self.size } else { new_size };
            log.push(&self.append_entry(size, tail, write), &[]);
            return Ok(Some(true));
        }
        // The tail block changed, and no entry says how.
        let rest = write.without_first(taken);
        Ok(self.stage_copy(log, io, &rest, new_size)?.then_some(false))
    }
}

/// Stores a patch's bytes into their block; flushed, not fenced. Returns where in PM, and how many.
pub fn apply_patch(pm: &Pm, block: BlockAddr, offset: u64, data: &[u8]) -> (u64, u64) {
    let (at, len) = (block.byte() + offset % BLOCK_BYTES, data.len() as u64);
    pm.write(at, data);
    pm.flush(at, len);
    (at, len)
}
