//! Several threads at once.

use std::sync::Barrier;
use std::sync::atomic::AtomicBool;

use super::*;

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
