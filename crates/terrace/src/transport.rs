//! The way of messages of a mount that leaves it to the machine (`-o transport=auto`, the default).
//! That is io_uring where the kernel offers it, unless the mount would lose more by it than it
//! gains: its keeper, much memory, or the rings that the user may not have.

use anyhow::{Context, Result};
use rustix::process::{Resource, getrlimit};
use terrace_fuse::{
    RingOffer, Transport, capabilities_in_status, may_use_all_cpus, online_cpus, possible_cpus,
    ring_buffer_bytes, ring_workers, workers_of_a_queue,
};

use crate::memory;
use crate::options::MountOptions;
use crate::output;
use crate::size::format_size;

/// Buffers take at most so much of the memory that may be used: one in so many bytes.
const BUFFERS_PART: u64 = 32;
/// Memory of a ring of two entries that the kernel counts as locked (Linux 6.14 and later).
const RING_BYTES: u64 = 8 << 10;
/// The same for a ring of a disk, of which there are a few.
const DISK_RINGS_BYTES: u64 = 1 << 20;

/// Has a mount take `/dev/fuse`, with a remark, where io_uring does not suit this machine and the
/// mount leaves the choice to it.
///
/// # Errors
/// The kernel does not name its CPUs, or its `/proc` is missing.
pub fn settle(options: &mut MountOptions, quiet: bool) -> Result<()> {
    if options.transport != Transport::Auto {
        return Ok(());
    }
    if options.clone_fd || (options.threads.is_some() && options.queue_depth.is_none()) {
        // These options speak of `/dev/fuse`.
        options.transport = Transport::Device;
    } else if takes_rings_if_it_can(options.transport)
        && let Some(reason) = Fit::here(options)?.obstacle()
    {
        options.transport = Transport::Device;
        output::remark(quiet, &remark(&reason));
    }
    Ok(())
}

/// Whether the machine chooses, and the kernel offers io_uring.
pub fn takes_rings_if_it_can(transport: Transport) -> bool {
    transport == Transport::Auto && RingOffer::here() == RingOffer::Offered
}

/// A word at a mount that takes `/dev/fuse` although the kernel offers io_uring.
pub fn remark(reason: &str) -> String {
    format!("note: messages come over /dev/fuse, as {reason}")
}

/// Whether processes of this one may run wherever programs have queues of messages, as a keeper
/// needs it.
///
/// # Errors
/// The kernel does not name its CPUs.
pub fn reaches_queues(options: &MountOptions) -> Result<bool> {
    let over_io_uring =
        options.transport == Transport::IoUring || takes_rings_if_it_can(options.transport);
    Ok(!over_io_uring || may_use_all_cpus().context(CPUS)?)
}

/// Locked memory that the rings of a mount take, with so many workers.
pub fn locked_bytes(workers: usize) -> u64 {
    workers as u64 * RING_BYTES + DISK_RINGS_BYTES
}

/// Whether a process with this `/proc/PID/status` may lock any amount of memory.
pub fn may_lock_all(status: &str) -> bool {
    const IPC_LOCK: u32 = 14;
    capabilities_in_status(status).is_some_and(|bits| bits & (1 << IPC_LOCK) != 0)
}

const CPUS: &str = "the CPUs of this machine";

/// The facts that decide whether io_uring suits a mount.
#[derive(Clone, Copy, Debug)]
struct Fit {
    wants_keeper: bool,
    may_use_all_cpus: bool,
    /// Memory of all buffers.
    buffer_bytes: u64,
    usable_bytes: u64,
    /// Memory of all rings that must be locked.
    locked_bytes: u64,
    /// `None`: there is no limit.
    locked_bytes_max: Option<u64>,
}

impl Fit {
    fn here(options: &MountOptions) -> Result<Fit> {
        let possible = usize::from(possible_cpus().context(CPUS)?);
        let online = online_cpus().context(CPUS)?;
        let depth = options.queue_depth.unwrap_or_else(|| workers_of_a_queue(online));
        let workers = ring_workers(online, possible, depth);
        let status = std::fs::read_to_string("/proc/self/status")?;
        let limit = || getrlimit(Resource::Memlock).current;
        Ok(Fit {
            wants_keeper: options.keeper != Some(false),
            may_use_all_cpus: may_use_all_cpus().context(CPUS)?,
            buffer_bytes: ring_buffer_bytes(workers),
            usable_bytes: memory::usable_bytes(),
            locked_bytes: locked_bytes(workers),
            locked_bytes_max: (!may_lock_all(&status)).then(limit).flatten(),
        })
    }

    /// The reason why it does not, if there is one.
    fn obstacle(&self) -> Option<String> {
        if self.wants_keeper && !self.may_use_all_cpus {
            return Some(
                "a cpuset forbids CPUs, so a mount over io_uring would have no keeper".to_owned(),
            );
        }
        if self.buffer_bytes > self.usable_bytes / BUFFERS_PART {
            let [buffers, usable] = [self.buffer_bytes, self.usable_bytes].map(format_size);
            return Some(format!("queues for all CPUs would take {buffers} of {usable} of memory"));
        }
        let limit = self.locked_bytes_max.filter(|&limit| limit < self.locked_bytes)?;
        let [limit, rings] = [limit, self.locked_bytes].map(format_size);
        Some(format!("the user may lock {limit} of memory (`ulimit -l`), and rings take {rings}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FITS: Fit = Fit {
        wants_keeper: true,
        may_use_all_cpus: true,
        buffer_bytes: 30 << 20,
        usable_bytes: 1 << 30,
        locked_bytes: 2 << 20,
        locked_bytes_max: None,
    };

    #[test]
    fn a_machine_with_room_gets_rings() {
        assert_eq!(FITS.obstacle(), None);
        assert_eq!(Fit { locked_bytes_max: Some(2 << 20), ..FITS }.obstacle(), None);
        let without = Fit { wants_keeper: false, may_use_all_cpus: false, ..FITS };
        assert_eq!(without.obstacle(), None);
    }

    #[test]
    fn options_that_speak_of_the_device_choose_it() {
        let settled = |list: &str| {
            let mut options = MountOptions::new(true);
            options.apply(list, false).unwrap();
            settle(&mut options, true).unwrap();
            options.transport
        };
        for list in ["clone_fd", "threads=4", "transport=device"] {
            assert_eq!(settled(list), Transport::Device, "{list}");
        }
        assert_eq!(settled("transport=io_uring,threads=4"), Transport::IoUring);
    }

    #[test]
    fn a_capability_lifts_the_limit_of_locked_memory() {
        assert!(may_lock_all("Name:\tx\nCapEff:\t0000000000004000\n"));
        assert!(!may_lock_all("Name:\tx\nCapEff:\t000001ffffffbfff\n"));
        assert!(!may_lock_all(""));
    }

    #[test]
    fn the_reason_against_rings_is_named() {
        for (fit, reason) in [
            (
                Fit { may_use_all_cpus: false, ..FITS },
                "a cpuset forbids CPUs, so a mount over io_uring would have no keeper",
            ),
            (
                Fit { buffer_bytes: 256 << 20, ..FITS },
                "queues for all CPUs would take 256 MiB of 1 GiB of memory",
            ),
            (
                Fit { locked_bytes_max: Some(64 << 10), ..FITS },
                "the user may lock 64 KiB of memory (`ulimit -l`), and rings take 2 MiB",
            ),
        ] {
            assert_eq!(fit.obstacle().as_deref(), Some(reason));
        }
    }
}
