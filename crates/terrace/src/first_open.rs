//! The first open of a file in a new mount. Its answer has the kernel ask nobody any more when
//! files are opened and closed (`terrace_fuse::terms`). Until then, each file that a program
//! creates costs a message more when it is closed.
//!
//! A process of its own opens the file, as nothing ends a call that waits for a daemon: one that is
//! stopped would keep the command from ending.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// How long the command waits for it.
const PATIENCE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// Opens a file of the mount. If that fails, a program's first open does the same. The calling
/// process has one thread.
pub fn in_mount(mountpoint: &Path) {
    let Ok(mountpoint) = CString::new(mountpoint.as_os_str().as_bytes()) else { return };
    // SAFETY: this process has one thread; the child makes system calls, and ends.
    match unsafe { libc::fork() } {
        ..0 => {}
        0 => {
            // Somebody may wait for the end of what the command writes.
            // SAFETY: this process uses none of the descriptors that it has got.
            unsafe { libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) };
            open_one(&mountpoint);
            // SAFETY: ends this process, and runs nothing of its parent's.
            unsafe { libc::_exit(0) }
        }
        child => wait_for(child),
    }
}

/// One without a name, which nobody sees. There can be none in a read-only mount, in a directory of
/// somebody else's, and before Linux 6.2.
fn open_one(mountpoint: &CStr) {
    let without_name = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    if let Ok(file) = open(mountpoint, without_name, Mode::RUSR) {
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        let _ = open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    }
}

/// Waits for the child's end, but not for long.
fn wait_for(child: libc::pid_t) {
    let Some(pid) = Pid::from_raw(child) else { return };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&PATIENCE));
}
