//! Answers to the kernel, and what requests have in common.

use terrace_engine::{Attr, FileKind, FsResult, Ino, KillPriv, NewInode, WriteOptions};
use terrace_transport::abi::{
    AttrOut, Dirent, EntryOut, GetxattrOut, ReadFlags, ReadIn, StatxOut, WriteFlags, WriteIn,
    WriteOut,
};
use terrace_transport::{Caller, Listing, Reply};

use super::TerraceFs;
use crate::caller;
use crate::convert::{birth, dirent_type, file_attr, generation};
use crate::terms::{attributes, entry, statx};

/// An inode that a caller makes; `modes`: the mode, and the umask.
pub(super) fn new_inode(
    caller: Caller,
    kind: FileKind,
    (mode, umask): (u32, u32),
    rdev: u32,
) -> NewInode {
    NewInode {
        kind,
        mode: mode & 0o7777,
        umask: umask & 0o777,
        uid: caller.uid,
        gid: caller.gid,
        rdev,
    }
}

/// Whether a READ or WRITE is direct: the kernel names an owner then, and none for what its cache
/// takes part in.
pub(super) fn is_direct(flags: u32) -> bool {
    const { assert!(ReadFlags::LOCKOWNER.bits() == WriteFlags::LOCKOWNER.bits()) };
    flags & WriteFlags::LOCKOWNER.bits() != 0
}

/// An answer to a WRITE or COPY_FILE_RANGE, which asked for no more than fits.
pub(super) fn written(len_bytes: u64) -> WriteOut {
    WriteOut { size: u32::try_from(len_bytes).unwrap_or(u32::MAX), padding: 0 }
}

impl TerraceFs {
    /// The attributes that the kernel is told, and whether it may keep them.
    fn told(&self, attr: &Attr) -> (Attr, bool) {
        self.direct.as_ref().map_or((*attr, true), |direct| direct.told(attr))
    }

    /// An answer that names an inode.
    pub(super) fn entry_of(&self, attr: &Attr) -> EntryOut {
        let (attr, keep) = self.told(attr);
        let entry = entry(file_attr(&attr), generation(&attr));
        if keep { entry } else { EntryOut { attr_valid: 0, ..entry } }
    }

    /// An answer to STATX.
    pub(super) fn statx_of(&self, attr: &Attr) -> StatxOut {
        let (attr, keep) = self.told(attr);
        let stat = statx(&file_attr(&attr), birth(&attr));
        if keep { stat } else { StatxOut { attr_valid: 0, ..stat } }
    }

    pub(super) fn reply_entry(&self, result: FsResult<Attr>, reply: Reply) {
        match result {
            Ok(attr) => reply.value(&self.entry_of(&attr)),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    pub(super) fn reply_attr(&self, result: FsResult<Attr>, reply: Reply) {
        match result {
            Ok(attr) => {
                let (attr, keep) = self.told(&attr);
                let out = attributes(file_attr(&attr));
                reply.value(&if keep { out } else { AttrOut { attr_valid: 0, ..out } });
            }
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    pub(super) fn reply_empty(&self, result: FsResult<()>, reply: Reply) {
        match result {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    /// Which set-id bits a caller without the privilege to keep them clears, as the kernel's other
    /// file systems do. The groups of a process are looked up where they matter.
    pub(super) fn kill_priv(&self, ino: Ino, caller: Caller) -> KillPriv {
        let asks = |attr: &Attr| attr.mode & 0o2010 == 0o2000 && attr.kind != FileKind::Directory;
        match self.volume.getattr(ino) {
            Ok(attr) if asks(&attr) => match caller::groups(caller) {
                Some(groups) if !groups.contains(&attr.gid) => KillPriv::Stranger,
                _ => KillPriv::Member,
            },
            _ => KillPriv::Member,
        }
    }

    /// Appends go to the engine's end of file, whatever offset the kernel computed, except where
    /// the offset is the better witness: pages of a mapping are written back where they belong, and
    /// one large direct write comes as several messages that two threads may take out of order. But
    /// the kernel does not know the end of a file that has been lent.
    ///
    /// O_SYNC and O_DSYNC: the kernel sends FSYNC after the write (direct ones too). The flag still
    /// goes along, for it makes the write durable at once, and the FSYNC then finds nothing to do.
    pub(super) fn write_options(&self, ino: Ino, write: &WriteIn, caller: Caller) -> WriteOptions {
        let how = WriteFlags::from_bits_retain(write.write_flags);
        let flags = write.flags.cast_signed();
        let write_back = how.contains(WriteFlags::CACHE);
        // Before a write to a file with set-id bits comes a SETATTR, unless it goes past the cache.
        // On mounts that lend files, that depends on how the file was opened.
        let may_be_past_the_cache = flags & libc::O_DIRECT != 0 || self.direct.is_some();
        let kill_priv = match how.contains(WriteFlags::KILL_SUIDGID) {
            true if may_be_past_the_cache => self.kill_priv(ino, caller),
            true => KillPriv::Member,
            false => KillPriv::Nothing,
        };
        let is_behind = || self.direct.as_ref().is_some_and(|direct| direct.is_behind(ino));
        WriteOptions {
            append: !write_back
                && flags & libc::O_APPEND != 0
                && (flags & libc::O_DIRECT == 0 || is_behind()),
            durable: self.durable || (!write_back && flags & libc::O_DSYNC != 0),
            kill_priv,
        }
    }

    pub(super) fn reply_written(&self, result: FsResult<u64>, reply: Reply) {
        match result {
            Ok(len_bytes) => reply.value(&written(len_bytes)),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    /// An attribute's value or the list of names: its size if the caller asked for that with a size
    /// of 0.
    pub(super) fn reply_xattr(&self, result: FsResult<Vec<u8>>, size_bytes: u32, reply: Reply) {
        match result {
            Ok(value) if size_bytes == 0 => {
                let size = u32::try_from(value.len()).unwrap_or(u32::MAX);
                reply.value(&GetxattrOut { size, padding: 0 });
            }
            Ok(value) if value.len() <= size_bytes as usize => reply.bytes(&value),
            Ok(_) => reply.error(libc::ERANGE),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    pub(super) fn reply_listing(&self, ino: Ino, read: &ReadIn, reply: Reply) {
        reply.fill(read.size as usize, |buffer| {
            let mut listing = Listing::new(buffer);
            let listed = self.volume.readdir(ino, read.offset, &mut |found| {
                let type_ = dirent_type(found.kind);
                let dirent = Dirent { ino: found.ino.0, off: found.next, type_, namelen: 0 };
                listing.add(None, &dirent, found.name)
            });
            match listed {
                Ok(()) => Ok(listing.len_bytes()),
                Err(error) => Err(self.errors.errno(&error)),
            }
        });
    }

    /// `.` and `..` are listed like the rest. Neither the kernel nor the engine counts a lookup for
    /// them.
    pub(super) fn reply_listing_plus(&self, ino: Ino, read: &ReadIn, reply: Reply) {
        reply.fill(read.size as usize, |buffer| {
            let mut listing = Listing::new(buffer);
            let listed = self.volume.readdir_plus(ino, read.offset, &mut |found, attr| {
                let type_ = dirent_type(attr.kind);
                let dirent = Dirent { ino: found.ino.0, off: found.next, type_, namelen: 0 };
                listing.add(Some(&self.entry_of(attr)), &dirent, found.name)
            });
            match listed {
                Err(error) if listing.len_bytes() == 0 => Err(self.errors.errno(&error)),
                // Listed inodes have been counted as looked up, so the answer must arrive. The
                // error comes again with the next call.
                _ => Ok(listing.len_bytes()),
            }
        });
    }
}
