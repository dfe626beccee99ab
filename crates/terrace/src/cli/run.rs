//! `run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Args, FromArgMatches};

pub const RUN_HELP: &str = "\
Examples:
  terrace run -- sqlite3 /mnt/a.db
  terrace run --direct '*.sst' --direct '*.log' -- db_bench --db=/mnt/db
  terrace run --not '/mnt/shared/*' --report=/tmp/report -- make

A pattern with a slash is for the whole path, one without for the name. * stands
for any characters, ? for one. Programs that the program starts do the same, as
long as they get its environment. docs/DIRECT.md says which calls are carried.";

/// `run`
#[derive(Args, Debug, PartialEq, Eq)]
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

impl RunArgs {
    /// Parses `terrace run` without the definitions of all other commands, which take longer than
    /// the start of a short program. Says also whether it is to be quiet. `None`: it is another
    /// command, is wrong, or asks for help, and the parser of the whole command says so.
    pub fn alone(mut args: impl Iterator<Item = OsString>) -> Option<(Self, bool)> {
        let name = args.next()?;
        if args.next()? != "run" {
            return None;
        }
        let quiet = Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue);
        let definition = Self::augment_args(clap::Command::new("run").arg(quiet));
        let matches = definition.try_get_matches_from(std::iter::once(name).chain(args)).ok()?;
        Some((Self::from_arg_matches(&matches).ok()?, matches.get_flag("quiet")))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn it_is_parsed_alone_as_with_the_whole_command() {
        for (line, is_run) in [
            ("run true", true),
            ("run -- true", true),
            ("run --quiet true -q", true),
            ("run -q -- ls --quiet -h --help", true),
            ("run --direct a --direct=b --not c --report -- ls", true),
            ("run --report=/tmp/x ls --report", true),
            ("run --report ls -l", true),
            ("run --unknown ls", true),
            ("run --version", true),
            ("run", false),
            ("run --", false),
            ("run --help", false),
            ("run -h", false),
            ("run --direct", false),
            ("--quiet run true", false),
            ("status /mnt", false),
            ("", false),
        ] {
            let args = || ["terrace"].into_iter().chain(line.split_whitespace());
            let alone = RunArgs::alone(args().map(OsString::from));
            assert_eq!(alone.is_some(), is_run, "{line}");
            let Some((args_alone, quiet)) = alone else { continue };
            let whole = Cli::try_parse_from(args()).unwrap();
            let Command::Run(of_whole) = whole.command else { panic!("{line}") };
            assert_eq!((args_alone, quiet), (of_whole, whole.quiet), "{line}");
        }
    }
}
