//! Files as long as what the engine cuts work into, and a block shorter and longer: whoever goes
//! through a file in pieces meets its end just before, at and just after the end of a piece, and
//! extents that go on there.

use std::collections::BTreeSet;

use terrace_layout::{
    BLOCK_BYTES, CRC_ENTRY_BLOCKS_MAX, CRC_SLOTS_BLOCKS_MAX, CRCS_PER_BLOCK, FILE_BYTES_MAX,
    IMAGE_RUN_BLOCKS_MAX,
};
use terrace_media::{Disk, Pm, memory_disk};
use terrace_policy::{Param, Params};
use terrace_store::file::{BLOCK, JOINED_BLOCKS_MAX};
use terrace_store::index::TABLE_BLOCKS;
use terrace_store::sync::Arc;

use crate::base::types::{
    Fallocate, FileKind, Ino, NewInode, ScrubOptions, WriteOptions, XattrFlags,
};
use crate::ops::data;
use crate::pageio::runs::{LOG_CRCS_MAX, RUN_BLOCKS_MAX};
use crate::pageio::writeback;
use crate::tiering::relocate::STRETCH_BLOCKS;
use crate::tiering::relocate::buffers::BUFFER_BLOCKS;
use crate::tiering::select::{GROUPS_PER_FLUSH, SPAN_BLOCKS_MAX};
use crate::tools::check::{self, CheckOptions, check};
use crate::tools::scrub;
use crate::{
    FileMoved, FormatOptions, OpenOptions, PIN_XATTR, RemovalState, Volume, format, restore, save,
};

const MIB: u64 = 1 << 20;
/// A file is gone through in no more pieces than this: the shortest pieces would take all the time.
const PIECES_MAX: u64 = 8;

/// Tiers and their names, in an order in which a file goes from the last to the first, too.
const TIERS: [(u8, &str); 3] = [(2, "disk2"), (1, "disk1"), (0, "pm")];

/// Blocks of everything that a file is cut into on its way.
fn limits() -> BTreeSet<u64> {
    let group = Params::default().get(Param::Group) / BLOCK_BYTES;
    BTreeSet::from([
        CRC_ENTRY_BLOCKS_MAX,
        TABLE_BLOCKS,
        LOG_CRCS_MAX,
        CRC_SLOTS_BLOCKS_MAX,
        IMAGE_RUN_BLOCKS_MAX,
        scrub::READ_BLOCKS_MAX,
        check::PIECE_BLOCKS,
        CRCS_PER_BLOCK,
        data::write::ATOMIC_WRITE_BYTES_MAX as u64 / BLOCK_BYTES,
        data::COPY_BYTES as u64 / BLOCK_BYTES,
        group,
        group * GROUPS_PER_FLUSH,
        RUN_BLOCKS_MAX,
        JOINED_BLOCKS_MAX,
        BUFFER_BLOCKS,
        STRETCH_BLOCKS,
        writeback::COMMIT_PAGES_MAX as u64,
        SPAN_BLOCKS_MAX,
    ])
}

/// What a file consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Data from one end to the other, which begins on disks.
    Dense,
    /// Reserved blocks, and across each limit that lies in the file a few that were written, so
    /// that none of them is an extent's end.
    Islands,
}

/// A file and what is expected of it.
struct Subject {
    pm: Arc<Pm>,
    disks: Vec<Arc<dyn Disk>>,
    blocks: u64,
    shape: Shape,
}

impl Subject {
    /// A volume of PM, two disks of the first tier and one of the second, each with room for the
    /// file.
    fn new(blocks: u64, shape: Shape) -> Subject {
        let bytes = blocks * BLOCK_BYTES;
        let pm = Pm::anonymous((bytes * 5 / 4 + 16 * MIB).next_multiple_of(MIB));
        let disks =
            [1, 1, 2].map(|_| memory_disk((bytes + 16 * MIB).next_multiple_of(MIB))).to_vec();
        let options = FormatOptions { shards: Some(1), tiers: vec![1, 1, 2], ..Default::default() };
        format(&pm, &disks, &options).unwrap();
        let subject = Subject { pm, disks, blocks, shape };
        subject.make();
        subject
    }

    fn open(&self, pm_full_percent: u8) -> Arc<Volume> {
        let cache_bytes = match self.shape {
            Shape::Dense => (self.blocks + 1024) * BLOCK_BYTES,
            Shape::Islands => 4 * MIB,
        };
        let options =
            OpenOptions { cache_bytes, pm_full_percent, workers: false, ..Default::default() };
        Volume::open(self.pm.clone(), self.disks.clone(), options, &|_, _, _| {}).unwrap()
    }

    /// The last block is a partial one.
    fn size(&self) -> u64 {
        self.blocks * BLOCK_BYTES - 7
    }

    /// Which blocks were written.
    fn written(&self) -> BTreeSet<u64> {
        match self.shape {
            Shape::Dense => (0..self.blocks).collect(),
            Shape::Islands => {
                let across = |limit: u64| [limit - 1, limit, limit + 1];
                let ends = [0, self.blocks - 1];
                limits()
                    .into_iter()
                    .flat_map(across)
                    .chain(ends)
                    .filter(|&block| block < self.blocks)
                    .collect()
            }
        }
    }

    fn byte(block: u64) -> u8 {
        (block % 251) as u8 + 1
    }

    fn make(&self) {
        let volume = self.open(0);
        let new =
            NewInode { kind: FileKind::Regular, mode: 0o600, umask: 0, uid: 0, gid: 0, rdev: 0 };
        let ino = volume.create(Ino::ROOT, b"file", &new).unwrap().ino;
        if self.shape == Shape::Islands {
            volume.fallocate(ino, Fallocate::Allocate, 0, self.size()).unwrap();
        }
        for block in self.written() {
            let at = block * BLOCK_BYTES;
            let bytes = vec![Self::byte(block); (self.size() - at).min(BLOCK_BYTES) as usize];
            assert_eq!(
                volume.write(ino, at, &bytes, WriteOptions::default()).unwrap(),
                bytes.len()
            );
        }
        volume.fsync(ino, false).unwrap();
        volume.close().unwrap();
    }

    fn ino(volume: &Volume) -> Ino {
        volume.lookup(Ino::ROOT, b"file").unwrap().ino
    }

    /// The file holds what was written, what lies beside that is zeros, and it lies in one tier.
    #[track_caller]
    fn must_be_whole(&self, volume: &Volume, tier: &str) {
        let (ino, written) = (Self::ino(volume), self.written());
        assert_eq!(volume.getattr(ino).unwrap().size, self.size());
        let beside =
            |&block: &u64| [block.saturating_sub(1), block, (block + 1).min(self.blocks - 1)];
        for block in written.iter().flat_map(beside).collect::<BTreeSet<u64>>() {
            let mut bytes = [0; BLOCK];
            let len = (self.size() - block * BLOCK_BYTES).min(BLOCK_BYTES) as usize;
            assert_eq!(volume.read(ino, block * BLOCK_BYTES, &mut bytes).unwrap(), len);
            let expected = if written.contains(&block) { Self::byte(block) } else { 0 };
            assert!(bytes[..len].iter().all(|&byte| byte == expected), "block {block} in {tier}");
        }
        let extents = volume.file_map(ino).unwrap().extents;
        assert_eq!(extents.iter().map(|e| e.len_bytes).sum::<u64>(), self.blocks * BLOCK_BYTES);
        assert!(extents.iter().all(|e| e.tier == tier), "not all is in {tier}: {extents:?}");
    }

    /// Relocates the file a piece of `blocks` after the other; returns how many blocks were
    /// elsewhere.
    fn move_in_pieces(&self, volume: &Volume, tier: u8, blocks: u64) -> u64 {
        let piece_bytes = blocks.saturating_mul(BLOCK_BYTES);
        let (mut at, mut moved) = (0, 0);
        while at < self.size() {
            moved +=
                volume.move_range(Self::ino(volume), tier, at, piece_bytes).unwrap().moved_bytes;
            at = at.saturating_add(piece_bytes);
        }
        moved / BLOCK_BYTES
    }

    fn is_evicted_and_warmed(&self) {
        let volume = self.open(90);
        let pieces =
            limits().into_iter().filter(|&limit| self.blocks.div_ceil(limit) <= PIECES_MAX);
        let pieces: Vec<u64> = pieces.chain([u64::MAX]).collect();
        for (tier, name) in TIERS {
            volume.move_file(Self::ino(&volume), tier).unwrap();
            for &blocks in &pieces {
                let moved = self.move_in_pieces(&volume, tier, blocks);
                assert_eq!(moved, 0, "in pieces of {blocks} blocks, all in {name} already");
            }
            self.must_be_whole(&volume, name);
        }
        for blocks in pieces {
            for (tier, name) in TIERS {
                let moved = self.move_in_pieces(&volume, tier, blocks);
                assert_eq!(moved, self.blocks, "in pieces of {blocks} blocks to {name}");
                self.must_be_whole(&volume, name);
            }
        }
        volume.close().unwrap();
    }

    fn follows_its_pin(&self) {
        let volume = self.open(90);
        let ino = Self::ino(&volume);
        for (pin, name) in [("2", "disk2"), ("pm", "pm"), ("1", "disk1")] {
            volume
                .setxattr(ino, PIN_XATTR.as_bytes(), pin.as_bytes(), XattrFlags::default(), None)
                .unwrap();
            // It says what it could not do: there is nothing else to be done.
            let _ = volume.migrate(1);
            self.must_be_whole(&volume, name);
        }
        volume.removexattr(ino, PIN_XATTR.as_bytes()).unwrap();
        volume.close().unwrap();
    }

    fn is_scrubbed(&self) {
        let volume = self.open(90);
        volume.start_scrub(ScrubOptions { bytes_per_second: 0 }).unwrap();
        volume.wait_for_scrub();
        let report = volume.scrub_report();
        assert_eq!((report.status.percent, report.damage), (100, vec![]));
        volume.close().unwrap();
    }

    /// From a disk to its successor, to the next tier, and to PM: no disk is left.
    fn leaves_its_disks(&mut self) {
        let volume = self.open(90);
        for (device, successor, name) in
            [(1, Some(2), "disk1"), (2, None, "disk2"), (3, None, "pm")]
        {
            let removed = volume.remove_disk(device, successor).unwrap();
            assert_eq!((removed.state, removed.message), (RemovalState::Finished, None));
            self.must_be_whole(&volume, name);
        }
        volume.close().unwrap();
        self.disks.clear();
    }

    fn is_saved_and_restored(&mut self) {
        let mut image = Vec::new();
        save(&self.pm, &mut image, &|_, _, _| {}).unwrap();
        self.pm = Pm::anonymous(self.pm.len());
        restore(&mut &image[..], &self.pm, &|_, _, _| {}).unwrap();
        let options = CheckOptions { data: true, ..CheckOptions::default() };
        let problems = check(&self.pm, &self.disks, &options, &|_, _, _| {}).unwrap().problems;
        assert!(problems.is_empty(), "{problems:#?}");
        let volume = self.open(90);
        self.must_be_whole(&volume, "pm");
        volume.close().unwrap();
    }

    fn goes_through_all(mut self) {
        self.is_evicted_and_warmed();
        self.follows_its_pin();
        self.is_scrubbed();
        self.leaves_its_disks();
        self.is_saved_and_restored();
    }
}

#[test]
fn files_of_every_length_go_through_all_that_moves_them() {
    // The longest take seconds each, and have their time in `make test-long`.
    let dense_max =
        if std::env::var_os("TERRACE_LONG").is_some() { u64::MAX } else { RUN_BLOCKS_MAX + 1 };
    for limit in limits() {
        for blocks in limit - 1..=limit + 1 {
            eprintln!("{blocks} blocks");
            Subject::new(blocks, Shape::Islands).goes_through_all();
            if blocks <= dense_max {
                Subject::new(blocks, Shape::Dense).goes_through_all();
            }
        }
    }
}

/// Offsets and lengths at which something ends, of a block, of a file or of the numbers themselves.
fn edges(size: u64) -> BTreeSet<u64> {
    let stretch = STRETCH_BLOCKS * BLOCK_BYTES;
    let ends = [
        0,
        BLOCK_BYTES,
        stretch,
        size,
        size.next_multiple_of(BLOCK_BYTES),
        FILE_BYTES_MAX,
        1 << 63,
        u64::MAX,
    ];
    ends.into_iter().flat_map(|end| [end.saturating_sub(1), end, end.saturating_add(1)]).collect()
}

/// A range that is empty, lies inside of a block, across the end of a piece, or beyond the end of
/// the file moves what it covers, and nothing else.
#[test]
fn ranges_of_every_kind_move_what_they_cover() {
    let subject = Subject::new(STRETCH_BLOCKS + 2, Shape::Islands);
    let volume = subject.open(90);
    let ino = Subject::ino(&volume);
    volume.move_file(ino, 1).unwrap();
    let ends = edges(subject.size());
    let ranges = || ends.iter().flat_map(|&offset| ends.iter().map(move |&len| (offset, len)));
    for (offset, len) in ranges() {
        // All of it is there already, in extents that go on beyond the end of the range.
        assert_eq!(
            volume.move_range(ino, 1, offset, len).unwrap(),
            FileMoved::default(),
            "{len} bytes at {offset}"
        );
    }
    for (offset, len) in ranges() {
        let end = offset.saturating_add(len).min(subject.blocks * BLOCK_BYTES);
        let covered =
            if offset < end { end.div_ceil(BLOCK_BYTES) - offset / BLOCK_BYTES } else { 0 };
        for tier in [2, 1] {
            let moved = volume.move_range(ino, tier, offset, len).unwrap();
            assert_eq!(
                moved.moved_bytes,
                covered * BLOCK_BYTES,
                "{len} bytes at {offset} to tier {tier}"
            );
        }
    }
    subject.must_be_whole(&volume, "disk1");
    // One request does no more than a stretch, and says where to go on.
    let stretch = STRETCH_BLOCKS * BLOCK_BYTES;
    let moved =
        FileMoved { moved_bytes: stretch, next_bytes: Some(stretch), ..FileMoved::default() };
    assert_eq!(volume.move_some(ino, 2, 0, u64::MAX).unwrap(), moved);
    let moved = FileMoved { moved_bytes: 2 * BLOCK_BYTES, ..FileMoved::default() };
    assert_eq!(volume.move_some(ino, 2, stretch, u64::MAX).unwrap(), moved);
    volume.close().unwrap();
}
