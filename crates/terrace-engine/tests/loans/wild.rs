//! A borrower that does what it must not do: random words in its control page, random bytes in the
//! blocks that it was lent and in its log, entries that change what is not its own. Whatever it
//! does, the owner goes on, and all other files are as they were. `TERRACE_SEED` chooses other
//! bytes; with TERRACE_LONG there are a hundred times as many.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use fastrand::Rng;
use terrace_direct::Borrowed;
use terrace_engine::{CheckOptions, Fallocate, Ino, Lent, SetAttr, Volume, WriteOptions, check};
use terrace_layout::{
    AppendEntry, BLOCK_BYTES, BlockAddr, InodeRecord, LogEntry, MediaStruct, PatchEntry,
    SetSizeEntry, TAIL_OFFSET, Tail, WriteEntry,
};
use terrace_media::Pm;
use terrace_store::alloc::Run;
use terrace_store::disks::Disks;
use terrace_store::error::{FsResult, fail};
use terrace_store::log::{Log, LogMedia};
use terrace_store::source::BlockSource;

use crate::rig::{ME, Rig, contents, create};
use crate::stops::{CHANGES, before};

/// Words of a control page.
const WORDS: u64 = 512;
/// Blocks of PM.
const PM_BLOCKS: u64 = 1024;

/// Log pages for entries that the borrower makes up: some of its own, some of others.
#[derive(Debug)]
struct Wild {
    rng: RefCell<Rng>,
    lent: Vec<Run>,
    /// Blocks of other files.
    others: Vec<u64>,
}

impl Wild {
    fn random(&self, below: u64) -> u64 {
        self.rng.borrow_mut().u64(..below)
    }

    fn bytes(&self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.random(256) as u8).collect()
    }

    fn pick(&self, of: &[u64]) -> u64 {
        of[self.random(of.len() as u64) as usize]
    }

    fn lent_block(&self) -> u64 {
        let run = self.lent[self.random(self.lent.len() as u64) as usize];
        run.start + self.random(run.len)
    }

    fn block(&self) -> u64 {
        let (any, other) = (self.random(PM_BLOCKS), self.pick(&self.others));
        self.pick(&[any, other, other, self.lent_block(), self.lent_block()])
    }
}

impl BlockSource for Wild {
    fn alloc_data(&self, _: u64) -> Option<Run> {
        None
    }

    fn alloc_meta(&self) -> FsResult<u64> {
        // A page that is not its own would be overwritten, and nothing keeps a program from that.
        Ok(self.lent[0].start)
    }

    fn free(&self, _: BlockAddr, _: u64) {}
}

/// The wild borrower's own idea of its log.
fn log_of(pm: &Pm, record_at: u64) -> Option<Log> {
    let mut bytes = [0; size_of::<InodeRecord>()];
    pm.read(record_at, &mut bytes);
    let record = InodeRecord::from_bytes(&bytes);
    let media = LogMedia { pm, disks: &Disks::new(), pending: None };
    let mut log = Log::load(media, record_at, &record, None, &mut |_, _, entry| match entry {
        LogEntry::DentryAdd(..) => fail(libc::EISDIR),
        _ => Ok(()),
    })
    .ok()?;
    log.borrowed();
    Some(log)
}

/// Adds an entry that a borrower must not append, or one that it may.
fn push_entry(log: &mut Log, wild: &Wild) {
    let any = wild.random(u64::MAX);
    let huge = wild.pick(&[0, 1, 4096, 10_000, 12_288, 1 << 40, u64::MAX, any]);
    let mtime_ns = wild.pick(&[0, 1, 1 << 60, any]).cast_signed();
    let address = match wild.random(8) {
        0 => BlockAddr::new(1, any % 1000).0,
        1 => any,
        _ => BlockAddr::pm(wild.block()).0,
    };
    match wild.random(12) {
        0..=4 => {
            let write = WriteEntry {
                kind: wild.pick(&[1, 1, 1, 1, 1, 13]) as u8,
                slots: 0,
                flags: wild.pick(&[0, 0, 0, 0, 0, 1]) as u16,
                crc: 0,
                file_block: wild.pick(&[0, 1, 2, 3, 7, any >> 12]),
                address,
                blocks: wild.pick(&[0, 1, 1, 2, 3, 64, u64::from(u32::MAX)]) as u32,
                counter: any as u16,
                crc_form: wild.pick(&[0, 0, 0, 1, 3, 4]) as u16,
                size: huge,
                mtime_ns,
                crc_address: any,
                crcs: [any as u32, 1],
            };
            log.push(&write, &[]);
        }
        5 | 6 => {
            let (size, from) = (huge, wild.pick(&[0, 10_000, 9_999, huge]));
            let (crc, data_crc, reserved) = (0, any as u32, [0; 20]);
            let head = AppendEntry {
                kind: 2,
                slots: 0,
                flags: 0,
                crc,
                size,
                mtime_ns,
                address,
                from,
                data_crc,
                reserved,
            };
            log.push(&head, &[]);
        }
        7 | 8 => {
            let bytes = vec![any as u8; wild.pick(&[0, 1, 50, 1024, 3000]) as usize];
            let len = wild.pick(&[bytes.len() as u64, bytes.len() as u64, any]) as u32;
            let (kind, offset) = (3, huge);
            let (crc, flags, slots, reserved) = (0, 0, 0, 0);
            let head = PatchEntry { kind, slots, flags, crc, offset, len, reserved, mtime_ns };
            log.push(&head, &[&bytes]);
        }
        9 => {
            let bytes = wild.bytes(64);
            let mut head = SetSizeEntry::from_bytes(&bytes);
            (head.kind, head.flags, head.size) = (4, head.flags & 1, huge);
            log.push(&head, &[]);
        }
        _ => {
            // An entry of any other kind, about anything.
            let bytes = wild.bytes(64);
            let mut head = WriteEntry::from_bytes(&bytes);
            (head.kind, head.flags) = (wild.pick(&[5, 6, 7, 8, 9, 10, 11, 12, 14]) as u8, 0);
            log.push(&head, &[]);
        }
    }
}

/// What a wild borrower does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Deed {
    ControlWords,
    LentBlocks,
    TailWord,
    BehindTheTail,
    Entries,
}

const DEEDS: [Deed; 5] =
    [Deed::ControlWords, Deed::LentBlocks, Deed::TailWord, Deed::BehindTheTail, Deed::Entries];

struct Borrower<'a> {
    rig: &'a Rig,
    wild: Wild,
    lent: Lent,
    record_at: u64,
    /// Where its log ended, in a page of its own.
    tail: u64,
    words: File,
}

impl Borrower<'_> {
    fn tail_at(&self) -> u64 {
        self.record_at + TAIL_OFFSET
    }

    fn do_it(&self, deed: Deed) {
        let pm = &self.rig.pm;
        match deed {
            Deed::ControlWords => (0..1 + self.wild.random(20)).for_each(|_| self.change_word()),
            Deed::LentBlocks => {
                let (block, at) = (self.wild.lent_block(), self.wild.random(BLOCK_BYTES));
                let len = (1 + self.wild.random(300)).min(BLOCK_BYTES - at);
                let bytes = self.wild.bytes(len);
                pm.write(block * BLOCK_BYTES + at, &bytes);
            }
            Deed::TailWord => {
                let old = Tail(pm.load_u64(self.tail_at())).get();
                let any = self.wild.random(u64::MAX);
                let (byte, turn) = old.unwrap_or((64, 0));
                let turn = self.wild.pick(&[turn.into(), turn.into(), any % 4096]) as u16;
                let slot = self.wild.random(PM_BLOCKS * BLOCK_BYTES / 64) * 64;
                let near = byte / BLOCK_BYTES * BLOCK_BYTES + self.wild.random(65) * 64;
                let well_formed = Tail::new(self.wild.pick(&[slot, near, byte, byte + 64]), turn).0;
                pm.store_u64(self.tail_at(), self.wild.pick(&[well_formed, well_formed, any]));
            }
            Deed::BehindTheTail => {
                let room = (self.tail / BLOCK_BYTES + 1) * BLOCK_BYTES - self.tail;
                pm.write(self.tail, &self.wild.bytes(room));
            }
            Deed::Entries => {
                let Some(mut log) = log_of(pm, self.record_at) else { return };
                log.begin();
                (0..1 + self.wild.random(3)).for_each(|_| push_entry(&mut log, &self.wild));
                if log.stage(pm, &self.wild, None).is_ok() {
                    let _ = log.commit(pm);
                }
            }
        }
    }

    /// Any word of the control page, the first of which are looked at most.
    fn change_word(&self) {
        let word = match self.wild.random(2) {
            0 => self.wild.random(12),
            _ => self.wild.random(WORDS),
        };
        let at = (self.lent.page as u64 + 1) * BLOCK_BYTES + 8 * word;
        let mut now = [0; 8];
        self.words.read_exact_at(&mut now, at).unwrap();
        let now = u64::from_le_bytes(now);
        let any = self.wild.random(u64::MAX);
        let new = self.wild.pick(&[
            0,
            1,
            2,
            3,
            any,
            u64::MAX,
            any % PM_BLOCKS,
            now.wrapping_add(1),
            now ^ 3,
        ]);
        self.words.write_all_at(&new.to_le_bytes(), at).unwrap();
    }
}

/// Files that nobody may touch.
fn innocents(volume: &Volume, rng: &mut Rng) -> Vec<(Ino, Vec<u8>)> {
    [0, 100, 5000, 70_000]
        .map(|len| {
            let ino = create(volume, format!("innocent {len}").as_bytes());
            let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
            volume.write(ino, 0, &bytes, WriteOptions::default()).unwrap();
            volume.fsync(ino, false).unwrap();
            (ino, bytes)
        })
        .into()
}

fn assert_unharmed(volume: &Volume, innocents: &[(Ino, Vec<u8>)], context: &str) {
    for (ino, bytes) in innocents {
        assert!(contents(volume, *ino) == *bytes, "{context}: inode {} was changed", ino.0);
    }
}

/// The owner uses the wild file, whose contents nobody knows by now.
fn use_it(volume: &Volume, ino: Ino, rng: &mut Rng) {
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    // What comes of it, an error or not, is the wild borrower's business.
    let mut bytes = vec![0; 20_000];
    let _ = match rng.u8(..6) {
        0 => volume.read(ino, 0, &mut bytes).map(drop),
        1 => volume.write(ino, rng.u64(..20_000), b"owner", WriteOptions::default()).map(drop),
        2 => volume.setattr(ino, &size(rng.u64(..20_000))).map(drop),
        3 => volume.fallocate(ino, Fallocate::PunchHole, 0, 8192),
        4 => volume.fsync(ino, false),
        _ => volume.getattr(ino).and_then(|_| volume.take_back(ino)),
    };
    let _ = volume.take_back(ino);
}

/// Fills a part of PM with new files, and checks them.
fn fill(volume: &Volume, rng: &mut Rng) -> Vec<(Ino, Vec<u8>)> {
    (0..20)
        .map(|number| {
            let ino = create(volume, format!("new {number}").as_bytes());
            let bytes: Vec<u8> = (0..rng.usize(..20_000)).map(|_| rng.u8(..)).collect();
            volume.write(ino, 0, &bytes, WriteOptions::default()).unwrap();
            (ino, bytes)
        })
        .collect()
}

fn one(seed: u64) -> BTreeSet<Deed> {
    let mut rng = Rng::with_seed(seed);
    let rig = Rig::new();
    let mut volume = rig.open();
    let mut others = innocents(&volume, &mut rng);
    let honest_ino = create(&volume, b"honest");
    let mut honest = rig.borrow(&volume, honest_ino);
    honest.write_at(None, &[1; 3000]).unwrap();
    let ino = create(&volume, b"wild");
    volume.write(ino, 0, &before(), WriteOptions::default()).unwrap();
    let lent = volume.lend(ino, ME, 64).unwrap().unwrap();
    let mut file: Borrowed = rig.borrowed(lent);
    for _ in 0..rng.u8(..4) {
        let _ = CHANGES[rng.usize(..CHANGES.len())].1(&mut file);
    }
    let control = rig.segment.control(lent.page);
    let words = rig.segment.share().unwrap().try_clone_to_owned().unwrap().into();
    let used = |run: &Run| run.start..run.start + run.len;
    let lent_runs: Vec<Run> = control.runs().collect();
    // The last blocks of the pool: the honest changes have used the first.
    let unused = lent_runs.iter().flat_map(used).rev().take(8).map(|start| Run { start, len: 1 });
    let extents = others.iter().flat_map(|(ino, _)| volume.file_map(*ino).unwrap().extents);
    let others_blocks = extents.map(|extent| extent.device_offset_bytes / BLOCK_BYTES).collect();
    let rng_of_wild = RefCell::new(rng.fork());
    let wild = Wild { rng: rng_of_wild, lent: unused.collect(), others: others_blocks };
    let record_at = control.record_at();
    let (tail, _) = Tail(rig.pm.load_u64(record_at + TAIL_OFFSET)).get().unwrap();
    let borrower = Borrower { rig: &rig, wild, lent, record_at, tail, words };
    let deeds: Vec<Deed> = (0..1 + rng.u8(..4)).map(|_| *rng.choice(&DEEDS).unwrap()).collect();
    for &deed in &deeds {
        borrower.do_it(deed);
        if rng.bool() {
            let _ = file.write_at(Some(rng.u64(..10_000)), b"goes on");
        }
    }
    let owner_dies = rng.bool();
    let context = format!("seed {seed}: {deeds:?}, the owner dies: {owner_dies}");
    if owner_dies {
        volume = rig.crash(volume);
        // Recovery finds damage, and does not know that it is the borrower's.
        if volume.status().read_only.is_some() {
            assert_unharmed(&volume, &others, &context);
            assert_others_sound(&rig, ino, &context);
            return deeds.into_iter().collect();
        }
    }
    use_it(&volume, ino, &mut rng);
    // With the file, all goes that it may have taken from others.
    let is_removed = rng.bool();
    if is_removed {
        volume.unlink(Ino::ROOT, b"wild").unwrap();
        volume.forget(ino, 1);
    }
    assert_unharmed(&volume, &others, &context);
    match owner_dies {
        false => honest.write_at(None, &[2; 3000]).map(drop).unwrap(),
        true => {
            volume.write(honest_ino, 3000, &[2; 3000], WriteOptions::default()).map(drop).unwrap()
        }
    }
    others.extend(fill(&volume, &mut rng));
    assert_unharmed(&volume, &others, &context);
    let mut expected = vec![1; 3000];
    expected.resize(6000, 2);
    assert!(contents(&volume, honest_ino) == expected, "{context}: the honest borrower's file");
    others.push((honest_ino, expected));
    let (page, generation) = (lent.page, lent.generation);
    volume.let_go(ME, page, generation);
    close(&volume, owner_dies);
    assert_others_sound(&rig, ino, &context);
    let volume = rig.open();
    assert_unharmed(&volume, &others, &context);
    close(&volume, owner_dies);
    deeds.into_iter().collect()
}

fn close(volume: &Volume, owner_has_died: bool) {
    match volume.close() {
        // From the control page only its successor knows whose loan it was.
        Err(error) if owner_has_died && error.errno() == libc::EBUSY => {}
        result => result.unwrap(),
    }
}

/// A check finds nothing, or damage of the wild file alone.
fn assert_others_sound(rig: &Rig, wild: Ino, context: &str) {
    let options = CheckOptions { data: true, ..CheckOptions::default() };
    let disks: Vec<Arc<_>> = vec![rig.disk.clone()];
    let report = check(&rig.pm, &disks, &options, &|_, _, _| {}).unwrap();
    let is_of_others = |problem: &String| !problem.contains(&format!("inode {}", wild.0));
    let problems: Vec<String> = report.problems.iter().map(|p| format!("{p:?}")).collect();
    let found: Vec<&String> = problems.iter().filter(|p| is_of_others(p)).collect();
    assert!(found.is_empty(), "{context}: {found:?}");
}

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("TERRACE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count = if std::env::var_os("TERRACE_LONG").is_some() { 15_000 } else { 150 };
    first..first + count
}

#[test]
fn a_wild_borrower_harms_no_other_file() {
    let mut deeds = BTreeSet::new();
    for seed in seeds() {
        deeds.extend(one(seed));
    }
    assert_eq!(deeds.len(), DEEDS.len(), "{deeds:?}");
}
