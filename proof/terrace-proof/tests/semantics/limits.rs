//! What FUSE does not carry, or carries in a way of its own, and the errno that a program sees.

use super::{must_fail, open};
use anyhow::{Result, ensure};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use std::fs::File;
use std::os::fd::AsRawFd;
use terrace_proof::{VolumeSpec, proof, run, skip};

/// A mount with one file. The host's own file system has what is missing here.
fn mount_with_file(name: &str) -> Result<(terrace_proof::TestVolume, File)> {
    let volume = VolumeSpec::new(name).mount()?;
    ensure!(volume.is_mount(), skip("a host directory has other limits"));
    let file = open(&volume.join("file"), OFlags::RDWR | OFlags::CREATE)?;
    file.set_len(65536)?;
    Ok((volume, file))
}

/// ioctl(2) with a pointer argument.
fn ioctl<T>(file: &File, request: libc::c_ulong, argument: &mut T) -> std::io::Result<()> {
    // SAFETY: each caller passes the structure (or integer) that its request reads and writes.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// **P-35** FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE and FALLOC_FL_UNSHARE_RANGE fail with
/// EOPNOTSUPP.
#[test]
fn no_range_shifting() {
    proof(|| {
        let (_volume, file) = mount_with_file("ranges")?;
        for mode in [
            FallocateFlags::COLLAPSE_RANGE,
            FallocateFlags::INSERT_RANGE,
            FallocateFlags::UNSHARE_RANGE,
        ] {
            must_fail(fallocate(&file, mode, 4096, 4096), libc::EOPNOTSUPP)?;
        }
        ensure!(file.metadata()?.len() == 65536);
        Ok(())
    });
}

/// **P-36** The FIEMAP ioctl fails with EOPNOTSUPP; `terrace where` shows on which devices a file
/// is.
#[test]
fn where_instead_of_fiemap() {
    proof(|| {
        let (volume, file) = mount_with_file("fiemap")?;
        const FS_IOC_FIEMAP: libc::c_ulong = 0xc020_660b;
        // struct fiemap: start, length, flags, mapped extents, extent count, reserved.
        let mut fiemap: [u32; 8] = [0, 0, u32::MAX, u32::MAX, 0, 0, 0, 0];
        must_fail(ioctl(&file, FS_IOC_FIEMAP, &mut fiemap), libc::EOPNOTSUPP)?;
        std::os::unix::fs::FileExt::write_all_at(&file, b"data", 0)?;
        let map = run(volume.terrace("where")?.arg("--json").arg(volume.join("file")))?;
        ensure!(map.contains("\"extents\""), "{map}");
        Ok(())
    });
}

/// **P-37** Reflinks and deduplication (the FICLONE and FIDEDUPERANGE ioctls) fail with EOPNOTSUPP;
/// `cp` then copies.
#[test]
fn no_reflinks() {
    proof(|| {
        let (volume, file) = mount_with_file("reflink")?;
        const FICLONE: libc::c_ulong = 0x4004_9409;
        let copy = open(&volume.join("copy"), OFlags::RDWR | OFlags::CREATE)?;
        // SAFETY: FICLONE takes a descriptor by value.
        let result = unsafe { libc::ioctl(copy.as_raw_fd(), FICLONE, file.as_raw_fd()) };
        ensure!(result == -1);
        must_fail(Err::<(), _>(std::io::Error::last_os_error()), libc::EOPNOTSUPP)?;
        let cp = ["cp", "--reflink=auto"];
        run(std::process::Command::new(cp[0])
            .arg(cp[1])
            .args([volume.join("file"), volume.join("copy")]))?;
        ensure!(std::fs::metadata(volume.join("copy"))?.len() == 65536);
        Ok(())
    });
}

/// **P-38** sync(2) and syncfs(2) succeed, but the kernel does not pass them on: fsync(2) and
/// `terrace sync` make data durable.
#[test]
fn terrace_sync_instead_of_syncfs() {
    proof(|| {
        let (mut volume, file) = mount_with_file("syncfs")?;
        rustix::fs::syncfs(&file)?;
        let content = terrace_proof::Rng::new(1).bytes(100 << 20);
        std::fs::write(volume.join("large"), &content)?;
        drop(file);
        run(volume.terrace("sync")?.arg(volume.root()))?;
        volume.power_cut()?;
        volume.remount()?;
        ensure!(
            std::fs::read(volume.join("large"))? == content,
            "terrace sync left something behind"
        );
        Ok(())
    });
}

/// **P-39** There are no quotas: quotactl_fd(2) fails with ENOSYS.
#[test]
fn no_quotas() {
    proof(|| {
        let (_volume, file) = mount_with_file("quota")?;
        const Q_GETINFO_OF_USERS: libc::c_uint = 0x80_0005 << 8;
        let mut info = [0u64; 16];
        // SAFETY: Q_GETINFO fills a structure much smaller than `info`, which outlives the call.
        let result = unsafe {
            libc::syscall(
                libc::SYS_quotactl_fd,
                file.as_raw_fd(),
                Q_GETINFO_OF_USERS,
                0,
                info.as_mut_ptr(),
            )
        };
        ensure!(result == -1);
        must_fail(Err::<(), _>(std::io::Error::last_os_error()), libc::ENOSYS)
    });
}

/// **P-40** There are no inode flags (lsattr(1), chattr(1)): FS_IOC_GETFLAGS fails with ENOTTY.
#[test]
fn no_inode_flags() {
    proof(|| {
        let (_volume, file) = mount_with_file("flags")?;
        const FS_IOC_GETFLAGS: libc::c_ulong = 0x8008_6601;
        must_fail(ioctl(&file, FS_IOC_GETFLAGS, &mut 0u64), libc::ENOTTY)
    });
}
