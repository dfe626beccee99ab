//! Programs that use a lent file by the C library's functions and by io_uring, which nothing
//! diverts.

use anyhow::{Result, bail, ensure};
use terrace_proof::{Rng, Scratch, checked, pattern, proof, skip};

use crate::worker::{Worker, direct_calls, lending};

/// Bytes of a record: no part of a page, and no whole number of words.
const RECORD: u64 = 101;
/// Requests that a ring has at once.
const DEPTH: u64 = 32;
/// Calls of the C library between two changes of the way: enough for the file to be lent.
const ROUND: u64 = 16;

struct Program {
    worker: Worker,
    rng: Rng,
    /// The file, as it should be.
    bytes: Vec<u8>,
}

impl Program {
    fn expect(&mut self, line: &str, numbers: &[u64]) -> Result<()> {
        self.worker.expect(line, numbers)
    }

    /// A skip where the kernel offers no ring.
    fn make_ring(&mut self) -> Result<()> {
        match self.worker.ask(&format!("ring {DEPTH}"))? {
            Ok(_) => Ok(()),
            Err(errno @ (libc::ENOSYS | libc::EPERM)) => Err(skip(format!("no ring: {errno}"))),
            Err(errno) => bail!("no ring: {errno}"),
        }
    }

    fn put(&mut self, at: u64, data: &[u8]) {
        let end = at as usize + data.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[at as usize..end].copy_from_slice(data);
    }

    fn part(&self, at: u64, len: u64) -> Vec<u64> {
        let end = self.bytes.len().min((at + len) as usize);
        checked(&self.bytes[end.min(at as usize)..end])
    }

    /// A write or a read, by lines that begin so.
    fn any(&mut self, write: &str, read: &str) -> Result<()> {
        let end = self.bytes.len() as u64;
        let len = *self.rng.pick(&[1, 100, RECORD, 4096, 5000, 20_000]);
        let at = match self.rng.below(4) {
            0 => end,
            1 => end / 4096 * 4096,
            _ => self.rng.below(1 + end.min(200_000)),
        };
        if self.rng.one_in(3) {
            let part = self.part(at, len);
            return self.expect(&format!("{read} {at} {len}"), &part);
        }
        let seed = self.rng.below(1000);
        self.put(at, &pattern(seed, len as usize));
        self.expect(&format!("{write} {at} {len} {seed}"), &[len])
    }

    fn by_calls(&mut self) -> Result<()> {
        (0..ROUND).try_for_each(|_| self.any("0 pwrite", "0 pread"))?;
        let end = self.bytes.len() as u64;
        self.expect("0 size", &[end])
    }

    fn by_ring(&mut self, target: &str) -> Result<()> {
        let (write, read) = (format!("ring write {target}"), format!("ring read {target}"));
        (0..1 + self.rng.below(4)).try_for_each(|_| self.any(&write, &read))?;
        if self.rng.one_in(3) {
            self.expect(&format!("ring sync {target}"), &[])?;
        }
        Ok(())
    }

    /// Both at once.
    fn by_both(&mut self, target: &str) -> Result<()> {
        let at = self.rng.below(1 + self.bytes.len().min(100_000) as u64);
        let len = *self.rng.pick(&[RECORD, 4096, 1000]);
        let records: Vec<u8> =
            (0..2 * DEPTH).flat_map(|seed| pattern(seed, len as usize)).collect();
        self.put(at, &records);
        self.expect(&format!("ring beside {target} {at} {len} {DEPTH} 0"), &[])
    }
}

/// The ring is there before the file is opened, or is made once it is lent; it has the file by its
/// descriptor, or registered, in which case the descriptor is another one later.
#[test]
fn rings_and_calls_see_each_other_s_data() {
    proof(|| {
        let mut volume = lending("direct-rings")?;
        let scratch = Scratch::new("direct-rings-reports")?;
        let report = scratch.join("report");
        let mut other = Worker::start(volume.root(), None)?;
        for round in 0..16_u64 {
            let worker = Worker::start(volume.root(), Some(&report))?;
            let mut program = Program { worker, rng: Rng::new(round), bytes: Vec::new() };
            let is_early = round % 2 == 0;
            let (target, name) = (if round % 4 < 2 { "0" } else { "-" }, format!("file-{round}"));
            if is_early {
                program.make_ring()?;
            }
            program.expect(&format!("open {name} rwc"), &[0])?;
            if !is_early {
                program.by_calls()?;
                program.make_ring()?;
            }
            if target == "-" {
                program.expect("ring register 0", &[])?;
            }
            for step in 0..12 {
                program.by_calls()?;
                match step % 3 {
                    2 => program.by_both(target)?,
                    _ => program.by_ring(target)?,
                }
                if step == 6 && target == "-" {
                    // The ring has the first one still.
                    program.expect("0 close", &[])?;
                    program.expect(&format!("open {name} rw"), &[0])?;
                }
                let whole = checked(&program.bytes);
                if step % 4 == 3 {
                    ensure!(other.ask(&format!("open {name} r"))? == Ok(vec![0]));
                    let read = other.ask("0 pread 0 1000000")?;
                    ensure!(read == Ok(whole), "round {round}, step {step}: {read:?}");
                    ensure!(other.ask("0 close")? == Ok(Vec::new()));
                }
            }
            program.expect("0 close", &[])?;
            program.worker.finish()?;
            let found = std::fs::read(volume.join(&name))?;
            ensure!(found == program.bytes, "round {round}: {} bytes", found.len());
        }
        other.finish()?;
        let direct = direct_calls(&report)?;
        ensure!(direct > 500, "{direct} calls went direct");
        volume.check()
    });
}

/// The ring's requests append, whatever their offset is, where the calls that went direct have put
/// the end. Others see it at once, and the next mount finds all of it.
#[test]
fn rings_append_at_the_true_end() {
    proof(|| {
        let mut volume = lending("direct-rings-append")?;
        let scratch = Scratch::new("direct-rings-append-reports")?;
        let report = scratch.join("report");
        let worker = Worker::start(volume.root(), Some(&report))?;
        let mut program = Program { worker, rng: Rng::new(5), bytes: Vec::new() };
        let mut expected = Vec::new();
        program.make_ring()?;
        for (round, letters) in ["rac", "ac", "racd", "rac", "ac", "acd"].into_iter().enumerate() {
            program.expect(&format!("open file-{round} {letters}"), &[0])?;
            let target = if round < 3 { "0" } else { "-" };
            program.expect("ring register 0", &[])?;
            for seed in 0..400 {
                let len = *program.rng.pick(&[RECORD, 4096, 5000]);
                let line = match seed % 20 {
                    19 => format!("ring write {target} 0 {len} {seed}"),
                    _ => format!("0 write {len} {seed}"),
                };
                program.expect(&line, &[len])?;
                program.bytes.extend(pattern(seed, len as usize));
                let end = program.bytes.len() as u64;
                // To ask also tells the kernel.
                if seed % 7 == 6 {
                    program.expect("0 size", &[end])?;
                }
            }
            program.expect("0 close", &[])?;
            let found = std::fs::read(volume.join(&format!("file-{round}")))?;
            ensure!(found == program.bytes, "round {round}, at once: {} bytes", found.len());
            expected.push(std::mem::take(&mut program.bytes));
        }
        program.worker.finish()?;
        let direct = direct_calls(&report)?;
        ensure!(direct > 200, "{direct} calls went direct");
        volume.check()?;
        for (round, expected) in expected.into_iter().enumerate() {
            let found = std::fs::read(volume.join(&format!("file-{round}")))?;
            ensure!(found == expected, "round {round}: {} bytes", found.len());
        }
        Ok(())
    });
}
