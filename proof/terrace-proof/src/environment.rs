//! Numbers that a user may set.

use anyhow::{Context, Result};

/// The number in an environment variable, or `default` if there is none.
///
/// # Errors
/// The variable is no number.
pub fn environment(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text} is not a number")),
        Err(_) => Ok(default),
    }
}
