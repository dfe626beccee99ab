//! Many threads on few files and names, with the workers busy: nothing hangs, nothing breaks, and
//! what is left is a sound volume, after a clean unmount and after a crash.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{apply, op, prepare, tree_of};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use terrace_engine::{
    FileKind, FormatOptions, Ino, NewInode, OpenOptions, Volume, WriteOptions, format,
};
use terrace_media::{Disk, Pm, memory_disk};

const THREADS: usize = 4;

struct Rig {
    pm: Arc<Pm>,
    disk: Arc<dyn Disk>,
}

impl Rig {
    fn new() -> Rig {
        let rig = Rig { pm: Pm::anonymous(8 << 20), disk: memory_disk(128 << 20) };
        let options = FormatOptions { shards: Some(2), ..Default::default() };
        format(&rig.pm, std::slice::from_ref(&rig.disk), &options).unwrap();
        rig
    }

    fn open(&self, pm_full_percent: u8) -> Arc<Volume> {
        // Dirty pages are due at once: the workers have always something to do.
        let options = OpenOptions {
            cache_bytes: 4 << 20,
            pm_full_percent,
            writeback_seconds: 0,
            ..Default::default()
        };
        Volume::open(self.pm.clone(), vec![self.disk.clone()], options, &|_, _, _| {}).unwrap()
    }

    fn must_be_sound(&self) {
        common::must_be_sound(&self.pm, &self.disk);
    }
}

/// Ends the process if the test hangs: a deadlock must not look like a slow test.
struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    fn new() -> Watchdog {
        let done = Arc::new(AtomicBool::new(false));
        let watched = done.clone();
        std::thread::spawn(move || {
            let start = Instant::now();
            while !watched.load(Ordering::Acquire) {
                if start.elapsed() > Duration::from_secs(300) {
                    eprintln!("the test hangs");
                    std::process::abort();
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Watchdog(done)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn storm(pm_full_percent: u8, kill: bool) {
    let _watchdog = Watchdog::new();
    let rig = Rig::new();
    let volume = rig.open(pm_full_percent);
    prepare(&volume);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut runner = TestRunner::default();
                let strategy = op(60_000);
                for i in 0..3000 {
                    let op = strategy.new_tree(&mut runner).unwrap().current();
                    match apply(&volume, &op) {
                        // What another thread did meanwhile, or a full device: fair answers.
                        // Anything else is not.
                        Ok(()) => {}
                        Err(errno) => assert!(
                            [
                                libc::ENOENT,
                                libc::EEXIST,
                                libc::EISDIR,
                                libc::ENOTDIR,
                                libc::EINVAL,
                                libc::ENODEV,
                                libc::ENODATA,
                                libc::EPERM,
                                libc::ENOTEMPTY,
                                libc::ESTALE,
                                libc::EOPNOTSUPP,
                                libc::ENOSPC
                            ]
                            .contains(&errno),
                            "{op:?}: errno {errno}"
                        ),
                    }
                    if i % 100 == 0 {
                        volume.sync().unwrap();
                    }
                }
            });
        }
    });
    let tree = tree_of(&volume);
    if kill {
        volume.sync().unwrap();
        volume.abandon();
        std::mem::forget(volume);
    } else {
        volume.close().unwrap();
        drop(volume);
        rig.must_be_sound();
    }
    let volume = rig.open(pm_full_percent);
    assert_eq!(tree_of(&volume), tree);
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn a_storm_in_pm_leaves_a_sound_volume() {
    storm(90, false);
}

#[test]
fn a_storm_over_both_tiers_leaves_a_sound_volume() {
    storm(25, false);
}

#[test]
fn a_storm_and_a_crash_leave_a_sound_volume() {
    storm(25, true);
}

/// Appends from many threads all arrive, whole, none over another.
#[test]
fn appends_are_atomic() {
    let _watchdog = Watchdog::new();
    for pm_full_percent in [90, 20] {
        let rig = Rig::new();
        let volume = rig.open(pm_full_percent);
        let new =
            NewInode { kind: FileKind::Regular, mode: 0o600, umask: 0, uid: 0, gid: 0, rdev: 0 };
        let file = volume.create(Ino::ROOT, b"log", &new).unwrap().ino;
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let volume = &volume;
                scope.spawn(move || {
                    for i in 0..500u32 {
                        let len = 1 + (i as usize * 37) % 1500;
                        let mut record = vec![thread as u8; 9 + len];
                        record[1..5].copy_from_slice(&i.to_le_bytes());
                        record[5..9].copy_from_slice(&(len as u32).to_le_bytes());
                        let options = WriteOptions { append: true, ..Default::default() };
                        assert_eq!(volume.write(file, 0, &record, options).unwrap(), record.len());
                    }
                });
            }
        });
        let mut bytes = vec![0; volume.getattr(file).unwrap().size as usize];
        volume.read(file, 0, &mut bytes).unwrap();
        let mut next = [0u32; THREADS];
        let mut rest = &bytes[..];
        while let [thread, head @ ..] = rest {
            let i = u32::from_le_bytes(head[..4].try_into().unwrap());
            let len = u32::from_le_bytes(head[4..8].try_into().unwrap()) as usize;
            assert_eq!(next[usize::from(*thread)], i);
            next[usize::from(*thread)] += 1;
            assert!(head[8..8 + len].iter().all(|b| b == thread));
            rest = &head[8 + len..];
        }
        assert_eq!(next, [500; THREADS]);
    }
}
