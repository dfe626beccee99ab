//! The modules of one target of a crate, and where a path in one of them leads.

use std::collections::BTreeMap;
use std::path::{Component, Path as FilePath, PathBuf};

use crate::files::Sources;
use crate::parse::{Module, Place, parse};

/// A module's path from the root of its crate; the root's is empty.
pub(crate) type Name = Vec<String>;

/// A module and where it is.
#[derive(Debug)]
pub(crate) struct Node {
    pub file: PathBuf,
    pub module: Module,
}

/// All modules that a root file leads to.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub nodes: BTreeMap<Name, Node>,
}

/// Where a path leads.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// To a module of the same crate.
    Module(Name),
    /// To another crate, by the name that code gives it.
    Crate(String),
}

impl Tree {
    /// Reads the modules that `root` leads to.
    pub fn read(sources: &Sources, root: &FilePath) -> Tree {
        let mut tree = Tree::default();
        if let Some(source) = sources.get(root) {
            let dir = root.parent().unwrap_or(FilePath::new(""));
            tree.add(sources, Vec::new(), parse(source), root, dir);
        }
        tree
    }

    /// Adds a module and its children, whose files are in `dir`.
    fn add(
        &mut self,
        sources: &Sources,
        name: Name,
        mut module: Module,
        file: &FilePath,
        dir: &FilePath,
    ) {
        for child in &mut module.children {
            let child_name = [&name[..], std::slice::from_ref(&child.name)].concat();
            let child_dir = dir.join(&child.name);
            match &mut child.place {
                Place::Here(inner) => {
                    let inner = std::mem::take(inner);
                    self.add(sources, child_name, inner, file, &child_dir);
                }
                Place::File(named) => {
                    let beside = file.parent().unwrap_or(dir);
                    let candidates = match named {
                        Some(path) => vec![plain(&beside.join(path))],
                        None => vec![child_dir.with_extension("rs"), child_dir.join("mod.rs")],
                    };
                    let found = candidates.iter().find_map(|path| sources.get_key_value(path));
                    let Some((path, source)) = found else { continue };
                    self.add(sources, child_name, parse(source), path, &child_dir);
                }
            }
        }
        self.nodes.insert(name, Node { file: file.to_owned(), module });
    }

    fn has(&self, name: &[String]) -> bool {
        self.nodes.contains_key(name)
    }

    /// Where `path`, written in the module `from`, leads. Nowhere, if it names only what is
    /// in scope.
    pub fn resolve(&self, from: &[String], path: &[String]) -> Option<End> {
        self.follow(from, from, path, 0)
    }

    /// As `resolve`, for the path as it stands in the module `at`, on behalf of `user`.
    fn follow(&self, user: &[String], at: &[String], path: &[String], steps: u8) -> Option<End> {
        const STEPS_MAX: u8 = 16;
        if steps == STEPS_MAX {
            return None;
        }
        let (first, mut rest) = path.split_first()?;
        let mut now = match first.as_str() {
            "crate" => Vec::new(),
            "self" => at.to_vec(),
            "super" => at.split_last()?.1.to_vec(),
            name => {
                let child = [at, &[name.to_owned()]].concat();
                if !self.has(&child) {
                    return (path.len() > 1).then(|| End::Crate(name.to_owned()));
                }
                child
            }
        };
        while let Some((segment, after)) = rest.split_first() {
            let child = [&now[..], std::slice::from_ref(segment)].concat();
            if segment == "super" {
                now.pop()?;
            } else if self.has(&child) {
                now = child;
            } else if user.starts_with(&now) {
                let origin = self.origin(user, &now, segment, after, steps);
                return Some(origin.unwrap_or(End::Module(now)));
            } else {
                break;
            }
            rest = after;
        }
        Some(End::Module(now))
    }

    /// Where a name that the module `at` imports comes from. Items of its own it does not import.
    fn origin(
        &self,
        user: &[String],
        at: &[String],
        name: &str,
        after: &[String],
        steps: u8,
    ) -> Option<End> {
        let module = &self.nodes[at].module;
        if module.items.contains(name) {
            return None;
        }
        let goes_on = |path: &[String], name: Option<&str>| {
            let name = name.map(str::to_owned);
            let path = path.iter().cloned().chain(name).chain(after.iter().cloned());
            path.collect::<Vec<_>>()
        };
        if let Some(import) = module.imports.iter().find(|import| import.name == name) {
            return self.follow(user, at, &goes_on(&import.path, None), steps + 1);
        }
        module.imports.iter().filter(|import| import.name == "*").find_map(|import| {
            let end = self.follow(user, at, &import.path, steps + 1)?;
            let End::Module(globbed) = &end else { return None };
            let globbed = &self.nodes[globbed].module;
            let defines = globbed.items.contains(name)
                || globbed.imports.iter().any(|import| import.name == name)
                || globbed.children.iter().any(|child| child.name == name);
            let path = goes_on(&import.path, Some(name));
            defines.then(|| self.follow(user, at, &path, steps + 1)).flatten()
        })
    }
}

/// The path without `..`.
fn plain(path: &FilePath) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}
