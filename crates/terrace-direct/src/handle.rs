//! An open file, for programs that are written for Terrace: [`File`].
//!
//! Invariants:
//! * A file goes direct only if this process has all its open files to itself: nobody else gets the
//!   descriptor.
//! * A child has its parent's open files, but no loan ([`forks`]).
//! * In a process that `terrace run` has started, only the library of that borrows ([`preloaded`]).

mod error;
mod forks;
mod preloaded;
mod shared;
mod system;
mod usage;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use self::shared::{Outside, Shared};
use self::system::repeated;
use self::usage::Counts;
use crate::borrowed::{PIECE_BYTES_MAX, Refusal};
use crate::file::DirectFile;
use crate::mount::NoMount;
use crate::room::{of_process, with_room};

pub use self::error::Error;
pub use self::usage::{Usage, Why};

/// The flags of [`File::open_with`], besides how it is accessed.
const FLAGS: i32 = libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_CLOEXEC
    | libc::O_NOFOLLOW
    | libc::O_NOATIME
    | libc::O_NOCTTY
    | libc::O_NONBLOCK
    | libc::O_LARGEFILE
    | libc::O_SYNC
    | libc::O_DSYNC;
/// Calls on the mount before a daemon that did not answer is asked again.
const PATIENCE: u32 = 1000;
/// Programs take the descriptors below for their standard streams.
const DESCRIPTOR_MIN: RawFd = libc::STDERR_FILENO + 1;

/// An open file of any file system. On a Terrace mount that lends files (`-o lend=owner`), calls
/// read and write persistent memory without a system call, as long as the file is lent. All other
/// calls are system calls: slower, never wrong.
///
/// A write that went direct is durable when it returns; [`File::sync`] makes all writes durable.
/// Calls may be made from any thread. After a fork the file takes the mount, in the parent and in
/// the child. `docs/LIBTERRACE.md` has the rest.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("log");
/// let log = terrace_direct::File::create(path)?;
/// let at = log.append(b"a record")?;
/// log.sync()?;
/// let mut record = [0; 8];
/// assert_eq!(log.read_at(&mut record, at)?, 8);
/// assert_eq!(&record, b"a record");
/// log.close()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct File {
    // It comes first: the file is given back before its descriptor is closed.
    way: Way,
    descriptor: OwnedFd,
    path: PathBuf,
    counts: Counts,
    /// Its holder may move the position of the open file.
    position: Mutex<()>,
    is_regular: bool,
    is_readable: bool,
    is_writable: bool,
}

/// Whether the file may go direct.
#[derive(Debug)]
struct Way {
    descriptor: RawFd,
    opened_in: u32,
    /// Forks before it was opened.
    forks: u32,
    shared: OnceLock<Arc<Shared>>,
    /// Why there is no `shared`.
    why: Why,
    /// Calls on the mount before the daemon is asked again.
    calls_left: AtomicU32,
    /// Held by calls on the mount as long as there is no `shared`: no file is borrowed meanwhile.
    adopting: RwLock<()>,
}

impl Drop for Way {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.get().filter(|_| forks::may_go_direct(self.opened_in)) {
            // SAFETY: it is closed later.
            shared::closing(shared, unsafe { BorrowedFd::borrow_raw(self.descriptor) });
        }
    }
}

/// A system call, as long as it lives.
#[derive(Debug)]
enum Call<'a> {
    /// Of a file that may be borrowed.
    Outside { _end: Outside<'a> },
    /// Of one that may become such a file.
    Unadopted { _end: RwLockReadGuard<'a, ()> },
    /// Of any other.
    Plain,
}

impl Way {
    fn of(descriptor: BorrowedFd<'_>, opened_in: u32) -> Self {
        let forks = shared::forks();
        let (shared, why) = if !forks::may_go_direct(opened_in) {
            (OnceLock::new(), Why::Shared)
        } else if preloaded::is_preloaded() {
            (OnceLock::new(), Why::Preloaded)
        } else {
            match shared::opened(descriptor, forks) {
                Ok(shared) => (OnceLock::from(shared), Why::NotOurs),
                Err(NoMount::NotOurs) => (OnceLock::new(), Why::NotOurs),
                Err(NoMount::Refused) => (OnceLock::new(), Why::Refused),
            }
        };
        let (calls_left, adopting) = (AtomicU32::new(PATIENCE), RwLock::new(()));
        let descriptor = descriptor.as_raw_fd();
        Self { descriptor, opened_in, forks, shared, why, calls_left, adopting }
    }

    /// The file, if it may go direct.
    #[inline]
    fn direct(&self) -> Result<&DirectFile, Why> {
        match self.shared.get() {
            _ if !forks::may_go_direct(self.opened_in) => Err(Why::Shared),
            Some(shared) if shared.is_left() => Err(Why::Shared),
            Some(shared) => Ok(&shared.direct),
            None => Err(self.why),
        }
    }

    /// A system call is about to be made.
    fn call(&self, descriptor: BorrowedFd<'_>) -> Call<'_> {
        if !forks::may_go_direct(self.opened_in) {
            return Call::Plain;
        }
        let mut unadopted = None;
        if self.shared.get().is_none() && self.why == Why::Refused {
            self.adopt(descriptor);
            unadopted = Some(self.adopting.read().unwrap_or_else(PoisonError::into_inner));
        }
        match (self.shared.get(), unadopted) {
            (Some(shared), _) if shared.is_left() => Call::Plain,
            (Some(shared), _) => Call::Outside { _end: shared.leave(descriptor) },
            (None, Some(end)) => Call::Unadopted { _end: end },
            (None, None) => Call::Plain,
        }
    }

    /// Asks the daemon again, after some calls.
    fn adopt(&self, descriptor: BorrowedFd<'_>) {
        if self.calls_left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return;
        }
        let _alone = self.adopting.write().unwrap_or_else(PoisonError::into_inner);
        if self.shared.get().is_none()
            && let Ok(shared) = shared::opened(descriptor, self.forks)
        {
            let _ = self.shared.set(shared);
        }
        self.calls_left.store(PATIENCE, Ordering::Relaxed);
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, libc::O_RDONLY, 0)
    }

    /// Opens a file for reading and writing, and makes it if there is none.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn create(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(path, libc::O_RDWR | libc::O_CREAT, 0o666)
    }

    /// Opens a file as open(2) does; the mode is that of a file that is made. Of the flags only
    /// these may be set, besides `O_RDONLY`, `O_WRONLY` or `O_RDWR`: `O_CREAT`, `O_EXCL`,
    /// `O_TRUNC`, `O_CLOEXEC` (which always is), `O_NOFOLLOW`, `O_NOATIME`, `O_NOCTTY`,
    /// `O_NONBLOCK`, `O_LARGEFILE`, `O_SYNC`, `O_DSYNC`.
    ///
    /// # Errors
    /// Those of open(2); `EINVAL` for other flags.
    pub fn open_with(path: impl AsRef<Path>, flags: i32, mode: u32) -> Result<Self, Error> {
        let path = path.as_ref();
        let access = flags & libc::O_ACCMODE;
        if let Some(remedy) = refused(flags & !FLAGS & !libc::O_ACCMODE, access) {
            return Err(Error::with_remedy(path, "open", libc::EINVAL, remedy));
        }
        forks::start();
        let open = || -> Result<(OwnedFd, bool), Errno> {
            let flags = OFlags::from_bits_retain(flags.cast_unsigned()) | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(mode);
            let opened = repeated(|| rustix::fs::open(path, flags, mode))?;
            let opened = match opened.as_raw_fd() < DESCRIPTOR_MIN {
                true => rustix::io::fcntl_dupfd_cloexec(&opened, DESCRIPTOR_MIN)?,
                false => opened,
            };
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode);
            Ok((opened, kind == FileType::RegularFile))
        };
        let (descriptor, is_regular) =
            open().map_err(|errno| Error::new(path, "open", errno.raw_os_error()))?;
        Ok(Self {
            way: Way::of(descriptor.as_fd(), forks::mark()),
            descriptor,
            path: path.to_owned(),
            counts: Counts::default(),
            position: Mutex::new(()),
            is_regular,
            is_readable: access != libc::O_WRONLY,
            is_writable: access != libc::O_RDONLY,
        })
    }

    /// Reads from `offset` on, and returns how many bytes. They are fewer than there is room for at
    /// the end of the file only; bytes of `into` behind them may have changed.
    ///
    /// # Errors
    /// Those of pread(2). Some bytes may have been read.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize, Error> {
        let len = into.len();
        let may = self.is_readable && is_usual(offset, len);
        let direct = self.carry("read", may, |file| {
            let read = file.read_at(offset, len, &mut |at, piece| {
                piece.copy_to(&mut into[at..at + piece.len()]);
                Ok(())
            })?;
            Ok((read, read))
        })?;
        direct.map_or_else(
            |why| {
                self.by_mount("read", why, |fd| {
                    let read = system::read(fd, into, offset)?;
                    Ok((read, read))
                })
            },
            Ok,
        )
    }

    /// Writes all bytes at `offset`.
    ///
    /// # Errors
    /// Those of pwrite(2). Some bytes may have been written.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        let may = self.may_write(data) && is_usual(offset, data.len());
        let direct = self.carry("write", may, |file| {
            write_copy(file, Some(offset), data).map(|_| ((), data.len()))
        })?;
        direct.or_else(|why| {
            self.by_mount("write", why, |fd| {
                system::write(fd, data, offset).map(|()| ((), data.len()))
            })
        })
    }

    /// Writes all bytes at the end of the file, in one piece, and returns where they begin. Nothing
    /// that others append, in this process or another one, is overwritten.
    ///
    /// # Errors
    /// Those of pwritev2(2); `ESPIPE` if it is no regular file; `EIO` if the kernel has divided the
    /// bytes, and somebody else has appended in between. Some bytes may have been written.
    pub fn append(&self, data: &[u8]) -> Result<u64, Error> {
        if data.is_empty() {
            let is_error = !self.is_writable;
            return if is_error { Err(self.error("append", libc::EBADF)) } else { self.size() };
        }
        let direct = self.carry("append", self.may_write(data), |file| {
            write_copy(file, None, data).map(|at| (at, data.len()))
        })?;
        direct.or_else(|why| {
            self.by_mount("append", why, |fd| {
                self.append_by_mount(fd, data).map(|at| (at, data.len()))
            })
        })
    }

    /// Makes durable all that was written to the file before.
    ///
    /// # Errors
    /// Those of fdatasync(2).
    pub fn sync(&self) -> Result<(), Error> {
        let direct = self.carry("sync", true, |file| file.sync().map(|()| ((), 0)))?;
        direct.or_else(|why| {
            self.by_mount("sync", why, |fd| {
                repeated(|| rustix::fs::fdatasync(fd)).map(|()| ((), 0))
            })
        })
    }

    /// Sets the size (bytes): cuts the file, or fills it up with zeros.
    ///
    /// # Errors
    /// Those of ftruncate(2).
    pub fn set_len(&self, size: u64) -> Result<(), Error> {
        let may = self.is_writable && is_usual(size, 0);
        let direct = self.carry("set length", may, |file| file.truncate(size).map(|()| ((), 0)))?;
        direct.or_else(|why| {
            self.by_mount("set length", why, |fd| {
                repeated(|| rustix::fs::ftruncate(fd, size)).map(|()| ((), 0))
            })
        })
    }

    /// The size (bytes).
    ///
    /// # Errors
    /// Those of fstat(2).
    pub fn size(&self) -> Result<u64, Error> {
        let direct = self.carry("size", true, |file| file.size().map(|size| (size, 0)))?;
        direct.or_else(|why| {
            self.by_mount("size", why, |fd| Ok((rustix::fs::fstat(fd)?.st_size as u64, 0)))
        })
    }

    /// How many calls went which way.
    pub fn usage(&self) -> Usage {
        self.counts.read()
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Closes the file. Without it the file is closed as well, and errors are lost. Nothing is
    /// synced.
    ///
    /// # Errors
    /// Those of close(2). The file is closed all the same.
    pub fn close(self) -> Result<(), Error> {
        let Self { way, descriptor, path, .. } = self;
        drop(way);
        // SAFETY: nobody else closes it.
        match unsafe { libc::close(descriptor.into_raw_fd()) } {
            0 => Ok(()),
            _ => match Errno::from_io_error(&std::io::Error::last_os_error()) {
                // On Linux it is closed.
                None | Some(Errno::INTR) => Ok(()),
                Some(errno) => Err(Error::new(&path, "close", errno.raw_os_error())),
            },
        }
    }

    fn may_write(&self, data: &[u8]) -> bool {
        self.is_writable && (1..=PIECE_BYTES_MAX).contains(&data.len())
    }

    fn error(&self, call: &'static str, errno: i32) -> Error {
        Error::new(&self.path, call, errno)
    }

    /// Carries out a call directly, which gives its result and how many bytes it has moved. Or says
    /// why the mount is to do it.
    #[inline]
    fn carry<T>(
        &self,
        call: &'static str,
        may: bool,
        direct: impl FnOnce(&DirectFile) -> Result<(T, usize), Refusal>,
    ) -> Result<Result<T, Why>, Error> {
        let file = match self.way.direct() {
            Ok(file) if may => file,
            Ok(_) => return Ok(Err(Why::Arguments)),
            Err(why) => return Ok(Err(why)),
        };
        match direct(file) {
            Ok((result, bytes)) => {
                self.counts.direct(bytes as u64);
                Ok(Ok(result))
            }
            Err(Refusal::Errno(errno)) => Err(self.error(call, errno)),
            Err(Refusal::Mount(reason)) => Ok(Err(reason.into())),
        }
    }

    /// Carries out a call by a system call.
    fn by_mount<T>(
        &self,
        call: &'static str,
        why: Why,
        system: impl FnOnce(BorrowedFd<'_>) -> Result<(T, usize), Errno>,
    ) -> Result<T, Error> {
        if forks::is_unknown_child(self.way.opened_in) {
            let remedy = "a file survives fork(2) only: open it anew behind _Fork or clone";
            return Err(Error::with_remedy(&self.path, call, libc::EBADF, remedy));
        }
        let fd = self.descriptor.as_fd();
        let _call = self.way.call(fd);
        match system(fd) {
            Ok((result, bytes)) => {
                self.counts.mount(why, bytes as u64);
                Ok(result)
            }
            Err(errno) => Err(self.error(call, errno.raw_os_error())),
        }
    }

    fn append_by_mount(&self, fd: BorrowedFd<'_>, data: &[u8]) -> Result<u64, Errno> {
        if !self.is_writable {
            return Err(Errno::BADF);
        }
        if !self.is_regular {
            return Err(Errno::SPIPE);
        }
        if !forks::is_own(self.way.opened_in) {
            return system::append_anew(fd, data);
        }
        let _position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        system::append(fd, data)
    }
}

/// The fault of flags of open(2), and its remedy.
fn refused(others: i32, access: i32) -> Option<&'static str> {
    let has = |flag| others & flag == flag;
    match others {
        0 if access == libc::O_ACCMODE => Some("access it by O_RDONLY, O_WRONLY or O_RDWR"),
        0 => None,
        _ if has(libc::O_APPEND) => Some("O_APPEND has no meaning here: append to it instead"),
        _ if has(libc::O_DIRECT) => Some("leave O_DIRECT out: files that are lent have no cache"),
        _ => Some("it has a flag that these files do not have"),
    }
}

/// Whether the kernel would take a range as it is.
fn is_usual(offset: u64, len: usize) -> bool {
    offset.checked_add(len as u64).is_some_and(|end| i64::try_from(end).is_ok())
}

/// Writes a copy of the data: nobody can change that, and it does not fault.
#[inline]
fn write_copy(file: &DirectFile, offset: Option<u64>, data: &[u8]) -> Result<u64, Refusal> {
    let written = with_room(data.len(), of_process, |room| {
        // SAFETY: the room has as many bytes, is nobody else's, and has all of them set then.
        let copy = unsafe {
            data.as_ptr().copy_to_nonoverlapping(room.as_mut_ptr().cast(), data.len());
            std::slice::from_raw_parts(room.as_ptr().cast(), data.len())
        };
        file.write_at(offset, copy)
    });
    written.unwrap_or(Err(Refusal::Errno(libc::ENOMEM)))
}

#[cfg(test)]
mod tests;
