//! Asynchronous direct writes beside everybody else who has the same file open: once a write is
//! done, a buffered read and a mapping show it (P-11, P-12), and no mix of them hangs.

mod queue;

use anyhow::{Context, Result, ensure};
use queue::{Interface, Queue};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use terrace_proof::{Rng, TestVolume, VolumeSpec, proof};

const PAGE: usize = 4096;

/// All writers together need a few seconds, on a busy machine a minute.
const ANSWERED_WITHIN: Duration = Duration::from_secs(300);

/// A file's shared mapping.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value and is reached by volatile accesses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File) -> Result<Mapping> {
        let len = usize::try_from(file.metadata()?.len())?;
        let prot = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in
        // use.
        let base = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, prot, rustix::mm::MapFlags::SHARED, file, 0)
        }?;
        Ok(Mapping { base: NonNull::new(base.cast()).context("a mapping at address 0")?, len })
    }

    fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.len, "{at} + {len} in a mapping of {} bytes", self.len);
        // SAFETY: the bytes lie in the mapping (checked); volatile, as others change the file
        // meanwhile.
        (at..at + len).map(|at| unsafe { self.base.add(at).read_volatile() }).collect()
    }

    fn store(&self, at: usize, bytes: &[u8]) {
        assert!(
            at + bytes.len() <= self.len,
            "{at} + {} in a mapping of {} bytes",
            bytes.len(),
            self.len
        );
        for (at, &byte) in (at..).zip(bytes) {
            // SAFETY: as above.
            unsafe { self.base.add(at).write_volatile(byte) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length, and nobody has a pointer into it.
        let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// The file under test, opened in every way.
struct Subject {
    buffered: File,
    direct: File,
    mapping: Mapping,
}

impl Subject {
    fn new(path: &Path) -> Result<Subject> {
        let buffered = OpenOptions::new().read(true).write(true).open(path)?;
        let direct =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path)?;
        let mapping = Mapping::new(&buffered)?;
        Ok(Subject { buffered, direct, mapping })
    }

    /// Compares a range as a buffered reader and as a mapping see it.
    fn check(&self, at: usize, expected: &[u8]) -> Result<()> {
        let mut read = vec![0; expected.len()];
        self.buffered.read_exact_at(&mut read, at as u64)?;
        same("a buffered read", at, &read, expected)?;
        same("a mapping", at, &self.mapping.bytes(at, expected.len()), expected)
    }

    /// Compares the whole file in every way.
    fn check_all(&self, expected: &[u8]) -> Result<()> {
        let mut read = vec![0; expected.len()];
        self.direct.read_exact_at(&mut read, 0)?;
        same("a direct read", 0, &read, expected)?;
        self.check(0, expected)
    }
}

fn same(who: &str, at: usize, found: &[u8], expected: &[u8]) -> Result<()> {
    let wrong: Vec<usize> = (0..expected.len()).filter(|&i| found[i] != expected[i]).collect();
    let span = wrong.first().zip(wrong.last());
    ensure!(
        wrong.is_empty(),
        "{who} of {} bytes at {at}: {} are wrong, {span:?}",
        expected.len(),
        wrong.len()
    );
    Ok(())
}

/// Runs `body` beside two threads that bring the whole file into the kernel's cache over and over,
/// by reads and through the mapping.
fn beside_readers<T>(subject: &Subject, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut piece = vec![0; 16 * PAGE];
            while !done.load(Ordering::Relaxed) {
                for at in (0..subject.mapping.len).step_by(piece.len()) {
                    subject.buffered.read_at(&mut piece, at as u64)?;
                }
                rustix::fs::fadvise(&subject.buffered, 0, None, rustix::fs::Advice::DontNeed)?;
            }
            anyhow::Ok(())
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                (0..subject.mapping.len)
                    .step_by(PAGE)
                    .for_each(|at| drop(subject.mapping.bytes(at, 1)));
            }
        });
        let result = body();
        done.store(true, Ordering::Relaxed);
        reader.join().expect("the reader does not panic")?;
        result
    })
}

/// Parts of the file that are written independently of each other. They share pages: direct writes
/// need no alignment.
const REGION: usize = 10_000;

/// Random bytes for a random part of a region.
fn random_write(rng: &mut Rng, region: usize) -> (usize, Vec<u8>) {
    let from = rng.below(REGION as u64) as usize;
    let len = 1 + rng.below((REGION - from) as u64) as usize;
    (region * REGION + from, rng.bytes(len))
}

/// Keeps `depth` writes to different ones of these regions under way until `count` are done, and
/// tells `done` of each, in the order in which they end.
fn write_async(
    queue: &mut Queue,
    depth: usize,
    count: usize,
    rng: &mut Rng,
    mut idle: Vec<usize>,
    mut done: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut under_way = HashMap::new();
    for started in 0..count + depth {
        if started < count {
            let region = idle.swap_remove(rng.below(idle.len() as u64) as usize);
            let (at, bytes) = random_write(rng, region);
            under_way.insert(queue.write(at as u64, &bytes)?, (region, at, bytes));
        }
        if queue.len() == depth || started >= count && queue.len() > 0 {
            let (region, at, bytes) =
                under_way.remove(&queue.finished()?).context("a write that nobody started")?;
            done(at, &bytes)?;
            idle.push(region);
        }
    }
    Ok(())
}

fn open_new(volume: &TestVolume, contents: &[u8]) -> Result<Subject> {
    std::fs::write(volume.join("f"), contents)?;
    Subject::new(&volume.join("f"))
}

/// The file is what it must be, also as the volume has it after the next mount.
fn check_to_the_end(mut volume: TestVolume, subject: Subject, expected: &[u8]) -> Result<()> {
    subject.check_all(expected)?;
    drop(subject);
    volume.check()?;
    same("a read after a remount", 0, &std::fs::read(volume.join("f"))?, expected)
}

/// Each write is seen by buffered readers and mappings as soon as it is done, whoever reads the
/// same pages meanwhile.
fn each_write_is_seen(name: &str, interface: Interface, options: &str) -> Result<()> {
    const REGIONS: usize = 40;
    let count = if std::env::var_os("TERRACE_LONG").is_some() { 200_000 } else { 4_000 };
    // Over io_uring, the answers to three quarters of so many writes wait for readers.
    let volume = VolumeSpec::new(name).options("queue_depth=64").options(options).mount()?;
    let mut rng = Rng::new(451);
    let mut expected = rng.bytes(REGIONS * REGION);
    let subject = open_new(&volume, &expected)?;
    beside_readers(&subject, || {
        for depth in [1, 8, 32] {
            let mut queue = Queue::new(interface, depth as u32, subject.direct.as_raw_fd())?;
            write_async(
                &mut queue,
                depth,
                count / 3,
                &mut rng,
                (0..REGIONS).collect(),
                |at, bytes| {
                    expected[at..at + bytes.len()].copy_from_slice(bytes);
                    subject.check(at, bytes)
                },
            )?;
        }
        Ok(())
    })?;
    check_to_the_end(volume, subject, &expected)
}

#[test]
fn libaio_writes_are_seen() {
    proof(|| each_write_is_seen("async-libaio", Interface::Libaio, ""));
}

#[test]
fn io_uring_writes_are_seen() {
    proof(|| each_write_is_seen("async-uring", Interface::IoUring, ""));
}

/// With the one thread that answers messages busy, nothing may wait for it but its own messages.
#[test]
fn one_thread_suffices() {
    proof(|| each_write_is_seen("async-one", Interface::Libaio, "threads=1"));
}

/// Everybody at once, with more writes under way than the kernel lets through: all of it ends, and
/// each byte is as its last writer left it.
fn everybody_at_once(name: &str, interface: Interface) -> Result<()> {
    const REGIONS: usize = 3 * 700;
    const DEPTH: usize = 600;
    const MAPPED_PAGES: usize = 64;
    let rounds = if std::env::var_os("TERRACE_LONG").is_some() { 200 } else { 8 };
    let volume = VolumeSpec::new(name).pm_mib(128).mount()?;
    let mapped_at = (REGIONS * REGION).next_multiple_of(PAGE);
    let mut expected = Rng::new(0).bytes(mapped_at + MAPPED_PAGES * PAGE);
    let subject = open_new(&volume, &expected)?;
    // Regions belong to three writers in turn; the mapping's stores have pages of their own, as
    // they are written back in pages.
    let regions_of = |writer: usize| (writer..REGIONS).step_by(3);
    let plain = |writer: usize, file: &File| -> Result<Vec<(usize, Vec<u8>)>> {
        let mut rng = Rng::new(writer as u64);
        let writes = (0..rounds)
            .flat_map(|_| regions_of(writer))
            .map(|region| random_write(&mut rng, region));
        let writes: Vec<_> = writes.collect();
        writes.iter().try_for_each(|(at, bytes)| file.write_all_at(bytes, *at as u64))?;
        Ok(writes)
    };
    let watch = volume.kill_after(ANSWERED_WITHIN);
    let writes = beside_readers(&subject, || {
        std::thread::scope(|scope| {
            let buffered = scope.spawn(|| plain(1, &subject.buffered));
            let direct = scope.spawn(|| plain(2, &subject.direct));
            let mapped = scope.spawn(|| {
                let mut rng = Rng::new(3);
                let pages = (0..rounds)
                    .flat_map(|_| (mapped_at..mapped_at + MAPPED_PAGES * PAGE).step_by(PAGE));
                let stores: Vec<_> = pages.map(|at| (at, rng.bytes(PAGE))).collect();
                stores.iter().for_each(|(at, bytes)| subject.mapping.store(*at, bytes));
                stores
            });
            let mut queue = Queue::new(interface, DEPTH as u32, subject.direct.as_raw_fd())?;
            let mut writes = Vec::new();
            let mut rng = Rng::new(4);
            write_async(
                &mut queue,
                DEPTH,
                rounds * REGIONS / 3,
                &mut rng,
                regions_of(0).collect(),
                |at, bytes| {
                    writes.push((at, bytes.to_vec()));
                    Ok(())
                },
            )?;
            writes.extend(buffered.join().expect("the buffered writer does not panic")?);
            writes.extend(direct.join().expect("the direct writer does not panic")?);
            writes.extend(mapped.join().expect("the mapping's writer does not panic"));
            anyhow::Ok(writes)
        })
    })?;
    drop(watch);
    for (at, bytes) in writes {
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    check_to_the_end(volume, subject, &expected)
}

#[test]
fn everybody_at_once_with_libaio() {
    proof(|| everybody_at_once("async-all-libaio", Interface::Libaio));
}

#[test]
fn everybody_at_once_with_io_uring() {
    proof(|| everybody_at_once("async-all-uring", Interface::IoUring));
}
