//! proto

mod programs;
mod record;

use anyhow::Result;

use crate::options::Options;
use crate::progress::Progress;
use crate::report::Row;
use crate::stage::Room;
use record::Program;

pub const ROWS: &[&str] =
    &["simulated: RocksDB", "simulated: varmail", "simulated: build", "simulated: mail day"];

/// What it needs.
pub fn room(_: &Options) -> Room {
    Room { shm: 1 << 30, cached: 512 << 20, disk: 0 }
}

pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let all: [(&str, Program, u64, u64); 4] = [
        ("rocksdb", programs::rocksdb, 512, 16),
        ("varmail", programs::varmail, 128, 16),
        ("build", programs::build, 128, 12),
        ("mail", programs::mail_day, 384, 48),
    ];
    let rounds = options.rounds;
    for round in 0..rounds {
        for ((name, program, large, small), row) in all.into_iter().zip(ROWS) {
            if !options.selects(row) {
                continue;
            }
            for mib in [large, small] {
                progress.step(name);
                let begun = std::time::Instant::now();
                let trace = record::record(mib << 20, "nvme-ssd".parse()?, program, 1)?;
                eprintln!("{name} {mib}: {:?} {} bytes", begun.elapsed(), trace.len());
                let which = if mib == large { "large" } else { "small" };
                std::fs::write(format!("/work/tmp/traces/{name}.{which}.{round}"), trace)?;
            }
        }
    }
    Ok(vec![])
}
