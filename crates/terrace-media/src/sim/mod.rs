//! Simulators: they know what of PM and of a disk is not durable yet, and build the images that a
//! crash could leave.

mod disk;
mod pm;

pub(crate) use disk::SimDisk;
pub use disk::{DiskFault, DiskSim, PendingWrite, SECTOR_BYTES, WriteFate};
pub use pm::{PendingLine, PendingStore, PmSim};

/// A small seeded generator (splitmix64): what is chosen must be replayable from its seed on any
/// machine.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next_u64() % bound as u64) as usize
    }
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
