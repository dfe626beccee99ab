//! Has the kernel hand out requests that wait in queues of io_uring, once a successor serves.
//!
//! Requests that come while no daemon serves wait in the queue of their CPU. The kernel (6.14 to
//! 6.18) hands one out whenever an answer is committed on that queue, and not when a worker joins.
//! So processes ask the mount for something (STATFS), one on each CPU, as often as the queue has
//! workers: each time a worker commits an answer that had nothing to do, or no request waits.
//!
//! They are processes, not threads of the daemon: a thread that waits for an answer cannot be
//! killed, and if the daemon died meanwhile, its process would not end, and have no successor.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fstatfs, open, statx};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use terrace_transport::possible_cpus;

/// Starts processes that ask the mount at `mountpoint`, if its device still has this number, so
/// many times on each CPU. They end by themselves.
///
/// # Errors
/// The system gives no process.
pub(crate) fn ask_on_each_cpu(mountpoint: &Path, device: &str, times: usize) -> io::Result<()> {
    let mountpoint = CString::new(mountpoint.as_os_str().as_bytes())?;
    let device = numbers(device).ok_or(io::ErrorKind::InvalidInput)?;
    let cpus = usize::from(possible_cpus()?).min(CpuSet::MAX_CPU);
    // SAFETY: the child makes system calls, and does nothing else.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        0 => {
            // One of the daemon's descriptors would keep the connection alive.
            // SAFETY: this process uses none of them.
            unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
            for cpu in 0..cpus {
                // SAFETY: as above.
                if unsafe { libc::fork() } == 0 {
                    ask(&mountpoint, device, cpu, times);
                    break;
                }
            }
            // SAFETY: ends this process, and runs nothing of the daemon's.
            unsafe { libc::_exit(0) }
        }
        // It only starts the others.
        // SAFETY: this process's own child, which nobody else waits for.
        child => match unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } {
            ..0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        },
    }
}

/// Those of a device, as in /proc/self/mountinfo.
fn numbers(device: &str) -> Option<(u32, u32)> {
    let (major, minor) = device.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Asks the mount on this CPU, if it is online. System calls alone: this is a fork of a process
/// with threads.
fn ask(mountpoint: &CString, device: (u32, u32), cpu: usize, times: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    if sched_setaffinity(None, &only).is_err() || sched_getcpu() != cpu {
        return;
    }
    let Ok(root) = open(mountpoint, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { return };
    // This asks nobody.
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let Ok(found) = statx(&root, c"", flags, StatxFlags::empty()) else { return };
    if (found.stx_dev_major, found.stx_dev_minor) == device {
        // An error is the end of the connection.
        let _ = (0..times).try_for_each(|_| fstatfs(&root).map(drop));
    }
}
