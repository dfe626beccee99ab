//! The survey before anything is given up: what is lost, what can be saved, which names lead
//! nowhere.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use terrace_layout::{BlockAddr, InodeRecord};
use terrace_store::damage::{Damage, DamageKind, Structure};
use terrace_store::error::FsResult;
use terrace_store::sync::{Arc, Mutex};

use super::super::places::Names;
use super::super::{Check, CheckProblem, Finding};
use crate::base::types::{FileKind, Ino};
use crate::inode::resident::{Body, Inner, kind_of};
use crate::mount::offline::Offline;
use crate::mount::recovery::scan_threads;
use crate::mount::scan::{ProblemKind, Scan, Scanned, scan};

/// A name that leads nowhere, or to what is lost.
pub(super) struct LostName {
    pub(super) dir: Ino,
    pub(super) name: Arc<[u8]>,
    pub(super) ino: Ino,
    pub(super) kind: FileKind,
    /// Why it leads nowhere; `None`: to what is lost.
    pub(super) why: Option<String>,
}

/// A whole inode that no name leads to.
pub(super) struct Orphan {
    pub(super) ino: Ino,
    pub(super) generation: u32,
    pub(super) kind: FileKind,
}

/// What there is, and what of it is lost.
pub(super) struct Survey {
    pub(super) scan: Scan,
    /// Of all directories that can be read.
    pub(super) names: Names,
    /// Inodes that names lead to and that are out of reach, and why.
    pub(super) lost: BTreeMap<Ino, Damage>,
    pub(super) lost_names: Vec<LostName>,
    /// Inodes that a name leads to as it says.
    pub(super) named: HashSet<Ino>,
    pub(super) orphans: Vec<Orphan>,
    /// Without a name and out of reach, and why.
    pub(super) lost_orphans: BTreeMap<Ino, Damage>,
    /// Without a name, and nothing in them: what a crash leaves.
    pub(super) empty: Vec<Ino>,
    /// One of those out of reach is a directory that holds names.
    pub(super) a_directory_is_lost: bool,
    pub(super) root_is_there: bool,
}

impl Survey {
    pub(super) fn is_whole(&self) -> bool {
        let nothing_is_lost = self.lost.is_empty() && self.lost_orphans.is_empty();
        self.root_is_there
            && nothing_is_lost
            && self.lost_names.is_empty()
            && self.orphans.is_empty()
    }

    /// Whether what has no name may have lost it. A crash leaves inodes without names, but no
    /// directory that holds names.
    fn names_are_lost(&self) -> bool {
        let has_lost_its_name = |o: &Orphan| {
            o.kind == FileKind::Directory || self.scan.references.contains_key(&o.ino.0)
        };
        !self.root_is_there
            || self.a_directory_is_lost
            || self.lost_names.iter().any(|a| a.kind == FileKind::Directory)
            || self.orphans.iter().any(has_lost_its_name)
    }

    /// The path of a name, if its directory has one.
    fn path_of(&self, lost: &LostName) -> Option<String> {
        let dir = self.names.path(&HashMap::new(), lost.dir)?;
        Some(format!("{}/{}", dir.trim_end_matches('/'), in_words(&lost.name)))
    }

    /// Whether a mount would free what is to be saved: what has no name is freed unless it finds a
    /// name that leads nowhere.
    pub(super) fn needs_a_mark(&self) -> bool {
        let dangling: HashSet<Ino> = dangling(&self.scan).collect();
        let is_found = |a: &LostName| {
            self.lost.contains_key(&a.ino)
                || dangling.contains(&a.ino) && !self.named.contains(&a.ino)
        };
        self.root_is_there && !self.orphans.is_empty() && !self.lost_names.iter().any(is_found)
    }

    pub(super) fn to_free(&self) -> impl Iterator<Item = Ino> {
        self.lost.keys().chain(self.lost_orphans.keys()).chain(&self.empty).copied()
    }
}

/// Inodes that the scan passed over because the first name that it met is not theirs.
fn dangling(scan: &Scan) -> impl Iterator<Item = Ino> {
    scan.problems.iter().filter(|p| p.kind == ProblemKind::Dangling).filter_map(|p| p.damage.ino)
}

fn in_words(name: &[u8]) -> String {
    String::from_utf8_lossy(name).escape_debug().to_string()
}

impl Check<'_> {
    pub(super) fn survey(&self, offline: &Offline) -> FsResult<Survey> {
        let names = Mutex::new(Names::default());
        let visit = |record: &InodeRecord, inner: &Inner| {
            if let Body::Dir(dir) = &inner.body {
                names.lock().add_directory(Ino(record.ino), dir);
            }
        };
        let unfinished = self.reading(offline);
        let what = Scanned {
            pm: self.pm,
            disks: &self.disks,
            sb: &self.sb,
            tables: &offline.tables,
            unfinished,
            heritage: None,
        };
        let scan = scan(what, scan_threads(), self.progress, &visit)?;
        self.mark_passed_over(offline, &scan);
        let mut lost = BTreeMap::new();
        for problem in &scan.problems {
            match (problem.kind, problem.damage.ino) {
                (ProblemKind::Damaged | ProblemKind::Outside, Some(ino)) => {
                    lost.entry(ino).or_insert_with(|| problem.damage.clone());
                }
                (ProblemKind::Damaged, None) => return Err(problem.damage.clone().into()),
                _ => {}
            }
        }
        let mut names = names.into_inner();
        names.directories.retain(|ino| !lost.contains_key(ino));
        let root_is_there = names.directories.contains(&Ino::ROOT);
        let mut survey = Survey {
            scan,
            names,
            lost,
            lost_names: Vec::new(),
            named: HashSet::from([Ino::ROOT]),
            orphans: Vec::new(),
            lost_orphans: BTreeMap::new(),
            empty: Vec::new(),
            a_directory_is_lost: false,
            root_is_there,
        };
        self.follow_names(offline, &mut survey)?;
        self.find_orphans(offline, &mut survey)?;
        Ok(survey)
    }

    /// Blocks of inodes without a name are not free, nor those of inodes that only some names lead
    /// to.
    fn mark_passed_over(&self, offline: &Offline, scan: &Scan) {
        for ino in scan.unnamed.iter().map(|&(ino, _)| ino).chain(dangling(scan)) {
            let Some((_, Ok(inner))) = self.load(offline, ino) else {
                continue;
            };
            scan.mark_owned(&inner);
        }
    }

    /// Looks where each name leads, also in directories that have none themselves.
    fn follow_names(&self, offline: &Offline, survey: &mut Survey) -> FsResult<()> {
        let unnamed = survey.scan.unnamed.iter().map(|&(ino, _)| ino);
        let known = survey.names.directories.iter().copied();
        let dirs: BTreeSet<Ino> = known.chain(unnamed).chain(dangling(&survey.scan)).collect();
        for dir in dirs {
            let inner = match self.load(offline, dir) {
                Some((_, Ok(inner))) => inner,
                _ if survey.names.directories.contains(&dir) => return Err(self.unsteady(dir)),
                _ => continue,
            };
            let Some(entries) = inner.dir().ok().filter(|_| self.owns_what_exists(&inner)) else {
                continue;
            };
            survey.names.directories.insert(dir);
            for (_, d) in entries.from(0) {
                let why = self.leads_nowhere(offline, d);
                if why.is_none() && !survey.lost.contains_key(&d.ino) {
                    survey.named.insert(d.ino);
                } else {
                    let (name, ino, kind) = (d.name.clone(), d.ino, d.kind);
                    survey.lost_names.push(LostName { dir, name, ino, kind, why });
                }
            }
        }
        survey.lost_names.sort_by(|a, b| (a.dir, &a.name).cmp(&(b.dir, &b.name)));
        Ok(())
    }

    pub(super) fn owns_what_exists(&self, inner: &Inner) -> bool {
        self.what_does_not_exist(inner).is_none()
    }

    /// Blocks outside their device that an inode claims.
    fn what_does_not_exist(&self, inner: &Inner) -> Option<(BlockAddr, u64)> {
        inner.owned().into_iter().find(|&(addr, blocks)| !self.is_inside(addr, blocks))
    }

    /// What no name leads to: nothing but what a crash leaves, unless names were lost.
    fn find_orphans(&self, offline: &Offline, survey: &mut Survey) -> FsResult<()> {
        let unnamed: HashSet<Ino> = survey.scan.unnamed.iter().map(|&(ino, _)| ino).collect();
        let led_to = survey.scan.references.keys().map(|&ino| Ino(ino));
        let is_one = |ino: &Ino| !survey.named.contains(ino) && !survey.lost.contains_key(ino);
        let candidates: BTreeSet<Ino> =
            led_to.chain(unnamed.iter().copied()).filter(is_one).collect();
        for ino in candidates {
            match self.load(offline, ino) {
                // Of what names led to there is nothing.
                None if !unnamed.contains(&ino) => {}
                None => {
                    let damage = Damage::in_pm(self.pm, Structure::Record, DamageKind::Damaged);
                    let at = offline.locate(ino).expect("it was found there");
                    survey.lost_orphans.insert(ino, damage.at(at).of(ino));
                }
                Some((_, Err(error))) => {
                    let damage = error.into_damage(0, Structure::Log, Some(ino));
                    survey.lost_orphans.insert(ino, damage);
                }
                Some((_, Ok(inner)))
                    if inner.dir().map_or(inner.meta.nlink == 0, |dir| dir.len() == 0) =>
                {
                    survey.empty.push(ino);
                }
                Some((record, Ok(inner))) => {
                    let kind = kind_of(self.pm, &record)?;
                    if let Some((addr, blocks)) = self.what_does_not_exist(&inner) {
                        let outside = DamageKind::Outside(addr, blocks);
                        let damage = Damage::in_pm(self.pm, Structure::Inode, outside).of(ino);
                        survey.lost_orphans.insert(ino, damage);
                        survey.a_directory_is_lost |= kind == FileKind::Directory;
                    } else if kind == FileKind::Directory
                        && !survey.names.directories.contains(&ino)
                    {
                        return Err(self.unsteady(ino));
                    } else {
                        survey.orphans.push(Orphan { ino, generation: record.generation, kind });
                    }
                }
            }
        }
        if !survey.names_are_lost() {
            survey.orphans.clear();
            survey.lost_orphans.clear();
            survey.empty.clear();
        }
        let to_free: HashSet<Ino> = survey.to_free().collect();
        survey.lost_names.retain(|a| !to_free.contains(&a.dir));
        Ok(())
    }

    /// What is given up, in words.
    pub(super) fn losses(&self, survey: &Survey) -> Vec<CheckProblem> {
        let given_up = |ino, what: String, path| {
            let finding = Finding { repaired: true, ..Finding::loss(0, Some(ino), what) };
            self.problem(&finding, path)
        };
        let mut problems = Vec::new();
        for (&ino, why) in &survey.lost {
            let mut paths: Vec<String> = survey
                .lost_names
                .iter()
                .filter(|a| a.ino == ino)
                .filter_map(|a| survey.path_of(a))
                .collect();
            if ino == Ino::ROOT {
                paths.push("/".to_owned());
            }
            let others = paths.get(1..).filter(|others| !others.is_empty());
            let others = others.map_or_else(String::new, |others| {
                format!(", and so are its names {}", others.join(", "))
            });
            problems.push(given_up(
                ino,
                format!("{}: given up{others}", why.words_and_byte()),
                paths.into_iter().next(),
            ));
        }
        for (&ino, why) in &survey.lost_orphans {
            problems.push(given_up(
                ino,
                format!("{}, and no name leads to it: given up", why.words_and_byte()),
                None,
            ));
        }
        if !survey.root_is_there && !survey.lost.contains_key(&Ino::ROOT) {
            problems.push(given_up(
                Ino::ROOT,
                "the root directory does not exist: made anew".into(),
                None,
            ));
        }
        for (lost, why) in survey.lost_names.iter().filter_map(|a| Some((a, a.why.as_ref()?))) {
            let what = format!(
                "its name {} led to inode {}, {why}: removed",
                in_words(&lost.name),
                lost.ino.0
            );
            problems.push(given_up(lost.dir, what, survey.names.path(&HashMap::new(), lost.dir)));
        }
        problems
    }
}
