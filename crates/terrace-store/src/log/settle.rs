//! Stores that no fence has followed yet, and dead pages.
//!
//! Some stores of a commit are left to a later fence: the bytes of a patch in their block, the tail
//! behind entries that committed themselves, and the head that skips dead pages. The next commit of
//! the log flushes patch and head again, and its fence makes them durable. The tail follows with
//! the next commit that is not sealed. An inode that leaves DRAM settles them itself.

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, HEAD_OFFSET, INLINE_SLOTS, PAGE_SLOTS, TAIL_OFFSET, Tail,
};
use terrace_media::Pm;

use super::Log;
use crate::error::{FsResult, fence};
use crate::planted::{Bug, planted};
use crate::source::BlockSource;

impl Log {
    /// Bytes were stored and flushed after a commit, without a fence of their own.
    #[inline]
    pub fn leave_unfenced(&mut self, at: u64, len: u64) {
        self.unfenced = Some((at, len));
    }

    #[inline]
    pub(super) fn flush_unfenced(&self, pm: &Pm) {
        if let Some((at, len)) = self.unfenced {
            pm.flush(at, len);
        }
        if !self.limbo.is_empty() {
            pm.flush(self.record_at + HEAD_OFFSET, 8);
        }
    }

    /// Moves the tail on media behind the entries that committed themselves; durable at the next
    /// fence.
    pub(super) fn flush_tail(&self, pm: &Pm) {
        if self.tail_behind && !planted(Bug::TailStaysBehind) {
            let at = self.record_at + TAIL_OFFSET;
            pm.store_u64(at, Tail::new(self.tail, self.tail_generation).0);
            pm.flush(at, 8);
        }
    }

    /// Makes the stores durable that were left to the next commit, and gives back the pages that
    /// waited for that: before the inode leaves DRAM.
    ///
    /// # Errors
    /// If PM refuses to become durable.
    pub fn settle(&mut self, pm: &Pm, source: &dyn BlockSource) -> FsResult<()> {
        if self.flush_unsettled(pm) {
            fence(pm)?;
        }
        self.settled(source);
        Ok(())
    }

    /// The first half of [`Self::settle`]: flushes the stores that were left to the next commit.
    /// They are durable at the next fence of this thread, and [`Self::settled`] must follow. False
    /// if nothing was left.
    pub fn flush_unsettled(&self, pm: &Pm) -> bool {
        self.flush_unfenced(pm);
        self.flush_tail(pm);
        self.unfenced.is_some() || self.tail_behind || !self.limbo.is_empty()
    }

    /// A fence has followed [`Self::flush_unsettled`].
    pub fn settled(&mut self, source: &dyn BlockSource) {
        (self.unfenced, self.tail_behind) = (None, false);
        self.free.append(&mut self.limbo);
        self.drain_free(source);
    }

    /// Whether pages wait for the next commit to be given back.
    #[inline]
    pub fn holds_back_pages(&self) -> bool {
        !self.limbo.is_empty() || !self.free.is_empty()
    }

    /// Whether nothing is left to the next commit.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.unfenced.is_none()
            && !self.tail_behind
            && self.limbo.is_empty()
            && self.free.is_empty()
    }

    #[inline]
    fn drain_free(&mut self, source: &dyn BlockSource) {
        for block in self.free.drain(..) {
            source.free(BlockAddr::pm(block), 1);
        }
    }

    /// Drops dead pages from the front; they go back to `source` after the next commit.
    #[inline]
    pub fn drop_dead_front(&mut self, pm: &Pm, source: &dyn BlockSource) {
        self.drain_free(source);
        let begins_in_record =
            !self.inline_dropped && (self.refs.inline > 0 || self.archive.is_some());
        // As many pages with references as pages: none is dead.
        let all_live = self.inline_dropped
            && self.archive.is_none()
            && self.refs.pages.len() == self.pages.len();
        if self.pages.is_empty() || begins_in_record || all_live {
            return;
        }
        let before = self.pages.len();
        while self.pages.len() > 1 && !self.refs.pages.contains_key(&self.pages[0]) {
            self.limbo.extend(self.pages.pop_front());
        }
        let dropped = (before - self.pages.len()) as u64;
        if dropped == 0 && self.inline_dropped {
            return;
        }
        self.slots -= dropped * PAGE_SLOTS + if self.inline_dropped { 0 } else { INLINE_SLOTS };
        self.inline_dropped = true;
        if planted(Bug::DroppedPageZeroed) {
            self.limbo.iter().for_each(|block| pm.zero_nt(block * BLOCK_BYTES, BLOCK_BYTES));
        }
        self.link(pm, None, self.pages[0]);
    }
}
