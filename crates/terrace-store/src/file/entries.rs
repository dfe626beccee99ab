//! The entries of a file's log that map and measure its data, and the checksums that go with them.

use terrace_layout::{
    BLOCK, CRC_BLOCKS, CRC_COMMIT, CRC_ENTRY, CRC_NONE, CRC_SLOTS, EntryType, MediaStruct,
    SET_SIZE_TRUNCATES, SetSizeEntry, WRITE_UNWRITTEN, WriteEntry, covered_bytes, data_crc,
};
use terrace_media::Pm;
use zerocopy::IntoBytes;

use super::runs::StagedRun;
use crate::Time;
use crate::error::FsResult;
use crate::index::Extent;
use crate::log::{Entries, Log};

pub(super) fn set_size_entry(size: u64, mtime: Time, truncates: bool) -> SetSizeEntry {
    SetSizeEntry {
        kind: EntryType::SetSize as u8,
        slots: 0,
        flags: if truncates { SET_SIZE_TRUNCATES } else { 0 },
        crc: 0,
        size,
        mtime_ns: mtime.0,
        reserved: [0; 40],
    }
}

pub(super) fn push_write(
    log: &mut Log,
    run: &StagedRun,
    size: u64,
    now: Time,
    crcs: &[u32],
) -> usize {
    let (entry, slots) = with_crcs(write_entry(run, size, now), run.crc_run.is_some(), crcs);
    log.push(&entry, &[slots])
}

/// As [`push_write`], for PM without data checksums; `crc` covers the data as they are committed.
pub(super) fn push_vouched(
    log: &mut Log,
    run: &StagedRun,
    size: u64,
    now: Time,
    crc: Option<u32>,
) -> usize {
    let mut entry = write_entry(run, size, now);
    if let Some(crc) = crc {
        (entry.crc_form, entry.crcs) = (CRC_COMMIT, [crc, 0]);
    }
    log.push(&entry, &[])
}

pub(super) fn write_entry(run: &StagedRun, size: u64, now: Time) -> WriteEntry {
    WriteEntry {
        kind: if run.relocated { EntryType::Move } else { EntryType::Write } as u8,
        slots: 0,
        flags: if run.unwritten { WRITE_UNWRITTEN } else { 0 },
        crc: 0,
        file_block: run.file_block,
        address: run.addr.0,
        blocks: run.blocks as u32,
        counter: run.history,
        crc_form: CRC_NONE,
        size,
        mtime_ns: now.0,
        crc_address: run.crc_run.map_or(0, |(addr, _)| addr.0),
        crcs: [run.crc_skip, run.crc_run.map_or(0, |(_, blocks)| blocks as u32)],
    }
}

/// The entry with its checksums, or where they are, and the checksums that do not fit into it.
pub(super) fn with_crcs(
    mut entry: WriteEntry,
    in_blocks: bool,
    crcs: &[u32],
) -> (WriteEntry, &[u8]) {
    if in_blocks {
        entry.crc_form = CRC_BLOCKS;
        return (entry, &[]);
    }
    match crcs {
        [] => {
            entry.crcs = [0; 2];
            (entry, &[])
        }
        [first, rest @ ..] if rest.len() <= 1 => {
            entry.crc_form = CRC_ENTRY;
            entry.crcs = [*first, rest.first().copied().unwrap_or(0)];
            (entry, &[])
        }
        _ => {
            entry.crc_form = CRC_SLOTS;
            (entry, crcs.as_bytes())
        }
    }
}

/// A copy of (a piece of) an entry for compaction, and the checksums that do not fit into it. A
/// piece of an entry with checksum blocks remembers in `crcs[0]` how many checksums to skip.
pub(super) fn copy_of(mut piece: WriteEntry, skip: u32, crcs: &[u32]) -> (WriteEntry, &[u8]) {
    let in_blocks = piece.crc_form == CRC_BLOCKS;
    piece.crc_form = CRC_NONE;
    piece.crcs = if in_blocks { [piece.crcs[0] + skip, piece.crcs[1]] } else { [0; 2] };
    with_crcs(piece, in_blocks, crcs)
}

/// The write entry at a position that the index holds.
///
/// # Errors
/// PM that cannot be read.
#[inline]
pub fn read_write_entry(entries: Entries<'_>, position: u64) -> FsResult<WriteEntry> {
    let mut bytes = [0u8; size_of::<WriteEntry>()];
    entries.read(position, &mut bytes)?;
    Ok(WriteEntry::from_bytes(&bytes))
}

/// Blocks of an entry before the extent at `file_block` that is left of it.
#[inline]
pub fn blocks_before(entry: &WriteEntry, file_block: u64) -> u32 {
    file_block.saturating_sub(entry.file_block) as u32
}

/// The checksums of an extent's blocks, `skip` blocks into its entry, if that keeps them in the
/// log.
///
/// # Errors
/// PM that cannot be read.
pub fn extent_crcs_in_log(
    entries: Entries<'_>,
    entry: &WriteEntry,
    skip: u32,
    extent: &Extent,
) -> FsResult<Vec<u32>> {
    let blocks = extent.blocks as usize;
    Ok(match entry.crc_form {
        CRC_ENTRY => entry.crcs.iter().skip(skip as usize).take(blocks).copied().collect(),
        CRC_SLOTS => {
            let mut crcs = vec![0u32; blocks];
            let at = extent.entry() + size_of::<WriteEntry>() as u64 + u64::from(skip) * 4;
            entries.read(at, crcs.as_mut_bytes())?;
            crcs
        }
        _ => Vec::new(),
    })
}

/// Checksums of a run's blocks in PM, each over its committed bytes.
pub(super) fn pm_crcs(pm: &Pm, run: &StagedRun, size: u64) -> Vec<u32> {
    let mut block = [0u8; BLOCK];
    (0..run.blocks)
        .map(|i| {
            let covered = covered_bytes(run.file_block + i, size);
            pm.read(run.addr.offset(i).byte(), &mut block[..covered]);
            data_crc(&block[..covered])
        })
        .collect()
}
