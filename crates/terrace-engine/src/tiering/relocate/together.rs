//! Moving small pieces of several files together: they are written side by side, and one flush
//! makes all of them durable. On their way back, those that lie side by side are read at once. The
//! steps are those of one file.

use terrace_store::file::DataRun;
use terrace_store::sync::Arc;

use super::buffers::{BUFFER_BLOCKS, Copied};
use super::{Copy, Moved, Order, Part, Relocation, Relocator, SourceRun, blocks_of};
use crate::inode::resident::Inode;
use crate::inode::wear::Permit;
use crate::pageio::runs::Placed;

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
                Ok(found) => begun.extend(found),
                Err(error) => moved.note_failure(error),
            }
            blocks = begun.iter().map(|begun: &Relocation<'_>| blocks_of(&begun.written)).sum();
            if blocks >= most.min(BUFFER_BLOCKS) {
                break;
            }
        }
        if orders.first().is_some_and(|(_, order)| order.tiers.first == 0) {
            // They are read in the order in which they lie; to a disk they go in theirs.
            let address = |file: &Relocation<'_>| file.written.first().map(|p| p.extent.addr.0);
            begun.sort_by_key(address);
        }
        self.copy_together(shard, &begun, blocks.min(BUFFER_BLOCKS), &permit, &mut moved);
        for Relocation { inode, .. } in &begun {
            let ended = inode.inner.write().file_mut().map(|(_, file)| file.end_relocation());
            ended.unwrap_or_else(|error| moved.note_failure(error));
        }
        moved
    }

    /// Copies what was looked up, a buffer full, and commits it, file by file.
    fn copy_together(
        &self,
        shard: usize,
        begun: &[Relocation<'_>],
        blocks: u64,
        permit: &Permit,
        moved: &mut Moved,
    ) {
        let Some(first) = begun.first() else { return };
        let mut buffer = self.buffers.take(BUFFER_BLOCKS);
        buffer.blocks.clear();
        let parts = parts_of(begun, blocks);
        let ahead = &self.read_ahead(&mut buffer, parts.iter().copied().flatten());
        for (number, (file, pieces)) in begun.iter().zip(parts).enumerate() {
            let Relocation { inode, committed, .. } = *file;
            let read = self.fill(&mut buffer, Part { number, inode, pieces, committed, ahead });
            read.unwrap_or_else(|error| moved.note_failure(error));
        }
        let all = buffer.copied();
        let of_file = |number| of_number(&all, number, |copy| copy.file).to_vec();
        let copied: Vec<Copied<'_>> = (begun.iter().enumerate())
            .flat_map(|(number, file)| self.not_overtaken(file.inode, of_file(number)))
            .collect();
        let placed = match first.order.tiers.first {
            0 => Ok(self.store_together(shard, begun, &copied)),
            _ => self.write_to_tiers(shard, &copied, first.order.tiers, permit),
        };
        match placed {
            Ok(placed) => {
                placed.iter().for_each(|run| permit.wrote(run.addr.device(), run.blocks()));
                self.commit_together(begun, &copied, &placed, moved);
            }
            Err(error) => moved.note_failure(error),
        }
        drop((copied, all));
        self.buffers.give_back(buffer);
    }

    /// Stores copies of several files in PM, as many as it takes.
    fn store_together<'a>(
        &self,
        shard: usize,
        begun: &[Relocation<'_>],
        copied: &'a [Copied<'a>],
    ) -> Vec<Placed<'a, Copied<'a>>> {
        let of_file = |number| of_number(copied, number, |copy| copy.file);
        (begun.iter().enumerate())
            .flat_map(|(n, file)| self.pages.store_in_pm(shard, of_file(n), file.committed))
            .collect()
    }

    /// Makes copies of several files durable, and commits of each what nobody has changed.
    fn commit_together(
        &self,
        begun: &[Relocation<'_>],
        copied: &[Copied<'_>],
        placed: &[Placed<'_, Copied<'_>>],
        moved: &mut Moved,
    ) {
        let file_of = |run: &Placed<'_, Copied<'_>>| run.pages[0].file;
        let runs_of = |number| {
            let own = of_number(placed, number, file_of);
            own.iter().map(Placed::run).collect::<Vec<DataRun>>()
        };
        let durable = self.make_durable(placed.iter().map(|run| run.addr.device()));
        let mut is_over = durable.is_err();
        durable.unwrap_or_else(|error| moved.note_failure(error));
        for (number, file) in begun.iter().enumerate() {
            let runs = runs_of(number);
            if is_over {
                self.pages.free_runs(&runs);
                continue;
            }
            let of_file = of_number(copied, number, |page| page.file);
            let kept = self.copies_to_keep(file.inode, file.order, of_file.iter());
            let committed = self.commit_copy(file, Copy { pieces: &file.written, runs, kept });
            for moved_blocks in [committed, self.move_reserved(file)] {
                match moved_blocks {
                    Ok(blocks) => moved.blocks += blocks,
                    Err(error) => {
                        is_over |= error.is_fatal();
                        moved.note_failure(error);
                    }
                }
            }
        }
    }
}

/// Those that are of a file, among all, which are in the order of their files.
fn of_number<T>(all: &[T], number: usize, file_of: impl Fn(&T) -> usize) -> &[T] {
    let from = all.partition_point(|one| file_of(one) < number);
    let len = all[from..].partition_point(|one| file_of(one) == number);
    &all[from..from + len]
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

/// The first pieces, as many as have no more blocks than this together.
fn fitting(pieces: &[SourceRun], blocks: u64) -> &[SourceRun] {
    let mut all = 0;
    let fits = |piece: &&SourceRun| {
        all += u64::from(piece.extent.blocks);
        all <= blocks
    };
    &pieces[..pieces.iter().take_while(fits).count()]
}
