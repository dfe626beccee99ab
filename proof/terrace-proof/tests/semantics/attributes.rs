//! Times, extended attributes, access control, and what statfs says.

use super::{as_nobody, must_fail, needs_root, open};
use anyhow::{Result, ensure};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, OFlags, Timespec, Timestamps, XattrFlags, getxattr, setxattr,
    utimensat,
};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use terrace_proof::{MIB, VolumeSpec, proof, run, tool};

fn set_times(path: &Path, access: (i64, i64), modification: (i64, i64)) -> Result<()> {
    let spec = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: spec(access), last_modification: spec(modification) };
    Ok(utimensat(CWD, path, &times, AtFlags::empty())?)
}

/// **P-27** Times are kept in nanoseconds and reach from the year 1677 to 2262; a time beyond is
/// set to the nearest of these. The change time of what was renamed is written down later, with the
/// next change or sync: after a power cut it may be the one before.
#[test]
fn times_have_nanoseconds_and_a_wide_range() {
    proof(|| {
        let mut volume = VolumeSpec::new("times").mount()?;
        let kept = [
            (-9_000_000_000, 1),
            (-1, 999_999_999),
            (0, 0),
            (1_700_000_000, 123_456_789),
            (9_000_000_000, 7),
        ];
        for (number, time) in kept.iter().enumerate() {
            let path = volume.join(&format!("f{number}"));
            std::fs::write(&path, "")?;
            // The host's file systems end in 1901.
            if volume.is_mount() || time.0 >= -1 {
                set_times(&path, *time, *time)?;
            }
        }
        if volume.is_mount() {
            std::fs::write(volume.join("far"), "")?;
            set_times(&volume.join("far"), (-10_000_000_000, 0), (10_000_000_000, 0))?;
        }
        volume.check()?;
        for (number, time) in kept.iter().enumerate() {
            let meta = std::fs::metadata(volume.join(&format!("f{number}")))?;
            let found = [(meta.atime(), meta.atime_nsec()), (meta.mtime(), meta.mtime_nsec())];
            ensure!(
                found == [*time; 2] || (!volume.is_mount() && time.0 < -1),
                "{found:?} instead of {time:?}"
            );
        }
        if volume.is_mount() {
            let meta = std::fs::metadata(volume.join("far"))?;
            let seconds = i64::MAX / 1_000_000_000;
            ensure!(
                (meta.atime(), meta.mtime()) == (-seconds - 1, seconds),
                "{} {}",
                meta.atime(),
                meta.mtime()
            );
        }
        let ctime = |name| {
            std::fs::metadata(volume.join(name)).map(|meta| (meta.ctime(), meta.ctime_nsec()))
        };
        let before = ctime("f3")?;
        // The crash states show what a power cut leaves; here, that a sync writes it down.
        std::fs::rename(volume.join("f3"), volume.join("renamed"))?;
        let after = ctime("renamed")?;
        std::fs::File::open(volume.join("renamed"))?.sync_all()?;
        if volume.is_mount() {
            volume.remount()?;
        }
        let kept = std::fs::metadata(volume.join("renamed"))
            .map(|meta| (meta.ctime(), meta.ctime_nsec()))?;
        ensure!(before <= after && after == kept, "{before:?}, {after:?}, then {kept:?}");
        Ok(())
    });
}

/// **P-46** statx(2) shows when an inode was created. No call changes that.
#[test]
fn birth_is_shown_and_stays() {
    proof(|| {
        let mut volume = VolumeSpec::new("birth").mount()?;
        let path = volume.join("file");
        let before = std::time::SystemTime::now() - std::time::Duration::from_secs(1);
        std::fs::write(&path, "born")?;
        let born = std::fs::metadata(&path)?.created()?;
        ensure!(before <= born && born <= std::time::SystemTime::now());
        set_times(&path, (1, 0), (1, 0))?;
        std::fs::write(&path, "written again")?;
        std::fs::rename(&path, volume.join("renamed"))?;
        std::fs::set_permissions(volume.join("renamed"), PermissionsExt::from_mode(0o600))?;
        volume.check()?;
        ensure!(std::fs::metadata(volume.join("renamed"))?.created()? == born);
        Ok(())
    });
}

/// **P-28** A read updates the access time if that is not after the modification time or is older
/// than a day (`relatime`, the default). Reads that the kernel serves from its cache are not seen.
/// With `-o noatime` access times never change by themselves.
#[test]
fn access_times() {
    proof(|| {
        let mut volume = VolumeSpec::new("atime").mount()?;
        if !volume.is_mount() {
            return Ok(()); // How the host was mounted is not ours to say.
        }
        let path = volume.join("file");
        std::fs::write(&path, "content")?;
        let atime_after_read = || -> Result<i64> {
            std::fs::read(&path)?;
            Ok(std::fs::metadata(&path)?.atime())
        };
        set_times(&path, (1000, 0), (2000, 0))?;
        volume.remount_with("noatime")?;
        ensure!(atime_after_read()? == 1000, "noatime changed the access time");
        volume.remount()?;
        let first = atime_after_read()?;
        ensure!(first > 1_700_000_000, "the access time is still {first}");
        // Now it is after the modification time, and younger than a day.
        volume.remount()?;
        let meta = std::fs::metadata(&path)?;
        let before = (meta.atime(), meta.atime_nsec());
        std::fs::read(&path)?;
        let meta = std::fs::metadata(&path)?;
        ensure!(
            (meta.atime(), meta.atime_nsec()) == before,
            "relatime changed a fresh access time"
        );
        Ok(())
    });
}

/// **P-29** Extended attributes exist in the namespaces user, trusted, security and for POSIX ACLs,
/// with names of up to 255 bytes and values of up to 64 KiB. Another namespace fails with
/// EOPNOTSUPP, an absent attribute with ENODATA, XATTR_CREATE of a present one with EEXIST, too
/// small a buffer with ERANGE, too long a value with E2BIG.
#[test]
fn extended_attributes() {
    proof(|| {
        needs_root()?;
        let mut volume = VolumeSpec::new("xattr").mount()?;
        let path = volume.join("file");
        std::fs::write(&path, "")?;
        let long_name = format!("user.{}", "n".repeat(250));
        let large = vec![b'v'; if volume.is_mount() { 65536 } else { 2000 }];
        for name in [long_name.as_str(), "trusted.t", "security.s"] {
            setxattr(&path, name, b"value", XattrFlags::CREATE)?;
            must_fail(setxattr(&path, name, b"", XattrFlags::CREATE), libc::EEXIST)?;
        }
        setxattr(&path, "user.large", &large, XattrFlags::empty())?;
        must_fail(
            setxattr(&path, "user.too_large", &vec![0; 65537], XattrFlags::empty()),
            libc::E2BIG,
        )?;
        must_fail(setxattr(&path, "other.name", b"", XattrFlags::empty()), libc::EOPNOTSUPP)?;
        must_fail(setxattr(&path, "user.absent", b"", XattrFlags::REPLACE), libc::ENODATA)?;
        must_fail(rustix::fs::removexattr(&path, "user.absent"), libc::ENODATA)?;
        let mut small = [0u8; 4];
        must_fail(getxattr(&path, "user.absent", &mut small[..]), libc::ENODATA)?;
        must_fail(getxattr(&path, "trusted.t", &mut small[..]), libc::ERANGE)?;
        must_fail(rustix::fs::listxattr(&path, &mut small[..]), libc::ERANGE)?;
        volume.check()?;
        let mut value = vec![0u8; 65536];
        let len = getxattr(&path, "user.large", &mut value[..])?;
        ensure!(value[..len] == large, "the large value changed");
        let len = getxattr(&path, long_name.as_str(), &mut value[..])?;
        ensure!(&value[..len] == b"value");
        let len = rustix::fs::listxattr(&path, &mut value[..])?;
        ensure!(
            value[..len].iter().filter(|b| **b == 0).count() == 4,
            "four names should be listed"
        );
        Ok(())
    });
}

/// **P-30** On a mount for several users (`-o allow_other`) POSIX ACLs are enforced, inherited from
/// a directory's default ACL, and agree with the permission bits.
#[test]
fn access_control_lists() {
    proof(|| {
        needs_root()?;
        let mut volume = VolumeSpec::new("acl").shared().mount()?;
        let setfacl = |rule: &str, path: &Path| {
            run(Command::new(tool("setfacl")?).args(["-m", rule]).arg(path))
        };
        let file = volume.join("secret");
        std::fs::write(&file, "content")?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600))?;
        let read = format!("cat '{}'", file.display());
        ensure!(as_nobody(&read).is_err(), "mode 0600 let nobody in");
        setfacl("u:65534:r", &file)?;
        ensure!(as_nobody(&read)? == "content");
        let mode = std::fs::metadata(&file)?.mode() & 0o777;
        ensure!(mode == 0o640, "the mask does not show in the mode {mode:o}");
        // chmod changes the mask, and with it what the named user may.
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600))?;
        ensure!(as_nobody(&read).is_err(), "an empty mask let nobody in");

        let dir = volume.join("dir");
        std::fs::create_dir(&dir)?;
        setfacl("d:u:65534:rwx", &dir)?;
        std::fs::write(dir.join("inherits"), "inherited")?;
        std::fs::create_dir(dir.join("sub"))?;
        volume.check()?;
        ensure!(as_nobody(&format!("cat '{}'", dir.join("inherits").display()))? == "inherited");
        let listing = run(Command::new(tool("getfacl")?).args(["-cpn"]).arg(dir.join("sub")))?;
        ensure!(
            listing.contains("default:user:65534:rwx") && listing.contains("\nuser:65534:rwx"),
            "{listing}"
        );
        Ok(())
    });
}

/// **P-31** Without `-o allow_other` only the user who mounted gets in; others get EACCES.
#[test]
fn private_mount() {
    proof(|| {
        needs_root()?;
        let volume = VolumeSpec::new("private").mount()?;
        std::fs::write(volume.join("file"), "content")?;
        if !volume.is_mount() {
            return Ok(());
        }
        for command in ["ls", "cat"] {
            let refused =
                as_nobody(&format!("LC_ALL=C {command} '{}'", volume.join("file").display()));
            let text = refused.err().map(|e| format!("{e:#}")).unwrap_or_default();
            ensure!(text.contains("Permission denied"), "{command} by another user: {text}");
        }
        Ok(())
    });
}

/// **P-32** With `-o ro` every change fails with EROFS, and nothing is written to any device.
#[test]
fn read_only_mount() {
    proof(|| {
        let mut volume = VolumeSpec::new("read-only").pm_mib(32).mount()?;
        if !volume.is_mount() {
            return Ok(());
        }
        std::fs::write(volume.join("file"), vec![1; 48 << 20])?;
        let fingerprints = |volume: &terrace_proof::TestVolume| -> Result<Vec<String>> {
            volume
                .devices()
                .iter()
                .map(|device| run(Command::new("sha256sum").arg(device)))
                .collect()
        };
        volume.unmount()?;
        let before = fingerprints(&volume)?;
        volume.remount_with("ro")?;
        ensure!(std::fs::read(volume.join("file"))?.len() == 48 << 20);
        must_fail(std::fs::write(volume.join("file"), ""), libc::EROFS)?;
        must_fail(std::fs::write(volume.join("new"), ""), libc::EROFS)?;
        must_fail(std::fs::remove_file(volume.join("file")), libc::EROFS)?;
        must_fail(std::fs::create_dir(volume.join("dir")), libc::EROFS)?;
        must_fail(setxattr(volume.join("file"), "user.x", b"", XattrFlags::empty()), libc::EROFS)?;
        ensure!(set_times(&volume.join("file"), (1, 0), (1, 0)).is_err());
        volume.unmount()?;
        ensure!(fingerprints(&volume)? == before, "a read-only mount changed a device");
        Ok(())
    });
}

/// **P-33** statfs(2) counts the blocks of all tiers together, 4096 bytes each; what is written
/// counts against the free ones at once. The available ones are those that file data can take.
#[test]
fn statfs_counts_all_tiers() {
    proof(|| {
        let volume = VolumeSpec::new("statfs").pm_mib(32).disk_mib(512).mount()?;
        let before = rustix::fs::statvfs(volume.root())?;
        ensure!(
            before.f_bsize == 4096 && before.f_namemax == 255,
            "blocks of {} bytes, names of {}",
            before.f_bsize,
            before.f_namemax
        );
        if !volume.is_mount() {
            return Ok(());
        }
        let total = before.f_blocks * before.f_frsize / MIB;
        ensure!((480..=544).contains(&total), "{total} MiB in all instead of about 544");
        ensure!(
            before.f_bfree > before.f_blocks * 9 / 10 && before.f_bavail <= before.f_bfree,
            "{} free blocks of {}",
            before.f_bfree,
            before.f_blocks
        );
        let file = open(&volume.join("file"), OFlags::RDWR | OFlags::CREATE)?;
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 64 << 20], 0)?;
        file.sync_all()?;
        let used = before.f_bfree - rustix::fs::statvfs(volume.root())?.f_bfree;
        ensure!((16384..18000).contains(&used), "64 MiB took {used} blocks");
        let available = rustix::fs::statvfs(volume.root())?.f_bavail;
        rustix::fs::fallocate(
            &file,
            FallocateFlags::empty(),
            0,
            (64 << 20) + (available - 128) * 4096,
        )?;
        // Checksums of what is on the disk are counted, too.
        let blocks = file.metadata()?.blocks() / 8;
        ensure!(
            blocks >= 16384 + available - 128,
            "{blocks} blocks of {}",
            16384 + available - 128
        );
        Ok(())
    });
}
