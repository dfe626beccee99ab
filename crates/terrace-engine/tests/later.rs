//! Reads that no thread waits for: they give what the others give, whatever happens meanwhile.

mod rig;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rig::{FILE, Rig, pattern, put};
use tempfile::TempDir;
use terrace_engine::{FormatOptions, FsResult, Ino, OpenOptions, Volume, format};
use terrace_media::{
    AlignedBuf, Disk, DiskOpenOptions, DiskStats, IoEngine, LaterRead, MediaError, Pm,
    create_disk_file, memory_disk, open_disk,
};

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

/// A disk in memory whose reads of this kind come when the test says so.
#[derive(Debug)]
struct Slow {
    disk: Arc<dyn Disk>,
    begun: Mutex<Vec<(u64, LaterRead)>>,
    /// Whether they fail.
    fails: AtomicBool,
}

impl Slow {
    fn new(len: u64) -> Arc<Self> {
        let (disk, begun) = (memory_disk(len), Mutex::default());
        Arc::new(Self { disk, begun, fails: AtomicBool::new(false) })
    }

    /// Reads what was begun.
    fn go_on(&self) {
        let begun = std::mem::take(&mut *self.begun.lock().unwrap());
        for (off, mut read) in begun {
            let len = read.len_bytes;
            self.disk.read_at(off, &mut read.buffer[..len]).unwrap();
            (read.done)(read.buffer, !self.fails.load(Ordering::Relaxed));
        }
    }
}

impl Disk for Slow {
    fn path(&self) -> &std::path::Path {
        self.disk.path()
    }
    fn len(&self) -> u64 {
        self.disk.len()
    }
    fn read_at(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.disk.read_at(off, buf)
    }
    fn begin_read(&self, off: u64, read: LaterRead) -> Result<(), LaterRead> {
        self.begun.lock().unwrap().push((off, read));
        Ok(())
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
        self.disk.stats()
    }
}

/// A volume without threads whose data goes to this disk.
fn volume_on(disk: &Arc<dyn Disk>) -> (Rig, Arc<Volume>) {
    let rig = Rig { pm: Pm::anonymous(8 << 20), disks: vec![disk.clone()] };
    let options = FormatOptions { shards: Some(1), ..Default::default() };
    format(&rig.pm, &rig.disks, &options).unwrap();
    let volume = open(&rig);
    (rig, volume)
}

/// With an empty page cache.
fn open(rig: &Rig) -> Arc<Volume> {
    let options = OpenOptions {
        cache_bytes: 8 << 20,
        pm_full_percent: 0,
        workers: false,
        ..Default::default()
    };
    Volume::open(rig.pm.clone(), rig.disks.clone(), options, &|_, _, _| {}).unwrap()
}

/// The volume anew, so that nothing is cached; with a file of this contents on its disk.
fn with_file(disk: &Arc<dyn Disk>, data: &[u8]) -> (Rig, Arc<Volume>, Ino) {
    let (rig, volume) = volume_on(disk);
    let ino = volume.create(Ino::ROOT, b"file", &FILE).unwrap().ino;
    put(&volume, ino, 0, data);
    volume.close().unwrap();
    let volume = open(&rig);
    let ino = volume.lookup(Ino::ROOT, b"file").unwrap().ino;
    (rig, volume, ino)
}

/// The result that a read of this kind will tell; `None`: it does not begin.
fn later(v: &Volume, ino: Ino, offset: usize, len: usize) -> Option<Receiver<FsResult<Vec<u8>>>> {
    let (tell, told) = channel();
    // Some tests ask only whether a read begins.
    let done = move |bytes: FsResult<&[u8]>| drop(tell.send(bytes.map(<[u8]>::to_vec)));
    v.read_later(ino, offset as u64, len, done).then_some(told)
}

#[test]
fn they_give_what_was_written_side_by_side() {
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("disk");
    create_disk_file(&path, 64 << 20).unwrap();
    let options = DiskOpenOptions { engine: IoEngine::Uring, ..Default::default() };
    // No such reads begin if the system refuses io_uring: see the next tests.
    let Ok(disk) = open_disk(&path, &options) else { return };
    let data = pattern(6 * MIB + 100, 3);
    let (rig, volume, ino) = with_file(&disk, &data);
    let mut begun = Vec::new();
    for i in 0..200 {
        let (offset, len) = (i * 7919 * 512 % data.len(), [3000, 16 * BLOCK, MIB][i % 3]);
        begun.extend(later(&volume, ino, offset, len).map(|told| (offset, len, told)));
    }
    assert!(begun.len() > 50, "{} began", begun.len());
    for (offset, len, told) in begun {
        let end = data.len().min(offset + len);
        assert!(told.recv().unwrap().unwrap() == data[offset..end], "{len} at {offset}");
    }
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn they_begin_only_where_one_run_of_a_disk_has_all_and_nothing_is_cached() {
    let slow = Slow::new(64 << 20);
    let disk: Arc<dyn Disk> = slow.clone();
    let data = pattern(MIB, 3);
    let (_rig, volume, ino) = with_file(&disk, &data);
    let begins = |offset, len| later(&volume, ino, offset, len).is_some();
    assert!(!begins(MIB, BLOCK), "behind the end");
    assert!(!begins(0, 0) && later(&volume, Ino::ROOT, 0, BLOCK).is_none());
    // One that begins where the last one ended is fetched ahead, into the cache.
    let mut block = [0; BLOCK];
    volume.read(ino, 0, &mut block).unwrap();
    assert!(!begins(BLOCK, BLOCK) && !begins(0, BLOCK), "in sequence; cached");
    let told = later(&volume, ino, 40 * BLOCK, BLOCK).unwrap();
    slow.go_on();
    assert_eq!(told.recv().unwrap().unwrap(), data[40 * BLOCK..41 * BLOCK]);
    assert!(!begins(40 * BLOCK, BLOCK), "a short one stays cached");
    let told = later(&volume, ino, 64 * BLOCK, 16 * BLOCK).unwrap();
    slow.go_on();
    assert_eq!(told.recv().unwrap().unwrap(), data[64 * BLOCK..80 * BLOCK]);
    assert!(begins(64 * BLOCK, 16 * BLOCK), "a long one does not");
    slow.go_on();
    volume.write(ino, 100 * BLOCK as u64, &[9; BLOCK], Default::default()).unwrap();
    assert!(!begins(99 * BLOCK, 2 * BLOCK), "dirty");
    volume.close().unwrap();
}

#[test]
fn blocks_that_go_meanwhile_are_read_again() {
    let slow = Slow::new(64 << 20);
    let disk: Arc<dyn Disk> = slow.clone();
    let (rig, mut volume, ino) = with_file(&disk, &pattern(MIB, 3));
    for round in 0..8 {
        let name = format!("other {round}");
        let other = volume.create(Ino::ROOT, name.as_bytes(), &FILE).unwrap().ino;
        let told = later(&volume, ino, 16 * BLOCK, 8 * BLOCK).unwrap();
        // The file gets other blocks, and somebody else these.
        let new = pattern(MIB, 40 + round);
        put(&volume, ino, 0, &new);
        volume.fsync(ino, true).unwrap();
        put(&volume, other, 0, &pattern(MIB, 80 + round));
        volume.fsync(other, true).unwrap();
        slow.go_on();
        let (from, to) = (16 * BLOCK, 24 * BLOCK);
        assert!(told.recv().unwrap().unwrap() == new[from..to], "round {round}");
        // Anew, so that nothing is cached.
        volume.close().unwrap();
        volume = open(&rig);
        assert_eq!(volume.lookup(Ino::ROOT, b"file").unwrap().ino, ino);
    }
    let told = later(&volume, ino, 32 * BLOCK, BLOCK).unwrap();
    volume.unlink(Ino::ROOT, b"file").unwrap();
    slow.go_on();
    assert_eq!(told.recv().unwrap().unwrap().len(), BLOCK, "it is open as long as it is looked up");
    volume.close().unwrap();
    drop(volume);
    rig.must_be_sound();
}

#[test]
fn what_fails_is_read_again_and_damage_is_told() {
    let slow = Slow::new(64 << 20);
    let disk: Arc<dyn Disk> = slow.clone();
    let data = pattern(MIB, 3);
    let (_rig, volume, ino) = with_file(&disk, &data);
    slow.fails.store(true, Ordering::Relaxed);
    let told = later(&volume, ino, 8 * BLOCK, BLOCK).unwrap();
    slow.go_on();
    assert_eq!(told.recv().unwrap().unwrap(), data[8 * BLOCK..9 * BLOCK]);
    slow.fails.store(false, Ordering::Relaxed);
    let told = later(&volume, ino, 80 * BLOCK, BLOCK).unwrap();
    let wanted = &data[80 * BLOCK..81 * BLOCK];
    // The pattern repeats itself, so that more than one block has these bytes.
    let mut block = AlignedBuf::new(BLOCK);
    for at in (0..disk.len()).step_by(BLOCK) {
        disk.read_at(at, &mut block).unwrap();
        if block[..] == *wanted {
            block[100] ^= 1;
            disk.write_at(at, &block).unwrap();
        }
    }
    slow.go_on();
    assert_eq!(told.recv().unwrap().unwrap_err().errno(), libc::EIO);
    volume.close().unwrap();
}

#[test]
fn closing_waits_for_those_under_way() {
    let slow = Slow::new(64 << 20);
    let disk: Arc<dyn Disk> = slow.clone();
    let data = pattern(MIB, 3);
    let (rig, volume, ino) = with_file(&disk, &data);
    let told = later(&volume, ino, 0, 4 * BLOCK);
    let told = told.or_else(|| later(&volume, ino, 8 * BLOCK, 4 * BLOCK)).unwrap();
    let closed = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            volume.close().unwrap();
            closed.store(true, Ordering::Release);
        });
        // None begins once it is being closed; until then these are under way as well.
        while later(&volume, ino, 40 * BLOCK, BLOCK).is_some() {
            thread::yield_now();
        }
        assert!(!closed.load(Ordering::Acquire));
        slow.go_on();
    });
    assert!(told.recv().unwrap().is_ok());
    drop(volume);
    rig.must_be_sound();
}
