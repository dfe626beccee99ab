//! Keeps what the kernel caches of a file in step with direct writes to it.
//!
//! Before the kernel sends a direct write it drops the pages of that range. Readers and mappings
//! may bring them back until the write is answered, with the bytes from before. The kernel drops
//! those after a synchronous write, but not after an asynchronous one (libaio, io_uring): they
//! would stay for good. So a direct write is answered only once the kernel has been told to drop
//! its range, and has done so. The message does not say which kind of write it is.
//!
//! Telling the kernel takes a system call that waits for pages under read, for pages under
//! write-back, and for the messages of both. Therefore:
//! * It is made by a thread of its own, which keeps the answer meanwhile. The threads that take
//!   messages never wait for it, so that the messages which it waits for are answered.
//! * Those messages need room among the requests that the kernel keeps under way in the background,
//!   as asynchronous writes do. So not all of that room may be taken by writes whose answer is kept
//!   ([`Coherence::held_max`]). Beyond that a write is answered first, and the kernel told as soon
//!   as possible: by an order that waits for the thread already, if one covers the range.
//! * It takes page locks and no others: whoever waits for an answer may hold any lock that is taken
//!   before them.
//!
//! What spares the call in most cases: of files with direct writes, [`Cached`] knows which pages
//! the kernel may have. Every page that it has came with a READ, or is of a buffered WRITE, and
//! both carry no lock owner, which all direct ones do. So a database that keeps to direct I/O pays
//! for it only where somebody else has read.
//!
//! Invariants:
//! * Of a file in `files`, each page that the kernel may have with bytes from before the next
//!   direct write is in `pages` or in `dropping`. A READ or buffered WRITE adds its pages before
//!   the engine serves it, and the kernel has had them, locked or filled, since before it sent the
//!   message. A direct WRITE takes its pages out after the engine served it, and before the kernel
//!   is told.
//! * An order that covers a write has not begun when the engine has served the write.
//! * At most [`ORDERS_MAX`] orders of a file, and one for the whole of it, wait beyond those that
//!   keep an answer. Only files without orders make way for others: so each file in use has no more
//!   orders than that.
//! * Forgetting a file is always right: its next direct write has the whole of it dropped.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::kernel_cache::KernelCache;
use crate::terms::BACKGROUND_MAX;

const PAGE_BYTES: u64 = 4096;

/// Files whose pages are known; of further ones some other is forgotten.
const FILES_MAX: usize = 4096;

/// Runs of pages that are known of a file; beyond that, the gaps between them count as cached.
const RUNS_MAX: usize = 256;

/// Orders of a file that wait for the thread; beyond that, one has the whole file dropped, and
/// covers what follows.
const ORDERS_MAX: usize = 256;

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
    /// The transport's limit for that.
    answers_kept_max: usize,
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
    /// What the thread is to drop.
    dropping: Vec<Dropping>,
}

/// What is known of an order that is not carried out yet.
#[derive(Debug)]
struct Dropping {
    number: u64,
    pages: Range<u64>,
    /// The kernel may have dropped some of the pages already.
    has_begun: bool,
}

/// Pages of a file that the kernel is to drop, and the answer to give then.
struct Order {
    number: u64,
    inode: u64,
    pages: Range<u64>,
    /// Whether an answer may be kept; it counts in `held` then.
    keeps_answer: bool,
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
    pub(crate) fn new(kernel: KernelCache) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let (orders, to_do) = channel();
        let answers_kept_max = kernel.answers_kept_max();
        let of_thread = Arc::clone(&shared);
        let run = move || of_thread.carry_out(&to_do, &kernel);
        let thread = std::thread::Builder::new().name("terrace-drop".to_owned()).spawn(run)?;
        Ok(Self {
            shared,
            orders: Some(orders),
            thread: Some(thread),
            held_max: OnceLock::new(),
            answers_kept_max,
        })
    }

    /// Before the engine serves a READ or WRITE that the kernel's cache takes part in.
    pub(crate) fn caches(&self, inode: u64, offset: u64, len_bytes: u64) {
        if !self.shared.any.load(Ordering::Acquire) {
            return;
        }
        if let Some(cached) = self.shared.files.lock().get_mut(&inode) {
            cached.pages.insert(pages(offset, len_bytes));
        }
    }

    /// After the engine wrote what came by a direct WRITE: `answer`s once the kernel has none of
    /// what it replaces.
    pub(crate) fn settle(
        &self,
        inode: u64,
        offset: u64,
        len_bytes: u64,
        answer: impl FnOnce() + Send + 'static,
    ) {
        let Some(mut order) = self.shared.order(inode, pages(offset, len_bytes), self.held_max())
        else {
            return answer();
        };
        if order.keeps_answer {
            order.answer = Some(Box::new(answer));
        } else {
            answer();
        }
        let orders = self.orders.as_ref().expect("only taken when this is dropped");
        orders.send(order).expect("the thread lives as long as this");
    }

    /// The kernel has forgotten the file, and all pages of it.
    pub(crate) fn forget(&self, inode: u64) {
        if self.shared.any.load(Ordering::Acquire) {
            self.shared.files.lock().remove(&inode);
        }
    }

    /// How many answers may be kept: three quarters of what may be under way in the background. The
    /// kernel allows those who are not root of the whole machine less than they ask for, and has
    /// told how much by now.
    fn held_max(&self) -> usize {
        *self.held_max.get_or_init(|| {
            let limit = std::fs::read_to_string("/sys/module/fuse/parameters/max_user_bgreq");
            let limit = limit
                .ok()
                .and_then(|limit| limit.trim().parse::<usize>().ok())
                .filter(|&limit| limit > 0);
            let of_kernel = limit.unwrap_or(BACKGROUND_DEFAULT).min(BACKGROUND_MAX.into()) * 3 / 4;
            of_kernel.min(self.answers_kept_max)
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
    /// What the thread has to drop on account of a direct write of these pages; `None`: nothing, or
    /// nothing more than it has been told. `held_max`: how many answers may be kept.
    fn order(&self, inode: u64, pages: Range<u64>, held_max: usize) -> Option<Order> {
        let mut files = self.files.lock();
        let known = files.get_mut(&inode).map(|cached| cached.must_drop(&pages));
        if known == Some(false) {
            return None;
        }
        if known.is_none() && files.len() >= FILES_MAX {
            let other = files
                .iter()
                .find(|(_, cached)| cached.dropping.is_empty())
                .map(|(&other, _)| other);
            if let Some(other) = other {
                files.remove(&other);
            }
        }
        let pages = if known.is_some() { pages } else { WHOLE };
        let cached = files.entry(inode).or_default();
        let keeps_answer = self.hold(held_max);
        let pages = if keeps_answer { pages } else { cached.not_covered(pages)? };
        let number = self.ordered.fetch_add(1, Ordering::Relaxed);
        cached.dropping.push(Dropping { number, pages: pages.clone(), has_begun: false });
        self.any.store(true, Ordering::Release);
        Some(Order { number, inode, pages, keeps_answer, answer: None })
    }

    /// The thread begins with an order: from now on it covers no further write.
    fn begin(&self, order: &Order) {
        if let Some(cached) = self.files.lock().get_mut(&order.inode) {
            cached
                .dropping
                .iter_mut()
                .filter(|d| d.number == order.number)
                .for_each(|d| d.has_begun = true);
        }
    }

    /// An order has been carried out; unless the pages are `dropped`, the kernel may have them
    /// still.
    fn end(&self, order: &Order, dropped: bool) {
        if let Some(cached) = self.files.lock().get_mut(&order.inode) {
            cached.dropping.retain(|d| d.number != order.number);
            if !dropped {
                cached.pages.insert(order.pages.clone());
            }
        }
    }

    /// Counts one more answer that is kept, if there may be one.
    fn hold(&self, max: usize) -> bool {
        let one_more = |held| (held < max).then_some(held + 1);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// The thread.
    fn carry_out(&self, orders: &Receiver<Order>, kernel: &KernelCache) {
        for order in orders {
            self.begin(&order);
            let dropped =
                kernel.drop_pages(order.inode, order.pages.start * PAGE_BYTES, bytes(&order.pages));
            if let Err(error) = &dropped {
                tracing::warn!("inode {}: buffered readers may see old data: {error}", order.inode);
            }
            self.end(&order, dropped.is_ok());
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
        let overlaps = |d: &Dropping| d.pages.start < pages.end && pages.start < d.pages.end;
        let dropping = self.dropping.iter().any(overlaps);
        self.pages.remove(pages) || dropping
    }

    /// What is to be ordered so that these pages are dropped from now on; `None`: an order that has
    /// not begun covers them.
    fn not_covered(&self, pages: Range<u64>) -> Option<Range<u64>> {
        let covers =
            |d: &Dropping| !d.has_begun && d.pages.start <= pages.start && pages.end <= d.pages.end;
        let is_full = self.dropping.len() >= ORDERS_MAX;
        (!self.dropping.iter().any(covers)).then_some(if is_full { WHOLE } else { pages })
    }
}

/// Pages of a file, as runs: where each begins and ends. No two touch.
#[derive(Debug, Default)]
struct Runs(BTreeMap<u64, u64>);

impl Runs {
    fn insert(&mut self, pages: Range<u64>) {
        let Range { mut start, mut end } = pages;
        while let Some((&first, &last)) =
            self.0.range(..=end).next_back().filter(|&(_, &last)| last >= start)
        {
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
        while let Some((&start, &end)) =
            self.0.range(..pages.end).next_back().filter(|&(_, &end)| end > pages.start)
        {
            found = true;
            self.0.remove(&start);
            self.0.extend(
                [(start, pages.start), (pages.end, end)]
                    .into_iter()
                    .filter(|(start, end)| start < end),
            );
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

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
        let file = 7_u64;
        let order = |pages| shared.order(file, pages, usize::MAX);
        let first = order(0..1).expect("nothing is known of the file yet");
        assert_eq!(first.pages, WHOLE);
        let second = order(5..6).expect("the first is not carried out yet");
        [first, second].iter().for_each(|order| shared.end(order, true));
        assert_eq!(pages_of(order(5..6)), None, "a file that nobody has read");
        shared.files.lock().get_mut(&7).unwrap().pages.insert(4..8);
        assert_eq!(pages_of(order(8..9)), None, "pages beside what was read");
        assert_eq!(pages_of(order(7..9)), Some(7..9));
        assert_eq!(pages_of(order(8..9)), Some(8..9), "not dropped yet");
        assert_eq!(pages_of(order(4..5)), Some(4..5));
    }

    #[test]
    fn a_write_that_is_answered_first_needs_no_order_if_one_that_waits_covers_it() {
        let shared = Shared::default();
        let order = |pages| shared.order(7, pages, 0);
        let first = order(0..1).expect("nothing is known of the file yet");
        assert_eq!(pages_of(order(5..6)), None, "the whole file will be dropped");
        shared.begin(&first);
        let second = order(4..8).expect("the first may have dropped them already");
        assert_eq!(pages_of(order(5..7)), None);
        assert_eq!(pages_of(order(7..9)), Some(7..9), "a page of it is not covered");
        shared.begin(&second);
        assert_eq!(pages_of(order(5..7)), Some(5..7));
    }

    /// The kernel, the engine and the thread, with every page of a file in any version; steps in
    /// any order.
    #[derive(Default)]
    struct Model {
        shared: Shared,
        orders: VecDeque<Order>,
        /// The version that the kernel has cached, and that the engine has, by page.
        kernel: BTreeMap<u64, u64>,
        engine: BTreeMap<u64, u64>,
        most: usize,
    }

    const FILE: u64 = 7;

    impl Model {
        /// A buffered READ of a page.
        fn read(&mut self, page: u64) {
            if let Some(cached) = self.shared.files.lock().get_mut(&FILE) {
                cached.pages.insert(page..page + 1);
            }
            self.kernel.insert(page, self.engine.get(&page).copied().unwrap_or(0));
        }

        /// An asynchronous direct WRITE, with a READ of one of its pages before the engine serves
        /// it.
        fn write(&mut self, pages: Range<u64>, read: Option<u64>, held_max: usize) {
            self.kernel.retain(|page, _| !pages.contains(page));
            read.into_iter().for_each(|page| self.read(page));
            pages.clone().for_each(|page| *self.engine.entry(page).or_default() += 1);
            self.orders.extend(self.shared.order(FILE, pages, held_max));
            self.most = self.most.max(self.orders.len());
        }

        /// The thread carries out the first order; `meanwhile` comes when the kernel has dropped
        /// the pages.
        fn carry_out(&mut self, meanwhile: impl FnOnce(&mut Self)) {
            if let Some(order) = self.orders.pop_front() {
                self.shared.begin(&order);
                self.kernel.retain(|page, _| !order.pages.contains(page));
                meanwhile(self);
                self.shared.end(&order, true);
                self.shared.held.fetch_sub(order.keeps_answer.into(), Ordering::Relaxed);
            }
        }
    }

    /// However far the thread lags behind, its orders are few, and in the end the kernel has
    /// nothing old.
    #[test]
    fn orders_stay_few_and_nothing_old_stays_cached() {
        for (pages, lag, held_max) in
            [(8, 2, 0), (8, 2, 3), (8, 50, 3), (4096, 2, 0), (4096, 3000, 3)]
        {
            let mut model = Model::default();
            let mut random = 1_u64;
            let mut below = |n: u64| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (random >> 33) % n
            };
            for _ in 0..20_000 {
                let start = below(pages);
                let range = start..(start + 1 + below(3)).min(pages);
                let read = (below(2) == 0).then_some(start);
                let write = |model: &mut Model| model.write(range, read, held_max);
                match below(lag) {
                    0 => model.carry_out(write),
                    _ if below(3) == 0 => model.read(start),
                    _ => write(&mut model),
                }
                // Now and then the thread has nothing left to do.
                while below(lag) == 0 && !model.orders.is_empty() {
                    model.carry_out(|_| ());
                }
                let is_settled = model.orders.is_empty();
                for (page, version) in model.kernel.iter().filter(|_| is_settled) {
                    assert_eq!(
                        model.engine.get(page).unwrap_or(&0),
                        version,
                        "page {page} of {pages}, lag {lag}"
                    );
                }
            }
            // One for the whole file waits beyond the limit, and one has begun.
            assert!(
                model.most <= ORDERS_MAX + held_max + 2,
                "{} orders of {pages} pages, lag {lag}",
                model.most
            );
        }
    }

    #[test]
    fn files_beyond_the_limit_push_others_out() {
        let shared = Shared::default();
        let files = 0..=FILES_MAX as u64;
        let order = |inode| shared.order(inode, 0..1, 0).expect("nothing is known of the file");
        let orders: Vec<Order> = files.clone().map(order).collect();
        assert!(orders.iter().all(|order| order.pages == WHOLE));
        let again = |inode| pages_of(shared.order(inode, 0..1, 0));
        assert!(
            files.clone().all(|inode| again(inode).is_none()),
            "none is pushed out while it has an order"
        );
        orders.iter().for_each(|order| shared.end(order, true));
        assert_eq!(again(files.end() + 1), Some(WHOLE));
        assert_eq!(shared.files.lock().len(), FILES_MAX + 1, "one has gone, and one has come");
    }

    #[test]
    fn no_more_answers_are_kept_than_allowed() {
        let shared = Shared::default();
        assert!(shared.hold(2) && shared.hold(2) && !shared.hold(2));
    }
}
