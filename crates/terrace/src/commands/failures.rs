//! Commands that take several files: what fails of one is said at once, and the others are still
//! done.

use std::process::ExitCode;

use anyhow::Result;

use crate::output;

/// What a command ends as.
#[derive(Debug, Default)]
pub struct Failures {
    any: bool,
}

impl Failures {
    /// What a step came to; its error, which is to name the file, goes to standard error.
    pub fn unless<T>(&mut self, step: Result<T>) -> Option<T> {
        step.map_err(|error| {
            self.any = true;
            output::error(&format!("{error:#}"));
        })
        .ok()
    }

    /// Success, if nothing has failed.
    pub fn exit_code(&self) -> ExitCode {
        if self.any { ExitCode::from(crate::exit::FAILED) } else { ExitCode::SUCCESS }
    }
}
