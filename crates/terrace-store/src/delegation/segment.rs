//! Control pages in memory that several processes map.
//!
//! The memory is a file: a header of one page, and then the control pages. The header has the magic
//! and the layout, a word each, and *announcements*.
//!
//! A thread of a borrower announces that it is about to open a file. The owner is told of the open,
//! by the kernel, and of the thread that makes it. If this thread has announced it, the file may
//! stay lent, and a file that is made is lent at once: the borrower looks for it among the control
//! pages ([`Segment::find`]). Announcements are hints: one that is lost costs a message.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::Control;
use super::control::WORDS;
use super::message::LAYOUT;
use crate::sync::atomic::Ordering;
use crate::sync::mapped::AtomicU64;

/// The first word of the file.
const MAGIC: u64 = u64::from_le_bytes(*b"TRCLOANS");

/// The words of the header for announcements: a thread's number in the lower half, its process in
/// the upper one. Each thread has a place, which others may share.
const ANNOUNCEMENTS: std::ops::Range<usize> = 64..WORDS;

/// A file that is lent without being asked for has one of so many control pages.
const PLACES: usize = 8;

/// Bytes of a control page, and of the header.
const CONTROL_BYTES: usize = WORDS * size_of::<AtomicU64>();

/// See the module. Pages are known by their number.
#[derive(Debug)]
pub struct Segment {
    base: NonNull<[AtomicU64; WORDS]>,
    pages: usize,
    /// `None` in a borrower, which needs the mapping only.
    file: Option<File>,
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
        let file = File::from(rustix::fs::memfd_create("terrace-control", flags)?);
        let made = Self::fill(file, pages)?;
        // A borrower cannot take the memory away.
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        made.file.iter().try_for_each(|file| rustix::fs::fcntl_add_seals(file, seals))?;
        Ok(made)
    }

    /// Zeroed pages in a new file at `path`, for this user alone.
    ///
    /// # Errors
    /// The system refuses.
    pub fn create(path: &Path, pages: usize) -> io::Result<Self> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::open(path, flags | OFlags::NOFOLLOW, mode)?;
        // The error worth telling is the first one.
        Self::fill(File::from(file), pages).inspect_err(|_| drop(fs::remove_file(path)))
    }

    /// The pages that a daemon has left in the file at `path`, if there is one.
    ///
    /// # Errors
    /// The system refuses; the file is another user's, or of another layout.
    pub fn left_at(path: &Path) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            file => File::from(file?),
        };
        if file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user; have it removed"));
        }
        // One that was never filled has no header, and nothing was lent by it.
        if file.metadata()?.len() == 0 {
            fs::remove_file(path)?;
            return Ok(None);
        }
        Self::of(file).map(Some)
    }

    /// The pages of the file that the owner has shared. The descriptor is closed.
    ///
    /// # Errors
    /// The system refuses to map it; it has no such pages.
    pub fn of_shared(file: File) -> io::Result<Self> {
        let mut shared = Self::of(file)?;
        shared.file = None;
        Ok(shared)
    }

    fn of(file: File) -> io::Result<Self> {
        let len_bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if len_bytes < 2 * CONTROL_BYTES || !len_bytes.is_multiple_of(CONTROL_BYTES) {
            return Err(io::Error::other("it is no file of control pages"));
        }
        let left = Self::map(file, len_bytes)?;
        let [magic, layout] = [0, 1].map(|word: usize| left.words(0)[word].load(Ordering::Acquire));
        if (magic, layout) != (MAGIC, LAYOUT.into()) {
            return Err(io::Error::other(
                "it was left by another version of terrace; end the programs that `terrace run` \
                 has started, and remove it",
            ));
        }
        Ok(left)
    }

    fn fill(file: File, pages: usize) -> io::Result<Self> {
        let len_bytes = (pages + 1) * CONTROL_BYTES;
        // All of it: a store to a page without memory would end the process.
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len_bytes as u64)?;
        let made = Self::map(file, len_bytes)?;
        made.words(0)[1].store(LAYOUT.into(), Ordering::Release);
        made.words(0)[0].store(MAGIC, Ordering::Release);
        Ok(made)
    }

    fn map(file: File, len_bytes: usize) -> io::Result<Self> {
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
        Ok(Self { base, pages: len_bytes / CONTROL_BYTES - 1, file: Some(file) })
    }

    /// The file, by which a borrower maps the pages; `None` in a borrower.
    pub fn share(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Borrower: a thread of it is about to open a file.
    #[inline]
    pub fn announce(&self, thread: u32, process: u32) {
        self.announcement(thread).store(announcement(thread, process), Ordering::SeqCst);
    }

    /// Borrower: the thread has opened the file.
    #[inline]
    pub fn withdraw(&self, thread: u32, process: u32) {
        // Another thread may have come to the same place.
        let (place, announced) = (self.announcement(thread), announcement(thread, process));
        let _ = place.compare_exchange(announced, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Owner: a thread opens a file; the process that has announced that, once.
    pub fn take_announced(&self, thread: u32) -> Option<u32> {
        let place = self.announcement(thread);
        let found = place.load(Ordering::SeqCst);
        let is_its = thread != 0 && found as u32 == thread;
        let taken =
            is_its && place.compare_exchange(found, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        taken.then_some((found >> 32) as u32)
    }

    fn announcement(&self, thread: u32) -> &AtomicU64 {
        let place = thread as usize % ANNOUNCEMENTS.len();
        &self.words(0)[ANNOUNCEMENTS.start + place]
    }

    /// Owner: the numbers of control pages in the order in which a loan of this inode tries them.
    pub fn places(&self, ino: u64) -> impl Iterator<Item = usize> + use<> {
        let (pages, first) = (self.pages, ino as usize % self.pages);
        (first..pages).chain(0..first)
    }

    /// Borrower: the control page and the generation of a loan of this inode to `process`, which
    /// nobody has taken up yet.
    pub fn find(&self, ino: u64, process: u32) -> Option<(usize, u32)> {
        self.places(ino).take(PLACES).find_map(|page| {
            let control = self.control(page);
            let word = control.last_word();
            let is_ours = control.ino() == ino && control.borrower() == process.into();
            let is_new = is_ours && word.lasts() && !control.is_taken_up();
            is_new.then_some((page, word.generation()))
        })
    }

    /// The control page with this number.
    ///
    /// # Panics
    /// There is none.
    #[inline]
    pub fn control(&self, page: usize) -> Control<'_> {
        assert!(page < self.pages, "control page {page} of {}", self.pages);
        Control::new(self.words(page + 1))
    }

    /// The words of a page of the file, the first of which is its header.
    #[inline]
    fn words(&self, page: usize) -> &[AtomicU64; WORDS] {
        debug_assert!(page <= self.pages);
        // SAFETY: the page lies within the mapping, as the callers have seen to; the mapping lives
        // as long as self, is aligned to pages, and is reached through atomics only; every bit
        // pattern is a valid number.
        unsafe { self.base.add(page).as_ref() }
    }
}

fn announcement(thread: u32, process: u32) -> u64 {
    u64::from(thread) | u64::from(process) << 32
}

impl Drop for Segment {
    fn drop(&mut self) {
        let len_bytes = (self.pages + 1) * CONTROL_BYTES;
        // SAFETY: the mapping is this value's, of this length, and no reference to it is left. A
        // failure leaves it mapped.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), len_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_counts_once_and_for_its_thread() {
        let segment = Segment::new(3).unwrap();
        let same_place = 5 + ANNOUNCEMENTS.len() as u32;
        segment.announce(5, 70);
        assert_eq!([same_place, 6, 0].map(|other| segment.take_announced(other)), [None; 3]);
        assert_eq!([5, 5].map(|thread| segment.take_announced(thread)), [Some(70), None]);
        segment.announce(5, 70);
        segment.announce(same_place, 80);
        segment.withdraw(5, 70);
        assert_eq!(
            (segment.take_announced(5), segment.take_announced(same_place)),
            (None, Some(80))
        );
        segment.announce(5, 70);
        segment.withdraw(5, 70);
        assert_eq!(segment.take_announced(5), None);
    }

    #[test]
    fn a_loan_is_found_by_its_borrower_until_it_is_taken_up_or_ends() {
        let segment = Segment::new(20).unwrap();
        assert_eq!(segment.find(7, 70), None);
        let places: Vec<usize> = segment.places(47).collect();
        assert_eq!((&places[..2], places[19]), (&[7, 8][..], 6));
        let lend = |page: usize| {
            segment.control(page).prepare(47, 4096, 1, 70);
            segment.control(page).last_word().lend().generation()
        };
        let generation = lend(9);
        assert_eq!(segment.find(47, 70), Some((9, generation)));
        assert_eq!((segment.find(47, 71), segment.find(67, 70)), (None, None));
        assert!(segment.control(9).take_up() && !segment.control(9).take_up());
        assert_eq!(segment.find(47, 70), None);
        let generation = lend(9);
        assert_eq!(segment.find(47, 70), Some((9, generation)));
        assert!(segment.control(9).word(generation).end());
        assert_eq!(segment.find(47, 70), None);
        lend(7 + PLACES);
        assert_eq!(segment.find(47, 70), None, "nobody looks that far");
    }

    #[test]
    fn a_successor_finds_what_was_left_and_refuses_what_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("loans");
        assert!(Segment::left_at(&path).unwrap().is_none());
        let made = Segment::create(&path, 3).unwrap();
        Segment::create(&path, 3).expect_err("one is there");
        let file = made.share().unwrap().try_clone_to_owned().unwrap();
        made.words(2)[5].store(7, Ordering::Relaxed);
        drop(made);
        let left = Segment::left_at(&path).unwrap().unwrap();
        let shared = Segment::of_shared(file.into()).unwrap();
        assert_eq!((left.pages(), shared.pages()), (3, 3));
        assert!(left.share().is_some() && shared.share().is_none());
        for segment in [&left, &shared] {
            assert_eq!(segment.words(2)[5].load(Ordering::Relaxed), 7);
        }
        left.words(0)[1].store(u64::MAX, Ordering::Relaxed);
        let error = Segment::left_at(&path).unwrap_err().to_string();
        assert!(error.contains("another version of terrace"), "{error}");
        fs::write(&path, "no pages").unwrap();
        Segment::left_at(&path).unwrap_err();
        fs::write(&path, "").unwrap();
        assert!(Segment::left_at(&path).unwrap().is_none(), "nothing was lent by it");
        assert!(!path.exists());
    }
}
