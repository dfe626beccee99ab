//! The repairs, each of which is stored only if no reading of the damage can need what it changes.

use terrace_layout::{BLOCK_BYTES, Superblock};
use terrace_media::AlignedBuf;
use terrace_store::alloc::DeviceAlloc;
use terrace_store::checkpoint;
use terrace_store::error::{FsResult, fence};
use terrace_store::file::BLOCK;
use terrace_store::log::Log;
use terrace_store::space::{Purpose, Space};
use terrace_store::sync::Arc;
use zerocopy::IntoBytes;

use super::tree::Tree;
use super::{Check, Finding, Remedy};
use crate::base::types::{Ino, Time};
use crate::inode::reclaim::free_record;
use crate::inode::resident::Meta;
use crate::mount::offline::Offline;
use crate::mount::scan::Scan;

impl Check<'_> {
    pub(super) fn repair(&self, offline: &Offline, tree: &Tree, sound: bool) -> FsResult<()> {
        let mut findings = std::mem::take(&mut *self.findings.lock());
        let result = self.apply(&mut findings, offline, tree, sound);
        *self.findings.lock() = findings;
        result
    }

    fn apply(
        &self,
        findings: &mut [Finding],
        offline: &Offline,
        tree: &Tree,
        sound: bool,
    ) -> FsResult<()> {
        let wanted = |remedy: &Remedy| match remedy {
            Remedy::Nothing => false,
            Remedy::Superblock { .. } | Remedy::Journal | Remedy::Wear => true,
            Remedy::DropCheckpoint { always } => *always || sound,
            Remedy::Links { .. } | Remedy::FreeRecord => sound,
        };
        let changes_inodes = |remedy: &Remedy| {
            !matches!(remedy, Remedy::Superblock { .. } | Remedy::Journal | Remedy::Wear)
        };
        if self.checkpoint_claims()
            && findings.iter().any(|f| wanted(&f.remedy) && changes_inodes(&f.remedy))
        {
            checkpoint::invalidate(self.pm, &self.sb)?;
        }
        if sound {
            self.free_unnamed(offline, tree)?;
        }
        let space = self.space(&tree.scan);
        for finding in findings.iter_mut().filter(|f| wanted(&f.remedy)) {
            match &finding.remedy {
                Remedy::Superblock { device, copy, good } => {
                    self.write_superblock(*device, *copy, good)?
                }
                Remedy::Links { ino, count } => match self.set_links(offline, &space, *ino, *count)
                {
                    Err(error) if error.is_no_room() => continue,
                    result => result?,
                },
                Remedy::Nothing
                | Remedy::Journal
                | Remedy::Wear
                | Remedy::DropCheckpoint { .. }
                | Remedy::FreeRecord => {}
            }
            finding.repaired = true;
        }
        Ok(())
    }

    /// Frees the records that no name leads to, as recovery would.
    fn free_unnamed(&self, offline: &Offline, tree: &Tree) -> FsResult<()> {
        if tree.scan.unnamed.is_empty() {
            return Ok(());
        }
        for &(ino, at) in &tree.scan.unnamed {
            debug_assert_eq!(offline.locate(ino), Some(at));
            free_record(self.pm, at, ino);
        }
        fence(self.pm)
    }

    /// Free space of PM as the scan has it.
    pub(super) fn space(&self, scan: &Scan) -> Space {
        let device = &self.sb.devices()[0];
        let usage = &scan.usage[0];
        let words = (0..usage.words()).map(|i| usage.word(i)).collect();
        let alloc =
            DeviceAlloc::from_bitmap(device.blocks, u64::from(device.group_blocks), 1, words);
        let placement = terrace_policy::Placement { pm_full_percent: 100 };
        Space::new(Arc::clone(self.pm), *device, alloc, Vec::new(), placement)
    }

    fn write_superblock(&self, device: usize, copy: u64, good: &Superblock) -> FsResult<()> {
        if device == 0 {
            self.pm.write_nt(copy * BLOCK_BYTES, good.as_bytes());
            return fence(self.pm);
        }
        let mut buf = AlignedBuf::new(BLOCK);
        buf.copy_from_slice(good.as_bytes());
        let disk = &self.disks[&(device as u16)];
        disk.write_at(copy * BLOCK_BYTES, &buf)?;
        Ok(disk.flush()?)
    }

    /// Logs an inode's attributes with another number of links.
    fn set_links(&self, offline: &Offline, space: &Space, ino: Ino, count: u32) -> FsResult<()> {
        let Some(inner) = self.load_to_change(offline, ino) else {
            return Ok(());
        };
        let mut inner = inner?;
        let (meta, mtime) =
            (Meta { nlink: count, ctime: Time::now(), ..inner.meta }, inner.mtime());
        inner.log.begin();
        inner.push_attr(&meta, mtime);
        self.commit(space, &mut inner.log)
    }

    /// Commits what has been put into a log's batch, durably.
    pub(super) fn commit(&self, space: &Space, log: &mut Log) -> FsResult<()> {
        log.stage(self.pm, &space.source(0, Purpose::Freeing), None)?;
        log.commit(self.pm)
    }
}
