//! What the kernel has of each file: how many open files, and perhaps an old idea of the size.
//!
//! The kernel learns of a new size by attributes alone. So while a file is lent, and until the
//! kernel has asked for its attributes after that, the kernel is *behind*: a cached append would go
//! to the wrong place of its cache, and a mapping would end too early.
//!
//! Invariants:
//! * The count of open files is never lower than the kernel's: they are counted before OPEN or
//!   CREATE is answered. It may be higher after a daemon has died; then the file is not lent before
//!   the kernel has forgotten it.
//! * A file that is marked to have no pages in the kernel has been lent, and no message that may
//!   bring pages has come since. The kernel keeps no attributes of it, either.
//! * A file that is not marked behind has not been lent since the kernel asked for its attributes.
//! * All of it is in the ledger, so a successor of the daemon knows it.

use terrace_transport::Ledger;

/// The count of open files.
const OPENS: u64 = (1 << 24) - 1;
/// The kernel has no pages of it, and is to keep no attributes.
const NO_PAGES: u64 = 1 << 29;
/// The kernel is behind.
const BEHIND: u64 = 1 << 30;
/// An open of the file was refused, so that the kernel asks for the attributes.
const ASKED: u64 = 1 << 31;
/// Loans of the file are counted above this.
const LOAN: u64 = 1 << 32;

/// See the module.
#[derive(Debug)]
pub(super) struct Opens(&'static Ledger);

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As ever.
    Cached,
    /// Past the kernel's cache.
    Uncached,
    /// After the kernel has looked the name up again, which brings attributes.
    AskAgain,
}

impl Opens {
    pub fn new(ledger: &'static Ledger) -> Self {
        Self(ledger)
    }

    /// How many open files there are.
    pub fn count(&self, ino: u64) -> u64 {
        self.0.word(ino) & OPENS
    }

    /// The file is being opened.
    pub fn open(&self, ino: u64) {
        self.0.change_word(ino, |word| (word & OPENS < OPENS).then_some(word + 1));
    }

    /// An open file is gone.
    pub fn close(&self, ino: u64) {
        // A count that has reached its end stays there: it is known no more.
        self.0.change_word(ino, |word| (1..OPENS).contains(&(word & OPENS)).then_some(word - 1));
    }

    /// The file is about to be lent: the kernel is behind from now on. False: that cannot be noted.
    pub fn lend(&self, ino: u64) -> bool {
        let lent = |word: u64| Some((word & !ASKED | BEHIND).wrapping_add(LOAN));
        self.0.change_word(ino, lent).is_some()
    }

    /// A file is lent, of which the kernel has no pages. It gets none without a message.
    pub fn has_no_pages(&self, ino: u64) {
        self.0.change_word(ino, |word| Some(word | NO_PAGES));
    }

    /// The kernel may get pages.
    #[inline]
    pub fn may_have_pages(&self, ino: u64) {
        if self.knows_no_pages(ino) {
            self.0.change_word(ino, |word| Some(word & !NO_PAGES));
        }
    }

    /// Whether the kernel has got no pages since the file was lent last.
    #[inline]
    pub fn knows_no_pages(&self, ino: u64) -> bool {
        self.0.word(ino) & NO_PAGES != 0
    }

    /// If the kernel is behind: how many times the file has been lent.
    #[inline]
    pub fn behind(&self, ino: u64) -> Option<u64> {
        let word = self.0.word(ino);
        (word & BEHIND != 0).then_some(word / LOAN)
    }

    /// The kernel is about to get attributes that were read after so many loans had ended. False:
    /// there has been another loan.
    pub fn catch_up(&self, ino: u64, loans: u64) -> bool {
        let caught_up = |word: u64| (word / LOAN == loans).then_some(word & !(BEHIND | ASKED));
        self.0.change_word(ino, caught_up).is_some()
    }

    /// How a file that is not lent is opened. A file that is opened by another way than its name
    /// is not looked up again: then the kernel stays behind, and the next open has it ask.
    pub fn way(&self, ino: u64, flags: i32) -> Way {
        let turn = |word: u64| (word & BEHIND != 0).then_some(word ^ ASKED);
        let word = match self.0.change_word(ino, turn) {
            Some(before) if before & ASKED == 0 => return Way::AskAgain,
            Some(before) => before,
            None => self.0.word(ino),
        };
        if word & BEHIND != 0 { Way::Uncached } else { Self::way_of_use(flags) }
    }

    /// How a file is opened whose attributes the kernel knows, or will ask for before it uses them.
    /// It does not ask before each append: through its cache, one that comes by a bare system call
    /// or by io_uring while the file is lent would put bytes into a wrong page. Past the cache it
    /// is right wherever the end is.
    pub fn way_of_use(flags: i32) -> Way {
        if flags & libc::O_APPEND != 0 { Way::Uncached } else { Way::Cached }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens() -> Opens {
        Opens::new(Ledger::new().unwrap())
    }

    #[test]
    fn open_files_are_counted_beside_loans() {
        let opens = opens();
        opens.open(7);
        opens.open(7);
        assert!(opens.lend(7) && opens.lend(7));
        opens.close(7);
        assert_eq!((opens.count(7), opens.count(8), opens.behind(7)), (1, 0, Some(2)));
        opens.close(7);
        opens.close(7);
        assert_eq!(opens.count(7), 0);
        assert!(!opens.lend(u64::MAX), "no inode has that number");
    }

    #[test]
    fn a_kernel_that_is_behind_asks_for_attributes_at_the_next_open() {
        let opens = opens();
        assert_eq!(opens.way(7, libc::O_RDONLY), Way::Cached);
        opens.lend(7);
        assert_eq!(opens.way(7, libc::O_RDONLY), Way::AskAgain);
        // It has not asked: the file was not opened by its name.
        assert_eq!(opens.way(7, libc::O_RDONLY), Way::Uncached);
        assert_eq!(opens.way(7, libc::O_RDONLY), Way::AskAgain, "this one may do");
        assert!(opens.catch_up(7, 1));
        assert_eq!((opens.way(7, libc::O_RDONLY), opens.behind(7)), (Way::Cached, None));
        for ino in [7, 8] {
            assert_eq!(opens.way(ino, libc::O_WRONLY | libc::O_APPEND), Way::Uncached);
            assert_eq!(opens.way(ino, libc::O_RDWR | libc::O_APPEND), Way::Uncached);
        }
    }

    #[test]
    fn a_file_has_no_pages_from_a_loan_to_the_next_message() {
        let opens = opens();
        opens.open(7);
        opens.may_have_pages(7);
        assert!(!opens.knows_no_pages(7));
        opens.lend(7);
        assert!(!opens.knows_no_pages(7), "they are dropped after that");
        opens.has_no_pages(7);
        opens.close(7);
        opens.open(7);
        assert_eq!((opens.knows_no_pages(7), opens.count(7), opens.behind(7)), (true, 1, Some(1)));
        opens.may_have_pages(7);
        assert_eq!((opens.knows_no_pages(7), opens.count(7), opens.behind(7)), (false, 1, Some(1)));
    }

    #[test]
    fn attributes_from_before_a_loan_do_not_count() {
        let opens = opens();
        opens.lend(7);
        let loans = opens.behind(7).unwrap();
        opens.lend(7);
        assert!(!opens.catch_up(7, loans));
        assert_eq!(opens.way(7, 0), Way::AskAgain);
        opens.lend(7);
        assert_eq!(opens.way(7, 0), Way::AskAgain, "each loan asks anew");
    }
}
