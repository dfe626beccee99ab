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
use terrace_engine::{Attr, FileKind, FsResult, KillPriv, NewInode, SetAttr, Volume, WriteOptions};

use crate::caller;
use crate::coherence::Coherence;
use crate::config::MountConfig;
use crate::control::server::ControlServer;
use crate::convert::{
    fallocate, file_attr, file_type, generation, ino, rename_flags, set_time, xattr_flags,
};
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

    fn reply_entry(&self, result: FsResult<Attr>, reply: ReplyEntry) {
        match result {
            Ok(attr) => reply.entry(&FOREVER, &file_attr(&attr), generation(&attr)),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn reply_attr(&self, result: FsResult<Attr>, reply: ReplyAttr) {
        match result {
            Ok(attr) => reply.attr(&FOREVER, &file_attr(&attr)),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn reply_empty(&self, result: FsResult<()>, reply: ReplyEmpty) {
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    /// Which set-id bits a caller without the privilege to keep them clears, as the kernel's other
    /// file systems do. Who is in which group is looked up where it matters.
    fn kill_priv(&self, request: &Request, inode: INodeNo) -> KillPriv {
        let asks = |attr: &Attr| attr.mode & 0o2010 == 0o2000 && attr.kind != FileKind::Directory;
        match self.volume.getattr(ino(inode)) {
            Ok(attr) if asks(&attr) => match caller::groups(request) {
                Some(groups) if !groups.contains(&attr.gid) => KillPriv::Stranger,
                _ => KillPriv::Member,
            },
            _ => KillPriv::Member,
        }
    }

    /// `result` bytes of a WRITE or COPY_FILE_RANGE, which asked for no more than fits.
    fn reply_written(&self, result: FsResult<u64>, reply: ReplyWrite) {
        match result {
            Ok(len_bytes) => reply.written(u32::try_from(len_bytes).unwrap_or(u32::MAX)),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    /// An attribute's value or the list of names: its size if the caller asked for that with a size
    /// of 0.
    fn reply_xattr(&self, result: FsResult<Vec<u8>>, size_bytes: u32, reply: ReplyXattr) {
        match result {
            Ok(value) if size_bytes == 0 => {
                reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX))
            }
            Ok(value) if value.len() <= size_bytes as usize => reply.data(&value),
            Ok(_) => reply.error(Errno::ERANGE),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }
}

fn new_inode(request: &Request, kind: FileKind, mode: u32, umask: u32, rdev: u32) -> NewInode {
    NewInode {
        kind,
        mode: mode & 0o7777,
        umask: umask & 0o777,
        uid: request.uid(),
        gid: request.gid(),
        rdev,
    }
}

/// Whether a READ or WRITE is direct: the kernel names an owner then, and none for what its cache
/// takes part in.
fn is_direct(lock_owner: Option<LockOwner>) -> bool {
    lock_owner.is_some()
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

    /// Appends go to the engine's end of file, whatever offset the kernel computed, except where
    /// the offset is the better witness: pages of a mapping are written back where they belong, and
    /// one large direct write comes as several messages that two threads may take out of order.
    ///
    /// O_SYNC and O_DSYNC: the kernel sends FSYNC after the write (direct ones too). The flag still
    /// goes along, for it makes the write durable at once, and the FSYNC then finds nothing to do.
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
        let write_back = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        // Before a buffered write to a file with set-id bits comes a SETATTR.
        let kill_priv = match write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            true if flags.0 & libc::O_DIRECT != 0 => self.kill_priv(request, inode),
            true => KillPriv::Member,
            false => KillPriv::Nothing,
        };
        let options = WriteOptions {
            append: !write_back && flags.0 & (libc::O_APPEND | libc::O_DIRECT) == libc::O_APPEND,
            durable: self.durable || (!write_back && flags.0 & libc::O_DSYNC != 0),
            kill_priv,
        };
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
        mut reply: ReplyDirectory,
    ) {
        self.transport.count(Message::Readdir);
        let result = self.volume.readdir(ino(inode), offset, &mut |entry| {
            !reply.add(
                INodeNo(entry.ino.0),
                entry.next,
                file_type(entry.kind),
                OsStr::from_bytes(entry.name),
            )
        });
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    /// `.` and `..` are listed like the rest; neither the kernel nor the engine counts a lookup for
    /// them.
    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.transport.count(Message::Readdirplus);
        let mut listed = false;
        let result = self.volume.readdir_plus(ino(inode), offset, &mut |entry, attr| {
            let name = OsStr::from_bytes(entry.name);
            let number = INodeNo(entry.ino.0);
            let room =
                !reply.add(number, entry.next, name, &FOREVER, &file_attr(attr), generation(attr));
            listed |= room;
            room
        });
        match result {
            Err(error) if !listed => reply.error(self.errors.errno(&error)),
            // What was listed has been counted as looked up and must arrive; an error comes again
            // with the next call.
            _ => reply.ok(),
        }
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

    /// Who may do what is the kernel's to check (`default_permissions`), or nobody's on a private
    /// mount.
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
