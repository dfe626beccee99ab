//! Reclaiming orphans: an inode that nobody refers to any more gives back its record, then its
//! blocks.
//!
//! Invariant: the record is free, durably, before any block of the inode is: a crash in between
//! leaves blocks that the next recovery frees, never a record that leads to blocks of others.

use terrace_layout::InodeRecord;
use terrace_media::Pm;
use terrace_policy::PmSpace;
use terrace_store::error::{FsResult, fence};
use terrace_store::itable::{RecordState, record_state};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, limit};
use zerocopy::IntoBytes;

use crate::base::types::{FileKind, Ino, Time};
use crate::inode::orphans::Orphan;
use crate::inode::resident::{Inner, Inode};
use crate::inode::table::Inodes;

/// Removed inodes that wait before they are reclaimed together.
const ORPHANS_BATCH: usize = limit(64, 2);

impl Inodes {
    /// Nobody refers to the inode any more, by name or by lookup: its space goes back, a little
    /// later.
    pub fn delete_if_unused(&self, inode: &Arc<Inode>, inner: &mut Inner) {
        if inner.meta.nlink > 0 {
            return;
        }
        if inode.lookups.count() > 0 {
            if inode.kind == FileKind::Regular && !inode.orphaned.swap(true, Ordering::AcqRel) {
                self.open_orphans.come();
            }
            return;
        }
        if self.health.is_read_only() || inode.deleted.swap(true, Ordering::AcqRel) {
            return;
        }
        self.recorder.note_moment(terrace_trace::Operation::Remove, inode.ino);
        if let Ok((_, file)) = inner.file_mut() {
            let shown = file.life.ended(Time::now().0);
            self.kin.note(file, shown);
        }
        self.drop_pages(inode, 0, u64::MAX);
        let shard = self.shard(inode.ino);
        self.activity.forget(inode);
        self.dirty.forget(inode);
        let waiting = {
            let mut orphans = shard.orphans.lock();
            orphans.push(Orphan {
                ino: inode.ino,
                record_at: inner.log.record_at(),
                owned: inner.owned(),
            });
            orphans.len()
        };
        // Only now can who looks for its room find it.
        if inode.orphaned.load(Ordering::Acquire) {
            self.open_orphans.go();
        }
        if waiting == 1 {
            self.dirty.shards[inode.shard].notify_lazily();
        }
    }

    /// Files that have lost their last name, and that programs had open when the daemon before this
    /// one died: they stay until the kernel forgets them. One that is damaged is left to the next
    /// recovery.
    pub fn adopt_open(&self, open: &[Ino]) {
        for &ino in open {
            match self.get(ino) {
                Ok(inode) => {
                    let mut inner = inode.inner.write();
                    // On media, the last name needs no entry to go.
                    inner.meta.nlink = 0;
                    self.delete_if_unused(&inode, &mut inner);
                }
                Err(error) => tracing::warn!("inode {}, without a name and open: {error}", ino.0),
            }
        }
    }

    /// Drops cached pages, and the disk space promised to dirty ones. The caller holds the inode
    /// exclusively.
    pub fn drop_pages(&self, inode: &Inode, from_block: u64, to_block: u64) {
        if inode.pages.is_empty() {
            return;
        }
        let before = inode.pages.dirty_pages();
        self.cache.drop_range(&inode.pages, from_block, to_block);
        self.store.space.unreserve_disk(before - inode.pages.dirty_pages());
    }

    /// Reclaims removed inodes if enough of them wait.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn reclaim_some(&self, shard: usize) -> FsResult<()> {
        if self.shards[shard].orphans.lock().len() < ORPHANS_BATCH {
            return Ok(());
        }
        self.reclaim(shard)
    }

    /// Reclaims the removed inodes of a shard: their records are free, durably, before their blocks
    /// are.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn reclaim(&self, shard: usize) -> FsResult<()> {
        // The table is locked from the first record on: a chunk that is read meanwhile must not
        // show as free what is not given back yet. And it is locked before the list is taken: who
        // finds nothing to reclaim has waited for whoever took it.
        let mut table = self.shards[shard].table.write();
        let orphans = std::mem::take(&mut *self.shards[shard].orphans.lock());
        if orphans.is_empty() {
            return Ok(());
        }
        for d in &orphans {
            free_record(&self.store.pm, d.record_at, d.ino);
        }
        fence(&self.store.pm)?;
        for d in &orphans {
            for &(addr, blocks) in &d.owned {
                self.store.space.free(addr, blocks);
            }
        }
        for d in orphans {
            // Until now the orphan stood in the map, lest somebody load it anew.
            self.shards[shard].depart(&mut self.shards[shard].inodes.write(), d.ino);
            table.free(&self.store.pm, d.ino);
        }
        if !table.wants_to_shrink(self.store.pm_is_low()) {
            return Ok(());
        }
        drop(table);
        self.devices.allow_gaps()?;
        self.shards[shard].table.write().shrink(
            &self.store.pm,
            &self.store.journals[shard],
            &self.store.space,
        )
    }

    /// Whether removed inodes of a shard wait to be reclaimed.
    pub fn has_orphans(&self, shard: usize) -> bool {
        !self.shards[shard].orphans.lock().is_empty()
    }

    /// Reclaims the removed inodes of all shards.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn reclaim_all(&self) -> FsResult<()> {
        (0..self.store.shards()).try_for_each(|s| self.reclaim(s))
    }

    /// How full PM is, once what is removed has been reclaimed if that matters for `blocks` more.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn pm_space(&self, blocks: u64) -> FsResult<PmSpace> {
        if self.store.space.room_for_data() < blocks {
            self.reclaim_if_any()?;
        }
        Ok(self.store.space.pm_space())
    }

    /// Reclaims removed inodes if there are any.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn reclaim_if_any(&self) -> FsResult<()> {
        let someone_waits = self.shards.iter().any(|s| !s.orphans.lock().is_empty());
        if someone_waits { self.reclaim_all() } else { Ok(()) }
    }
}

/// Marks a record free; durable at the next fence.
pub(crate) fn free_record(pm: &Pm, at: u64, ino: Ino) {
    if let RecordState::Used(record) = record_state(pm, at, ino) {
        pm.store_u64(at, record.freed().first_word());
    } else {
        pm.write(at, InodeRecord::free(ino.0, 0).as_bytes());
    }
    pm.flush(at, size_of::<InodeRecord>() as u64);
}
