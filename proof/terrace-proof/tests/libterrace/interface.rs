//! The header, the manual page, the file for pkg-config and the library name the same things.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use terrace_proof::{proof, run, tool};

use crate::program::{Library, source};

fn text(path: &str) -> Result<String> {
    std::fs::read_to_string(source(path)).with_context(|| path.to_owned())
}

/// Names of functions that are declared in these lines: `terrace_` and what follows, up to a
/// parenthesis.
fn declared<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let name = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let at = before.rfind("terrace_")?;
        Some(before[at..].to_owned())
    };
    lines.filter_map(name).collect()
}

#[test]
fn header_library_and_manual_have_the_same_functions() {
    proof(|| -> Result<()> {
        let library = Library::new()?;
        let header = text("crates/terrace-c/include/terrace.h")?;
        let in_header = declared(header.lines().filter(|line| line.ends_with(");")));
        ensure!(in_header.len() > 5, "the header has {in_header:?}");
        let shared = library.directory().join("libterrace.so");
        let mut symbols = Command::new(tool("nm")?);
        let symbols = run(symbols.args(["-D", "--defined-only"]).arg(&shared))?;
        let exported: BTreeSet<String> =
            symbols.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect();
        ensure!(in_header == exported, "header: {in_header:?}\nlibrary: {exported:?}");
        let manual = text("crates/terrace-c/man/libterrace.3")?;
        let in_manual = declared(manual.lines().filter(|line| line.starts_with(".BI ")));
        ensure!(in_header == in_manual, "header: {in_header:?}\nmanual: {in_manual:?}");
        let (_, names) = manual.split_once(".SH NAME\nlibterrace, ").context("no names")?;
        let (names, _) = names.split_once(" \\- ").context("no end of the names")?;
        let names: BTreeSet<String> =
            names.split([',', '\n', ' ']).filter(|n| !n.is_empty()).map(str::to_owned).collect();
        ensure!(in_header == names, "header: {in_header:?}\nnames: {names:?}");
        let mut dynamic = Command::new(tool("readelf")?);
        let dynamic = run(dynamic.arg("-d").arg(&shared))?;
        ensure!(dynamic.contains("Library soname: [libterrace.so.0]"), "{dynamic}");
        Ok(())
    });
}

/// Flags that the header and the manual list are those that are taken.
#[test]
fn header_and_manual_have_the_same_flags() {
    proof(|| -> Result<()> {
        let flags = |text: &str| -> BTreeSet<String> {
            let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            words.filter(|word| word.starts_with("O_")).map(str::to_owned).collect()
        };
        let part = |path: &str, from: &str, to: &str| -> Result<BTreeSet<String>> {
            let text = text(path)?;
            let (_, rest) = text.split_once(from).with_context(|| format!("{path}: {from}"))?;
            Ok(flags(rest.split_once(to).with_context(|| format!("{path}: {to}"))?.0))
        };
        let access = ["O_RDONLY", "O_WRONLY", "O_RDWR"].map(str::to_owned);
        let mut taken = part("crates/terrace-direct/src/handle.rs", "const FLAGS: i32", ";")?;
        taken.extend(access);
        let header = part("crates/terrace-c/include/terrace.h", "flags are", "Others")?;
        let manual = part("crates/terrace-c/man/libterrace.3", "takes the flags", "no others")?;
        ensure!(taken == header, "taken: {taken:?}\nheader: {header:?}");
        ensure!(taken == manual, "taken: {taken:?}\nmanual: {manual:?}");
        Ok(())
    });
}

#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    proof(|| -> Result<()> {
        let include = source("crates/terrace-c/include");
        let header = include.join("terrace.h");
        for (compiler, language, standard) in [
            ("cc", "c", "c11"),
            ("cc", "c", "c17"),
            ("c++", "c++", "c++11"),
            ("c++", "c++", "c++20"),
        ] {
            let mut command = Command::new(tool(compiler)?);
            command.args(["-x", language, &format!("-std={standard}"), "-fsyntax-only"]);
            command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-include"]).arg(&header);
            run(command.arg(Path::new("/dev/null"))).context(standard)?;
        }
        Ok(())
    });
}
