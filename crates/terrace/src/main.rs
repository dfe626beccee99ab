//! The `terrace` command: makes, mounts, examines and checks Terrace volumes.

mod cli;
mod commands;
mod daemon;
mod devices;
mod helper;
mod memory;
mod metrics;
mod mounts;
mod options;
mod output;
mod progress;
mod report;
mod sampler;
mod screen;
mod size;
mod thresholds;

use std::fmt;
use std::process::ExitCode;

use clap::Parser;

/// The operation failed.
const FAILED: u8 = 1;
/// The command line is wrong; clap exits with the same.
const USAGE: u8 = 2;

/// An error in the command line that clap cannot see.
#[derive(Debug)]
struct Usage(String);

impl Usage {
    fn error(message: String) -> anyhow::Error {
        anyhow::Error::new(Usage(message))
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    if let Some(helper) = args.next().as_deref().and_then(helper::Helper::of_name) {
        return helper.run(args);
    }
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| cli::harmless(error).exit());
    match commands::run(&cli) {
        Ok(code) => code,
        Err(error) => {
            output::error(&format!("{error:#}"));
            ExitCode::from(if error.is::<Usage>() { USAGE } else { FAILED })
        }
    }
}
