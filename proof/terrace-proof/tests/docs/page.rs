//! What a page of the docs tells its readers to type.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// The repository that this test was built in.
pub fn repository() -> Result<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().context("the repository")
}

/// The text of a page, named by its path in the repository.
///
/// # Errors
/// If it cannot be read.
pub fn text(page: &str) -> Result<String> {
    std::fs::read_to_string(repository()?.join(page)).with_context(|| page.to_owned())
}

/// All pages about the whole and about Terrace FS.
///
/// # Errors
/// If the folder of docs cannot be read.
pub fn pages() -> Result<Vec<String>> {
    let at_root = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    let mut pages = at_root.map(str::to_owned).to_vec();
    for entry in repository()?.join("docs").read_dir()? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    Ok(pages)
}

/// The contents of all blocks in one of `languages`; "" is a block without one.
pub fn blocks(text: &str, languages: &[&str]) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        match (fence, line.trim().strip_prefix("```")) {
            (None, Some(language)) => {
                fence = Some(language);
                if languages.contains(&language) {
                    blocks.push(String::new());
                }
            }
            (Some(_), Some(_)) => fence = None,
            (Some(language), None) if languages.contains(&language) => {
                blocks.last_mut().expect("pushed at the fence").extend([line, "\n"]);
            }
            _ => {}
        }
    }
    blocks
}

/// The lines of all blocks of shell commands, and of blocks without a language, without comments
/// and blank lines.
pub fn commands(text: &str) -> Vec<String> {
    let blocks = blocks(text, &["sh", ""]);
    let lines = blocks.iter().flat_map(|block| block.lines()).map(without_comment);
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// What links of a text lead to: `[text](target)`, blocks left out.
pub fn links(text: &str) -> Vec<String> {
    let text = outside_of_blocks(text);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// Code within lines of text, from one backtick to the next, blocks left out.
pub fn spans(text: &str) -> Vec<String> {
    outside_of_blocks(text).split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The lines of a text that are in no block, joined by spaces.
fn outside_of_blocks(text: &str) -> String {
    let mut in_block = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim().starts_with("```");
        in_block ^= fence;
        !fence && !in_block
    });
    outside.collect::<Vec<_>>().join(" ")
}

/// A comment begins at the line's start or behind white space, as in the shell; no command of the
/// docs has a `#` in quotes.
fn without_comment(line: &str) -> &str {
    let end = if line.starts_with('#') { Some(0) } else { line.find(" #") };
    line[..end.unwrap_or(line.len())].trim_end()
}

#[test]
fn blocks_spans_and_comments_are_told_apart() {
    let page = "a `span\nof two` lines\n```sh\n# no\nls -l  # no\n\n```\n```java\nint \
                no;\n```\n```\nplain\n```\n`b`";
    assert_eq!(commands(page), ["ls -l", "plain"]);
    assert_eq!(spans(page), ["span of two", "b"]);
    assert_eq!(blocks(page, &["java"]), ["int no;\n"]);
    assert_eq!(links("an [a](b.md#c) and\n```\n[no](no)\n```\n[d\ne](f)"), ["b.md#c", "f"]);
}
