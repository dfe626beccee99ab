//! Committing logs of inodes, and keeping them short.

use terrace_layout::BlockAddr;
use terrace_store::error::FsResult;
use terrace_store::log::Log;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;
use terrace_store::sync::Arc;

use crate::inode::activity::Activity;
use crate::inode::device_table::DeviceTable;
use crate::inode::resident::{Inner, Inode};
use crate::inode::store::Store;

/// See the module.
#[derive(Debug)]
pub(crate) struct Commits {
    store: Arc<Store>,
    activity: Arc<Activity>,
    devices: Arc<DeviceTable>,
}

impl Commits {
    /// Commits to this store, of which `activity` hears.
    pub fn new(store: Arc<Store>, activity: Arc<Activity>, devices: Arc<DeviceTable>) -> Self {
        Self { store, activity, devices }
    }
}

impl Commits {
    /// Commits the batches of `logs`, all or none, durably.
    ///
    /// # Errors
    /// `ENOSPC`: nothing changed. Others are fatal.
    pub fn commit(&self, shard: usize, purpose: Purpose, logs: &mut [&mut Log]) -> FsResult<()> {
        let source = self.store.space.source(shard, purpose);
        let alone = (logs.len() == 1).then(|| self.store.stamp());
        for i in 0..logs.len() {
            if let Err(error) = logs[i].stage(&self.store.pm, &source, alone) {
                logs[..i].iter_mut().for_each(|log| log.abort(&self.store.pm, &source));
                return Err(error);
            }
        }
        match logs {
            [log] => log.commit(&self.store.pm)?,
            _ => {
                let words: Vec<_> = logs.iter().map(|log| log.tail_word()).collect();
                let journal = &self.store.journals[shard];
                match planted(Bug::LogsOneByOne) {
                    true => words.iter().try_for_each(|word| {
                        journal.commit(&self.store.pm, std::slice::from_ref(word))
                    })?,
                    false => journal.commit(&self.store.pm, &words)?,
                }
                logs.iter_mut().for_each(|log| log.published());
            }
        }
        // Names and attributes fill PM, too.
        self.activity.note_traffic();
        self.activity.note_pm_use(shard);
        Ok(())
    }

    /// After a commit: drops dead log pages, compacts a log of which enough is dead.
    ///
    /// # Errors
    /// Fatal ones only.
    pub fn tidy(&self, shard: usize, inner: &mut Inner) -> FsResult<()> {
        let source = self.store.space.source(shard, Purpose::Freeing);
        inner.log.drop_dead_front(&self.store.pm, &source);
        inner.compact_if_wanted(
            self.store.io(&source),
            self.store.space.pm().free_blocks(),
            self.activity.logs_are_tight(),
            &self.store.journals[shard],
        )?;
        // The log's next commit may be the one that finds no room.
        match inner.log.holds_back_pages() && self.store.pm_is_low() {
            true => inner.log.settle(&self.store.pm, &source),
            false => Ok(()),
        }
    }

    /// The file has no data in PM any more: its log gives its pages back if what is live of it fits
    /// into the record. Returns how many. Programs that know nothing of archives know nothing of
    /// such records: there are none until archives are allowed.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn retreat_into_record(&self, shard: usize, inner: &mut Inner) -> FsResult<u64> {
        let pages = inner.log.pages().count() as u64;
        let may = self.devices.has_archives() && inner.log.may_fit_record();
        if pages == 0 || !may || has_data_in_pm(inner) {
            return Ok(0);
        }
        let source = self.store.space.source(shard, Purpose::Freeing);
        let io = self.store.io(&source);
        // An entry that cannot be read is met by whoever wants it.
        let Ok(Some(new)) = inner.draft(io, false) else { return Ok(0) };
        inner.replace_log(new, BlockAddr(0), io, &self.store.journals[shard])?;
        Ok(pages)
    }

    /// Logs times that were kept back.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub fn commit_lazy(&self, inode: &Inode, inner: &mut Inner) -> FsResult<()> {
        if !inner.meta.lazy || inner.meta.nlink == 0 {
            return Ok(());
        }
        let (meta, mtime) = (inner.meta, inner.mtime());
        inner.log.begin();
        let index = inner.push_attr(&meta, mtime);
        self.commit(inode.shard, Purpose::Ordinary, &mut [&mut inner.log])?;
        inner.attr_committed(&meta, mtime, index);
        self.tidy(inode.shard, inner)
    }

    /// As [`Self::commit_lazy`], but times that find no room in PM stay lazy.
    ///
    /// # Errors
    /// Fatal ones.
    pub fn commit_lazy_if_room(&self, inode: &Inode, inner: &mut Inner) -> FsResult<()> {
        match self.commit_lazy(inode, inner) {
            Err(error) if error.is_no_room() => Ok(()),
            other => other,
        }
    }
}

fn has_data_in_pm(inner: &Inner) -> bool {
    inner.file().is_ok_and(|file| file.index.iter().any(|(_, extent)| extent.addr.is_pm()))
}
