//! Paths of inodes, for people, found by a walk through all names of a volume, a few at a time,
//! while others change them: what lies where nobody has changed anything meanwhile is met once.
//!
//! Whoever may make directories decides how deep they lie. So a walk keeps names, not paths, and
//! goes no deeper than a path that programs can use.

use std::collections::{HashMap, HashSet};

use terrace_store::sync::Arc;

use crate::base::types::{FileKind, Ino};
use crate::inode::table::Inodes;

/// Names that are read under a directory's lock.
const BATCH: usize = 1024;
/// Bytes in the longest path that is looked for.
const PATH_BYTES_MAX: usize = libc::PATH_MAX as usize;

/// How far a walk is.
#[derive(Debug)]
pub(crate) struct Walk {
    /// Directories that have been met and not been seen to their end.
    open: Vec<Open>,
    met: HashSet<Ino>,
}

#[derive(Debug)]
struct Open {
    dir: Ino,
    /// Where its listing goes on.
    position: u64,
    name: Arc<Name>,
}

/// The name of a directory, and where it stands.
#[derive(Debug)]
struct Name {
    /// Nothing for the root.
    parent: Option<Arc<Name>>,
    name: Vec<u8>,
    /// Of the directory's path.
    path_bytes: usize,
}

impl Name {
    /// The path of what this directory calls so.
    fn join(&self, name: &[u8]) -> Vec<u8> {
        let mut names = vec![name];
        let mut at = self;
        while let Some(parent) = &at.parent {
            names.push(&at.name);
            at = parent;
        }
        names.into_iter().rev().flat_map(|name| [b"/", name].concat()).collect()
    }
}

impl Walk {
    pub fn new() -> Walk {
        let root = Name { parent: None, name: Vec::new(), path_bytes: 0 };
        Walk {
            open: vec![Open { dir: Ino::ROOT, position: 0, name: Arc::new(root) }],
            met: HashSet::from([Ino::ROOT]),
        }
    }

    /// Goes on by some names of a directory: how many; `None` if there are no more directories.
    /// `wants` is asked of each inode, and `visit` is shown the path of those that are wanted.
    pub fn go_on(
        &mut self,
        inodes: &Inodes,
        wants: &dyn Fn(Ino) -> bool,
        visit: &mut dyn FnMut(Ino, Vec<u8>),
    ) -> Option<usize> {
        let Open { dir, position, name } = self.open.pop()?;
        let (mut last, mut names, mut below) = (None, 0, Vec::new());
        if let Ok(inode) = inodes.get(dir)
            && let Ok(inner) = inode.shared()
            && let Ok(entries) = inner.dir()
        {
            for (at, d) in entries.from(position).take(BATCH) {
                last = Some(at);
                names += 1;
                if wants(d.ino) {
                    visit(d.ino, name.join(&d.name));
                }
                let path_bytes = name.path_bytes + 1 + d.name.len();
                if d.kind == FileKind::Directory
                    && path_bytes < PATH_BYTES_MAX
                    && self.met.insert(d.ino)
                {
                    let child =
                        Name { parent: Some(name.clone()), name: d.name.to_vec(), path_bytes };
                    below.push(Open { dir: d.ino, position: 0, name: Arc::new(child) });
                }
            }
        }
        // The entries below come first: a name is not kept longer than it must be.
        match last {
            Some(last) => self.open.push(Open { dir, position: last, name }),
            None => inodes.forget(dir, 0),
        }
        self.open.append(&mut below);
        Some(names)
    }
}

/// A path for people.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

impl Inodes {
    /// A path of each of these inodes, as far as directories that can be read have one; none are
    /// looked for any more once it is to `stop`.
    pub fn paths_of(&self, wanted: &HashSet<u64>, stop: &dyn Fn() -> bool) -> HashMap<u64, String> {
        let mut paths = HashMap::new();
        if wanted.contains(&Ino::ROOT.0) {
            paths.insert(Ino::ROOT.0, "/".to_owned());
        }
        let mut walk = Walk::new();
        while paths.len() < wanted.len() && !stop() {
            let mut note = |ino: Ino, path: Vec<u8>| {
                paths.entry(ino.0).or_insert_with(|| shown(&path));
            };
            if walk.go_on(self, &|ino| wanted.contains(&ino.0), &mut note).is_none() {
                break;
            }
        }
        paths
    }
}
