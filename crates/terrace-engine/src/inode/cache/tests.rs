use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::slice::from_ref;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;

const PAGE: u64 = PAGE_BYTES as u64;
const UUID: &str = "0f3c2a55-6c1e-4f0e-9d7a-3f1b2c4d5e6f";

thread_local! {
    static AT_CRASH_POINT: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// Called by the code under test after each store that a crash could separate from the next.
pub(super) fn crash_point() {
    AT_CRASH_POINT.with_borrow_mut(|hook| {
        if let Some(hook) = hook {
            hook();
        }
    });
}

/// Runs `work`, calling `hook` at each of its crash points.
fn with_crash_points(hook: impl FnMut() + 'static, work: impl FnOnce()) {
    AT_CRASH_POINT.set(Some(Box::new(hook)));
    work();
    AT_CRASH_POINT.set(None);
}

fn anonymous(pages: u64) -> Arc<PageCache> {
    PageCache::new(pages * PAGE, None).unwrap().0
}

/// A cache whose slots are spread over this many shards, whatever the machine.
fn sharded(pages: u32, shards: usize) -> PageCache {
    let pool = Pool::with_shards(Slots::anonymous(pages).unwrap(), 0, shards);
    PageCache { pool: Arc::new(pool), file: None, recovered: Mutex::default(), wanted: None }
}

fn backing(dir: &Path) -> CacheBacking {
    CacheBacking { dir: dir.to_owned(), uuid: UUID.to_owned(), epoch: 7 }
}

fn open(dir: &Path) -> (Arc<PageCache>, Vec<RecoveredPage>) {
    PageCache::new(64 * PAGE, Some(&backing(dir))).unwrap()
}

/// Blank pages for these blocks, each filled with its byte.
fn filled(cache: &PageCache, pages: &[(u64, u8)]) -> Vec<(u64, BlankPage)> {
    let mut blanks = cache.take(0, pages.len()).expect("there is room");
    for (blank, &(_, byte)) in blanks.iter_mut().zip(pages) {
        blank.as_mut_slice().fill(byte);
    }
    pages.iter().map(|&(block, _)| block).zip(blanks).collect()
}

fn write(cache: &PageCache, map: &Arc<PageMap>, pages: &[(u64, u8)], size: u64) {
    cache.publish_dirty(map, filled(cache, pages), size, 1000);
}

fn fetch(cache: &PageCache, map: &Arc<PageMap>, pages: &[(u64, u8)]) {
    cache.publish_clean(map, filled(cache, pages));
}

/// Turns one page clean; whether it was still its block's.
fn mark_clean(cache: &PageCache, map: &PageMap, page: &DirtyPage) -> bool {
    cache.mark_clean(map, from_ref(page)) == 1
}

/// The byte that fills a cached page.
fn byte(cache: &PageCache, map: &PageMap, block: u64) -> Option<u8> {
    let mut page = [0; PAGE_BYTES];
    let hit = cache.read(map, block, 0, &mut page) == PAGE_BYTES;
    assert!(!hit || page.iter().all(|&b| b == page[0]), "page of block {block} is torn");
    hit.then_some(page[0])
}

/// What recovery found: block, size, byte, in the order of (ino, generation, block).
fn found(pages: &[RecoveredPage]) -> Vec<(u64, u64, u8)> {
    let summary = |page: &RecoveredPage| {
        assert!(page.data().iter().all(|&b| b == page.data()[0]));
        (page.block, page.size, page.data()[0])
    };
    pages.iter().map(summary).collect()
}

pub(crate) fn check(
    cache: &PageCache,
    maps: &[Arc<PageMap>],
    pins: &[DirtyPage],
    blanks: &[BlankPage],
) {
    let mut held: Vec<SlotId> = pins.iter().map(|pin| pin.slot).collect();
    held.extend(blanks.iter().map(|blank| blank.slot));
    let (mut clean, mut dirty) = (Vec::new(), 0);
    for map in maps {
        let pages = map.pages.read();
        let of_map =
            |kind| pages.range(0, u64::MAX).filter(move |page| page.2 == kind).map(|page| page.1);
        clean.extend(of_map(Kind::Clean));
        held.extend(of_map(Kind::Dirty));
        let dirty_here = pages.dirty(0, u64::MAX).count() as u64;
        dirty += dirty_here;
        assert_eq!(map.dirty_pages(), dirty_here);
        assert_eq!(map.count.load(Ordering::Relaxed) as usize, pages.range(0, u64::MAX).count());
    }
    held.extend(&clean);
    assert_eq!((cache.clean_pages(), cache.dirty_pages()), (clean.len() as u64, dirty));
    cache.pool.check(&held, &clean);
}

#[test]
fn reads_parts_of_pages_and_nothing_else() {
    let cache = anonymous(8);
    let map = cache.map(5, 1);
    let mut out = [0xff; 3];
    assert!(map.is_empty() && cache.read(&map, 0, 0, &mut out) == 0);
    let mut page = filled(&cache, &[(2, 0)]);
    page[0].1[4093..].copy_from_slice(&[1, 2, 3]);
    cache.publish_dirty(&map, page, 3 * PAGE, 9);
    assert_eq!(cache.read(&map, 2, 4093, &mut out), 3);
    assert_eq!(out, [1, 2, 3]);
    assert_eq!(
        (cache.read(&map, 1, 0, &mut out), cache.read(&cache.map(5, 1), 2, 0, &mut out)),
        (0, 0)
    );
    assert!(cache.dirty_blocks(&map, 1, 3) == [2]);
}

#[test]
fn reads_pages_that_follow_each_other_at_once() {
    let cache = anonymous(2 * READ_PAGES_MAX);
    let map = cache.map(5, 1);
    let last = READ_PAGES_MAX + 2;
    let pages: Vec<(u64, u8)> =
        (1..=last).filter(|&block| block != 4).map(|block| (block, block as u8)).collect();
    let pages = filled(&cache, &pages);
    cache.publish_dirty(&map, pages, 100 * PAGE, 9);
    let mut out = vec![0; 100 * PAGE_BYTES];
    // To the page that is not there, from within one and into another.
    assert_eq!(cache.read(&map, 1, 100, &mut out), 3 * PAGE_BYTES - 100);
    assert!(out[..PAGE_BYTES - 100].iter().all(|&b| b == 1) && out[3 * PAGE_BYTES - 101] == 3);
    assert_eq!(cache.read(&map, 2, 4000, &mut out[..200]), 200);
    assert!(out[..96].iter().all(|&b| b == 2) && out[96..200].iter().all(|&b| b == 3));
    // No more than it may.
    assert_eq!(cache.read(&map, 5, 0, &mut out), (last - 4) as usize * PAGE_BYTES);
    let more = filled(&cache, &[(4, 4), (last + 1, 9)]);
    cache.publish_dirty(&map, more, 100 * PAGE, 9);
    assert_eq!(cache.read(&map, 1, 0, &mut out), READ_PAGES_MAX as usize * PAGE_BYTES);
}

#[test]
fn a_fetched_page_does_not_replace_what_is_there() {
    let cache = anonymous(8);
    let map = cache.map(5, 1);
    write(&cache, &map, &[(0, 1)], PAGE);
    fetch(&cache, &map, &[(0, 2), (1, 2)]);
    fetch(&cache, &map, &[(1, 3)]);
    assert_eq!((byte(&cache, &map, 0), byte(&cache, &map, 1)), (Some(1), Some(2)));
    check(&cache, &[map], &[], &[]);
}

#[test]
fn an_overwrite_leaves_the_pinned_page_alone() {
    let cache = anonymous(2);
    let map = cache.map(5, 1);
    write(&cache, &map, &[(0, 1)], PAGE);
    let pins = cache.dirty(&map, 0, 10);
    write(&cache, &map, &[(0, 2)], PAGE);
    assert!(cache.take(0, 1).is_none(), "the pinned slot was given away");
    assert_eq!((pins[0].data()[0], byte(&cache, &map, 0)), (1, Some(2)));
    assert!(!cache.current(&map, &pins)[0] && !mark_clean(&cache, &map, &pins[0]));
    assert!(cache.dirty_blocks(&map, 0, 1) == [0]);
    check(&cache, from_ref(&map), &pins, &[]);
    drop(pins);
    assert!(cache.take(0, 1).is_some());
    let pins = cache.dirty(&map, 0, 10);
    assert!(cache.current(&map, &pins)[0] && mark_clean(&cache, &map, &pins[0]));
    assert!(!mark_clean(&cache, &map, &pins[0]) && !map.has_dirty());
    assert_eq!(byte(&cache, &map, 0), Some(2));
    assert!(cache.take(0, 2).is_none(), "a pinned page was evicted");
    drop(pins);
    assert!(cache.take(0, 2).is_some() && map.is_empty());
    check(&cache, &[map], &[], &[]);
}

#[test]
fn eviction_spares_dirty_pages_and_gives_hits_a_second_chance() {
    let cache = sharded(16, 1);
    let map = cache.map(5, 1);
    write(&cache, &map, &[(100, 1), (101, 2), (102, 3), (103, 4)], 1 << 20);
    for block in 0..12 {
        fetch(&cache, &map, &[(block, 9)]);
    }
    let hot = [0, 1, 2, 3];
    for block in hot {
        assert_eq!(byte(&cache, &map, block), Some(9));
    }
    let blanks = cache.take(1, 8).unwrap();
    assert_eq!(cache.cached_blocks(&map, 0, 100), hot);
    assert_eq!(cache.cached_blocks(&map, 3, 102), [3, 100, 101]);
    assert_eq!(cache.dirty_blocks(&map, 0, u64::MAX), [100, 101, 102, 103]);
    assert!(cache.take(0, 5).is_none());
    check(&cache, from_ref(&map), &[], &blanks);
    assert_eq!(cache.take(0, 4).unwrap().len(), 4);
    assert_eq!(cache.cached_blocks(&map, 0, u64::MAX), [100, 101, 102, 103]);
    assert!(cache.take(0, 17).is_none());
}

#[test]
fn shards_take_turns_in_evicting() {
    let cache = sharded(16, 4);
    let map = cache.map(5, 1);
    for block in 0..16 {
        fetch(&cache, &map, &[(block, 9)]);
    }
    let blanks = cache.take(2, 8).unwrap();
    let mut taken = [0; 4];
    blanks.iter().for_each(|blank| taken[cache.pool.home_index(blank.slot)] += 1);
    assert_eq!(taken, [2; 4]);
}

#[test]
fn dirty_pages_come_in_order_and_in_pieces() {
    let cache = anonymous(16);
    let map = cache.map(5, 1);
    write(&cache, &map, &[(7, 7), (3, 3), (5, 5), (9, 9)], 1 << 20);
    let blocks = |from, limit| -> Vec<(u64, u8)> {
        cache.dirty(&map, from, limit).iter().map(|page| (page.block, page.data()[9])).collect()
    };
    assert_eq!(blocks(0, 10), [(3, 3), (5, 5), (7, 7), (9, 9)]);
    assert_eq!(blocks(4, 2), [(5, 5), (7, 7)]);
    assert_eq!(blocks(10, 2), []);
    let data = cache.dirty(&map, 0, 1);
    assert_eq!(data[0].data().as_ptr() as usize % PAGE_BYTES, 0);
}

#[test]
fn dropping_a_map_frees_its_clean_pages_and_keeps_dirty_ones_for_recovery() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path());
    let map = cache.map(5, 1);
    fetch(&cache, &map, &[(0, 1), (1, 1)]);
    drop(map);
    check(&cache, &[], &[], &[]);
    let map = cache.map(6, 1);
    write(&cache, &map, &[(4, 4)], 5 * PAGE);
    drop(map);
    assert_eq!(cache.dirty_pages(), 1);
    assert!(cache.take(0, 64).is_none() && cache.take(0, 63).is_some());
    drop(cache);
    assert_eq!(found(&open(dir.path()).1), [(4, 5 * PAGE, 4)]);
}

#[test]
fn no_budget_is_a_cache_that_holds_nothing() {
    let cache = anonymous(0);
    assert_eq!(cache.budget_pages(), 0);
    assert!(cache.take(3, 1).is_none() && cache.take(3, 0).is_some());
}

#[derive(Clone, Debug)]
enum Op {
    Write { file: usize, block: u64, pages: u64 },
    Fetch { file: usize, block: u64, pages: u64 },
    Pin { file: usize, from: u64, limit: usize },
    Unpin { clean: bool },
    Drop { file: usize, from: u64, to: u64 },
    Forget { file: usize },
    Take { pages: usize },
    GiveBack,
}

fn op() -> impl Strategy<Value = Op> {
    let place = || (0usize..3, 0u64..12, 1u64..5);
    prop_oneof![
        4 => place().prop_map(|(file, block, pages)| Op::Write { file, block, pages }),
        4 => place().prop_map(|(file, block, pages)| Op::Fetch { file, block, pages }),
        2 => (0usize..3, 0u64..12, 1usize..9)
            .prop_map(|(file, from, limit)| Op::Pin { file, from, limit }),
        2 => any::<bool>().prop_map(|clean| Op::Unpin { clean }),
        1 => (0usize..3, 0u64..12, 0u64..14)
            .prop_map(|(file, from, to)| Op::Drop { file, from, to }),
        1 => (0usize..3).prop_map(|file| Op::Forget { file }),
        1 => (0usize..5).prop_map(|pages| Op::Take { pages }),
        1 => Just(Op::GiveBack),
    ]
}

/// What must be cached: a dirty page certainly, a clean one with this byte if at all.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Expected {
    byte: u8,
    dirty: bool,
}

#[derive(Default)]
struct Model {
    pages: HashMap<(usize, u64), Expected>,
    byte: u8,
    pins: Vec<DirtyPage>,
    pinned: Vec<(usize, u8)>,
    blanks: Vec<BlankPage>,
}

impl Model {
    fn apply(&mut self, cache: &PageCache, maps: &mut [Arc<PageMap>], op: Op) {
        self.byte = self.byte.wrapping_add(1);
        let byte = self.byte;
        match op {
            Op::Write { file, block, pages } | Op::Fetch { file, block, pages } => {
                let dirty = matches!(op, Op::Write { .. });
                let Some(mut blanks) = cache.take(file, pages as usize) else {
                    assert!(self.room(cache) < pages as usize, "no pages, though there is room");
                    return;
                };
                blanks.iter_mut().for_each(|blank| blank.fill(byte));
                let new: Vec<_> = (block..).zip(blanks).collect();
                for block in block..block + pages {
                    let there = cache.cached_blocks(&maps[file], block, block + 1).len() == 1;
                    if dirty || !there {
                        self.pages.insert((file, block), Expected { byte, dirty });
                    }
                }
                match dirty {
                    true => cache.publish_dirty(&maps[file], new, 1 << 20, 1),
                    false => cache.publish_clean(&maps[file], new),
                }
            }
            Op::Pin { file, from, limit } => {
                let pins = cache.dirty(&maps[file], from, limit);
                self.pinned.extend(pins.iter().map(|pin| (file, pin.data()[0])));
                self.pins.extend(pins);
            }
            Op::Unpin { clean } => {
                for (pin, (file, byte)) in self.pins.drain(..).zip(self.pinned.drain(..)) {
                    assert!(pin.data().iter().all(|&b| b == byte), "a pinned page changed");
                    let expected = self.pages.get_mut(&(file, pin.block));
                    let current = expected.as_ref().is_some_and(|e| e.dirty && e.byte == byte);
                    assert_eq!(cache.current(&maps[file], from_ref(&pin)), [current]);
                    if clean {
                        assert_eq!(mark_clean(cache, &maps[file], &pin), current);
                        if current {
                            expected.unwrap().dirty = false;
                        }
                    }
                }
            }
            Op::Drop { file, from, to } => {
                cache.drop_range(&maps[file], from, to);
                self.pages.retain(|&(f, block), _| f != file || block < from || block >= to);
            }
            Op::Forget { file } => {
                cache.drop_range(&maps[file], 0, u64::MAX);
                self.pages.retain(|&(f, _), _| f != file);
                maps[file] = cache.map(maps[file].ino, maps[file].generation + 1);
            }
            Op::Take { pages } => self.blanks.extend(cache.take(1, pages).unwrap_or_default()),
            Op::GiveBack => self.blanks.clear(),
        }
    }

    /// Pages that a lone caller must be able to take.
    fn room(&self, cache: &PageCache) -> usize {
        let pinned: std::collections::HashSet<_> = self.pins.iter().map(|pin| pin.slot).collect();
        let dirty = cache.dirty_pages() as usize;
        // Pinned slots may be dirty as well, so this is a lower bound.
        (cache.budget_pages() as usize).saturating_sub(dirty + pinned.len() + self.blanks.len())
    }

    fn compare(&self, cache: &PageCache, maps: &[Arc<PageMap>]) {
        for (&(file, block), expected) in &self.pages {
            let cached = byte(cache, &maps[file], block);
            assert!(cached.is_none_or(|byte| byte == expected.byte), "file {file} block {block}");
            assert!(cached.is_some() || !expected.dirty, "file {file} block {block} lost");
            assert_eq!(
                !cache.dirty_blocks(&maps[file], block, block + 1).is_empty(),
                expected.dirty
            );
        }
        for (file, map) in maps.iter().enumerate() {
            for block in cache.cached_blocks(map, 0, u64::MAX) {
                assert!(
                    self.pages.contains_key(&(file, block)),
                    "file {file} block {block} appeared"
                );
            }
        }
        check(cache, maps, &self.pins, &self.blanks);
    }
}

proptest! {
    #[test]
    fn behaves_as_the_model(ops in prop::collection::vec(op(), 1..80), pages in 6u64..30) {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _) = PageCache::new(pages * PAGE, Some(&backing(dir.path()))).unwrap();
        let mut maps: Vec<_> = (1..4).map(|ino| cache.map(ino, 0)).collect();
        let mut model = Model::default();
        for op in ops {
            model.apply(&cache, &mut maps, op);
            model.compare(&cache, &maps);
        }
        // The daemon dies; exactly the dirty pages are there again.
        let mut dirty: Vec<_> = model.pages.iter().filter(|(_, e)| e.dirty)
            .map(|(&(file, block), e)| (file as u64 + 1, maps[file].generation, block, e.byte))
            .collect();
        dirty.sort_unstable();
        std::mem::forget((cache, maps));
        let recovered = open(dir.path()).1;
        let recovered: Vec<_> = recovered.iter()
            .map(|page| (page.ino, page.generation, page.block, page.data()[0])).collect();
        prop_assert_eq!(recovered, dirty);
    }
}

#[test]
fn readers_writers_writeback_and_evictors_at_once() {
    const FILES: u64 = 3;
    const BLOCKS: u64 = 40;
    let cache = sharded(48, 3);
    let maps: Vec<_> = (1..=FILES).map(|ino| cache.map(ino, 0)).collect();
    let stop = AtomicBool::new(false);
    let start = Barrier::new(4);
    // Each block's pages are filled with one byte, so a torn or misplaced page shows: the upper
    // half of the byte follows from the block, the lower counts.
    let mark = |file: usize, block: u64, n: u64| {
        ((file as u64 * BLOCKS + block) % 15 + 1) as u8 * 16 + (n % 16) as u8
    };
    let belongs = |file: usize, block: u64, byte: u8| byte / 16 == mark(file, block, 0) / 16;
    std::thread::scope(|scope| {
        let publisher = |seed: u64, dirty: bool| {
            let (cache, maps, start, stop) = (&cache, &maps, &start, &stop);
            move || {
                start.wait();
                let mut random = fastrand::Rng::with_seed(seed);
                for n in 0..20_000 {
                    let file = random.usize(..FILES as usize);
                    let first = random.u64(..BLOCKS - 4);
                    let count = random.u64(1..=4);
                    let Some(mut blanks) = cache.take(n as usize, count as usize) else {
                        std::thread::yield_now();
                        continue;
                    };
                    for (blank, block) in blanks.iter_mut().zip(first..) {
                        blank.fill(mark(file, block, n));
                    }
                    let pages = (first..).zip(blanks).collect();
                    match dirty {
                        true => cache.publish_dirty(&maps[file], pages, 1 << 20, 0),
                        false => cache.publish_clean(&maps[file], pages),
                    }
                    if n % 64 == 0 {
                        cache.drop_range(&maps[file], first, first + 2);
                    }
                }
                if dirty {
                    stop.store(true, Ordering::Relaxed);
                }
            }
        };
        scope.spawn(publisher(1, true));
        scope.spawn(publisher(2, false));
        scope.spawn(|| {
            start.wait();
            while !stop.load(Ordering::Relaxed) {
                for (file, map) in maps.iter().enumerate() {
                    for page in cache.dirty(map, 0, 8) {
                        let byte = page.data()[0];
                        assert!(belongs(file, page.block, byte));
                        assert!(page.data().iter().all(|&b| b == byte), "a pinned page changed");
                        mark_clean(&cache, map, &page);
                    }
                }
            }
        });
        start.wait();
        let mut random = fastrand::Rng::with_seed(3);
        while !stop.load(Ordering::Relaxed) {
            let file = random.usize(..FILES as usize);
            let block = random.u64(..BLOCKS);
            if let Some(byte) = byte(&cache, &maps[file], block) {
                assert!(belongs(file, block, byte), "file {file} block {block} holds {byte}");
            }
        }
    });
    check(&cache, &maps, &[], &[]);
    for map in &maps {
        cache.drop_range(map, 0, u64::MAX);
    }
    check(&cache, &maps, &[], &[]);
    assert_eq!(cache.take(0, 48).map(|blanks| blanks.len()), Some(48));
}

#[test]
fn maps_come_and_go_under_the_evictor() {
    let cache = sharded(16, 2);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for ino in 1..5_000 {
                let map = cache.map(ino, 0);
                let pages = cache.take(0, 2).into_iter().flatten().zip(0..);
                cache.publish_clean(&map, pages.map(|(blank, block)| (block, blank)).collect());
            }
            stop.store(true, Ordering::Relaxed);
        });
        while !stop.load(Ordering::Relaxed) {
            drop(cache.take(1, 12));
        }
    });
    check(&cache, &[], &[], &[]);
    assert_eq!(cache.take(0, 16).map(|blanks| blanks.len()), Some(16));
}

#[test]
fn a_dead_daemons_dirty_pages_are_recovered() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, none) = open(dir.path());
    assert!(none.is_empty());
    let map = cache.map(5, 3);
    write(&cache, &map, &[(0, 1), (1, 2), (2, 3)], 3 * PAGE);
    write(&cache, &map, &[(1, 4)], 3 * PAGE);
    fetch(&cache, &map, &[(8, 8)]);
    let pins = cache.dirty(&map, 0, 1);
    assert!(mark_clean(&cache, &map, &pins[0]));
    cache.clamp_sizes(&map, 2 * PAGE + 1);
    std::mem::forget((cache, map, pins));

    let (cache, pages) = open(dir.path());
    assert_eq!(found(&pages), [(1, 2 * PAGE + 1, 4), (2, 2 * PAGE + 1, 3)]);
    assert!(pages.iter().all(|p| (p.ino, p.generation, p.mtime_ns) == (5, 3, 1000)));
    // It dies again before the pages were published: they are still there. And again, halfway.
    std::mem::forget(cache);
    let (cache, pages) = open(dir.path());
    assert_eq!(found(&pages), [(1, 2 * PAGE + 1, 4), (2, 2 * PAGE + 1, 3)]);
    let map = cache.map(5, 3);
    write(&cache, &map, &[(2, 5)], 7);
    assert!(map.dirty_pages() == 1 && pages.iter().all(|page| page.seq < cache.pool.next_seq()));
    std::mem::forget((cache, map));
    let (cache, pages) = open(dir.path());
    assert_eq!(found(&pages), [(1, 2 * PAGE + 1, 4), (2, 7, 5)]);
    // Published whole: the old files go, and the pages stay readable until the caller is done with
    // them.
    let map = cache.map(5, 3);
    write(&cache, &map, &[(1, 4), (2, 5)], 7);
    cache.forget_recovered().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_eq!(found(&pages), [(1, 2 * PAGE + 1, 4), (2, 7, 5)]);
    std::mem::forget((cache, map));
    let (cache, pages) = open(dir.path());
    assert_eq!(found(&pages), [(1, 7, 4), (2, 7, 5)]);
    cache.remove_backing().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_mount_that_keeps_dying_does_not_pile_up_files() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path());
    let map = cache.map(5, 3);
    write(&cache, &map, &[(0, 1), (1, 2), (2, 3)], 3 * PAGE);
    std::mem::forget((cache, map));
    for _ in 0..5 {
        let (cache, pages) = open(dir.path());
        assert_eq!(found(&pages), [(0, 3 * PAGE, 1), (1, 3 * PAGE, 2), (2, 3 * PAGE, 3)]);
        let map = cache.map(5, 3);
        write(&cache, &map, &[(0, 1), (1, 2)], 3 * PAGE);
        assert!(fs::read_dir(dir.path()).unwrap().count() <= 3);
        std::mem::forget((cache, map));
    }
}

/// The cache's file at each crash point, recovered: everything is the state before or the state
/// after.
#[test]
fn a_publication_is_there_whole_or_not_at_all_at_every_crash_point() {
    let dir = tempfile::tempdir().unwrap();
    let images = tempfile::tempdir().unwrap();
    let (cache, _) = open(dir.path());
    let map = cache.map(5, 3);
    write(&cache, &map, &[(0, 1), (1, 1), (2, 1)], 3 * PAGE);
    fetch(&cache, &map, &[(3, 1)]);
    let name = format!("terrace-{UUID}.cache");
    let snapshot = {
        let (file, images, name) = (dir.path().join(&name), images.path().to_owned(), name.clone());
        let mut count = 0;
        move || {
            let image = images.join(count.to_string());
            fs::create_dir(&image).unwrap();
            fs::copy(&file, image.join(&name)).unwrap();
            count += 1;
        }
    };
    with_crash_points(snapshot, || {
        write(&cache, &map, &[(1, 2), (2, 2), (3, 2), (4, 2)], 5 * PAGE);
    });
    let before = [(0, 3 * PAGE, 1), (1, 3 * PAGE, 1), (2, 3 * PAGE, 1)];
    let after =
        [(0, 3 * PAGE, 1), (1, 5 * PAGE, 2), (2, 5 * PAGE, 2), (3, 5 * PAGE, 2), (4, 5 * PAGE, 2)];
    let count = fs::read_dir(images.path()).unwrap().count();
    assert_eq!(count, 4 * 2 + 1 + 3);
    let mut states = BTreeMap::new();
    for image in 0..count {
        let pages = found(&open(&images.path().join(image.to_string())).1);
        let state = if pages == before { "before" } else { "after" };
        assert!(pages == before || pages == after, "image {image}: {pages:?}");
        states.insert(image, state);
    }
    let commits: Vec<_> =
        (1..count).filter(|image| states[image] != states[&(image - 1)]).collect();
    assert_eq!(
        (states[&0], commits.as_slice(), states[&(count - 1)]),
        ("before", &[8][..], "after")
    );
}

/// A slot that is filled for another page while recovery could still find it would tear that page.
#[test]
fn a_slot_that_is_reused_is_not_found_as_what_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, _) = PageCache::new(2 * PAGE, Some(&backing(dir.path()))).unwrap();
    let map = cache.map(5, 3);
    write(&cache, &map, &[(0, 1), (1, 1)], PAGE);
    cache.drop_range(&map, 0, 1);
    let mut blanks = cache.take(0, 1).unwrap();
    blanks[0].fill(9);
    std::mem::forget((cache, map, blanks));
    assert_eq!(found(&open(dir.path()).1), [(1, PAGE, 1)]);
}

#[test]
fn stale_and_damaged_files_are_deleted() {
    let name = format!("terrace-{UUID}.cache");
    let left = |damage: &dyn Fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        let (cache, _) = open(dir.path());
        let map = cache.map(5, 3);
        write(&cache, &map, &[(0, 1)], PAGE);
        std::mem::forget((cache, map));
        damage(&dir.path().join(&name));
        let (cache, pages) = open(dir.path());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), if pages.is_empty() { 1 } else { 2 });
        assert_eq!(cache.dirty_pages(), 0);
        pages.len()
    };
    let patch = |path: &Path, at: usize, bytes: &[u8]| {
        let mut file = fs::read(path).unwrap();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        fs::write(path, file).unwrap();
    };
    let identity = 24 + 64 * 8;
    assert_eq!(left(&|_| ()), 1);
    assert_eq!(left(&|path| fs::write(path, b"").unwrap()), 0);
    assert_eq!(left(&|path| fs::write(path, [0; 5000]).unwrap()), 0);
    assert_eq!(left(&|path| patch(path, 0, b"X")), 0, "magic");
    assert_eq!(left(&|path| patch(path, 8, &[1])), 0, "slot count");
    assert_eq!(left(&|path| patch(path, identity, &[2])), 0, "version");
    assert_eq!(left(&|path| patch(path, 16, &[8])), 0, "epoch");
    assert_eq!(left(&|path| patch(path, identity + 8, b"X")), 0, "volume");
    assert_eq!(left(&|path| patch(path, identity + 48, b"X")), 0, "boot");
    assert_eq!(left(&|path| patch(path, 4096, &[77])), 0, "slot state");
    assert_eq!(left(&|path| patch(path, 4096 + 24, &[0xff; 8])), 0, "file size");
}

#[test]
fn the_file_is_private_and_nobody_elses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("terrace-{UUID}.cache"));
    let (cache, _) = open(dir.path());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(cache);
    let error = |dir: &Path| PageCache::new(PAGE, Some(&backing(dir))).expect_err("refused");
    if fs::metadata(&path).unwrap().uid() == 0 {
        std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
        let refused = error(dir.path());
        assert_eq!(refused.errno(), libc::EPERM);
        assert!(refused.to_string().contains(path.to_str().unwrap()), "{refused}");
        assert!(path.exists());
    }
    fs::remove_file(&path).unwrap();
    symlink("/etc/passwd", &path).unwrap();
    assert_eq!(error(dir.path()).errno(), libc::ELOOP);
    assert_eq!(error(&dir.path().join("absent")).errno(), libc::ENOENT);
    let odd = CacheBacking { uuid: "../x".into(), ..backing(dir.path()) };
    assert_eq!(PageCache::new(PAGE, Some(&odd)).err().map(|e| e.errno()), Some(libc::EINVAL));
}
