//! Descriptors that direct programs send to others (SCM_RIGHTS) while they use them: all share one
//! open file description, with its position.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use terrace_proof::{Rng, Scratch, TestVolume, checked, pattern, proof};

use crate::worker::{Answer, Worker, direct_calls, lending};

/// Bytes of a record: no part of a page, and no whole number of words.
const RECORD: usize = 101;
/// Processes: two direct ones, and one on the mount.
const DIRECT: [bool; 3] = [true, true, false];
/// Handles of a file that a mixture has at most.
const HOLDERS_MAX: usize = 7;

/// Processes that send each other descriptors.
struct Group {
    workers: Vec<Worker>,
    inboxes: Vec<PathBuf>,
    report: PathBuf,
    _scratch: Scratch,
}

impl Group {
    fn new(volume: &TestVolume, name: &str) -> Result<Self> {
        let scratch = Scratch::new(name)?;
        let report = scratch.join("report");
        let mut group =
            Self { workers: Vec::new(), inboxes: Vec::new(), report, _scratch: scratch };
        for (number, direct) in DIRECT.into_iter().enumerate() {
            let report = direct.then_some(group.report.as_path());
            group.workers.push(Worker::start(volume.root(), report)?);
            group.inboxes.push(group._scratch.join(&format!("inbox-{number}")));
            group.bind(number)?;
        }
        Ok(group)
    }

    fn bind(&mut self, process: usize) -> Result<()> {
        let line = format!("inbox {}", self.inboxes[process].display());
        self.expect(process, &line, &[])
    }

    /// Another process takes the place of one that has ended.
    fn replace(&mut self, process: usize, directory: &Path) -> Result<Worker> {
        std::fs::remove_file(&self.inboxes[process])?;
        let report = DIRECT[process].then_some(self.report.as_path());
        let fresh = Worker::start(directory, report)?;
        let old = std::mem::replace(&mut self.workers[process], fresh);
        self.bind(process)?;
        Ok(old)
    }

    fn expect(&mut self, process: usize, line: &str, numbers: &[u64]) -> Result<()> {
        let expected = self.workers[process].expect(line, numbers);
        expected.with_context(|| format!("process {process}"))
    }

    /// Sends a handle, and tells its number there.
    fn pass(&mut self, from: usize, handle: u64, to: usize, many: bool) -> Result<u64> {
        let (call, inbox) = (if many { "passes" } else { "pass" }, self.inboxes[to].display());
        let line = format!("{call} {inbox} {handle}");
        self.expect(from, &line, &[])?;
        self.receive(to, if many { "receives 1" } else { "receive" })
    }

    fn receive(&mut self, to: usize, line: &str) -> Result<u64> {
        let received = self.workers[to].ask(line)?;
        let Ok(&[handle]) = received.as_deref() else {
            anyhow::bail!("process {to} has received {received:?}")
        };
        Ok(handle)
    }

    fn finish(self) -> Result<u64> {
        self.workers.into_iter().try_for_each(Worker::finish)?;
        direct_calls(&self.report)
    }
}

/// A handle of a process, and the open file description that it is of.
#[derive(Clone, Copy, Debug)]
struct Holder {
    process: usize,
    handle: u64,
    description: usize,
}

/// One file, as POSIX has it.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    /// Position, and whether it appends.
    descriptions: Vec<(u64, bool)>,
    holders: Vec<Holder>,
}

impl Model {
    fn put(&mut self, at: u64, data: &[u8]) {
        let end = at as usize + data.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at as usize..end].copy_from_slice(data);
    }

    fn part(&self, at: u64, len: u64) -> Vec<u64> {
        let end = self.bytes.len().min((at + len) as usize);
        checked(&self.bytes[end.min(at as usize)..end])
    }

    /// A call on a handle: the line, and the answer.
    fn call(&mut self, description: usize, rng: &mut Rng) -> (String, Vec<u64>) {
        let (position, appends) = self.descriptions[description];
        let end = self.bytes.len() as u64;
        let len = *rng.pick(&[1, 100, 101, 1000, 4096, 5000]);
        let at = *rng.pick(&[0, end, rng.clone().below(1 + end), end / 4096 * 4096]);
        let (seed, true_end) = (rng.below(1000), if appends { Some(end) } else { None });
        let moved;
        let (line, answer) = match rng.below(16) {
            0..6 => {
                let at = true_end.unwrap_or(position);
                self.put(at, &pattern(seed, len as usize));
                moved = at + len;
                (format!("write {len} {seed}"), vec![len])
            }
            6..8 => {
                self.put(true_end.unwrap_or(at), &pattern(seed, len as usize));
                moved = position;
                (format!("pwrite {at} {len} {seed}"), vec![len])
            }
            8..11 => {
                let answer = self.part(position, len);
                moved = position + answer[0];
                (format!("read {len}"), answer)
            }
            11 => {
                moved = position;
                (format!("pread {at} {len}"), self.part(at, len))
            }
            12 => {
                moved = at;
                (format!("seek {at}"), vec![at])
            }
            13 => {
                moved = end;
                ("end".to_owned(), vec![end])
            }
            14 => {
                moved = position;
                ("size".to_owned(), vec![end])
            }
            _ => {
                moved = position;
                ("at".to_owned(), vec![position])
            }
        };
        self.descriptions[description].0 = moved;
        (line, answer)
    }
}

/// Calls by all processes on one file, which has several open file descriptions, each of which
/// several processes have.
struct Mixture<'a> {
    group: &'a mut Group,
    model: Model,
    rng: Rng,
    name: String,
    done: Vec<String>,
}

impl Mixture<'_> {
    fn expect(&mut self, process: usize, line: &str, numbers: &[u64]) -> Result<()> {
        self.done.push(format!("process {process}: {line}"));
        let last = |done: &[String]| done[done.len().saturating_sub(40)..].join("\n");
        let expected = self.group.expect(process, line, numbers);
        expected.with_context(|| format!("{}:\n{}", self.name, last(&self.done)))
    }

    fn open(&mut self, process: usize) -> Result<()> {
        let appends = self.rng.one_in(3);
        let line = format!("open {} {}", self.name, if appends { "rac" } else { "rwc" });
        self.done.push(format!("process {process}: {line}"));
        let opened: Answer = self.group.workers[process].ask(&line)?;
        let Ok(&[handle]) = opened.as_deref() else { anyhow::bail!("{line}: {opened:?}") };
        let description = self.model.descriptions.len();
        self.model.descriptions.push((0, appends));
        self.model.holders.push(Holder { process, handle, description });
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let at = self.rng.below(self.model.holders.len() as u64) as usize;
        let holder = self.model.holders[at];
        let (process, handle) = (holder.process, holder.handle);
        match self.rng.below(24) {
            0 if self.model.holders.len() < HOLDERS_MAX => {
                let process = self.rng.below(3) as usize;
                self.open(process)
            }
            1..3 if self.model.holders.len() < HOLDERS_MAX => {
                let (to, many) = (self.rng.below(3) as usize, self.rng.one_in(2));
                self.done.push(format!("process {process}: pass {handle} to process {to}"));
                let handle = self.group.pass(process, handle, to, many)?;
                self.model.holders.push(Holder { process: to, handle, ..holder });
                Ok(())
            }
            3 if self.model.holders.len() < HOLDERS_MAX => {
                let line = format!("{handle} twin");
                self.done.push(format!("process {process}: {line}"));
                let twin = self.group.workers[process].ask(&line)?;
                let Ok(&[handle]) = twin.as_deref() else { anyhow::bail!("{line}: {twin:?}") };
                self.model.holders.push(Holder { handle, ..holder });
                Ok(())
            }
            4 if self.model.holders.len() > 1 => self.close(at),
            // Enough calls for the file to be lent, if it may be.
            5 => (0..12).try_for_each(|_| self.call(holder)),
            _ => self.call(holder),
        }
    }

    fn call(&mut self, holder: Holder) -> Result<()> {
        let (line, answer) = self.model.call(holder.description, &mut self.rng);
        self.expect(holder.process, &format!("{} {line}", holder.handle), &answer)
    }

    fn close(&mut self, at: usize) -> Result<()> {
        let holder = self.model.holders.swap_remove(at);
        self.expect(holder.process, &format!("{} close", holder.handle), &[])
    }
}

#[test]
fn processes_share_the_descriptions_that_they_pass() {
    proof(|| {
        let mut volume = lending("direct-passed")?;
        let mut group = Group::new(&volume, "direct-passed-inboxes")?;
        for seed in 0..60 {
            let (model, rng, done) = (Model::default(), Rng::new(seed), Vec::new());
            let name = format!("file-{seed}");
            let mut mixture = Mixture { group: &mut group, model, rng, name, done };
            mixture.open(0)?;
            // Some are sent before they are lent, and some after.
            let holder = mixture.model.holders[0];
            (0..seed % 3 * 12).try_for_each(|_| mixture.call(holder))?;
            (0..100).try_for_each(|_| mixture.step())?;
            while !mixture.model.holders.is_empty() {
                mixture.close(0)?;
            }
            let found = std::fs::read(volume.join(&mixture.name))?;
            ensure!(found == mixture.model.bytes, "{} is as it was written", mixture.name);
        }
        let direct = group.finish()?;
        ensure!(direct > 300, "{direct} calls went direct");
        volume.check()
    });
}

/// The records of a file, by their seeds, and where each of them is.
fn records(file: &Path, seeds: std::ops::Range<u64>) -> Result<BTreeMap<u64, usize>> {
    let bytes = std::fs::read(file)?;
    ensure!(bytes.len().is_multiple_of(RECORD), "{} bytes are no records", bytes.len());
    let by_bytes: BTreeMap<Vec<u8>, u64> = seeds.map(|s| (pattern(s, RECORD), s)).collect();
    let mut found = BTreeMap::new();
    for (at, record) in bytes.chunks(RECORD).enumerate() {
        let seed = by_bytes.get(record).with_context(|| format!("record {at} is torn"))?;
        ensure!(found.insert(*seed, at).is_none(), "record {seed} is there twice");
    }
    Ok(found)
}

/// All three write at once at one position, or at the end.
#[test]
fn records_that_are_written_through_one_description_are_there_once() {
    proof(|| {
        let mut volume = lending("direct-passed-writers")?;
        let mut group = Group::new(&volume, "direct-passed-writers-inboxes")?;
        let (before, each) = (20, 200);
        for (round, letters) in ["rwc", "rac", "rwc", "rac"].into_iter().enumerate() {
            let name = format!("file-{round}");
            group.expect(0, &format!("open {name} {letters}"), &[0])?;
            for seed in 0..before {
                group.expect(0, &format!("0 write {RECORD} {seed}"), &[RECORD as u64])?;
            }
            // The sender writes meanwhile, too.
            let own = |process: u64| (0..each).map(move |number| before + 3 * number + process);
            for seed in own(0).take(each as usize / 2) {
                group.workers[0].send(&format!("0 write {RECORD} {seed}"))?;
            }
            for to in 1..3 {
                group.workers[0].send(&format!("pass {} 0", group.inboxes[to].display()))?;
            }
            for seed in own(0).skip(each as usize / 2) {
                group.workers[0].send(&format!("0 write {RECORD} {seed}"))?;
            }
            for process in 1..3 {
                ensure!(group.receive(process, "receive")? == 0, "a first handle");
                for seed in own(process as u64) {
                    group.workers[process].send(&format!("0 write {RECORD} {seed}"))?;
                }
            }
            let written = Ok(vec![RECORD as u64]);
            for (process, answers) in [each + 2, each, each].into_iter().enumerate() {
                for number in 0..answers {
                    let answer = group.workers[process].answer()?;
                    let is_sent = answer == Ok(Vec::new()) && process == 0;
                    ensure!(is_sent || answer == written, "{process}, {number}: {answer:?}");
                }
            }
            let end = (before + 3 * each) * RECORD as u64;
            for process in 0..3 {
                group.expect(process, "0 at", &[end])?;
                group.expect(process, "0 size", &[end])?;
                group.expect(process, "0 close", &[])?;
            }
            let found = records(&volume.join(&name), 0..before + 3 * each)?;
            ensure!(found.len() as u64 == before + 3 * each, "{} records", found.len());
            for process in 0..3 {
                let places: Vec<usize> = own(process).map(|seed| found[&seed]).collect();
                ensure!(places.is_sorted(), "process {process} wrote in another order");
            }
        }
        let direct = group.finish()?;
        ensure!(direct > 100, "{direct} calls went direct");
        volume.check()
    });
}

/// The sender has ended, or was killed in the middle of its writes, when the message is received.
#[test]
fn a_descriptor_outlives_its_sender() {
    proof(|| {
        let mut volume = lending("direct-passed-orphans")?;
        let mut group = Group::new(&volume, "direct-passed-orphans-inboxes")?;
        let mut rng = Rng::new(11);
        for round in 0..16 {
            let (name, is_killed, to) =
                (format!("file-{round}"), round % 2 == 1, 1 + round / 2 % 2);
            let letters = *rng.pick(&["rwc", "rac"]);
            group.expect(0, &format!("open {name} {letters}"), &[0])?;
            let before = rng.below(60);
            for seed in 0..before {
                group.expect(0, &format!("0 write {RECORD} {seed}"), &[RECORD as u64])?;
            }
            group.expect(0, &format!("pass {} 0", group.inboxes[to].display()), &[])?;
            let after = rng.below(40);
            for seed in before..before + after {
                group.workers[0].send(&format!("0 write {RECORD} {seed}"))?;
            }
            let acknowledged = before + if is_killed { rng.below(1 + after) } else { after };
            for seed in before..acknowledged {
                let answer = group.workers[0].answer()?;
                ensure!(answer == Ok(vec![RECORD as u64]), "record {seed}: {answer:?}");
            }
            if is_killed {
                group.workers[0].signal(Signal::KILL)?;
            }
            let ended = group.replace(0, volume.root())?.ended()?;
            ensure!(is_killed || ended.success(), "round {round}: {ended}");
            let handle = group.receive(to, "receive")?;
            ensure!(handle == 0, "a first handle");
            let found = std::fs::metadata(volume.join(&name))?.len() / RECORD as u64;
            ensure!((acknowledged..=before + after).contains(&found), "{found} records are there");
            let expected: Vec<u8> = (0..found).flat_map(|seed| pattern(seed, RECORD)).collect();
            let at = group.workers[to].ask("0 at")?;
            let is_there = |at: u64| at == expected.len() as u64;
            // The position of a write that was cut off may stay before it.
            let is_cut = |at: u64| is_killed && at + RECORD as u64 == expected.len() as u64;
            let Ok(&[at]) = at.as_deref() else { anyhow::bail!("{at:?}") };
            ensure!(is_there(at) || is_cut(at), "round {round}: position {at}, {found} records");
            group.expect(to, &format!("0 seek {}", expected.len()), &[expected.len() as u64])?;
            group.expect(to, &format!("0 write {RECORD} {found}"), &[RECORD as u64])?;
            let expected = [expected, pattern(found, RECORD)].concat();
            group.expect(to, "0 pread 0 60000", &checked(&expected))?;
            group.expect(to, "0 close", &[])?;
            ensure!(std::fs::read(volume.join(&name))? == expected, "{name} is as it was written");
        }
        let direct = group.finish()?;
        ensure!(direct > 40, "{direct} calls went direct");
        volume.check()
    });
}

/// A thread of the sender writes all the time, through the same description or through another one
/// of the same file. The receiver appends behind all that it has written, and maps the file.
#[test]
fn a_descriptor_is_passed_while_a_thread_writes() {
    proof(|| {
        let mut volume = lending("direct-passed-amid")?;
        let mut group = Group::new(&volume, "direct-passed-amid-inboxes")?;
        let writes = 400;
        for round in 0..400 {
            // The first handle appends.
            let (passed, written, to) = (round % 2, round / 2 % 2, 1 + round / 4 % 2);
            let name = format!("file-{round}");
            // One that is made may be lent at once, another one after some calls.
            let after = match round / 8 % 2 {
                0 => 100,
                _ => {
                    std::fs::write(volume.join(&name), [])?;
                    round / 16 % 3
                }
            };
            group.expect(0, &format!("open {name} rac"), &[0])?;
            group.expect(0, &format!("open {name} rwc"), &[1])?;
            if after < 100 {
                (0..8).try_for_each(|_| group.expect(0, "1 pread 0 100", &checked(&[])))?;
            }
            let inbox = group.inboxes[to].display();
            let line = format!("amid {inbox} {passed} {written} {RECORD} {writes} {after}");
            group.expect(0, &line, &[writes])?;
            let mut expected: Vec<u8> =
                (0..writes).flat_map(|seed| pattern(seed, RECORD)).collect();
            ensure!(group.receive(to, "receive")? == 0, "a first handle");
            if passed == 1 {
                group.expect(
                    to,
                    &format!("0 seek {}", expected.len()),
                    &[expected.len() as u64],
                )?;
            }
            group.expect(to, &format!("0 write {RECORD} {writes}"), &[RECORD as u64])?;
            expected.extend(pattern(writes, RECORD));
            let context = || format!("round {round}");
            let end = expected.len() as u64;
            group.expect(to, "0 at", &[end]).with_context(context)?;
            group.expect(to, "0 map", &checked(&expected)).with_context(context)?;
            group.expect(to, "0 pread 0 60000", &checked(&expected)).with_context(context)?;
            group.expect(0, "1 pread 0 60000", &checked(&expected)).with_context(context)?;
            group.expect(to, "0 close", &[])?;
            (0..2).try_for_each(|handle| group.expect(0, &format!("{handle} close"), &[]))?;
            ensure!(std::fs::read(volume.join(&name))? == expected, "{name} is as it was written");
            std::fs::remove_file(volume.join(&name))?;
        }
        let direct = group.finish()?;
        ensure!(direct > 400, "{direct} calls went direct");
        volume.check()
    });
}
