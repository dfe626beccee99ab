//! CONTRIBUTING.md: the commands of the first hour name what there is. `make test` runs most of
//! them itself.

use crate::inline::check_make;
use crate::page::{commands, repository, text};
use anyhow::{Context, Result, bail, ensure};
use terrace_proof::proof;

#[test]
fn the_commands_name_targets_scripts_crates_and_tests() {
    proof(|| -> Result<()> {
        let commands = commands(&text("CONTRIBUTING.md")?);
        ensure!(commands.len() >= 5, "only {} commands", commands.len());
        for command in commands {
            check(&command).with_context(|| command.clone())?;
        }
        Ok(())
    });
}

fn check(command: &str) -> Result<()> {
    let words: Vec<&str> = command.split_whitespace().collect();
    match words.as_slice() {
        ["make", targets @ ..] => check_make(targets),
        ["cargo", "test", options @ ..] => check_test(options),
        [script, _] if script.starts_with("scripts/") => text(script).map(drop),
        _ => bail!("nothing checks this command"),
    }
}

/// `--package CRATE`, and `--test NAME` of it.
fn check_test(options: &[&str]) -> Result<()> {
    let value = |name: &str| {
        let at = options.iter().position(|&option| option == name)?;
        options.get(at + 1).copied()
    };
    let package = value("--package").context("no package")?;
    let folders = ["crates", "proof"].map(|folder| format!("{folder}/{package}"));
    let mut folder = None;
    for candidate in folders {
        if repository()?.join(&candidate).is_dir() {
            folder = Some(repository()?.join(candidate));
        }
    }
    let tests = folder.with_context(|| format!("no crate {package}"))?.join("tests");
    value("--test").map_or(Ok(()), |name| {
        let exists =
            tests.join(format!("{name}.rs")).exists() || tests.join(name).join("main.rs").exists();
        ensure!(exists, "{package} has no test {name}");
        Ok(())
    })
}
