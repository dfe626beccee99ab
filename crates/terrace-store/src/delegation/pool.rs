//! The borrower's blocks: those that it was lent, and those that its own commits have freed.

use std::cell::RefCell;

use terrace_layout::BlockAddr;

use super::Control;
use crate::alloc::Run;
use crate::error::{FsResult, fail};
use crate::source::BlockSource;

/// So many runs are looked at for one that is long enough.
const LOOKED_AT: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct Pool {
    free: RefCell<Free>,
}

#[derive(Debug)]
struct Free {
    runs: Vec<Run>,
    blocks: u64,
}

impl Pool {
    /// The blocks that a new loan comes with.
    pub fn new(control: Control<'_>) -> Self {
        let runs: Vec<Run> = control.runs().collect();
        let blocks = runs.iter().map(|run| run.len).sum();
        Self { free: RefCell::new(Free { runs, blocks }) }
    }

    /// Blocks that can be taken.
    #[inline]
    pub fn blocks(&self) -> u64 {
        self.free.borrow().blocks
    }
}

impl Free {
    /// The run to take `want` blocks from: the last that is long enough, or else the longest of
    /// those that were looked at.
    #[inline]
    fn choose(&self, want: u64) -> Option<usize> {
        let last = self.runs.len().checked_sub(1)?;
        if self.runs[last].len >= want {
            return Some(last);
        }
        let looked_at = last.saturating_sub(LOOKED_AT)..=last;
        let found = looked_at.clone().rev().find(|&i| self.runs[i].len >= want);
        // The first one is what the loan came with, most often the longest.
        let longest = || looked_at.chain([0]).max_by_key(|&i| self.runs[i].len);
        found.or_else(longest)
    }

    #[inline]
    fn take(&mut self, want: u64) -> Option<Run> {
        let index = self.choose(want)?;
        let run = &mut self.runs[index];
        let taken = Run { start: run.start, len: want.min(run.len) };
        *run = Run { start: run.start + taken.len, len: run.len - taken.len };
        if run.len == 0 {
            self.runs.remove(index);
        }
        self.blocks -= taken.len;
        Some(taken)
    }

    #[inline]
    fn put_back(&mut self, run: Run) {
        self.blocks += run.len;
        match self.runs.last_mut() {
            Some(last) if last.start + last.len == run.start => last.len += run.len,
            Some(last) if run.start + run.len == last.start => {
                *last = Run { start: run.start, len: last.len + run.len }
            }
            _ => self.runs.push(run),
        }
    }
}

impl BlockSource for Pool {
    #[inline]
    fn alloc_data(&self, want: u64) -> Option<Run> {
        self.free.borrow_mut().take(want)
    }

    fn alloc_meta(&self) -> FsResult<u64> {
        match self.free.borrow_mut().take(1) {
            Some(run) => Ok(run.start),
            None => fail(libc::ENOSPC),
        }
    }

    #[inline]
    fn free(&self, addr: BlockAddr, blocks: u64) {
        debug_assert!(addr.is_pm(), "only files in PM are lent");
        self.free.borrow_mut().put_back(Run { start: addr.block(), len: blocks });
    }
}
