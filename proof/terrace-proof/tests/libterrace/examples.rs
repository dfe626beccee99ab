//! The examples, in each language.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use terrace_proof::{Scratch, TestVolume, proof, run, tool};

use crate::program::{Library, source, volume};

const RECORDS: u64 = 2000;

/// Runs an example on a file of a mount that lends files, then on one of another file system.
fn example(volume: &TestVolume, command: impl Fn() -> Result<Command>) -> Result<()> {
    let file = volume.join("log");
    for round in 1..=2 {
        let printed = run(command()?.arg(&file).arg(RECORDS.to_string()))?;
        let direct =
            printed.split(" calls went direct, ").next().and_then(|text| text.lines().last());
        let direct: u64 = direct.context("no number")?.parse()?;
        // Nobody else has the file, so all calls may go direct: an append, a sync and a read each.
        ensure!(direct >= 3 * RECORDS * 9 / 10 || !volume.is_mount(), "{printed}");
        check(&file, round)?;
    }
    std::fs::remove_file(&file)?;
    let scratch = Scratch::new("libterrace-elsewhere")?;
    let elsewhere = scratch.join("log");
    let printed = run(command()?.arg(&elsewhere).arg("100"))?;
    ensure!(printed.contains("\n0 calls went direct, "), "{printed}");
    ensure!(printed.contains("(not on a mount that lends files)"), "{printed}");
    let missing = scratch.join("missing/log");
    let error = run(command()?.arg(&missing).arg("1")).err().context("no error")?;
    let error = format!("{error:#}");
    let named = error.contains(&format!("{}: open: No such file", missing.display()));
    ensure!(named, "{error}");
    Ok(())
}

fn check(log: &Path, rounds: u64) -> Result<()> {
    let text = std::fs::read_to_string(log)?;
    let expected = (0..rounds).flat_map(|_| 0..RECORDS).map(|i| format!("record {i} "));
    ensure!(text.len() as u64 == 64 * rounds * RECORDS, "{} bytes", text.len());
    for (line, expected) in text.lines().zip(expected) {
        ensure!(line.starts_with(&expected), "{line} instead of {expected}");
    }
    Ok(())
}

#[test]
fn the_example_in_c_goes_direct() {
    proof(|| {
        let mut volume = volume("libterrace-c")?;
        let library = Library::new()?;
        let log = source("crates/terrace-c/examples/log.c");
        for arguments in [
            &["-std=c11", "-D_POSIX_C_SOURCE=200809L"][..],
            &["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-static"],
            &["-x", "c++", "-std=c++11"],
        ] {
            let compiler = if arguments[0] == "-x" { "c++" } else { "cc" };
            let program = library.compile(compiler, &log, arguments)?;
            example(&volume, || Ok(library.command(&program)))?;
        }
        volume.check()
    });
}

/// The daemon tells borrowers apart by their processes, and there the other library borrows.
#[test]
fn under_terrace_run_the_library_takes_the_mount() {
    proof(|| {
        let mut volume = volume("libterrace-run")?;
        let library = Library::new()?;
        let log = source("crates/terrace-c/examples/log.c");
        let program = library.compile("cc", &log, &[])?;
        let mut command = volume.terrace("run")?;
        command.arg("--").arg(program).arg(volume.join("log")).arg(RECORDS.to_string());
        let printed = run(command.env("LD_LIBRARY_PATH", library.directory()))?;
        ensure!(printed.contains("\n0 calls went direct, "), "{printed}");
        ensure!(printed.contains("(under terrace run)"), "{printed}");
        check(&volume.join("log"), 1)?;
        volume.check()
    });
}

#[test]
fn the_example_in_python_goes_direct() {
    proof(|| {
        let mut volume = volume("libterrace-python")?;
        let library = Library::new()?;
        let python = tool("python3")?;
        example(&volume, || {
            let mut command = library.command(&python);
            command.arg(source("crates/terrace-c/examples/log.py"));
            Ok(command)
        })?;
        volume.check()
    });
}

#[test]
fn the_example_in_rust_goes_direct() {
    proof(|| {
        let mut volume = volume("libterrace-rust")?;
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--locked", "--package", "terrace-direct"]);
        run(build.args(["--example", "log"]).current_dir(source(".")))?;
        let test = std::env::current_exe()?;
        // target/PROFILE/deps
        let target = test.ancestors().nth(3).context("no directory of the build")?;
        let program = target.join("debug/examples/log");
        example(&volume, || Ok(Command::new(&program)))?;
        volume.check()
    });
}
