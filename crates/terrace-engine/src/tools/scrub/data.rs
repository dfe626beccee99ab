//! Data of files, and the blocks of its checksums. Data in PM that has none is read all the same:
//! memory can fail.

use std::ops::Range;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CRC_BLOCKS, CRC_COMMIT, CRC_ENTRY, CRC_NONE, CRCS_PER_BLOCK,
    ENTRY_BYTES_MAX, LogEntry, SLOT_BYTES, WriteEntry, data_crc, entry_slots, verify_crc_block,
};
use terrace_media::AlignedBuf;
use terrace_store::damage::{DamageKind, Structure};
use terrace_store::file::{BLOCK, blocks_before, covered_bytes};
use terrace_store::index::Segment;
use terrace_store::log::Entries;

use super::record::Found;
use super::{Scrubber, Stopped};
use crate::base::types::{Ino, ScrubKind};
use crate::inode::resident::{Body, Inode};

/// Extents of a file looked up under one hold of its lock.
const BATCH: usize = 1024;
/// How often to begin again because the log was compacted during a read, before the blocks count as
/// changed.
const TRIES_MAX: usize = 8;

/// Blocks of a file, where they were when the scrub met the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DataRun {
    addr: BlockAddr,
    ino: Ino,
    generation: u32,
    file_block: u64,
    blocks: u64,
}

/// A log entry, unmistakably: pages are reused, but not for the same part of the same log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryId {
    position: u64,
    /// Of its checksum: another one for each inode and each page of its log.
    seed: u32,
}

/// What the log says of some adjacent blocks.
#[derive(Debug)]
struct Claim {
    id: EntryId,
    /// Size that the entry set: how much of a last block in PM its checksum covers.
    size: u64,
    blocks: u64,
    sums: Sums,
}

/// Where the checksums of some blocks are.
#[derive(Debug)]
enum Sums {
    Known(Vec<u32>),
    /// It has none.
    None,
    /// In this block, from this index on.
    InBlock(BlockAddr, usize),
}

/// What lies at a file block now.
enum AtBlock {
    Claim(Claim),
    /// Nothing that can be verified, for so many blocks: they have changed, or their log entry is
    /// damaged.
    Nothing(u64),
}

/// The checksum block read last.
#[derive(Debug)]
pub(super) struct CrcBlock {
    id: EntryId,
    addr: BlockAddr,
    bytes: AlignedBuf,
}

impl DataRun {
    /// The run without its first `blocks` blocks.
    fn rest(self, blocks: u64) -> Self {
        Self {
            addr: self.addr.offset(blocks),
            file_block: self.file_block + blocks,
            blocks: self.blocks - blocks,
            ..self
        }
    }

    fn device(&self) -> usize {
        usize::from(self.addr.device())
    }
}

impl Scrubber<'_> {
    /// Damage to block `i` of a run.
    fn damaged_block(&self, run: &DataRun, i: u64, kind: DamageKind) -> Found {
        let at = run.addr.offset(i).byte();
        let damage = self.damage(run.device(), at, Structure::Data(None), kind).of(run.ino);
        let found = Found::new(ScrubKind::Data, BLOCK_BYTES, damage);
        Found { file_offset_bytes: Some((run.file_block + i) * BLOCK_BYTES), ..found }
    }

    /// Adds a file's extents to those to be verified.
    pub(super) fn gather(&mut self, inode: &Inode) {
        let (ino, generation) = (inode.ino, inode.generation);
        let mut from = 0;
        loop {
            let Ok(inner) = inode.shared() else {
                return;
            };
            let Body::File(file) = &inner.body else {
                return;
            };
            for _ in 0..BATCH {
                let Some((file_block, e)) = file.index.next_extent(from) else {
                    return;
                };
                let blocks = u64::from(e.blocks);
                from = file_block + blocks;
                if e.unwritten() {
                    self.record.passed(usize::from(e.addr.device()), blocks * BLOCK_BYTES);
                } else {
                    self.runs.push(DataRun { addr: e.addr, ino, generation, file_block, blocks });
                }
            }
        }
    }

    /// Verifies what was gathered.
    pub(super) fn data(&mut self) -> Result<(), Stopped> {
        let mut runs = std::mem::take(&mut self.runs);
        runs.sort_unstable();
        for mut run in runs.drain(..) {
            let inode = self
                .view
                .inodes
                .get(run.ino)
                .ok()
                .filter(|inode| inode.generation == run.generation);
            while run.blocks > 0 {
                let done = match &inode {
                    Some(inode) => self.piece(inode, &run)?,
                    // The file is gone.
                    None => run.blocks,
                };
                assert!(done > 0, "{run:?}: a scrub gets on");
                self.record.passed(run.device(), done * BLOCK_BYTES);
                run = run.rest(done);
            }
            drop(inode);
            self.view.inodes.forget(run.ino, 0);
        }
        self.runs = runs;
        Ok(())
    }

    /// Verifies some blocks at the front of a run; returns how many are done with.
    fn piece(&mut self, inode: &Inode, run: &DataRun) -> Result<u64, Stopped> {
        for _ in 0..TRIES_MAX {
            let claim = match self.claim(inode, run) {
                AtBlock::Claim(claim) => claim,
                AtBlock::Nothing(blocks) => return Ok(blocks),
            };
            let damage = self.verify(run, &claim)?;
            if damage.is_empty() {
                return Ok(claim.blocks);
            }
            // It is damage if nothing has changed since.
            match self.claim(inode, run) {
                AtBlock::Nothing(blocks) => return Ok(blocks),
                AtBlock::Claim(now) if now.id == claim.id => {
                    let end = run.file_block + now.blocks;
                    let is_there =
                        |d: &Found| d.file_offset_bytes.is_none_or(|at| at / BLOCK_BYTES < end);
                    damage.into_iter().filter(is_there).for_each(|d| self.record.found(d));
                    return Ok(now.blocks);
                }
                AtBlock::Claim(_) => {}
            }
        }
        Ok(run.blocks.min(self.piece_blocks))
    }

    /// What the log says now of the front of a run.
    fn claim(&self, inode: &Inode, run: &DataRun) -> AtBlock {
        let Ok(inner) = inode.shared() else {
            return AtBlock::Nothing(run.blocks);
        };
        let Body::File(file) = &inner.body else {
            return AtBlock::Nothing(run.blocks);
        };
        let mut extent = match file.index.lookup(run.file_block) {
            Segment::Hole(blocks) => return AtBlock::Nothing(blocks.min(run.blocks)),
            Segment::Extent(e) => e,
        };
        let blocks = u64::from(extent.blocks).min(run.blocks);
        if extent.addr != run.addr || extent.unwritten() {
            return AtBlock::Nothing(blocks);
        }
        extent.blocks = blocks.min(self.piece_blocks) as u32;
        let position = extent.entry();
        let id = EntryId { position, seed: inner.log.seed_at(&self.view.store.pm, position) };
        match self.claim_of_entry(
            inner.log.entries(&self.view.store.pm),
            id,
            run.file_block,
            extent.blocks.into(),
        ) {
            Some(claim) => AtBlock::Claim(claim),
            None => AtBlock::Nothing(u64::from(extent.blocks)),
        }
    }

    /// What an entry says of `blocks` file blocks from `file_block` on; `None` if it is damaged,
    /// which is reported with its log.
    fn claim_of_entry(
        &self,
        log: Entries<'_>,
        id: EntryId,
        file_block: u64,
        blocks: u64,
    ) -> Option<Claim> {
        let (entry, crcs) = read_entry(log, id)?;
        let skip = u64::from(blocks_before(&entry, file_block));
        let claim = |blocks, sums| Some(Claim { id, size: entry.size, blocks, sums });
        let known =
            |crcs: &[u32]| crcs.get(skip as usize..(skip + blocks) as usize).map(<[u32]>::to_vec);
        match entry.crc_form {
            // A checksum of data as they were committed says nothing of data written in place
            // since.
            CRC_NONE | CRC_COMMIT => claim(blocks, Sums::None),
            CRC_ENTRY => claim(blocks, Sums::Known(known(&entry.crcs)?)),
            CRC_BLOCKS => {
                let first = u64::from(entry.crcs[0]) + skip;
                let (block, at) = (first / CRCS_PER_BLOCK, first % CRCS_PER_BLOCK);
                let addr = BlockAddr(entry.crc_address.checked_add(block)?);
                let sound = block < u64::from(entry.crcs[1])
                    && !addr.is_pm()
                    && self.view.store.space.contains(addr, 1);
                let blocks = blocks.min(CRCS_PER_BLOCK - at);
                if sound { claim(blocks, Sums::InBlock(addr, at as usize)) } else { None }
            }
            _ => claim(blocks, Sums::Known(known(&crcs)?)),
        }
    }

    /// Reads the blocks of a claim, and compares.
    fn verify(&mut self, run: &DataRun, claim: &Claim) -> Result<Vec<Found>, Stopped> {
        let from_block: Vec<u32>;
        let crcs = match &claim.sums {
            Sums::Known(crcs) => Some(&crcs[..]),
            Sums::None => None,
            &Sums::InBlock(addr, at) => {
                if let Err(kind) = self.load_crc_block(claim.id, addr)? {
                    let (device, structure) = (addr.device().into(), Structure::ChecksumBlock);
                    let damage = self.damage(device, addr.byte(), structure, kind).of(run.ino);
                    let found = Found::new(ScrubKind::Checksums, BLOCK_BYTES, damage);
                    return Ok(vec![found.remark("the data that it covers cannot be verified")]);
                }
                let bytes = self.crc_block.as_ref().map_or(&[][..], |block| &block.bytes);
                let words = bytes
                    .chunks_exact(4)
                    .map(|w| u32::from_le_bytes(w.try_into().expect("four bytes")));
                from_block = words.skip(at).take(claim.blocks as usize).collect();
                Some(&from_block[..])
            }
        };
        let mut damage = Vec::new();
        self.compare(run, claim, 0..claim.blocks, crcs, &mut damage)?;
        Ok(damage)
    }

    /// Reads some blocks of a claim and compares them with `crcs`, if they have any; one by one, if
    /// they cannot be read together.
    fn compare(
        &self,
        run: &DataRun,
        claim: &Claim,
        blocks: Range<u64>,
        crcs: Option<&[u32]>,
        damage: &mut Vec<Found>,
    ) -> Result<(), Stopped> {
        let len = (blocks.end - blocks.start) as usize;
        let mut buf = AlignedBuf::new(len * BLOCK);
        self.record.pace(buf.len() as u64)?;
        if let Err(kind) =
            self.read_device(run.device(), run.addr.offset(blocks.start).byte(), &mut buf)
        {
            if len == 1 {
                damage.push(self.damaged_block(run, blocks.start, kind));
                return Ok(());
            }
            let alone = |(i, block)| {
                self.compare(run, claim, block..block + 1, crcs.map(|crcs| &crcs[i..=i]), damage)
            };
            return blocks.enumerate().try_for_each(alone);
        }
        let Some(crcs) = crcs else {
            return Ok(());
        };
        for ((block, &crc), i) in buf.chunks(BLOCK).zip(crcs).zip(blocks) {
            let covered = if run.addr.is_pm() {
                covered_bytes(run.file_block + i, claim.size)
            } else {
                BLOCK
            };
            if data_crc(&block[..covered]) != crc {
                damage.push(self.damaged_block(run, i, DamageKind::Checksum));
            }
        }
        self.record.verified(run.device(), ScrubKind::Data, buf.len() as u64);
        Ok(())
    }

    /// Sees to it that `crc_block` is the block at `addr`, which belongs to entry `id`; else what
    /// is wrong with it.
    fn load_crc_block(
        &mut self,
        id: EntryId,
        addr: BlockAddr,
    ) -> Result<Result<(), DamageKind>, Stopped> {
        if self.crc_block.as_ref().is_some_and(|known| known.id == id && known.addr == addr) {
            return Ok(Ok(()));
        }
        self.crc_block = None;
        self.record.pace(BLOCK_BYTES)?;
        let device = usize::from(addr.device());
        let mut bytes = AlignedBuf::new(BLOCK);
        if let Err(kind) = self.read_device(device, addr.byte(), &mut bytes) {
            return Ok(Err(kind));
        }
        self.record.verified(device, ScrubKind::Checksums, BLOCK_BYTES);
        self.record.passed(device, BLOCK_BYTES);
        if !verify_crc_block(&bytes) {
            return Ok(Err(DamageKind::Damaged));
        }
        self.crc_block = Some(CrcBlock { id, addr, bytes });
        Ok(Ok(()))
    }
}

/// The write entry and the checksums in its slots; `None` if it is damaged.
fn read_entry(log: Entries<'_>, id: EntryId) -> Option<(WriteEntry, Vec<u32>)> {
    let mut bytes = [0u8; ENTRY_BYTES_MAX];
    log.read(id.position, &mut bytes[..SLOT_BYTES as usize]).ok()?;
    let len = (entry_slots(&bytes, log.room(id.position))? * SLOT_BYTES) as usize;
    let entry = bytes.get_mut(..len)?;
    log.read(id.position, entry).ok()?;
    match LogEntry::decode(entry, id.seed) {
        Ok(LogEntry::Write(entry, crcs)) => Some((
            entry,
            crcs.chunks_exact(4)
                .map(|w| u32::from_le_bytes(w.try_into().expect("four bytes")))
                .collect(),
        )),
        _ => None,
    }
}
