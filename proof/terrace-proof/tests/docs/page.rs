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

/// The lines of all blocks of shell commands, and of blocks without a language, without comments
/// and blank lines.
pub fn commands(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        match (fence, line.trim().strip_prefix("```")) {
            (None, Some(language)) => fence = Some(language),
            (Some(_), Some(_)) => fence = None,
            (Some("sh" | ""), None) if !without_comment(line).is_empty() => {
                commands.push(without_comment(line).to_owned());
            }
            _ => {}
        }
    }
    commands
}

/// Code within lines of text, from one backtick to the next, blocks left out.
pub fn spans(text: &str) -> Vec<String> {
    let mut in_block = false;
    let outside = text.lines().filter(|line| {
        let fence = line.trim().starts_with("```");
        in_block ^= fence;
        !fence && !in_block
    });
    let joined = outside.collect::<Vec<_>>().join(" ");
    joined.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// A comment begins at the line's start or behind white space, as in the shell; no command of the
/// docs has a `#` in quotes.
fn without_comment(line: &str) -> &str {
    let end = if line.starts_with('#') { Some(0) } else { line.find(" #") };
    line[..end.unwrap_or(line.len())].trim_end()
}

#[test]
fn blocks_spans_and_comments_are_told_apart() {
    let page = "a `span\nof two` lines\n```sh\n# no\nls -l  # no\n\n```\n```java\nint no;\n```\n```\nplain\n```\n`b`";
    assert_eq!(commands(page), ["ls -l", "plain"]);
    assert_eq!(spans(page), ["span of two", "b"]);
}
