//! What lies where on a volume's devices: every structure, with its owner and how it is sealed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::mem::offset_of;
use std::ops::Range;

use terrace_layout::{
    BLOCK_BYTES, BlockAddr, CHUNK_NEXT_OFFSET, CRC_BLOCKS, CheckedPtr, CheckpointHeader,
    ChunkHeader, DeviceEntry, GroupSummary, HEAD_OFFSET, INLINE_OFFSET, INLINE_SLOTS, INODE_BYTES,
    INODE_USED, InodeRecord, JOURNAL_OFFSET, JournalRecord, LogEntry, LogPageHeader, MediaStruct,
    NEXT_OFFSET, PAGE_SLOTS, SET_SIZE_TRUNCATES, SLOT_BYTES, ShardPage, Stamp, Superblock,
    TAIL_OFFSET, Tail, WEAR_MAGIC, WEAR_OFFSET, WEAR_SLOT_BYTES, WEAR_SLOTS, WRITE_UNWRITTEN,
    WearRecord, entry_slots, page_seed,
};

use crate::image::Image;
use crate::seal::Seal;

/// Kinds of structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "each names its structure")]
pub enum Region {
    Superblock,
    ShardHead,
    Journal,
    WearRecord,
    CheckpointHeader,
    GroupSummaries,
    Bitmap,
    ChunkHeader,
    InodeRecord,
    LogPageHeader,
    LogEntry,
    ArchiveEntry,
    ArchivedEntry,
    ChainEntry,
    LastEntry,
    CrcBlock,
    XattrValue,
    DiskData,
    PmData,
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Region::Superblock => "superblock",
            Region::ShardHead => "shard page head",
            Region::Journal => "journal",
            Region::WearRecord => "wear record",
            Region::CheckpointHeader => "checkpoint header",
            Region::GroupSummaries => "group summaries",
            Region::Bitmap => "bitmap",
            Region::ChunkHeader => "chunk header",
            Region::InodeRecord => "inode record",
            Region::LogPageHeader => "log page header",
            Region::LogEntry => "log entry",
            Region::ArchiveEntry => "archive entry",
            Region::ArchivedEntry => "log entry on a disk",
            Region::ChainEntry => "entry beyond the tail",
            Region::LastEntry => "last beyond the tail",
            Region::CrcBlock => "checksum block",
            Region::XattrValue => "attribute value",
            Region::DiskData => "data on disk",
            Region::PmData => "data in PM",
        })
    }
}

/// A structure on a device.
#[derive(Clone, Debug)]
pub struct Place {
    /// What it is.
    pub region: Region,
    /// On which device.
    pub device: usize,
    /// First byte.
    pub at: usize,
    /// Bytes.
    pub len: usize,
    /// The inode that it belongs to, if it is one's.
    pub owner: Option<u64>,
    /// How it is sealed, in this order.
    pub seals: Vec<Seal>,
    /// Byte of the same volume's PM or of the device where the checksum of the whole structure
    /// stands.
    pub sum: Option<(usize, usize)>,
    /// Bytes of PM that a last entry vouches for.
    pub vouches_for: Range<usize>,
}

/// A file's live data blocks while its log is read.
type Blocks = BTreeMap<u64, (BlockAddr, Option<(BlockAddr, u64)>)>;

struct Finder<'a> {
    image: &'a Image,
    /// Of the mount that wrote last.
    stamp: Stamp,
    places: Vec<Place>,
}

/// Every structure of the volume in `image`, which is whole.
pub fn places_of(image: &Image) -> Vec<Place> {
    let sb = Superblock::decode(&image.0[0][..size_of::<Superblock>()])
        .expect("the image is whole")
        .expect("a volume");
    let mut finder = Finder { image, stamp: Stamp::of_epoch(sb.mount_epoch), places: Vec::new() };
    finder.superblocks();
    for shard in 0..sb.shards {
        finder.shard(&sb, shard);
    }
    finder.wear(&sb);
    finder.checkpoint(&sb);
    finder.places
}

fn span(at: u64, len: usize) -> Range<usize> {
    at as usize..at as usize + len
}

impl Finder<'_> {
    fn add(
        &mut self,
        region: Region,
        device: usize,
        bytes: Range<usize>,
        owner: Option<u64>,
        seals: &[Seal],
    ) {
        self.places.push(Place {
            region,
            device,
            at: bytes.start,
            len: bytes.len(),
            owner,
            seals: seals.to_vec(),
            sum: None,
            vouches_for: 0..0,
        });
    }

    fn pm(&self, at: u64, len: usize) -> &[u8] {
        &self.image.0[0][at as usize..][..len]
    }

    fn read<T: MediaStruct>(&self, at: u64) -> T {
        T::from_bytes(self.pm(at, size_of::<T>()))
    }

    fn superblocks(&mut self) {
        let seal =
            Seal::Crc { from: 0, to: size_of::<Superblock>(), field: offset_of!(Superblock, crc) };
        for device in 0..self.image.0.len() {
            for copy in 0..terrace_layout::SUPERBLOCK_BLOCKS {
                let len = size_of::<Superblock>();
                self.add(Region::Superblock, device, span(copy * BLOCK_BYTES, len), None, &[seal]);
            }
        }
    }

    fn shard(&mut self, sb: &Superblock, shard: u16) {
        let at = (sb.shards_start + u64::from(shard)) * BLOCK_BYTES;
        let crc = Seal::Crc { from: 0, to: 64, field: offset_of!(ShardPage, crc) };
        let table = Seal::Pointer(offset_of!(ShardPage, table));
        self.add(Region::ShardHead, 0, span(at, size_of::<ShardPage>()), None, &[table, crc]);
        self.add(
            Region::Journal,
            0,
            span(at + JOURNAL_OFFSET, size_of::<JournalRecord>()),
            None,
            &[Seal::Journal],
        );
        let mut next = self.read::<ShardPage>(at).table;
        while let Some((addr, _)) = CheckedPtr(next).get().expect("the image is whole") {
            let header: ChunkHeader = self.read(addr.byte());
            let crc = Seal::Crc {
                from: 0,
                to: CHUNK_NEXT_OFFSET as usize,
                field: offset_of!(ChunkHeader, crc),
            };
            let seals = [crc, Seal::Pointer(CHUNK_NEXT_OFFSET as usize)];
            self.add(
                Region::ChunkHeader,
                0,
                span(addr.byte(), size_of::<ChunkHeader>()),
                None,
                &seals,
            );
            for i in 1..u64::from(header.records) {
                self.inode(addr.byte() + i * INODE_BYTES);
            }
            next = header.next;
        }
    }

    fn wear(&mut self, sb: &Superblock) {
        let len = size_of::<WearRecord>();
        let crc = Seal::Crc { from: 0, to: len, field: offset_of!(WearRecord, crc) };
        let slots = sb.shards_start * BLOCK_BYTES + WEAR_OFFSET;
        for at in (0..WEAR_SLOTS).map(|slot| slots + slot * WEAR_SLOT_BYTES) {
            if self.read::<WearRecord>(at).magic == WEAR_MAGIC {
                self.add(Region::WearRecord, 0, span(at, len), None, &[crc]);
            }
        }
    }

    fn inode(&mut self, at: u64) {
        let record: InodeRecord = self.read(at);
        if record.state != INODE_USED {
            return;
        }
        let (head_word, tail_word) = (HEAD_OFFSET as usize, TAIL_OFFSET as usize);
        let crc = Seal::Crc { from: 0, to: head_word, field: offset_of!(InodeRecord, crc) };
        let seals = [crc, Seal::Pointer(head_word), Seal::Tail(tail_word)];
        self.add(
            Region::InodeRecord,
            0,
            span(at, size_of::<InodeRecord>()),
            Some(record.ino),
            &seals,
        );
        let (tail, _) = Tail(record.tail).get().expect("the image is whole");
        let head = CheckedPtr(record.head).get().expect("the image is whole");
        let inline_end = at + INLINE_OFFSET + INLINE_SLOTS * SLOT_BYTES;
        let mut blocks = Blocks::new();
        let tail_inline = (at..=inline_end).contains(&tail);
        if tail_inline || !head.is_some_and(|(_, dropped)| dropped) {
            let end = if tail_inline { tail } else { inline_end };
            let seed = record.log_seed();
            self.entries(&record, seed, 0, at + INLINE_OFFSET..end, &mut blocks);
            if tail_inline {
                self.chain(&record, seed, tail, inline_end, &mut blocks);
            }
        }
        let mut page = head.filter(|_| !tail_inline);
        while let Some((addr, _)) = page.take() {
            let start = addr.byte();
            let crc = Seal::Crc {
                from: 0,
                to: NEXT_OFFSET as usize,
                field: offset_of!(LogPageHeader, crc),
            };
            let seals = [crc, Seal::Pointer(NEXT_OFFSET as usize)];
            self.add(
                Region::LogPageHeader,
                0,
                span(start, size_of::<LogPageHeader>()),
                Some(record.ino),
                &seals,
            );
            let last = (start + SLOT_BYTES..=start + BLOCK_BYTES).contains(&tail);
            let end = if last { tail } else { start + (1 + PAGE_SLOTS) * SLOT_BYTES };
            let sequence = self.read::<LogPageHeader>(start).sequence;
            let seed = page_seed(record.log_seed(), sequence);
            self.entries(&record, seed, 0, start + SLOT_BYTES..end, &mut blocks);
            if last {
                self.chain(&record, seed, tail, start + BLOCK_BYTES, &mut blocks);
            } else {
                page = CheckedPtr(self.read::<LogPageHeader>(start).next)
                    .get()
                    .expect("the image is whole");
            }
        }
        self.data(record.ino, &blocks);
    }

    /// The entries beyond the tail that committed themselves. Nobody can miss the last one.
    fn chain(&mut self, record: &InodeRecord, seed: u32, tail: u64, end: u64, blocks: &mut Blocks) {
        let (mut at, mut last, before) = (tail, None, self.places.len());
        while let Some(len) = self.stamped(seed, at, end) {
            self.entries(record, seed, 0, at..at + len, blocks);
            last = Some((at, len));
            at += len;
        }
        if let Some((at, len)) = last {
            let entry =
                LogEntry::decode(self.pm(at, len as usize), seed).expect("it was decoded before");
            let vouches_for = vouched_bytes(&entry);
            let chain = self.places[before..].iter_mut().filter(|p| p.region == Region::LogEntry);
            let last = chain
                .map(|place| (place.region = Region::ChainEntry, place).1)
                .last()
                .expect("just added");
            (last.region, last.vouches_for) = (Region::LastEntry, vouches_for);
        }
    }

    /// Bytes of the entry at `at` if it is one that the last mount committed by itself.
    fn stamped(&self, seed: u32, at: u64, end: u64) -> Option<u64> {
        let rest = self.pm(at, (end - at) as usize);
        if rest.is_empty() || Stamp::of_entry(rest) != Some(self.stamp) {
            return None;
        }
        let len = entry_slots(rest, (end - at) / SLOT_BYTES)? * SLOT_BYTES;
        LogEntry::decode(&rest[..len as usize], seed).is_ok().then_some(len)
    }

    /// Entries in a range of bytes of a device.
    fn entries(
        &mut self,
        record: &InodeRecord,
        seed: u32,
        device: usize,
        range: Range<u64>,
        blocks: &mut Blocks,
    ) {
        let mut at = range.start;
        while at < range.end {
            let bytes = self.image.0[device][at as usize..range.end as usize].to_vec();
            let slots =
                entry_slots(&bytes, (range.end - at) / SLOT_BYTES).expect("the image is whole");
            let len = (slots * SLOT_BYTES) as usize;
            let entry = LogEntry::decode(&bytes[..len], seed).expect("the image is whole");
            let region = match entry {
                LogEntry::Archive(_) => Region::ArchiveEntry,
                _ if device > 0 => Region::ArchivedEntry,
                _ => Region::LogEntry,
            };
            self.add(region, device, span(at, len), Some(record.ino), &[Seal::Entry(seed)]);
            match entry {
                LogEntry::Archive(e) => {
                    let (seed, addr) = (page_seed(seed, e.sequence), BlockAddr(e.address));
                    let archived = addr.byte()..addr.byte() + u64::from(e.entry_slots) * SLOT_BYTES;
                    self.entries(record, seed, addr.device().into(), archived, blocks);
                }
                LogEntry::Write(e, _) => {
                    let crcs = (e.crc_form == CRC_BLOCKS)
                        .then_some((BlockAddr(e.crc_address), u64::from(e.crcs[1])));
                    for i in 0..u64::from(e.blocks) {
                        blocks.remove(&(e.file_block + i));
                        if e.flags & WRITE_UNWRITTEN == 0 {
                            blocks.insert(e.file_block + i, (BlockAddr(e.address).offset(i), crcs));
                        }
                    }
                }
                LogEntry::SetSize(e) if e.flags & SET_SIZE_TRUNCATES != 0 => {
                    drop(blocks.split_off(&e.size.div_ceil(BLOCK_BYTES)));
                }
                LogEntry::Hole(e) => {
                    blocks.retain(|b, _| !(e.file_block..e.file_block + e.blocks).contains(b))
                }
                LogEntry::XattrSet(e, ..) if e.address != 0 => {
                    let at = BlockAddr(e.address).byte();
                    self.add(
                        Region::XattrValue,
                        0,
                        span(at, e.value_len as usize),
                        Some(record.ino),
                        &[],
                    );
                }
                _ => {}
            }
            at += len as u64;
        }
    }

    fn data(&mut self, ino: u64, blocks: &Blocks) {
        for (addr, _) in blocks.values() {
            let region = if addr.is_pm() { Region::PmData } else { Region::DiskData };
            self.add(
                region,
                addr.device().into(),
                span(addr.byte(), BLOCK_BYTES as usize),
                Some(ino),
                &[],
            );
        }
        let sums: BTreeSet<(BlockAddr, u64)> =
            blocks.values().filter_map(|&(_, crcs)| crcs).collect();
        for (first, count) in sums {
            for i in 0..count {
                let addr = first.offset(i);
                let (device, len) = (addr.device().into(), BLOCK_BYTES as usize);
                self.add(
                    Region::CrcBlock,
                    device,
                    span(addr.byte(), len),
                    Some(ino),
                    &[Seal::CrcBlock],
                );
            }
        }
    }

    fn checkpoint(&mut self, sb: &Superblock) {
        let header_at = sb.checkpoint_header * BLOCK_BYTES;
        let len = size_of::<CheckpointHeader>();
        let crc = Seal::Crc { from: 8, to: len, field: offset_of!(CheckpointHeader, crc) };
        self.add(Region::CheckpointHeader, 0, span(header_at, len), None, &[crc]);
        for (i, device) in sb.devices().iter().enumerate() {
            let summaries = device.groups() as usize * size_of::<GroupSummary>();
            let start = device.checkpoint_start * BLOCK_BYTES;
            self.add(Region::GroupSummaries, i, span(start, summaries), None, &[]);
            let row = offset_of!(CheckpointHeader, devices)
                + i * size_of::<terrace_layout::CheckpointDevice>();
            let field = offset_of!(terrace_layout::CheckpointDevice, summaries_crc);
            self.places.last_mut().expect("just added").sum =
                Some((0, header_at as usize + row + field));
            self.bitmaps(i, device, start as usize);
        }
    }

    fn bitmaps(&mut self, index: usize, device: &DeviceEntry, summaries_at: usize) {
        let bytes = device.group_blocks as usize / 8;
        let start = (device.checkpoint_start + device.summary_blocks()) * BLOCK_BYTES;
        for g in 0..device.groups() as usize {
            self.add(Region::Bitmap, index, span(start + (g * bytes) as u64, bytes), None, &[]);
            let sum =
                summaries_at + g * size_of::<GroupSummary>() + offset_of!(GroupSummary, bitmap_crc);
            self.places.last_mut().expect("just added").sum = Some((index, sum));
        }
    }
}

/// Bytes of PM that an entry must find as it left them to count beyond the tail.
fn vouched_bytes(entry: &LogEntry<'_>) -> Range<usize> {
    let (at, len) = match entry {
        LogEntry::Write(e, _) => {
            let written = e.size.saturating_sub(e.file_block * BLOCK_BYTES);
            (BlockAddr(e.address).byte(), written.min(u64::from(e.blocks) * BLOCK_BYTES))
        }
        LogEntry::Append(e) => {
            (BlockAddr(e.address).byte() + e.from % BLOCK_BYTES, e.size - e.from)
        }
        _ => (0, 0),
    };
    at as usize..(at + len) as usize
}

/// Makes `image` pass as far as checksums go, after changes to `changed`, indices into `places`.
pub fn reseal(image: &mut Image, places: &[Place], changed: &[usize]) {
    let mut changed: BTreeSet<usize> = changed.iter().copied().collect();
    // The structure that holds a checksum comes before the bytes that it covers, but for a
    // bitmap's, which comes right before it.
    for region in [Region::Bitmap, Region::GroupSummaries] {
        for i in changed.clone().into_iter().filter(|&i| places[i].region == region) {
            let place = &places[i];
            let crc =
                terrace_layout::data_crc(&image.0[place.device][place.at..place.at + place.len]);
            let (device, at) = place.sum.expect("these have one");
            image.0[device][at..at + 4].copy_from_slice(&crc.to_le_bytes());
            let holder = |p: &Place| p.device == device && (p.at..p.at + p.len).contains(&at);
            changed.extend(places.iter().position(holder));
        }
    }
    for place in changed.into_iter().map(|i| &places[i]) {
        for &how in &place.seals {
            crate::seal::seal(how, &mut image.0[place.device][place.at..]);
        }
    }
}
