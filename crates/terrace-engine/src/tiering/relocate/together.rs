//! Moving small pieces of several files together: they are written side by side, and one flush
//! makes all of them durable. On their way back, those that lie side by side are read at once. The
//! steps are those of one file.

use std::ops::Range;

use terrace_store::error::{FsError, FsResult};
use terrace_store::sync::Arc;

use super::buffers::{BATCH_BLOCKS, BUFFER_BLOCKS, Buffer, Copied};
use super::{Copy, Moved, Order, Part, Relocation, Relocator, SourceRun, blocks_of};
use crate::inode::resident::Inode;
use crate::inode::wear::Permit;
use crate::pageio::runs::{Placed, of_file};

impl Relocator {
    /// Relocates the wanted extents of several files of a shard to the same tiers, all at once: as
    /// many files as one buffer holds. A file that another relocation is under way of is
    /// left out. Fails as [`Self::relocate`]; one file does not keep the others.
    pub fn relocate_together(&self, shard: usize, orders: &[(Arc<Inode>, Order<'_>)]) -> Moved {
        let mut moved = Moved { blocks: 0, failed: Ok(()) };
        let (mut begun, mut blocks) = (Vec::new(), 0);
        let asked: Vec<Order<'_>> = orders.iter().map(|(_, order)| *order).collect();
        let permit = match self.permit_for(&asked) {
            Ok(permit) => permit,
            Err(error) => return Moved { blocks: 0, failed: Err(error) },
        };
        let most = permit.blocks();
        for (inode, order) in orders {
            let Some(alone) = inode.moving.try_lock() else { continue };
            match self.begin(inode, *order, most - blocks, alone) {
                Ok(found) => {
                    blocks += found.as_ref().map_or(0, |found| blocks_of(&found.written));
                    begun.extend(found);
                }
                Err(error) => moved.note_failure(error),
            }
            if blocks >= most.min(BUFFER_BLOCKS) {
                break;
            }
        }
        if orders.first().is_some_and(|(_, order)| order.tiers.first == 0) {
            // They are read in the order in which they lie; to a disk they go in theirs.
            begun.sort_by_key(|file| file.written.first().map(|piece| piece.extent.addr.0));
        }
        self.copy_together(shard, &begun, blocks.min(BUFFER_BLOCKS), &permit, &mut moved);
        for Relocation { inode, .. } in &begun {
            let ended = inode.inner.write().file_mut().map(|(_, file)| file.end_relocation());
            ended.unwrap_or_else(|error| moved.note_failure(error));
        }
        moved
    }

    /// Copies what was looked up, up to so many blocks, and commits it, file by file.
    fn copy_together(
        &self,
        shard: usize,
        begun: &[Relocation<'_>],
        blocks: u64,
        permit: &Permit,
        moved: &mut Moved,
    ) {
        let parts = &parts_of(begun, blocks);
        let (batches, longest) = batches_of(parts);
        let files = |batch: Range<usize>| batch.clone().zip(&begun[batch]);
        let fill = |buffer: &mut Buffer, batch: Range<usize>| {
            let ahead = &self.read_ahead(buffer, parts[batch.clone()].iter().copied().flatten());
            let fill = |(number, file): (usize, &Relocation<'_>)| {
                let Relocation { inode, committed, .. } = *file;
                let pieces = parts[number];
                self.fill(buffer, Part { number, inode, pieces, committed, ahead })
            };
            // One file does not keep the others.
            files(batch).map(fill).fold(Ok(()), Result::and)
        };
        // Buffers of this size are kept for the next series.
        let longest = longest.max(BATCH_BLOCKS);
        let (copies, failed) = self.copy_in_turn(&batches, longest, fill, |batch, full| {
            self.place_together(shard, files(batch), full, permit)
        });
        failed.unwrap_or_else(|error| moved.note_failure(error));
        self.commit_together(begun, copies.into_iter().flatten().collect(), moved);
    }

    /// Writes what a buffer holds of these numbered files to where it goes; returns the copies of
    /// each.
    fn place_together<'a>(
        &self,
        shard: usize,
        files: impl Iterator<Item = (usize, &'a Relocation<'a>)> + Clone,
        buffer: &Buffer,
        permit: &Permit,
    ) -> FsResult<Vec<(usize, Copy<'a>)>> {
        let Some(tiers) = files.clone().next().map(|(_, first)| first.order.tiers) else {
            return Ok(Vec::new());
        };
        let all = buffer.copied();
        let copied: Vec<Copied<'_>> = (files.clone())
            .flat_map(|(number, file)| {
                let own = of_file(&all, number, |copy| copy.file);
                self.not_overtaken(file.inode, own.to_vec())
            })
            .collect();
        let own = |number| of_file(&copied, number, |copy| copy.file);
        let placed = match tiers.first {
            0 => (files.clone())
                .flat_map(|(n, file)| self.pages.store_in_pm(shard, own(n), file.committed))
                .collect(),
            _ => self.write_to_tiers(shard, &copied, tiers, permit)?,
        };
        placed.iter().for_each(|run| permit.wrote(run.addr.device(), run.blocks()));
        let copy = |(number, file): (usize, &'a Relocation<'a>)| {
            let placed = of_file(&placed, number, |run| run.pages[0].file);
            let kept = self.copies_to_keep(file.inode, file.order, own(number).iter());
            let runs = placed.iter().map(Placed::run).collect();
            (number, Copy { pieces: &file.written, runs, kept })
        };
        Ok(files.map(copy).collect())
    }

    /// Makes copies of several files durable, and commits of each what nobody has changed. Then
    /// the blocks move that hold nothing.
    fn commit_together(
        &self,
        begun: &[Relocation<'_>],
        copies: Vec<(usize, Copy<'_>)>,
        moved: &mut Moved,
    ) {
        let runs = copies.iter().flat_map(|(_, copy)| &copy.runs);
        let durable = self.make_durable(runs.map(|run| run.addr.device()));
        let mut is_over = durable.is_err();
        durable.unwrap_or_else(|error| moved.note_failure(error));
        let mut note = |outcome| match outcome {
            Ok(blocks) => {
                moved.blocks += blocks;
                false
            }
            Err(error) => {
                let is_fatal = FsError::is_fatal(&error);
                moved.note_failure(error);
                is_fatal
            }
        };
        for (number, copy) in copies {
            if is_over {
                self.pages.free_runs(&copy.runs);
            } else {
                is_over = note(self.commit_copy(&begun[number], copy));
            }
        }
        for file in begun {
            is_over = is_over || note(self.move_reserved(file));
        }
    }
}

/// The pieces of each file that are copied, as many as have no more blocks than this in all.
fn parts_of<'a>(begun: &'a [Relocation<'_>], blocks: u64) -> Vec<&'a [SourceRun]> {
    let mut left = blocks;
    let mut part = |file: &'a Relocation<'_>| {
        let pieces = fitting(&file.written, left);
        left -= blocks_of(pieces);
        pieces
    };
    begun.iter().map(&mut part).collect()
}

/// Files, by their numbers, whose parts go through one buffer, and the most blocks of one.
fn batches_of(parts: &[&[SourceRun]]) -> (Vec<Range<usize>>, u64) {
    let (mut batches, mut from, mut blocks, mut longest) = (Vec::new(), 0, 0, 0);
    for (number, pieces) in parts.iter().enumerate() {
        let more = blocks_of(pieces);
        if number > from && blocks + more > BATCH_BLOCKS {
            batches.push(from..number);
            (from, blocks) = (number, 0);
        }
        blocks += more;
        longest = longest.max(blocks);
    }
    if longest > 0 {
        batches.push(from..parts.len());
    }
    (batches, longest)
}

/// The first pieces, as many as have no more blocks than this together.
fn fitting(pieces: &[SourceRun], blocks: u64) -> &[SourceRun] {
    let mut all = 0;
    let fits = |piece: &&SourceRun| {
        all += u64::from(piece.extent.blocks);
        all <= blocks
    };
    &pieces[..pieces.iter().take_while(fits).count()]
}
