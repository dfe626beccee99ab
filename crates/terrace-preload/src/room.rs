//! Memory of the library's own, taken from the kernel and kept for ever.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::raw;

/// Memory is taken from the kernel in pieces of this size.
const PIECE: usize = 64 << 10;
/// The piece in use: its address, and in its low bits how many lines of 64 bytes are taken.
static PIECE_IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Maps memory of zeros. `None` if the kernel has none.
pub(crate) fn map(len: usize) -> Option<*mut u8> {
    let (read_write, private) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let args = [0, len, read_write as usize, private as usize, usize::MAX, 0];
    // SAFETY: A new mapping takes nothing from anyone.
    let at = unsafe { raw::call(libc::SYS_mmap, args) };
    usize::try_from(at).ok().map(|at| at as *mut u8)
}

/// Gives zeroed memory for a `T`, at a multiple of 64. It takes no lock, so a signal handler may
/// use it.
pub(crate) fn take<T>() -> Option<*mut T> {
    const { assert!(align_of::<T>() <= 64 && size_of::<T>() <= PIECE / 2) };
    let lines = size_of::<T>().div_ceil(64);
    loop {
        let seen = PIECE_IN_USE.load(Relaxed);
        let (piece, taken) = (seen & !(PIECE - 1), seen & (PIECE - 1));
        if seen != 0 && (taken + lines) * 64 <= PIECE {
            if PIECE_IN_USE.compare_exchange(seen, seen + lines, Relaxed, Relaxed).is_ok() {
                return Some((piece + taken * 64) as *mut T);
            }
            continue;
        }
        // Two pieces hold one that is aligned. A thread that comes second loses its piece.
        let fresh = (map(2 * PIECE)? as usize).next_multiple_of(PIECE);
        let _ = PIECE_IN_USE.compare_exchange(seen, fresh, Relaxed, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_do_not_overlap() {
        let taken: Vec<usize> = (0..3000).map(|_| take::<[u64; 9]>().unwrap() as usize).collect();
        let mut sorted = taken.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[1] - pair[0] >= 72));
        assert!(taken.iter().all(|at| at % 64 == 0));
    }
}
