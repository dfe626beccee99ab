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
mod pool;
mod segment;
pub mod word;

pub use self::control::{Control, POOL_RUNS_MAX, Tally};
pub use self::pool::Pool;
pub use self::segment::Segment;
