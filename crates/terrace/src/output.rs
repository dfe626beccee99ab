//! Standard output and remarks. A reader that has read enough (`terrace status | head -1`) is no error.

use std::io::{self, Write};

use anyhow::{Context, Result};
use serde::Serialize;

/// Writes text to standard output.
///
/// # Errors
/// Standard output fails, other than because its reader is gone.
pub fn print(text: &str) -> Result<()> {
    offer(text).map(drop)
}

/// Writes text to standard output; false if its reader is gone.
///
/// # Errors
/// As [`print()`].
pub fn offer(text: &str) -> Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        result => result.context("cannot write to standard output").map(|()| true),
    }
}

/// Writes a value as JSON to standard output.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}

/// Tells the user something that is neither a result nor an error, unless asked to be quiet.
pub fn remark(quiet: bool, text: &str) {
    if !quiet {
        // There is nobody to tell if standard error is gone.
        let _ = writeln!(io::stderr(), "{text}");
    }
}
