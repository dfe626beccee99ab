//! Finds the crates of the workspace and the files of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Texts of files by their paths.
pub type Sources = BTreeMap<PathBuf, String>;

/// What of a crate cargo builds on its own: a library, a program, a test, an example.
#[derive(Debug)]
pub struct Target {
    /// The crate, as its manifest says.
    pub package: String,
    /// Its root file, from the root of the repository.
    pub root: PathBuf,
}

impl Target {
    /// Whether it is part of what the crate offers. Tests and examples are not, and may reach up.
    pub fn is_product(&self) -> bool {
        self.root.components().any(|part| part.as_os_str() == "src")
    }

    /// The crate, as code writes it.
    pub fn crate_name(&self) -> String {
        self.package.replace('-', "_")
    }
}

/// The root of the repository.
pub fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("this crate is in proof/")
}

/// All files with one of these endings, from the root of the repository. The results of a build and
/// git's own files are left out.
pub fn files(endings: &[&str]) -> Sources {
    let mut found = Sources::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        let entries = fs::read_dir(root().join(&dir)).expect("a directory of the repository");
        for entry in entries {
            let entry = entry.expect("an entry of a directory");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = dir.join(&name);
            if entry.file_type().expect("its type").is_dir() {
                if name != "target" && !name.starts_with('.') {
                    dirs.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let text = fs::read_to_string(root().join(&path)).expect("text");
                found.insert(path, text);
            }
        }
    }
    found
}

/// All targets of crates in `crates/` and `proof/`.
pub fn targets(sources: &Sources) -> Vec<Target> {
    let manifests = files(&["Cargo.toml"]);
    let mut targets = Vec::new();
    for (manifest, text) in manifests.iter().filter(|(_, text)| text.contains("[package]")) {
        let name = text.lines().find_map(|line| line.strip_prefix("name = "));
        let package = name.expect("a name").trim_matches('"').to_owned();
        let dir = manifest.parent().expect("the crate's directory");
        let roots = sources.keys().filter(|path| path.strip_prefix(dir).is_ok_and(is_root));
        targets.extend(roots.map(|root| Target { package: package.clone(), root: root.clone() }));
    }
    targets
}

/// Whether cargo takes a file of a crate for the root of a target.
fn is_root(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap_or_default()).collect();
    matches!(
        parts[..],
        ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["tests" | "examples" | "benches" | "fuzz_targets", _]
            | ["tests" | "examples", _, "main.rs"]
    )
}
