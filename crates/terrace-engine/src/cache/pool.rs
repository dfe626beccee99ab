//! The slots and who has them: free lists, the queues of clean pages, eviction.
//!
//! Invariants:
//! * A slot has a reference count: one reference of its blank page or of the map that holds it, one per pin. It is on
//!   its shard's free list exactly while the count is 0 (slots that have no memory yet are on no list).
//! * A slot that a map holds clean is in its shard's queue, or in the hands of an evictor that will put it back.
//!   A slot is in the queue at most once; being there promises nothing: the evictor looks.
//! * Lock order: a map's lock, then a shard's or a slot's owner lock. The latter are leaves: nothing is locked under
//!   them.

use std::collections::VecDeque;

use super::PageMap;
use super::slots::{FREE, InFlight, SlotId, Slots};
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, Weak, thread};

/// Slots that get their memory together (2 MiB: a huge page, where there are any).
const GROW_SLOTS: u32 = 512;
/// More shards than this gain nothing.
const SHARDS_MAX: usize = 64;
/// Fewer slots than this in a shard would make its queue a poor approximation of the order of use.
const SHARD_SLOTS_MIN: usize = 1024;

/// What the process knows about a slot, beside its metadata in the mapping.
#[derive(Default)]
struct Cell {
    refs: AtomicU32,
    /// The page was hit since it was queued: it gets a second chance.
    referenced: AtomicBool,
    owner: Mutex<Weak<PageMap>>,
}

/// One part of the slots: those whose number modulo the number of shards is the shard's.
#[derive(Default)]
struct Shard {
    free: Vec<SlotId>,
    /// Clean slots, the next to be evicted in front.
    queue: VecDeque<SlotId>,
    /// Whether each of the shard's slots is in `queue`.
    queued: Vec<bool>,
}

/// What became of an attempt to evict a page.
pub(super) enum Eviction {
    /// The slot is the caller's now, with the map's reference.
    Done,
    /// The page is clean, but pinned.
    Pinned,
    /// The slot is not clean (any more), or not this map's.
    Gone,
}

/// All slots of a cache.
pub(super) struct Pool {
    pub slots: Slots,
    cells: Box<[Cell]>,
    shards: Box<[Mutex<Shard>]>,
    /// At least the slots on all free lists: what saves looking.
    free: AtomicU64,
    /// Slots that may be used; less than all where memory for the rest was refused.
    limit: AtomicU32,
    /// Slots that have memory; changed under `growing`.
    grown: AtomicU32,
    growing: Mutex<()>,
    /// Counts evictions, to make the shards take turns.
    hand: AtomicUsize,
    seq: AtomicU64,
    pub clean: AtomicU64,
    pub dirty: AtomicU64,
}

impl Pool {
    /// A pool with every slot free; sequence numbers start above `seq`.
    pub fn new(slots: Slots, seq: u64) -> Pool {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let enough = (slots.count() as usize / SHARD_SLOTS_MIN).max(1);
        Pool::with_shards(slots, seq, cpus.min(SHARDS_MAX).min(enough))
    }

    /// The same with a given number of shards.
    pub fn with_shards(slots: Slots, seq: u64, shards: usize) -> Pool {
        let count = slots.count();
        let shard = || {
            let queued = vec![false; (count as usize).div_ceil(shards)];
            Mutex::new(Shard { queued, ..Shard::default() })
        };
        Pool {
            slots,
            cells: (0..count).map(|_| Cell::default()).collect(),
            shards: (0..shards).map(|_| shard()).collect(),
            free: AtomicU64::new(0),
            limit: AtomicU32::new(count),
            grown: AtomicU32::new(0),
            growing: Mutex::new(()),
            hand: AtomicUsize::new(0),
            seq: AtomicU64::new(seq),
            clean: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
        }
    }

    /// Slots that may be used.
    pub fn budget(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).into()
    }

    /// The number of a new write.
    pub fn next_seq(&self) -> u64 {
        self.seq.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Announces that the publication `seq` is in progress, until the returned value is dropped.
    pub fn announce(&self, seq: u64) -> Announced<'_> {
        let words = self.slots.in_flight();
        loop {
            for word in words {
                let free = word.load(Ordering::Relaxed) == 0;
                let claimed = || word.compare_exchange(0, seq, Ordering::AcqRel, Ordering::Relaxed);
                if free && claimed().is_ok() {
                    return Announced(word);
                }
            }
            // More publications than words: those that have one finish without waiting for anybody.
            thread::yield_now();
        }
    }

    fn cell(&self, slot: SlotId) -> &Cell {
        &self.cells[slot as usize]
    }

    fn home(&self, slot: SlotId) -> &Mutex<Shard> {
        &self.shards[slot as usize % self.shards.len()]
    }

    /// Place of a slot in its shard's `queued`.
    fn index(&self, slot: SlotId) -> usize {
        slot as usize / self.shards.len()
    }

    /// Who holds the slot, for the evictor to find.
    pub fn set_owner(&self, slot: SlotId, owner: Weak<PageMap>) {
        *self.cell(slot).owner.lock() = owner;
    }

    /// Notes a hit.
    pub fn touch(&self, slot: SlotId) {
        let referenced = &self.cell(slot).referenced;
        // Looking first keeps the line shared between readers of a hot page.
        if !referenced.load(Ordering::Relaxed) {
            referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a map's reference is the only one. Exact under the map's write lock: pins are taken under its lock.
    pub fn is_unpinned(&self, slot: SlotId) -> bool {
        self.cell(slot).refs.load(Ordering::Acquire) == 1
    }

    /// One more reference to a slot that has one.
    pub fn pin(&self, slot: SlotId) {
        let refs = self.cell(slot).refs.fetch_add(1, Ordering::Relaxed);
        debug_assert!(refs > 0, "slot {slot} is free");
    }

    /// Gives a reference back; the last one frees the slot.
    pub fn release(&self, slot: SlotId) {
        let cell = self.cell(slot);
        let refs = cell.refs.fetch_sub(1, Ordering::Release);
        debug_assert!(refs > 0, "slot {slot} was freed twice");
        if refs == 1 {
            fence(Ordering::Acquire);
            self.set_owner(slot, Weak::new());
            self.free.fetch_add(1, Ordering::Relaxed);
            self.home(slot).lock().free.push(slot);
        }
    }

    /// Ends a map's hold of a slot: not to be found after a crash from now on, free when the last pin is dropped.
    pub fn retire(&self, slot: SlotId) {
        self.slots.meta(slot).state.store(FREE, Ordering::Release);
        self.release(slot);
    }

    /// Makes a clean slot known to the evictor.
    pub fn enqueue(&self, slot: SlotId) {
        let index = self.index(slot);
        let mut shard = self.home(slot).lock();
        if !std::mem::replace(&mut shard.queued[index], true) {
            shard.queue.push_back(slot);
        }
    }

    /// A slot for a blank page, with one reference: a free one (of this shard, if it has any), a new one, or that of a
    /// clean page.
    pub fn take(&self, shard: usize) -> Option<SlotId> {
        let slot = self.free_slot(shard).or_else(|| self.evict())?;
        self.cell(slot).referenced.store(false, Ordering::Relaxed);
        Some(slot)
    }

    fn free_slot(&self, shard: usize) -> Option<SlotId> {
        loop {
            if self.free.load(Ordering::Relaxed) > 0
                && let Some(slot) = self.pop_free(shard)
            {
                self.free.fetch_sub(1, Ordering::Relaxed);
                self.cell(slot).refs.store(1, Ordering::Relaxed);
                return Some(slot);
            }
            if !self.grow() {
                return None;
            }
        }
    }

    fn pop_free(&self, first: usize) -> Option<SlotId> {
        self.shards_from(first).find_map(|shard| self.shards[shard].lock().free.pop())
    }

    /// All shards, beginning with this one.
    fn shards_from(&self, first: usize) -> impl Iterator<Item = usize> {
        let shards = self.shards.len();
        (0..shards).map(move |n| (first % shards + n) % shards)
    }

    /// Gives more slots their memory; `false` if all have theirs.
    fn grow(&self) -> bool {
        if self.grown.load(Ordering::Relaxed) == self.limit.load(Ordering::Relaxed) {
            return false;
        }
        let _growing = self.growing.lock();
        let grown = self.grown.load(Ordering::Relaxed);
        let more = GROW_SLOTS.min(self.limit.load(Ordering::Relaxed) - grown);
        if more == 0 {
            return false;
        }
        if let Err(error) = self.slots.back(grown, more) {
            tracing::warn!(
                "page cache: no memory for more than {grown} of {} pages ({error}); going on with these",
                self.slots.count()
            );
            self.limit.store(grown, Ordering::Relaxed);
            return false;
        }
        self.grown.store(grown + more, Ordering::Relaxed);
        self.free.fetch_add(more.into(), Ordering::Relaxed);
        // The lowest number last, so that it is taken first.
        for slot in (grown..grown + more).rev() {
            self.home(slot).lock().free.push(slot);
        }
        true
    }

    /// Evicts the clean page that was not used for longest, approximately. The shards take turns, whoever asks: the
    /// cold pages in one must not outlive the hot ones in another.
    fn evict(&self) -> Option<SlotId> {
        let first = self.hand.fetch_add(1, Ordering::Relaxed);
        self.shards_from(first).find_map(|shard| self.evict_from(shard))
    }

    fn evict_from(&self, shard: usize) -> Option<SlotId> {
        // Twice round: once to take the second chances away, once to find what was not hit again.
        let attempts = 2 * self.shards[shard].lock().queue.len();
        for _ in 0..attempts {
            let slot = self.pop_queue(shard)?;
            let cell = self.cell(slot);
            if cell.referenced.swap(false, Ordering::Relaxed) {
                self.enqueue(slot);
                continue;
            }
            let Some(owner) = cell.owner.lock().upgrade() else {
                continue;
            };
            match owner.evict(slot) {
                Eviction::Done => return Some(slot),
                Eviction::Pinned => self.enqueue(slot),
                Eviction::Gone => {}
            }
        }
        None
    }

    fn pop_queue(&self, shard: usize) -> Option<SlotId> {
        let mut shard = self.shards[shard].lock();
        let slot = shard.queue.pop_front()?;
        let index = self.index(slot);
        shard.queued[index] = false;
        Some(slot)
    }
}

/// A publication of several pages in progress: recovery drops its pages as long as this exists.
pub(super) struct Announced<'a>(&'a InFlight);

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(test)]
impl Pool {
    /// Panics unless every slot is exactly where its reference count says. The pool must be idle; `held` are the
    /// slots that maps and blank pages hold and those pinned, each once per reference.
    pub fn check(&self, held: &[SlotId], clean: &[SlotId]) {
        let grown = self.grown.load(Ordering::Relaxed);
        let mut refs = vec![0; self.slots.count() as usize];
        for &slot in held {
            refs[slot as usize] += 1;
        }
        let mut free = vec![false; refs.len()];
        let mut queued = vec![false; refs.len()];
        let mut free_count = 0;
        for shard in &self.shards {
            let shard = shard.lock();
            for &slot in &shard.free {
                assert!(!std::mem::replace(&mut free[slot as usize], true), "{slot} is free twice");
                free_count += 1;
            }
            for &slot in &shard.queue {
                assert!(!std::mem::replace(&mut queued[slot as usize], true), "{slot} is queued twice");
                assert!(shard.queued[self.index(slot)]);
            }
        }
        assert_eq!(self.free.load(Ordering::Relaxed), free_count);
        for (slot, &refs) in refs.iter().enumerate() {
            let counted = self.cells[slot].refs.load(Ordering::Relaxed);
            assert_eq!(counted, refs, "references of slot {slot}");
            assert_eq!(free[slot], refs == 0 && (slot as u32) < grown, "slot {slot} free");
        }
        for &slot in clean {
            assert!(queued[slot as usize], "clean slot {slot} cannot be evicted");
        }
    }
}
