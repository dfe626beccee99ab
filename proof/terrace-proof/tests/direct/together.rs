//! Everything at once: direct programs that are killed, stopped, and fork in the middle of their
//! writes, on files of their own and on some that they share with others, and a daemon that is
//! killed or replaced meanwhile. Each acknowledged write is there, once and whole.
//!
//! `TERRACE_KILL_ROUNDS` sets the number of rounds (2), `TERRACE_KILL_SEED` the first seed.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use terrace_proof::{Rng, Scratch, TestVolume, VolumeSpec, environment, pattern, proof, run};

use crate::worker::{Ended, Worker, direct_calls};

/// Bytes of a record: no part of a page, and no whole number of words.
const RECORD: usize = 101;
/// Programs, of which the first is on the mount, and the others go direct.
const PROGRAMS: u64 = 4;
/// Events of a round.
const EVENTS: usize = 60;
/// Bytes between the records that programs overwrite, each its own.
const SLOT: u64 = 4096;
/// Records that are appended while the program forks.
const BESIDE_FORKS: u64 = 20;

const LOCKED: &str = "no thread panics with the lock";

/// The records that a program was asked to write to files of one kind.
#[derive(Debug, Default)]
struct Told {
    /// Seeds of records to append, and whether that was acknowledged.
    appended: BTreeMap<u64, bool>,
    /// Seeds that its slot may have: the last one that was acknowledged, and those asked for later.
    slot: Vec<u64>,
    /// A write to the slot was acknowledged.
    has_slot: bool,
}

/// The users of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// All programs use it.
    Everybodys,
    /// Only this one does.
    Of(u64),
}

impl Whose {
    /// The file of records, and that of slots.
    fn names(self) -> [String; 2] {
        ["log", "slots"].map(|name| match self {
            Whose::Everybodys => name.to_owned(),
            Whose::Of(number) => format!("{name}-{number}"),
        })
    }

    fn all() -> impl Iterator<Item = Self> {
        (0..PROGRAMS).map(Whose::Of).chain([Whose::Everybodys])
    }
}

/// One after the other, programs with the same number: when one was killed, another one begins.
struct Program<'a> {
    number: u64,
    volume: &'a TestVolume,
    report: &'a Path,
    stop: &'a AtomicBool,
    /// The process.
    process: &'a Mutex<Option<OwnedFd>>,
    rng: Rng,
    next: u64,
    /// Of the files of its own, and of everybody's.
    told: [Told; 2],
}

impl Program<'_> {
    fn seed(&mut self) -> u64 {
        self.next += 1;
        self.next * PROGRAMS + self.number
    }

    fn run(mut self) -> Result<[Told; 2]> {
        while !self.stop.load(Ordering::Relaxed) {
            let report = (self.number > 0).then_some(self.report);
            let mut worker = Worker::start(self.volume.root(), report)?;
            *self.process.lock().expect(LOCKED) =
                Some(pidfd_open(worker.pid(), PidfdFlags::empty())?);
            let life = self.life(&mut worker);
            let status = worker.ended()?;
            *self.process.lock().expect(LOCKED) = None;
            let was_killed = status.signal() == Some(9);
            match life {
                // All that it said before must be right.
                Err(error) if was_killed && is_of_death(&error) => {}
                life => life.with_context(|| format!("program {}: {status}", self.number))?,
            }
            ensure!(was_killed || status.success(), "program {}: {status}", self.number);
        }
        Ok(self.told)
    }

    /// `Err` if it was killed, too.
    fn life(&mut self, worker: &mut Worker) -> Result<()> {
        let kind = usize::from(self.rng.one_in(3));
        let [log, slots] = [Whose::Of(self.number), Whose::Everybodys][kind].names();
        ensure!(worker.ask(&format!("open {log} a"))? == Ok(vec![0]));
        ensure!(worker.ask(&format!("open {slots} w"))? == Ok(vec![1]));
        for _ in 0..self.rng.below(60) {
            match self.rng.below(20) {
                0 => self.append_beside_forks(worker, kind)?,
                1..8 => self.overwrite(worker, kind)?,
                _ => self.append(worker, kind)?,
            }
        }
        for handle in 0..2 {
            ensure!(worker.ask(&format!("{handle} close"))? == Ok(Vec::new()));
        }
        Ok(())
    }

    fn append(&mut self, worker: &mut Worker, kind: usize) -> Result<()> {
        let seeds: Vec<u64> = (0..1 + self.rng.below(20)).map(|_| self.seed()).collect();
        self.told[kind].appended.extend(seeds.iter().map(|&seed| (seed, false)));
        for seed in &seeds {
            worker.send(&format!("0 write {RECORD} {seed}"))?;
        }
        for seed in seeds {
            is_written(worker)?;
            self.told[kind].appended.insert(seed, true);
        }
        Ok(())
    }

    fn append_beside_forks(&mut self, worker: &mut Worker, kind: usize) -> Result<()> {
        let seeds: Vec<u64> = (0..BESIDE_FORKS).map(|_| self.seed()).collect();
        self.told[kind].appended.extend(seeds.iter().map(|&seed| (seed, false)));
        let (first, step) = (seeds[0], PROGRAMS);
        let answer = worker.ask(&format!("0 fork {RECORD} {first} {step} {BESIDE_FORKS}"))?;
        ensure!(answer == Ok(vec![BESIDE_FORKS]), "beside forks: {answer:?}");
        self.told[kind].appended.extend(seeds.iter().map(|&seed| (seed, true)));
        Ok(())
    }

    fn overwrite(&mut self, worker: &mut Worker, kind: usize) -> Result<()> {
        let seeds: Vec<u64> = (0..1 + self.rng.below(10)).map(|_| self.seed()).collect();
        self.told[kind].slot.extend(&seeds);
        for seed in &seeds {
            worker.send(&format!("1 pwrite {} {RECORD} {seed}", self.number * SLOT))?;
        }
        for seed in seeds {
            is_written(worker)?;
            self.told[kind].slot.retain(|&other| other >= seed);
            self.told[kind].has_slot = true;
        }
        Ok(())
    }
}

/// Whether a program's end is all that is wrong: it gives no answer, or takes no more lines.
fn is_of_death(error: &anyhow::Error) -> bool {
    error.is::<Ended>() || error.is::<io::Error>()
}

fn is_written(worker: &mut Worker) -> Result<()> {
    let answer = worker.answer()?;
    ensure!(answer == Ok(vec![RECORD as u64]), "{answer:?}");
    Ok(())
}

/// Something that nobody may notice, but for a program that is killed.
fn event(volume: &TestVolume, processes: &[Mutex<Option<OwnedFd>>], rng: &mut Rng) -> Result<()> {
    let signal = |process: &Mutex<Option<OwnedFd>>, signal| {
        // It may have ended.
        let _ = process
            .lock()
            .expect(LOCKED)
            .as_ref()
            .map(|process| pidfd_send_signal(process, signal));
    };
    std::thread::sleep(Duration::from_millis(rng.below(20)));
    let process = rng.pick(processes);
    match rng.below(10) {
        0..3 => signal(process, Signal::KILL),
        3..6 => {
            signal(process, Signal::STOP);
            std::thread::sleep(Duration::from_millis(rng.below(120)));
            signal(process, Signal::CONT);
        }
        6..8 => {
            let names: Vec<String> = Whose::all().flat_map(Whose::names).collect();
            let name: &String = rng.pick(&names);
            std::fs::read(volume.join(name))?;
        }
        _ if !volume.has_keeper() => {}
        8 => {
            // One that has answered nothing yet is left alone: three such deaths end the mount.
            rustix::fs::statvfs(volume.root())?;
            volume.kill_daemon()?;
        }
        _ => drop(run(volume.terrace("upgrade")?.arg(volume.root()))?),
    }
    Ok(())
}

/// Compares files with what their programs were told: each with its number.
fn compare(volume: &TestVolume, whose: Whose, told: &[(usize, &Told)]) -> Result<()> {
    let [log, slots] = whose.names().map(|name| volume.join(&name));
    let asked = || told.iter().flat_map(|(_, told)| &told.appended);
    let by_bytes: BTreeMap<Vec<u8>, u64> =
        asked().map(|(&seed, _)| (pattern(seed, RECORD), seed)).collect();
    let bytes = std::fs::read(log)?;
    ensure!(bytes.len().is_multiple_of(RECORD), "{} bytes are no records", bytes.len());
    let mut found: BTreeMap<u64, usize> = BTreeMap::new();
    for (at, record) in bytes.chunks(RECORD).enumerate() {
        let seed = by_bytes.get(record).with_context(|| format!("record {at} is torn"))?;
        *found.entry(*seed).or_default() += 1;
    }
    for (seed, &is_acknowledged) in asked() {
        match found.get(seed) {
            Some(1) => {}
            None if !is_acknowledged => {}
            count => bail!("record {seed} is there {count:?} times"),
        }
    }
    let slots = std::fs::read(slots)?;
    for (number, told) in told.iter().filter(|(_, told)| !told.slot.is_empty()) {
        let at = number * SLOT as usize;
        let slot = slots.get(at..at + RECORD);
        let is_one = told.slot.iter().any(|&seed| slot == Some(&pattern(seed, RECORD)));
        let is_none = slot.is_none_or(|slot| slot.iter().all(|&byte| byte == 0));
        ensure!(is_one || !told.has_slot && is_none, "the slot of program {number} is older");
    }
    Ok(())
}

fn round(volume: &TestVolume, report: &Path, seed: u64) -> Result<()> {
    let names: Vec<_> = Whose::all().flat_map(Whose::names).map(|n| volume.join(&n)).collect();
    names.iter().try_for_each(|name| std::fs::write(name, []))?;
    let stop = AtomicBool::new(false);
    let processes: Vec<Mutex<Option<OwnedFd>>> = (0..PROGRAMS).map(|_| Mutex::default()).collect();
    let mut rng = Rng::new(seed);
    let told = std::thread::scope(|scope| {
        let programs: Vec<_> = (0..PROGRAMS)
            .zip(&processes)
            .map(|(number, process)| {
                let rng = Rng::new(seed * 1000 + number);
                let (told, next, stop) = (<[Told; 2]>::default(), 0, &stop);
                let program = Program { number, volume, report, stop, process, rng, next, told };
                scope.spawn(|| program.run())
            })
            .collect();
        let events = (0..EVENTS).try_for_each(|_| event(volume, &processes, &mut rng));
        stop.store(true, Ordering::Relaxed);
        let told = programs.into_iter().map(|program| program.join().expect("no panic"));
        let told = told.collect::<Result<Vec<_>>>();
        events.and(told)
    })?;
    let all = told.iter().enumerate();
    for (number, [own, _]) in all.clone() {
        compare(volume, Whose::Of(number as u64), &[(number, own)])?;
    }
    let shared: Vec<_> = all.map(|(number, [_, shared])| (number, shared)).collect();
    compare(volume, Whose::Everybodys, &shared)?;
    names.iter().try_for_each(|name| Ok(std::fs::remove_file(name)?))
}

#[test]
fn whatever_happens_to_programs_and_daemons_all_that_was_acknowledged_is_there() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-together").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-together-reports")?;
        let report = scratch.join("report");
        let first = environment("TERRACE_KILL_SEED", 1)?;
        let rounds = environment("TERRACE_KILL_ROUNDS", 2)?;
        for seed in first..first + rounds {
            round(&volume, &report, seed).with_context(|| format!("TERRACE_KILL_SEED={seed}"))?;
            eprintln!("round {} of {rounds}", seed - first + 1);
        }
        let direct = direct_calls(&report)?;
        ensure!(direct > 100, "{direct} calls went direct");
        volume.check()
    });
}
