//! What is thought of each descriptor number.

use std::os::fd::RawFd;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::report::Line;
use crate::room;
use crate::word::Cell;

/// What is thought of a number. All zero: nothing, and it stays on the mount.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) cell: Cell,
    /// The line of its file in the report.
    pub(crate) line: AtomicPtr<Line>,
}

const CHUNK: usize = 1024;
type Chunk = [Entry; CHUNK];

/// Room for 1,048,576 numbers, as many as the kernel gives by default. Later ones stay on the
/// mount.
static CHUNKS: [AtomicPtr<Chunk>; 1024] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 1024];
/// One more than the highest number with an entry.
static END: AtomicUsize = AtomicUsize::new(0);

/// The entry of a number. `None`: nothing is thought of it.
#[inline(always)]
pub(crate) fn entry(fd: RawFd) -> Option<&'static Entry> {
    let number = fd as u32 as usize;
    // SAFETY: Chunks are never given back.
    let chunk = unsafe { CHUNKS.get(number / CHUNK)?.load(Acquire).as_ref()? };
    Some(&chunk[number % CHUNK])
}

/// The entry of a number, made if need be. `None` if the number is too high, or without memory.
pub(crate) fn make(fd: RawFd) -> Option<&'static Entry> {
    let number = usize::try_from(fd).ok()?;
    let place = CHUNKS.get(number / CHUNK)?;
    if place.load(Acquire).is_null() {
        let fresh = room::take::<Chunk>()?;
        // A thread that comes second loses its chunk.
        let _ = place.compare_exchange(std::ptr::null_mut(), fresh, AcqRel, Relaxed);
    }
    END.fetch_max(number + 1, Relaxed);
    entry(fd)
}

/// All numbers with an entry.
pub(crate) fn all() -> impl Iterator<Item = (RawFd, &'static Entry)> {
    (0..END.load(Relaxed) as RawFd).filter_map(|fd| Some((fd, entry(fd)?)))
}
