//! Reading the whole volume: what a crash makes necessary, and what `check` does.
//!
//! Two passes over the inode tables, each on all cores. The first reads the directories and learns
//! which inodes have names. The second reads those inodes and marks what they own. An inode without
//! a name was being made or removed when the crash came: its record is to be freed, and its log is
//! not even looked at.

use std::collections::HashMap;

use terrace_layout::{BlockAddr, HEAD_OFFSET, InodeRecord, Stamp, Superblock, TAIL_OFFSET};
use terrace_media::{MediaError, Pm};
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::{FsError, FsResult, fence};
use terrace_store::itable::{InodeTable, RecordState, record_state};
use terrace_store::log::{FindDisk, LogMedia};
use terrace_store::planted::{Bug, planted};
use terrace_store::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use terrace_store::sync::{Arc, Mutex, thread};

use crate::base::heritage::Heritage;
use crate::base::options::Progress;
use crate::base::types::{FileKind, Ino};
use crate::inode::resident::load::Found;
use crate::inode::resident::{Body, Inner, kind_of};

/// Records that a thread takes at a time.
const BATCH: usize = 256;
/// Inodes with something to finish that share a fence: it takes long where PM is a file.
const FINISHED_AT_ONCE: usize = 32;

/// Something wrong, and what it means for the scan.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub kind: ProblemKind,
    pub damage: Damage,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    /// It cannot be read.
    Damaged,
    /// A name leads to it, but it does not exist.
    Dangling,
    /// It claims blocks that another has.
    Contested(BlockAddr, u64),
    /// It claims blocks outside their device.
    Outside,
}

/// What becomes of changes that a crash left half made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unfinished<'a> {
    /// The journals were replayed; patches are stored again.
    Finish,
    /// Nothing is stored. These words of committed journal records count as if they were.
    Imagine(&'a HashMap<u64, u64>),
    /// So it is, but what is found is made durable: somebody is going to build on it.
    Settle(&'a HashMap<u64, u64>),
}

impl<'a> Unfinished<'a> {
    /// Words that count as if they were stored.
    pub fn pending(self) -> Option<&'a HashMap<u64, u64>> {
        match self {
            Unfinished::Finish => None,
            Unfinished::Imagine(words) | Unfinished::Settle(words) => Some(words),
        }
    }

    /// The state of a record as it will be once the changes are finished.
    pub fn record_state(self, pm: &Pm, at: u64, ino: Ino) -> RecordState {
        let mut state = record_state(pm, at, ino);
        if let (Some(words), RecordState::Used(record)) = (self.pending(), &mut state) {
            record.head = words.get(&(at + HEAD_OFFSET)).copied().unwrap_or(record.head);
            record.tail = words.get(&(at + TAIL_OFFSET)).copied().unwrap_or(record.tail);
        }
        state
    }
}

/// How often an inode is named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reference {
    pub generation: u32,
    pub count: u32,
    pub is_dir: bool,
}

/// Blocks in use on one device, one bit each.
#[derive(Debug)]
pub(crate) struct Usage {
    words: Vec<AtomicU64>,
    blocks: u64,
}

impl Usage {
    pub fn new(blocks: u64) -> Self {
        Self { words: (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), blocks }
    }

    /// Marks a run; false if part of it was marked already or lies outside the device.
    pub fn mark(&self, start: u64, len: u64) -> bool {
        if start.checked_add(len).is_none_or(|end| end > self.blocks) {
            return false;
        }
        let (mut at, end, mut fresh) = (start, start + len, true);
        while at < end {
            let bits = (64 - at % 64).min(end - at);
            let mask = (!0u64 >> (64 - bits)) << (at % 64);
            fresh &= self.words[(at / 64) as usize].fetch_or(mask, Ordering::Relaxed) & mask == 0;
            at += bits;
        }
        fresh
    }

    /// Bit `n % 64` of word `n / 64`: whether block `n` is in use.
    pub fn word(&self, index: usize) -> u64 {
        self.words[index].load(Ordering::Relaxed)
    }

    pub fn words(&self) -> usize {
        self.words.len()
    }

    pub fn into_words(self) -> Vec<u64> {
        self.words.into_iter().map(AtomicU64::into_inner).collect()
    }

    pub fn used(&self) -> u64 {
        self.words.iter().map(|w| u64::from(w.load(Ordering::Relaxed).count_ones())).sum()
    }
}

/// What a scan found.
#[derive(Debug)]
pub(crate) struct Scan {
    pub usage: Vec<Usage>,
    /// Records in use that no name leads to.
    pub unnamed: Vec<(Ino, u64)>,
    /// Inodes without a name that are open.
    pub open: Vec<Ino>,
    pub references: HashMap<u64, Reference>,
    pub problems: Vec<Problem>,
    pub inodes: u64,
    pub directories: u64,
    /// Inodes whose last entry does not count, with the byte of PM where it stands: it committed
    /// itself, but its data are not what it says. A power cut before its fence leaves that, and so
    /// does damage to the data.
    pub undone: Vec<(Ino, u64)>,
}

impl Scan {
    /// The blocks of an inode are its own, though the scan has passed it over.
    pub fn mark_owned(&self, inner: &Inner) {
        for (addr, blocks) in inner.owned() {
            if let Some(usage) = self.usage.get(usize::from(addr.device())) {
                usage.mark(addr.block(), blocks);
            }
        }
    }
}

/// Sees every named inode that could be read.
pub(crate) type VisitInode<'a> = &'a (dyn Fn(&InodeRecord, &Inner) + Sync);

/// What a pass does with a batch of records.
type Work<'a> = &'a (dyn Fn(&Scanner<'_>, &[(Ino, u64)]) + Sync);

/// What directories say.
#[derive(Debug, Default)]
struct Directories {
    references: HashMap<u64, Reference>,
    /// Those that could not be read, and why: nobody knows what they name, even if the second pass
    /// can.
    unread: HashMap<u64, Damage>,
}

struct Scanner<'a> {
    pm: &'a Arc<Pm>,
    disks: &'a dyn FindDisk,
    unfinished: Unfinished<'a>,
    /// Of the mount that wrote last.
    stamp: Option<Stamp>,
    records: Vec<(Ino, u64)>,
    usage: Vec<Usage>,
    problems: Mutex<Vec<Problem>>,
    /// Filled by the first pass,
    found: Mutex<Directories>,
    /// and read by the second.
    directories_read: Directories,
    unnamed: Mutex<Vec<(Ino, u64)>>,
    heritage: Option<&'a Arc<dyn Heritage>>,
    open: Mutex<Vec<Ino>>,
    inodes: AtomicU64,
    directories: AtomicU64,
    undone: Mutex<Vec<(Ino, u64)>>,
    /// Set if stores of a thread did not become durable.
    unfenced: Mutex<Option<MediaError>>,
}

/// A volume to be scanned.
#[derive(Clone, Copy)]
pub(crate) struct Scanned<'a> {
    pub pm: &'a Arc<Pm>,
    /// For the parts of logs that lie there.
    pub disks: &'a dyn FindDisk,
    pub sb: &'a Superblock,
    pub tables: &'a [InodeTable],
    pub unfinished: Unfinished<'a>,
    /// Of a daemon that died and whose mount goes on: it tells which inodes without names are open.
    pub heritage: Option<&'a Arc<dyn Heritage>>,
}

/// Reads everything, with so many threads. `visit` sees each inode in the second pass.
///
/// # Errors
/// PM errors. Damage is no error: it is in the result.
pub(crate) fn scan(
    what: Scanned<'_>,
    threads: usize,
    progress: Progress<'_>,
    visit: VisitInode<'_>,
) -> FsResult<Scan> {
    let Scanned { pm, disks, sb, tables, unfinished, heritage } = what;
    let mut scanner = Scanner {
        pm,
        disks,
        unfinished,
        stamp: Some(Stamp::of_epoch(sb.mount_epoch)),
        records: tables.iter().flat_map(InodeTable::records).collect(),
        usage: sb.devices().iter().map(|d| Usage::new(d.blocks)).collect(),
        problems: Mutex::default(),
        found: Mutex::default(),
        directories_read: Directories::default(),
        unnamed: Mutex::default(),
        heritage,
        open: Mutex::default(),
        inodes: AtomicU64::new(0),
        directories: AtomicU64::new(0),
        undone: Mutex::default(),
        unfenced: Mutex::default(),
    };
    for (device, usage) in sb.devices().iter().zip(&scanner.usage) {
        usage.mark(0, device.data_start);
    }
    for run in tables.iter().flat_map(InodeTable::runs) {
        scanner.own(None, BlockAddr::pm(run.start), run.len);
    }
    let root = Reference { generation: 1, count: 1, is_dir: true };
    scanner.found.get_mut().references.insert(Ino::ROOT.0, root);
    scanner.pass("reading directories", threads, progress, &|scanner, batch| {
        scanner.read_directories(batch)
    });
    scanner.directories_read = std::mem::take(scanner.found.get_mut());
    scanner.pass("reading inodes", threads, progress, &|scanner, batch| {
        scanner.read_inodes(batch, visit)
    });
    if let Some(error) = scanner.unfenced.into_inner() {
        return Err(FsError::fatal(error));
    }
    fence(pm)?;
    Ok(Scan {
        usage: scanner.usage,
        unnamed: scanner.unnamed.into_inner(),
        open: scanner.open.into_inner(),
        references: scanner.directories_read.references,
        problems: scanner.problems.into_inner(),
        inodes: scanner.inodes.into_inner(),
        directories: scanner.directories.into_inner(),
        undone: scanner.undone.into_inner(),
    })
}

impl Scanner<'_> {
    fn media(&self) -> LogMedia<'_> {
        LogMedia { pm: self.pm, disks: self.disks, pending: self.unfinished.pending() }
    }

    fn pass(&self, what: &str, threads: usize, progress: Progress<'_>, work: Work<'_>) {
        let next = AtomicUsize::new(0);
        let total = self.records.len();
        let batches = || {
            loop {
                let start = next.fetch_add(BATCH, Ordering::Relaxed);
                if start >= total {
                    break;
                }
                work(self, &self.records[start..(start + BATCH).min(total)]);
                progress(what, (start + BATCH).min(total) as u64, total as u64);
            }
            // Inodes were settled: a fence counts for what its own thread has flushed.
            if let Err(error) = self.pm.fence() {
                *self.unfenced.lock() = Some(error);
            }
        };
        thread::scope(|scope| {
            for _ in 1..threads.min(total.div_ceil(BATCH)) {
                scope.spawn(batches);
            }
            batches();
        });
    }

    fn problem(&self, kind: ProblemKind, damage: Damage) {
        self.problems.lock().push(Problem { kind, damage });
    }

    /// Damage to an inode's record, or to what it says.
    fn of_record(&self, ino: Ino, at: u64, structure: Structure, kind: DamageKind) -> Damage {
        Damage::in_pm(self.pm, structure, kind).at(at).of(ino)
    }

    fn read_directories(&self, batch: &[(Ino, u64)]) {
        let mut found: Vec<(u64, Reference)> = Vec::new();
        for &(ino, at) in batch {
            let RecordState::Used(record) = self.unfinished.record_state(self.pm, at, ino) else {
                continue;
            };
            if kind_of(self.pm, &record).ok() != Some(FileKind::Directory) {
                continue;
            }
            // The second pass reports unreadable inodes that have a name.
            let inner = match Inner::load(self.media(), at, &record, self.stamp) {
                Ok(inner) => inner,
                Err(error) => {
                    let damage = error.into_damage(0, Structure::Log, Some(ino));
                    self.found.lock().unread.insert(ino.0, damage);
                    continue;
                }
            };
            let Body::Dir(dir) = &inner.body else {
                continue;
            };
            found.extend(dir.from(0).map(|(_, d)| {
                let is_dir = d.kind == FileKind::Directory;
                (d.ino.0, Reference { generation: d.generation, count: 1, is_dir })
            }));
        }
        let mut directories = self.found.lock();
        for (ino, reference) in found {
            directories.references.entry(ino).and_modify(|r| r.count += 1).or_insert(reference);
        }
    }

    fn read_inodes(&self, batch: &[(Ino, u64)], visit: VisitInode<'_>) {
        let mut unfinished = Vec::new();
        for &(ino, at) in batch {
            let Some(record) = self.record_in_use(ino, at) else { continue };
            match Inner::find(self.media(), at, &record, self.stamp) {
                Err(error) => {
                    let damage = error.into_damage(0, Structure::Log, Some(ino));
                    self.problem(ProblemKind::Damaged, damage);
                }
                Ok(found) if self.settles() && found.flush(self.pm) && self.finishes() => {
                    unfinished.push((record, found));
                    if unfinished.len() == FINISHED_AT_ONCE {
                        self.finish(&mut unfinished, visit);
                    }
                }
                Ok(found) => self.take_in(&record, &found.unfinished(), visit),
            }
        }
        self.finish(&mut unfinished, visit);
    }

    fn finishes(&self) -> bool {
        matches!(self.unfinished, Unfinished::Finish)
    }

    /// Whether what is found is made durable.
    fn settles(&self) -> bool {
        !matches!(self.unfinished, Unfinished::Imagine(_))
    }

    /// Finishes what a crash has left half done of these inodes.
    fn finish(&self, unfinished: &mut Vec<(InodeRecord, Found)>, visit: VisitInode<'_>) {
        if unfinished.is_empty() {
            return;
        }
        if !planted(Bug::FinishedUnfenced)
            && let Err(error) = self.pm.fence()
        {
            *self.unfenced.lock() = Some(error);
            return;
        }
        for (record, mut found) in unfinished.drain(..) {
            // If it cannot be finished, it is that of a broken loan, and recovered anew.
            let _ = found.finish(self.pm);
            self.take_in(&record, &found.unfinished(), visit);
        }
    }

    /// The record of an inode that is to be read: one that a name leads to, or that is open.
    fn record_in_use(&self, ino: Ino, at: u64) -> Option<InodeRecord> {
        let named = self.directories_read.references.get(&ino.0).copied();
        let record = match (self.unfinished.record_state(self.pm, at, ino), named) {
            (RecordState::Free, None) => {
                self.settle_freed(at);
                return None;
            }
            (RecordState::Used(record), Some(named)) if record.generation == named.generation => {
                record
            }
            (RecordState::Used(record), None) if self.is_open(ino) => {
                self.open.lock().push(ino);
                record
            }
            (RecordState::Used(_) | RecordState::Damaged, None) => {
                self.unnamed.lock().push((ino, at));
                return None;
            }
            (RecordState::Damaged, Some(_)) => {
                let damage = self.of_record(ino, at, Structure::Record, DamageKind::Damaged);
                self.problem(ProblemKind::Damaged, damage);
                return None;
            }
            (RecordState::Free | RecordState::Used(_), Some(_)) => {
                let kind = DamageKind::Wrong("does not exist, but a name leads to it".into());
                let damage = self.of_record(ino, at, Structure::Inode, kind);
                self.problem(ProblemKind::Dangling, damage);
                return None;
            }
        };
        match self.directories_read.unread.get(&ino.0) {
            Some(damage) => {
                self.problem(ProblemKind::Damaged, damage.clone());
                None
            }
            None => Some(record),
        }
    }

    /// A record is free: its inode's blocks are about to count as free. A daemon that was killed
    /// may have freed it in a cache only.
    fn settle_freed(&self, at: u64) {
        if self.settles() && !planted(Bug::FreedRecordTrusted) {
            self.pm.flush_readable(at, size_of::<InodeRecord>() as u64);
        }
    }

    /// Counts what an inode owns.
    fn take_in(&self, record: &InodeRecord, inner: &Inner, visit: VisitInode<'_>) {
        let (ino, at) = (Ino(record.ino), inner.log.record_at());
        self.inodes.fetch_add(1, Ordering::Relaxed);
        self.directories.fetch_add(u64::from(inner.dir().is_ok()), Ordering::Relaxed);
        self.undone.lock().extend(inner.log.torn().map(|at| (ino, at)));
        for (addr, blocks) in inner.owned() {
            self.own(Some((ino, at)), addr, blocks);
        }
        visit(record, inner);
    }

    /// Whether an inode that has no name is open all the same.
    fn is_open(&self, ino: Ino) -> bool {
        self.heritage.is_some_and(|heritage| heritage.lookups(ino) > 0)
    }

    /// Marks blocks of an inode, whose record stands at this byte, or of an inode table.
    fn own(&self, owner: Option<(Ino, u64)>, addr: BlockAddr, blocks: u64) {
        let device = self.usage.get(usize::from(addr.device()));
        let inside = device.is_some_and(|usage| {
            addr.block().checked_add(blocks).is_some_and(|end| end <= usage.blocks)
        });
        let claims = |kind| match owner {
            Some((ino, at)) => self.of_record(ino, at, Structure::Inode, kind),
            None => Damage::in_pm(self.pm, Structure::Tables, kind),
        };
        if !inside {
            self.problem(ProblemKind::Outside, claims(DamageKind::Outside(addr, blocks)));
        } else if !device.is_some_and(|usage| usage.mark(addr.block(), blocks)) {
            let damage = claims(DamageKind::Contested(addr, blocks));
            self.problem(ProblemKind::Contested(addr, blocks), damage);
        }
    }
}
