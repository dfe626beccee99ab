//! Paths of damaged files, found at the end: whoever is not damaged needs none.

use std::collections::{HashMap, HashSet};

use super::Scrubber;
use crate::dir::FIRST_COOKIE;
use crate::types::{FileKind, Ino};

/// Names read at a time.
const BATCH: usize = 1024;

impl Scrubber<'_> {
    /// Gives the damage in the record the paths of its inodes, and logs them.
    pub(super) fn name_damaged_files(&self) {
        let wanted: HashSet<u64> = self.record.damaged_inodes().into_iter().collect();
        if wanted.is_empty() {
            return;
        }
        let paths = self.paths_of(&wanted);
        for (ino, path) in &paths {
            tracing::error!("scrub: inode {ino}, which is damaged, is {path}");
        }
        self.record.set_paths(|ino| paths.get(&ino).cloned());
    }

    /// A path of each of these inodes, as far as directories that can be read have one.
    fn paths_of(&self, wanted: &HashSet<u64>) -> HashMap<u64, String> {
        let mut paths = HashMap::new();
        if wanted.contains(&Ino::ROOT.0) {
            paths.insert(Ino::ROOT.0, "/".to_owned());
        }
        let mut met = HashSet::from([Ino::ROOT]);
        let mut open = vec![(Ino::ROOT, String::new())];
        while let Some((dir, prefix)) = open.pop() {
            if paths.len() == wanted.len() || self.record.is_unmounting() {
                break;
            }
            self.visit_names(dir, |ino, kind, name| {
                let path = || format!("{prefix}/{}", String::from_utf8_lossy(name).escape_debug());
                if wanted.contains(&ino.0) {
                    paths.entry(ino.0).or_insert_with(path);
                }
                if kind == FileKind::Directory && met.insert(ino) {
                    open.push((ino, path()));
                }
            });
        }
        paths
    }

    /// Shows the entries of a directory, some at a time; others may change it in between.
    fn visit_names(&self, dir: Ino, mut visit: impl FnMut(Ino, FileKind, &[u8])) {
        let Ok(inode) = self.core.get(dir) else {
            return;
        };
        let mut cookie = FIRST_COOKIE;
        loop {
            let mut last = None;
            if let Ok(inner) = inode.shared()
                && let Ok(entries) = inner.dir()
            {
                for (at, d) in entries.from(cookie).take(BATCH) {
                    visit(d.ino, d.kind, &d.name);
                    last = Some(at);
                }
            }
            match last {
                Some(last) => cookie = last + 1,
                None => break,
            }
        }
        drop(inode);
        self.core.forget(dir, 0);
    }
}
