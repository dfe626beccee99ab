//! Direct programs that may use little memory, or few descriptors: whatever the library lacks, the
//! mount carries out the calls.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use terrace_proof::{MIB, Rng, Scratch, TestVolume, VolumeSpec, checked, pattern, proof, run};

use crate::worker::{Worker, direct_calls};

/// A volume's PM, which the library maps as a whole.
const PM_MIB: u64 = 32;
/// The control pages of a mount, which it maps, too.
const CONTROL_MIB: u64 = 4;
/// Files of a program that has many.
const MANY: u64 = 200;
/// Writes to each of them.
const WRITES: u64 = 3;
/// The end of the last write, at most.
const LEN_MAX: u64 = 2 << 20;

/// A program, its file, and what the file should have.
struct Program {
    worker: Worker,
    rng: Rng,
    bytes: Vec<u8>,
    log: Vec<u8>,
}

impl Program {
    fn start(volume: &TestVolume, report: &Path, seed: u64) -> Result<Self> {
        let worker = Worker::start(volume.root(), Some(report))?;
        Ok(Self { worker, rng: Rng::new(seed), bytes: Vec::new(), log: Vec::new() })
    }

    fn expect(&mut self, line: &str, numbers: &[u64]) -> Result<()> {
        self.worker.expect(line, numbers)
    }

    fn open(&mut self, name: &str) -> Result<()> {
        self.expect(&format!("open {name} rwc"), &[0])?;
        self.expect(&format!("open {name}-log rac"), &[1])
    }

    /// Calls that have the library remember more and more: each write has its own place.
    fn work(&mut self, calls: u64) -> Result<()> {
        for seed in 0..calls {
            let len = *self.rng.pick(&[1, 100, 4096, 5000, 20_000]);
            let end = self.bytes.len() as u64;
            match self.rng.below(8) {
                0 => {
                    let at = self.rng.below(1 + end);
                    let part = checked(&self.bytes[at as usize..end.min(at + len) as usize]);
                    self.expect(&format!("0 pread {at} {len}"), &part)?;
                }
                1 => self.expect("0 sync", &[])?,
                2 => self.expect("0 size", &[end])?,
                3 => {
                    self.log.extend(pattern(seed, 100));
                    self.expect(&format!("1 write 100 {seed}"), &[100])?;
                }
                _ => {
                    let at = self.rng.below(LEN_MAX / 4096) * 4096;
                    let data = pattern(seed, len as usize);
                    self.bytes.resize(self.bytes.len().max((at + len) as usize), 0);
                    self.bytes[at as usize..(at + len) as usize].copy_from_slice(&data);
                    self.expect(&format!("0 pwrite {at} {len} {seed}"), &[len])?;
                }
            }
        }
        let whole = checked(&self.bytes);
        self.expect(&format!("0 pread 0 {}", LEN_MAX + 20_000), &whole)
    }

    /// Files of which the library has to remember each: they stay open.
    fn work_on_many(&mut self, name: &str) -> Result<()> {
        for file in 0..MANY {
            let handle = 2 + file;
            self.expect(&format!("open {name}-{file} rwc"), &[handle])?;
            for seed in 0..WRITES {
                self.expect(&format!("{handle} write 3000 {}", file + seed), &[3000])?;
            }
        }
        for file in 0..MANY {
            let bytes: Vec<u8> = (0..WRITES).flat_map(|seed| pattern(file + seed, 3000)).collect();
            self.expect(&format!("{} pread 0 100000", 2 + file), &checked(&bytes))?;
        }
        Ok(())
    }

    fn finish(mut self, volume: &TestVolume, name: &str) -> Result<()> {
        (0..2).try_for_each(|handle| self.expect(&format!("{handle} close"), &[]))?;
        self.worker.finish()?;
        for (name, bytes) in [(name, &self.bytes), (&format!("{name}-log"), &self.log)] {
            let found = std::fs::read(volume.join(name))?;
            ensure!(found == *bytes, "{name}: {} bytes of {}", found.len(), bytes.len());
            std::fs::remove_file(volume.join(name))?;
        }
        for file in 0..MANY {
            // Not all programs have them.
            let path = volume.join(&format!("{name}-{file}"));
            let Ok(found) = std::fs::read(&path) else { break };
            let records = (0..WRITES).flat_map(|seed| pattern(file + seed, 3000));
            ensure!(found == records.collect::<Vec<u8>>(), "{}", path.display());
            std::fs::remove_file(path)?;
        }
        Ok(())
    }
}

fn volume(name: &str) -> Result<TestVolume> {
    VolumeSpec::new(name).pm_mib(PM_MIB).options("lend=owner").mount()
}

/// Files of which some calls went direct, and others had no memory for that.
fn short_while_lent(report: &str) -> usize {
    let is_so = |line: &&str| !line.trim().starts_with("0 ") && line.contains("mount (no room)");
    report.lines().filter(|line| line.contains(" direct, ")).filter(is_so).count()
}

/// The library's memory comes in pieces of 64 KiB, and it maps PM and the control pages: so it
/// fails everywhere between its first piece and the last one.
#[test]
fn a_program_without_memory_takes_the_mount() {
    proof(|| {
        let mut volume = volume("direct-memory")?;
        let scratch = Scratch::new("direct-memory-reports")?;
        let report = scratch.join("report");
        let small = (0..6).map(|step| step * (64 << 10));
        let steps = small.clone().chain((1..5).map(|step| step * 8 * MIB));
        let mapped = (PM_MIB + CONTROL_MIB) * MIB;
        let steps = steps.chain((0..20).map(|step| mapped + step * (32 << 10)));
        for (number, more) in steps.enumerate() {
            let (name, context) = (format!("file-{number}"), || format!("{more} bytes more"));
            let mut program = Program::start(&volume, &report, number as u64)?;
            program.expect(&format!("limit memory {more}"), &[])?;
            program.open(&name).and_then(|()| program.work(60)).with_context(context)?;
            program.work_on_many(&name).with_context(context)?;
            program.finish(&volume, &name).with_context(context)?;
        }
        // The file is lent already.
        for (number, more) in small.enumerate() {
            let (name, context) = (format!("lent-{number}"), || format!("{more} bytes more, lent"));
            let mut program = Program::start(&volume, &report, number as u64)?;
            program.open(&name).and_then(|()| program.work(10)).with_context(context)?;
            program.expect(&format!("limit memory {more}"), &[])?;
            program.work(100).with_context(context)?;
            program.work_on_many(&name).with_context(context)?;
            program.finish(&volume, &name).with_context(context)?;
        }
        let both = short_while_lent(&std::fs::read_to_string(&report)?);
        ensure!(both > 20, "{both} files were lent and then were short of memory");
        let direct = direct_calls(&report)?;
        ensure!(direct > 500, "{direct} calls went direct");
        volume.check()
    });
}

/// Calls take the mount as long as there is no memory, and go direct again.
#[test]
fn memory_that_comes_back_is_used() {
    proof(|| {
        let mut volume = volume("direct-memory-again")?;
        let scratch = Scratch::new("direct-memory-again-reports")?;
        let mut program = Program::start(&volume, &scratch.join("report"), 1)?;
        program.open("file")?;
        program.work(10)?;
        program.expect("limit memory 0", &[])?;
        program.work_on_many("file")?;
        let direct_writes = |volume: &TestVolume| -> Result<u64> {
            let mut stats = volume.terrace("stats")?;
            let stats = run(stats.args(["--once", "--json"]).arg(volume.root()))?;
            let stats: serde_json::Value = serde_json::from_str(&stats)?;
            stats["counters"]["direct_writes"].as_u64().context("a counter")
        };
        let append = |program: &mut Program, count| {
            (0..count).try_for_each(|seed| {
                program.log.extend(pattern(seed, 100));
                program.expect(&format!("1 write 100 {seed}"), &[100])
            })
        };
        append(&mut program, 100)?;
        let short = direct_writes(&volume)?;
        append(&mut program, 100)?;
        let still = direct_writes(&volume)?;
        ensure!(still == short, "{} calls went direct without memory", still - short);
        program.expect(&format!("limit memory {}", 64 * MIB), &[])?;
        // The library asks again after some calls.
        append(&mut program, 1100)?;
        let handle = 2 + MANY;
        program.expect("open fresh rwc", &[handle])?;
        for seed in 0..100 {
            program.expect(&format!("{handle} write 100 {seed}"), &[100])?;
        }
        let again = direct_writes(&volume)? - still;
        ensure!(again > 80, "{again} calls went direct again");
        program.finish(&volume, "file")?;
        volume.check()
    });
}

/// The library opens a socket, and gets the descriptors of PM and of the control pages.
#[test]
fn a_program_without_descriptors_takes_the_mount() {
    proof(|| {
        let mut volume = volume("direct-descriptors")?;
        let scratch = Scratch::new("direct-descriptors-reports")?;
        let report = scratch.join("report");
        for more in 0..10 {
            let (name, context) = (format!("file-{more}"), || format!("{more} descriptors more"));
            let mut program = Program::start(&volume, &report, more)?;
            // Two of them are the program's.
            program.expect(&format!("limit files {}", 2 + more), &[])?;
            program.open(&name).and_then(|()| program.work(60)).with_context(context)?;
            if more == 0 {
                let opened = program.worker.ask(&format!("open {name} r"))?;
                ensure!(opened == Err(libc::EMFILE), "a third file: {opened:?}");
            }
            program.finish(&volume, &name).with_context(context)?;
        }
        let direct = direct_calls(&report)?;
        ensure!(direct > 100, "{direct} calls went direct");
        volume.check()
    });
}
