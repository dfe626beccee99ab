//! Pages that are in one call's hands: blank ones to fill, dirty ones to write back.

use std::fmt;
use std::ops::{Deref, DerefMut};

use terrace_store::sync::Arc;

use super::pool::Pool;
use super::slots::{PAGE_BYTES, SlotId};

/// What keeps the pool alive for the pages of one call. Counting each page in the pool itself would
/// have writers and writeback fight for that one counter.
pub(super) type Hold = Arc<Arc<Pool>>;

/// A page that its owner fills before publishing it. It holds whatever its slot held before.
pub(crate) struct BlankPage {
    pub(super) pool: Hold,
    pub(super) slot: SlotId,
    pub(super) published: bool,
}

/// A pinned dirty page: its contents do not change, whatever becomes of the block.
pub(crate) struct DirtyPage {
    /// File block.
    pub block: u64,
    /// Its file's number among those that are written back together.
    pub file: usize,
    pub(super) pool: Hold,
    pub(super) slot: SlotId,
}

impl BlankPage {
    /// The page's bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self[..]
    }

    /// Fills the whole page with data that is not read before a disk wants it.
    pub fn stream(&mut self, data: &[u8; PAGE_BYTES]) {
        let streamed = self.pool.streamed;
        streamed.copy(&mut self[..], data);
    }

    /// Hands the slot, with its reference, to whoever publishes it.
    pub(super) fn into_slot(mut self) -> SlotId {
        self.published = true;
        self.slot
    }
}

impl Deref for BlankPage {
    type Target = [u8; PAGE_BYTES];

    fn deref(&self) -> &[u8; PAGE_BYTES] {
        // SAFETY: a blank page owns its slot: nobody else reads or writes it.
        unsafe { self.pool.slots.page(self.slot).as_ref() }
    }
}

impl DerefMut for BlankPage {
    fn deref_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        // SAFETY: as in deref; &mut self makes the access exclusive.
        unsafe { self.pool.slots.page(self.slot).as_mut() }
    }
}

impl Drop for BlankPage {
    fn drop(&mut self) {
        if !self.published {
            // Its next owner must not find data on its way here.
            self.pool.streamed.fence();
            self.pool.release(self.slot);
        }
    }
}

impl DirtyPage {
    /// The page, 4 KiB aligned.
    pub fn data(&self) -> &[u8; PAGE_BYTES] {
        // SAFETY: the slot is published, hence immutable, and pinned, hence not reused as long as
        // `self` exists.
        unsafe { self.pool.slots.page(self.slot).as_ref() }
    }
}

impl Drop for DirtyPage {
    fn drop(&mut self) {
        self.pool.release(self.slot);
    }
}

impl fmt::Debug for BlankPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlankPage").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl fmt::Debug for DirtyPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirtyPage")
            .field("block", &self.block)
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}
