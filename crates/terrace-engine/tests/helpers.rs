//! Long writes go past a PM that is slower than a disk. The disk says how long it took: no clock
//! decides a test.

mod rig;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rig::{FILE, pattern, put, runs};
use terrace_engine::{
    Counter, FormatOptions, Ino, OpenOptions, PIN_XATTR, Volume, XattrFlags, format,
};
use terrace_media::{Disk, DiskStats, MediaError, Pm, memory_disk};
use terrace_policy::Param;

const MIB: usize = 1 << 20;
/// No memory is written as fast: 4 KiB per nanosecond.
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

struct Scene {
    volume: Arc<Volume>,
    disk: Arc<Timed>,
    pm: Arc<Pm>,
    files: u64,
}

impl Scene {
    fn new(ns_per_block: u64) -> Self {
        let pm = Pm::anonymous(64 << 20);
        let disk = memory_disk(64 << 20);
        let disk = Arc::new(Timed { disk, ns_per_block: ns_per_block.into() });
        let as_disk = || disk.clone() as Arc<dyn Disk>;
        format(&pm, &[as_disk()], &FormatOptions::default()).unwrap();
        let options = OpenOptions { workers: false, ..OpenOptions::default() };
        let volume = Volume::open(pm.clone(), vec![as_disk()], options, &|_, _, _| {}).unwrap();
        Self { volume, disk, pm, files: 0 }
    }

    fn write(&mut self, bytes: usize) -> Ino {
        self.files += 1;
        let name = self.files.to_string();
        let ino = self.volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
        put(&self.volume, ino, 0, &pattern(bytes, 1));
        ino
    }

    /// Both sides are measured, and a second passes.
    fn measure(&mut self) {
        let to_disk = self.write(0);
        let pin = PIN_XATTR.as_bytes();
        self.volume.setxattr(to_disk, pin, b"1", XattrFlags::default(), None).unwrap();
        put(&self.volume, to_disk, 0, &pattern(MIB, 2));
        self.volume.fsync(to_disk, false).unwrap();
        assert_eq!(runs(&self.volume, to_disk), "256 disk1");
        let to_pm = self.write(MIB);
        assert_eq!(runs(&self.volume, to_pm), "256 pm");
        self.volume.migrate(1).unwrap();
    }

    fn past(&self) -> u64 {
        self.volume.stats().counters.get(Counter::PlacedPast)
    }
}

#[test]
fn long_writes_go_past_a_pm_that_is_slower_than_a_disk() {
    let mut scene = Scene::new(FAST_NS);
    let first = scene.write(MIB);
    assert_eq!(runs(&scene.volume, first), "256 pm", "nothing is known yet");
    scene.measure();
    let long = scene.write(MIB);
    assert_eq!(runs(&scene.volume, long), "256 cache");
    assert_eq!(scene.past(), MIB as u64);
    let short = scene.write(15 * 4096);
    assert_eq!(runs(&scene.volume, short), "15 pm");
    // An acknowledged sync is durable, wherever the data is.
    scene.volume.fsync(long, false).unwrap();
    assert_eq!(runs(&scene.volume, long), "256 disk1");
    let Scene { volume, disk, pm, .. } = scene;
    drop(volume);
    let volume = Volume::open(pm, vec![disk], OpenOptions::default(), &|_, _, _| {}).unwrap();
    assert!(rig::contents(&volume, rig::find(&volume, "/4")) == pattern(MIB, 1));
}

#[test]
fn what_is_not_measured_anew_is_forgotten_and_tried_again() {
    let mut scene = Scene::new(FAST_NS);
    scene.measure();
    scene.volume.migrate(20).unwrap();
    let long = scene.write(MIB);
    assert_eq!((runs(&scene.volume, long).as_str(), scene.past()), ("256 pm", 0));
}

#[test]
fn nothing_goes_past_a_pm_that_is_faster_or_if_helpers_are_off() {
    let mut scene = Scene::new(SLOW_NS);
    scene.measure();
    let long = scene.write(4 * MIB);
    assert_eq!((runs(&scene.volume, long).as_str(), scene.past()), ("1024 pm", 0));
    let mut scene = Scene::new(FAST_NS);
    scene.volume.tune(Param::Helpers, 0).unwrap();
    scene.measure();
    let long = scene.write(4 * MIB);
    assert_eq!((runs(&scene.volume, long).as_str(), scene.past()), ("1024 pm", 0));
}

#[test]
fn everybody_can_see_what_was_timed() {
    let mut scene = Scene::new(FAST_NS);
    scene.measure();
    let speeds = scene.volume.stats().speeds;
    let timed = |device: &str, operation: &str| {
        let is_it = |s: &&terrace_engine::SpeedStats| {
            (s.device.as_str(), s.operation.as_str()) == (device, operation)
        };
        speeds.iter().find(is_it).unwrap_or_else(|| panic!("{device} {operation}")).clone()
    };
    let to_pm = timed("pm", "long_write");
    assert_eq!(to_pm.timed, MIB as u64);
    assert!(to_pm.total_ns > 0);
    let to_disk = timed("disk1", "long_write");
    assert!(to_disk.timed >= MIB as u64);
    assert_eq!(to_disk.total_ns, to_disk.timed / 4096 * FAST_NS);
    assert!(timed("disk1", "flush").timed > 0);
    let mut buf = vec![0; MIB];
    let ino = rig::find(&scene.volume, "/2");
    assert_eq!(scene.volume.read(ino, 0, &mut buf).unwrap(), MIB);
    let now = scene.volume.stats().since(&scene.volume.stats());
    assert!(now.speeds.iter().all(|speed| speed.timed == 0), "{now:?}");
    let after = scene.volume.stats().speeds;
    let long_reads = after.iter().find(|s| s.device == "pm" && s.operation == "long_read");
    assert_eq!(long_reads.map(|s| s.timed), Some(MIB as u64));
}
