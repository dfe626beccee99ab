//! Files that another process reads and writes in PM by itself.
//!
//! The *owner* is the process that has the volume open. It *lends* a file to a *borrower*: for as
//! long as the loan lasts, the file's log and data are the borrower's, and the owner's knowledge of
//! them is out of date. The owner may end the loan at any time, and then takes in what the borrower
//! has committed ([`Log::catch_up`](crate::log::Log::catch_up)).
//!
//! Both see a [`Control`] page in shared memory ([`Segment`]). Its [`word`] says who may change the
//! file now. The borrower takes new blocks from the page's [`Pool`], and gives none back: the owner
//! knows from the log which of them are in use.
//!
//! Invariants:
//! * The borrower stores to PM only while the word says that it holds the file, and only to blocks
//!   of its pool, to the log's last page, to the tail word, and to the one block that the control
//!   page names (`in_place`). It names the block before it takes the word.
//! * It releases the word after a fence of its own, so all that a free word shows is durable.
//! * It touches no memory of the program while it holds the word.
//! * A loan that ended while the word was held is *broken*: the borrower may still be about to
//!   store to all these places. The owner gives none of them to anybody else before the borrower
//!   has answered or its process has ended, and moves what is live in them.

mod control;
pub mod message;
mod pool;
mod segment;
pub mod word;

pub use self::control::{Control, POOL_RUNS_MAX, Tally};
pub use self::pool::Pool;
pub use self::segment::Segment;

/// Why a file is not lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NotLent {
    /// This mount lends nothing: it was mounted so, may not be written, its PM has checksums of
    /// data, or is of a kind that other processes cannot make durable; or somebody records what
    /// programs ask for.
    Off,
    /// It is no regular file, or has lost its last name.
    NotAFile,
    /// A write would take set-id bits or capabilities away.
    Privileged,
    /// It is pinned to a disk.
    Pinned,
    /// Some of it, or its log, is not in PM, or waits in memory for its disk.
    NotInPm,
    /// The policy sends what is written next to a disk.
    Asynchronous,
    /// Its data is being moved.
    Moving,
    /// PM has no room, or too many files are lent.
    NoRoom,
    /// Another process has it, or has it open.
    Elsewhere,
}

impl NotLent {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Off,
        Self::NotAFile,
        Self::Privileged,
        Self::Pinned,
        Self::NotInPm,
        Self::Asynchronous,
        Self::Moving,
        Self::NoRoom,
        Self::Elsewhere,
    ];
}
