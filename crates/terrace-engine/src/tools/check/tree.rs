//! Inodes, their logs, names and links.

use std::collections::{HashMap, HashSet};

use terrace_layout::{CRC_NONE, InodeRecord, LogEntry, data_crc};
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::FsResult;
use terrace_store::file::read_write_entry;
use terrace_store::itable::RecordState;
use terrace_store::log::{Entries, Log, position_text};
use terrace_store::sync::Mutex;

use super::data::DataRun;
use super::places::Names;
use super::{Check, Finding, Remedy};
use crate::base::types::Ino;
use crate::base::words::counted;
use crate::inode::dir::{Dentry, DirData, FIRST_COOKIE};
use crate::inode::resident::{Body, Inner, kind_of, xattr_blocks};
use crate::mount::offline::Offline;
use crate::mount::recovery::scan_threads;
use crate::mount::scan::{Problem, ProblemKind, Scan, Scanned, Unfinished, scan};

/// What reading all inodes brought.
pub(super) struct Tree {
    pub scan: Scan,
    pub log_entries: u64,
    pub data_blocks: Vec<u64>,
    pub extents: Vec<DataRun>,
    pub names: Names,
}

/// What the threads of a scan put together.
struct Gathered {
    log_entries: u64,
    data_blocks: Vec<u64>,
    extents: Vec<DataRun>,
    names: Names,
    /// Inodes whose number of links is not 1.
    links: HashMap<Ino, u32>,
}

impl Check<'_> {
    pub(super) fn tree(&self, offline: &Offline) -> FsResult<Tree> {
        let gathered = Mutex::new(Gathered {
            log_entries: 0,
            data_blocks: vec![0; self.sb.devices().len()],
            extents: Vec::new(),
            names: Names::default(),
            links: HashMap::new(),
        });
        let visit =
            |record: &InodeRecord, inner: &Inner| self.inode(offline, record, inner, &gathered);
        let what = Scanned {
            pm: self.pm,
            disks: &self.disks,
            sb: &self.sb,
            tables: &offline.tables,
            unfinished: self.reading(offline),
            heritage: None,
        };
        let scan = scan(what, scan_threads(), self.progress, &visit)?;
        let Gathered { log_entries, data_blocks, extents, names, links } = gathered.into_inner();
        let mut complete = offline.damage.is_empty();
        for problem in &scan.problems {
            match problem.kind {
                ProblemKind::Damaged => {
                    complete = false;
                    self.found(lost(problem));
                }
                ProblemKind::Outside => self.found(lost(problem)),
                // The directories that hold such names have been reported, and whoever shares
                // blocks will be.
                ProblemKind::Dangling | ProblemKind::Contested(..) => {}
            }
        }
        if names.directories.contains(&Ino::ROOT) {
            self.reachability(&names);
        } else if complete {
            complete = false;
            self.found(Finding::hopeless(Ino::ROOT, "the root directory does not exist"));
        }
        self.links(&scan, &links, complete);
        self.unnamed(offline, &scan, complete);
        Ok(Tree { scan, log_entries, data_blocks, extents, names })
    }

    /// Looks at one inode that a name leads to; called by many threads.
    fn inode(
        &self,
        offline: &Offline,
        record: &InodeRecord,
        inner: &Inner,
        gathered: &Mutex<Gathered>,
    ) {
        let ino = Ino(record.ino);
        let entries = self.log(offline, record, inner);
        let mut extents = Vec::new();
        if let Body::File(file) = &inner.body {
            let run = |(file_block, extent)| DataRun {
                ino,
                file_block,
                extent,
                archive: inner.log.archive().cloned(),
            };
            extents.extend(file.index.iter().map(run));
            extents.iter().for_each(|run| self.extent(run, inner.log.entries(self.pm)));
        }
        self.xattrs(ino, inner);
        if let Body::Dir(dir) = &inner.body {
            self.names_lead_somewhere(offline, ino, dir);
        }
        let mut gathered = gathered.lock();
        gathered.log_entries += entries;
        for run in &extents {
            if let Some(blocks) =
                gathered.data_blocks.get_mut(usize::from(run.extent.addr.device()))
            {
                *blocks += u64::from(run.extent.blocks);
            }
        }
        gathered.extents.extend(extents.into_iter().filter(|run| !run.extent.unwritten()));
        if inner.meta.nlink != 1 {
            gathered.links.insert(ino, inner.meta.nlink);
        }
        if let Body::Dir(dir) = &inner.body {
            gathered.names.add_directory(ino, dir);
        }
    }

    /// Reads a log again, for what replaying it does not tell; returns the number of its entries.
    fn log(&self, offline: &Offline, record: &InodeRecord, inner: &Inner) -> u64 {
        let ino = Ino(record.ino);
        let mut entries = 0;
        let mut names: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut taken: HashSet<Vec<u8>> = HashSet::new();
        let mut last_cookie = FIRST_COOKIE - 1;
        let media = offline.media(self.pm, &self.disks);
        let read = Log::load(
            media,
            inner.log.record_at(),
            record,
            Some(offline.stamp),
            &mut |_, position, entry| {
                entries += 1;
                match entry {
                    LogEntry::DentryAdd(e, name) => {
                        let what = if !taken.insert(name.to_vec()) {
                            "gives a name twice"
                        } else if e.cookie < FIRST_COOKIE || names.contains_key(&e.cookie) {
                            "gives a position in the directory twice"
                        } else if name.contains(&b'/')
                            || name.contains(&0)
                            || name == b"."
                            || name == b".."
                        {
                            "gives a name that none can have"
                        } else {
                            ""
                        };
                        if !what.is_empty() {
                            let name = String::from_utf8_lossy(name).escape_debug().to_string();
                            let what = format!(
                                "the log entry at {} {what}: {name}",
                                position_text(position)
                            );
                            self.found(Finding::loss(0, Some(ino), what));
                        }
                        last_cookie = last_cookie.max(e.cookie);
                        names.insert(e.cookie, name.to_vec());
                    }
                    LogEntry::DentryRemove(e) => {
                        if let Some(name) = names.remove(&e.cookie) {
                            taken.remove(&name);
                        }
                    }
                    _ => {}
                }
                Ok(())
            },
        );
        if let Err(error) = read {
            let damage = error.into_damage(0, Structure::Log, Some(ino));
            self.found(Finding::loss(0, Some(ino), damage));
        }
        entries
    }

    /// Where the checksums of an extent are.
    fn extent(&self, run: &DataRun, entries: Entries<'_>) {
        let e = &run.extent;
        let device = usize::from(e.addr.device());
        if device >= self.sb.devices().len() {
            return;
        }
        let entry = match read_write_entry(entries, e.entry()) {
            Ok(entry) => entry,
            Err(error) => {
                let damage = error.into_damage(0, Structure::LogEntry, Some(run.ino));
                return self.found(Finding::contents(device, run.ino, damage));
            }
        };
        if entry.crc_form == CRC_NONE && !e.addr.is_pm() && !e.unwritten() {
            let what = "has no checksums for data on a disk";
            let what = format!("the write entry at {} {what}", position_text(e.entry()));
            self.found(Finding::contents(device, run.ino, what));
        }
    }

    fn xattrs(&self, ino: Ino, inner: &Inner) {
        for (name, xattr) in &inner.xattrs {
            let Some((addr, blocks)) = xattr_blocks(&xattr.entry) else {
                continue;
            };
            let inside = addr.block().checked_add(blocks).is_some_and(|end| end <= self.sb.blocks);
            // The scan has reported blocks outside the device.
            if !addr.is_pm() || !inside {
                continue;
            }
            let mut value = vec![0u8; xattr.entry.value_len as usize];
            let kind = match self.pm.try_read(addr.byte(), &mut value) {
                Err(error) => Some(DamageKind::Unreadable(error.errno())),
                Ok(()) if data_crc(&value) != xattr.entry.value_crc => Some(DamageKind::Checksum),
                Ok(()) => None,
            };
            self.verified(blocks);
            if let Some(kind) = kind {
                let structure = Structure::Attribute(name.as_slice().into());
                let damage = Damage::in_pm(self.pm, structure, kind).at(addr.byte()).of(ino);
                self.found(Finding::contents(0, ino, damage));
            }
        }
    }

    fn names_lead_somewhere(&self, offline: &Offline, ino: Ino, dir: &DirData) {
        for (_, d) in dir.from(0) {
            if let Some(why) = self.leads_nowhere(offline, d) {
                let name = String::from_utf8_lossy(&d.name).escape_debug().to_string();
                let what = format!("its name {name} leads to inode {}, {why}", d.ino.0);
                self.found(Finding::hopeless(ino, what));
            }
        }
    }

    /// Why a name does not lead to what it says. An inode that cannot be read is another matter.
    pub(super) fn leads_nowhere(&self, offline: &Offline, d: &Dentry) -> Option<String> {
        if offline.damage_to(d.ino).is_some() {
            return None;
        }
        match offline.locate(d.ino).map(|at| offline.unfinished().record_state(self.pm, at, d.ino))
        {
            None | Some(RecordState::Free) => Some("which does not exist".into()),
            Some(RecordState::Used(r)) if r.generation != d.generation => Some(format!(
                "generation {}, of which only generation {} exists",
                d.generation, r.generation
            )),
            Some(RecordState::Used(r)) if kind_of(self.pm, &r).ok() != Some(d.kind) => {
                Some(format!("as a {:?}, which it is not", d.kind).to_lowercase())
            }
            Some(RecordState::Used(_) | RecordState::Damaged) => None,
        }
    }

    /// An inode whose record is in use and whole, and what its log says.
    pub(super) fn load(
        &self,
        offline: &Offline,
        ino: Ino,
    ) -> Option<(InodeRecord, FsResult<Inner>)> {
        let (at, record) = offline.record(self.pm, ino)?;
        let media = offline.media(self.pm, &self.disks);
        Some((record, Inner::load(media, at, &record, Some(offline.stamp))))
    }

    /// How to read logs: a repair builds on what it finds.
    pub(super) fn reading<'a>(&self, offline: &'a Offline) -> Unfinished<'a> {
        match self.repair && !self.clean {
            true => Unfinished::Settle(&offline.pending),
            false => offline.unfinished(),
        }
    }

    /// As [`Self::load`], of an inode that is going to be changed: what a crash has left half done
    /// is finished first.
    pub(super) fn load_to_change(&self, offline: &Offline, ino: Ino) -> Option<FsResult<Inner>> {
        let (at, record) = offline.record(self.pm, ino)?;
        let media = offline.media(self.pm, &self.disks);
        Some(Inner::recover(media, at, &record, offline.stamp))
    }

    /// Directories that no path from the root leads to, though something names them.
    fn reachability(&self, names: &Names) {
        let reached = names.reachable();
        for &ino in names.directories.iter().filter(|ino| !reached.contains(ino)) {
            self.found(Finding::loss(
                0,
                Some(ino),
                "no path from the root leads to this directory",
            ));
        }
    }

    fn links(&self, scan: &Scan, links: &HashMap<Ino, u32>, complete: bool) {
        for (&ino, reference) in &scan.references {
            let ino = Ino(ino);
            if reference.is_dir && reference.count > 1 {
                let what = format!(
                    "this directory has {} names",
                    reference.count - u32::from(ino == Ino::ROOT)
                );
                self.found(Finding::loss(0, Some(ino), what));
            }
            let count = if reference.is_dir { 1 } else { reference.count };
            let nlink = links.get(&ino).copied().unwrap_or(1);
            if nlink != count && complete {
                let what = format!("it has {count} names, but its link count is {nlink}");
                self.found(Finding::flaw(0, Some(ino), what, Remedy::Links { ino, count }));
            }
        }
    }

    /// Inodes in use that no name leads to: a crash leaves them, a clean unmount does not.
    fn unnamed(&self, offline: &Offline, scan: &Scan, complete: bool) {
        if !complete {
            if !scan.unnamed.is_empty() {
                let inodes = counted(scan.unnamed.len() as u64, "inode has", "inodes have");
                let what = format!("{inodes} no name: it may have been in what cannot be read");
                self.found(Finding::loss(0, None, what));
            }
            return;
        }
        for &(ino, _) in &scan.unnamed {
            let Some((_, inner)) = self.load(offline, ino) else {
                let what = "its record is damaged, and no name leads to it";
                self.found(Finding::flaw(0, Some(ino), what, Remedy::FreeRecord));
                continue;
            };
            if let Ok(inner) = &inner {
                if inner.dir().is_ok_and(|dir| dir.len() > 0) {
                    self.found(Finding::hopeless(
                        ino,
                        "no name leads to this directory, which holds names",
                    ));
                    continue;
                }
                // Its blocks are still its own: they are no leak.
                if self.clean {
                    scan.mark_owned(inner);
                }
            }
            if self.clean {
                let what = "it is in use, but no name leads to it";
                self.found(Finding::flaw(0, Some(ino), what, Remedy::FreeRecord));
            }
        }
    }
}

/// An inode that is out of reach for what the scan says.
fn lost(problem: &Problem) -> Finding {
    let damage = problem.damage.clone();
    match damage.ino {
        Some(ino) => Finding::hopeless(ino, damage),
        None => Finding::loss(0, None, damage),
    }
}
