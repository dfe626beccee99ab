//! Log migration: how fast logs of cold files give their pages in PM back, and what it costs
//! whoever uses such a file first.

use std::time::Instant;

use anyhow::{Result, ensure};
use terrace_engine::{Counter, Ino, Volume, XattrFlags};
use terrace_policy::Param;

use crate::engine::FILE;
use crate::interrupt;
use crate::migration::{DISK_BYTES, GROUP_BYTES, Still, measure_disk, run_movers};
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Row, Unit};
use crate::stage::Room;
use crate::workload::{BLOCK_BYTES, Random};

const GIVEN: &str =
    "migration: PM given back by logs of cold files, a page each, vs the disk, sequentially";
const FIRST_USE: &str = "engine: first getattr of a file after a mount, its log on a disk vs in PM";

/// All rows.
pub const ROWS: &[&str] = &[GIVEN, FIRST_USE];

/// More than a record holds.
const XATTRS: u64 = 5;
/// Files of which the first use is measured.
const SAMPLE: usize = 1000;

fn files(options: &Options) -> u64 {
    if options.quick { 2000 } else { 50_000 }
}

fn pm_bytes(options: &Options) -> u64 {
    files(options) * (BLOCK_BYTES as u64 + 512) + (64 << 20)
}

/// What it needs.
pub fn room(options: &Options) -> Room {
    Room { shm: pm_bytes(options), disk: 2 * DISK_BYTES, ..Room::default() }
}

/// Measures.
///
/// # Errors
/// If the system or the engine refuses.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let Still { memory: _memory, on_disk, mut bed } =
        Still::new("logs", pm_bytes(options), options)?;
    progress.step("making files");
    let inos = make_files(bed.volume(), files(options))?;
    bed.close()?;
    bed.reopen()?;
    progress.step("using them, their logs in PM");
    let in_pm = first_use(bed.volume(), &inos)?;
    bed.close()?;
    bed.reopen()?;
    progress.step("migrating");
    let alone = measure_disk(
        on_disk.path(),
        (inos.len() * BLOCK_BYTES).next_multiple_of(GROUP_BYTES) as u64,
    )?
    .write;
    let rate = migrate(bed.volume(), inos.len() as u64)?;
    bed.close()?;
    bed.reopen()?;
    progress.step("using them, their logs on the disk");
    let from_disk = first_use(bed.volume(), &inos)?;
    bed.close()?;
    let first_use = Row::lower_is_better(FIRST_USE, Unit::Microseconds, in_pm, from_disk, None);
    let given = Row::new(GIVEN.to_owned(), Unit::MibPerSecond, alone, rate, rate / alone, None);
    Ok(vec![given, first_use])
}

fn make_files(volume: &Volume, count: u64) -> Result<Vec<Ino>> {
    (0..count)
        .map(|number| {
            if number % 1024 == 0 {
                interrupt::check()?;
            }
            let ino = volume.create(Ino::ROOT, number.to_string().as_bytes(), &FILE)?.ino;
            for xattr in 0..XATTRS {
                volume.setxattr(
                    ino,
                    format!("user.{xattr}").as_bytes(),
                    &[7; 100],
                    XattrFlags::default(),
                    None,
                )?;
            }
            volume.forget(ino, 1);
            Ok(ino)
        })
        .collect()
}

/// Moves all logs; MiB of PM per second.
fn migrate(volume: &Volume, files: u64) -> Result<f64> {
    for param in [Param::MigrateMax, Param::MigrateAt, Param::MigrateMin] {
        volume.tune(param, 100)?;
    }
    volume.tune(Param::ColdAge, 0)?;
    volume.tune(Param::LogsAt, 0)?;
    let begin = Instant::now();
    let ended = run_movers(volume);
    let time = begin.elapsed();
    let given = volume.stats().counters.get(Counter::MigratedLogs);
    ensure!(
        given >= files * BLOCK_BYTES as u64,
        "no more than {given} bytes of logs have left PM: {ended:?}"
    );
    Ok(given as f64 / f64::from(1 << 20) / time.as_secs_f64())
}

/// Microseconds of a `getattr` of files that nobody has used since the mount, in no order.
fn first_use(volume: &Volume, inos: &[Ino]) -> Result<f64> {
    let mut random = Random::new();
    let begin = Instant::now();
    for _ in 0..SAMPLE {
        volume.getattr(inos[random.below(inos.len() as u64) as usize])?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e6 / SAMPLE as f64)
}
