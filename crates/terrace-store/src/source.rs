//! The source of PM blocks, as one inode's log and data see it.
//!
//! A program that links this crate alone gives a source of its own; in a volume it is a view of
//! the allocators ([`space`](crate::space)).

use terrace_layout::BlockAddr;

use crate::alloc::Run;
use crate::error::FsResult;

/// New blocks come from here, and freed ones go back to it.
pub trait BlockSource: std::fmt::Debug {
    /// A run of up to `want` PM blocks for file data, at least one block; `None` when PM has no
    /// room for data.
    fn alloc_data(&self, want: u64) -> Option<Run>;

    /// The number of one PM block for metadata.
    ///
    /// # Errors
    /// `ENOSPC` when PM is full.
    fn alloc_meta(&self) -> FsResult<u64>;

    /// Takes back `blocks` blocks from `addr` on: nothing on media refers to them any more.
    fn free(&self, addr: BlockAddr, blocks: u64);
}
