//! A mount with a keeper, whose daemon is killed, or upgraded, again and again while programs work:
//! none of their calls fails, nothing is lost, nothing is done twice, files stay open, locks and
//! mappings stay.
//!
//! Each kind of program does what could go wrong if a request were lost or carried out twice, and
//! compares every result with what it must be (`programs`). Two of each work side by side in one
//! directory. `ends` has what ends a mount with a keeper, and what does not; `upgrades` has what
//! another program may be like that is to take a mount over, and what may die meanwhile.
//!
//! `TERRACE_KEEPER_KILLS` sets the number of kills of each test (20), `TERRACE_KEEPER_UPGRADES` the
//! number of upgrades (8), `TERRACE_KEEPER_SEED` the seed.

mod ends;
mod programs;
mod upgrades;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use programs::{PROGRAMS, Program};
use terrace_proof::{Rng, TestVolume, VolumeSpec, environment, proof, run, when_idle};

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

/// Two of each kind of program, the daemon killed under them.
fn kill_under_load(spec: VolumeSpec) -> Result<()> {
    let kills = environment("TERRACE_KEEPER_KILLS", 20)?;
    disturb_under_load(spec, kills, &mut |volume, _| volume.kill_daemon())
}

/// Something that programs are not to notice.
type Disturb<'a> = &'a mut dyn FnMut(&TestVolume, &mut Rng) -> Result<()>;

/// Two of each kind of program, the mount disturbed under them so often.
fn disturb_under_load(spec: VolumeSpec, times: u64, disturb: Disturb<'_>) -> Result<()> {
    let seed = environment("TERRACE_KEEPER_SEED", 1)?;
    let mut volume = spec.options("keeper").mount()?;
    // Programs would wait for ever if no successor came.
    let watch = volume.kill_after(Duration::from_secs(120 + times));
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
        let goes_on = || clients.iter().all(|client| !client.is_finished());
        let disturbed = repeat(&volume, times, &mut Rng::new(seed), goes_on, disturb);
        load.stop.store(true, Ordering::Relaxed);
        let results: Vec<Result<()>> =
            clients.into_iter().map(|client| client.join().expect("a panic")).collect();
        // What a program says matters more than that it has ended.
        results.into_iter().collect::<Result<()>>()?;
        disturbed
    })?;
    drop(watch);
    let (steps, longest) = (load.steps.into_inner(), load.longest.into_inner());
    println!("{times} times, {steps} steps, the longest took {} ms", longest / 1000);
    ensure!(steps > times, "the programs hardly worked");
    if volume.daemon_of_keeper().is_some() {
        return volume.check();
    }
    // The keeper was killed: the daemon is nobody's.
    ensure!(!volume.ended()?, "a keeper that was killed");
    when_idle(|| run(volume.terrace("umount")?.arg(volume.root())).map(drop))?;
    run(volume.terrace("check")?.arg(volume.pm_path())).map(drop)
}

/// Disturbs the mount so often, each time at a random moment after it is served.
fn repeat(
    volume: &TestVolume,
    times: u64,
    rng: &mut Rng,
    goes_on: impl Fn() -> bool,
    disturb: Disturb<'_>,
) -> Result<()> {
    for _ in 0..times {
        // Only a daemon that serves answers this.
        rustix::fs::statvfs(volume.root())?;
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
        ensure!(goes_on(), "a program has ended");
        disturb(volume, rng)?;
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
