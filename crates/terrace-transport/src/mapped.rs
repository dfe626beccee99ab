//! Memory of huge pages, where there are some.
//!
//! A disk fills it without another copy, as it begins on a page. And the kernel describes to the
//! disk where a buffer lies by one piece for all adjacent memory: the queues of many disks hold 256
//! such pieces, fewer than a read of 1 MiB into small pages takes.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A mapping, filled with zeros at first.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

impl Mapped {
    /// No memory. It begins on a page all the same.
    pub(crate) const fn none() -> Self {
        #[repr(align(4096))]
        struct Page;
        Self { start: NonNull::<Page>::dangling().cast(), len: 0 }
    }

    /// At least so many bytes.
    pub(crate) fn new(len_bytes: usize) -> Self {
        let len = len_bytes.next_multiple_of(HUGE_PAGE_BYTES);
        if len == 0 {
            return Self::none();
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping replaces nothing.
        let mapped = unsafe { mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) };
        let layout = || Layout::from_size_align(len, 4096).unwrap_or(Layout::new::<u8>());
        let Some(start) = mapped.ok().and_then(NonNull::new) else { handle_alloc_error(layout()) };
        // SAFETY: the range was just mapped. A kernel without huge pages refuses, and small ones
        // do.
        let _ = unsafe { madvise(start.as_ptr(), len, Advice::LinuxHugepage) };
        Self { start: start.cast(), len }
    }

    /// All of it.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped with this length, and initialized as all mappings are; dangling only
        // without a length.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: the whole mapping, which nobody uses any more.
            let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
            debug_assert!(unmapped.is_ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_as_much_as_was_asked_for() {
        assert!(Mapped::none().bytes().is_empty() && Mapped::new(0).bytes().is_empty());
        for len in [1, 4096, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES + 1] {
            let mut mapped = Mapped::new(len);
            let bytes = mapped.bytes();
            assert!(bytes.len() >= len && bytes.as_ptr().align_offset(4096) == 0);
            assert!(bytes.iter().all(|&byte| byte == 0));
            bytes.fill(7);
        }
    }
}
