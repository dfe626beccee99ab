//! Cold data of one file, or of many files that have little each, and its way to another tier.

use std::ops::Range;

use terrace_policy::{ColdCut, Leaving, Piece, Pressure, Rule};
use terrace_store::space::Tiers;
use terrace_store::sync::Arc;

use crate::inode::resident::Inode;
use crate::inode::store::Store;
use crate::inode::wear::Wear;
use crate::tiering::relocate::buffers::BUFFER_BLOCKS;
use crate::tiering::round::Round;

/// Files of which together something moves, at most.
pub(crate) const TOGETHER_FILES_MAX: usize = 1024;

/// The way of a shard's cold data from one tier to another.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub shard: usize,
    pub from: u8,
    pub to: u8,
    /// Why it leaves.
    pub leaving: Leaving,
    /// About how many blocks are to go.
    pub most: u64,
    /// For how long data counts as written lately.
    pub lately_ns: i64,
    /// PM has little room for data.
    pub is_scarce: bool,
}

/// The cold data of a file.
pub(crate) struct Cold {
    /// The pressure under which it was found.
    pub pressure: Pressure,
    /// Its entries are older than this time; `None`: all of the file is cold.
    pub such: Option<ColdCut>,
    pub pieces: Vec<Piece>,
}

impl Way {
    /// The rule of data that goes this way.
    pub fn rule(&self, cold: &Cold, together: bool) -> Rule {
        Rule::of_cold(self.leaving, cold.pressure, together)
    }
}

impl Cold {
    pub fn blocks(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.blocks).sum()
    }

    pub fn stretches(&self) -> Vec<Range<u64>> {
        self.pieces.iter().map(|piece| piece.block..piece.block + piece.blocks).collect()
    }
}

/// Files that have little cold data each.
#[derive(Default)]
pub(crate) struct Together {
    pub files: Vec<(Arc<Inode>, Cold)>,
    blocks: u64,
}

impl Together {
    pub fn add(&mut self, inode: Arc<Inode>, cold: Cold) {
        self.blocks += cold.blocks();
        self.files.push((inode, cold));
    }

    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    pub fn is_enough(&self, most: u64) -> bool {
        self.files.len() >= TOGETHER_FILES_MAX || self.blocks >= most.min(BUFFER_BLOCKS)
    }
}

/// The tier that cold data of a tier goes to.
///
/// # Errors
/// The round that comes of it: there is no such tier, or budgets keep anything from going there.
pub(crate) fn target_of(store: &Store, wear: &Wear, tier: u8) -> Result<u8, Round> {
    let target = store.space.tiers().find(|&target| target > tier).ok_or(Round::Idle)?;
    wear.held_up(Tiers::from(target)).map_or(Ok(target), |why| Err(Round::Stuck(why)))
}
