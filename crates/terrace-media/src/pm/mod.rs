//! A persistent-memory region: a mapping, and the ways to store to it.
//!
//! Invariants: every access is checked against the length of the region before it touches memory,
//! and a store also against the region being writable; `base` stays mapped for the life of the
//! value. Memory that has failed reads as zeros: [`Pm::check`] tells. The region is shared memory
//! like the hardware it stands for: whoever lets two threads store to the same bytes, or read bytes
//! being stored, orders them himself (with `store_u64` and `load_u64`, or a lock).

mod msync;
mod open;
mod poison;
mod recorder;
mod share;
mod stats;

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use open::PmOpenOptions;
pub use stats::PmStats;

use rustix::io::Errno;

use crate::error::MediaError;
use crate::model::Throttle;
use crate::persist::{Persist, prefetch};
#[cfg(feature = "simulators")]
use crate::sim::{PendingLine, PmSim};
use crate::steps::step;
use msync::{Dirty, GroupSync};
use open::{Mapping, PAGE_BYTES};
use poison::Poison;
use recorder::Recorder;
use stats::Counters;

/// What a PM region stands on, and so what durability means there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmKind {
    /// Persistent memory, mapped directly: CPU instructions make stores durable.
    Dax,
    /// Memory: the same instructions, but the contents are lost at reboot.
    Emulated,
    /// A file on an ordinary file system: each fence syncs what was dirtied.
    Msync,
}

impl fmt::Display for PmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            PmKind::Dax => "dax",
            PmKind::Emulated => "emulated",
            PmKind::Msync => "msync",
        })
    }
}

/// One mapped PM region. Offsets and lengths are bytes from its start.
///
/// # Panics
/// Every access panics when it reaches past the end, every store when the region is read-only, and
/// `load_u64`, `store_u64` and `compare_exchange_u64` when the offset is not a multiple of 8: those
/// are programmer errors.
pub struct Pm {
    base: *mut u8,
    len: u64,
    /// `len`, or 0 for a read-only region: the bound of stores.
    store_limit: u64,
    persist: Persist,
    counters: Counters,
    poison: Arc<Poison>,
    recorder: Option<Recorder>,
    throttle: Option<Throttle>,
    group_sync: Option<GroupSync>,
    kind: PmKind,
    path: PathBuf,
    mapping: Mapping,
}

// SAFETY: the mapping belongs to the value and moves between threads like any memory.
unsafe impl Send for Pm {}
// SAFETY: shared access is by copies and atomics only; ordering plain accesses is the callers' task
// (module text).
unsafe impl Sync for Pm {}

impl Pm {
    /// A region of volatile memory, for tests and benchmarks; its kind is `emulated`.
    ///
    /// # Panics
    /// When there is not enough memory.
    pub fn anonymous(len_bytes: u64) -> Arc<Pm> {
        Arc::new(Pm::over(
            Mapping::anonymous(len_bytes),
            PathBuf::from("<memory>"),
            PmKind::Emulated,
        ))
    }

    /// A zeroed region of memory and the simulator that records what is not durable in it.
    #[cfg(feature = "simulators")]
    pub fn simulated(len_bytes: u64) -> (Arc<Pm>, Arc<PmSim>) {
        Self::simulated_from(vec![
            0;
            usize::try_from(len_bytes)
                .expect("a simulated region fits in memory")
        ])
    }

    /// As [`Pm::simulated`], starting from an image, all of which is durable.
    #[cfg(feature = "simulators")]
    pub fn simulated_from(image: Vec<u8>) -> (Arc<Pm>, Arc<PmSim>) {
        Self::simulated_with(image, Vec::new())
    }

    /// As [`Pm::simulated`], starting from what is durable and what a process that has ended had
    /// stored besides: it is there, until the power goes.
    #[cfg(feature = "simulators")]
    pub fn simulated_with(durable: Vec<u8>, stored: Vec<PendingLine>) -> (Arc<Pm>, Arc<PmSim>) {
        let mapping = Mapping::anonymous(durable.len() as u64);
        let mut pm = Pm::over(mapping, PathBuf::from("<simulated pm>"), PmKind::Emulated);
        let sim = Arc::new(PmSim::new(durable, stored));
        let image = sim.crash_image(&mut |_, stores| stores);
        let start = pm.store_at(0, image.len());
        // SAFETY: store_at checked that the new region is as long as the image.
        unsafe { std::ptr::copy_nonoverlapping(image.as_ptr(), start, image.len()) };
        pm.recorder = Some(Arc::clone(&sim));
        (Arc::new(pm), sim)
    }

    fn over(mapping: Mapping, path: PathBuf, kind: PmKind) -> Pm {
        Pm {
            base: mapping.base(),
            len: mapping.len(),
            store_limit: if mapping.writable() { mapping.len() } else { 0 },
            persist: Persist::detect(),
            counters: Counters::default(),
            poison: Arc::clone(mapping.poison()),
            recorder: None,
            throttle: None,
            group_sync: None,
            kind,
            path,
            mapping,
        }
    }

    /// The length of the region (bytes).
    #[allow(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// What the region stands on.
    pub fn kind(&self) -> PmKind {
        self.kind
    }

    /// The file or device, or a name in angle brackets for a region of memory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What makes stores durable: `clwb`, `dc cvap`, …, or `msync`.
    pub fn flush_instruction(&self) -> &'static str {
        if self.kind == PmKind::Msync { "msync" } else { self.persist.name() }
    }

    /// What was done to the region since it was opened.
    pub fn stats(&self) -> PmStats {
        self.counters.total()
    }

    /// Copies the bytes at `off` into `buf`. Unreadable bytes are zeros there: callers that act on
    /// the bytes ask [`Pm::check`] afterwards, or call [`Pm::try_read`], unless a checksum tells
    /// them.
    #[inline]
    pub fn read(&self, off: u64, buf: &mut [u8]) {
        let dst = buf.as_mut_ptr();
        // SAFETY: `src` is mapped for `len` bytes; `buf` is exclusive, so it lies outside the
        // mapping.
        self.copy(off, buf.len(), |src, len| unsafe { src.copy_to_nonoverlapping(dst, len) });
    }

    /// Has `copy` copy the `len` bytes at `off`, whose address and number it gets; others may
    /// store to them meanwhile. As with [`Pm::read`], unreadable bytes are zeros.
    #[inline]
    pub fn copy<R>(&self, off: u64, len: usize, copy: impl FnOnce(*const u8, usize) -> R) -> R {
        let src = self.at(off, len).cast_const();
        match &self.throttle {
            None => copy(src, len),
            Some(throttle) => throttle.read(len as u64, || copy(src, len)),
        }
    }

    /// Brings the line at `off` closer: it will be read soon.
    #[inline]
    pub fn prefetch(&self, off: u64) {
        prefetch(self.at(off, 1));
    }

    /// As [`Pm::read`], with [`Pm::check`].
    ///
    /// # Errors
    /// Some of the bytes cannot be read.
    #[inline]
    pub fn try_read(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.read(off, buf);
        self.check(off, buf.len() as u64)
    }

    /// Whether what was just read from a range is what is there.
    ///
    /// # Errors
    /// The memory under some of it has failed; the error names the first such place.
    #[inline]
    pub fn check(&self, off: u64, len: u64) -> Result<(), MediaError> {
        match self.poison.bad_in(off, len) {
            None => Ok(()),
            Some(bad) => Err(self.unreadable(&bad)),
        }
    }

    /// Everything that was found to be unreadable since the region was opened (bytes).
    pub fn bad_ranges(&self) -> Vec<Range<u64>> {
        self.poison.bad_ranges()
    }

    /// Makes the page at `off` as unreadable as a failure of the memory there would, for tests.
    ///
    /// # Panics
    /// When there is no memory for the page that takes its place.
    pub fn fail_page(&self, off: u64) {
        self.at(off, 1);
        assert!(self.poison.replace(off), "no memory for a page");
    }

    #[cold]
    fn unreadable(&self, bad: &Range<u64>) -> MediaError {
        let (offset, len_bytes) = (bad.start, bad.end - bad.start);
        MediaError::Unreadable { path: self.path.clone(), offset, len_bytes }
    }

    /// Loads 8 aligned bytes atomically (acquire).
    #[inline]
    pub fn load_u64(&self, off: u64) -> u64 {
        self.atomic(self.at(off, 8), off).load(Ordering::Acquire)
    }

    /// Stores bytes like ordinary memory: durable only after [`Pm::flush`] of them and
    /// [`Pm::fence`].
    #[inline]
    pub fn write(&self, off: u64, data: &[u8]) {
        step();
        let dst = self.store_at(off, data.len());
        // SAFETY: `dst` is mapped writable for data.len() bytes. A slice of the mapping is never
        // handed out, so they do not overlap.
        let copy = || unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), dst, data.len()) };
        match &self.recorder {
            None => copy(),
            Some(recorder) => recorder.store(off, data, copy),
        }
        self.stored(off, data.len() as u64);
    }

    /// Stores bytes past the cache, the quick way for bulk: durable after the next [`Pm::fence`],
    /// without a flush.
    #[inline]
    pub fn write_nt(&self, off: u64, data: &[u8]) {
        step();
        let dst = self.store_at(off, data.len());
        // SAFETY: as in write.
        let copy = || unsafe { self.persist.copy_nt(dst, data.as_ptr(), data.len()) };
        match &self.recorder {
            None => self.bulk(off, data.len() as u64, copy),
            Some(recorder) => {
                recorder.store_nt(off, data, copy);
                recorder.flush_edges(off, data.len() as u64);
            }
        }
        self.stored(off, data.len() as u64);
    }

    /// Zeroes `len` bytes past the cache: durable after the next [`Pm::fence`], without a flush.
    #[inline]
    pub fn zero_nt(&self, off: u64, len: u64) {
        let len_bytes = usize::try_from(len).unwrap_or(usize::MAX);
        step();
        let dst = self.store_at(off, len_bytes);
        // SAFETY: `dst` is mapped writable for `len` bytes.
        let zero = || unsafe { self.persist.zero_nt(dst, len_bytes) };
        match &self.recorder {
            None => self.bulk(off, len, zero),
            Some(recorder) => {
                recorder.store_nt(off, &vec![0; len_bytes], zero);
                recorder.flush_edges(off, len);
            }
        }
        self.stored(off, len);
    }

    /// Stores 8 aligned bytes atomically (release): durable only after [`Pm::flush`] of them and
    /// [`Pm::fence`].
    #[inline]
    pub fn store_u64(&self, off: u64, value: u64) {
        step();
        let word = self.atomic(self.store_at(off, 8), off);
        let store = || word.store(value, Ordering::Release);
        match &self.recorder {
            None => store(),
            Some(recorder) => recorder.store(off, &value.to_ne_bytes(), store),
        }
        self.stored(off, 8);
    }

    /// Replaces 8 aligned bytes atomically if they equal `old`: durable only after [`Pm::flush`]
    /// and [`Pm::fence`]. Gives the former value: as Ok if it was replaced.
    #[inline]
    pub fn compare_exchange_u64(&self, off: u64, old: u64, new: u64) -> Result<u64, u64> {
        step();
        let word = self.atomic(self.store_at(off, 8), off);
        let exchange = || word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire);
        let result = match &self.recorder {
            None => exchange(),
            Some(recorder) => recorder.compare_exchange(off, new, exchange),
        };
        if result.is_ok() {
            self.stored(off, 8);
        }
        result
    }

    /// Starts writing back the cache lines that hold the range: what was stored there is durable
    /// after the next [`Pm::fence`] of this thread.
    #[inline]
    pub fn flush(&self, off: u64, len: u64) {
        let len_bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let start = self.store_at(off, len_bytes);
        self.counters.flushed();
        if let Some(recorder) = &self.recorder {
            recorder.flush(off, len);
        } else if let Some(group_sync) = &self.group_sync {
            group_sync.mark(off, len);
        } else {
            // SAFETY: the range is mapped.
            let flush = || unsafe { self.persist.flush(start, len_bytes) };
            match &self.throttle {
                None => flush(),
                Some(throttle) => throttle.write(len, flush),
            }
        }
        // Stores made while the page was good must not pass for durable now.
        self.poison.stored(off, len);
    }

    /// As [`Pm::flush`], of what was read and not stored just now: pages in memory that has failed
    /// are left out. Reads of them fail, so nobody builds on what was there.
    pub fn flush_readable(&self, off: u64, len: u64) {
        let (mut at, end) = (off, off + len);
        while at < end {
            let next = ((at / PAGE_BYTES + 1) * PAGE_BYTES).min(end);
            if self.check(at, next - at).is_ok() {
                self.flush(at, next - at);
            }
            at = next;
        }
    }

    /// Makes durable what this thread flushed or stored with `write_nt` and `zero_nt`.
    ///
    /// # Errors
    /// A store went to memory that has failed, or, on PM of kind `msync`, the system could not
    /// write, or a simulated power cut has come. From then on every fence fails.
    #[inline]
    pub fn fence(&self) -> Result<(), MediaError> {
        self.counters.fenced();
        if let Some(recorder) = &self.recorder
            && !recorder.fence()
        {
            return Err(MediaError::Sync { path: self.path.clone(), offset: 0, errno: Errno::IO });
        }
        self.persist.fence();
        if let Some(offset) = self.poison.lost_store() {
            return Err(MediaError::StoreLost { path: self.path.clone(), offset });
        }
        match &self.group_sync {
            None => Ok(()),
            Some(group_sync) => self.sync(group_sync),
        }
    }

    #[inline]
    fn stored(&self, off: u64, len: u64) {
        self.counters.stored(len);
        self.poison.stored(off, len);
    }

    /// A bulk store, noted where fences need to know of it and as slow as the model says.
    #[inline]
    fn bulk(&self, off: u64, len: u64, store: impl FnOnce()) {
        match &self.throttle {
            None => store(),
            Some(throttle) => throttle.write(len, store),
        }
        if let Some(group_sync) = &self.group_sync {
            group_sync.mark(off, len);
        }
    }

    #[cold]
    fn sync(&self, group_sync: &GroupSync) -> Result<(), MediaError> {
        let sync = |dirty: &Dirty| {
            let sync = || match dirty {
                Dirty::Run(pages) => self.mapping.sync_range(pages),
                Dirty::Scattered(_) => self.mapping.sync_all(),
            };
            let bounds = dirty.bounds();
            self.throttle
                .as_ref()
                .map_or_else(sync, |throttle| throttle.write(bounds.end - bounds.start, sync))
        };
        group_sync.fence(sync).map_err(|failure| MediaError::Sync {
            path: self.path.clone(),
            offset: failure.offset,
            errno: failure.errno,
        })
    }

    /// The address of `off`, checked to have `len` bytes mapped.
    #[inline]
    fn at(&self, off: u64, len: usize) -> *mut u8 {
        self.checked(off, len, self.len)
    }

    /// The address of `off`, checked to have `len` bytes mapped writable.
    #[inline]
    fn store_at(&self, off: u64, len: usize) -> *mut u8 {
        self.checked(off, len, self.store_limit)
    }

    #[inline]
    fn checked(&self, off: u64, len: usize, limit: u64) -> *mut u8 {
        if off.checked_add(len as u64).is_none_or(|end| end > limit) {
            self.refuse(off, len);
        }
        // SAFETY: off <= limit <= the length of the mapping, which fits the address space.
        unsafe { self.base.add(off as usize) }
    }

    #[cold]
    fn refuse(&self, off: u64, len: usize) -> ! {
        let access = if self.store_limit == 0 { "read-only" } else { "writable" };
        panic!(
            "{}: access of {len} bytes at offset {off} of a {access} PM region of {} bytes",
            self.path.display(),
            self.len
        );
    }

    #[inline]
    fn atomic(&self, word: *mut u8, off: u64) -> &AtomicU64 {
        assert!(
            off.is_multiple_of(8),
            "an atomic access at offset {off}, which is not a multiple of 8"
        );
        // SAFETY: the callers checked 8 mapped bytes at `word`; a mapping starts at a page, so it
        // is aligned as `off` is. A region mapped read-only is only loaded from. The mapping lives
        // as long as self.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }
}

impl fmt::Debug for Pm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pm")
            .field("path", &self.path)
            .field("kind", &self.kind)
            .field("len", &self.len)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
