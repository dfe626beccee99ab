//! Path names: of directories as the scan found them, of files only for those that are to be
//! reported.

use std::collections::{HashMap, HashSet};

use terrace_store::sync::Arc;

use super::{Check, CheckProblem, Finding, Loss};
use crate::base::types::{FileKind, Ino};
use crate::inode::dir::DirData;
use crate::mount::offline::Offline;

/// Where an inode is named.
pub(super) type Named = (Ino, Arc<[u8]>);

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
    pub fn path(&self, files: &HashMap<Ino, Named>, ino: Ino) -> Option<String> {
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
    pub(super) fn report(
        &self,
        offline: &Offline,
        names: &Names,
        findings: Vec<Finding>,
    ) -> Vec<CheckProblem> {
        let wanted: HashSet<Ino> = findings.iter().filter_map(|f| f.ino).collect();
        let files = self.names_of(offline, names, &wanted);
        let mut findings = findings;
        let key = |f: &Finding| (f.device, f.ino, f.what.to_string());
        findings.sort_by_cached_key(key);
        findings.dedup_by_key(|f| key(f));
        findings
            .into_iter()
            .map(|f| self.problem(&f, f.ino.and_then(|ino| names.path(&files, ino))))
            .collect()
    }

    /// A finding as the caller sees it; `path`: of its inode.
    pub(super) fn problem(&self, finding: &Finding, path: Option<String>) -> CheckProblem {
        let mut place = self.device_path(finding.device).display().to_string();
        if let Some(ino) = finding.ino {
            place += &format!(": inode {}", ino.0);
            place.extend(path.map(|path| format!(" ({path})")));
        }
        CheckProblem {
            place,
            what: finding.what.to_string(),
            repaired: finding.repaired,
            data_lost: finding.loss != Loss::Nothing,
            can_be_given_up: finding.can_be_given_up && !finding.repaired,
        }
    }

    /// A name of each inode of `wanted` that has one and is no directory.
    fn names_of(
        &self,
        offline: &Offline,
        names: &Names,
        wanted: &HashSet<Ino>,
    ) -> HashMap<Ino, Named> {
        let mut found = HashMap::new();
        if wanted.iter().all(|ino| names.directories.contains(ino)) {
            return found;
        }
        for &ino in &names.directories {
            let Some((_, Ok(inner))) = self.load(offline, ino) else {
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
