//! Calls at the edges of what goes direct.

use anyhow::{Result, ensure};
use terrace_proof::{crc32c, pattern, proof};

use crate::program::{direct_calls, volume, worker};
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
