//! A directory's entries in DRAM, by name and by position in listings.
//!
//! Invariants:
//! * `by_name` and `entries` hold the same names.
//! * A name has its cookie as long as it is there, whatever inode it leads to, and a new name gets
//!   the highest. A listing goes from the highest to the lowest. So it ends, whatever changes
//!   meanwhile; it shows each name that stays exactly once; and it shows no name twice, for one
//!   that is removed and made anew falls behind the reader.
//! * Each entry holds one reference on its log entry.

use std::collections::{BTreeMap, HashMap};

use terrace_layout::{DentryAddEntry, DentryRemoveEntry, EntryType, slots_for};
use terrace_store::error::FsResult;
use terrace_store::log::{Log, NewLog, Refs};
use terrace_store::sync::Arc;

use crate::base::types::{FileKind, Ino, Time};

/// First cookie of a real entry; 1 and 2 stand for `.` and `..`.
pub(crate) const FIRST_COOKIE: u64 = terrace_layout::COOKIE_MIN;

/// One name.
#[derive(Debug, Clone)]
pub(crate) struct Dentry {
    pub ino: Ino,
    pub generation: u32,
    pub kind: FileKind,
    pub name: Arc<[u8]>,
    position: u64,
}

/// The entries of a directory.
#[derive(Debug)]
pub(crate) struct DirData {
    by_name: HashMap<Arc<[u8]>, u64>,
    entries: BTreeMap<u64, Dentry>,
    next_cookie: u64,
    subdirs: u32,
    pub mtime: Time,
    mtime_ref: u64,
}

impl Dentry {
    /// An entry that is not in a log yet.
    pub fn new(ino: Ino, generation: u32, kind: FileKind, name: &[u8]) -> Self {
        Self { ino, generation, kind, name: name.into(), position: 0 }
    }

    /// This entry as one to be added.
    pub fn as_new(&self, cookie: u64, time: Time) -> NewName<'_> {
        let Self { ino, generation, kind, ref name, .. } = *self;
        NewName { cookie, name, ino, generation, kind, time }
    }

    /// Position of the log entry that added it.
    pub fn position(&self) -> u64 {
        self.position
    }
}

/// A name that a log entry adds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewName<'a> {
    pub cookie: u64,
    pub name: &'a [u8],
    pub ino: Ino,
    pub generation: u32,
    pub kind: FileKind,
    pub time: Time,
}

impl NewName<'_> {
    /// The entry that adds it. The name follows the entry.
    fn entry(&self) -> DentryAddEntry {
        DentryAddEntry {
            kind: EntryType::DentryAdd as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            ino: self.ino.0,
            cookie: self.cookie,
            mtime_ns: self.time.0,
            generation: self.generation,
            file_type: (self.kind.format_bits() >> 12) as u8,
            name_len: self.name.len() as u8,
            reserved: 0,
        }
    }
}

/// Slots of the entry that adds `name`.
fn add_slots(name: &[u8]) -> u64 {
    slots_for(size_of::<DentryAddEntry>() + name.len())
}

impl DirData {
    pub fn new(mtime: Time) -> Self {
        Self {
            by_name: HashMap::new(),
            entries: BTreeMap::new(),
            next_cookie: FIRST_COOKIE,
            subdirs: 0,
            mtime,
            mtime_ref: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn subdirs(&self) -> u32 {
        self.subdirs
    }

    pub fn find(&self, name: &[u8]) -> Option<&Dentry> {
        self.by_name.get(name).map(|cookie| &self.entries[cookie])
    }

    /// The entries of a listing that go on at `position`: the newest first, each with its cookie,
    /// which is also the position behind it. Before [`FIRST_COOKIE`] there is nothing of a listing
    /// but `.` and `..`.
    pub fn from(&self, position: u64) -> impl Iterator<Item = (u64, &Dentry)> {
        let end = if position < FIRST_COOKIE { u64::MAX } else { position };
        self.entries.range(..end).rev().map(|(&c, d)| (c, d))
    }

    /// The entry with this cookie.
    pub fn at(&self, cookie: u64) -> Option<&Dentry> {
        self.entries.get(&cookie)
    }

    /// Puts the entry that adds a name into the batch; returns its index in it.
    pub fn push_add(&self, log: &mut Log, new: &NewName<'_>) -> usize {
        log.push(&new.entry(), &[new.name])
    }

    /// The cookie of `name`, or the one that it takes if it is new; `n` for the nth of one batch.
    pub fn cookie_of(&self, name: &[u8], n: u64) -> u64 {
        self.by_name.get(name).copied().unwrap_or(self.next_cookie + n)
    }

    /// Puts the entry that removes `name` into the batch.
    pub fn push_remove(&self, log: &mut Log, name: &[u8], now: Time) -> usize {
        log.push(&self.remove_entry(name, now), &[])
    }

    /// The entry that removes `name`.
    pub fn remove_entry(&self, name: &[u8], now: Time) -> DentryRemoveEntry {
        DentryRemoveEntry {
            kind: EntryType::DentryRemove as u8,
            slots: 0,
            flags: 0,
            crc: 0,
            cookie: self.by_name[name],
            mtime_ns: now.0,
            reserved: [0; 40],
        }
    }

    /// A committed entry at `position` added a name.
    pub fn added(&mut self, refs: &mut Refs, position: u64, new: &NewName<'_>) {
        let NewName { cookie, name, ino, generation, kind, time } = *new;
        refs.retain(position, add_slots(name));
        let name: Arc<[u8]> = name.into();
        self.by_name.insert(name.clone(), cookie);
        self.entries.insert(cookie, Dentry { ino, generation, kind, name, position });
        self.next_cookie = self.next_cookie.max(cookie + 1);
        self.subdirs += u32::from(kind == FileKind::Directory);
        refs.move_to(&mut self.mtime_ref, position);
        self.mtime = time;
    }

    /// A committed entry at `position` removed the entry with this cookie. When a log is read the
    /// entry that added it may be gone already, with a dead page at the log's front.
    pub fn removed(&mut self, refs: &mut Refs, position: u64, cookie: u64, mtime: Time) {
        if let Some(dentry) = self.entries.remove(&cookie) {
            self.by_name.remove(&dentry.name);
            self.subdirs -= u32::from(dentry.kind == FileKind::Directory);
            refs.release(dentry.position, add_slots(&dentry.name));
        }
        self.next_cookie = self.next_cookie.max(cookie + 1);
        self.touched(refs, position, mtime);
    }

    /// As [`Self::removed`], by name, for the running system.
    pub fn removed_name(&mut self, refs: &mut Refs, position: u64, name: &[u8], mtime: Time) {
        let cookie = self.by_name[name];
        self.removed(refs, position, cookie, mtime);
    }

    /// The entry that added `name` says now that it is gone. The last entry that gives a time, this
    /// one or another, gives this one.
    pub fn struck(&mut self, refs: &mut Refs, name: &[u8], mtime: Time) {
        let cookie = self.by_name.remove(name).expect("the name was there");
        let dentry = self.entries.remove(&cookie).expect("by_name and entries hold the same names");
        self.subdirs -= u32::from(dentry.kind == FileKind::Directory);
        refs.release(dentry.position, add_slots(name));
        self.mtime = mtime;
    }

    /// The entry that added `name` says now that it leads to what `source` leads to; of times, as
    /// [`Self::struck`].
    pub fn taken_over(&mut self, name: &[u8], source: &Dentry, mtime: Time) {
        let dentry = self
            .entries
            .get_mut(&self.by_name[name])
            .expect("by_name and entries hold the same names");
        let was = std::mem::replace(&mut dentry.kind, source.kind);
        (dentry.ino, dentry.generation) = (source.ino, source.generation);
        self.subdirs += u32::from(source.kind == FileKind::Directory);
        self.subdirs -= u32::from(was == FileKind::Directory);
        self.mtime = mtime;
    }

    /// Position of the last entry that gives a time; 0: none does.
    pub fn mtime_position(&self) -> u64 {
        self.mtime_ref
    }

    /// Another entry set the times.
    pub fn touched(&mut self, refs: &mut Refs, position: u64, mtime: Time) {
        refs.move_to(&mut self.mtime_ref, position);
        self.mtime = mtime;
    }

    /// Puts every entry into a new log; returns where they will stand.
    ///
    /// # Errors
    /// `ENOSPC`.
    pub fn push_live(&self, log: &mut impl NewLog) -> FsResult<Vec<u64>> {
        let push = |(&cookie, d): (&u64, &Dentry)| {
            log.push(&d.as_new(cookie, self.mtime).entry(), &[&d.name])
        };
        self.entries.iter().map(push).collect()
    }

    /// Compaction copied the entries to these positions; the last that gives a time is now at
    /// `mtime`.
    pub fn compacted(&mut self, refs: &mut Refs, positions: &[u64], mtime: u64) {
        self.mtime_ref = 0;
        for (dentry, &position) in self.entries.values_mut().zip(positions) {
            dentry.position = position;
            refs.retain(position, add_slots(&dentry.name));
        }
        refs.move_to(&mut self.mtime_ref, mtime);
    }
}
