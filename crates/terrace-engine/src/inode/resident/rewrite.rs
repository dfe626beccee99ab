//! Writing an inode's log anew: compaction, and drafts for the record or a disk.

use terrace_layout::{
    AttrEntry, BlockAddr, TARGET_PIECE_BYTES_MAX, TargetEntry, XattrEntry, slots_for,
};
use terrace_store::error::FsResult;
use terrace_store::file::PmIo;
use terrace_store::index::Extent;
use terrace_store::journal::Journal;
use terrace_store::log::{Draft, NewLog, Refs};

use super::{Body, Inner, attr_entry, inline_len, target_entries};

/// Where a log written anew has what is live.
#[derive(Debug)]
pub(crate) struct Live {
    attr: u64,
    /// The last entry that gives the modification time of a file or directory: who reads the log
    /// takes that one.
    mtime: u64,
    xattrs: Vec<u64>,
    body: Vec<u64>,
    /// What the entries of a file map.
    runs: Vec<(u64, Extent)>,
}

/// A log written anew, and where it has what is live.
#[derive(Debug)]
pub(crate) struct Replacement {
    pub draft: Draft,
    live: Live,
}

impl Inner {
    /// Rewrites the log with what is live, if it is worth it. `is_tight`: data has to leave PM.
    ///
    /// # Errors
    /// PM errors. A lack of space is none, nor is an entry that cannot be read: the log stays as it
    /// is.
    pub fn compact_if_wanted(
        &mut self,
        io: PmIo<'_>,
        pm_free_blocks: u64,
        is_tight: bool,
        journal: &Journal,
    ) -> FsResult<()> {
        if !self.log.wants_compaction(pm_free_blocks, is_tight) {
            return Ok(());
        }
        match self.compact(io, journal) {
            Err(error) if error.is_fatal() => Err(error),
            _ => Ok(()),
        }
    }

    /// Rewrites the log in PM with what is live.
    ///
    /// # Errors
    /// `ENOSPC`, or an entry that cannot be read: the log stays as it is. PM errors are fatal.
    pub fn compact(&mut self, io: PmIo<'_>, journal: &Journal) -> FsResult<()> {
        let mut compaction = self.log.begin_compaction(io.pm, io.source)?;
        let live = match self.push_live(&mut compaction, io) {
            Ok(live) => live,
            Err(error) => {
                compaction.give_up();
                return Err(error);
            }
        };
        self.log.end_compaction(compaction, journal)?;
        self.compacted(live);
        Ok(())
    }

    /// What is live of the log, for the record if it fits there, else, if it may go there, for a
    /// disk; `None` if that is too long.
    ///
    /// # Errors
    /// An entry that cannot be read.
    pub fn draft(&self, io: PmIo<'_>, to_disk: bool) -> FsResult<Option<Replacement>> {
        for for_record in [true, false].into_iter().filter(|&for_record| for_record || to_disk) {
            let mut draft = self.log.draft(for_record);
            match self.push_live(&mut draft, io) {
                Err(error) if error.is_no_room() => {}
                live => return Ok(Some(Replacement { draft, live: live? })),
            }
        }
        Ok(None)
    }

    /// The log becomes what was drafted, durable at `addr` if it needs that.
    ///
    /// # Errors
    /// PM errors: the volume must not be written again.
    pub fn replace_log(
        &mut self,
        by: Replacement,
        addr: BlockAddr,
        io: PmIo<'_>,
        journal: &Journal,
    ) -> FsResult<()> {
        let Replacement { draft, live } = by;
        self.log.replace_by(draft, addr, io.pm, io.source, journal)?;
        self.compacted(live);
        Ok(())
    }

    /// The log has been replaced by what is live.
    fn compacted(&mut self, live: Live) {
        (self.meta.attr_ref, self.meta.lazy) = (0, false);
        self.log.refs.move_to(&mut self.meta.attr_ref, live.attr);
        for (xattr, &position) in self.xattrs.values_mut().zip(&live.xattrs) {
            xattr.position = position;
            self.log.refs.retain(position, xattr.slots);
        }
        match &mut self.body {
            Body::File(file) => {
                file.compacted(&mut self.log.refs, live.runs, &live.body, live.mtime)
            }
            Body::Dir(dir) => dir.compacted(&mut self.log.refs, &live.body, live.mtime),
            Body::Symlink { target, .. } => retain_target(&mut self.log.refs, target, &live.body),
            Body::Special { .. } => {}
        }
    }

    /// Puts all that is live into a new log.
    fn push_live(&self, log: &mut impl NewLog, io: PmIo<'_>) -> FsResult<Live> {
        let entries = self.log.entries(io.pm);
        let next_page = log.next_page();
        let mut attr =
            log.push(&AttrEntry { next_page, ..attr_entry(&self.meta, self.mtime()) }, &[])?;
        let mut xattrs = Vec::with_capacity(self.xattrs.len());
        for (name, xattr) in &self.xattrs {
            let mut value = vec![0u8; inline_len(&xattr.entry)];
            entries
                .read(xattr.position + (size_of::<XattrEntry>() + name.len()) as u64, &mut value)?;
            xattrs.push(log.push(&xattr.entry, &[name, &value])?);
        }
        let mut runs = Vec::new();
        let body = match &self.body {
            Body::File(file) => {
                runs = file.runs(io);
                file.push_live(log, entries, &runs, self.meta.ctime)?
            }
            Body::Dir(dir) => dir.push_live(log)?,
            Body::Symlink { target, .. } => target_entries(target)
                .map(|(entry, piece)| log.push(&entry, &[piece]))
                .collect::<FsResult<_>>()?,
            Body::Special { .. } => Vec::new(),
        };
        let mut mtime = body.last().copied().unwrap_or(attr);
        if matches!(self.body, Body::File(_) | Body::Dir(_)) && self.mtime() > self.meta.ctime {
            // Somebody has set a time to come, which the body's entries have, too; they must not
            // pass for changes made then.
            attr = log.push(&attr_entry(&self.meta, self.mtime()), &[])?;
            mtime = attr;
        }
        Ok(Live { attr, mtime, xattrs, body, runs })
    }
}

/// The pieces of a target are committed, at these positions.
pub(crate) fn retain_target(refs: &mut Refs, target: &[u8], positions: &[u64]) {
    for (piece, &position) in target.chunks(TARGET_PIECE_BYTES_MAX).zip(positions) {
        refs.retain(position, slots_for(size_of::<TargetEntry>() + piece.len()));
    }
}
