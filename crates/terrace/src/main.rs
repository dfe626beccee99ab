//! The `terrace` command: makes, mounts, examines and checks Terrace volumes.

mod cli;
mod commands;
mod daemon;
mod devices;
mod doctor;
mod exit;
mod first_open;
mod helper;
mod keeper;
mod lend;
mod memory;
mod metrics;
mod models;
mod mounts;
mod options;
mod output;
mod program;
mod progress;
mod report;
mod request;
mod sampler;
mod screen;
mod size;
mod thresholds;
mod transport;
mod wear;

use std::process::ExitCode;

use clap::Parser;

use exit::{FAILED, USAGE, Usage};

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    if let Some(helper) = args.next().as_deref().and_then(helper::Helper::of_name) {
        return helper.run(args);
    }
    if args.next().is_some_and(|first| first == keeper::SUBCOMMAND) {
        return keeper::take_over(args, commands::serve);
    }
    if let Some((args, quiet)) = cli::run::RunArgs::alone(std::env::args_os()) {
        return ended(commands::run::run(&args, quiet));
    }
    let cli = cli::Cli::try_parse().unwrap_or_else(|error| cli::harmless(error).exit());
    ended(commands::run(&cli))
}

fn ended(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) => {
            output::error(&format!("{error:#}"));
            ExitCode::from(if error.is::<Usage>() { USAGE } else { FAILED })
        }
    }
}
