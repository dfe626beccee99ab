//! `terrace completions`, `terrace man`: what is made from the command line's definition.

use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::Cli;
use crate::cli::documents::{CompletionsArgs, ManArgs};
use crate::output;

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::definition(), "terrace", &mut script);
    output::print(&String::from_utf8(script)?)
}

/// Writes `terrace.1` and a page for each subcommand.
pub fn manual(args: &ManArgs) -> Result<()> {
    let mut definition = Cli::definition().disable_help_subcommand(true);
    definition.build();
    write_pages(&definition, &args.dir).with_context(|| {
        format!("{}: cannot write the manual pages; does the directory exist?", args.dir.display())
    })
}

fn write_pages(command: &clap::Command, dir: &Path) -> io::Result<()> {
    let mut page = Vec::new();
    let man = Man::new(command.clone());
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = command.get_after_help() {
        // As they stand, so that tables and examples stay in shape.
        let mut section = Roff::new();
        section
            .control("SH", ["NOTES"])
            .control("nf", [])
            .text([roman(notes.to_string())])
            .control("fi", []);
        section.to_writer(&mut page)?;
    }
    fs::write(dir.join(man.get_filename()), page)?;
    command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set())
        .try_for_each(|sub| write_pages(sub, dir))
}
