//! Path names: of directories as the scan found them, of files only for those that are to be reported.

use std::collections::{HashMap, HashSet};

use super::{Check, CheckProblem, Finding, Loss};
use crate::dir::DirData;
use crate::inode::{Inner, Replay};
use crate::offline::Offline;
use crate::sync::Arc;
use crate::types::{FileKind, Ino};

/// Where an inode is named.
type Named = (Ino, Arc<[u8]>);

/// The names of directories.
#[derive(Default)]
pub(super) struct Names {
    /// Every directory that was read.
    pub directories: HashSet<Ino>,
    /// Subdirectories of each.
    children: HashMap<Ino, Vec<Ino>>,
    /// A name of each.
    named: HashMap<Ino, Named>,
}

impl Names {
    pub fn add_directory(&mut self, ino: Ino, dir: &DirData) {
        self.directories.insert(ino);
        for (_, d) in dir.from(0).filter(|(_, d)| d.kind == FileKind::Directory) {
            self.children.entry(ino).or_default().push(d.ino);
            self.named.insert(d.ino, (ino, d.name.clone()));
        }
    }

    /// Everything that a path from the root leads to.
    pub fn reachable(&self) -> HashSet<Ino> {
        let mut reached = HashSet::from([Ino::ROOT]);
        let mut open = vec![Ino::ROOT];
        while let Some(ino) = open.pop() {
            let children = self.children.get(&ino).into_iter().flatten();
            open.extend(children.copied().filter(|&child| reached.insert(child)));
        }
        reached
    }

    /// The path of an inode; `None` if it does not begin at the root.
    fn path(&self, files: &HashMap<Ino, Named>, ino: Ino) -> Option<String> {
        let mut parts = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT {
            let (parent, name) = self.named.get(&at).or_else(|| files.get(&at))?;
            parts.push(String::from_utf8_lossy(name).escape_debug().to_string());
            if parts.len() > self.named.len() + 1 {
                return None;
            }
            at = *parent;
        }
        parts.reverse();
        Some(format!("/{}", parts.join("/")))
    }
}

impl Check<'_> {
    /// The findings as the caller sees them, in order of place.
    pub(super) fn report(&self, offline: &Offline, names: &Names, findings: Vec<Finding>) -> Vec<CheckProblem> {
        let wanted: HashSet<Ino> = findings.iter().filter_map(|f| f.ino).collect();
        let files = self.names_of(offline, names, &wanted);
        let mut findings = findings;
        findings.sort_by(|a, b| (a.device, a.ino, &a.what).cmp(&(b.device, b.ino, &b.what)));
        findings.dedup_by(|a, b| a.device == b.device && a.ino == b.ino && a.what == b.what);
        let problems = findings.into_iter().map(|f| {
            let mut place = self.device_path(f.device);
            if let Some(ino) = f.ino {
                place += &format!(": inode {}", ino.0);
                if let Some(path) = names.path(&files, ino) {
                    place += &format!(" ({path})");
                }
            }
            // An error names the device first; the place has done so.
            let prefix = format!("{}: ", self.device_path(f.device));
            let what = f.what.strip_prefix(&prefix).unwrap_or(&f.what).to_owned();
            CheckProblem { place, what, repaired: f.repaired, data_lost: f.loss != Loss::Nothing }
        });
        problems.collect()
    }

    /// A name of each inode of `wanted` that has one and is no directory.
    fn names_of(&self, offline: &Offline, names: &Names, wanted: &HashSet<Ino>) -> HashMap<Ino, Named> {
        let mut found = HashMap::new();
        if wanted.iter().all(|ino| names.directories.contains(ino)) {
            return found;
        }
        for &ino in &names.directories {
            let Some((at, record)) = offline.record(self.pm, ino) else {
                continue;
            };
            let Ok(inner) = Inner::load(self.pm, at, &record, offline.stamp, Replay::No) else {
                continue;
            };
            let Ok(dir) = inner.dir() else {
                continue;
            };
            for (_, d) in dir.from(0).filter(|(_, d)| wanted.contains(&d.ino)) {
                found.insert(d.ino, (ino, d.name.clone()));
            }
        }
        found
    }
}
