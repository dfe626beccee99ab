//! Power cuts under a real mount: the volume lives in this process, on simulated devices.
//!
//! At a random moment the simulators stop taking anything, as if the power had failed, and say what the devices hold
//! then: of the PM lines that no fence had made durable any prefix of their stores, of the disk writes that no flush
//! had, any, in any order, torn between sectors. The seed decides which; what was under way at that moment depends on
//! the threads. With `TERRACE_KILL_KEEP=DIR` a round that fails leaves the devices' contents in DIR, for
//! `terrace check` and `terrace dump`.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use terrace_engine::{CheckOptions, FormatOptions, OpenOptions, Volume, check, format};
use terrace_fuse::{MountConfig, Mounted};
use terrace_media::{Disk, DiskSim, Pm, PmSim, sim_disk, sim_disk_from};
use terrace_proof::{MIB, Rng, Scratch, proof};

use crate::writers::Writer;
use crate::{Crash, SYNCHRONOUS, UNSYNCHRONIZED, environment, run_until_crash, verify};

const PM_BYTES: u64 = 24 * MIB;
const DISK_BYTES: u64 = 64 * MIB;

/// Simulated devices.
struct Devices {
    pm: Arc<Pm>,
    pm_sim: Arc<PmSim>,
    disk: Arc<dyn Disk>,
    disk_sim: Arc<DiskSim>,
}

impl Devices {
    fn formatted() -> Result<Devices> {
        let ((pm, pm_sim), (disk, disk_sim)) = (Pm::simulated(PM_BYTES), sim_disk(DISK_BYTES));
        format(&pm, std::slice::from_ref(&disk), &FormatOptions::default())?;
        Ok(Devices { pm, pm_sim, disk, disk_sim })
    }

    /// What they hold after a power cut now: nothing reaches them any more.
    fn cut_power(&self) {
        // Disk first: whoever relies on the disk afterwards is told that it failed, so nothing of that reaches PM.
        self.disk_sim.cut_power();
        self.pm_sim.cut_power();
    }

    fn after_power_cut(&self, seed: u64) -> Devices {
        Self::holding(self.pm_sim.crash_image_random(seed), self.disk_sim.crash_image_random(seed))
    }

    /// The same, as if they had been there for ever.
    fn settled(&self) -> Devices {
        Self::holding(self.pm_sim.durable_image(), self.disk_sim.durable_image())
    }

    fn holding(pm: Vec<u8>, disk: Vec<u8>) -> Devices {
        let ((pm, pm_sim), (disk, disk_sim)) = (Pm::simulated_from(pm), sim_disk_from(disk));
        Devices { pm, pm_sim, disk, disk_sim }
    }

    fn check(&self) -> Result<()> {
        let options = CheckOptions { repair: false, data: true };
        let report = check(&self.pm, std::slice::from_ref(&self.disk), &options, &|_, _, _| ())?;
        ensure!(report.problems.is_empty(), "terrace check: {:#?}", report.problems);
        Ok(())
    }

    fn keep(&self) -> Result<()> {
        let Some(dir) = std::env::var_os("TERRACE_KILL_KEEP") else {
            return Ok(());
        };
        let dir = Path::new(&dir);
        std::fs::write(dir.join("pm"), self.pm_sim.durable_image())?;
        Ok(std::fs::write(dir.join("disk"), self.disk_sim.durable_image())?)
    }
}

/// A volume on simulated devices, mounted.
struct SimulatedMount {
    volume: Arc<Volume>,
    mounted: Mounted,
}

impl SimulatedMount {
    fn new(devices: &Devices, mountpoint: &Path, durable: bool) -> Result<SimulatedMount> {
        let options = OpenOptions { durable, cache_bytes: 16 * MIB, writeback_seconds: 1, ..OpenOptions::default() };
        let volume = Volume::open(devices.pm.clone(), vec![devices.disk.clone()], options, &|_, _, _| ())?;
        let config = MountConfig { durable, ..MountConfig::default() };
        let mounted = terrace_fuse::mount(volume.clone(), mountpoint, &config)?;
        Ok(SimulatedMount { volume, mounted })
    }

    /// Unmounts; the volume is as it was left.
    fn unmount(self) -> Result<Arc<Volume>> {
        let unmounter = self.mounted.unmounter();
        // A process that another test starts holds our files for a moment.
        let deadline = Instant::now() + Duration::from_secs(20);
        while let Err(error) = unmounter.unmount() {
            if Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.mounted.wait()?;
        Ok(self.volume)
    }
}

/// One kind of load on a mount with or without `durable`.
struct Scenario {
    name: &'static str,
    durable: bool,
    fleet: fn(&mut Rng) -> Vec<Box<dyn Writer>>,
    /// A bug to be planted once the volume is mounted.
    plant: fn(&Devices),
}

impl Scenario {
    fn prove(&self) -> Result<()> {
        let rounds = environment("TERRACE_KILL_ROUNDS", 6)?;
        let first_seed = environment("TERRACE_KILL_SEED", 1000)?;
        let scratch = Scratch::new(self.name)?;
        let mountpoint = scratch.join("mnt");
        std::fs::create_dir(&mountpoint)?;
        let mut devices = Devices::formatted()?;
        for seed in first_seed..first_seed + rounds {
            let round = self.round(&devices, &mountpoint, seed);
            devices = round.with_context(|| format!("TERRACE_KILL_SEED={seed}"))?;
        }
        Ok(())
    }

    /// Gives the devices for the next round.
    fn round(&self, devices: &Devices, mountpoint: &Path, seed: u64) -> Result<Devices> {
        let mut rng = Rng::new(seed);
        let dir = mountpoint.join(format!("round-{seed}"));
        let mount = SimulatedMount::new(devices, mountpoint, self.durable)?;
        std::fs::create_dir(&dir)?;
        (self.plant)(devices);
        let mut writers = (self.fleet)(&mut rng);
        for writer in &mut writers {
            let prepared = writer.prepare(&dir);
            prepared.with_context(|| format!("preparing {}", writer.name()))?;
        }
        let enough = 1 + rng.below(900);
        run_until_crash(&dir, &mut writers, enough, || {
            devices.cut_power();
            Ok(())
        })?;
        let lost = (devices.pm_sim.pending_lines().len(), devices.disk_sim.pending_writes().len());
        mount.unmount()?.abandon();

        let after = devices.after_power_cut(seed);
        let found = self.compare(&after, mountpoint, &dir, &writers);
        if found.is_err() {
            devices.after_power_cut(seed).keep()?;
        }
        found.with_context(|| {
            format!("a power cut at {enough} operations, with {} PM lines and {} disk writes undecided", lost.0, lost.1)
        })?;
        Ok(after.settled())
    }

    /// What is there after recovery, and after a clean unmount and another mount; the check between them.
    fn compare(&self, after: &Devices, mountpoint: &Path, dir: &Path, writers: &[Box<dyn Writer>]) -> Result<()> {
        let mount = SimulatedMount::new(after, mountpoint, self.durable).context("mounting after the power cut")?;
        let verified = verify(writers, dir, Crash::Power);
        let volume = mount.unmount()?;
        verified?;
        volume.close()?;
        drop(volume);
        after.check()?;
        let mount = SimulatedMount::new(after, mountpoint, self.durable)?;
        let verified = verify(writers, dir, Crash::Power).context("after a second mount");
        let removed = std::fs::remove_dir_all(dir);
        let volume = mount.unmount()?;
        verified?;
        removed?;
        Ok(volume.close()?)
    }
}

#[test]
fn power_cuts_of_simulated_devices_under_synchronous_load() {
    proof(|| Scenario { name: "simulated-sync", durable: false, fleet: SYNCHRONOUS, plant: |_| () }.prove());
}

#[test]
fn power_cuts_of_simulated_devices_under_a_durable_mount() {
    proof(|| Scenario { name: "simulated-durable", durable: true, fleet: UNSYNCHRONIZED, plant: |_| () }.prove());
}

/// The canary: fences that do nothing are noticed.
#[test]
fn power_cuts_find_a_planted_bug() {
    proof(|| {
        let plant = |devices: &Devices| (1..5000).for_each(|n| devices.pm_sim.drop_fence_number(n));
        let scenario = Scenario { name: "simulated-canary", durable: false, fleet: SYNCHRONOUS, plant };
        let scratch = Scratch::new(scenario.name)?;
        let devices = Devices::formatted()?;
        let found = scenario.round(&devices, scratch.path(), 1);
        let error = found.err().context("5000 fences did nothing, and nothing was lost")?;
        ensure!(format!("{error:#}").contains("power cut"), "{error:#}");
        Ok(())
    });
}
