//! Opening a volume, and closing it.

pub(crate) mod close;
pub(crate) mod devices;
pub(crate) mod disks;
mod epoch;
pub(crate) mod format;
pub(crate) mod offline;
pub(crate) mod open;
pub(crate) mod recovery;
pub(crate) mod scan;
pub(crate) mod threads;
