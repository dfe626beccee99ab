//! Simulators: they know what of PM and of a disk is not durable yet, and build the images that a
//! crash could leave.

mod disk;
mod memory;
mod pm;

use std::sync::Arc;

pub use disk::{DiskFault, DiskSim, PendingWrite, SECTOR_BYTES, WriteFate};
pub use pm::{PendingLine, PendingStore, PmSim};

use crate::buffer::IO_ALIGN_BYTES;
use crate::disk::Disk;

/// A zeroed disk in memory, for tests.
pub fn memory_disk(len_bytes: u64) -> Arc<dyn Disk> {
    Arc::new(memory::MemoryDisk::new(zeros(len_bytes)))
}

/// A zeroed disk in memory and the simulator that records what is not durable on it.
pub fn sim_disk(len_bytes: u64) -> (Arc<dyn Disk>, Arc<DiskSim>) {
    sim_disk_from(zeros(len_bytes))
}

/// As [`sim_disk`], starting from an image, all of which is durable.
///
/// # Panics
/// When the image's length is not a multiple of 4 KiB.
pub fn sim_disk_from(image: Vec<u8>) -> (Arc<dyn Disk>, Arc<DiskSim>) {
    assert!(image.len().is_multiple_of(IO_ALIGN_BYTES), "a disk's length is a multiple of 4 KiB");
    let sim = Arc::new(DiskSim::new(image));
    (Arc::new(disk::SimDisk::new(Arc::clone(&sim))), sim)
}

fn zeros(len_bytes: u64) -> Vec<u8> {
    let len = usize::try_from(len_bytes).expect("a disk in memory fits the address space");
    assert!(len.is_multiple_of(IO_ALIGN_BYTES), "a disk's length is a multiple of 4 KiB");
    vec![0; len]
}

/// Which calls, counted from 1, a recorder is to ignore: planted bugs.
#[derive(Debug, Default)]
struct PlantedDrops {
    calls: u64,
    dropped: Vec<u64>,
}

impl PlantedDrops {
    /// Plants a drop of the `n`-th call from now (1 is the next).
    fn plant(&mut self, n: u64) {
        assert!(n > 0, "calls are counted from 1");
        self.dropped.push(self.calls + n);
    }

    /// Counts a call and tells whether to ignore it.
    fn ignores_this_call(&mut self) -> bool {
        self.calls += 1;
        let found = self.dropped.iter().position(|&call| call == self.calls);
        found.map(|index| self.dropped.swap_remove(index)).is_some()
    }
}
