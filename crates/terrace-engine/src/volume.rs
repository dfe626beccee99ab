//! The volume: opening (with recovery), closing, and the operations, which live in `core`'s
//! modules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use terrace_layout::{BLOCK_BYTES, DeviceEntry, FORMAT_MINOR, INCOMPAT_MOVES, Superblock};
use terrace_media::{Disk, Pm};
use terrace_policy::{Params, Placement};
use terrace_trace::Operation;

use crate::cache::{CacheBacking, PageCache, RecoveredPage};
use crate::core::{Core, Shard, free_record};
use crate::inode::{Inner, Inode};
use crate::offline::{journal, volume_on};
use crate::scan::{Unfinished, first_problem, scan};
use crate::threads::spawn_workers;
use crate::types::{
    AtimePolicy, Attr, DirEntry, Fallocate, FileKind, Ino, NewInode, RenameFlags, SetAttr, StatFs,
    Time, WriteOptions, XattrFlags,
};
use crate::words::counted;
use terrace_store::alloc::DeviceAlloc;
use terrace_store::checkpoint::{self, Area};
use terrace_store::error::{FsError, FsResult, fence};
use terrace_store::itable::InodeTable;
use terrace_store::journal::{Journal, Pending};
use terrace_store::members::Member;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;
use terrace_store::space::Space;
use terrace_store::superblock::{
    Disks, areas, read_disk_superblock, read_pm_superblock, uuid_text, write_disk_superblock,
    write_pm_superblock,
};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::thread::JoinHandle;
use terrace_store::sync::{Arc, Mutex, RwLock, limit, thread};

/// Told of the progress of long work: what, done, total.
pub type Progress<'a> = &'a (dyn Fn(&str, u64, u64) + Sync);

/// Least budget of the page cache: without any, nothing could reach a disk.
pub const CACHE_BYTES_MIN: u64 = limit(1 << 20, 16 << 10) as u64;

/// How to open a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Change nothing. The PM region must be private then: recovery happens in DRAM.
    pub read_only: bool,
    /// When reads update access times.
    pub atime: AtimePolicy,
    /// Every write is durable when it returns.
    pub durable: bool,
    /// Budget of the page cache in bytes; at least [`CACHE_BYTES_MIN`].
    pub cache_bytes: u64,
    /// Directory (in memory) for the page cache's file, which outlives the daemon; `None`: dirty
    /// pages die with it.
    pub cache_dir: Option<PathBuf>,
    /// Age in seconds at which dirty pages are written back.
    pub writeback_seconds: u32,
    /// PM takes file data up to this usage.
    pub pm_full_percent: u8,
    /// The policy's thresholds; [`Volume::tune`] changes them later.
    pub params: Params,
    /// Threads write back and reclaim by themselves. Without them that happens only when an
    /// operation needs it, at
    /// [`Volume::sync`] and at [`Volume::close`]: whoever counts every store wants no others in between.
    pub workers: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            atime: AtimePolicy::Relatime,
            durable: false,
            cache_bytes: 256 << 20,
            cache_dir: None,
            writeback_seconds: 5,
            pm_full_percent: 90,
            params: Params::default(),
            workers: true,
        }
    }
}

/// An open volume. All operations take `&self` and may be called from any thread.
#[derive(Debug)]
pub struct Volume {
    pub(crate) core: Arc<Core>,
    pub(crate) workers: Mutex<Vec<JoinHandle<()>>>,
    /// Shared by whoever may still be at work when the volume is closed.
    pub(crate) closing: RwLock<()>,
    /// What recovery has undone, in words, if anything.
    pub(crate) undone: Option<String>,
}

/// The devices of a volume, matched by label.
pub(crate) struct Devices {
    pub sb: Superblock,
    pub disks: Disks,
}

/// Reads PM's superblock and finds out which disk is which.
///
/// # Errors
/// Names the device that is missing, foreign, truncated, or there twice, and the remedy.
pub(crate) fn match_devices(pm: &Pm, disks: Vec<Arc<dyn Disk>>) -> FsResult<Devices> {
    let (sb, disks) = match_present_devices(pm, disks)?;
    match sb.present().skip(1).find(|known| !disks.contains_key(&known.index)) {
        None => Ok(Devices { sb, disks }),
        Some(known) => Err(FsError::with_message(
            libc::EINVAL,
            format!(
                "{}: disk {} of the volume is missing (last seen at {}): name it with --disk",
                pm.path().display(),
                known.index,
                String::from_utf8_lossy(known.path())
            ),
        )),
    }
}

/// As [`match_devices`], but disks may be missing.
pub(crate) fn match_present_devices(
    pm: &Pm,
    disks: Vec<Arc<dyn Disk>>,
) -> FsResult<(Superblock, Disks)> {
    let path = pm.path().display();
    let wrong = |message: String| FsError::with_message(libc::EINVAL, message);
    let Some(sb) = read_pm_superblock(pm)? else {
        return Err(wrong(format!("{path}: no Terrace volume: format it with `terrace format`")));
    };
    if sb.device_index != 0 {
        return Err(wrong(format!(
            "{path}: this is disk {} of a volume, not its PM device",
            sb.device_index
        )));
    }
    if pm.len() < sb.blocks * BLOCK_BYTES {
        return Err(wrong(format!(
            "{path}: truncated: {} bytes, the volume needs {}: restore the device's full size",
            pm.len(),
            sb.blocks * BLOCK_BYTES
        )));
    }
    let mut found = Disks::new();
    for disk in disks {
        let name = disk.path().display().to_string();
        let Some(label) = read_disk_superblock(disk.as_ref())? else {
            return Err(wrong(format!(
                "{name}: no Terrace disk: name the right device with --disk"
            )));
        };
        if label.uuid != sb.uuid {
            return Err(wrong(format!(
                "{name}: belongs to volume {}, but {path} to volume {}: name the right device with --disk",
                uuid_text(&label),
                uuid_text(&sb)
            )));
        }
        let index = label.device_index;
        let Some(known) = sb.present().skip(1).find(|known| known.index == index) else {
            return Err(wrong(format!(
                "{name}: is device {index} of the volume, which has no such disk"
            )));
        };
        if disk.len() < known.blocks * BLOCK_BYTES {
            return Err(wrong(format!(
                "{name}: truncated: {} bytes, the volume needs {}: restore the device's full size",
                disk.len(),
                known.blocks * BLOCK_BYTES
            )));
        }
        if label.mount_epoch > sb.mount_epoch {
            return Err(wrong(format!(
                "{path}: older than {name}: the disk was written since this PM (an image, a copy?) was last mounted: \
                 bring back the PM that belongs to the disk"
            )));
        }
        if label.mount_epoch < sb.mount_epoch && label.mount_epoch != sb.previous_epoch {
            return Err(wrong(format!(
                "{name}: older than {path}: the volume was written since this disk (a copy?) was last part of it: \
                 bring back the disk that belongs to the PM"
            )));
        }
        if found.insert(index, disk).is_some() {
            return Err(wrong(format!("{name}: disk {index} of the volume is given twice")));
        }
    }
    Ok((sb, found))
}

/// Inode tables of all shards, after replaying their journals if a crash may have left something
/// there.
///
/// # Errors
/// Damage to one of them; nothing is changed then.
pub(crate) fn load_tables(pm: &Pm, sb: &Superblock) -> FsResult<Vec<InodeTable>> {
    let pages = (0..sb.shards).map(|s| (s, sb.shards_start + u64::from(s)));
    let (mut journals, mut pending): (Vec<Journal>, _) = (Vec::new(), Pending::new());
    // After a clean unmount the journals have nothing to say.
    if checkpoint::usable_header(pm, sb).is_none() {
        journals.extend(pages.clone().map(|(_, page)| Journal::new(page)));
        for journal in &journals {
            pending.extend(journal.pending(pm)?.iter().flatten().map(|word| (word.at, word.value)));
        }
    }
    let load = |(s, page)| InodeTable::load(pm, page, s, sb.shards, Some(&pending));
    let tables = pages.map(load).collect::<FsResult<_>>()?;
    let replayed =
        if planted(Bug::JournalOfOtherShard) { journals.len().min(1) } else { journals.len() };
    journals[..replayed].iter().try_for_each(|journal| journal.replay(pm))?;
    Ok(tables)
}

/// How many threads recovery uses.
pub(crate) fn scan_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Volume {
    /// Opens a volume on opened devices; the disks in any order.
    ///
    /// # Errors
    /// Names the device and the remedy: a disk missing or of another volume, a device truncated, a
    /// newer format, … Nothing is changed then.
    pub fn open(
        pm: Arc<Pm>,
        disks: Vec<Arc<dyn Disk>>,
        mut options: OpenOptions,
        progress: Progress<'_>,
    ) -> FsResult<Arc<Volume>> {
        let Devices { mut sb, disks } = match_devices(&pm, disks)?;
        if sb.unknown_ro_compat() != 0 && !options.read_only {
            return Err(FsError::with_message(
                libc::EROFS,
                format!(
                    "{}: features {:#x} are unknown to this version: mount it with -o ro, or use a newer terrace",
                    pm.path().display(),
                    sb.unknown_ro_compat()
                ),
            ));
        }
        let mut tables = load_tables(&pm, &sb)?;
        let mut free_space = FreeSpace::load(&pm, &disks, &sb, &mut tables, progress)?;
        let clean = checkpoint::usable_header(&pm, &sb).is_some();
        let (cache, recovered) = open_cache(&options, &sb)?;
        // What is written survives the daemon (P-04): without memory that does, it has to be
        // durable.
        options.durable |= cache.dies_with_daemon();
        if !clean {
            tracing::warn!(
                "the volume was not unmounted cleanly: recovered from its logs, and {} of the last daemon from its page cache",
                counted(recovered.len() as u64, "dirty page", "dirty pages")
            );
        }
        if let Some(undone) = &free_space.undone {
            tracing::info!("{undone}");
        }
        if clean {
            // What a journal holds means nothing, and must not once this mount has crashed.
            (0..sb.shards)
                .try_for_each(|shard| journal(&sb, shard).verify_idle(&pm, true).map(drop))?;
        }
        checkpoint::invalidate(&pm, &sb)?;
        for (&index, disk) in &disks {
            use std::os::unix::ffi::OsStrExt;
            // A path too long for the table stays as it was: --disk names the device.
            let _ = sb.devices[usize::from(index)].set_path(disk.path().as_os_str().as_bytes());
        }
        sb.sequence += 1;
        // What older programs know nothing of may be written from now on.
        sb.minor = sb.minor.max(FORMAT_MINOR);
        sb.incompat |= INCOMPAT_MOVES;
        write_pm_superblock(&pm, &sb)?;
        let placement = Placement { pm_full_percent: options.pm_full_percent };
        let space = free_space.space(&pm, disks, &sb, placement);
        let shards = tables
            .into_iter()
            .enumerate()
            .map(|(s, table)| Shard::new(table, Journal::new(sb.shards_start + s as u64)))
            .collect();
        let core = Arc::new(Core::new(pm, sb, space, shards, cache, options));
        if let Some(reason) = free_space.damage {
            core.turn_read_only(&reason);
        }
        adopt(&core, recovered)?;
        begin_epoch(&core)?;
        let workers = spawn_workers(&core)?;
        let (workers, closing) = (Mutex::new(workers), RwLock::new(()));
        Ok(Arc::new(Volume { core, workers, closing, undone: free_space.undone }))
    }

    /// Clean unmount: everything dirty goes to its device, removed inodes are reclaimed, free space
    /// is written down. A second call does nothing, and whatever else would change the volume later
    /// is refused with `EROFS`. Meanwhile no other operation than [`Self::sync`] may be under way.
    ///
    /// # Errors
    /// If something could not be written: the next mount recovers.
    pub fn close(&self) -> FsResult<()> {
        let _alone = self.closing.write();
        if !self.stop_workers() || self.core.options.read_only {
            return Ok(());
        }
        let closed = self.core.mutate(|| self.core.close());
        self.core.end();
        closed
    }

    /// Ends without writing anything more: leaves devices and page cache as the daemon's death
    /// would. For tests of recovery.
    pub fn abandon(&self) {
        self.stop_workers();
    }

    /// Stops the workers and the scrub; false if that has been done before.
    fn stop_workers(&self) -> bool {
        if self.core.stopping.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.core.scrubs.close();
        self.core.removals.close();
        self.core.stop_migration();
        for shard in &self.core.shards {
            *shard.work.lock() = true;
            shard.wake.notify_all();
        }
        for worker in self.workers.lock().drain(..) {
            let _ = worker.join();
        }
        true
    }

    /// Finds a name and counts a lookup of its inode.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`; `EIO` for damage.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> FsResult<Attr> {
        self.core.lookup(parent, name)
    }

    /// Takes back `count` lookups. An inode without names goes for good with its last lookup.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.core.forget(ino, count);
    }

    /// Attributes of an inode.
    ///
    /// # Errors
    /// `ESTALE`; `EIO` for damage.
    pub fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.core.getattr(ino)
    }

    /// Changes attributes; a change of size commits first.
    ///
    /// # Errors
    /// `EISDIR` and `EINVAL` for the size of what has none, `EFBIG`, `ENOSPC`, `EROFS`.
    pub fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        let attr = self.core.setattr(ino, set)?;
        if let Some(size) = set.size {
            self.core.recorder.note(Operation::Truncate, ino, size, 0, false);
        }
        Ok(attr)
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` for anything else.
    pub fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.core.readlink(ino)
    }

    /// Creates a file, directory or special file; counts a lookup.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` in a removed directory, `ENOSPC`, `EROFS`, …
    pub fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> FsResult<Attr> {
        let attr = self.core.create(parent, name, new)?;
        if new.kind == FileKind::Regular {
            self.core.recorder.note(Operation::Create, attr.ino, 0, 0, false);
        }
        Ok(attr)
    }

    /// Creates a symbolic link; counts a lookup.
    ///
    /// # Errors
    /// As [`Self::create`]; `ENAMETOOLONG` for a target of more than 4095 bytes.
    pub fn symlink(
        &self,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        uid: u32,
        gid: u32,
    ) -> FsResult<Attr> {
        self.core.symlink(parent, name, target, uid, gid)
    }

    /// Gives an inode another name; counts a lookup.
    ///
    /// # Errors
    /// `EPERM` for a directory, `EMLINK`, else as [`Self::create`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> FsResult<Attr> {
        self.core.link(ino, parent, name)
    }

    /// Removes a name of something that is no directory.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EROFS`.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> FsResult<()> {
        self.core.unlink(parent, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EROFS`.
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> FsResult<()> {
        self.core.rmdir(parent, name)
    }

    /// Renames, as `renameat2`.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `ENOTEMPTY`, `EISDIR`, `ENOTDIR`, `EINVAL` for a directory into itself,
    /// …
    pub fn rename(
        &self,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        flags: RenameFlags,
    ) -> FsResult<()> {
        self.core.rename(parent, name, new_parent, new_name, flags)
    }

    /// Reads up to `buf.len()` bytes; fewer at the end of the file.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL`; `EIO` with device and place.
    pub fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        let len = self.core.read(ino, offset, buf)?;
        self.core.recorder.note(Operation::Read, ino, offset, len as u64, false);
        Ok(len)
    }

    /// Writes `data`, atomically up to [`ATOMIC_WRITE_BYTES_MAX`](crate::ATOMIC_WRITE_BYTES_MAX);
    /// returns how much.
    ///
    /// # Errors
    /// `ENOSPC`, `EFBIG`, `EROFS`, `EIO`.
    pub fn write(
        &self,
        ino: Ino,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> FsResult<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let len = self.core.write(ino, offset, data, options)?;
        self.note_write(ino, offset, len, options.append, options.durable);
        Ok(len)
    }

    /// Makes a file durable; `data_only` leaves out access and change times.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    pub fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()> {
        self.core.fsync(ino, data_only)?;
        self.core.recorder.note(Operation::Fsync, ino, 0, 0, false);
        Ok(())
    }

    /// Reserves, deallocates or zeroes a range of a file.
    ///
    /// # Errors
    /// `EINVAL`, `EFBIG`, `ENODEV`, `ENOSPC`.
    pub fn fallocate(&self, ino: Ino, mode: Fallocate, offset: u64, len: u64) -> FsResult<()> {
        self.core.fallocate(ino, mode, offset, len)?;
        self.note_fallocate(mode, ino, offset, len);
        Ok(())
    }

    /// First byte at or after `offset` that is data.
    ///
    /// # Errors
    /// `ENXIO` if there is none.
    pub fn seek_data(&self, ino: Ino, offset: u64) -> FsResult<u64> {
        self.core.seek(ino, offset, true)
    }

    /// First byte at or after `offset` that is a hole; the end of the file is one.
    ///
    /// # Errors
    /// `ENXIO` at or past the end.
    pub fn seek_hole(&self, ino: Ino, offset: u64) -> FsResult<u64> {
        self.core.seek(ino, offset, false)
    }

    /// Copies bytes between files; returns how many.
    ///
    /// # Errors
    /// `EINVAL` for overlapping ranges of one file, else as [`Self::read`] and [`Self::write`].
    pub fn copy_range(
        &self,
        from: Ino,
        from_offset: u64,
        to: Ino,
        to_offset: u64,
        len: u64,
    ) -> FsResult<u64> {
        let copied = self.core.copy_range(from, from_offset, to, to_offset, len)?;
        self.core.recorder.note(Operation::Read, from, from_offset, copied, false);
        self.note_write(to, to_offset, copied as usize, false, false);
        Ok(copied)
    }

    /// Lists a directory from position `from` (0: the start), `.` and `..` first, until `visit`
    /// returns false: that entry is not consumed.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn readdir(
        &self,
        ino: Ino,
        from: u64,
        visit: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> FsResult<()> {
        self.core.readdir(ino, from, visit)
    }

    /// As [`Self::readdir`], with attributes; each entry taken, other than `.` and `..`, counts a
    /// lookup.
    ///
    /// # Errors
    /// `ENOTDIR`; `EIO` for damage.
    pub fn readdir_plus(
        &self,
        ino: Ino,
        from: u64,
        visit: &mut dyn FnMut(DirEntry<'_>, &Attr) -> bool,
    ) -> FsResult<()> {
        self.core.readdir_plus(ino, from, visit)
    }

    /// Sets an extended attribute. `groups`: the caller's groups if it lacks the privilege to keep
    /// set-group-id on files of other groups, which an access ACL then clears.
    ///
    /// # Errors
    /// `EEXIST`, `ENODATA`, `EOPNOTSUPP`, `ERANGE`, `E2BIG`, `EINVAL` for a bad ACL, `ENOSPC`.
    pub fn setxattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        groups: Option<&[u32]>,
    ) -> FsResult<()> {
        self.core.setxattr(ino, name, value, flags, groups)
    }

    /// Value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP`.
    pub fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.core.getxattr(ino, name)
    }

    /// Names of all extended attributes, each followed by a NUL.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn listxattr(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.core.listxattr(ino)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP`.
    pub fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        self.core.removexattr(ino, name)
    }

    /// Totals.
    ///
    /// # Errors
    /// If reclaiming removed inodes fails.
    pub fn statfs(&self) -> FsResult<StatFs> {
        self.core.statfs()
    }

    /// Everything dirty, of all files, to its device.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    pub fn sync(&self) -> FsResult<()> {
        let _not_closing = self.closing.read();
        if self.core.is_read_only() {
            return Ok(());
        }
        self.core.mutate(|| {
            self.core.flush_all()?;
            self.core.commit_all_lazy()?;
            self.core.reclaim_all()
        })
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!("closing the volume: {error}");
        }
    }
}

/// Free space of all devices: from the checkpoint, or rebuilt from the logs.
struct FreeSpace {
    /// Allocators by device index.
    allocs: BTreeMap<u16, DeviceAlloc>,
    /// What was found damaged: the volume must not be written.
    damage: Option<String>,
    /// What recovery has undone, in words.
    undone: Option<String>,
}

impl FreeSpace {
    fn load(
        pm: &Arc<Pm>,
        disks: &Disks,
        sb: &Superblock,
        tables: &mut [InodeTable],
        progress: Progress<'_>,
    ) -> FsResult<Self> {
        if let Some(header) = checkpoint::usable_header(pm, sb) {
            let load = |(i, area): (usize, _)| {
                let alloc = checkpoint::load_device(
                    area,
                    sb.devices[i],
                    &header.devices[i],
                    sb.shards.into(),
                )?;
                Ok((i as u16, alloc))
            };
            match areas(pm, disks).into_iter().map(load).collect::<FsResult<BTreeMap<_, _>>>() {
                Ok(allocs) => return Ok(Self { allocs, damage: None, undone: None }),
                Err(error) => tracing::warn!("{error}; recovering from the logs instead"),
            }
        }
        Self::recover(pm, disks, sb, tables, progress)
    }

    fn recover(
        pm: &Arc<Pm>,
        disks: &Disks,
        sb: &Superblock,
        tables: &mut [InodeTable],
        progress: Progress<'_>,
    ) -> FsResult<Self> {
        let found =
            scan(pm, disks, sb, tables, Unfinished::Finish, scan_threads(), progress, &|_, _| {})?;
        let damage = first_problem(pm, &found.problems);
        if damage.is_none() {
            for &(ino, at) in found.unnamed.iter().filter(|_| !planted(Bug::UnnamedNotFreed)) {
                free_record(pm, at, ino);
            }
            fence(pm)?;
        }
        tables.iter_mut().for_each(|table| table.recount(pm));
        let allocs = found.usage.into_iter().zip(sb.devices()).filter(|(_, d)| !d.is_absent()).map(
            |(usage, d)| {
                let group_blocks = u64::from(d.group_blocks);
                let alloc = DeviceAlloc::from_bitmap(
                    d.blocks,
                    group_blocks,
                    sb.shards.into(),
                    usage.into_words(),
                );
                (d.index, alloc)
            },
        );
        Ok(Self { allocs: allocs.collect(), damage, undone: undone_in_words(pm, &found.undone) })
    }

    /// The allocators with their devices.
    fn space(
        &mut self,
        pm: &Arc<Pm>,
        disks: Disks,
        sb: &Superblock,
        placement: Placement,
    ) -> Space {
        let mut alloc_of =
            |entry: &DeviceEntry| self.allocs.remove(&entry.index).expect("one for each device");
        let pm_alloc = alloc_of(&sb.devices[0]);
        let member = |(index, disk)| {
            let entry = sb.devices[usize::from(index)];
            Member { entry, disk, alloc: alloc_of(&entry) }
        };
        let members = disks.into_iter().map(member).collect();
        Space::new(Arc::clone(pm), sb.devices[0], pm_alloc, members, placement)
    }
}

/// What recovery has undone. That is what a power cut leaves, not an error; but if nobody cut the
/// power, something has damaged data in PM.
fn undone_in_words(pm: &Pm, undone: &[(Ino, u64)]) -> Option<String> {
    let (ino, at) = undone.iter().min()?;
    Some(format!(
        "{}: recovery undid the last change of {}, of which not all had arrived: the first is inode {}, with its log \
         entry at byte {at}",
        pm.path().display(),
        counted(undone.len() as u64, "inode", "inodes"),
        ino.0
    ))
}

/// What a daemon that died has left of the volume on `pm`: files in `cache_dir`, and how many pages
/// in each wait for a writable mount to take them to their disk. Nothing is changed.
///
/// # Errors
/// PM holds no volume; the directory or a file of it cannot be read.
pub fn waiting_pages(pm: &Pm, cache_dir: &Path) -> FsResult<Vec<(PathBuf, u64)>> {
    if !cache_dir.exists() {
        return Ok(Vec::new());
    }
    let sb = volume_on(pm)?;
    PageCache::waiting(&CacheBacking {
        dir: cache_dir.to_owned(),
        uuid: uuid_text(&sb),
        epoch: sb.mount_epoch,
    })
}

fn open_cache(
    options: &OpenOptions,
    sb: &Superblock,
) -> FsResult<(Arc<PageCache>, Vec<RecoveredPage>)> {
    let dir = options.cache_dir.as_ref().filter(|_| !options.read_only);
    let backing = dir.map(|dir| CacheBacking {
        dir: dir.clone(),
        uuid: uuid_text(sb),
        epoch: sb.mount_epoch,
    });
    PageCache::new(options.cache_bytes.max(CACHE_BYTES_MIN), backing.as_ref())
}

/// This mount gets an epoch of its own: dirty pages that an earlier daemon may have left elsewhere
/// are not this volume's any more, and neither PM nor a disk can be replaced by an older copy
/// unnoticed. Nothing is dirty now, so it does not matter which of the two, cache and superblock, a
/// crash leaves behind.
fn begin_epoch(core: &Core) -> FsResult<()> {
    if core.is_read_only() {
        return Ok(());
    }
    let mut sb = core.sb.lock();
    // Unlike a count, a time does not come back when an older image of PM is restored.
    let old = *sb;
    sb.previous_epoch = old.mount_epoch;
    sb.mount_epoch = (old.mount_epoch + 1).max(Time::now().0 as u64);
    core.epoch.store(sb.mount_epoch, Ordering::Relaxed);
    sb.sequence += 1;
    // A crash may have kept a disk from following PM last time: it must have caught up before PM
    // goes on.
    write_disk_epochs(core, &old)?;
    core.cache.set_epoch(sb.mount_epoch);
    write_pm_superblock(&core.pm, &sb)?;
    write_disk_epochs(core, &sb)?;
    // All disks have followed: one that has the last epoch is an older copy from now on.
    sb.previous_epoch = sb.mount_epoch;
    sb.sequence += 1;
    write_pm_superblock(&core.pm, &sb)
}

fn write_disk_epochs(core: &Core, sb: &Superblock) -> FsResult<()> {
    for member in core.space.members.all() {
        let label = read_disk_superblock(member.disk.as_ref())?;
        if label.is_none_or(|label| label.mount_epoch != sb.mount_epoch) {
            write_disk_superblock(member.disk.as_ref(), sb, &member.entry)?;
        }
    }
    Ok(())
}

/// Dirty pages that a dead daemon left go back into the cache, and to disk at once.
fn adopt(core: &Arc<Core>, pages: Vec<RecoveredPage>) -> FsResult<()> {
    if pages.is_empty() || core.is_read_only() {
        return Ok(());
    }
    for page in &pages {
        // The file may have been removed since.
        let Ok(inode) = core.get(Ino(page.ino)) else {
            continue;
        };
        if inode.generation == page.generation {
            core.adopt_page(&inode, page)?;
        }
    }
    core.mutate(|| core.flush_all())?;
    drop(pages);
    core.cache.forget_recovered()
}

impl Core {
    fn close(&self) -> FsResult<()> {
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
