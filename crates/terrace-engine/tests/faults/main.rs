//! Everything that a device can refuse, at every operation: the right errno, the rest goes on,
//! nothing acknowledged is lost, and what must turn the volume read-only does, and nothing else.

mod full;
mod patience;
mod removing;
#[path = "../rig/mod.rs"]
mod rig;
mod waiting;
mod world;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use terrace_engine::FsError;
use terrace_media::{DiskFault, IoOp};
use world::{Devices, Images, Kept, Program, Step};

const PM_BYTES: u64 = 3 << 20;
const DISK_BYTES: u64 = 6 << 20;

/// A volume with a file on the disk and one in PM, unmounted.
fn base() -> (Images, Program) {
    let devices = Devices::formatted(PM_BYTES, DISK_BYTES);
    let mut program = Program::default();
    let v = devices.open(90, None).unwrap();
    program.step(&v, Step::Write("pm", 0, 20_000, 1), true).unwrap();
    v.close().unwrap();
    drop(v);
    let v = devices.open(0, None).unwrap();
    // Long enough for checksum blocks; the other keeps its checksums in the log.
    program.step(&v, Step::Write("cold", 0, 300_000, 2), false).unwrap();
    program.step(&v, Step::Write("old", 0, 30_000, 3), false).unwrap();
    program.step(&v, Step::Sync, false).unwrap();
    v.close().unwrap();
    drop(v);
    (devices.current(), program)
}

/// What the program does: reads that must fetch, writes to disk of all kinds, all that makes them
/// durable; and files that move, dirty ones included.
const SCRIPT: [Step; 22] = [
    Step::Read("cold"),
    Step::Read("pm"),
    Step::Move("pm", 1),
    Step::Write("log", 0, 100_000, 4),
    Step::Fsync("log"),
    Step::Write("log", 0, 9_000, 5),
    Step::Move("log", 0),
    // In the middle of a block that is on the disk only.
    Step::Write("old", 5_000, 100, 6),
    Step::Fsync("old"),
    Step::Write("big", 0, 900_000, 7),
    Step::Sync,
    Step::Write("new", 0, 50_000, 8),
    Step::Rename("new", "old"),
    Step::Truncate("cold", 150_001),
    Step::Read("cold"),
    Step::Move("cold", 0),
    Step::Unlink("log"),
    Step::Read("pm"),
    Step::Write("big", 400_000, 300_000, 9),
    Step::Fsync("big"),
    Step::Move("cold", 1),
    Step::Write("last", 0, 60_000, 10),
];

/// A run of the script with something that fails.
struct Run<'a> {
    base: &'a Images,
    program: Program,
    context: String,
}

/// What a run saw.
#[derive(Default)]
struct Seen {
    /// Operations of the disk, or fences.
    operations: u64,
    failed_steps: u64,
    turned_read_only: bool,
}

impl Run<'_> {
    /// Mounts, with a second attempt should the fault hit the first; runs the script; compares;
    /// ends in `end`.
    fn run(
        mut self,
        plant: &dyn Fn(&Devices),
        cure: &dyn Fn(&Devices),
        end: End,
        errnos: &[i32],
    ) -> Seen {
        let devices = self.base.devices();
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let cache = Some(dir.path());
        let kinds = Arc::new(Mutex::new(Vec::new()));
        let log = kinds.clone();
        devices.disk_sim.set_on_io(Box::new(move |op| log.lock().unwrap().push(op)));
        let mut seen = Seen::default();
        plant(&devices);
        let v = match devices.open(0, cache) {
            Ok(v) => v,
            Err(error) => {
                self.must_say_why(&error, errnos);
                cure(&devices);
                devices
                    .open(0, cache)
                    .unwrap_or_else(|error| panic!("{}: mounting again: {error}", self.context))
            }
        };
        for step in SCRIPT {
            if let Err(error) = self.program.step(&v, step, false) {
                // Later steps may miss the results of the step that failed.
                let expected = error.errno() == libc::ENOENT || errnos.contains(&error.errno());
                let refused = [libc::EROFS, libc::EIO].contains(&error.errno());
                let read_only = refused && v.status().read_only.is_some();
                assert!(expected || read_only, "{}: {step:?}: {error}", self.context);
                seen.failed_steps += 1;
            }
        }
        cure(&devices);
        seen.turned_read_only = v.status().read_only.is_some();
        // With the fault gone, everything can be read as it was left, and other files never
        // noticed.
        self.program.verify(&v, Kept::Returned, &self.context);
        let (images, kept) = match end {
            End::Unmount => {
                let closed = v.close();
                assert_eq!(closed.is_err(), seen.turned_read_only, "{}: {closed:?}", self.context);
                (devices.current(), Kept::Returned)
            }
            End::DaemonDies => {
                v.abandon();
                (devices.current(), Kept::Returned)
            }
            End::PowerCut(seed) => {
                v.abandon();
                std::fs::remove_dir_all(dir.path()).unwrap();
                std::fs::create_dir(dir.path()).unwrap();
                (devices.after_power_cut(seed), Kept::Durable)
            }
        };
        std::mem::forget(v);
        seen.operations = devices.disk_sim.io_calls();
        let devices = images.devices();
        let context = format!("{}, after {end:?}", self.context);
        let v = devices.open(0, cache).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(v.status().read_only, None, "{context}");
        self.program.verify(&v, kept, &context);
        v.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        drop(v);
        devices.must_be_sound(&context);
        seen
    }

    fn must_say_why(&self, error: &FsError, errnos: &[i32]) {
        let told = error.message().is_some_and(|message| message.contains("<simulated "));
        assert!(errnos.contains(&error.errno()) && told, "{}: {error}", self.context);
    }
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
enum End {
    Unmount,
    DaemonDies,
    PowerCut(u64),
}

/// The kinds of the disk's operations in a run without faults.
fn operations(base: &Images, program: &Program) -> Vec<IoOp> {
    let devices = base.devices();
    let kinds = Arc::new(Mutex::new(Vec::new()));
    let log = kinds.clone();
    devices.disk_sim.set_on_io(Box::new(move |op| log.lock().unwrap().push(op)));
    let mut program = program.clone();
    let v = devices.open(0, None).unwrap();
    SCRIPT.iter().for_each(|&step| program.step(&v, step, false).unwrap());
    v.close().unwrap();
    program.verify(&devices.open(0, None).unwrap(), Kept::Returned, "without faults");
    devices.disk_sim.clear_on_io();
    let kinds = kinds.lock().unwrap().clone();
    assert!(kinds.len() > 40, "{kinds:?}");
    kinds
}

#[test]
fn every_operation_of_the_disk_may_fail() {
    let (base, program) = base();
    let operations = operations(&base, &program);
    let faults = [
        (DiskFault::Errno(libc::EIO), libc::EIO),
        (DiskFault::Errno(libc::ENOSPC), libc::ENOSPC),
        (DiskFault::Torn { mask: 0x5555_0f0f_3333_00ff }, libc::EIO),
        (DiskFault::Ended, libc::EIO),
    ];
    let mut failed = BTreeSet::new();
    for (i, &op) in operations.iter().enumerate() {
        for (k, &(fault, errno)) in faults.iter().enumerate() {
            let torn = matches!(fault, DiskFault::Torn { .. });
            if torn && op != IoOp::Write {
                continue;
            }
            let n = i as u64 + 1;
            let end = [End::Unmount, End::DaemonDies, End::PowerCut(n)][(i + k) % 3];
            let context = format!("{op} {n} of {}: {fault:?}", operations.len());
            let run = Run { base: &base, program: program.clone(), context: context.clone() };
            let plant = |devices: &Devices| devices.disk_sim.plant_fault(n, fault);
            let seen = run.run(&plant, &|devices| devices.disk_sim.clear_faults(), end, &[errno]);
            assert!(
                !seen.turned_read_only || op == IoOp::Flush,
                "{context}: only a failed flush is that bad"
            );
            failed.insert((seen.failed_steps > 0, op == IoOp::Flush, seen.turned_read_only));
        }
    }
    assert!(
        failed.contains(&(true, false, false)) && failed.contains(&(true, true, true)),
        "{failed:?}"
    );
}

#[test]
fn the_disk_may_vanish_at_any_operation_and_return() {
    let (base, program) = base();
    let operations = operations(&base, &program);
    for n in 1..=operations.len() as u64 {
        let (end, errno) =
            if n % 2 == 0 { (End::Unmount, libc::EIO) } else { (End::PowerCut(n), libc::ENXIO) };
        let context = format!("from operation {n} of {} on", operations.len());
        let run = Run { base: &base, program: program.clone(), context };
        let plant = |devices: &Devices| devices.disk_sim.vanish_after(n, errno);
        run.run(&plant, &|devices| devices.disk_sim.clear_faults(), end, &[errno]);
    }
}

/// A fence that fails is final: PM takes nothing any more, and what it holds is what a power cut
/// leaves.
#[test]
fn every_fence_may_fail() {
    let (base, program) = base();
    let mut n = 0;
    loop {
        n += 1;
        let fences = Arc::new(AtomicU64::new(0));
        let counter = fences.clone();
        let plant = move |devices: &Devices| {
            let counter = counter.clone();
            devices.pm_sim.set_on_fence(Box::new(move |sim| {
                if counter.fetch_add(1, Ordering::AcqRel) + 1 == n {
                    sim.cut_power();
                }
            }));
        };
        let devices = base.devices();
        plant(&devices);
        let mut program = program.clone();
        let context = format!("fence {n}");
        match devices.open(0, None) {
            Err(error) => assert_eq!(error.errno(), libc::EIO, "{context}: {error}"),
            Ok(v) => {
                for step in SCRIPT {
                    if let Err(error) = program.step(&v, step, false) {
                        let read_only = v.status().read_only.is_some();
                        assert!(read_only, "{context}: {step:?}: {error}");
                        let errno = error.errno();
                        assert!(
                            [libc::EIO, libc::EROFS, libc::ENOENT].contains(&errno),
                            "{context}: {step:?}: {error}"
                        );
                    }
                }
                let closed = v.close();
                if fences.load(Ordering::Acquire) < n {
                    closed.unwrap();
                    break;
                }
                assert!(closed.is_err(), "{context}");
                program.verify(&v, Kept::Returned, &context);
                v.abandon();
                std::mem::forget(v);
            }
        }
        let devices = devices.after_power_cut(n).devices();
        let v = devices.open(0, None).unwrap_or_else(|error| panic!("{context}: {error}"));
        program.verify(&v, Kept::Durable, &context);
        v.close().unwrap();
        drop(v);
        devices.must_be_sound(&context);
    }
    assert!(n > 40, "{n} fences");
}
