//! The last step of a move: copies are made durable, and what nobody has changed meanwhile is
//! committed.

use std::collections::BTreeSet;

use terrace_layout::{BLOCK_BYTES, History};
use terrace_policy::Rule;
use terrace_store::error::FsResult;
use terrace_store::file::DataRun;
use terrace_store::planted::{Bug, planted};
use terrace_store::space::Purpose;

use super::{Copy, Moved, Order, Relocation, Relocator, SourceRun, is_gone};
use crate::base::counters::{Counter, Passage};
use crate::base::types::Time;
use crate::inode::resident::{Inner, Inode};

impl Relocator {
    /// Makes copies durable, and commits of each what nobody has changed meanwhile.
    pub(super) fn commit_copies(&self, begun: &Relocation<'_>, copies: Vec<Copy<'_>>) -> Moved {
        let devices = copies.iter().flat_map(|copy| &copy.runs).map(|run| run.addr.device());
        let mut moved = Moved { blocks: 0, failed: self.make_durable(devices) };
        for copy in copies {
            match moved.failed {
                Ok(()) => moved.go_on(|| self.commit_copy(begun, copy)),
                Err(_) => self.pages.free_runs(&copy.runs),
            }
        }
        moved
    }

    /// Makes durable what these devices took.
    pub(super) fn make_durable(&self, devices: impl Iterator<Item = u16>) -> FsResult<()> {
        // PM is made durable by each commit's fence.
        let disks: BTreeSet<u16> = devices.filter(|&device| device > 0).collect();
        if disks.is_empty() {
            return Ok(());
        }
        if !planted(Bug::MoveNotFlushed) {
            self.pages.flush_disks(disks)?;
        }
        // With data that leaves PM, logs may leave their pages.
        self.devices.allow_archives()
    }

    /// Commits of a durable copy what nobody has changed meanwhile.
    pub(super) fn commit_copy(&self, begun: &Relocation<'_>, copy: Copy<'_>) -> FsResult<u64> {
        let Relocation { inode, order, .. } = *begun;
        let mut inner = inode.inner.write();
        // A file that is gone has given back its blocks, and nothing is current any more.
        let gone = is_gone(inode);
        let file = inner.file()?;
        let is_current = |block: u64| !gone && file.is_current(block);
        let flags =
            |run: &DataRun| (run.file_block..run.file_block + run.blocks).map(is_current).collect();
        let (mut runs, overtaken) = self.pages.sift(copy.runs.into_iter().map(|run| {
            let flags = flags(&run);
            (run, flags)
        }));
        self.counters.add(Counter::MigrationsOvertaken, overtaken.len() as u64 * BLOCK_BYTES);
        let kept: Vec<_> = copy.kept.into_iter().filter(|(block, _)| is_current(*block)).collect();
        for run in &mut runs {
            describe(run, copy.pieces, order.rule);
        }
        let blocks = self.publish(inode, &mut inner, order, copy.pieces, &runs)?;
        if order.tiers.first == 0 {
            // Readers look there first: what PM holds is read from PM.
            let clean = |run: &DataRun| {
                self.cache.drop_clean(&inode.pages, run.file_block, run.file_block + run.blocks);
            };
            runs.iter().for_each(clean);
        }
        self.cache.publish_clean(&inode.pages, kept);
        Ok(blocks)
    }

    /// Relocates blocks that are allocated and hold nothing.
    pub(super) fn move_reserved(&self, begun: &Relocation<'_>) -> FsResult<u64> {
        let Relocation { inode, order, reserved: ref pieces, .. } = *begun;
        let holes: Vec<_> = pieces.iter().map(|p| (p.block, u64::from(p.extent.blocks))).collect();
        if holes.is_empty() {
            return Ok(0);
        }
        let found = self.pages.take_runs_on(inode.shard, &holes, order.tiers)?;
        let mut inner = inode.inner.write();
        let file = inner.file()?;
        let gone = is_gone(inode);
        let mut runs = Vec::new();
        for (file_block, addr, blocks) in found {
            if gone || file.is_overtaken(file_block, blocks) {
                self.store.space.free(addr, blocks);
                continue;
            }
            let mut run = DataRun { blocks, unwritten: true, ..DataRun::new(file_block, addr) };
            describe(&mut run, pieces, order.rule);
            runs.push(run);
        }
        self.publish(inode, &mut inner, order, pieces, &runs)
    }

    /// Commits where data is now; returns how many blocks.
    fn publish(
        &self,
        inode: &Inode,
        inner: &mut Inner,
        order: Order<'_>,
        pieces: &[SourceRun],
        runs: &[DataRun],
    ) -> FsResult<u64> {
        if runs.is_empty() {
            return Ok(0);
        }
        // Data that leaves PM makes room there, and may take the last blocks for that.
        let frees = order.tiers.first > 0 && pieces.iter().any(|piece| piece.extent.addr.is_pm());
        let source = self
            .store
            .space
            .source(inode.shard, if frees { Purpose::Freeing } else { Purpose::Ordinary });
        let (log, file) = inner.file_mut()?;
        file.commit_relocated(log, self.store.io(&source), runs)
            .inspect_err(|_| self.pages.free_runs(runs))?;
        runs.iter()
            .for_each(|run| self.activity.note_data_in(inode, self.store.space.tier_of(run.addr)));
        let blocks = runs.iter().map(|run| run.blocks).sum::<u64>();
        self.counters.add(Counter::of_rule(order.rule), blocks * BLOCK_BYTES);
        self.count_passages(pieces, runs);
        self.commits.tidy(inode.shard, inner)?;
        if frees && self.conditions.logs_leave() {
            let pages = self.commits.retreat_into_record(inode.shard, inner)?;
            self.counters.add(Counter::MigratedLogs, pages * BLOCK_BYTES);
        }
        Ok(blocks)
    }

    /// Counts what has left tiers and come to others.
    fn count_passages(&self, pieces: &[SourceRun], runs: &[DataRun]) {
        let count = |passage, addr, blocks| {
            let tier = self.store.space.tier_of(addr);
            self.counters.add_passed(passage, tier, blocks * BLOCK_BYTES);
        };
        for run in runs {
            count(Passage::MovedIn, run.addr, run.blocks);
            for piece in pieces_of(run, pieces) {
                let (from, to) = (run.file_block, run.file_block + run.blocks);
                let end = piece.block + u64::from(piece.extent.blocks);
                let blocks = to.min(end) - from.max(piece.block);
                count(Passage::MovedOut, piece.extent.addr, blocks);
            }
        }
    }
}

/// The pieces that a run is made of.
fn pieces_of<'a>(run: &DataRun, pieces: &'a [SourceRun]) -> impl Iterator<Item = &'a SourceRun> {
    let end = run.file_block + run.blocks;
    let first = pieces.partition_point(|p| p.block + u64::from(p.extent.blocks) <= run.file_block);
    pieces[first..].iter().take_while(move |p| p.block < end)
}

/// What the entry of a run has to say of the pieces that it is made of.
fn describe(run: &mut DataRun, pieces: &[SourceRun], rule: Rule) {
    let (mut counter, mut area, mut mtime) = (u8::MAX, 0, i64::MIN);
    for piece in pieces_of(run, pieces) {
        counter = counter.min(piece.extent.counter());
        area = area.max(piece.extent.area_blocks());
        mtime = mtime.max(piece.entry.mtime_ns);
    }
    run.history = History::new(counter, area, rule.number()).to_word();
    run.mtime = Time(mtime);
}
