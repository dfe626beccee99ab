//! Reading a file: from the page cache, from PM, from disks with verification.

use std::collections::HashMap;
use std::io::IoSliceMut;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CRC_BLOCKS, CRC_NONE, CRCS_PER_BLOCK, WriteEntry, data_crc, verify_crc_block,
};
use terrace_media::AlignedBuf;

use crate::core::Core;
use crate::error::{FsError, FsResult};
use crate::file::{BLOCK, covered_bytes, extent_crcs_in_log, read_write_entry};
use crate::index::{Extent, Segment};
use crate::inode::{Inner, Inode};
use crate::sync::atomic::Ordering;
use crate::sync::{Arc, Mutex};

/// Checksum blocks kept in DRAM.
const CRC_BLOCKS_MAX: usize = 1024;

/// Checksum blocks read lately. One that was freed and reused since can only cause a mismatch, after which it is
/// read again.
#[derive(Debug, Default)]
pub(crate) struct CrcCache {
    blocks: Mutex<HashMap<BlockAddr, Arc<AlignedBuf>>>,
}

impl Core {
    /// Copies file bytes from `offset` on to `buf`; all of it lies within the file.
    ///
    /// # Errors
    /// `EIO` with device and place where a disk fails or a checksum does not match.
    pub fn read_range(&self, inode: &Inode, inner: &Inner, offset: u64, buf: &mut [u8], ahead: bool) -> FsResult<()> {
        let file = inner.file()?;
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let (block, in_block) = (at / BLOCK_BYTES, (at % BLOCK_BYTES) as usize);
            let rest = &mut buf[done..];
            let cached = !inode.pages.is_empty();
            if cached {
                let n = rest.len().min(BLOCK - in_block);
                if self.cache.read(&inode.pages, block, in_block, &mut rest[..n]) {
                    done += n;
                    continue;
                }
            }
            let mut blocks = (in_block + rest.len()).div_ceil(BLOCK) as u64;
            if cached && let Some(next) = self.cache.cached_blocks(&inode.pages, block, block + blocks).first() {
                blocks = next - block;
            }
            let segment = file.index.lookup(block);
            blocks = blocks.min(match segment {
                Segment::Hole(n) => n,
                Segment::Extent(e) => u64::from(e.blocks),
            });
            let n = rest.len().min(blocks as usize * BLOCK - in_block);
            match segment {
                Segment::Hole(_) => rest[..n].fill(0),
                Segment::Extent(e) if e.unwritten() => rest[..n].fill(0),
                Segment::Extent(e) if e.addr.is_pm() => {
                    // Beyond what is committed, PM holds garbage.
                    let valid = (file.committed.saturating_sub(at) as usize).min(n);
                    self.read_pm(&e, block, in_block, &mut rest[..valid])?;
                    rest[valid..n].fill(0);
                }
                Segment::Extent(e) => {
                    let fetched = self.fetch(inode, &e, block, blocks, in_block, &mut rest[..n], ahead);
                    // What fails may be a block that was only read ahead.
                    fetched.or_else(|error| match ahead {
                        true => self.fetch(inode, &e, block, blocks, in_block, &mut rest[..n], false),
                        false => Err(error),
                    })?;
                }
            }
            done += n;
        }
        Ok(())
    }

    /// The block as a program would read it now, zeros beyond the end of the file.
    ///
    /// # Errors
    /// As [`Self::read_range`].
    pub fn read_block(&self, inode: &Inode, inner: &Inner, block: u64, out: &mut [u8; BLOCK]) -> FsResult<()> {
        let covered = covered_bytes(block, inner.file()?.size);
        out[covered..].fill(0);
        if covered == 0 {
            return Ok(());
        }
        self.read_range(inode, inner, block * BLOCK_BYTES, &mut out[..covered], false)
    }

    fn read_pm(&self, extent: &Extent, block: u64, in_block: usize, out: &mut [u8]) -> FsResult<()> {
        if self.data_crc {
            return self.read_pm_verified(extent, block, in_block, out);
        }
        Ok(self.pm.try_read(extent.addr.byte() + in_block as u64, out)?)
    }

    fn read_pm_verified(&self, extent: &Extent, block: u64, mut in_block: usize, mut out: &mut [u8]) -> FsResult<()> {
        let entry = read_write_entry(&self.pm, extent.entry())?;
        let crcs = extent_crcs_in_log(&self.pm, &entry, extent)?;
        let mut page = [0u8; BLOCK];
        let mut i = 0;
        while !out.is_empty() {
            let addr = extent.addr.offset(i);
            self.pm.try_read(addr.byte(), &mut page)?;
            let covered = covered_bytes(block + i, entry.size);
            if entry.crc_form != CRC_NONE && data_crc(&page[..covered]) != crcs[i as usize] {
                return Err(FsError::corrupt(format!(
                    "{}: data at byte {} does not match its checksum",
                    self.pm.path().display(),
                    addr.byte()
                )));
            }
            page[covered..].fill(0);
            let n = out.len().min(BLOCK - in_block);
            out[..n].copy_from_slice(&page[in_block..in_block + n]);
            out = &mut out[n..];
            (in_block, i) = (0, i + 1);
        }
        Ok(())
    }

    /// Reads disk blocks into the page cache, verified, and copies what was asked for. `ahead`: reads go on in
    /// sequence, fetch more than that.
    #[allow(clippy::too_many_arguments, reason = "one step of read_range")]
    fn fetch(
        &self,
        inode: &Inode,
        extent: &Extent,
        block: u64,
        blocks: u64,
        in_block: usize,
        out: &mut [u8],
        ahead: bool,
    ) -> FsResult<()> {
        let mut want = terrace_policy::fetch_blocks(blocks, ahead).min(u64::from(extent.blocks));
        if want > blocks
            && let Some(next) = self.cache.cached_blocks(&inode.pages, block + blocks, block + want).first()
        {
            want = next - block;
        }
        let (device, base) = (extent.addr.device(), extent.addr.byte());
        let disk = &self.disks[usize::from(device) - 1];
        let crcs = self.extent_crcs(extent, want)?;
        let blanks = self.cache.take(inode.shard, want as usize);
        let Some(mut pages) = blanks.or_else(|| self.cache.take(inode.shard, blocks as usize)) else {
            // Everything in the cache is dirty: read past it.
            let mut buf = AlignedBuf::new(blocks as usize * BLOCK);
            disk.read_at(base, &mut buf).inspect_err(|e| self.disk_failed(device, e))?;
            for (i, page) in buf.chunks(BLOCK).enumerate() {
                self.verify(extent, i as u64, page, &crcs)?;
            }
            out.copy_from_slice(&buf[in_block..in_block + out.len()]);
            return Ok(());
        };
        let mut slices: Vec<IoSliceMut<'_>> = pages.iter_mut().map(|p| IoSliceMut::new(p.as_mut_slice())).collect();
        disk.read_vectored_at(base, &mut slices).inspect_err(|e| self.disk_failed(device, e))?;
        let mut copied = 0;
        for (i, page) in pages.iter_mut().enumerate() {
            let page = page.as_mut_slice();
            self.verify(extent, i as u64, page, &crcs)?;
            let from = if i == 0 { in_block } else { 0 };
            let n = (out.len() - copied).min(BLOCK - from);
            out[copied..copied + n].copy_from_slice(&page[from..from + n]);
            copied += n;
        }
        self.cache.publish_clean(&inode.pages, (block..).zip(pages).collect());
        Ok(())
    }

    fn verify(&self, extent: &Extent, i: u64, page: &[u8], crcs: &[u32]) -> FsResult<()> {
        if crcs.get(i as usize).is_none_or(|&crc| data_crc(page) == crc) {
            return Ok(());
        }
        // The checksum block in DRAM may be a stale one: read it again before giving up.
        self.crcs.blocks.lock().clear();
        if self.extent_crcs(extent, i + 1)?.get(i as usize).is_none_or(|&crc| data_crc(page) == crc) {
            return Ok(());
        }
        let addr = extent.addr.offset(i);
        Err(FsError::corrupt(format!(
            "{}: data at byte {} does not match its checksum",
            self.disks[usize::from(addr.device()) - 1].path().display(),
            addr.byte()
        )))
    }

    /// Checksums of the first `blocks` blocks of a disk extent; empty if it has none.
    ///
    /// # Errors
    /// `EIO` if the checksum blocks cannot be read or are damaged.
    pub fn extent_crcs(&self, extent: &Extent, blocks: u64) -> FsResult<Vec<u32>> {
        let entry = read_write_entry(&self.pm, extent.entry())?;
        if entry.crc_form != CRC_BLOCKS {
            return extent_crcs_in_log(&self.pm, &entry, extent);
        }
        let first = u64::from(entry.crcs[0]) + u64::from(extent.skip);
        (first..first + blocks).map(|i| self.crc_from_block(&entry, i)).collect()
    }

    fn crc_from_block(&self, entry: &WriteEntry, i: u64) -> FsResult<u32> {
        let addr = BlockAddr(entry.crc_address).offset(i / CRCS_PER_BLOCK);
        let known = self.crcs.blocks.lock().get(&addr).cloned();
        let block = match known {
            Some(block) => block,
            None => self.read_crc_block(addr)?,
        };
        let at = (i % CRCS_PER_BLOCK) as usize * 4;
        Ok(u32::from_le_bytes(block[at..at + 4].try_into().expect("four bytes")))
    }

    fn read_crc_block(&self, addr: BlockAddr) -> FsResult<Arc<AlignedBuf>> {
        let Some(disk) = usize::from(addr.device()).checked_sub(1).and_then(|d| self.disks.get(d)) else {
            return Err(FsError::corrupt(format!("checksum block at {addr:?} lies on no disk")));
        };
        let mut block = AlignedBuf::new(BLOCK);
        disk.read_at(addr.byte(), &mut block)?;
        if !verify_crc_block(&block) {
            return Err(FsError::corrupt(format!(
                "{}: checksum block at byte {} is damaged",
                disk.path().display(),
                addr.byte()
            )));
        }
        let block = Arc::new(block);
        let mut blocks = self.crcs.blocks.lock();
        if blocks.len() >= CRC_BLOCKS_MAX {
            blocks.clear();
        }
        blocks.insert(addr, block.clone());
        Ok(block)
    }

    /// Notes where a read of `len` bytes at `offset` ends; true if it began where the last one ended.
    pub fn note_read(inode: &Inode, offset: u64, len: usize) -> bool {
        inode.read_end.swap(offset + len as u64, Ordering::Relaxed) == offset
    }
}
