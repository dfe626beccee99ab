//! `terrace umount`

use std::fs::File;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use terrace_engine::read_pm_label;

use crate::devices::{Access, DeviceOptions, about};
use crate::mounts::{self, Mount};
use crate::output;

/// How often to look whether the daemon is done.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often to look whether the volume is mounted in another namespace, which takes longer.
const LOOK_ELSEWHERE_EVERY: Duration = Duration::from_secs(1);
/// How often to try to unmount what is in use.
const BUSY_TRIES: usize = 5;
/// When to say that it takes long.
const LONG: Duration = Duration::from_secs(10);

/// Unmounts a volume and returns when its daemon has written everything and let go of the devices.
///
/// # Errors
/// Nothing of ours is mounted there; it is in use; the daemon could not finish cleanly.
pub fn umount(mountpoint: &Path, quiet: bool) -> Result<()> {
    let mount = mounts::terrace_at(mountpoint)?;
    let place = mount.mountpoint.display();
    if mounts::is_dead(&mount.mountpoint) {
        terrace_fuse::clean_dead_mount(&mount.mountpoint)?;
        output::remark(
            quiet,
            &format!("{place}: its daemon had died; the next mount recovers the volume"),
        );
        return Ok(());
    }
    match unmount(&mount.mountpoint) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            bail!("{place}: is in use; `fuser -vm {place}` shows by whom")
        }
        Err(_) if !is_mine(&mount) => {
            bail!("{place}: only root and the user who mounted it may unmount it")
        }
        result => result.with_context(|| format!("{place}: cannot unmount"))?,
    }
    wait_for_daemon(&mount, quiet)?;
    match mount.read_only {
        true => Ok(()),
        false => expect_clean(&mount.source),
    }
}

fn is_mine(mount: &Mount) -> bool {
    let me = geteuid();
    me.is_root() || mount.user.is_none_or(|user| user == me.as_raw())
}

/// Unmounts what is not in use, or only by a command that asks the daemon something: that takes a
/// moment.
fn unmount(mountpoint: &Path) -> io::Result<()> {
    for _ in 1..BUSY_TRIES {
        match mounts::unmount(mountpoint, false) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => sleep(LOOK_EVERY),
            result => return result,
        }
    }
    mounts::unmount(mountpoint, false)
}

/// Waits until the PM device is free, or mounted again: the file system was mounted at several
/// places, or somebody was faster than we are.
///
/// # Errors
/// It is mounted in another namespace, so that the daemon goes on.
fn wait_for_daemon(mount: &Mount, quiet: bool) -> Result<()> {
    let pm = &mount.source;
    // A user who may not open the device cannot know, and need not; nor can anybody when it is
    // gone.
    let Ok(file) = File::open(pm) else {
        return Ok(());
    };
    let begun = Instant::now();
    let (mut told, mut look) = (false, begun + LOOK_ELSEWHERE_EVERY);
    loop {
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) => {}
            result => return result.with_context(|| format!("{}: cannot be locked", pm.display())),
        }
        if mounts::of_pm(pm)?.is_some() {
            return Ok(());
        }
        if Instant::now() > look {
            refuse_mount_elsewhere(mount)?;
            look += LOOK_ELSEWHERE_EVERY;
        }
        if !told && begun.elapsed() > LONG {
            output::remark(
                quiet,
                &format!("{}: unmounted; its daemon is still writing …", pm.display()),
            );
            told = true;
        }
        sleep(LOOK_EVERY);
    }
}

/// An error if another mount namespace has the volume: its data need not be on its devices.
fn refuse_mount_elsewhere(mount: &Mount) -> Result<()> {
    match mounts::elsewhere(|other| other.device == mount.device) {
        None => Ok(()),
        Some((pid, other)) => {
            let (pm, place) = (mount.source.display(), other.mountpoint.display());
            bail!(
                "{pm}: unmounted here, but still mounted at {place} in another mount namespace, \
                 that of process {pid}; end that, or unmount it there: `nsenter -t {pid} -m \
                 terrace umount {place}`"
            )
        }
    }
}

/// An error if the daemon did not end with a clean unmount.
fn expect_clean(pm: &Path) -> Result<()> {
    let Ok(opened) = DeviceOptions::new(Access::Peek).open_pm(pm) else {
        return Ok(());
    };
    match read_pm_label(&opened).map_err(about(pm))? {
        Some(label) if !label.clean && mounts::of_pm(pm)?.is_none() => bail!(
            "{}: unmounted, but not cleanly; the daemon's log says why, and the next mount \
             recovers the volume",
            pm.display()
        ),
        _ => Ok(()),
    }
}
