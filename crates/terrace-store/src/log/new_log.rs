//! A log that is being written anew: pages for compaction, or a draft.

use terrace_layout::MediaStruct;

use crate::error::FsResult;

/// Takes the live entries of a log, in order.
pub trait NewLog {
    /// Adds an entry; returns its position.
    ///
    /// # Errors
    /// `ENOSPC`.
    fn push<T: MediaStruct>(&mut self, head: &T, parts: &[&[u8]]) -> FsResult<u64>;

    /// The value of [`AttrEntry::next_page`](terrace_layout::AttrEntry::next_page) that the
    /// attributes are to hold.
    fn next_page(&self) -> u64 {
        0
    }
}
