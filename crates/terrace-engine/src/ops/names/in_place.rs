//! Names that go, or pass to another inode, where their entries stand: what frees an inode needs no
//! room in PM.
//!
//! One journal record changes all entries concerned (see `log::rewrite`): those of the names, the
//! last that gave the directory's times, and that of the attributes of a file that has other names.
//! Entries on a disk cannot be changed so.

use std::mem::offset_of;

use terrace_layout::{AttrEntry, DentryAddEntry, JournalWord};
use terrace_media::Pm;
use terrace_store::error::{FsResult, fail};
use terrace_store::log::Log;
use terrace_store::planted::{Bug, planted};

use super::link_loss::LinkLoss;
use crate::base::types::Time;
use crate::inode::dir::{Dentry, DirData};
use crate::inode::resident::Inner;
use crate::inode::store::Store;

/// Entries that change where they stand, in one commit. Each part fails with `ENOSPC` where an
/// entry lies on a disk.
pub(super) struct InPlace<'a> {
    pm: &'a Pm,
    now: Time,
    words: Vec<JournalWord>,
    /// Positions of the entries, all of which give the new time.
    changed: Vec<u64>,
}

impl<'a> InPlace<'a> {
    pub fn new(pm: &'a Pm, now: Time) -> Self {
        Self { pm, now, words: Vec::new(), changed: Vec::new() }
    }

    /// The position of the entry of `name`, which changes.
    fn position(&mut self, entries: &DirData, name: &[u8]) -> FsResult<u64> {
        let position = entries.find(name).expect("the caller has found it").position();
        if !Log::can_rewrite(position) {
            return fail(libc::ENOSPC);
        }
        self.changed.push(position);
        Ok(position)
    }

    /// The name goes.
    pub fn remove(&mut self, dir: &mut Inner, name: &[u8]) -> FsResult<()> {
        let (log, entries) = dir.dir_mut()?;
        let position = self.position(entries, name)?;
        self.words.extend(log.strike(self.pm, position, &entries.remove_entry(name, self.now))?);
        Ok(())
    }

    /// The name leads to what `source` leads to.
    pub fn take_over(&mut self, dir: &mut Inner, name: &[u8], source: &Dentry) -> FsResult<()> {
        let position = self.position(dir.dir()?, name)?;
        let now = self.now;
        let words = dir.log.rewrite(self.pm, position, |entry| {
            let mut put =
                |at: usize, value: &[u8]| entry[at..at + value.len()].copy_from_slice(value);
            put(offset_of!(DentryAddEntry, ino), &source.ino.0.to_le_bytes());
            put(offset_of!(DentryAddEntry, generation), &source.generation.to_le_bytes());
            put(offset_of!(DentryAddEntry, file_type), &[(source.kind.format_bits() >> 12) as u8]);
            put(offset_of!(DentryAddEntry, mtime_ns), &now.0.to_le_bytes());
        })?;
        self.words.extend(words);
        Ok(())
    }

    /// The directory, of which all names have been changed, has changed now.
    pub fn touch(&mut self, dir: &mut Inner) -> FsResult<()> {
        let position = dir.dir()?.mtime_position();
        if self.changed.contains(&position) {
            return Ok(());
        }
        if !Log::can_rewrite(position) {
            return fail(libc::ENOSPC);
        }
        self.words.extend(dir.log.retime(self.pm, position, self.now)?);
        Ok(())
    }

    /// An inode loses a link, and has others.
    pub fn lose_link(&mut self, inner: &mut Inner, loss: &LinkLoss) -> FsResult<()> {
        let position = inner.meta.attr_ref;
        if !Log::can_rewrite(position) {
            return fail(libc::ENOSPC);
        }
        let words = inner.log.rewrite(self.pm, position, |entry| {
            let mut put =
                |at: usize, value: &[u8]| entry[at..at + value.len()].copy_from_slice(value);
            put(offset_of!(AttrEntry, nlink), &loss.meta.nlink.to_le_bytes());
            put(offset_of!(AttrEntry, ctime_ns), &loss.meta.ctime.0.to_le_bytes());
        })?;
        self.words.extend(words);
        Ok(())
    }

    /// Commits all of it, durably.
    ///
    /// # Errors
    /// PM errors: the volume must not be written again.
    pub fn commit(self, store: &Store, shard: usize) -> FsResult<()> {
        let journal = &store.journals[shard];
        if planted(Bug::StruckApart) {
            return self
                .words
                .iter()
                .try_for_each(|word| journal.commit(&store.pm, std::slice::from_ref(word)));
        }
        journal.commit(&store.pm, &self.words)
    }
}
