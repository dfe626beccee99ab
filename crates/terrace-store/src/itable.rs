//! The inode table of a shard: where the records are, which are free.
//!
//! Inode `ino` is record `(ino - 1) / shards` of shard `(ino - 1) % shards`. Records lie in chunks,
//! each twice as large as all before it up to a limit, so that a million inodes need a few dozen
//! chunks and no scan at mount.
//!
//! A table gives back what it does not need (`shrink`): its chain may leave out indexes, which no
//! inode has then.
//!
//! Invariants:
//! * A chunk is zeroed, durable, before the pointer to it is stored: a record of zeros is free.
//! * `free` of a chunk is the number of its records that are free, on media or promised to be.

use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CHUNK_FREE_OFFSET, CHUNK_NEXT_OFFSET, CHUNK_RECORDS_MAX,
    CHUNK_RECORDS_MIN, CheckedPtr, ChunkHeader, INLINE_OFFSET, INODE_BYTES, INODE_USED,
    InodeRecord, MediaStruct, ShardPage,
};
use terrace_media::Pm;
use zerocopy::IntoBytes;

use crate::Ino;
use crate::alloc::{DeviceAlloc, Use};
use crate::damage::{Damage, DamageKind, Structure};
use crate::error::{FsResult, fail, fence};
use crate::journal::{Pending, read_pending};
use crate::planted::{Bug, planted};
use crate::seal;

mod shrink;

#[derive(Debug)]
struct Chunk {
    /// Byte of the header in PM.
    at: u64,
    /// Shard index of the first record.
    first_index: u64,
    /// Records, the header not counted.
    records: u64,
    free: u64,
    /// Bit set: record in use. Built when the chunk is first allocated from.
    used: Option<Vec<u64>>,
    cursor: u64,
}

impl Chunk {
    fn record_at(&self, index: u64) -> u64 {
        self.at + (1 + index - self.first_index) * INODE_BYTES
    }

    fn blocks(&self) -> u64 {
        ((self.records + 1) * INODE_BYTES).div_ceil(BLOCK_BYTES)
    }
}

/// The table of one shard.
#[derive(Debug)]
pub struct InodeTable {
    shard: u64,
    shards: u64,
    /// In order of their indexes.
    chunks: Vec<Chunk>,
    /// Records behind the first chunk that were freed since it last looked for something to give
    /// back.
    freed: u64,
}

/// Records in a block of a chunk, in the first one with the header.
const RECORDS_PER_BLOCK: u64 = BLOCK_BYTES / INODE_BYTES;
/// Blocks of the chunk that a shard gets at format.
pub const FIRST_CHUNK_BLOCKS: u64 = CHUNK_RECORDS_MIN as u64 * INODE_BYTES / BLOCK_BYTES;

/// Writes a chunk at PM block `block`: zeros and a header, which leads to `next`; durable at the
/// next fence.
pub fn write_chunk(
    pm: &Pm,
    block: u64,
    blocks: u64,
    shard: u16,
    first_index: u64,
    next: CheckedPtr,
) {
    let at = block * BLOCK_BYTES;
    pm.zero_nt(at, blocks * BLOCK_BYTES);
    let records = blocks * RECORDS_PER_BLOCK - 1;
    pm.write_nt(at, header(shard, first_index, records, next, records).as_bytes());
}

/// The header of a chunk of so many records, itself not counted.
fn header(shard: u16, first_index: u64, records: u64, next: CheckedPtr, free: u64) -> ChunkHeader {
    let mut header = ChunkHeader {
        magic: terrace_layout::CHUNK_MAGIC,
        crc: 0,
        shard,
        reserved0: 0,
        records: records as u32 + 1,
        reserved1: 0,
        first_index,
        next: next.0,
        free_at_checkpoint: free,
        reserved2: [0; 16],
    };
    header.seal();
    header
}

/// Shard and index in it of an inode.
#[inline]
pub fn shard_of(ino: Ino, shards: u64) -> usize {
    ((ino.0 - 1) % shards) as usize
}

impl InodeTable {
    /// Reads the chain of chunks of shard `shard`, whose page is PM block `page`, as if what is
    /// `pending` were stored.
    ///
    /// # Errors
    /// Damage, with the place.
    pub fn load(
        pm: &Pm,
        page: u64,
        shard: u16,
        shards: u16,
        pending: Option<&Pending>,
    ) -> FsResult<Self> {
        let damaged = |at: u64, kind| Damage::in_pm(pm, Structure::InodeTable(shard), kind).at(at);
        let malformed = |at: u64, e| damaged(at, DamageKind::Malformed(e));
        let wrong = |at: u64, what: &'static str| damaged(at, DamageKind::Wrong(what.into()));
        let page_at = page * BLOCK_BYTES;
        let mut bytes = [0u8; 64];
        pm.try_read(page_at, &mut bytes)?;
        let head = ShardPage::decode(&bytes, shard).map_err(|_| {
            let (structure, kind) = (Structure::ShardPage(shard), DamageKind::Damaged);
            Damage::in_pm(pm, structure, kind).at(page_at)
        })?;
        let mut table =
            Self { shard: shard.into(), shards: shards.into(), chunks: Vec::new(), freed: 0 };
        // `next` was read from the page or chunk at byte `link_at`.
        let (mut next, mut link_at) = (head.table, page_at);
        let mut first_index = 0;
        while let Some((addr, _)) = CheckedPtr(next).get().map_err(|e| malformed(link_at, e))? {
            let at = addr.byte();
            if !addr.is_pm() || at + BLOCK_BYTES > pm.len() {
                return Err(wrong(link_at, "leads outside PM").into());
            }
            read_pending(pm, pending, at, &mut bytes)?;
            let header = ChunkHeader::decode(&bytes, shard, first_index).map_err(|_| {
                let structure = Structure::Chunk(shard, first_index);
                Damage::in_pm(pm, structure, DamageKind::Damaged).at(at)
            })?;
            let records = u64::from(header.records) - 1;
            if at + (records + 1) * INODE_BYTES > pm.len() {
                return Err(wrong(at, "has a chunk that ends outside PM").into());
            }
            let free = header.free_at_checkpoint.min(records);
            table.chunks.push(Chunk {
                at,
                first_index: header.first_index,
                records,
                free,
                used: None,
                cursor: 0,
            });
            table.freed += if first_index == 0 { 0 } else { free };
            first_index = header.first_index + records;
            (next, link_at) = (header.next, at);
        }
        if table.chunks.is_empty() {
            return Err(wrong(page_at, "has no chunks").into());
        }
        Ok(table)
    }

    fn ino(&self, index: u64) -> Ino {
        Ino(index * self.shards + self.shard + 1)
    }

    fn chunk_of(&self, index: u64) -> Option<usize> {
        let c = self.chunks.partition_point(|c| c.first_index <= index).checked_sub(1)?;
        (index < self.chunks[c].first_index + self.chunks[c].records).then_some(c)
    }

    /// Byte of an inode's record in PM; `None` if the table does not reach that far.
    #[inline]
    pub fn locate(&self, ino: Ino) -> Option<u64> {
        let index = (ino.0.checked_sub(1)?) / self.shards;
        self.chunk_of(index).map(|c| self.chunks[c].record_at(index))
    }

    /// The first record at or behind a shard index: its index, inode number and byte in PM. Leaps
    /// over gaps.
    pub fn at_or_after(&self, index: u64) -> Option<(u64, Ino, u64)> {
        let chunk =
            self.chunks.get(self.chunks.partition_point(|c| c.first_index + c.records <= index))?;
        let index = index.max(chunk.first_index);
        Some((index, self.ino(index), chunk.record_at(index)))
    }

    /// One more than the last index; not all below it need exist.
    pub fn end(&self) -> u64 {
        self.chunks.last().map_or(0, |c| c.first_index + c.records)
    }

    /// Whether byte `at` of PM is one of a chunk's header.
    pub fn has_header_at(&self, at: u64) -> bool {
        self.chunks.iter().any(|c| (c.at..c.at + size_of::<ChunkHeader>() as u64).contains(&at))
    }

    /// Takes a free record: its inode number, its byte in PM and the generation for the new inode,
    /// if the record remembers that of an earlier one.
    ///
    /// # Errors
    /// `ENOSPC` if the table has to grow and PM is full.
    pub fn alloc(&mut self, pm: &Pm, space: &DeviceAlloc) -> FsResult<(Ino, u64, Option<u32>)> {
        // Free counts come from media: a chunk may turn out to be full when it is read.
        let c = loop {
            match self.chunks.iter().position(|c| c.free > 0) {
                Some(c) => self.load_chunk(pm, c),
                None => self.grow(pm, space)?,
            }
            if let Some(c) = self.chunks.iter().position(|c| c.free > 0 && c.used.is_some()) {
                break c;
            }
        };
        let chunk = &mut self.chunks[c];
        let used = chunk.used.as_mut().expect("loaded");
        let (records, cursor) = (chunk.records, chunk.cursor);
        let free = (cursor..records)
            .chain(0..cursor)
            .find(|&i| used[(i / 64) as usize] >> (i % 64) & 1 == 0);
        let slot = free.expect("free count says there is one");
        used[(slot / 64) as usize] |= 1 << (slot % 64);
        chunk.free -= 1;
        chunk.cursor = slot + 1;
        let index = chunk.first_index + slot;
        let at = chunk.record_at(index);
        let mut bytes = [0u8; size_of::<InodeRecord>()];
        pm.read(at, &mut bytes);
        let last = Some(InodeRecord::from_bytes(&bytes).generation).filter(|&last| last != 0);
        Ok((self.ino(index), at, last.map(|last| last.wrapping_add(1))))
    }

    /// Gives a record back that is free on media, or was never written.
    pub fn free(&mut self, pm: &Pm, ino: Ino) {
        let index = (ino.0 - 1) / self.shards;
        let c = self.chunk_of(index).expect("inode of this table");
        self.load_chunk(pm, c);
        let chunk = &mut self.chunks[c];
        let slot = index - chunk.first_index;
        let word = &mut chunk.used.as_mut().expect("loaded")[(slot / 64) as usize];
        // A record that is free on media already shows as free in a bitmap that was built just now.
        if *word >> (slot % 64) & 1 == 1 {
            *word &= !(1 << (slot % 64));
            chunk.free += 1;
            self.freed += u64::from(c > 0);
        }
        chunk.cursor = chunk.cursor.min(slot);
    }

    fn load_chunk(&mut self, pm: &Pm, c: usize) {
        let shards = self.shards;
        let shard = self.shard;
        let chunk = &mut self.chunks[c];
        if chunk.used.is_some() {
            return;
        }
        let mut used = vec![0u64; chunk.records.div_ceil(64) as usize];
        let mut count = 0;
        for slot in 0..chunk.records {
            let index = chunk.first_index + slot;
            if record_state(pm, chunk.record_at(index), Ino(index * shards + shard + 1))
                != RecordState::Free
            {
                used[(slot / 64) as usize] |= 1 << (slot % 64);
                count += 1;
            }
        }
        chunk.free = chunk.records - count;
        chunk.used = Some(used);
    }

    /// Adds a chunk: in the first gap that is worth it, else at the end.
    fn grow(&mut self, pm: &Pm, space: &DeviceAlloc) -> FsResult<()> {
        let gap = |i: usize| {
            let (before, next) = (&self.chunks[i], self.chunks.get(i + 1));
            let first_index = before.first_index + before.records;
            (i, first_index, next.map_or(u64::MAX, |next| next.first_index - first_index))
        };
        let is_worth_it = |&(_, _, room): &(usize, u64, u64)| room >= RECORDS_PER_BLOCK;
        let (before, first_index, room) =
            (0..self.chunks.len()).map(gap).find(is_worth_it).expect("the last has no end");
        let want =
            (self.end().next_power_of_two() as u32).clamp(CHUNK_RECORDS_MIN, CHUNK_RECORDS_MAX);
        let floor = terrace_policy::PM_RESERVE_BLOCKS;
        let free = space.free_blocks().saturating_sub(floor);
        let fitting = room.saturating_add(1) / RECORDS_PER_BLOCK;
        let blocks = (u64::from(want) / RECORDS_PER_BLOCK).min(free / 8 + 1).min(free).min(fitting);
        if blocks == 0 {
            return fail(libc::ENOSPC);
        }
        let Some(run) = space.alloc(self.shard as usize, blocks, Use::Metadata) else {
            return fail(libc::ENOSPC);
        };
        write_chunk(
            pm,
            run.start,
            run.len,
            self.shard as u16,
            first_index,
            self.pointer(before + 1),
        );
        if !planted(Bug::ChunkLinkedEarly) {
            fence(pm)?;
        }
        let link_at = self.chunks[before].at + CHUNK_NEXT_OFFSET;
        pm.store_u64(link_at, CheckedPtr::new(BlockAddr::pm(run.start), false).0);
        pm.flush(link_at, 8);
        fence(pm)?;
        let records = run.len * RECORDS_PER_BLOCK - 1;
        let used = Some(vec![0; records.div_ceil(64) as usize]);
        let chunk = Chunk {
            at: run.start * BLOCK_BYTES,
            first_index,
            records,
            free: records,
            used,
            cursor: 0,
        };
        self.chunks.insert(before + 1, chunk);
        Ok(())
    }

    /// What leads to the so many-th chunk; null if there is none.
    fn pointer(&self, chunk: usize) -> CheckedPtr {
        let to = |c: &Chunk| CheckedPtr::new(BlockAddr::pm(c.at / BLOCK_BYTES), false);
        self.chunks.get(chunk).map_or(CheckedPtr::NULL, to)
    }

    /// Records in all chunks, and the free ones among them.
    pub fn counts(&self) -> (u64, u64) {
        self.chunks.iter().fold((0, 0), |(n, f), c| (n + c.records, f + c.free))
    }

    /// PM blocks that the table takes.
    pub fn runs(&self) -> impl Iterator<Item = crate::alloc::Run> {
        self.chunks.iter().map(|c| crate::alloc::Run { start: c.at / BLOCK_BYTES, len: c.blocks() })
    }

    /// Every record: inode number and byte in PM.
    pub fn records(&self) -> impl Iterator<Item = (Ino, u64)> {
        self.chunks.iter().flat_map(move |c| {
            (c.first_index..c.first_index + c.records).map(move |i| (self.ino(i), c.record_at(i)))
        })
    }

    /// Forgets what it knows of free records, after recovery has freed some on media: everything is
    /// counted anew.
    pub fn recount(&mut self, pm: &Pm) {
        for c in 0..self.chunks.len() {
            self.chunks[c].used = None;
            self.load_chunk(pm, c);
        }
    }

    /// Flushes the headers of all chunks, which lead from one to the next.
    pub fn flush_headers(&self, pm: &Pm) {
        let header_bytes = size_of::<ChunkHeader>() as u64;
        self.chunks.iter().for_each(|chunk| pm.flush_readable(chunk.at, header_bytes));
    }

    /// Stores the free counts for the next mount; durable at the next fence.
    pub fn write_free_counts(&self, pm: &Pm) {
        for chunk in &self.chunks {
            pm.store_u64(chunk.at + CHUNK_FREE_OFFSET, chunk.free);
            pm.flush(chunk.at + CHUNK_FREE_OFFSET, 8);
        }
    }
}

/// The generation of an inode whose record remembers none. Where tables have gaps, records have
/// been forgotten.
pub fn first_generation(has_gaps: bool, secrets: &RandomState, ino: Ino) -> u32 {
    match has_gaps {
        true => (secrets.hash_one((ino.0, Instant::now())) as u32).max(1),
        false => 1,
    }
}

/// What a record on media is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordState {
    /// Nobody has it.
    Free,
    /// An inode has it.
    Used(InodeRecord),
    /// Neither: damaged.
    Damaged,
}

/// Reads the state of inode `ino`'s record at byte `at`.
pub fn record_state(pm: &Pm, at: u64, ino: Ino) -> RecordState {
    let mut bytes = [0u8; size_of::<InodeRecord>()];
    if pm.try_read(at, &mut bytes).is_err() {
        return RecordState::Damaged;
    }
    match InodeRecord::decode(&bytes, ino.0) {
        Ok(record) if record.state == INODE_USED => RecordState::Used(record),
        Ok(_) => RecordState::Free,
        // Making a record stores its first word last: one whose first word says free was being made
        // in a crash.
        Err(_) if bytes[0] == terrace_layout::INODE_FREE => RecordState::Free,
        Err(_) => RecordState::Damaged,
    }
}

/// Writes a new record: the first word last, in the same cache line, so that it is whole or free.
/// Nothing in the slots behind it passes for an entry of the new inode.
pub fn write_record(pm: &Pm, at: u64, record: &InodeRecord) {
    seal::forget(pm, at + INLINE_OFFSET, at + INODE_BYTES);
    pm.write(at + 8, &record.as_bytes()[8..]);
    pm.store_u64(at, record.first_word());
    if !planted(Bug::RecordNotFlushed) {
        pm.flush(at, size_of::<InodeRecord>() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A walk through a table meets each record once, and no place where there is none, however
    /// long the gaps are.
    #[test]
    fn a_walk_meets_each_record_and_no_gap() {
        let chunk = |first_index, records| Chunk {
            at: first_index << 20,
            first_index,
            records,
            free: 0,
            used: None,
            cursor: 0,
        };
        for chunks in [
            vec![(0, 15)],
            vec![(0, 15), (15, 31)],
            vec![(0, 3), (1 << 40, 1), ((1 << 40) + 2, 2), (1 << 50, 7)],
        ] {
            let chunks = chunks.into_iter().map(|(first, records)| chunk(first, records)).collect();
            let table = InodeTable { shard: 1, shards: 3, chunks, freed: 0 };
            let mut next = 0;
            let walk = std::iter::from_fn(|| {
                let (index, ino, at) = table.at_or_after(next)?;
                next = index + 1;
                Some((ino, at))
            });
            assert!(walk.eq(table.records()), "{table:?}");
            assert!(table.records().all(|(ino, at)| table.locate(ino) == Some(at)));
            assert_eq!(next, table.end());
        }
    }
}
