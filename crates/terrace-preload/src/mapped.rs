//! A backend for tests: files of tmpfs, read and written in a shared mapping.
//!
//! `TERRACE_MAPPED_REFUSE=N` lets it refuse every Nth call, `TERRACE_MAPPED_SIGNAL=N` sends the
//! thread the signal N in the middle of each copy, `TERRACE_MAPPED_SLOW=N` makes a call wait so
//! many milliseconds in the middle. With `TERRACE_MAPPED_NOTHING=1` calls do nothing at all, which
//! shows what the library itself costs.

use std::collections::HashMap;
use std::ffi::{CStr, c_int};
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::backend::{Attributes, Carried, File, Files, ProgramBytes, Reason, Refusal};
use crate::environment::variable;
use crate::raw;

/// The backend.
#[derive(Debug)]
pub(crate) struct Mapped;

/// A file's mapping goes so far beyond its end.
const WINDOW: usize = 16 << 30;

/// One file.
#[derive(Debug)]
struct Mapping {
    /// A descriptor of the backend's own.
    fd: RawFd,
    at: *mut u8,
    /// Held while the size changes.
    size: Mutex<()>,
}

// SAFETY: The mapping is shared memory, and no reference into it is ever made.
unsafe impl Send for Mapping {}
// SAFETY: As above.
unsafe impl Sync for Mapping {}

static FILES: LazyLock<Mutex<HashMap<(u64, u64), &'static Mapping>>> =
    LazyLock::new(Mutex::default);
static CALLS: AtomicU64 = AtomicU64::new(0);
static REFUSE: LazyLock<u64> = LazyLock::new(|| number(c"TERRACE_MAPPED_REFUSE"));
static SIGNAL: LazyLock<u64> = LazyLock::new(|| number(c"TERRACE_MAPPED_SIGNAL"));
static NOTHING: LazyLock<u64> = LazyLock::new(|| number(c"TERRACE_MAPPED_NOTHING"));
static SLOW: LazyLock<u64> = LazyLock::new(|| number(c"TERRACE_MAPPED_SLOW"));

fn number(name: &CStr) -> u64 {
    variable(name).and_then(|value| std::str::from_utf8(value).ok()?.parse().ok()).unwrap_or(0)
}

fn stat(fd: RawFd) -> Option<libc::stat> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `stat` has room.
    let got = unsafe {
        raw::call(libc::SYS_fstat, [fd as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0])
    };
    // SAFETY: All zero is a value.
    (got == 0).then(|| unsafe { stat.assume_init() })
}

impl Files for Mapped {
    fn is_of_a_mount(&self, fd: RawFd) -> bool {
        let mut system = MaybeUninit::<libc::statfs>::zeroed();
        // SAFETY: `system` has room, and all zero is a value.
        let system = unsafe {
            libc::fstatfs(fd, system.as_mut_ptr());
            system.assume_init()
        };
        let regular = |stat: libc::stat| stat.st_mode & libc::S_IFMT == libc::S_IFREG;
        system.f_type == libc::TMPFS_MAGIC && stat(fd).is_some_and(regular)
    }

    fn adopt(&self, fd: RawFd) -> Result<&'static dyn File, Reason> {
        let stat = stat(fd).filter(|_| self.is_of_a_mount(fd)).ok_or(Reason::NotOurs)?;
        if *NOTHING > 0 {
            return Ok(&Instant);
        }
        let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.get(&(stat.st_dev, stat.st_ino)) {
            return Ok(*known);
        }
        let mapping = Mapping::of(fd).ok_or(Reason::Refused)?;
        let leaked: &'static Mapping = Box::leak(Box::new(mapping));
        files.insert((stat.st_dev, stat.st_ino), leaked);
        Ok(leaked)
    }

    fn get_to_know(&self, _: RawFd) {}

    fn announce(&self, _: u32) -> bool {
        false
    }

    fn withdraw(&self, _: u32) {}

    fn is_here(&self, _: RawFd) -> bool {
        false
    }

    fn hand_back(&self, _: RawFd) {}

    fn has_any(&self) -> bool {
        false
    }

    fn attributes(&self, _: u64, _: u64) -> Option<Attributes> {
        None
    }
}

impl Mapping {
    fn of(fd: RawFd) -> Option<Self> {
        let path = std::ffi::CString::new(format!("/proc/self/fd/{fd}")).ok()?;
        let (at, flags) = (libc::AT_FDCWD as usize, libc::O_RDWR | libc::O_CLOEXEC);
        // SAFETY: The path ends with a zero.
        let own = unsafe {
            raw::call(libc::SYS_openat, [at, path.as_ptr() as usize, flags as usize, 0, 0, 0])
        };
        let own = usize::try_from(own).ok()?;
        // A high number: tests look at the low ones.
        let dup = libc::F_DUPFD_CLOEXEC as usize;
        // SAFETY: No memory is involved, and the first number is this function's.
        let high = unsafe {
            let high = raw::call(libc::SYS_fcntl, [own, dup, 500, 0, 0, 0]);
            raw::call(libc::SYS_close, [own, 0, 0, 0, 0, 0]);
            usize::try_from(high).ok()?
        };
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let shared = (libc::MAP_SHARED | libc::MAP_NORESERVE) as usize;
        // SAFETY: A new mapping takes nothing from anyone.
        let at = unsafe { raw::call(libc::SYS_mmap, [0, WINDOW, access, shared, high, 0]) };
        let at = usize::try_from(at).ok()? as *mut u8;
        Some(Self { fd: high as RawFd, at, size: Mutex::new(()) })
    }

    /// Whether this call is one that is refused.
    fn may(&self, end: u64) -> Carried<()> {
        let call = CALLS.fetch_add(1, Relaxed);
        if *REFUSE > 0 && call % *REFUSE == *REFUSE - 1 {
            return Err(Refusal::Mount(Reason::OtherProcess));
        }
        if end > WINDOW as u64 {
            return Err(Refusal::Mount(Reason::NoRoom));
        }
        Ok(())
    }

    fn length(&self) -> u64 {
        stat(self.fd).map_or(0, |stat| stat.st_size as u64)
    }

    fn set_length(&self, size: u64) -> Carried<()> {
        // SAFETY: No memory is involved.
        let done = unsafe {
            raw::call(libc::SYS_ftruncate, [self.fd as usize, size as usize, 0, 0, 0, 0])
        };
        if done < 0 { Err(Refusal::Errno(-done as c_int)) } else { Ok(()) }
    }

    /// The file ends there, or behind that: a handler may write behind it in the middle of this.
    fn grow(&self, size: u64) -> Carried<()> {
        // SAFETY: No memory is involved.
        let done = unsafe {
            raw::call(libc::SYS_fallocate, [self.fd as usize, 0, 0, size as usize, 0, 0])
        };
        if done < 0 { Err(Refusal::Errno(-done as c_int)) } else { Ok(()) }
    }

    /// Copies the program's bytes, and has `store` put them into the file.
    fn put<T>(&self, from: &ProgramBytes, store: impl FnOnce(&[u8]) -> Carried<T>) -> Carried<T> {
        let len = from.len();
        let mut own = vec![0; len];
        // SAFETY: The buffer is as long as the bytes. A bad address ends the call before it has
        // done anything.
        unsafe { from.copy_in(0, own.as_mut_ptr(), len)? };
        in_the_middle();
        let _size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        store(&own)
    }

    fn store(&self, at: u64, bytes: &[u8]) -> Carried<usize> {
        let end = at + bytes.len() as u64;
        self.may(end)?;
        if end > self.length() {
            self.grow(end)?;
        }
        // SAFETY: The window is mapped as far as the file goes.
        unsafe {
            self.at.add(at as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Ok(bytes.len())
    }

    /// Only the kernel finds the end and writes there in one step, which a handler does not see the
    /// middle of.
    fn store_at_end(&self, bytes: &[u8]) -> Carried<(u64, usize)> {
        self.may(self.length() + bytes.len() as u64)?;
        let piece =
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let (number, piece) = (self.fd as usize, std::ptr::from_ref(&piece) as usize);
        let args = [number, piece, 1, usize::MAX, usize::MAX, libc::RWF_APPEND as usize];
        // SAFETY: The kernel only reads the bytes, which live during the call.
        let done = unsafe { raw::call(libc::SYS_pwritev2, args) };
        let len = usize::try_from(done).map_err(|_| Refusal::Errno(-done as c_int))?;
        // Nobody else uses this number.
        let end = raw::lseek(self.fd, 0, libc::SEEK_CUR);
        Ok((end as u64 - len as u64, len))
    }
}

/// What tests want to happen in the middle of a call.
fn in_the_middle() {
    if *SLOW > 0 {
        std::thread::sleep(std::time::Duration::from_millis(*SLOW));
    }
    if *SIGNAL > 0 {
        // SAFETY: No memory is involved.
        unsafe {
            let process = raw::call(libc::SYS_getpid, [0; 6]) as usize;
            let thread = raw::call(libc::SYS_gettid, [0; 6]) as usize;
            raw::call(libc::SYS_tgkill, [process, thread, *SIGNAL as usize, 0, 0, 0]);
        }
    }
}

impl File for Mapping {
    fn read_at(&self, offset: u64, into: &ProgramBytes) -> Carried<usize> {
        self.may(offset)?;
        let len = self.length().saturating_sub(offset).min(into.len() as u64) as usize;
        let half = len / 2;
        self.may(offset + len as u64)?;
        // SAFETY: The window is mapped; beyond the end it faults, which the copy survives.
        unsafe {
            let from = self.at.add(offset as usize);
            into.copy_out(0, from, half)?;
            in_the_middle();
            into.copy_out(half, from.add(half), len - half)?;
        }
        Ok(len)
    }

    fn write_at(&self, offset: u64, from: &ProgramBytes) -> Carried<usize> {
        self.put(from, |bytes| self.store(offset, bytes))
    }

    fn append(&self, from: &ProgramBytes) -> Carried<(u64, usize)> {
        self.put(from, |bytes| self.store_at_end(bytes))
    }

    fn size(&self) -> Carried<u64> {
        self.may(0)?;
        Ok(self.length())
    }

    fn attributes(&self) -> Option<Attributes> {
        None
    }

    fn sync(&self) -> Carried<()> {
        self.may(0)
    }

    fn truncate(&self, size: u64) -> Carried<()> {
        self.may(size)?;
        let _size = self.size.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_length(size)
    }

    fn leave(&self, _: RawFd) {}

    fn come_back(&self) {}
}

/// A file whose calls take no time.
#[derive(Debug)]
struct Instant;

impl File for Instant {
    fn read_at(&self, _: u64, into: &ProgramBytes) -> Carried<usize> {
        Ok(into.len())
    }

    fn write_at(&self, _: u64, from: &ProgramBytes) -> Carried<usize> {
        Ok(from.len())
    }

    fn append(&self, from: &ProgramBytes) -> Carried<(u64, usize)> {
        Ok((0, from.len()))
    }

    fn size(&self) -> Carried<u64> {
        Ok(0)
    }

    fn attributes(&self) -> Option<Attributes> {
        None
    }

    fn sync(&self) -> Carried<()> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> Carried<()> {
        Ok(())
    }

    fn leave(&self, _: RawFd) {}

    fn come_back(&self) {}
}
