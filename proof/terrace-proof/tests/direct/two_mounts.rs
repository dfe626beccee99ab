//! A direct program that uses files of two mounts: it mixes up nothing, and what becomes of one
//! mount does not matter to the other.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use terrace_proof::{Rng, Scratch, TestVolume, VolumeSpec, checked, pattern, proof, run};

use crate::worker::{Worker, direct_calls};

/// Bytes of a record: no part of a page, and no whole number of words.
const RECORD: u64 = 101;
const EXDEV: i32 = libc::EXDEV;

/// Two volumes and a program.
struct Both {
    worker: Worker,
    volumes: [TestVolume; 2],
    report: PathBuf,
    _scratch: Scratch,
}

impl Both {
    fn new(name: &str) -> Result<Self> {
        let mount = |number| {
            VolumeSpec::new(&format!("{name}-{number}")).pm_mib(32).options("lend=owner").mount()
        };
        let volumes = [mount(0)?, mount(1)?];
        let scratch = Scratch::new(&format!("{name}-reports"))?;
        let report = scratch.join("report");
        let worker = Worker::start(scratch.path(), Some(&report))?;
        Ok(Self { worker, volumes, report, _scratch: scratch })
    }

    fn path(&self, volume: usize, name: &str) -> String {
        self.volumes[volume].join(name).display().to_string()
    }

    fn expect(&mut self, line: &str, numbers: &[u64]) -> Result<()> {
        self.worker.expect(line, numbers)
    }

    fn open(&mut self, volume: usize, name: &str, letters: &str) -> Result<u64> {
        let line = format!("open {} {letters}", self.path(volume, name));
        let opened = self.worker.ask(&line)?;
        let Ok(&[handle]) = opened.as_deref() else { bail!("{line}: {opened:?}") };
        Ok(handle)
    }

    /// How many files a mount has lent.
    fn lent(&self, volume: usize) -> Result<u64> {
        let volume = &self.volumes[volume];
        let stats = run(volume.terrace("stats")?.args(["--once", "--json"]).arg(volume.root()))?;
        let stats: serde_json::Value = serde_json::from_str(&stats)?;
        stats["loans"]["files"].as_u64().context("a number of loans")
    }

    /// Both volumes are whole.
    fn finish(self) -> Result<u64> {
        self.worker.finish()?;
        for mut volume in self.volumes {
            volume.check()?;
        }
        direct_calls(&self.report)
    }
}

/// Files with the same inode number, on each mount one.
#[test]
fn files_of_two_mounts_are_not_mixed_up() {
    proof(|| {
        let mut both = Both::new("direct-two")?;
        let mut expected = [Vec::new(), Vec::new()];
        for volume in 0..2 {
            ensure!(both.open(volume, "file", "rwc")? == volume as u64, "its own handle");
        }
        let inode = |volume: &TestVolume| Ok(std::fs::metadata(volume.join("file"))?.ino());
        let inodes = both.volumes.iter().map(inode).collect::<Result<Vec<_>>>()?;
        ensure!(inodes[0] == inodes[1], "{inodes:?} differ");
        let mut rng = Rng::new(3);
        for seed in 0..600_u64 {
            let volume = rng.below(2) as usize;
            let bytes: &mut Vec<u8> = &mut expected[volume];
            let end = bytes.len() as u64;
            let (at, len) = (rng.below(1 + end), 1 + rng.below(5000));
            match rng.below(8) {
                0 => {
                    let to = (at + len).min(end) as usize;
                    let part = checked(&bytes[at as usize..to]);
                    both.expect(&format!("{volume} pread {at} {len}"), &part)?;
                }
                1 => {
                    let path = both.path(volume, "file");
                    both.expect(&format!("stat {path}"), &[end])?;
                }
                2 => both.expect(&format!("{volume} sync"), &[])?,
                _ => {
                    let at = if seed % 3 == 0 { end } else { at };
                    bytes.resize(bytes.len().max((at + len) as usize), 0);
                    let data = pattern(seed, len as usize);
                    bytes[at as usize..(at + len) as usize].copy_from_slice(&data);
                    both.expect(&format!("{volume} pwrite {at} {len} {seed}"), &[len])?;
                }
            }
        }
        ensure!(both.lent(0)? == 1 && both.lent(1)? == 1, "each mount has lent its file");
        for (volume, expected) in expected.iter().enumerate() {
            both.expect(&format!("{volume} close"), &[])?;
            let found = std::fs::read(both.volumes[volume].join("file"))?;
            ensure!(found == *expected, "the file of mount {volume} is as it was written");
        }
        let direct = both.finish()?;
        ensure!(direct > 400, "{direct} calls went direct");
        Ok(())
    });
}

#[test]
fn lent_files_are_copied_from_mount_to_mount() {
    proof(|| {
        let mut both = Both::new("direct-two-copies")?;
        for (round, volume) in [0, 1, 0, 1].into_iter().enumerate() {
            let (other, name) = (1 - volume, format!("file-{round}"));
            let handle = both.open(volume, &name, "rwc")?;
            let mut expected = Vec::new();
            for seed in 0..60 {
                both.expect(&format!("{handle} write {RECORD} {seed}"), &[RECORD])?;
                expected.extend(pattern(seed, RECORD as usize));
            }
            ensure!(both.lent(volume)? == 1, "round {round}: the source is lent");
            let (from, to) = (both.path(volume, &name), both.path(other, "moved"));
            ensure!(both.worker.ask(&format!("rename {from} {to}"))? == Err(EXDEV), "EXDEV");
            ensure!(both.lent(volume)? == 1, "round {round}: it is still lent");
            // Both are lent, and the copy is made without the kernel.
            let relayed = both.open(other, &format!("relayed-{round}"), "rwc")?;
            for piece in [1, 100, 4096, 20_000] {
                let len = expected.len() as u64;
                both.expect(&format!("{handle} relay {relayed} {piece}"), &[len])?;
            }
            ensure!(both.lent(other)? == 1, "round {round}: the copy is lent, too");
            // The kernel copies to a file that is lent, too.
            for call in ["copy", "sendfile"] {
                let copied = both.open(other, &format!("{call}-{round}"), "rwc")?;
                for seed in 60..80 {
                    both.expect(&format!("{copied} write {RECORD} {seed}"), &[RECORD])?;
                }
                let (to, len) = (both.path(other, &format!("{call}-{round}")), expected.len());
                both.expect(&format!("{handle} {call} {to}"), &[len as u64])?;
                both.expect(&format!("{copied} write {RECORD} 80"), &[RECORD])?;
                both.expect(&format!("{handle} write {RECORD} 81"), &[RECORD])?;
                both.expect(&format!("{copied} close"), &[])?;
                let mut copy: Vec<u8> =
                    (60..80).flat_map(|seed| pattern(seed, RECORD as usize)).collect();
                copy.extend(&expected);
                // The position was not the copy's.
                let at = 20 * RECORD as usize;
                copy[at..at + RECORD as usize].copy_from_slice(&pattern(80, RECORD as usize));
                ensure!(std::fs::read(&to)? == copy, "round {round}: {call}");
                expected.extend(pattern(81, RECORD as usize));
            }
            for handle in [handle, relayed] {
                both.expect(&format!("{handle} close"), &[])?;
            }
            ensure!(std::fs::read(&from)? == expected, "round {round}: the source");
            let once = &expected[..60 * RECORD as usize];
            let relayed = std::fs::read(both.path(other, &format!("relayed-{round}")))?;
            ensure!(relayed == once.repeat(4), "round {round}: what was relayed");
        }
        let direct = both.finish()?;
        ensure!(direct > 300, "{direct} calls went direct");
        Ok(())
    });
}

/// How a mount ends in the middle of its use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its daemon and the keeper are killed, and it is mounted anew.
    Killed,
    /// The keeper starts another daemon.
    Replaced,
    /// It is unmounted while the program has nothing open there, and mounted again.
    Unmounted,
}

/// A file has each record that was acknowledged, once and in this order, and perhaps others that
/// were sent.
fn compare(bytes: &[u8], told: &[bool]) -> Result<()> {
    let mut rest = bytes.chunks(RECORD as usize).peekable();
    for (seed, is_acknowledged) in told.iter().enumerate() {
        let is_there = rest.next_if(|record| **record == pattern(seed as u64, RECORD as usize));
        ensure!(is_there.is_some() || !is_acknowledged, "record {seed} is missing");
    }
    let left = rest.count();
    ensure!(left == 0, "{left} records more, of {} bytes", bytes.len());
    Ok(())
}

/// A file on each mount to which records are appended, in turns.
#[derive(Default)]
struct Logs {
    name: String,
    handles: [u64; 2],
    /// Whether each record was acknowledged.
    told: Vec<[bool; 2]>,
}

impl Logs {
    /// Appends records to both. Something happens before the answers are awaited.
    fn append(
        &mut self,
        both: &mut Both,
        count: u64,
        amid: impl FnOnce(&mut Both) -> Result<()>,
    ) -> Result<()> {
        let first = self.told.len() as u64;
        for seed in first..first + count {
            for handle in self.handles {
                both.worker.send(&format!("{handle} write {RECORD} {seed}"))?;
            }
        }
        amid(both)?;
        for _ in 0..count {
            let mut are_acknowledged = [false; 2];
            for is_acknowledged in &mut are_acknowledged {
                let answer = both.worker.answer()?;
                ensure!(answer.as_ref().is_ok_and(|n| *n == [RECORD]) || answer.is_err(), "whole");
                *is_acknowledged = answer.is_ok();
            }
            self.told.push(are_acknowledged);
        }
        Ok(())
    }

    fn open(&mut self, both: &mut Both, volume: usize) -> Result<()> {
        self.handles[volume] = both.open(volume, &self.name, "rac")?;
        Ok(())
    }

    fn open_both(&mut self, both: &mut Both) -> Result<()> {
        (0..2).try_for_each(|volume| self.open(both, volume))
    }

    fn close(&self, both: &mut Both) -> Result<()> {
        self.handles.iter().try_for_each(|handle| both.expect(&format!("{handle} close"), &[]))
    }

    fn compare(&self, both: &Both, end: End) -> Result<()> {
        for volume in 0..2 {
            let context = || format!("{end:?}, mount {volume}, {}", self.name);
            let bytes = std::fs::read(both.path(volume, &self.name))?;
            let told: Vec<bool> = self.told.iter().map(|told| told[volume]).collect();
            compare(&bytes, &told).with_context(context)?;
            let may_fail = volume == 1 && end != End::Replaced;
            ensure!(may_fail || told.iter().all(|told| *told), "{}: an error", context());
        }
        Ok(())
    }
}

fn a_mount_ends(both: &mut Both, end: End, name: String) -> Result<()> {
    let mut logs = Logs { name, ..Logs::default() };
    logs.open_both(both)?;
    logs.append(both, 60, |_| Ok(()))?;
    ensure!(both.lent(0)? == 1 && both.lent(1)? == 1, "both files are lent");
    match end {
        End::Killed => {
            logs.append(both, 200, |both| both.volumes[1].kill())?;
            logs.append(both, 100, |_| Ok(()))?;
            // The program has the file of the mount that was, while it is mounted anew.
            logs.append(both, 200, |both| both.volumes[1].remount())?;
            logs.append(both, 100, |_| Ok(()))?;
            let _ = both.worker.ask(&format!("{} close", logs.handles[1]))?;
            logs.open(both, 1)?;
        }
        End::Replaced => logs.append(both, 200, |both| both.volumes[1].kill_daemon())?,
        End::Unmounted => {
            both.expect(&format!("{} close", logs.handles[1]), &[])?;
            let (path, mut told) = (both.path(0, &logs.name), logs.told.len());
            both.volumes[1].unmount()?;
            for _ in 0..100 {
                let line = format!("{} write {RECORD} {told}", logs.handles[0]);
                both.expect(&line, &[RECORD])?;
                told += 1;
                both.expect(&format!("stat {path}"), &[told as u64 * RECORD])?;
            }
            logs.told.resize(told, [true, false]);
            both.volumes[1].remount()?;
            logs.open(both, 1)?;
        }
    }
    let before = logs.told.len();
    // A library that was refused waits for fewer.
    logs.append(both, 1200, |_| Ok(()))?;
    let mut since = logs.told[before..].iter().flatten();
    ensure!(since.all(|is_acknowledged| *is_acknowledged), "{end:?}: both mounts serve");
    logs.close(both)?;
    // The daemon may have taken the files back since, but others are lent at once.
    let mut fresh = Logs { name: format!("{}-fresh", logs.name), ..Logs::default() };
    fresh.open_both(both)?;
    fresh.append(both, 20, |_| Ok(()))?;
    ensure!(both.lent(0)? > 0 && both.lent(1)? > 0, "{end:?}: both mounts lend files");
    fresh.close(both)?;
    for logs in [&logs, &fresh] {
        logs.compare(both, end)?;
    }
    Ok(())
}

#[test]
fn a_mount_goes_on_when_another_one_ends() {
    proof(|| {
        let mut both = Both::new("direct-two-ends")?;
        let ends = [End::Replaced, End::Unmounted, End::Killed];
        for (round, end) in ends.into_iter().cycle().take(6).enumerate() {
            if end != End::Replaced || both.volumes[1].has_keeper() {
                a_mount_ends(&mut both, end, format!("file-{round}"))
                    .with_context(|| format!("round {round}, {end:?}"))?;
            }
        }
        let direct = both.finish()?;
        ensure!(direct > 10_000, "{direct} calls went direct");
        Ok(())
    });
}
