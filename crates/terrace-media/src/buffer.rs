//! Memory that O_DIRECT accepts.

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The alignment of an [`AlignedBuf`], and what disk offsets and lengths are multiples of.
pub const IO_ALIGN_BYTES: usize = 4096;

/// Buffers from this length on are mapped: the allocator would write zeros to aligned memory that
/// the kernel has just zeroed, and huge pages make faults and O_DIRECT cheaper.
const MAPPED_BYTES: usize = HUGE_PAGE_BYTES;

/// A huge page of most machines.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A buffer that starts on a 4 KiB boundary, zeroed when it is made.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    /// The buffer that it is a part of; that one is used through its parts alone.
    whole: Option<Arc<AlignedBuf>>,
}

impl AlignedBuf {
    /// A zeroed buffer of `len` bytes.
    pub fn new(len: usize) -> Self {
        let start = match len {
            0 => Some(NonNull::dangling()),
            MAPPED_BYTES.. => map(len),
            _ => {
                // SAFETY: the layout's size is not zero.
                NonNull::new(unsafe { alloc::alloc_zeroed(Self::layout(len)) })
            }
        };
        match start {
            Some(start) => AlignedBuf { start, len, whole: None },
            None => alloc::handle_alloc_error(Self::layout(len)),
        }
    }

    /// New buffers of `len` bytes each that share huge pages, as many as one has room for. The
    /// kernel describes to a disk where a buffer lies, piece by piece of adjacent memory, and the
    /// queues of many disks hold few descriptions: 256 of them, of 16 reads of 64 KiB into small
    /// pages. Here each read is one piece.
    ///
    /// # Panics
    /// If `len` is no multiple of [`IO_ALIGN_BYTES`], or longer than a huge page.
    pub fn some_in_huge_pages(len: usize) -> Vec<Self> {
        assert!(len.is_multiple_of(IO_ALIGN_BYTES) && (1..=HUGE_PAGE_BYTES).contains(&len));
        let whole = Arc::new(Self::new(HUGE_PAGE_BYTES));
        let part = |i| {
            // SAFETY: within the whole buffer.
            let start = unsafe { whole.start.add(i * len) };
            AlignedBuf { start, len, whole: Some(Arc::clone(&whole)) }
        };
        (0..HUGE_PAGE_BYTES / len).map(part).collect()
    }

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, IO_ALIGN_BYTES).expect("a buffer is shorter than isize::MAX")
    }
}

/// Fresh zeroed pages.
fn map(len: usize) -> Option<NonNull<u8>> {
    // SAFETY: a new private mapping replaces nothing.
    let start = unsafe {
        mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    };
    let start = start.ok()?;
    // SAFETY: the range was just mapped. A kernel without huge pages refuses, and small ones do.
    let _ = unsafe { madvise(start, len, Advice::LinuxHugepage) };
    NonNull::new(start.cast())
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        match self.len {
            0 => {}
            _ if self.whole.is_some() => {}
            MAPPED_BYTES.. => {
                // SAFETY: `map` mapped just this range, and nobody uses it after drop.
                unsafe { munmap(self.start.as_ptr().cast(), self.len) }
                    .expect("what was mapped can be unmapped");
            }
            // SAFETY: `start` came from alloc_zeroed with this very layout, and nobody uses it
            // after drop.
            _ => unsafe { alloc::dealloc(self.start.as_ptr(), Self::layout(self.len)) },
        }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialized bytes (dangling only when len is 0) for as
        // long as self lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in deref; &mut self makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

// SAFETY: the buffer owns its memory, like a Box<[u8]>; no two parts of one overlap.
unsafe impl Send for AlignedBuf {}
// SAFETY: a shared AlignedBuf only gives shared slices, like a Box<[u8]>.
unsafe impl Sync for AlignedBuf {}

impl fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuf").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_aligned_zeroed_and_writable() {
        for len in [0, 1, 512, 4096, 4097, 1 << 20, MAPPED_BYTES, MAPPED_BYTES + 1] {
            let mut buf = AlignedBuf::new(len);
            assert_eq!(buf.len(), len);
            assert!(buf.iter().all(|&byte| byte == 0));
            if len > 0 {
                assert_eq!(buf.as_ptr() as usize % IO_ALIGN_BYTES, 0);
                buf[len - 1] = 7;
                assert_eq!(buf[len - 1], 7);
            }
        }
    }

    #[test]
    fn parts_of_huge_pages_do_not_overlap_and_outlive_each_other() {
        for len in [4096, 128 << 10, 1 << 20, HUGE_PAGE_BYTES] {
            let mut parts = AlignedBuf::some_in_huge_pages(len);
            assert_eq!(parts.len(), HUGE_PAGE_BYTES / len);
            (0..).zip(&mut parts).for_each(|(i, part)| part.fill(i as u8));
            let last = parts.pop().unwrap();
            for (i, part) in (0..).zip(parts) {
                assert_eq!(part.as_ptr() as usize % IO_ALIGN_BYTES, 0);
                assert!(part.len() == len && part.iter().all(|&byte| byte == i as u8));
            }
            assert!(last.iter().all(|&byte| byte == (HUGE_PAGE_BYTES / len - 1) as u8));
        }
    }
}
