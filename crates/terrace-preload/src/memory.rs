//! The memory of the backend: an allocator of its own, because the program's may be what a signal
//! handler interrupts, with a reserve for when the kernel gives no more.
//!
//! Code that allocates ends the process if there is no memory, and a program must not end because
//! its library lacks some. So what is under way goes on with the reserve, and from then on all
//! calls take the mount, which needs none, until the kernel gives memory again.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use std::sync::{Mutex, PoisonError};

use dlmalloc::{Allocator, Dlmalloc, GlobalDlmalloc};

/// The reserve takes no memory before it is used.
const RESERVE_BYTES: usize = 1 << 20;
/// As much must be free of both before calls go direct again.
const ENOUGH: Layout = match Layout::from_size_align(RESERVE_BYTES / 2, 16) {
    Ok(layout) => layout,
    Err(_) => panic!("it is a layout"),
};
/// One of so many calls that take the mount looks whether there is memory again.
const LOOK_EVERY: u32 = 1024;

#[repr(C, align(4096))]
struct Region(UnsafeCell<[u8; RESERVE_BYTES]>);

// SAFETY: only the allocator gives parts of it, each to one.
unsafe impl Sync for Region {}

static REGION: Region = Region(UnsafeCell::new([0; RESERVE_BYTES]));
static GIVEN: AtomicUsize = AtomicUsize::new(0);
static RESERVE: Mutex<Dlmalloc<Parts>> = Mutex::new(Dlmalloc::new_with_allocator(Parts));
static IS_SHORT: AtomicBool = AtomicBool::new(false);
static LOOKS: AtomicU32 = AtomicU32::new(0);

/// Gives the region, part by part.
struct Parts;

// SAFETY: each part is given once, and stays.
unsafe impl Allocator for Parts {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let part = |given: usize| Some(given + size).filter(|end| *end <= RESERVE_BYTES);
        match GIVEN.fetch_update(AcqRel, Relaxed, part) {
            // SAFETY: the part ends within the region.
            Ok(at) => (unsafe { REGION.0.get().cast::<u8>().add(at) }, size, 0),
            Err(_) => (null_mut(), 0, 0),
        }
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        4096
    }
}

/// See the module.
pub(crate) struct Memory;

fn is_of_reserve(at: *const u8) -> bool {
    let first = REGION.0.get() as usize;
    (first..first + RESERVE_BYTES).contains(&(at as usize))
}

#[cold]
fn of_reserve(layout: Layout) -> *mut u8 {
    IS_SHORT.store(true, Relaxed);
    let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: its size is not zero: that is the caller's promise.
    unsafe { reserve.malloc(layout.size(), layout.align()) }
}

// SAFETY: both allocators keep to the contract, and each gets back what it has given.
unsafe impl GlobalAlloc for Memory {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        let at = unsafe { GlobalDlmalloc.alloc(layout) };
        if at.is_null() { of_reserve(layout) } else { at }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if is_of_reserve(at) {
            let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the reserve has given it.
            unsafe { reserve.free(at, layout.size(), layout.align()) }
        } else {
            // SAFETY: the other one has given it.
            unsafe { GlobalDlmalloc.dealloc(at, layout) }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises.
        let mut at = unsafe { GlobalDlmalloc.alloc_zeroed(layout) };
        if at.is_null() {
            at = of_reserve(layout);
            if !at.is_null() {
                // SAFETY: it has as many bytes.
                unsafe { at.write_bytes(0, layout.size()) };
            }
        }
        at
    }

    #[inline]
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !is_of_reserve(at) {
            // SAFETY: the other one has given it.
            let moved = unsafe { GlobalDlmalloc.realloc(at, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        }
        // SAFETY: the caller's promises: the alignment is one, and the size is not too large.
        let fresh = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !fresh.is_null() {
            // SAFETY: both have as many bytes, and `at` is given back once.
            unsafe {
                fresh.copy_from_nonoverlapping(at, size.min(layout.size()));
                self.dealloc(at, layout);
            }
        }
        fresh
    }
}

/// Memory for the bytes of a long write. The reserve gives none of it: that would be gone for all
/// that is under way, which needs little, and cannot do without.
#[cfg_attr(feature = "mapped", allow(dead_code, reason = "the backend for tests does without"))]
pub(crate) struct Room {
    at: NonNull<MaybeUninit<u8>>,
    layout: Layout,
}

#[cfg_attr(feature = "mapped", allow(dead_code, reason = "as above"))]
impl Room {
    /// So many bytes, one at least. `None`: the kernel gives no memory.
    pub(crate) fn of_kernel(len: usize) -> Option<Self> {
        let layout = Layout::array::<u8>(len).ok().filter(|layout| layout.size() > 0)?;
        // SAFETY: its size is not zero.
        let at = unsafe { GlobalDlmalloc.alloc(layout) };
        NonNull::new(at.cast()).map(|at| Self { at, layout })
    }
}

impl AsMut<[MaybeUninit<u8>]> for Room {
    fn as_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: so many bytes were given, nobody else has them, and none of them has to be set.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the allocator has given it with this layout.
        unsafe { GlobalDlmalloc.dealloc(self.at.as_ptr().cast(), self.layout) };
    }
}

/// Whether the kernel has given no memory. Then no call may need any. Now and then it is asked.
#[inline]
#[cfg_attr(feature = "mapped", allow(dead_code, reason = "the backend for tests does without"))]
pub(crate) fn is_short() -> bool {
    IS_SHORT.load(Relaxed) && (!is_time_to_look() || is_still_short())
}

#[cold]
fn is_time_to_look() -> bool {
    LOOKS.fetch_add(1, Relaxed) % LOOK_EVERY == LOOK_EVERY - 1
}

/// The same for those that come rarely: the kernel is asked each time.
#[cold]
#[cfg_attr(feature = "mapped", allow(dead_code, reason = "as above"))]
pub(crate) fn is_still_short() -> bool {
    if !IS_SHORT.load(Relaxed) {
        return false;
    }
    // SAFETY: nobody uses it, and it is given back at once.
    let kernel_gives = unsafe {
        let at = GlobalDlmalloc.alloc(ENOUGH);
        if !at.is_null() {
            GlobalDlmalloc.dealloc(at, ENOUGH);
        }
        !at.is_null()
    };
    let reserve_gives = || {
        let mut reserve = RESERVE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: as above.
        unsafe {
            let at = reserve.malloc(ENOUGH.size(), ENOUGH.align());
            if !at.is_null() {
                reserve.free(at, ENOUGH.size(), ENOUGH.align());
            }
            !at.is_null()
        }
    };
    let is_there = kernel_gives && reserve_gives();
    if is_there {
        IS_SHORT.store(false, Relaxed);
    }
    !is_there
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_reserve_gives_can_grow_and_goes_back_to_it() {
        let layout = Layout::array::<u8>(1000).unwrap();
        let at = of_reserve(layout);
        assert!(is_of_reserve(at) && is_short());
        // SAFETY: the block has as many bytes, and is given back once.
        unsafe {
            at.write_bytes(7, 1000);
            let grown = Memory.realloc(at, layout, 5000);
            assert!(!is_of_reserve(grown));
            assert!(std::slice::from_raw_parts(grown, 1000).iter().all(|byte| *byte == 7));
            Memory.dealloc(grown, Layout::array::<u8>(5000).unwrap());
        }
        assert!(of_reserve(Layout::array::<u8>(2 * RESERVE_BYTES).unwrap()).is_null());
        let looks = (0..2 * LOOK_EVERY).filter(|_| is_short()).count();
        assert!(looks < LOOK_EVERY as usize && !is_short());
        // More than any kernel gives, and then as much as the reserve would have.
        assert!(Room::of_kernel(1 << 62).is_none() && !IS_SHORT.load(Relaxed));
        let mut room = Room::of_kernel(RESERVE_BYTES / 2).unwrap();
        assert!(!is_of_reserve(room.as_mut().as_ptr().cast()));
        assert_eq!(room.as_mut().len(), RESERVE_BYTES / 2);
    }
}
