//! Reading a file: from the page cache, from PM, from disks with verification.

use std::collections::HashMap;
use std::io::IoSliceMut;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CRC_BLOCKS, CRCS_PER_BLOCK, WriteEntry, data_crc, verify_crc_block,
};
use terrace_media::AlignedBuf;
use terrace_policy::Param;
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::FsResult;
use terrace_store::file::{
    BLOCK, blocks_before, covered_bytes, extent_crcs_in_log, read_write_entry,
};
use terrace_store::index::{Extent, Segment};
use terrace_store::log::Entries;
use terrace_store::sync::{Arc, Mutex};

use crate::base::counters::{Counter, Passage};
use crate::base::speeds::Served;
use crate::base::waits::WaitCause;
use crate::inode::resident::{Inner, Inode};
use crate::pageio::PageIo;

/// Checksum blocks kept in DRAM.
const CRC_BLOCKS_MAX: usize = 1024;
/// Checksum blocks read at a time: those of the longest run that writeback makes, and more.
const CRC_READ_BLOCKS_MAX: u64 = 8;

/// Checksum blocks read lately. One that was freed and reused since can only cause a mismatch,
/// after which it is read again.
#[derive(Debug, Default)]
pub(crate) struct CrcCache {
    blocks: Mutex<HashMap<BlockAddr, Arc<[u8]>>>,
}

/// Where the checksums of an extent's blocks are.
#[derive(Debug)]
pub(crate) enum Checksums {
    /// In its entry or behind it: these; none if the blocks have none.
    InLog(Vec<u32>),
    /// In checksum blocks, of which there are `run_blocks`, after the `first` ones of others.
    Blocks { run: BlockAddr, run_blocks: u64, first: u64 },
}

/// Blocks on a disk that a read asks for.
struct Asked {
    /// Begins with the first of them.
    extent: Extent,
    /// The first block of the file, and how many follow each other.
    block: u64,
    blocks: u64,
    /// First byte in the first block.
    in_block: usize,
}

impl PageIo {
    /// Copies file bytes from `offset` on to `buf`; all of it lies within the file.
    ///
    /// # Errors
    /// `EIO` with device and place where a disk fails or a checksum does not match.
    pub fn read_range(
        &self,
        inode: &Inode,
        inner: &Inner,
        offset: u64,
        buf: &mut [u8],
        ahead: bool,
    ) -> FsResult<()> {
        let (file, entries) = (inner.file()?, inner.log.entries(&self.store.pm));
        let mut done = 0;
        let (mut from_pm, mut from_cache, mut hits) = (0, 0, 0);
        let timed = self.counters.speeds.begin_read(buf.len());
        while done < buf.len() {
            let at = offset + done as u64;
            let (block, in_block) = (at / BLOCK_BYTES, (at % BLOCK_BYTES) as usize);
            let rest = &mut buf[done..];
            let cached = !inode.pages.is_empty();
            if cached {
                let n = self.cache.read(&inode.pages, block, in_block, rest);
                if n > 0 {
                    done += n;
                    (from_cache, hits) =
                        (from_cache + n, hits + (in_block + n).div_ceil(BLOCK) as u64);
                    continue;
                }
            }
            if !self.store.data_crc
                && let Some(addr) = file.index.written_in_table(block).filter(|addr| addr.is_pm())
            {
                let n = rest.len().min(BLOCK - in_block);
                self.read_pm_committed(addr, file.committed, at, &mut rest[..n])?;
                done += n;
                from_pm += n;
                continue;
            }
            let mut blocks = (in_block + rest.len()).div_ceil(BLOCK) as u64;
            if cached
                && let Some(next) = self.cache.first_cached(&inode.pages, block, block + blocks)
            {
                blocks = next - block;
            }
            let segment = file.index.lookup(block);
            blocks = blocks.min(match segment {
                Segment::Hole(n) => n,
                Segment::Extent(e) => u64::from(e.blocks),
            });
            let mut n = rest.len().min(blocks as usize * BLOCK - in_block);
            match segment {
                Segment::Hole(_) => rest[..n].fill(0),
                Segment::Extent(e) if e.unwritten() => rest[..n].fill(0),
                Segment::Extent(e) if e.addr.is_pm() && self.store.data_crc => {
                    let valid = (file.committed.saturating_sub(at) as usize).min(n);
                    self.read_pm_verified(entries, &e, block, in_block, &mut rest[..valid])?;
                    rest[valid..n].fill(0);
                    from_pm += n;
                }
                Segment::Extent(e) if e.addr.is_pm() => {
                    self.read_pm_committed(e.addr, file.committed, at, &mut rest[..n])?;
                    from_pm += n;
                }
                Segment::Extent(e)
                    if in_block == 0 && terrace_policy::reads_past_cache((n / BLOCK) as u64) =>
                {
                    n -= n % BLOCK;
                    self.read_past_cache(entries, &e, block, &mut rest[..n])?;
                    self.count_disk_read(&e, in_block, n);
                }
                Segment::Extent(extent) => {
                    let asked = Asked { extent, block, blocks, in_block };
                    let fetched = self.fetch(inode, entries, &asked, ahead, &mut rest[..n]);
                    // The block that fails may be one that was only read ahead.
                    fetched.or_else(|error| match ahead {
                        true => self.fetch(inode, entries, &asked, false, &mut rest[..n]),
                        false => Err(error),
                    })?;
                    self.count_disk_read(&extent, in_block, n);
                }
            }
            done += n;
        }
        if from_pm > 0 {
            self.counters.add(Counter::PmReads, 1);
            self.counters.add(Counter::ReadPm, from_pm as u64);
        }
        if hits > 0 {
            self.counters.add(Counter::CacheHits, hits);
            self.counters.add(Counter::ReadCache, from_cache as u64);
        }
        if let Some(begun) = timed {
            self.counters.speeds.end_read(begun, Served { all: buf.len(), from_pm, from_cache });
        }
        Ok(())
    }

    /// Notes that so many bytes came from a disk.
    pub fn count_disk_read(&self, extent: &Extent, in_block: usize, len_bytes: usize) {
        self.counters.add(Counter::CacheMisses, (in_block + len_bytes).div_ceil(BLOCK) as u64);
        let tier = self.store.space.tier(extent.addr.device());
        self.counters.add_passed(Passage::Read, tier, len_bytes as u64);
    }

    /// The block as a program would read it now, zeros beyond the end of the file.
    ///
    /// # Errors
    /// As [`Self::read_range`].
    pub fn read_block(
        &self,
        inode: &Inode,
        inner: &Inner,
        block: u64,
        out: &mut [u8; BLOCK],
    ) -> FsResult<()> {
        let covered = covered_bytes(block, inner.file()?.size);
        out[covered..].fill(0);
        if covered == 0 {
            return Ok(());
        }
        self.read_range(inode, inner, block * BLOCK_BYTES, &mut out[..covered], false)
    }

    /// Reads the bytes at `offset` of a file from the PM blocks from `addr` on. Beyond what is
    /// committed, PM holds garbage.
    #[inline]
    fn read_pm_committed(
        &self,
        addr: BlockAddr,
        committed: u64,
        offset: u64,
        out: &mut [u8],
    ) -> FsResult<()> {
        let valid = (committed.saturating_sub(offset) as usize).min(out.len());
        self.store.pm.try_read(addr.byte() + offset % BLOCK_BYTES, &mut out[..valid])?;
        out[valid..].fill(0);
        Ok(())
    }

    fn read_pm_verified(
        &self,
        entries: Entries<'_>,
        extent: &Extent,
        block: u64,
        mut in_block: usize,
        mut out: &mut [u8],
    ) -> FsResult<()> {
        let entry = read_write_entry(entries, extent.entry())?;
        let checksums = self.checksums_of(entries, extent, &entry, block)?;
        let crcs = self.checksum_values(&checksums, u64::from(extent.blocks))?;
        let mut page = [0u8; BLOCK];
        let mut i = 0;
        while !out.is_empty() {
            let addr = extent.addr.offset(i);
            self.store.pm.try_read(addr.byte(), &mut page)?;
            let covered = covered_bytes(block + i, entry.size);
            self.verify(addr, &checksums, i, &page[..covered], &crcs)?;
            page[covered..].fill(0);
            let n = out.len().min(BLOCK - in_block);
            out[..n].copy_from_slice(&page[in_block..in_block + n]);
            out = &mut out[n..];
            (in_block, i) = (0, i + 1);
        }
        Ok(())
    }

    /// Reads disk blocks into the page cache, verified, and copies the bytes that were asked for.
    /// `ahead`: reads go on in sequence, so more blocks than those are fetched.
    fn fetch(
        &self,
        inode: &Inode,
        entries: Entries<'_>,
        asked: &Asked,
        ahead: bool,
        out: &mut [u8],
    ) -> FsResult<()> {
        let Asked { ref extent, block, blocks, in_block } = *asked;
        let most = self.tuning.get(Param::Fetch) / BLOCK_BYTES;
        let mut want =
            terrace_policy::fetch_blocks(blocks, ahead, most).min(u64::from(extent.blocks));
        if want > blocks
            && let Some(next) = self.cache.first_cached(&inode.pages, block + blocks, block + want)
        {
            want = next - block;
        }
        let (device, base) = (extent.addr.device(), extent.addr.byte());
        let member = self.store.space.disk(device)?;
        let checksums = self.checksums(entries, extent, block)?;
        // Checksums may have to be read, too.
        let waiting = self.counters.waits.begin(WaitCause::Read);
        let crcs = self.checksum_values(&checksums, want)?;
        let blanks = self.cache.take(inode.shard, want as usize);
        let Some(mut pages) = blanks.or_else(|| self.cache.take(inode.shard, blocks as usize))
        else {
            // Everything in the cache is dirty.
            drop(waiting);
            let mut buf = AlignedBuf::new(blocks as usize * BLOCK);
            self.read_past_cache(entries, extent, block, &mut buf)?;
            out.copy_from_slice(&buf[in_block..in_block + out.len()]);
            return Ok(());
        };
        let mut slices: Vec<IoSliceMut<'_>> =
            pages.iter_mut().map(|p| IoSliceMut::new(p.as_mut_slice())).collect();
        member
            .disk
            .read_vectored_at(base, &mut slices)
            .inspect_err(|e| self.health.disk_failed(device, e))?;
        drop(waiting);
        let mut copied = 0;
        for (i, page) in pages.iter_mut().enumerate() {
            let page = page.as_mut_slice();
            self.verify(extent.addr.offset(i as u64), &checksums, i as u64, page, &crcs)?;
            let from = if i == 0 { in_block } else { 0 };
            let n = (out.len() - copied).min(BLOCK - from);
            out[copied..copied + n].copy_from_slice(&page[from..from + n]);
            copied += n;
        }
        let bytes = pages.len() as u64 * BLOCK_BYTES;
        self.counters.add_passed(Passage::Fetched, self.store.space.tier(device), bytes);
        self.cache.publish_clean(&inode.pages, (block..).zip(pages).collect());
        Ok(())
    }

    /// Reads the first blocks of a disk extent, verified, to `out`: nothing is cached.
    fn read_past_cache(
        &self,
        entries: Entries<'_>,
        extent: &Extent,
        block: u64,
        out: &mut [u8],
    ) -> FsResult<()> {
        let checksums = self.checksums(entries, extent, block)?;
        let waiting = self.counters.waits.begin(WaitCause::Read);
        let crcs = self.checksum_values(&checksums, (out.len() / BLOCK) as u64)?;
        let device = extent.addr.device();
        let read = self.store.space.disk(device)?.disk.read_at(extent.addr.byte(), out);
        drop(waiting);
        read.inspect_err(|e| self.health.disk_failed(device, e))?;
        let pages = (0..).zip(out.chunks(BLOCK));
        pages.into_iter().try_for_each(|(i, page)| {
            self.verify(extent.addr.offset(i), &checksums, i, page, &crcs).map(drop)
        })
    }

    /// Compares what block `i` of those that `checksums` covers holds, at `addr`, with `crcs`, the
    /// values of these checksums. Returns the checksum of the bytes, if they have one.
    ///
    /// # Errors
    /// `EIO` with the place.
    pub fn verify(
        &self,
        addr: BlockAddr,
        checksums: &Checksums,
        i: u64,
        bytes: &[u8],
        crcs: &[u32],
    ) -> FsResult<Option<u32>> {
        let Some(&stored) = crcs.get(i as usize) else { return Ok(None) };
        let crc = data_crc(bytes);
        if crc == stored {
            return Ok(Some(crc));
        }
        if let Checksums::Blocks { .. } = checksums {
            // The checksum block in DRAM may be a stale one: read it again before giving up.
            self.crcs.blocks.lock().clear();
            if self.checksum_values(checksums, i + 1)?.get(i as usize) == Some(&crc) {
                return Ok(Some(crc));
            }
        }
        let path = self.store.device_path(addr.device());
        let (structure, kind) = (Structure::Data(None), DamageKind::Checksum);
        Err(Damage::new(addr.device(), &path, structure, kind).at(addr.byte()).into())
    }

    /// The checksums of a disk extent that starts at file block `block`.
    pub fn checksums(
        &self,
        entries: Entries<'_>,
        extent: &Extent,
        block: u64,
    ) -> FsResult<Checksums> {
        self.checksums_of(entries, extent, &read_write_entry(entries, extent.entry())?, block)
    }

    /// The same, of an extent of `entry`, on any device. The caller holds the inode; the values may
    /// be asked for without that.
    ///
    /// # Errors
    /// PM that cannot be read.
    pub fn checksums_of(
        &self,
        entries: Entries<'_>,
        extent: &Extent,
        entry: &WriteEntry,
        block: u64,
    ) -> FsResult<Checksums> {
        let skip = blocks_before(entry, block);
        if entry.crc_form != CRC_BLOCKS {
            return Ok(Checksums::InLog(extent_crcs_in_log(entries, entry, skip, extent)?));
        }
        let [skipped, run_blocks] = entry.crcs.map(u64::from);
        Ok(Checksums::Blocks {
            run: BlockAddr(entry.crc_address),
            run_blocks,
            first: skipped + u64::from(skip),
        })
    }

    /// The first `blocks` of these checksums; empty if there are none.
    ///
    /// # Errors
    /// `EIO` if the checksum blocks cannot be read or are damaged.
    pub fn checksum_values(&self, checksums: &Checksums, blocks: u64) -> FsResult<Vec<u32>> {
        let (run, run_blocks, first) = match checksums {
            Checksums::InLog(crcs) => return Ok(crcs.clone()),
            &Checksums::Blocks { run, run_blocks, first } => (run, run_blocks, first),
        };
        let mut crcs = Vec::with_capacity(blocks as usize);
        while (crcs.len() as u64) < blocks {
            let i = first + crcs.len() as u64;
            let block = self.crc_block(run, run_blocks, i / CRCS_PER_BLOCK)?;
            let stored = block
                .chunks_exact(4)
                .take(CRCS_PER_BLOCK as usize)
                .skip((i % CRCS_PER_BLOCK) as usize);
            let values = stored.map(|crc| u32::from_le_bytes(crc.try_into().expect("four bytes")));
            crcs.extend(values.take((blocks - crcs.len() as u64) as usize));
        }
        Ok(crcs)
    }

    /// One of the checksum blocks of a run of them.
    fn crc_block(&self, run: BlockAddr, run_blocks: u64, index: u64) -> FsResult<Arc<[u8]>> {
        let addr = run.offset(index);
        if let Some(block) = self.crcs.blocks.lock().get(&addr) {
            return Ok(block.clone());
        }
        let Some(member) = self.store.space.members.get(addr.device()) else {
            let kind = DamageKind::NoDisk(addr.device());
            return Err(Damage::in_pm(&self.store.pm, Structure::ChecksumBlock, kind).into());
        };
        let disk = &member.disk;
        // A reader that goes on needs those behind it next.
        let ahead = run_blocks.saturating_sub(index).clamp(1, CRC_READ_BLOCKS_MAX);
        let mut run = AlignedBuf::new(ahead as usize * BLOCK);
        if disk.read_at(addr.byte(), &mut run).is_err() {
            run = AlignedBuf::new(BLOCK);
            disk.read_at(addr.byte(), &mut run)
                .inspect_err(|e| self.health.disk_failed(addr.device(), e))?;
        }
        let mut blocks = self.crcs.blocks.lock();
        if blocks.len() + ahead as usize > CRC_BLOCKS_MAX {
            blocks.clear();
        }
        let sound = (0..).zip(run.chunks(BLOCK)).filter(|(_, block)| verify_crc_block(block));
        blocks.extend(sound.map(|(i, block)| (addr.offset(i), Arc::from(block))));
        blocks.get(&addr).cloned().ok_or_else(|| {
            let (structure, kind) = (Structure::ChecksumBlock, DamageKind::Damaged);
            Damage::new(addr.device(), disk.path(), structure, kind).at(addr.byte()).into()
        })
    }
}
