//! Keeps docs/SEMANTICS.md and the tests together: every promise has exactly one test that quotes
//! it.

use std::collections::BTreeMap;
use std::path::Path;

/// Promises by id: lines that begin with `**P-`, up to the next empty line, as one line of words.
fn promises(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for paragraph in text.split("\n\n") {
        let words = paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some((id, _)) = words.strip_prefix("**P-").and_then(|rest| rest.split_once("**")) {
            found.push((format!("P-{id}"), words));
        }
    }
    found
}

/// The doc comments of all tests in a source file, as paragraphs.
fn test_comments(source: &str) -> String {
    let mut paragraphs = String::new();
    let mut comment = String::new();
    for line in source.lines().map(str::trim_start) {
        if let Some(text) = line.strip_prefix("///") {
            comment += &format!("{}\n", text.trim());
        } else {
            if line.starts_with("#[test]") {
                paragraphs += &format!("{comment}\n\n");
            }
            comment.clear();
        }
    }
    paragraphs
}

fn sources(dir: &Path, all: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") {
            *all += &test_comments(&std::fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn every_promise_is_proved_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(root.join("../../docs/SEMANTICS.md")).unwrap();
    let mut comments = String::new();
    sources(&root.join("tests"), &mut comments);

    let promised: BTreeMap<_, _> = promises(&document).into_iter().collect();
    assert_eq!(promised.len(), promises(&document).len(), "an id is used twice in the document");
    assert!(promised.len() >= 30, "the document lost its promises");
    let quoted = promises(&comments);
    for (id, text) in &quoted {
        assert_eq!(Some(text), promised.get(id), "the quotation of {id} differs from the document");
    }
    for id in promised.keys() {
        let tests = quoted.iter().filter(|(quoted, _)| quoted == id).count();
        assert_eq!(tests, 1, "{id} must be quoted by exactly one test");
    }
}

#[test]
fn quotations_are_found() {
    let source = "/// **P-99** One\n/// two.\n///\n/// More.\n#[test]\nfn a() {}\n/// **P-98** \
                  no test\nfn b() {}\n";
    assert_eq!(promises(&test_comments(source)), [("P-99".into(), "**P-99** One two.".into())]);
}
