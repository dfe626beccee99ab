//! Reading an inode from its log.

use terrace_layout::{
    AttrEntry, BlockAddr, CRC_BLOCKS, InodeRecord, LogEntry, SET_SIZE_TRUNCATES, Stamp,
    TargetEntry, WRITE_UNWRITTEN, XattrEntry, slots_for,
};
use terrace_store::damage::DamageKind;
use terrace_store::error::FsResult;
use terrace_store::file::{FileData, Heat, apply_patch};
use terrace_store::index::{Extent, Freed, Segment};
use terrace_store::log::{Log, LogMedia, Refs, entry_damage};
use terrace_store::planted::{Bug, planted};

use super::{Body, Inner, Meta, Xattr, inline_len, kind_of, set_xattr};
use crate::base::types::{FileKind, Ino, Time};
use crate::inode::dir::NewName;

/// Whether what the last crash left half done is finished on media when an inode is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// Nothing is stored.
    No,
    /// Patches are stored again, the log's tail catches up; durable at the next fence.
    Yes,
}

const OTHER_KIND: &str = "does not fit the inode's kind";

/// What has been met in a file's log while it is read.
#[derive(Default)]
struct Seen {
    patches: Vec<Patch>,
    freed: Freed,
    /// Blocks that entries mapped, and the sum of their times; the last of these.
    blocks: u64,
    time_sum: i128,
    last_write: i64,
}

impl Seen {
    fn wrote(&mut self, blocks: u64, time_ns: i64) {
        self.blocks += blocks;
        self.time_sum += i128::from(blocks) * i128::from(time_ns);
        self.last_write = self.last_write.max(time_ns);
    }

    /// The temperature of a file of so many blocks. Blocks that were written again count as often
    /// as they were written.
    fn heat(&self, blocks: u64) -> Heat {
        let mean = self.time_sum / i128::from(self.blocks.max(1));
        Heat::loaded(blocks, Time(mean as i64), Time(self.last_write))
    }
}

/// A small overwrite that may not have reached its block.
struct Patch {
    offset: u64,
    data: Vec<u8>,
}

impl Inner {
    /// Reads an inode from media; `crashed`: stamp of the mount that wrote last, if what it left
    /// has not been recovered.
    ///
    /// # Errors
    /// Damage, with the place.
    pub fn load(
        media: LogMedia<'_>,
        record_at: u64,
        record: &InodeRecord,
        crashed: Option<Stamp>,
        replay: Replay,
    ) -> FsResult<Self> {
        let (pm, kind) = (media.pm, kind_of(media.pm, record)?);
        let mut inner = Inner::new(record_at, record, kind);
        let mut seen = Seen::default();
        let log = Log::load(media, record_at, record, crashed, &mut |refs, position, entry| {
            let applied = inner.apply(refs, position, entry, &mut seen);
            applied.map_err(|what| {
                let kind = DamageKind::Wrong(what.into());
                entry_damage(pm, Ino(record.ino), position, kind)
            })?;
            // Blocks that the log itself superseded were never counted as used.
            seen.freed.clear();
            Ok(())
        })?;
        inner.log = log;
        if let Body::File(file) = &mut inner.body {
            file.heat = seen.heat(file.index.data_blocks());
        }
        if replay == Replay::No {
            return Ok(inner);
        }
        inner.log.recover(pm);
        if !planted(Bug::PatchesNotRepeated)
            && let Body::File(file) = &inner.body
        {
            for patch in seen.patches {
                if let Segment::Extent(e) =
                    file.index.lookup(patch.offset / terrace_layout::BLOCK_BYTES)
                    && e.addr.is_pm()
                    && e.addr.byte() + terrace_layout::BLOCK_BYTES <= pm.len()
                {
                    apply_patch(pm, e.addr, patch.offset, &patch.data);
                }
            }
        }
        Ok(inner)
    }

    /// Applies an entry of the log; what is wrong with it if it cannot be.
    fn apply(
        &mut self,
        refs: &mut Refs,
        position: u64,
        entry: LogEntry<'_>,
        seen: &mut Seen,
    ) -> Result<(), &'static str> {
        match (&mut self.body, entry) {
            (_, LogEntry::Pad) => {}
            (_, LogEntry::Attr(e)) => self.apply_attr(refs, position, &e),
            (_, LogEntry::XattrSet(e, name, _)) => {
                let slots = slots_for(size_of::<XattrEntry>() + name.len() + inline_len(&e));
                set_xattr(&mut self.xattrs, refs, name, Some(Xattr { position, slots, entry: e }));
                self.meta.ctime = self.meta.ctime.max(Time(e.ctime_ns));
            }
            (_, LogEntry::XattrRemove(e, name)) => {
                set_xattr(&mut self.xattrs, refs, name, None);
                self.meta.ctime = self.meta.ctime.max(Time(e.ctime_ns));
            }
            (Body::Dir(dir), LogEntry::DentryAdd(e, name)) => {
                let Some(kind) = FileKind::from_mode(u32::from(e.file_type) << 12) else {
                    return Err(OTHER_KIND);
                };
                if dir.at(e.cookie).is_some() {
                    return Err("gives a position in the directory twice");
                }
                let (ino, time) = (Ino(e.ino), Time(e.mtime_ns));
                let (cookie, generation) = (e.cookie, e.generation);
                let new = NewName { cookie, name, ino, generation, kind, time };
                dir.added(refs, position, &new);
                self.meta.ctime = self.meta.ctime.max(time);
            }
            (Body::Dir(dir), LogEntry::DentryRemove(e)) => {
                dir.removed(refs, position, e.cookie, Time(e.mtime_ns));
                self.meta.ctime = self.meta.ctime.max(Time(e.mtime_ns));
            }
            (Body::Symlink { target, .. }, LogEntry::Target(e, piece)) => {
                refs.retain(position, slots_for(size_of::<TargetEntry>() + piece.len()));
                target.truncate(e.offset as usize);
                target.extend_from_slice(piece);
            }
            (Body::File(file), entry) => {
                let before = file.mtime;
                if !apply_to_file(file, refs, position, entry, seen) {
                    return Err(OTHER_KIND);
                }
                // Pages are written back under the time that the file has, which may be one that
                // somebody has set.
                if file.mtime != before {
                    self.meta.ctime = self.meta.ctime.max(file.mtime);
                }
            }
            _ => return Err(OTHER_KIND),
        }
        Ok(())
    }

    fn apply_attr(&mut self, refs: &mut Refs, position: u64, e: &AttrEntry) {
        refs.move_to(&mut self.meta.attr_ref, position);
        let attr_ref = self.meta.attr_ref;
        self.meta = Meta {
            mode: e.mode & 0o7777,
            uid: e.uid,
            gid: e.gid,
            nlink: e.nlink,
            atime: Time(e.atime_ns),
            ctime: Time(e.ctime_ns),
            attr_ref,
            lazy: false,
        };
        match &mut self.body {
            Body::File(file) => file.load_mtime(refs, position, e.mtime_ns),
            Body::Dir(dir) => dir.touched(refs, position, Time(e.mtime_ns)),
            Body::Symlink { mtime, .. } | Body::Special { mtime } => *mtime = Time(e.mtime_ns),
        }
    }
}

/// Applies an entry of a file's log; `false` if it is no entry of a file.
fn apply_to_file(
    file: &mut FileData,
    refs: &mut Refs,
    position: u64,
    entry: LogEntry<'_>,
    seen: &mut Seen,
) -> bool {
    let block_bytes = terrace_layout::BLOCK_BYTES;
    match entry {
        LogEntry::Write(e, _) => {
            let end = e.file_block + u64::from(e.blocks);
            seen.patches.retain(|p| !(e.file_block..end).contains(&(p.offset / block_bytes)));
            file.index.unmap(refs, e.file_block, end, &mut seen.freed);
            let crc_run = (e.crc_form == CRC_BLOCKS)
                .then_some((BlockAddr(e.crc_address), u64::from(e.crcs[1])));
            let unwritten = e.flags & WRITE_UNWRITTEN != 0;
            let extent =
                Extent::new(BlockAddr(e.address), e.blocks, position, unwritten, crc_run.is_some());
            file.index.map(refs, e.file_block, extent.with_history(e.counter), crc_run);
            seen.wrote(u64::from(e.blocks), e.mtime_ns);
            if !e.is_move() {
                file.load_size(refs, position, e.size, e.mtime_ns);
            }
        }
        LogEntry::Append(e) => {
            seen.wrote(0, e.mtime_ns);
            file.load_size(refs, position, e.size, e.mtime_ns);
        }
        LogEntry::Patch(e, data) => {
            seen.wrote(0, e.mtime_ns);
            seen.patches.push(Patch { offset: e.offset, data: data.to_vec() });
            file.load_mtime(refs, position, e.mtime_ns);
        }
        LogEntry::SetSize(e) => {
            if e.flags & SET_SIZE_TRUNCATES != 0 {
                file.index.unmap(refs, e.size.div_ceil(block_bytes), u64::MAX, &mut seen.freed);
            }
            seen.patches.retain_mut(|p| {
                p.data.truncate(e.size.saturating_sub(p.offset) as usize);
                !p.data.is_empty()
            });
            file.load_size(refs, position, e.size, e.mtime_ns);
        }
        LogEntry::Hole(e) => {
            let end = e.file_block + e.blocks;
            seen.patches.retain(|p| !(e.file_block..end).contains(&(p.offset / block_bytes)));
            file.index.unmap(refs, e.file_block, end, &mut seen.freed);
            file.load_size(refs, position, e.size, e.mtime_ns);
        }
        _ => return false,
    }
    true
}
