//! Closing a volume: the clean unmount.

use terrace_store::checkpoint::{self, Area};
use terrace_store::error::{FsError, FsResult, fence};

use crate::base::patience;
use crate::inode::resident::loans::forget_segment;
use crate::mount::parts::Parts;

impl Parts {
    pub fn close(&self) -> FsResult<()> {
        self.lending.take_back_all();
        patience::endure(|| self.pages.flush_all())?;
        self.inodes.commit_all_lazy()?;
        self.inodes.settle_inodes()?;
        self.inodes.reclaim_all()?;
        let mut inodes = 0;
        for shard in &self.inodes.shards {
            let table = shard.table.read();
            let (records, free) = table.counts();
            inodes += records - free;
            table.write_free_counts(&self.store.pm);
        }
        fence(&self.store.pm)?;
        let sb = *self.devices.sb.lock();
        let members = self.store.space.members.all();
        let disks = members.iter().map(|m| (Area::Disk(m.disk.clone()), &m.entry, &m.alloc));
        let pm = (Area::Pm(self.store.pm.clone()), &sb.devices[0], self.store.space.pm());
        if let Some(process) = self.loans.quarantined_for().first() {
            // Free space that is written down is handed out by the next mount.
            let message = format!(
                "{}: process {process} is stopped in the middle of a write to PM: continue or end \
                 it; the next mount recovers the volume",
                self.store.pm.path().display()
            );
            return Err(FsError::with_message(libc::EBUSY, message));
        }
        let devices = std::iter::once(pm).chain(disks);
        checkpoint::write(&self.store.pm, &sb, devices, inodes, &self.kin.rows())?;
        self.wear.save()?;
        forget_segment(&self.options, &sb);
        self.cache.remove_backing()
    }
}
