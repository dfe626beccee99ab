//! SIGKILL of the daemon under load: what was acknowledged is there afterwards, and nothing is
//! torn.
//!
//! Each round several writers work until a random number of operations has been acknowledged; then
//! the daemon is killed, the volume mounted again, and every writer compares what it finds with
//! what it was told. A writer knows three states of each operation: acknowledged (its effect must
//! be there), in flight when the daemon died (all of it or nothing), never asked for (nothing).
//!
//! `simulated` does the same with power cuts of simulated devices, which lose, reorder and tear
//! what was not flushed.
//!
//! `TERRACE_KILL_ROUNDS` sets the number of rounds (8), `TERRACE_KILL_SEED` the first seed.

mod record;
mod simulated;
mod writers;

use anyhow::{Context, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_proof::{Rng, TestVolume, VolumeSpec, environment, is_over_io_uring, proof};
use writers::Writer;

/// What the crash takes along, and so what counts as acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// Only the daemon dies. Dirty pages live in shared memory: what has returned is there.
    Daemon,
    /// The memory is gone, too: what was made durable is there.
    Power,
}

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

/// Runs the writers until `enough` operations are acknowledged, then lets `crash` happen under
/// them.
fn run_until_crash(
    dir: &Path,
    writers: &mut [Box<dyn Writer>],
    enough: u64,
    crash: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let load = Load { acknowledged: AtomicU64::new(0), stop: AtomicBool::new(false) };
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
        let crashed = crash();
        load.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        crashed
    })
}

/// One kind of load and how it is interrupted.
struct Scenario {
    name: &'static str,
    mount_options: &'static str,
    crash: Crash,
    /// The crash comes after at most so many operations.
    operations_max: u64,
    fleet: fn(&mut Rng) -> Vec<Box<dyn Writer>>,
}

impl Scenario {
    fn prove(&self) -> Result<()> {
        let rounds = environment("TERRACE_KILL_ROUNDS", 8)?;
        let first_seed = environment("TERRACE_KILL_SEED", 1000)?;
        let spec = VolumeSpec::new(self.name).pm_mib(48).disk_mib(2048);
        let mut volume = spec.options(self.mount_options).mount()?;
        for seed in first_seed..first_seed + rounds {
            self.round(&mut volume, seed).with_context(|| format!("TERRACE_KILL_SEED={seed}"))?;
        }
        Ok(())
    }

    fn round(&self, volume: &mut TestVolume, seed: u64) -> Result<()> {
        let mut rng = Rng::new(seed);
        let dir = volume.join(&format!("round-{seed}"));
        std::fs::create_dir(&dir)?;
        let mut writers = (self.fleet)(&mut rng);
        for writer in &mut writers {
            let prepared = writer.prepare(&dir);
            prepared.with_context(|| format!("preparing {}", writer.name()))?;
        }
        let enough = 1 + rng.below(self.operations_max);
        run_until_crash(&dir, &mut writers, enough, || match self.crash {
            Crash::Daemon => volume.kill(),
            Crash::Power => volume.power_cut(),
        })?;
        volume.remount().context("mounting after the crash")?;
        verify(&writers, &dir, self.crash)
            .with_context(|| format!("after a crash at {enough} operations"))?;
        volume.check()?;
        verify(&writers, &dir, self.crash).context("after a second remount")?;
        Ok(std::fs::remove_dir_all(&dir)?)
    }
}

/// Compares what is there with what each writer was told.
fn verify(writers: &[Box<dyn Writer>], dir: &Path, crash: Crash) -> Result<()> {
    for writer in writers {
        writer.verify(dir, crash).context(writer.name())?;
    }
    Ok(())
}

const SYNCHRONOUS: fn(&mut Rng) -> Vec<Box<dyn Writer>> = |rng| {
    vec![
        Box::new(writers::Appender::new(rng, true)),
        Box::new(writers::Overwriter::new(rng, true)),
        Box::new(writers::Replacer::new(rng, true)),
        Box::new(writers::Namespace::new(rng)),
        Box::new(writers::Mapper::new(rng)),
    ]
};

/// Never calls fsync. Only on a durable mount does that survive a power cut.
const UNSYNCHRONIZED: fn(&mut Rng) -> Vec<Box<dyn Writer>> = |rng| {
    vec![
        Box::new(writers::Appender::new(rng, false)),
        Box::new(writers::Overwriter::new(rng, false)),
        Box::new(writers::Replacer::new(rng, false)),
        Box::new(writers::Mapper::new(rng)),
    ]
};

#[test]
fn daemon_crash_under_synchronous_load() {
    proof(|| {
        Scenario {
            name: "kill-sync",
            mount_options: "",
            crash: Crash::Daemon,
            operations_max: 900,
            fleet: SYNCHRONOUS,
        }
        .prove()
    });
}

#[test]
fn power_cut_under_synchronous_load() {
    proof(|| {
        Scenario {
            name: "power-sync",
            mount_options: "",
            crash: Crash::Power,
            operations_max: 900,
            fleet: SYNCHRONOUS,
        }
        .prove()
    });
}

#[test]
fn power_cut_on_a_durable_mount() {
    proof(|| {
        Scenario {
            name: "power-durable",
            mount_options: "durable",
            crash: Crash::Power,
            operations_max: 900,
            fleet: UNSYNCHRONIZED,
        }
        .prove()
    });
}

#[test]
fn daemon_crash_without_any_fsync() {
    proof(|| {
        Scenario {
            name: "kill-nosync",
            mount_options: "",
            crash: Crash::Daemon,
            operations_max: 900,
            fleet: |rng| {
                let mut writers = UNSYNCHRONIZED(rng);
                writers.push(Box::new(writers::Streamer::new()));
                writers
            },
        }
        .prove()
    });
}

/// **P-05** A write(2) into PM of up to 1 MiB, or 512 KiB where messages come over io_uring, is
/// atomic in a crash, if it begins at a multiple of 4096 bytes or does not cross one: afterwards
/// all of it is there or nothing. Other writes the kernel may pass on in pieces, cut at such
/// multiples; each piece is atomic.
#[test]
fn large_writes_are_atomic() {
    proof(|| {
        Scenario {
            name: "kill-large",
            mount_options: "",
            crash: Crash::Power,
            operations_max: 60,
            fleet: |rng| {
                let bytes_max = if is_over_io_uring() { 512 << 10 } else { 1 << 20 };
                vec![Box::new(writers::Overwriter::with_slots(rng, true, 6, bytes_max))]
            },
        }
        .prove()
    });
}
