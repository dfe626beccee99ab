//! The facade: [`Volume`] is all that the outside sees of an open volume.
//!
//! A method here calls one component, and notes what was done for a recording. Operations of
//! several components stand on the floor below.

use terrace_media::{Disk, Pm};
use terrace_policy::Kinds;
use terrace_store::error::{FsResult, fail};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::thread::JoinHandle;
use terrace_store::sync::{Arc, Mutex};
use terrace_trace::Operation;

use crate::base::options::{OpenOptions, Progress};
use crate::base::recorder::Span;
use crate::base::types::{
    Attr, DirEntry, Fallocate, FileKind, Ino, NewInode, RenameFlags, SetAttr, StatFs, WriteOptions,
    XattrFlags,
};
use crate::base::waits::WaitCause;
use crate::inode::dirty::DirtyShard;
use crate::mount::open::{Opened, open};
use crate::mount::parts::Parts;
use crate::ops::data::Files;
use crate::tools::ranking::Ranking;
use crate::tools::scrub::Scrubs;
use crate::tools::status::Reports;

mod devices;
mod loans;
mod reports;
mod tiers;

/// An open volume. All operations take `&self` and may be called from any thread.
#[derive(Debug)]
pub struct Volume {
    pub(crate) parts: Parts,
    pub(crate) workers: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) reports: Reports,
    pub(crate) ranking: Ranking,
    pub(crate) scrubs: Scrubs,
    /// What recovery has undone, in words, if anything.
    pub(crate) undone: Option<String>,
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
        options: OpenOptions,
        progress: Progress<'_>,
    ) -> FsResult<Arc<Volume>> {
        let Opened { parts, workers, undone } = open(pm, disks, options, progress)?;
        let reports = Reports::of(&parts);
        let ranking = Ranking {
            store: parts.store.clone(),
            inodes: parts.inodes.clone(),
            activity: parts.activity.clone(),
            placement: parts.tiering.placement.clone(),
            selector: parts.tiering.selector.clone(),
            paths: Mutex::default(),
        };
        let (workers, scrubs) = (Mutex::new(workers), Scrubs::default());
        Ok(Arc::new(Volume { parts, workers, reports, ranking, scrubs, undone }))
    }

    /// Clean unmount: everything dirty goes to its device, removed inodes are reclaimed, free space
    /// is written down. A second call does nothing, and whatever else would change the volume later
    /// is refused with `EROFS`. Meanwhile no other operation than [`Self::sync`] may be under way.
    ///
    /// # Errors
    /// If something could not be written: the next mount recovers.
    pub fn close(&self) -> FsResult<()> {
        let _alone = self.parts.inodes.closing.write();
        if !self.stop_workers() || self.parts.options.read_only {
            return Ok(());
        }
        let closed = self.parts.inodes.mutate(|| self.parts.close());
        self.parts.health.end();
        closed
    }

    /// Ends without writing anything more: leaves devices and page cache as the daemon's death
    /// would. For tests of recovery.
    pub fn abandon(&self) {
        self.stop_workers();
    }

    /// Stops the workers and the scrub; false if that has been done before.
    fn stop_workers(&self) -> bool {
        if self.parts.health.stopping.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.scrubs.close();
        self.parts.tiering.drain.close();
        self.parts.tiering.schedule.stop();
        self.parts.dirty.shards.iter().for_each(DirtyShard::stop);
        for worker in self.workers.lock().drain(..) {
            let _ = worker.join();
        }
        self.parts.pages.later.wait();
        true
    }

    /// Finds a name and counts a lookup of its inode.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`; `EIO` for damage.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> FsResult<Attr> {
        self.parts.names.lookup(parent, name)
    }

    /// Takes back `count` lookups. An inode without names goes for good with its last lookup.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.parts.inodes.forget(ino, count);
    }

    /// Attributes of an inode.
    ///
    /// # Errors
    /// `ESTALE`; `EIO` for damage.
    pub fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.parts.attributes.getattr(ino)
    }

    /// Changes attributes; a change of size commits first.
    ///
    /// # Errors
    /// `EISDIR` and `EINVAL` for the size of what has none, `EFBIG`, `ENOSPC`, `EROFS`.
    pub fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        let recorder = &self.parts.recorder;
        let begun = recorder.begin();
        let attr = self.parts.attributes.setattr(ino, set)?;
        if let Some(size) = set.size {
            recorder.note(recorder.end(begun), Operation::Truncate, ino, (size, 0), false);
        }
        Ok(attr)
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` for anything else.
    pub fn readlink(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.parts.names.readlink(ino)
    }

    /// Creates a file, directory or special file; counts a lookup.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` in a removed directory, `ENOSPC`, `EROFS`, …
    pub fn create(&self, parent: Ino, name: &[u8], new: &NewInode) -> FsResult<Attr> {
        let recorder = &self.parts.recorder;
        let begun = recorder.begin();
        let attr = self.parts.names.create(parent, name, new)?;
        if let Some(span) = recorder.end(begun).filter(|_| new.kind == FileKind::Regular) {
            recorder.note(Some(span), Operation::Create, attr.ino, (0, 0), false);
            let [here, anywhere] = Kinds::of(parent.0, name).to_numbers();
            let part = Some(span.untimed());
            recorder.note(part, Operation::Kinds, attr.ino, (here, anywhere), false);
        }
        Ok(attr)
    }

    /// Creates a file without a name, with what a file in this directory would inherit; counts a
    /// lookup. With `linkable`, [`Self::link`] may give it a name. Without one it is gone when it
    /// is forgotten, and after a crash.
    ///
    /// # Errors
    /// As [`Self::create`]; `EINVAL` for what is no regular file.
    pub fn create_unnamed(&self, parent: Ino, new: &NewInode, linkable: bool) -> FsResult<Attr> {
        if new.kind != FileKind::Regular {
            return fail(libc::EINVAL);
        }
        let recorder = &self.parts.recorder;
        let begun = recorder.begin();
        let attr = self.parts.names.create_unnamed(parent, new, linkable)?;
        recorder.note(recorder.end(begun), Operation::Create, attr.ino, (0, 0), false);
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
        self.parts.names.symlink(parent, name, target, uid, gid)
    }

    /// Gives an inode another name; counts a lookup.
    ///
    /// # Errors
    /// `EPERM` for a directory, `EMLINK`, else as [`Self::create`].
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> FsResult<Attr> {
        self.parts.names.link(ino, parent, name)
    }

    /// Removes a name of something that is no directory.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EROFS`.
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> FsResult<()> {
        self.parts.names.unlink(parent, name)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EROFS`.
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> FsResult<()> {
        self.parts.names.rmdir(parent, name)
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
        self.parts.names.rename(parent, name, new_parent, new_name, flags)
    }

    /// Reads up to `buf.len()` bytes; fewer at the end of the file.
    ///
    /// # Errors
    /// `EISDIR`, `EINVAL`; `EIO` with device and place.
    pub fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        let recorder = &self.parts.recorder;
        let begun = recorder.begin();
        let len = self.parts.files.read(ino, offset, buf)?;
        recorder.note(recorder.end(begun), Operation::Read, ino, (offset, len as u64), false);
        Ok(len)
    }

    /// Begins a read that no thread waits for, if a disk has the bytes and can do so; `done` is
    /// told of them, once, from a thread of the disk, which it must not keep for long. False:
    /// `done` is told nothing, and [`Self::read`] is to read them, or says why it cannot.
    pub fn read_later<D>(&self, ino: Ino, offset: u64, len_bytes: usize, done: D) -> bool
    where
        D: FnOnce(FsResult<&[u8]>) + Send + 'static,
    {
        let begun = self.parts.recorder.begin();
        let recorder = begun.map(|_| Arc::clone(&self.parts.recorder));
        let noted = move |read: FsResult<&[u8]>| {
            if let (Some(recorder), Ok(bytes)) = (recorder, &read) {
                let (span, len) = (recorder.end(begun), bytes.len() as u64);
                recorder.note(span, Operation::Read, ino, (offset, len), false);
            }
            done(read);
        };
        Files::read_later(&self.parts.files, ino, offset, len_bytes, noted).is_some()
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
        let begun = self.parts.recorder.begin();
        let len = self.parts.files.write(ino, offset, data, options)?;
        let span = self.parts.recorder.end(begun);
        self.note_write(span, ino, offset, len, options);
        Ok(len)
    }

    /// Makes a file durable; `data_only` leaves out access and change times.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    pub fn fsync(&self, ino: Ino, data_only: bool) -> FsResult<()> {
        let recorder = &self.parts.recorder;
        let begun = recorder.begin();
        self.parts.files.fsync(ino, data_only)?;
        recorder.note(recorder.end(begun), Operation::Fsync, ino, (0, 0), false);
        Ok(())
    }

    /// Reserves, deallocates or zeroes a range of a file.
    ///
    /// # Errors
    /// `EINVAL`, `EFBIG`, `ENODEV`, `ENOSPC`.
    pub fn fallocate(&self, ino: Ino, mode: Fallocate, offset: u64, len: u64) -> FsResult<()> {
        let begun = self.parts.recorder.begin();
        self.parts.files.fallocate(ino, mode, offset, len)?;
        self.note_fallocate(self.parts.recorder.end(begun), mode, ino, offset, len);
        Ok(())
    }

    /// First byte at or after `offset` that is data.
    ///
    /// # Errors
    /// `ENXIO` if there is none.
    pub fn seek_data(&self, ino: Ino, offset: u64) -> FsResult<u64> {
        self.parts.files.seek(ino, offset, true)
    }

    /// First byte at or after `offset` that is a hole; the end of the file is one.
    ///
    /// # Errors
    /// `ENXIO` at or past the end.
    pub fn seek_hole(&self, ino: Ino, offset: u64) -> FsResult<u64> {
        self.parts.files.seek(ino, offset, false)
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
        let recorder = &self.parts.recorder;
        let begun = recorder.begin();
        let copied = self.parts.files.copy_range(from, from_offset, to, to_offset, len)?;
        let span = recorder.end(begun);
        let part = span.map(Span::untimed);
        recorder.note(part, Operation::Read, from, (from_offset, copied), false);
        self.note_write(span, to, to_offset, copied as usize, WriteOptions::default());
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
        self.parts.names.readdir(ino, from, visit)
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
        self.parts.names.readdir_plus(ino, from, visit)
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
        self.parts.attributes.setxattr(ino, name, value, flags, groups)
    }

    /// Value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP`.
    pub fn getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        self.parts.attributes.getxattr(ino, name)
    }

    /// Names of all extended attributes, each followed by a NUL.
    ///
    /// # Errors
    /// `ESTALE`.
    pub fn listxattr(&self, ino: Ino) -> FsResult<Vec<u8>> {
        self.parts.attributes.listxattr(ino)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA`, `EOPNOTSUPP`.
    pub fn removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        self.parts.attributes.removexattr(ino, name)
    }

    /// Totals.
    ///
    /// # Errors
    /// If reclaiming removed inodes fails.
    pub fn statfs(&self) -> FsResult<StatFs> {
        self.reports.statfs()
    }

    /// Everything dirty, of all files, to its device.
    ///
    /// # Errors
    /// `ENOSPC`, `EIO`.
    pub fn sync(&self) -> FsResult<()> {
        let _not_closing = self.parts.inodes.closing.read();
        if self.parts.health.is_read_only() {
            return Ok(());
        }
        self.parts.inodes.mutate(|| {
            let waiting = self.parts.counters.waits.begin(WaitCause::Flush);
            self.parts.pages.flush_all()?;
            drop(waiting);
            self.parts.inodes.commit_all_lazy()?;
            self.parts.inodes.reclaim_all()
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
