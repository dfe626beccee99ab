//! Attaching a FUSE connection to a directory and detaching it again.
//!
//! Nothing is ever unmounted that is not known to be ours: a mount is identified by its device
//! number, not by its path, where something else may lie by now.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    recvmsg, socketpair,
};

use crate::config::MountConfig;
use crate::mount_table::{self, FS_TYPE, Mount};

const FUSERMOUNT: &str = "fusermount3";

/// The path by which mount tables know `mountpoint`. Works on a dead mount, too, which answers
/// nothing about itself.
pub(crate) fn canonical(mountpoint: &Path) -> Result<PathBuf> {
    let error = match mountpoint.canonicalize() {
        Ok(path) => return Ok(path),
        Err(error) => error,
    };
    match (mountpoint.parent(), mountpoint.file_name()) {
        (Some(parent), Some(name)) if error.raw_os_error().is_some_and(mount_table::is_of_dead) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(parent.canonicalize().with_context(|| parent.display().to_string())?.join(name))
        }
        _ => Err(error).with_context(|| format!("mount point {}", mountpoint.display())),
    }
}

/// Makes way for a mount at `mountpoint`: a Terrace mount whose daemon died is removed. Returns
/// whether there was one.
///
/// # Errors
/// If the directory does not exist, if a live Terrace volume is mounted there, if something else
/// that is dead is, or if the dead mount cannot be removed.
pub fn clean_dead_mount(mountpoint: &Path) -> Result<bool> {
    let mountpoint = canonical(mountpoint)?;
    let Some(entry) = mount_table::at(&mountpoint)? else {
        return Ok(false);
    };
    match (entry.is_terrace(), mount_table::is_dead(&mountpoint)) {
        (true, true) => {
            tracing::warn!("{}: removing the mount that a dead daemon left", mountpoint.display());
            detach(&mountpoint, &entry.device, UnmountFlags::DETACH)?;
            Ok(true)
        }
        (true, false) => bail!(
            "{} is the mount point of a mounted volume ({}); unmount it first, or choose another \
             directory",
            mountpoint.display(),
            entry.source.display()
        ),
        (false, true) => {
            bail!(
                "{}: a dead mount of type {} is in the way; unmount it first",
                mountpoint.display(),
                entry.fs_type.display()
            )
        }
        (false, false) => Ok(false),
    }
}

/// Unmounts `mountpoint` if the file system on top of it is still the one with this device number.
///
/// DETACH: at once, even while it is in use; the connection then ends with its last user. FORCE:
/// the connection ends as well, and calls that wait for an answer fail.
pub(crate) fn detach(mountpoint: &Path, device: &str, flags: UnmountFlags) -> Result<()> {
    if mount_table::at(mountpoint)?.is_none_or(|entry| entry.device != device) {
        return Ok(());
    }
    if flags.contains(UnmountFlags::FORCE)
        && let Some((_, number)) = device.split_once(':')
    {
        // For users other than root, where fusectl is mounted.
        let _ = std::fs::write(format!("/sys/fs/fuse/connections/{number}/abort"), "1");
    }
    let lazily = flags.contains(UnmountFlags::DETACH);
    match rustix::mount::unmount(mountpoint, flags | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => {
            let mut command = Command::new(FUSERMOUNT);
            command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(mountpoint);
            run(&mut command).with_context(|| format!("unmounting {}", mountpoint.display()))
        }
        Err(rustix::io::Errno::BUSY) => bail!(
            "{} is in use; end the programs that have files open on it or work in it (fuser -vm \
             shows them)",
            mountpoint.display()
        ),
        Err(error) => Err(error).with_context(|| format!("unmounting {}", mountpoint.display())),
    }
}

/// Mounts a new connection at `mountpoint` (absolute, without links) and returns the daemon's end
/// of it: directly where that is permitted, through `fusermount3` for other users.
pub(crate) fn attach(
    mountpoint: &Path,
    config: &MountConfig,
    kernel_checks: bool,
) -> Result<OwnedFd> {
    match attach_directly(mountpoint, config, kernel_checks) {
        Err(rustix::io::Errno::PERM | rustix::io::Errno::ACCESS) => {
            attach_through_helper(mountpoint, config, kernel_checks)
        }
        result => result
            .with_context(|| format!("mounting on {} through /dev/fuse", mountpoint.display())),
    }
}

fn attach_directly(
    mountpoint: &Path,
    config: &MountConfig,
    kernel_checks: bool,
) -> rustix::io::Result<OwnedFd> {
    let root = rustix::fs::stat(mountpoint)?;
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={}",
        device.as_raw_fd(),
        root.st_mode & libc::S_IFMT,
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    for (given, option) in
        [(config.allow_other, ",allow_other"), (kernel_checks, ",default_permissions")]
    {
        data.push_str(if given { option } else { "" });
    }
    let data = CString::new(data).map_err(|_| rustix::io::Errno::INVAL)?;
    rustix::mount::mount(
        config.fs_name.as_str(),
        mountpoint,
        FS_TYPE,
        flags(config),
        data.as_c_str(),
    )?;
    Ok(device)
}

/// What the kernel sees to by itself.
fn flags(config: &MountConfig) -> MountFlags {
    let mut flags = MountFlags::empty();
    for (given, flag) in [
        (config.read_only, MountFlags::RDONLY),
        (!config.suid, MountFlags::NOSUID),
        (!config.dev, MountFlags::NODEV),
        (!config.exec, MountFlags::NOEXEC),
    ] {
        flags.set(flag, given);
    }
    flags
}

/// Changes what the kernel sees to by itself of a mount: whether anything can be written, and what
/// counts of set-id bits, device files and programs. Whether symbolic links are followed and access
/// times kept stays as it is. The daemon hears nothing of it.
///
/// # Errors
/// `EBUSY`: it is to become read-only, and files are open for writing. `EPERM`: only root may.
pub fn remount(mount: &Mount, config: &MountConfig) -> rustix::io::Result<()> {
    let mut flags = flags(config);
    // The kernel keeps what it is told of access times, and nothing else.
    flags.set(
        MountFlags::NOSYMFOLLOW,
        mount.options.split(',').any(|option| option == "nosymfollow"),
    );
    rustix::mount::mount_remount(&mount.mountpoint, flags, c"")
}

fn attach_through_helper(
    mountpoint: &Path,
    config: &MountConfig,
    kernel_checks: bool,
) -> Result<OwnedFd> {
    // The helper splits options at commas and takes a backslash before one as an escape.
    let name = config.fs_name.replace('\\', "\\\\").replace(',', "\\,");
    let mut options = format!("fsname={name},subtype=terrace");
    for (given, option) in [
        (config.allow_other, "allow_other"),
        (kernel_checks, "default_permissions"),
        (config.read_only, "ro"),
        (!config.exec, "noexec"),
        // Without these two the helper says no by itself; with them, to everybody but root.
        (config.suid, "suid"),
        (config.dev, "dev"),
    ] {
        if given {
            options.push(',');
            options.push_str(option);
        }
    }
    let no_flags = SocketFlags::empty();
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, no_flags, None)
        .context("socketpair")?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC).context("socketpair")?;
    let mut command = Command::new(FUSERMOUNT);
    command
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .args(["-o", &options, "--"])
        .arg(mountpoint);
    run(&mut command).with_context(|| format!("mounting on {}", mountpoint.display()))?;
    drop(theirs);
    receive_descriptor(&ours).with_context(|| format!("{FUSERMOUNT} passed no descriptor"))
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow::anyhow!("{FUSERMOUNT} is not installed (package fuse3); root needs none")
        }
        _ => anyhow::Error::new(error).context(FUSERMOUNT),
    })?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn receive_descriptor(socket: &OwnedFd) -> Result<OwnedFd> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(
        socket,
        &mut [io::IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    descriptor.context("no descriptor in the message")
}

/// Lets the kernel read ahead as far as this; by default it stops at 128 KiB, whatever INIT said.
/// Root only; others keep the default.
pub(crate) fn widen_read_ahead(device: &str, len_bytes: u32) {
    let path = format!("/sys/class/bdi/{device}/read_ahead_kb");
    if let Err(error) = std::fs::write(&path, (len_bytes / 1024).to_string()) {
        tracing::debug!("{path}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_mounted_and_an_ordinary_directory_is_not() {
        assert!(mount_table::at(Path::new("/")).unwrap().is_some());
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mount_table::at(&canonical(dir.path()).unwrap()).unwrap(), None);
        assert!(!clean_dead_mount(dir.path()).unwrap());
        assert!(clean_dead_mount(&dir.path().join("absent")).is_err());
        // A live mount of another kind is nothing to clean, and no obstacle.
        assert!(!clean_dead_mount(Path::new("/proc")).unwrap());
    }

    #[test]
    fn a_dead_mount_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = canonical(dir.path()).unwrap();
        let connection = match attach(&path, &MountConfig::default(), true) {
            Ok(connection) => connection,
            Err(error) => return eprintln!("SKIPPED: cannot mount here: {error:#}"),
        };
        let entry = mount_table::at(&path).unwrap().expect("a mount");
        assert!(entry.is_terrace() && entry.source == Path::new("terrace"), "{entry:?}");
        detach(&path, "0:0", UnmountFlags::DETACH).unwrap();
        assert!(
            mount_table::at(&path).unwrap().is_some(),
            "another device's number unmounts nothing"
        );
        drop(connection);
        assert_eq!(std::fs::read_dir(&path).unwrap_err().raw_os_error(), Some(libc::ENOTCONN));
        assert_eq!(canonical(dir.path()).unwrap(), path);
        assert!(clean_dead_mount(dir.path()).unwrap());
        assert_eq!(mount_table::at(&path).unwrap(), None);
        assert!(!clean_dead_mount(dir.path()).unwrap());
    }
}
