//! Closing a volume: the clean unmount.

use terrace_store::checkpoint::{self, Area};
use terrace_store::error::{FsResult, fence};
use terrace_store::space::Purpose;
use terrace_store::sync::Arc;
use terrace_store::sync::atomic::Ordering;

use crate::inode::core::Core;
use crate::inode::resident::{Inner, Inode};

impl Core {
    pub fn close(&self) -> FsResult<()> {
        self.flush_all()?;
        self.commit_all_lazy()?;
        self.settle_inodes()?;
        self.reclaim_all()?;
        let mut inodes = 0;
        for shard in &self.shards {
            let table = shard.table.read();
            let (records, free) = table.counts();
            inodes += records - free;
            table.write_free_counts(&self.pm);
        }
        fence(&self.pm)?;
        let sb = *self.sb.lock();
        let members = self.space.members.all();
        let disks = members.iter().map(|m| (Area::Disk(m.disk.clone()), &m.entry, &m.alloc));
        let pm = (Area::Pm(self.pm.clone()), &sb.devices[0], self.space.pm());
        checkpoint::write(&self.pm, &sb, std::iter::once(pm).chain(disks), inodes)?;
        self.cache.remove_backing()
    }

    /// Nobody can have a removed file open any more; what logs left to the next commit is done now,
    /// under one fence.
    fn settle_inodes(&self) -> FsResult<()> {
        let each = |visit: &dyn Fn(&Arc<Inode>, &mut Inner)| {
            for shard in &self.shards {
                let inodes: Vec<_> = shard.inodes.read().values().cloned().collect();
                inodes.iter().for_each(|inode| visit(inode, &mut inode.inner.write()));
            }
        };
        each(&|inode, inner| {
            if inner.meta.nlink == 0 {
                inode.lookups.store(0, Ordering::Release);
                self.doom_if_unused(inode, inner);
            } else {
                inner.log.flush_unsettled(&self.pm);
            }
        });
        fence(&self.pm)?;
        each(&|inode, inner| {
            if inner.meta.nlink > 0 {
                inner.log.settled(&self.space.source(inode.shard, Purpose::Freeing));
            }
        });
        Ok(())
    }
}
