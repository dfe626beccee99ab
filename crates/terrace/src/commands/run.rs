//! `terrace run`: the program takes the place of this process, so its status, signals and process
//! number are its own.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::cli::run::RunArgs;
use crate::exit::{NOT_EXECUTABLE, NOT_FOUND, Usage};
use crate::output::{self, quoted, remark};
use crate::program;

/// What is preloaded.
const LIBRARY: &str = "libterrace_preload.so";

/// Runs a program with the library.
pub fn run(args: &RunArgs, quiet: bool) -> Result<ExitCode> {
    let [name, rest @ ..] = args.command.as_slice() else {
        return Err(Usage::error("the program is missing".to_owned()));
    };
    let mut command = Command::new(name);
    command.args(rest).env("LD_PRELOAD", preloaded(&library()?, env::var_os("LD_PRELOAD")));
    for (variable, patterns) in [("TERRACE_DIRECT", &args.only), ("TERRACE_DIRECT_NOT", &args.not)]
    {
        if !patterns.is_empty() {
            command.env(variable, list(patterns)?);
        }
    }
    if let Some(report) = &args.report {
        match report {
            // The program may change its directory.
            Some(file) => command.env("TERRACE_REPORT", std::path::absolute(file)?),
            None => command.env("TERRACE_REPORT", "1"),
        };
    }
    if let Some(why) = program::find(name).and_then(|path| program::stays_on_the_mount(&path)) {
        let name = quoted(&name.to_string_lossy());
        remark(quiet, &format!("terrace: {name} {why}: its files stay on the mount"));
    }
    Ok(failed(name, &command.exec()))
}

/// Says why the program does not run, as a shell would.
fn failed(name: &OsStr, error: &io::Error) -> ExitCode {
    let name = quoted(&name.to_string_lossy());
    if error.kind() == io::ErrorKind::NotFound {
        output::error(&format!("{name}: there is no such program, or its interpreter is missing"));
        return ExitCode::from(NOT_FOUND);
    }
    output::error(&format!("{name} cannot be run: {error}"));
    ExitCode::from(NOT_EXECUTABLE)
}

/// Where the library is: beside this program, or where packages put it.
fn library() -> Result<PathBuf> {
    let program = env::current_exe().context("cannot find where this program is")?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let places = [directory.join(LIBRARY), directory.join("../lib/terrace").join(LIBRARY)];
    let Some(found) = places.iter().find(|place| place.is_file()) else {
        let [beside, packaged] = places.map(|place| quoted(&place.to_string_lossy()));
        bail!("the library is missing: it is neither {beside} nor {packaged}; install it again");
    };
    let found = found.canonicalize()?;
    if found.as_os_str().as_bytes().iter().any(|byte| b" :\t\n".contains(byte)) {
        let found = quoted(&found.to_string_lossy());
        bail!("{found}: the loader takes no library whose path has a space or a colon; move it");
    }
    Ok(found)
}

/// The library, before what is preloaded anyway.
fn preloaded(library: &Path, others: Option<OsString>) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// Patterns as one variable.
fn list(patterns: &[OsString]) -> Result<OsString> {
    if let Some(wrong) = patterns.iter().find(|pattern| pattern.as_bytes().contains(&b':')) {
        return Err(Usage::error(format!(
            "{}: a pattern has no colon; ? stands for any character",
            quoted(&wrong.to_string_lossy())
        )));
    }
    Ok(patterns.join(OsStr::new(":")))
}
