//! Decoders of single structures. Values that a decoder lets pass must keep within the bounds that
//! its readers rely on.

use std::mem::offset_of;

use terrace_layout::{
    BlockAddr, CHUNK_NEXT_OFFSET, CHUNK_RECORDS_MAX, CheckedPtr, CheckpointHeader, ChunkHeader,
    DEVICE_BLOCKS_MAX, DEVICES_MAX, FILE_BYTES_MAX, GroupSummary, HEAD_OFFSET, InodeRecord,
    JOURNAL_WORDS_MAX, JournalRecord, LogEntry, LogPageHeader, MediaStruct, NAME_BYTES_MAX,
    NEXT_OFFSET, PAGE_SLOTS, SHARDS_MAX, SLOT_BYTES, ShardPage, Superblock, Tail, entry_slots,
    verify_checkpoint_part, verify_crc_block,
};

use super::recover::SPECIMENS;
use crate::places::Region;
use crate::seal::{Seal, seal};

/// Calls `decode` with the first `len` bytes of `data`, zeros where there are fewer, as they are
/// and sealed.
fn twice(data: &[u8], len: usize, how: Seal, decode: impl Fn(&[u8])) {
    let mut bytes = data[..data.len().min(len)].to_vec();
    bytes.resize(len, 0);
    decode(&bytes);
    seal(how, &mut bytes);
    decode(&bytes);
}

/// [`Superblock`], and what is computed from it.
pub fn superblock(data: &[u8]) {
    let len = size_of::<Superblock>();
    twice(data, len, Seal::Crc { from: 0, to: len, field: offset_of!(Superblock, crc) }, |bytes| {
        let Ok(Some(sb)) = Superblock::decode(bytes) else {
            return;
        };
        assert!(sb.blocks < DEVICE_BLOCKS_MAX && usize::from(sb.device_index) < DEVICES_MAX);
        if sb.device_index != 0 {
            return;
        }
        assert!((1..=SHARDS_MAX).contains(&sb.shards));
        assert!(sb.shards_start + u64::from(sb.shards) <= sb.checkpoint_header);
        assert!(sb.checkpoint_header < sb.blocks);
        assert_eq!(sb.devices().len(), usize::from(sb.device_count));
        for device in sb.devices() {
            let area_end = device.checkpoint_start + device.checkpoint_blocks_needed();
            assert!(area_end <= device.data_start && device.data_start < device.blocks);
            assert!(device.path().len() <= device.path.len());
        }
    });
}

/// [`ShardPage`].
pub fn shard_page(data: &[u8]) {
    let len = size_of::<ShardPage>();
    twice(data, len, Seal::Crc { from: 0, to: len, field: offset_of!(ShardPage, crc) }, |bytes| {
        if let Ok(page) = ShardPage::decode(bytes, ShardPage::from_bytes(bytes).shard) {
            pointer(page.table);
        }
    });
}

/// [`JournalRecord`].
pub fn journal(data: &[u8]) {
    twice(data, size_of::<JournalRecord>(), Seal::Journal, |bytes| {
        let record = JournalRecord::from_bytes(bytes);
        assert!(record.body().len() < size_of::<JournalRecord>());
        if let Ok(Some(words)) = record.committed() {
            assert!(words.len() <= JOURNAL_WORDS_MAX);
        }
    });
}

/// [`CheckpointHeader`] and [`GroupSummary`].
pub fn checkpoint(data: &[u8]) {
    let len = size_of::<CheckpointHeader>();
    twice(
        data,
        len,
        Seal::Crc { from: 8, to: len, field: offset_of!(CheckpointHeader, crc) },
        |bytes| {
            let epoch = CheckpointHeader::from_bytes(bytes).mount_epoch;
            if let Some(header) = CheckpointHeader::usable(bytes, epoch) {
                assert_eq!(header.mount_epoch, epoch);
                assert!(CheckpointHeader::usable(bytes, !epoch).is_none());
            }
            let summary = GroupSummary::from_bytes(bytes);
            let _ = verify_checkpoint_part("part", bytes, summary.bitmap_crc);
        },
    );
}

/// [`ChunkHeader`].
pub fn chunk_header(data: &[u8]) {
    let len = size_of::<ChunkHeader>();
    let how =
        Seal::Crc { from: 0, to: CHUNK_NEXT_OFFSET as usize, field: offset_of!(ChunkHeader, crc) };
    twice(data, len, how, |bytes| {
        let said = ChunkHeader::from_bytes(bytes);
        if let Ok(header) = ChunkHeader::decode(bytes, said.shard, said.first_index) {
            assert!((2..=CHUNK_RECORDS_MAX).contains(&header.records));
            pointer(header.next);
        }
    });
}

/// [`InodeRecord`].
pub fn inode_record(data: &[u8]) {
    let how = Seal::Crc { from: 0, to: HEAD_OFFSET as usize, field: offset_of!(InodeRecord, crc) };
    twice(data, size_of::<InodeRecord>(), how, |bytes| {
        let ino = InodeRecord::from_bytes(bytes).ino;
        if let Ok(record) = InodeRecord::decode(bytes, ino) {
            assert_eq!(record.ino, ino);
            pointer(record.head);
            tail(record.tail);
            assert!(InodeRecord::decode(bytes, !ino).is_err() || bytes.iter().all(|&b| b == 0));
        }
    });
}

/// [`LogPageHeader`].
pub fn log_page(data: &[u8]) {
    let how =
        Seal::Crc { from: 0, to: NEXT_OFFSET as usize, field: offset_of!(LogPageHeader, crc) };
    twice(data, size_of::<LogPageHeader>(), how, |bytes| {
        let said = LogPageHeader::from_bytes(bytes);
        if let Ok(header) = LogPageHeader::decode(bytes, said.ino, said.generation) {
            pointer(header.next);
        }
    });
}

/// [`LogEntry`], of every type; and a checksum block, whose form no entry can damage.
pub fn log_entry(data: &[u8]) {
    let len = data
        .len()
        .clamp(1, (PAGE_SLOTS * SLOT_BYTES) as usize)
        .next_multiple_of(SLOT_BYTES as usize);
    for seed in [0, 0x1234_5678] {
        twice(data, len, Seal::Entry(seed), |bytes| {
            let Some(slots) = entry_slots(bytes, len as u64 / SLOT_BYTES) else {
                return;
            };
            if let Ok(entry) = LogEntry::decode(&bytes[..(slots * SLOT_BYTES) as usize], seed) {
                keeps_bounds(entry);
            }
        });
    }
    let mut block = data.to_vec();
    block.resize(terrace_layout::BLOCK_BYTES as usize, 0);
    let _ = verify_crc_block(&block);
}

fn keeps_bounds(entry: LogEntry<'_>) {
    match entry {
        LogEntry::Write(e, crcs) => {
            let addr = BlockAddr(e.address);
            assert!(e.blocks > 0 && usize::from(addr.device()) < DEVICES_MAX);
            assert!(addr.block() + u64::from(e.blocks) < DEVICE_BLOCKS_MAX);
            assert!(e.file_block + u64::from(e.blocks) <= 1 << 51 && e.size <= FILE_BYTES_MAX);
            assert!(crcs.is_empty() || crcs.len() == e.blocks as usize * 4);
        }
        LogEntry::Append(e) => assert!(e.size <= FILE_BYTES_MAX),
        LogEntry::Patch(e, bytes) => {
            assert!(
                !bytes.is_empty() && e.offset / 4096 == (e.offset + bytes.len() as u64 - 1) / 4096
            );
        }
        LogEntry::SetSize(e) => assert!(e.size <= FILE_BYTES_MAX),
        LogEntry::Hole(e) => {
            assert!(e.file_block + e.blocks <= 1 << 51 && e.size <= FILE_BYTES_MAX)
        }
        LogEntry::XattrSet(_, name, value) => assert!(!name.is_empty() && value.len() <= 4096),
        LogEntry::XattrRemove(_, name) => assert!(!name.is_empty()),
        LogEntry::DentryAdd(e, name) => {
            assert!(e.ino != 0 && (1..=NAME_BYTES_MAX).contains(&name.len()))
        }
        LogEntry::Target(e, piece) => assert!(e.offset <= 4096 && piece.len() <= 4096),
        LogEntry::Archive(e) => {
            let addr = BlockAddr(e.address);
            assert!(
                usize::from(addr.device()) < DEVICES_MAX
                    && addr.block() + e.blocks() < DEVICE_BLOCKS_MAX
            );
            assert!(!addr.is_pm() && e.entry_slots > 0);
        }
        LogEntry::Attr(_) | LogEntry::DentryRemove(_) | LogEntry::Pad => {}
    }
}

/// Words that are stored alone: [`CheckedPtr`] and [`Tail`].
pub fn words(data: &[u8]) {
    twice(data, 8, Seal::Pointer(0), |bytes| {
        pointer(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    });
    twice(data, 8, Seal::Tail(0), |bytes| {
        tail(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
    });
}

fn pointer(word: u64) {
    if let Ok(Some((addr, flag))) = CheckedPtr(word).get() {
        assert!(usize::from(addr.device()) < DEVICES_MAX && addr.block() < DEVICE_BLOCKS_MAX);
        assert_eq!(CheckedPtr::new(addr, flag).0, word);
    }
}

fn tail(word: u64) {
    if let Ok((byte, generation)) = Tail(word).get() {
        assert!(byte.is_multiple_of(SLOT_BYTES));
        assert_eq!(Tail::new(byte, generation).0, word);
    }
}

/// Structures of real volumes.
pub(super) fn seeds(target: &str) -> Vec<Vec<u8>> {
    let region = match target {
        "superblock" => Region::Superblock,
        "shard_page" => Region::ShardHead,
        "journal" => Region::Journal,
        "checkpoint" => Region::CheckpointHeader,
        "chunk_header" => Region::ChunkHeader,
        "inode_record" => Region::InodeRecord,
        "log_page" => Region::LogPageHeader,
        "log_entry" => Region::LogEntry,
        _ => panic!("there is no target {target}"),
    };
    let mut seeds: Vec<Vec<u8>> = SPECIMENS
        .iter()
        .flat_map(|s| s.places.iter().map(move |p| (s, p)))
        .filter(|(_, p)| p.region == region)
        .map(|(s, p)| s.image.0[p.device][p.at..p.at + p.len].to_vec())
        .collect();
    seeds.sort_unstable();
    seeds.dedup();
    seeds
}
