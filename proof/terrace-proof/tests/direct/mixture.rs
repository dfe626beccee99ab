//! Random calls of three processes on the same files, two of them direct, one after the other: each
//! answer is compared with a model.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use terrace_proof::{Rng, Scratch, VolumeSpec, checked, pattern, proof};

use crate::worker::{Answer, Worker, direct_calls};

const FILES: [&str; 2] = ["one", "two"];
const HANDLES_MAX: usize = 3;
/// Files stay shorter than this, so that they fit PM many times over.
const LEN_MAX: u64 = 96 << 10;

/// An open file of a process, as the model knows it.
#[derive(Clone, Copy, Debug)]
struct Handle {
    file: usize,
    position: u64,
    append: bool,
    readable: bool,
    writable: bool,
}

#[derive(Debug, Default)]
struct Model {
    /// All that there were; those without a name may be open still.
    files: Vec<Vec<u8>>,
    /// The files that have the names.
    named: [Option<usize>; FILES.len()],
    handles: [[Option<Handle>; HANDLES_MAX]; 3],
}

const EBADF: i32 = libc::EBADF;

impl Model {
    /// The file of a name, which is made if there is none.
    fn named(&mut self, name: usize) -> usize {
        *self.named[name].get_or_insert_with(|| {
            self.files.push(Vec::new());
            self.files.len() - 1
        })
    }

    /// The contents that a name leads to.
    fn contents(&self, name: usize) -> Option<&Vec<u8>> {
        self.named[name].map(|file| &self.files[file])
    }

    fn open(&mut self, process: usize, name: usize, letters: &str) -> Answer {
        let has = |letter| letters.contains(letter);
        if self.named[name].is_none() && !has('c') {
            return Err(libc::ENOENT);
        }
        let file = self.named(name);
        if has('t') {
            self.files[file].clear();
        }
        let free = self.handles[process].iter().position(Option::is_none).expect("a free one");
        let handle = Handle {
            file,
            position: 0,
            append: has('a'),
            readable: has('r'),
            writable: has('w') || has('a'),
        };
        self.handles[process][free] = Some(handle);
        Ok(vec![free as u64])
    }

    fn call(&mut self, process: usize, number: usize, name: &str, numbers: &[u64]) -> Answer {
        let slot = &mut self.handles[process][number];
        let handle = slot.as_mut().expect("an open one");
        let bytes = &mut self.files[handle.file];
        let part = |at: u64, len: u64| {
            let end = bytes.len().min((at + len) as usize);
            checked(&bytes[end.min(at as usize)..end])
        };
        match (name, numbers) {
            ("close", []) => {
                *slot = None;
                Ok(Vec::new())
            }
            ("dup" | "sync", []) | ("mode", [_]) => Ok(Vec::new()),
            ("write" | "pwrite" | "truncate" | "allocate" | "reserve", _) if !handle.writable => {
                Err(if name == "truncate" { libc::EINVAL } else { EBADF })
            }
            ("reserve", _) => Ok(Vec::new()),
            ("allocate", &[at, len]) => {
                bytes.resize(bytes.len().max((at + len) as usize), 0);
                Ok(Vec::new())
            }
            ("map", []) if bytes.is_empty() => Ok(checked(&[])),
            ("map", []) if !handle.readable => Err(libc::EACCES),
            ("read" | "pread", _) if !handle.readable => Err(EBADF),
            ("write", &[len, seed]) => {
                let at = if handle.append { bytes.len() as u64 } else { handle.position };
                put(bytes, at, &pattern(seed, len as usize));
                handle.position = at + len;
                Ok(vec![len])
            }
            ("pwrite", &[at, len, seed]) => {
                // As Linux has it.
                let at = if handle.append { bytes.len() as u64 } else { at };
                put(bytes, at, &pattern(seed, len as usize));
                Ok(vec![len])
            }
            ("read", &[len]) => {
                let read = part(handle.position, len);
                handle.position += read[0];
                Ok(read)
            }
            ("pread", &[at, len]) => Ok(part(at, len)),
            ("seek", &[at]) => {
                handle.position = at;
                Ok(vec![at])
            }
            ("end", []) => {
                handle.position = bytes.len() as u64;
                Ok(vec![handle.position])
            }
            ("truncate", &[len]) => {
                bytes.resize(len as usize, 0);
                Ok(Vec::new())
            }
            ("size", []) => Ok(vec![bytes.len() as u64]),
            ("map", []) => Ok(checked(bytes)),
            _ => unreachable!("{name} {numbers:?}"),
        }
    }

    /// Copies all of a file to the end of another.
    fn copy(&mut self, process: usize, number: usize, target: usize) -> Answer {
        let handle = self.handles[process][number].expect("an open one");
        let (from, to) = (self.files[handle.file].clone(), self.named(target));
        if !handle.readable {
            return Err(EBADF);
        }
        self.files[to].extend_from_slice(&from);
        Ok(vec![from.len() as u64])
    }
}

fn put(bytes: &mut Vec<u8>, at: u64, data: &[u8]) {
    let end = at as usize + data.len();
    bytes.resize(bytes.len().max(end), 0);
    bytes[at as usize..end].copy_from_slice(data);
}

struct Mixture {
    model: Model,
    workers: Vec<Worker>,
    rng: Rng,
    /// What was done, for the message.
    done: String,
}

impl Mixture {
    fn step(&mut self, process: usize, line: &str, expected: &Answer) -> Result<()> {
        let answer = self.workers[process].ask(line)?;
        let _ = writeln!(self.done, "process {process}: {line} -> {answer:?}");
        let is_same = answer == *expected;
        ensure!(is_same, "{}... instead of {expected:?}", last_lines(&self.done, 60));
        Ok(())
    }

    fn open(&mut self, process: usize) -> Result<()> {
        let file = self.rng.below(FILES.len() as u64) as usize;
        let letters = *self.rng.pick(&["rwc", "rwc", "rac", "ac", "wc", "r", "rwct", "rac", "rwc"]);
        let expected = self.model.open(process, file, letters);
        self.step(process, &format!("open {} {letters}", FILES[file]), &expected)
    }

    fn call(&mut self, process: usize, handle: usize) -> Result<()> {
        let rng = &mut self.rng;
        let file = self.model.handles[process][handle].context("an open one")?.file;
        let end = self.model.files[file].len() as u64;
        // Small and large ones, at the end, at pages' ends and elsewhere.
        let len = *rng.pick(&[1, 10, 100, 128, 1000, 4095, 4096, 4097, 8192, 10_000]);
        let at = match rng.below(4) {
            0 => end,
            1 => end / 4096 * 4096,
            2 => rng.below(LEN_MAX / 4096) * 4096,
            _ => rng.below(LEN_MAX),
        };
        let seed = rng.below(1000);
        let is_long = end + len > LEN_MAX;
        let line = match rng.below(if is_long { 1 } else { 24 }) {
            0 => format!("truncate {}", rng.below(1 + end)),
            1..=6 => format!("write {len} {seed}"),
            7..=10 => format!("pwrite {at} {len} {seed}"),
            11..=12 => format!("read {len}"),
            13..=15 => format!("pread {at} {len}"),
            16 => "end".to_owned(),
            17 => format!("seek {at}"),
            18 => "size".to_owned(),
            19 => "sync".to_owned(),
            20 if rng.one_in(20) => "map".to_owned(),
            20 if rng.one_in(2) && end < LEN_MAX / 4 => return self.copy(process, handle),
            20 => "dup".to_owned(),
            21 if rng.one_in(2) => format!("mode {}", 0o600 | rng.below(0o100)),
            21 => format!("reserve {at} {len}"),
            22 => format!("allocate {at} {len}"),
            _ => format!("pread 0 {LEN_MAX}"),
        };
        let (name, arguments) = line.split_once(' ').unwrap_or((&line, ""));
        let numbers: Vec<u64> = arguments.split(' ').filter_map(|word| word.parse().ok()).collect();
        let expected = self.model.call(process, handle, name, &numbers);
        self.step(process, &format!("{handle} {line}"), &expected)
    }

    fn copy(&mut self, process: usize, handle: usize) -> Result<()> {
        let file = self.model.handles[process][handle].context("an open one")?.file;
        // Not to itself.
        let target = usize::from(self.model.named[0] == Some(file));
        let expected = self.model.copy(process, handle, target);
        self.step(process, &format!("{handle} copy {}", FILES[target]), &expected)
    }

    /// A process makes a call by a name.
    fn by_name(&mut self, process: usize) -> Result<()> {
        let name = self.rng.below(FILES.len() as u64) as usize;
        let contents = self.model.contents(name).ok_or(libc::ENOENT);
        let (call, expected) = match self.rng.below(4) {
            0 => ("unlink", contents.map(|_| Vec::new())),
            1 => ("buffered", contents.map(|bytes| checked(bytes))),
            _ => ("stat", contents.map(|bytes| vec![bytes.len() as u64])),
        };
        self.step(process, &format!("{call} {}", FILES[name]), &expected)?;
        if call == "unlink" {
            self.model.named[name] = None;
        }
        Ok(())
    }

    /// A process makes some calls on one of its open files.
    fn burst(&mut self) -> Result<()> {
        let process = self.rng.below(3) as usize;
        if self.rng.one_in(3) {
            self.by_name(process)?;
        }
        let open = |model: &Model| -> Vec<usize> {
            (0..HANDLES_MAX).filter(|&i| model.handles[process][i].is_some()).collect()
        };
        let now = open(&self.model);
        if now.is_empty() || now.len() < HANDLES_MAX && self.rng.one_in(3) {
            self.open(process)?;
        }
        let now = open(&self.model);
        let Some(&handle) = (!now.is_empty()).then(|| self.rng.pick(&now)) else { return Ok(()) };
        for _ in 0..self.rng.below(40) {
            self.call(process, handle)?;
        }
        // A process that has a file open keeps it from others.
        for handle in now {
            if !self.rng.one_in(4) {
                let expected = self.model.call(process, handle, "close", &[]);
                self.step(process, &format!("{handle} close"), &expected)?;
            }
        }
        Ok(())
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// A mixture in a directory, with one process on the mount and two direct ones.
fn mixture(directory: &Path, report: &Path, seed: u64, bursts: usize) -> Result<()> {
    let reports = [None, Some(report), Some(report)];
    let workers = reports.map(|report| Worker::start(directory, report));
    let workers = workers.into_iter().collect::<Result<_>>()?;
    let (model, rng) = (Model::default(), Rng::new(seed));
    let mut mixture = Mixture { model, workers, rng, done: String::new() };
    for _ in 0..bursts {
        mixture.burst().with_context(|| format!("seed {seed}"))?;
    }
    let workers = std::mem::take(&mut mixture.workers);
    workers.into_iter().try_for_each(Worker::finish)?;
    for (number, name) in FILES.iter().enumerate() {
        let Some(bytes) = mixture.model.contents(number) else { continue };
        let found = std::fs::read(directory.join(name))?;
        ensure!(found == *bytes, "seed {seed}: {name} is not as it was written");
    }
    Ok(())
}

fn seeds(name: &str, options: &str, seeds: std::ops::Range<u64>, bursts: usize) -> Result<()> {
    let mut volume = VolumeSpec::new(name).options(options).mount()?;
    let scratch = Scratch::new(name)?;
    let report = scratch.join("report");
    for seed in seeds {
        let directory = volume.join(&format!("seed-{seed}"));
        std::fs::create_dir(&directory)?;
        mixture(&directory, &report, seed, bursts)?;
    }
    // A mixture in which all take the mount would prove nothing.
    let direct = direct_calls(&report)?;
    ensure!(!volume.is_mount() || direct > 1000, "{direct} calls went direct");
    volume.check()
}

/// **P-50** A program that reads and writes a file directly, under `terrace run` or by libterrace,
/// and programs on the mount see each other's calls: each call sees all that have returned before,
/// whoever made them, also through descriptors that append, mappings and copies by the kernel.
#[test]
fn processes_see_what_others_do() {
    let more = if std::env::var_os("TERRACE_LONG").is_some() { 1000 } else { 30 };
    proof(|| seeds("mixture", "lend=owner", 0..more, 60));
}

#[test]
fn processes_see_what_others_do_on_a_checked_mount() {
    proof(|| seeds("mixture-checked", "lend=owner,default_permissions", 10_000..10_020, 60));
}
