//! A record of a request under way.

use std::sync::atomic::Ordering;

use crate::planted::{AtomicU32, AtomicU64};

/// A request under way.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Record {
    /// 0: the record is free.
    pub(super) unique: AtomicU64,
    /// The daemon that took it last.
    pub(super) life: AtomicU32,
    pub(super) opcode: AtomicU32,
    /// How many daemons died of it.
    pub(super) blamed: AtomicU32,
    /// The file system's note before the effect; 0: none.
    effect: AtomicU32,
    word: AtomicU64,
    /// What came of it, plus 1; 0: that is not known.
    pub(super) outcome: AtomicU64,
}

/// What the file system noted of a request that a daemon before this one took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// What it was about to do, in the file system's words: a kind that is not 0, and a number.
    pub effect: Option<(u32, u64)>,
    /// What came of it.
    pub outcome: Option<u64>,
}

impl Record {
    pub(super) fn note(&self, kind: u32, word: u64) {
        self.word.store(word, Ordering::Relaxed);
        self.effect.store(kind, Ordering::Release);
    }

    pub(super) fn noted(&self) -> Option<(u32, u64)> {
        match self.effect.load(Ordering::Acquire) {
            0 => None,
            kind => Some((kind, self.word.load(Ordering::Relaxed))),
        }
    }

    /// One more daemon has died of it. Safe in a signal handler.
    pub(crate) fn blame(&self) {
        self.blamed.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn clear(&self) {
        self.blamed.store(0, Ordering::Relaxed);
        self.effect.store(0, Ordering::Relaxed);
        self.outcome.store(0, Ordering::Relaxed);
    }
}
