//! Control pages in memory that several processes map.

use std::io;
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::Control;
use super::control::WORDS;
use crate::sync::mapped::AtomicU64;

/// Bytes of a control page.
const CONTROL_BYTES: usize = WORDS * size_of::<AtomicU64>();

/// See the module. Pages are known by their number.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<[AtomicU64; WORDS]>,
    pages: usize,
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
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("terrace-control", flags)?;
        let len_bytes = pages * CONTROL_BYTES;
        // All of it: a store to a page without memory would end the process.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len_bytes as u64)?;
        // Nor may a borrower take the memory away.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&file, seals)?;
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
        Ok(Self { base, pages })
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
        // SAFETY: the page lies within the mapping, which lives as long as self, is aligned to
        // pages, and is reached through atomics only; every bit pattern is a valid number.
        Control::new(unsafe { self.base.add(page).as_ref() })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's, of this length, and no reference to it is left. A
        // failure leaves it mapped.
        let _ =
            unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.pages * CONTROL_BYTES) };
    }
}
