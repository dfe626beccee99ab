//! Random calls of three processes on the same files, two of them by the library, each with several
//! handles: each answer is compared with a model.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use terrace_proof::{Rng, VolumeSpec, crc32c, pattern, proof};

use crate::program::{direct_calls, worker};
use crate::worker::{Answer, Worker};

const FILES: [&str; 2] = ["one", "two"];
const HANDLES_MAX: usize = 3;
/// Files stay shorter than this, so that they fit PM many times over.
const LEN_MAX: u64 = 96 << 10;
/// So long a write takes the mount, though nobody else has the file. The next call cuts it off.
const LONG: u64 = (4 << 20) + 1;

/// A process, and the file of each of its handles.
struct Process {
    worker: Worker,
    has_library: bool,
    handles: [Option<usize>; HANDLES_MAX],
    direct: u64,
}

struct Mixture {
    files: [Option<Vec<u8>>; FILES.len()],
    processes: Vec<Process>,
    rng: Rng,
    /// What was done, for the message.
    done: String,
}

fn put(bytes: &mut Vec<u8>, at: u64, data: &[u8]) {
    let end = at as usize + data.len();
    bytes.resize(bytes.len().max(end), 0);
    bytes[at as usize..end].copy_from_slice(data);
}

impl Mixture {
    fn step(&mut self, process: usize, line: &str, expected: &Answer) -> Result<()> {
        let answer = self.processes[process].worker.ask(line)?;
        let _ = writeln!(self.done, "process {process}: {line} -> {answer:?}");
        let lines: Vec<&str> = self.done.lines().collect();
        let last = lines[lines.len().saturating_sub(60)..].join("\n");
        ensure!(answer == *expected, "{last}... instead of {expected:?}");
        Ok(())
    }

    fn open(&mut self, process: usize) -> Result<()> {
        let file = self.rng.below(FILES.len() as u64) as usize;
        let letters = if self.rng.one_in(10) { "rwct" } else { "rwc" };
        let bytes = self.files[file].get_or_insert_default();
        if letters.contains('t') {
            bytes.clear();
        }
        let handles = &mut self.processes[process].handles;
        let free = handles.iter().position(Option::is_none).context("a free one")?;
        handles[free] = Some(file);
        let line = format!("open {} {letters}", FILES[file]);
        self.step(process, &line, &Ok(vec![free as u64]))
    }

    fn call(&mut self, process: usize, handle: usize) -> Result<()> {
        let file = self.processes[process].handles[handle].context("an open one")?;
        let has_library = self.processes[process].has_library;
        let (bytes, rng) = (self.files[file].get_or_insert_default(), &mut self.rng);
        let end = bytes.len() as u64;
        let len = *rng.pick(&[1, 10, 100, 128, 1000, 4095, 4096, 4097, 8192, 10_000]);
        let at = match rng.below(4) {
            0 => end,
            1 => end / 4096 * 4096,
            2 => rng.below(LEN_MAX / 4096) * 4096,
            _ => rng.below(LEN_MAX),
        };
        let seed = rng.below(1000);
        let kind = if end + len > LEN_MAX { 0 } else { rng.below(20) };
        let (line, expected) = match kind {
            0 => {
                let size = rng.below(1 + end.min(LEN_MAX));
                bytes.resize(size as usize, 0);
                (format!("truncate {size}"), vec![])
            }
            1 if has_library && rng.one_in(20) => {
                put(bytes, end, &pattern(seed, LONG as usize));
                (format!("append {LONG} {seed}"), vec![end])
            }
            1..=5 if has_library => {
                put(bytes, end, &pattern(seed, len as usize));
                (format!("append {len} {seed}"), vec![end])
            }
            1..=9 => {
                put(bytes, at, &pattern(seed, len as usize));
                (format!("pwrite {at} {len} {seed}"), vec![len])
            }
            10 => ("sync".to_owned(), vec![]),
            11..=12 => ("size".to_owned(), vec![end]),
            _ => {
                let (at, len) = if kind == 13 { (0, LEN_MAX * 2) } else { (at, len) };
                let to = end.min(at + len) as usize;
                let read = &bytes[to.min(at as usize)..to];
                let sum = u64::from(crc32c(read));
                (format!("pread {at} {len}"), vec![read.len() as u64, sum])
            }
        };
        self.step(process, &format!("{handle} {line}"), &Ok(expected))
    }

    /// A process makes some calls on one of its open files.
    fn burst(&mut self) -> Result<()> {
        let process = self.rng.below(self.processes.len() as u64) as usize;
        let open = |this: &Self| -> Vec<usize> {
            let handles = &this.processes[process].handles;
            (0..HANDLES_MAX).filter(|&i| handles[i].is_some()).collect()
        };
        let now = open(self);
        if now.is_empty() || now.len() < HANDLES_MAX && self.rng.one_in(3) {
            self.open(process)?;
        }
        for _ in 0..self.rng.below(60) {
            let handle = *self.rng.pick(&open(self));
            self.call(process, handle)?;
        }
        // A process that has a file open keeps it from others.
        for handle in open(self) {
            if !self.rng.one_in(4) {
                self.close(process, handle)?;
            }
        }
        Ok(())
    }

    fn close(&mut self, process: usize, handle: usize) -> Result<()> {
        let it = &mut self.processes[process];
        if it.has_library {
            it.direct += direct_calls(&mut it.worker, handle)?;
        }
        it.handles[handle] = None;
        self.step(process, &format!("{handle} close"), &Ok(Vec::new()))
    }
}

/// A mixture in a directory. Returns how many calls went direct.
fn mixture(directory: &Path, seed: u64, bursts: usize) -> Result<u64> {
    let process = |has_library: bool| -> Result<Process> {
        let worker = if has_library { worker(directory) } else { Worker::start(directory, None) }?;
        Ok(Process { worker, has_library, handles: [None; HANDLES_MAX], direct: 0 })
    };
    let processes = [false, true, true].map(process).into_iter().collect::<Result<_>>()?;
    let (files, rng) = (Default::default(), Rng::new(seed));
    let mut mixture = Mixture { files, processes, rng, done: String::new() };
    for _ in 0..bursts {
        mixture.burst().with_context(|| format!("seed {seed}"))?;
    }
    let mut direct = 0;
    for Process { worker, direct: of_this, .. } in mixture.processes {
        worker.finish()?;
        direct += of_this;
    }
    for (name, bytes) in FILES.iter().zip(&mixture.files) {
        let Some(bytes) = bytes else { continue };
        let found = std::fs::read(directory.join(name))?;
        ensure!(found == *bytes, "seed {seed}: {name} is not as it was written");
    }
    Ok(direct)
}

/// P-50, by the library.
#[test]
fn processes_see_what_others_do() {
    let seeds = if std::env::var_os("TERRACE_LONG").is_some() { 1000 } else { 30 };
    proof(|| {
        let mut volume = VolumeSpec::new("libterrace-mixture").options("lend=owner").mount()?;
        let mut direct = 0;
        for seed in 0..seeds {
            let directory = volume.join(&format!("seed-{seed}"));
            std::fs::create_dir(&directory)?;
            direct += mixture(&directory, seed, 60)?;
        }
        // A mixture in which all take the mount would prove nothing.
        ensure!(direct > 1000 || !volume.is_mount(), "{direct} calls went direct");
        volume.check()
    });
}
