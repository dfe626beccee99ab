//! Reading an inode from its log.

use terrace_layout::{
    AttrEntry, InodeRecord, LogEntry, Stamp, TAIL_OFFSET, TargetEntry, XattrEntry, slots_for,
};
use terrace_media::Pm;
use terrace_store::damage::DamageKind;
use terrace_store::error::{FsResult, fail, fence};
use terrace_store::file::Seen;
use terrace_store::log::{Log, LogMedia, Refs, entry_damage};
use terrace_store::planted::{Bug, planted};

use super::{Body, Inner, Meta, Xattr, inline_len, kind_of, set_xattr};
use crate::base::types::{FileKind, Ino, Time};
use crate::inode::dir::NewName;

/// A borrower that was stopped moves the tail once, when it goes on. A wild one may do anything.
const TRIES: usize = 1000;

/// An inode that was read after a crash, which may have left something half done.
///
/// Recovery builds on what it reads: entries behind a tail, patches. A daemon that was killed may
/// have left them in a cache only, so they are flushed, and a fence follows, before anything is
/// stored that a power cut must not keep without them.
pub(crate) struct Found {
    inner: Inner,
    seen: Seen,
    /// The word in the record that says where the log ends.
    tail: u64,
}

impl Found {
    /// Flushes what [`Self::finish`] builds on. True: there is something to finish, and a fence of
    /// this thread has to follow first.
    pub fn flush(&self, pm: &Pm) -> bool {
        self.inner.log.flush_found(pm) || self.seen.has_patches()
    }

    /// The inode, with nothing finished on media.
    pub fn unfinished(self) -> Inner {
        self.inner
    }

    /// Moves the log's tail, and stores the patches again; durable at the next fence. False, and
    /// nothing is done: a borrower that had been stopped has gone on, and moved the tail.
    #[must_use]
    pub fn finish(&mut self, pm: &Pm) -> bool {
        if !self.inner.log.finish(pm, self.tail) {
            return false;
        }
        if !planted(Bug::PatchesNotRepeated)
            && let Body::File(file) = &self.inner.body
        {
            file.repeat_patches(pm, &self.seen);
        }
        true
    }
}

const OTHER_KIND: &str = "does not fit the inode's kind";

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
    ) -> FsResult<Self> {
        Ok(Self::find(media, record_at, record, crashed)?.unfinished())
    }

    /// Reads an inode that a crash has left, and finishes what was half done; durable at the next
    /// fence.
    ///
    /// # Errors
    /// Damage, with the place: nothing is stored then. PM errors. `EBUSY`: a process that had
    /// borrowed it changes it again and again, as no borrower does.
    pub fn recover(
        media: LogMedia<'_>,
        record_at: u64,
        record: &InodeRecord,
        crashed: Stamp,
    ) -> FsResult<Self> {
        let mut record = *record;
        for _ in 0..TRIES {
            let mut found = Self::find(media, record_at, &record, Some(crashed))?;
            if found.flush(media.pm) && !planted(Bug::FinishedUnfenced) {
                fence(media.pm)?;
            }
            if found.finish(media.pm) {
                return Ok(found.unfinished());
            }
            record.tail = media.pm.load_u64(record_at + TAIL_OFFSET);
        }
        fail(libc::EBUSY)
    }

    /// The first half of [`Self::recover`].
    ///
    /// # Errors
    /// Damage, with the place.
    pub fn find(
        media: LogMedia<'_>,
        record_at: u64,
        record: &InodeRecord,
        crashed: Option<Stamp>,
    ) -> FsResult<Found> {
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
        Ok(Found { inner, seen, tail: record.tail })
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
                if !file.apply(refs, position, entry, seen) {
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
