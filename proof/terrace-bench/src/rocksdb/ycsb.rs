//! Mixtures like those of YCSB, made of `db_bench`'s own benchmarks on a database that is there
//! already. `docs/PERFORMANCE.md` says where they differ.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{COUNTED, KEY_BYTES, VALUE_BYTES, base_command, micros_per_op};
use crate::direct::share::DirectShare;
use crate::direct::{Both, Way};
use crate::kernel::run;
use crate::workload::{Sizes, Workload, to_fill};

/// Of the database that other benchmarks fill, what is there: it stays in PM.
const SHARE_OF_DATABASE: u64 = 4;
const OPS_MIN: u64 = 100;
const OPS_MAX: u64 = 200_000;

/// A mixture: one of `db_bench`'s benchmarks, and what it is told.
#[derive(Clone, Copy, Debug)]
struct Mix {
    benchmark: &'static str,
    options: &'static [&'static str],
}

const fn mix(benchmark: &'static str, options: &'static [&'static str]) -> Mix {
    Mix { benchmark, options }
}

const READ_AND_WRITE: &str = "readrandomwriterandom";

/// Declares mixtures, directly and otherwise.
macro_rules! mixes {
    ($($(#[$meta:meta])* $name:ident = $mix:expr;)*) => {$(
        $(#[$meta])*
        pub const $name: Both = Both {
            direct: |on, sizes| start($mix, Way::Direct, on, sizes),
            plain: |on, sizes| start($mix, Way::Plain, on, sizes),
        };
    )*};
}

mixes! {
    /// Half reads, half updates.
    A = mix(READ_AND_WRITE, &["--readwritepercent=50"]);
    /// 95 % reads.
    B = mix(READ_AND_WRITE, &["--readwritepercent=95"]);
    /// Reads.
    C = mix("readrandom", &[]);
    /// 95 % reads, most of them of few keys.
    D = mix(READ_AND_WRITE, &["--readwritepercent=95", "--read_random_exp_range=10"]);
    /// Scans of 50 keys.
    E = mix("seekrandom", &["--seek_nexts=50"]);
    /// Reads, each followed by a write of what was read.
    F = mix("updaterandom", &[]);
}

struct Mixed {
    mix: Mix,
    way: Way,
    database: PathBuf,
    keys: u64,
    ops: u64,
    round: Duration,
    spent: Duration,
    share: Option<DirectShare>,
}

/// Makes the database. Both ways may have one in the same directory.
fn start(mix: Mix, way: Way, directory: &Path, sizes: Sizes) -> Result<Box<dyn Workload>> {
    let database = directory.join(format!("ycsb-{way:?}"));
    let keys = sizes.database_bytes / SHARE_OF_DATABASE / (KEY_BYTES + VALUE_BYTES);
    let (round, spent) = (sizes.round, Duration::ZERO);
    let mut mixed = Mixed { mix, way, database, keys, ops: OPS_MIN, round, spent, share: None };
    run(mixed.command(Way::Plain)?.args(["--benchmarks=fillseq", "--sync=0"]))?;
    if way == Way::Direct {
        mixed.share = Some(DirectShare::of(mixed.mixture(COUNTED)?)?);
    }
    // So that the first round is as long as the others.
    mixed.run(OPS_MIN)?;
    Ok(Box::new(mixed))
}

impl Mixed {
    fn command(&self, way: Way) -> Result<Command> {
        let mut command = base_command(way == Way::Direct, &self.database)?;
        command.arg(format!("--num={}", self.keys));
        Ok(command)
    }

    fn mixture(&self, ops: u64) -> Result<Command> {
        let mut command = self.command(self.way)?;
        command
            .args(["--use_existing_db=1", "--sync=1"])
            .arg(format!("--benchmarks={}", self.mix.benchmark))
            .args([format!("--reads={ops}"), format!("--writes={ops}")])
            .args(self.mix.options);
        Ok(command)
    }
}

impl Workload for Mixed {
    fn batch_ops(&self) -> u64 {
        self.ops
    }

    fn run(&mut self, ops: u64) -> Result<()> {
        let printed = run(&mut self.mixture(ops)?)?;
        let micros = micros_per_op(&printed, self.mix.benchmark)
            .with_context(|| format!("db_bench reports no time: {printed}"))?;
        self.spent = Duration::from_secs_f64(micros * 1e-6 * ops as f64);
        self.ops = to_fill(self.round, ops, self.spent).clamp(OPS_MIN, OPS_MAX);
        Ok(())
    }

    fn spent(&self) -> Option<Duration> {
        Some(self.spent)
    }

    fn note(&self) -> Option<String> {
        self.share.as_ref().map(DirectShare::note)
    }
}
