//! `completions`, `man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `completions`
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// `man`
#[derive(Args, Debug)]
pub struct ManArgs {
    /// An existing directory
    pub dir: PathBuf,
}
