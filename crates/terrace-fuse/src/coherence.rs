//! Keeps what the kernel caches of a file in step with direct writes to it.
//!
//! Before the kernel sends a direct write it drops the pages of that range. Readers and mappings may bring them back
//! until the write is answered, with the bytes from before. The kernel drops those after a synchronous write, but not
//! after an asynchronous one (libaio, io_uring): they would stay for good. So a direct write is answered only once the
//! kernel has been told to drop its range, and has done so. The message does not say which kind of write it is.
//!
//! Telling the kernel takes a system call that waits for pages under read, for pages under write-back, and for the
//! messages of both. Therefore:
//! * It is made by a thread of its own, which keeps the answer meanwhile. The threads that take messages never wait for
//!   it, so that the messages which it waits for are answered.
//! * Those messages need room among the requests that the kernel keeps under way in the background, as asynchronous
//!   writes do. So not all of that room may be taken by writes whose answer is kept ([`Coherence::held_max`]). Beyond
//!   that a write is answered first, and the kernel told as soon as possible.
//! * It takes page locks and no others: whoever waits for an answer may hold any lock that is taken before them.
//!
//! What spares the call in most cases: of files with direct writes, [`Cached`] knows which pages the kernel may have.
//! Every page that it has came with a READ, or is of a buffered WRITE, and both carry no lock owner, which all direct
//! ones do. So a database that keeps to direct I/O pays for it only where somebody else has read.
//!
//! Invariants:
//! * Of a file in `files`, each page that the kernel may have with bytes from before the next direct write is in
//!   `pages` or in `dropping`. A READ or buffered WRITE adds its pages before the engine serves it, and the kernel has
//!   had them, locked or filled, since before it sent the message. A direct WRITE takes its pages out after the engine
//!   served it, and before the kernel is told.
//! * Forgetting a file is always right: its next direct write has the whole of it dropped.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use fuser::INodeNo;
use parking_lot::Mutex;

use crate::transport::{BACKGROUND_MAX, Transport};

const PAGE_BYTES: u64 = 4096;

/// Files whose pages are known; of further ones some other is forgotten.
const FILES_MAX: usize = 4096;

/// Runs of pages that are known of a file; beyond that, the gaps between them count as cached.
const RUNS_MAX: usize = 256;

/// All pages of a file.
const WHOLE: Range<u64> = 0..1 << 51;

/// What the kernel allows unless it says otherwise.
const BACKGROUND_DEFAULT: usize = 12;

/// Sees to it that direct writes are seen.
#[derive(Debug)]
pub(crate) struct Coherence {
    shared: Arc<Shared>,
    /// What the thread is to do; `None` only while this is dropped.
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    held_max: OnceLock<usize>,
}

#[derive(Debug, Default)]
struct Shared {
    files: Mutex<HashMap<u64, Cached>>,
    /// Whether `files` has any: what keeps mounts without direct writes from taking the lock.
    any: AtomicBool,
    /// Answers that the thread keeps.
    held: AtomicUsize,
    /// Orders so far.
    ordered: AtomicU64,
}

/// What the kernel may have cached of one file.
#[derive(Debug, Default)]
struct Cached {
    pages: Runs,
    /// What the thread is to drop, with the numbers of the orders.
    dropping: Vec<(u64, Range<u64>)>,
}

/// Pages of a file that the kernel is to drop, and the answer to give then.
struct Order {
    number: u64,
    inode: INodeNo,
    pages: Range<u64>,
    answer: Option<Box<dyn FnOnce() + Send>>,
}

fn pages(offset: u64, len_bytes: u64) -> Range<u64> {
    offset / PAGE_BYTES..offset.saturating_add(len_bytes).div_ceil(PAGE_BYTES)
}

fn bytes(pages: &Range<u64>) -> u64 {
    (pages.end - pages.start) * PAGE_BYTES
}

impl Coherence {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives none.
    pub(crate) fn new(transport: Transport) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (orders, to_do) = channel();
        let of_thread = Arc::clone(&shared);
        let run = move || of_thread.carry_out(&to_do, &transport);
        let thread = std::thread::Builder::new().name("terrace-drop".to_owned()).spawn(run)?;
        Ok(Self { shared, orders: Some(orders), thread: Some(thread), held_max: OnceLock::new() })
    }

    /// Before the engine serves a READ or WRITE that the kernel's cache takes part in.
    pub(crate) fn caches(&self, inode: INodeNo, offset: u64, len_bytes: u64) {
        if !self.shared.any.load(Ordering::Acquire) {
            return;
        }
        if let Some(cached) = self.shared.files.lock().get_mut(&inode.0) {
            cached.pages.insert(pages(offset, len_bytes));
        }
    }

    /// After the engine wrote what came by a direct WRITE: `answer`s once the kernel has none of what it replaces.
    pub(crate) fn settle(&self, inode: INodeNo, offset: u64, len_bytes: u64, answer: impl FnOnce() + Send + 'static) {
        let Some(mut order) = self.shared.order(inode, pages(offset, len_bytes)) else {
            return answer();
        };
        if self.shared.hold(self.held_max()) {
            order.answer = Some(Box::new(answer));
        } else {
            answer();
        }
        let orders = self.orders.as_ref().expect("only taken when this is dropped");
        orders.send(order).expect("the thread lives as long as this");
    }

    /// The kernel has forgotten the file, and all pages of it.
    pub(crate) fn forget(&self, inode: INodeNo) {
        if self.shared.any.load(Ordering::Acquire) {
            self.shared.files.lock().remove(&inode.0);
        }
    }

    /// How many answers may be kept: three quarters of what may be under way in the background. The kernel allows those
    /// who are not root of the whole machine less than they ask for, and has told how much by now.
    fn held_max(&self) -> usize {
        *self.held_max.get_or_init(|| {
            let limit = std::fs::read_to_string("/sys/module/fuse/parameters/max_user_bgreq");
            let limit = limit.ok().and_then(|limit| limit.trim().parse::<usize>().ok()).filter(|&limit| limit > 0);
            limit.unwrap_or(BACKGROUND_DEFAULT).min(BACKGROUND_MAX.into()) * 3 / 4
        })
    }
}

impl Drop for Coherence {
    fn drop(&mut self) {
        drop(self.orders.take());
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that drops pages from the kernel's cache panicked");
        }
    }
}

impl Shared {
    /// What has to be dropped before a direct write of these pages is answered, if anything has.
    fn order(&self, inode: INodeNo, pages: Range<u64>) -> Option<Order> {
        let mut files = self.files.lock();
        let known = files.get_mut(&inode.0).map(|cached| cached.must_drop(&pages));
        if known == Some(false) {
            return None;
        }
        let pages = if known.is_some() { pages } else { WHOLE };
        if known.is_none() && files.len() >= FILES_MAX {
            let other = *files.keys().next().expect("there are many");
            files.remove(&other);
        }
        let number = self.ordered.fetch_add(1, Ordering::Relaxed);
        files.entry(inode.0).or_default().dropping.push((number, pages.clone()));
        self.any.store(true, Ordering::Release);
        Some(Order { number, inode, pages, answer: None })
    }

    /// Counts one more answer that is kept, if there may be one.
    fn hold(&self, max: usize) -> bool {
        let one_more = |held| (held < max).then_some(held + 1);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// The thread.
    fn carry_out(&self, orders: &Receiver<Order>, transport: &Transport) {
        for order in orders {
            let dropped = transport.drop_pages(order.inode, order.pages.start * PAGE_BYTES, bytes(&order.pages));
            if let Err(error) = &dropped {
                tracing::warn!("inode {}: buffered readers may see old data: {error}", order.inode);
            }
            if let Some(cached) = self.files.lock().get_mut(&order.inode.0) {
                cached.dropping.retain(|&(number, _)| number != order.number);
                if dropped.is_err() {
                    cached.pages.insert(order.pages);
                }
            }
            if let Some(answer) = order.answer {
                answer();
                self.held.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

impl Cached {
    /// Takes out pages that are written directly; says whether the kernel may have any of them.
    fn must_drop(&mut self, pages: &Range<u64>) -> bool {
        let dropping = self.dropping.iter().any(|(_, range)| range.start < pages.end && pages.start < range.end);
        self.pages.remove(pages) || dropping
    }
}

/// Pages of a file, as runs: where each begins and ends. No two touch.
#[derive(Debug, Default)]
struct Runs(BTreeMap<u64, u64>);

impl Runs {
    fn insert(&mut self, pages: Range<u64>) {
        let Range { mut start, mut end } = pages;
        while let Some((&first, &last)) = self.0.range(..=end).next_back().filter(|&(_, &last)| last >= start) {
            self.0.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.0.insert(start, end);
        if self.0.len() > RUNS_MAX {
            let (first, last) = (self.0.first_key_value(), self.0.last_key_value());
            let all = first.map_or(0, |(&start, _)| start)..last.map_or(0, |(_, &end)| end);
            self.0 = BTreeMap::from([(all.start, all.end)]);
        }
    }

    /// Takes pages out; says whether any of them was there.
    fn remove(&mut self, pages: &Range<u64>) -> bool {
        let mut found = false;
        while let Some((&start, &end)) = self.0.range(..pages.end).next_back().filter(|&(_, &end)| end > pages.start) {
            found = true;
            self.0.remove(&start);
            self.0.extend([(start, pages.start), (pages.end, end)].into_iter().filter(|(start, end)| start < end));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with a set of single pages, over a space so small that everything touches.
    #[test]
    fn runs_are_sets_of_pages() {
        let mut runs = Runs::default();
        let mut model = [false; 16];
        let mut seed = 1_u64;
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (start, len, insert) = (seed >> 33 & 15, seed >> 37 & 7, seed >> 41 & 1 == 1);
            let range = start..(start + len + 1).min(16);
            let part = &mut model[range.start as usize..range.end as usize];
            if insert {
                runs.insert(range);
                part.fill(true);
            } else {
                assert_eq!(runs.remove(&range), part.contains(&true));
                part.fill(false);
            }
            let found: Vec<u64> = runs.0.iter().flat_map(|(&start, &end)| start..end).collect();
            let expected: Vec<u64> = (0..16).filter(|&page| model[page as usize]).collect();
            assert_eq!(found, expected);
            let touching = runs.0.values().filter(|end| runs.0.contains_key(end)).count();
            assert_eq!(touching, 0, "{runs:?}");
        }
    }

    #[test]
    fn too_many_runs_become_one() {
        let mut runs = Runs::default();
        (0..=RUNS_MAX as u64).for_each(|page| runs.insert(10 + 2 * page..11 + 2 * page));
        assert_eq!(runs.0, BTreeMap::from([(10, 11 + 2 * RUNS_MAX as u64)]));
    }

    fn pages_of(order: Option<Order>) -> Option<Range<u64>> {
        order.map(|order| order.pages)
    }

    #[test]
    fn a_write_orders_what_may_be_cached() {
        let shared = Shared::default();
        let file = INodeNo(7);
        let first = shared.order(file, 0..1).expect("nothing is known of the file yet");
        assert_eq!(first.pages, WHOLE);
        let second = shared.order(file, 5..6).expect("the first is not carried out yet");
        let cached = |change: &dyn Fn(&mut Cached)| change(shared.files.lock().get_mut(&7).unwrap());
        for order in [first, second] {
            cached(&|cached| cached.dropping.retain(|&(number, _)| number != order.number));
        }
        assert_eq!(pages_of(shared.order(file, 5..6)), None, "a file that nobody has read");
        cached(&|cached| cached.pages.insert(4..8));
        assert_eq!(pages_of(shared.order(file, 8..9)), None, "pages beside what was read");
        assert_eq!(pages_of(shared.order(file, 7..9)), Some(7..9));
        assert_eq!(pages_of(shared.order(file, 8..9)), Some(8..9), "not dropped yet");
        assert_eq!(pages_of(shared.order(file, 4..5)), Some(4..5));
    }

    #[test]
    fn files_beyond_the_limit_push_others_out() {
        let shared = Shared::default();
        for inode in 0..=FILES_MAX as u64 {
            assert_eq!(pages_of(shared.order(INodeNo(inode), 0..1)), Some(WHOLE));
        }
        assert_eq!(shared.files.lock().len(), FILES_MAX);
    }

    #[test]
    fn no_more_answers_are_kept_than_allowed() {
        let shared = Shared::default();
        assert!(shared.hold(2) && shared.hold(2) && !shared.hold(2));
    }
}
