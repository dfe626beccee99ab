//! Calls at the edges of what goes direct.

use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use terrace_proof::{Scratch, VolumeSpec, crc32c, pattern, proof, run};

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

/// A program that writes each of many files by one call, such as a mail server, goes direct, too;
/// and so does its next write to each, though most have come back to the mount meanwhile.
#[test]
fn files_that_are_written_once_go_direct_after_some() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-once").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-once-reports")?;
        let report = scratch.join("report");
        let mut worker = Worker::start(volume.root(), Some(&report))?;
        for (flags, len) in [("wc", 100), ("wa", 50)] {
            for seed in 0..40 {
                ensure!(worker.ask(&format!("open file{seed} {flags}"))? == Ok(vec![0]));
                ensure!(worker.ask(&format!("0 write {len} {seed}"))? == Ok(vec![len]));
                ensure!(worker.ask("0 close")? == Ok(Vec::new()));
            }
        }
        worker.finish()?;
        for seed in 0..40 {
            let found = std::fs::read(volume.join(&format!("file{seed}")))?;
            let expected = [pattern(seed, 100), pattern(seed, 50)].concat();
            ensure!(found == expected, "file{seed}: {} bytes", found.len());
        }
        // The first 16 files were made before the library knew of the mount.
        let direct = direct_calls(&report)?;
        ensure!((40..=48).contains(&direct), "{direct} of 80 calls went direct");
        volume.check()
    });
}

/// The library carries no call of so many pieces, and the kernel's idea of the end is old.
#[test]
fn an_append_that_the_kernel_makes_comes_to_the_true_end() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-pieces").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-pieces-reports")?;
        let report = scratch.join("report");
        let mut worker = Worker::start(volume.root(), Some(&report))?;
        ensure!(worker.ask("open file rwc")? == Ok(vec![0]));
        let mut expected = Vec::new();
        for seed in 0..20 {
            ensure!(worker.ask(&format!("0 write 1000 {seed}"))? == Ok(vec![1000]));
            expected.extend(pattern(seed, 1000));
            for len in [3, 32, 33, 40] {
                let appended = worker.ask(&format!("0 appends {len} {seed}"))?;
                ensure!(appended == Ok(vec![len as u64]), "{len} pieces: {appended:?}");
                expected.extend(pattern(seed, len));
            }
            ensure!(worker.ask(&format!("0 seek {}", expected.len()))?.is_ok());
        }
        worker.finish()?;
        let found = std::fs::read(volume.join("file"))?;
        ensure!(found == expected, "{} bytes of {}", found.len(), expected.len());
        ensure!(direct_calls(&report)? > 0);
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

/// An open that meets a lent file is refused once, and the kernel repeats it. The borrower may have
/// the file again by then.
#[test]
fn others_can_always_open_a_file_that_is_busy() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-busy").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-busy-reports")?;
        let report = scratch.join("report");
        let mut direct = Worker::start(volume.root(), Some(&report))?;
        ensure!(direct.ask("open file rwc")? == Ok(vec![0]));
        let (root, path) = (volume.root().to_owned(), volume.join("file"));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| -> Result<()> {
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let (root, path, is_over) = (&root, &path, &is_over);
                    scope.spawn(move || -> Result<u64> {
                        let mut opens = 0;
                        while !is_over.load(Ordering::Relaxed) {
                            let file = File::open(path)
                                .with_context(|| format!("open {opens} in {}", root.display()))?;
                            file.read_at(&mut [0; 100], 0)?;
                            opens += 1;
                        }
                        Ok(opens)
                    })
                })
                .collect();
            let begun = Instant::now();
            let mut wrote = Ok(());
            for seed in 0.. {
                if begun.elapsed() > Duration::from_secs(3) || wrote.is_err() {
                    break;
                }
                let line = format!("0 pwrite {} 100 {seed}", seed % 64 * 100);
                wrote = direct.ask(&line).and_then(|done| {
                    ensure!(done == Ok(vec![100]), "{line}: {done:?}");
                    Ok(())
                });
            }
            is_over.store(true, Ordering::Relaxed);
            for other in others {
                let opens = other.join().map_err(|_| anyhow!("a thread panicked"))??;
                ensure!(opens > 10, "{opens} opens");
            }
            wrote
        })?;
        direct.finish()?;
        volume.check()
    });
}

/// The kernel keeps its pages of a file that cannot be lent, however often it is read.
#[test]
fn a_file_that_cannot_be_lent_is_read_from_the_kernel_s_cache() {
    proof(|| {
        let mut volume = VolumeSpec::new("direct-on-disk").options("lend=owner").mount()?;
        let scratch = Scratch::new("direct-on-disk-reports")?;
        let mut direct = Worker::start(volume.root(), Some(&scratch.join("report")))?;
        let bytes = pattern(7, 256 << 10);
        std::fs::write(volume.join("file"), &bytes)?;
        run(volume.terrace("pin")?.arg("1").arg(volume.join("file")))?;
        let read_bytes = || -> Result<u64> {
            let stats =
                run(volume.terrace("stats")?.args(["--once", "--json"]).arg(volume.root()))?;
            let stats: serde_json::Value = serde_json::from_str(&stats)?;
            let counter = |name: &str| stats["counters"][name].as_u64().unwrap_or(0);
            let tiers = stats["tiers"].as_array().context("no tiers")?;
            let of_tiers = tiers.iter().filter_map(|tier| tier["file_read_bytes"].as_u64());
            Ok(counter("cache_read_bytes") + of_tiers.sum::<u64>())
        };
        ensure!(direct.ask("open file r")? == Ok(vec![0]));
        let before = read_bytes()?;
        for step in 0..20_000_usize {
            let at = step % 64 * 4096;
            let piece = &bytes[at..at + 4096];
            let expected = Ok(vec![4096, u64::from(crc32c(piece))]);
            ensure!(direct.ask(&format!("0 pread {at} 4096"))? == expected, "step {step}");
        }
        let came = read_bytes()? - before;
        ensure!(came < 8 * bytes.len() as u64, "{came} bytes were read by messages");
        direct.finish()?;
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
