//! Long writes go past a PM that is slower than a disk. The disk says how long it took, and a model
//! makes PM a hundred times as slow as memory.

mod rig;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rig::{FILE, pattern, put, runs};
use tempfile::TempDir;
use terrace_engine::{
    Counter, FormatOptions, Ino, OpenOptions, PIN_XATTR, SpeedStats, Volume, WriteOptions,
    XattrFlags, format,
};
use terrace_media::{DeviceModel, Disk, DiskStats, MediaError, Pm, PmOpenOptions, memory_disk};
use terrace_policy::Param;

const MIB: usize = 1 << 20;
/// From so much on a device counts as measured.
const MEASURED: usize = 16 * MIB;
/// No disk is as fast.
const FAST_NS: u64 = 1;
/// No write to memory takes as long: a second for 4 KiB.
const SLOW_NS: u64 = 1_000_000_000;

/// A disk in memory that says it takes so long for a block, and for a flush.
#[derive(Debug)]
struct Timed {
    disk: Arc<dyn Disk>,
    ns_per_block: AtomicU64,
}

impl Disk for Timed {
    fn path(&self) -> &Path {
        self.disk.path()
    }
    fn len(&self) -> u64 {
        self.disk.len()
    }
    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.disk.read_at(off, buf)
    }
    fn write_at(&self, off: u64, buf: &[u8]) -> Result<(), MediaError> {
        self.disk.write_at(off, buf)
    }
    fn flush(&self) -> Result<(), MediaError> {
        self.disk.flush()
    }
    fn discard(&self, off: u64, len: u64) -> Result<(), MediaError> {
        self.disk.discard(off, len)
    }
    fn stats(&self) -> DiskStats {
        let (stats, ns) = (self.disk.stats(), self.ns_per_block.load(Ordering::Relaxed));
        DiskStats {
            long_written_bytes: stats.bytes_written,
            long_write_ns: stats.bytes_written / 4096 * ns,
            flush_ns: stats.flushes * ns,
            ..stats
        }
    }
}

/// Writes of 4 KiB take 40 microseconds.
const SLOW_PM: DeviceModel = DeviceModel {
    read_latency_ns: 0,
    write_latency_ns: 0,
    read_bytes_per_s: 0,
    write_bytes_per_s: 100_000_000,
};

struct Scene {
    volume: Arc<Volume>,
    disk: Arc<Timed>,
    pm: Arc<Pm>,
    files: u64,
    _directory: TempDir,
}

impl Scene {
    fn new(ns_per_block: u64) -> Self {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let path = directory.path().join("pm");
        Pm::create_file(&path, 128 << 20).unwrap();
        let model = PmOpenOptions { model: Some(SLOW_PM), ..PmOpenOptions::default() };
        let pm = Pm::open(&path, &model).unwrap();
        let disk = memory_disk(64 << 20);
        let disk = Arc::new(Timed { disk, ns_per_block: ns_per_block.into() });
        let as_disk = || disk.clone() as Arc<dyn Disk>;
        format(&pm, &[as_disk()], &FormatOptions::default()).unwrap();
        let options = OpenOptions { workers: false, ..OpenOptions::default() };
        let volume = Volume::open(pm.clone(), vec![as_disk()], options, &|_, _, _| {}).unwrap();
        // The disks are seen for the first time.
        volume.migrate(1).unwrap();
        Self { volume, disk, pm, files: 0, _directory: directory }
    }

    fn write(&mut self, bytes: usize) -> Ino {
        self.files += 1;
        let name = self.files.to_string();
        let ino = self.volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
        put(&self.volume, ino, 0, &pattern(bytes, 1));
        ino
    }

    fn pin(&self, ino: Ino, tier: &str) {
        let (name, tier) = (PIN_XATTR.as_bytes(), tier.as_bytes());
        self.volume.setxattr(ino, name, tier, XattrFlags::default(), None).unwrap();
    }

    /// Both sides are measured, and a second passes.
    fn measure(&mut self) {
        for (tier, place) in [("1", "4096 disk1"), ("pm", "4096 pm")] {
            let ino = self.write(0);
            self.pin(ino, tier);
            put(&self.volume, ino, 0, &pattern(MEASURED, 2));
            self.volume.fsync(ino, false).unwrap();
            assert_eq!(runs(&self.volume, ino), place);
        }
        self.volume.migrate(1).unwrap();
    }

    /// The places of so many new files, one letter for each.
    fn write_files(&mut self, count: usize, bytes: usize) -> String {
        let inos: Vec<Ino> = (0..count).map(|_| self.write(bytes)).collect();
        let place = |ino| match runs(&self.volume, ino).split_once(' ') {
            Some((_, "pm")) => 'p',
            Some((_, "cache")) => 'c',
            other => panic!("{other:?}"),
        };
        inos.into_iter().map(place).collect()
    }

    fn past(&self) -> u64 {
        self.volume.stats().counters.get(Counter::PlacedPast)
    }
}

#[test]
fn long_writes_go_past_a_pm_that_is_slower_than_a_disk() {
    let mut scene = Scene::new(FAST_NS);
    assert_eq!(scene.write_files(2, MIB), "pp", "nothing is known yet");
    scene.measure();
    // A quarter of them at first; each write has one turn, however often it is tried.
    assert_eq!(scene.write_files(16, 64 << 10), "ccccpppppppppppp");
    assert_eq!(scene.past(), 4 * (64 << 10));
    assert_eq!(scene.write_files(2, 15 * 4096), "pp", "short ones do not");
    scene.measure();
    assert_eq!(scene.write_files(16, 64 << 10), "ccccccccpppppppp");
    // An acknowledged sync is durable, wherever the data is.
    let long = rig::find(&scene.volume, "/5");
    scene.volume.fsync(long, false).unwrap();
    assert_eq!(runs(&scene.volume, long), "16 disk1");
    let Scene { volume, disk, pm, _directory, .. } = scene;
    drop(volume);
    let volume = Volume::open(pm, vec![disk], OpenOptions::default(), &|_, _, _| {}).unwrap();
    assert!(rig::contents(&volume, rig::find(&volume, "/5")) == pattern(64 << 10, 1));
}

#[test]
fn pinned_files_stay_and_durable_writes_are_durable() {
    let mut scene = Scene::new(FAST_NS);
    scene.measure();
    let pinned = scene.write(0);
    scene.pin(pinned, "pm");
    put(&scene.volume, pinned, 0, &pattern(MIB, 1));
    assert_eq!(runs(&scene.volume, pinned), "256 pm");
    let durable = scene.write(0);
    let options = WriteOptions { durable: true, ..WriteOptions::default() };
    assert_eq!(scene.volume.write(durable, 0, &pattern(MIB, 3), options).unwrap(), MIB);
    assert_eq!(runs(&scene.volume, durable), "256 disk1");
    assert_eq!(scene.past(), MIB as u64);
}

#[test]
fn what_is_not_measured_anew_is_forgotten() {
    let mut scene = Scene::new(FAST_NS);
    scene.measure();
    scene.volume.migrate(20).unwrap();
    assert_eq!((scene.write_files(4, MIB).as_str(), scene.past()), ("pppp", 0));
}

#[test]
fn nothing_goes_past_a_pm_that_is_faster_or_if_helpers_are_off() {
    let mut scene = Scene::new(SLOW_NS);
    scene.measure();
    assert_eq!((scene.write_files(4, MIB).as_str(), scene.past()), ("pppp", 0));
    let mut scene = Scene::new(FAST_NS);
    scene.measure();
    scene.volume.tune(Param::Helpers, 0).unwrap();
    assert_eq!((scene.write_files(4, MIB).as_str(), scene.past()), ("pppp", 0));
}

#[test]
fn everybody_can_see_what_was_timed() {
    let mut scene = Scene::new(FAST_NS);
    scene.measure();
    let timed = |volume: &Volume, device: &str, operation: &str| {
        let is_it =
            |s: &SpeedStats| (s.device.as_str(), s.operation.as_str()) == (device, operation);
        let speeds = volume.stats().speeds;
        speeds.into_iter().find(is_it).unwrap_or_else(|| panic!("{device} {operation}"))
    };
    let volume = &scene.volume;
    let to_pm = timed(volume, "pm", "long_write");
    assert_eq!(to_pm.timed, MEASURED as u64);
    assert!(to_pm.total_ns >= MEASURED as u64 * 10, "as the model says");
    assert_eq!(timed(volume, "cache", "long_write").timed, MEASURED as u64);
    let to_disk = timed(volume, "disk1", "long_write");
    assert!(to_disk.timed >= MEASURED as u64);
    assert_eq!(to_disk.total_ns, to_disk.timed / 4096 * FAST_NS);
    assert!(timed(volume, "disk1", "flush").timed > 0);
    let (from_pm, from_cache) = (rig::find(volume, "/2"), rig::find(volume, "/1"));
    let mut buf = vec![0; MIB];
    for (device, ino) in [("pm", from_pm), ("cache", from_cache)] {
        assert_eq!(volume.read(ino, 0, &mut buf).unwrap(), MIB);
        assert_eq!(timed(volume, device, "long_read").timed, MIB as u64, "{device}");
        // One in 61 of the short ones, and none of less than a block.
        for len in [4096, 100] {
            for _ in 0..610 {
                assert_eq!(volume.read(ino, 0, &mut buf[..len]).unwrap(), len);
            }
        }
        assert_eq!(timed(volume, device, "read").timed, 10 * 4096, "{device}");
    }
    let now = volume.stats().since(&volume.stats());
    assert!(now.speeds.iter().all(|speed| speed.timed == 0), "{now:?}");
}
