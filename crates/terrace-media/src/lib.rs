//! Persistent-memory regions and disks: the only crate of Terrace that stores to PM or issues disk
//! I/O.
//!
//! * [`Pm`] is one mapped PM region. Stores reach it through [`Pm::write`], [`Pm::write_nt`] and
//!   [`Pm::store_u64`]; they are durable once their lines were flushed and a [`Pm::fence`]
//!   followed.
//! * [`Disk`] is one block device or file, read and written in multiples of 4 KiB; writes are
//!   durable after [`Disk::flush`].
//! * A [`DeviceModel`] in front of either makes it as slow as given hardware.
//! * With the feature `simulators`, which the shipped command is built without, `PmSim` and
//!   `DiskSim` record what is not durable yet and build every image that a crash could leave.
//! * [`step`] is where a test may kill a daemon.
//! * [`Striped`] counters cost a plain add.
//!
//! Sizes and offsets are bytes. Operating errors are [`MediaError`]s; programmer errors panic.

mod buffer;
mod disk;
mod endurance;
mod error;
mod file;
mod length;
mod model;
mod persist;
mod pm;
mod probe;
#[cfg(feature = "simulators")]
mod sim;
mod steps;
mod striped;

pub use buffer::{AlignedBuf, IO_ALIGN_BYTES};
pub use disk::{
    Disk, DiskOpenOptions, DiskStats, IoEngine, LaterRead, ReadDone, create_disk_file, open_disk,
};
pub use endurance::{Endurance, endurance};
pub use error::{IoOp, MediaError};
pub use file::private;
pub use length::device_len;
pub use model::{DeviceModel, UnknownModel};
pub use persist::{StreamedCopy, prefetch};
pub use pm::{Pm, PmKind, PmOpenOptions, PmStats};
pub use probe::{DeviceContents, probe_device};
#[cfg(feature = "simulators")]
pub use sim::{
    DiskFault, DiskSim, PendingLine, PendingStore, PendingWrite, PmSim, SECTOR_BYTES, WriteFate,
    memory_disk, sim_disk, sim_disk_from,
};
#[cfg(feature = "simulators")]
pub use steps::on_step;
pub use steps::step;
pub use striped::Striped;
