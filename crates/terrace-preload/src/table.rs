//! What is thought of each descriptor number.

use std::os::fd::RawFd;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, SeqCst},
};
use std::time::{Duration, Instant};

use crate::report::Line;
use crate::room;
use crate::word::Cell;

/// What is thought of a number. All zero: nothing, and it stays on the mount.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) cell: Cell,
    /// The line of its file in the report.
    pub(crate) line: AtomicPtr<Line>,
    /// Counts what the number has meant. Its lowest bit says where calls are counted.
    phase: AtomicU32,
    /// System calls under way that use the kernel's position.
    passing: [AtomicU32; 2],
}

impl Entry {
    /// A system call on the number that uses the kernel's position begins. It is under way as long
    /// as the result lives. What the number means is to be looked up after this.
    pub(crate) fn pass(&'static self) -> Passing {
        loop {
            let phase = self.phase.load(SeqCst);
            let passing = Passing(&self.passing[(phase & 1) as usize]);
            passing.0.fetch_add(1, SeqCst);
            // Else nobody may wait for this call.
            if self.phase.load(SeqCst) == phase {
                return passing;
            }
        }
    }

    /// The number means something else from now on: waits for the system calls that began before
    /// and may meet what it means now. False if that takes a second.
    pub(crate) fn turn(&self) -> bool {
        let before = self.phase.fetch_add(1, SeqCst);
        let passing = &self.passing[(before & 1) as usize];
        let begun = Instant::now();
        while passing.load(SeqCst) > 0 {
            if begun.elapsed() > PATIENCE {
                return false;
            }
            std::thread::yield_now();
        }
        true
    }
}

/// A system call that uses the kernel's position is under way.
#[derive(Debug)]
pub(crate) struct Passing(&'static AtomicU32);

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A system call that takes longer waits for something.
const PATIENCE: Duration = Duration::from_secs(1);

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
