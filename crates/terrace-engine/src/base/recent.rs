//! Files that were used lately.

use terrace_store::Ino;
use terrace_store::sync::atomic::{AtomicU64, Ordering};
use terrace_store::sync::limit;

/// Files of a shard that are remembered as used lately: a power of two.
const RECENT: usize = limit(256, 2);

/// Files of a shard that were used lately. One that is used often is found here, whatever else is
/// used once.
#[derive(Debug)]
pub(crate) struct Recent(Box<[AtomicU64]>);

impl Default for Recent {
    fn default() -> Self {
        Recent((0..RECENT).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Recent {
    /// A file is read or written.
    #[inline]
    pub fn note(&self, ino: Ino) {
        let slot = &self.0[(ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % RECENT];
        // Most often it is there, and nobody else's copy of the line need go.
        if slot.load(Ordering::Relaxed) != ino.0 {
            slot.store(ino.0, Ordering::Relaxed);
        }
    }

    pub fn inos(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|&ino| ino > 0)
    }
}
