//! Loans that ended while the borrower held the file: stopped, dead, or longer than anybody waits.
//!
//! A borrower that is stopped may go on at any time, with stores to its blocks, to the log's last
//! page, and to the block that it has named: its *reach*. So the log is written anew in other
//! pages, the named block's contents go to another block, and the reach stays in quarantine until
//! the process has ended or says that it has let go. The control page holds the reach before
//! anything is moved, for a successor of this daemon.
//!
//! It may also go on while that happens, with the one change that it is making. It stores over
//! bytes of the file only after the entry that says so. So the named block is read between two
//! looks at the log that find the same: what was read has a change that counts, and none that does
//! not.

use std::cell::RefCell;

use terrace_layout::{BLOCK_BYTES, BlockAddr};
use terrace_store::alloc::Run;
use terrace_store::delegation::Control;
use terrace_store::error::{FsError, FsResult};
use terrace_store::file::{BLOCK, Mark, PmIo, PmWrite, WritePath, covered_bytes};
use terrace_store::index::Freed;
use terrace_store::planted::{Bug, planted};
use terrace_store::source::BlockSource;
use terrace_store::space::{Purpose, ShardSource};

use super::{Loan, Loans, process};
use crate::inode::resident::Inner;

/// A borrower makes one change at most after it was looked at; a wild one is looked at no oftener.
pub(super) const LOOKS_MAX: usize = 4;

/// Blocks to which a process may still store, and the control page that it looks at.
#[derive(Debug)]
pub(super) struct Quarantined {
    pub borrower: u64,
    pub page: usize,
    pub generation: u32,
    pub runs: Vec<(BlockAddr, u64)>,
}

/// Allocates as a shard does, and keeps what is freed.
#[derive(Debug)]
struct Keeping<'a> {
    source: ShardSource<'a>,
    kept: RefCell<Vec<(BlockAddr, u64)>>,
}

impl BlockSource for Keeping<'_> {
    fn alloc_data(&self, want: u64) -> Option<Run> {
        self.source.alloc_data(want).or_else(|| {
            // Better a block of those set aside than data to which two processes may store.
            self.source.alloc_meta().ok().map(|start| Run { start, len: 1 })
        })
    }

    fn alloc_meta(&self) -> FsResult<u64> {
        self.source.alloc_meta()
    }

    fn free(&self, addr: BlockAddr, blocks: u64) {
        self.kept.borrow_mut().push((addr, blocks));
    }
}

impl Loan {
    /// Moves what is live out of the borrower's reach, which goes into quarantine.
    pub(super) fn break_up(mut self, inner: &mut Inner) {
        let named = self.named(inner);
        let control = self.control();
        let runs = self.books.blocks().map(|(addr, len)| Run { start: addr.block(), len });
        control.set_reach(&named.reach(runs.collect(), inner));
        let shard = self.inode.upgrade().map_or(0, |inode| inode.shard);
        let mut runs = self.loans.move_live(control, inner, shard, named);
        match planted(Bug::LoanReachFree) {
            true => {
                let space = &self.loans.store.space;
                self.books.blocks().for_each(|(addr, blocks)| space.free(addr, blocks));
            }
            false => runs.extend(self.books.blocks()),
        }
        let Self { borrower, page, generation, .. } = self;
        self.loans.quarantine(Quarantined { borrower, page, generation, runs });
    }

    fn named(&mut self, inner: &mut Inner) -> Named {
        let mut named = self.loans.read_named(self.control());
        for _ in 0..LOOKS_MAX {
            let tail = inner.log.tail();
            // Of a log in disorder all before that place is taken in already.
            if self.adopt(inner, false).is_err() || inner.log.tail() == tail {
                break;
            }
            named = self.loans.read_named(self.control());
        }
        named
    }
}

/// The block that a borrower may change in place (0: none), and its contents.
pub(super) struct Named {
    block: u64,
    bytes: FsResult<Box<[u8; BLOCK]>>,
}

impl Named {
    /// All blocks to which the borrower may store, in order: these, the log's pages, and this one.
    pub(super) fn reach(&self, mut runs: Vec<Run>, inner: &Inner) -> Vec<Run> {
        let one = |start| Run { start, len: 1 };
        runs.extend(inner.log.pages().map(one));
        runs.extend((self.block != 0).then(|| one(self.block)));
        runs.sort_unstable_by_key(|run| run.start);
        let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
        for run in runs {
            match joined.last_mut() {
                Some(last) if last.start + last.len >= run.start => {
                    last.len = last.len.max(run.start + run.len - last.start);
                }
                _ => joined.push(run),
            }
        }
        joined
    }
}

impl Loans {
    /// Reads the block that the borrower has named.
    pub(super) fn read_named(&self, control: Control<'_>) -> Named {
        let (block, mut bytes) = (control.in_place(), Box::new([0; BLOCK]));
        // The borrower may have written anything there.
        if !self.store.space.has_in_pm(&Run { start: block, len: 1 }) {
            return Named { block: 0, bytes: Ok(bytes) };
        }
        let read = self.store.pm.try_read(BlockAddr::pm(block).byte(), &mut *bytes);
        Named { block, bytes: read.map(|()| bytes).map_err(FsError::from) }
    }

    /// Writes the log anew and the block that the borrower has named to another place; returns the
    /// blocks that they have left. From then on the borrower may know what counts.
    pub(super) fn move_live(
        &self,
        control: Control<'_>,
        inner: &mut Inner,
        shard: usize,
        named: Named,
    ) -> Vec<(BlockAddr, u64)> {
        let store = &self.store;
        // In the borrower's terms, who knows the log as it was. An earlier daemon may have written
        // it anew, and died before it could say so.
        let adopted = match control.verdict() {
            Some((position, turn)) if turn == inner.log.generation_of_tail() => position,
            _ => inner.log.tail(),
        };
        let source = store.space.source(shard, Purpose::Freeing);
        let keeping = Keeping { source, kept: RefCell::default() };
        let (pm, data_crc, stamp) = (&store.pm, store.data_crc, store.stamp());
        let io = PmIo { pm, source: &keeping, data_crc, stamp };
        // A log without a page was written anew by an earlier daemon.
        let mut written = Ok(());
        if inner.log.has_pages() {
            inner.log.turn_generation();
            control.set_verdict(adopted, inner.log.generation_of_tail());
            written = inner.compact(io, &store.journals[shard]);
        }
        let moved = written.and_then(|()| {
            let moved = move_block(inner, io, named);
            // The log as it is counts, whatever became of the block.
            if control.adopted() == 0 {
                control.set_adopted(adopted);
            }
            moved
        });
        if let Err(error) = moved {
            // Somebody may store to what others read.
            self.health.turn_read_only(&error);
        }
        keeping.kept.into_inner()
    }

    /// Adds to what is in quarantine for a loan: there is one of it, which gives the page back.
    pub(super) fn quarantine(&self, what: Quarantined) {
        let mut quarantined = self.quarantined.lock();
        match quarantined.iter_mut().find(|of| of.page == what.page) {
            Some(known) => known.runs.extend(what.runs),
            None => quarantined.push(what),
        }
    }

    /// Adds what a file had to what is in quarantine for its loan, and takes away what it has now.
    pub(super) fn keep_what_nobody_has(&self, page: usize, had: Freed, inner: &Inner) {
        let mut quarantined = self.quarantined.lock();
        if let Some(known) = quarantined.iter_mut().find(|of| of.page == page) {
            known.runs.extend(had);
            known.runs = without(std::mem::take(&mut known.runs), inner.owned());
        }
    }

    /// Process `borrower` stores to nothing of this loan any more.
    pub fn let_go(&self, borrower: u64, page: usize, generation: u32) {
        self.release(|of| (of.borrower, of.page, of.generation) == (borrower, page, generation));
    }

    /// Gives back the reach of processes that have ended.
    pub fn release_quarantined(&self) {
        if !self.quarantined.lock().is_empty() {
            self.release(|of| process::is_gone(of.borrower));
        }
    }

    /// Blocks that are in quarantine.
    pub fn quarantined_blocks(&self) -> u64 {
        let quarantined = self.quarantined.lock();
        quarantined.iter().flat_map(|of| &of.runs).map(|&(_, blocks)| blocks).sum()
    }

    /// The control pages of loans that are in quarantine.
    pub fn quarantined_pages(&self) -> Vec<usize> {
        self.quarantined.lock().iter().map(|of| of.page).collect()
    }

    /// The processes on whose account blocks are in quarantine.
    pub fn quarantined_for(&self) -> Vec<u64> {
        self.quarantined.lock().iter().map(|of| of.borrower).collect()
    }

    fn release(&self, is_over: impl Fn(&Quarantined) -> bool) {
        let over: Vec<_> = self.quarantined.lock().extract_if(.., |of| is_over(of)).collect();
        for Quarantined { page, runs, .. } in over {
            runs.iter().for_each(|&(addr, blocks)| self.store.space.free(addr, blocks));
            self.give_back_page(page);
        }
    }
}

/// The blocks of `runs`, each once, that are not `owned`.
fn without(mut runs: Freed, mut owned: Freed) -> Freed {
    runs.sort_unstable();
    owned.sort_unstable();
    let (mut left, mut owned) = (Freed::new(), owned.into_iter().peekable());
    // All before this block is decided.
    let mut next = 0;
    for (addr, blocks) in runs {
        let end = addr.0 + blocks;
        next = next.max(addr.0);
        while next < end {
            while owned.next_if(|&(addr, blocks)| addr.0 + blocks <= next).is_some() {}
            let (start, stop) = owned.peek().map_or((end, end), |&(a, n)| (a.0.min(end), a.0 + n));
            if next < start {
                left.push((BlockAddr(next), start - next));
            }
            next = start.max(stop.min(end)).max(next);
        }
    }
    left
}

/// Writes the contents of the named block to another one, if the file has it.
fn move_block(inner: &mut Inner, io: PmIo<'_>, named: Named) -> FsResult<()> {
    let Named { block, bytes } = named;
    let (log, file) = inner.file_mut()?;
    let holds = |addr: BlockAddr, blocks: u64| {
        addr.is_pm() && (addr.block()..addr.block() + blocks).contains(&block)
    };
    let found = file.index.iter().find(|(_, e)| holds(e.addr, e.blocks.into()) && !e.unwritten());
    let Some((start, extent)) = found else { return Ok(()) };
    let file_block = start + (block - extent.addr.block());
    let covered = covered_bytes(file_block, file.committed);
    if covered == 0 {
        return Ok(());
    }
    let bytes = bytes?;
    let write = PmWrite {
        offset: file_block * BLOCK_BYTES,
        data: &bytes[..covered],
        mark: Mark::of_borrower(file.mtime, 1),
        read_old: &|_, _| unreachable!("a whole block is written"),
    };
    match file.write(log, io, WritePath::Copy, &write)? {
        true => Ok(()),
        false => Err(FsError::with_message(
            libc::ENOSPC,
            "PM has no block left for one to which a stopped process may still store",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_each_block_once_that_is_not_owned() {
        let of = |runs: &[(u64, u64)]| -> Freed {
            runs.iter().map(|&(start, blocks)| (BlockAddr::pm(start), blocks)).collect()
        };
        let left = |runs: &[(u64, u64)], owned: &[(u64, u64)]| without(of(runs), of(owned));
        assert_eq!(left(&[(9, 2), (2, 4)], &[]), of(&[(2, 4), (9, 2)]));
        assert_eq!(left(&[(2, 4), (3, 5), (2, 1)], &[]), of(&[(2, 1), (3, 3), (6, 2)]));
        assert_eq!(left(&[(2, 6)], &[(4, 1)]), of(&[(2, 2), (5, 3)]));
        assert_eq!(left(&[(2, 6), (3, 1)], &[(7, 9), (1, 2), (5, 1)]), of(&[(3, 2), (6, 1)]));
        assert_eq!(left(&[(2, 2), (6, 2)], &[(1, 9)]), of(&[]));
        assert_eq!(left(&[(2, 2), (6, 2)], &[(4, 2), (8, 1)]), of(&[(2, 2), (6, 2)]));
        let disk = (BlockAddr::new(1, 5), 3);
        assert_eq!(without(vec![disk], of(&[(5, 3)])), [disk]);
    }
}
