//! Programs that wait no longer, as after a signal: nothing has happened, or they are told how
//! much.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use terrace_engine::{Fallocate, Ino, Volume, WriteOptions, let_waits_end};
use terrace_media::IoOp;

use crate::world::{Devices, FILE, read};

/// Nothing here takes nearly as long.
const NEVER: Duration = Duration::from_secs(60);

thread_local! {
    static IS_LOST: Cell<bool> = const { Cell::new(false) };
}

fn create(v: &Volume, name: &str) -> Ino {
    v.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino
}

fn write(v: &Volume, ino: Ino, data: &[u8]) -> usize {
    v.write(ino, 0, data, WriteOptions::default()).unwrap()
}

/// A volume with a page cache of 2 MiB, all of whose data goes to the disk.
fn volume() -> (Devices, Arc<Volume>) {
    let devices = Devices::formatted(4 << 20, 24 << 20);
    let v = devices.open(0, None).unwrap();
    (devices, v)
}

#[test]
fn a_wait_for_what_hangs_on_a_disk_ends() {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let (devices, v) = volume();
    let dirty = create(&v, "dirty");
    write(&v, dirty, &vec![1; 1 << 20]);
    let (arrived, arrival) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    devices.disk_sim.set_on_io(Box::new(move |op| {
        if op == IoOp::Write {
            let _ = arrived.send(());
            let _ = released.lock().unwrap().recv();
        }
    }));
    let (volume, waits) = (Arc::clone(&v), move |v: &Volume| v.fsync(dirty, false));
    let syncing = std::thread::spawn(move || waits(&volume));
    arrival.recv_timeout(NEVER).expect("the disk is asked");
    let other = create(&v, "other");
    let (says, said) = mpsc::channel();
    let (volume, mut at) = (Arc::clone(&v), 0);
    let writer = std::thread::spawn(move || {
        let_waits_end(|| IS_OVER.load(Ordering::Acquire));
        loop {
            match volume.write(other, at, &[2; 50_000], WriteOptions::default()) {
                Ok(len) => at += len as u64,
                Err(error) => return says.send((at, error.errno())).unwrap(),
            }
        }
    });
    let early = said.recv_timeout(Duration::from_millis(300));
    assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout), "it waits");
    IS_OVER.store(true, Ordering::Release);
    let begun = Instant::now();
    let (written, errno) = said.recv_timeout(NEVER).expect("its wait is over");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!((errno, read(&v, other).unwrap()), (libc::EINTR, vec![2; written as usize]));
    writer.join().unwrap();
    drop(release);
    devices.disk_sim.clear_on_io();
    syncing.join().unwrap().unwrap();
    assert_eq!(write(&v, other, &[3; 100_000]), 100_000);
    v.close().unwrap();
    drop(v);
    devices.must_be_sound("after an interrupted write");
}

#[test]
fn what_has_begun_says_how_much_is_done() {
    let (devices, v) = volume();
    let [source, copy, short] = ["source", "copy", "short"].map(|name| create(&v, name));
    let data: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
    assert_eq!(write(&v, source, &data), data.len());
    v.sync().unwrap();
    let_waits_end(|| IS_LOST.get());
    IS_LOST.set(true);
    let copied = v.copy_range(source, 0, copy, 0, data.len() as u64).unwrap();
    assert!(copied > 0 && copied < data.len() as u64, "{copied} bytes");
    // Nobody else writes all of it back before the fsync.
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    devices.disk_sim.set_on_io(Box::new(move |op| {
        if op == IoOp::Write {
            let _ = released.lock().unwrap().recv_timeout(NEVER);
        }
    }));
    let written = write(&v, short, &data);
    assert!(written > 0 && written < data.len(), "{written} bytes");
    for (ino, len) in [(copy, copied as usize), (short, written)] {
        assert!(read(&v, ino).unwrap() == data[..len], "other contents");
    }
    let fsync = v.fsync(short, false).unwrap_err();
    assert_eq!(fsync.errno(), libc::EINTR);
    drop(release);
    devices.disk_sim.clear_on_io();
    IS_LOST.set(false);
    v.fsync(short, false).unwrap();
    v.close().unwrap();
    drop(v);
    devices.must_be_sound("after short writes");
}

#[test]
fn what_has_had_an_effect_goes_on_to_its_end() {
    let (devices, v) = volume();
    let ino = create(&v, "file");
    let_waits_end(|| true);
    let durable = WriteOptions { durable: true, ..WriteOptions::default() };
    assert_eq!(v.write(ino, 0, &[5; 200_000], durable).unwrap(), 200_000);
    // Its edges are written first, then blocks are taken out of the middle.
    v.fallocate(ino, Fallocate::PunchHole, 100, 100_000).unwrap();
    let mut expected = vec![5; 200_000];
    expected[100..100_100].fill(0);
    assert!(read(&v, ino).unwrap() == expected);
    v.close().unwrap();
    drop(v);
    devices.must_be_sound("after calls that go on");
}
