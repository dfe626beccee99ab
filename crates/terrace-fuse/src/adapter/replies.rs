//! Answers to the kernel, and what requests have in common.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use fuser::{
    Errno, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyWrite, ReplyXattr, Request, WriteFlags,
};
use terrace_engine::{Attr, FileKind, FsResult, KillPriv, NewInode, WriteOptions};

use super::TerraceFs;
use crate::caller;
use crate::convert::{file_attr, file_type, generation, ino};
use crate::transport::FOREVER;

pub(super) fn new_inode(
    request: &Request,
    kind: FileKind,
    mode: u32,
    umask: u32,
    rdev: u32,
) -> NewInode {
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
pub(super) fn is_direct(lock_owner: Option<LockOwner>) -> bool {
    lock_owner.is_some()
}

impl TerraceFs {
    pub(super) fn reply_entry(&self, result: FsResult<Attr>, reply: ReplyEntry) {
        match result {
            Ok(attr) => reply.entry(&FOREVER, &file_attr(&attr), generation(&attr)),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    pub(super) fn reply_attr(&self, result: FsResult<Attr>, reply: ReplyAttr) {
        match result {
            Ok(attr) => reply.attr(&FOREVER, &file_attr(&attr)),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    pub(super) fn reply_empty(&self, result: FsResult<()>, reply: ReplyEmpty) {
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    /// Which set-id bits a caller without the privilege to keep them clears, as the kernel's other
    /// file systems do. The groups of a process are looked up where they matter.
    pub(super) fn kill_priv(&self, request: &Request, inode: INodeNo) -> KillPriv {
        let asks = |attr: &Attr| attr.mode & 0o2010 == 0o2000 && attr.kind != FileKind::Directory;
        match self.volume.getattr(ino(inode)) {
            Ok(attr) if asks(&attr) => match caller::groups(request) {
                Some(groups) if !groups.contains(&attr.gid) => KillPriv::Stranger,
                _ => KillPriv::Member,
            },
            _ => KillPriv::Member,
        }
    }

    /// Appends go to the engine's end of file, whatever offset the kernel computed, except where
    /// the offset is the better witness: pages of a mapping are written back where they belong, and
    /// one large direct write comes as several messages that two threads may take out of order.
    ///
    /// O_SYNC and O_DSYNC: the kernel sends FSYNC after the write (direct ones too). The flag still
    /// goes along, for it makes the write durable at once, and the FSYNC then finds nothing to do.
    pub(super) fn write_options(
        &self,
        request: &Request,
        inode: INodeNo,
        write_flags: WriteFlags,
        flags: OpenFlags,
    ) -> WriteOptions {
        let write_back = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        // Before a buffered write to a file with set-id bits comes a SETATTR.
        let kill_priv = match write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            true if flags.0 & libc::O_DIRECT != 0 => self.kill_priv(request, inode),
            true => KillPriv::Member,
            false => KillPriv::Nothing,
        };
        WriteOptions {
            append: !write_back && flags.0 & (libc::O_APPEND | libc::O_DIRECT) == libc::O_APPEND,
            durable: self.durable || (!write_back && flags.0 & libc::O_DSYNC != 0),
            kill_priv,
        }
    }

    /// `result` bytes of a WRITE or COPY_FILE_RANGE, which asked for no more than fits.
    pub(super) fn reply_written(&self, result: FsResult<u64>, reply: ReplyWrite) {
        match result {
            Ok(len_bytes) => reply.written(u32::try_from(len_bytes).unwrap_or(u32::MAX)),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    /// An attribute's value or the list of names: its size if the caller asked for that with a size
    /// of 0.
    pub(super) fn reply_xattr(
        &self,
        result: FsResult<Vec<u8>>,
        size_bytes: u32,
        reply: ReplyXattr,
    ) {
        match result {
            Ok(value) if size_bytes == 0 => {
                reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX))
            }
            Ok(value) if value.len() <= size_bytes as usize => reply.data(&value),
            Ok(_) => reply.error(Errno::ERANGE),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    pub(super) fn reply_listing(&self, inode: INodeNo, offset: u64, mut reply: ReplyDirectory) {
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

    /// `.` and `..` are listed like the rest. Neither the kernel nor the engine counts a lookup for
    /// them.
    pub(super) fn reply_listing_plus(
        &self,
        inode: INodeNo,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
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
            // Listed inodes have been counted as looked up, so the answer must arrive. The error
            // comes again with the next call.
            _ => reply.ok(),
        }
    }
}
