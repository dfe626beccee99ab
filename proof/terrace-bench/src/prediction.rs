//! How often the synchronicity predictor is right: programs run on a mounted volume, and its
//! counters tell.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use terrace_engine::{Counter, OpenOptions};
use terrace_policy::Param;

use crate::kernel::run as run_program;
use crate::loads::{Running, VARMAIL};
use crate::options::Options;
use crate::passing::{Settings, on_mount, params};
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::rocksdb;
use crate::stage::Room;

const FIO_SHORT: &str = "prediction: fio, random 4 KiB writes, fsync after each 8 vs always right";
const FIO_LONG: &str =
    "prediction: fio, random 4 KiB writes, fsync after each 2,048 vs always right";
const MAIL: &str = "prediction: varmail vs always right";
const ROCKSDB: &str = "prediction: RocksDB fillrandom, sync vs always right";
const SQLITE: &str = "prediction: SQLite, transactions vs always right";
const WORST: &str = "prediction: varmail, threshold between append and file vs the papers' 98.2 %";

/// All rows.
pub const ROWS: &[&str] = &[FIO_SHORT, FIO_LONG, MAIL, ROCKSDB, SQLITE, WORST];

const PM_BYTES: u64 = 512 << 20;
const DISK_BYTES: u64 = 2 << 30;
/// Share of right predictions to reach.
const REACH: f64 = 0.99;
const PAPERS_WORST: f64 = 0.982;
/// Of the worst case: files larger than all appends to them, and a threshold in between, as the
/// papers have it.
const WORST_FILE_BYTES: u64 = 256 << 10;
const WORST_FILES: u64 = 200;
const WORST_SYNC_BLOCKS: u64 = 16;

/// What it needs.
pub fn room(_: &Options) -> Room {
    Room { shm: PM_BYTES, cached: PM_BYTES, disk: DISK_BYTES }
}

/// A program, on a mounted volume; told how much less than usual it is to do.
type Program = fn(&Path, u64) -> Result<()>;

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let less = if options.quick { 50 } else { 1 };
    let programs: [(&str, Program); ROWS.len()] = [
        (FIO_SHORT, |root, less| fio(root, 8, 40_000 / less)),
        (FIO_LONG, |root, less| fio(root, 2048, 200_000 / less)),
        (MAIL, |root, less| Running::new(VARMAIL, root, 1000)?.loops(4000 / less)),
        (ROCKSDB, |root, less| rocksdb::fill_random(&root.join("db"), 120_000 / less)),
        (SQLITE, |root, less| sqlite(root, 2000 / less)),
        (WORST, |root, less| {
            Running::new(VARMAIL.of_files_of(WORST_FILE_BYTES), root, WORST_FILES)?
                .loops(4000 / less)
        }),
    ];
    let mut rows = Vec::new();
    for (name, program) in programs.into_iter().filter(|(name, _)| options.selects(name)) {
        progress.step(name);
        rows.push(match judged(options, name, program, less) {
            Ok((right, wrong)) => row(name, right, wrong),
            Err(error) if crate::interrupt::requested() => return Err(error),
            // A program that is not there keeps no other from running.
            Err(error) => Row::not_measured(name.to_owned(), format!("{error:#}")),
        });
    }
    Ok(rows)
}

fn row(name: &str, right: u64, wrong: u64) -> Row {
    let writes = right + wrong;
    let share = right as f64 / writes as f64;
    let (baseline, reach) = if name == WORST { (PAPERS_WORST, None) } else { (1.0, Some(REACH)) };
    Row {
        note: Some(format!("{:.2} % of {writes} writes", 100.0 * share)),
        ..Row::new(name.to_owned(), Unit::Share, baseline, share, share / baseline, reach)
    }
}

/// Predictions that came true and that did not while a program ran.
fn judged(options: &Options, name: &str, program: Program, less: u64) -> Result<(u64, u64)> {
    let settings: Settings = match name == WORST {
        true => &[(Param::SyncBlocks, WORST_SYNC_BLOCKS)],
        false => &[],
    };
    let open = OpenOptions { params: params(settings)?, ..OpenOptions::default() };
    let counters = on_mount(options, [PM_BYTES, DISK_BYTES], open, |root, volume| {
        program(root, less)?;
        Ok(volume.stats().counters)
    })?;
    let (right, wrong) =
        (counters.get(Counter::PredictedRight), counters.get(Counter::PredictedWrong));
    ensure!(right + wrong > 0, "nothing was predicted");
    Ok((right, wrong))
}

fn fio(root: &Path, fsync_every: u64, writes: u64) -> Result<()> {
    run_program(
        Command::new("fio")
            .args([
                "--name=prediction",
                "--rw=randwrite",
                "--bs=4k",
                "--size=64m",
                "--randseed=42",
                "--norandommap",
            ])
            .args(["--ioengine=psync", "--thread", "--fallocate=none", "--output-format=terse"])
            .arg(format!("--number_ios={writes}"))
            .arg(format!("--io_size={}", writes * 4096))
            .arg(format!("--fsync={fsync_every}"))
            .arg(format!("--directory={}", root.display())),
    )
    .map(drop)
}

/// Half of the transactions with a rollback journal, half with a log.
fn sqlite(root: &Path, transactions: u64) -> Result<()> {
    for mode in ["delete", "wal"] {
        let mut script = format!(
            "pragma journal_mode={mode}; pragma synchronous=full; create table t(a integer, b \
             text);"
        );
        for number in 0..transactions / 2 {
            script.push_str(&format!("insert into t values({number}, hex(zeroblob(200)));"));
        }
        run_program(Command::new("sqlite3").arg("-bail").arg(root.join(mode)).arg(script))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_compared_with_always_or_with_the_papers() {
        let met = row(SQLITE, 995, 5);
        assert_eq!((met.ours, met.ratio, met.met), (0.995, Some(0.995), Some(true)));
        assert_eq!(row(SQLITE, 98, 2).met, Some(false));
        let worst = row(WORST, 982, 18);
        assert_eq!((worst.ratio, worst.met), (Some(1.0), None));
    }
}
