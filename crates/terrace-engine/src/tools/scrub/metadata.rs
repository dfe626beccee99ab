//! Superblocks, journals, free space, inode tables, logs, extended attributes.

use std::ops::Bound;
use std::path::PathBuf;

use terrace_layout::{
    BLOCK_BYTES, DeviceEntry, INODE_BYTES, MediaStruct, SLOT_BYTES, SUPERBLOCK_BLOCKS, ShardPage,
    Superblock, data_crc,
};
use terrace_media::AlignedBuf;
use terrace_store::alloc::DeviceAlloc;
use terrace_store::checkpoint::bitmap_place;
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::{FsResult, fence};
use terrace_store::file::BLOCK;
use terrace_store::itable::{InodeTable, RecordState, record_state};
use terrace_store::log::Archive;
use terrace_store::superblock::{
    choose, damage_to_copy, differs_by_a_write, write_disk_superblock, write_pm_superblock,
};
use terrace_store::sync::Arc;
use zerocopy::IntoBytes;

use super::record::Found;
use super::{Scrubber, Stopped};
use crate::base::types::{Ino, ScrubKind};
use crate::inode::resident::{Inner, Inode, xattr_blocks};

/// PM, as the index of a device.
const PM: usize = 0;
/// Pages of a log read under one hold of the inode's lock.
const LOG_PAGES: usize = 64;
/// Runs of data that wait to be sorted: a few MiB of memory.
const RUNS_MAX: usize = 1 << 16;
/// A record that is being written shows as damaged for less than two looks at it.
const LOOKS_AT_RECORD: usize = 4;

impl Scrubber<'_> {
    /// Both copies of each device's superblock. They change only under the lock of the one in
    /// memory.
    pub(super) fn superblocks(&mut self) -> Result<(), Stopped> {
        for device in self.record.devices() {
            let bytes = SUPERBLOCK_BLOCKS * BLOCK_BYTES;
            self.record.pace(bytes)?;
            let sb = self.view.devices.sb.lock();
            if sb.devices().get(device).is_none_or(DeviceEntry::is_absent) {
                continue;
            }
            let mut copies = AlignedBuf::new(bytes as usize);
            match self.read_device(device, 0, &mut copies) {
                Ok(()) => self.compare_copies(device, &copies, &sb),
                Err(kind) => {
                    let damage = self.damage(device, 0, Structure::Superblock(0), kind);
                    self.record.found(Found::new(ScrubKind::Superblock, bytes, damage));
                }
            }
            self.record.verified(device, ScrubKind::Superblock, bytes);
        }
        Ok(())
    }

    fn compare_copies(&self, device: usize, copies: &[u8], volume: &Superblock) {
        let good = choose(&self.device_path(device), copies).ok().flatten();
        let may_write = !self.view.health.is_read_only();
        let bad: Vec<(u64, DamageKind)> = copies
            .chunks(BLOCK)
            .zip(0..)
            .filter_map(|(copy, i)| Some((i, self.wrong(copy, good.as_ref())?)))
            .collect();
        if bad.is_empty() {
            return;
        }
        let repair = if may_write {
            self.repair_copies(device, &bad, good.as_ref(), volume)
        } else {
            Ok(false)
        };
        for (copy, kind) in bad {
            let structure = Structure::Superblock(copy);
            let damage = self.damage(device, copy * BLOCK_BYTES, structure, kind);
            let mut found = Found::new(ScrubKind::Superblock, BLOCK_BYTES, damage);
            match &repair {
                Ok(repaired) => found.repaired = *repaired,
                Err(error) => found.remark = Some(format!("it cannot be repaired: {error}")),
            }
            self.record.found(found);
        }
    }

    /// What is wrong with a copy, the good one being `good`.
    fn wrong(&self, copy: &[u8], good: Option<&Superblock>) -> Option<DamageKind> {
        let found = Superblock::from_bytes(copy);
        if let Some(good) = good {
            // A crash may have left two that differ, and a read-only mount has left that alone.
            let interrupted = self.view.options.read_only && differs_by_a_write(found, good);
            if found == *good || interrupted {
                return None;
            }
        }
        Some(damage_to_copy(copy, good))
    }

    /// Writes the bad copies anew from the good one; if there is none, both from memory.
    fn repair_copies(
        &self,
        device: usize,
        bad: &[(u64, DamageKind)],
        good: Option<&Superblock>,
        volume: &Superblock,
    ) -> FsResult<bool> {
        let view = self.view;
        let disk = view.store.space.members.get(device as u16).map(|member| member.disk.clone());
        match (good, disk) {
            (None, None) => write_pm_superblock(&view.store.pm, volume)?,
            (None, Some(disk)) => {
                write_disk_superblock(disk.as_ref(), volume, &volume.devices[device])?
            }
            (Some(good), None) => {
                bad.iter().for_each(|(copy, _)| {
                    view.store.pm.write_nt(copy * BLOCK_BYTES, good.as_bytes())
                });
                fence(&view.store.pm)?;
            }
            (Some(good), Some(disk)) => {
                let mut block = AlignedBuf::new(BLOCK);
                block.copy_from_slice(good.as_bytes());
                bad.iter().try_for_each(|(copy, _)| disk.write_at(copy * BLOCK_BYTES, &block))?;
                disk.flush()?;
            }
        }
        Ok(true)
    }

    /// Reads from a device past all caches.
    ///
    /// # Errors
    /// What is wrong with the place.
    pub(super) fn read_device(
        &self,
        device: usize,
        at: u64,
        buf: &mut [u8],
    ) -> Result<(), DamageKind> {
        let read = match (device, self.view.store.space.members.get(device as u16)) {
            (PM, _) => self.view.store.pm.try_read(at, buf),
            (_, Some(member)) => member.disk.read_at(at, buf),
            (_, None) => return Err(DamageKind::NoDisk(device as u16)),
        };
        read.map_err(|error| DamageKind::Unreadable(error.errno()))
    }

    fn device_path(&self, device: usize) -> PathBuf {
        self.view.store.device_path(device as u16)
    }

    /// Damage at a byte of a device.
    pub(super) fn damage(
        &self,
        device: usize,
        at: u64,
        structure: Structure,
        kind: DamageKind,
    ) -> Damage {
        Damage::new(device as u16, &self.device_path(device), structure, kind).at(at)
    }

    /// Heads and journals of all shards.
    pub(super) fn journals(&mut self) -> Result<(), Stopped> {
        let start = self.view.devices.sb.lock().shards_start;
        for (i, journal) in self.view.store.journals.iter().enumerate() {
            self.record.pace(BLOCK_BYTES)?;
            let at = (start + i as u64) * BLOCK_BYTES;
            let mut page = [0u8; BLOCK];
            let found = |structure, kind| {
                let damage = self.damage(PM, at, structure, kind);
                Found::new(ScrubKind::Journal, BLOCK_BYTES, damage)
            };
            let read = self.read_device(PM, at, &mut page);
            let decoded = read
                .and_then(|()| ShardPage::decode(&page, i as u16).map_err(|_| DamageKind::Damaged));
            if let Err(kind) = decoded {
                self.record.found(found(Structure::ShardPage(i as u16), kind));
            }
            let clear = !self.view.health.is_read_only();
            let structure = Structure::Journal(Some(i as u16));
            let not_empty = || found(structure.clone(), DamageKind::Wrong("is not empty".into()));
            match journal.verify_idle(&self.view.store.pm, clear) {
                Ok(true) => {}
                Ok(false) => self.record.found(Found { repaired: clear, ..not_empty() }),
                Err(error) => {
                    let remark = format!("it cannot be cleared: {error}");
                    self.record.found(not_empty().remark(remark));
                }
            }
            self.record.verified(PM, ScrubKind::Journal, BLOCK_BYTES);
        }
        Ok(())
    }

    /// Bitmaps in the checkpoint that have not been needed yet, but will be.
    pub(super) fn free_space(&mut self) -> Result<(), Stopped> {
        let pm_entry = self.view.devices.sb.lock().devices[PM];
        self.free_space_of(PM, &pm_entry, self.view.store.space.pm())?;
        let members = self.view.store.space.members.all();
        members
            .iter()
            .try_for_each(|m| self.free_space_of(usize::from(m.entry.index), &m.entry, &m.alloc))
    }

    fn free_space_of(
        &self,
        device: usize,
        entry: &DeviceEntry,
        alloc: &DeviceAlloc,
    ) -> Result<(), Stopped> {
        if self.record.devices().any(|known| known == device) {
            let bytes = u64::from(entry.group_blocks) / 8;
            for g in 0..alloc.groups() {
                let Some(verified) = alloc.verify_checkpointed(g) else {
                    continue;
                };
                self.record.verified(device, ScrubKind::FreeSpace, bytes);
                let wrong = match verified {
                    Ok(true) => None,
                    Ok(false) => Some(DamageKind::Damaged),
                    Err(error) => Some(DamageKind::Unreadable(error.errno())),
                };
                if let Some(kind) = wrong {
                    let remark = "its free space is out of use until the next mount";
                    let remark = Some(remark.to_owned()).filter(|_| kind == DamageKind::Damaged);
                    let (block, at) = bitmap_place(entry, g);
                    let at = block * BLOCK_BYTES + at as u64;
                    let damage = self.damage(device, at, Structure::Bitmap(g), kind);
                    let found = Found::new(ScrubKind::FreeSpace, bytes, damage);
                    self.record.found(Found { remark, ..found });
                }
                self.record.pace(BLOCK_BYTES)?;
            }
        }
        Ok(())
    }

    /// The table of a shard, and every inode in it.
    pub(super) fn inode_table(&mut self, shard: usize) -> Result<(), Stopped> {
        self.chunk_headers(shard);
        let mut next = 0;
        // The table may have grown since the last look, or given blocks back.
        while let Some((index, ino, at, state)) = self.first_record(shard, next) {
            next = index + 1;
            match state {
                RecordState::Free => {}
                RecordState::Used(_) => self.inode(at, ino)?,
                RecordState::Damaged => {
                    let damage = self.damage(PM, at, Structure::Record, DamageKind::Damaged);
                    let found = Found::new(ScrubKind::InodeTable, INODE_BYTES, damage.of(ino));
                    self.record.found(found.remark("its log and data are out of reach"));
                }
            }
            self.record.verified(PM, ScrubKind::InodeTable, INODE_BYTES);
            self.record.passed(PM, INODE_BYTES);
            self.record.pace(INODE_BYTES)?;
            if self.runs.len() >= RUNS_MAX {
                self.data()?;
            }
        }
        Ok(())
    }

    /// The first record of a shard's table at or behind an index: its index, inode number, byte in
    /// PM and state.
    fn first_record(&self, shard: usize, index: u64) -> Option<(u64, Ino, u64, RecordState)> {
        let table = self.view.inodes.shards[shard].table.read();
        let (index, ino, at) = table.at_or_after(index)?;
        Some((index, ino, at, self.record_at(at, ino)))
    }

    fn chunk_headers(&self, shard: usize) {
        let view = self.view;
        let (page, shards) =
            (view.devices.sb.lock().shards_start + shard as u64, view.store.shards() as u16);
        let table = view.inodes.shards[shard].table.read();
        if let Err(error) = InodeTable::load(&view.store.pm, page, shard as u16, shards, None) {
            let damage = error.into_damage(0, Structure::ShardPage(shard as u16), None);
            self.record.found(Found::new(ScrubKind::InodeTable, BLOCK_BYTES, damage));
        }
        let bytes = table.runs().count() as u64 * INODE_BYTES;
        self.record.verified(PM, ScrubKind::InodeTable, bytes);
        self.record.passed(PM, bytes);
    }

    /// A record as nobody is just writing it.
    fn record_at(&self, at: u64, ino: Ino) -> RecordState {
        let look = |_| {
            // Its first word is stored last: who sees it sees the rest.
            self.view.store.pm.load_u64(at);
            record_state(&self.view.store.pm, at, ino)
        };
        (0..LOOKS_AT_RECORD)
            .map(look)
            .find(|state| *state != RecordState::Damaged)
            .unwrap_or(RecordState::Damaged)
    }

    /// An inode whose record stands at byte `at`.
    fn inode(&mut self, at: u64, ino: Ino) -> Result<(), Stopped> {
        match self.view.inodes.get(ino) {
            Ok(inode) => {
                let done = self
                    .log(&inode)
                    .and_then(|()| self.archive(&inode))
                    .and_then(|()| self.attributes(&inode));
                self.gather(&inode);
                drop(inode);
                self.view.inodes.forget(ino, 0);
                done
            }
            // It was removed just now.
            Err(error) if error.errno() == libc::ESTALE => Ok(()),
            Err(error) => {
                let damage = error.into_damage(0, Structure::Log, Some(ino));
                let byte = damage.byte.unwrap_or(at);
                let found = Found::new(ScrubKind::Log, SLOT_BYTES, damage.at(byte));
                self.record.found(found.remark("the inode's data is out of reach"));
                Ok(())
            }
        }
    }

    fn log(&self, inode: &Inode) -> Result<(), Stopped> {
        let mut part = match inode.shared() {
            Ok(inner) => inner.log.verify_record(&self.view.store.pm),
            Err(_) => return Ok(()),
        };
        loop {
            let (bytes, next) = (part.bytes, part.next);
            self.record.verified(PM, ScrubKind::Log, bytes);
            for damage in part.damage {
                self.record.found(Found::new(ScrubKind::Log, SLOT_BYTES, damage));
            }
            self.record.pace(bytes)?;
            let Some(next) = next else {
                return Ok(());
            };
            part = match inode.shared() {
                Ok(inner) => inner.log.verify_pages(&self.view.store.pm, next, LOG_PAGES),
                Err(_) => return Ok(()),
            };
            self.record.passed(PM, part.bytes);
        }
    }

    /// The part of a log that lies on a disk, against what stands in DRAM.
    fn archive(&self, inode: &Inode) -> Result<(), Stopped> {
        let archive = || inode.shared().ok().and_then(|inner| inner.log.archive().cloned());
        let Some(known) = archive() else {
            return Ok(());
        };
        let (device, bytes) = (usize::from(known.addr.device()), known.blocks() * BLOCK_BYTES);
        self.record.pace(bytes)?;
        let mut blocks = AlignedBuf::new(bytes as usize);
        let read = self.read_device(device, known.addr.byte(), &mut blocks);
        let wrong = match read {
            Ok(()) => {
                let differs = known.verify(&blocks);
                differs.map(|at| (at, Structure::LogEntry, DamageKind::Damaged))
            }
            Err(kind) => Some((known.addr.byte(), Structure::Archive, kind)),
        };
        if let Some((at, structure, kind)) = wrong {
            // It may have been replaced meanwhile, and its blocks be another's; nobody replaces it
            // under the lock.
            let inner = inode.shared();
            let is_current = |inner: &Inner| {
                inner.log.archive().is_some_and(|archive| Arc::ptr_eq(archive, &known))
            };
            if inner.as_ref().is_ok_and(|inner| is_current(inner)) {
                let repaired = !self.view.health.is_read_only() && self.rewrite(&known).is_ok();
                let damage = self.damage(device, at, structure, kind).of(inode.ino);
                let found = Found::new(ScrubKind::Log, SLOT_BYTES, damage);
                self.record.found(Found { repaired, ..found });
            }
        }
        self.record.verified(device, ScrubKind::Log, bytes);
        self.record.passed(device, bytes);
        Ok(())
    }

    /// Writes an archive to its blocks anew.
    fn rewrite(&self, archive: &Archive) -> FsResult<()> {
        let mut blocks = AlignedBuf::new((archive.blocks() * BLOCK_BYTES) as usize);
        archive.fill(&mut blocks);
        let disk = self.view.store.space.disk(archive.addr.device())?.disk.clone();
        disk.write_at(archive.addr.byte(), &blocks)?;
        Ok(disk.flush()?)
    }

    /// Values of extended attributes that do not stand in the log, one at a time.
    fn attributes(&self, inode: &Inode) -> Result<(), Stopped> {
        let mut last: Vec<u8> = Vec::new();
        loop {
            let bytes = {
                let Ok(inner) = inode.shared() else {
                    return Ok(());
                };
                let mut rest =
                    inner.xattrs.range::<[u8], _>((Bound::Excluded(&last[..]), Bound::Unbounded));
                let next =
                    rest.find_map(|(name, x)| Some((name, x.entry, xattr_blocks(&x.entry)?)));
                let Some((name, entry, (addr, blocks))) = next else {
                    return Ok(());
                };
                let bytes = blocks * BLOCK_BYTES;
                if addr.is_pm() && self.view.store.space.contains(addr, blocks) {
                    let mut value = vec![0u8; entry.value_len as usize];
                    let read = self.read_device(PM, addr.byte(), &mut value);
                    let matches = data_crc(&value) == entry.value_crc;
                    let wrong = read.err().or((!matches).then_some(DamageKind::Checksum));
                    if let Some(kind) = wrong {
                        let structure = Structure::Attribute(name.as_slice().into());
                        let damage = self.damage(PM, addr.byte(), structure, kind).of(inode.ino);
                        self.record.found(Found::new(ScrubKind::Attribute, bytes, damage));
                    }
                }
                last = name.clone();
                bytes
            };
            self.record.verified(PM, ScrubKind::Attribute, bytes);
            self.record.passed(PM, bytes);
            self.record.pace(bytes)?;
        }
    }
}
