//! FUSE messages to engine calls. Each operation translates its arguments, calls the engine,
//! translates the result.
//!
//! What the kernel caches and the daemon changes without being asked, case by case (Linux 6.18):
//! * Link counts, times and sizes after unlink, rename, link, write, fallocate and copy: the kernel
//!   updates or invalidates them itself, also of a file whose other name was removed.
//! * Set-id bits that a write clears: not noticed by the kernel, which would go on running the
//!   changed file set-user-id. But before such a write it sends a SETATTR that sets nothing;
//!   answering that with the bits cleared brings the kernel's copy up to date before the write (see
//!   [`TerraceFs::setattr`]).
//! * The mode after an access ACL was set: invalidated by the kernel if it checks permissions, else
//!   by us ([`Transport::forget_attributes`]).
//! * Contents that an asynchronous direct write replaces: see [`Coherence`].
//! * Blocks in use (`st_blocks`), which write-back and migration change: as of the last time the
//!   kernel asked.
//!
//! A panic in here or in the engine leaves the volume's state in memory unknown, and a thread
//! short. The daemon must not go on: it installs a panic hook that aborts. The next mount recovers.

mod replies;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use terrace_engine::{FileKind, KillPriv, SetAttr, Volume};

use self::replies::{is_direct, new_inode};
use crate::caller;
use crate::coherence::Coherence;
use crate::config::MountConfig;
use crate::control::server::ControlServer;
use crate::convert::{fallocate, file_attr, generation, ino, rename_flags, set_time, xattr_flags};
use crate::counts::Message;
use crate::errors::ErrorLog;
use crate::transport::{CREATED, FOREVER, Transport, absent, with_read_buffer};

const ACCESS_ACL: &str = "system.posix_acl_access";

/// A volume behind a FUSE mount.
#[derive(Debug)]
pub(crate) struct TerraceFs {
    volume: Arc<Volume>,
    transport: Transport,
    coherence: Coherence,
    control: ControlServer,
    errors: ErrorLog,
    /// Every write is durable when it is answered, so FSYNC is not needed.
    durable: bool,
}

impl TerraceFs {
    pub(crate) fn new(
        volume: Arc<Volume>,
        transport: Transport,
        config: &MountConfig,
    ) -> io::Result<Self> {
        let control = ControlServer::new(config.add_disk.clone());
        let coherence = Coherence::new(transport.clone())?;
        Ok(Self {
            errors: ErrorLog::new(volume.pm_path()),
            volume,
            transport,
            coherence,
            control,
            durable: config.durable,
        })
    }
}

impl Filesystem for TerraceFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.transport.negotiate(config)
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.transport.count(Message::Lookup);
        match self.volume.lookup(ino(parent), name.as_bytes()) {
            Err(error) if error.errno() == libc::ENOENT => {
                reply.entry(&FOREVER, &absent(), fuser::Generation(0))
            }
            result => self.reply_entry(result, reply),
        }
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.transport.count(Message::Forget);
        self.coherence.forget(inode);
        self.volume.forget(ino(inode), lookups);
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.transport.count(Message::Getattr);
        self.reply_attr(self.volume.getattr(ino(inode)), reply);
    }

    /// The change time is the engine's business; the kernel sends one only along with a write-back
    /// cache.
    ///
    /// Set-id bits: fuser does not show FATTR_KILL_SUIDGID, which comes with a new size from a
    /// caller without CAP_FSETID; being root stands for that capability. A message that sets
    /// nothing is how the kernel announces that such a caller is about to change contents (write,
    /// fallocate, copy into), and what chown(-1, -1) sends.
    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.transport.count(Message::Setattr);
        let mut set = SetAttr {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
            kill_priv: KillPriv::Nothing,
        };
        let changes = set.size.is_some() || uid.is_some() || gid.is_some();
        if set == SetAttr::default() || (changes && request.uid() != 0) {
            set.kill_priv = self.kill_priv(request, inode);
        }
        self.reply_attr(self.volume.setattr(ino(inode), &set), reply);
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        self.transport.count(Message::Readlink);
        match self.volume.readlink(ino(inode)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.transport.count(Message::Mknod);
        let kind = match FileKind::from_mode(mode) {
            Some(kind) => kind,
            None if mode & libc::S_IFMT == 0 => FileKind::Regular,
            None => return reply.error(Errno::EINVAL),
        };
        let new = new_inode(request, kind, mode, umask, rdev);
        self.reply_entry(self.volume.create(ino(parent), name.as_bytes(), &new), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        self.transport.count(Message::Mkdir);
        let new = new_inode(request, FileKind::Directory, mode, umask, 0);
        self.reply_entry(self.volume.create(ino(parent), name.as_bytes(), &new), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.transport.count(Message::Unlink);
        self.reply_empty(self.volume.unlink(ino(parent), name.as_bytes()), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.transport.count(Message::Rmdir);
        self.reply_empty(self.volume.rmdir(ino(parent), name.as_bytes()), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.transport.count(Message::Symlink);
        let target = target.as_os_str().as_bytes();
        let result =
            self.volume.symlink(ino(parent), name.as_bytes(), target, request.uid(), request.gid());
        self.reply_entry(result, reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: fuser::RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Rename);
        let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
        let result =
            self.volume.rename(ino(parent), name, ino(new_parent), new_name, rename_flags(flags));
        self.reply_empty(result, reply);
    }

    fn link(
        &self,
        _request: &Request,
        inode: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        self.transport.count(Message::Link);
        self.reply_entry(self.volume.link(ino(inode), ino(parent), name.as_bytes()), reply);
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.transport.count(Message::Open);
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size_bytes: u32,
        _flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.transport.count(Message::Read);
        if !is_direct(lock_owner) {
            self.coherence.caches(inode, offset, size_bytes.into());
        }
        with_read_buffer(size_bytes as usize, |buffer| {
            match self.volume.read(ino(inode), offset, buffer) {
                Ok(len_bytes) => reply.data(&buffer[..len_bytes]),
                Err(error) => reply.error(self.errors.errno(&error)),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.transport.count(Message::Write);
        let direct = is_direct(lock_owner);
        if !direct {
            self.coherence.caches(inode, offset, data.len() as u64);
        }
        let options = self.write_options(request, inode, write_flags, flags);
        match self.volume.write(ino(inode), offset, data, options) {
            Ok(written) if direct => {
                let answer = move || reply.written(u32::try_from(written).unwrap_or(u32::MAX));
                self.coherence.settle(inode, offset, written as u64, answer);
            }
            written => self.reply_written(written.map(|len_bytes| len_bytes as u64), reply),
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Flush);
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        // Comes for a file that was created before the first OPEN was refused.
        self.transport.count(Message::Release);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Fsync);
        if self.durable {
            return reply.error(Errno::ENOSYS);
        }
        self.reply_empty(self.volume.fsync(ino(inode), data_only), reply);
    }

    fn opendir(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.transport.count(Message::Opendir);
        reply.error(Errno::ENOSYS);
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.transport.count(Message::Readdir);
        self.reply_listing(inode, offset, reply);
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.transport.count(Message::Readdirplus);
        self.reply_listing_plus(inode, offset, reply);
    }

    fn releasedir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Releasedir);
        reply.ok();
    }

    /// Changes of a directory are durable when they are answered.
    fn fsyncdir(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Fsyncdir);
        reply.error(Errno::ENOSYS);
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        self.transport.count(Message::Statfs);
        match self.volume.statfs() {
            Ok(fs) => reply.statfs(
                fs.blocks,
                fs.blocks_free,
                fs.blocks_available,
                fs.files,
                fs.files_free,
                fs.block_bytes,
                fs.name_bytes_max,
                fs.block_bytes,
            ),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Setxattr);
        let access_acl = name == ACCESS_ACL;
        let groups = if access_acl { caller::groups(request) } else { None };
        let flags = xattr_flags(flags);
        let result =
            self.volume.setxattr(ino(inode), name.as_bytes(), value, flags, groups.as_deref());
        if access_acl && result.is_ok() {
            self.transport.forget_attributes(inode);
        }
        self.reply_empty(result, reply);
    }

    fn getxattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        name: &OsStr,
        size_bytes: u32,
        reply: ReplyXattr,
    ) {
        self.transport.count(Message::Getxattr);
        self.reply_xattr(self.volume.getxattr(ino(inode), name.as_bytes()), size_bytes, reply);
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, size_bytes: u32, reply: ReplyXattr) {
        self.transport.count(Message::Listxattr);
        self.reply_xattr(self.volume.listxattr(ino(inode)), size_bytes, reply);
    }

    fn removexattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.transport.count(Message::Removexattr);
        self.reply_empty(self.volume.removexattr(ino(inode), name.as_bytes()), reply);
    }

    /// The kernel checks permissions (`default_permissions`); on a private mount, nobody does.
    fn access(&self, _request: &Request, _inode: INodeNo, _mask: AccessFlags, reply: ReplyEmpty) {
        self.transport.count(Message::Access);
        reply.error(Errno::ENOSYS);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        self.transport.count(Message::Create);
        let new = new_inode(request, FileKind::Regular, mode, umask, 0);
        match self.volume.create(ino(parent), name.as_bytes(), &new) {
            Ok(attr) => reply.created(
                &FOREVER,
                &file_attr(&attr),
                generation(&attr),
                FileHandle(0),
                CREATED,
            ),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn ioctl(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        input: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        self.transport.count(Message::Ioctl);
        match self.control.answer(&self.volume, ino(inode), request.uid(), command, input) {
            Ok(page) => reply.ioctl(0, &page),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn poll(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _notifier: PollNotifier,
        _events: PollEvents,
        _flags: PollFlags,
        reply: ReplyPoll,
    ) {
        // Files are always ready; the kernel knows that by itself.
        self.transport.count(Message::Poll);
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        len_bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Fallocate);
        match fallocate(mode) {
            Some(mode) => {
                self.reply_empty(self.volume.fallocate(ino(inode), mode, offset, len_bytes), reply)
            }
            None => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn lseek(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.transport.count(Message::Lseek);
        // A negative offset lies outside the file, as one beyond its end does.
        let Ok(from) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO);
        };
        let found = match whence {
            libc::SEEK_DATA => self.volume.seek_data(ino(inode), from),
            libc::SEEK_HOLE => self.volume.seek_hole(ino(inode), from),
            _ => return reply.error(Errno::EINVAL),
        };
        match found.map(i64::try_from) {
            Ok(Ok(found)) => reply.offset(found),
            Ok(Err(_)) => reply.error(Errno::EOVERFLOW),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        from: INodeNo,
        _from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _to_handle: FileHandle,
        to_offset: u64,
        len_bytes: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.transport.count(Message::CopyFileRange);
        // The answer has 32 bits; a copy may always be shorter than asked for.
        let len_bytes = len_bytes.min(u64::from(u32::MAX) & !0xfff);
        self.reply_written(
            self.volume.copy_range(ino(from), from_offset, ino(to), to_offset, len_bytes),
            reply,
        );
    }
}
