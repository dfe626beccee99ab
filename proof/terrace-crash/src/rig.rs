//! Volumes on simulated devices, and the recorder of the points at which the power may go.
//!
//! Invariant: everything happens on the calling thread (volumes have no workers, and recovery needs
//! no second thread for so few inodes), so a run has the same points each time.

use std::mem::ManuallyDrop;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use terrace_engine::{
    AtimePolicy, Bug, CheckOptions, FormatOptions, OpenOptions, Volume, check, format, planted,
};
use terrace_media::{
    AlignedBuf, Disk, DiskSim, IoOp, PendingLine, Pm, PmSim, memory_disk, sim_disk_from,
};
use terrace_policy::{Param, Params};
use terrace_store::delegation::Segment;

use crate::history::Waits;
use crate::image::Image;
use crate::model::Model;
use crate::point::{Moment, Point};
use crate::tree::{Trees, trees_of};

thread_local! {
    /// Control pages for the loans of this thread's volumes, one after the other.
    static LOANS: Arc<Segment> = Arc::new(Segment::new(2).expect("memory for control pages"));
}

/// What a volume is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Its name in an id.
    pub name: &'static str,
    /// Shards.
    pub shards: u16,
    /// PM takes data up to this usage.
    pub pm_full_percent: u8,
    /// Every write is durable when it returns.
    pub durable: bool,
    /// PM data carries checksums.
    pub checksums: bool,
    /// The tier of each disk, from 1.
    pub tiers: &'static [u8],
    /// 4 KiB blocks of PM.
    pub pm_blocks: usize,
    /// Thresholds of migration other than the defaults. Their decisions must not depend on how long
    /// anything takes.
    pub params: &'static [(Param, u64)],
}

/// All data that workloads write fits into PM below this usage.
pub const PM_FULL_PERCENT: u8 = 90;
const BLOCK: usize = 4096;
/// The least that a disk may have.
const DISK_BLOCKS: usize = 256;

impl Config {
    /// How long data may wait in the page cache.
    pub fn waits(&self) -> Waits {
        match (self.pm_full_percent < PM_FULL_PERCENT, self.durable) {
            (false, _) => Waits::Never,
            (true, true) => Waits::UntilReturn,
            (true, false) => Waits::UntilSync,
        }
    }

    fn params(&self) -> Params {
        let mut params = Params::default();
        self.params.iter().for_each(|&(param, value)| {
            params.set(param, value).expect("a value within its range")
        });
        params
    }

    /// Devices full of junk: a volume must not take what was there for its own.
    pub fn blank(&self) -> Image {
        let junk = |blocks| (0..blocks * BLOCK).map(|i| (i % 251) as u8 | 1).collect();
        let disks = self.tiers.iter().map(|_| junk(DISK_BLOCKS));
        Image(std::iter::once(junk(self.pm_blocks)).chain(disks).collect())
    }

    /// How it is formatted.
    pub fn format_options(&self) -> FormatOptions {
        FormatOptions {
            shards: Some(self.shards),
            tiers: self.tiers.to_vec(),
            pm_data_checksums: self.checksums,
            ..Default::default()
        }
    }

    /// Opens a volume as it is used here, and as after a power cut: nothing is left of an earlier
    /// page cache.
    ///
    /// # Errors
    /// What the volume says.
    pub fn open(&self, devices: &Devices) -> Result<Arc<Volume>, String> {
        self.open_with(devices, None)
    }

    /// Opens a volume whose page cache outlives its daemon in `cache_dir`.
    ///
    /// # Errors
    /// What the volume says.
    pub fn open_with(
        &self,
        devices: &Devices,
        cache_dir: Option<&Path>,
    ) -> Result<Arc<Volume>, String> {
        let options = OpenOptions {
            cache_bytes: 1 << 20,
            cache_dir: cache_dir.map(Path::to_owned),
            durable: self.durable,
            pm_full_percent: self.pm_full_percent,
            workers: false,
            params: self.params(),
            loans: Some(LOANS.with(Arc::clone)),
            // Reading the trees that are compared must not give the next sync something to do.
            atime: AtimePolicy::Noatime,
            ..Default::default()
        };
        Volume::open(devices.pm.clone(), devices.disks.clone(), options, &|_, _, _| {})
            .map_err(|e| e.to_string())
    }
}

/// The devices of a volume.
#[derive(Clone, Debug)]
pub struct Devices {
    /// PM.
    pub pm: Arc<Pm>,
    /// The disks.
    pub disks: Vec<Arc<dyn Disk>>,
}

impl Devices {
    /// Devices in memory, as large as `image`.
    pub fn in_memory(image: &Image) -> Self {
        let disks = image.0[1..].iter().map(|bytes| memory_disk(bytes.len() as u64)).collect();
        Devices { pm: Pm::anonymous(image.0[0].len() as u64), disks }
    }

    /// Stores an image on them.
    pub fn load(&self, image: &Image) {
        self.pm.write(0, &image.0[0]);
        for (disk, bytes) in self.disks.iter().zip(&image.0[1..]) {
            disk.write_at(0, bytes).expect("memory takes everything");
        }
    }

    /// What they hold.
    pub fn image(&self) -> Image {
        let mut pm = vec![0; self.pm.len() as usize];
        self.pm.read(0, &mut pm);
        let disks = self.disks.iter().map(|disk| {
            let mut buf = AlignedBuf::new(disk.len() as usize);
            disk.read_at(0, &mut buf).expect("memory gives everything");
            buf.to_vec()
        });
        Image(std::iter::once(pm).chain(disks).collect())
    }

    /// Makes a volume on them.
    ///
    /// # Errors
    /// What the engine says.
    pub fn format(&self, config: &Config) -> Result<(), String> {
        format(&self.pm, &self.disks, &config.format_options()).map_err(|e| e.to_string())
    }

    /// What the offline check finds wrong.
    pub fn problems(&self) -> Result<(), String> {
        let options = CheckOptions { repair: false, data: true, ..CheckOptions::default() };
        let report = check(&self.pm, &self.disks, &options, &|_, _, _| {})
            .map_err(|e| format!("check: {e}"))?;
        match report.problems.first() {
            None => Ok(()),
            Some(first) => Err(format!(
                "check: {}: {} ({} problems)",
                first.place,
                first.what,
                report.problems.len()
            )),
        }
    }
}

/// An open volume that never writes on its own account, not even when it is dropped.
#[derive(Debug)]
pub struct Open(ManuallyDrop<Arc<Volume>>);

impl Open {
    /// Keeps a volume.
    pub fn new(volume: Arc<Volume>) -> Self {
        Open(ManuallyDrop::new(volume))
    }

    /// For use on the side; to be gone before the volume is.
    pub fn share(&self) -> Arc<Volume> {
        Arc::clone(&self.0)
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// What the volume says.
    pub fn close(self) -> Result<(), String> {
        self.0.close().map_err(|e| format!("unmount: {e}"))?;
        drop(ManuallyDrop::into_inner(self.0));
        Ok(())
    }

    /// Leaves its devices as a power cut does; frees its memory.
    pub fn abandon(self) {
        self.0.abandon();
        drop(ManuallyDrop::into_inner(self.0));
    }
}

impl std::ops::Deref for Open {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.0
    }
}

/// What a mount finds on devices; must be sound after an unmount, and be found again by the next
/// mount.
///
/// # Errors
/// What is wrong: it cannot be mounted, or not be written or unmounted, or the check finds
/// something. `Ok(None)`: there is no volume, and one can be made.
pub fn recover(config: &Config, devices: &Devices, times: bool) -> Result<Option<Trees>, String> {
    let volume = match config.open(devices) {
        Ok(volume) => Open::new(volume),
        Err(error) if is_refusal(&error) => return make_anew(config, devices).map(|()| None),
        Err(error) => return Err(format!("mount: {error}")),
    };
    let trees = trees_of(&volume, times).map_err(|e| format!("reading: {e}"))?;
    if let Some(reason) = volume.status().read_only {
        return Err(format!("recovery found damage: {reason}"));
    }
    volume.close()?;
    devices.problems()?;
    let again = Open::new(config.open(devices).map_err(|e| format!("the mount after it: {e}"))?);
    let found = trees_of(&again, times).map_err(|e| format!("reading after another mount: {e}"))?;
    again.abandon();
    let differs = trees.difference(&found, false);
    if differs.is_empty() {
        Ok(Some(trees))
    } else {
        Err(format!("after an unmount and a mount:\n{differs}"))
    }
}

/// Where a format was cut short, the next one makes an empty volume.
fn make_anew(config: &Config, devices: &Devices) -> Result<(), String> {
    devices.format(config).map_err(|e| format!("formatting again: {e}"))?;
    let volume = Open::new(
        config.open(devices).map_err(|e| format!("mounting what was formatted again: {e}"))?,
    );
    let tree = trees_of(&volume, true).map_err(|e| format!("reading: {e}"))?.tree;
    volume.close()?;
    devices.problems()?;
    if tree != Model::empty().tree(true) {
        return Err("what was formatted again is not empty".into());
    }
    Ok(())
}

/// Whether an error of a mount says that there is no volume, or none yet.
fn is_refusal(error: &str) -> bool {
    ["no Terrace volume", "no Terrace disk", "superblock (copy", "belongs to volume"]
        .iter()
        .any(|m| error.contains(m))
}

/// A volume on simulated devices, whose points are recorded.
#[derive(Debug)]
pub struct Rig {
    /// Its devices.
    pub devices: Devices,
    recorder: Recorder,
}

/// Something that happens in the middle of what is being recorded, and says which step that is.
pub type Event = Box<dyn FnOnce(&Recorder) + Send>;

/// Records points.
#[derive(Clone, Debug)]
pub struct Recorder {
    pm_sim: Arc<PmSim>,
    disk_sims: Vec<Arc<DiskSim>>,
    record: Arc<Mutex<Record>>,
}

impl Recorder {
    /// What follows belongs to step `step`.
    pub fn step(&self, step: usize) {
        self.record.lock().step = step;
    }

    /// Records a point.
    pub fn point(&self, moment: Moment) {
        self.record.lock().add(moment, &self.pm_sim, &self.disk_sims);
    }
}

#[derive(Debug)]
struct Record {
    base: Arc<Image>,
    step: usize,
    /// Of the action: it may have two steps, an unmount and a mount.
    fences: u32,
    flushes: u32,
    points: Vec<Point>,
}

impl Record {
    fn add(&mut self, moment: Moment, pm: &PmSim, disks: &[Arc<DiskSim>]) {
        let point = Point::capture(self.step, moment, &self.base, pm, disks);
        let known = !moment.is_end()
            && self
                .points
                .last()
                .is_some_and(|last| last.step == point.step && last.same_states(&point));
        if !known {
            self.points.push(point);
        }
    }
}

impl Rig {
    /// Devices that hold `image`, durably.
    pub fn new(image: &Arc<Image>) -> Self {
        Self::with_stored(image, Vec::new())
    }

    /// Devices that hold `image`, durably, and in PM what a killed daemon had stored besides.
    pub fn with_stored(image: &Arc<Image>, stored: Vec<PendingLine>) -> Self {
        let (pm, pm_sim) = Pm::simulated_with(image.0[0].clone(), stored);
        if planted(Bug::EdgesNotFlushed) {
            pm_sim.forget_edges();
        }
        let (disks, disk_sims): (Vec<_>, Vec<_>) =
            image.0[1..].iter().map(|bytes| sim_disk_from(bytes.clone())).unzip();
        let record =
            Record { base: image.clone(), step: 0, fences: 0, flushes: 0, points: Vec::new() };
        let recorder = Recorder { pm_sim, disk_sims, record: Arc::new(Mutex::new(record)) };
        Rig { devices: Devices { pm, disks }, recorder }
    }

    /// Records every point while `work` runs, as of step `step`, and the one at its end. Fences and
    /// flushes count from 1, but after [`Moment::Unmounted`] they go on.
    pub fn record<T>(&self, step: usize, end: Moment, work: impl FnOnce() -> T) -> T {
        self.recorder.step(step);
        let hooks = self.set_hooks();
        let result = work();
        drop(hooks);
        self.recorder.point(end);
        let mut record = self.recorder.record.lock();
        if end == Moment::End {
            (record.fences, record.flushes) = (0, 0);
        }
        result
    }

    /// Lets `event` happen before the next operation of this kind on any disk, within `work`.
    pub fn interrupt<T>(&self, op: IoOp, event: Event, work: impl FnOnce() -> T) -> T {
        let event = Arc::new(Mutex::new(Some(event)));
        for disk in &self.recorder.disk_sims {
            let (event, recorder) = (event.clone(), self.recorder.clone());
            disk.before_next(op, move || {
                let event = event.lock().take();
                event.into_iter().for_each(|event| event(&recorder));
            });
        }
        let result = work();
        self.recorder.disk_sims.iter().for_each(|disk| disk.clear_on_io());
        result
    }

    /// The points recorded so far.
    pub fn take_points(&self) -> Vec<Point> {
        std::mem::take(&mut self.recorder.record.lock().points)
    }

    /// Makes `device`'s (0: PM) so many-th flush from now do nothing.
    pub fn drop_flush(&self, device: usize, n: u64) {
        match device {
            0 => self.recorder.pm_sim.drop_flush_number(n),
            _ => self.recorder.disk_sims[device - 1].drop_flush_number(n),
        }
    }

    /// Makes PM's so many-th fence from now do nothing.
    pub fn drop_fence(&self, n: u64) {
        self.recorder.pm_sim.drop_fence_number(n);
    }

    /// Flushes and fences of PM so far.
    pub fn pm_calls(&self) -> (u64, u64) {
        self.recorder.pm_sim.calls()
    }

    fn set_hooks(&self) -> Hooks<'_> {
        let (record, disks) = (self.recorder.record.clone(), self.recorder.disk_sims.clone());
        self.recorder.pm_sim.set_on_fence(Box::new(move |pm| {
            let mut record = record.lock();
            record.fences += 1;
            let moment = Moment::Fence(record.fences);
            record.add(moment, pm, &disks);
        }));
        for disk in &self.recorder.disk_sims {
            let (record, pm, disks) = (
                self.recorder.record.clone(),
                self.recorder.pm_sim.clone(),
                self.recorder.disk_sims.clone(),
            );
            disk.set_on_flush(Box::new(move |_| {
                let mut record = record.lock();
                record.flushes += 1;
                let moment = Moment::Flush(record.flushes);
                record.add(moment, &pm, &disks);
            }));
        }
        Hooks(self)
    }
}

/// The hooks of a rig: they refer to the simulators, and must go before those can.
struct Hooks<'a>(&'a Rig);

impl Drop for Hooks<'_> {
    fn drop(&mut self) {
        self.0.recorder.pm_sim.clear_on_fence();
        self.0.recorder.disk_sims.iter().for_each(|disk| disk.clear_on_flush());
    }
}
