//! FUSE messages to engine calls. Each operation translates its arguments, calls the engine,
//! translates the result.
//!
//! What the kernel caches and the daemon changes without being asked, case by case (Linux 6.18):
//! * Link counts, times and sizes after unlink, rename, link, write, fallocate and copy: the kernel
//!   updates or invalidates them itself, also of a file whose other name was removed.
//! * Set-id bits that a write clears: not noticed by the kernel, which would go on running the
//!   changed file set-user-id. But before such a write it sends a SETATTR that sets nothing;
//!   answering that with the bits cleared brings the kernel's copy up to date before the write (see
//!   [`TerraceFs::set_attributes`]).
//! * The mode after an access ACL was set: invalidated by the kernel if it checks permissions, else
//!   by us ([`KernelCache::forget_attributes`]).
//! * Contents that an asynchronous direct write replaces: see [`Coherence`].
//! * Blocks in use (`st_blocks`), which write-back and migration change: as of the last time the
//!   kernel asked.
//!
//! A panic in here or in the engine leaves the volume's state in memory unknown, and a thread
//! short. The daemon must not go on: it installs a panic hook that aborts. The next mount recovers.

mod again;
mod patience;
mod replies;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use terrace_engine::{Attr, FileKind, FsError, FsResult, Ino, KillPriv, SetAttr, Volume};
use terrace_store::delegation::message::SOCKET_XATTR;
use terrace_transport::abi::{
    CopyFileRangeIn, CopyFileRangeOut, FallocateIn, IoctlIn, IoctlOut, LseekOut, ReadIn, SetattrIn,
    SetattrValid, StatfsOut, WriteIn,
};
use terrace_transport::planted::{Bug, planted};
use terrace_transport::{Caller, FileSystem, Ledger, Operation, Reply, Request};

use self::replies::{is_direct, new_inode};
use crate::caller;
use crate::coherence::Coherence;
use crate::config::MountConfig;
use crate::control::Command;
use crate::control::server::ControlServer;
use crate::convert::{fallocate, rename_flags, set_atime, set_mtime, xattr_flags};
use crate::direct::Direct;
use crate::errors::ErrorLog;
use crate::heir::keep_thresholds;
use crate::kernel_cache::KernelCache;
use crate::terms::{absent, opened};

const ACCESS_ACL: &[u8] = b"system.posix_acl_access";

/// A volume behind a FUSE mount.
#[derive(Debug)]
pub(crate) struct TerraceFs {
    volume: Arc<Volume>,
    kernel: KernelCache,
    coherence: Coherence,
    control: ControlServer,
    /// `None`: nothing is lent.
    direct: Option<Arc<Direct>>,
    errors: Arc<ErrorLog>,
    /// READs that threads or disks are serving just now.
    reads: Arc<AtomicUsize>,
    /// Every write is durable when it is answered, so FSYNC is not needed.
    durable: bool,
    ledger: Option<&'static Ledger>,
}

impl TerraceFs {
    pub(crate) fn new(
        volume: Arc<Volume>,
        kernel: KernelCache,
        config: &MountConfig,
    ) -> io::Result<Self> {
        let coherence = Coherence::new(kernel.clone())?;
        let direct = config.direct.as_ref().map(|socket| -> io::Result<_> {
            // Without one that outlives the daemon, the mount does not outlive it either.
            let ledger = config.ledger.map_or_else(Ledger::new, Ok)?;
            Direct::new(Arc::clone(&volume), kernel.clone(), ledger, socket.clone())
        });
        let direct = direct.transpose()?.map(Arc::new);
        let tells = direct.clone().map(|direct| Box::new(move || direct.status()) as Box<_>);
        let control = ControlServer::new(config.add_disk.clone(), config.upgrade.clone())
            .served(kernel.serving().clone(), tells);
        Ok(Self {
            errors: Arc::new(ErrorLog::new(volume.pm_path())),
            reads: Arc::default(),
            volume,
            kernel,
            coherence,
            control,
            direct,
            durable: config.durable,
            ledger: config.ledger,
        })
    }
}

impl FileSystem for TerraceFs {
    fn answer(&self, request: &Request<'_>, reply: Reply) {
        patience::begin(&request.operation);
        terrace_engine::serve(request.caller.pid);
        match reply.past() {
            None => self.answer_first(request, reply),
            Some(past) => self.answer_again(request, &past, reply),
        }
    }
}

impl TerraceFs {
    /// As if no daemon had taken the request before.
    fn answer_first(&self, request: &Request<'_>, reply: Reply) {
        let (volume, ino, caller) = (&self.volume, Ino(request.ino), request.caller);
        match request.operation {
            Operation::Read(read) => self.read(ino, read, reply),
            Operation::Write(write, data) => self.write(ino, write, data, caller, reply),
            Operation::Fsync { .. } if self.durable => reply.error(libc::ENOSYS),
            Operation::Fsync { data_only } => self.reply_empty(volume.fsync(ino, data_only), reply),
            Operation::Syncfs => self.reply_empty(volume.sync(), reply),
            Operation::Fallocate(range) => self.fallocate(ino, range, reply),
            Operation::Lseek { offset, whence } => self.lseek(ino, offset, whence, reply),
            Operation::CopyFileRange { copy, answer_64 } => {
                self.copy_file_range(ino, copy, answer_64, reply)
            }
            Operation::Lookup { .. }
            | Operation::Mknod { .. }
            | Operation::Mkdir { .. }
            | Operation::Symlink { .. }
            | Operation::Link { .. }
            | Operation::Create { .. }
            | Operation::Tmpfile { .. }
            | Operation::Unlink { .. }
            | Operation::Rmdir { .. }
            | Operation::Rename { .. }
            | Operation::Readdir(_)
            | Operation::Readdirplus(_) => self.answer_about_names(request, reply),
            Operation::Forget { lookups } => self.forget(ino, lookups),
            Operation::BatchForget(inodes) => {
                inodes.iter().for_each(|one| self.forget(Ino(one.nodeid), one.nlookup))
            }
            Operation::Open(_) | Operation::Release(_) => self.answer_about_opens(request, reply),
            // Comes for one that was opened before the first OPENDIR was refused.
            Operation::Releasedir(_) => reply.ok(),
            _ => self.answer_about_attributes(request, reply),
        }
    }

    /// A mount that lends files knows which are open; any other refuses OPEN, once.
    fn answer_about_opens(&self, request: &Request<'_>, reply: Reply) {
        let ino = Ino(request.ino);
        match (&self.direct, &request.operation) {
            (Some(direct), Operation::Open(open)) => {
                match direct.open(ino, open.flags.cast_signed(), request.caller.pid) {
                    Ok(opened) => reply.value(&opened),
                    Err(errno) => reply.error(errno),
                }
            }
            (None, Operation::Open(_)) => reply.error(libc::ENOSYS),
            (direct, _) => {
                // A daemon that has died may have counted it.
                if reply.past().is_none() {
                    direct.iter().for_each(|direct| direct.closed(ino));
                }
                reply.ok();
            }
        }
    }

    /// An answer that names a file that was just made, and opens it with these flags.
    fn reply_created(&self, created: FsResult<Attr>, caller: Caller, flags: u32, reply: Reply) {
        match created {
            Ok(attr) => {
                let opened = match &self.direct {
                    Some(direct) => direct.created(attr.ino, flags.cast_signed(), caller.pid),
                    None => opened(),
                };
                reply.values(&self.entry_of(&attr), &opened);
            }
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn answer_about_names(&self, request: &Request<'_>, reply: Reply) {
        let (volume, ino, caller) = (&self.volume, Ino(request.ino), request.caller);
        match request.operation {
            Operation::Lookup { name } => match volume.lookup(ino, name) {
                Err(error) if error.errno() == libc::ENOENT => reply.value(&absent()),
                found => self.reply_entry(found, reply),
            },
            Operation::Mknod { name, mode, umask, rdev } => {
                let kind = match FileKind::from_mode(mode) {
                    Some(kind) => kind,
                    None if mode & libc::S_IFMT == 0 => FileKind::Regular,
                    None => return reply.error(libc::EINVAL),
                };
                let new = new_inode(caller, kind, (mode, umask), rdev);
                self.reply_entry(volume.create(ino, name, &new), reply);
            }
            Operation::Mkdir { name, mode, umask } => {
                let new = new_inode(caller, FileKind::Directory, (mode, umask), 0);
                self.reply_entry(volume.create(ino, name, &new), reply);
            }
            Operation::Symlink { name, target } => {
                let made = volume.symlink(ino, name, target, caller.uid, caller.gid);
                self.reply_entry(made, reply);
            }
            Operation::Link { ino: linked, name } => {
                self.reply_entry(volume.link(Ino(linked), ino, name), reply)
            }
            Operation::Create { name, mode, umask, flags } => {
                let new = new_inode(caller, FileKind::Regular, (mode, umask), 0);
                self.reply_created(volume.create(ino, name, &new), caller, flags, reply);
            }
            Operation::Tmpfile { mode, umask, flags } => {
                let new = new_inode(caller, FileKind::Regular, (mode, umask), 0);
                let linkable = flags.cast_signed() & libc::O_EXCL == 0;
                let made = volume.create_unnamed(ino, &new, linkable);
                self.reply_created(made, caller, flags, reply);
            }
            Operation::Unlink { name } => self.reply_empty(volume.unlink(ino, name), reply),
            Operation::Rmdir { name } => self.reply_empty(volume.rmdir(ino, name), reply),
            Operation::Rename { name, new_parent, new_name, flags } => {
                let (new_parent, flags) = (Ino(new_parent), rename_flags(flags));
                self.reply_empty(volume.rename(ino, name, new_parent, new_name, flags), reply);
            }
            Operation::Readdir(read) => self.reply_listing(ino, read, reply),
            Operation::Readdirplus(read) => self.reply_listing_plus(ino, read, reply),
            _ => reply.error(libc::ENOSYS),
        }
    }

    fn answer_about_attributes(&self, request: &Request<'_>, reply: Reply) {
        let (volume, ino, caller) = (&self.volume, Ino(request.ino), request.caller);
        match request.operation {
            Operation::Getattr => self.reply_attr(volume.getattr(ino), reply),
            Operation::Statx => match volume.getattr(ino) {
                Ok(attr) => reply.value(&self.statx_of(&attr)),
                Err(error) => reply.error(self.errors.errno(&error)),
            },
            Operation::Setattr(set) => self.set_attributes(ino, set, caller, reply),
            Operation::Readlink => match volume.readlink(ino) {
                Ok(target) => reply.bytes(&target),
                Err(error) => reply.error(self.errors.errno(&error)),
            },
            Operation::Statfs => self.statfs(reply),
            Operation::Setxattr { name, value, flags } => {
                self.set_attribute(request, (name, value, flags), reply)
            }
            Operation::Getxattr { name, size } if name == SOCKET_XATTR.as_bytes() => {
                self.reply_xattr(self.socket(), size, reply)
            }
            Operation::Getxattr { name, size } => {
                self.reply_xattr(volume.getxattr(ino, name), size, reply)
            }
            Operation::Listxattr { size } => self.reply_xattr(volume.listxattr(ino), size, reply),
            Operation::Removexattr { name } => {
                self.reply_empty(volume.removexattr(ino, name), reply)
            }
            Operation::Ioctl(ioctl, input) => self.ioctl(ino, ioctl, input, caller, reply),
            // Among them those that the terms refuse, and POLL: files are always ready, and the
            // kernel knows that by itself.
            _ => reply.error(libc::ENOSYS),
        }
    }

    /// Sets an extended attribute: its name, its value, and whether it must or must not exist.
    fn set_attribute(
        &self,
        request: &Request<'_>,
        (name, value, flags): (&[u8], &[u8], u32),
        reply: Reply,
    ) {
        let groups = if name == ACCESS_ACL { caller::groups(request.caller) } else { None };
        let (ino, flags) = (Ino(request.ino), xattr_flags(flags));
        let set = self.volume.setxattr(ino, name, value, flags, groups.as_deref());
        if name == ACCESS_ACL && set.is_ok() {
            self.kernel.forget_attributes(ino.0);
        }
        self.reply_empty(set, reply);
    }

    fn forget(&self, ino: Ino, lookups: u64) {
        self.coherence.forget(ino.0);
        self.volume.forget(ino, lookups);
    }

    /// The change time is the engine's business; the kernel sends one only along with a write-back
    /// cache.
    ///
    /// Set-id bits: a message that sets nothing is how the kernel announces that a caller who may
    /// not keep them is about to change contents (write, fallocate, copy into), and what chown(-1,
    /// -1) sends. A message with a new size or owner says by a flag whether they go.
    fn set_attributes(&self, ino: Ino, set: &SetattrIn, caller: Caller, reply: Reply) {
        let valid = SetattrValid::from_bits_retain(set.valid);
        let given = |flag, value: u32| valid.contains(flag).then_some(value);
        let mut change = SetAttr {
            mode: given(SetattrValid::MODE, set.mode & 0o7777),
            uid: given(SetattrValid::UID, set.uid),
            gid: given(SetattrValid::GID, set.gid),
            size: valid.contains(SetattrValid::SIZE).then_some(set.size),
            atime: set_atime(set, valid),
            mtime: set_mtime(set, valid),
            kill_priv: KillPriv::Nothing,
        };
        if change == SetAttr::default() || valid.contains(SetattrValid::KILL_SUIDGID) {
            change.kill_priv = self.kill_priv(ino, caller);
        }
        let set = || self.volume.setattr(ino, &change);
        let attr = if change.size.is_some() { set() } else { self.besides(ino, set) };
        self.reply_attr(attr, reply);
    }

    /// Makes a change that brings no data of the file to the kernel.
    fn besides<T>(&self, ino: Ino, change: impl FnOnce() -> T) -> T {
        match &self.direct {
            Some(direct) => direct.change(ino, change),
            None => change(),
        }
    }

    /// The socket on which a process may ask for files.
    fn socket(&self) -> FsResult<Vec<u8>> {
        match &self.direct {
            Some(direct) => Ok(direct.path().as_os_str().as_bytes().to_vec()),
            None => Err(FsError::new(libc::ENODATA)),
        }
    }

    fn read(&self, ino: Ino, read: &ReadIn, reply: Reply) {
        self.direct.iter().for_each(|direct| direct.note_use(ino));
        if !is_direct(read.read_flags) {
            self.coherence.caches(ino.0, read.offset, read.size.into());
        }
        // One thread may wait for a disk: that is the quickest way if nobody else asks. Others
        // leave it to the disk to answer, so that they can take the next message. A worker of a
        // ring cannot, but the disk is quicker with reads of its queue.
        let (is_first, _counted) = CountedRead::begins(&self.reads);
        let left = if is_first { Err(reply) } else { self.read_later(ino, read, reply) };
        if let Err(reply) = left {
            reply.fill(read.size as usize, |buffer| {
                let read = self.volume.read(ino, read.offset, buffer);
                read.map_err(|error| self.errors.errno(&error))
            });
        }
    }

    /// Has a disk answer, if one has the data; else gives the reply back.
    fn read_later(&self, ino: Ino, read: &ReadIn, reply: Reply) -> Result<(), Reply> {
        let (errors, reply) = (Arc::clone(&self.errors), Arc::new(Mutex::new(Some(reply))));
        let kept = Arc::clone(&reply);
        let (_, counted) = CountedRead::begins(&self.reads);
        let answer = move |bytes: FsResult<&[u8]>| {
            let _until_answered = counted;
            let Some(reply) = kept.lock().take() else { return };
            match bytes {
                Ok(bytes) => reply.bytes(bytes),
                Err(error) => reply.error(errors.errno(&error)),
            }
        };
        if self.volume.read_later(ino, read.offset, read.size as usize, answer) {
            return Ok(());
        }
        let reply = reply.lock().take();
        Err(reply.expect("only a read that has begun is answered"))
    }

    fn write(&self, ino: Ino, write: &WriteIn, data: &[u8], caller: Caller, reply: Reply) {
        self.direct.iter().for_each(|direct| direct.note_use(ino));
        let direct = is_direct(write.write_flags);
        if !direct {
            self.coherence.caches(ino.0, write.offset, data.len() as u64);
        }
        let options = self.write_options(ino, write, caller);
        if planted(Bug::OutcomeNotedEarly) {
            reply.note_outcome(data.len() as u64);
        }
        let result = self.volume.write(ino, write.offset, data, options);
        result.iter().for_each(|&written| reply.note_outcome(written as u64));
        match result {
            Ok(written) if direct => {
                let answer = move || reply.value(&replies::written(written as u64));
                self.coherence.settle(ino.0, write.offset, written as u64, answer);
            }
            written => self.reply_written(written.map(|len_bytes| len_bytes as u64), reply),
        }
    }

    fn statfs(&self, reply: Reply) {
        match self.volume.statfs() {
            Ok(fs) => reply.value(&StatfsOut {
                blocks: fs.blocks,
                bfree: fs.blocks_free,
                bavail: fs.blocks_available,
                files: fs.files,
                ffree: fs.files_free,
                bsize: fs.block_bytes,
                namelen: fs.name_bytes_max,
                frsize: fs.block_bytes,
                ..StatfsOut::default()
            }),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn ioctl(&self, ino: Ino, ioctl: &IoctlIn, input: &[u8], caller: Caller, reply: Reply) {
        match self.control.answer(&self.volume, ino, caller, ioctl.cmd, input) {
            Ok(page) => {
                if Command::from_opcode(ioctl.cmd) == Some(Command::SetThreshold) {
                    self.ledger.iter().for_each(|ledger| keep_thresholds(ledger, &self.volume));
                }
                reply.values(&IoctlOut::default(), &page[..]);
            }
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn fallocate(&self, ino: Ino, range: &FallocateIn, reply: Reply) {
        match fallocate(range.mode.cast_signed()) {
            Some(mode) => {
                let allocate = || self.volume.fallocate(ino, mode, range.offset, range.length);
                let done = self.besides(ino, allocate);
                done.iter().for_each(|()| reply.note_outcome(0));
                self.reply_empty(done, reply);
            }
            None => reply.error(libc::EOPNOTSUPP),
        }
    }

    fn lseek(&self, ino: Ino, offset: i64, whence: u32, reply: Reply) {
        // A negative offset lies outside the file, as one beyond its end does.
        let Ok(from) = u64::try_from(offset) else {
            return reply.error(libc::ENXIO);
        };
        let found = match whence.cast_signed() {
            libc::SEEK_DATA => self.volume.seek_data(ino, from),
            libc::SEEK_HOLE => self.volume.seek_hole(ino, from),
            _ => return reply.error(libc::EINVAL),
        };
        match found {
            Ok(offset) if i64::try_from(offset).is_ok() => reply.value(&LseekOut { offset }),
            Ok(_) => reply.error(libc::EOVERFLOW),
            Err(error) => reply.error(self.errors.errno(&error)),
        }
    }

    fn copy_file_range(&self, from: Ino, copy: &CopyFileRangeIn, answer_64: bool, reply: Reply) {
        // A short answer has 32 bits; a copy may always be shorter than asked for.
        let longest = if answer_64 { u64::MAX } else { u64::from(u32::MAX) & !0xfff };
        let &CopyFileRangeIn { off_in, nodeid_out, off_out, len, .. } = copy;
        let copied =
            self.volume.copy_range(from, off_in, Ino(nodeid_out), off_out, len.min(longest));
        copied.iter().for_each(|&bytes_copied| reply.note_outcome(bytes_copied));
        match copied {
            Ok(bytes_copied) if answer_64 => reply.value(&CopyFileRangeOut { bytes_copied }),
            copied => self.reply_written(copied, reply),
        }
    }
}

/// Counts a READ as long as it lives.
#[derive(Debug)]
struct CountedRead(Arc<AtomicUsize>);

impl CountedRead {
    /// One more; says whether it is the only one.
    fn begins(reads: &Arc<AtomicUsize>) -> (bool, Self) {
        let is_first = reads.fetch_add(1, Ordering::Relaxed) == 0;
        (is_first, Self(Arc::clone(reads)))
    }
}

impl Drop for CountedRead {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
