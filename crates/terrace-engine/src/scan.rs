//! Reading the whole volume: what a crash makes necessary, and what `check` does.
//!
//! Two passes over the inode tables, each on all cores. The first reads the directories and learns which inodes have
//! names. The second reads those inodes and marks what they own. What has no name was being made or removed when the
//! crash came: its record is to be freed, its log is not even looked at.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use terrace_layout::{BlockAddr, Superblock};
use terrace_media::Pm;

use crate::error::{FsError, FsResult, fence};
use crate::inode::{Body, Inner, kind_of};
use crate::itable::{InodeTable, RecordState, record_state};
use crate::types::{FileKind, Ino};
use crate::volume::Progress;

/// Records that a thread takes at a time.
const BATCH: usize = 256;

/// Something wrong, and where.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    pub place: String,
    pub what: String,
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
    fn new(blocks: u64) -> Self {
        Self { words: (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), blocks }
    }

    /// Marks a run; false if part of it was marked already or lies outside the device.
    fn mark(&self, start: u64, len: u64) -> bool {
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
    pub references: HashMap<u64, Reference>,
    pub problems: Vec<Problem>,
    pub inodes: u64,
    pub directories: u64,
}

/// Sees every named inode that could be read.
pub(crate) type VisitInode<'a> = &'a (dyn Fn(Ino, &Inner, &Mutex<Vec<Problem>>) + Sync);

struct Scanner<'a> {
    pm: &'a Arc<Pm>,
    records: Vec<(Ino, u64)>,
    usage: Vec<Usage>,
    problems: Mutex<Vec<Problem>>,
    /// Filled by the first pass, then only read.
    found: Mutex<HashMap<u64, Reference>>,
    references: HashMap<u64, Reference>,
    unnamed: Mutex<Vec<(Ino, u64)>>,
    inodes: AtomicU64,
    directories: AtomicU64,
}

/// Reads everything. `threads`: how many at a time; `visit` sees each inode in the second pass.
///
/// # Errors
/// PM errors. Damage is no error: it is in the result.
pub(crate) fn scan(
    pm: &Arc<Pm>,
    sb: &Superblock,
    tables: &[InodeTable],
    threads: usize,
    progress: Progress<'_>,
    visit: VisitInode<'_>,
) -> FsResult<Scan> {
    let mut scanner = Scanner {
        pm,
        records: tables.iter().flat_map(InodeTable::records).collect(),
        usage: sb.devices().iter().map(|d| Usage::new(d.blocks)).collect(),
        problems: Mutex::default(),
        found: Mutex::default(),
        references: HashMap::new(),
        unnamed: Mutex::default(),
        inodes: AtomicU64::new(0),
        directories: AtomicU64::new(0),
    };
    for (device, usage) in sb.devices().iter().zip(&scanner.usage) {
        usage.mark(0, device.data_start);
    }
    for run in tables.iter().flat_map(InodeTable::runs) {
        scanner.own("an inode table", BlockAddr::pm(run.start), run.len);
    }
    scanner.found.lock().insert(Ino::ROOT.0, Reference { generation: 1, count: 1, is_dir: true });
    scanner.pass("reading directories", threads, progress, &|scanner, batch| scanner.read_directories(batch));
    scanner.references = std::mem::take(scanner.found.get_mut());
    scanner.pass("reading inodes", threads, progress, &|scanner, batch| scanner.read_inodes(batch, visit));
    fence(pm)?;
    Ok(Scan {
        usage: scanner.usage,
        unnamed: scanner.unnamed.into_inner(),
        references: scanner.references,
        problems: scanner.problems.into_inner(),
        inodes: scanner.inodes.into_inner(),
        directories: scanner.directories.into_inner(),
    })
}

impl Scanner<'_> {
    fn pass(&self, what: &str, threads: usize, progress: Progress<'_>, work: &(dyn Fn(&Self, &[(Ino, u64)]) + Sync)) {
        let next = AtomicUsize::new(0);
        let total = self.records.len();
        std::thread::scope(|scope| {
            for _ in 0..threads.max(1) {
                scope.spawn(|| {
                    loop {
                        let start = next.fetch_add(BATCH, Ordering::Relaxed);
                        if start >= total {
                            break;
                        }
                        work(self, &self.records[start..(start + BATCH).min(total)]);
                        progress(what, (start + BATCH).min(total) as u64, total as u64);
                    }
                    // Patches were applied: a fence counts for the stores of its own thread.
                    if let Err(error) = self.pm.fence() {
                        self.problem(self.pm.path().display().to_string(), error.to_string());
                    }
                });
            }
        });
    }

    fn problem(&self, place: String, what: String) {
        self.problems.lock().push(Problem { place, what });
    }

    fn read_directories(&self, batch: &[(Ino, u64)]) {
        let mut found: Vec<(u64, Reference)> = Vec::new();
        for &(ino, at) in batch {
            let RecordState::Used(record) = record_state(self.pm, at, ino) else {
                continue;
            };
            if kind_of(&record).ok() != Some(FileKind::Directory) {
                continue;
            }
            // What cannot be read is reported by the second pass, if anything names it.
            let Ok(inner) = Inner::load(self.pm, at, &record, false) else {
                continue;
            };
            let Body::Dir(dir) = &inner.body else {
                continue;
            };
            found.extend(dir.from(0).map(|(_, d)| {
                let is_dir = d.kind == FileKind::Directory;
                (d.ino.0, Reference { generation: d.generation, count: 1, is_dir })
            }));
        }
        let mut references = self.found.lock();
        for (ino, reference) in found {
            references.entry(ino).and_modify(|r| r.count += 1).or_insert(reference);
        }
    }

    fn read_inodes(&self, batch: &[(Ino, u64)], visit: VisitInode<'_>) {
        for &(ino, at) in batch {
            let named = self.references.get(&ino.0).copied();
            let place = || format!("inode {} (record at byte {at} of PM)", ino.0);
            let record = match (record_state(self.pm, at, ino), named) {
                (RecordState::Free, None) => continue,
                (RecordState::Used(record), Some(named)) if record.generation == named.generation => record,
                (RecordState::Used(_) | RecordState::Damaged, None) => {
                    self.unnamed.lock().push((ino, at));
                    continue;
                }
                (RecordState::Damaged, Some(_)) => {
                    self.problem(place(), "the record is damaged".into());
                    continue;
                }
                (RecordState::Free | RecordState::Used(_), Some(_)) => {
                    self.problem(place(), "a name leads to an inode that does not exist".into());
                    continue;
                }
            };
            match Inner::load(self.pm, at, &record, true) {
                Ok(inner) => {
                    self.inodes.fetch_add(1, Ordering::Relaxed);
                    self.directories.fetch_add(u64::from(inner.dir().is_ok()), Ordering::Relaxed);
                    for (addr, blocks) in inner.owned() {
                        self.own(&place(), addr, blocks);
                    }
                    visit(ino, &inner, &self.problems);
                }
                Err(error) => self.problem(place(), error.to_string()),
            }
        }
    }

    fn own(&self, who: &str, addr: BlockAddr, blocks: u64) {
        let known = self.usage.get(usize::from(addr.device()));
        if !known.is_some_and(|usage| usage.mark(addr.block(), blocks)) {
            self.problem(
                who.to_string(),
                format!("claims {blocks} blocks at {addr:?}, which lie outside the device or belong to another"),
            );
        }
    }
}

/// The first problem as an error.
pub(crate) fn first_problem(problems: &[Problem]) -> Option<FsError> {
    problems.first().map(|p| FsError::corrupt(format!("{}: {}", p.place, p.what)))
}
