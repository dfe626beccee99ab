//! SIGKILL of the daemon under load: what was acknowledged is there afterwards, and nothing is torn.
//!
//! Each round several writers work until a random number of operations has been acknowledged; then
//! the daemon is killed, the volume mounted again, and every writer compares what it finds with what
//! it was told. A writer knows three states of each operation: acknowledged (its effect must be
//! there), in flight when the daemon died (all of it or nothing), never asked for (nothing).
//!
//! A crash of the daemon is not a power cut: writes that have returned survive it even without
//! fsync, because dirty pages live in shared memory. `TERRACE_KILL_ROUNDS` sets the number of rounds
//! (8), `TERRACE_KILL_SEED` the first seed.

mod record;
mod writers;

use anyhow::{Context, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_proof::{Rng, TestVolume, VolumeSpec, proof};
use writers::Writer;

/// What the writers of one round share.
struct Load {
    acknowledged: AtomicU64,
    stop: AtomicBool,
}

impl Load {
    /// Counts one acknowledged operation; false once the writers should end.
    fn acknowledge(&self) -> bool {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

fn environment(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .with_context(|| format!("{name}={text} is not a number")),
        Err(_) => Ok(default),
    }
}

/// Runs the writers until `enough` operations are acknowledged, then kills the daemon under them.
fn run_until_killed(
    volume: &mut TestVolume,
    dir: &Path,
    writers: &mut [Box<dyn Writer>],
    enough: u64,
) -> Result<()> {
    let load = Load {
        acknowledged: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let load = &load;
                scope.spawn(move || writer.work(dir, load))
            })
            .collect();
        while load.acknowledged.load(Ordering::Relaxed) < enough
            && !threads.iter().all(|t| t.is_finished())
        {
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        // The writers end by themselves, at the errors of a dead mount. `stop` is for directories.
        let killed = volume.kill();
        load.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        killed
    })
}

fn rounds(
    name: &str,
    mount_options: &str,
    fleet: fn(&mut Rng) -> Vec<Box<dyn Writer>>,
) -> Result<()> {
    let rounds = environment("TERRACE_KILL_ROUNDS", 8)?;
    let first_seed = environment("TERRACE_KILL_SEED", 1000)?;
    let mut volume = VolumeSpec::new(name)
        .pm_mib(48)
        .disk_mib(2048)
        .options(mount_options)
        .mount()?;
    for seed in first_seed..first_seed + rounds {
        let mut rng = Rng::new(seed);
        let dir = volume.join(&format!("round-{seed}"));
        std::fs::create_dir(&dir)?;
        let mut writers = fleet(&mut rng);
        for writer in &mut writers {
            writer
                .prepare(&dir)
                .with_context(|| format!("preparing {}", writer.name()))?;
        }
        let enough = 1 + rng.below(900);
        run_until_killed(&mut volume, &dir, &mut writers, enough)?;
        volume
            .remount()
            .with_context(|| format!("mounting after the crash of seed {seed}"))?;
        for writer in &writers {
            writer.verify(&dir).with_context(|| {
                format!(
                    "{} after a crash at {enough} operations, TERRACE_KILL_SEED={seed}",
                    writer.name()
                )
            })?;
        }
        volume
            .check()
            .with_context(|| format!("terrace check after seed {seed}"))?;
        for writer in &writers {
            writer.verify(&dir).with_context(|| {
                format!(
                    "{} after a second remount, TERRACE_KILL_SEED={seed}",
                    writer.name()
                )
            })?;
        }
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(())
}

#[test]
fn synchronous_load() {
    proof(|| {
        rounds("kill-sync", "", |rng| {
            vec![
                Box::new(writers::Appender::new(rng, true)),
                Box::new(writers::Overwriter::new(rng, true)),
                Box::new(writers::Replacer::new(rng, true)),
                Box::new(writers::Namespace::new(rng)),
            ]
        })
    });
}

#[test]
fn durable_mount() {
    proof(|| {
        rounds("kill-durable", "durable", |rng| {
            vec![
                Box::new(writers::Appender::new(rng, false)),
                Box::new(writers::Overwriter::new(rng, false)),
                Box::new(writers::Replacer::new(rng, false)),
                Box::new(writers::Mapper::new(rng)),
            ]
        })
    });
}

#[test]
fn returned_writes_survive_without_fsync() {
    proof(|| {
        rounds("kill-nosync", "", |rng| {
            vec![
                Box::new(writers::Appender::new(rng, false)),
                Box::new(writers::Overwriter::new(rng, false)),
                Box::new(writers::Replacer::new(rng, false)),
                Box::new(writers::Streamer::new(rng)),
                Box::new(writers::Mapper::new(rng)),
            ]
        })
    });
}
