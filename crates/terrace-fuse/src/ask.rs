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
use std::path::PathBuf;

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, fstatfs, open, statx};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use terrace_transport::possible_cpus;

/// Signals that end these processes, whatever the daemon does with them.
const TERMINATIONS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Starts processes that ask the mount of this device so many times, one on each CPU, at the first
/// of these places where it is. They end by themselves.
///
/// # Errors
/// The system gives not all of the processes.
pub(crate) fn ask_on_each_cpu(places: &[PathBuf], device: &str, times: usize) -> io::Result<()> {
    let text = |place: &PathBuf| CString::new(place.as_os_str().as_bytes());
    let places = places.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let device = numbers(device).ok_or(io::ErrorKind::InvalidInput)?;
    let cpus = usize::from(possible_cpus()?).min(CpuSet::MAX_CPU);
    // SAFETY: the child makes system calls, and does nothing else.
    match unsafe { libc::fork() } {
        ..0 => Err(io::Error::last_os_error()),
        0 => {
            // One of the daemon's descriptors would keep the connection alive.
            // SAFETY: this process uses none of them.
            unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
            let mut status = 0;
            for cpu in 0..cpus {
                // SAFETY: as above.
                match unsafe { libc::fork() } {
                    ..0 => status = 1,
                    0 => {
                        ask(&places, device, cpu, times);
                        break;
                    }
                    _ => {}
                }
            }
            // SAFETY: ends this process, and runs nothing of the daemon's.
            unsafe { libc::_exit(status) }
        }
        child => has_started_others(child),
    }
}

/// Waits for the process that only starts the others.
fn has_started_others(child: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: `status` is valid and writable; this is a child of this process alone.
    match unsafe { libc::waitpid(child, &mut status, 0) } {
        ..0 => Err(io::Error::last_os_error()),
        _ if status == 0 => Ok(()),
        _ => Err(io::Error::other("the system gives no process for each CPU")),
    }
}

/// Those of a device, as in /proc/self/mountinfo.
fn numbers(device: &str) -> Option<(u32, u32)> {
    let (major, minor) = device.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Asks the mount on this CPU, if it is online. System calls alone: this is a fork of a process
/// with threads.
fn ask(places: &[CString], device: (u32, u32), cpu: usize, times: usize) {
    for signal in TERMINATIONS {
        // SAFETY: this process has one thread, and wants nothing of the daemon's handlers.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    let mut only = CpuSet::new();
    only.set(cpu);
    if sched_setaffinity(None, &only).is_err() || sched_getcpu() != cpu {
        return;
    }
    for place in places {
        let Ok(root) = open(place, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else { continue };
        // This asks nobody.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let Ok(found) = statx(&root, c"", flags, StatxFlags::empty()) else { continue };
        if (found.stx_dev_major, found.stx_dev_minor) == device {
            // An error is the end of the connection.
            let _ = (0..times).try_for_each(|_| fstatfs(&root).map(drop));
            return;
        }
    }
}
