//! File data: whether it can be read, and matches its checksums.

use std::ops::Range;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CRC_BLOCKS, CRC_NONE, CRCS_PER_BLOCK, WriteEntry, crc_blocks_for,
    data_crc, verify_crc_block,
};
use terrace_media::AlignedBuf;
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::file::{
    BLOCK, blocks_before, covered_bytes, extent_crcs_in_log, read_write_entry,
};
use terrace_store::index::Extent;
use terrace_store::log::{Archive, Entries};
use terrace_store::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use terrace_store::sync::{Arc, thread};

use super::{Check, Finding};
use crate::base::types::Ino;
use crate::mount::recovery::scan_threads;

/// Blocks read at a time: 1 MiB.
pub(crate) const PIECE_BLOCKS: u64 = 256;

/// An extent of a file.
#[derive(Debug, Clone)]
pub(super) struct DataRun {
    pub ino: Ino,
    pub file_block: u64,
    pub extent: Extent,
    /// Where its entry may be.
    pub archive: Option<Arc<Archive>>,
}

impl Check<'_> {
    pub(super) fn verified(&self, blocks: u64) {
        self.blocks_verified.fetch_add(blocks, Ordering::Relaxed);
    }

    /// Reads all extents, and verifies those that have checksums, in order of address, so that
    /// disks are read in sequence.
    pub(super) fn data(&self, extents: &[DataRun]) {
        let mut runs: Vec<&DataRun> = extents
            .iter()
            .filter(|run| self.is_inside(run.extent.addr, u64::from(run.extent.blocks)))
            .collect();
        runs.sort_by_key(|run| run.extent.addr);
        let total = runs.iter().map(|run| u64::from(run.extent.blocks)).sum();
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..scan_threads() {
                scope.spawn(|| {
                    while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        self.run_of_data(run, &|blocks| {
                            let done = done.fetch_add(blocks, Ordering::Relaxed) + blocks;
                            (self.progress)("verifying data", done, total);
                        });
                    }
                });
            }
        });
    }

    fn entries<'a>(&'a self, run: &'a DataRun) -> Entries<'a> {
        Entries::new(self.pm, run.archive.as_deref())
    }

    /// Whether blocks lie on a device of the volume.
    pub(super) fn is_inside(&self, addr: BlockAddr, blocks: u64) -> bool {
        let device = self.sb.devices().get(usize::from(addr.device()));
        device.is_some_and(|d| addr.block().checked_add(blocks).is_some_and(|end| end <= d.blocks))
    }

    fn run_of_data(&self, run: &DataRun, done: &dyn Fn(u64)) {
        let Ok(entry) = read_write_entry(self.entries(run), run.extent.entry()) else {
            // Reported with the extent.
            return;
        };
        let device = usize::from(run.extent.addr.device());
        let blocks = u64::from(run.extent.blocks);
        let crcs = match self.checksums(&entry, run) {
            Ok(crcs) => crcs,
            Err(damage) => {
                self.found(Finding::contents(device, run.ino, *damage));
                return done(blocks);
            }
        };
        // Without checksums, whether it can be read is all that there is to know.
        if crcs.is_empty() && (run.extent.unwritten() || !run.extent.addr.is_pm()) {
            return done(blocks);
        }
        let mut bad = Vec::new();
        for from in (0..blocks).step_by(PIECE_BLOCKS as usize) {
            let len = PIECE_BLOCKS.min(blocks - from);
            let crcs = crcs.get(from as usize..(from + len) as usize);
            self.piece(run, &entry, from..from + len, crcs, &mut bad);
            done(len);
        }
        for same in bad.chunk_by(|a: &(u64, DamageKind), b| a.0 + 1 == b.0 && a.1 == b.1) {
            let (first, kind) = same[0].clone();
            let bytes = (run.file_block + first) * BLOCK_BYTES;
            let last = bytes + same.len() as u64 * BLOCK_BYTES - 1;
            let (addr, structure) = (run.extent.addr, Structure::Data(Some((bytes, last))));
            let damage = self.damage(addr.offset(first), structure, kind).of(run.ino);
            self.found(Finding::contents(device, run.ino, damage));
        }
    }

    /// Reads some blocks of a run and compares them with their checksums, if they have any; block
    /// by block, if they cannot be read together.
    fn piece(
        &self,
        run: &DataRun,
        entry: &WriteEntry,
        blocks: Range<u64>,
        crcs: Option<&[u32]>,
        bad: &mut Vec<(u64, DamageKind)>,
    ) {
        let len = (blocks.end - blocks.start) as usize;
        let mut buf = AlignedBuf::new(len * BLOCK);
        let addr = run.extent.addr.offset(blocks.start);
        if let Err(error) = self.read(addr, &mut buf) {
            if len == 1 {
                bad.push((blocks.start, error));
                return;
            }
            for (i, block) in blocks.enumerate() {
                self.piece(run, entry, block..block + 1, crcs.map(|crcs| &crcs[i..=i]), bad);
            }
            return;
        }
        let Some(crcs) = crcs else {
            return;
        };
        for ((index, block), &crc) in blocks.zip(buf.chunks(BLOCK)).zip(crcs) {
            let covered = if addr.is_pm() {
                covered_bytes(run.file_block + index, entry.size)
            } else {
                BLOCK
            };
            if data_crc(&block[..covered]) != crc {
                bad.push((index, DamageKind::Checksum));
            }
        }
        self.verified(len as u64);
    }

    fn read(&self, addr: BlockAddr, buf: &mut AlignedBuf) -> Result<(), DamageKind> {
        let read = if addr.is_pm() {
            self.pm.try_read(addr.byte(), buf)
        } else {
            self.disks[&addr.device()].read_at(addr.byte(), buf)
        };
        read.map_err(|error| DamageKind::Unreadable(error.errno()))
    }

    fn damage(&self, addr: BlockAddr, structure: Structure, kind: DamageKind) -> Damage {
        let path = self.device_path(addr.device().into());
        Damage::new(addr.device(), &path, structure, kind).at(addr.byte())
    }

    /// Checksums of all blocks of a run; none if it has none.
    fn checksums(&self, entry: &WriteEntry, run: &DataRun) -> Result<Vec<u32>, Box<Damage>> {
        let (extent, skip) = (&run.extent, blocks_before(entry, run.file_block));
        match entry.crc_form {
            CRC_NONE => Ok(Vec::new()),
            CRC_BLOCKS => self.checksums_from_blocks(entry, skip, extent),
            _ => extent_crcs_in_log(self.entries(run), entry, skip, extent)
                .map_err(|e| e.into_damage(0, Structure::LogEntry, Some(run.ino)).into()),
        }
    }

    fn checksums_from_blocks(
        &self,
        entry: &WriteEntry,
        skip: u32,
        extent: &Extent,
    ) -> Result<Vec<u32>, Box<Damage>> {
        let first = u64::from(entry.crcs[0]) + u64::from(skip);
        let last = first + u64::from(extent.blocks);
        let (from, to) = (first / CRCS_PER_BLOCK, crc_blocks_for(last));
        let start = BlockAddr(entry.crc_address);
        let possible = to <= u64::from(entry.crcs[1]) && start.device() == extent.addr.device();
        if !possible || !self.is_inside(start, to) {
            // Reported with the extent.
            return Ok(Vec::new());
        }
        let addr = start.offset(from);
        let mut buf = AlignedBuf::new((to - from) as usize * BLOCK);
        let damage = |addr, kind| self.damage(addr, Structure::ChecksumBlock, kind);
        self.read(addr, &mut buf).map_err(|kind| damage(addr, kind))?;
        self.verified(to - from);
        for (i, block) in buf.chunks(BLOCK).enumerate() {
            if !verify_crc_block(block) {
                return Err(damage(addr.offset(i as u64), DamageKind::Damaged).into());
            }
        }
        let at =
            |i: u64| ((i / CRCS_PER_BLOCK - from) * BLOCK_BYTES + i % CRCS_PER_BLOCK * 4) as usize;
        Ok((first..last)
            .map(|i| u32::from_le_bytes(buf[at(i)..at(i) + 4].try_into().expect("four bytes")))
            .collect())
    }
}
