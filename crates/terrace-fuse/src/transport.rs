//! What every file system on this transport agrees on with the kernel: the features asked for at
//! INIT, how long the kernel may cache, and the answers that make later messages unnecessary.
//!
//! Invariants:
//! * The daemon sees every change, because all changes come through this one mount; so everything
//!   is cached for good.
//! * OPEN, OPENDIR, FLUSH, FSYNCDIR and ACCESS are answered with ENOSYS, after which the kernel
//!   never sends them again. No file handles exist, so RELEASE and RELEASEDIR are never needed.
//! * ENOSYS means "never ask again" for most kinds of messages; no other answer may be ENOSYS by
//!   accident.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{FileAttr, FileType, FopenFlags, INodeNo, InitFlags, KernelConfig, Notifier};

use crate::convert::BLOCK_BYTES;
use crate::counts::{Message, MessageCounts};

/// How long the kernel may keep names (absent ones too) and attributes: beyond any uptime.
pub const FOREVER: Duration = Duration::from_secs(1 << 31);

/// Longest WRITE, and the longest READ: what 256 pages hold, the kernel's default limit.
pub const MESSAGE_BYTES_MAX: u32 = 1 << 20;

/// How far the kernel may read ahead: so that several READs of a sequential reader are under way,
/// and its disk does not wait for the answer to one before it gets the next.
pub(crate) const READ_AHEAD_BYTES_MAX: u32 = 4 * MESSAGE_BYTES_MAX;

/// Requests in the background (read-ahead, asynchronous direct I/O, write-back of mappings) that
/// the kernel keeps under way, if it allows us that many. Its default of 12 would hold back 4 KiB
/// direct I/O at queue depth 32. Three quarters of them may be direct writes that wait for the
/// kernel's cache (see `coherence`).
pub(crate) const BACKGROUND_MAX: u16 = 256;

/// Requests in the background that end read-ahead beyond what a reader asked for.
const CONGESTED: u16 = 48;

/// What a created file's descriptor may do, as the kernel assumes by itself for one that it opened
/// without a message.
pub const CREATED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE
    .union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES)
    .union(FopenFlags::FOPEN_NOFLUSH);

/// Features without which answers of this crate would be wrong, not just slow. Linux 5.11 has them
/// all.
const REQUIRED: InitFlags = InitFlags::FUSE_NO_OPEN_SUPPORT
    .union(InitFlags::FUSE_NO_OPENDIR_SUPPORT)
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_MAX_PAGES)
    .union(InitFlags::FUSE_DONT_MASK)
    .union(InitFlags::FUSE_EXPLICIT_INVAL_DATA)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2);

/// Features that save time, and EXPORT_SUPPORT: inodes that the kernel has forgotten are looked up
/// by number. Left out on purpose: WRITEBACK_CACHE (the placement predictors must see each write,
/// and a synchronous write would cost three messages), AUTO_INVAL_DATA (nothing changes behind the
/// kernel's back), ATOMIC_O_TRUNC (it needs OPEN), POSIX_LOCKS and FLOCK_LOCKS (the kernel keeps
/// locks itself, and can interrupt a waiter).
const WANTED: InitFlags = InitFlags::FUSE_PARALLEL_DIROPS
    .union(InitFlags::FUSE_ASYNC_READ)
    .union(InitFlags::FUSE_ASYNC_DIO)
    .union(InitFlags::FUSE_CACHE_SYMLINKS)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_HAS_IOCTL_DIR)
    .union(InitFlags::FUSE_EXPORT_SUPPORT);

/// An answer of "no such file" that the kernel may remember: an entry whose inode number is 0.
pub fn absent() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// One file system's side of the connection. Clones share it.
#[derive(Clone, Debug)]
pub struct Transport {
    counts: Arc<MessageCounts>,
    notifier: Arc<OnceLock<Notifier>>,
    kernel_checks: bool,
}

impl Transport {
    /// `kernel_checks`: whether the kernel checks permissions (`default_permissions`).
    pub(crate) fn new(kernel_checks: bool) -> Self {
        Self { counts: Arc::default(), notifier: Arc::default(), kernel_checks }
    }

    /// Counts a message that has come in.
    pub fn count(&self, message: Message) {
        self.counts.add(message);
    }

    /// Messages that have come in so far.
    pub fn counts(&self) -> &Arc<MessageCounts> {
        &self.counts
    }

    /// Makes notifications possible, once the connection stands.
    pub(crate) fn connect(&self, notifier: Notifier) {
        // Only one session is ever started per transport; a second notifier would be equivalent.
        let _ = self.notifier.set(notifier);
    }

    /// Answers INIT.
    ///
    /// # Errors
    /// If the kernel lacks a feature that the answers rely on.
    pub fn negotiate(&self, config: &mut KernelConfig) -> io::Result<()> {
        // With POSIX_ACL the kernel turns default_permissions on by itself, so a mount that goes
        // without the checks must go without this as well (see `forget_attributes` for what that
        // takes).
        let acl = if self.kernel_checks { InitFlags::FUSE_POSIX_ACL } else { InitFlags::empty() };
        let wanted = (WANTED | acl) & config.capabilities();
        config.add_capabilities(REQUIRED | wanted).map_err(|missing| {
            io::Error::new(
                io::ErrorKind::Unsupported,
                format!("this kernel's FUSE lacks {missing:?}; Linux 5.11 or later has it"),
            )
        })?;
        let limit =
            |limit: u32| io::Error::other(format!("the FUSE library allows at most {limit} here"));
        config.set_max_write(MESSAGE_BYTES_MAX).map_err(limit)?;
        config.set_max_background(BACKGROUND_MAX).map_err(|max| limit(max.into()))?;
        config.set_congestion_threshold(CONGESTED).map_err(|max| limit(max.into()))?;
        config
            .set_time_granularity(Duration::from_nanos(1))
            .map_err(|near| limit(near.subsec_nanos()))?;
        Ok(())
    }

    /// Makes the kernel ask again for an inode's attributes after an access ACL was set on it,
    /// which changes the mode: with POSIX_ACL the kernel does so by itself.
    ///
    /// Safe inside the handler of a message about that very inode, before the answer: that message
    /// pins the inode, and an invalidation of attributes alone (negative offset) takes no lock that
    /// a request in flight can hold. One that drops pages would wait for them, and must never be
    /// sent from here.
    pub(crate) fn forget_attributes(&self, ino: INodeNo) {
        if self.kernel_checks {
            return;
        }
        if let Some(Err(error)) =
            self.notifier.get().map(|notifier| notifier.inval_inode(ino, -1, 0))
        {
            tracing::warn!(
                "inode {ino}: the kernel may show an old mode until it is remounted: {error}"
            );
        }
    }

    /// Has the kernel drop what it caches of a range of a file, and waits for it: for the pages'
    /// readers, and for dirty ones to be written back. Never from a thread that takes messages.
    ///
    /// # Errors
    /// What the kernel says; that it does not know the inode is none.
    pub(crate) fn drop_pages(&self, ino: INodeNo, offset: u64, len_bytes: u64) -> io::Result<()> {
        let notifier = self.notifier.get().ok_or(io::ErrorKind::NotConnected)?;
        let offset = i64::try_from(offset).map_err(io::Error::other)?;
        // To the kernel, a length of 0 is all the rest.
        notifier.inval_inode(ino, offset, i64::try_from(len_bytes).unwrap_or(0))
    }
}

/// Where the buffers of READs begin: on a page, so that disks can fill them without another copy.
const READ_ALIGN_BYTES: usize = 4096;

/// Runs `fill` on a buffer of `len_bytes` that the thread keeps from one READ to the next. Its
/// contents are left over.
pub(crate) fn with_read_buffer<T>(len_bytes: usize, fill: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < len_bytes + READ_ALIGN_BYTES {
            buffer.resize(len_bytes + READ_ALIGN_BYTES, 0);
        }
        let start = buffer.as_ptr().align_offset(READ_ALIGN_BYTES);
        fill(&mut buffer[start..start + len_bytes])
    })
}
