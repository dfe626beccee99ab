//! The kernel's own file systems on loop devices over files that have been written whole, so that
//! no allocation of the file system below is measured.
//!
//! Invariant: a loop device is told to go as soon as it is there, and then lives exactly as long as
//! something uses it: the descriptor in [`LoopDevice`], a mount, a volume. So none outlives the
//! process, however that ends.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};

use crate::ground::Ground;
use crate::interrupt;
use crate::workload::FILLING;

/// Of each journal or log in memory.
pub const LOG_BYTES: u64 = 128 << 20;

/// Gives the process mounts of its own, which end with it.
///
/// # Errors
/// If it may not have them: it then works with the system's.
pub fn isolate_mounts() -> rustix::io::Result<()> {
    // SAFETY: the process has one thread yet, so none is left behind in the old namespace.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

/// A loop device over a file.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    _hold: File,
}

impl LoopDevice {
    /// Over `file`; `direct`: past the kernel's page cache.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn over(file: &Path, direct: bool) -> Result<Self> {
        let mut attach = Command::new("losetup");
        attach
            .args(["--find", "--show", if direct { "--direct-io=on" } else { "--direct-io=off" }])
            .arg(file);
        let path = PathBuf::from(run(&mut attach)?.trim());
        let hold = File::open(&path).with_context(|| format!("opening {}", path.display()));
        // It goes when nobody uses it any more: see the invariant.
        run(Command::new("losetup").arg("--detach").arg(&path))?;
        Ok(Self { path, _hold: hold? })
    }

    /// The device.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A file of `len_bytes` that serves as a disk, each byte written, and its loop device.
///
/// # Errors
/// If the system refuses, or lacks room.
pub fn disk_image(path: &Path, len_bytes: u64) -> Result<LoopDevice> {
    let fill = || -> Result<()> {
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        fallocate(&file, FallocateFlags::empty(), 0, len_bytes)?;
        for offset in (0..len_bytes).step_by(FILLING.len()) {
            interrupt::check()?;
            file.write_all_at(
                &FILLING[..FILLING.len().min((len_bytes - offset) as usize)],
                offset,
            )?;
        }
        file.sync_all()?;
        Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
    };
    fill().with_context(|| format!("filling {}", path.display()))?;
    LoopDevice::over(path, true)
}

/// A mounted file system of the kernel. Fields are dropped after the unmount.
#[derive(Debug)]
pub struct KernelMount {
    mountpoint: PathBuf,
    mounted: bool,
    /// Its disk, and that of its log.
    devices: Vec<LoopDevice>,
}

impl KernelMount {
    /// Makes and mounts a file system on `disk`; files in `memory` hold its log, if it gets one
    /// there.
    ///
    /// # Errors
    /// If that is not one of the kernel's, or the system refuses.
    pub fn new(ground: Ground, disk: LoopDevice, memory: &Path, mountpoint: &Path) -> Result<Self> {
        let device = disk.path().to_owned();
        let mut devices = vec![disk];
        let mut log = || -> Result<PathBuf> {
            let path =
                memory.join(format!("log-of-{}", device.file_name().unwrap_or_default().display()));
            File::create_new(&path)?.set_len(LOG_BYTES)?;
            let log = LoopDevice::over(&path, false)?;
            let path = log.path().to_owned();
            devices.push(log);
            Ok(path)
        };
        let (kind, options) = match ground {
            Ground::Ext4 => {
                run(mkfs("ext4")
                    .args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
                    .arg(&device))?;
                (c"ext4", String::new())
            }
            Ground::Ext4Journal => {
                let log = log()?;
                run(mkfs("ext4").args(["-q", "-F", "-b", "4096", "-O", "journal_dev"]).arg(&log))?;
                run(mkfs("ext4")
                    .args(["-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0", "-J"])
                    .arg(format!("device={}", log.display()))
                    .arg(&device))?;
                (c"ext4", format!("data=journal,journal_path={}", log.display()))
            }
            Ground::XfsLog => {
                let log = log()?;
                run(mkfs("xfs")
                    .args(["-q", "-f", "-l"])
                    .arg(format!("logdev={}", log.display()))
                    .arg(&device))?;
                (c"xfs", format!("logdev={}", log.display()))
            }
            other => bail!("{other} is not a file system of the kernel's on a disk"),
        };
        let mut mounted = Self { mountpoint: mountpoint.to_owned(), mounted: false, devices };
        mounted.mount(&device, kind, &options)?;
        Ok(mounted)
    }

    /// A tmpfs whose files lie in huge pages.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn huge_tmpfs(mountpoint: &Path) -> Result<Self> {
        let mut mounted =
            Self { mountpoint: mountpoint.to_owned(), mounted: false, devices: Vec::new() };
        mounted.mount(Path::new("tmpfs"), c"tmpfs", "huge=always,size=100%,mode=700")?;
        Ok(mounted)
    }

    fn mount(&mut self, device: &Path, kind: &CStr, options: &str) -> Result<()> {
        let options = std::ffi::CString::new(options)?;
        mount(device, &self.mountpoint, kind, MountFlags::NOATIME, options.as_c_str())
            .with_context(|| {
                format!("mounting {} as {}", device.display(), kind.to_string_lossy())
            })?;
        self.mounted = true;
        Ok(())
    }

    /// Bytes that have been read from its disk since that was attached.
    pub fn disk_bytes_read(&self) -> Option<u64> {
        const SECTOR_BYTES: u64 = 512;
        let device = self.devices.first()?.path().file_name()?;
        let stat =
            std::fs::read_to_string(Path::new("/sys/block").join(device).join("stat")).ok()?;
        // Reads, merged reads, sectors read.
        Some(stat.split_whitespace().nth(2)?.parse::<u64>().ok()? * SECTOR_BYTES)
    }

    /// Unmounts it.
    ///
    /// # Errors
    /// If it is in use.
    pub fn unmount(mut self) -> Result<()> {
        unmount(&self.mountpoint, UnmountFlags::empty())
            .with_context(|| format!("unmounting {}", self.mountpoint.display()))?;
        self.mounted = false;
        Ok(())
    }
}

impl Drop for KernelMount {
    fn drop(&mut self) {
        if self.mounted && unmount(&self.mountpoint, UnmountFlags::DETACH).is_err() {
            eprintln!("terrace-bench: {} stays mounted", self.mountpoint.display());
        }
    }
}

fn mkfs(kind: &str) -> Command {
    Command::new(installed(&format!("mkfs.{kind}")))
}

/// A program of the system's, which need not be in PATH; its name if it is elsewhere.
pub fn installed(name: &str) -> PathBuf {
    let places = ["/usr/sbin", "/sbin", "/usr/bin"].map(|place| Path::new(place).join(name));
    places.into_iter().find(|path| path.exists()).unwrap_or(name.into())
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// If it cannot be started or fails: with what it said.
pub fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().display().to_string();
    let output = command
        .output()
        .with_context(|| format!("starting {name} (is it installed? `scripts/setup.sh bench`)"))?;
    interrupt::check()?;
    ensure!(
        output.status.success(),
        "{name}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Why there are no loop devices here, if so; found out by making one.
pub fn why_no_loop_devices(directory: &Path) -> Option<anyhow::Error> {
    let try_it = || -> Result<()> {
        let file = tempfile::NamedTempFile::new_in(directory)?;
        file.as_file().set_len(1 << 20)?;
        LoopDevice::over(file.path(), false).map(drop)
    };
    try_it().err()
}
