//! A disk that takes its time, and one that is gone for a while.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use terrace_engine::{
    CheckOptions, FormatOptions, FsResult, Ino, OpenOptions, Volume, WaitCause, WaitStats,
    WriteOptions, check, format,
};
use terrace_media::{IoOp, Pm, sim_disk};
use terrace_policy::Param;

use crate::world::{Devices, FILE, read};

/// Nothing here takes nearly as long; a test that gets there has found something that hangs.
const NEVER: Duration = Duration::from_secs(60);

fn create(v: &Volume, name: &str, data: &[u8]) -> Ino {
    let ino = v.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
    assert_eq!(v.write(ino, 0, data, WriteOptions::default()).unwrap(), data.len());
    ino
}

/// A volume with the file "pm" in PM and the file "disk" on the disk, both known to nobody's cache.
fn two_files() -> (Devices, Ino, Ino) {
    let devices = Devices::formatted(4 << 20, 8 << 20);
    let v = devices.open(90, None).unwrap();
    let pm = create(&v, "pm", &[1; 10_000]);
    v.close().unwrap();
    drop(v);
    let v = devices.open(0, None).unwrap();
    let disk = create(&v, "disk", &[2; 300_000]);
    create(&v, "gone", &[9; 40_960]);
    v.close().unwrap();
    (devices, pm, disk)
}

fn waits(v: &Volume, cause: WaitCause) -> WaitStats {
    v.stats().waits.into_iter().find(|wait| wait.cause == cause.name()).expect("it is told")
}

/// While a disk holds up a write, a flush or a read, only those wait who asked for it.
#[test]
fn a_slow_disk_holds_up_only_who_waits_for_it() {
    for slow in [IoOp::Write, IoOp::Flush, IoOp::Read] {
        let (devices, pm, disk) = two_files();
        let v = devices.open(90, None).unwrap();
        // Dirty pages, of which the disk knows nothing yet.
        let v = if slow == IoOp::Read { v } else { reopened(v, &devices) };
        let dirty = (slow != IoOp::Read).then(|| create(&v, "dirty", &[3; 50_000]));
        let (arrived, arrival) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        devices.disk_sim.set_on_io(Box::new(move |op| {
            if op == slow {
                let _ = arrived.send(());
                let _ = released.lock().unwrap().recv();
            }
        }));
        let waiter = {
            let v = Arc::clone(&v);
            std::thread::spawn(move || match dirty {
                Some(dirty) => v.fsync(dirty, false),
                None => read(&v, disk).map(|data| assert_eq!(data, vec![2; 300_000])),
            })
        };
        arrival.recv_timeout(NEVER).expect("the disk is asked");
        let (done, others_done) = mpsc::channel();
        let others = {
            let v = Arc::clone(&v);
            std::thread::spawn(move || {
                assert_eq!(read(&v, pm).unwrap(), [1; 10_000]);
                assert_eq!(v.write(pm, 100, &[5; 100], WriteOptions::default()).unwrap(), 100);
                v.fsync(pm, false).unwrap();
                create(&v, "more", &[6; 100]);
                v.unlink(Ino::ROOT, b"more").unwrap();
                if let Some(dirty) = dirty {
                    // The very file that is on its way to the disk can be read, written and grown.
                    assert_eq!(read(&v, dirty).unwrap(), vec![3; 50_000]);
                    v.write(dirty, 49_000, &[4; 2000], WriteOptions::default()).unwrap();
                }
                assert_eq!(v.status().read_only, None);
                v.statfs().unwrap();
                done.send(()).unwrap();
            })
        };
        others_done
            .recv_timeout(NEVER)
            .unwrap_or_else(|_| panic!("somebody else waits for a slow {slow}"));
        others.join().unwrap();
        assert!(!waiter.is_finished(), "it waits for the {slow}");
        let cause = if slow == IoOp::Read { WaitCause::Read } else { WaitCause::Flush };
        let now = waits(&v, cause);
        assert_eq!((now.waiting, now.last_second), (1, now.waits + 1), "{now:?}");
        drop(release);
        devices.disk_sim.clear_on_io();
        waiter.join().unwrap().unwrap();
        let after = waits(&v, cause);
        assert_eq!((after.waiting, waits(&v, WaitCause::Room).waits), (0, 0));
        assert!(after.waits > now.waits && after.longest_ns > 0, "{after:?}");
        assert!(after.total_ns >= after.longest_ns, "{after:?}");
        v.close().unwrap();
        drop(v);
        devices.must_be_sound(&format!("slow {slow}"));
    }
}

/// The volume again, now with all data bound for the disk.
fn reopened(v: Arc<Volume>, devices: &Devices) -> Arc<Volume> {
    v.close().unwrap();
    drop(v);
    devices.open(0, None).unwrap()
}

#[test]
fn a_disk_that_vanishes_and_returns_costs_nothing() {
    let (devices, pm, disk) = two_files();
    let v = devices.open(90, None).unwrap();
    let v = reopened(v, &devices);
    let dirty = create(&v, "dirty", &[3; 50_000]);
    let free_before = v.statfs().unwrap().blocks_free;
    devices.disk_sim.vanish_after(1, libc::ENXIO);
    let failure = |result: FsResult<()>| {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("<simulated disk>"), "{error}");
        error.errno()
    };
    for _ in 0..20 {
        assert_eq!(failure(v.fsync(dirty, false)), libc::ENXIO);
        assert_eq!(failure(read(&v, disk).map(drop)), libc::ENXIO);
        assert_eq!(failure(v.sync()), libc::ENXIO);
    }
    assert_eq!(v.statfs().unwrap().blocks_free, free_before, "attempts leave nothing behind");
    let status = v.status();
    assert_eq!(status.read_only, None, "nothing that was acknowledged is at risk");
    assert!(
        status.devices[1].health.starts_with("failing: <simulated disk>: "),
        "{}",
        status.devices[1].health
    );
    assert_eq!(status.cache_dirty_bytes, 13 * 4096);
    // Operations that need no disk go on: on names, files in PM, pages in the cache.
    assert_eq!(read(&v, pm).unwrap(), [1; 10_000]);
    assert_eq!(read(&v, dirty).unwrap(), vec![3; 50_000]);
    v.write(dirty, 100, &[4; 100], WriteOptions::default()).unwrap();
    create(&v, "meanwhile", b"");
    let free_before = v.statfs().unwrap().blocks_free;
    v.unlink(Ino::ROOT, b"gone").unwrap();
    assert_eq!(
        v.statfs().unwrap().blocks_free,
        free_before + 10,
        "its blocks are free although nobody can note it"
    );

    devices.disk_sim.clear_faults();
    v.fsync(dirty, false).unwrap();
    assert_eq!(read(&v, disk).unwrap(), vec![2; 300_000]);
    let status = v.status();
    assert_eq!((status.devices[1].health.as_str(), status.cache_dirty_bytes), ("ok", 0));
    let after = devices.durable().devices();
    let again = after.open(0, None).unwrap();
    assert_eq!(read(&again, dirty).unwrap()[..300], [[3; 100], [4; 100], [3; 100]].concat());
    v.close().unwrap();
    drop(v);
    devices.must_be_sound("after its return");
}

/// Two disks of one tier: what the one that is gone would have got goes to the other.
#[test]
fn one_of_two_disks_vanishes_and_returns() {
    for which in 0..2 {
        let pm = Pm::anonymous(4 << 20);
        let (disks, sims): (Vec<_>, Vec<_>) = (0..2).map(|_| sim_disk(8 << 20)).unzip();
        format(&pm, &disks, &FormatOptions::default()).unwrap();
        // Nothing happens by itself.
        let options = OpenOptions {
            pm_full_percent: 0,
            cache_bytes: 2 << 20,
            writeback_seconds: 1000,
            ..Default::default()
        };
        let open =
            || Volume::open(pm.clone(), disks.clone(), options.clone(), &|_, _, _| {}).unwrap();
        let v = open();
        // Each goes to the disk with more room.
        let files = ["a", "b"].map(|name| {
            let file = create(&v, name, &[2; 300_000]);
            v.fsync(file, false).unwrap();
            file
        });
        // Mounted anew, the cache knows neither.
        v.close().unwrap();
        drop(v);
        let v = open();
        sims[which].vanish_after(1, libc::ENXIO);
        let (there, away): (Vec<Ino>, Vec<Ino>) = files.iter().partition(|&&f| match read(&v, f) {
            Ok(data) => data == vec![2; 300_000],
            Err(error) => {
                assert_eq!(error.errno(), libc::ENXIO);
                false
            }
        });
        assert_eq!((there.len(), away.len()), (1, 1), "one file lies on each");
        // New data, and new versions of what lies on the disk that is gone, have a place.
        let made = create(&v, "made", &[3; 400_000]);
        v.write(away[0], 4096, &[5; 8192], WriteOptions::default()).unwrap();
        v.sync().unwrap();
        let status = v.status();
        assert_eq!((status.read_only, status.cache_dirty_bytes), (None, 0));
        assert!(status.devices[1 + which].health.starts_with("failing"), "{:?}", status.devices);
        assert_eq!(status.devices[2 - which].health, "ok");
        // Without either there is none: who asks is told, and nothing is lost.
        sims[1 - which].vanish_after(1, libc::ENXIO);
        let late = create(&v, "late", &[4; 50_000]);
        assert_eq!(v.fsync(late, false).unwrap_err().errno(), libc::ENXIO);
        assert_eq!(read(&v, late).unwrap(), vec![4; 50_000]);
        sims.iter().for_each(|sim| sim.clear_faults());
        v.fsync(late, false).unwrap();
        v.close().unwrap();
        drop(v);
        let report = check(
            &pm,
            &disks,
            &CheckOptions { repair: false, data: true, ..CheckOptions::default() },
            &|_, _, _| {},
        )
        .unwrap();
        assert!(report.problems.is_empty(), "{:#?}", report.problems);
        let v = open();
        assert_eq!(read(&v, there[0]).unwrap(), vec![2; 300_000]);
        assert_eq!(
            read(&v, away[0]).unwrap(),
            [&[2; 4096][..], &[5; 8192], &[2; 287_712]].concat()
        );
        assert_eq!(read(&v, made).unwrap(), vec![3; 400_000]);
        assert_eq!(read(&v, late).unwrap(), vec![4; 50_000]);
        v.close().unwrap();
    }
}

/// Nobody calls fsync: the worker tries until the disk is back.
#[test]
fn the_worker_writes_back_when_the_disk_returns() {
    let devices = Devices::formatted(4 << 20, 8 << 20);
    let options = OpenOptions {
        pm_full_percent: 0,
        writeback_seconds: 1,
        cache_bytes: 2 << 20,
        ..Default::default()
    };
    let v = Volume::open(devices.pm.clone(), vec![devices.disk.clone()], options, &|_, _, _| {})
        .unwrap();
    // The worker knows all it needs of the disk.
    let known = create(&v, "known", &[6; 100]);
    v.fsync(known, false).unwrap();
    let (tried, attempts) = mpsc::channel();
    devices.disk_sim.vanish_after(1, libc::EIO);
    devices.disk_sim.set_on_io(Box::new(move |op| tried.send(op).unwrap_or_default()));
    let f = create(&v, "f", &[7; 20_000]);
    for _ in 0..2 {
        assert_eq!(attempts.recv_timeout(NEVER).expect("the worker tries again"), IoOp::Write);
    }
    assert_eq!(v.status().cache_dirty_bytes, 5 * 4096);
    devices.disk_sim.clear_faults();
    while attempts.recv_timeout(NEVER).expect("the worker goes on") != IoOp::Flush {}
    v.fsync(f, false).unwrap();
    assert_eq!(v.status().cache_dirty_bytes, 0);
    v.close().unwrap();
    drop(v);
    devices.must_be_sound("written back in the end");
}

/// While data moves it takes room in both tiers. A thread that finds none meanwhile waits for that
/// to end, and is not told that the volume is full.
#[test]
fn room_that_a_move_is_about_to_give_back_is_room() {
    const PIECE: usize = 65_536;
    let devices = Devices::formatted(4 << 20, 8 << 20);
    let v = devices.open(90, None).unwrap();
    let moving = create(&v, "moving", &vec![1; 2 << 20]);
    let ballast = create(&v, "ballast", &vec![2; 5 << 20]);
    v.move_file(ballast, 1).unwrap();
    assert_eq!(v.move_file(moving, 0).unwrap().left_bytes, 0);

    let (arrived, arrival) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let first = Mutex::new(Some(released));
    devices.disk_sim.set_on_io(Box::new(move |op| {
        let first = if op == IoOp::Write { first.lock().unwrap().take() } else { None };
        if let Some(released) = first {
            arrived.send(()).unwrap();
            let _ = released.recv();
        }
    }));
    let mover = {
        let v = Arc::clone(&v);
        std::thread::spawn(move || v.move_file(moving, 1))
    };
    arrival.recv_timeout(NEVER).expect("the disk is asked");
    v.tune(Param::Migrate, 1).unwrap();
    let filler = create(&v, "filler", &[]);
    let (filled, full) = mpsc::channel();
    let writer = {
        let v = Arc::clone(&v);
        std::thread::spawn(move || {
            let durable = WriteOptions { durable: true, append: true, ..Default::default() };
            let error = loop {
                if let Err(error) = v.write(filler, 0, &[3; PIECE], durable) {
                    break error;
                }
            };
            filled.send(()).unwrap();
            error
        })
    };
    let early = full.recv_timeout(Duration::from_millis(300));
    release.send(()).unwrap();
    assert_eq!(mover.join().unwrap().unwrap().left_bytes, 0);
    assert_eq!(writer.join().unwrap().errno(), libc::ENOSPC);
    let written = v.getattr(filler).unwrap().size;
    let room = waits(&v, WaitCause::Room);
    assert!(room.waits > 0 && room.longest_ns > 100_000_000, "{room:?}");
    assert!(early.is_err() && written > 3 << 20, "{early:?}: full with {written} bytes");
    assert_eq!(v.status().read_only, None);
    for (ino, byte) in [(moving, 1), (ballast, 2), (filler, 3)] {
        assert!(read(&v, ino).unwrap().iter().all(|&b| b == byte), "{byte}");
    }
    v.close().unwrap();
    drop(v);
    devices.must_be_sound("full");
}
