//! `terrace where`

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::cli::WhereArgs;
use crate::{output, report};

/// Prints where files are.
pub fn run(args: &WhereArgs) -> Result<()> {
    let mut maps = Vec::with_capacity(args.files.len());
    for path in &args.files {
        let json = terrace_fuse::control::file_map(path)?;
        if args.json {
            maps.push(with_path(path, &json)?);
        } else {
            output::print(&report::file_map(path, &serde_json::from_str(&json)?))?;
        }
    }
    if args.json { output::print_json(&maps) } else { Ok(()) }
}

/// A file's map, and which file it is.
fn with_path(path: &Path, json: &str) -> Result<Value> {
    let mut map: Value = serde_json::from_str(json)?;
    let object = map.as_object_mut().with_context(|| format!("{}: the daemon answered no map", path.display()))?;
    object.insert("path".to_owned(), path.to_string_lossy().into());
    Ok(map)
}
