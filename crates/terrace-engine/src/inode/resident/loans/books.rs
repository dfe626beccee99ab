//! The blocks of a borrower: it was lent some and has put them to no use yet, and its own commits
//! have freed others.

use rustc_hash::FxHashSet;
use terrace_layout::BlockAddr;
use terrace_store::alloc::Run;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Books {
    blocks: FxHashSet<u64>,
    lent: u64,
    runs: usize,
}

impl Books {
    /// The borrower gets a run.
    pub fn lend(&mut self, run: Run) {
        self.blocks.extend(run.start..run.start + run.len);
        self.lent += run.len;
        self.runs += 1;
    }

    /// Blocks that were lent, in all.
    pub fn lent(&self) -> u64 {
        self.lent
    }

    /// Runs that were lent, in all.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The borrower has put a block to use. False: it does not have that one.
    pub fn take(&mut self, block: u64) -> bool {
        self.blocks.remove(&block)
    }

    /// Whether the borrower has the block, and has put it to no use.
    pub fn has(&self, block: u64) -> bool {
        self.blocks.contains(&block)
    }

    /// A commit of the borrower has freed a block.
    pub fn put_back(&mut self, block: u64) {
        self.blocks.insert(block);
    }

    /// All blocks that the borrower has, in runs.
    pub fn blocks(&self) -> impl Iterator<Item = (BlockAddr, u64)> {
        let mut sorted: Vec<u64> = self.blocks.iter().copied().collect();
        sorted.sort_unstable();
        let mut runs: Vec<(BlockAddr, u64)> = Vec::new();
        for block in sorted {
            match runs.last_mut() {
                Some((addr, len)) if addr.block() + *len == block => *len += 1,
                _ => runs.push((BlockAddr::pm(block), 1)),
            }
        }
        runs.into_iter()
    }
}
