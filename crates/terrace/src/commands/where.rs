//! `terrace where`

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;
use terrace_fuse::control;

use super::failures::Failures;
use crate::cli::WhereArgs;
use crate::{output, report};

/// Prints where files are.
///
/// # Errors
/// Standard output fails, or the daemon is of a version that answers otherwise.
pub fn run(args: &WhereArgs) -> Result<ExitCode> {
    let (mut failures, mut maps) = (Failures::default(), Vec::with_capacity(args.files.len()));
    for path in &args.files {
        let Some(map) = failures.unless(map_of(path)) else {
            continue;
        };
        if args.json {
            maps.push(map);
        } else {
            output::print(&report::file_map(path, &serde_json::from_value(map)?))?;
        }
    }
    if !maps.is_empty() {
        output::print_json(&maps)?;
    }
    Ok(failures.exit_code())
}

/// A file's map as the daemon answers it, and which file it is.
fn map_of(path: &Path) -> Result<Value> {
    let no_map = || format!("{}: the daemon answered no map", path.display());
    let mut map: Value = serde_json::from_str(&control::file_map(path)?).with_context(no_map)?;
    let object = map.as_object_mut().with_context(no_map)?;
    object.insert("path".to_owned(), path.to_string_lossy().into());
    Ok(map)
}
