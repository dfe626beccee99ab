//! What a PM region has been asked to do.

use crate::striped::Striped;

/// What a PM region has been asked to do since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PmStats {
    /// Bytes stored, by every kind of store.
    pub bytes_stored: u64,
    /// Calls of [`Pm::flush`](crate::Pm::flush).
    pub flushes: u64,
    /// Calls of [`Pm::fence`](crate::Pm::fence).
    pub fences: u64,
}

const BYTES_STORED: usize = 0;
const FLUSHES: usize = 1;
const FENCES: usize = 2;

#[derive(Debug, Default)]
pub(super) struct Counters(Striped<3>);

impl Counters {
    #[inline]
    pub(super) fn stored(&self, bytes: u64) {
        self.0.add(BYTES_STORED, bytes);
    }

    #[inline]
    pub(super) fn flushed(&self) {
        self.0.add(FLUSHES, 1);
    }

    #[inline]
    pub(super) fn fenced(&self) {
        self.0.add(FENCES, 1);
    }

    pub(super) fn total(&self) -> PmStats {
        let [bytes_stored, flushes, fences] = self.0.totals();
        PmStats { bytes_stored, flushes, fences }
    }
}
