//! Counts the memory that is allocated: what structures in DRAM take, which the size of the process
//! does not tell, since that includes mapped PM.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

/// The system's allocator with a counter, which stands still unless somebody asks: rates are not to
/// pay for it.
pub struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);

fn add(bytes: i64) {
    if COUNTS.load(Relaxed) {
        BYTES.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(new_size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// What `work` leaves allocated, in bytes; less than nothing if it frees more.
///
/// # Errors
/// Those of `work`.
pub fn kept_bytes<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(i64, T), E> {
    let before = BYTES.load(Relaxed);
    let counted = COUNTS.swap(true, Relaxed);
    let made = work();
    COUNTS.store(counted, Relaxed);
    Ok((BYTES.load(Relaxed) - before, made?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted_and_what_is_freed_is_not() {
        // Other tests allocate at the same time, but not by the hundred megabytes.
        const LEN: usize = 256 << 20;
        let (kept, block) = kept_bytes(|| Ok::<_, ()>(Vec::<u8>::with_capacity(LEN))).unwrap();
        assert!(kept > LEN as i64 / 2, "{kept}");
        let free = || {
            drop(block);
            Ok::<(), ()>(())
        };
        let (kept, ()) = kept_bytes(free).unwrap();
        assert!(kept < -(LEN as i64 / 2), "{kept}");
    }
}
