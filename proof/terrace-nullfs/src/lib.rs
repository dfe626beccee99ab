//! The file system that does nothing, as a baseline: what is left of a measurement when the engine
//! is taken away.
//!
//! Names, kinds, owners, modes and sizes live in a tree in memory, and so do the first 64 KiB of
//! each file: just enough for programs to run. All other contents are zeros, writes to them are
//! thrown away, extended attributes do not stick and times stand still. The transport (INIT,
//! caching, refused messages, threads) is the real one.

use std::path::Path;

use anyhow::Result;
use parking_lot::Mutex;
use terrace_fuse::terms::{MESSAGE_BYTES_MAX, absent, attributes, entry, opened, statx};
use terrace_fuse::{MountConfig, Mounted, mount_with};
use terrace_transport::abi::{
    Attr, CopyFileRangeIn, CopyFileRangeOut, Dirent, EntryOut, FallocateIn, GetxattrOut, LseekOut,
    ReadIn, SetattrIn, SetattrValid, StatfsOut, StatxTime, WriteOut, dirent_type,
};
use terrace_transport::{FileSystem, Listing, Operation, Reply, Request};

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
    mount_with(mountpoint, config, |_| Ok(NullFs::new(config.durable)))
}

#[derive(Debug)]
struct NullFs {
    durable: bool,
    tree: Mutex<Tree>,
}

/// The outcome of a request: an answer, or an errno.
type Answered<T> = Result<T, i32>;

impl FileSystem for NullFs {
    fn answer(&self, request: &Request<'_>, reply: Reply) {
        let (ino, caller) = (request.ino, request.caller);
        match request.operation {
            Operation::Lookup { name } => self.lookup(ino, name, reply),
            Operation::Forget { lookups } => self.tree.lock().forget(ino, lookups),
            Operation::BatchForget(inodes) => {
                let mut tree = self.tree.lock();
                inodes.iter().for_each(|one| tree.forget(one.nodeid, one.nlookup));
            }
            Operation::Getattr => reply_attr(self.tree.lock().node(ino).map(|n| n.attr), reply),
            Operation::Statx => {
                let attr = self.tree.lock().node(ino).map(|node| node.attr);
                let born = |attr: Attr| StatxTime { tv_sec: attr.ctime, ..StatxTime::default() };
                reply_value(attr.map(|attr| statx(&attr, born(attr))), reply);
            }
            Operation::Setattr(set) => reply_attr(self.set_attributes(ino, set), reply),
            Operation::Readlink => {
                let target = self.tree.lock().node(ino).map(|node| node.target.clone());
                match target {
                    Ok(target) => reply.bytes(&target),
                    Err(errno) => reply.error(errno),
                }
            }
            Operation::Mknod { name, mode, umask, rdev } => {
                let mode = if mode & libc::S_IFMT == 0 { mode | libc::S_IFREG } else { mode };
                let new = NewNode { rdev, ..NewNode::of(caller, mode & !umask) };
                reply_entry(self.tree.lock().create(ino, name, new), reply);
            }
            Operation::Mkdir { name, mode, umask } => {
                let new = NewNode::of(caller, libc::S_IFDIR | mode & !umask & 0o7777);
                reply_entry(self.tree.lock().create(ino, name, new), reply);
            }
            Operation::Create { name, mode, umask, .. } => {
                let new = NewNode::of(caller, libc::S_IFREG | mode & !umask & 0o7777);
                let made = self.tree.lock().create(ino, name, new);
                match made {
                    Ok(attr) => reply.values(&entry(attr, 0), &opened()),
                    Err(errno) => reply.error(errno),
                }
            }
            Operation::Symlink { name, target } => {
                let new = NewNode::of(caller, libc::S_IFLNK | 0o777);
                reply_entry(self.symlink(ino, name, target, new), reply);
            }
            Operation::Unlink { name } | Operation::Rmdir { name } => {
                reply_empty(self.tree.lock().remove(ino, name), reply)
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                let (from, to) = ((ino, name), (new_parent, new_name));
                reply_empty(self.tree.lock().rename(from, to, flags), reply);
            }
            Operation::Link { ino: linked, name } => {
                reply_entry(self.tree.lock().link(linked, ino, name), reply)
            }
            Operation::Read(read) => self.read(ino, read, reply),
            Operation::Write(write, data) => {
                let written = self.tree.lock().write(ino, write.offset, data);
                reply_value(written.map(|()| WriteOut { size: write.size, padding: 0 }), reply);
            }
            Operation::Fsync { .. } if self.durable => reply.error(libc::ENOSYS),
            Operation::Fsync { .. }
            | Operation::Syncfs
            | Operation::Release(_)
            | Operation::Releasedir(_)
            | Operation::Setxattr { .. }
            | Operation::Removexattr { .. } => reply.ok(),
            Operation::Readdir(read) => self.list(ino, read, reply),
            Operation::Readdirplus(read) => self.list_plus(ino, read, reply),
            Operation::Statfs => self.statfs(reply),
            Operation::Getxattr { .. } => reply.error(libc::ENODATA),
            Operation::Listxattr { size: 0 } => reply.value(&GetxattrOut::default()),
            Operation::Listxattr { .. } => reply.ok(),
            Operation::Ioctl(..) => reply.error(libc::ENOTTY),
            Operation::Fallocate(range) => reply_empty(self.fallocate(ino, range), reply),
            Operation::Lseek { offset, whence } => {
                reply_value(self.lseek(ino, offset, whence), reply)
            }
            Operation::CopyFileRange { copy, answer_64 } => self.copy(copy, answer_64, reply),
            _ => reply.error(libc::ENOSYS),
        }
    }
}

impl NullFs {
    fn new(durable: bool) -> Self {
        Self { durable, tree: Mutex::new(Tree::new()) }
    }

    fn lookup(&self, parent: u64, name: &[u8], reply: Reply) {
        let mut tree = self.tree.lock();
        let found = tree.child(parent, name).and_then(|number| tree.looked_up(number));
        drop(tree);
        match found {
            Err(libc::ENOENT) => reply.value(&absent()),
            found => reply_entry(found, reply),
        }
    }

    fn set_attributes(&self, ino: u64, set: &SetattrIn) -> Answered<Attr> {
        let valid = SetattrValid::from_bits_retain(set.valid);
        let mut tree = self.tree.lock();
        if valid.contains(SetattrValid::SIZE) {
            tree.set_size(ino, set.size)?;
        }
        let attr = &mut tree.node(ino)?.attr;
        if valid.contains(SetattrValid::MODE) {
            attr.mode = attr.mode & libc::S_IFMT | set.mode & 0o7777;
        }
        if valid.contains(SetattrValid::UID) {
            attr.uid = set.uid;
        }
        if valid.contains(SetattrValid::GID) {
            attr.gid = set.gid;
        }
        Ok(*attr)
    }

    fn symlink(&self, parent: u64, name: &[u8], target: &[u8], new: NewNode) -> Answered<Attr> {
        let mut tree = self.tree.lock();
        let made = tree.create(parent, name, new)?;
        let node = tree.node(made.ino)?;
        node.target = target.to_vec();
        node.attr.size = target.len() as u64;
        Ok(node.attr)
    }

    fn read(&self, ino: u64, read: &ReadIn, reply: Reply) {
        let found = self.tree.lock().read(ino, read.offset, read.size.into());
        match found {
            Ok((len_bytes, None)) => reply.bytes(&ZEROS[..len_bytes.min(ZEROS.len())]),
            Ok((len_bytes, Some(mut known))) => {
                known.resize(len_bytes, 0);
                reply.bytes(&known);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn list(&self, ino: u64, read: &ReadIn, reply: Reply) {
        let listed = self.tree.lock().list(ino, read.offset);
        reply.fill(read.size as usize, |buffer| {
            let mut listing = Listing::new(buffer);
            for (next, name, attr) in listed {
                if !listing.add(None, &dirent(next, &attr), &name) {
                    break;
                }
            }
            Ok(listing.len_bytes())
        });
    }

    fn list_plus(&self, ino: u64, read: &ReadIn, reply: Reply) {
        let mut tree = self.tree.lock();
        let listed = tree.list(ino, read.offset);
        reply.fill(read.size as usize, |buffer| {
            let mut listing = Listing::new(buffer);
            for (next, name, attr) in listed {
                if !listing.add(Some(&entry(attr, 0)), &dirent(next, &attr), &name) {
                    break;
                }
                let dot = name == b"." || name == b"..";
                if !dot && let Ok(node) = tree.node(attr.ino) {
                    node.lookups += 1;
                }
            }
            drop(tree);
            Ok(listing.len_bytes())
        });
    }

    fn statfs(&self, reply: Reply) {
        let files = self.tree.lock().nodes.len() as u64;
        reply.value(&StatfsOut {
            blocks: 1 << 32,
            bfree: 1 << 32,
            bavail: 1 << 32,
            files,
            ffree: 1 << 32,
            bsize: BLOCK_BYTES,
            namelen: 255,
            frsize: BLOCK_BYTES,
            ..StatfsOut::default()
        });
    }

    fn fallocate(&self, ino: u64, range: &FallocateIn) -> Answered<()> {
        match range.mode.cast_signed() & libc::FALLOC_FL_KEEP_SIZE {
            0 => self.tree.lock().write(ino, range.offset + range.length, &[]),
            _ => Ok(()),
        }
    }

    fn lseek(&self, ino: u64, offset: i64, whence: u32) -> Answered<LseekOut> {
        let size = self.tree.lock().node(ino)?.attr.size.cast_signed();
        let found = match whence.cast_signed() {
            _ if !(0..size).contains(&offset) => return Err(libc::ENXIO),
            libc::SEEK_HOLE => size,
            _ => offset,
        };
        Ok(LseekOut { offset: found.cast_unsigned() })
    }

    fn copy(&self, copy: &CopyFileRangeIn, answer_64: bool, reply: Reply) {
        let len = copy.len.min(u64::from(MESSAGE_BYTES_MAX));
        let copied = self.tree.lock().write(copy.nodeid_out, copy.off_out + len, &[]);
        match answer_64 {
            true => reply_value(copied.map(|()| CopyFileRangeOut { bytes_copied: len }), reply),
            false => reply_value(copied.map(|()| WriteOut { size: len as u32, padding: 0 }), reply),
        }
    }
}

fn dirent(next: u64, attr: &Attr) -> Dirent {
    Dirent { ino: attr.ino, off: next, type_: dirent_type(attr.mode), namelen: 0 }
}

fn reply_value<T: zerocopy::IntoBytes + zerocopy::Immutable>(value: Answered<T>, reply: Reply) {
    match value {
        Ok(value) => reply.value(&value),
        Err(errno) => reply.error(errno),
    }
}

fn reply_entry(attr: Answered<Attr>, reply: Reply) {
    reply_value(attr.map(|attr| -> EntryOut { entry(attr, 0) }), reply);
}

fn reply_attr(attr: Answered<Attr>, reply: Reply) {
    reply_value(attr.map(attributes), reply);
}

fn reply_empty(done: Answered<()>, reply: Reply) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}
