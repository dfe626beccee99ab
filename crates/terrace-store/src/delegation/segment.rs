//! Control pages in memory that several processes map.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::Control;
use super::control::WORDS;
use super::message::LAYOUT;
use crate::sync::atomic::Ordering;
use crate::sync::mapped::AtomicU64;

/// The first word of a file of control pages.
const MAGIC: u64 = u64::from_le_bytes(*b"TRCLOANS");

/// Bytes of a control page.
pub const CONTROL_BYTES: usize = WORDS * size_of::<AtomicU64>();

/// See the module. Pages are known by their number.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<[AtomicU64; WORDS]>,
    pages: usize,
    file: File,
}

// SAFETY: the mapping belongs to this value, and is reached through atomics only.
unsafe impl Send for Segment {}
// SAFETY: as for Send.
unsafe impl Sync for Segment {}

impl Segment {
    /// Zeroed pages in a new memory file without a name.
    ///
    /// # Errors
    /// The system has no memory or descriptor for it.
    pub fn new(pages: usize) -> io::Result<Self> {
        let file = rustix::fs::memfd_create("terrace-control", MemfdFlags::CLOEXEC)?;
        Self::fill(File::from(file), pages)
    }

    /// The pages of the file at `path`, which a daemon that died has left there; else so many new
    /// ones in a new file, for this user alone.
    ///
    /// # Errors
    /// The system refuses; the file is another user's, or of another layout.
    pub fn at(path: &Path, pages: usize) -> io::Result<Self> {
        match Self::left_at(path)? {
            Some(left) => Ok(left),
            None => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
                let mode = Mode::RUSR | Mode::WUSR;
                let file = rustix::fs::open(path, flags | OFlags::NOFOLLOW, mode)?;
                // The error worth telling is the first one.
                Self::fill(File::from(file), pages).inspect_err(|_| drop(fs::remove_file(path)))
            }
        }
    }

    /// The pages of the file at `path`, if there is one.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn left_at(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => File::from(file?),
        };
        if file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user; have it removed"));
        }
        let left = Self::map(file)?;
        let header = left.words(0);
        if header[0].load(Ordering::Acquire) != MAGIC || header[1].load(Ordering::Acquire) != LAYOUT.into() {
            return Err(io::Error::other(
                "it was left by another version of terrace; end the programs that `terrace run` \
                 has started, and remove it",
            ));
        }
        Ok(Some(left))
    }

    fn fill(file: File, pages: usize) -> io::Result<Self> {
        let len_bytes = ((pages + 1) * CONTROL_BYTES) as u64;
        // All of it: a store to a page without memory would end the process.
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, len_bytes)?;
        let made = Self::map(file)?;
        made.words(0)[1].store(LAYOUT.into(), Ordering::Release);
        made.words(0)[0].store(MAGIC, Ordering::Release);
        Ok(made)
    }

    /// The pages of a file that another process has made.
    ///
    /// # Errors
    /// The system refuses to map it; it is empty, or no whole number of pages.
    pub fn map(file: File) -> io::Result<Self> {
        let len_bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if len_bytes < 2 * CONTROL_BYTES || !len_bytes.is_multiple_of(CONTROL_BYTES) {
            return Err(io::Error::other("it is no file of control pages"));
        }
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len_bytes, prot, MapFlags::SHARED, &file, 0)
        }?;
        // A forked child has no loan. SAFETY: the mapping was made just now, and the advice changes
        // nothing in it.
        unsafe { rustix::mm::madvise(base, len_bytes, Advice::LinuxDontFork) }?;
        let base = NonNull::new(base.cast()).expect("a mapping is not at address 0");
        Ok(Self { base, pages: len_bytes / CONTROL_BYTES - 1, file })
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// The control page with this number.
    ///
    /// # Panics
    /// There is none.
    #[inline]
    pub fn control(&self, page: usize) -> Control<'_> {
        assert!(page < self.pages, "control page {page} of {}", self.pages);
        Control::new(self.words(page + 1))
    }

    /// The words of a page of the file, the first of which is its header.
    #[inline]
    fn words(&self, page: usize) -> &[AtomicU64; WORDS] {
        debug_assert!(page <= self.pages);
        // SAFETY: the page lies within the mapping, as the callers have seen to; the mapping lives
        // as long as self, is aligned to pages, and is reached through atomics only; every bit
        // pattern is a valid number.
        unsafe { self.base.add(page).as_ref() }
    }
}

impl AsFd for Segment {
    /// The file, for a process that is to map it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, of this length, and no reference to it is left. A
        // failure leaves it mapped.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), (self.pages + 1) * CONTROL_BYTES) };
    }
}
