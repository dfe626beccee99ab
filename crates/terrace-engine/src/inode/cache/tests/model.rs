//! The cache beside a model of it, through random operations.

use std::collections::HashMap;
use std::slice::from_ref;

use proptest::prelude::*;

use super::*;

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
