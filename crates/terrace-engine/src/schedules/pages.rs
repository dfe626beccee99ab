//! The page cache alone: who reads gets the newest version, no dirty page is lost, every slot is
//! where it belongs.
//!
//! A file is what the cache asks of its callers: writers hold its lock, readers share it, writeback
//! pins pages under the shared lock and tells what became of them under the exclusive one.

use std::collections::BTreeMap;
use std::slice::from_ref;
use std::sync::Mutex as Real;

use terrace_store::planted::Bug;
use terrace_store::sync::{Arc, RwLock, switch, thread};

use super::{BLOCK, finds, holds, together};
use crate::inode::cache::{PageCache, PageMap};

struct File {
    map: Arc<PageMap>,
    /// What programs must read: the byte that fills each block.
    newest: RwLock<BTreeMap<u64, u8>>,
    /// What is on disk, and committed.
    disk: Real<BTreeMap<u64, u8>>,
}

struct World {
    cache: Arc<PageCache>,
    files: [File; 2],
}

impl World {
    /// Room for four pages, of six blocks in two files, no two alike.
    fn new() -> World {
        let (cache, _) = PageCache::new(4 * BLOCK as u64, None).unwrap();
        let file = |ino| {
            let blocks: BTreeMap<u64, u8> =
                (0..3).map(|block| (block, (10 * ino + block) as u8)).collect();
            File {
                map: cache.map(ino, 1),
                newest: RwLock::new(blocks.clone()),
                disk: Real::new(blocks),
            }
        };
        World { files: [file(1), file(2)], cache }
    }

    fn page(&self) -> Option<crate::inode::cache::BlankPage> {
        (0..100).find_map(|_| {
            let page = self.cache.take(0, 1);
            if page.is_none() {
                thread::yield_now();
            }
            page?.pop()
        })
    }

    fn write(&self, file: usize, block: u64, byte: u8) {
        let Some(mut page) = self.page() else {
            return;
        };
        page.as_mut_slice().fill(byte);
        let file = &self.files[file];
        let mut newest = file.newest.write();
        self.cache.publish_dirty(&file.map, vec![(block, page)], 3 * BLOCK as u64, 0);
        newest.insert(block, byte);
    }

    fn read(&self, file: usize, block: u64) {
        let file = &self.files[file];
        let newest = file.newest.read();
        let wanted = newest.get(&block).copied().unwrap_or(0);
        let mut page = [0u8; BLOCK];
        if self.cache.read(&file.map, block, 0, &mut page) == 0 {
            page.fill(file.disk.lock().unwrap().get(&block).copied().unwrap_or(0));
            switch();
            if let Some(mut blanks) = self.cache.take(0, 1) {
                blanks[0].as_mut_slice().copy_from_slice(&page);
                self.cache.publish_clean(&file.map, vec![(block, blanks.pop().expect("one"))]);
            }
        }
        assert!(
            page.iter().all(|&b| b == wanted),
            "block {block} reads {} instead of {wanted}",
            page[0]
        );
    }

    fn write_back(&self, file: usize) {
        let file = &self.files[file];
        let pages = {
            let _newest = file.newest.read();
            self.cache.dirty(&file.map, 0, 8)
        };
        let written: Vec<u8> = pages.iter().map(|page| page.data()[0]).collect();
        switch();
        for (page, byte) in pages.iter().zip(written) {
            assert!(page.data().iter().all(|&b| b == byte), "a page changed while it was written");
        }
        let _newest = file.newest.write();
        for page in &pages {
            if self.cache.current(&file.map, from_ref(page)) == [true] {
                file.disk.lock().unwrap().insert(page.block, page.data()[0]);
                assert_eq!(self.cache.mark_clean(&file.map, from_ref(page)), 1);
            }
        }
    }

    fn truncate(&self, file: usize, blocks: u64) {
        let file = &self.files[file];
        let mut newest = file.newest.write();
        self.cache.drop_range(&file.map, blocks, u64::MAX);
        self.cache.clamp_sizes(&file.map, blocks * BLOCK as u64);
        newest.retain(|&block, _| block < blocks);
        file.disk.lock().unwrap().retain(|&block, _| block < blocks);
    }

    /// Every slot is where it belongs.
    fn check(&self) {
        let maps = self.files.each_ref().map(|file| file.map.clone());
        crate::inode::cache::tests::check(&self.cache, &maps, &[], &[]);
    }

    /// Nobody is at work.
    fn must_be_whole(&self) {
        let (mut dirty, mut clean) = (0, 0);
        for file in &self.files {
            let newest = file.newest.read();
            let dirty_blocks = self.cache.dirty_blocks(&file.map, 0, u64::MAX);
            assert_eq!(file.map.dirty_pages(), dirty_blocks.len() as u64);
            dirty += dirty_blocks.len() as u64;
            clean += self.cache.cached_blocks(&file.map, 0, u64::MAX).len() as u64
                - dirty_blocks.len() as u64;
            for (block, byte) in newest.iter() {
                let safe = dirty_blocks.contains(block)
                    || file.disk.lock().unwrap().get(block) == Some(byte);
                assert!(safe, "block {block} is lost");
            }
        }
        assert_eq!((self.cache.dirty_pages(), self.cache.clean_pages()), (dirty, clean));
        self.check();
        for file in 0..2 {
            (0..3).for_each(|block| self.read(file, block));
            self.write_back(file);
            self.truncate(file, 0);
        }
        // Every slot is to be had again.
        assert_eq!(self.cache.take(0, 4).expect("all are free").len(), 4);
        self.check();
    }
}

fn write_while_writing_back() {
    let world = World::new();
    together! {
        { world.write(0, 0, 2); world.write(0, 1, 3); world.write(0, 0, 4) }
        { world.write_back(0); world.write_back(0) }
        { world.read(0, 0); world.read(0, 1); world.read(0, 0) }
    };
    world.must_be_whole();
}

fn truncate_while_writing_back() {
    let world = World::new();
    together! {
        { world.write(0, 2, 2); world.write(0, 1, 3); world.write(0, 2, 4) }
        { world.write_back(0); world.write_back(0) }
        { world.truncate(0, 1); world.read(0, 2); world.read(0, 1) }
    };
    world.must_be_whole();
}

fn evict_while_reading() {
    let world = World::new();
    together! {
        { (0..3).for_each(|block| world.read(0, block)); world.read(0, 0) }
        { (0..3).for_each(|block| world.read(1, block)); world.read(1, 0) }
        { world.write(0, 0, 2); world.write_back(0); world.write(1, 0, 3) }
    };
    world.must_be_whole();
}

fn everything_at_once() {
    let world = World::new();
    together! {
        { world.write(0, 0, 2); world.write(1, 0, 3); world.write(0, 2, 4) }
        { world.write_back(0); world.write_back(1) }
        { world.read(0, 0); world.read(1, 0); world.read(0, 2) }
        { world.truncate(0, 2); world.read(1, 1); world.truncate(1, 0) }
    };
    world.must_be_whole();
}

#[test]
fn a_page_written_while_it_is_written_back_stays_dirty() {
    holds(2000, write_while_writing_back);
}

#[test]
fn a_page_truncated_while_it_is_written_back_does_not_return() {
    holds(2000, truncate_while_writing_back);
}

#[test]
fn eviction_takes_nothing_from_readers() {
    holds(2000, evict_while_reading);
}

#[test]
fn a_page_read_without_its_lock_is_found() {
    finds(Bug::PageReadUnlocked, 2000, evict_while_reading);
}

#[test]
fn the_cache_stays_whole() {
    holds(2000, everything_at_once);
}
