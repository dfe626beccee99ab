//! Reading from a disk without anybody who waits: no thread stands by while the disk is at work.
//!
//! Nothing is locked meanwhile. The blocks may be given back then, and others may write there. So
//! the bytes count only if they match the checksums that were known at the beginning, and if the
//! file still has these blocks, by the same entry. The read then answers with what the file held
//! when it began. Otherwise it is read again, in the usual way. Only bytes that match the checksums
//! that the file has at the end stay in the page cache.
//!
//! Such a read begins only where one extent of one disk has all of it and nothing is cached.

use terrace_layout::{BLOCK_BYTES, data_crc};
use terrace_media::{AlignedBuf, LaterRead};
use terrace_store::error::FsResult;
use terrace_store::file::BLOCK;
use terrace_store::index::{Extent, Segment};
use terrace_store::sync::atomic::Ordering;
use terrace_store::sync::{Arc, Condvar, Mutex};

use crate::base::waits::WaitCause;
use crate::inode::health::Health;
use crate::inode::resident::{Inner, Inode};
use crate::pageio::PageIo;

/// The longest read of this kind.
const BYTES_MAX: usize = BUFFERS[BUFFERS.len() - 1].0;
/// Lengths of buffers, and how many of each are kept for the next reads: as many as a disk has
/// short reads in flight, or the kernel's read-ahead long ones, over io_uring and `/dev/fuse`.
const BUFFERS: [(usize, usize); 3] = [(128 << 10, 64), (512 << 10, 32), (1 << 20, 16)];

/// Reads under way, and buffers of those that have ended, by their lengths.
#[derive(Debug, Default)]
pub(crate) struct LaterReads {
    under_way: Mutex<usize>,
    ended: Condvar,
    idle: [Mutex<Vec<AlignedBuf>>; BUFFERS.len()],
}

impl LaterReads {
    /// One more is under way, unless the volume is being closed.
    fn begins(&self, health: &Health) -> bool {
        let mut under_way = self.under_way.lock();
        let begins = !health.stopping.load(Ordering::Acquire);
        *under_way += usize::from(begins);
        begins
    }

    /// One has come to its end: all that it needed of the volume has been done.
    fn ends(&self) {
        let mut under_way = self.under_way.lock();
        *under_way -= 1;
        if *under_way == 0 {
            self.ended.notify_all();
        }
    }

    /// Waits for the end of all, once the volume is being closed: none begins any more.
    pub fn wait(&self) {
        let mut under_way = self.under_way.lock();
        while *under_way > 0 {
            self.ended.wait(&mut under_way);
        }
    }

    fn take(&self, len_bytes: usize) -> AlignedBuf {
        let class = class(len_bytes);
        let mut idle = self.idle[class].lock();
        if idle.is_empty() {
            *idle = AlignedBuf::some_in_huge_pages(BUFFERS[class].0);
        }
        idle.pop().expect("there are some now")
    }

    fn give_back(&self, buffer: AlignedBuf) {
        let class = class(buffer.len());
        let mut idle = self.idle[class].lock();
        if idle.len() < BUFFERS[class].1 {
            idle.push(buffer);
        }
    }
}

/// The shortest buffers that are long enough.
fn class(len_bytes: usize) -> usize {
    BUFFERS.iter().position(|&(of_class, _)| len_bytes <= of_class).expect("a read is no longer")
}

/// A read that can begin, and what its bytes are compared with.
pub(crate) struct Later {
    inode: Arc<Inode>,
    /// First block of the file, and how many.
    block: u64,
    blocks: u64,
    extent: Extent,
    crcs: Vec<u32>,
    /// First byte that was asked for, in the first block, and how many.
    in_block: usize,
    len_bytes: usize,
}

impl PageIo {
    /// Plans to read these bytes, which lie within the file, without waiting. `None`: they
    /// are read in the usual way. `ahead`: reads go on in sequence.
    ///
    /// # Errors
    /// As [`Self::read_range`].
    pub fn plan_later(
        &self,
        inode: &Arc<Inode>,
        inner: &Inner,
        (offset, len_bytes): (u64, usize),
        ahead: bool,
    ) -> FsResult<Option<Later>> {
        let (block, in_block) = (offset / BLOCK_BYTES, (offset % BLOCK_BYTES) as usize);
        let blocks = (in_block + len_bytes).div_ceil(BLOCK) as u64;
        let past_cache = terrace_policy::reads_past_cache(blocks);
        // Data fetched ahead of a reader in small steps goes to the cache, and the reader waits.
        let is_short = len_bytes == 0 || blocks * BLOCK_BYTES > BYTES_MAX as u64;
        if is_short || (ahead && !past_cache) {
            return Ok(None);
        }
        let Segment::Extent(extent) = inner.file()?.index.lookup(block) else { return Ok(None) };
        let elsewhere = extent.addr.is_pm() || extent.unwritten();
        if elsewhere
            || u64::from(extent.blocks) < blocks
            || self.cache.first_cached(&inode.pages, block, block + blocks).is_some()
        {
            return Ok(None);
        }
        let checksums = self.checksums(inner.log.entries(&self.store.pm), &extent, block)?;
        let crcs = self.checksum_values(&checksums, blocks)?;
        let inode = inode.clone();
        let later = Later { inode, block, blocks, extent, crcs, in_block, len_bytes };
        Ok((later.crcs.len() as u64 >= blocks).then_some(later))
    }

    /// Begins a read. `done` is told what came of it, from another thread: the bytes that were
    /// asked for, or `None` if they must be read again. False if the disk begins no more reads just
    /// now. Called without locks.
    pub fn begin_later<D>(this: &Arc<Self>, later: Later, done: D) -> bool
    where
        D: FnOnce(Option<&[u8]>) + Send + 'static,
    {
        let Ok(member) = this.store.space.disk(later.extent.addr.device()) else { return false };
        if !this.later.begins(&this.health) {
            return false;
        }
        let (at, len_bytes) = (later.extent.addr.byte(), later.blocks as usize * BLOCK);
        let pages = Arc::clone(this);
        let begun = this.counters.waits.start(WaitCause::Read);
        let read = LaterRead {
            buffer: this.later.take(len_bytes),
            len_bytes,
            done: Box::new(move |buffer, is_whole| {
                pages.counters.waits.end(WaitCause::Read, begun);
                pages.end_later(&later, &buffer[..len_bytes], is_whole, done);
                pages.later.give_back(buffer);
                pages.later.ends();
            }),
        };
        let Err(read) = member.disk.begin_read(at, read) else { return true };
        this.counters.waits.never_mind(WaitCause::Read);
        this.later.give_back(read.buffer);
        this.later.ends();
        false
    }

    /// The disk has done what it could.
    fn end_later(
        &self,
        later: &Later,
        bytes: &[u8],
        is_whole: bool,
        done: impl FnOnce(Option<&[u8]>),
    ) {
        // Not by `verify`, which looks again for checksums where others may have written theirs.
        let matches =
            || bytes.chunks(BLOCK).zip(&later.crcs).all(|(block, &crc)| data_crc(block) == crc);
        if !is_whole || !matches() || !later.is_current(&later.inode.inner.read()) {
            return done(None);
        }
        self.count_disk_read(&later.extent, later.in_block, later.len_bytes);
        done(Some(&bytes[later.in_block..later.in_block + later.len_bytes]));
        // The reader has its answer, and does not wait for this.
        if terrace_policy::keeps_random_read(later.blocks) {
            self.keep_cached(later, bytes);
        }
    }

    /// Puts what was read into the page cache, if nobody changes the file just now.
    fn keep_cached(&self, later: &Later, bytes: &[u8]) {
        let inode = &later.inode;
        let Some(inner) = inode.inner.try_read() else { return };
        let crcs = || {
            let entries = inner.log.entries(&self.store.pm);
            let checksums = self.checksums(entries, &later.extent, later.block)?;
            self.checksum_values(&checksums, later.blocks)
        };
        if !later.is_current(&inner) || !crcs().is_ok_and(|now| now == later.crcs) {
            return;
        }
        let Some(mut pages) = self.cache.take(inode.shard, later.blocks as usize) else { return };
        for (page, bytes) in pages.iter_mut().zip(bytes.chunks(BLOCK)) {
            page.as_mut_slice().copy_from_slice(bytes);
        }
        self.cache.publish_clean(&inode.pages, (later.block..).zip(pages).collect());
    }
}

impl Later {
    /// Whether the file has the blocks still.
    fn is_current(&self, inner: &Inner) -> bool {
        let is_there = inner.file().is_ok_and(|file| {
            let now = file.index.lookup(self.block);
            matches!(now, Segment::Extent(now) if now.addr == self.extent.addr
                && now.entry() == self.extent.entry()
                && u64::from(now.blocks) >= self.blocks)
        });
        is_there && !self.inode.deleted.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_takes_the_shortest_buffer_that_is_long_enough() {
        let reads = LaterReads::default();
        for (len_bytes, expected) in [
            (4 << 10, 128 << 10),
            (128 << 10, 128 << 10),
            ((128 << 10) + 1, 512 << 10),
            (512 << 10, 512 << 10),
            ((512 << 10) + 1, 1 << 20),
            (BYTES_MAX, 1 << 20),
        ] {
            assert_eq!(reads.take(len_bytes).len(), expected, "{len_bytes}");
        }
    }

    #[test]
    fn no_more_buffers_are_kept_than_reads_need() {
        let reads = LaterReads::default();
        for (class, (len_bytes, kept)) in BUFFERS.into_iter().enumerate() {
            let taken: Vec<_> = (0..kept + 9).map(|_| reads.take(len_bytes)).collect();
            taken.into_iter().for_each(|buffer| reads.give_back(buffer));
            assert_eq!(reads.idle[class].lock().len(), kept);
        }
    }
}
