//! Reading ahead: pieces that lie side by side on a disk are read at once, whichever files they are
//! of. They have been written so by the move that brought them there.

use std::collections::BTreeMap;

use terrace_layout::{BLOCK_BYTES, BlockAddr};
use terrace_store::file::BLOCK;

use super::buffers::Buffer;
use super::{Relocator, SourceRun};

/// Which bytes of a buffer have been read ahead: where they begin, by the address that they are of.
#[derive(Debug, Default)]
pub(super) struct ReadAhead(BTreeMap<u64, usize>);

impl ReadAhead {
    /// The place in the buffer of the data that lies on a disk from `addr` on.
    pub fn place_of(&self, addr: BlockAddr) -> Option<usize> {
        self.0.get(&addr.0).copied()
    }
}

/// Pieces that lie side by side, and where the first goes.
struct Run<'a> {
    pieces: Vec<&'a SourceRun>,
    blocks: u64,
    at: usize,
}

impl Run<'_> {
    fn is_followed_by(&self, piece: &SourceRun) -> bool {
        let first = self.pieces[0].extent.addr;
        first.device() == piece.extent.addr.device()
            && first.offset(self.blocks).0 == piece.extent.addr.0
    }
}

impl Relocator {
    /// Reads pieces on disks to where they go in an empty buffer if each has its place behind the
    /// one before. A run that cannot be read is left to those who read piece by piece.
    pub(super) fn read_ahead<'a>(
        &self,
        buffer: &mut Buffer,
        pieces: impl Iterator<Item = &'a SourceRun>,
    ) -> ReadAhead {
        let mut ahead = ReadAhead::default();
        for run in runs_of(pieces) {
            let first = run.pieces[0].extent.addr;
            let bytes = &mut buffer.bytes[run.at..][..run.blocks as usize * BLOCK];
            let disk = self.store.space.disk(first.device());
            if disk.is_ok_and(|disk| disk.disk.read_at(first.byte(), bytes).is_ok()) {
                let mut at = run.at;
                for piece in run.pieces {
                    ahead.0.insert(piece.extent.addr.0, at);
                    at += piece.extent.blocks as usize * BLOCK;
                }
            }
        }
        ahead
    }
}

/// Runs of more than one piece, on disks.
fn runs_of<'a>(pieces: impl Iterator<Item = &'a SourceRun>) -> Vec<Run<'a>> {
    let (mut runs, mut at) = (Vec::<Run<'a>>::new(), 0);
    for piece in pieces {
        let blocks = u64::from(piece.extent.blocks);
        match runs.last_mut().filter(|last| last.is_followed_by(piece)) {
            Some(last) => {
                last.pieces.push(piece);
                last.blocks += blocks;
            }
            None => runs.push(Run { pieces: vec![piece], blocks, at }),
        }
        at += (blocks * BLOCK_BYTES) as usize;
    }
    runs.retain(|run| run.pieces.len() > 1 && !run.pieces[0].extent.addr.is_pm());
    runs
}
