//! Commands within the text of the docs exist, with their options.

use crate::page::{pages, spans, text};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::process::Command;
use terrace_proof::{proof, run, terrace_binary};

#[test]
fn commands_within_the_text_exist_with_their_options() {
    proof(|| -> Result<()> {
        let mut checked = 0;
        for page in pages()? {
            for span in spans(&text(&page)?) {
                checked += usize::from(check(&span).with_context(|| format!("{page}: `{span}`"))?);
            }
        }
        ensure!(checked > 50, "only {checked} commands were found");
        Ok(())
    });
}

/// Whether it is a command at all.
fn check(span: &str) -> Result<bool> {
    let words: Vec<&str> = span.split_whitespace().collect();
    match words.as_slice() {
        ["terrace", rest @ ..] if !rest.is_empty() => check_terrace(rest).map(|()| true),
        ["make", targets @ ..] if !targets.is_empty() => check_make(targets).map(|()| true),
        _ => Ok(false),
    }
}

fn check_terrace(words: &[&str]) -> Result<()> {
    let names: Vec<&str> = words
        .iter()
        .copied()
        .take_while(|word| word.chars().all(|c| c.is_ascii_lowercase()))
        .collect();
    // `terrace device remove`: as many words as are names of subcommands; what follows are
    // arguments.
    let help = (0..=names.len().min(2))
        .rev()
        .find_map(|count| {
            run(Command::new(terrace_binary().ok()?).args(&names[..count]).arg("--help")).ok()
        })
        .context("no such command")?;
    if let Some(first) = names.first() {
        run(Command::new(terrace_binary()?).arg(first).arg("--help")).context("no such command")?;
    }
    let options: BTreeSet<&str> =
        words.iter().copied().filter(|word| word.starts_with("--")).collect();
    for option in options {
        let name = option.split('=').next().unwrap_or(option);
        let all = help.split(|c: char| c.is_whitespace() || "=[],".contains(c));
        ensure!(
            name == "--help" || all.clone().any(|word| word == name),
            "no option {name} in\n{help}"
        );
    }
    Ok(())
}

pub fn check_make(words: &[&str]) -> Result<()> {
    let makefile = text("Makefile")?;
    // `make bench ARGS='…'`: targets come first, and what is set ends them.
    for target in words.iter().take_while(|word| !word.contains('=')) {
        let rule = format!("\n{target}:");
        ensure!(makefile.contains(&rule), "the Makefile has no target {target}");
    }
    Ok(())
}
