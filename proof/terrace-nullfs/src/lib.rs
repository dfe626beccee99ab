//! The file system that does nothing, as a baseline: what is left of a measurement when the engine
//! is taken away.
//!
//! Names, kinds, owners, modes and sizes live in a tree in memory, and so do the first 64 KiB of
//! each file: just enough for programs to run. All other contents are zeros, writes to them are
//! thrown away, extended attributes do not stick and times stand still. The transport (INIT,
//! caching, refused messages, threads) is the real one.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use anyhow::Result;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType,
    Filesystem, Generation, INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents,
    PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen, ReplyPoll,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::Mutex;
use terrace_fuse::transport::{CREATED, FOREVER, MESSAGE_BYTES_MAX, Transport, absent};
use terrace_fuse::{Message, MountConfig, Mounted, mount_with};

mod tree;

use tree::{BLOCK_BYTES, NewNode, Tree};

/// What files contain. Never written, so it stays one shared page of the system.
static ZEROS: [u8; MESSAGE_BYTES_MAX as usize] = [0; MESSAGE_BYTES_MAX as usize];

/// Mounts the file system that does nothing, on the same transport and with the same settings as a
/// volume: what a message costs before an engine has done any work.
///
/// # Errors
/// As [`terrace_fuse::mount`].
pub fn mount_null(mountpoint: &Path, config: &MountConfig) -> Result<Mounted> {
    mount_with(mountpoint, config, |transport| Ok(NullFs::new(transport, config.durable)))
}

#[derive(Debug)]
struct NullFs {
    transport: Transport,
    durable: bool,
    tree: Mutex<Tree>,
}

impl NullFs {
    fn new(transport: Transport, durable: bool) -> Self {
        Self { transport, durable, tree: Mutex::new(Tree::new()) }
    }

    fn reply_created(&self, made: Result<FileAttr, Errno>, reply: ReplyEntry) {
        match made {
            Ok(attr) => reply.entry(&FOREVER, &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }
}

impl Filesystem for NullFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.transport.negotiate(config)
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.transport.count(Message::Lookup);
        let mut tree = self.tree.lock();
        match tree.child(parent, name) {
            Err(errno) if errno.code() == libc::ENOENT => {
                reply.entry(&FOREVER, &absent(), Generation(0))
            }
            found => {
                let found = found.and_then(|number| tree.looked_up(number));
                drop(tree);
                self.reply_created(found, reply);
            }
        }
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.transport.count(Message::Forget);
        self.tree.lock().forget(inode.0, lookups);
    }

    fn getattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.transport.count(Message::Getattr);
        let attr = self.tree.lock().node(inode).map(|node| node.attr);
        match attr {
            Ok(attr) => reply.attr(&FOREVER, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.transport.count(Message::Setattr);
        let mut tree = self.tree.lock();
        let sized = size.map_or(Ok(()), |size| tree.set_size(inode, size));
        let attr = sized.and_then(|()| tree.node(inode)).map(|node| {
            let attr = &mut node.attr;
            attr.perm = mode.map_or(attr.perm, |mode| (mode & 0o7777) as u16);
            attr.uid = uid.unwrap_or(attr.uid);
            attr.gid = gid.unwrap_or(attr.gid);
            *attr
        });
        drop(tree);
        match attr {
            Ok(attr) => reply.attr(&FOREVER, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        self.transport.count(Message::Readlink);
        let target = self.tree.lock().node(inode).map(|node| node.target.clone());
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(errno) => reply.error(errno),
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
        let kind = match mode & libc::S_IFMT {
            libc::S_IFCHR => FileType::CharDevice,
            libc::S_IFBLK => FileType::BlockDevice,
            libc::S_IFIFO => FileType::NamedPipe,
            libc::S_IFSOCK => FileType::Socket,
            _ => FileType::RegularFile,
        };
        let new = NewNode { rdev, ..NewNode::of(request, kind, mode & !umask) };
        let made = self.tree.lock().create(parent, name, new);
        self.reply_created(made, reply);
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
        let new = NewNode::of(request, FileType::Directory, mode & !umask);
        let made = self.tree.lock().create(parent, name, new);
        self.reply_created(made, reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.transport.count(Message::Unlink);
        reply_empty(self.tree.lock().remove(parent, name), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.transport.count(Message::Rmdir);
        reply_empty(self.tree.lock().remove(parent, name), reply);
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
        let mut tree = self.tree.lock();
        let new = NewNode::of(request, FileType::Symlink, 0o777);
        let mut made = tree.create(parent, name, new);
        if let Ok(attr) = &mut made
            && let Ok(node) = tree.node(attr.ino)
        {
            node.target = target.as_os_str().to_owned();
            node.attr.size = node.target.len() as u64;
            *attr = node.attr;
        }
        drop(tree);
        self.reply_created(made, reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Rename);
        reply_empty(self.tree.lock().rename((parent, name), (new_parent, new_name), flags), reply);
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
        let linked = self.tree.lock().link(inode, parent, name);
        self.reply_created(linked, reply);
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
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.transport.count(Message::Read);
        let found = self.tree.lock().read(inode, offset, size_bytes.into());
        match found {
            Ok((len_bytes, None)) => reply.data(&ZEROS[..len_bytes.min(ZEROS.len())]),
            Ok((len_bytes, Some(mut known))) => {
                known.resize(len_bytes, 0);
                reply.data(&known);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.transport.count(Message::Write);
        let written = self.tree.lock().write(inode, offset, data);
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
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
        self.transport.count(Message::Release);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Fsync);
        if self.durable { reply.error(Errno::ENOSYS) } else { reply.ok() }
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
        for (next, name, attr) in self.tree.lock().list(inode, offset) {
            if reply.add(attr.ino, next, attr.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.transport.count(Message::Readdirplus);
        let mut tree = self.tree.lock();
        for (next, name, attr) in tree.list(inode, offset) {
            let dot = name == "." || name == "..";
            if reply.add(attr.ino, next, name, &FOREVER, &attr, Generation(0)) {
                break;
            }
            if !dot && let Ok(node) = tree.node(attr.ino) {
                node.lookups += 1;
            }
        }
        drop(tree);
        reply.ok();
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
        let files = self.tree.lock().nodes.len() as u64;
        reply.statfs(1 << 32, 1 << 32, 1 << 32, files, 1 << 32, BLOCK_BYTES, 255, BLOCK_BYTES);
    }

    fn setxattr(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _name: &OsStr,
        _value: &[u8],
        _flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.transport.count(Message::Setxattr);
        reply.ok();
    }

    fn getxattr(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _name: &OsStr,
        _size_bytes: u32,
        reply: ReplyXattr,
    ) {
        self.transport.count(Message::Getxattr);
        reply.error(Errno::ENODATA);
    }

    fn listxattr(&self, _request: &Request, _inode: INodeNo, size_bytes: u32, reply: ReplyXattr) {
        self.transport.count(Message::Listxattr);
        if size_bytes == 0 { reply.size(0) } else { reply.data(&[]) }
    }

    fn removexattr(&self, _request: &Request, _inode: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        self.transport.count(Message::Removexattr);
        reply.ok();
    }

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
        let new = NewNode::of(request, FileType::RegularFile, mode & !umask);
        let made = self.tree.lock().create(parent, name, new);
        match made {
            Ok(attr) => reply.created(&FOREVER, &attr, Generation(0), FileHandle(0), CREATED),
            Err(errno) => reply.error(errno),
        }
    }

    fn ioctl(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _input: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        self.transport.count(Message::Ioctl);
        reply.error(Errno::ENOTTY);
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
        let end = if mode & libc::FALLOC_FL_KEEP_SIZE == 0 { offset + len_bytes } else { 0 };
        reply_empty(self.tree.lock().write(inode, end, &[]), reply);
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
        // All data, up to the one hole that every file ends in.
        let size = self.tree.lock().node(inode).map_or(0, |node| node.attr.size) as i64;
        match whence {
            _ if !(0..size).contains(&offset) => reply.error(Errno::ENXIO),
            libc::SEEK_HOLE => reply.offset(size),
            _ => reply.offset(offset),
        }
    }

    fn copy_file_range(
        &self,
        _request: &Request,
        _from: INodeNo,
        _from_handle: FileHandle,
        _from_offset: u64,
        to: INodeNo,
        _to_handle: FileHandle,
        to_offset: u64,
        len_bytes: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.transport.count(Message::CopyFileRange);
        let len_bytes = len_bytes.min(u64::from(MESSAGE_BYTES_MAX));
        let copied = self.tree.lock().write(to, to_offset + len_bytes, &[]);
        match copied {
            Ok(()) => reply.written(len_bytes as u32),
            Err(errno) => reply.error(errno),
        }
    }
}

fn reply_empty(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
