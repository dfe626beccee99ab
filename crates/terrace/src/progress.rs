//! Progress of long work, on standard error: a bar on a terminal, now and then a line elsewhere, or
//! nothing.

use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;
use crate::size::percent;

/// How often a line is printed where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows the progress of one piece of work. What it shows is gone from a terminal when it is
/// dropped.
#[derive(Debug)]
pub struct Progress {
    view: View,
}

#[derive(Debug)]
enum View {
    Nothing,
    Bar(ProgressBar),
    Lines(Mutex<Lines>),
}

/// What the last line said, and when the next is due.
#[derive(Debug)]
struct Lines {
    what: String,
    next: Instant,
}

impl Progress {
    /// Chooses by what standard error is.
    pub fn new(quiet: bool) -> Self {
        let view = if quiet {
            View::Nothing
        } else if stderr().is_terminal() {
            let style = ProgressStyle::with_template("{msg} {bar:30} {percent}% {eta}");
            View::Bar(
                ProgressBar::no_length()
                    .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())),
            )
        } else {
            View::Lines(Mutex::new(Lines { what: String::new(), next: Instant::now() }))
        };
        Progress { view }
    }

    /// `done` of `total` units of `what` are done.
    pub fn update(&self, what: &str, done: u64, total: u64) {
        match &self.view {
            View::Nothing => {}
            View::Bar(bar) => {
                if bar.message() != what {
                    bar.reset();
                    bar.set_message(what.to_owned());
                }
                bar.set_length(total);
                bar.set_position(done);
            }
            View::Lines(lines) => {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(line) = lines.line(what, done, total, Instant::now()) {
                    output::remark(false, &line);
                }
            }
        }
    }
}

impl Progress {
    /// Shows nothing while `work` writes to standard error.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.view {
            View::Bar(bar) => bar.suspend(work),
            View::Nothing | View::Lines(_) => work(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }
}

impl Lines {
    /// The line to print now, if one is due: when new work begins, and then every [`LINE_EVERY`].
    fn line(&mut self, what: &str, done: u64, total: u64, now: Instant) -> Option<String> {
        let begins = self.what != what;
        if !begins && now < self.next {
            return None;
        }
        self.next = now + LINE_EVERY;
        if begins {
            what.clone_into(&mut self.what);
            return Some(format!("{what} …"));
        }
        Some(format!("{what}: {} %", percent(done, total)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sparse() {
        let start = Instant::now();
        let mut lines = Lines { what: String::new(), next: start };
        assert_eq!(lines.line("reading logs", 0, 200, start).as_deref(), Some("reading logs …"));
        assert_eq!(lines.line("reading logs", 50, 200, start + LINE_EVERY / 2), None);
        assert_eq!(
            lines.line("reading logs", 50, 200, start + LINE_EVERY).as_deref(),
            Some("reading logs: 25 %")
        );
        assert_eq!(lines.line("reading logs", 60, 200, start + LINE_EVERY), None);
        assert_eq!(
            lines.line("verifying", 0, 0, start + LINE_EVERY).as_deref(),
            Some("verifying …")
        );
    }
}
