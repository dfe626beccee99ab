//! The structures and numbers of the FUSE protocol, version 7.45, as `linux/fuse.h` has them.
//!
//! Names and order of the fields are the kernel's; the compiler checks each size. Numbers are in
//! the machine's byte order.

#![expect(missing_debug_implementations, reason = "hidden types that `KnownLayout`'s derive makes")]

use bitflags::bitflags;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Major version of the protocol; another one cannot be spoken to.
pub const MAJOR: u32 = 7;
/// Minor version that this crate speaks; an older kernel's counts.
pub const MINOR: u32 = 45;
/// Oldest minor version that can be spoken to: Linux 5.11.
pub const MINOR_MIN: u32 = 32;

/// Declares structures of the protocol with their sizes in bytes.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident [$size:literal] { $($field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable)]
        #[derive(KnownLayout)]
        #[repr(C)]
        #[expect(missing_docs, reason = "the fields have the kernel's names")]
        pub struct $name { $(pub $field: $type),* }

        impl Default for $name {
            /// All zeros.
            fn default() -> Self {
                FromZeros::new_zeroed()
            }
        }

        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

structures! {
    /// Before each message of the kernel.
    InHeader [40] {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32,
        total_extlen: u16, padding: u16,
    }
    /// Before each answer, and before each notification: those have no `unique`, and their code is
    /// in `error`.
    OutHeader [16] { len: u32, error: i32, unique: u64 }
    /// INIT asks with this.
    InitIn [64] {
        major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11],
    }
    /// INIT is answered with this.
    InitOut [64] {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16,
        congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16,
        map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16,
        unused: [u16; 11],
    }
    /// Attributes of an inode.
    Attr [88] {
        ino: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64, atimensec: u32,
        mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32,
        blksize: u32, flags: u32,
    }
    /// Answers what gives an inode a name or finds one: LOOKUP, CREATE, MKDIR, ….
    EntryOut [128] {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32,
        attr_valid_nsec: u32, attr: Attr,
    }
    /// Answers GETATTR and SETATTR.
    AttrOut [104] { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    /// A time of STATX.
    StatxTime [16] { tv_sec: i64, tv_nsec: u32, reserved: i32 }
    /// The attributes that STATX asks for.
    Statx [256] {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16,
        spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64, atime: StatxTime,
        btime: StatxTime, ctime: StatxTime, mtime: StatxTime, rdev_major: u32, rdev_minor: u32,
        dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    /// STATX asks with this.
    StatxIn [24] { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
    /// Answers STATX.
    StatxOut [288] {
        attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx,
    }
    /// FORGET.
    ForgetIn [8] { nlookup: u64 }
    /// BATCH_FORGET, before so many [`ForgetOne`].
    BatchForgetIn [8] { count: u32, dummy: u32 }
    /// One inode of a BATCH_FORGET.
    ForgetOne [16] { nodeid: u64, nlookup: u64 }
    /// GETATTR.
    GetattrIn [16] { getattr_flags: u32, dummy: u32, fh: u64 }
    /// SETATTR; `valid` has [`SetattrValid`].
    SetattrIn [88] {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: i64, mtime: i64,
        ctime: i64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32,
        uid: u32, gid: u32, unused5: u32,
    }
    /// MKNOD, before a name.
    MknodIn [16] { mode: u32, rdev: u32, umask: u32, padding: u32 }
    /// MKDIR, before a name.
    MkdirIn [8] { mode: u32, umask: u32 }
    /// RENAME, before two names.
    RenameIn [8] { newdir: u64 }
    /// RENAME2, before two names.
    Rename2In [16] { newdir: u64, flags: u32, padding: u32 }
    /// LINK, before a name.
    LinkIn [8] { oldnodeid: u64 }
    /// OPEN and OPENDIR.
    OpenIn [8] { flags: u32, open_flags: u32 }
    /// Answers OPEN, OPENDIR and, behind an [`EntryOut`], CREATE and TMPFILE.
    OpenOut [16] { fh: u64, open_flags: u32, backing_id: i32 }
    /// CREATE and TMPFILE, before a name.
    CreateIn [16] { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    /// READ, READDIR and READDIRPLUS.
    ReadIn [40] {
        fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    /// WRITE, before the data.
    WriteIn [40] {
        fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32,
        padding: u32,
    }
    /// Answers WRITE and COPY_FILE_RANGE.
    WriteOut [8] { size: u32, padding: u32 }
    /// Answers STATFS.
    StatfsOut [80] {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32,
        frsize: u32, padding: u32, spare: [u32; 6],
    }
    /// RELEASE and RELEASEDIR.
    ReleaseIn [24] { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    /// FSYNC and FSYNCDIR.
    FsyncIn [16] { fh: u64, fsync_flags: u32, padding: u32 }
    /// SYNCFS.
    SyncfsIn [8] { padding: u64 }
    /// FLUSH.
    FlushIn [24] { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    /// SETXATTR, before a name and a value.
    SetxattrIn [8] { size: u32, flags: u32 }
    /// GETXATTR, before a name, and LISTXATTR.
    GetxattrIn [8] { size: u32, padding: u32 }
    /// Answers GETXATTR and LISTXATTR of size 0.
    GetxattrOut [8] { size: u32, padding: u32 }
    /// GETLK, SETLK and SETLKW.
    LockIn [48] {
        fh: u64, owner: u64, start: u64, end: u64, type_: u32, pid: u32, lk_flags: u32,
        padding: u32,
    }
    /// ACCESS.
    AccessIn [8] { mask: u32, padding: u32 }
    /// INTERRUPT.
    InterruptIn [8] { unique: u64 }
    /// BMAP.
    BmapIn [16] { block: u64, blocksize: u32, padding: u32 }
    /// IOCTL, before what the caller hands over.
    IoctlIn [32] { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32 }
    /// Answers IOCTL, before what the caller gets.
    IoctlOut [16] { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
    /// POLL.
    PollIn [24] { fh: u64, kh: u64, flags: u32, events: u32 }
    /// FALLOCATE.
    FallocateIn [32] { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    /// LSEEK.
    LseekIn [24] { fh: u64, offset: u64, whence: u32, padding: u32 }
    /// Answers LSEEK.
    LseekOut [8] { offset: u64 }
    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64.
    CopyFileRangeIn [56] {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
    /// Answers COPY_FILE_RANGE_64.
    CopyFileRangeOut [8] { bytes_copied: u64 }
    /// NOTIFY_REPLY, before data of the kernel's cache.
    NotifyRetrieveIn [40] {
        dummy1: u64, offset: u64, size: u32, dummy2: u32, dummy3: u64, dummy4: u64,
    }
    /// Before each name in an answer to READDIR, which is filled up to a multiple of 8 bytes.
    Dirent [24] { ino: u64, off: u64, namelen: u32, type_: u32 }
    /// The head of an entry of a ring: the message's header or the answer's, the structure of the
    /// message's kind, and how much of the payload is in use.
    EntryHeaders [288] {
        in_out: [u8; 128], op_in: [u8; 128], flags: u64, commit_id: u64, payload_sz: u32,
        padding: u32, reserved: u64,
    }
    /// The arguments of a command to the ring's side of FUSE.
    UringCommand [24] { flags: u64, commit_id: u64, qid: u16, padding: [u16; 3] }
    /// Makes the kernel drop attributes and pages of an inode.
    NotifyInvalInodeOut [24] { ino: u64, off: i64, len: i64 }
}

/// Code of the notification [`NotifyInvalInodeOut`].
pub const NOTIFY_INVAL_INODE: i32 = 2;
/// Code of the notification, without a body, that has the kernel hand out again every request that
/// was taken and not answered (Linux 6.9).
pub const NOTIFY_RESEND: i32 = 7;

bitflags! {
    /// Features that kernel and daemon agree on at INIT. A bit that one of them does not set is
    /// off.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct InitFlags: u64 {
        /// READs of one file may come side by side.
        const ASYNC_READ = 1;
        /// The daemon keeps POSIX locks.
        const POSIX_LOCKS = 1 << 1;
        /// GETATTR and the like carry file handles.
        const FILE_OPS = 1 << 2;
        /// Opening with O_TRUNC truncates.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// `.` and `..` may be looked up, and inodes by number: what NFS servers need.
        const EXPORT_SUPPORT = 1 << 4;
        /// WRITEs may be longer than a page.
        const BIG_WRITES = 1 << 5;
        /// The daemon applies the umask.
        const DONT_MASK = 1 << 6;
        /// The daemon can splice.
        const SPLICE_WRITE = 1 << 7;
        /// The daemon can splice and give pages away.
        const SPLICE_MOVE = 1 << 8;
        /// The daemon can splice what it reads.
        const SPLICE_READ = 1 << 9;
        /// The daemon keeps flock locks.
        const FLOCK_LOCKS = 1 << 10;
        /// Directories take ioctls.
        const HAS_IOCTL_DIR = 1 << 11;
        /// A changed modification time drops the kernel's pages.
        const AUTO_INVAL_DATA = 1 << 12;
        /// READDIRPLUS in place of READDIR.
        const DO_READDIRPLUS = 1 << 13;
        /// READDIR where READDIRPLUS would not pay.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Asynchronous direct I/O is asynchronous here, too.
        const ASYNC_DIO = 1 << 15;
        /// The kernel keeps writes back.
        const WRITEBACK_CACHE = 1 << 16;
        /// OPEN may be answered with ENOSYS: the kernel opens files by itself.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// LOOKUP and READDIR of one directory may come side by side.
        const PARALLEL_DIROPS = 1 << 18;
        /// The daemon clears set-id bits.
        const HANDLE_KILLPRIV = 1 << 19;
        /// ACLs are attributes, and the kernel checks them.
        const POSIX_ACL = 1 << 20;
        /// An aborted connection gives ECONNABORTED.
        const ABORT_ERROR = 1 << 21;
        /// `max_pages` of [`InitOut`] counts.
        const MAX_PAGES = 1 << 22;
        /// The kernel caches targets of symbolic links.
        const CACHE_SYMLINKS = 1 << 23;
        /// OPENDIR may be answered with ENOSYS.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// The kernel drops pages only when it is told to.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// `map_alignment` of [`InitOut`] counts.
        const MAP_ALIGNMENT = 1 << 26;
        /// Submounts are announced in attributes.
        const SUBMOUNTS = 1 << 27;
        /// The daemon clears set-id bits when the message says so.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// SETXATTR has more fields.
        const SETXATTR_EXT = 1 << 29;
        /// `flags2` counts.
        const INIT_EXT = 1 << 30;
        /// Creating calls carry a security context.
        const SECURITY_CTX = 1 << 32;
        /// DAX by inode.
        const HAS_INODE_DAX = 1 << 33;
        /// Creating calls carry a supplementary group.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// Only the daemon expires entries.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Mappings of files under direct I/O.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// The kernel passes I/O on to another file.
        const PASSTHROUGH = 1 << 37;
        /// File handles by inode number are refused.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// Requests that were taken and not answered can be asked for again.
        const HAS_RESEND = 1 << 39;
        /// Mounts with mapped ids.
        const ALLOW_IDMAP = 1 << 40;
        /// Messages may come over io_uring.
        const OVER_IO_URING = 1 << 41;
        /// `request_timeout` of [`InitOut`] counts.
        const REQUEST_TIMEOUT = 1 << 42;
    }
}

bitflags! {
    /// The fields that a SETATTR sets.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetattrValid: u32 {
        /// `mode`.
        const MODE = 1;
        /// `uid`.
        const UID = 1 << 1;
        /// `gid`.
        const GID = 1 << 2;
        /// `size`.
        const SIZE = 1 << 3;
        /// `atime`.
        const ATIME = 1 << 4;
        /// `mtime`.
        const MTIME = 1 << 5;
        /// `fh`.
        const FH = 1 << 6;
        /// The time of access becomes the present.
        const ATIME_NOW = 1 << 7;
        /// The time of modification becomes the present.
        const MTIME_NOW = 1 << 8;
        /// `lock_owner`.
        const LOCKOWNER = 1 << 9;
        /// `ctime`.
        const CTIME = 1 << 10;
        /// Set-id bits are to be cleared.
        const KILL_SUIDGID = 1 << 11;
    }
}

bitflags! {
    /// The kind of a READ.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReadFlags: u32 {
        /// `lock_owner` counts: the READ is direct.
        const LOCKOWNER = 1 << 1;
    }

    /// The kind of a WRITE.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct WriteFlags: u32 {
        /// Pages of a mapping, or of the kernel's write-back cache.
        const CACHE = 1;
        /// `lock_owner` counts: the WRITE is direct.
        const LOCKOWNER = 1 << 1;
        /// Set-id bits are to be cleared.
        const KILL_SUIDGID = 1 << 2;
    }

    /// Properties of a descriptor, in answers to CREATE and OPEN.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct OpenFlags: u32 {
        /// Reads and writes pass by the kernel's cache.
        const DIRECT_IO = 1;
        /// The kernel keeps the pages that it has.
        const KEEP_CACHE = 1 << 1;
        /// There is no position.
        const NONSEEKABLE = 1 << 2;
        /// The kernel caches listings.
        const CACHE_DIR = 1 << 3;
        /// There is no position, and reads and writes may run side by side.
        const STREAM = 1 << 4;
        /// No FLUSH at close.
        const NOFLUSH = 1 << 5;
        /// Direct writes to one file may run side by side.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
    }
}

/// A kind of inode in listings: the file type bits of its mode, shifted.
pub fn dirent_type(mode: u32) -> u32 {
    (mode & libc::S_IFMT) >> 12
}
