//! Arrows between modules and between crates, and those that lead up or in a circle.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::files::Sources;
use crate::tree::{End, Name, Tree};

/// Where an arrow begins: file, line, and the path that stands there.
type Place = (PathBuf, usize, String);

/// All arrows between sibling modules below one module, or between crates.
#[derive(Debug, Default)]
struct Graph(BTreeMap<(String, String), BTreeSet<Place>>);

/// How many places of one arrow a finding names.
const PLACES_MAX: usize = 8;

/// Which arrows between the modules of a target lead up.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// None. The root of a test may hold what its modules share.
    Free,
    /// Those to the root.
    RootOnTop,
    /// Those to a module that stands before the other in this list, from top to bottom.
    Floors(&'a [&'a str]),
}

/// What is wrong with the arrows between modules of the target with the root file `root`.
pub fn module_arrows(sources: &Sources, root: &Path, order: Order<'_>) -> Vec<String> {
    let tree = Tree::read(sources, root);
    let root_name = root.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut graphs: BTreeMap<Name, Graph> = BTreeMap::new();
    for (from, node) in &tree.nodes {
        for path in &node.module.paths {
            let Some(End::Module(to)) = tree.resolve(from, &path.segments) else { continue };
            let level = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
            let is_root = level == 0;
            let side = |name: &Name| name.get(level).or(is_root.then_some(&root_name)).cloned();
            let (Some(above), Some(below)) = (side(from), side(&to)) else { continue };
            let place = (node.file.clone(), path.line, path.segments.join("::"));
            graphs.entry(from[..level].to_vec()).or_default().add(above, below, place);
        }
    }
    let mut findings = Vec::new();
    for (level, mut graph) in graphs {
        if level.is_empty() {
            let children = tree.nodes.keys().filter(|name| name.len() == 1).map(|name| &name[0]);
            let modules: Vec<_> = children.map(String::as_str).collect();
            match order {
                Order::Free => {}
                Order::RootOnTop => {
                    findings.extend(graph.upward(&[&[&root_name], &modules], false));
                }
                Order::Floors(floors) => {
                    findings.extend(unplaced(&modules, floors, root));
                    let floors: Vec<_> = floors.iter().map(std::slice::from_ref).collect();
                    findings.extend(graph.upward(&floors, true));
                }
            }
            graph.0.retain(|(_, to), _| *to != root_name);
        }
        findings.extend(graph.circles());
    }
    findings
}

fn unplaced(modules: &[&str], order: &[&str], root: &Path) -> Vec<String> {
    let missing = modules.iter().filter(|module| !order.contains(module));
    let finding =
        |module| format!("{}: the module {module} is on no floor in rules.rs", root.display());
    missing.map(finding).collect()
}

/// What is wrong with the arrows between crates. `targets` are crates' names, as code writes them,
/// and root files; `floors` are all crates from top to bottom, and no crate uses one on its floor.
pub fn crate_arrows(
    sources: &Sources,
    targets: &[(String, PathBuf)],
    floors: &[&[&str]],
) -> Vec<String> {
    let mut graph = Graph::default();
    for (name, root) in targets {
        for node in Tree::read(sources, root).nodes.into_values() {
            for path in node.module.paths {
                let to = &path.segments[0];
                if to != name && targets.iter().any(|(target, _)| target == to) {
                    let place = (node.file.clone(), path.line, path.segments.join("::"));
                    graph.add(name.clone(), to.clone(), place);
                }
            }
        }
    }
    let names: BTreeSet<_> = targets.iter().map(|(name, _)| name).collect();
    let missing = names.iter().filter(|name| !floors.concat().contains(&name.as_str()));
    let mut findings: Vec<_> =
        missing.map(|name| format!("the crate {name} is on no floor in rules.rs")).collect();
    findings.extend(graph.upward(floors, true));
    findings
}

impl Graph {
    fn add(&mut self, from: String, to: String, place: Place) {
        if from != to {
            self.0.entry((from, to)).or_default().insert(place);
        }
    }

    /// Arrows that do not lead to a lower floor. Arrows within a floor are as wrong if it
    /// `is_flat`.
    fn upward(&self, floors: &[&[&str]], is_flat: bool) -> Vec<String> {
        let floor = |name: &str| floors.iter().position(|floor| floor.contains(&name));
        let is_upward = |from: &str, to: &str| match (floor(from), floor(to)) {
            (Some(from), Some(to)) => to < from || is_flat && to == from,
            _ => false,
        };
        let upward = self.0.keys().filter(|(from, to)| is_upward(from, to));
        upward.map(|arrow| format!("upward: {}", self.describe(arrow))).collect()
    }

    /// One shortest circle of each set of modules that lead to each other.
    fn circles(&self) -> Vec<String> {
        let mut done = BTreeSet::new();
        let mut findings = Vec::new();
        for start in self.0.keys().map(|(from, _)| from) {
            let reached = self.paths_from(start);
            let is_back = |from: &&String| self.paths_from(from).contains_key(start);
            let together: BTreeSet<_> = reached.keys().copied().filter(is_back).collect();
            if done.contains(start) || !together.contains(start) {
                continue;
            }
            let shortest = together.iter().filter_map(|&module| {
                self.paths_from(module).remove(module).map(|path| (path.len(), path))
            });
            let (_, circle) = shortest.min().expect("start is in a circle");
            let mut finding = format!("circle among {together:?}:");
            for pair in circle.windows(2) {
                let arrow = (pair[0].clone(), pair[1].clone());
                let _ = write!(finding, "\n  {}", self.describe(&arrow));
            }
            findings.push(finding);
            done.extend(together);
        }
        findings
    }

    /// The shortest way from `start` to each module that it leads to, with both ends.
    fn paths_from<'a>(&'a self, start: &'a String) -> BTreeMap<&'a String, Vec<&'a String>> {
        let mut paths: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
        let mut queue = VecDeque::from([vec![start]]);
        while let Some(path) = queue.pop_front() {
            let last = path[path.len() - 1];
            for (_, to) in self.0.keys().filter(|(from, _)| from == last) {
                if !paths.contains_key(to) {
                    let longer = [&path[..], &[to]].concat();
                    paths.insert(to, longer.clone());
                    queue.push_back(longer);
                }
            }
        }
        paths
    }

    fn describe(&self, arrow: &(String, String)) -> String {
        let places = &self.0[arrow];
        let mut text = format!("{} → {}", arrow.0, arrow.1);
        for (file, line, path) in places.iter().take(PLACES_MAX) {
            let _ = write!(text, "\n    {}:{line}: {path}", file.display());
        }
        if places.len() > PLACES_MAX {
            let _ = write!(text, "\n    and {} more", places.len() - PLACES_MAX);
        }
        text
    }
}

/// Violations planted in small sources are found, and what is no violation is not.
#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        files.iter().map(|&(path, text)| (PathBuf::from(path), text.to_owned())).collect()
    }

    fn findings(files: &[(&str, &str)], order: Order<'_>) -> String {
        module_arrows(&sources(files), Path::new("src/lib.rs"), order).join("\n")
    }

    /// The one finding is a circle of `a` and `b`, and names the places of its arrows.
    fn is_circle(files: &[(&str, &str)], places: &[&str]) {
        let found = findings(files, Order::RootOnTop);
        assert!(found.starts_with("circle among {\"a\", \"b\"}:"), "{found}");
        assert_eq!(found.matches("circle").count(), 1, "{found}");
        assert!(places.iter().all(|place| found.contains(place)), "{found}");
    }

    const ROOT: (&str, &str) = ("src/lib.rs", "mod a;\nmod b;\npub use b::B;");

    #[test]
    fn a_circle_is_found_with_its_lines() {
        let files = [
            ROOT,
            ("src/a.rs", "\nuse crate::b::B;"),
            ("src/b.rs", "pub struct B;\nfn f() {\n    crate::a::g()\n}"),
        ];
        is_circle(&files, &["a → b\n    src/a.rs:2: crate::b::B", "src/b.rs:3: crate::a::g"]);
    }

    #[test]
    fn no_circle_is_found_where_there_is_none() {
        let files = [
            ROOT,
            ("src/a.rs", "use crate::b::B;\nmod inner;"),
            ("src/a/inner.rs", "use super::*;\nuse crate::a::X;\nuse crate::b::C;"),
            (
                "src/b.rs",
                "// use crate::a\npub struct B;\n#[cfg(test)]\nmod t { use crate::a::X; }",
            ),
        ];
        assert_eq!(findings(&files, Order::RootOnTop), "");
    }

    #[test]
    fn a_circle_through_super_super_is_found() {
        let files = [
            ROOT,
            ("src/a/mod.rs", "use crate::b::inner::C;\npub struct A;"),
            ("src/b.rs", "pub mod inner;\npub struct B;"),
            ("src/b/inner.rs", "fn f(x: super::super::a::A) {}\npub struct C;"),
        ];
        is_circle(&files, &["src/b/inner.rs:1: super::super::a::A"]);
    }

    #[test]
    fn a_circle_through_a_group_is_found() {
        let files = [
            ("src/lib.rs", "mod a;\nmod b;\nmod c {}"),
            ("src/a.rs", "pub struct A;\nuse crate::b::B;"),
            (
                "src/b.rs",
                "use std::{fs, io};\nuse crate::{\n    c,\n    a::{self, A},\n};\npub struct B;",
            ),
        ];
        is_circle(&files, &["src/b.rs:4: crate::a\n", "src/b.rs:4: crate::a::A"]);
    }

    #[test]
    fn a_circle_through_pub_use_is_found() {
        let files = [
            ROOT,
            ("src/a.rs", "pub struct A;\nfn f() -> crate::b::B {}"),
            ("src/b.rs", "pub use crate::a::A;\npub struct B;"),
        ];
        is_circle(&files, &["src/b.rs:1: crate::a::A"]);
    }

    #[test]
    fn names_that_the_root_re_exports_lead_to_where_they_are_defined() {
        let files = [
            ROOT,
            ("src/a.rs", "pub struct A;\nuse crate::B;"),
            ("src/b.rs", "use super::a;\npub struct B;"),
        ];
        is_circle(&files, &["a → b\n    src/a.rs:2: crate::B", "src/b.rs:1: super::a"]);
        let by_glob = [("src/lib.rs", "mod a;\nmod b;\npub use b::*;"), files[1], files[2]];
        is_circle(&by_glob, &["src/a.rs:2: crate::B"]);
    }

    #[test]
    fn a_circle_deeper_down_is_found() {
        let files = [
            ("src/lib.rs", "mod c;"),
            ("src/c/mod.rs", "mod a;\nmod b { use super::a::A; pub struct B; }"),
            ("src/c/a.rs", "pub struct A;\nuse super::b::B;"),
        ];
        is_circle(&files, &["src/c/mod.rs:2: super::a::A"]);
    }

    #[test]
    fn nothing_uses_the_root() {
        let files = [("src/lib.rs", "mod a;\npub struct X;"), ("src/a.rs", "use crate::X;")];
        assert_eq!(findings(&files, Order::RootOnTop), "upward: a → lib\n    src/a.rs:1: crate::X");
        assert_eq!(
            findings(&files, Order::Floors(&["lib", "a"])),
            findings(&files, Order::RootOnTop)
        );
        assert_eq!(findings(&files, Order::Free), "");
    }

    #[test]
    fn an_upward_arrow_is_found_where_modules_have_an_order() {
        let files =
            [ROOT, ("src/a.rs", "pub struct A;"), ("src/b.rs", "use crate::a;\npub struct B;")];
        assert_eq!(findings(&files, Order::Floors(&["lib", "b", "a"])), "");
        let found = findings(&files, Order::Floors(&["lib", "a", "b"]));
        assert_eq!(found, "upward: b → a\n    src/b.rs:1: crate::a");
        let found = findings(&files, Order::Floors(&["lib", "b"]));
        assert_eq!(found, "src/lib.rs: the module a is on no floor in rules.rs");
    }

    #[test]
    fn an_upward_arrow_between_crates_is_found() {
        let sources = sources(&[
            ("up/src/lib.rs", "use down::X;\nfn f() { beside::g() }"),
            ("beside/src/lib.rs", "mod a;"),
            ("beside/src/a.rs", "use down;\npub use up::Y;"),
            ("down/src/lib.rs", "use std::io;\n#[cfg(test)]\nmod tests { use up::Z; }"),
        ]);
        let target = |name: &str| (name.to_owned(), PathBuf::from(format!("{name}/src/lib.rs")));
        let targets = ["up", "beside", "down"].map(target);
        let found = crate_arrows(&sources, &targets, &[&["up", "beside"], &["down"]]).join("\n");
        let expected = [
            "upward: beside → up\n    beside/src/a.rs:2: up::Y",
            "upward: up → beside\n    up/src/lib.rs:2: beside::g",
        ];
        assert_eq!(found, expected.join("\n"));
        let found = crate_arrows(&sources, &targets, &[&["up"], &["beside"]]).join("\n");
        assert!(found.starts_with("the crate down is on no floor"), "{found}");
    }
}
