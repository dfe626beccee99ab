//! Calls at the edges of what goes direct.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use terrace_proof::{Rng, Scratch, crc32c, pattern, proof, run};

use crate::program::{Library, direct_calls, source, volume, worker};
use crate::worker::Worker;

/// A longer write takes the mount.
const LONGEST: usize = 4 << 20;

#[test]
fn writes_of_all_lengths_are_whole() {
    proof(|| {
        let mut volume = volume("libterrace-lengths")?;
        let mut worker = worker(volume.root())?;
        ensure!(worker.ask("open file rwc")? == Ok(vec![0]));
        let mut expected = Vec::new();
        let around = [4096, 16 << 10, LONGEST].map(|len| [len - 1, len, len + 1]);
        let lengths = [1, 1].into_iter().chain(around.into_iter().flatten());
        for (seed, len) in lengths.chain([6 << 20, 100, 0]).enumerate() {
            let answer = worker.ask(&format!("0 append {len} {seed}"))?;
            ensure!(answer == Ok(vec![expected.len() as u64]), "{len} bytes: {answer:?}");
            expected.extend(pattern(seed as u64, len));
        }
        let whole = worker.ask(&format!("0 pread 0 {}", expected.len() + 1))?;
        ensure!(whole == Ok(vec![expected.len() as u64, u64::from(crc32c(&expected))]));
        let direct = direct_calls(&mut worker, 0)?;
        ensure!(direct >= 8 || !volume.is_mount(), "{direct} calls went direct");
        worker.finish()?;
        ensure!(std::fs::read(volume.join("file"))? == expected);
        volume.check()
    });
}

/// Handles of a file are one open file each, and what one of them may not do, it may not do
/// directly either.
#[test]
fn handles_keep_to_how_they_were_opened() {
    proof(|| {
        let mut volume = volume("libterrace-rights")?;
        let mut worker = worker(volume.root())?;
        for (handle, letters) in ["wc", "r", "rw"].into_iter().enumerate() {
            ensure!(worker.ask(&format!("open file {letters}"))? == Ok(vec![handle as u64]));
        }
        for seed in 0..100 {
            ensure!(worker.ask(&format!("0 append 10 {seed}"))? == Ok(vec![10 * seed]));
        }
        let refused = |worker: &mut Worker, line: &str, errno: i32| -> Result<()> {
            let answer = worker.ask(line)?;
            ensure!(answer == Err(errno), "{line}: {answer:?}");
            Ok(())
        };
        refused(&mut worker, "0 pread 0 10", libc::EBADF)?;
        refused(&mut worker, "1 pwrite 0 10 1", libc::EBADF)?;
        refused(&mut worker, "1 append 10 1", libc::EBADF)?;
        refused(&mut worker, "1 truncate 0", libc::EINVAL)?;
        refused(&mut worker, &format!("2 pread {} 10", u64::MAX), libc::EINVAL)?;
        refused(&mut worker, &format!("2 pwrite {} 10 1", 1_u64 << 63), libc::EINVAL)?;
        ensure!(worker.ask(&format!("2 pread {} 10", i64::MAX - 10))? == Ok(vec![0, 0]));
        // After a call on the mount, some more take it.
        for _ in 0..100 {
            let read = worker.ask("1 pread 990 100")?;
            ensure!(read == Ok(vec![10, u64::from(crc32c(&pattern(99, 10)))]), "{read:?}");
        }
        for handle in 0..2 {
            let direct = direct_calls(&mut worker, handle)?;
            ensure!(direct > 0 || !volume.is_mount(), "{handle}: no call went direct");
        }
        worker.finish()?;
        volume.check()
    });
}

/// The file goes to and fro between a process that has it by the library, and one that opens it on
/// the mount.
#[test]
fn a_reader_on_the_mount_sees_each_write() {
    proof(|| {
        let mut volume = volume("libterrace-reader")?;
        let mut writer = worker(volume.root())?;
        ensure!(writer.ask("open file rwc")? == Ok(vec![0]));
        let mut expected = Vec::new();
        for round in 0..40 {
            for seed in 0..50 {
                ensure!(writer.ask(&format!("0 append 77 {}", round + seed))?.is_ok());
                expected.extend(pattern(round + seed, 77));
            }
            ensure!(std::fs::read(volume.join("file"))? == expected, "round {round}");
        }
        let direct = direct_calls(&mut writer, 0)?;
        ensure!(direct > 100 || !volume.is_mount(), "{direct} calls went direct");
        // Whoever opens it for the first time finds it as another one left it.
        ensure!(writer.ask("0 close")? == Ok(Vec::new()));
        ensure!(writer.ask("open file rw")? == Ok(vec![0]));
        ensure!(writer.ask("0 size")? == Ok(vec![expected.len() as u64]));
        writer.finish()?;
        volume.check()
    });
}

#[test]
fn a_program_in_c_meets_the_edges() {
    proof(|| {
        let mut volume = volume("libterrace-c-edges")?;
        let library = Library::new()?;
        let edges = source("proof/terrace-proof/tests/libterrace/edges.c");
        for arguments in [&[][..], &["-static"]] {
            let program = library.compile("cc", &edges, arguments)?;
            let printed = run(library.command(&program).arg(volume.join("file")))?;
            let direct: u64 = printed.trim_end_matches(" direct\n").parse().context("a number")?;
            ensure!(direct > 450 || !volume.is_mount(), "{printed}");
            std::fs::remove_file(volume.join("file"))?;
            let elsewhere = Scratch::new("libterrace-c-edges-elsewhere")?;
            let printed = run(library.command(&program).arg(elsewhere.join("file")))?;
            ensure!(printed == "0 direct\n", "{printed}");
        }
        if volume.is_mount() {
            // Then the other library may have the file.
            let program = library.compile("cc", &edges, &[])?;
            let mut command = volume.terrace("run")?;
            command.arg("--").arg(program).arg(volume.join("file"));
            let printed = run(command.env("LD_LIBRARY_PATH", library.directory()))?;
            ensure!(printed == "0 direct\n", "{printed}");
        }
        volume.check()
    });
}

/// Processes append to one file at the same time, two by the library and one on the mount.
#[test]
fn records_of_several_appenders_are_there_once() {
    proof(|| {
        let mut volume = volume("libterrace-appenders")?;
        let (each, len) = (1500, 101);
        let workers = [worker(volume.root())?, worker(volume.root())?, on_mount(volume.root())?];
        let letters = ["rwc", "wc", "ac"];
        let appenders =
            workers.into_iter().zip(letters).enumerate().map(|(number, (it, letters))| {
                let mut worker = it;
                std::thread::spawn(move || -> Result<()> {
                    let mut rng = Rng::new(number as u64);
                    let mut seed = number as u64;
                    while seed < 3 * each {
                        ensure!(worker.ask(&format!("open log {letters}"))? == Ok(vec![0]));
                        for _ in 0..rng.below(80) {
                            let answer = worker.ask(&format!("0 write {len} {seed}"))?;
                            ensure!(answer == Ok(vec![len as u64]), "{answer:?}");
                            seed += 3;
                        }
                        ensure!(worker.ask("0 close")? == Ok(Vec::new()));
                    }
                    worker.finish()
                })
            });
        for appender in appenders.collect::<Vec<_>>() {
            appender.join().expect("no appender panics")?;
        }
        let bytes = std::fs::read(volume.join("log"))?;
        let mut found: BTreeMap<&[u8], usize> = BTreeMap::new();
        bytes.chunks(len).for_each(|record| *found.entry(record).or_default() += 1);
        ensure!(found.values().all(|&count| count == 1), "a record is there twice");
        let is_there = |seed| found.contains_key(pattern(seed, len).as_slice());
        ensure!((0..3 * each).all(is_there), "a record is missing");
        volume.check()
    });
}

fn on_mount(directory: &Path) -> Result<Worker> {
    Worker::start(directory, None)
}

/// A daemon that does not answer when a file is opened is asked again later.
#[test]
fn a_file_that_was_refused_at_first_goes_direct_later() {
    proof(|| {
        let mut volume = volume("libterrace-refused")?;
        if !volume.is_mount() {
            return volume.check();
        }
        let mut worker = worker(volume.root())?;
        let mut name = [0; 256];
        let len = rustix::fs::getxattr(volume.root(), "terrace.direct", &mut name[..])?;
        let socket = PathBuf::from(std::ffi::OsStr::from_bytes(&name[..len]));
        let aside = socket.with_extension("aside");
        std::fs::rename(&socket, &aside).context("the socket of the mount")?;
        for (handle, file) in ["one", "two"].into_iter().enumerate() {
            ensure!(worker.ask(&format!("open {file} rwc"))? == Ok(vec![handle as u64]));
        }
        ensure!(worker.ask("0 append 100 0")? == Ok(vec![0]));
        ensure!(direct_calls(&mut worker, 0)? == 0);
        std::fs::rename(&aside, &socket)?;
        for seed in 1..2000 {
            ensure!(worker.ask(&format!("0 append 100 {seed}"))? == Ok(vec![100 * seed]));
            ensure!(worker.ask("0 sync")? == Ok(Vec::new()));
        }
        let direct = direct_calls(&mut worker, 0)?;
        ensure!(direct > 500, "{direct} calls went direct");
        // A child has the other one, too, so it must not be taken later.
        ensure!(worker.ask("1 child append 100 0")? == Ok(vec![0]));
        for seed in 1..2000 {
            ensure!(worker.ask(&format!("1 append 100 {seed}"))? == Ok(vec![100 * seed]));
            ensure!(worker.ask("1 sync")? == Ok(Vec::new()));
        }
        ensure!(direct_calls(&mut worker, 1)? == 0);
        worker.finish()?;
        let expected: Vec<u8> = (0..2000).flat_map(|seed| pattern(seed, 100)).collect();
        ensure!(std::fs::read(volume.join("one"))? == expected);
        ensure!(std::fs::read(volume.join("two"))? == expected);
        volume.check()
    });
}
