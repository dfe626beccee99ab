//! The PM crash model: which stores a power cut may lose.
//!
//! * Memory persists in cache lines of 64 bytes. Each line has an ordered list of the stores that
//!   are not durable; a crash keeps a prefix of each list, independently for each line.
//! * Stores are split at 8-byte boundaries: an aligned 8-byte store is atomic, a longer one may
//!   tear.
//! * A flush covers the stores that its lines hold at that moment; they are durable once a fence
//!   *by the same thread* follows, since a fence orders only its own thread's flushes. A
//!   non-temporal store is a store and a flush as far as it covers whole lines; the lines at its
//!   edges are cached, and flushed by a call of their own.
//!
//! * A process that ends or is stopped enters the kernel, which on x86 drains the stores past the
//!   cache. So its non-temporal stores are durable, while other stores are in the cache still.
//!
//! What the program sees meanwhile is the mapping itself; `durable` is what has been fenced.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

use super::PlantedDrops;
use crate::persist::LINE_BYTES;

const WORD_BYTES: usize = 8;

/// The recorder of a simulated PM region. It sees every store, flush and fence since the region was
/// made.
pub struct PmSim {
    state: Mutex<State>,
    on_fence: Mutex<Option<FenceHook>>,
}

type FenceHook = Arc<dyn Fn(&PmSim) + Send + Sync>;

struct State {
    durable: Vec<u8>,
    /// By line index: the lines with stores that are not durable.
    pending: BTreeMap<u64, Line>,
    flush_drops: PlantedDrops,
    fence_drops: PlantedDrops,
    forgets_edges: bool,
    power_is_off: bool,
}

#[derive(Default)]
struct Line {
    stores: Vec<PendingStore>,
    /// Which threads flushed this line, and how many of its stores the latest flush of each
    /// covered.
    flushed: Vec<(ThreadId, usize)>,
    /// See [`PendingLine`].
    past_cache: usize,
}

/// The stores to one line that are not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLine {
    /// Offset of the line / 64.
    pub index: u64,
    /// In program order: a crash keeps the first so many.
    pub stores: Vec<PendingStore>,
    /// How many of the first ones went past the cache.
    pub past_cache: usize,
}

/// A store within one aligned word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingStore {
    /// Where in the region (bytes).
    pub offset: u64,
    len: usize,
    bytes: [u8; WORD_BYTES],
}

impl PendingStore {
    /// What it stores.
    pub fn data(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn apply(&self, image: &mut [u8]) {
        image[self.offset as usize..][..self.len].copy_from_slice(self.data());
    }
}

impl Line {
    fn flush(&mut self, thread: ThreadId) {
        let covered = self.stores.len();
        match self.flushed.iter_mut().find(|(by, _)| *by == thread) {
            Some((_, stores)) => *stores = covered,
            None => self.flushed.push((thread, covered)),
        }
    }

    /// Moves what `thread` flushed to the durable image.
    fn fence(&mut self, thread: ThreadId, durable: &mut [u8]) {
        let Some(&(_, count)) = self.flushed.iter().find(|(by, _)| *by == thread) else {
            return;
        };
        for store in self.stores.drain(..count) {
            store.apply(durable);
        }
        self.past_cache = self.past_cache.saturating_sub(count);
        for (_, covered) in &mut self.flushed {
            *covered = covered.saturating_sub(count);
        }
        self.flushed.retain(|&(_, covered)| covered > 0);
    }
}

impl State {
    fn record(&mut self, off: u64, data: &[u8]) {
        if self.power_is_off {
            return;
        }
        let mut at = off as usize;
        let mut rest = data;
        while !rest.is_empty() {
            let len = (WORD_BYTES - at % WORD_BYTES).min(rest.len());
            let mut bytes = [0; WORD_BYTES];
            bytes[..len].copy_from_slice(&rest[..len]);
            let line = self.pending.entry((at / LINE_BYTES) as u64).or_default();
            line.stores.push(PendingStore { offset: at as u64, len, bytes });
            at += len;
            rest = &rest[len..];
        }
    }

    fn flush(&mut self, off: u64, len: u64) {
        let line_bytes = LINE_BYTES as u64;
        let thread = thread::current().id();
        let lines = off / line_bytes..(off + len).div_ceil(line_bytes);
        for (_, line) in self.pending.range_mut(lines) {
            line.flush(thread);
        }
    }
}

impl PmSim {
    pub(crate) fn new(durable: Vec<u8>, stored: Vec<PendingLine>) -> Self {
        let line = |PendingLine { index, stores, past_cache }| {
            (index, Line { stores, flushed: Vec::new(), past_cache })
        };
        let state = State {
            durable,
            pending: stored.into_iter().map(line).collect(),
            flush_drops: PlantedDrops::default(),
            fence_drops: PlantedDrops::default(),
            forgets_edges: false,
            power_is_off: false,
        };
        PmSim { state: Mutex::new(state), on_fence: Mutex::new(None) }
    }

    // The region's side. The store itself happens under the recorder's lock, so that racing stores
    // are recorded in the order in which they took effect.

    pub(crate) fn store(&self, off: u64, data: &[u8], store: impl FnOnce()) {
        let mut state = self.state.lock();
        store();
        state.record(off, data);
    }

    pub(crate) fn store_nt(&self, off: u64, data: &[u8], store: impl FnOnce()) {
        let mut state = self.state.lock();
        store();
        state.record(off, data);
        let line = LINE_BYTES as u64;
        let (from, to) = (off.next_multiple_of(line), (off + data.len() as u64) / line * line);
        if from < to {
            state.flush(from, to - from);
            for (_, line) in state.pending.range_mut(from / line..to / line) {
                line.past_cache = line.stores.len();
            }
        }
    }

    /// The flush that follows a non-temporal store of less than whole lines.
    pub(crate) fn flush_edges(&self, off: u64, len: u64) {
        let mut state = self.state.lock();
        if !state.forgets_edges && len > 0 {
            state.flush(off, 1);
            state.flush(off + len - 1, 1);
        }
    }

    pub(crate) fn compare_exchange(
        &self,
        off: u64,
        new: u64,
        exchange: impl FnOnce() -> Result<u64, u64>,
    ) -> Result<u64, u64> {
        let mut state = self.state.lock();
        let result = exchange();
        if result.is_ok() {
            state.record(off, &new.to_ne_bytes());
        }
        result
    }

    pub(crate) fn flush(&self, off: u64, len: u64) {
        let mut state = self.state.lock();
        if !state.flush_drops.ignores_this_call() && len > 0 {
            state.flush(off, len);
        }
    }

    /// False when the power is off.
    pub(crate) fn fence(&self) -> bool {
        // Called unlocked, so that it can ask for images.
        let hook = self.on_fence.lock().clone();
        if let Some(hook) = hook {
            hook(self);
        }
        let mut state = self.state.lock();
        if state.power_is_off {
            return false;
        }
        if state.fence_drops.ignores_this_call() {
            return true;
        }
        let State { durable, pending, .. } = &mut *state;
        let thread = thread::current().id();
        pending.retain(|_, line| {
            line.fence(thread, durable);
            !line.stores.is_empty()
        });
        true
    }

    // The harness's side.

    /// The lines with stores that are not durable: line index (offset / 64) and number of stores,
    /// in order.
    pub fn pending_lines(&self) -> Vec<(u64, usize)> {
        self.state.lock().pending.iter().map(|(&index, line)| (index, line.stores.len())).collect()
    }

    /// The lines with stores that are not durable, in order, and those stores.
    pub fn pending_stores(&self) -> Vec<PendingLine> {
        let state = self.state.lock();
        state
            .pending
            .iter()
            .map(|(&index, line)| PendingLine {
                index,
                stores: line.stores.clone(),
                past_cache: line.past_cache,
            })
            .collect()
    }

    /// Lets `look` see what is durable, without a copy.
    pub fn look_at_durable<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.state.lock().durable)
    }

    /// What is durable: everything stored, flushed and fenced.
    pub fn durable_image(&self) -> Vec<u8> {
        self.state.lock().durable.clone()
    }

    /// The image that a crash leaves when line by line, in order of their index, `choose` tells how
    /// many of the line's stores that are not durable persist nevertheless: always the first so
    /// many.
    ///
    /// # Panics
    /// When `choose` answers more than it was told there are.
    pub fn crash_image(&self, choose: &mut dyn FnMut(u64, usize) -> usize) -> Vec<u8> {
        let state = self.state.lock();
        let mut image = state.durable.clone();
        for (&index, line) in &state.pending {
            let kept = choose(index, line.stores.len());
            for store in &line.stores[..kept] {
                store.apply(&mut image);
            }
        }
        image
    }

    /// A crash image chosen at random, the same for the same seed: a quarter of the lines lose all,
    /// a quarter keep all, the others keep any number of their stores.
    pub fn crash_image_random(&self, seed: u64) -> Vec<u8> {
        let mut random = fastrand::Rng::with_seed(seed);
        self.crash_image(&mut |_, stores| match random.usize(..4) {
            0 => 0,
            1 => stores,
            _ => random.usize(..stores + 1),
        })
    }

    /// Calls `hook` just before each fence takes effect: the moment at which most is undecided. It
    /// may ask for images, but must not access the region.
    pub fn set_on_fence(&self, hook: Box<dyn Fn(&PmSim) + Send + Sync>) {
        *self.on_fence.lock() = Some(Arc::from(hook));
    }

    /// Removes the hook.
    pub fn clear_on_fence(&self) {
        *self.on_fence.lock() = None;
    }

    /// Flushes and fences seen so far: what the numbers of the planted drops can count up to.
    pub fn calls(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.flush_drops.calls, state.fence_drops.calls)
    }

    /// From now on nothing reaches the region any more, and every fence fails, for good. It then
    /// holds what [`PmSim::crash_image`] says.
    pub fn cut_power(&self) {
        self.state.lock().power_is_off = true;
    }

    /// Plants a bug: the `n`-th flush from now (1 is the next) does nothing. (`write_nt` flushes by
    /// itself and is not counted.)
    pub fn drop_flush_number(&self, n: u64) {
        self.state.lock().flush_drops.plant(n);
    }

    /// Plants a bug: lines that a non-temporal store covers in part are not flushed.
    pub fn forget_edges(&self) {
        self.state.lock().forgets_edges = true;
    }

    /// Plants a bug: the `n`-th fence from now (1 is the next) does nothing.
    pub fn drop_fence_number(&self, n: u64) {
        self.state.lock().fence_drops.plant(n);
    }
}

impl fmt::Debug for PmSim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("PmSim")
            .field("len", &state.durable.len())
            .field("pending_lines", &state.pending.len())
            .finish_non_exhaustive()
    }
}
