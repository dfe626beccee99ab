//! The slots and who has them: free lists, the queues of clean pages, eviction.
//!
//! Invariants:
//! * A slot has a reference count: one reference of its blank page or of the map that holds it, one
//!   per pin. It is on its shard's free list exactly while the count is 0 (slots that have no
//!   memory yet are on no list).
//! * A slot that a map holds clean is in its shard's queue, or in the hands of an evictor that will
//!   put it back. A slot is in the queue at most once; being there promises nothing: the evictor
//!   looks.
//! * Lock order: a map's lock, then a shard's or a slot's owner lock. The latter are leaves:
//!   nothing is locked under them.

use std::collections::VecDeque;

use terrace_media::StreamedCopy;
use terrace_store::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use terrace_store::sync::{Arc, Mutex, Weak, thread};

use super::PageMap;
use super::slots::{FREE, GROW_SLOTS, InFlight, SlotId, Slots};

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

/// One part of the slots: every so many stripes one. Adjacent slots belong together, so that a run
/// of pages is one piece of memory, which disks take with less ado than scattered pages.
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
    /// Slots in a stripe.
    stripe: usize,
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
    /// Fills pages that are on their way to a disk.
    pub streamed: StreamedCopy,
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
        let stripe = (GROW_SLOTS as usize).min((count as usize).div_ceil(shards)).max(1);
        let shard = || {
            let queued = vec![false; (count as usize).div_ceil(stripe * shards) * stripe];
            Mutex::new(Shard { queued, ..Shard::default() })
        };
        Pool {
            slots,
            cells: (0..count).map(|_| Cell::default()).collect(),
            shards: (0..shards).map(|_| shard()).collect(),
            stripe,
            free: AtomicU64::new(0),
            limit: AtomicU32::new(count),
            grown: AtomicU32::new(0),
            growing: Mutex::new(()),
            hand: AtomicUsize::new(0),
            seq: AtomicU64::new(seq),
            clean: AtomicU64::new(0),
            dirty: AtomicU64::new(0),
            streamed: StreamedCopy::detect(),
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

    /// Number of the shard that a slot belongs to.
    pub fn home_index(&self, slot: SlotId) -> usize {
        slot as usize / self.stripe % self.shards.len()
    }

    fn home(&self, slot: SlotId) -> &Mutex<Shard> {
        &self.shards[self.home_index(slot)]
    }

    /// Place of a slot in its shard's `queued`.
    fn index(&self, slot: SlotId) -> usize {
        let slot = slot as usize;
        slot / (self.stripe * self.shards.len()) * self.stripe + slot % self.stripe
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

    /// Whether a map's reference is the only one. Exact under the map's write lock: pins are taken
    /// under its lock.
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

    /// Ends a map's hold of a slot: not to be found after a crash from now on, free when the last
    /// pin is dropped.
    pub fn retire(&self, slot: SlotId) {
        self.slots.meta(slot).state.store(FREE, Ordering::Release);
        self.release(slot);
    }

    /// Makes clean slots known to the evictor.
    pub fn enqueue(&self, slots: Vec<SlotId>) {
        for slots in slots.chunk_by(|&a, &b| self.home_index(a) == self.home_index(b)) {
            let mut shard = self.home(slots[0]).lock();
            for &slot in slots {
                let index = self.index(slot);
                if !std::mem::replace(&mut shard.queued[index], true) {
                    shard.queue.push_back(slot);
                }
            }
        }
    }

    /// Up to `n` slots for blank pages, each with one reference: free ones (of this shard, if it
    /// has any), new ones, or those of clean pages; adjacent ones in ascending order, as far as
    /// there are any.
    pub fn take(&self, shard: usize, n: usize, out: &mut Vec<SlotId>) {
        self.take_free(shard, n, out);
        if out.len() < n {
            self.evict(n, out);
        }
        for &slot in out.iter() {
            self.cell(slot).referenced.store(false, Ordering::Relaxed);
        }
    }

    fn take_free(&self, first: usize, n: usize, out: &mut Vec<SlotId>) {
        loop {
            let before = out.len();
            if self.free.load(Ordering::Relaxed) > 0 {
                for shard in self.shards_from(first) {
                    let free = &mut self.shards[shard].lock().free;
                    let rest = free.len() - free.len().min(n - out.len());
                    out.extend(free.drain(rest..));
                }
            }
            let taken = &mut out[before..];
            taken.sort_unstable();
            self.free.fetch_sub(taken.len() as u64, Ordering::Relaxed);
            for &mut slot in taken {
                self.cell(slot).refs.store(1, Ordering::Relaxed);
            }
            if out.len() == n || !self.grow() {
                return;
            }
        }
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
                "page cache: no memory for more than {grown} of {} pages ({error}); going on \
                 with these",
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

    /// Evicts clean pages that were not used for longest, approximately, until there are `n` slots
    /// or nothing is left to evict. The shards take turns, whoever asks: the cold pages in one must
    /// not outlive the hot ones in another.
    fn evict(&self, n: usize, out: &mut Vec<SlotId>) {
        let shards = self.shards.len();
        // First an equal share of each, then what is to be had.
        for share in [(n - out.len()).div_ceil(shards), n] {
            let first = self.hand.fetch_add(1, Ordering::Relaxed);
            for shard in self.shards_from(first) {
                self.evict_from(shard, (out.len() + share).min(n), out);
            }
        }
    }

    fn evict_from(&self, shard: usize, n: usize, out: &mut Vec<SlotId>) {
        // Twice round: once to take the second chances away, once to find what was not hit again.
        let mut attempts = 2 * self.shards[shard].lock().queue.len();
        while out.len() < n && attempts > 0 {
            let candidates = self.pop_queue(shard, attempts.min(n - out.len()));
            if candidates.is_empty() {
                return;
            }
            attempts -= candidates.len();
            self.try_evict(&candidates, out);
        }
    }

    /// Evicts those of the slots that can be; the rest that is clean goes back to its queue.
    fn try_evict(&self, candidates: &[SlotId], out: &mut Vec<SlotId>) {
        let mut spared = Vec::new();
        let mut cold = Vec::with_capacity(candidates.len());
        for &slot in candidates {
            let cell = self.cell(slot);
            if cell.referenced.swap(false, Ordering::Relaxed) {
                spared.push(slot);
            } else if let Some(owner) = cell.owner.lock().upgrade() {
                cold.push((slot, owner));
            }
        }
        for group in cold.chunk_by(|a, b| Arc::ptr_eq(&a.1, &b.1)) {
            let slots: Vec<SlotId> = group.iter().map(|&(slot, _)| slot).collect();
            group[0].1.evict(&slots, |slot, eviction| match eviction {
                Eviction::Done => out.push(slot),
                Eviction::Pinned => spared.push(slot),
                Eviction::Gone => {}
            });
        }
        self.enqueue(spared);
    }

    fn pop_queue(&self, shard: usize, n: usize) -> Vec<SlotId> {
        let mut shard = self.shards[shard].lock();
        let n = n.min(shard.queue.len());
        let slots: Vec<SlotId> = shard.queue.drain(..n).collect();
        for &slot in &slots {
            let index = self.index(slot);
            shard.queued[index] = false;
        }
        slots
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
    /// Panics unless every slot is exactly where its reference count says. The pool must be idle;
    /// `held` are the slots that maps and blank pages hold and those pinned, each once per
    /// reference.
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
                assert!(
                    !std::mem::replace(&mut queued[slot as usize], true),
                    "{slot} is queued twice"
                );
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
