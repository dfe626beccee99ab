//! Durability and crashes.

use super::{must_fail, open};
use anyhow::{Result, ensure};
use rustix::fs::{FlockOperation, OFlags};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use terrace_proof::{MIB, Rng, VolumeSpec, proof};

fn holds(path: &Path, content: &[u8]) -> Result<()> {
    let found = std::fs::read(path)?;
    ensure!(found == content, "{} holds {} other bytes", path.display(), found.len());
    Ok(())
}

/// **P-01** When fsync(2), fdatasync(2) or msync(2) with MS_SYNC returns, everything written to the
/// file before is on a device and survives a power cut.
#[test]
fn synced_data_survives_a_power_cut() {
    proof(|| {
        let mut volume = VolumeSpec::new("fsync").pm_mib(32).mount()?;
        // 24 MiB between two fsyncs make a file asynchronous, and three of them are more than PM.
        let large = Rng::new(1).bytes(24 * MIB as usize);
        for pass in 0..6u8 {
            for name in ["fsync", "fdatasync", "msync"] {
                let mut file = open(&volume.join(name), OFlags::RDWR | OFlags::CREATE)?;
                file.write_all(&[pass])?;
                file.write_all(&large)?;
                match name {
                    "fsync" => file.sync_all()?,
                    "fdatasync" => file.sync_data()?,
                    _ => store_mapped(&file, b'm')?,
                }
            }
        }
        volume.power_cut()?;
        volume.remount()?;
        for name in ["fsync", "fdatasync", "msync"] {
            let mark = if name == "msync" { b'm' } else { 5 };
            holds(&volume.join(name), &[&[mark], &large[..]].concat())?;
        }
        volume.check()
    });
}

/// Stores one byte at the beginning of the file through a mapping of all of it, and msyncs all.
fn store_mapped(file: &File, byte: u8) -> Result<()> {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};
    let len = file.metadata()?.len() as usize;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping of the whole file, which nobody truncates; used and unmapped only
    // here.
    unsafe {
        let map = mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)?;
        map.cast::<u8>().write(byte);
        let synced = msync(map, len, MsyncFlags::SYNC);
        munmap(map, len)?;
        Ok(synced?)
    }
}

/// **P-02** On a file opened with O_SYNC or O_DSYNC, and on a volume mounted with `-o durable`,
/// each write is durable when it returns.
#[test]
fn synchronous_writes_survive_a_power_cut() {
    proof(|| {
        let mut volume = VolumeSpec::new("osync").pm_mib(32).mount()?;
        let piece = Rng::new(2).bytes(3 * MIB as usize);
        let write_pieces = |flags: OFlags, name: &Path| -> Result<()> {
            let mut file = open(name, OFlags::WRONLY | OFlags::CREATE | flags)?;
            for _ in 0..12 {
                file.write_all(&piece)?;
            }
            Ok(())
        };
        write_pieces(OFlags::SYNC, &volume.join("sync"))?;
        write_pieces(OFlags::DSYNC, &volume.join("dsync"))?;
        volume.power_cut()?;
        volume.remount_with("durable")?;
        write_pieces(OFlags::empty(), &volume.join("durable"))?;
        volume.power_cut()?;
        volume.remount()?;
        for name in ["sync", "dsync", "durable"] {
            holds(&volume.join(name), &piece.repeat(12))?;
        }
        volume.check()
    });
}

/// **P-03** Creating, linking, renaming and removing names and changing attributes are durable when
/// the call returns. fsync on a directory succeeds and has nothing left to do.
#[test]
fn names_and_attributes_survive_a_power_cut() {
    proof(|| {
        let mut volume = VolumeSpec::new("names-durable").mount()?;
        for name in ["old", "gone"] {
            File::create(volume.join(name))?;
        }
        std::fs::create_dir(volume.join("dir"))?;
        std::os::unix::fs::symlink("old", volume.join("symlink"))?;
        std::fs::hard_link(volume.join("old"), volume.join("dir/link"))?;
        std::fs::rename(volume.join("old"), volume.join("new"))?;
        std::fs::remove_file(volume.join("gone"))?;
        std::fs::set_permissions(volume.join("new"), PermissionsExt::from_mode(0o421))?;
        rustix::fs::setxattr(volume.join("new"), "user.x", b"y", rustix::fs::XattrFlags::empty())?;
        File::open(volume.root())?.sync_all()?;
        volume.power_cut()?;
        volume.remount()?;
        let mut names: Vec<_> = std::fs::read_dir(volume.root())?
            .map(|entry| entry.map(|e| e.file_name().into_string().unwrap_or_default()))
            .collect::<std::io::Result<_>>()?;
        names.sort();
        if !volume.is_mount() {
            return Ok(());
        }
        ensure!(names == ["dir", "new", "symlink"], "{names:?}");
        let meta = std::fs::metadata(volume.join("dir/link"))?;
        let links = std::os::unix::fs::MetadataExt::nlink(&meta);
        ensure!(meta.permissions().mode() & 0o7777 == 0o421 && links == 2, "{meta:?}");
        let mut value = [0; 8];
        let len = rustix::fs::getxattr(volume.join("new"), "user.x", &mut value[..])?;
        ensure!(&value[..len] == b"y");
        volume.check()
    });
}

/// **P-48** With a keeper, programs notice a crash of the daemon as a pause: no call fails, and
/// each call takes effect exactly once. Open files stay open, also those without a name, and locks
/// and mappings stay.
///
/// The tests of `keeper` have the rest.
#[test]
fn a_daemon_crash_is_a_pause() {
    proof(|| {
        let spec = VolumeSpec::new("pause").options("keeper,transport=device");
        let mut volume = spec.mount()?;
        let (path, gone) = (volume.join("file"), volume.join("gone"));
        let (mut file, mut unnamed) = (File::create_new(&path)?, File::create_new(&gone)?);
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        std::fs::remove_file(&gone)?;
        for step in 1..=20_u64 {
            file.write_all(&[1; 1000])?;
            unnamed.write_all(&[2; 1000])?;
            if volume.is_mount() && step % 5 == 0 {
                volume.kill_daemon()?;
            }
            must_fail(File::create_new(&path), libc::EEXIST)?;
            std::fs::rename(&path, volume.join("moved"))?;
            std::fs::rename(volume.join("moved"), &path)?;
            ensure!(std::fs::read(&path)? == vec![1; 1000 * step as usize]);
            ensure!(unnamed.metadata()?.len() == 1000 * step);
        }
        let other = File::open(&path)?;
        must_fail(
            rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive),
            libc::EWOULDBLOCK,
        )?;
        drop((file, unnamed, other));
        volume.check()
    });
}

/// **P-04** A crash of the daemon loses no write that has returned, fsync or not: data that is not
/// on a device yet waits in shared memory. Without a keeper, calls fail with ENOTCONN until the
/// volume is mounted again, which cleans up the dead mount and recovers. Where shared memory has no
/// room for such data, each write returns only when it is on a device.
///
/// With room here; `scarce` has the rest.
#[test]
fn returned_writes_survive_a_daemon_crash() {
    proof(|| {
        let mut volume = VolumeSpec::new("crash").pm_mib(32).mount()?;
        let content = Rng::new(3).bytes(80 * MIB as usize);
        std::fs::write(volume.join("large"), &content)?;
        std::fs::write(volume.join("small"), "small")?;
        volume.kill()?;
        if volume.is_mount() {
            let look = || File::open(volume.join("new-name"));
            // The kernel ends what goes over io_uring a moment after the daemon.
            let is_ending = |error: &std::io::Error| {
                [libc::ECONNABORTED, libc::ECANCELED].map(Some).contains(&error.raw_os_error())
            };
            let deadline = Instant::now() + Duration::from_secs(60);
            while look().is_err_and(|error| is_ending(&error)) && Instant::now() < deadline {}
            must_fail(look(), libc::ENOTCONN)?;
        }
        volume.remount()?;
        holds(&volume.join("large"), &content)?;
        holds(&volume.join("small"), b"small")?;
        volume.check()
    });
}

/// **P-06** rename(2) over an existing file is atomic: whoever opens the name, and whoever looks
/// after a crash, finds the old file or the new one, whole.
#[test]
fn rename_replaces_atomically() {
    proof(|| {
        let mut volume = VolumeSpec::new("rename").mount()?;
        let target = volume.join("target");
        let version = |number: u32| number.to_le_bytes().repeat(3000);
        std::fs::write(&target, version(0))?;
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| -> Result<()> {
            let reader = scope.spawn(|| -> Result<u32> {
                let mut seen = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    let content = std::fs::read(&target)?;
                    let number =
                        u32::from_le_bytes([content[0], content[1], content[2], content[3]]);
                    ensure!(content == version(number), "a mixture of versions");
                    ensure!(number >= seen, "version {number} after {seen}");
                    seen = number;
                }
                Ok(seen)
            });
            for number in 1..2000 {
                std::fs::write(volume.join("next"), version(number))?;
                std::fs::rename(volume.join("next"), &target)?;
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            reader.join().map_err(|_| anyhow::anyhow!("the reader panicked"))??;
            Ok(())
        })?;
        volume.kill()?;
        volume.remount()?;
        holds(&target, &version(1999))
    });
}

/// **P-07** Renaming a file over an existing one makes the new content durable first, even without
/// fsync: a power cut never leaves an empty or half-written file under the name.
#[test]
fn replacing_needs_no_fsync() {
    proof(|| {
        let mut volume = VolumeSpec::new("replace").pm_mib(32).mount()?;
        let content = Rng::new(4).bytes(60 * MIB as usize);
        std::fs::write(volume.join("target"), "old")?;
        std::fs::write(volume.join("next"), &content)?;
        std::fs::rename(volume.join("next"), volume.join("target"))?;
        volume.power_cut()?;
        volume.remount()?;
        holds(&volume.join("target"), &content)?;
        volume.check()
    });
}

/// **P-08** When PM is full, writes go to the disks. ENOSPC comes only when no tier has room; it
/// damages nothing that was written before, and removing files makes room at once.
#[test]
fn full_volume() {
    proof(|| {
        let mut volume = VolumeSpec::new("full").pm_mib(32).disk_mib(96).mount()?;
        if !volume.is_mount() {
            return Ok(()); // The host's disk is not ours to fill.
        }
        std::fs::write(volume.join("before"), Rng::new(5).bytes(MIB as usize))?;
        let mut filler = File::create(volume.join("filler"))?;
        let piece = Rng::new(6).bytes(MIB as usize);
        let mut pieces = 0;
        let error = loop {
            match filler.write_all(&piece).and_then(|()| filler.sync_data()) {
                Ok(()) => pieces += 1,
                Err(error) => break error,
            }
            ensure!(pieces < 200, "{pieces} MiB fit into 128 MiB");
        };
        ensure!(error.raw_os_error() == Some(libc::ENOSPC), "a full volume says {error}");
        ensure!(pieces >= 96, "ENOSPC with only {pieces} of 128 MiB written");
        let mut part = vec![0; MIB as usize];
        let reader = File::open(volume.join("filler"))?;
        for number in 0..pieces {
            reader.read_exact_at(&mut part, number * MIB)?;
            ensure!(part == piece, "piece {number} is damaged");
        }
        drop((filler, reader));
        volume.check()?;
        holds(&volume.join("before"), &Rng::new(5).bytes(MIB as usize))?;
        std::fs::remove_file(volume.join("filler"))?;
        let after = File::create(volume.join("after"))?;
        for number in 0..80 {
            after.write_all_at(&piece, number * MIB)?;
        }
        after.sync_all()?;
        drop(after);
        volume.check()
    });
}
