//! Power cuts under a real mount: the volume lives in this process, on simulated devices.
//!
//! At a random moment the simulators stop taking anything, as if the power had failed, and say what
//! the devices hold then: of the PM lines that no fence had made durable any prefix of their
//! stores, of the disk writes that no flush had, any, in any order, torn between sectors. The seed
//! decides which; what was under way at that moment depends on the threads. Where PM takes no data,
//! the moment is, in every other round, the next flush of the disk: then there are writes of which
//! nobody knows what becomes. With `TERRACE_KILL_KEEP=DIR` a round that fails leaves the devices'
//! contents in DIR, for `terrace check` and `terrace dump`.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use terrace_engine::{CheckOptions, FormatOptions, OpenOptions, Volume, check, format};
use terrace_fuse::{MountConfig, Mounted};
use terrace_media::{Disk, DiskSim, PendingWrite, Pm, PmSim, sim_disk, sim_disk_from};
use terrace_proof::{MIB, Rng, Scratch, proof, when_idle};

use crate::writers::{Appender, Mapper, Namespace, Overwriter, Replacer, Stream, Streamer, Writer};
use crate::{Crash, SYNCHRONOUS, UNSYNCHRONIZED, environment, run_until_crash, verify};

const PM_BYTES: u64 = 24 * MIB;
const DISK_BYTES: u64 = 64 * MIB;
/// Writes that are cut short are this long at least: less than a piece of [`STREAM`].
const MUCH_BYTES: usize = 128 << 10;
/// Nothing here takes nearly as long; what gets there hangs.
const NEVER: Duration = Duration::from_secs(60);

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
        cut_power(&self.disk_sim, &self.pm_sim);
    }

    /// The same when the disk is next asked to make much durable, before it has.
    fn cut_power_at_a_flush(&self) -> Result<()> {
        let (cut, was_cut) = mpsc::channel();
        let pm_sim = self.pm_sim.clone();
        self.disk_sim.set_on_flush(Box::new(move |disk_sim| {
            if bytes_of(&disk_sim.pending_writes()) >= MUCH_BYTES {
                cut_power(disk_sim, &pm_sim);
                let _ = cut.send(());
            }
        }));
        was_cut.recv_timeout(NEVER).context("nobody flushes the disk any more")
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
        let options = CheckOptions { repair: false, data: true, ..CheckOptions::default() };
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

fn cut_power(disk_sim: &DiskSim, pm_sim: &PmSim) {
    // Disk first: whoever relies on the disk afterwards is told that it failed, so nothing of that
    // reaches PM.
    disk_sim.cut_power();
    pm_sim.cut_power();
}

/// A volume on simulated devices, mounted.
struct SimulatedMount {
    volume: Arc<Volume>,
    mounted: Mounted,
}

impl SimulatedMount {
    fn new(
        devices: &Devices,
        mountpoint: &Path,
        Scenario { durable, data, .. }: &Scenario,
    ) -> Result<SimulatedMount> {
        let durable = *durable;
        let pm_full_percent = if *data == Data::OnDisk { 0 } else { 90 };
        let options = OpenOptions {
            durable,
            pm_full_percent,
            cache_bytes: 16 * MIB,
            writeback_seconds: 1,
            ..OpenOptions::default()
        };
        let volume =
            Volume::open(devices.pm.clone(), vec![devices.disk.clone()], options, &|_, _, _| ())?;
        let config = MountConfig { durable, ..MountConfig::default() };
        let mounted = terrace_fuse::mount(volume.clone(), mountpoint, &config)?;
        Ok(SimulatedMount { volume, mounted })
    }

    /// Unmounts; the volume is as it was left.
    fn unmount(self) -> Result<Arc<Volume>> {
        let unmounter = self.mounted.unmounter();
        when_idle(|| unmounter.unmount())?;
        self.mounted.wait()?;
        Ok(self.volume)
    }
}

/// Where files have their data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    InPm,
    OnDisk,
}

/// One kind of load on a mount with or without `durable`.
struct Scenario {
    name: &'static str,
    durable: bool,
    data: Data,
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
        let mut undecided = Undecided::default();
        for seed in first_seed..first_seed + rounds {
            let at_a_flush = self.data == Data::OnDisk && (seed - first_seed).is_multiple_of(2);
            let round = self.round(&devices, &mountpoint, seed, at_a_flush, &mut undecided);
            devices = round.with_context(|| format!("TERRACE_KILL_SEED={seed}"))?;
        }
        println!("{}: {rounds} power cuts, {undecided}", self.name);
        let in_writeback = self.data == Data::InPm || undecided.disk_bytes >= MUCH_BYTES;
        ensure!(in_writeback, "the disk was never in the middle of anything");
        Ok(())
    }

    /// Gives the devices for the next round; adds to `undecided`.
    fn round(
        &self,
        devices: &Devices,
        mountpoint: &Path,
        seed: u64,
        at_a_flush: bool,
        undecided: &mut Undecided,
    ) -> Result<Devices> {
        let mut rng = Rng::new(seed);
        let dir = mountpoint.join(format!("round-{seed}"));
        let mount = SimulatedMount::new(devices, mountpoint, self)?;
        std::fs::create_dir(&dir)?;
        (self.plant)(devices);
        let mut writers = (self.fleet)(&mut rng);
        for writer in &mut writers {
            let prepared = writer.prepare(&dir);
            prepared.with_context(|| format!("preparing {}", writer.name()))?;
        }
        let enough = 1 + rng.below(900);
        run_until_crash(&dir, &mut writers, enough, || {
            if at_a_flush {
                return devices.cut_power_at_a_flush();
            }
            devices.cut_power();
            Ok(())
        })?;
        let lost = Undecided::of(devices);
        undecided.add(&lost);
        mount.unmount()?.abandon();

        let after = devices.after_power_cut(seed);
        let found = self.compare(&after, mountpoint, &dir, &writers);
        if found.is_err() {
            devices.after_power_cut(seed).keep()?;
        }
        found.with_context(|| format!("a power cut at {enough} operations, with {lost}"))?;
        Ok(after.settled())
    }

    /// What is there after recovery, and after a clean unmount and another mount; the check between
    /// them.
    fn compare(
        &self,
        after: &Devices,
        mountpoint: &Path,
        dir: &Path,
        writers: &[Box<dyn Writer>],
    ) -> Result<()> {
        let mount =
            SimulatedMount::new(after, mountpoint, self).context("mounting after the power cut")?;
        let verified = verify(writers, dir, Crash::Power);
        let volume = mount.unmount()?;
        verified?;
        volume.close()?;
        drop(volume);
        after.check()?;
        let mount = SimulatedMount::new(after, mountpoint, self)?;
        let verified = verify(writers, dir, Crash::Power).context("after a second mount");
        let removed = std::fs::remove_dir_all(dir);
        let volume = mount.unmount()?;
        verified?;
        removed?;
        Ok(volume.close()?)
    }
}

fn bytes_of(writes: &[PendingWrite]) -> usize {
    writes.iter().map(|write| write.data.len()).sum()
}

/// What a power cut decides on.
#[derive(Default)]
struct Undecided {
    pm_lines: usize,
    disk_writes: usize,
    disk_bytes: usize,
}

impl Undecided {
    fn of(devices: &Devices) -> Undecided {
        let writes = devices.disk_sim.pending_writes();
        Undecided {
            pm_lines: devices.pm_sim.pending_lines().len(),
            disk_writes: writes.len(),
            disk_bytes: bytes_of(&writes),
        }
    }

    fn add(&mut self, more: &Undecided) {
        self.pm_lines += more.pm_lines;
        self.disk_writes += more.disk_writes;
        self.disk_bytes += more.disk_bytes;
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Undecided { pm_lines, disk_writes, disk_bytes } = self;
        write!(
            f,
            "{pm_lines} PM lines and {disk_writes} disk writes ({disk_bytes} bytes) undecided"
        )
    }
}

/// A stream that fits the disk beside everything else.
const STREAM: Stream = Stream { piece_bytes: 192 << 10, pieces: 40, sync_every: 4 };

/// A write to a disk is atomic only within a block, so records that are overwritten have one each.
const SLOTS: (usize, usize) = (96, 4096);

const SYNCHRONOUS_ON_DISK: fn(&mut Rng) -> Vec<Box<dyn Writer>> = |rng| {
    vec![
        Box::new(Streamer::of(STREAM)),
        Box::new(Appender::new(rng, true)),
        Box::new(Overwriter::with_slots(rng, true, SLOTS.0, SLOTS.1)),
        Box::new(Replacer::new(rng, true)),
        Box::new(Namespace::new(rng)),
        Box::new(Mapper::new(rng)),
    ]
};

const UNSYNCHRONIZED_ON_DISK: fn(&mut Rng) -> Vec<Box<dyn Writer>> = |rng| {
    vec![
        Box::new(Streamer::of(Stream { sync_every: 0, ..STREAM })),
        Box::new(Appender::new(rng, false)),
        Box::new(Overwriter::with_slots(rng, false, SLOTS.0, SLOTS.1)),
        Box::new(Replacer::new(rng, false)),
        Box::new(Mapper::new(rng)),
    ]
};

/// The canary: what a planted bug loses is noticed.
fn finds(scenario: &Scenario) -> Result<()> {
    let scratch = Scratch::new(scenario.name)?;
    let devices = Devices::formatted()?;
    let at_a_flush = scenario.data == Data::OnDisk;
    let found = scenario.round(&devices, scratch.path(), 1, at_a_flush, &mut Undecided::default());
    let error = found.err().context("nothing was lost")?;
    ensure!(format!("{error:#}").contains("power cut"), "{error:#}");
    Ok(())
}

#[test]
fn power_cuts_of_simulated_devices_under_synchronous_load() {
    let fleet = SYNCHRONOUS;
    proof(|| {
        Scenario { name: "simulated-sync", durable: false, data: Data::InPm, fleet, plant: |_| () }
            .prove()
    });
}

#[test]
fn power_cuts_of_simulated_devices_under_a_durable_mount() {
    let fleet = UNSYNCHRONIZED;
    proof(|| {
        Scenario {
            name: "simulated-durable",
            durable: true,
            data: Data::InPm,
            fleet,
            plant: |_| (),
        }
        .prove()
    });
}

#[test]
fn power_cuts_with_data_on_disk_under_synchronous_load() {
    let fleet = SYNCHRONOUS_ON_DISK;
    proof(|| {
        Scenario {
            name: "simulated-disk",
            durable: false,
            data: Data::OnDisk,
            fleet,
            plant: |_| (),
        }
        .prove()
    });
}

#[test]
fn power_cuts_with_data_on_disk_under_a_durable_mount() {
    let (name, fleet) = ("simulated-disk-durable", UNSYNCHRONIZED_ON_DISK);
    proof(|| Scenario { name, durable: true, data: Data::OnDisk, fleet, plant: |_| () }.prove());
}

/// Fences that do nothing.
#[test]
fn power_cuts_find_dropped_fences() {
    let plant = |devices: &Devices| (1..5000).for_each(|n| devices.pm_sim.drop_fence_number(n));
    let (name, fleet) = ("simulated-no-fence", SYNCHRONOUS);
    proof(|| finds(&Scenario { name, durable: false, data: Data::InPm, fleet, plant }));
}

/// Flushes that do nothing.
#[test]
fn power_cuts_find_dropped_flushes() {
    let plant = |devices: &Devices| (1..5000).for_each(|n| devices.disk_sim.drop_flush_number(n));
    let (name, fleet) = ("simulated-no-flush", SYNCHRONOUS_ON_DISK);
    proof(|| finds(&Scenario { name, durable: false, data: Data::OnDisk, fleet, plant }));
}
