//! FUSE front end of Terrace FS: the translation between the kernel's messages and the engine's
//! calls, and nothing else. The protocol itself is [`terrace_transport`]'s. `docs/FUSE.md` says how
//! many messages each system call takes and what the kernel caches.
//!
//! ```no_run
//! # fn example(volume: std::sync::Arc<terrace_engine::Volume>) -> anyhow::Result<()> {
//! use terrace_fuse::{MountConfig, mount};
//!
//! let config = MountConfig { fs_name: "/dev/dax0.0".to_owned(), ..MountConfig::default() };
//! let mounted = mount(volume.clone(), "/mnt/data".as_ref(), &config)?;
//! let unmounter = mounted.unmounter(); // for a thread that waits for signals
//! mounted.wait()?; // until it is unmounted
//! volume.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! | module | idea |
//! |---|---|
//! | `adapter` | each message, one engine call |
//! | [`terms`] | INIT; what the kernel caches for good; messages refused once |
//! | `kernel_cache` | how the kernel is told to drop what it has cached |
//! | `coherence` | direct writes and what the kernel caches |
//! | `direct` | files that other processes read and write in PM themselves |
//! | `mount`, `mountpoint`, [`mount_table`] | directories, sessions, threads, dead mounts |
//! | `heir`, `adapter::again` | what a successor of the daemon needs, and does with it |
//! | `ask` | has requests handed out that wait for a successor |
//! | `transport` | whether the kernel offers io_uring; how a mount is served |
//! | [`control`] | how `terrace` commands talk to the daemon |
//! | `convert`, `errors`, `caller` | types, errnos and logging, groups of the calling process |
//!
//! A daemon that mounts a volume must install a panic hook that aborts: after a panic in the
//! engine, the state in memory is unknown and must not be served. Memory that outlives the daemon
//! and recovery lose nothing by it.

mod adapter;
mod ask;
mod caller;
mod coherence;
mod config;
pub mod control;
mod convert;
mod direct;
mod errors;
mod heir;
mod kernel_cache;
mod mount;
pub mod mount_table;
mod mountpoint;
pub mod terms;
mod transport;

pub use caller::capabilities_in_status;
pub use config::{LoanSocket, MountConfig, Transport, workers_of_a_queue};
pub use heir::{heritage, kept_thresholds};
pub use kernel_cache::KernelCache;
pub use mount::{Handover, Mounted, Unmounter, mount, mount_with, take_up};
pub use mountpoint::{clean_dead_mount, remount};
pub use terms::{Agreed, ring_buffer_bytes, ring_workers};
pub use terrace_transport::{
    LEDGER_LAYOUT, Ledger, Message, MessageCounts, MessageSnapshot, count_cpus, has_rings,
    may_use_all_cpus, online_cpus, possible_cpus,
};
pub use transport::{RingOffer, TransportStatus};
