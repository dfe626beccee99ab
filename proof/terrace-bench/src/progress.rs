//! What is shown on standard error while the benchmarks run: on a terminal one line that changes,
//! elsewhere a line per benchmark.

use std::io::{IsTerminal, Write, stderr};

/// Progress through a number of benchmarks.
#[derive(Debug)]
pub struct Progress {
    title: String,
    begun: usize,
    total: usize,
    terminal: bool,
}

impl Progress {
    /// Nothing of `total` benchmarks has begun.
    pub fn new(total: usize) -> Self {
        Self { title: String::new(), begun: 0, total, terminal: stderr().is_terminal() }
    }

    /// The next benchmark is being set up.
    pub fn begin(&mut self, title: String) {
        self.begun += 1;
        self.title = title;
        if self.terminal {
            self.show("setting up");
        } else {
            eprintln!("[{}/{}] {}", self.begun, self.total, self.title);
        }
    }

    /// A round of the present benchmark begins; the first is 1.
    pub fn round(&self, round: u32, rounds: u32) {
        if self.terminal {
            self.show(&format!("round {round} of {rounds}"));
        }
    }

    /// Something of the present benchmark begins.
    pub fn step(&self, what: &str) {
        if self.terminal {
            self.show(what);
        }
    }

    /// All is done.
    pub fn end(&self) {
        if self.terminal {
            self.write("");
        }
    }

    fn show(&self, what: &str) {
        self.write(&format!("[{}/{}] {}: {what}", self.begun, self.total, self.title));
    }

    fn write(&self, line: &str) {
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(stderr(), "\r\x1b[K{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
