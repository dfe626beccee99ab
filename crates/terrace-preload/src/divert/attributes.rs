//! Attributes of files. The kernel keeps those of a file that goes direct for a moment only, so it
//! would ask the daemon each time. But it is told of all that changes besides the file's data, and
//! of these the library knows.

use std::ffi::{c_char, c_int, c_uint};

use crate::backend::Attributes;
use crate::provider::files;
use crate::{fault, raw, real, state, switch, thread};

type Stat = libc::stat;
type Statx = libc::statx;

/// What is kept beyond these is the daemon's to tell.
const USUAL: c_uint = libc::STATX_BASIC_STATS | libc::STATX_MNT_ID;

/// Those of a number that goes direct.
fn of_number(fd: c_int) -> Option<Statx> {
    let description = state::direct(fd)?;
    let _inside = thread::enter()?;
    let inode = description.inode().filter(|_| switch::on())?;
    let attributes = inode.file.attributes()?;
    // Another thread may have closed the number, and opened another file.
    let is_same = || state::direct(fd).is_some_and(|now| std::ptr::eq(now, description));
    let known = raw::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH)?;
    is_same().then(|| with(known, attributes))
}

/// Those of a file that is with this process, by its name.
fn of_name(at: c_int, path: *const c_char, flags: c_int) -> Option<Statx> {
    if !switch::on() || !files().has_any() {
        return None;
    }
    let _inside = thread::enter()?;
    let known = raw::statx(at, path, flags)?;
    let device = libc::makedev(known.stx_dev_major, known.stx_dev_minor);
    Some(with(known, files().attributes(device, known.stx_ino)?))
}

/// What the kernel knows, with what the library knows of the file's data.
fn with(known: Statx, of_data: Attributes) -> Statx {
    let (seconds, nanoseconds) =
        (of_data.mtime_ns.div_euclid(1_000_000_000), of_data.mtime_ns.rem_euclid(1_000_000_000));
    let mut all = known;
    all.stx_size = of_data.size;
    all.stx_blocks = of_data.blocks_512;
    all.stx_mtime.tv_sec = seconds;
    all.stx_mtime.tv_nsec = nanoseconds as u32;
    let changed = (all.stx_ctime.tv_sec, all.stx_ctime.tv_nsec);
    if changed < (seconds, nanoseconds as u32) {
        (all.stx_ctime.tv_sec, all.stx_ctime.tv_nsec) = (seconds, nanoseconds as u32);
    }
    all
}

/// The same in the older structure.
fn as_stat(all: &Statx) -> Stat {
    // SAFETY: All zero is a value of it.
    let mut stat: Stat = unsafe { std::mem::zeroed() };
    stat.st_dev = libc::makedev(all.stx_dev_major, all.stx_dev_minor);
    stat.st_rdev = libc::makedev(all.stx_rdev_major, all.stx_rdev_minor);
    stat.st_ino = all.stx_ino;
    stat.st_mode = all.stx_mode.into();
    stat.st_nlink = all.stx_nlink as _;
    stat.st_uid = all.stx_uid;
    stat.st_gid = all.stx_gid;
    stat.st_size = all.stx_size as i64;
    stat.st_blksize = all.stx_blksize as _;
    stat.st_blocks = all.stx_blocks as i64;
    (stat.st_atime, stat.st_atime_nsec) = (all.stx_atime.tv_sec, all.stx_atime.tv_nsec.into());
    (stat.st_mtime, stat.st_mtime_nsec) = (all.stx_mtime.tv_sec, all.stx_mtime.tv_nsec.into());
    (stat.st_ctime, stat.st_ctime_nsec) = (all.stx_ctime.tv_sec, all.stx_ctime.tv_nsec.into());
    stat
}

/// Gives the program a structure. False: its address is bad.
fn give<T: Copy>(value: T, into: *mut T) -> bool {
    let from = std::ptr::from_ref(&value).cast();
    // SAFETY: The value has as many bytes, and a fault at the program's address is survived.
    unsafe { fault::copy(into.cast(), from, size_of::<T>()) }.is_ok()
}

divert! {
    fn fstat(fd: c_int, into: *mut Stat) -> c_int {
        match of_number(fd) {
            Some(all) if give(as_stat(&all), into) => 0,
            _ => real::fstat(fd, into),
        }
    }

    fn fstat64(fd: c_int, into: *mut Stat) -> c_int {
        fstat(fd, into)
    }

    fn __fxstat(_version: c_int, fd: c_int, into: *mut Stat) -> c_int {
        fstat(fd, into)
    }

    fn __fxstat64(_version: c_int, fd: c_int, into: *mut Stat) -> c_int {
        fstat(fd, into)
    }

    fn fstatat(at: c_int, path: *const c_char, into: *mut Stat, flags: c_int) -> c_int {
        let is_number = flags & libc::AT_EMPTY_PATH != 0 && fault::fetch(path) == Some(0);
        let known = match is_number {
            true => of_number(at),
            false => of_name(at, path, flags | libc::AT_NO_AUTOMOUNT),
        };
        match known {
            Some(all) if give(as_stat(&all), into) => 0,
            _ => real::fstatat(at, path, into, flags),
        }
    }

    fn fstatat64(at: c_int, path: *const c_char, into: *mut Stat, flags: c_int) -> c_int {
        fstatat(at, path, into, flags)
    }

    fn __fxstatat(
        _version: c_int,
        at: c_int,
        path: *const c_char,
        into: *mut Stat,
        flags: c_int
    ) -> c_int {
        fstatat(at, path, into, flags)
    }

    fn __fxstatat64(
        _version: c_int,
        at: c_int,
        path: *const c_char,
        into: *mut Stat,
        flags: c_int
    ) -> c_int {
        fstatat(at, path, into, flags)
    }

    fn stat(path: *const c_char, into: *mut Stat) -> c_int {
        fstatat(libc::AT_FDCWD, path, into, 0)
    }

    fn stat64(path: *const c_char, into: *mut Stat) -> c_int {
        fstatat(libc::AT_FDCWD, path, into, 0)
    }

    fn __xstat(_version: c_int, path: *const c_char, into: *mut Stat) -> c_int {
        fstatat(libc::AT_FDCWD, path, into, 0)
    }

    fn __xstat64(_version: c_int, path: *const c_char, into: *mut Stat) -> c_int {
        fstatat(libc::AT_FDCWD, path, into, 0)
    }

    fn lstat(path: *const c_char, into: *mut Stat) -> c_int {
        fstatat(libc::AT_FDCWD, path, into, libc::AT_SYMLINK_NOFOLLOW)
    }

    fn lstat64(path: *const c_char, into: *mut Stat) -> c_int {
        fstatat(libc::AT_FDCWD, path, into, libc::AT_SYMLINK_NOFOLLOW)
    }

    fn __lxstat(_version: c_int, path: *const c_char, into: *mut Stat) -> c_int {
        fstatat(libc::AT_FDCWD, path, into, libc::AT_SYMLINK_NOFOLLOW)
    }

    fn __lxstat64(_version: c_int, path: *const c_char, into: *mut Stat) -> c_int {
        fstatat(libc::AT_FDCWD, path, into, libc::AT_SYMLINK_NOFOLLOW)
    }

    fn statx(
        at: c_int,
        path: *const c_char,
        flags: c_int,
        wanted: c_uint,
        into: *mut Statx
    ) -> c_int {
        let is_usual = wanted & !USUAL == 0 && flags & libc::AT_STATX_SYNC_TYPE == 0;
        let is_number = flags & libc::AT_EMPTY_PATH != 0
            && (path.is_null() || fault::fetch(path) == Some(0));
        let known = match is_number {
            _ if !is_usual => None,
            true => of_number(at),
            false => of_name(at, path, flags),
        };
        match known {
            Some(all) if give(all, into) => 0,
            _ => real::statx(at, path, flags, wanted, into),
        }
    }
}
