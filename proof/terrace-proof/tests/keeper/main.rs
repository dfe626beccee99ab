//! A mount with a keeper, whose daemon is killed again and again while programs work: none of their
//! calls fails, nothing is lost, nothing is done twice, files stay open, locks and mappings stay.
//!
//! Each kind of program does what could go wrong if a request were lost or carried out twice, and
//! compares every result with what it must be (`programs`). Two of each work side by side in one
//! directory. `ends` has what ends a mount with a keeper, and what does not.
//!
//! `TERRACE_KEEPER_KILLS` sets the number of kills of each test (20), `TERRACE_KEEPER_SEED` the
//! seed.

mod ends;
mod programs;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use programs::{PROGRAMS, Program};
use terrace_proof::{Rng, TestVolume, VolumeSpec, proof};

/// What the programs of a test share.
struct Load {
    stop: AtomicBool,
    steps: AtomicU64,
    /// The longest step, in microseconds.
    longest: AtomicU64,
}

impl Load {
    /// Counts the step that began then; false once programs should end.
    fn step(&self, begun: Instant) -> bool {
        self.steps.fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

fn environment(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().with_context(|| format!("{name}={text} is not a number")),
        Err(_) => Ok(default),
    }
}

/// Two of each kind of program, the daemon killed under them.
fn kill_under_load(spec: VolumeSpec) -> Result<()> {
    let kills = environment("TERRACE_KEEPER_KILLS", 20)?;
    let seed = environment("TERRACE_KEEPER_SEED", 1)?;
    let mut volume = spec.options("keeper").mount()?;
    // Programs would wait for ever if no successor came.
    let watch = volume.kill_after(Duration::from_secs(120 + kills));
    let load =
        Load { stop: AtomicBool::new(false), steps: AtomicU64::new(0), longest: AtomicU64::new(0) };
    std::thread::scope(|scope| -> Result<()> {
        let mut clients = Vec::new();
        for (number, &(name, program)) in PROGRAMS.iter().enumerate() {
            let dir = volume.join(name);
            std::fs::create_dir(&dir)?;
            for client in 0..2 {
                let (dir, load) = (dir.clone(), &load);
                let mut rng = Rng::new(seed.wrapping_mul(1000) + 2 * number as u64 + client);
                let run = move || {
                    let mut program: Box<dyn Program> = program(&dir, client)?;
                    loop {
                        let begun = Instant::now();
                        program.step(&mut rng).with_context(|| format!("{name} {client}"))?;
                        if !load.step(begun) {
                            return program.end().with_context(|| format!("{name} {client}, end"));
                        }
                    }
                };
                clients.push(scope.spawn(run));
            }
        }
        let killed = kill(&volume, kills, &mut Rng::new(seed), || {
            clients.iter().all(|client| !client.is_finished())
        });
        load.stop.store(true, Ordering::Relaxed);
        let results: Vec<Result<()>> =
            clients.into_iter().map(|client| client.join().expect("a panic")).collect();
        // What a program says matters more than that it has ended.
        results.into_iter().collect::<Result<()>>()?;
        killed
    })?;
    drop(watch);
    let (steps, longest) = (load.steps.into_inner(), load.longest.into_inner());
    println!("{kills} kills, {steps} steps, the longest took {} ms", longest / 1000);
    ensure!(steps > kills, "the programs hardly worked");
    volume.check()
}

/// Kills the daemon so often, each time at a random moment after the mount is served.
fn kill(volume: &TestVolume, kills: u64, rng: &mut Rng, goes_on: impl Fn() -> bool) -> Result<()> {
    for _ in 0..kills {
        // Only a daemon that serves answers this.
        rustix::fs::statvfs(volume.root())?;
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
        ensure!(goes_on(), "a program has ended");
        volume.kill_daemon()?;
    }
    rustix::fs::statvfs(volume.root())?;
    Ok(())
}

#[test]
fn programs_see_a_pause() {
    proof(|| kill_under_load(VolumeSpec::new("keeper").pm_mib(96)));
}

#[test]
fn programs_see_a_pause_while_data_moves() {
    proof(|| kill_under_load(VolumeSpec::new("keeper-moves").migrating()));
}

#[test]
fn programs_see_a_pause_where_writes_are_durable() {
    proof(|| kill_under_load(VolumeSpec::new("keeper-durable").pm_mib(96).options("durable")));
}

#[test]
fn programs_see_a_pause_where_permissions_are_checked() {
    proof(|| kill_under_load(VolumeSpec::new("keeper-shared").pm_mib(96).shared()));
}
