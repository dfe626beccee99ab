mod model;
mod recovery;
mod threads;

use std::cell::RefCell;
use std::path::Path;
use std::slice::from_ref;

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
