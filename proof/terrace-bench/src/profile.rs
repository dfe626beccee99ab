//! One operation in process, alone, for a profiler: no rounds, no results, nothing else running.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::engine::{self, OnVolume};
use crate::files::{self, OnFiles};
use crate::floor::{self, Bare, Repeated, Step};
use crate::ground::Ground;
use crate::interrupt;
use crate::names;
use crate::options::{Options, Profile};
use crate::stage::{Room, Stage};
use crate::workload::{BATCH_OPS, Sizes, Workload};

/// The operation on our side and on files.
fn sides(profile: Profile) -> (OnVolume, OnFiles) {
    match profile {
        Profile::Overwrite => (engine::overwrite, files::overwrite),
        Profile::Read => (engine::read, files::read),
        Profile::Append => (engine::append, files::append),
        Profile::Create => (engine::create_write_unlink, names::create_write_unlink),
    }
}

/// What the operation cannot do without.
fn floor(profile: Profile) -> &'static [Step] {
    match profile {
        Profile::Overwrite => floor::OVERWRITE,
        Profile::Read => floor::READ,
        Profile::Append => floor::APPEND,
        Profile::Create => floor::CREATE,
    }
}

/// Runs our side for `--seconds`, then, unless told not to, tmpfs for as long and what the
/// operation cannot do without on bare PM, and prints the rates.
///
/// # Errors
/// If an operation fails or the run is interrupted.
pub fn run(profile: Profile, options: &Options) -> Result<()> {
    let (grounds, sizes) = ([Ground::Engine, Ground::Tmpfs], Sizes::in_process(options));
    Room::of(&grounds, sizes).check(options)?;
    let stage = Stage::set(&grounds, sizes, options)?;
    let volume = stage.site(Ground::Engine)?.volume().context("the engine has a volume")?;
    let (on_volume, on_files) = sides(profile);
    let time = Duration::from_secs_f64(options.seconds);
    // The other side is made afterwards, so that its file is not in any cache of the processor.
    let ours = nanoseconds_per_op(on_volume(volume, sizes)?.as_mut(), time)?;
    print("Terrace", ours);
    if !options.no_baseline {
        let tmpfs = nanoseconds_per_op(
            on_files(stage.site(Ground::Tmpfs)?.directory(), sizes)?.as_mut(),
            time,
        )?;
        print("tmpfs", tmpfs);
        println!("ratio    {:>12.2}", tmpfs / ours);
    }
    stage.strike()?;
    if !options.no_baseline {
        let mut bare = Bare::new(sizes)?;
        for step in floor(profile) {
            let nanoseconds = nanoseconds_per_op(&mut Repeated(&mut bare, step), time / 4)?;
            println!("floor    {:>12} {nanoseconds:>10.0} ns     {}", "", step.0);
        }
    }
    Ok(())
}

fn print(side: &str, nanoseconds: f64) {
    println!("{side:<8} {:>12.0} op/s {nanoseconds:>10.0} ns/op", 1e9 / nanoseconds);
}

fn nanoseconds_per_op(workload: &mut dyn Workload, time: Duration) -> Result<f64> {
    let (mut ops, mut spent) = (0, Duration::ZERO);
    while spent < time {
        interrupt::check()?;
        workload.prepare(BATCH_OPS)?;
        let start = Instant::now();
        workload.run(BATCH_OPS)?;
        spent += start.elapsed();
        ops += BATCH_OPS;
    }
    Ok(spent.as_nanos() as f64 / ops as f64)
}
