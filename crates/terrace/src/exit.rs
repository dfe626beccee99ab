//! How the command ends, other than well.

use std::fmt;

/// The operation failed.
pub const FAILED: u8 = 1;
/// The command line is wrong; clap exits with the same.
pub const USAGE: u8 = 2;

/// `run`: the program cannot be run; shells exit with the same.
pub const NOT_EXECUTABLE: u8 = 126;
/// `run`: there is no such program; shells exit with the same.
pub const NOT_FOUND: u8 = 127;

/// `doctor`: something is unsafe.
pub const UNSAFE: u8 = 8;

/// An error in the command line that clap cannot see.
#[derive(Debug)]
pub struct Usage(String);

impl Usage {
    /// As an error that ends the command.
    pub fn error(message: String) -> anyhow::Error {
        anyhow::Error::new(Usage(message))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
