//! Pages of PM that cannot be read: what the kernel tells with SIGBUS.
//!
//! A load from memory that has failed, or from a mapped file that was cut off or has no room for a
//! page, raises SIGBUS. The handler here puts a page of zeros in the place of the bad one, notes
//! that it did, and lets the load go on. So reads stay plain copies; whoever acts on what was read
//! asks afterwards whether the range is good.
//!
//! Invariants:
//! * A page is noted as bad before it is replaced: who read a replacement finds it noted.
//! * A replacement never reaches media. A store to one, but in a private mapping, is noted, and
//!   from then on every fence fails. (A store that was on its way when the page went bad is no
//!   different from one that was durable a moment before: both are gone.)
//! * The handler takes no lock, allocates nothing and makes one system call. The handler never
//!   looks at freed memory.

use std::fmt;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use rustix::io::Errno;

/// Regions of files that can be mapped at the same time.
const REGIONS_MAX: usize = 4096;

/// The regions that the handler cares for.
static REGIONS: [AtomicPtr<Poison>; REGIONS_MAX] =
    [const { AtomicPtr::new(ptr::null_mut()) }; REGIONS_MAX];
/// Serializes registration; the handler does not take it.
static REGISTRATION: Mutex<()> = Mutex::new(());
/// Who handled SIGBUS before: a handler's address, `SIG_DFL` or `SIG_IGN`.
static PREVIOUS: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// What is known to be bad in one mapped region.
pub(super) struct Poison {
    base: usize,
    len: u64,
    /// What is replaced at a time (bytes): a page of the mapping.
    page_bytes: u64,
    /// Stores are to reach media.
    durable: bool,
    /// The number of bad pages: 0 on all machines that are well.
    bad_pages: AtomicU64,
    /// One more than the offset of the first store to a bad page; 0: there was none.
    lost_store: AtomicU64,
    /// A bit for each page.
    bad: Box<[AtomicU64]>,
}

impl fmt::Debug for Poison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poison")
            .field("bad_pages", &self.bad_pages)
            .field("lost_store", &self.lost_store)
            .finish()
    }
}

impl Poison {
    /// For a mapping at `base` that is made of pages of `page_bytes`; `durable`: stores are to
    /// reach media.
    pub(super) fn new(base: *mut u8, len: u64, page_bytes: u64, durable: bool) -> Self {
        let words = len.div_ceil(page_bytes).div_ceil(64);
        Poison {
            base: base as usize,
            len,
            page_bytes,
            durable,
            bad_pages: AtomicU64::new(0),
            lost_store: AtomicU64::new(0),
            bad: (0..words).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Puts the region into the care of the handler.
    ///
    /// # Errors
    /// There are too many regions, or the system refuses a handler.
    pub(super) fn watch(this: &Arc<Poison>) -> Result<(), Errno> {
        install_handler()?;
        let _registration = REGISTRATION.lock();
        let free = REGIONS
            .iter()
            .find(|region| region.load(Ordering::Relaxed).is_null())
            .ok_or(Errno::MFILE)?;
        // This reference is never given back: a handler may look at the region while it goes.
        free.store(Arc::into_raw(Arc::clone(this)).cast_mut(), Ordering::Release);
        Ok(())
    }

    /// The mapping is about to go.
    pub(super) fn unwatch(&self) {
        let _registration = REGISTRATION.lock();
        let ours = |region: &&AtomicPtr<Poison>| ptr::eq(region.load(Ordering::Relaxed), self);
        if let Some(region) = REGIONS.iter().find(ours) {
            region.store(ptr::null_mut(), Ordering::Release);
        }
    }

    /// The first bad page of a range, if any: to be asked after the range was read.
    #[inline]
    pub(super) fn bad_in(&self, off: u64, len: u64) -> Option<Range<u64>> {
        // The loads of the range come before the load of the count.
        fence(Ordering::Acquire);
        if self.bad_pages.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.find_bad(off, len)
    }

    #[cold]
    fn find_bad(&self, off: u64, len: u64) -> Option<Range<u64>> {
        let pages = off / self.page_bytes..(off + len).div_ceil(self.page_bytes);
        let page = pages.into_iter().find(|&page| self.is_bad(page))?;
        Some(page * self.page_bytes..((page + 1) * self.page_bytes).min(self.len))
    }

    fn is_bad(&self, page: u64) -> bool {
        self.bad[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64) & 1 == 1
    }

    /// All that is bad (bytes).
    pub(super) fn bad_ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        if self.bad_pages.load(Ordering::Acquire) == 0 {
            return ranges;
        }
        for page in (0..self.len.div_ceil(self.page_bytes)).filter(|&page| self.is_bad(page)) {
            let (start, end) =
                (page * self.page_bytes, ((page + 1) * self.page_bytes).min(self.len));
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Notes a store that has just been made (or flushed), should it have gone to a bad page.
    #[inline]
    pub(super) fn stored(&self, off: u64, len: u64) {
        // A fault of the store itself was handled on this thread: only the compiler could take the
        // load ahead of it.
        compiler_fence(Ordering::SeqCst);
        if self.bad_pages.load(Ordering::Relaxed) != 0
            && self.durable
            && self.find_bad(off, len).is_some()
        {
            let _ =
                self.lost_store.compare_exchange(0, off + 1, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Where the first store that was lost went.
    #[inline]
    pub(super) fn lost_store(&self) -> Option<u64> {
        self.lost_store.load(Ordering::Acquire).checked_sub(1)
    }

    /// Notes the page at `off` as bad and puts zeros in its place; false if there is no memory for
    /// them. Async-signal-safe.
    pub(super) fn replace(&self, off: u64) -> bool {
        let page = off / self.page_bytes;
        let bit = 1 << (page % 64);
        if self.bad[(page / 64) as usize].fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.bad_pages.fetch_add(1, Ordering::AcqRel);
        }
        let start = self.base + (page * self.page_bytes) as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the page lies within the region's mapping, which lives as long as somebody
        // accesses it, and all accesses to it go through raw pointers and atomics.
        let mapped = unsafe {
            libc::mmap(start as *mut _, self.page_bytes as usize, protection, flags, -1, 0)
        };
        mapped != libc::MAP_FAILED
    }
}

/// Takes SIGBUS over, once per process.
fn install_handler() -> Result<(), Errno> {
    static INSTALLED: Once = Once::new();
    let mut result = Ok(());
    INSTALLED.call_once(|| {
        // SAFETY: all-zero is a valid sigaction (no flags, empty mask); the handler is
        // async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut previous: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as *const () as usize;
            // On the alternate stack, as Rust's own handler of stack overflows runs.
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            if libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous) == 0 {
                PREVIOUS.store(previous.sa_sigaction, Ordering::Release);
            }
            if libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) != 0 {
                result =
                    Err(Errno::from_io_error(&std::io::Error::last_os_error())
                        .unwrap_or(Errno::INVAL));
            }
        }
    });
    result
}

extern "C" fn on_bus_error(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel passes a valid siginfo; for SIGBUS it has an address.
    let address = unsafe { (*info).si_addr() } as usize;
    if !replaced(address) {
        pass_on(signal, info, context);
    }
}

/// Whether the address belongs to a region of ours, and its page is good to access now.
fn replaced(address: usize) -> bool {
    for region in &REGIONS {
        // SAFETY: what was once registered is never freed.
        let Some(poison) = (unsafe { region.load(Ordering::Acquire).as_ref() }) else {
            continue;
        };
        if let Some(off) = address.checked_sub(poison.base).filter(|&off| (off as u64) < poison.len)
        {
            // SAFETY: errno belongs to this thread; the interrupted code must find it as it was.
            unsafe {
                let errno = libc::__errno_location();
                let before = *errno;
                let done = poison.replace(off as u64);
                *errno = before;
                return done;
            }
        }
    }
    false
}

/// A bus error that is none of ours: whoever had the signal before gets it.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.load(Ordering::Acquire);
    if previous == libc::SIG_DFL || previous == libc::SIG_IGN {
        // The access is repeated after the return, and this time ends the process.
        // SAFETY: all-zero is a valid sigaction, its handler SIG_DFL.
        unsafe {
            let action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &action, ptr::null_mut());
        }
        return;
    }
    type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    // SAFETY: the kernel would have called this address with these arguments, had we not replaced
    // it. A handler that takes fewer ignores the others.
    let handler: Handler = unsafe { std::mem::transmute(previous) };
    handler(signal, info, context);
}
