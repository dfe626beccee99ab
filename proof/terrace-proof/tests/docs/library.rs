//! docs/LIBRARY.md: its code is quoted from the examples, which a test of the engine runs.

use crate::page::{blocks, commands, text};
use anyhow::{Context, Result, ensure};
use terrace_proof::proof;

const PAGE: &str = "docs/LIBRARY.md";
const EXAMPLES: &[&str] = &["files", "tiers"];

#[test]
fn the_commands_name_the_examples_that_are_tested() {
    proof(|| -> Result<()> {
        let run = |name: &&str| format!("cargo run --package terrace-engine --example {name}");
        let expected: Vec<String> = EXAMPLES.iter().map(run).collect();
        ensure!(commands(&text(PAGE)?) == expected, "{PAGE} does not run {EXAMPLES:?}");
        let tests = text("crates/terrace-engine/tests/examples.rs")?;
        for name in EXAMPLES {
            ensure!(tests.contains(&format!("{name}::main().unwrap();")), "no test runs {name}");
        }
        Ok(())
    });
}

#[test]
fn the_code_is_that_of_the_examples() {
    proof(|| -> Result<()> {
        let trimmed = |code: &str| code.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        let examples: Vec<String> = EXAMPLES
            .iter()
            .map(|name| text(&format!("crates/terrace-engine/examples/{name}.rs")))
            .map(|text| text.map(|text| trimmed(&text)))
            .collect::<Result<_>>()?;
        let quoted = blocks(&text(PAGE)?, &["rust"]);
        ensure!(quoted.len() >= 3, "{PAGE} has {} blocks of Rust", quoted.len());
        for block in quoted {
            let block = trimmed(&block);
            let known = examples.iter().any(|example| example.contains(&block));
            known.then_some(()).with_context(|| format!("in no example:\n{block}"))?;
        }
        Ok(())
    });
}
