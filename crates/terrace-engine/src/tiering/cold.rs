//! What is cold, and where it goes: of one file, or of many that have little each.

use std::ops::Range;

use terrace_policy::{ColdCut, Piece};
use terrace_store::sync::Arc;

use crate::base::counters::Counter;
use crate::inode::resident::Inode;
use crate::tiering::relocate::buffers::BUFFER_BLOCKS;

/// Files of which together something moves, at most.
const TOGETHER_FILES_MAX: usize = 1024;

/// Where cold data of a shard goes from and to.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub shard: usize,
    pub from: u8,
    pub to: u8,
    /// Counts the bytes.
    pub counter: Counter,
    /// About how many blocks are to go.
    pub most: u64,
}

/// What of a file is cold.
pub(crate) struct Cold {
    /// The time that its entries are older than, if that matters.
    pub such: Option<ColdCut>,
    pub pieces: Vec<Piece>,
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

    pub fn is_enough(&self, most: u64) -> bool {
        self.files.len() >= TOGETHER_FILES_MAX || self.blocks >= most.min(BUFFER_BLOCKS)
    }
}
