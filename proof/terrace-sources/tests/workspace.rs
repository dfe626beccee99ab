//! The sources of this workspace keep the rules.

use std::path::Path;

use terrace_sources::files::{files, targets};
use terrace_sources::{Order, crate_arrows, lines, messages, module_arrows, rules};

#[track_caller]
fn assert_none(findings: &[String], rule: &str) {
    assert!(findings.is_empty(), "{rule}\n\n{}\n", findings.join("\n"));
}

#[test]
fn crates_use_lower_crates_only() {
    let sources = files(&[".rs"]);
    let targets = targets(&sources);
    assert!(targets.len() > 60, "{} targets", targets.len());
    let products = targets.into_iter().filter(|target| target.is_product());
    let roots: Vec<_> = products.map(|target| (target.crate_name(), target.root)).collect();
    let findings = crate_arrows(&sources, &roots, rules::CRATES);
    assert_none(&findings, "A crate uses lower ones only: move what is shared down.");
}

#[test]
fn modules_use_lower_modules_only() {
    let sources = files(&[".rs"]);
    let mut findings = Vec::new();
    for target in targets(&sources) {
        let floors = rules::MODULES.iter().find(|(package, _)| *package == target.package);
        let order = match floors {
            _ if !target.is_product() => Order::Free,
            None => Order::RootOnTop,
            Some((_, floors)) => Order::Floors(floors),
        };
        findings.extend(module_arrows(&sources, &target.root, order));
    }
    assert_none(&findings, "Arrows between modules point down: move what is shared down.");
}

#[test]
fn lines_are_short() {
    let files = files(&[".rs", ".md", ".sh", "Makefile", "Cargo.toml"]);
    let mut findings = Vec::new();
    for (path, text) in files {
        findings.extend(lines::too_wide(&path, &text));
    }
    assert_none(&findings, "Lines are too wide.");
}

#[test]
fn modules_are_short() {
    let files = files(&[".rs"]);
    let findings: Vec<_> =
        files.iter().filter_map(|(path, text)| lines::too_long(path, text)).collect();
    let rule = "Modules are too long: split them, or give a reason at the top of one.";
    assert_none(&findings, &format!("{rule} It begins with {:?}.", lines::REASON));
}

#[test]
fn nothing_reads_its_own_messages() {
    let mut sources = files(&[".rs"]);
    // Modules of tests are files of their own in some places.
    let has_part = |path: &Path, name: &str| path.iter().any(|part| part == name);
    sources.retain(|path, _| {
        let is_test = has_part(path, "tests") || has_part(path, "tests.rs");
        path.starts_with("crates") && has_part(path, "src") && !is_test
    });
    assert!(sources.len() > 200, "{} files", sources.len());
    let mut findings = Vec::new();
    for (path, text) in &sources {
        findings.extend(messages::read_back(path, text));
    }
    assert_none(&findings, "Messages are for people: code asks for the type of an error.");
}
