//! The backend: it gives files that can be read and written without a system call.

use std::os::fd::RawFd;

use crate::fault::{self, Fault};

/// Why a descriptor, or one call, takes the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// No call that the library diverts has opened it: it was inherited, received, or opened by
    /// the C library for itself.
    Foreign = 0,
    /// It had too few calls so far to ask the backend.
    Few,
    /// The backend knows nothing of it: a socket, or a file elsewhere.
    NotOurs,
    /// A pattern of the user excludes it.
    Excluded,
    /// It has flags that only the kernel serves.
    Flags,
    /// The file is mapped.
    Mapped,
    /// Another process has the same open file since a fork, a spawn or a message.
    Shared,
    /// The C library's buffered files use it.
    Stdio,
    /// Asynchronous I/O uses it.
    Asynchronous,
    /// The kernel copies from it or to it.
    Copied,
    /// A call was left in the middle, by a jump or by the end of its thread.
    Abandoned,
    /// The call came in the middle of another one: from a signal handler.
    Nested,
    /// Its arguments are for the kernel: flags, offsets or lengths that are rare or wrong.
    Arguments,
    /// A buffer of the call is not in the program's memory.
    BadBuffer,
    /// Another process uses the file.
    OtherProcess,
    /// Its data is not in persistent memory.
    NotInPm,
    /// Persistent memory has no room.
    NoRoom,
    /// The daemon refuses.
    Refused,
}

impl Reason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::Foreign,
        Self::Few,
        Self::NotOurs,
        Self::Excluded,
        Self::Flags,
        Self::Mapped,
        Self::Shared,
        Self::Stdio,
        Self::Asynchronous,
        Self::Copied,
        Self::Abandoned,
        Self::Nested,
        Self::Arguments,
        Self::BadBuffer,
        Self::OtherProcess,
        Self::NotInPm,
        Self::NoRoom,
        Self::Refused,
    ];

    /// How the report names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Foreign => "not opened here",
            Self::Few => "few calls",
            Self::NotOurs => "not on a Terrace mount",
            Self::Excluded => "excluded",
            Self::Flags => "flags",
            Self::Mapped => "mapped",
            Self::Shared => "shared with a process",
            Self::Stdio => "stdio",
            Self::Asynchronous => "asynchronous I/O",
            Self::Copied => "copied by the kernel",
            Self::Abandoned => "a call was left",
            Self::Nested => "in a signal handler",
            Self::Arguments => "arguments",
            Self::BadBuffer => "bad buffer",
            Self::OtherProcess => "another process",
            Self::NotInPm => "not in PM",
            Self::NoRoom => "no room",
            Self::Refused => "refused",
        }
    }

    /// How much may happen before the backend is asked (again): a read counts 1, a write 4.
    /// `None`: it is never asked again.
    pub(crate) const fn patience(self) -> Option<u16> {
        match self {
            // The second write, or the eighth read. A program that reads a file once, or that
            // writes it by one call, would pay for the question and get nothing for it.
            Self::Few => Some(7),
            // What another process, the policy or a system call holds may be free later. Calls on
            // the mount take microseconds each, so a question every 1,000 writes costs nothing.
            Self::OtherProcess | Self::NotInPm | Self::NoRoom | Self::Refused | Self::Copied => {
                Some(4000)
            }
            _ => None,
        }
    }
}

/// Why the backend did not carry a call. It has done nothing then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The error of the call itself, such as `EFBIG`.
    Errno(i32),
    /// The call goes to the mount.
    Mount(Reason),
}

impl From<Fault> for Refusal {
    fn from(_: Fault) -> Self {
        Self::Errno(libc::EFAULT)
    }
}

/// The outcome of a call to the backend.
pub type Carried<T> = Result<T, Refusal>;

/// What changes with a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Bytes.
    pub size: u64,
    /// Pieces of 512 bytes that the file takes.
    pub blocks_512: u64,
    /// Last change of the data (nanoseconds since 1970).
    pub mtime_ns: i64,
}

/// Gives files. The process has one.
pub trait Files: Sync {
    /// Looks at an open descriptor, by system calls if need be, and gives the file if it may go
    /// direct. It is asked after some calls, and again much later unless the reason is final.
    ///
    /// # Errors
    ///
    /// The reason why the descriptor stays on the mount. `NotOurs` is final.
    fn adopt(&self, fd: RawFd) -> Result<&'static dyn File, Reason>;

    /// Whether an open file is one of a mount of the backend's.
    fn is_of_a_mount(&self, fd: RawFd) -> bool;

    /// The program makes few calls on each of many files, and this is one of them: the backend may
    /// want to be told of opens from now on.
    fn get_to_know(&self, fd: RawFd);

    /// The thread with this number is about to open a file. False: nobody need know; else
    /// `withdraw` follows the open, and then `is_here` is asked.
    fn announce(&self, thread: u32) -> bool;

    /// The thread has opened the file, or has failed to.
    fn withdraw(&self, thread: u32);

    /// Whether the file that was opened is with this process already. Then the kernel does not know
    /// its size, and it is to be adopted or, if it must stay on the mount, handed back.
    fn is_here(&self, fd: RawFd) -> bool;

    /// Gives the file back to the mount, and has the kernel ask for its size.
    fn hand_back(&self, fd: RawFd);

    /// Whether any files may be with this process.
    fn has_any(&self) -> bool;

    /// The attributes of a file that is with this process, by device and inode number.
    fn attributes(&self, device: u64, ino: u64) -> Option<Attributes>;
}

/// One inode. It lives for ever, and all descriptors of the inode get the same one.
///
/// Each method returns a [`Refusal`] if it has done nothing.
#[allow(clippy::missing_errors_doc, reason = "the trait says it once for all methods")]
pub trait File: Sync {
    /// Reads at an offset. Fewer bytes than asked for come at the end of the file only.
    fn read_at(&self, offset: u64, into: &ProgramBytes) -> Carried<usize>;
    /// Writes at an offset.
    fn write_at(&self, offset: u64, from: &ProgramBytes) -> Carried<usize>;
    /// Appends at the true end, and tells where the bytes begin.
    fn append(&self, from: &ProgramBytes) -> Carried<(u64, usize)>;
    /// The size.
    fn size(&self) -> Carried<u64>;
    /// Its attributes, if it is with this process just now.
    fn attributes(&self) -> Option<Attributes>;
    /// Makes durable all that was written.
    fn sync(&self) -> Carried<()>;
    /// Sets the size.
    fn truncate(&self, size: u64) -> Carried<()>;
    /// A system call is about to be made with a descriptor of the file: gives it back to the mount,
    /// and sees to it that the kernel knows its size. Calls may take it again when the system call
    /// has ended.
    fn leave(&self, fd: RawFd);
    /// A system call before which `leave` was called has ended.
    fn come_back(&self);
}

/// Bytes in the program's memory, in one piece or in several. The addresses are the program's and
/// may be wrong: only the copies here touch them, and a copy survives a fault.
#[derive(Clone, Copy, Debug)]
pub struct ProgramBytes<'a> {
    first: *mut u8,
    pieces: &'a [libc::iovec],
    len: usize,
}

impl<'a> ProgramBytes<'a> {
    /// One piece.
    #[must_use]
    #[inline]
    pub const fn one(first: *mut u8, len: usize) -> Self {
        Self { first, pieces: &[], len }
    }

    /// Several pieces. `None` if their lengths together are more than `isize::MAX`.
    #[must_use]
    pub fn several(pieces: &'a [libc::iovec]) -> Option<Self> {
        let mut len = 0_usize;
        for piece in pieces {
            len = len.checked_add(piece.iov_len).filter(|&len| isize::try_from(len).is_ok())?;
        }
        Some(Self { first: std::ptr::null_mut(), pieces, len })
    }

    /// How many bytes.
    #[must_use]
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "no call of a backend is empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Copies `len` bytes from `src` to the program, from its byte `offset` on.
    ///
    /// # Errors
    ///
    /// The fault, if an address is bad. Some bytes may have been copied.
    ///
    /// # Safety
    ///
    /// `src` is valid for `len` bytes, as far as its memory does not fault, and
    /// `offset + len <= self.len()`.
    #[inline]
    pub unsafe fn copy_out(&self, offset: usize, src: *const u8, len: usize) -> Result<(), Fault> {
        self.pieces_of(offset, len, |at, done, len| {
            // SAFETY: `src` is the caller's, and `at` may fault.
            unsafe { fault::copy(at, src.wrapping_add(done), len) }
        })
    }

    /// Copies `len` bytes to `dst` from the program, from its byte `offset` on.
    ///
    /// # Errors
    ///
    /// As `copy_out`.
    ///
    /// # Safety
    ///
    /// `dst` is valid for `len` bytes, as far as its memory does not fault, nobody else looks at
    /// it, and `offset + len <= self.len()`.
    #[inline]
    pub unsafe fn copy_in(&self, offset: usize, dst: *mut u8, len: usize) -> Result<(), Fault> {
        self.pieces_of(offset, len, |at, done, len| {
            // SAFETY: `dst` is the caller's, and `at` may fault.
            unsafe { fault::copy(dst.wrapping_add(done), at, len) }
        })
    }

    /// Calls `copy(address, bytes before it, length)` for each piece of a range.
    #[inline]
    fn pieces_of(
        &self,
        offset: usize,
        len: usize,
        mut copy: impl FnMut(*mut u8, usize, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        debug_assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        if self.pieces.is_empty() {
            return copy(self.first.wrapping_add(offset), 0, len);
        }
        let (mut skip, mut done) = (offset, 0);
        for piece in self.pieces {
            let here = piece.iov_len.saturating_sub(skip).min(len - done);
            if here > 0 {
                copy(piece.iov_base.cast::<u8>().wrapping_add(skip), done, here)?;
                done += here;
            }
            skip = skip.saturating_sub(piece.iov_len);
        }
        Ok(())
    }
}
