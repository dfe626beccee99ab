//! `run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

pub const RUN_HELP: &str = "\
Examples:
  terrace run -- sqlite3 /mnt/a.db
  terrace run --direct '*.sst' --direct '*.log' -- db_bench --db=/mnt/db
  terrace run --not '/mnt/shared/*' --report=/tmp/report -- make

A pattern with a slash is for the whole path, one without for the name. * stands
for any characters, ? for one. Programs that the program starts do the same, as
long as they get its environment. docs/DIRECT.md says which calls are carried.";

/// `run`
#[derive(Args, Debug)]
pub struct RunArgs {
    /// Only files that match go direct; may be repeated
    #[arg(long = "direct", value_name = "PATTERN")]
    pub only: Vec<OsString>,
    /// Files that match stay on the mount; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub not: Vec<OsString>,
    /// At the end, say for each file how many calls went direct, and why others did not: on
    /// standard error, or at the end of FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true)]
    pub report: Option<Option<PathBuf>>,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM [ARGS]"
    )]
    pub command: Vec<OsString>,
}
