//! Calls at the edges of what goes direct.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use terrace_proof::{Scratch, VolumeSpec, crc32c, pattern, proof};

use crate::worker::{Worker, direct_calls};

/// A longer write takes the mount.
const LONGEST: usize = 4 << 20;
/// A longer write is copied to memory of its own.
const ON_STACK: usize = 16 << 10;

#[test]
fn writes_of_all_lengths_are_whole() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-lengths").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-lengths-reports")?;
        let report = scratch.join("report");
        for letters in ["wc", "ac"] {
            let mut worker = Worker::start(volume.root(), Some(&report))?;
            ensure!(worker.ask(&format!("open {letters} {letters}"))? == Ok(vec![0]));
            let mut expected = Vec::new();
            let around = [4096, ON_STACK, LONGEST].map(|len| [len - 1, len, len + 1]);
            let lengths = [1, 1].into_iter().chain(around.into_iter().flatten());
            for (seed, len) in lengths.chain([6 << 20, 100]).enumerate() {
                let written = worker.ask(&format!("0 write {len} {seed}"))?;
                ensure!(written == Ok(vec![len as u64]), "{len} bytes: {written:?}");
                expected.extend(pattern(seed as u64, len));
            }
            worker.finish()?;
            let found = std::fs::read(volume.join(letters))?;
            ensure!(found == expected, "{letters}: {} bytes", found.len());
        }
        let direct = direct_calls(&report)?;
        ensure!(direct >= 8, "{direct} calls went direct");
        volume.check()
    });
}

/// The kernel does not look up a name then, so it asks for no attributes.
#[test]
fn a_lent_file_that_is_opened_by_its_descriptor_can_be_mapped() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-reopened").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-reopened-reports")?;
        let report = scratch.join("report");
        let mut direct = Worker::start(volume.root(), Some(&report))?;
        ensure!(direct.ask("open file rwc")? == Ok(vec![0]));
        let mut expected = Vec::new();
        for round in 0..3 {
            for seed in round * 100..(round + 1) * 100 {
                ensure!(direct.ask(&format!("0 write 100 {seed}"))? == Ok(vec![100]));
                expected.extend(pattern(seed, 100));
            }
            let whole = Ok(vec![expected.len() as u64, u64::from(crc32c(&expected))]);
            let mut other = Worker::start(volume.root(), None)?;
            let by_descriptor = descriptor(direct.id(), "file")?;
            for name in [by_descriptor, "file".into(), "file".into()] {
                let opened = other.ask(&format!("open {} rw", name.display()))?;
                ensure!(opened == Ok(vec![0]), "{opened:?}");
                let mapped = other.ask("0 map")?;
                ensure!(mapped == whole, "round {round}, {}: {mapped:?}", name.display());
                ensure!(other.ask("0 close")? == Ok(Vec::new()));
            }
            other.finish()?;
        }
        direct.finish()?;
        let direct = direct_calls(&report)?;
        ensure!(direct > 100, "{direct} calls went direct");
        volume.check()
    });
}

/// The library tells what it knows, and the daemon tells others.
#[test]
fn attributes_of_a_lent_file_are_the_same_for_all() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-attributes").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-attributes-reports")?;
        let report = scratch.join("report");
        let mut direct = Worker::start(volume.root(), Some(&report))?;
        let mut other = Worker::start(volume.root(), None)?;
        ensure!(direct.ask("open first wc")? == Ok(vec![0]));
        (0..10).try_for_each(|seed| direct.ask(&format!("0 write 100 {seed}")).map(drop))?;
        ensure!(direct.ask("open file rwc")? == Ok(vec![1]));
        for step in 0..200 {
            let line = match step % 8 {
                0 => format!("1 pwrite {} 5000 {step}", step * 700),
                1 => format!("1 write 100 {step}"),
                2 => format!("1 truncate {}", step * 500),
                3 => format!("1 mode {}", 0o600 + step % 64),
                4 => format!("1 reserve {} 9000", step * 600),
                _ => format!("1 pwrite {} 10 {step}", step * 300),
            };
            let done = direct.ask(&line)?;
            ensure!(done.is_ok(), "{line}: {done:?}");
            match step % 50 {
                // It takes the file back.
                49 => std::fs::hard_link(volume.join("file"), volume.join(&format!("{step}")))?,
                at if at % 5 == 1 => {
                    let mode = Permissions::from_mode(0o640 + step % 8);
                    std::fs::set_permissions(volume.join("file"), mode)?;
                }
                _ => {}
            }
            let seen = [direct.ask("1 attributes")?, direct.ask("attributes file")?];
            let seen_by_other = other.ask("attributes file")?;
            ensure!(
                seen.iter().all(|seen| *seen == seen_by_other) && seen_by_other.is_ok(),
                "step {step}: {seen:?}, {seen_by_other:?}"
            );
        }
        direct.finish()?;
        other.finish()?;
        let calls = direct_calls(&report)?;
        ensure!(calls > 80, "{calls} calls went direct");
        volume.check()
    });
}

/// A process's open file of this name, as others can open it.
fn descriptor(process: u32, name: &str) -> Result<PathBuf> {
    for entry in std::fs::read_dir(format!("/proc/{process}/fd"))? {
        let path = entry?.path();
        if std::fs::read_link(&path)?.ends_with(name) {
            return Ok(path);
        }
    }
    None.with_context(|| format!("process {process} has no {name} open"))
}
