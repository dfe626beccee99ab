//! `terrace why`

use std::fs;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;
use terrace_fuse::control;

use super::failures::Failures;
use crate::cli::WhyArgs;
use crate::{output, report};

/// Prints why files' data lies where it does, and what would move it.
///
/// # Errors
/// Standard output fails, or the daemon is of a version that answers otherwise.
pub fn run(args: &WhyArgs) -> Result<ExitCode> {
    let (mut failures, mut answers) = (Failures::default(), Vec::<Value>::new());
    for path in &args.files {
        let Some(mut why) = failures.unless(control::file_why(path)) else {
            continue;
        };
        if args.json {
            why.insert("path".to_owned(), path.to_string_lossy().into());
            answers.push(why.into());
        } else {
            let target = path.is_symlink().then(|| fs::canonicalize(path)).transpose()?;
            let why = serde_json::from_value(why.into())?;
            output::print(&report::file_why(path, target.as_deref(), &why))?;
        }
    }
    if !answers.is_empty() {
        output::print_json(&answers)?;
    }
    Ok(failures.exit_code())
}
