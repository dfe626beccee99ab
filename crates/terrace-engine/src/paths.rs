//! Paths of inodes, for messages to people. Whoever has nothing to say needs none: finding them reads all directories.

use std::collections::{HashMap, HashSet};

use crate::core::Core;
use crate::dir::FIRST_COOKIE;
use crate::types::{FileKind, Ino};

/// Names read at a time.
const BATCH: usize = 1024;

impl Core {
    /// A path of each of these inodes, as far as directories that can be read have one; none are looked for any more once it is to
    /// `stop`.
    pub fn paths_of(&self, wanted: &HashSet<u64>, stop: &dyn Fn() -> bool) -> HashMap<u64, String> {
        let mut paths = HashMap::new();
        if wanted.contains(&Ino::ROOT.0) {
            paths.insert(Ino::ROOT.0, "/".to_owned());
        }
        let mut met = HashSet::from([Ino::ROOT]);
        let mut open = vec![(Ino::ROOT, String::new())];
        while let Some((dir, prefix)) = open.pop() {
            if paths.len() == wanted.len() || stop() {
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
        let Ok(inode) = self.get(dir) else {
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
        self.forget(dir, 0);
    }
}
