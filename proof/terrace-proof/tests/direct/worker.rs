//! A process that does what it is told, directly or on the mount (`src/bin/worker/main.rs`).

use std::error::Error;
use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use terrace_proof::{TestVolume, VolumeSpec, terrace_binary};

/// A mount that lends files.
pub fn lending(name: &str) -> Result<TestVolume> {
    VolumeSpec::new(name).options("lend=owner").mount()
}

/// The answer to a line: numbers, or an errno.
pub type Answer = Result<Vec<u64>, i32>;

/// The process has ended, and gives no more answers: how.
#[derive(Debug)]
pub struct Ended(String);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it has ended: {}", self.0)
    }
}

impl Error for Ended {}

/// See the module.
#[derive(Debug)]
pub struct Worker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    /// One in this directory. `report`: it is run by `terrace run`, which writes its report there.
    pub fn start(directory: &Path, report: Option<&Path>) -> Result<Self> {
        let worker = env!("CARGO_BIN_EXE_worker");
        let command = match report {
            None => Command::new(worker),
            Some(file) => {
                let mut command = Command::new(terrace_binary()?);
                let report = format!("--report={}", file.display());
                command.args(["run", &report, "--", worker]);
                command
            }
        };
        Self::of(command, directory)
    }

    /// A program that takes the same lines.
    pub fn of(mut command: Command, directory: &Path) -> Result<Self> {
        command.current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let input = process.stdin.take().context("a pipe")?;
        let output = BufReader::new(process.stdout.take().context("a pipe")?);
        Ok(Self { process, input, output })
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its process, as system calls take it.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Has it do what the line says.
    pub fn send(&mut self, line: &str) -> Result<()> {
        Ok(writeln!(self.input, "{line}")?)
    }

    /// What it answers.
    pub fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            let ended = Ended(format!("worker {}: {}", self.process.id(), self.process.wait()?));
            return Err(ended.into());
        }
        let mut words = line.split_whitespace();
        let kind = words.next().context("an empty answer")?;
        let numbers = words.map(|word| Ok(word.parse::<i64>()?)).collect::<Result<Vec<_>>>()?;
        Ok(match (kind, numbers.as_slice()) {
            ("error", [errno]) => Err(*errno as i32),
            _ => Ok(numbers.iter().map(|number| number.cast_unsigned()).collect()),
        })
    }

    /// Both.
    pub fn ask(&mut self, line: &str) -> Result<Answer> {
        self.send(line)?;
        self.answer()
    }

    /// The answer must be these numbers.
    pub fn expect(&mut self, line: &str, numbers: &[u64]) -> Result<()> {
        let answer = self.ask(line).with_context(|| line.to_owned())?;
        ensure!(answer == Ok(numbers.to_vec()), "{line} -> {answer:?} instead of {numbers:?}");
        Ok(())
    }

    /// Has it write records through its handle 0, one after the other, and kills it when so many
    /// are acknowledged. Returns how many were, in the end.
    pub fn killed_while_it_writes(mut self, record: usize, enough: u64) -> Result<u64> {
        let mut input = self.input;
        let writer = std::thread::spawn(move || {
            // It ends with the process.
            (0..2000).try_for_each(|seed| writeln!(input, "0 write {record} {seed}"))
        });
        let (mut acknowledged, mut line) = (0, String::new());
        while self.output.read_line(&mut line)? > 0 {
            ensure!(line == format!("ok {record}\n"), "{line}");
            line.clear();
            acknowledged += 1;
            if acknowledged == enough {
                self.process.kill()?;
            }
        }
        self.process.kill()?;
        self.process.wait()?;
        let _ = writer.join();
        Ok(acknowledged)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(self.pid(), signal)?)
    }

    /// Lets it end by itself, so that it writes its report.
    pub fn finish(self) -> Result<()> {
        ensure!(self.ended()?.success(), "the worker failed");
        Ok(())
    }

    /// Lets it end by itself, if nothing has ended it; says how it has ended.
    pub fn ended(self) -> Result<ExitStatus> {
        let Self { mut process, input, .. } = self;
        drop(input);
        Ok(process.wait()?)
    }
}

/// Calls that went direct, of all reports in a file.
pub fn direct_calls(report: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(report).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    // Calls, bytes, and the way.
    let direct = words.windows(3).filter(|count| count[2].trim_end_matches(',') == "direct");
    direct
        .filter(|count| count[1].parse::<u64>().is_ok())
        .map(|count| Ok(count[0].parse::<u64>()?))
        .sum()
}
