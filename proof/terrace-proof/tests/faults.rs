//! Devices that fail under a real mount: who is told what, what goes on, and what `terrace status`
//! says.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, bail, ensure};
use terrace_engine::{FormatOptions, OpenOptions, Volume, format};
use terrace_fuse::MountConfig;
use terrace_media::{Pm, sim_disk};
use terrace_proof::{MIB, Rng, Scratch, TestVolume, VolumeSpec, proof, run, skip, when_idle};

/// A tmpfs of its own size: unlike a real device it can be filled, and so made to fail, and emptied
/// again.
struct Tmpfs(Scratch);

impl Tmpfs {
    fn mount(name: &str, mib: u64) -> Result<Tmpfs> {
        if !rustix::process::geteuid().is_root() {
            return Err(skip("only root can mount a tmpfs"));
        }
        let dir = Scratch::new(name)?;
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
            .arg(dir.path()))?;
        Ok(Tmpfs(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes the last byte of it.
    fn fill(&self) -> Result<PathBuf> {
        let path = self.0.join("filler");
        let mut filler = File::create(&path)?;
        for piece_bytes in [1 << 20, 4096] {
            let piece = vec![1; piece_bytes];
            while filler.write_all(&piece).is_ok() {}
        }
        Ok(path)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily: the test may have failed with the devices in use.
        let _ = run(Command::new("umount").arg("-l").arg(self.path()));
    }
}

/// A mapped page of a tmpfs file that has been given back, on a tmpfs without room for another,
/// cannot be read: the kernel raises the very signal that failed memory does.
fn punch(path: &Path, offset: u64) -> Result<()> {
    let file = File::options().write(true).open(path)?;
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    Ok(rustix::fs::fallocate(&file, flags, offset, 4096)?)
}

fn errno<T>(result: io::Result<T>) -> i32 {
    result.err().and_then(|error| error.raw_os_error()).unwrap_or(0)
}

fn write_durably(path: &Path, data: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(data)?;
    file.sync_all()
}

fn read_at(path: &Path, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; len];
    File::open(path)?.read_exact_at(&mut data, offset)?;
    Ok(data)
}

fn status(volume: &TestVolume, target: &Path) -> Result<serde_json::Value> {
    Ok(serde_json::from_str(&run(volume.terrace("status")?.arg("--json").arg(target))?)?)
}

fn health(status: &serde_json::Value, device: usize) -> &str {
    status["devices"][device]["health"].as_str().unwrap_or("none")
}

/// **P-41** Where a device cannot be read, reads of the files that lie there fail with EIO, and the
/// log names device and offset; all other files go on.
#[test]
fn unreadable_pm_is_an_error_of_its_file_only() {
    proof(|| {
        let tmpfs = Tmpfs::mount("bad-pm", 20)?;
        let mut volume =
            VolumeSpec::new("bad-pm").pm_in(tmpfs.path()).pm_mib(16).disk_mib(64).mount()?;
        let (bad, good) = (volume.join("bad"), volume.join("good"));
        let data = Rng::new(1).bytes(600_000);
        write_durably(&bad, &data)?;
        write_durably(&good, &data)?;
        // So that the kernel asks the daemon again.
        volume.remount()?;
        let map: serde_json::Value =
            serde_json::from_str(&run(volume.terrace("where")?.arg("--json").arg(&bad))?)?;
        let extent = &map[0]["extents"][0];
        ensure!(extent["tier"] == "pm", "{map}");
        let at = extent["device_offset_bytes"].as_u64().context("no offset")? + 16_384;
        let in_file = extent["offset_bytes"].as_u64().context("no offset")? + 16_384;
        punch(volume.pm_path(), at)?;
        let filler = tmpfs.fill()?;

        ensure!(errno(read_at(&bad, in_file + 100, 10)) == libc::EIO, "a bad page was read");
        ensure!(
            read_at(&bad, 0, in_file as usize)? == data[..in_file as usize],
            "before the bad page"
        );
        let rest = in_file as usize + 4096;
        ensure!(
            read_at(&bad, rest as u64, data.len() - rest)? == data[rest..],
            "behind the bad page"
        );
        ensure!(fs::read(&good)? == data, "the other file");
        write_durably(&volume.join("new"), &data[..100_000]).context("writing elsewhere")?;
        let log = volume.daemon_log();
        let place =
            format!("{}: 4096 bytes at offset {at} cannot be read", volume.pm_path().display());
        ensure!(log.contains(&place), "no {place:?} in the log:\n{log}");
        let now = status(&volume, volume.root())?;
        ensure!(now["read_only"].is_null(), "{now}");
        ensure!(health(&now, 0).starts_with("failing: 4096 bytes cannot be read"), "{now}");

        volume.unmount()?;
        let checked = volume.terrace("check")?.arg(volume.pm_path()).output()?;
        let report = String::from_utf8_lossy(&checked.stdout);
        ensure!(checked.status.code() == Some(8), "{checked:?}");
        ensure!(report.contains("(/bad)") && report.contains("cannot be read"), "{report}");
        let images = Scratch::new("bad-pm-image")?;
        let saved =
            volume.terrace("save")?.arg(volume.pm_path()).arg(images.join("image")).output()?;
        let said = String::from_utf8_lossy(&saved.stderr);
        ensure!(!saved.status.success() && said.contains(&format!("offset {at} ")), "{said}");
        fs::remove_file(filler)?;
        Ok(())
    });
}

/// A write to memory that has failed is not acknowledged, and ends all writing.
#[test]
fn a_store_to_unreadable_pm_turns_the_volume_read_only() {
    proof(|| {
        let tmpfs = Tmpfs::mount("lost-store", 20)?;
        let mut volume =
            VolumeSpec::new("lost-store").pm_in(tmpfs.path()).pm_mib(16).disk_mib(64).mount()?;
        let data = Rng::new(1).bytes(100_000);
        write_durably(&volume.join("kept"), &data)?;
        // All of PM that is free, some of which comes next.
        volume.unmount()?;
        let pm = File::options().read(true).write(true).open(volume.pm_path())?;
        let mut page = [0; 4096];
        for at in (0..pm.metadata()?.size()).step_by(4096) {
            pm.read_exact_at(&mut page, at)?;
            if page == [0; 4096] {
                punch(volume.pm_path(), at)?;
            }
        }
        drop(pm);
        volume.remount()?;
        let filler = tmpfs.fill()?;
        let mut errnos = Vec::new();
        for i in 0..2000 {
            let written = write_durably(&volume.join(&format!("lost-{i}")), &data);
            errnos.push(errno(written));
            if errnos.last() == Some(&libc::EROFS) {
                break;
            }
        }
        errnos.dedup();
        ensure!(errnos.ends_with(&[libc::EIO, libc::EROFS]), "{errnos:?}");
        let log = volume.daemon_log();
        let lines: Vec<&str> =
            log.lines().filter(|line| line.contains("read-only from now on")).collect();
        ensure!(lines.len() == 1 && lines[0].contains("is lost"), "one clear line in\n{log}");
        let now = status(&volume, volume.root())?;
        ensure!(now["read_only"].as_str().is_some_and(|reason| lines[0].contains(reason)), "{now}");
        ensure!(fs::read(volume.join("kept"))? == data, "what was there before");
        volume.kill()?;
        fs::remove_file(filler)?;
        volume.remount().context("with the memory good again")?;
        ensure!(fs::read(volume.join("kept"))? == data, "what was there before");
        volume.check()
    });
}

/// A disk's image that has lost its end: its files fail, others and `terrace status` go on, mounted
/// or not.
#[test]
fn a_truncated_disk_is_reported() {
    proof(|| {
        let mut volume =
            VolumeSpec::new("truncated").pm_mib(16).disk_mib(64).options("pm_full=1").mount()?;
        let data = Rng::new(2).bytes(8 << 20);
        write_durably(&volume.join("large"), &data)?;
        volume.remount_with("pm_full=90")?;
        write_durably(&volume.join("small"), &data[..1000])?;
        let disk = volume.devices()[1].clone();
        let image = File::options().write(true).open(&disk)?;
        image.set_len(2 << 20)?;
        ensure!(errno(fs::read(volume.join("large"))) == libc::EIO, "what is gone was read");
        ensure!(fs::read(volume.join("small"))? == data[..1000], "the file in PM");
        write_durably(&volume.join("more"), &data[..1000])?;
        let now = status(&volume, volume.root())?;
        ensure!(health(&now, 1).contains("was the device truncated?"), "{now}");
        volume.kill()?;
        let now = status(&volume, volume.pm_path())?;
        ensure!(now["notes"].to_string().contains("truncated: 2097152 bytes"), "{now}");
        let failed = volume.remount().err().context("mounted without the end of its disk")?;
        ensure!(format!("{failed:#}").contains("restore the device's full size"), "{failed:#}");
        image.set_len(64 << 20)?;
        volume.remount()?;
        ensure!(fs::read(volume.join("more"))? == data[..1000], "written while the disk was short");
        ensure!(
            errno(fs::read(volume.join("large"))) == libc::EIO,
            "zeros do not match the checksums"
        );
        Ok(())
    });
}

/// **P-42** A disk that refuses writes costs nothing but the wait: fsync fails, the data stays
/// where it is read from, and it is written when the disk takes it.
#[test]
fn a_sparse_image_on_a_full_file_system() {
    proof(|| {
        let tmpfs = Tmpfs::mount("sparse", 24)?;
        let spec = VolumeSpec::new("sparse").disk_in(tmpfs.path()).pm_mib(16).disk_mib(256);
        let mut volume = spec.options("pm_full=1").mount()?;
        let data = Rng::new(3).bytes(6 << 20);
        write_durably(&volume.join("before"), &data[..1 << 20])?;
        let filler = tmpfs.fill()?;
        let mut file = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(volume.join("late"))?;
        file.write_all(&data)?;
        for _ in 0..3 {
            ensure!(errno(file.sync_all()) == libc::ENOSPC, "fsync without room");
        }
        let mut found = Vec::new();
        file.seek(SeekFrom::Start(0))?;
        file.read_to_end(&mut found)?;
        ensure!(found == data, "what was written is read");
        fs::create_dir(volume.join("dir")).context("names go on")?;
        let now = status(&volume, volume.root())?;
        ensure!(now["read_only"].is_null() && health(&now, 1).contains("No space left"), "{now}");
        fs::remove_file(filler)?;
        file.sync_all().context("with room again")?;
        ensure!(health(&status(&volume, volume.root())?, 1) == "ok", "the disk works again");
        drop(file);
        volume.power_cut()?;
        volume.remount()?;
        ensure!(fs::read(volume.join("late"))? == data, "after a power cut");
        ensure!(fs::read(volume.join("before"))? == data[..1 << 20], "the other file");
        volume.check()
    });
}

/// The lines that this process logs.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().map_err(|_| io::Error::other("poisoned"))?.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// **P-43** After a flush of a disk failed, nobody knows what it has kept: the volume turns
/// read-only, with one line in the log and in `terrace status`. Everything acknowledged before
/// stays there.
#[test]
fn a_failed_flush_turns_the_volume_read_only() {
    proof(|| {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        tracing::subscriber::set_global_default(subscriber)?;
        let pm = Pm::anonymous(16 * MIB);
        let (disk, sim) = sim_disk(64 * MIB);
        format(&pm, std::slice::from_ref(&disk), &FormatOptions::default())?;
        let options =
            OpenOptions { pm_full_percent: 0, cache_bytes: 16 * MIB, ..OpenOptions::default() };
        let volume = Volume::open(pm, vec![disk], options, &|_, _, _| ())?;
        let scratch = Scratch::new("flush")?;
        let mounted = terrace_fuse::mount(volume.clone(), scratch.path(), &MountConfig::default())?;
        let data = Rng::new(4).bytes(1 << 20);
        write_durably(&scratch.join("before"), &data)?;
        sim.fail_flush(true);
        ensure!(
            errno(write_durably(&scratch.join("during"), &data)) == libc::EIO,
            "fsync with a failed flush"
        );
        sim.clear_faults();
        ensure!(errno(File::create(scratch.join("after"))) == libc::EROFS, "a change after it");
        ensure!(
            errno(write_durably(&scratch.join("during"), b"x")) == libc::EROFS,
            "a write after it"
        );
        ensure!(
            fs::read(scratch.join("before"))? == data && fs::read(scratch.join("during"))? == data,
            "reads go on"
        );
        let status: serde_json::Value =
            serde_json::from_str(&terrace_fuse::control::status(scratch.path())?)?;
        let Some(reason) = status["read_only"].as_str() else { bail!("{status}") };
        ensure!(reason.contains("<simulated disk>: flush"), "{reason}");
        let unmounter = mounted.unmounter();
        when_idle(|| unmounter.unmount())?;
        mounted.wait()?;
        volume.abandon();
        let log =
            String::from_utf8(lines.0.lock().map_err(|_| io::Error::other("poisoned"))?.clone())?;
        let told: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
        ensure!(told.len() == 1 && told[0].contains(reason), "{log}");
        Ok(())
    });
}
